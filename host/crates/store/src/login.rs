//! Logins at the authorization servers of MCP servers: their tokens, and the OAuth client to which
//! the tokens were issued.
//!
//! Several processes share a login. Many authorization servers accept a refresh token once and
//! revoke the whole login if it is used again, so one process at a time refreshes the tokens
//! ([`Database::claim_refresh`]). An access token identifies the version of a login: a change that
//! is based on another version is not made. Versions are compared in code: the database may have the
//! tokens sealed, and then no two values of the same token are equal.

use std::{fmt, time::Duration};

use crate::{
    columns::milliseconds,
    database::Database,
    error::Unavailable,
    revision::ChangeKind,
    seal::{SealError, Sealer, SecretPlace},
    sql::{Param, Row, Sql, SqlError, Subject, params},
};

/// A login of one client at one MCP server.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamLogin {
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
    /// Returns the login of a client at a server.
    pub async fn upstream_login(
        &self,
        client: &str,
        server: &str,
    ) -> Result<Option<UpstreamLogin>, Unavailable> {
        let key = self.login_key(client, server);
        self.read(move |sql| Ok(key.read(sql)?.map(|(login, _)| login))).await
    }

    /// Stores a login. It replaces an earlier one, and ends the claim on it.
    pub async fn put_upstream_login(
        &self,
        client: &str,
        server: &str,
        login: UpstreamLogin,
    ) -> Result<(), Unavailable> {
        let key = self.login_key(client, server);
        self.write(key.subject(), move |sql| key.write(sql, &login)).await
    }

    /// Removes the logins of a client at all its servers, their traces in the file included as far as
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
        client: &str,
        server: &str,
        access_token: &str,
        time: Duration,
    ) -> Result<RefreshClaim, Unavailable> {
        let key = self.login_key(client, server);
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
        client: &str,
        server: &str,
        access_token: &str,
        login: UpstreamLogin,
    ) -> Result<bool, Unavailable> {
        let key = self.login_key(client, server);
        let access_token = access_token.to_owned();
        self.write(key.subject(), move |sql| {
            let is_present = key.has_version(sql, &access_token)?;
            if is_present {
                key.write(sql, &login)?;
            }
            Ok(is_present)
        })
        .await
    }

    /// Ends the claim on the version that has `access_token`, whose tokens were not refreshed.
    pub async fn release_refresh(
        &self,
        client: &str,
        server: &str,
        access_token: &str,
    ) -> Result<(), Unavailable> {
        let key = self.login_key(client, server);
        let access_token = access_token.to_owned();
        self.write(key.subject(), move |sql| {
            if key.has_version(sql, &access_token)? {
                key.set(sql, "refreshing_until_ms", Param::Number(0))?;
            }
            Ok(())
        })
        .await
    }

    /// Stores the scopes that the MCP server asks for, for the next login. Changes nothing if the
    /// login has another version than that which has `access_token`.
    pub async fn want_scopes(
        &self,
        client: &str,
        server: &str,
        access_token: &str,
        wanted: &str,
    ) -> Result<(), Unavailable> {
        let key = self.login_key(client, server);
        let access_token = access_token.to_owned();
        let wanted = wanted.to_owned();
        self.write(key.subject(), move |sql| {
            if key.has_version(sql, &access_token)? {
                key.set(sql, "wanted", Param::Text(&wanted))?;
            }
            Ok(())
        })
        .await
    }

    fn login_key(&self, client: &str, server: &str) -> LoginKey {
        let sealer = self.sealer();
        LoginKey { client: client.to_owned(), server: server.to_owned(), sealer }
    }
}

/// Key of a login.
struct LoginKey {
    client: String,
    server: String,
    sealer: Sealer,
}

impl LoginKey {
    fn subject(&self) -> Subject {
        Subject::login(&self.client)
    }

    /// Returns the login and the end of the claim on it.
    fn read(&self, sql: &Sql<'_>) -> Result<Option<(UpstreamLogin, i64)>, SqlError> {
        let select = "SELECT issuer, client_id, client_secret, authentication, token_endpoint, \
                      resource, scopes, wanted, access_token, refresh_token, obtained_ms, \
                      expires_ms, refreshing_until_ms FROM upstream_login \
                      WHERE client = ?1 AND server = ?2";
        sql.find(select, params![&self.client, &self.server], |row| self.login(row))
    }

    /// Reads a login, and the end of the claim on it.
    fn login(&self, row: &Row<'_>) -> Result<(UpstreamLogin, i64), SqlError> {
        let client_secret: Option<&[u8]> = row.get(2)?;
        let refresh_token: Option<&[u8]> = row.get(9)?;
        let login = UpstreamLogin {
            issuer: row.get(0)?,
            client_id: row.get(1)?,
            client_secret: client_secret
                .map(|secret| self.open("client_secret", secret))
                .transpose()?,
            authentication: row.get(3)?,
            token_endpoint: row.get(4)?,
            resource: row.get(5)?,
            scopes: row.get(6)?,
            wanted: row.get(7)?,
            access_token: self.open("access_token", row.get(8)?)?,
            refresh_token: refresh_token
                .map(|token| self.open("refresh_token", token))
                .transpose()?,
            obtained_ms: row.get(10)?,
            expires_ms: row.get(11)?,
        };
        Ok((login, row.get(12)?))
    }

    fn open(&self, column: &str, stored: &[u8]) -> Result<String, SealError> {
        self.sealer.open(&self.place(column), stored)
    }

    fn seal(&self, column: &str, secret: &str) -> Result<Vec<u8>, SealError> {
        self.sealer.seal(&self.place(column), secret)
    }

    fn place(&self, column: &str) -> SecretPlace {
        let row = [self.client.as_bytes(), self.server.as_bytes()];
        SecretPlace::new("upstream_login", column, &row)
    }

    /// Returns whether the login has the version of `access_token`.
    fn has_version(&self, sql: &Sql<'_>, access_token: &str) -> Result<bool, SqlError> {
        let select = "SELECT access_token FROM upstream_login WHERE client = ?1 AND server = ?2";
        let present = sql.find(select, params![&self.client, &self.server], |row| {
            Ok(self.open("access_token", row.get(0)?)?)
        })?;
        Ok(present.is_some_and(|present| present == access_token))
    }

    fn write(&self, sql: &Sql<'_>, login: &UpstreamLogin) -> Result<(), SqlError> {
        let client_secret = login.client_secret.as_ref();
        let client_secret =
            client_secret.map(|secret| self.seal("client_secret", secret)).transpose()?;
        let refresh_token = login.refresh_token.as_ref();
        let refresh_token =
            refresh_token.map(|token| self.seal("refresh_token", token)).transpose()?;
        let access_token = self.seal("access_token", &login.access_token)?;
        sql.overwrite_deleted()?;
        let delete = "DELETE FROM upstream_login WHERE client = ?1 AND server = ?2";
        sql.run(delete, params![&self.client, &self.server])?;
        let insert = "INSERT INTO upstream_login (client, server, issuer, client_id, \
                      client_secret, authentication, token_endpoint, resource, scopes, wanted, \
                      access_token, refresh_token, obtained_ms, expires_ms, refreshing_until_ms) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 0)";
        let values = params![
            &self.client,
            &self.server,
            &login.issuer,
            &login.client_id,
            client_secret.as_ref(),
            &login.authentication,
            &login.token_endpoint,
            &login.resource,
            &login.scopes,
            &login.wanted,
            &access_token,
            refresh_token.as_ref(),
            login.obtained_ms,
            login.expires_ms,
        ];
        sql.run(insert, values)?;
        sql.announce(ChangeKind::Logins)
    }

    /// Sets one column.
    fn set(&self, sql: &Sql<'_>, column: &'static str, value: Param<'_>) -> Result<(), SqlError> {
        let update =
            format!("UPDATE upstream_login SET {column} = ?1 WHERE client = ?2 AND server = ?3");
        sql.run(&update, &[value, Param::from(&self.client), Param::from(&self.server)]).map(drop)
    }
}

impl fmt::Debug for UpstreamLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamLogin")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .field("scopes", &self.scopes)
            .field("expires_ms", &self.expires_ms)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
