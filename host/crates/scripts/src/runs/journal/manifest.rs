//! The manifest of a run: the first call of its journal, of the tool that runs scripts. Its answer is the time until
//! which the approval is valid.

use std::sync::Arc;

use super::{Journal, JournalRecord, failure};
use crate::runs::{CallAnswer, EffectManifest, manifest::MANIFEST_POSITION};
use airlock_core::{
    run::{Call, Called, Stage},
    tool::{CallError, SourceSet, ToolName},
};
use airlock_sandbox::ScriptCall;

/// The manifest of a run, once it is approved.
#[derive(Debug)]
pub(in crate::runs) struct ApprovedManifest {
    pub(in crate::runs) manifest: EffectManifest,
    /// True if its approval has expired.
    pub(in crate::runs) is_expired: bool,
}

impl Journal {
    /// Returns the manifest of a run, once it is approved; `None` if the run has none. Fails with the suspension of the
    /// run if it waits, and with the denial if a person has denied it. Asked before the first call of the script.
    pub(in crate::runs) async fn approved_manifest(
        self: &Arc<Self>,
    ) -> Result<Option<ApprovedManifest>, CallError> {
        let Some(Call { called, stage }) = self.shared.lock().state.manifest() else {
            return Ok(None);
        };
        self.shared.lock().state.skip_block();
        let tool = called.tool.to_string();
        let arguments = called.arguments.to_string();
        let until_ms = match self.find(MANIFEST_POSITION, &ScriptCall { tool, arguments })? {
            JournalRecord::Answered(CallAnswer::Value(until_ms), _) => {
                until_ms.as_i64().unwrap_or_default()
            }
            // A denial.
            JournalRecord::Answered(answer, _) => answer.into_result().map(|_| 0)?,
            JournalRecord::Approved(_) => {
                let until_ms = expiry(stage);
                let attempt = self.intend(MANIFEST_POSITION, called.clone()).await?;
                let approved = CallAnswer::Value(until_ms.into());
                let sources = SourceSet::default();
                self.answer(MANIFEST_POSITION, attempt, &approved, &sources).await?;
                until_ms
            }
            // Of a process that ended before it stored the answer, which has made no call.
            JournalRecord::Again
            | JournalRecord::New
            | JournalRecord::Pending(_)
            | JournalRecord::InDoubt => return Err(self.wait_for_manifest(called).await),
        };
        let manifest = EffectManifest::from_call(&called.tool, &called.arguments)
            .ok_or_else(|| failure::unreadable(MANIFEST_POSITION))?;
        Ok(Some(ApprovedManifest { manifest, is_expired: until_ms <= self.now_ms() }))
    }

    /// Suspends a run that begins until a person has decided about its manifest. Returns the reason to stop the script.
    pub(in crate::runs) async fn ask_manifest(self: &Arc<Self>, called: Called) -> CallError {
        self.shared.lock().state.skip_block();
        self.wait_for_manifest(called).await
    }

    async fn wait_for_manifest(self: &Arc<Self>, called: Called) -> CallError {
        if self.can_suspend() {
            return self.suspend(vec![(MANIFEST_POSITION, called)], &[]).await;
        }
        // A replay of a run that was never approved.
        CallError::needs_approval(ToolName::alias(&called.tool), called.arguments.to_string())
    }
}

/// Returns the time at which an approval expires, in milliseconds since 1970.
fn expiry(stage: Stage) -> i64 {
    match stage {
        Stage::Approved { until_ms, .. } | Stage::Retried { until_ms, .. } => until_ms,
        Stage::Pending { .. }
        | Stage::Denied
        | Stage::Sent { .. }
        | Stage::InDoubt { .. }
        | Stage::Answered => 0,
    }
}
