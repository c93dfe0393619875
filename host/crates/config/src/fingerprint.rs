//! Compares two readings of the configuration file without keeping its values, some of which are
//! secrets.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher as _, RandomState},
    sync::LazyLock,
};

use serde_json::Value;

use airlock_config_file::{key_path::KeyPath, refused::NamedPart};

/// A hash of each value of a configuration, by its key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fingerprint(BTreeMap<FingerprintKey, u64>);

/// Place of a value in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FingerprintKey {
    /// The client whose entry has it; `None` if it is not below `mcp.client_configs`.
    pub client: Option<String>,
    /// Key path below the entry, or below the root.
    pub path: String,
}

impl Fingerprint {
    /// Hashes every value that is not an object with members. An array is one value.
    pub(super) fn new(json: &Value) -> Self {
        let mut fingerprint = Self::default();
        fingerprint.add(None, &KeyPath::default(), json);
        fingerprint
    }

    /// Returns the keys whose values differ, those that only one of both has included.
    pub fn differences<'a>(&'a self, other: &'a Self) -> Vec<&'a FingerprintKey> {
        let changed = self.0.iter().filter(|(key, hash)| other.0.get(key) != Some(hash));
        let new = other.0.keys().filter(|key| !self.0.contains_key(key));
        let mut keys: Vec<_> = changed.map(|(key, _)| key).chain(new).collect();
        keys.sort();
        keys
    }

    /// Returns whether a key that is not a client's has a value.
    pub fn has(&self, path: &str) -> bool {
        self.0.contains_key(&FingerprintKey { client: None, path: path.to_owned() })
    }

    /// Returns the names of the clients that have values.
    pub fn clients(&self) -> BTreeSet<&str> {
        self.0.keys().filter_map(|key| key.client.as_deref()).collect()
    }

    fn add(&mut self, client: Option<&str>, path: &KeyPath, value: &Value) {
        match value {
            Value::Object(members) if !members.is_empty() => {
                for (name, member) in members {
                    self.add(client, &path.member(name), member);
                }
            }
            Value::Array(clients) if client.is_none() && *path == NamedPart::Clients.key() => {
                for (index, entry) in clients.iter().enumerate() {
                    // An entry without a name is an error, which is reported elsewhere.
                    let name =
                        entry["name"].as_str().map_or_else(|| index.to_string(), str::to_owned);
                    self.add(Some(&name), &KeyPath::default(), entry);
                }
            }
            _ => {
                let key =
                    FingerprintKey { client: client.map(str::to_owned), path: path.to_string() };
                self.0.insert(key, hash(value));
            }
        }
    }
}

/// Hashes a value. The key of the hash is random, so that a hash says nothing about a secret.
fn hash(value: &Value) -> u64 {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEY.hash_one(value.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn differences(before: &Value, after: &Value) -> Vec<String> {
        let before = Fingerprint::new(before);
        let after = Fingerprint::new(after);
        let differences = before.differences(&after).into_iter().map(|key| match &key.client {
            Some(client) => format!("{client}: {}", key.path),
            None => key.path.clone(),
        });
        differences.collect()
    }

    #[test]
    fn changed_new_and_removed_values_are_named_by_their_keys() {
        let before = json!({
            "server": {"listen": "127.0.0.1:1", "max_connections": 3},
            "providers": [{"name": "one"}],
            "mcp": {"client_configs": [
                {"name": "text", "wasm_config": {"grants": {"http": ["api"]}, "config": {}}},
                {"name": "old", "connection_type": "stdio"},
            ]},
        });
        assert!(differences(&before, &before).is_empty());
        let mut after = before.clone();
        after["server"]["listen"] = json!("127.0.0.1:2");
        after["providers"][0]["name"] = json!("two");
        after["mcp"]["client_configs"][0]["wasm_config"]["grants"]["kv"] = json!({"notes": {}});
        after["mcp"]["client_configs"][0]["wasm_config"]["config"] = json!({"days": 3});
        after["mcp"]["client_configs"].as_array_mut().expect("a list").pop();
        assert_eq!(
            differences(&before, &after),
            [
                "providers",
                "server.listen",
                "old: connection_type",
                "old: name",
                "text: wasm_config.config",
                "text: wasm_config.config.days",
                "text: wasm_config.grants.kv.notes",
            ]
        );
    }

    #[test]
    fn the_order_of_clients_is_no_difference() {
        assert!(differences(&clients(["a", "b"]), &clients(["b", "a"])).is_empty());
    }

    fn clients(names: [&str; 2]) -> Value {
        json!({"mcp": {"client_configs": names.map(|name| json!({"name": name}))}})
    }
}
