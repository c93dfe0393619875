//! Removes runs that have expired, and runs beyond the bounds. A run whose script is running stays, and
//! so does the run that changes.
//!
//! A change has the lock of its own owner. Runs of another owner are removed only if no change of that
//! owner is running; otherwise a later change removes them. Therefore the bound of all owners is exact
//! in `SQLite`; in `PostgreSQL`, it may be exceeded until the next sweep.

use super::tx::Tx;
use airlock_database::{
    columns::{milliseconds, signed},
    sql::{Row, SqlResult, Subject, first, params},
};

/// Most runs that one change removes, so that the change stays quick.
const REMOVED_AT_ONCE: u32 = 100;
/// Owners with the most bytes whose runs one change removes beyond the bound of all owners.
const OWNERS_AT_ONCE: u32 = 16;

/// The runs of an owner.
struct OwnerRoom {
    runs: i64,
    bytes: i64,
    /// True if runs have expired, of any owner.
    has_expired: bool,
}

impl OwnerRoom {
    fn read(row: &Row<'_>) -> SqlResult<Self> {
        Ok(Self { runs: row.get(0)?, bytes: row.get(1)?, has_expired: row.get(2)? })
    }
}

impl Tx<'_> {
    /// Makes room after the run `changed` has stopped; beyond the bound of all owners only if it
    /// `sweeps`.
    pub(super) fn make_room(&self, changed: i64, sweeps: bool) -> SqlResult<()> {
        let select = "SELECT runs, bytes, EXISTS (SELECT 1 FROM run WHERE changed_ms < ?2 \
                      AND number <> ?3 AND (phase <> 'running' OR until_ms < ?4)) \
                      FROM run_owner WHERE scope = ?1";
        let values = params![self.scope, self.expired_before(), changed, self.now];
        let mut room = self.sql.one(select, values, OwnerRoom::read)?;
        if room.has_expired {
            self.remove_expired(changed)?;
            room = self.sql.one(select, values, OwnerRoom::read)?;
        }
        if room.runs > i64::from(self.bounds.owner_runs)
            || room.bytes > signed(self.bounds.owner_bytes)
        {
            self.remove_beyond_owner(changed)?;
        }
        if !sweeps {
            return Ok(());
        }
        self.remove_beyond_all(changed)?;
        self.remove_unused_tools()
    }

    /// Returns whether this change may remove runs of an owner.
    pub(super) fn may_remove(&self, scope: &[u8]) -> SqlResult<bool> {
        Ok(scope == self.scope || self.sql.try_lock(Subject::runs(scope))?)
    }

    /// Returns the time before which a run that has expired was last changed.
    fn expired_before(&self) -> i64 {
        self.now.saturating_sub(milliseconds(self.bounds.expire_after))
    }

    fn remove_expired(&self, changed: i64) -> SqlResult<()> {
        let before = self.expired_before();
        let select = "SELECT DISTINCT scope FROM (SELECT scope FROM run WHERE changed_ms < ?1 \
                      AND number <> ?2 AND (phase <> 'running' OR until_ms < ?3) \
                      ORDER BY changed_ms LIMIT ?4) AS expired";
        let values = params![before, changed, self.now, REMOVED_AT_ONCE];
        let owners: Vec<Vec<u8>> = self.sql.all(select, values, first)?;
        let mut left = i64::from(REMOVED_AT_ONCE);
        for scope in owners {
            if !self.may_remove(&scope)? {
                continue;
            }
            let expired = "SELECT number FROM run WHERE scope = ?5 AND changed_ms < ?1 \
                           AND number <> ?2 AND (phase <> 'running' OR until_ms < ?3) \
                           ORDER BY changed_ms LIMIT ?4";
            let values = params![before, changed, self.now, left, &scope];
            left -= signed(self.remove(expired, values)?.len() as u64);
        }
        Ok(())
    }

    /// Removes the oldest runs of the owner beyond its bounds, those that have ended first.
    fn remove_beyond_owner(&self, changed: i64) -> SqlResult<()> {
        let beyond = "SELECT number FROM (SELECT number, phase, until_ms, \
                      count(*) OVER kept AS runs, CAST(sum(bytes) OVER kept AS BIGINT) AS bytes \
                      FROM run WHERE scope = ?1 \
                      WINDOW kept AS (ORDER BY phase = 'ended', number DESC ROWS UNBOUNDED PRECEDING)) \
                      AS counted WHERE (runs > ?2 OR bytes > ?3) AND number <> ?4 \
                      AND (phase <> 'running' OR until_ms < ?5) ORDER BY number LIMIT ?6";
        let values = params![
            self.scope,
            self.bounds.owner_runs,
            signed(self.bounds.owner_bytes),
            changed,
            self.now,
            REMOVED_AT_ONCE,
        ];
        self.remove(beyond, values).map(drop)
    }

    /// Removes runs until all owners together are within their bound: each time the oldest run of the
    /// owner with the most bytes, or one that has ended.
    fn remove_beyond_all(&self, changed: i64) -> SqlResult<()> {
        let sum = "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM run_owner";
        let mut total: i64 = self.sql.one(sum, &[], first)?;
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
                // Only runs whose scripts are running are left, or another change has the owner.
                None => owners.retain(|(owner, _)| *owner != scope),
            }
        }
        Ok(())
    }

    fn largest_owners(&self) -> SqlResult<Vec<(Vec<u8>, i64)>> {
        let select = "SELECT scope, bytes FROM run_owner ORDER BY bytes DESC, scope LIMIT ?1";
        self.sql.all(select, params![OWNERS_AT_ONCE], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Removes the oldest run of an owner, or the oldest one that has ended. Returns its bytes.
    fn remove_oldest(&self, scope: &[u8], changed: i64) -> SqlResult<Option<i64>> {
        if !self.may_remove(scope)? {
            return Ok(None);
        }
        let oldest = "SELECT number FROM run WHERE scope = ?1 \
                      AND number <> ?2 AND (phase <> 'running' OR until_ms < ?3) \
                      ORDER BY phase <> 'ended', number LIMIT 1";
        let removed = self.remove(oldest, params![scope, changed, self.now])?;
        // The bytes of its tools stay with another run.
        Ok(removed.first().map(|run| run.bytes - run.tools_bytes))
    }
}
