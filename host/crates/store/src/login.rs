//! Logins at the authorization servers of MCP servers: their tokens, and the OAuth client to which
//! the tokens were issued.
//!
//! A login is the operator's, for all callers, or that of one holder: a tenant that acts at the server
//! with an account of its own. [`users`] stores, lists and removes the logins of holders. Their credentials
//! need not be tokens: see [`USER_HEADERS`]. The module does not read them.
//!
//! Several processes share a login. Many authorization servers accept a refresh token once and
//! revoke the whole login if it is used again, so one process at a time refreshes the tokens
//! ([`Database::claim_refresh`]). An access token identifies the version of a login: a change that
//! is based on another version is not made. Versions are compared in code: the database may have the
//! tokens sealed, and then no two values of the same token are equal.

mod id;
mod key;
mod users;

use std::time::Duration;

pub(crate) use self::id::owner;
use self::key::LoginKey;
pub use self::{
    id::LoginId,
    users::{LoginHolder, USER_HEADERS, UserLogin},
};
use crate::database::Database;
use airlock_database::{
    columns::milliseconds,
    error::Unavailable,
    revision::ChangeKind,
    sql::{Param, Sql, SqlResult, Subject, params},
};

/// A login of one client at one MCP server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UpstreamLogin {
    /// The holder; `None` for the operator's login.
    pub holder: Option<LoginHolder>,
    /// Identifier of the authorization server; empty if it has none.
    pub issuer: String,
    /// The OAuth client to which the tokens were issued.
    pub client_id: String,
    /// Its secret, if it has one.
    pub client_secret: Option<String>,
    /// Method by which it authenticates itself, as the caller names it.
    pub authentication: String,
    /// URL at which the tokens are refreshed.
    pub token_endpoint: String,
    /// The resource that the tokens are for.
    pub resource: String,
    /// Granted scopes, separated by spaces.
    pub scopes: String,
    /// Scopes that the MCP server asked for beyond the granted ones, separated by spaces.
    pub wanted: String,
    /// The access token.
    pub access_token: String,
    /// The refresh token, if there is one.
    pub refresh_token: Option<String>,
    /// Time at which the tokens were issued, in milliseconds since 1970.
    pub obtained_ms: i64,
    /// Time at which the access token expires, in milliseconds since 1970, if it is known.
    pub expires_ms: Option<i64>,
}

/// Result of [`Database::claim_refresh`].
#[derive(Debug, PartialEq, Eq)]
pub enum RefreshClaim {
    /// The caller refreshes the tokens, and no other process does until the claim ends.
    Claimed(UpstreamLogin),
    /// The login has changed since the caller read it.
    Changed(UpstreamLogin),
    /// Another process is refreshing the tokens.
    Busy,
    /// There is no login.
    Gone,
}

impl Database {
    /// Returns a login; `None` if there is none, or none that still has tokens.
    pub async fn upstream_login(&self, id: &LoginId) -> Result<Option<UpstreamLogin>, Unavailable> {
        let key = self.login_key(id);
        self.read(move |sql| Ok(key.read(sql)?.map(|(login, _)| login))).await
    }

    /// Stores a login. It replaces an earlier one, and ends the claim on it.
    pub async fn put_upstream_login(
        &self,
        id: &LoginId,
        login: UpstreamLogin,
    ) -> Result<(), Unavailable> {
        let key = self.login_key(id);
        self.write(key.subject(), move |sql| key.write(sql, &login)).await
    }

    /// Removes the operator's logins of a client at all its servers, their traces in the file included as far as
    /// no other process is reading it. Returns their number.
    pub async fn remove_upstream_logins(&self, client: &str) -> Result<usize, Unavailable> {
        let client = client.to_owned();
        let removed = self
            .write(Subject::login(&client), move |sql| {
                sql.overwrite_deleted()?;
                let delete = "DELETE FROM upstream_login WHERE client = ?1";
                let removed = sql.run(delete, params![&client])?;
                if removed > 0 {
                    sql.announce(ChangeKind::Logins)?;
                }
                Ok(removed)
            })
            .await?;
        // The log has the tokens until it is copied into the file. A reader may prevent that.
        let _ = self.truncate_log().await;
        Ok(usize::try_from(removed).unwrap_or(usize::MAX))
    }

    /// Claims the right to refresh the tokens of the version that has `access_token`, for at most
    /// `time`.
    pub async fn claim_refresh(
        &self,
        id: &LoginId,
        access_token: &str,
        time: Duration,
    ) -> Result<RefreshClaim, Unavailable> {
        let key = self.login_key(id);
        let access_token = access_token.to_owned();
        self.write(key.subject(), move |sql| {
            let now = sql.now();
            let until = now.saturating_add(milliseconds(time));
            let Some((login, refreshing_until)) = key.read(sql)? else {
                return Ok(RefreshClaim::Gone);
            };
            if login.access_token != access_token {
                return Ok(RefreshClaim::Changed(login));
            }
            // A claim that ends later than any claim can is of a clock that was set back.
            if (now + 1..=until).contains(&refreshing_until) {
                return Ok(RefreshClaim::Busy);
            }
            key.set(sql, "refreshing_until_ms", until.into())?;
            Ok(RefreshClaim::Claimed(login))
        })
        .await
    }

    /// Stores the refreshed tokens of the version that has `access_token`, and ends the claim on it.
    /// Returns false, and changes nothing, if the login has been replaced or removed meanwhile.
    pub async fn renew_upstream_login(
        &self,
        id: &LoginId,
        access_token: &str,
        login: UpstreamLogin,
    ) -> Result<bool, Unavailable> {
        self.change_version(id, access_token, move |key, sql| key.write(sql, &login)).await
    }

    /// Ends the claim on the version that has `access_token`, whose tokens were not refreshed.
    pub async fn release_refresh(
        &self,
        id: &LoginId,
        access_token: &str,
    ) -> Result<(), Unavailable> {
        let released = self.change_version(id, access_token, |key, sql| {
            key.set(sql, "refreshing_until_ms", Param::Number(0))
        });
        released.await.map(drop)
    }

    /// Stores the scopes that the MCP server asks for, for the next login. Changes nothing if the
    /// login has another version than that which has `access_token`.
    pub async fn want_scopes(
        &self,
        id: &LoginId,
        access_token: &str,
        wanted: &str,
    ) -> Result<(), Unavailable> {
        let wanted = wanted.to_owned();
        let stored = self.change_version(id, access_token, move |key, sql| {
            key.set(sql, "wanted", Param::Text(&wanted))
        });
        stored.await.map(drop)
    }

    /// Changes the version of a login that has `access_token`. Returns false, and changes nothing, if the login
    /// has another one, or was removed.
    async fn change_version(
        &self,
        id: &LoginId,
        access_token: &str,
        change: impl FnOnce(&LoginKey, &Sql<'_>) -> SqlResult<()> + Send + 'static,
    ) -> Result<bool, Unavailable> {
        let key = self.login_key(id);
        let access_token = access_token.to_owned();
        self.write(key.subject(), move |sql| {
            let is_present = key.has_version(sql, &access_token)?;
            if is_present {
                change(&key, sql)?;
            }
            Ok(is_present)
        })
        .await
    }

    fn login_key(&self, id: &LoginId) -> LoginKey {
        LoginKey::new(id, self.sealer())
    }
}

airlock_strings::debug_fields!(UpstreamLogin { issuer, client_id, scopes, expires_ms });

#[cfg(test)]
mod tests;
