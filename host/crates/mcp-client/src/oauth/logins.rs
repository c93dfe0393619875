//! The stored logins.

use std::time::Duration;

use super::{super::http::HttpSettings, settings::Oauth};
use airlock_core::tool::ClientName;
use airlock_store::{
    Database, LazyDatabase, OpenError, Unavailable,
    login::{RefreshClaim, UpstreamLogin},
};

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
#[derive(Debug, Clone)]
pub struct Logins(LazyDatabase);

impl Logins {
    /// Creates the logins that are kept in this database. Nothing is opened yet.
    pub fn new(database: LazyDatabase) -> Self {
        Self(database)
    }

    /// Removes the logins of a client. Returns whether there were any.
    pub async fn remove(&self, client: &ClientName) -> Result<bool, LoginsUnavailable> {
        Ok(self.database().await?.remove_upstream_logins(client.as_str()).await? > 0)
    }

    async fn database(&self) -> Result<&Database, OpenError> {
        self.0.open().await
    }

    /// Returns the login of a client at one server with these settings: with other ones of OAuth, it
    /// is another login.
    pub(super) fn of(&self, client: &ClientName, http: &HttpSettings) -> StoredLogin {
        let logins = self.clone();
        let client = client.as_str().to_owned();
        let fingerprint = http.oauth.as_ref().and_then(Oauth::fingerprint);
        // No URL has a space.
        let server = match fingerprint {
            Some(fingerprint) => format!("{} {fingerprint}", http.url),
            None => http.url.clone(),
        };
        StoredLogin { logins, client, server }
    }
}

/// The stored login of one client at one server.
pub(super) struct StoredLogin {
    logins: Logins,
    client: String,
    server: String,
}

impl StoredLogin {
    /// Returns the login; `None` if there is none.
    pub(super) async fn read(&self) -> Result<Option<UpstreamLogin>, LoginsUnavailable> {
        Ok(self.logins.database().await?.upstream_login(&self.client, &self.server).await?)
    }

    /// Stores a login in place of an earlier one.
    pub(super) async fn put(&self, login: UpstreamLogin) -> Result<(), LoginsUnavailable> {
        let database = self.logins.database().await?;
        Ok(database.put_upstream_login(&self.client, &self.server, login).await?)
    }

    /// Claims the right to refresh the tokens of this version of the login.
    pub(super) async fn claim(
        &self,
        access_token: &str,
        time: Duration,
    ) -> Result<RefreshClaim, LoginsUnavailable> {
        let database = self.logins.database().await?;
        Ok(database.claim_refresh(&self.client, &self.server, access_token, time).await?)
    }

    /// Stores the refreshed tokens of a version. Returns false if the login has changed meanwhile.
    pub(super) async fn renew(
        &self,
        access_token: &str,
        login: UpstreamLogin,
    ) -> Result<bool, LoginsUnavailable> {
        let database = self.logins.database().await?;
        let renewing =
            database.renew_upstream_login(&self.client, &self.server, access_token, login);
        Ok(renewing.await?)
    }

    /// Ends a claim without new tokens.
    pub(super) async fn release(&self, access_token: &str) -> Result<(), LoginsUnavailable> {
        let database = self.logins.database().await?;
        Ok(database.release_refresh(&self.client, &self.server, access_token).await?)
    }

    /// Stores the scopes that the server asks for, for the next login.
    pub(super) async fn want(
        &self,
        access_token: &str,
        scopes: &str,
    ) -> Result<(), LoginsUnavailable> {
        let database = self.logins.database().await?;
        Ok(database.want_scopes(&self.client, &self.server, access_token, scopes).await?)
    }
}
