//! A running call of a legacy server, which may ask its caller.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::{sync::mpsc, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use crate::limits::{MAX_ROUNDS, QUESTION_TIMEOUT};
use airlock_core::{
    tenant::Reservation,
    tool::{Answers, ClientName, Question, QuestionKinds},
};
use airlock_mcp_client::{
    MAX_QUESTIONS, OpenQuestion, Refused, ServerQuestion, Taker, question_response,
};
use airlock_wire::error::{RpcError, code};

/// A running call, as its caller's task sees it. Dropping it cancels the call.
pub(crate) struct ServerConversation<T> {
    /// The call.
    pub(crate) task: AbortOnDropHandle<T>,
    questions: CallQuestions,
    /// The call's place among those of its server.
    _place: Reservation,
}

/// The questions of a running call.
pub(crate) struct CallQuestions {
    /// `None` if no question is permitted.
    received: Option<mpsc::Receiver<ServerQuestion>>,
    /// Keeps the queue open: its end would wake the caller before the call has ended.
    _taker: Option<Taker>,
    /// Questions that the caller was asked.
    open: Vec<(Question, OpenQuestion)>,
    asked: u32,
    /// Time until which the caller has the open questions; `None` if there are none.
    until: Option<Instant>,
    /// True while the call is parked, because its caller has the open questions.
    is_parked: Arc<AtomicBool>,
}

/// Begins a call in a task, which gets the taker of its questions, if some are `permitted`, and the flag that
/// is true while it is parked.
pub(crate) fn conversation<T>(
    place: Reservation,
    permitted: QuestionKinds,
    spawn: impl FnOnce(Option<Taker>, Arc<AtomicBool>) -> AbortOnDropHandle<T>,
) -> ServerConversation<T> {
    let questions = (!permitted.is_empty()).then(|| Taker::new(MAX_QUESTIONS));
    let (taker, received) = questions.unzip();
    let is_parked = Arc::new(AtomicBool::new(false));
    let task = spawn(taker.clone(), is_parked.clone());
    let questions = CallQuestions {
        received,
        _taker: taker,
        open: Vec::new(),
        asked: 0,
        until: None,
        is_parked,
    };
    ServerConversation { task, questions, _place: place }
}

impl<T> ServerConversation<T> {
    /// Splits what is waited for at the same time.
    pub(crate) fn parts(&mut self) -> (&mut AbortOnDropHandle<T>, &mut CallQuestions) {
        (&mut self.task, &mut self.questions)
    }

    /// Records that the call is parked, and returns the time until which the caller has the open
    /// questions. It begins with the first of them: coming back without an answer does not extend it.
    pub(crate) fn begin_parking(&mut self) -> Instant {
        self.questions.is_parked.store(true, Ordering::SeqCst);
        *self.questions.until.get_or_insert_with(|| Instant::now() + QUESTION_TIMEOUT)
    }

    /// Refuses all questions that wait.
    pub(crate) fn refuse(&mut self, reason: Refused) {
        for (_, open) in self.questions.open.drain(..) {
            refuse(open, reason);
        }
        self.questions.is_parked.store(false, Ordering::SeqCst);
    }

    /// Passes on answers. Returns the questions that have none.
    pub(crate) fn answer(&mut self, mut answers: Answers) -> Vec<Question> {
        let mut unanswered = Vec::new();
        for (question, open) in self.questions.open.drain(..) {
            match answers.given.remove(&question.key) {
                // Also if the call has ended: the question may be about another one of its session.
                Some(given) => open.respond(question_response(question.kind, given)),
                None => unanswered.push((question, open)),
            }
        }
        self.questions.open = unanswered;
        if self.questions.open.is_empty() {
            self.questions.until = None;
            self.questions.is_parked.store(false, Ordering::SeqCst);
        }
        self.questions.questions()
    }
}

impl CallQuestions {
    /// Waits until the server asks a question that may be passed on, and returns it with those that
    /// came at the same time. All others are refused. Dropping the future loses no question.
    pub(crate) async fn asked(
        &mut self,
        client: &ClientName,
        permitted: QuestionKinds,
    ) -> Vec<Question> {
        loop {
            let mut next = match &mut self.received {
                Some(received) => received.recv().await,
                None => None,
            };
            if next.is_none() {
                std::future::pending::<()>().await;
            }
            while let Some(question) = next {
                self.take(question, client, permitted);
                next = self.received.as_mut().and_then(|received| received.try_recv().ok());
            }
            if !self.open.is_empty() {
                return self.questions();
            }
        }
    }

    fn questions(&self) -> Vec<Question> {
        self.open.iter().map(|(question, _)| question.clone()).collect()
    }

    fn take(&mut self, question: ServerQuestion, client: &ClientName, permitted: QuestionKinds) {
        self.asked += 1;
        let read = if self.asked > MAX_ROUNDS {
            Err(Refused::TooLarge)
        } else {
            question.read(format!("question-{}", self.asked), client, permitted)
        };
        match read {
            Ok(read) => self.open.push((read, question.open)),
            Err(reason) => refuse(question.open, reason),
        }
    }
}

/// Refuses a question.
fn refuse(question: OpenQuestion, reason: Refused) {
    let code = match reason {
        Refused::NotPermitted => code::METHOD_NOT_FOUND,
        _ => code::INVALID_PARAMS,
    };
    question.respond(Err(RpcError::new(code, reason.to_string())));
}
