//! Digests of components and definitions, as the lock file records them.

use airlock_strings as text;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Returns `sha256:` and the digest of `bytes`, in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", text::hex(&Sha256::digest(bytes)))
}

/// Sorts the members of every object in a value by their names.
pub fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            members.sort_by(|one, other| one.0.cmp(&other.0));
            members.into_iter().collect::<serde_json::Map<_, _>>().into()
        }
        Value::Array(elements) => elements.into_iter().map(sorted).collect(),
        other => other,
    }
}
