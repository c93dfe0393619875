//! Removes texts and records that have expired, and those that the bounds leave no room for.
//!
//! A change has the lock of its own owner. Records of another owner are touched only if no change of
//! that owner is running. Therefore the bound of all owners is exact in `SQLite`; in `PostgreSQL`,
//! changes that run at the same time may exceed it together by what they store.

use super::{OVERHEAD_BYTES, Put, change_owner};
use crate::{
    columns::{signed, unsigned},
    owner::OwnerId,
    sql::{Param, Sql, SqlError, SqlFault, Subject, first, params},
};

/// Maximum number of records that one change removes or removes the texts of, because they have
/// expired; and again to make room. So the change stays quick.
const CHANGED_AT_ONCE: u32 = 100;
/// Maximum number of owners whose records one change removes because they have expired: each takes
/// three requests to a server, and the change keeps its lock.
const PURGED_OWNERS: u32 = 16;
/// Owners with the most bytes of which one makes room for others.
const LARGEST: u32 = 4;

/// Returns the selected owners, with their scopes.
fn owners(
    sql: &Sql<'_>,
    select: &str,
    params: &[Param<'_>],
) -> Result<Vec<(i64, Vec<u8>)>, SqlError> {
    sql.all(select, params, |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Returns whether this change may touch the records of an owner: its own, or one that no other
/// change has.
fn is_free(sql: &Sql<'_>, own: &OwnerId, scope: &[u8]) -> Result<bool, SqlError> {
    Ok(scope == own || sql.try_lock(Subject::recall(scope))?)
}

/// The owner of a change, and the room that is taken.
pub(super) struct OwnerRoom {
    pub(super) id: i64,
    scope: OwnerId,
    /// Bytes and records that the owner stores.
    bytes: i64,
    records: i64,
    /// Bytes that all owners store.
    total: i64,
    /// True if records or texts have expired, of any owner.
    has_expired: bool,
}

impl OwnerRoom {
    /// Reads the room of an owner; `None` if it has no row.
    fn find(sql: &Sql<'_>, scope: &OwnerId) -> Result<Option<Self>, SqlError> {
        let select = "SELECT id, bytes, records, \
                      (SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM recall_owner), \
                      EXISTS (SELECT 1 FROM recall_record WHERE ends <= ?2) \
                      OR EXISTS (SELECT 1 FROM recall_record WHERE expires <= ?2 AND text IS NOT NULL) \
                      FROM recall_owner WHERE scope = ?1";
        sql.find(select, params![scope, sql.now()], |row| {
            Ok(Self {
                id: row.get(0)?,
                scope: *scope,
                bytes: row.get(1)?,
                records: row.get(2)?,
                total: row.get(3)?,
                has_expired: row.get(4)?,
            })
        })
    }

    fn find_or_make(sql: &Sql<'_>, scope: &OwnerId) -> Result<Self, SqlError> {
        if let Some(owner) = Self::find(sql, scope)? {
            return Ok(owner);
        }
        sql.run("INSERT INTO recall_owner (scope) VALUES (?1)", params![scope])?;
        Self::find(sql, scope)?.ok_or_else(|| SqlError::new(SqlFault::NoRow))
    }

    fn read_again(&mut self, sql: &Sql<'_>) -> Result<(), SqlError> {
        *self = Self::find_or_make(sql, &self.scope)?;
        Ok(())
    }
}

/// Removes expired records, and expired texts, of any owner: at most [`CHANGED_AT_ONCE`]. Later changes
/// remove the others. Returns the room after that.
pub(super) fn purged_owner(sql: &Sql<'_>, own: &OwnerId) -> Result<OwnerRoom, SqlError> {
    let mut owner = OwnerRoom::find_or_make(sql, own)?;
    if owner.has_expired {
        purge(sql, own)?;
        owner.read_again(sql)?;
    }
    Ok(owner)
}

fn purge(sql: &Sql<'_>, own: &OwnerId) -> Result<(), SqlError> {
    let ended = "SELECT id, scope FROM recall_owner WHERE id IN \
                 (SELECT owner FROM recall_record WHERE ends <= ?1 ORDER BY ends LIMIT ?2) LIMIT ?3";
    let left = purge_owners(sql, own, ended, CHANGED_AT_ONCE, remove_ended)?;
    let expired = "SELECT id, scope FROM recall_owner WHERE id IN \
                   (SELECT owner FROM recall_record WHERE expires <= ?1 AND text IS NOT NULL \
                   ORDER BY expires LIMIT ?2) LIMIT ?3";
    purge_owners(sql, own, expired, left, clear_expired).map(drop)
}

/// Purges the selected owners by `purge_one`, which changes at most so many records and returns their
/// number. Returns how many of `left` are left.
fn purge_owners(
    sql: &Sql<'_>,
    own: &OwnerId,
    select: &str,
    mut left: u32,
    purge_one: fn(&Sql<'_>, i64, u32) -> Result<u32, SqlError>,
) -> Result<u32, SqlError> {
    for (owner, scope) in owners(sql, select, params![sql.now(), left, PURGED_OWNERS])? {
        // Before the lock, because one that is taken is kept until the change ends.
        if left == 0 {
            break;
        }
        if is_free(sql, own, &scope)? {
            left = left.saturating_sub(purge_one(sql, owner, left)?);
        }
    }
    Ok(left)
}

/// Removes records of an owner that have ended, at most `limit`. Returns their number.
fn remove_ended(sql: &Sql<'_>, owner: i64, limit: u32) -> Result<u32, SqlError> {
    let delete = "DELETE FROM recall_record WHERE id IN \
                  (SELECT id FROM recall_record WHERE owner = ?1 AND ends <= ?2 LIMIT ?3) \
                  RETURNING cost";
    let removed: Vec<i64> = sql.all(delete, params![owner, sql.now(), limit], first)?;
    let bytes: i64 = removed.iter().sum();
    change_owner(sql, owner, -bytes, -signed(removed.len() as u64))?;
    Ok(u32::try_from(removed.len()).unwrap_or(u32::MAX))
}

/// Removes texts of an owner that have expired, at most `limit`. Returns their number.
fn clear_expired(sql: &Sql<'_>, owner: i64, limit: u32) -> Result<u32, SqlError> {
    // First, because the records do not have the bytes of their texts after that.
    let update = "UPDATE recall_owner SET bytes = bytes + \
                  (SELECT CAST(coalesce(sum(?4 - cost), 0) AS BIGINT) FROM (SELECT cost FROM recall_record \
                  WHERE owner = ?1 AND expires <= ?2 AND text IS NOT NULL ORDER BY expires, id LIMIT ?3) r) \
                  WHERE id = ?1";
    let values = params![owner, sql.now(), limit, signed(OVERHEAD_BYTES)];
    sql.run(update, values)?;
    let clear = "UPDATE recall_record SET text = NULL, cost = ?4 WHERE id IN \
                 (SELECT id FROM recall_record \
                 WHERE owner = ?1 AND expires <= ?2 AND text IS NOT NULL ORDER BY expires, id LIMIT ?3)";
    let cleared = sql.run(clear, values)?;
    Ok(u32::try_from(cleared).unwrap_or(u32::MAX))
}

/// Removes what has no room beside the new record, at most [`CHANGED_AT_ONCE`]. Returns whether
/// there is room. There is in the end, because the record alone is within the bounds.
pub(super) fn make_room(sql: &Sql<'_>, mut owner: OwnerRoom, put: &Put) -> Result<bool, SqlError> {
    for _ in 0..CHANGED_AT_ONCE {
        let is_changed = owner.records >= i64::from(put.bounds.owner_records)
            && remove(sql, owner.id)?
            // What no text makes room for is left: the records without one, whose number is bounded.
            || exceeds(put, owner.bytes, put.bounds.owner_bytes) && clear(sql, owner.id)?;
        if !is_changed {
            if !exceeds(put, owner.total, put.bounds.total_bytes) {
                return Ok(true);
            }
            let Some(largest) = largest(sql, &owner.scope)? else { return Ok(true) };
            clear(sql, largest)?;
        }
        owner.read_again(sql)?;
    }
    Ok(false)
}

/// Returns the owner with the most bytes that has a text; in `PostgreSQL`, one of those with the most.
fn largest(sql: &Sql<'_>, own: &OwnerId) -> Result<Option<i64>, SqlError> {
    let largest = "SELECT o.id, o.scope FROM recall_owner o WHERE EXISTS \
                   (SELECT 1 FROM recall_record r WHERE r.owner = o.id AND r.text IS NOT NULL) \
                   ORDER BY o.bytes DESC, o.id LIMIT ?1";
    for (owner, scope) in owners(sql, largest, params![LARGEST])? {
        if is_free(sql, own, &scope)? {
            return Ok(Some(owner));
        }
    }
    Ok(None)
}

fn exceeds(put: &Put, held: i64, limit: u64) -> bool {
    unsigned(held).saturating_add(put.cost()) > limit
}

/// Removes the oldest record of an owner. Returns false if there is none.
fn remove(sql: &Sql<'_>, owner: i64) -> Result<bool, SqlError> {
    let delete = "DELETE FROM recall_record WHERE id = \
                  (SELECT id FROM recall_record WHERE owner = ?1 ORDER BY ends, id LIMIT 1) \
                  RETURNING cost";
    let Some(cost) = sql.find::<i64>(delete, params![owner], first)? else { return Ok(false) };
    change_owner(sql, owner, -cost, -1)?;
    Ok(true)
}

/// Removes the oldest text of an owner. Returns false if there is none.
fn clear(sql: &Sql<'_>, owner: i64) -> Result<bool, SqlError> {
    let oldest = "SELECT id, cost FROM recall_record WHERE owner = ?1 AND text IS NOT NULL \
                  ORDER BY expires, id LIMIT 1";
    let oldest = sql.find(oldest, params![owner], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some((record, cost)) = oldest else { return Ok(false) };
    clear_record(sql, owner, record, cost)?;
    Ok(true)
}

/// Removes the text of a record, which counts `cost`.
fn clear_record(sql: &Sql<'_>, owner: i64, record: i64, cost: i64) -> Result<(), SqlError> {
    let update = "UPDATE recall_record SET text = NULL, cost = ?2 WHERE id = ?1";
    let left = signed(OVERHEAD_BYTES);
    sql.run(update, params![record, left])?;
    change_owner(sql, owner, left - cost, 0)
}
