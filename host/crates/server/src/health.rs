//! `GET /health`: liveness, for the supervisor that restarts the gateway. Needs no key, so the
//! response contains no names.

use std::sync::Arc;

use serde_json::json;

use super::{
    App,
    respond::{self, Reply},
};
use airlock_catalog::{SourceState, ToolSource};

/// Reports that the gateway is alive and the number of its sources of tools. An unavailable source
/// does not make the gateway unhealthy.
pub(super) fn show(app: &App) -> Reply {
    let snapshot = app.catalog.snapshot();
    let total = snapshot.clients().count();
    let starting = snapshot.clients().filter(|client| is_starting(client)).count();
    let connected =
        snapshot.clients().filter(|client| client.state == SourceState::Connected).count();
    let version = env!("CARGO_PKG_VERSION");
    let mut health = json!({"status": "ok", "version": version, "clients": {"connected": connected, "starting": starting, "total": total}});
    let (sessions, streams) = app.sessions.usage();
    health["mcp"] = json!({"sessions": sessions, "streams": streams});
    for (name, read) in &app.hooks.gauges {
        health[*name] = read();
    }
    respond::json(&health)
}

/// Returns whether a source was never listed and has not failed: requests see a part of the tools.
fn is_starting(client: &Arc<ToolSource>) -> bool {
    client.state == SourceState::Connecting && !client.is_listed
}
