//! Removes runs that have expired, and runs beyond the bounds. A run whose script is running stays, and
//! so does the run that changes.

use rusqlite::{OptionalExtension as _, params};

use super::tx::Tx;
use crate::columns::{milliseconds, signed};

/// Most runs that one change removes, so that the change stays quick.
const REMOVED_AT_ONCE: u32 = 100;
/// Owners with the most bytes whose runs one change removes beyond the bound of all owners.
const OWNERS_AT_ONCE: u32 = 16;

impl Tx<'_> {
    /// Makes room after the run `changed` has stopped; beyond the bound of all owners only if it
    /// `sweeps`.
    pub(super) fn make_room(&self, changed: i64, sweeps: bool) -> rusqlite::Result<()> {
        self.remove_expired(changed)?;
        let (runs, bytes) = self
            .transaction
            .prepare_cached("SELECT runs, bytes FROM run_owner WHERE scope = ?1")?
            .query_row([self.scope], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        if runs > i64::from(self.bounds.owner_runs) || bytes > signed(self.bounds.owner_bytes) {
            self.remove_beyond_owner(changed)?;
        }
        if sweeps { self.remove_beyond_all(changed) } else { Ok(()) }
    }

    fn remove_expired(&self, changed: i64) -> rusqlite::Result<()> {
        self.transaction
            .prepare_cached(
                "DELETE FROM run WHERE number IN (SELECT number FROM run WHERE changed_ms < ?1 \
                 AND number <> ?2 AND (phase <> 'running' OR until_ms < ?3) \
                 ORDER BY changed_ms LIMIT ?4)",
            )?
            .execute(params![
                self.now.saturating_sub(milliseconds(self.bounds.expire_after)),
                changed,
                self.now,
                REMOVED_AT_ONCE,
            ])
            .map(drop)
    }

    /// Removes the oldest runs of the owner beyond its bounds, those that have ended first.
    fn remove_beyond_owner(&self, changed: i64) -> rusqlite::Result<()> {
        self.transaction
            .prepare_cached(
                "DELETE FROM run WHERE number IN (SELECT number FROM (SELECT number, phase, \
                 until_ms, count(*) OVER kept AS runs, sum(bytes) OVER kept AS bytes \
                 FROM run WHERE scope = ?1 \
                 WINDOW kept AS (ORDER BY phase = 'ended', number DESC ROWS UNBOUNDED PRECEDING)) \
                 WHERE (runs > ?2 OR bytes > ?3) AND number <> ?4 \
                 AND (phase <> 'running' OR until_ms < ?5) ORDER BY number LIMIT ?6)",
            )?
            .execute(params![
                self.scope,
                self.bounds.owner_runs,
                signed(self.bounds.owner_bytes),
                changed,
                self.now,
                REMOVED_AT_ONCE,
            ])
            .map(drop)
    }

    /// Removes runs until all owners together are within their bound: each time the oldest run of the
    /// owner with the most bytes, or one that has ended.
    fn remove_beyond_all(&self, changed: i64) -> rusqlite::Result<()> {
        let mut total: i64 = self
            .transaction
            .prepare_cached("SELECT coalesce(sum(bytes), 0) FROM run_owner")?
            .query_row((), |row| row.get(0))?;
        if total <= signed(self.bounds.total_bytes) {
            return Ok(());
        }
        let mut owners = self.largest_owners()?;
        for _ in 0..REMOVED_AT_ONCE {
            let largest = owners.iter_mut().max_by_key(|(_, bytes)| *bytes);
            let Some((scope, bytes)) = largest.filter(|_| total > signed(self.bounds.total_bytes))
            else {
                return Ok(());
            };
            let scope = scope.clone();
            match self.remove_oldest(&scope, changed)? {
                Some(removed) => {
                    *bytes -= removed;
                    total -= removed;
                }
                // Only runs whose scripts are running are left.
                None => owners.retain(|(owner, _)| *owner != scope),
            }
        }
        Ok(())
    }

    fn largest_owners(&self) -> rusqlite::Result<Vec<(Vec<u8>, i64)>> {
        let mut select = self
            .transaction
            .prepare_cached("SELECT scope, bytes FROM run_owner ORDER BY bytes DESC LIMIT ?1")?;
        let owners = select.query_map([OWNERS_AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?)))?;
        owners.collect()
    }

    /// Removes the oldest run of an owner, or the oldest one that has ended. Returns its bytes.
    fn remove_oldest(&self, scope: &[u8], changed: i64) -> rusqlite::Result<Option<i64>> {
        self.transaction
            .prepare_cached(
                "DELETE FROM run WHERE number = (SELECT number FROM run WHERE scope = ?1 \
                 AND number <> ?2 AND (phase <> 'running' OR until_ms < ?3) \
                 ORDER BY phase <> 'ended', number LIMIT 1) RETURNING bytes - tools_bytes",
            )?
            .query_row(params![scope, changed, self.now], |row| row.get(0))
            .optional()
    }
}
