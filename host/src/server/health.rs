//! `GET /health`: whether the gateway is there, for whoever restarts it. Open to all, so it tells
//! no names.

use serde_json::json;

use super::{
    App,
    respond::{self, Reply},
};
use crate::catalog::State;

/// Says that the gateway is there and how many sources of tools it has. One that is away does not
/// make it unhealthy.
pub(super) fn show(app: &App) -> Reply {
    let snapshot = app.catalog.snapshot();
    let total = snapshot.clients().count();
    let connected = snapshot.clients().filter(|client| client.state == State::Connected).count();
    let version = env!("CARGO_PKG_VERSION");
    let mut health = json!({"status": "ok", "version": version, "clients": {"connected": connected, "total": total}});
    for (name, read) in &app.hooks.gauges {
        health[*name] = read();
    }
    respond::json(&health)
}
