//! The guards of a gateway: which of them is asked, and how their verdicts are applied.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use tracing::warn;

use super::{Settings, outcome};
use airlock_core::{
    door::{Arguments, CallGuards, FinishedCall, GuardedCall, ProposedCall},
    threads,
    tool::{
        CallError, Cause, GuardAct, GuardDecision, GuardHook, Tool, ToolOutput, shown_question,
    },
};
use airlock_sandbox::{self as sandbox, GuardVerdict};
use airlock_strings::with_causes;

/// The guards of a gateway, in the order of its configuration.
pub struct Guards(Arc<[ConfiguredGuard]>);

/// A guard of the configuration. Calls in its scope are refused until it is loaded.
pub(super) struct ConfiguredGuard {
    pub(super) settings: Settings,
    pub(super) loaded: OnceLock<LoadedGuard>,
}

pub(super) struct LoadedGuard {
    pub(super) guard: sandbox::Guard,
    /// Digest of the component: `sha256:` and hexadecimal.
    pub(super) digest: Arc<str>,
}

impl Guards {
    /// Creates the guards, which have no components yet; `None` if there are none.
    pub fn new(settings: &[Settings]) -> Option<Arc<Self>> {
        let guards = settings.iter().cloned();
        let guards = guards.map(|settings| ConfiguredGuard { settings, loaded: OnceLock::new() });
        (!settings.is_empty()).then(|| Arc::new(Self(guards.collect())))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ConfiguredGuard> {
        self.0.iter()
    }
}

impl CallGuards for Guards {
    fn before(&self, call: &ProposedCall<'_>) -> Result<GuardedCall, CallError> {
        let mut decided = GuardedCall::default();
        for guard in asked(&self.0, GuardHook::Before, call) {
            let arguments = decided.arguments.clone();
            let arguments = arguments.as_ref().unwrap_or(call.arguments);
            guard.before(&call.with_arguments(arguments), &mut decided)?;
        }
        Ok(decided)
    }

    fn looks_before(&self, call: &ProposedCall<'_>) -> bool {
        asked(&self.0, GuardHook::Before, call).next().is_some()
    }

    fn looks_after(&self, call: &ProposedCall<'_>) -> bool {
        asked(&self.0, GuardHook::After, call).next().is_some()
    }

    fn after(
        &self,
        call: FinishedCall,
        outcome: Result<ToolOutput, CallError>,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        let guards = self.0.clone();
        let tenant = call.tenant().clone();
        let arguments = call.proposed().arguments.as_str().len();
        let bytes = outcome::size(&outcome).saturating_add(arguments);
        Box::pin(async move {
            threads::read(&tenant, bytes, move || decide_outcome(&guards, &call, outcome)).await
        })
    }
}

/// Iterates over the guards that are asked about a call, in their order.
fn asked<'g>(
    guards: &'g [ConfiguredGuard],
    hook: GuardHook,
    call: &'g ProposedCall<'_>,
) -> impl Iterator<Item = &'g ConfiguredGuard> {
    guards
        .iter()
        .filter(move |guard| guard.settings.hooks.has(hook) && guard.settings.scope.has(call))
}

/// Asks the guards about the outcome of a call, one after the other. Returns what they leave of it.
fn decide_outcome(
    guards: &[ConfiguredGuard],
    call: &FinishedCall,
    mut outcome: Result<ToolOutput, CallError>,
) -> Result<ToolOutput, CallError> {
    let proposed = call.proposed();
    for guard in asked(guards, GuardHook::After, &proposed) {
        match guard.after(&proposed, &outcome) {
            Ok(None) => {}
            Ok(Some(changed)) => {
                call.record(guard.act(GuardHook::After, GuardDecision::Rewrite));
                outcome = changed;
            }
            Err(refusal) => {
                if let Some(act) = refusal.guard_act() {
                    call.record(act.clone());
                }
                return Err(refusal);
            }
        }
    }
    outcome
}

/// Returns whether two outcomes are the same result.
fn is_same(one: &Result<ToolOutput, CallError>, other: &Result<ToolOutput, CallError>) -> bool {
    matches!((one, other), (Ok(one), Ok(other)) if one == other)
}

impl ConfiguredGuard {
    /// Asks the guard about a call, and adds its decision to `decided`. Fails if it denies the call or fails.
    fn before(&self, call: &ProposedCall<'_>, decided: &mut GuardedCall) -> Result<(), CallError> {
        const HOOK: GuardHook = GuardHook::Before;
        let verdict = self.guard(call.tool, HOOK)?.before(call);
        match verdict.map_err(|error| self.failed(call.tool, HOOK, error))? {
            GuardVerdict::Allow => {}
            GuardVerdict::Rewrite(text) => {
                let arguments = Arguments::parse(call.tool.name.as_str(), &text);
                let arguments = arguments.map_err(|bad| self.failed(call.tool, HOOK, bad))?;
                if arguments != *call.arguments {
                    decided.acts.push(self.act(HOOK, GuardDecision::Rewrite));
                    decided.arguments = Some(arguments);
                }
            }
            GuardVerdict::Deny { code, reason } => {
                return Err(self.denied(call.tool, HOOK, &code, &reason));
            }
            GuardVerdict::Ask(reason) => {
                decided.acts.push(self.act(HOOK, GuardDecision::Ask));
                let question =
                    format!("the guard {:?} asks: {}", self.settings.name, shown_question(&reason));
                decided.question.get_or_insert(question);
            }
        }
        Ok(())
    }

    /// Asks the guard about an outcome. Returns the one that takes its place; `None` if it stays. Fails if the guard
    /// withholds it or fails.
    fn after(
        &self,
        call: &ProposedCall<'_>,
        outcome: &Result<ToolOutput, CallError>,
    ) -> Result<Option<Result<ToolOutput, CallError>>, CallError> {
        const HOOK: GuardHook = GuardHook::After;
        let tool = call.tool;
        let guard = self.guard(tool, HOOK)?;
        // Other failures are the gateway's own.
        let Some(written) = outcome::write(outcome) else { return Ok(None) };
        let written = written.map_err(|error| self.failed(tool, HOOK, error))?;
        let verdict = guard.after(call, written);
        match verdict.map_err(|error| self.failed(tool, HOOK, error))? {
            GuardVerdict::Allow => Ok(None),
            GuardVerdict::Rewrite(text) => {
                let changed = outcome::read(&text, tool, outcome);
                let changed = changed.map_err(|bad| self.failed(tool, HOOK, bad))?;
                Ok(Some(changed).filter(|changed| !is_same(outcome, changed)))
            }
            GuardVerdict::Deny { code, reason } => Err(self.denied(tool, HOOK, &code, &reason)),
            GuardVerdict::Ask(_) => Err(self.failed(tool, HOOK, "it asks after the call")),
        }
    }

    fn guard(&self, tool: &Tool, hook: GuardHook) -> Result<&sandbox::Guard, CallError> {
        let loaded = self.loaded.get().map(|loaded| &loaded.guard);
        loaded.ok_or_else(|| self.failed(tool, hook, "it is not loaded"))
    }

    fn denied(&self, tool: &Tool, hook: GuardHook, code: &str, reason: &str) -> CallError {
        let act = self.act(hook, GuardDecision::Deny);
        CallError::guard_denied(tool.name.clone(), act, code, reason)
    }

    /// Returns the error of a call about which the guard has made no valid decision.
    fn failed(&self, tool: &Tool, hook: GuardHook, cause: impl Into<Cause>) -> CallError {
        let cause = cause.into();
        let guard = &*self.settings.name;
        let name = tool.full_name.as_str();
        warn!(
            guard,
            tool = name,
            cause = with_causes(&*cause),
            "a guard failed; the call is refused"
        );
        let act = self.act(hook, GuardDecision::Fail);
        CallError::guard_failed(tool.name.clone(), act, cause)
    }

    fn act(&self, hook: GuardHook, verdict: GuardDecision) -> GuardAct {
        let digest = self.loaded.get().map(|loaded| loaded.digest.clone());
        GuardAct {
            guard: self.settings.name.clone(),
            digest: digest.unwrap_or_default(),
            hook,
            verdict,
        }
    }
}

#[cfg(test)]
mod tests;
