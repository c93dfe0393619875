//! Questions of a source to the client of a request, in both eras.
//!
//! In the modern era the result of the request is the questions, and the client repeats the request
//! with the answers. In the legacy era the gateway sends the client requests and waits.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::{
    answers::{self, GivenAnswers},
    exchange::Outlet,
    meta::Peer,
    result::{SERVER_INFO, server_info},
    tasks::Task,
};
use airlock_core::{
    door::CallerCapabilities,
    tool::{ANSWER_TIMEOUT, Answers, InputRequired, OWN_ASKER, Question, QuestionKinds},
};
use airlock_json::raw;
use airlock_wire::{error::RpcError, message::Params};

/// Beginning of the state of a request that waits for answers at its source. The states of approvals
/// are base64, which has no full stop.
const PREFIX: &str = "question.";

/// Returns the questions that the client of a request can answer.
pub(super) fn answerable(peer: Peer, outlet: &Outlet) -> QuestionKinds {
    if peer.version.is_modern() || outlet.can_ask() { peer.questions } else { QuestionKinds::NONE }
}

/// The answers of the client of one request.
pub(super) struct Dialog<'d> {
    peer: Peer,
    outlet: &'d Outlet,
    /// Time for a legacy client to answer.
    limit: Duration,
    /// Answers to pass on next.
    next: Option<Answers>,
    /// Answers that a modern client sent before it was asked.
    early: Option<GivenAnswers>,
}

impl<'d> Dialog<'d> {
    /// Begins with the answers that a request has. Fails if they are malformed. A legacy client has
    /// `limit` for each round of questions.
    pub(super) fn new(
        peer: Peer,
        params: &Params,
        outlet: &'d Outlet,
        limit: Duration,
    ) -> Result<Self, RpcError> {
        let limit = limit.min(ANSWER_TIMEOUT);
        let mut dialog = Self { peer, outlet, limit, next: None, early: None };
        if peer.version.is_modern() {
            let given = given(params)?;
            let state = params.get("requestState").and_then(raw::string);
            match state.as_deref().map(waiting) {
                Some(Some(token)) => {
                    dialog.next = Some(Answers { token: token.to_owned(), given });
                }
                // The state of an approval.
                Some(None) => {}
                None => dialog.early = (!given.is_empty()).then_some(given),
            }
        }
        Ok(dialog)
    }

    /// Returns the messages of sources that the client takes.
    pub(super) fn capabilities(&self) -> CallerCapabilities {
        CallerCapabilities {
            log_level: self.peer.log_level,
            questions: answerable(self.peer, self.outlet),
            session: self.outlet.session(),
        }
    }

    /// Returns whether the request resumes an earlier one.
    pub(super) fn is_resumed(&self) -> bool {
        self.next.is_some()
    }

    /// Takes the answers to pass on; `None` if the request is a new one.
    pub(super) fn take(&mut self) -> Option<Answers> {
        self.next.take()
    }

    /// Gets answers from the client, so that the request goes on. Returns the questions if the client
    /// has to repeat the request with the answers.
    /// The client of a task answers the task. If the future is dropped while a client is asked,
    /// `forget` is called with the token.
    pub(super) async fn answer(
        &mut self,
        asked: Box<InputRequired>,
        task: Option<&Task>,
        forget: impl Fn(&str),
    ) -> Result<(), Box<InputRequired>> {
        let given = if let Some(task) = task {
            let mut abandoned = Abandoned { token: Some(&asked.token), forget };
            let given = task.ask(&asked).await;
            abandoned.token = None;
            given
        } else if self.peer.version.is_modern() {
            // An approval is the answer to a question that was shown, so it cannot come before it.
            let may_be_early = asked.client.as_str() != OWN_ASKER;
            let mut keys = asked.questions.iter().map(|question| &question.key);
            match self.early.take() {
                Some(given) if may_be_early && keys.all(|key| given.contains_key(key)) => given,
                _ => return Err(asked),
            }
        } else {
            let mut abandoned = Abandoned { token: Some(&asked.token), forget };
            let given = ask(self.outlet, asked.questions, self.limit).await;
            abandoned.token = None;
            given
        };
        self.next = Some(Answers { token: asked.token, given });
        Ok(())
    }
}

/// Returns the token in the state of a request that waits: for answers at its source, or, as the
/// state of a run, for a decision about the calls of a script. `None` for the state of an approval.
fn waiting(state: &str) -> Option<&str> {
    let is_of_run = state.contains('.') || state.starts_with("run_");
    state.strip_prefix(PREFIX).or_else(|| is_of_run.then_some(state))
}

/// Calls `forget` with the token of a request whose client has left.
struct Abandoned<'t, F: Fn(&str)> {
    token: Option<&'t str>,
    forget: F,
}

impl<F: Fn(&str)> Drop for Abandoned<'_, F> {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            (self.forget)(token);
        }
    }
}

/// Reads the answers of a modern client.
fn given(params: &Params) -> Result<GivenAnswers, RpcError> {
    match params.get("inputResponses") {
        None | Some("null") => Ok(GivenAnswers::new()),
        Some(responses) => answers::parse(responses),
    }
}

/// Returns the result of a modern request that waits for answers.
pub(super) fn input_required(asked: &InputRequired) -> String {
    let result = json!({
        "resultType": "input_required",
        "inputRequests": asked.to_requests(),
        "requestState": format!("{PREFIX}{}", asked.token),
        "_meta": {SERVER_INFO: server_info()},
    });
    result.to_string()
}

/// Asks a legacy client. What it has not answered within `limit` counts as refused.
async fn ask(outlet: &Outlet, questions: Vec<Question>, limit: Duration) -> GivenAnswers {
    let deadline = Instant::now() + limit;
    let asking = questions.into_iter().map(|question| async move {
        let params = question.params.into();
        let answer = timeout_at(deadline, outlet.ask(question.kind.method(), &params)).await;
        (question.key, answer.ok().flatten().filter(|answer| answer.starts_with('{')))
    });
    futures_util::future::join_all(asking).await.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::exchange::{Exchange, Outgoing};
    use crate::tests::params as read;
    use airlock_core::tool::{ClientName, QuestionKind};
    use airlock_wire::{id::RpcId, version::Version};

    const MODERN: Peer = Peer {
        version: Version::V2026_07_28,
        questions: QuestionKinds::ELICITATION,
        log_level: None,
        takes_tasks: false,
    };

    /// Returns what a modern request passes on, and whether its early answers answer a question `a`.
    fn answers(params: &str) -> Result<(Option<Answers>, bool), RpcError> {
        let params = read(params);
        let mut exchange = Exchange::new(RpcId::own(1), None, |outlet: Outlet| async move {
            let mut dialog = Dialog::new(MODERN, &params, &outlet, Duration::ZERO)?;
            let taken = dialog.take();
            let client = ClientName::parse("up").expect("a good name");
            let key = "a".to_owned();
            let question =
                Question { key, kind: QuestionKind::Form, params: serde_json::Map::new() };
            let asked = InputRequired { client, questions: vec![question], token: "t2".to_owned() };
            let is_early = dialog.answer(Box::new(asked), None, |_| ()).await.is_ok();
            let taken = taken.map(|answers| json!([answers.token, answers.given]));
            Ok(json!([taken, is_early]).to_string())
        });
        let Some(Some(Outgoing::Last(answer))) = exchange.next().now_or_never() else {
            panic!("it waits")
        };
        let answer: serde_json::Value = serde_json::from_str(&answer.text).expect("JSON");
        if answer.get("error").is_some() {
            return Err(RpcError::invalid_params(
                answer["error"]["message"].as_str().unwrap_or(""),
            ));
        }
        let result = &answer["result"];
        let taken = result[0].as_array().map(|taken| Answers {
            token: taken[0].as_str().expect("a token").to_owned(),
            given: serde_json::from_value(taken[1].clone()).expect("answers"),
        });
        Ok((taken, result[1] == true))
    }

    #[test]
    fn answers_belong_to_the_state_of_a_question_or_come_early() {
        let with_state = r#"{"requestState":"question.t","inputResponses":{"a":{"k":1}}}"#;
        let given = [("a".to_owned(), Some(r#"{"k":1}"#.to_owned()))].into();
        let expected = Answers { token: "t".to_owned(), given };
        assert_eq!(answers(with_state), Ok((Some(expected), false)));
        let run = r#"{"requestState":"run_7.2"}"#;
        let expected = Answers { token: "run_7.2".to_owned(), given: GivenAnswers::new() };
        assert_eq!(answers(run), Ok((Some(expected), false)));
        // The state of an approval.
        let approval = r#"{"requestState":"AAAA","inputResponses":{"a":{}}}"#;
        assert_eq!(answers(approval), Ok((None, false)));
        assert_eq!(answers(r#"{"inputResponses":{"a":{},"b":{}}}"#), Ok((None, true)));
        assert_eq!(answers(r#"{"inputResponses":{"b":{}}}"#), Ok((None, false)));
        assert_eq!(answers("{}"), Ok((None, false)));
        for bad in [r#"{"inputResponses":[]}"#, r#"{"inputResponses":{"a":7}}"#] {
            assert!(answers(bad).is_err(), "{bad}");
        }
    }
}
