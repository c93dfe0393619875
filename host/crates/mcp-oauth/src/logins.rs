//! The stored logins.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::HeaderName;
use sha2::{Digest as _, Sha256};

use super::{
    backoff::{RefreshBackoff, RefreshBackoffs},
    http_settings::{HttpSettings, UserCredentials},
    settings::Oauth,
};
use airlock_core::tool::ClientName;
use airlock_store::{
    Database, LazyDatabase, OpenError, OwnerId, Unavailable,
    login::{LoginId, RefreshClaim, UpstreamLogin, UserLogin},
};
use airlock_strings::hex;

/// Reason that a login cannot be read or stored.
#[derive(Debug, thiserror::Error)]
pub enum LoginsUnavailable {
    /// The store cannot be opened.
    #[error("the store of logins is not available")]
    Open(#[from] OpenError),
    /// The store cannot be read or written.
    #[error("the store of logins is not available")]
    Store(#[from] Unavailable),
}

/// The stored logins of all servers. Cheap to clone. The store is opened at the first use, and
/// shared with other processes.
#[derive(Clone)]
pub struct Logins {
    database: LazyDatabase,
    backoff: Arc<RefreshBackoffs>,
}

impl Logins {
    /// Creates the logins that are kept in this database. Nothing is opened yet.
    pub fn new(database: LazyDatabase) -> Self {
        Self { database, backoff: Arc::default() }
    }

    /// Removes the operator's logins of a client. Returns whether there were any.
    pub async fn remove(&self, client: &ClientName) -> Result<bool, LoginsUnavailable> {
        Ok(self.database().await?.remove_upstream_logins(client.as_str()).await? > 0)
    }

    /// Returns whether there is a login that has tokens.
    pub async fn has(&self, id: &LoginId) -> Result<bool, LoginsUnavailable> {
        Ok(self.database().await?.upstream_login(id).await?.is_some())
    }

    /// Returns the session of the login of a holder; `None` if there is no login that has tokens.
    pub async fn session(&self, id: &LoginId) -> Result<Option<String>, LoginsUnavailable> {
        let login = self.database().await?.upstream_login(id).await?;
        Ok(login.and_then(|login| login.holder).map(|holder| holder.session))
    }

    /// Returns the logins of one holder, or of all: see [`Database::user_logins`].
    pub async fn of_users(
        &self,
        holder: Option<OwnerId>,
        offset: u32,
    ) -> Result<Vec<UserLogin>, LoginsUnavailable> {
        Ok(self.database().await?.user_logins(holder, offset).await?)
    }

    /// Removes the login of a holder: see [`Database::remove_user_login`].
    pub async fn remove_of_user(
        &self,
        session: &str,
        holder: Option<OwnerId>,
    ) -> Result<Option<UserLogin>, LoginsUnavailable> {
        Ok(self.database().await?.remove_user_login(session, holder).await?)
    }

    /// Removes all logins of some holders: see [`Database::remove_logins_of`]. A store in a file that
    /// does not exist has none, and is not made.
    pub async fn remove_of_holders(
        &self,
        holders: &[OwnerId],
    ) -> Result<Vec<UserLogin>, LoginsUnavailable> {
        if holders.is_empty() || self.is_absent() {
            return Ok(Vec::new());
        }
        Ok(self.database().await?.remove_logins_of(holders).await?)
    }

    /// Removes the logins of users of a client at all servers but the one of these settings, or at all
    /// without settings: see [`Database::remove_logins_elsewhere`].
    pub async fn remove_elsewhere(
        &self,
        client: &ClientName,
        present: Option<&HttpSettings>,
    ) -> Result<Vec<UserLogin>, LoginsUnavailable> {
        if self.is_absent() {
            return Ok(Vec::new());
        }
        let present = present.filter(|http| http.users.is_some());
        let present = present.map(|http| login_id(client, http).server);
        let database = self.database().await?;
        Ok(database.remove_logins_elsewhere(client.as_str(), present.as_deref()).await?)
    }

    /// Returns whether the store is a file that does not exist, so that it has nothing and need not be
    /// made to read it.
    pub(super) fn is_absent(&self) -> bool {
        self.database.location().is_missing_file()
    }

    pub(super) async fn database(&self) -> Result<&Database, OpenError> {
        self.database.open().await
    }

    /// Returns the stored login with this name.
    pub fn stored(&self, id: LoginId) -> StoredLogin {
        let backoff = self.backoff.for_login(&id);
        StoredLogin { logins: self.clone(), id, session: OnceLock::new(), backoff }
    }
}

/// Names the operator's login of a client at a server with these settings: with another URL, other settings
/// of OAuth, or other headers of users, it is another login.
pub fn login_id(client: &ClientName, http: &HttpSettings) -> LoginId {
    let fingerprint = match &http.users {
        Some(UserCredentials::Headers(names)) => Some(headers_fingerprint(names)),
        Some(UserCredentials::Exchange(exchange)) => Some(exchange.fingerprint()),
        Some(UserCredentials::Login) | None => http.oauth.as_ref().and_then(Oauth::fingerprint),
    };
    // No URL has a space.
    let server = match fingerprint {
        Some(fingerprint) => format!("{} {fingerprint}", http.url),
        None => http.url.clone(),
    };
    LoginId::of_operator(client.as_str(), server)
}

/// Returns a digest of the names of headers, in any order.
fn headers_fingerprint(names: &[HeaderName]) -> String {
    let mut names: Vec<_> = names.iter().map(HeaderName::as_str).collect();
    names.sort_unstable();
    hex(&Sha256::digest(format!("headers {names:?}"))[..16])
}

/// One stored login. That of a holder is the one which was read first: another one, for which the holder
/// has logged in since, counts as none. A connection is never used with the account of another login
/// than it began with.
pub struct StoredLogin {
    logins: Logins,
    id: LoginId,
    /// Session of the login that was read first, if it has a holder.
    session: OnceLock<String>,
    backoff: Arc<RefreshBackoff>,
}

impl StoredLogin {
    /// Returns the login; `None` if there is none.
    pub(super) async fn read(&self) -> Result<Option<UpstreamLogin>, LoginsUnavailable> {
        let read = self.logins.database().await?.upstream_login(&self.id).await?;
        Ok(read.filter(|login| self.is_same(login)))
    }

    /// Stores a login in place of an earlier one.
    pub(super) async fn put(&self, login: UpstreamLogin) -> Result<(), LoginsUnavailable> {
        Ok(self.logins.database().await?.put_upstream_login(&self.id, login).await?)
    }

    /// Claims the right to refresh the tokens of this version of the login.
    pub(super) async fn claim(
        &self,
        access_token: &str,
        time: Duration,
    ) -> Result<RefreshClaim, LoginsUnavailable> {
        let database = self.logins.database().await?;
        Ok(match database.claim_refresh(&self.id, access_token, time).await? {
            RefreshClaim::Changed(login) if !self.is_same(&login) => RefreshClaim::Gone,
            claim => claim,
        })
    }

    /// Stores the refreshed tokens of a version. Returns false if the login has changed meanwhile.
    pub(super) async fn renew(
        &self,
        access_token: &str,
        login: UpstreamLogin,
    ) -> Result<bool, LoginsUnavailable> {
        let database = self.logins.database().await?;
        Ok(database.renew_upstream_login(&self.id, access_token, login).await?)
    }

    /// Ends a claim without new tokens.
    pub(super) async fn release(&self, access_token: &str) -> Result<(), LoginsUnavailable> {
        let database = self.logins.database().await?;
        Ok(database.release_refresh(&self.id, access_token).await?)
    }

    /// Removes the tokens of a version that is not renewed any more, if the login has a holder. That of
    /// the operator stays as it is: its message names the command to run.
    pub(super) async fn void(&self, access_token: &str) -> Result<(), LoginsUnavailable> {
        if self.has_holder() {
            self.logins.database().await?.void_user_login(&self.id, access_token).await?;
        }
        Ok(())
    }

    /// Stores the scopes that the server asks for, for the next login.
    pub(super) async fn want(
        &self,
        access_token: &str,
        scopes: &str,
    ) -> Result<(), LoginsUnavailable> {
        let database = self.logins.database().await?;
        Ok(database.want_scopes(&self.id, access_token, scopes).await?)
    }

    /// Forgets the scopes that the MCP server has asked for beyond those of the login, so that they do not
    /// prevent every further login. A failure is ignored: the login has failed in any case.
    pub(super) async fn forget_wanted(&self) {
        if let Ok(Some(previous)) = self.read().await
            && !previous.wanted.is_empty()
        {
            let _ = self.want(&previous.access_token, "").await;
        }
    }

    /// Returns the backoff of the login, which all its connections share.
    pub(super) fn backoff(&self) -> Arc<RefreshBackoff> {
        self.backoff.clone()
    }

    /// Returns whether the login is that of one holder, and not the operator's.
    pub(super) fn has_holder(&self) -> bool {
        self.id.holder.is_some()
    }

    fn is_same(&self, login: &UpstreamLogin) -> bool {
        let Some(holder) = &login.holder else { return true };
        *self.session.get_or_init(|| holder.session.clone()) == holder.session
    }
}
