//! `GET /v1/models`: the valid values of `model`.

use serde_json::json;

use super::{
    App, Sender,
    respond::{self, Reply},
};

/// Lists the models of every provider that responds. The list is the same for every caller.
pub(super) async fn list(app: &App, _: &Sender) -> Reply {
    respond::json(&json!({"object": "list", "data": app.models.list().await}))
}
