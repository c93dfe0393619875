//! The world `guard` of this version.

mod bindings;

use airlock_core::{door::ProposedCall, tool::Trust};
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
    /// Checks settings. Returns the problem with them if the guard refuses them.
    pub(crate) async fn check_settings(
        &self,
        store: &mut Store<State<GuardSide>>,
        settings: &str,
    ) -> wasmtime::Result<Result<(), String>> {
        let guard = self.0.instantiate_async(&mut *store).await?;
        guard.airlock_guard_hooks().call_check_settings(store, settings).await
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
}

fn for_guest(call: &ProposedCall<'_>, settings: &str) -> wit::Call {
    let tool = call.tool;
    let annotations = &tool.annotations;
    wit::Call {
        tool: tool.full_name.as_str().to_owned(),
        client: tool.client.as_ref().map(|client| client.as_str().to_owned()).unwrap_or_default(),
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

fn from_guest(verdict: wit::Verdict) -> GuardVerdict {
    match verdict {
        wit::Verdict::Allow => GuardVerdict::Allow,
        wit::Verdict::Rewrite(json) => GuardVerdict::Rewrite(json),
        wit::Verdict::Deny(wit::Denial { code, reason }) => GuardVerdict::Deny { code, reason },
        wit::Verdict::Ask(reason) => GuardVerdict::Ask(reason),
    }
}
