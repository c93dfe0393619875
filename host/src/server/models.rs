//! `GET /v1/models`: what `model` may say.

use serde_json::json;

use super::{
    App, Sender,
    respond::{self, Reply},
};

/// Lists the models of every provider that answers. They are the same for every sender.
pub(super) async fn list(app: &App, _: &Sender) -> Reply {
    respond::json(&json!({"object": "list", "data": app.models.list().await}))
}
