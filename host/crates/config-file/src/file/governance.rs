//! `governance`, as written: virtual keys, and the sets that they name. Teams and customers are in
//! [`team`](super::team), limits in [`limits`](super::limits).

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    forms::SHA256,
    limits::{Budget, CallRateLimit, ModelConfig, PricingOverride, RateLimit},
    ranged::Flag,
    team::{Customer, Team},
    tool_manager::ApprovalChoice,
};
use crate::env_text::EnvText;

/// Credentials of callers, and the tools that each opens.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Governance {
    /// Credentials of callers.
    pub virtual_keys: Vec<VirtualKey>,
    /// Named sets of rows, for virtual keys and for the senders of access tokens.
    pub roles: Vec<Role>,
    /// Named sets of clients that virtual keys can be bound to.
    pub environments: Vec<Environment>,
    /// Groups of virtual keys, which may own clients.
    pub teams: Vec<Team>,
    /// Groups of teams and virtual keys.
    pub customers: Vec<Customer>,
    /// Limits on requests to single models.
    pub model_configs: Vec<ModelConfig>,
    /// Prices of models in place of those that the gateway knows.
    pub pricing_overrides: Vec<PricingOverride>,
}

/// A named set of rows.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Its name: 1 to 48 letters, digits, `.`, `_` or `-`.
    pub name: String,
    /// A note for people.
    #[serde(rename = "description")]
    _description: Option<String>,
    /// Tools that it opens, by client.
    #[serde(default)]
    pub mcp_configs: Vec<KeyRow>,
}

/// A named set of clients. The requests of a virtual key that is bound to it see no other client.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Its name.
    pub name: String,
    /// A note for people.
    #[serde(rename = "description")]
    _description: Option<String>,
    /// Its clients.
    pub clients: Vec<String>,
    /// Tools of its clients that are taken away: `client-tool`, with the source's own name of the
    /// tool, or `client-*`. Upper and lower case of the tool are the same.
    #[serde(default)]
    pub tools_to_exclude: Vec<String>,
}

/// A credential of callers. It opens the tools of its rows and those of clients with
/// `allow_on_all_virtual_keys`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VirtualKey {
    /// Identifier that never changes. With `value_sha256`, what the gateway stores for the key belongs
    /// to this identifier, and is kept when the credential is rotated; else it belongs to the
    /// credential.
    pub id: Option<String>,
    /// Name for people; appears in logs.
    pub name: String,
    /// A note for people.
    #[serde(rename = "description")]
    _description: Option<String>,
    /// The credential: `sk-bf-` and more, together at least 20 characters; may be `env.NAME`. Without it and
    /// `value_sha256`, the gateway makes one when it first starts with the key, prints it once on standard
    /// error, and keeps its digest in the store.
    pub value: Option<EnvText>,
    /// SHA-256 of the credential, as 64 hexadecimal digits, instead of `value`: the file then has no
    /// secret.
    #[schemars(extend("pattern" = SHA256))]
    pub value_sha256: Option<String>,
    /// SHA-256 of the credential before a rotation, which is valid until `previous_valid_until`.
    #[schemars(extend("pattern" = SHA256))]
    pub previous_value_sha256: Option<String>,
    /// Time until which the credential before a rotation is valid (RFC 3339).
    #[schemars(extend("format" = "date-time"))]
    pub previous_valid_until: Option<String>,
    /// Time from which the key is refused (RFC 3339), such as `2027-01-31T12:00:00Z`. Default: never.
    #[schemars(extend("format" = "date-time"))]
    pub expires_at: Option<String>,
    /// SHA-256 of certificates of callers, in DER format, each as 64 hexadecimal digits: the key is refused on
    /// a connection without one of them. Needs `server.tls.client_ca`. Default: no certificate is needed.
    #[schemars(inner(regex(pattern = SHA256)))]
    pub client_certificate_sha256: Option<Vec<String>>,
    /// False to refuse the key.
    #[serde(default)]
    pub is_active: Flag<true>,
    /// Treatment of a model's calls that need an approval. Default: that of `tool_manager_config`.
    pub approval: Option<ApprovalChoice>,
    /// Tools that it opens, by client.
    #[serde(default)]
    pub mcp_configs: Vec<KeyRow>,
    /// Names of roles, at most 16. It opens their rows beside its own; what one row excludes, no other
    /// opens.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Name of the environment that it is bound to. Default: none.
    pub environment: Option<String>,
    /// Name or identifier of the team that it belongs to. The clients of the team belong to it too. Default:
    /// none.
    pub team_id: Option<String>,
    /// Name or identifier of the customer that it belongs to, unless it belongs to a team. Default: none.
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

/// Digest of the credential of a virtual key that has none in the file, as the store has it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyValue {
    /// Identifier of the key, unless the file has one.
    pub id: String,
    /// As in [`VirtualKey`].
    pub value_sha256: String,
    /// As in [`VirtualKey`].
    pub previous_value_sha256: Option<String>,
    /// As in [`VirtualKey`].
    pub previous_valid_until: Option<String>,
}

/// Tools of one client that a virtual key or a role opens. The row replaces `allow_on_all_virtual_keys`, even
/// if it lists nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRow {
    /// The client.
    pub mcp_client_name: String,
    /// Tools, by the source's own names; `["*"]` opens all.
    #[serde(default)]
    pub tools_to_execute: Vec<String>,
    /// Tools that are taken away, by the source's own names; `["*"]` takes away all. Upper and lower
    /// case are always the same.
    #[serde(default)]
    pub tools_to_exclude: Vec<String>,
    /// Resources, by URI, as in the client's `resources_to_read`.
    #[serde(default)]
    pub resources_to_read: Vec<String>,
    /// Prompts, by the source's own names; `["*"]` opens all.
    #[serde(default)]
    pub prompts_to_get: Vec<String>,
    /// For a row of a virtual key: limits on the key's calls of this client.
    pub rate_limit: Option<CallRateLimit>,
}
