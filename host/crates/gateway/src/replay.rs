//! Replays runs for operators, with a catalog of its own that has no tool of any source: a script that leaves its journal
//! finds nothing to call.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::Semaphore;

use super::code_mode::LiveCodeMode;
use crate::native::{NativeTool, NativeTools, ProgramTools};
use airlock_catalog::Catalog;
use airlock_core::{
    door::{Budget, Caller, Filter, Origin, ScriptLanguage},
    tool::{Allowlist, Policy, ToolOutput, Trust},
};
use airlock_operator_api::{NotReplayed, Replays};
use airlock_scripts::{
    CodeMode,
    runs::{EXECUTE, RunOutcome},
};
use airlock_store::runs::StoredRun;
use airlock_strings::with_causes;

/// Replays of a gateway at a time. Each takes a processor for as long as its script may.
const MAX_AT_ONCE: usize = 1;

/// Replays runs.
pub(super) struct Replayer {
    code_mode: Arc<LiveCodeMode>,
    turn: Semaphore,
}

impl Replayer {
    pub(super) fn new(code_mode: Arc<LiveCodeMode>) -> Self {
        Self { code_mode, turn: Semaphore::new(MAX_AT_ONCE) }
    }

    async fn run(&self, stored: StoredRun, budget: Budget) -> Result<RunOutcome, NotReplayed> {
        let _turn = self.turn.try_acquire().map_err(|_| NotReplayed::Busy)?;
        let language = ScriptLanguage::named(&stored.language);
        if let Some(executor) = language.and_then(|language| self.code_mode.executor(language)) {
            let loaded = executor.load().await;
            loaded.map_err(|error| NotReplayed::Failed(with_causes(&error)))?;
        }
        let code_mode = self.code_mode.now();
        let caller = caller_without_tools(&code_mode, budget)?;
        let arguments = json!({"code": stored.script}).to_string();
        let call = caller.admit(EXECUTE, &arguments);
        let call = call.map_err(|error| NotReplayed::Failed(error.to_string()))?;
        Ok(code_mode.replay(&call, &stored).await)
    }
}

impl Replays for Replayer {
    fn replay(
        &self,
        stored: StoredRun,
        budget: Budget,
    ) -> BoxFuture<'_, Result<RunOutcome, NotReplayed>> {
        Box::pin(self.run(stored, budget))
    }
}

/// Returns a caller that may run scripts and has no tool that does anything, and no guards: the journal knows calls as the
/// script writes them.
fn caller_without_tools(code_mode: &Arc<CodeMode>, budget: Budget) -> Result<Caller, NotReplayed> {
    let catalog = Catalog::new();
    // Without a tool for scripts there is no code mode.
    let policy = Policy {
        execute: Allowlist::All,
        code_mode: true,
        trust: Trust::Trusted,
        ..Policy::default()
    };
    let nothing = NativeTool::new("nothing", "", json!({"type": "object"}), |_, _| async {
        Ok(ToolOutput::default())
    });
    let mut tools = NativeTools::default();
    tools.register(nothing).map_err(|error| NotReplayed::Failed(with_causes(&error)))?;
    let published = ProgramTools::new(&catalog, policy, tools);
    published.map_err(|error| NotReplayed::Failed(with_causes(&error)))?;
    code_mode.install(&catalog, usize::MAX);
    let view = catalog.snapshot().view(&Filter::of_operator(), None);
    Ok(Caller::new(view, Origin::Model, budget))
}
