//! Sessions of operators who log in with browsers, and the logins that they begin with. Any process that
//! shares the database can end a login and knows every session.
//!
//! A login can be begun without a credential, so each peer has room of its own for logins, and queues of its own.
//!
//! ```text
//! begin ─► login ─take─► (the code is exchanged) ─► open ─► session ─┬─► ended
//!            └─ expires                                              └─► idle for too long, or expired
//! ```
//!
//! The state of a login, the secret of its browser and the credential of a session are secrets, so the
//! database has their digests. What else is remembered of a login is a document that this module does not
//! read.

use std::{convert::Infallible, time::Duration};

use crate::{
    database::Database,
    entries::record::{self, NewChange},
};
use airlock_core::secret::Secret;
use airlock_database::{
    columns::milliseconds,
    error::Unavailable,
    eviction::ExpiringTable,
    seal::SecretPlace,
    sql::{Row, Sql, SqlResult, Subject, first, params},
};
use airlock_strings::hex;

/// Maximum logins that can be completed. A peer needs no credential to begin one, which stores a
/// document. One more ends the oldest of the peer that has the most.
pub const MAX_LOGINS: u32 = 4_096;
/// Maximum logins of one peer, a 64th of all: its address may be that of a whole office. One more
/// ends its oldest.
pub const MAX_LOGINS_OF_PEER: u32 = 64;
/// Maximum sessions of one operator: a person has one for each browser, and each login adds one.
/// One more ends the one that was unused for longest.
pub const MAX_SESSIONS_OF_OPERATOR: u32 = 16;
/// Maximum sessions of all operators, who may be as many as the provider has people: their list is
/// read at once. One more ends one as [`MAX_SESSIONS_OF_OPERATOR`] does.
pub const MAX_SESSIONS: u32 = 10_000;
/// Time between two records of the use of a session.
const SEEN_INTERVAL: Duration = Duration::from_mins(1);

static LOGINS: ExpiringTable =
    ExpiringTable { name: "operator_login", of_owner: "peer = ?1", order: "expires_ms" };
static SESSIONS: ExpiringTable = ExpiringTable {
    name: "operator_session",
    of_owner: "subject = ?1 AND issuer = ?2",
    order: "seen_ms",
};

/// SHA-256 of a secret.
pub type SecretDigest = [u8; 32];

/// A login that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOperatorLogin {
    /// Digest of its state.
    pub state: SecretDigest,
    /// Digest of the secret of its browser.
    pub browser: SecretDigest,
    /// Digest of the address that begins it.
    pub peer: SecretDigest,
    /// Document of the gateway about it, with the secrets of the login.
    pub document: Secret,
}

/// Outcome of [`Database::take_operator_login`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OperatorLoginTaken {
    /// The login is gone now; this is its document.
    Done(Secret),
    /// The login belongs to another browser, and stays.
    OtherBrowser,
    /// There is no such login: it has expired, was taken, or never was.
    Gone,
}

/// A session that is to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOperatorSession {
    /// Identifier for lists.
    pub id: String,
    /// Digest of its credential.
    pub digest: SecretDigest,
    /// Digest of the settings that the rights follow from. With others, there is no such session.
    pub policy: SecretDigest,
    /// Issuer of the operator.
    pub issuer: String,
    /// Subject of the operator, unique within the issuer.
    pub subject: String,
    /// Name for people.
    pub name: String,
    /// Name of the role.
    pub role: String,
    /// True if it may read arguments and results of calls.
    pub sees_payloads: bool,
}

/// A session as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorSession {
    /// Identifier for lists.
    pub id: String,
    /// Issuer of the operator.
    pub issuer: String,
    /// Subject of the operator.
    pub subject: String,
    /// Name for people.
    pub name: String,
    /// Name of the role.
    pub role: String,
    /// True if it may read arguments and results of calls.
    pub sees_payloads: bool,
    /// Time of the login, in milliseconds since 1970.
    pub created_ms: i64,
    /// Time of the last request, to the minute.
    pub seen_ms: i64,
    /// Time from which it is not valid, however it is used.
    pub expires_ms: i64,
}

/// A session that was found by its credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundOperatorSession {
    /// The session.
    pub session: OperatorSession,
    /// True if its use is to be recorded: it was not for a minute.
    pub is_use_due: bool,
}

/// Sessions that are valid: those that were opened under these settings and used within this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionRules {
    /// Digest of the settings.
    pub policy: SecretDigest,
    /// Time without a use after which a session is not valid.
    pub idle: Duration,
}

impl Database {
    /// Stores a login, which can be completed for `life`. Fails if the database cannot be used.
    pub async fn begin_operator_login(
        &self,
        login: NewOperatorLogin,
        life: Duration,
    ) -> Result<(), Unavailable> {
        let sealer = self.sealer();
        self.of_logins(login.peer)
            .write(Subject::OPERATOR_SESSIONS, move |sql| {
                make_room_for_login(sql, &login.peer)?;
                let id = hex(&login.state);
                let document = sealer.seal(&place(&id), login.document.expose())?;
                let expires = sql.now().saturating_add(milliseconds(life));
                let insert = "INSERT INTO operator_login (id, browser, peer, expires_ms, document) \
                              VALUES (?1, ?2, ?3, ?4, ?5)";
                let NewOperatorLogin { browser, peer, .. } = &login;
                sql.run(insert, params![&id, browser, peer, expires, &document]).map(drop)
            })
            .await
    }

    /// Removes a login that has not expired, if it belongs to this browser. Of many callers, one gets its
    /// document. `peer` is the digest of the address that asks, which may be another one than that which
    /// began the login. Fails if the database cannot be used.
    pub async fn take_operator_login(
        &self,
        state: SecretDigest,
        browser: SecretDigest,
        peer: SecretDigest,
    ) -> Result<OperatorLoginTaken, Unavailable> {
        let sealer = self.sealer();
        self.of_logins(peer)
            .write(Subject::OPERATOR_SESSIONS, move |sql| {
                sql.overwrite_deleted()?;
                let id = hex(&state);
                let select = "SELECT browser FROM operator_login WHERE id = ?1 AND expires_ms > ?2";
                let own: Option<SecretDigest> = sql.find(select, params![&id, sql.now()], first)?;
                let Some(own) = own else { return Ok(OperatorLoginTaken::Gone) };
                if own != browser {
                    return Ok(OperatorLoginTaken::OtherBrowser);
                }
                let delete = "DELETE FROM operator_login WHERE id = ?1 RETURNING document";
                let document: Vec<u8> = sql.one(delete, params![&id], first)?;
                let document = Secret::new(sealer.open(&place(&id), &document)?);
                Ok(OperatorLoginTaken::Done(document))
            })
            .await
    }

    /// Stores a session, which is valid for `life` at most. `previous` is the digest of the session of the
    /// same browser that it replaces. Fails if the database cannot be used.
    pub async fn open_operator_session(
        &self,
        session: NewOperatorSession,
        life: Duration,
        previous: Option<SecretDigest>,
    ) -> Result<(), Unavailable> {
        self.write(Subject::OPERATOR_SESSIONS, move |sql| {
            if let Some(previous) = previous {
                end(sql, &previous)?;
            }
            make_room_for_session(sql, &session)?;
            let NewOperatorSession { id, digest, policy, issuer, subject, name, role, .. } =
                &session;
            let now = sql.now();
            let expires = now.saturating_add(milliseconds(life));
            let insert = "INSERT INTO operator_session (id, digest, policy, issuer, subject, name, \
                          role, sees_payloads, created_ms, seen_ms, expires_ms) \
                          VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10)";
            let sees_payloads = session.sees_payloads;
            let values = params![
                id,
                digest,
                policy,
                issuer,
                subject,
                name,
                role,
                sees_payloads,
                now,
                expires
            ];
            sql.run(insert, values).map(drop)
        })
        .await
    }

    /// Finds the valid session with this digest, for a request of a peer: anyone can send cookies, and those
    /// of one peer do not delay others. Fails if the database cannot be used.
    pub async fn operator_session(
        &self,
        digest: SecretDigest,
        rules: SessionRules,
        peer: &str,
    ) -> Result<Option<FoundOperatorSession>, Unavailable> {
        let database = self.of_party(("sessions of operators", peer));
        let reading = database.read(move |sql| {
            let condition =
                "WHERE digest = ?1 AND policy = ?2 AND seen_ms > ?3 AND expires_ms > ?4";
            let select = format!("{SELECT} {condition}");
            let now = sql.now();
            let oldest = now.saturating_sub(milliseconds(rules.idle));
            let found = sql.find(&select, params![&digest, &rules.policy, oldest, now], session)?;
            Ok(found.map(|session| {
                let due_ms = session.seen_ms.saturating_add(milliseconds(SEEN_INTERVAL));
                FoundOperatorSession { session, is_use_due: due_ms <= now }
            }))
        });
        reading.await
    }

    /// Records that the session with this digest is used now, unless that was recorded within a minute. A
    /// session whose use is not recorded ends earlier. Fails if the database cannot be used.
    pub async fn record_operator_session_use(
        &self,
        digest: SecretDigest,
    ) -> Result<(), Unavailable> {
        let database = self.of_party("uses of sessions of operators");
        let recording = database.write(Subject::OPERATOR_SESSIONS, move |sql| {
            let now = sql.now();
            let before = now.saturating_sub(milliseconds(SEEN_INTERVAL));
            let update =
                "UPDATE operator_session SET seen_ms = ?2 WHERE digest = ?1 AND seen_ms <= ?3";
            sql.run(update, params![&digest, now, before]).map(drop)
        });
        recording.await
    }

    /// Ends the session with this digest. Returns false if there is none. Fails if the database cannot be
    /// used.
    pub async fn end_operator_session(&self, digest: SecretDigest) -> Result<bool, Unavailable> {
        self.write(Subject::OPERATOR_SESSIONS, move |sql| end(sql, &digest)).await
    }

    /// Ends the session with this identifier, and records that `actor` has done it. Returns its name; `None`
    /// if there is none. Fails if the database cannot be used.
    pub async fn revoke_operator_session(
        &self,
        id: &str,
        actor: &str,
    ) -> Result<Option<String>, Unavailable> {
        let sealer = self.sealer();
        let id = id.to_owned();
        let actor = actor.to_owned();
        let subjects = vec![Subject::OPERATOR_SESSIONS, Subject::SETTINGS];
        let revoked = self.attempt(subjects, move |sql| {
            let delete = "DELETE FROM operator_session WHERE id = ?1 RETURNING name";
            let name: Option<String> = sql.find(delete, params![&id], first)?;
            if let Some(name) = &name {
                let change = NewChange {
                    actor: &actor,
                    action: "session.revoke",
                    kind: None,
                    name,
                    before: None,
                    after: None,
                };
                record::add(sql, &sealer, &change)?;
            }
            Ok(Ok::<_, Infallible>(name))
        });
        let Ok(name) = revoked.await?;
        Ok(name)
    }

    /// Returns the valid sessions, the ones that were used last first: at most [`MAX_SESSIONS`]. Fails if the
    /// database cannot be used.
    pub async fn operator_sessions(
        &self,
        rules: SessionRules,
    ) -> Result<Vec<OperatorSession>, Unavailable> {
        self.read(move |sql| {
            let condition = "WHERE policy = ?1 AND seen_ms > ?2 AND expires_ms > ?3";
            let select = format!("{SELECT} {condition} ORDER BY seen_ms DESC, id LIMIT ?4");
            let now = sql.now();
            let oldest = now.saturating_sub(milliseconds(rules.idle));
            sql.all(&select, params![&rules.policy, oldest, now, MAX_SESSIONS], session)
        })
        .await
    }

    /// Returns the database for what anyone may cause: the beginnings and redirects of logins.
    fn of_logins(&self, peer: SecretDigest) -> Self {
        self.of_party(("logins of operators", peer))
    }
}

const SELECT: &str = "SELECT id, issuer, subject, name, role, sees_payloads, created_ms, seen_ms, \
                      expires_ms FROM operator_session";

fn session(row: &Row<'_>) -> SqlResult<OperatorSession> {
    Ok(OperatorSession {
        id: row.get(0)?,
        issuer: row.get(1)?,
        subject: row.get(2)?,
        name: row.get(3)?,
        role: row.get(4)?,
        sees_payloads: row.get(5)?,
        created_ms: row.get(6)?,
        seen_ms: row.get(7)?,
        expires_ms: row.get(8)?,
    })
}

fn end(sql: &Sql<'_>, digest: &SecretDigest) -> SqlResult<bool> {
    Ok(sql.run("DELETE FROM operator_session WHERE digest = ?1", params![digest])? > 0)
}

fn place(id: &str) -> SecretPlace {
    SecretPlace::new("operator_login", "document", &[id.as_bytes()])
}

/// Removes logins that have expired, and the oldest ones of the peer if it has as many as it may. If there are
/// as many of all peers as may be, removes those of the peer that has the most: one that begins many
/// displaces its own.
fn make_room_for_login(sql: &Sql<'_>, peer: &SecretDigest) -> SqlResult<()> {
    sql.overwrite_deleted()?;
    LOGINS.make_room(sql, params![peer], MAX_LOGINS_OF_PEER - 1)?;
    let surplus = LOGINS.surplus(sql, MAX_LOGINS)?;
    if surplus == 0 {
        return Ok(());
    }
    let oldest = "DELETE FROM operator_login WHERE id IN \
                  (SELECT id FROM operator_login WHERE peer = \
                  (SELECT peer FROM operator_login GROUP BY peer ORDER BY count(*) DESC, peer LIMIT 1) \
                  ORDER BY expires_ms, id LIMIT ?1)";
    sql.run(oldest, params![surplus]).map(drop)
}

/// Removes sessions that have expired, and those that were unused for longest if their operator, or all
/// together, have as many as they may.
fn make_room_for_session(sql: &Sql<'_>, session: &NewOperatorSession) -> SqlResult<()> {
    let NewOperatorSession { issuer, subject, .. } = session;
    SESSIONS.make_room(sql, params![subject, issuer], MAX_SESSIONS_OF_OPERATOR - 1)?;
    let surplus = SESSIONS.surplus(sql, MAX_SESSIONS)?;
    let oldest = "DELETE FROM operator_session WHERE id IN \
                  (SELECT id FROM operator_session ORDER BY seen_ms, id LIMIT ?1)";
    sql.run(oldest, params![surplus]).map(drop)
}

#[cfg(test)]
mod tests;
