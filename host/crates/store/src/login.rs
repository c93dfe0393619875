//! Logins at the authorization servers of MCP servers: their tokens, and the OAuth client to which
//! the tokens were issued.
//!
//! Several processes share a login. Many authorization servers accept a refresh token once and
//! revoke the whole login if it is used again, so one process at a time refreshes the tokens
//! ([`Database::claim_refresh`]). An access token identifies the version of a login: a change that
//! is based on another version is not made.

use std::{fmt, time::Duration};

use crate::{
    columns::milliseconds,
    database::Database,
    error::Unavailable,
    revision::ChangeKind,
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
        let key = LoginKey::new(client, server);
        self.read(move |sql| Ok(key.read(sql)?.map(|(login, _)| login))).await
    }

    /// Stores a login. It replaces an earlier one, and ends the claim on it.
    pub async fn put_upstream_login(
        &self,
        client: &str,
        server: &str,
        login: UpstreamLogin,
    ) -> Result<(), Unavailable> {
        let key = LoginKey::new(client, server);
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
        let key = LoginKey::new(client, server);
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
            key.set(sql, &access_token, "refreshing_until_ms", until.into())?;
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
        let key = LoginKey::new(client, server);
        let access_token = access_token.to_owned();
        self.write(key.subject(), move |sql| {
            let present = key.read(sql)?;
            let is_present =
                present.is_some_and(|(present, _)| present.access_token == access_token);
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
        let key = LoginKey::new(client, server);
        let access_token = access_token.to_owned();
        self.write(key.subject(), move |sql| {
            key.set(sql, &access_token, "refreshing_until_ms", Param::Number(0))
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
        let key = LoginKey::new(client, server);
        let access_token = access_token.to_owned();
        let wanted = wanted.to_owned();
        self.write(key.subject(), move |sql| {
            key.set(sql, &access_token, "wanted", Param::Text(&wanted))
        })
        .await
    }
}

/// Key of a login.
struct LoginKey {
    client: String,
    server: String,
}

impl LoginKey {
    fn new(client: &str, server: &str) -> Self {
        Self { client: client.to_owned(), server: server.to_owned() }
    }

    fn subject(&self) -> Subject {
        Subject::login(&self.client)
    }

    /// Returns the login and the end of the claim on it.
    fn read(&self, sql: &Sql<'_>) -> Result<Option<(UpstreamLogin, i64)>, SqlError> {
        let select = "SELECT issuer, client_id, client_secret, authentication, token_endpoint, \
                      resource, scopes, wanted, access_token, refresh_token, obtained_ms, \
                      expires_ms, refreshing_until_ms FROM upstream_login \
                      WHERE client = ?1 AND server = ?2";
        sql.find(select, params![&self.client, &self.server], login)
    }

    fn write(&self, sql: &Sql<'_>, login: &UpstreamLogin) -> Result<(), SqlError> {
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
            login.client_secret.as_ref(),
            &login.authentication,
            &login.token_endpoint,
            &login.resource,
            &login.scopes,
            &login.wanted,
            &login.access_token,
            login.refresh_token.as_ref(),
            login.obtained_ms,
            login.expires_ms,
        ];
        sql.run(insert, values)?;
        sql.announce(ChangeKind::Logins)
    }

    /// Sets one column of the version that has `access_token`.
    fn set(
        &self,
        sql: &Sql<'_>,
        access_token: &str,
        column: &'static str,
        value: Param<'_>,
    ) -> Result<(), SqlError> {
        let update = format!(
            "UPDATE upstream_login SET {column} = ?1 \
             WHERE client = ?2 AND server = ?3 AND access_token = ?4"
        );
        sql.run(
            &update,
            &[
                value,
                Param::from(&self.client),
                Param::from(&self.server),
                Param::from(access_token),
            ],
        )
        .map(drop)
    }
}

fn login(row: &Row<'_>) -> Result<(UpstreamLogin, i64), SqlError> {
    let login = UpstreamLogin {
        issuer: row.get(0)?,
        client_id: row.get(1)?,
        client_secret: row.get(2)?,
        authentication: row.get(3)?,
        token_endpoint: row.get(4)?,
        resource: row.get(5)?,
        scopes: row.get(6)?,
        wanted: row.get(7)?,
        access_token: row.get(8)?,
        refresh_token: row.get(9)?,
        obtained_ms: row.get(10)?,
        expires_ms: row.get(11)?,
    };
    Ok((login, row.get(12)?))
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
mod tests {
    use super::*;
    use crate::tests::home::{TestHome, on_both};

    fn login(access_token: &str) -> UpstreamLogin {
        UpstreamLogin {
            issuer: "https://as.example.com".to_owned(),
            client_id: "id".to_owned(),
            client_secret: None,
            authentication: "none".to_owned(),
            token_endpoint: "https://as.example.com/token".to_owned(),
            resource: "https://mcp.example.com/mcp".to_owned(),
            scopes: "read".to_owned(),
            wanted: String::new(),
            access_token: access_token.to_owned(),
            refresh_token: Some("refresh".to_owned()),
            obtained_ms: 1,
            expires_ms: Some(2),
        }
    }

    const TIME: Duration = Duration::from_secs(30);

    on_both! {
        a_login_belongs_to_a_client_and_a_server,
        one_process_refreshes_at_a_time_until_its_claim_ends,
        a_change_of_an_earlier_version_is_not_made,
    }

    async fn a_login_belongs_to_a_client_and_a_server(home: TestHome) {
        let database = home.open().await;
        database.put_upstream_login("up", "https://a/", login("1")).await.expect("written");
        for (client, server, found) in [
            ("up", "https://a/", true),
            ("up", "https://b/", false),
            ("other", "https://a/", false),
        ] {
            let read = database.upstream_login(client, server).await.expect("read");
            assert_eq!(read, found.then(|| login("1")), "{client} {server}");
        }
        assert!(!format!("{:?}", login("hunter2")).contains("hunter2"));
        assert_eq!(database.remove_upstream_logins("up").await.expect("written"), 1);
        assert_eq!(database.upstream_login("up", "https://a/").await.expect("read"), None);
    }

    #[tokio::test]
    async fn nothing_of_a_removed_login_stays_in_the_files() {
        let home = TestHome::sqlite();
        let database = home.open().await;
        for token in ["first-hunter2", "second-hunter2"] {
            database.put_upstream_login("up", "s", login(token)).await.expect("written");
        }
        database.remove_upstream_logins("up").await.expect("written");
        for file in std::fs::read_dir(home.directory.path()).expect("a directory") {
            let path = file.expect("a file").path();
            let bytes = std::fs::read(&path).expect("readable");
            let is_found = bytes.windows(7).any(|window| window == b"hunter2");
            assert!(!is_found, "{}", path.display());
        }
    }

    async fn one_process_refreshes_at_a_time_until_its_claim_ends(home: TestHome) {
        let database = home.open().await;
        assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Gone);
        database.put_upstream_login("up", "s", login("1")).await.expect("written");
        assert_eq!(
            claim(&database, "1").await.expect("written"),
            RefreshClaim::Claimed(login("1"))
        );
        assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Busy);
        home.clock.pass(Duration::from_secs(29));
        assert_eq!(claim(&database, "1").await.expect("written"), RefreshClaim::Busy);
        home.clock.pass(Duration::from_secs(1));
        assert_eq!(
            claim(&database, "1").await.expect("written"),
            RefreshClaim::Claimed(login("1"))
        );
        database.release_refresh("up", "s", "1").await.expect("written");
        assert_eq!(
            claim(&database, "1").await.expect("written"),
            RefreshClaim::Claimed(login("1"))
        );
        home.clock.set(Duration::from_secs(1));
        assert_eq!(
            claim(&database, "1").await.expect("written"),
            RefreshClaim::Claimed(login("1"))
        );
        let renewed = database.renew_upstream_login("up", "s", "1", login("2")).await;
        assert!(renewed.expect("written"));
        assert_eq!(
            claim(&database, "1").await.expect("written"),
            RefreshClaim::Changed(login("2"))
        );
        assert_eq!(
            claim(&database, "2").await.expect("written"),
            RefreshClaim::Claimed(login("2"))
        );
    }

    async fn claim(database: &Database, token: &str) -> Result<RefreshClaim, Unavailable> {
        database.claim_refresh("up", "s", token, TIME).await
    }

    async fn a_change_of_an_earlier_version_is_not_made(home: TestHome) {
        let database = home.open().await;
        database.put_upstream_login("up", "s", login("2")).await.expect("written");
        assert!(!database.renew_upstream_login("up", "s", "1", login("3")).await.expect("written"));
        database.want_scopes("up", "s", "1", "write").await.expect("written");
        assert_eq!(database.upstream_login("up", "s").await.expect("read"), Some(login("2")));
        database.want_scopes("up", "s", "2", "write").await.expect("written");
        let wanted = database.upstream_login("up", "s").await.expect("read").expect("a login");
        assert_eq!(wanted.wanted, "write");
        assert!(!database.renew_upstream_login("up", "t", "2", login("3")).await.expect("written"));
    }
}
