//! Components in the store that an element of the configuration names.

use airlock_store::components::ComponentDigest;
use serde_json::{Map, Value};

const PLUGIN: &str = "wasm_config";
const STORED: &str = "stored";
const ACCEPTED: &str = "accepted";
const OFFERED: &str = "offered";

/// The components of a plugin that operators have uploaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoredComponents {
    /// The component that runs.
    pub accepted: Option<ComponentDigest>,
    /// The component that was uploaded last and is not accepted yet.
    pub offered: Option<ComponentDigest>,
}

impl StoredComponents {
    /// Returns the components of an element; `None` if it is no plugin with components in the store.
    pub fn read(element: &Value) -> Option<Self> {
        let stored = element.get(PLUGIN)?.get(STORED)?.as_object()?;
        Some(Self { accepted: digest(stored, ACCEPTED), offered: digest(stored, OFFERED) })
    }

    /// Writes the components into the element of a plugin.
    pub fn write(&self, element: &mut Value) {
        let digests = [(ACCEPTED, self.accepted), (OFFERED, self.offered)];
        let digests = digests.into_iter().filter_map(|(name, digest)| {
            digest.map(|digest| (name.to_owned(), Value::from(digest.to_string())))
        });
        element[PLUGIN][STORED] = Value::Object(digests.collect::<Map<_, _>>());
    }

    /// Returns all of them.
    pub fn digests(&self) -> Vec<ComponentDigest> {
        self.accepted.into_iter().chain(self.offered).collect()
    }
}

fn digest(stored: &Map<String, Value>, name: &str) -> Option<ComponentDigest> {
    stored.get(name)?.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn components_are_read_as_they_are_written() {
        let accepted = Some(ComponentDigest::compute(b"one"));
        let offered = Some(ComponentDigest::compute(b"two"));
        for stored in [
            StoredComponents { accepted, offered },
            StoredComponents { accepted: None, offered },
            StoredComponents { accepted, offered: None },
        ] {
            let mut element = json!({"name": "p", "wasm_config": {"grants": {}}});
            stored.write(&mut element);
            assert_eq!(StoredComponents::read(&element), Some(stored));
            assert_eq!(element["wasm_config"]["grants"], json!({}));
        }
        for other in [json!({}), json!({"wasm_config": {"component": "p.wasm"}}), json!([])] {
            assert_eq!(StoredComponents::read(&other), None);
        }
    }
}
