//! Removes conversations that have expired, and those that the bounds leave no room for. Those of other
//! owners are removed as [`room`](airlock_database::owner::room) has it, so that no change loses the conversation
//! that it continues.

use super::{Put, grow_owner};
use airlock_database::{
    columns::signed,
    owner::{
        OwnerId,
        room::{OwnerRoom, OwnerTable, exceeds, owners},
    },
    sql::{Sql, SqlResult, Subject, first, params},
};

/// Maximum number of expired conversations that one change removes, so that the change stays quick.
const PURGED_AT_ONCE: u32 = 100;
/// Most conversations that one change evicts, for the same reason.
const EVICTED_AT_ONCE: usize = 100;
/// Owners with the most bytes of which one makes room for others.
const LARGEST: u32 = 4;

/// The owners of responses. Their number of records has no bound, and is not counted.
pub(super) static OWNERS: OwnerTable = OwnerTable {
    select: "SELECT id, bytes, 0, \
             (SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM response_owner), \
             EXISTS (SELECT 1 FROM response_conversation WHERE expires <= ?2) \
             FROM response_owner WHERE scope = ?1",
    insert: "INSERT INTO response_owner (scope) VALUES (?1)",
    subject: Subject::responses,
    purge,
};

/// Removes expired conversations of any owner: at most [`PURGED_AT_ONCE`]; and other owners that have none left.
fn purge(sql: &Sql<'_>, own: &OwnerId) -> SqlResult<()> {
    let select = "SELECT id, scope FROM response_owner WHERE id IN \
                  (SELECT owner FROM response_conversation WHERE expires <= ?1 ORDER BY expires LIMIT ?2)";
    let now = sql.now();
    let mut left = i64::from(PURGED_AT_ONCE);
    for owner in owners(sql, select, params![now, PURGED_AT_ONCE])? {
        if !OWNERS.is_free(sql, own, &owner)? {
            continue;
        }
        let some = "DELETE FROM response_conversation WHERE id IN \
                    (SELECT id FROM response_conversation WHERE owner = ?1 AND expires <= ?2 LIMIT ?3) \
                    RETURNING bytes";
        let removed: Vec<i64> = sql.all(some, params![owner.id, now, left], first)?;
        grow_owner(sql, owner.id, -removed.iter().sum::<i64>())?;
        // Each change adds the bytes of all owners up, also of those that never come back.
        let empty = "DELETE FROM response_owner WHERE id = ?1 AND scope <> ?2 AND NOT EXISTS \
                     (SELECT 1 FROM response_conversation WHERE owner = ?1)";
        sql.run(empty, params![owner.id, own])?;
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
) -> SqlResult<bool> {
    for _ in 0..EVICTED_AT_ONCE {
        let is_evicted =
            exceeds(put.cost(), owner.bytes, put.bounds.owner_bytes) && evict(sql, owner.id, kept)?;
        if !is_evicted {
            if !exceeds(put.cost(), owner.total, put.bounds.total_bytes) {
                return Ok(true);
            }
            let Some(largest) = largest(sql, &owner.scope, kept)? else { return Ok(true) };
            evict(sql, largest, kept)?;
        }
        OWNERS.read_again(sql, &mut owner)?;
    }
    Ok(false)
}

/// Returns the owner with the most bytes that has a conversation besides `kept`; in `PostgreSQL`, one
/// of those with the most.
fn largest(sql: &Sql<'_>, own: &OwnerId, kept: i64) -> SqlResult<Option<i64>> {
    let select = "SELECT o.id, o.scope FROM response_owner o WHERE EXISTS \
                  (SELECT 1 FROM response_conversation c WHERE c.owner = o.id AND c.id <> ?1) \
                  ORDER BY o.bytes DESC, o.id LIMIT ?2";
    OWNERS.first_free(sql, own, select, params![kept, LARGEST])
}

/// Evicts the conversation of an owner that expires first. Returns false if there is none besides
/// `kept`.
fn evict(sql: &Sql<'_>, owner: i64, kept: i64) -> SqlResult<bool> {
    let delete = "DELETE FROM response_conversation WHERE id = \
                  (SELECT id FROM response_conversation WHERE owner = ?1 AND id <> ?2 \
                  ORDER BY expires, id LIMIT 1) RETURNING bytes";
    let Some(bytes) = sql.find::<i64>(delete, params![owner, kept], first)? else {
        return Ok(false);
    };
    grow_owner(sql, owner, -bytes)?;
    Ok(true)
}
