//! `GET /health`: liveness, for the supervisor that restarts the gateway. `GET /ready`: readiness, for
//! what decides whether the gateway gets requests. Neither needs a key, so the responses contain no names.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use super::App;
use airlock_catalog::{SourceState, ToolSource};
use airlock_http::respond::{self, Reply};

/// Reports that the gateway is alive and the number of its sources of tools. An unavailable source
/// does not make the gateway unhealthy.
pub(super) fn show(app: &App) -> Reply {
    let snapshot = app.parts.catalog.snapshot();
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

/// Reports whether the gateway takes requests: not before it has read the settings of its store, and not
/// once it stops.
pub(super) fn readiness(app: &App) -> Reply {
    let reason = if app.mcp.closing().is_cancelled() {
        "draining"
    } else if !app.hooks.settings_read.is_cancelled() {
        "settings_unavailable"
    } else {
        return respond::json(&json!({"status": "ready"}));
    };
    let mut reply = respond::json(&json!({"status": "unavailable", "reason": reason}));
    *reply.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    reply
}

/// Returns whether a source was never listed and has not failed: requests see a part of the tools.
fn is_starting(client: &Arc<ToolSource>) -> bool {
    client.state == SourceState::Connecting && !client.is_listed
}
