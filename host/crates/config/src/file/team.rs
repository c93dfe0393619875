//! `governance.teams` and `governance.customers`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

/// A group of virtual keys.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Team {
    /// Identifier, by which others may name the team. Default: none.
    pub(crate) id: Option<String>,
    /// Its name.
    pub(crate) name: String,
    /// A note for people.
    #[serde(rename = "description")]
    _description: Option<String>,
    /// Name or identifier of the customer that it belongs to. Default: none.
    pub(crate) customer_id: Option<String>,
}

/// A group of teams and virtual keys.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Customer {
    /// Identifier, by which others may name the customer. Default: none.
    pub(crate) id: Option<String>,
    /// Its name.
    pub(crate) name: String,
    /// A note for people.
    #[serde(rename = "description")]
    _description: Option<String>,
}
