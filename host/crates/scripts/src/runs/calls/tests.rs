use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use serde_json::json;

use super::*;
use crate::tests::{BUDGET, Counting, open_policy, publish};
use airlock_catalog::Catalog;
use airlock_core::door::{Caller, Filter};

#[tokio::test]
async fn a_block_of_guarded_calls_yields_after_each_decision() {
    let guards = Arc::new(Counting::default());
    let catalog = Catalog::new();
    catalog.set_guards(guards.clone());
    let tools = json!([{"name": "now", "inputSchema": {}}]);
    publish(&catalog, "clock", open_policy(true), &tools);
    let view = catalog.snapshot().view(&Filter::none(), None);
    let caller = Caller::new(view, Origin::Caller, BUDGET);
    let chain = caller.admit("clock-now", "{}").expect("it is listed").chain().clone();
    let before = guards.0.load(Ordering::Relaxed);
    let calls = RunCalls::new(chain, Journal::without_store());
    let call = ScriptCall { tool: "clock-now".to_owned(), arguments: "{}".to_owned() };
    let mut made = calls.make(vec![call.clone(), call], true);
    assert!((&mut made).now_or_never().is_none(), "its deadline is looked at");
    assert_eq!(guards.0.load(Ordering::Relaxed) - before, 1);
    let answers = made.await.expect("they are made");
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(guards.0.load(Ordering::Relaxed) - before, 2);
}
