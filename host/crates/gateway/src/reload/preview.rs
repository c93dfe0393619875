//! The changes that another content of the configuration file would make. Nothing is taken.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Freshness, Reloader,
    outcome::{KeyChanges, TakenKeys},
};
use airlock_config::{Config, ConfigError, Effect, Fingerprint, effect};
use airlock_management::{Changed, Differences, Preview};

/// Keys of the elements that are compared one by one.
const ELEMENTS: [&str; 2] = ["mcp.client_configs", "governance.virtual_keys"];

impl Reloader {
    /// Compares the settings that were taken with those that this content of the file would give, beside
    /// the entries of the store. Fails if the store cannot be read, or if a file that the content names is
    /// not read in time. A configuration without a file has nothing to compare, and the result is empty.
    pub(crate) async fn preview(&self, file: Value) -> Result<Preview, ConfigError> {
        let Some(source) = self.source().cloned() else { return Ok(Preview::default()) };
        let mut taken = self.0.taken.lock().await;
        let entries = self.entries(&mut taken, Freshness::Present).await?;
        let before = taken.fingerprint.clone();
        let keys = taken.keys.clone();
        drop(taken);
        let serving = self.0.parts.serving.clone();
        let unread = source.unread();
        let merged = self.0.previews.read(move || {
            let merged = source.preview(&file, &entries)?;
            serving.make(&merged.config).map(|_| merged)
        });
        Ok(match merged.await.ok_or(unread)? {
            Err(errors) => Preview { errors, ..Preview::default() },
            Ok(merged) => {
                let keys = KeyChanges::new(&keys, &TakenKeys::from(&merged.config));
                changes(&before, &self.0.started, &keys, &merged.config)
            }
        })
    }
}

/// Compares a configuration with the one that was taken `before`, and with that of the start.
pub(super) fn changes(
    before: &Fingerprint,
    started: &Fingerprint,
    keys: &KeyChanges,
    config: &Config,
) -> Preview {
    let after = &config.fingerprint;
    Preview {
        errors: Vec::new(),
        clients: clients(before, after),
        virtual_keys: virtual_keys(keys.clone()),
        settings: settings(before, after, Effect::Live),
        restart: settings(started, after, Effect::Restart),
    }
}

/// Returns the keys with this effect that differ, beside those of clients and of virtual keys, which are named
/// by themselves.
fn settings(before: &Fingerprint, after: &Fingerprint, wanted: Effect) -> Vec<String> {
    let differences = before.differences(after).into_iter();
    let own = differences.filter(|key| {
        let is_element = key.client.is_some() || ELEMENTS.contains(&key.path.as_str());
        !is_element && effect(&key.path) == Some(wanted)
    });
    let own: Vec<_> = own.map(|key| key.path.clone()).collect();
    own.iter().filter(|path| !has_key_within(&own, path)).cloned().collect()
}

/// Returns whether one of these keys is below a key. An object that was empty before has a value of its own,
/// beside the keys that are in it now.
fn has_key_within(keys: &[String], path: &str) -> bool {
    keys.iter().any(|key| key.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// Returns the clients that differ, with their keys.
fn clients(before: &Fingerprint, after: &Fingerprint) -> Differences {
    let known = before.clients();
    let wanted = after.clients();
    let mut changed = BTreeMap::<&str, Vec<String>>::new();
    for key in before.differences(after) {
        let client = key.client.as_deref();
        let both = client.filter(|name| known.contains(name) && wanted.contains(name));
        if let Some(name) = both {
            changed.entry(name).or_default().push(key.path.clone());
        }
    }
    let changed = changed.into_iter();
    Differences {
        added: wanted.difference(&known).map(|name| (*name).to_owned()).collect(),
        changed: changed.map(|(name, keys)| Changed { name: name.to_owned(), keys }).collect(),
        removed: known.difference(&wanted).map(|name| (*name).to_owned()).collect(),
    }
}

fn virtual_keys(KeyChanges { added, changed, removed }: KeyChanges) -> Differences {
    let changed = changed.into_iter().map(|name| Changed { name, keys: Vec::new() });
    Differences { added, changed: changed.collect(), removed }
}
