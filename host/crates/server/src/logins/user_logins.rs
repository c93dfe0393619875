//! The logins themselves, as the pages and the list use them: the gateway makes them.

use futures_util::future::BoxFuture;

use airlock_core::{act::Actor, secret::Secret};
use airlock_store::{OwnerId, login::UserLogin};

/// Logins of users at MCP servers. The server does not depend on the way they are made.
pub trait UserLogins: Send + Sync + 'static {
    /// Returns whether browsers reach the gateway over TLS.
    fn is_secure(&self) -> bool;

    /// Returns a secret for a browser that has none.
    fn new_secret(&self) -> String;

    /// Returns whether a text may be a secret of a browser.
    fn is_secret(&self, text: &str) -> bool;

    /// Returns what a link is for.
    fn find<'a>(&'a self, link: &'a str) -> BoxFuture<'a, Result<LoginOffer, LoginRefusal>>;

    /// Begins the login of a link that the user of the browser with this secret has confirmed. Returns the
    /// URL of the authorization server.
    fn begin<'a>(
        &'a self,
        link: &'a str,
        browser: &'a str,
    ) -> BoxFuture<'a, Result<String, LoginRefusal>>;

    /// Stores the values of headers that the user of a link has entered.
    fn submit<'a>(
        &'a self,
        link: &'a str,
        entered: &'a [(String, Secret)],
    ) -> BoxFuture<'a, Result<(), LoginRefusal>>;

    /// Records that a key was entered at a link, and whether it is the holder's. Fails if the link has ended,
    /// so that a key of the holder is of no use either.
    fn enter_key<'a>(
        &'a self,
        link: &'a str,
        is_holders: bool,
    ) -> BoxFuture<'a, Result<(), LoginRefusal>>;

    /// Returns the login that a redirect would complete, if its user has to confirm that once more; `None`
    /// if the redirect is enough. `client` is the one whose address the redirect came to. Completes nothing.
    fn unconfirmed<'a>(
        &'a self,
        client: &'a str,
        query: &'a str,
        browser: &'a str,
    ) -> BoxFuture<'a, Result<Option<LoginOffer>, LoginRefusal>>;

    /// Completes a login of this client with the query of the redirect, in the browser with this secret.
    /// Fails if the login is that of another client. Dropping the future does not undo it.
    fn complete<'a>(
        &'a self,
        client: &'a str,
        query: &'a str,
        browser: &'a str,
    ) -> BoxFuture<'a, Result<(), LoginRefusal>>;

    /// Returns the logins of one tenant, or of all, at most a thousand from `offset` on.
    fn list(
        &self,
        holder: Option<OwnerId>,
        offset: u32,
    ) -> BoxFuture<'_, Result<Vec<UserLogin>, LoginRefusal>>;

    /// Removes a login; with a tenant, only one of that tenant. Returns false if there is none. The records name
    /// the actor.
    fn revoke<'a>(
        &'a self,
        session: &'a str,
        holder: Option<OwnerId>,
        by: Actor,
    ) -> BoxFuture<'a, Result<bool, LoginRefusal>>;
}

/// Login that a link is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginOffer {
    /// Name of the client.
    pub client: String,
    /// Host of its server.
    pub host: String,
    /// Names of the headers whose values the user enters; empty if the user logs in with an account.
    pub header_keys: Vec<String>,
    /// Scope of the tenant that asked.
    pub holder: OwnerId,
    /// Name of the virtual key that asked.
    pub key_name: String,
    /// Issuer and subject of the user who asked with an access token; `None` if the virtual key was the
    /// credential.
    pub user: Option<(String, String)>,
}

/// Reason that a login goes no further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginRefusal {
    /// The link or the redirect is of no use: it has expired, was used, or never was.
    #[error("the link has expired or was used")]
    Gone,
    /// The redirect comes from another browser than the one that confirmed.
    #[error("the redirect came to another browser")]
    OtherBrowser,
    /// Too many logins at the server are being begun.
    #[error("too many logins at this server are being begun")]
    Busy,
    /// The values of headers that were entered cannot be used, with the reason for the user.
    #[error("{0}")]
    Invalid(String),
    /// The authorization server refuses it, or the login failed otherwise. The reason is for the operator.
    #[error("{0}")]
    Failed(String),
    /// The store is not available, with the reason for the operator.
    #[error("{0}")]
    Unavailable(String),
}
