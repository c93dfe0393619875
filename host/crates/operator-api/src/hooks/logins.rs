//! The logins of operators with browsers, as the pages use them: the gateway makes them.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use url::Url;

use airlock_core::{operator::Operator, secret::Secret};
use airlock_store::Unavailable;

/// Logins of operators with browsers, and their sessions. The server does not depend on the way they are
/// made.
pub trait OperatorLogins: Send + Sync + 'static {
    /// Returns the URL at which browsers reach the gateway; `None` if it is not known.
    fn external_url(&self) -> Option<&Url>;

    /// Begins a login in the browser with this secret, or with a new one. The browser goes to `return_to`
    /// after it. `peer` is the remote end, for the limits of each.
    fn begin<'a>(
        &'a self,
        browser: Option<&'a str>,
        return_to: Option<String>,
        peer: &'a str,
    ) -> BoxFuture<'a, Result<BegunLogin, OperatorLoginRefusal>>;

    /// Completes a login with the query of the redirect, in the browser with this secret. Ends the session
    /// `previous` of the browser. Dropping the future does not undo it.
    fn complete<'a>(
        &'a self,
        query: &'a str,
        browser: Option<&'a str>,
        previous: Option<&'a str>,
        peer: &'a str,
    ) -> BoxFuture<'a, Result<OpenedSession, OperatorLoginRefusal>>;

    /// Finds the session with this credential, and records a use of it unless `lookup` is a check. Fails with the
    /// reason if sessions cannot be read.
    fn session<'a>(
        &'a self,
        credential: &'a str,
        peer: &'a str,
        lookup: SessionLookup,
    ) -> BoxFuture<'a, Result<Option<OperatorSession>, String>>;
}

/// Purpose for which a session is looked up. A session without a use ends after its idle time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionLookup {
    /// A request uses it.
    Use,
    /// It is checked without a person's action, which is no use.
    Check,
}

/// A login that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunLogin {
    /// URL of the provider, to which the browser is sent. It has the state of the login.
    pub url: Secret,
    /// Secret of the browser.
    pub browser: Secret,
}

/// A session that has just been opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedSession {
    /// Its credential.
    pub credential: Secret,
    /// Its longest time.
    pub life: Duration,
    /// Name of the operator.
    pub name: String,
    /// Path to which the browser goes.
    pub return_to: Option<String>,
}

/// A valid session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorSession {
    /// Identifier, which is no credential.
    pub id: String,
    /// Its operator.
    pub operator: Arc<Operator>,
    /// Time at which it ends, however it is used.
    pub expires: SystemTime,
}

/// Reason that an operator is not logged in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperatorLoginRefusal {
    /// There is no such login: it has expired, was completed, or never was.
    #[error("the login has expired or was completed")]
    Gone,
    /// The redirect comes to another browser than the one that began.
    #[error("the redirect came to another browser")]
    OtherBrowser,
    /// Too many logins are being begun or completed.
    #[error("too many logins are being begun or completed")]
    Busy,
    /// The provider refuses it, or its response is not valid. The reason is for the log.
    #[error("{0}")]
    Failed(String),
    /// The redirect says that the login was refused, or has no code that the provider accepts: anyone can
    /// send such a redirect. The reason is for the log.
    #[error("{0}")]
    Declined(String),
    /// No role is meant for the person, who is named for the log.
    #[error("no row of `management.oidc.roles` matches {0}")]
    NoRole(String),
    /// The provider or the store is not available, with the reason for the log.
    #[error("{0}")]
    Unavailable(String),
}

impl From<Unavailable> for OperatorLoginRefusal {
    fn from(error: Unavailable) -> Self {
        Self::Unavailable(format!("the store cannot be used: {error}"))
    }
}

impl OperatorLoginRefusal {
    /// Returns whether anyone can cause it, so that the log of a gateway does not warn of it.
    pub(crate) fn is_by_anyone(&self) -> bool {
        match self {
            Self::Gone | Self::OtherBrowser | Self::Busy | Self::Declined(_) => true,
            Self::Failed(_) | Self::NoRole(_) | Self::Unavailable(_) => false,
        }
    }
}
