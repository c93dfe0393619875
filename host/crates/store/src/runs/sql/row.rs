//! The row of a run: its lease, its outcome, its begin.

use airlock_core::run::{Lease, Phase};
use rusqlite::{OptionalExtension as _, Row, params};

use super::tx::{Done, Tx};
use crate::{
    columns::milliseconds,
    runs::stored::{NewRun, RunError},
};

/// Bytes that are counted for a run besides its texts: roughly its overhead on disk.
const OVERHEAD_BYTES: i64 = 512;

/// Row of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundRun {
    pub(super) number: i64,
    pub(super) lease: Lease,
}

impl Tx<'_> {
    /// Writes a run that begins; with an `outcome`, one that has ended already.
    pub(super) fn begin(
        &self,
        id: &str,
        new: &NewRun,
        lease: Lease,
        outcome: Option<&str>,
    ) -> rusqlite::Result<FoundRun> {
        let (tools, tools_bytes) = self.tools(new)?;
        let texts = size(&new.script) + outcome.map_or(0, size);
        let bytes = OVERHEAD_BYTES + texts + tools_bytes;
        let (phase, until_ms) = written(lease.phase);
        let mut insert = self.transaction.prepare_cached(
            "INSERT INTO run (id, scope, bytes, created_ms, changed_ms, epoch, phase, until_ms, \
             cancelled, language, tools, script, clock_ms, outcome, tools_bytes) \
             VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?;
        let number = insert.insert(params![
            id,
            self.scope,
            bytes,
            self.now,
            lease.epoch,
            phase,
            until_ms,
            lease.is_cancelled,
            new.language,
            tools,
            new.script,
            new.clock_ms,
            outcome,
            tools_bytes,
        ])?;
        Ok(FoundRun { number, lease })
    }

    /// Returns the tools of a run, and the bytes that the run counts for them: none if an older run has
    /// the same. Their text is written once.
    fn tools(&self, new: &NewRun) -> rusqlite::Result<(i64, i64)> {
        let mut select =
            self.transaction.prepare_cached("SELECT id FROM run_tools WHERE digest = ?1")?;
        let found = select.query_row([new.tools.digest()], |row| row.get(0)).optional()?;
        if let Some(id) = found {
            return Ok((id, 0));
        }
        let text = new.tools.text();
        let mut insert = self
            .transaction
            .prepare_cached("INSERT INTO run_tools (digest, bindings) VALUES (?1, ?2)")?;
        Ok((insert.insert(params![new.tools.digest(), text])?, size(text)))
    }

    pub(super) fn find(&self, id: &str) -> Done<FoundRun> {
        let found = self
            .transaction
            .prepare_cached(
                "SELECT number, epoch, phase, until_ms, cancelled FROM run \
                 WHERE id = ?1 AND scope = ?2",
            )?
            .query_row(params![id, self.scope], |row| {
                Ok(FoundRun { number: row.get(0)?, lease: lease(row, 1)? })
            })
            .optional()?;
        Ok(found.ok_or(RunError::Unknown)?)
    }

    /// Writes the lease of a run, and the time of this change.
    pub(super) fn set_lease(&self, found: &FoundRun) -> rusqlite::Result<()> {
        let Lease { epoch, phase, is_cancelled } = found.lease;
        let (phase, until_ms) = written(phase);
        self.transaction
            .prepare_cached(
                "UPDATE run SET epoch = ?1, phase = ?2, until_ms = ?3, cancelled = ?4, \
                 changed_ms = ?5 WHERE number = ?6",
            )?
            .execute(params![epoch, phase, until_ms, is_cancelled, self.now, found.number])
            .map(drop)
    }

    /// Writes the outcome of a run, which had none.
    pub(super) fn set_outcome(&self, run: i64, outcome: &str) -> rusqlite::Result<()> {
        self.transaction
            .prepare_cached("UPDATE run SET outcome = ?1, bytes = bytes + ?2 WHERE number = ?3")?
            .execute(params![outcome, size(outcome), run])
            .map(drop)
    }

    /// Returns how long a process keeps its lease, in milliseconds.
    pub(super) fn lease_ms(&self) -> i64 {
        milliseconds(self.bounds.lease)
    }
}

fn size(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

/// Reads the lease from four columns.
pub(super) fn lease(row: &Row<'_>, first: usize) -> rusqlite::Result<Lease> {
    let until_ms: Option<i64> = row.get(first + 2)?;
    let phase = match row.get_ref(first + 1)?.as_str()? {
        "running" => Phase::Running { until_ms: until_ms.unwrap_or_default() },
        "suspended" => Phase::Suspended,
        _ => Phase::Ended,
    };
    Ok(Lease { epoch: row.get(first)?, phase, is_cancelled: row.get(first + 3)? })
}

fn written(phase: Phase) -> (&'static str, Option<i64>) {
    match phase {
        Phase::Running { until_ms } => ("running", Some(until_ms)),
        Phase::Suspended => ("suspended", None),
        Phase::Ended => ("ended", None),
    }
}
