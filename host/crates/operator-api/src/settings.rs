//! Settings of the management API.

use std::{fmt, path::PathBuf, time::Duration};

use airlock_core::operator::{Operator, Role};
use airlock_http::body::BodySettings;
use airlock_identity::LoginSettings;

/// Settings of the requests of operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorSettings {
    /// Bounds on the bodies of requests.
    pub bodies: BodySettings,
    /// True if every request of a caller needs a virtual key.
    pub requires_key: bool,
    /// True for no page at `/admin`.
    pub hides_page: bool,
    /// Directory of the reports that operators read; `None` for none.
    pub reports: Option<PathBuf>,
}

/// Settings of the management API. The default has no socket and no operators.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManagementSettings {
    /// True for no management API: no socket, and no setup token.
    pub disabled: bool,
    /// True for no page at `/admin`.
    pub hides_page: bool,
    /// Directory of the reports that operators read; `None` for none.
    pub reports: Option<PathBuf>,
    /// Path of the Unix socket for programs of the gateway's user; `None` for no socket.
    pub socket: Option<PathBuf>,
    /// Operators of the configuration file. Their names and tokens are unique.
    pub operators: Vec<ConfiguredOperator>,
    /// Login of operators at an identity provider; `None` for none.
    pub oidc: Option<OidcSettings>,
}

/// Login of operators at an identity provider. A change of any of it ends all sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// The provider, and the client that the gateway is there.
    pub login: LoginSettings,
    /// The table of roles. The first row that matches decides; a login without one is refused.
    pub roles: Vec<OidcRole>,
    /// Time without a use after which a session ends.
    pub session_idle: Duration,
    /// Longest time of a session.
    pub session_max: Duration,
}

/// A row of the table of roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcRole {
    /// Name of a claim of the ID token, or the path to a nested one.
    pub claim: String,
    /// Values, of which the claim must have one.
    pub values: Vec<String>,
    /// Role of an operator with such a claim.
    pub role: Role,
    /// True if such an operator may read arguments and results of calls that are not its own.
    pub sees_payloads: bool,
}

/// An operator of the configuration file.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfiguredOperator {
    /// The operator.
    pub operator: Operator,
    /// SHA-256 of its token. The token itself is not kept.
    pub token_digest: [u8; 32],
}

impl fmt::Debug for ConfiguredOperator {
    /// Leaves the digest out, because a weak token could be guessed from it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.operator, f)
    }
}
