//! A running call of a legacy server, which may ask its caller.

use tokio::{sync::mpsc, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use super::{
    super::{
        decode::RpcError,
        inbox::{OpenQuestion, Taker},
        limits::{MAX_QUESTIONS, MAX_ROUNDS, QUESTION_TIMEOUT},
        link::Link,
    },
    read::{Refused, ServerQuestion, response},
};
use crate::{
    tenant::Held,
    tool::{Answers, ClientName, Question, QuestionKinds},
};

/// A response to a request of the server.
type Response = (OpenQuestion, Result<String, RpcError>);

/// A running call, as its caller's task sees it. Dropping it cancels the call.
pub(in super::super) struct Conversation<T> {
    /// The call.
    pub(in super::super) task: AbortOnDropHandle<T>,
    responses: mpsc::UnboundedSender<Response>,
    heard: Heard,
    /// The call's place among those of its server.
    _slot: Held,
}

/// The questions of a running call.
pub(in super::super) struct Heard {
    received: mpsc::Receiver<ServerQuestion>,
    /// Questions that the caller was asked.
    open: Vec<(Question, OpenQuestion)>,
    asked: u32,
    /// Time until which the caller has the open questions; `None` if there are none.
    until: Option<Instant>,
}

/// The other end, in the task of the call.
pub(in super::super) struct Answering {
    /// Takes the questions of the server.
    pub(in super::super) questions: Taker,
    /// The responses to them.
    pub(in super::super) responses: Responses,
}

/// Responses that are to be sent.
pub(in super::super) struct Responses(mpsc::UnboundedReceiver<Response>);

/// Creates the channels between a call and its caller.
pub(in super::super) fn conversation<T>(
    slot: Held,
    spawn: impl FnOnce(Answering) -> AbortOnDropHandle<T>,
) -> Conversation<T> {
    let (questions, queue) = Taker::new(MAX_QUESTIONS);
    // One response for each question, whose number is bounded.
    let (responses, to_send) = mpsc::unbounded_channel();
    let task = spawn(Answering { questions, responses: Responses(to_send) });
    let heard = Heard { received: queue, open: Vec::new(), asked: 0, until: None };
    Conversation { task, responses, heard, _slot: slot }
}

impl Responses {
    /// Sends responses as they come. Never completes.
    pub(in super::super) async fn send(&mut self, link: &Link) {
        while let Some((question, response)) = self.0.recv().await {
            link.respond(question.id(), response).await;
        }
        std::future::pending::<()>().await;
    }
}

impl<T> Conversation<T> {
    /// Splits what is waited for at the same time.
    pub(in super::super) fn parts(&mut self) -> (&mut AbortOnDropHandle<T>, &mut Heard, Refuser) {
        (&mut self.task, &mut self.heard, Refuser(self.responses.clone()))
    }

    /// Returns the time until which the caller has the open questions. It begins with the first of
    /// them: coming back without an answer does not extend it.
    pub(in super::super) fn until(&mut self) -> Instant {
        *self.heard.until.get_or_insert_with(|| Instant::now() + QUESTION_TIMEOUT)
    }

    /// Refuses all questions that wait.
    pub(in super::super) fn refuse(&mut self, reason: Refused) {
        let refuser = Refuser(self.responses.clone());
        for (_, open) in self.heard.open.drain(..) {
            refuser.refuse(open, reason);
        }
    }

    /// Passes on answers. Returns the questions that have none.
    pub(in super::super) fn answer(&mut self, mut answers: Answers) -> Vec<Question> {
        let mut unanswered = Vec::new();
        for (question, open) in self.heard.open.drain(..) {
            match answers.given.remove(&question.key) {
                // The task may have ended.
                Some(given) => {
                    let response = response(question.kind, given);
                    let _ = self.responses.send((open, response));
                }
                None => unanswered.push((question, open)),
            }
        }
        self.heard.open = unanswered;
        if self.heard.open.is_empty() {
            self.heard.until = None;
        }
        self.heard.questions()
    }
}

impl Heard {
    /// Waits until the server asks a question that may be passed on, and returns it with those that
    /// came at the same time. All others are refused. Dropping the future loses no question.
    pub(in super::super) async fn asked(
        &mut self,
        refuser: &Refuser,
        client: &ClientName,
        permitted: QuestionKinds,
    ) -> Vec<Question> {
        loop {
            let Some(first) = self.received.recv().await else { std::future::pending().await };
            let mut next = Some(first);
            while let Some(question) = next {
                self.take(question, refuser, client, permitted);
                next = self.received.try_recv().ok();
            }
            if !self.open.is_empty() {
                return self.questions();
            }
        }
    }

    fn questions(&self) -> Vec<Question> {
        self.open.iter().map(|(question, _)| question.clone()).collect()
    }

    fn take(
        &mut self,
        question: ServerQuestion,
        refuse: &Refuser,
        client: &ClientName,
        permitted: QuestionKinds,
    ) {
        self.asked += 1;
        let read = if self.asked > MAX_ROUNDS {
            Err(Refused::TooLarge)
        } else {
            question.read(format!("question-{}", self.asked), client, permitted)
        };
        match read {
            Ok(read) => self.open.push((read, question.open)),
            Err(reason) => refuse.refuse(question.open, reason),
        }
    }
}

/// Refuses questions.
pub(in super::super) struct Refuser(mpsc::UnboundedSender<Response>);

impl Refuser {
    fn refuse(&self, question: OpenQuestion, reason: Refused) {
        let code = match reason {
            Refused::NotPermitted => RpcError::METHOD_NOT_FOUND,
            _ => RpcError::INVALID_PARAMS,
        };
        // The task may have ended.
        let refusal = RpcError { code, message: reason.to_string(), data: None };
        let _ = self.0.send((question, Err(refusal)));
    }
}
