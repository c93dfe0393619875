//! `management`, as written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    forms::SHA256,
    ranged::{DAY, HOUR, MINUTE, Time},
};
use crate::env_text::EnvText;

/// The management API, with which operators change clients and virtual keys while the gateway runs.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Management {
    /// True for no management API: no socket, and no setup token.
    pub disabled: bool,
    /// False for no page for operators at `/admin`. Default: true.
    pub page: Option<bool>,
    /// Directory of reports of test suites, `*.json`, which operators read. Default: none.
    pub reports: Option<PathBuf>,
    /// Path of a Unix socket for programs of the gateway's user; `""` for none. Default:
    /// `airlock.sock` beside this file.
    pub socket: Option<PathBuf>,
    /// Operators, in addition to those that the API adds.
    pub operators: Vec<Operator>,
    /// Login of operators with a browser, at an identity provider. Default: none.
    pub oidc: Option<Oidc>,
}

/// Login of operators at an identity provider, with OIDC. There, the redirect URI of the client is
/// `server.external_url` with `/api/session/callback`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Oidc {
    /// Identifier of the provider, as its ID tokens have it in `iss`: an https URL.
    pub issuer: String,
    /// Identifier of the gateway's client at the provider.
    pub client_id: String,
    /// Secret of this client; may be `env.NAME`. Default: none, for a public client.
    pub client_secret: Option<EnvText>,
    /// Scopes to ask for, `openid` among them. Default: `openid`, `profile` and `email`.
    pub scopes: Option<Vec<String>>,
    /// Difference between the clocks of provider and gateway that is tolerated.
    #[serde(default)]
    pub clock_skew: Time<0, { 5 * MINUTE }, MINUTE>,
    /// The table of roles. The first row that matches the ID token decides; a login without one is
    /// refused.
    #[serde(default)]
    pub roles: Vec<OidcRole>,
    /// Time without a use after which a session ends.
    #[serde(default)]
    pub session_idle: Time<{ 5 * MINUTE }, DAY, { 8 * HOUR }>,
    /// Longest time of a session, however it is used.
    #[serde(default)]
    pub session_max: Time<{ 5 * MINUTE }, DAY, DAY>,
}

/// A row of the table of roles.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcRole {
    /// Name of a claim, or the path to a nested one, such as `realm_access.roles`. `email` counts only if
    /// the provider has verified it.
    pub claim: String,
    /// Values, of which the claim has one: as its text, or in its list.
    pub values: Vec<String>,
    /// Acts that the operator may do.
    pub role: OperatorRole,
    /// True if the operator may read arguments and results of calls that are not its own.
    #[serde(default)]
    pub sees_payloads: bool,
}

/// An operator with a token. Needs either `token` or `token_sha256`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// Name for people, which the record of changes has: 1 to 64 characters.
    pub name: String,
    /// Acts that the operator may do.
    pub role: OperatorRole,
    /// The token: at least 32 characters; may be `env.NAME`.
    pub token: Option<EnvText>,
    /// SHA-256 of the token, as 64 hexadecimal digits, instead of `token`.
    #[schemars(extend("pattern" = SHA256))]
    pub token_sha256: Option<String>,
    /// True if the operator may read arguments and results of calls that are not its own.
    #[serde(default)]
    pub sees_payloads: bool,
}

/// Role of an operator. Every role may read settings and states, without secrets.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperatorRole {
    /// Changes nothing.
    Viewer,
    /// Decides about calls that wait for an approval.
    Approver,
    /// Changes clients and keys, reconnects servers and reloads plugins; decides about no call.
    Operator,
    /// May do everything.
    Admin,
}
