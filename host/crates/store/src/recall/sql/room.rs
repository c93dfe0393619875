//! Removes texts and records that have expired, and those that the bounds leave no room for. Those of
//! other owners are removed as [`room`](airlock_database::owner::room) has it.

use super::{OVERHEAD_BYTES, Put, change_owner};
use airlock_database::{
    columns::signed,
    owner::{
        OwnerId,
        room::{OwnerRoom, OwnerTable, exceeds, owners},
    },
    sql::{Sql, SqlResult, Subject, first, params},
};

/// Maximum number of records that one change removes or removes the texts of, because they have
/// expired; and again to make room. So the change stays quick.
const CHANGED_AT_ONCE: u32 = 100;
/// Maximum number of owners whose records one change removes because they have expired: each takes
/// four requests to a server, and the change keeps its lock.
const PURGED_OWNERS: u32 = 16;
/// Owners with the most bytes of which one makes room for others.
const LARGEST: u32 = 4;

/// The owners of records.
pub(super) static OWNERS: OwnerTable = OwnerTable {
    select: "SELECT id, bytes, records, \
             (SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM recall_owner), \
             EXISTS (SELECT 1 FROM recall_record WHERE ends <= ?2) \
             OR EXISTS (SELECT 1 FROM recall_record WHERE expires <= ?2 AND text IS NOT NULL) \
             FROM recall_owner WHERE scope = ?1",
    insert: "INSERT INTO recall_owner (scope) VALUES (?1)",
    subject: Subject::recall,
    purge,
};

/// Removes expired records, and expired texts, of any owner: at most [`CHANGED_AT_ONCE`]. Later changes
/// remove the others.
fn purge(sql: &Sql<'_>, own: &OwnerId) -> SqlResult<()> {
    let ended = "SELECT id, scope FROM recall_owner WHERE id IN \
                 (SELECT owner FROM recall_record WHERE ends <= ?1 ORDER BY ends LIMIT ?2) LIMIT ?3";
    let left = purge_owners(sql, own, ended, CHANGED_AT_ONCE, remove_ended)?;
    let expired = "SELECT id, scope FROM recall_owner WHERE id IN \
                   (SELECT owner FROM recall_record WHERE expires <= ?1 AND text IS NOT NULL \
                   ORDER BY expires LIMIT ?2) LIMIT ?3";
    purge_owners(sql, own, expired, left, clear_expired).map(drop)
}

/// Purges the selected owners by `purge_one`, which changes at most so many records and returns their
/// number. Removes other owners that have no record left. Returns how many of `left` are left.
fn purge_owners(
    sql: &Sql<'_>,
    own: &OwnerId,
    select: &str,
    mut left: u32,
    purge_one: fn(&Sql<'_>, i64, u32) -> SqlResult<u32>,
) -> SqlResult<u32> {
    for owner in owners(sql, select, params![sql.now(), left, PURGED_OWNERS])? {
        // Before the lock, because one that is taken is kept until the change ends.
        if left == 0 {
            break;
        }
        if OWNERS.is_free(sql, own, &owner)? {
            left = left.saturating_sub(purge_one(sql, owner.id, left)?);
            // Each change adds the bytes of all owners up, also of those that never come back.
            let empty = "DELETE FROM recall_owner WHERE id = ?1 AND scope <> ?2 AND records = 0";
            sql.run(empty, params![owner.id, own])?;
        }
    }
    Ok(left)
}

/// Removes records of an owner that have ended, at most `limit`. Returns their number.
fn remove_ended(sql: &Sql<'_>, owner: i64, limit: u32) -> SqlResult<u32> {
    let delete = "DELETE FROM recall_record WHERE id IN \
                  (SELECT id FROM recall_record WHERE owner = ?1 AND ends <= ?2 LIMIT ?3) \
                  RETURNING cost";
    let removed: Vec<i64> = sql.all(delete, params![owner, sql.now(), limit], first)?;
    let bytes: i64 = removed.iter().sum();
    change_owner(sql, owner, -bytes, -signed(removed.len() as u64))?;
    Ok(u32::try_from(removed.len()).unwrap_or(u32::MAX))
}

/// Removes texts of an owner that have expired, at most `limit`. Returns their number.
fn clear_expired(sql: &Sql<'_>, owner: i64, limit: u32) -> SqlResult<u32> {
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
pub(super) fn make_room(sql: &Sql<'_>, mut owner: OwnerRoom, put: &Put) -> SqlResult<bool> {
    for _ in 0..CHANGED_AT_ONCE {
        let is_changed = owner.records >= i64::from(put.bounds.owner_records)
            && remove(sql, owner.id)?
            // What no text makes room for is left: the records without one, whose number is bounded.
            || exceeds(put.cost(), owner.bytes, put.bounds.owner_bytes) && clear(sql, owner.id)?;
        if !is_changed {
            if !exceeds(put.cost(), owner.total, put.bounds.total_bytes) {
                return Ok(true);
            }
            let Some(largest) = largest(sql, &owner.scope)? else { return Ok(true) };
            clear(sql, largest)?;
        }
        OWNERS.read_again(sql, &mut owner)?;
    }
    Ok(false)
}

/// Returns the owner with the most bytes that has a text; in `PostgreSQL`, one of those with the most.
fn largest(sql: &Sql<'_>, own: &OwnerId) -> SqlResult<Option<i64>> {
    let largest = "SELECT o.id, o.scope FROM recall_owner o WHERE EXISTS \
                   (SELECT 1 FROM recall_record r WHERE r.owner = o.id AND r.text IS NOT NULL) \
                   ORDER BY o.bytes DESC, o.id LIMIT ?1";
    OWNERS.first_free(sql, own, largest, params![LARGEST])
}

/// Removes the oldest record of an owner. Returns false if there is none.
fn remove(sql: &Sql<'_>, owner: i64) -> SqlResult<bool> {
    let delete = "DELETE FROM recall_record WHERE id = \
                  (SELECT id FROM recall_record WHERE owner = ?1 ORDER BY ends, id LIMIT 1) \
                  RETURNING cost";
    let Some(cost) = sql.find::<i64>(delete, params![owner], first)? else { return Ok(false) };
    change_owner(sql, owner, -cost, -1)?;
    Ok(true)
}

/// Removes the oldest text of an owner. Returns false if there is none.
fn clear(sql: &Sql<'_>, owner: i64) -> SqlResult<bool> {
    let oldest = "SELECT id, cost FROM recall_record WHERE owner = ?1 AND text IS NOT NULL \
                  ORDER BY expires, id LIMIT 1";
    let oldest = sql.find(oldest, params![owner], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let Some((record, cost)) = oldest else { return Ok(false) };
    clear_record(sql, owner, record, cost)?;
    Ok(true)
}

/// Removes the text of a record, which counts `cost`.
fn clear_record(sql: &Sql<'_>, owner: i64, record: i64, cost: i64) -> SqlResult<()> {
    let update = "UPDATE recall_record SET text = NULL, cost = ?2 WHERE id = ?1";
    let left = signed(OVERHEAD_BYTES);
    sql.run(update, params![record, left])?;
    change_owner(sql, owner, left - cost, 0)
}
