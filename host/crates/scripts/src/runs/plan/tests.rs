use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use serde_json::json;

use super::*;
use crate::tests::{BUDGET, open_policy, publish};
use airlock_catalog::Catalog;
use airlock_core::{
    door::{Caller, Filter, Origin},
    tool::{Allowlist, Policy},
};
use airlock_sandbox::{FailureKind, ScriptCall, ScriptCalls, ScriptFailure, ScriptResult};

/// Executor of a script that calls `bank.pay` and then fails or ends.
struct Paying {
    fails: bool,
    /// Number of the times that it has run.
    runs: AtomicUsize,
}

impl Runner for Paying {
    fn run_script<'a>(
        &'a self,
        _: Script,
        _: &'a Chain,
        calls: Arc<dyn ScriptCalls>,
    ) -> BoxFuture<'a, ScriptResult> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let call = ScriptCall { tool: "bank-pay".to_owned(), arguments: "{}".to_owned() };
            calls.make(vec![call], false).await.map_err(ScriptError::Stopped)?;
            if self.fails {
                return Err(ScriptError::Failed(ScriptFailure {
                    kind: FailureKind::Runtime,
                    message: "no key".to_owned(),
                    line: Some(1),
                    column: None,
                    rendered: String::new(),
                }));
            }
            Ok(None)
        })
    }
}

#[tokio::test]
async fn a_script_that_fails_in_its_first_rehearsal_is_not_rehearsed_again() {
    let catalog = Catalog::new();
    let tools = json!([{"name": "pay", "inputSchema": {}}]);
    let asking = Policy { auto_execute: Allowlist::default(), ..open_policy(true) };
    publish(&catalog, "bank", asking, &tools);
    let view = catalog.snapshot().view(&Filter::none(), None);
    let caller = Caller::new(view, Origin::Caller, BUDGET);
    let admitted = caller.admit("bank-pay", "{}").expect("its caller approves it");
    let script = Script {
        follows_values: false,
        name: "s".to_owned(),
        source: String::new(),
        bindings: Arc::default(),
        clock_ms: None,
        inputs: None,
        last_expression: false,
    };
    for (fails, runs) in [(true, 1), (false, 2)] {
        let runner = Paying { fails, runs: AtomicUsize::new(0) };
        let manifest = planned_manifest(admitted.chain(), &runner, &script).await;
        let lines = manifest.expect("it begins").map(|manifest| manifest.lines());
        assert_eq!(lines.is_none(), fails, "{lines:?}");
        assert_eq!(runner.runs.load(Ordering::Relaxed), runs);
    }
}
