//! Bodies of requests about virtual keys.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Members of a key that a request makes or changes. One that is absent stays as it is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyMembers {
    /// The name of a new key, or that of the changed one: programs send the whole key.
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) is_active: Option<bool>,
    /// Empty to remove it.
    pub(super) expires_at: Option<String>,
    /// Empty for that of the configuration.
    pub(super) approval: Option<String>,
    /// Empty to remove them.
    pub(super) client_certificate_sha256: Option<Vec<String>>,
    pub(super) mcp_configs: Option<Vec<Value>>,
    pub(super) roles: Option<Vec<String>>,
    /// Empty for none.
    pub(super) environment: Option<String>,
    /// Empty or `null` for none.
    #[serde(default, deserialize_with = "cleared")]
    pub(super) team_id: Option<String>,
    /// Empty or `null` for none.
    #[serde(default, deserialize_with = "cleared")]
    pub(super) customer_id: Option<String>,
    /// Empty to remove them.
    pub(super) budgets: Option<Value>,
    /// Empty to remove it.
    pub(super) rate_limit: Option<Value>,
    pub(super) calendar_aligned: Option<bool>,
}

/// Reads a member that `null` clears, as an empty text does.
fn cleared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text: Option<String> = Deserialize::deserialize(deserializer)?;
    Ok(Some(text.unwrap_or_default()))
}

/// A rotation of one key.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Rotation {
    /// Time that the old value stays valid, such as `1h`. Absent: it is refused at once.
    pub(super) cooldown: Option<String>,
}

/// A rotation of many keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManyRotations {
    pub(super) ids: Vec<String>,
    pub(super) cooldown: Option<String>,
}
