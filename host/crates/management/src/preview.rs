//! `POST /api/config/diff`: what the running gateway would change if its configuration file had another
//! content. Nothing is changed.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    body,
    gateway::NotApplied,
    refusal::{Result, conflict, refusal},
    service::Service,
};

impl Service {
    pub(crate) async fn preview(&self, body: Option<Value>) -> Result<Value> {
        let file = Value::Object(body::members(body)?);
        let Some(gateway) = &self.gateway else {
            return Err(conflict("no gateway runs, so there is nothing to compare the file with"));
        };
        if self.settings.source.is_none() {
            let message = "the gateway has no configuration file, so there is nothing to compare";
            return Err(conflict(message));
        }
        let _place = self.place().await;
        let preview = gateway.preview(file).await.map_err(|NotApplied(reason)| {
            refusal(StatusCode::SERVICE_UNAVAILABLE, "settings_unavailable", reason)
        })?;
        let mut answer = json!(preview);
        answer["same"] = preview.is_empty().into();
        Ok(answer)
    }
}
