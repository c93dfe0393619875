//! Links by which users log in at the authorization servers of MCP servers. Any process that shares the
//! database can follow one.
//!
//! ```text
//! put ─► Open ─start─► Started ─take─► Open, until the login is stored: then gone
//!          └──────┬───────┘ (a new start replaces the state)
//!              expires
//! ```
//!
//! The identifier of a link and the state of its authorization request are secrets, so the database has
//! their digests. What else is remembered of a login is a document that this module does not read.
//!
//! A link exists until its login is stored, and is removed with its holder: a login that was under way when
//! its holder was removed is not stored.

use std::time::Duration;

use crate::{
    database::Database,
    login::{LoginId, owner},
};
use airlock_database::{
    columns::milliseconds,
    error::Unavailable,
    eviction::ExpiringTable,
    owner::OwnerId,
    seal::{Sealer, SecretPlace},
    sql::{Row, Sql, SqlResult, Subject, params},
};
use airlock_strings::hex;

/// Maximum links of one holder that can be followed. Calls of a model make them, one for each
/// server and gateway, and each has a document in the database. One more ends the oldest.
pub const MAX_LINKS: u32 = 16;

static LINKS: ExpiringTable =
    ExpiringTable { name: "login_link", of_owner: "holder = ?1", order: "expires_ms" };

/// SHA-256 of a secret of a link.
pub type LinkDigest = [u8; 32];

/// A link that is to be stored. It always has a holder: the operator logs in without a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLoginLink {
    /// Digest of its identifier.
    pub digest: LinkDigest,
    /// Name of the client.
    pub client: String,
    /// The MCP server, and the settings of the login.
    pub server: String,
    /// Tenant that the login is for.
    pub holder: OwnerId,
    /// Document of the gateway about it.
    pub document: String,
}

/// A link that can be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginLink {
    /// Digest of its identifier.
    pub digest: LinkDigest,
    /// The login that it is for.
    pub id: LoginId,
    /// Document of the gateway about it.
    pub document: String,
    /// Time at which it expires, in milliseconds since 1970.
    pub expires_ms: i64,
}

impl Database {
    /// Stores a link, which can be followed for `life`. Fails if the database cannot be used.
    pub async fn put_login_link(
        &self,
        link: NewLoginLink,
        life: Duration,
    ) -> Result<(), Unavailable> {
        let NewLoginLink { digest, client, server, holder, document } = link;
        let sealer = self.sealer();
        self.write(Subject::LOGIN_LINKS, move |sql| {
            let digest = hex(&digest);
            let holder = hex(&holder);
            sql.overwrite_deleted()?;
            LINKS.make_room(sql, params![&holder], MAX_LINKS - 1)?;
            let document = sealer.seal(&place(&digest), &document)?;
            let expires = sql.now().saturating_add(milliseconds(life));
            let insert = "INSERT INTO login_link (id, client, server, holder, expires_ms, document) \
                          VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            let values = params![&digest, &client, &server, &holder, expires, &document];
            sql.run(insert, values).map(drop)
        })
        .await
    }

    /// Returns a link that has not expired. Fails if the database cannot be used.
    pub async fn login_link(&self, digest: LinkDigest) -> Result<Option<LoginLink>, Unavailable> {
        self.find_login_link("id", digest).await
    }

    /// Starts the authorization of a link: `state` is the digest of its state, in the place of that of an
    /// earlier start. Changes its document as [`Self::update_login_link`] does. Returns false if there is no
    /// such link any more. Fails if the database cannot be used.
    pub async fn start_login_link(
        &self,
        digest: LinkDigest,
        state: LinkDigest,
        change: impl FnOnce(&LoginLink) -> Option<String> + Send + 'static,
    ) -> Result<bool, Unavailable> {
        let sealer = self.sealer();
        self.write(Subject::LOGIN_LINKS, move |sql| {
            let digest = hex(&digest);
            if update(sql, &sealer, &digest, change)?.is_none() {
                return Ok(false);
            }
            let start = "UPDATE login_link SET state = ?2 WHERE id = ?1";
            Ok(sql.run(start, params![&digest, &hex(&state)])? > 0)
        })
        .await
    }

    /// Returns the link whose authorization has this state. Fails if the database cannot be used.
    pub async fn started_login_link(
        &self,
        state: LinkDigest,
    ) -> Result<Option<LoginLink>, Unavailable> {
        self.find_login_link("state", state).await
    }

    async fn find_login_link(
        &self,
        column: &str,
        digest: LinkDigest,
    ) -> Result<Option<LoginLink>, Unavailable> {
        let sealer = self.sealer();
        let select =
            format!("SELECT {COLUMNS} FROM login_link WHERE {column} = ?1 AND expires_ms > ?2");
        self.read(move |sql| {
            sql.find(&select, params![&hex(&digest), sql.now()], |row| link(row, &sealer))
        })
        .await
    }

    /// Ends the authorization with this state, whose redirect has come. Of many callers, one gets true. The
    /// link stays, for the login to be stored by or for another attempt. Fails if the database cannot be used.
    pub async fn take_login_link(&self, state: LinkDigest) -> Result<bool, Unavailable> {
        self.write(Subject::LOGIN_LINKS, move |sql| {
            let update = "UPDATE login_link SET state = NULL WHERE state = ?1 AND expires_ms > ?2";
            Ok(sql.run(update, params![&hex(&state), sql.now()])? > 0)
        })
        .await
    }

    /// Stores the document that `change` makes of a link; removes the link if it makes none. Changes of other
    /// processes come before or after that, and none is lost. Returns the changed link; `None` if there is
    /// none any more. Fails if the database cannot be used.
    pub async fn update_login_link(
        &self,
        digest: LinkDigest,
        change: impl FnOnce(&LoginLink) -> Option<String> + Send + 'static,
    ) -> Result<Option<LoginLink>, Unavailable> {
        let sealer = self.sealer();
        self.write(Subject::LOGIN_LINKS, move |sql| update(sql, &sealer, &hex(&digest), change))
            .await
    }
}

/// Changes a link, as [`Database::update_login_link`] does.
fn update(
    sql: &Sql<'_>,
    sealer: &Sealer,
    digest: &str,
    change: impl FnOnce(&LoginLink) -> Option<String>,
) -> SqlResult<Option<LoginLink>> {
    sql.overwrite_deleted()?;
    let select = format!("SELECT {COLUMNS} FROM login_link WHERE id = ?1 AND expires_ms > ?2");
    let present = sql.find(&select, params![digest, sql.now()], |row| link(row, sealer))?;
    let Some(present) = present else { return Ok(None) };
    let Some(document) = change(&present) else {
        sql.run("DELETE FROM login_link WHERE id = ?1", params![digest])?;
        return Ok(None);
    };
    let text = sealer.seal(&place(digest), &document)?;
    sql.run("UPDATE login_link SET document = ?2 WHERE id = ?1", params![digest, &text])?;
    Ok(Some(LoginLink { document, ..present }))
}

/// Removes a link and all others for the same login. Returns false if there is no such link.
pub(crate) fn use_up(sql: &Sql<'_>, digest: &LinkDigest) -> SqlResult<bool> {
    sql.overwrite_deleted()?;
    let select = "SELECT client, server, holder FROM login_link WHERE id = ?1";
    let Some(LinkTarget { client, server, holder }) =
        sql.find(select, params![&hex(digest)], target)?
    else {
        return Ok(false);
    };
    let delete = "DELETE FROM login_link WHERE client = ?1 AND server = ?2 AND holder = ?3";
    Ok(sql.run(delete, params![&client, &server, &holder])? > 0)
}

/// The login that a link is for, as it is stored.
struct LinkTarget {
    client: String,
    server: String,
    holder: String,
}

fn target(row: &Row<'_>) -> SqlResult<LinkTarget> {
    Ok(LinkTarget { client: row.get(0)?, server: row.get(1)?, holder: row.get(2)? })
}

const COLUMNS: &str = "id, client, server, holder, expires_ms, document";

fn link(row: &Row<'_>, sealer: &Sealer) -> SqlResult<LoginLink> {
    let holder: Option<OwnerId> = owner(row.get(3)?);
    Ok(LoginLink {
        digest: owner(row.get(0)?).unwrap_or_default(),
        id: LoginId { client: row.get(1)?, server: row.get(2)?, holder },
        expires_ms: row.get(4)?,
        document: sealer.open(&place(row.get(0)?), row.get(5)?)?,
    })
}

fn place(digest: &str) -> SecretPlace {
    SecretPlace::new("login_link", "document", &[digest.as_bytes()])
}

#[cfg(test)]
mod tests;
