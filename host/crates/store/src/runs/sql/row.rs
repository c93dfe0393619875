//! The row of a run: its lease, its outcome, its begin.

use airlock_core::run::{Lease, Phase};
use serde::Deserialize;

use super::tx::{Done, Tx};
use crate::runs::stored::{NewRun, RunError};
use airlock_database::{
    columns::{milliseconds, size},
    sql::{Row, SqlResult, Subject, first, params},
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
    /// Writes a run that begins; with an `outcome`, one that has ended already. Its calls, which are
    /// written after it, have `calls_bytes`.
    pub(super) fn begin(
        &self,
        id: &str,
        new: &NewRun,
        lease: Lease,
        outcome: Option<&str>,
        calls_bytes: i64,
    ) -> SqlResult<FoundRun> {
        let (tools, tools_bytes) = self.tools(new)?;
        let texts = size(&new.script) + outcome.map_or(0, size) + calls_bytes;
        let bytes = OVERHEAD_BYTES + texts + tools_bytes;
        let (phase, until_ms) = written(lease.phase);
        let insert = "INSERT INTO run (id, scope, bytes, created_ms, changed_ms, epoch, phase, until_ms, \
             cancelled, language, tools, script, clock_ms, outcome, tools_bytes, status, trace, sources) \
             VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17) \
             RETURNING number";
        let status = outcome.and_then(status);
        let values = params![
            id,
            self.scope,
            bytes,
            self.now,
            lease.epoch,
            phase,
            until_ms,
            lease.is_cancelled,
            &new.language,
            tools,
            &new.script,
            new.clock_ms,
            outcome,
            tools_bytes,
            status.as_ref(),
            new.trace.as_ref(),
            new.sources.as_ref(),
        ];
        let number = self.sql.one(insert, values, first)?;
        self.add_to_owner(bytes)?;
        Ok(FoundRun { number, lease })
    }

    /// Counts a run that begins in the sums of its owner.
    fn add_to_owner(&self, bytes: i64) -> SqlResult<()> {
        let upsert = "INSERT INTO run_owner (scope, runs, bytes) VALUES (?1, 1, ?2) \
                      ON CONFLICT (scope) DO UPDATE SET runs = run_owner.runs + 1, \
                      bytes = run_owner.bytes + excluded.bytes";
        self.sql.run(upsert, params![self.scope, bytes]).map(drop)
    }

    /// Returns the tools of a run, and the bytes that the run counts for them: none if an older run has
    /// the same. Their text is written once.
    fn tools(&self, new: &NewRun) -> SqlResult<(i64, i64)> {
        // Keeps a change of another owner from removing the tools before this run is there.
        self.sql.share_lock(Subject::tools(new.tools.digest()))?;
        let select = "SELECT id FROM run_tools WHERE digest = ?1";
        let digest = new.tools.digest();
        if let Some(id) = self.sql.find(select, params![digest], first)? {
            return Ok((id, 0));
        }
        let text = new.tools.text();
        let insert = "INSERT INTO run_tools (digest, bindings) VALUES (?1, ?2) \
                      ON CONFLICT (digest) DO NOTHING RETURNING id";
        match self.sql.find(insert, params![digest, text], first)? {
            Some(id) => Ok((id, size(text))),
            // A run of another owner has written them meanwhile.
            None => Ok((self.sql.one(select, params![digest], first)?, 0)),
        }
    }

    pub(super) fn find(&self, id: &str) -> Done<FoundRun> {
        let select = "SELECT number, epoch, phase, until_ms, cancelled FROM run \
                      WHERE id = ?1 AND scope = ?2";
        let found = self.sql.find(select, params![id, self.scope], |row| {
            Ok(FoundRun { number: row.get(0)?, lease: lease(row, 1)? })
        })?;
        Ok(found.ok_or(RunError::Unknown)?)
    }

    /// Writes the lease of a run, the time of this change, and the bytes by which the run has grown.
    /// Every change of a run that is not new ends with it.
    pub(super) fn set_lease(&self, found: &FoundRun) -> SqlResult<()> {
        let Lease { epoch, phase, is_cancelled } = found.lease;
        let (phase, until_ms) = written(phase);
        let grown = self.grown.take();
        let update = "UPDATE run SET epoch = ?1, phase = ?2, until_ms = ?3, cancelled = ?4, \
                      changed_ms = ?5, bytes = bytes + ?6 WHERE number = ?7";
        let values = params![epoch, phase, until_ms, is_cancelled, self.now, grown, found.number];
        self.sql.run(update, values)?;
        if grown == 0 {
            return Ok(());
        }
        let update = "UPDATE run_owner SET bytes = bytes + ?2 WHERE scope = ?1";
        self.sql.run(update, params![self.scope, grown]).map(drop)
    }

    /// Writes the outcome of a run, which had none.
    pub(super) fn set_outcome(&self, run: i64, outcome: &str) -> SqlResult<()> {
        self.grow(size(outcome));
        let update = "UPDATE run SET outcome = ?1, status = ?2 WHERE number = ?3";
        let status = status(outcome);
        self.sql.run(update, params![outcome, status.as_ref(), run]).map(drop)
    }

    /// Returns how long a process keeps its lease, in milliseconds.
    pub(super) fn lease_ms(&self) -> i64 {
        milliseconds(self.bounds.lease)
    }
}

/// Returns the member `status` of an outcome, if it is JSON that has one and it is a text.
fn status(outcome: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Outcome {
        status: String,
    }
    serde_json::from_str::<Outcome>(outcome).ok().map(|outcome| outcome.status)
}

/// Reads the lease from four columns.
pub(super) fn lease(row: &Row<'_>, first: usize) -> SqlResult<Lease> {
    let until_ms: Option<i64> = row.get(first + 2)?;
    let phase = match row.get::<&str>(first + 1)? {
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
