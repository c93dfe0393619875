//! Runs a call until it completes or requires input of its caller, and resumes it.
//!
//! ```text
//!                sent   ┌─────────┐   completed
//!       call ─────────► │ Running │ ───────────────► result
//!                       └─┬─────┬─┘
//!       input_required    │     │    requests of the server while the call runs
//!       (modern servers)  ▼     ▼    (legacy servers)
//!                     Retry     Running     parked; the caller gets `InputRequired`
//!                         │     │
//!       sent once more    ▼     ▼    the answers are sent, and the call runs on
//!       with the answers  Running
//! ```
//!
//! A call whose user has to log in first is not sent. If its caller can open links, it is parked too, and
//! sent once the user has logged in.
//!
//! The time in which a call is parked is not counted.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::sleep_until;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::{
    choice::Asker,
    sending::Sending,
    state::{CallResponse, Responded, Server},
    unavailable::{Unavailable, unavailable},
};
use crate::{
    limits::{MAX_ROUNDS, QUESTION_TIMEOUT},
    questions::{
        Bound, ParkedRequest, Refused, RequiredInput, ResumedRequest, ServerConversation,
        ServerResponse, conversation,
    },
    result,
};
use airlock_core::{
    door::{Admitted, Arguments, Origin},
    tenant::Tenant,
    tool::{
        Answers, CallError, Cause, ErrorKind, HostCode, InputRequired, Question, QuestionKind,
        QuestionKinds, Tool, ToolName, ToolOutput,
    },
};
use airlock_json::raw;
use airlock_telemetry::{Span, TraceFuture as _};

/// Additions to a request that is sent once more.
#[derive(Default)]
pub(crate) struct Retry {
    /// The answers, as JSON texts on one line.
    pub(crate) parameters: Vec<(&'static str, String)>,
    /// Number of times that the server required input.
    pub(crate) rounds: u32,
    /// The instance that has asked; `None` if any may get the request.
    pub(crate) asker: Option<Asker>,
}

impl Retry {
    fn new(
        again: &ResumedRequest,
        asker: Option<Asker>,
        answers: Answers,
    ) -> Result<Self, Refused> {
        Ok(Self { parameters: again.parameters(answers)?, rounds: again.rounds, asker })
    }
}

/// A call as its caller waits for it.
struct Waiter {
    tool: ToolName,
    /// Tenant of the caller.
    tenant: Tenant,
    /// The tool as it was when the call was admitted.
    definition: Arc<Tool>,
    arguments: Arguments,
    /// Questions that the caller may be asked.
    permitted: QuestionKinds,
    deadline: Instant,
    /// Time until the deadline, at the start.
    limit: Duration,
    /// True if the caller can have its user open a link.
    opens_links: bool,
}

impl Waiter {
    /// Returns the binding of the call, if it waits for answers. The call of a tool that has changed is not
    /// resumed.
    fn bound(&self) -> Bound {
        let Tool { original, input_schema, .. } = &*self.definition;
        let parts = [original.as_str(), input_schema.as_str(), self.arguments.as_str()];
        Bound::new(&self.tenant, &parts)
    }
}

impl Server {
    /// Takes a parked request that is to be sent once more, with `answers`.
    pub(crate) fn take_retry(
        &self,
        answers: Answers,
        bound: &Bound,
    ) -> Option<Result<Retry, Refused>> {
        match self.parked.take(&answers.token, bound)? {
            ParkedRequest::Retry { again, asker } => Some(Retry::new(&again, asker, answers)),
            ParkedRequest::Running(_) | ParkedRequest::Login { .. } => None,
        }
    }

    /// Parks a request for which a modern server required input `rounds` times before. Returns what
    /// its caller is asked.
    pub(crate) fn park_retry(
        &self,
        asked: RequiredInput,
        source: Option<Asker>,
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
        let parked =
            self.parked.park(bound, ParkedRequest::Retry { again, asker: source }, until.into());
        let token = parked.map_err(|(refused, _)| refused)?;
        Ok(Box::new(InputRequired { client, questions, token }))
    }

    /// Questions that may be passed on to a caller that can answer `able`.
    pub(crate) fn permitted(&self, able: QuestionKinds) -> QuestionKinds {
        self.shared.questions.and(able)
    }

    /// Sends a call, and waits for it.
    pub(crate) async fn send(&self, call: Admitted, retry: Retry) -> Result<ToolOutput, CallError> {
        let mut waiter = self.waiter(&call);
        // Its user is asked to log in once.
        waiter.opens_links &= retry.rounds == 0;
        let rounds = retry.rounds;
        let running = self.spawn(call, &waiter, retry)?;
        self.wait(waiter, running, rounds).await
    }

    /// Resumes a parked call with the answers of its caller, and waits for it.
    pub(crate) async fn resume_parked(
        &self,
        call: Admitted,
        answers: Answers,
    ) -> Result<ToolOutput, CallError> {
        let waiter = self.waiter(&call);
        let parked = self.parked.take(&answers.token, &waiter.bound());
        match parked.ok_or_else(|| CallError::not_waiting(waiter.tool.clone()))? {
            ParkedRequest::Retry { again, asker } => {
                let retry = Retry::new(&again, asker, answers).map_err(result::not_asked)?;
                self.send(call, retry).await
            }
            ParkedRequest::Running(mut running) => {
                let unanswered = running.answer(answers);
                if !unanswered.is_empty() {
                    running = self.park_running(&waiter, running, unanswered)?;
                }
                self.wait(waiter, running, 0).await
            }
            ParkedRequest::Login { refused } => {
                self.send_after_login(call, waiter, &answers, refused.as_deref()).await
            }
        }
    }

    /// Sends a call whose user was asked to log in, once the user has: the answer may come when the link
    /// was opened.
    async fn send_after_login(
        &self,
        call: Admitted,
        waiter: Waiter,
        answers: &Answers,
        refused: Option<&str>,
    ) -> Result<ToolOutput, CallError> {
        let mut given = answers.given.values();
        match given.next().map(Option::as_deref) {
            Some(Some(answer)) if is_accepted(answer) => {}
            // A question without an answer is asked again.
            None => {
                let Some(users) = self.users() else {
                    return Err(CallError::not_waiting(waiter.tool));
                };
                let error = users.login_required(&waiter.tool, call.chain().tenant()).await;
                return Err(self.ask_for_login(waiter, error).await);
            }
            Some(_) => {
                let message =
                    ("tool '", "' did not run: its user declined to log in at its server");
                let kind = ErrorKind::AuthRequired;
                return Err(CallError::about(waiter.tool, kind, HostCode::Declined, message));
            }
        }
        if let Some(users) = self.users() {
            let left = waiter.deadline.saturating_duration_since(Instant::now());
            // A quarter is left for the call itself.
            users.logged_in(call.chain().tenant(), refused, left / 4 * 3).await;
        }
        self.send(call, Retry { rounds: 1, ..Retry::default() }).await
    }

    /// Returns the error of a call whose user has to log in: the question for it, if the caller can ask.
    async fn ask_for_login(&self, waiter: Waiter, error: CallError) -> CallError {
        if !waiter.opens_links || error.needed_login().is_none() {
            return error;
        }
        let refused = match self.users() {
            Some(users) => users.session(&waiter.tenant).await,
            None => None,
        };
        let until = Instant::now() + QUESTION_TIMEOUT;
        let call = ParkedRequest::Login { refused };
        let parked = self.parked.park(waiter.bound(), call, until.into());
        let Ok(token) = parked else { return error };
        let Some(login) = error.needed_login() else { return error };
        let questions = vec![login.to_question(&token)];
        let asked = InputRequired { client: login.client.clone(), questions, token };
        CallError::needs_input(waiter.tool, Box::new(asked))
    }

    fn waiter(&self, call: &Admitted) -> Waiter {
        let own = self.request_timeout.map(|limit| Instant::now() + limit);
        let deadline = call.chain().deadline();
        let deadline = own.map_or(deadline, |own| own.min(deadline));
        Waiter {
            tool: call.tool().name.clone(),
            tenant: call.chain().tenant().clone(),
            definition: call.tool().clone(),
            arguments: call.arguments().clone(),
            permitted: self.permitted(call.chain().capabilities().questions),
            deadline,
            limit: whole_millis(deadline.saturating_duration_since(Instant::now())),
            opens_links: opens_links(call),
        }
    }

    /// Begins a call in a task of its own.
    fn spawn(
        &self,
        call: Admitted,
        waiter: &Waiter,
        retry: Retry,
    ) -> Result<ServerConversation<CallResponse>, CallError> {
        let place = self.places.take(call.chain().tenant(), 1);
        let place = place.ok_or_else(|| CallError::busy().not_begun())?;
        let shared = self.shared.clone();
        let Waiter { permitted, deadline, .. } = *waiter;
        Ok(conversation(place, permitted, |taker, is_parked| {
            let Retry { parameters, asker, .. } = retry;
            let sending =
                Sending { call, permitted, deadline, parameters, asker, taker, is_parked };
            // Boxed: a task copies its future and the room for it when it begins and when it ends.
            let sending = Box::pin(async move { shared.send(&sending).await });
            let sending = sending.in_current_span().in_span(&Span::current());
            AbortOnDropHandle::new(self.runtime.spawn(sending))
        }))
    }

    /// Waits until a running call completes or requires input, or its deadline has passed.
    async fn wait(
        &self,
        waiter: Waiter,
        mut running: ServerConversation<CallResponse>,
        rounds: u32,
    ) -> Result<ToolOutput, CallError> {
        loop {
            let (task, call_questions) = running.parts();
            let questions = tokio::select! {
                biased;
                // First, because a question may be about another call of the same session, which waits.
                questions = call_questions.asked(&self.shared.client, waiter.permitted) => questions,
                ended = task => return match ended {
                    Ok(Ok(Responded { response, asker })) => match response {
                        ServerResponse::Complete(output) => Ok(output),
                        ServerResponse::InputRequired(asked) => {
                            Err(self.input_required(waiter, asked, asker, rounds))
                        }
                    },
                    Ok(Err(error)) => Err(self.ask_for_login(waiter, error).await),
                    Err(lost) => {
                        let cause = Unavailable::ConnectionLost(Cause::from(lost));
                        Err(unavailable(&waiter.tool, cause))
                    }
                },
                () = sleep_until(waiter.deadline.into()) => {
                    return Err(CallError::deadline(waiter.tool, waiter.limit));
                }
            };
            running = self.park_running(&waiter, running, questions)?;
        }
    }

    /// Parks a call for which a modern server requires input.
    fn input_required(
        &self,
        waiter: Waiter,
        asked: RequiredInput,
        source: Option<Asker>,
        rounds: u32,
    ) -> CallError {
        match self.park_retry(asked, source, waiter.bound(), waiter.permitted, rounds) {
            Ok(asked) => CallError::needs_input(waiter.tool, asked),
            Err(Refused::Full) => CallError::busy(),
            Err(refused) => result::not_asked(refused),
        }
    }

    /// Parks a running call until its questions are answered, and fails with
    /// [`CallError::needs_input`]. If too many requests are parked, the questions are refused, and
    /// the call is returned, which runs on.
    fn park_running(
        &self,
        waiter: &Waiter,
        mut running: ServerConversation<CallResponse>,
        questions: Vec<Question>,
    ) -> Result<ServerConversation<CallResponse>, CallError> {
        let until = running.begin_parking();
        match self.parked.park(waiter.bound(), ParkedRequest::Running(running), until) {
            Ok(token) => {
                let client = self.shared.client.clone();
                let asked = Box::new(InputRequired { client, questions, token });
                Err(CallError::needs_input(waiter.tool.clone(), asked))
            }
            Err((refused, ParkedRequest::Running(mut running))) => {
                running.refuse(refused);
                Ok(running)
            }
            // What was given is returned.
            Err((_, ParkedRequest::Retry { .. } | ParkedRequest::Login { .. })) => {
                Err(CallError::busy())
            }
        }
    }
}

/// Returns whether the caller of a call can have its user open a link. Other callers than MCP clients read
/// it in the error.
fn opens_links(call: &Admitted) -> bool {
    let chain = call.chain();
    matches!(chain.starter(), Origin::McpClient(_))
        && chain.capabilities().questions.has(QuestionKind::Url)
}

/// Returns whether a user has accepted to open a link (MCP's `ElicitResult`).
fn is_accepted(answer: &str) -> bool {
    let action = raw::member(answer, "action").and_then(raw::string);
    action.is_some_and(|action| action == "accept")
}

/// Rounds a time up to whole milliseconds. A deadline is an instant, so the time left of 30 s would
/// read 29.999987 s.
fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX))
}
