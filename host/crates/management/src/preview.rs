//! `POST /api/config/diff`: what the running gateway would change if its configuration file had another
//! content. Nothing is changed.

use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    body,
    refusal::{conflict, refusal},
    service::{NotApplied, Service},
};
use airlock_config::Problem;
use airlock_operator_api::ManagementRefusal;

/// Changes that a configuration file would make.
#[derive(Debug, Default, Serialize)]
pub struct Preview {
    /// Problems, for which nothing of the file would be taken.
    pub errors: Vec<Problem>,
    /// Clients that differ.
    pub clients: Differences,
    /// Virtual keys that differ.
    pub virtual_keys: Differences,
    /// Other keys that differ and are taken while the gateway runs.
    pub settings: Vec<String>,
    /// Other keys of the file that differ from those with which the gateway was started, and are taken
    /// only when it is restarted.
    pub restart: Vec<String>,
}

/// Elements that differ, by their names.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    /// Those that the gateway does not have.
    pub added: Vec<String>,
    /// Those that it has with other settings.
    pub changed: Vec<Changed>,
    /// Those that it would not have any more.
    pub removed: Vec<String>,
}

/// An element that differs.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Its name.
    pub name: String,
    /// Keys of the element whose values differ, where they are known.
    pub keys: Vec<String>,
}

impl Preview {
    /// Returns whether the file is valid and would change nothing.
    pub fn is_empty(&self) -> bool {
        let Self { errors, clients, virtual_keys, settings, restart } = self;
        errors.is_empty()
            && clients.is_empty()
            && virtual_keys.is_empty()
            && settings.is_empty()
            && restart.is_empty()
    }
}

impl Differences {
    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

impl Service {
    pub(crate) async fn preview(&self, body: Option<Value>) -> Result<Value, ManagementRefusal> {
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
