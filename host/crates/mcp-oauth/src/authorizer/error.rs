//! Reasons that a request has no access token.

use std::fmt;

use crate::{logins::LoginsUnavailable, token_endpoint::TokenError};
use airlock_core::tool::ClientName;

/// Reason that a request has no access token. Nothing was executed.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizationError {
    /// The operator has to log in.
    #[error(transparent)]
    Login(#[from] LoginNeeded),
    /// The server refuses a request of a user with a new token too: no login mends that.
    #[error("the server refuses this request with a new access token too")]
    Declined,
    /// The server asks for more rights than the settings permit: no login of a user mends that.
    #[error("the server asks for more rights than `oauth_config.scopes` permits{0}")]
    Limited(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] LoginsUnavailable),
    /// The stored token cannot be sent.
    #[error("the stored login cannot be used")]
    Unusable,
    /// The tokens could not be refreshed. A later attempt may succeed.
    #[error("the access token was not refreshed")]
    Refresh(#[from] TokenError),
    /// The authorization server refuses the client that the settings name: no login mends that.
    #[error(
        "the authorization server refuses the client of the gateway ({0}); the operator has to correct `oauth_config`"
    )]
    Client(String),
    /// The server refuses the token for which the caller's was exchanged.
    #[error("the server refuses the token for which that of the caller was exchanged")]
    Exchanged,
    /// The token is refused, and none may be requested in its place: the login cannot be renewed, or
    /// it was for the same reason a moment ago.
    #[error("there is no other access token")]
    NoOther,
    /// The tokens that were received last are not stored yet.
    #[error("the access token is not refreshed, because the store of logins cannot be written")]
    Unstored,
    /// An earlier attempt failed a moment ago.
    #[error("the access token could not be refreshed a moment ago")]
    Paused,
    /// Another process takes too long to refresh the tokens.
    #[error("another process refreshes the access token")]
    Busy,
    /// The gateway stops.
    #[error("refreshing the access token was interrupted")]
    Interrupted,
}

impl AuthorizationError {
    /// Creates the error of a request whose user has to log in.
    pub(crate) fn of_user(reason: LoginReason) -> Self {
        LoginNeeded { operator_of: None, reason }.into()
    }
}

/// Reason that only a person can help, with the command to run if it is the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginNeeded {
    /// Client of which the operator has to log in; `None` if the user of the caller has to.
    pub(super) operator_of: Option<ClientName>,
    pub(super) reason: LoginReason,
}

impl fmt::Display for LoginNeeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.operator_of {
            Some(client) => write!(f, "{} run `airlock upstream login {client}`", self.reason),
            None => write!(f, "{} its user has to log in", self.reason),
        }
    }
}

impl std::error::Error for LoginNeeded {}

/// Reason that a login is needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LoginReason {
    #[error("it needs a login;")]
    Missing,
    #[error("the login has expired;")]
    Expired,
    #[error("the authorization server does not renew the login ({0});")]
    Refused(String),
    #[error("the server refuses the token of the login;")]
    Rejected,
    #[error("the server refuses the headers that were entered;")]
    RejectedHeaders,
    #[error(
        "the server refuses this request with the token of the login; if it refuses others too,"
    )]
    Declined,
    #[error("the server asks for a login with more rights{0};")]
    Scopes(String),
    #[error(
        "the server asks for more rights than `oauth_config.scopes` permits{0}; if it shall have them, add them and"
    )]
    Limited(String),
}
