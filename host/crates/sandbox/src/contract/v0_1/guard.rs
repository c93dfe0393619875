//! The world `guard` of this version.

mod bindings;

use airlock_core::{
    door::{ProposedCall, ReviewedExchange},
    tool::{GuardHook, Tool, Trust},
};
use wasmtime::{Store, component::InstancePre};

use self::bindings::{GuardPre, exports::airlock::guard::hooks as wit};
use crate::{
    guard::{GuardSide, GuardVerdict, ToolOutcome},
    run::state::State,
};

/// A linked guard.
pub(crate) struct GuardGuest(GuardPre<State<GuardSide>>);

/// Checks the exports. There are no imports.
pub(crate) fn open_guard(pre: InstancePre<State<GuardSide>>) -> wasmtime::Result<GuardGuest> {
    Ok(GuardGuest(GuardPre::new(pre)?))
}

impl GuardGuest {
    /// Checks settings. Returns the hooks of the guard, or the problem with the settings if it refuses them.
    pub(crate) async fn check_settings(
        &self,
        store: &mut Store<State<GuardSide>>,
        settings: &str,
    ) -> wasmtime::Result<Result<Vec<GuardHook>, String>> {
        let guard = self.0.instantiate_async(&mut *store).await?;
        let checked = guard.airlock_guard_hooks().call_check_settings(store, settings).await?;
        Ok(checked.map(|hooks| hooks.into_iter().map(GuardHook::from).collect()))
    }

    /// Runs the hook before a call.
    pub(crate) async fn before(
        &self,
        store: &mut Store<State<GuardSide>>,
        call: &ProposedCall<'_>,
        settings: &str,
    ) -> wasmtime::Result<GuardVerdict> {
        let guard = self.0.instantiate_async(&mut *store).await?;
        let call = for_guest(call, settings);
        let verdict = guard.airlock_guard_hooks().call_before_call(store, &call).await?;
        Ok(from_guest(verdict))
    }

    /// Runs the hook after a call.
    pub(crate) async fn after(
        &self,
        store: &mut Store<State<GuardSide>>,
        call: &ProposedCall<'_>,
        outcome: ToolOutcome,
        settings: &str,
    ) -> wasmtime::Result<GuardVerdict> {
        let guard = self.0.instantiate_async(&mut *store).await?;
        let call = for_guest(call, settings);
        let outcome = match outcome {
            ToolOutcome::Success(json) => wit::Outcome::Success(json),
            ToolOutcome::Failure(json) => wit::Outcome::Failure(json),
        };
        let verdict = guard.airlock_guard_hooks().call_after_call(store, &call, &outcome).await?;
        Ok(from_guest(verdict))
    }

    /// Runs the hook on a definition, the JSON text of MCP's `Tool`.
    pub(crate) async fn definition(
        &self,
        store: &mut Store<State<GuardSide>>,
        tool: &Tool,
        definition: String,
        settings: &str,
    ) -> wasmtime::Result<GuardVerdict> {
        let guard = self.0.instantiate_async(&mut *store).await?;
        let listed = wit::ListedTool {
            tool: tool.full_name.as_str().to_owned(),
            client: client(tool),
            trusted: tool.trust == Trust::Trusted,
            definition,
            settings: settings.to_owned(),
            extra: None,
        };
        let verdict = guard.airlock_guard_hooks().call_on_definition(store, &listed).await?;
        Ok(from_guest(verdict))
    }

    /// Runs the hook before a request to a model, or that after its response.
    pub(crate) async fn model(
        &self,
        store: &mut Store<State<GuardSide>>,
        exchange: &ReviewedExchange,
        texts: String,
        settings: &str,
    ) -> wasmtime::Result<GuardVerdict> {
        let guard = self.0.instantiate_async(&mut *store).await?;
        let hooks = guard.airlock_guard_hooks();
        let seen = wit::ModelExchange {
            model: exchange.model.clone(),
            key: exchange.membership.key_name.clone(),
            tenant: exchange.tenant.to_string(),
            texts,
            settings: settings.to_owned(),
            extra: None,
        };
        let verdict = if exchange.hook == GuardHook::AfterModel {
            hooks.call_after_model(store, &seen).await?
        } else {
            hooks.call_before_model(store, &seen).await?
        };
        Ok(from_guest(verdict))
    }
}

same_variants!(wit::Hook => GuardHook { Before After Definition BeforeModel AfterModel });

fn for_guest(call: &ProposedCall<'_>, settings: &str) -> wit::Call {
    let tool = call.tool;
    let annotations = &tool.annotations;
    wit::Call {
        tool: tool.full_name.as_str().to_owned(),
        client: client(tool),
        arguments: call.arguments.as_str().to_owned(),
        effects: wit::Effects {
            read_only: annotations.read_only,
            destructive: annotations.destructive,
            idempotent: annotations.idempotent,
            open_world: annotations.open_world,
            trusted: tool.trust == Trust::Trusted,
        },
        origin: call.origin.name().to_owned(),
        key: call.membership.key_name.clone(),
        tenant: call.tenant.to_string(),
        settings: settings.to_owned(),
        extra: None,
    }
}

fn client(tool: &Tool) -> String {
    tool.client.as_ref().map(|client| client.as_str().to_owned()).unwrap_or_default()
}

fn from_guest(verdict: wit::Verdict) -> GuardVerdict {
    match verdict {
        wit::Verdict::Allow => GuardVerdict::Allow,
        wit::Verdict::Rewrite(json) => GuardVerdict::Rewrite(json),
        wit::Verdict::Deny(wit::Denial { code, reason }) => GuardVerdict::Deny { code, reason },
        wit::Verdict::Ask(reason) => GuardVerdict::Ask(reason),
    }
}
