//! Removal of expired entries, whatever store they are in.

use super::{PURGED_AT_ONCE, find_any, purge};
use crate::kv::Id;
use airlock_database::sql::{Sql, SqlResult, params};

/// Some of the stores, in the order of their numbers.
pub(in crate::kv) struct StorePage {
    /// Those that have expired entries.
    pub(in crate::kv) expired: Vec<Id>,
    /// Number of the last examined store; `None` if no store follows.
    pub(in crate::kv) next: Option<i64>,
}

/// Examines the stores whose numbers are greater than `after`, at most `limit`. The index of times begins with the
/// store, so each of them is one look-up, however many entries expire later.
pub(in crate::kv) fn stores_with_expired(
    sql: &Sql<'_>,
    after: i64,
    limit: u32,
) -> SqlResult<StorePage> {
    let select = "SELECT s.id, s.plugin, s.name, s.holder, EXISTS \
                  (SELECT 1 FROM kv_entry e WHERE e.store = s.id AND e.expires <= ?2) \
                  FROM kv_store s WHERE s.id > ?1 ORDER BY s.id LIMIT ?3";
    let stores = sql.all(select, params![after, sql.now(), limit], |row| {
        let id = Id { plugin: row.get(1)?, name: row.get(2)?, holder: row.get(3)? };
        Ok((row.get::<i64>(0)?, id, row.get::<bool>(4)?))
    })?;
    let is_full = stores.len() >= limit as usize;
    let next = stores.last().map(|(number, ..)| *number).filter(|_| is_full);
    let expired = stores.into_iter().filter_map(|(_, id, is_due)| is_due.then_some(id)).collect();
    Ok(StorePage { expired, next })
}

/// Removes expired entries of a store, at most [`PURGED_AT_ONCE`]. Returns whether there may be more. A store that
/// another change holds is left out: a write removes expired entries itself.
pub(in crate::kv) fn purge_store(sql: &Sql<'_>, id: &Id) -> SqlResult<bool> {
    if !sql.try_lock(id.subject())? {
        return Ok(false);
    }
    // The row is read after the lock is taken: the store may have got another holder.
    let Some(store) = find_any(sql, id)? else { return Ok(false) };
    // No entry has an empty key.
    let removed = purge(sql, store, b"")?;
    Ok(removed >= PURGED_AT_ONCE as usize)
}
