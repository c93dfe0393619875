//! Warns about settings of a configuration that weaken the gateway.

use tracing::warn;

use airlock_config::{Config, Source};
use airlock_core::tool::ClientName;

/// Logs the servers whose definitions are used unchecked, of those for which `is_new` returns true.
pub(super) fn report_without_pins(config: &Config, is_new: impl Fn(&ClientName) -> bool) {
    for client in config.clients.iter().filter(|client| is_new(&client.name)) {
        if let Source::Upstream(settings) = &client.source
            && settings.pin == airlock_mcp_client::Pinning::Off
        {
            warn!(client = %client.name, "definitions are not pinned: a changed tool is used unchecked");
        }
    }
}

/// Logs that all tools are switched off.
pub(super) fn report_switch(is_off: bool) {
    if is_off {
        warn!(
            "all tools are switched off by `mcp.disabled`: none is offered, and every call fails"
        );
    }
}

/// Logs the MCP servers that can act as callers and as the operator: a child process reaches the port
/// of the gateway, and without virtual keys the gateway cannot tell it from others on its machine.
pub(super) fn report_local_callers(config: &Config) {
    if config.server.require_virtual_key {
        return;
    }
    let clients = config.clients.iter().filter(|client| match &client.source {
        Source::Upstream(settings) => {
            settings.transport.program().is_some() && !settings.transport.has_no_network()
        }
        Source::Plugin(_) => false,
    });
    let clients = clients.map(|client| client.name.as_str()).collect::<Vec<_>>().join(", ");
    if !clients.is_empty() {
        warn!(
            clients,
            "these servers are processes on the machine of the gateway, which requires no virtual \
             key: they can call every tool; set server.require_virtual_key, or see docs/security.md"
        );
    }
}

/// Logs that requests need no virtual key any more, and the servers that can act as callers because of it.
pub(super) fn report_open(config: &Config) {
    warn!(
        "requests need no virtual key any more, because `server.require_virtual_key` was set to false"
    );
    report_local_callers(config);
}

/// Logs the plugins that are not pinned. A gateway that serves loads changed components by itself,
/// so the operator must know which of them are loaded without a check.
pub(super) fn report_unpinned(config: &Config) {
    let clients = config.unpinned();
    if !clients.is_empty() {
        let clients = clients.iter().map(ClientName::as_str).collect::<Vec<_>>().join(", ");
        warn!(
            clients,
            "plugins are not pinned: a replaced component is loaded unchecked; \
             `airlock plugin accept --all` pins them"
        );
    }
}
