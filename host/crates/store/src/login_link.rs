//! Links by which users log in at the authorization servers of MCP servers. Any process that shares the
//! database can follow one.
//!
//! ```text
//! put ─► Open ─start─► Started ─take─► gone
//!          └──────┬───────┘ (a new start replaces the state)
//!              expires
//! ```
//!
//! The identifier of a link and the state of its authorization request are secrets, so the database has
//! their digests. What else is remembered of a login is a document that this module does not read.

use std::time::Duration;

use crate::{
    columns::milliseconds,
    database::Database,
    error::Unavailable,
    login::{LoginId, owner},
    owner::OwnerId,
    seal::{Sealer, SecretPlace},
    sql::{Row, Sql, SqlError, Subject, params},
};
use airlock_strings::hex;

/// Maximum links of one holder that can be followed. One more ends the oldest.
pub const MAX_LINKS: u32 = 16;
/// Maximum number of expired links that one change removes, so that it stays quick.
const PURGED_AT_ONCE: u32 = 100;

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
            make_room(sql, &holder)?;
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
        let sealer = self.sealer();
        self.read(move |sql| {
            let select =
                format!("SELECT {COLUMNS} FROM login_link WHERE id = ?1 AND expires_ms > ?2");
            sql.find(&select, params![&hex(&digest), sql.now()], |row| link(row, &sealer))
        })
        .await
    }

    /// Starts the authorization of a link: `state` is the digest of its state, in the place of that of an
    /// earlier start. Returns false if there is no such link any more. Fails if the database cannot be
    /// used.
    pub async fn start_login_link(
        &self,
        digest: LinkDigest,
        state: LinkDigest,
        document: String,
    ) -> Result<bool, Unavailable> {
        let sealer = self.sealer();
        self.write(Subject::LOGIN_LINKS, move |sql| {
            let digest = hex(&digest);
            let document = sealer.seal(&place(&digest), &document)?;
            let update = "UPDATE login_link SET state = ?2, document = ?3 \
                          WHERE id = ?1 AND expires_ms > ?4";
            let state = hex(&state);
            let values = params![&digest, &state, &document, sql.now()];
            Ok(sql.run(update, values)? > 0)
        })
        .await
    }

    /// Returns the link whose authorization has this state. Fails if the database cannot be used.
    pub async fn started_login_link(
        &self,
        state: LinkDigest,
    ) -> Result<Option<LoginLink>, Unavailable> {
        let sealer = self.sealer();
        self.read(move |sql| {
            let select =
                format!("SELECT {COLUMNS} FROM login_link WHERE state = ?1 AND expires_ms > ?2");
            sql.find(&select, params![&hex(&state), sql.now()], |row| link(row, &sealer))
        })
        .await
    }

    /// Removes the link whose authorization has this state, and all other links for the same login. Of
    /// many callers, one gets true. Fails if the database cannot be used.
    pub async fn take_login_link(&self, state: LinkDigest) -> Result<bool, Unavailable> {
        self.write(Subject::LOGIN_LINKS, move |sql| {
            sql.overwrite_deleted()?;
            let select = "SELECT client, server, holder FROM login_link \
                          WHERE state = ?1 AND expires_ms > ?2";
            let taken = sql.find(select, params![&hex(&state), sql.now()], target)?;
            let Some(LinkTarget { client, server, holder }) = taken else { return Ok(false) };
            let delete = "DELETE FROM login_link WHERE client = ?1 AND server = ?2 AND holder = ?3";
            Ok(sql.run(delete, params![&client, &server, &holder])? > 0)
        })
        .await
    }
}

/// The login that a link is for, as it is stored.
struct LinkTarget {
    client: String,
    server: String,
    holder: String,
}

fn target(row: &Row<'_>) -> Result<LinkTarget, SqlError> {
    Ok(LinkTarget { client: row.get(0)?, server: row.get(1)?, holder: row.get(2)? })
}

const COLUMNS: &str = "id, client, server, holder, expires_ms, document";

fn link(row: &Row<'_>, sealer: &Sealer) -> Result<LoginLink, SqlError> {
    let holder: Option<OwnerId> = owner(row.get(3)?);
    Ok(LoginLink {
        id: LoginId { client: row.get(1)?, server: row.get(2)?, holder },
        expires_ms: row.get(4)?,
        document: sealer.open(&place(row.get(0)?), row.get(5)?)?,
    })
}

fn place(digest: &str) -> SecretPlace {
    SecretPlace::new("login_link", "document", &[digest.as_bytes()])
}

/// Removes links that have expired, and the oldest ones of a holder that has as many as it may.
fn make_room(sql: &Sql<'_>, holder: &str) -> Result<(), SqlError> {
    sql.overwrite_deleted()?;
    let expired = "DELETE FROM login_link WHERE id IN \
                   (SELECT id FROM login_link WHERE expires_ms <= ?1 ORDER BY expires_ms LIMIT ?2)";
    sql.run(expired, params![sql.now(), PURGED_AT_ONCE])?;
    let beyond = "DELETE FROM login_link WHERE holder = ?1 AND id NOT IN \
                  (SELECT id FROM login_link WHERE holder = ?1 ORDER BY expires_ms DESC, id LIMIT ?2)";
    sql.run(beyond, params![holder, MAX_LINKS - 1]).map(drop)
}

#[cfg(test)]
mod tests;
