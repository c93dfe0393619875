//! Decisions about the definitions that sources list.

mod record;
mod time;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::{record::DefinitionRecord, time::ReviewTimes};
use super::{ConfiguredGuard, Guards};
use crate::outcome::{self, BadOutcome};
use airlock_core::{
    act::Acts,
    door::{DefinitionGuards, GuardedList, WithheldTool},
    threads::poll_to_end,
    tool::{
        BadTool, Cause, ClientName, GuardAct, GuardDecision, GuardHook, Tool, Trust,
        is_same_but_for_texts, shown_reason,
    },
};
use airlock_lock::digest;
use airlock_sandbox::GuardVerdict;
use airlock_strings::with_causes;

const HOOK: GuardHook = GuardHook::Definition;
/// Most decisions about definitions of one client that are kept: those of two lists of 2,000 tools. A server chooses
/// its definitions, and may list other ones each time.
const MAX_KEPT: usize = 4_000;
/// Maximum size of the decisions of one client that are kept, in bytes: as many as two lists of an MCP server have, of
/// 4 MiB each. A definition that a guard replaces is kept whole.
const MAX_KEPT_BYTES: usize = 8 << 20;
/// Maximum size of all decisions that are kept, in bytes: those of eight clients with as many as each may have.
/// Beyond it, all are decided again, in the time of their clients.
const MAX_ALL_BYTES: usize = 64 << 20;

/// The guards of definitions. They are asked once about each definition: equal ones have the same decision until the
/// gateway stops.
pub struct DefinitionReview {
    guards: Arc<Guards>,
    /// Cancelled when the guards are loaded, or have failed to load.
    is_ready: CancellationToken,
    kept: Mutex<KeptDecisions>,
    times: ReviewTimes,
    record: DefinitionRecord,
}

/// Decisions about definitions. Those of one client do not displace the ones of another until all have their share.
#[derive(Default)]
struct KeptDecisions(HashMap<Option<ClientName>, ClientDecisions>);

/// Decisions about the definitions of one client, by the digest of what the guards saw.
#[derive(Default)]
struct ClientDecisions {
    decisions: HashMap<String, DefinitionDecision>,
    bytes: usize,
}

/// Decision about a definition.
#[derive(Clone, PartialEq)]
enum DefinitionDecision {
    /// The tool is offered as it is.
    Kept,
    /// The tool is offered with the texts of this definition, which is JSON text.
    Rewritten(Arc<str>),
    /// The tool is not offered.
    Denied { act: GuardAct, code: String, reason: String },
    /// The tool is not offered, because a guard has made no valid decision. It is asked again about the next list.
    Failed(GuardAct),
}

/// Reason that a guard's JSON is no definition of the tool.
#[derive(Debug, thiserror::Error)]
enum BadDefinition {
    #[error(transparent)]
    Json(#[from] BadOutcome),
    #[error("it is not a definition of a tool")]
    Form(#[from] serde_json::Error),
    #[error("it differs in more than descriptions and titles")]
    Other,
    #[error(transparent)]
    Tool(#[from] BadTool),
}

impl DefinitionReview {
    /// Creates the review. It waits until [`Self::begin`] is called. Decisions that withhold a definition, or replace its
    /// texts, are recorded as acts.
    pub fn new(guards: Arc<Guards>, acts: Acts) -> Self {
        let record = DefinitionRecord::new(acts);
        Self {
            guards,
            is_ready: CancellationToken::new(),
            kept: Mutex::default(),
            times: ReviewTimes::default(),
            record,
        }
    }

    /// Lets lists be decided, because the guards are loaded, or have failed to load.
    pub fn begin(&self) {
        self.is_ready.cancel();
    }

    /// Decides about one tool. Fails with the refusal if it is not offered.
    fn decide_tool(&self, tool: &Arc<Tool>) -> Result<Arc<Tool>, WithheldTool> {
        let Some(first) = self.asked(tool).next() else { return Ok(tool.clone()) };
        let seen = seen(tool).map_err(|cause| withheld(tool, first.failed_on(tool, cause)))?;
        let kept = self.kept.lock().get(tool, &seen);
        let decision = match kept {
            Some(DefinitionDecision::Failed(_)) | None => self.ask_anew(tool, seen, kept.as_ref()),
            Some(decision) => decision,
        };
        match decision {
            DefinitionDecision::Kept => Ok(tool.clone()),
            DefinitionDecision::Rewritten(text) => {
                let changed = rewritten(tool, &text).map(Arc::new);
                changed.map_err(|cause| withheld(tool, first.failed_on(tool, cause)))
            }
            DefinitionDecision::Denied { act, code, reason } => {
                Err(WithheldTool { tool: tool.clone(), act, code, reason })
            }
            DefinitionDecision::Failed(act) => Err(withheld(tool, act)),
        }
    }

    /// Asks the guards about one tool in the time that its client has left, and keeps and records the decision, unless it
    /// is the failure that was recorded before.
    fn ask_anew(
        &self,
        tool: &Arc<Tool>,
        seen: String,
        before: Option<&DefinitionDecision>,
    ) -> DefinitionDecision {
        let mut acts = Vec::new();
        let begun = Instant::now();
        let over = begun + self.times.left(tool.client.as_ref(), begun);
        let decision = self.ask(tool, over, &mut acts).unwrap_or_else(|failed| {
            acts.push(failed.clone());
            DefinitionDecision::Failed(failed)
        });
        self.times.spend(tool.client.as_ref(), begun, Instant::now());
        if before != Some(&decision) {
            self.record.add(tool, &acts, decision.code(), Instant::now());
        }
        self.kept.lock().keep(tool, seen, decision.clone());
        decision
    }

    /// Asks the guards about one tool, one after the other. Adds their decisions to `acts`, unless they change nothing.
    /// Fails if one of the guards fails.
    fn ask(
        &self,
        tool: &Arc<Tool>,
        over: Instant,
        acts: &mut Vec<GuardAct>,
    ) -> Result<DefinitionDecision, GuardAct> {
        let mut current = tool.clone();
        let mut texts = None;
        for guard in self.asked(tool) {
            let left = over.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(guard.act(HOOK, GuardDecision::Fail));
            }
            let verdict = guard.definition(&current, left);
            match verdict.map_err(|cause| guard.failed_on(tool, cause))? {
                GuardVerdict::Allow => {}
                GuardVerdict::Rewrite(text) => {
                    let changed = rewritten(&current, &text);
                    let changed = changed.map_err(|cause| guard.failed_on(tool, cause))?;
                    if changed != *current {
                        acts.push(guard.act(HOOK, GuardDecision::Rewrite));
                        current = Arc::new(changed);
                        texts = Some(text.into());
                    }
                }
                GuardVerdict::Deny { code, reason } => {
                    let act = guard.act(HOOK, GuardDecision::Deny);
                    acts.push(act.clone());
                    let [code, reason] = [code, reason].map(|text| shown_reason(&text));
                    return Ok(DefinitionDecision::Denied { act, code, reason });
                }
                GuardVerdict::Ask(_) => {
                    return Err(guard.failed_on(tool, "it asks about a definition"));
                }
            }
        }
        Ok(texts.map_or(DefinitionDecision::Kept, DefinitionDecision::Rewritten))
    }

    fn asked<'g>(&'g self, tool: &'g Tool) -> impl Iterator<Item = &'g ConfiguredGuard> {
        self.guards
            .iter()
            .filter(move |guard| guard.runs(HOOK) && guard.settings.scope.has_definition(tool))
    }
}

impl DefinitionGuards for DefinitionReview {
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.is_ready.cancelled())
    }

    fn decide(&self, tools: Vec<Arc<Tool>>) -> GuardedList {
        let mut list = GuardedList::default();
        if !self.guards.iter().any(|guard| guard.runs(HOOK)) {
            list.tools = tools;
            return list;
        }
        for tool in tools {
            match self.decide_tool(&tool) {
                Ok(tool) => list.tools.push(tool),
                Err(withheld) => list.withheld.push(withheld),
            }
        }
        if let Some(WithheldTool { tool, .. }) = list.withheld.last()
            && self.times.left(tool.client.as_ref(), Instant::now()).is_zero()
        {
            // One line: a server chooses how many tools it lists, and how long guards take.
            let client = tool.client.as_ref().map(ClientName::as_str);
            warn!(
                client,
                "guards had no time left for a list; tools without a decision are not offered"
            );
        }
        list
    }
}

impl KeptDecisions {
    fn get(&self, tool: &Tool, seen: &str) -> Option<DefinitionDecision> {
        self.0.get(&tool.client)?.decisions.get(seen).cloned()
    }

    /// Keeps a decision. Beyond the limits, the earlier ones are dropped, and their definitions decided again.
    fn keep(&mut self, tool: &Tool, seen: String, decision: DefinitionDecision) {
        self.forget(tool, &seen);
        let bytes = seen.len() + decision.bytes();
        let kept = self.0.values().map(|client| client.bytes).fold(0, usize::saturating_add);
        if kept + bytes > MAX_ALL_BYTES {
            self.0.clear();
        }
        let client = self.0.entry(tool.client.clone()).or_default();
        if client.decisions.len() >= MAX_KEPT || client.bytes + bytes > MAX_KEPT_BYTES {
            *client = ClientDecisions::default();
        }
        client.bytes += bytes;
        client.decisions.insert(seen, decision);
    }

    fn forget(&mut self, tool: &Tool, seen: &str) {
        if let Some(client) = self.0.get_mut(&tool.client)
            && let Some(decision) = client.decisions.remove(seen)
        {
            client.bytes -= seen.len() + decision.bytes();
        }
    }
}

impl DefinitionDecision {
    /// Identifier of the reason of a denial; `None` for any other decision.
    fn code(&self) -> Option<&str> {
        if let Self::Denied { code, .. } = self { Some(code) } else { None }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Kept | Self::Failed(_) => 0,
                Self::Rewritten(text) => text.len(),
                Self::Denied { code, reason, .. } => code.len() + reason.len(),
            }
    }
}

impl ConfiguredGuard {
    /// Asks the guard about a definition, for at most `time`. Fails if it traps, reaches a limit or is not loaded.
    fn definition(&self, tool: &Tool, time: Duration) -> Result<GuardVerdict, Cause> {
        let begun = Instant::now();
        let ended = self.decide_definition(tool, time);
        let decision = match &ended {
            Ok(GuardVerdict::Allow) => None,
            Ok(GuardVerdict::Rewrite(_)) => Some(GuardDecision::Rewrite),
            Ok(GuardVerdict::Deny { .. }) => Some(GuardDecision::Deny),
            Ok(GuardVerdict::Ask(_)) | Err(_) => Some(GuardDecision::Fail),
        };
        self.metrics.count(HOOK, decision, begun.elapsed());
        ended
    }

    /// Does the same.
    fn decide_definition(&self, tool: &Tool, time: Duration) -> Result<GuardVerdict, Cause> {
        let loaded = self.loaded.get().ok_or("it is not loaded")?;
        let written = serde_json::to_string(&tool.to_definition())?;
        Ok(poll_to_end(loaded.guard.definition(tool, written, time))?)
    }

    /// Logs why the guard has made no valid decision about a definition. Returns the failure.
    fn failed_on(&self, tool: &Tool, cause: impl Into<Cause>) -> GuardAct {
        let cause = cause.into();
        let guard = &*self.settings.name;
        let name = tool.full_name.as_str();
        let cause = with_causes(&*cause);
        warn!(guard, tool = name, cause, "a guard failed; the tool is not offered");
        self.act(HOOK, GuardDecision::Fail)
    }
}

/// Returns a tool that is not offered, because a guard has made no valid decision.
fn withheld(tool: &Arc<Tool>, act: GuardAct) -> WithheldTool {
    WithheldTool { tool: tool.clone(), act, code: String::new(), reason: String::new() }
}

/// Returns the digest of what guards see of a tool.
fn seen(tool: &Tool) -> serde_json::Result<String> {
    let is_trusted = tool.trust == Trust::Trusted;
    let definition = serde_json::to_string(&tool.to_definition())?;
    let seen = format!("{} {is_trusted} {definition}", tool.full_name.as_str());
    Ok(digest(seen.as_bytes()))
}

/// Returns a tool with the texts of the definition that a guard has written. Fails if it differs in anything else.
fn rewritten(tool: &Tool, text: &str) -> Result<Tool, BadDefinition> {
    let after = Value::Object(outcome::object(text)?);
    let before = serde_json::to_value(tool.to_definition())?;
    if before == after {
        return Ok(tool.clone());
    }
    if !is_same_but_for_texts(&before, &after) {
        return Err(BadDefinition::Other);
    }
    Ok(tool.with_texts(serde_json::from_value(after)?)?)
}

#[cfg(test)]
mod tests;
