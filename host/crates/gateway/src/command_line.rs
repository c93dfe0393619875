//! Parts of a gateway that the command line of the package `airlock` shows or uses. `airlock` does not re-export
//! them: they are no part of its public API.

use std::{future::Future, sync::Arc};

use super::{Gateway, GatewayBuilder, GatewayError};
use airlock_agent::approvals::Approvals;
use airlock_core::door::{Caller, Keys, Origin, ScriptLanguage};
use airlock_sandbox::UseRecorder;
use airlock_scripts::CodeMode;
use airlock_upstream::pins::Pins;

pub use super::serve::bind;

/// Makes the gateway record which of their grants the plugins use.
pub fn record_uses(mut builder: GatewayBuilder, recorder: UseRecorder) -> GatewayBuilder {
    builder.recorder = Some(recorder);
    builder
}

/// Makes the gateway load the executor of scripts when a script first needs it, which then waits for it, and not at
/// the start.
pub fn executor_on_demand(mut builder: GatewayBuilder) -> GatewayBuilder {
    builder.loads_executor = false;
    builder
}

/// Returns the caller of [`Gateway::caller`], whose scripts are in `language`; in that of the configuration if
/// it is `None`.
pub fn caller_in(gateway: &Gateway, origin: Origin, language: Option<ScriptLanguage>) -> Caller {
    gateway.caller_in(origin, language)
}

/// Waits until the executor of a language is loaded, if a client is in code mode.
pub async fn load_executor(
    gateway: &Gateway,
    language: Option<ScriptLanguage>,
) -> Result<(), GatewayError> {
    match gateway.0.parts.code_mode.needed_executor(language) {
        Some(executor) => Ok(executor.load().await?),
        None => Ok(()),
    }
}

/// Returns a future that completes once the settings in the store were read, so that requests may begin.
pub fn settings_read(gateway: &Gateway) -> impl Future<Output = ()> + Send + use<> {
    gateway.0.parts.reloader.settings_read().clone().cancelled_owned()
}

/// Returns a function that reads the metrics of `GET /metrics`, in the text format of `OpenMetrics`.
pub fn read_metrics(gateway: &Gateway) -> impl Fn() -> String + Send + Sync + use<> {
    let live = gateway.0.live.clone();
    move || live.open_metrics()
}

/// Returns the list of calls that wait for an approval.
pub fn approvals(gateway: &Gateway) -> Approvals {
    gateway.approvals()
}

/// Returns the pinned definitions of the MCP servers.
pub fn upstream_pins(gateway: &Gateway) -> &Pins {
    &gateway.0.parts.upstreams.0.pins
}

/// Returns the virtual keys of this moment.
pub fn keys(gateway: &Gateway) -> Arc<Keys> {
    gateway.0.parts.keys.snapshot()
}

/// Returns code mode.
pub fn code_mode(gateway: &Gateway) -> Arc<CodeMode> {
    gateway.0.parts.code_mode.now()
}
