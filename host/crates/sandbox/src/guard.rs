//! Guards: components that decide about tools and their calls. A guard imports nothing, so it waits for nothing: each hook
//! runs in a fresh instance with limits of its own, in the task that asks, and yields after every slice of work.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use airlock_compile::check_resources;
use airlock_core::{
    door::{ProposedCall, ReviewedExchange},
    tenant::{Pool, Tenant},
    tool::{CallError, GuardHook, Tool, ToolName},
};
use airlock_strings::{MAX_LINE_BYTES, MAX_NAMED, cut, visible_line};
use wasmtime::{
    Engine,
    component::{Component, Linker},
};

use crate::{
    Limits, LoadError,
    contract::v0_1::{GuardGuest, open_guard},
    imports::log::Level,
    run::{
        instance,
        state::{Call, GuestSide, State},
    },
};

/// Time in which a guard must have checked its settings; of it, it may compute for the time of one hook.
const CHECK_TIME: Duration = Duration::from_secs(10);

/// A compiled and linked guard.
pub struct Guard {
    engine: Engine,
    /// Memory budget of all guests.
    memory: Pool,
    guest: GuardGuest,
    limits: Limits,
    /// Its settings, as JSON text of an object.
    settings: Arc<str>,
    /// Name of its calls in errors.
    name: ToolName,
}

/// The end of a call, as JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolOutcome {
    /// The result.
    Success(String),
    /// The tool's own error.
    Failure(String),
}

/// Decision of a guard, as it made it. Its texts are of any length within the limits of the guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardVerdict {
    /// Nothing changes.
    Allow,
    /// The arguments, the outcome, the definition or the texts are replaced by this JSON text, which was not read yet.
    Rewrite(String),
    /// The call or the request is not made, its outcome or response is withheld, or the tool is not offered.
    Deny {
        /// Identifier of the reason.
        code: String,
        /// The reason.
        reason: String,
    },
    /// The call needs an approval, for this reason.
    Ask(String),
}

impl Guard {
    /// Links a component. Fails if it imports anything.
    pub(crate) fn new(
        engine: Engine,
        memory: Pool,
        component: &Component,
        limits: Limits,
        settings: Arc<str>,
    ) -> Result<Self, LoadError> {
        check_resources(component)?;
        let imports = component.component_type();
        let imports = imports.imports(&engine).map(|(name, _)| name.to_owned());
        let names: Vec<_> = imports.take(MAX_NAMED).collect();
        if !names.is_empty() {
            return Err(LoadError::GuardImports { names });
        }
        let linked = Linker::new(&engine).instantiate_pre(component).and_then(open_guard);
        let guest =
            linked.map_err(|error| LoadError::Contract { world: "guard", cause: error.into() })?;
        Ok(Self { engine, memory, guest, limits, settings, name: ToolName::own("guard") })
    }

    /// Asks the guard whether it accepts its settings, and returns its hooks. Fails if it does not accept them, traps or
    /// reaches a limit.
    pub async fn check_settings(&self) -> Result<Vec<GuardHook>, LoadError> {
        let call = self.call(CHECK_TIME);
        let run = instance::run_alone(&self.engine, &self.memory, call, async |store| {
            self.guest.check_settings(store, &self.settings).await
        });
        match run.await {
            Ok(Ok(hooks)) => Ok(hooks),
            Ok(Err(problem)) => {
                let problem = cut(visible_line(&problem), MAX_LINE_BYTES);
                Err(LoadError::GuardSettings { problem })
            }
            Err(failure) => Err(LoadError::GuardSettingsCheck(failure)),
        }
    }

    /// Decides about a call before it is made, in at most `time`. Fails if the guard traps or reaches a limit. The future
    /// waits for nothing, and yields after every slice of work.
    pub async fn before(
        &self,
        call: &ProposedCall<'_>,
        time: Duration,
    ) -> Result<GuardVerdict, CallError> {
        let hook = self.call(time);
        let run = instance::run_alone(&self.engine, &self.memory, hook, async |store| {
            self.guest.before(store, call, &self.settings).await
        });
        self.bounded(run.await?)
    }

    /// Decides about the outcome of a call, in at most `time`. Fails as [`Self::before`] does.
    pub async fn after(
        &self,
        call: &ProposedCall<'_>,
        outcome: ToolOutcome,
        time: Duration,
    ) -> Result<GuardVerdict, CallError> {
        let hook = self.call(time);
        let run = instance::run_alone(&self.engine, &self.memory, hook, async |store| {
            self.guest.after(store, call, outcome, &self.settings).await
        });
        self.bounded(run.await?)
    }

    /// Decides about a definition, the JSON text of MCP's `Tool`, in at most `time`. Fails as [`Self::before`] does.
    pub async fn definition(
        &self,
        tool: &Tool,
        definition: String,
        time: Duration,
    ) -> Result<GuardVerdict, CallError> {
        let hook = self.call(time);
        let run = instance::run_alone(&self.engine, &self.memory, hook, async |store| {
            self.guest.definition(store, tool, definition, &self.settings).await
        });
        self.bounded(run.await?)
    }

    /// Decides about the texts of a request to a model or of its response, as JSON text, in at most `time`. Fails as
    /// [`Self::before`] does.
    pub async fn model(
        &self,
        exchange: &ReviewedExchange,
        texts: String,
        time: Duration,
    ) -> Result<GuardVerdict, CallError> {
        let hook = self.call(time);
        let run = instance::run_alone(&self.engine, &self.memory, hook, async |store| {
            self.guest.model(store, exchange, texts, &self.settings).await
        });
        self.bounded(run.await?)
    }

    /// Returns one hook, which has its own limits and must end after this time.
    fn call(&self, time: Duration) -> Call<GuardSide> {
        let limits = Limits { deadline: time, ..self.limits };
        Call { tool: self.name.clone(), chain: None, limits, guest: GuardSide }
    }

    /// Fails if a decision is larger than the limit on results.
    fn bounded(&self, verdict: GuardVerdict) -> Result<GuardVerdict, CallError> {
        let bytes = match &verdict {
            GuardVerdict::Allow => 0,
            GuardVerdict::Rewrite(text) | GuardVerdict::Ask(text) => text.len(),
            GuardVerdict::Deny { code, reason } => code.len() + reason.len(),
        };
        let limit = self.limits.result_bytes;
        if bytes > limit {
            return Err(CallError::result_too_large(self.name.clone(), limit));
        }
        Ok(verdict)
    }
}

/// The host's side of a guard, which has none.
pub(crate) struct GuardSide;

impl GuestSide for GuardSide {
    type Running = ();

    const IS_SCRIPT: bool = false;

    fn begin(&self, _: &Limits, _: &Tenant, _: &Pool, _: Instant) {}

    fn log(_: &mut State<Self>, _: Level, _: &str, _: &[(String, String)]) {}
}

#[cfg(test)]
mod tests;
