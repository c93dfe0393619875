//! The world `guard` of this version.

mod bindings;

use airlock_core::{
    door::{ProposedCall, ReviewedExchange},
    tool::{GuardHook, Tool, Trust},
};
use wasmtime::{
    Store,
    component::{ComponentExportIndex, ComponentNamedList, InstancePre, Lower},
};

use self::bindings::{GuardPre, exports::airlock::guard::hooks as wit};
use crate::{
    contract::v0_1::exported::exported_function,
    guard::{GuardSide, GuardVerdict, ToolOutcome},
    run::state::State,
};

/// Interface with the functions of a guard.
const HOOKS: &str = "airlock:guard/hooks@0.1.0";

/// A linked guard.
pub(crate) struct GuardGuest {
    guard: GuardPre<State<GuardSide>>,
    before_call: ComponentExportIndex,
    after_call: ComponentExportIndex,
    on_definition: ComponentExportIndex,
    before_model: ComponentExportIndex,
    after_model: ComponentExportIndex,
}

/// Checks the exports. There are no imports.
pub(crate) fn open_guard(pre: InstancePre<State<GuardSide>>) -> wasmtime::Result<GuardGuest> {
    let guard = GuardPre::new(pre)?;
    let component = guard.instance_pre().component();
    Ok(GuardGuest {
        before_call: exported_function(component, HOOKS, "before-call")?,
        after_call: exported_function(component, HOOKS, "after-call")?,
        on_definition: exported_function(component, HOOKS, "on-definition")?,
        before_model: exported_function(component, HOOKS, "before-model")?,
        after_model: exported_function(component, HOOKS, "after-model")?,
        guard,
    })
}

impl GuardGuest {
    /// Checks settings, and the types of all functions. Returns the hooks of the guard, or the problem with the settings if
    /// it refuses them.
    pub(crate) async fn check_settings(
        &self,
        store: &mut Store<State<GuardSide>>,
        settings: &str,
    ) -> wasmtime::Result<Result<Vec<GuardHook>, String>> {
        let guard = self.guard.instantiate_async(&mut *store).await?;
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
        let call = for_guest(call, settings);
        self.decide(store, GuardHook::Before, (&call,)).await
    }

    /// Runs the hook after a call.
    pub(crate) async fn after(
        &self,
        store: &mut Store<State<GuardSide>>,
        call: &ProposedCall<'_>,
        outcome: ToolOutcome,
        settings: &str,
    ) -> wasmtime::Result<GuardVerdict> {
        let call = for_guest(call, settings);
        let outcome = match outcome {
            ToolOutcome::Success(json) => wit::Outcome::Success(json),
            ToolOutcome::Failure(json) => wit::Outcome::Failure(json),
        };
        self.decide(store, GuardHook::After, (&call, &outcome)).await
    }

    /// Runs the hook on a definition, the JSON text of MCP's `Tool`.
    pub(crate) async fn definition(
        &self,
        store: &mut Store<State<GuardSide>>,
        tool: &Tool,
        definition: String,
        settings: &str,
    ) -> wasmtime::Result<GuardVerdict> {
        let listed = wit::ListedTool {
            tool: tool.full_name.as_str().to_owned(),
            client: client(tool),
            trusted: tool.trust == Trust::Trusted,
            definition,
            settings: settings.to_owned(),
            extra: None,
        };
        self.decide(store, GuardHook::Definition, (&listed,)).await
    }

    /// Runs the hook before a request to a model, or that after its response.
    pub(crate) async fn model(
        &self,
        store: &mut Store<State<GuardSide>>,
        exchange: &ReviewedExchange,
        texts: String,
        settings: &str,
    ) -> wasmtime::Result<GuardVerdict> {
        let seen = wit::ModelExchange {
            model: exchange.model.clone(),
            key: exchange.membership.key_name.clone(),
            tenant: exchange.tenant.to_string(),
            texts,
            settings: settings.to_owned(),
            extra: None,
        };
        self.decide(store, exchange.hook, (&seen,)).await
    }

    /// Calls the function of a hook in a new instance. Fails if the function has other parameters.
    async fn decide<P: ComponentNamedList + Lower>(
        &self,
        store: &mut Store<State<GuardSide>>,
        hook: GuardHook,
        parameters: P,
    ) -> wasmtime::Result<GuardVerdict> {
        let guard = self.guard.instance_pre().instantiate_async(&mut *store).await?;
        let function = self.function(hook);
        let function = guard.get_typed_func::<P, (wit::Verdict,)>(&mut *store, function)?;
        let (verdict,) = function.call_async(store, parameters).await?;
        Ok(from_guest(verdict))
    }

    fn function(&self, hook: GuardHook) -> &ComponentExportIndex {
        match hook {
            GuardHook::Before => &self.before_call,
            GuardHook::After => &self.after_call,
            GuardHook::Definition => &self.on_definition,
            GuardHook::BeforeModel => &self.before_model,
            GuardHook::AfterModel => &self.after_model,
        }
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
