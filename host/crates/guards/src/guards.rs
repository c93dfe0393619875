//! The guards of a gateway: which of them is asked, and how their verdicts are applied.

mod definitions;
mod models;

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use tracing::warn;

pub use self::definitions::DefinitionReview;
use super::{Settings, metrics::GuardMetrics, outcome};
use airlock_core::{
    door::{Arguments, CallGuards, FinishedCall, GuardedCall, ModelGuards, ProposedCall},
    threads::{self, INLINE_BYTES, poll_to_end},
    tool::{CallError, Cause, GuardAct, GuardDecision, GuardHook, Tool, ToolOutput},
};
use airlock_sandbox::{self as sandbox, GuardVerdict};
use airlock_strings::with_causes;

/// Longest time of all hooks before a call together, of all hooks after it, and of all hooks on a request to a model
/// or its response: the longest that one hook may have (`limits.time`). Without it, a caller waits longer for each
/// further guard.
const MAX_TIME: Duration = Duration::from_secs(1);

/// The guards of a gateway, in the order of its configuration.
pub struct Guards(pub(super) Arc<[ConfiguredGuard]>);

/// A guard of the configuration. Calls in its scope are refused until it is loaded.
pub(super) struct ConfiguredGuard {
    pub(super) settings: Settings,
    pub(super) loaded: OnceLock<LoadedGuard>,
    pub(super) metrics: GuardMetrics,
}

pub(super) struct LoadedGuard {
    pub(super) guard: sandbox::Guard,
    /// Digest of the component: `sha256:` and hexadecimal.
    pub(super) digest: Arc<str>,
    /// The hooks that it has.
    pub(super) hooks: BTreeSet<GuardHook>,
}

/// Time that the guards which are asked about the same have together, such as those before a call.
#[derive(Clone, Copy)]
struct HookTime {
    until: Instant,
}

impl HookTime {
    /// Begins the time of hooks that end by this deadline.
    fn begin(deadline: Instant) -> Self {
        Self { until: deadline.min(Instant::now() + MAX_TIME) }
    }

    /// Returns the time that is left; `None` if none is.
    fn left(self, now: Instant) -> Option<Duration> {
        self.until.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

impl Guards {
    /// Creates the guards, which have no components yet; `None` if there are none.
    pub fn new(settings: &[Settings]) -> Option<Arc<Self>> {
        let guards = settings.iter().cloned().map(|settings| ConfiguredGuard {
            settings,
            loaded: OnceLock::new(),
            metrics: GuardMetrics::new(),
        });
        (!settings.is_empty()).then(|| Arc::new(Self(guards.collect())))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ConfiguredGuard> {
        self.0.iter()
    }
}

impl CallGuards for Guards {
    fn before<'g>(
        &'g self,
        call: &'g ProposedCall<'g>,
        deadline: Instant,
    ) -> BoxFuture<'g, Result<GuardedCall, CallError>> {
        Box::pin(decide_call(&self.0, call, deadline))
    }

    fn looks_before(&self, call: &ProposedCall<'_>) -> bool {
        self.iter().any(|guard| guard.is_asked(GuardHook::Before, call))
    }

    fn looks_after(&self, call: &ProposedCall<'_>) -> bool {
        self.iter().any(|guard| guard.is_asked(GuardHook::After, call))
    }

    fn models(&self) -> Option<&dyn ModelGuards> {
        Some(self)
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
            if bytes <= INLINE_BYTES {
                let deciding = async move {
                    let _turn = threads::turn(&tenant).await;
                    decide_outcome(&guards, &call, outcome).await
                };
                return threads::decide(deciding).await;
            }
            threads::run(&tenant, move || poll_to_end(decide_outcome(&guards, &call, outcome)))
                .await
        })
    }
}

/// Asks the guards about a call before it is made, one after the other.
async fn decide_call(
    guards: &[ConfiguredGuard],
    call: &ProposedCall<'_>,
    deadline: Instant,
) -> Result<GuardedCall, CallError> {
    let time = HookTime::begin(deadline);
    let mut decided = GuardedCall::default();
    for guard in guards {
        if guard.is_asked(GuardHook::Before, call) {
            let arguments = decided.arguments.clone();
            let arguments = arguments.as_ref().unwrap_or(call.arguments);
            let call = call.with_arguments(arguments);
            guard.before(&call, time, &mut decided).await?;
        }
    }
    Ok(decided)
}

/// Asks the guards about the outcome of a call, one after the other. Returns what they leave of it.
async fn decide_outcome(
    guards: &[ConfiguredGuard],
    call: &FinishedCall,
    mut outcome: Result<ToolOutput, CallError>,
) -> Result<ToolOutput, CallError> {
    let time = HookTime::begin(call.deadline());
    let proposed = call.proposed();
    for guard in guards {
        if !guard.is_asked(GuardHook::After, &proposed) {
            continue;
        }
        let decided = guard.after(&proposed, &outcome, time).await;
        match decided {
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

/// Returns the decision with which a guard has refused a call.
fn refused_by(refusal: &CallError) -> Option<GuardDecision> {
    refusal.guard_act().map(|act| act.verdict)
}

impl ConfiguredGuard {
    /// Returns whether a hook is run. Until the guard is loaded, it may have any.
    pub(super) fn runs(&self, hook: GuardHook) -> bool {
        self.settings.hooks.has(hook)
            && self.loaded.get().is_none_or(|loaded| loaded.hooks.contains(&hook))
    }

    /// Returns whether the guard is asked about a call.
    fn is_asked(&self, hook: GuardHook, call: &ProposedCall<'_>) -> bool {
        self.runs(hook) && self.settings.scope.has(call)
    }

    /// Asks the guard about a call, and adds its decision to `decided`. Fails if it denies the call or fails.
    async fn before(
        &self,
        call: &ProposedCall<'_>,
        time: HookTime,
        decided: &mut GuardedCall,
    ) -> Result<(), CallError> {
        let begun = Instant::now();
        let ended = self.decide_before(call, time, decided).await;
        let decision = ended.as_ref().map_or_else(refused_by, |decision| *decision);
        self.metrics.count(GuardHook::Before, decision, begun.elapsed());
        ended.map(drop)
    }

    /// Does the same. Returns the decision; `None` if it changes nothing.
    async fn decide_before(
        &self,
        call: &ProposedCall<'_>,
        time: HookTime,
        decided: &mut GuardedCall,
    ) -> Result<Option<GuardDecision>, CallError> {
        const HOOK: GuardHook = GuardHook::Before;
        let left = self.time_left(call.tool, HOOK, time)?;
        let verdict = self.guard(call.tool, HOOK)?.before(call, left).await;
        match verdict.map_err(|error| self.failed(call.tool, HOOK, error))? {
            GuardVerdict::Allow => Ok(None),
            GuardVerdict::Rewrite(text) => {
                let arguments = Arguments::parse(call.tool.name.as_str(), &text);
                let arguments = arguments.map_err(|bad| self.failed(call.tool, HOOK, bad))?;
                if arguments == *call.arguments {
                    return Ok(None);
                }
                decided.acts.push(self.act(HOOK, GuardDecision::Rewrite));
                decided.arguments = Some(arguments);
                Ok(Some(GuardDecision::Rewrite))
            }
            GuardVerdict::Deny { code, reason } => {
                Err(self.denied(call.tool, HOOK, &code, &reason))
            }
            GuardVerdict::Ask(reason) => {
                decided.acts.push(self.act(HOOK, GuardDecision::Ask));
                decided.questions.push(self.settings.name.clone(), &reason);
                Ok(Some(GuardDecision::Ask))
            }
        }
    }

    /// Asks the guard about an outcome. Returns the one that takes its place; `None` if it stays. Fails if the guard
    /// withholds it or fails.
    async fn after(
        &self,
        call: &ProposedCall<'_>,
        outcome: &Result<ToolOutput, CallError>,
        time: HookTime,
    ) -> Result<Option<Result<ToolOutput, CallError>>, CallError> {
        let begun = Instant::now();
        let ended = self.decide_after(call, outcome, time).await;
        let decision = match &ended {
            Ok(changed) => changed.as_ref().map(|_| GuardDecision::Rewrite),
            Err(refusal) => refused_by(refusal),
        };
        self.metrics.count(GuardHook::After, decision, begun.elapsed());
        ended
    }

    /// Does the same.
    async fn decide_after(
        &self,
        call: &ProposedCall<'_>,
        outcome: &Result<ToolOutput, CallError>,
        time: HookTime,
    ) -> Result<Option<Result<ToolOutput, CallError>>, CallError> {
        const HOOK: GuardHook = GuardHook::After;
        let tool = call.tool;
        self.time_left(tool, HOOK, time)?;
        let guard = self.guard(tool, HOOK)?;
        // Other failures are the gateway's own.
        let Some(written) = outcome::write(outcome) else { return Ok(None) };
        let written = written.map_err(|error| self.failed(tool, HOOK, error))?;
        let left = self.time_left(tool, HOOK, time)?;
        let verdict = guard.after(call, written, left).await;
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

    /// Returns the time that is left for a hook. Fails if there is none.
    fn time_left(
        &self,
        tool: &Tool,
        hook: GuardHook,
        time: HookTime,
    ) -> Result<Duration, CallError> {
        let left = time.left(Instant::now());
        left.ok_or_else(|| self.failed(tool, hook, "no time is left for its hook"))
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
