//! Runs a call until it ends or asks its caller, and resumes it.

use std::{sync::atomic::Ordering, time::Instant};

use tokio::time::sleep_until;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::{
    super::{
        questions::{Asked, Bound, Conversation, Refused, Waits, conversation},
        result,
    },
    Server,
    sending::{Sending, Unavailable, unavailable},
    whole_millis,
};
use crate::limits::{MAX_ROUNDS, QUESTION_TIMEOUT};
use airlock_core::{
    door::Admitted,
    tool::{
        Answers, CallError, Cause, InputRequired, Question, QuestionKinds, ToolName, ToolOutput,
    },
};

/// Parameters that resume a request, as JSON texts on one line.
pub(crate) type Parameters = Vec<(&'static str, String)>;

/// End of a call in its task.
pub(super) enum Ended {
    /// It has a result.
    Done(Result<ToolOutput, CallError>),
    /// A modern server asks first.
    Asks(Asked),
}

/// Beginning of a call.
pub(super) enum Begin {
    /// It was not sent yet, or is sent once more with answers.
    Send { parameters: Parameters, rounds: u32 },
    /// It is running, and its questions were answered.
    GoOn(Conversation<Ended>),
}

impl Server {
    /// Takes the request that waits for answers, with the parameters to send it once more.
    pub(crate) fn take_again(
        &self,
        answers: Answers,
        bound: &Bound,
    ) -> Option<Result<(Parameters, u32), Refused>> {
        match self.parked.take(&answers.token, bound)? {
            Waits::Again(again) => {
                Some(again.parameters(answers).map(|parameters| (parameters, again.rounds)))
            }
            Waits::Running(_) => None,
        }
    }

    /// Keeps a request that a modern server resumes after it was answered.
    pub(crate) fn park_again(
        &self,
        asked: Asked,
        bound: Bound,
        permitted: QuestionKinds,
        rounds: u32,
    ) -> Result<Box<InputRequired>, Refused> {
        if rounds >= MAX_ROUNDS {
            return Err(Refused::TooLarge);
        }
        let client = self.shared.client.clone();
        let (questions, again) = asked.split(&client, permitted, rounds + 1)?;
        let until = Instant::now() + QUESTION_TIMEOUT;
        let parked = self.parked.park(bound, Waits::Again(again), until.into());
        let token = parked.map_err(|(refused, _)| refused)?;
        Ok(Box::new(InputRequired { client, questions, token }))
    }

    /// Questions that may be passed on to a caller that can answer `able`.
    pub(crate) fn permitted(&self, able: QuestionKinds) -> QuestionKinds {
        self.shared.questions.and(able)
    }

    /// Resumes a call that waits for answers.
    pub(super) async fn go_on(
        &self,
        call: Admitted,
        answers: Answers,
    ) -> Result<ToolOutput, CallError> {
        let bound = bound(&call);
        let tool = call.tool().name.clone();
        let waits = self.parked.take(&answers.token, &bound);
        match waits.ok_or_else(|| CallError::NotWaiting { tool: tool.clone() })? {
            Waits::Again(again) => {
                let parameters = again.parameters(answers);
                let parameters = parameters.map_err(result::not_asked)?;
                self.converse(call, Begin::Send { parameters, rounds: again.rounds }).await
            }
            Waits::Running(mut conversation) => {
                let questions = conversation.answer(answers);
                if questions.is_empty() {
                    return self.converse(call, Begin::GoOn(conversation)).await;
                }
                match self.park(&tool, bound, conversation, questions) {
                    Ok(asked) => Err(asked),
                    Err(conversation) => self.converse(call, Begin::GoOn(conversation)).await,
                }
            }
        }
    }

    /// Keeps a running call that waits for answers. If too many wait already, its questions are
    /// refused, and the call is returned.
    fn park(
        &self,
        tool: &ToolName,
        bound: Bound,
        mut conversation: Conversation<Ended>,
        questions: Vec<Question>,
    ) -> Result<CallError, Conversation<Ended>> {
        let until = conversation.until();
        match self.parked.park(bound, Waits::Running(conversation), until) {
            Ok(token) => {
                let client = self.shared.client.clone();
                let asked = Box::new(InputRequired { client, questions, token });
                Ok(CallError::InputRequired { name: tool.clone(), asked })
            }
            Err((refused, Waits::Running(mut conversation))) => {
                conversation.refuse(refused);
                Err(conversation)
            }
            // What was given is returned.
            Err((_, Waits::Again(_))) => Ok(CallError::Busy),
        }
    }

    /// Begins a call in a task of its own.
    fn begin(
        &self,
        call: Admitted,
        permitted: QuestionKinds,
        parameters: Parameters,
    ) -> Result<Conversation<Ended>, CallError> {
        let slot = self.slots.take(call.chain().tenant(), 1).ok_or(CallError::Busy)?;
        self.shared.uses.fetch_add(1, Ordering::Relaxed);
        let shared = self.shared.clone();
        Ok(conversation(slot, |taker| {
            let sending = Sending { call, permitted, parameters, taker };
            let asking = async move { shared.run(sending).await };
            AbortOnDropHandle::new(self.runtime.spawn(asking.in_current_span()))
        }))
    }

    /// Runs a call until it ends or asks, or its deadline has passed. The time in which it waits for
    /// answers is not counted.
    pub(super) async fn converse(
        &self,
        call: Admitted,
        begin: Begin,
    ) -> Result<ToolOutput, CallError> {
        let bound = bound(&call);
        let tool = call.tool().name.clone();
        let permitted = self.permitted(call.chain().heard().questions);
        let own = self.request_timeout.map(|limit| Instant::now() + limit);
        let deadline = call.chain().deadline();
        let deadline = own.map_or(deadline, |own| own.min(deadline));
        let limit = whole_millis(deadline.saturating_duration_since(Instant::now()));
        let (mut conversation, rounds) = match begin {
            Begin::GoOn(conversation) => (conversation, 0),
            Begin::Send { parameters, rounds } => {
                (self.begin(call, permitted, parameters)?, rounds)
            }
        };
        loop {
            let (task, heard) = conversation.parts();
            let client = &self.shared.client;
            let questions = tokio::select! {
                biased;
                // First, because a question may be about another call of the same session, which waits.
                questions = heard.asked(client, permitted) => questions,
                ended = task => return match ended {
                    Ok(Ended::Done(result)) => result,
                    Ok(Ended::Asks(asked)) => {
                        let parked = self.park_again(asked, bound, permitted, rounds);
                        Err(match parked {
                            Ok(asked) => CallError::InputRequired { name: tool, asked },
                            Err(Refused::Full) => CallError::Busy,
                            Err(refused) => result::not_asked(refused),
                        })
                    }
                    Err(ended) => {
                        Err(unavailable(&tool, Unavailable::ConnectionLost(Cause::from(ended))))
                    }
                },
                () = sleep_until(deadline.into()) => {
                    self.shared.suspect();
                    return Err(CallError::Deadline { tool, limit });
                }
            };
            match self.park(&tool, bound.clone(), conversation, questions) {
                Ok(asked) => return Err(asked),
                Err(running) => conversation = running,
            }
        }
    }
}

/// Returns the binding of a call that waits for answers. The call of a tool that has changed is not
/// resumed.
fn bound(call: &Admitted) -> Bound {
    let tool = call.tool();
    let parts = [&*tool.original, tool.input_schema.as_str(), call.arguments().as_str()];
    Bound::new(call.chain().tenant(), &parts)
}
