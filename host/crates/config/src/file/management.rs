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
pub(crate) struct Management {
    /// True for no management API: no socket, and no setup token.
    pub(crate) disabled: bool,
    /// False for no page for operators at `/admin`. Default: true.
    pub(crate) page: Option<bool>,
    /// Directory of reports of test suites, `*.json`, which operators read. Default: none.
    pub(crate) reports: Option<PathBuf>,
    /// Path of a Unix socket for programs of the gateway's user; `""` for none. Default:
    /// `airlock.sock` beside this file.
    pub(crate) socket: Option<PathBuf>,
    /// Operators, in addition to those that the API adds.
    pub(crate) operators: Vec<Operator>,
    /// Login of operators with a browser, at an identity provider. Default: none.
    pub(crate) oidc: Option<Oidc>,
}

/// Login of operators at an identity provider, with OIDC. There, the redirect URI of the client is
/// `server.external_url` with `/api/session/callback`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Oidc {
    /// Identifier of the provider, as its ID tokens have it in `iss`: an https URL.
    pub(crate) issuer: String,
    /// Identifier of the gateway's client at the provider.
    pub(crate) client_id: String,
    /// Secret of this client; may be `env.NAME`. Default: none, for a public client.
    pub(crate) client_secret: Option<EnvText>,
    /// Scopes to ask for, `openid` among them. Default: `openid`, `profile` and `email`.
    pub(crate) scopes: Option<Vec<String>>,
    /// Difference between the clocks of provider and gateway that is tolerated.
    #[serde(default)]
    pub(crate) clock_skew: Time<0, { 5 * MINUTE }, MINUTE>,
    /// The table of roles. The first row that matches the ID token decides; a login without one is
    /// refused.
    #[serde(default)]
    pub(crate) roles: Vec<OidcRole>,
    /// Time without a request after which a session ends.
    #[serde(default)]
    pub(crate) session_idle: Time<{ 5 * MINUTE }, DAY, { 8 * HOUR }>,
    /// Longest time of a session, however it is used.
    #[serde(default)]
    pub(crate) session_max: Time<{ 5 * MINUTE }, DAY, DAY>,
}

/// A row of the table of roles.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OidcRole {
    /// Name of a claim, or the path to a nested one, such as `realm_access.roles`. `email` counts only if
    /// the provider has verified it.
    pub(crate) claim: String,
    /// Values, of which the claim has one: as its text, or in its list.
    pub(crate) values: Vec<String>,
    /// Acts that the operator may do.
    pub(crate) role: OperatorRole,
    /// True if the operator may read arguments and results of calls that are not its own.
    #[serde(default)]
    pub(crate) sees_payloads: bool,
}

/// An operator with a token. Needs either `token` or `token_sha256`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Operator {
    /// Name for people, which the record of changes has: 1 to 64 characters.
    pub(crate) name: String,
    /// Acts that the operator may do.
    pub(crate) role: OperatorRole,
    /// The token: at least 32 characters; may be `env.NAME`.
    pub(crate) token: Option<EnvText>,
    /// SHA-256 of the token, as 64 hexadecimal digits, instead of `token`.
    #[schemars(extend("pattern" = SHA256))]
    pub(crate) token_sha256: Option<String>,
    /// True if the operator may read arguments and results of calls that are not its own.
    #[serde(default)]
    pub(crate) sees_payloads: bool,
}

/// Role of an operator. Every role may read settings and states, without secrets.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OperatorRole {
    /// Changes nothing.
    Viewer,
    /// Decides about calls that wait for an approval.
    Approver,
    /// Changes clients and keys, reconnects servers and reloads plugins; decides about no call.
    Operator,
    /// May do everything.
    Admin,
}
