//! Credentials of virtual keys that have none in the configuration file. The gateway makes one for each
//! when it first starts with the key, shows it once, and keeps its digest in the store: of gateways on one
//! store, one makes it.
//!
//! The digest is an entry of its own, so that it stays when the key is edited in the file, and so that a
//! credential that was rotated does not come back.

use std::time::SystemTime;

use serde_json::{Value, json};
use tracing::warn;
use uuid::Uuid;

use crate::{
    change::{ChangeContent, ConfigState, RequestedChange, StoredChange, entry_content},
    key::new_value,
    refusal::{Result, invalid, not_found},
    service::Service,
    token::{self, TokenDigest},
};
use airlock_config::Element;
use airlock_core::{act::Actor, operator::Operator, secret::Secret};
use airlock_store::entries::EntryKind;
use airlock_strings::hex;

const KIND: EntryKind = EntryKind::KeyValue;

/// A credential that was made for a virtual key. It is shown once.
#[derive(Debug)]
pub struct NewKeyValue {
    /// Name of the key.
    pub key: String,
    /// The credential.
    pub value: Secret,
}

impl Service {
    /// Makes a credential for each active key that has none, and hands those that this gateway has made to
    /// `show`, each as soon as it is stored. A key whose credential cannot be opened here is skipped. Fails if
    /// the store or the configuration file cannot be used, with the first reason, after all keys were tried.
    pub async fn make_key_values(&self, show: impl Fn(&NewKeyValue)) -> Result<()> {
        let keys = keys_without_value(&self.state().await?);
        let mut last = None;
        let mut failure = None;
        for key in &keys {
            match self.make_value(key, &show).await {
                Ok(made) => last = made.or(last),
                Err(refused) => failure = failure.or(Some(refused)),
            }
        }
        if let Some(id) = last {
            self.apply(id, KIND).await;
        }
        failure.map_or(Ok(()), Err)
    }

    /// Makes and shows the credential of one key. Returns the number of the change; `None` if another gateway
    /// has made one before.
    async fn make_value(&self, key: &str, show: &impl Fn(&NewKeyValue)) -> Result<Option<i64>> {
        let value = new_value()?;
        let digest = hex(&token::digest(value.expose()));
        let document = json!({"id": Uuid::new_v4().to_string(), "value_sha256": digest});
        let by = Actor::Gateway;
        let storing = self.store_change(&by, |state| {
            state.check_readable(KIND, key)?;
            Ok(plan_new(state, key, &document))
        });
        match storing.await? {
            StoredChange::Made { id, .. } => {
                show(&NewKeyValue { key: key.to_owned(), value });
                Ok(Some(id))
            }
            StoredChange::Unchanged(_) => Ok(None),
        }
    }

    /// Removes the credential of a key that was deleted. A key of this name gets another one.
    pub(crate) async fn forget_value(&self, actor: &Operator, key: &str) -> Result<()> {
        let forgetting = self.change(actor, |_| {
            let content = ChangeContent::Earlier(None);
            Ok(RequestedChange {
                action: "key.value.delete",
                kind: KIND,
                name: key.to_owned(),
                content,
            })
        });
        forgetting.await.map(drop)
    }
}

/// Returns the keys for which a credential may be made.
fn keys_without_value(state: &ConfigState) -> Vec<String> {
    let keys = state.merged.config.keys_without_value.iter();
    let keys = keys.filter(|key| {
        let checked = state.check_readable(KIND, key);
        checked
            .inspect_err(|refused| {
                let reason = &refused.message;
                warn!(key, reason, "a virtual key has no credential here");
            })
            .is_ok()
    });
    keys.cloned().collect()
}

/// Returns the name of the credential that goes with a key that is deleted. Fails if the store has none.
pub(crate) fn value_to_remove(state: &ConfigState, actor: &Operator, key: &str) -> Result<String> {
    let found = match state.entry(KIND, key) {
        Some(entry) => Ok(entry.name.clone()),
        None => state.check_readable(KIND, key).and(Err(not_found("Virtual key not found"))),
    };
    state.name_to_remove(actor, KIND, key, found)
}

/// Returns whether the element of a key has no credential.
pub(crate) fn has_no_value(key: &Element) -> bool {
    key.value.as_ref().is_some_and(|key| key["value"].is_null() && key["value_sha256"].is_null())
}

/// Plans a new credential, unless the key has one already.
fn plan_new(state: &ConfigState, key: &str, document: &Value) -> RequestedChange {
    let content = match state.entry(KIND, key) {
        Some(entry) => ChangeContent::Earlier(Some(entry_content(entry))),
        None => ChangeContent::Element(document.clone()),
    };
    RequestedChange { action: "key.value.create", kind: KIND, name: key.to_owned(), content }
}

/// Plans another credential. The one before stays valid until `until`.
pub(crate) fn rotated(
    state: &ConfigState,
    key: &str,
    digest: TokenDigest,
    until: Option<SystemTime>,
) -> Result<RequestedChange> {
    let stored = state.entry(KIND, key).and_then(|entry| entry.document.as_deref());
    // It was written by this program.
    let stored: Value = stored.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let id = stored["id"].as_str().map(str::to_owned);
    let id = id.unwrap_or_else(|| Uuid::new_v4().to_string());
    let mut document = json!({"id": id, "value_sha256": hex(&digest)});
    if let Some(until) = until {
        let previous = stored["value_sha256"].as_str().ok_or_else(|| {
            invalid("the key has no value yet that could stay valid: leave out `cooldown`")
        })?;
        document["previous_value_sha256"] = previous.into();
        document["previous_valid_until"] =
            humantime::format_rfc3339_seconds(until).to_string().into();
    }
    let content = ChangeContent::Element(document);
    Ok(RequestedChange { action: "key.rotate", kind: KIND, name: key.to_owned(), content })
}
