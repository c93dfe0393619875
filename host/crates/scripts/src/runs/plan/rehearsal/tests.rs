use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use serde_json::json;

use super::*;
use crate::tests::{BUDGET, Counting, open_policy, publish};
use airlock_catalog::Catalog;
use airlock_core::{
    door::{Caller, Filter},
    tool::{Exclusions, Policy},
};

/// Returns the calls of a rehearsal of a script that may call `clock.now` and `bank.pay`, which two operators approve.
fn rehearsed(catalog: &Catalog) -> RehearsedCalls {
    let schema = json!({"properties": {"text": {"type": "string"}}});
    let tools = json!([{"name": "now", "inputSchema": schema}]);
    publish(catalog, "clock", open_policy(true), &tools);
    let all = Exclusions::parse(&["*"]).expect("a good list");
    let twice = Policy { approve_twice: all, ..open_policy(true) };
    publish(catalog, "bank", twice, &json!([{"name": "pay", "inputSchema": {}}]));
    let view = catalog.snapshot().view(&Filter::none(), None);
    let caller = Caller::new(view, Origin::Caller, BUDGET);
    let chain = caller.admit("clock-now", "{}").expect("it is listed").chain().rehearsal();
    RehearsedCalls::new(chain, Rehearsing { answers: Arc::default(), variant: 0 })
}

fn call(tool: &str, arguments: &str) -> ScriptCall {
    ScriptCall { tool: tool.to_owned(), arguments: arguments.to_owned() }
}

#[tokio::test]
async fn a_rehearsal_stops_at_the_call_whose_arguments_are_too_many() {
    let calls = rehearsed(&Catalog::new());
    let half = format!(r#"{{"text":"{}"}}"#, "x".repeat(MAX_ARGUMENTS / 2 - 11));
    assert_eq!(half.len(), MAX_ARGUMENTS / 2);
    for _ in 0..2 {
        let answers = calls.make(vec![call("clock-now", &half)], false).await.expect("they fit");
        assert!(answers.iter().all(Result::is_ok));
    }
    let error = calls.make(vec![call("clock-now", "{}")], false).await.expect_err("too many");
    assert!(error.message().contains("256 KiB of arguments"), "{}", error.message());
    let ended = calls.end(Some(ScriptError::Stopped(error)));
    assert_eq!(ended.calls.len(), 2);
    assert!(ended.failure.is_some(), "the plan is not complete");
}

#[tokio::test]
async fn a_tool_that_two_operators_approve_is_refused_as_in_a_run() {
    let calls = rehearsed(&Catalog::new());
    let answers = calls.make(vec![call("bank-pay", "{}")], false).await.expect("it goes on");
    let refused = answers.into_iter().next().expect("an answer").expect_err("it is refused");
    assert!(refused.message().contains("two operators"), "{}", refused.message());
    let ended = calls.end(None);
    assert!(ended.calls[0].treatment.refused.is_some(), "{:?}", ended.calls);
}

#[tokio::test]
async fn a_block_yields_after_each_decision_of_guards() {
    let guards = Arc::new(Counting::default());
    let catalog = Catalog::new();
    catalog.set_guards(guards.clone());
    let calls = rehearsed(&catalog);
    let before = guards.0.load(Ordering::Relaxed);
    let mut made = calls.make(vec![call("clock-now", "{}"), call("clock-now", "{}")], true);
    assert!((&mut made).now_or_never().is_none(), "its deadline is looked at");
    assert_eq!(guards.0.load(Ordering::Relaxed) - before, 1);
    let answers = made.await.expect("they are answered");
    assert!(answers.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_call_on_its_own_is_answered_at_once_and_a_block_yields_after_each() {
    let catalog = Catalog::new();
    let calls = rehearsed(&catalog);
    let answers = calls.make(vec![call("clock-now", "{}")], false).now_or_never();
    let answers = answers.expect("it does not yield").expect("it is answered");
    assert!(answers.iter().all(Result::is_ok));
    let block = calls.make(vec![call("clock-now", "{}")], true).now_or_never();
    assert!(block.is_none(), "the deadline of the script is looked at");
}
