//! Removes conversations that have expired, and those that the bounds leave no room for.
//!
//! A change has the lock of its own owner. Conversations of another owner are removed only if no
//! change of that owner is running, so that none loses the conversation that it continues. Therefore
//! the bound of all owners is exact in `SQLite`; in `PostgreSQL`, changes that run at the same time may
//! exceed it together by what they store.

use super::{Put, grow_owner};
use crate::{
    columns::{signed, unsigned},
    owner::OwnerId,
    sql::{Sql, SqlError, SqlFault, Subject, first, params},
};

/// Maximum number of expired conversations that one change removes, so that the change stays quick.
const PURGED_AT_ONCE: u32 = 100;
/// Most conversations that one change evicts, for the same reason.
const EVICTED_AT_ONCE: usize = 100;
/// Owners with the most bytes of which one makes room for others.
const LARGEST: u32 = 4;

/// An owner whose conversations are removed.
struct FoundOwner {
    id: i64,
    scope: Vec<u8>,
}

impl FoundOwner {
    /// Returns whether this change may remove conversations of the owner.
    fn is_free(&self, sql: &Sql<'_>, own: &[u8]) -> Result<bool, SqlError> {
        Ok(self.scope == own || sql.try_lock(Subject::responses(&self.scope))?)
    }
}

fn owners(
    sql: &Sql<'_>,
    select: &str,
    params: &[crate::sql::Param<'_>],
) -> Result<Vec<FoundOwner>, SqlError> {
    sql.all(select, params, |row| Ok(FoundOwner { id: row.get(0)?, scope: row.get(1)? }))
}

/// The owner of a change, and the room that is taken.
pub(super) struct OwnerRoom {
    pub(super) id: i64,
    scope: OwnerId,
    /// Bytes that the owner stores.
    bytes: i64,
    /// Bytes that all owners store.
    total: i64,
    /// True if conversations have expired, of any owner.
    has_expired: bool,
}

impl OwnerRoom {
    /// Reads the room of an owner; `None` if it has no row.
    fn find(sql: &Sql<'_>, scope: &OwnerId) -> Result<Option<Self>, SqlError> {
        let select = "SELECT id, bytes, \
                      (SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM response_owner), \
                      EXISTS (SELECT 1 FROM response_conversation WHERE expires <= ?2) \
                      FROM response_owner WHERE scope = ?1";
        sql.find(select, params![scope, sql.now()], |row| {
            Ok(Self {
                id: row.get(0)?,
                scope: *scope,
                bytes: row.get(1)?,
                total: row.get(2)?,
                has_expired: row.get(3)?,
            })
        })
    }

    fn find_or_make(sql: &Sql<'_>, scope: &OwnerId) -> Result<Self, SqlError> {
        if let Some(owner) = Self::find(sql, scope)? {
            return Ok(owner);
        }
        sql.run("INSERT INTO response_owner (scope) VALUES (?1)", params![scope])?;
        Self::find(sql, scope)?.ok_or_else(|| SqlError::new(SqlFault::NoRow))
    }

    fn read_again(&mut self, sql: &Sql<'_>) -> Result<(), SqlError> {
        *self = Self::find_or_make(sql, &self.scope)?;
        Ok(())
    }
}

/// Removes expired conversations of all owners. Returns the room after that.
pub(super) fn purged_owner(sql: &Sql<'_>, own: &OwnerId) -> Result<OwnerRoom, SqlError> {
    let mut owner = OwnerRoom::find_or_make(sql, own)?;
    if owner.has_expired {
        purge(sql, own)?;
        owner.read_again(sql)?;
    }
    Ok(owner)
}

fn purge(sql: &Sql<'_>, own: &OwnerId) -> Result<(), SqlError> {
    let select = "SELECT id, scope FROM response_owner WHERE id IN \
                  (SELECT owner FROM response_conversation WHERE expires <= ?1 ORDER BY expires LIMIT ?2)";
    let now = sql.now();
    let mut left = i64::from(PURGED_AT_ONCE);
    for owner in owners(sql, select, params![now, PURGED_AT_ONCE])? {
        if !owner.is_free(sql, own)? {
            continue;
        }
        let some = "DELETE FROM response_conversation WHERE id IN \
                    (SELECT id FROM response_conversation WHERE owner = ?1 AND expires <= ?2 LIMIT ?3) \
                    RETURNING bytes";
        let removed: Vec<i64> = sql.all(some, params![owner.id, now, left], first)?;
        grow_owner(sql, owner.id, -removed.iter().sum::<i64>())?;
        left -= signed(removed.len() as u64);
    }
    Ok(())
}

/// Evicts conversations other than `kept` until the response fits, at most [`EVICTED_AT_ONCE`].
/// Returns whether it fits. It does in the end, because `kept` with the response is within the
/// bounds.
pub(super) fn make_room(
    sql: &Sql<'_>,
    mut owner: OwnerRoom,
    kept: i64,
    put: &Put,
) -> Result<bool, SqlError> {
    for _ in 0..EVICTED_AT_ONCE {
        let is_evicted =
            exceeds(put, owner.bytes, put.bounds.owner_bytes) && evict(sql, owner.id, kept)?;
        if !is_evicted {
            if !exceeds(put, owner.total, put.bounds.total_bytes) {
                return Ok(true);
            }
            let Some(largest) = largest(sql, &owner.scope, kept)? else { return Ok(true) };
            evict(sql, largest, kept)?;
        }
        owner.read_again(sql)?;
    }
    Ok(false)
}

fn exceeds(put: &Put, held: i64, limit: u64) -> bool {
    unsigned(held).saturating_add(put.cost()) > limit
}

/// Returns the owner with the most bytes that has a conversation besides `kept`; in `PostgreSQL`, one
/// of those with the most.
fn largest(sql: &Sql<'_>, own: &[u8], kept: i64) -> Result<Option<i64>, SqlError> {
    let select = "SELECT o.id, o.scope FROM response_owner o WHERE EXISTS \
                  (SELECT 1 FROM response_conversation c WHERE c.owner = o.id AND c.id <> ?1) \
                  ORDER BY o.bytes DESC, o.id LIMIT ?2";
    for owner in owners(sql, select, params![kept, LARGEST])? {
        if owner.is_free(sql, own)? {
            return Ok(Some(owner.id));
        }
    }
    Ok(None)
}

/// Evicts the conversation of an owner that expires first. Returns false if there is none besides
/// `kept`.
fn evict(sql: &Sql<'_>, owner: i64, kept: i64) -> Result<bool, SqlError> {
    let delete = "DELETE FROM response_conversation WHERE id = \
                  (SELECT id FROM response_conversation WHERE owner = ?1 AND id <> ?2 \
                  ORDER BY expires, id LIMIT 1) RETURNING bytes";
    let Some(bytes) = sql.find::<i64>(delete, params![owner, kept], first)? else {
        return Ok(false);
    };
    grow_owner(sql, owner, -bytes)?;
    Ok(true)
}
