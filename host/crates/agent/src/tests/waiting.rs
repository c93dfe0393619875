//! Calls that wait for a person's decision.

use parking_lot::Mutex;

use futures_util::future::BoxFuture;

use super::*;
use airlock_core::{
    door::{Arguments, Entry},
    tenant::Tenant,
    tool::SourceSet,
};

/// A list that decides like this, and the calls that it was asked about.
struct Deciding {
    verdict: Option<ApprovalVerdict>,
    asked: Mutex<Vec<String>>,
}

impl ApprovalList for Deciding {
    fn decide<'a>(
        &'a self,
        entry: &'a Entry,
        arguments: &'a Arguments,
        _: &'a SourceSet,
        _: &'a Tenant,
        _: Duration,
    ) -> BoxFuture<'a, ApprovalVerdict> {
        let call = format!("{} {}", entry.tool.name, arguments.as_str());
        self.asked.lock().push(call);
        match self.verdict.clone() {
            Some(verdict) => Box::pin(async { verdict }),
            None => Box::pin(std::future::pending()),
        }
    }
}

/// Returns the response to a call that needs an approval, and the calls that were asked about.
async fn decided(
    verdict: Option<ApprovalVerdict>,
    settings: Settings,
) -> (Result<Value, AgentError>, Vec<String>) {
    let list = Arc::new(Deciding { verdict, asked: Mutex::default() });
    let approver = Some(Approver { list: list.clone(), limit: Duration::from_secs(30) });
    let turns = json!([
        {"when": {"role": "user"}, "answer": {"tool_calls": [{"id": "c1", "name": "desk-write", "arguments": {"n": 1}}]}},
        {"answer": {"content": "done: {{last_tool_result}}"}},
    ]);
    let answer = ask_script(turns, Request { approver, ..request() }, settings).await;
    let asked = list.asked.lock().clone();
    (answer.map(Value::from), asked)
}

fn text(answer: Result<Value, AgentError>) -> String {
    let answer = answer.expect("an answer");
    answer["choices"][0]["message"]["content"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn an_approved_call_runs_in_the_request_that_waited_for_it() {
    let (answer, asked) = decided(Some(ApprovalVerdict::Approved(None)), SETTINGS).await;
    assert_eq!(text(answer), r#"done: write {"n":1}"#);
    assert_eq!(asked, [r#"desk-write {"n":1}"#]);
}

#[tokio::test]
async fn a_call_that_is_not_approved_does_not_run_and_the_model_learns_why() {
    for (verdict, reason) in [
        (ApprovalVerdict::Denied(None), "the person who was asked refused it"),
        (ApprovalVerdict::Denied(Some("not today".to_owned())), "refused it: not today"),
        (ApprovalVerdict::Waiting("call_7".to_owned()), "`airlock approvals approve call_7`"),
        (ApprovalVerdict::Refused("the list is full"), "the list is full"),
    ] {
        let (answer, _) = decided(Some(verdict), SETTINGS).await;
        let text = text(answer);
        assert!(text.contains("did not run") && text.contains(reason), "{text}");
    }
}

#[tokio::test]
async fn a_call_waits_no_longer_than_its_request() {
    let settings = Settings { timeout: Duration::from_secs(1), ..SETTINGS };
    let (answer, asked) = decided(None, settings).await;
    assert!(matches!(answer.expect_err("too late").error, Failure::Timeout { .. }));
    assert_eq!(asked.len(), 1);
}
