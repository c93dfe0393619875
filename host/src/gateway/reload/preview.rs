//! The changes that another content of the configuration file would make. Nothing is taken.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{Freshness, Reloader, outcome::KeyChanges, report};
use airlock_config::{ConfigError, Fingerprint};
use airlock_management::{Changed, Differences, Preview};

impl Reloader {
    /// Compares the settings that were taken with those that this content of the file would give, beside
    /// the entries of the store. Fails if the store cannot be read. A configuration without a file
    /// has nothing to compare, and the result is empty.
    pub(crate) async fn preview(&self, file: Value) -> Result<Preview, ConfigError> {
        let Some(source) = self.source().cloned() else { return Ok(Preview::default()) };
        let mut taken = self.0.taken.lock().await;
        let entries = self.entries(&mut taken, Freshness::Present).await?;
        let before = taken.fingerprint.clone();
        let keys = taken.keys.clone();
        drop(taken);
        let merging = spawn_blocking(move || source.preview(&file, &entries)).await;
        let merged = merging.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()));
        Ok(match merged {
            Err(errors) => Preview { errors, ..Preview::default() },
            Ok(merged) => {
                let config = &merged.config;
                let has_code_mode = self.0.parts.has_code_mode;
                Preview {
                    errors: Vec::new(),
                    clients: clients(&before, &config.fingerprint),
                    virtual_keys: virtual_keys(KeyChanges::new(&keys, &config.keys)),
                    restart: report::pending(&self.0.started, config, has_code_mode),
                }
            }
        })
    }
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
