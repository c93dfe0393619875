//! `governance.teams` and `governance.customers`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::limits::{Budget, RateLimit};

/// A group of virtual keys.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Team {
    /// Identifier, by which others may name the team. Default: none.
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// A note for people.
    #[serde(rename = "description")]
    _description: Option<String>,
    /// Name or identifier of the customer that it belongs to. Default: none.
    pub customer_id: Option<String>,
    /// Money that may be spent, each entry in windows of another length.
    #[serde(default)]
    pub budgets: Vec<Budget>,
    /// The same as `budgets` with one entry.
    pub budget: Option<Budget>,
    /// Limits on requests to models, tokens and calls of tools.
    pub rate_limit: Option<RateLimit>,
    /// True for windows of the calendar, in UTC: `1d` begins at midnight, `1w` on Monday, `1M`, `1Q` and `1Y` on
    /// the first day.
    #[serde(default)]
    pub calendar_aligned: bool,
}

/// A group of teams and virtual keys.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Customer {
    /// Identifier, by which others may name the customer. Default: none.
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// A note for people.
    #[serde(rename = "description")]
    _description: Option<String>,
    /// Money that may be spent, each entry in windows of another length.
    #[serde(default)]
    pub budgets: Vec<Budget>,
    /// The same as `budgets` with one entry.
    pub budget: Option<Budget>,
    /// Limits on requests to models, tokens and calls of tools.
    pub rate_limit: Option<RateLimit>,
    /// True for windows of the calendar, in UTC: `1d` begins at midnight, `1w` on Monday, `1M`, `1Q` and `1Y` on
    /// the first day.
    #[serde(default)]
    pub calendar_aligned: bool,
}
