use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use serde_json::json;

use super::*;
use crate::tests::{BUDGET, Counting, open_policy, publish};
use airlock_catalog::Catalog;
use airlock_core::{
    door::{Caller, Filter},
    tool::{Policy, Prefix},
};

/// Returns the calls of a script that has the tool `clock-now`, which returns data.
fn calls_of(catalog: &Catalog) -> Arc<RunCalls> {
    let tools = json!([{
        "name": "now", "inputSchema": {}, "annotations": {"readOnlyHint": true},
        "outputSchema": {"type": "object", "properties": {"number": {"type": "integer"}}},
    }]);
    publish(catalog, "clock", open_policy(true), &tools);
    let view = catalog.snapshot().view(&Filter::none(), None);
    let caller = Caller::new(view, Origin::Caller, BUDGET);
    let chain = caller.admit("clock-now", "{}").expect("it is listed").chain().clone();
    RunCalls::new(chain, Journal::without_store())
}

fn now(arguments: &str) -> ScriptCall {
    ScriptCall { tool: "clock-now".to_owned(), arguments: arguments.to_owned() }
}

#[tokio::test]
async fn the_results_of_a_block_wait_as_text() {
    let catalog = Catalog::new();
    let calls = calls_of(&catalog);
    let answers = calls.make(vec![now("{}"), now("{}")], true).await.expect("they are made");
    assert_eq!(answers.len(), 2);
    for answer in answers {
        assert_eq!(answer.expect("it succeeds"), ToolOutput::text(r#"{"number":1}"#));
    }
}

#[tokio::test]
async fn long_arguments_wait_for_a_blocking_thread() {
    let catalog = Catalog::new();
    let calls = calls_of(&catalog);
    let long = "x".repeat(20 * threads::INLINE_BYTES);
    // Refused: such a call does not wait for its tool.
    let twice = now(&format!(r#"{{"a":"{long}","a":1}}"#));
    let held = threads::occupy(calls.chain().tenant()).await;
    let mut made = calls.make(vec![twice], false);
    // Several polls: arguments that were read here would yield once, after the first.
    for _ in 0..3 {
        assert!((&mut made).now_or_never().is_none(), "it waits for a thread");
    }
    let short = now(r#"{"a":2,"a":1}"#);
    let answers = calls.make(vec![short], false).now_or_never().expect("it needs no thread");
    assert!(answers.expect("the script goes on")[0].is_err());
    drop(held);
    let answers = made.await.expect("the script goes on");
    let refused = answers[0].as_ref().expect_err("a key is there twice").to_string();
    assert!(refused.contains("cannot be used"), "{refused}");
}

#[tokio::test]
async fn a_block_of_guarded_calls_yields_after_each_decision() {
    let guards = Arc::new(Counting::default());
    let catalog = Catalog::new();
    catalog.set_guards(guards.clone());
    let calls = calls_of(&catalog);
    let before = guards.0.load(Ordering::Relaxed);
    let call = now("{}");
    let mut made = calls.make(vec![call.clone(), call], true);
    assert!((&mut made).now_or_never().is_none(), "its deadline is looked at");
    assert_eq!(guards.0.load(Ordering::Relaxed) - before, 1);
    let answers = made.await.expect("they are made");
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(guards.0.load(Ordering::Relaxed) - before, 2);
}

#[tokio::test]
async fn answers_that_are_not_stored_take_no_room() {
    let journal = Journal::without_store();
    let answer = CallAnswer::Text("x".repeat(17 << 20));
    for block in [1, 2] {
        let position = Position { block, branch: 0 };
        let called = WrittenCall::from(now("{}")).to_called("".into(), false, None);
        let attempt = journal.intend(position, called).await.expect("there is room");
        let noted = journal.answer(position, attempt, &answer, &SourceSet::default()).await;
        noted.expect("it is noted");
    }
    assert_eq!(journal.completed(), ["clock-now", "clock-now"]);
}

#[tokio::test]
async fn a_tool_of_a_client_that_is_gone_is_not_one_of_another_client_with_its_name() {
    let catalog = Catalog::new();
    let bare = Policy { prefix: Prefix::Off, ..open_policy(true) };
    publish(&catalog, "third", bare, &json!([{"name": "gone-send", "inputSchema": {}}]));
    let calls = calls_of(&catalog);
    let view = calls.chain().view();
    assert!(view.find(&Origin::Script, "gone-send").is_some(), "its name on the wire");
    for tool in ["gone-send", "third-gone-send"] {
        let call = ScriptCall { tool: tool.to_owned(), arguments: "{}".to_owned() };
        let answers = calls.make(vec![call], false).await.expect("the script goes on");
        let made = answers[0].as_ref().map(ToolOutput::to_text);
        match made {
            Ok(text) => assert_eq!((tool, text.as_str()), ("third-gone-send", "gone-send")),
            Err(error) => assert_eq!((tool, error.kind()), ("gone-send", ErrorKind::NotFound)),
        }
    }
}
