//! Removes texts and records that have expired, and those that the bounds leave no room for.
//!
//! A change has the lock of its own owner. Records of another owner are touched only if no change of
//! that owner is running. Therefore the bound of all owners is exact in `SQLite`; in `PostgreSQL`,
//! changes that run at the same time may exceed it together by what they store.

use super::{OVERHEAD_BYTES, Put, change_owner};
use crate::{
    columns::{first, signed, unsigned},
    owner::OwnerId,
    sql::{Param, Sql, SqlError, Subject, params},
};

/// Maximum number of records that one change removes, or removes the texts of, so that the change
/// stays quick.
const CHANGED_AT_ONCE: u32 = 100;
/// Owners with the most bytes of which one makes room for others.
const LARGEST: u32 = 4;

/// Returns those of the selected owners whose records this change may touch.
fn free_owners(
    sql: &Sql<'_>,
    own: &OwnerId,
    select: &str,
    params: &[Param<'_>],
) -> Result<Vec<i64>, SqlError> {
    let found = sql.all(select, params, |row| Ok((row.get::<i64>(0)?, row.get::<Vec<u8>>(1)?)))?;
    let mut free = Vec::new();
    for (owner, scope) in found {
        if scope == own || sql.try_lock(Subject::recall(&scope))? {
            free.push(owner);
        }
    }
    Ok(free)
}

/// Removes expired records, and expired texts, of all owners.
pub(super) fn purge(sql: &Sql<'_>, own: &OwnerId) -> Result<(), SqlError> {
    let ended = "SELECT id, scope FROM recall_owner WHERE id IN \
                 (SELECT owner FROM recall_record WHERE ends <= ?1 ORDER BY ends LIMIT ?2)";
    let values = params![sql.now(), CHANGED_AT_ONCE];
    for owner in free_owners(sql, own, ended, values)? {
        let delete = "DELETE FROM recall_record WHERE id IN \
                      (SELECT id FROM recall_record WHERE owner = ?3 AND ends <= ?1 LIMIT ?2) \
                      RETURNING cost";
        let removed: Vec<i64> =
            sql.all(delete, params![sql.now(), CHANGED_AT_ONCE, owner], first)?;
        let bytes: i64 = removed.iter().sum();
        change_owner(sql, owner, -bytes, -signed(removed.len() as u64))?;
    }
    let expired = "SELECT id, scope FROM recall_owner WHERE id IN \
                   (SELECT owner FROM recall_record WHERE expires <= ?1 AND text IS NOT NULL \
                   ORDER BY expires LIMIT ?2)";
    for owner in free_owners(sql, own, expired, values)? {
        let some = "SELECT id, cost FROM recall_record \
                    WHERE owner = ?3 AND expires <= ?1 AND text IS NOT NULL LIMIT ?2";
        let values = params![sql.now(), CHANGED_AT_ONCE, owner];
        let texts = sql.all(some, values, |row| Ok((row.get(0)?, row.get(1)?)))?;
        for (record, cost) in texts {
            clear_record(sql, owner, record, cost)?;
        }
    }
    Ok(())
}

/// Removes what has no room beside the new record, at most [`CHANGED_AT_ONCE`]. Returns whether
/// there is room. There is in the end, because the record alone is within the bounds.
pub(super) fn make_room(
    sql: &Sql<'_>,
    owner: i64,
    own: &OwnerId,
    put: &Put,
) -> Result<bool, SqlError> {
    for _ in 0..CHANGED_AT_ONCE {
        let (bytes, records) = held(sql, owner)?;
        if records >= i64::from(put.bounds.owner_records) && remove(sql, owner)? {
            continue;
        }
        // What no text makes room for is left: the records without one, whose number is bounded.
        if exceeds(put, bytes, put.bounds.owner_bytes) && clear(sql, owner)? {
            continue;
        }
        let of_all = "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM recall_owner";
        if !exceeds(put, sql.one(of_all, &[], first)?, put.bounds.total_bytes) {
            return Ok(true);
        }
        let largest = "SELECT o.id, o.scope FROM recall_owner o WHERE EXISTS \
                       (SELECT 1 FROM recall_record r WHERE r.owner = o.id AND r.text IS NOT NULL) \
                       ORDER BY o.bytes DESC, o.id LIMIT ?1";
        let free = free_owners(sql, own, largest, params![LARGEST])?;
        let Some(largest) = free.first() else { return Ok(true) };
        clear(sql, *largest)?;
    }
    Ok(false)
}

fn exceeds(put: &Put, held: i64, limit: u64) -> bool {
    unsigned(held).saturating_add(put.cost()) > limit
}

/// Returns the bytes and the number of records of an owner.
fn held(sql: &Sql<'_>, owner: i64) -> Result<(i64, i64), SqlError> {
    let select = "SELECT bytes, records FROM recall_owner WHERE id = ?1";
    sql.one(select, params![owner], |row| Ok((row.get(0)?, row.get(1)?)))
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
