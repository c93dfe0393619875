//! The rows of calls.

use airlock_core::run::{Call, Called, Position, Refused, Stage};
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Row, params};

use super::tx::{Done, Tx, about};
use crate::runs::stored::{RunError, StoredCall};

macro_rules! insert {
    () => {
        "INSERT INTO run_call (run, block, branch, stage, attempts, until_ms, repeatable, \
         tool, definition, answer_head, arguments, answer) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, substr(?11, 1, 16), ?10, ?11)"
    };
}

/// Inserts a call. Fails if the run has one at its position.
const INSERT: &str = insert!();
/// Inserts a call, or changes the one at its position, except for its answer.
const UPSERT: &str = concat!(
    insert!(),
    " ON CONFLICT (run, block, branch) DO UPDATE SET stage = ?4, attempts = ?5, \
     until_ms = ?6, repeatable = ?7, definition = ?9"
);

impl Tx<'_> {
    /// Reads a call.
    pub(super) fn call(&self, run: i64, position: Position) -> rusqlite::Result<Option<Call>> {
        self.transaction
            .prepare_cached(
                "SELECT stage, attempts, until_ms, repeatable, tool, definition, arguments \
                 FROM run_call WHERE run = ?1 AND block = ?2 AND branch = ?3",
            )?
            .query_row(params![run, position.block, position.branch], read)
            .optional()
    }

    /// Writes a call that has no answer, and that the run may have already.
    pub(super) fn put(&self, run: i64, position: Position, call: &Call) -> rusqlite::Result<()> {
        self.insert(UPSERT, run, position, call, None)
    }

    /// Writes an answered call that the run does not have yet.
    pub(super) fn record(
        &self,
        run: i64,
        position: Position,
        called: Called,
        answer: &str,
    ) -> Done<()> {
        let call = Call::record(None, called).map_err(about(position))?;
        match self.insert(INSERT, run, position, &call, Some(answer)) {
            // The only constraint that it can violate is that of the position. The model decides
            // between the reasons.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                let present = self.call(run, position)?;
                match Call::record(present.as_ref(), call.called) {
                    Ok(_) => Err(error.into()),
                    Err(refused) => Err(about(position)(refused)),
                }
            }
            inserted => Ok(inserted?),
        }
    }

    /// Executes a statement that inserts a call.
    fn insert(
        &self,
        statement: &str,
        run: i64,
        position: Position,
        call: &Call,
        answer: Option<&str>,
    ) -> rusqlite::Result<()> {
        let (stage, attempts, until_ms) = written(call.stage);
        let Called { tool, arguments, definition, is_repeatable } = &call.called;
        self.transaction
            .prepare_cached(statement)?
            .execute(params![
                run,
                position.block,
                position.branch,
                stage,
                attempts,
                until_ms,
                is_repeatable,
                &**tool,
                &**definition,
                &**arguments,
                answer,
            ])
            .map(drop)
    }

    /// Writes the answer of an attempt, as [`Call::answer`] has it, without reading the call.
    pub(super) fn answer(
        &self,
        run: i64,
        position: Position,
        attempt: u32,
        answer: &str,
    ) -> Done<()> {
        let answered = self
            .transaction
            .prepare_cached(
                "UPDATE run_call SET stage = 'answered', attempts = 0, until_ms = NULL, \
                 answer_head = substr(?5, 1, 16), answer = ?5 \
                 WHERE run = ?1 AND block = ?2 AND branch = ?3 AND attempts = ?4 \
                 AND stage IN ('sent', 'in_doubt')",
            )?
            .execute(params![run, position.block, position.branch, attempt, answer])?;
        if answered > 0 {
            return Ok(());
        }
        match self.call(run, position)? {
            Some(_) => Err(about(position)(Refused::Stale)),
            None => Err(RunError::NoCall(position).into()),
        }
    }

    /// Writes what a person has decided about a call of the run, with its answer if that gives one.
    pub(super) fn set_decision(
        &self,
        run: i64,
        position: Position,
        stage: Stage,
        answer: Option<&str>,
    ) -> rusqlite::Result<()> {
        let (stage, attempts, until_ms) = written(stage);
        self.transaction
            .prepare_cached(
                "UPDATE run_call SET stage = ?4, attempts = ?5, until_ms = ?6, \
                 answer_head = substr(?7, 1, 16), answer = ?7 \
                 WHERE run = ?1 AND block = ?2 AND branch = ?3",
            )?
            .execute(params![
                run,
                position.block,
                position.branch,
                stage,
                attempts,
                until_ms,
                answer
            ])
            .map(drop)
    }

    /// Marks the calls that are in doubt for the process that takes the run over, as
    /// [`Call::claimed`] has it, without reading them.
    pub(super) fn doubt(&self, run: i64) -> rusqlite::Result<()> {
        self.transaction
            .prepare_cached(
                "UPDATE run_call SET stage = 'in_doubt' \
                 WHERE run = ?1 AND stage = 'sent' AND NOT repeatable",
            )?
            .execute([run])
            .map(drop)
    }
}

/// Reads the calls of a run.
pub(super) fn all(connection: &Connection, run: i64) -> rusqlite::Result<Vec<StoredCall>> {
    let mut select = connection.prepare_cached(
        "SELECT stage, attempts, until_ms, repeatable, tool, definition, arguments, block, branch, \
         answer FROM run_call WHERE run = ?1 ORDER BY block, branch",
    )?;
    let calls = select.query_map([run], |row| {
        Ok(StoredCall {
            position: Position { block: row.get(7)?, branch: row.get(8)? },
            call: read(row)?,
            answer: row.get(9)?,
        })
    })?;
    calls.collect()
}

/// Reads a call from the first seven columns.
pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Call> {
    let attempts: u32 = row.get(1)?;
    let until_ms = row.get::<_, Option<i64>>(2)?.unwrap_or_default();
    let stage = match row.get_ref(0)?.as_str()? {
        "pending" => Stage::Pending { attempts },
        "approved" => Stage::Approved { attempts, until_ms },
        "retried" => Stage::Retried { attempts, until_ms },
        "denied" => Stage::Denied,
        "sent" => Stage::Sent { attempt: attempts },
        "in_doubt" => Stage::InDoubt { attempt: attempts },
        _ => Stage::Answered,
    };
    let called = Called {
        tool: row.get::<_, String>(4)?.into(),
        arguments: row.get::<_, String>(6)?.into(),
        definition: row.get::<_, String>(5)?.into(),
        is_repeatable: row.get(3)?,
    };
    Ok(Call { called, stage })
}

/// Returns the columns of a stage: its name, the attempts, and the time at which an approval expires.
fn written(stage: Stage) -> (&'static str, u32, Option<i64>) {
    match stage {
        Stage::Pending { attempts } => ("pending", attempts, None),
        Stage::Approved { attempts, until_ms } => ("approved", attempts, Some(until_ms)),
        Stage::Retried { attempts, until_ms } => ("retried", attempts, Some(until_ms)),
        Stage::Denied => ("denied", 0, None),
        Stage::Sent { attempt } => ("sent", attempt, None),
        Stage::InDoubt { attempt } => ("in_doubt", attempt, None),
        Stage::Answered => ("answered", 0, None),
    }
}
