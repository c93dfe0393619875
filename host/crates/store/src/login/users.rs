//! The logins of holders: stores them by their links, lists and removes them.

use super::{LoginId, UpstreamLogin, id::owner, key};
use crate::{
    database::Database,
    entries::MAX_LISTED,
    login_link::{LinkDigest, use_up},
};
use airlock_database::{
    error::Unavailable,
    owner::OwnerId,
    revision::ChangeKind,
    sql::{Param, Row, Sql, SqlResult, Subject, params},
};
use airlock_strings::hex;

/// Holder of a login, as people know it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginHolder {
    /// Identifies the login among those that the holder had before. Renewed tokens are of the same one.
    pub session: String,
    /// Name of the virtual key of the holder.
    pub key_name: String,
    /// Issuer of the access tokens of the holder; empty if the virtual key is its credential.
    pub issuer: String,
    /// Subject of these access tokens; empty without an issuer.
    pub subject: String,
}

/// A login of a holder, without its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserLogin {
    /// Names the login.
    pub id: LoginId,
    /// The holder.
    pub holder: LoginHolder,
    /// Method by which the client of the tokens authenticates itself, or the kind of other credentials, as the
    /// caller names it.
    pub authentication: String,
    /// Granted scopes, separated by spaces.
    pub scopes: String,
    /// Time at which the tokens were issued, in milliseconds since 1970.
    pub obtained_ms: i64,
    /// Time at which the access token expires, in milliseconds since 1970, if it is known.
    pub expires_ms: Option<i64>,
    /// False if the authorization server has refused to renew it, so that the holder has to log in.
    pub is_active: bool,
}

/// Kind of the credentials of a login that are headers which its holder has entered, in
/// [`UpstreamLogin::authentication`].
pub const USER_HEADERS: &str = "user_headers";

impl UserLogin {
    /// Returns whether the credentials are headers which the holder has entered.
    pub fn has_headers(&self) -> bool {
        self.authentication == USER_HEADERS
    }
}

impl Database {
    /// Returns the logins of one holder, or those of all for an operator: sorted by their clients, at
    /// most [`MAX_LISTED`] from `offset` on. Fails if the database cannot be used.
    pub async fn user_logins(
        &self,
        holder: Option<OwnerId>,
        offset: u32,
    ) -> Result<Vec<UserLogin>, Unavailable> {
        let holder = holder.map(|holder| hex(&holder));
        self.read(move |sql| list(sql, holder.as_deref(), offset)).await
    }

    /// Stores a login of a holder that was begun by the link with this digest, and removes the link and all
    /// others for the same login, in one transaction. Returns false, and changes nothing, if the link does
    /// not exist any more: its holder or its client was removed meanwhile, or another login has ended it.
    /// Fails if the database cannot be used.
    pub async fn put_user_login(
        &self,
        id: &LoginId,
        link: LinkDigest,
        login: UpstreamLogin,
    ) -> Result<bool, Unavailable> {
        let key = self.login_key(id);
        let done = self.attempt(vec![key.subject(), Subject::LOGIN_LINKS], move |sql| {
            if !use_up(sql, &link)? {
                return Ok(Err(()));
            }
            key.write(sql, &login)?;
            Ok(Ok(()))
        });
        Ok(done.await?.is_ok())
    }

    /// Removes a login by its session; with a holder, only one of that holder. Its traces are removed as
    /// with [`Self::remove_upstream_logins`]. Returns the removed one; `None` if there is none. Fails if
    /// the database cannot be used.
    pub async fn remove_user_login(
        &self,
        session: &str,
        holder: Option<OwnerId>,
    ) -> Result<Option<UserLogin>, Unavailable> {
        let holder = holder.map(|holder| hex(&holder));
        let session = session.to_owned();
        let found = self.read(move |sql| {
            let select =
                format!("{SELECT} WHERE session = ?1 AND (holder = ?2 OR ?2 IS NULL) LIMIT 1");
            sql.find(&select, params![&session, holder.as_ref()], listed)
        });
        let Some(found) = found.await? else { return Ok(None) };
        self.delete(vec![found.clone()]).await?;
        Ok(Some(found))
    }

    /// Removes all logins of some holders, and the links by which they would log in. Returns the removed
    /// ones. Fails if the database cannot be used; some may be removed by then.
    pub async fn remove_logins_of(
        &self,
        holders: &[OwnerId],
    ) -> Result<Vec<UserLogin>, Unavailable> {
        let mut removed = Vec::new();
        for holder in holders {
            let name = hex(holder);
            self.write(Subject::LOGIN_LINKS, move |sql| {
                sql.run("DELETE FROM login_link WHERE holder = ?1", params![&name]).map(drop)
            })
            .await?;
            let found = self.user_logins(Some(*holder), 0).await?;
            self.delete(found.clone()).await?;
            removed.extend(found);
        }
        Ok(removed)
    }

    /// Removes the logins of holders of a client at all servers but `present`, and the links by which they
    /// would log in there: at all servers, if there is none. Returns the removed ones. Fails if the database
    /// cannot be used; some may be removed by then.
    pub async fn remove_logins_elsewhere(
        &self,
        client: &str,
        present: Option<&str>,
    ) -> Result<Vec<UserLogin>, Unavailable> {
        let client = client.to_owned();
        // No server has an empty name.
        let present = present.unwrap_or_default().to_owned();
        let of_client = client.clone();
        let kept = present.clone();
        self.write(Subject::LOGIN_LINKS, move |sql| {
            let delete = "DELETE FROM login_link WHERE client = ?1 AND server <> ?2";
            sql.run(delete, params![&of_client, &kept]).map(drop)
        })
        .await?;
        let mut removed = Vec::new();
        loop {
            let of_client = client.clone();
            let kept = present.clone();
            let found = self.read(move |sql| {
                let select = format!(
                    "{SELECT} WHERE client = ?1 AND server <> ?2 ORDER BY session LIMIT ?3"
                );
                sql.all(&select, params![&of_client, &kept, MAX_LISTED], listed)
            });
            let found = found.await?;
            if found.is_empty() {
                return Ok(removed);
            }
            self.delete(found.clone()).await?;
            removed.extend(found);
        }
    }

    /// Removes the tokens of a holder's login, whose renewal was refused for good. It stays in the list
    /// as one that is not active. Changes nothing if the login has another version than that which has
    /// `access_token`. Fails if the database cannot be used.
    pub async fn void_user_login(
        &self,
        id: &LoginId,
        access_token: &str,
    ) -> Result<(), Unavailable> {
        let voided = self.change_version(id, access_token, |key, sql| {
            sql.overwrite_deleted()?;
            key.set(sql, "access_token", Param::Bytes(b""))?;
            key.set(sql, "refresh_token", Param::Null)?;
            key.set(sql, "refreshing_until_ms", Param::Number(0))?;
            sql.announce(ChangeKind::Logins)
        });
        voided.await.map(drop)
    }

    async fn delete(&self, logins: Vec<UserLogin>) -> Result<(), Unavailable> {
        for login in logins {
            self.write(Subject::login(&login.id.client), move |sql| {
                sql.overwrite_deleted()?;
                let session = &login.holder.session;
                if sql.run("DELETE FROM user_login WHERE session = ?1", params![session])? > 0 {
                    sql.announce(ChangeKind::Logins)?;
                }
                Ok(())
            })
            .await?;
        }
        // The log has the tokens until it is copied into the file. A reader may prevent that.
        let _ = self.truncate_log().await;
        Ok(())
    }
}

const SELECT: &str = "SELECT client, server, holder, scopes, obtained_ms, expires_ms, \
                      length(access_token) > 0, authentication, session, key_name, user_issuer, user_subject \
                      FROM user_login";

fn list(sql: &Sql<'_>, holder: Option<&str>, offset: u32) -> SqlResult<Vec<UserLogin>> {
    let select = format!(
        "{SELECT} WHERE holder = ?1 OR ?1 IS NULL ORDER BY client, holder, server LIMIT ?2 OFFSET ?3"
    );
    sql.all(&select, params![holder, MAX_LISTED, offset], listed)
}

fn listed(row: &Row<'_>) -> SqlResult<UserLogin> {
    Ok(UserLogin {
        id: LoginId { client: row.get(0)?, server: row.get(1)?, holder: owner(row.get(2)?) },
        scopes: row.get(3)?,
        obtained_ms: row.get(4)?,
        expires_ms: row.get(5)?,
        is_active: row.get(6)?,
        authentication: row.get(7)?,
        holder: key::holder(row, 8)?,
    })
}
