//! The rows of calls.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use airlock_core::run::{Call, Called, Position, Refused, Stage};

use super::tx::{Done, Tx, about};
use crate::runs::stored::{RunError, StoredCall};
use airlock_database::{
    columns::size,
    sql::{Param, Row, Sql, SqlResult, params},
};

/// Bytes that are counted for a call besides its texts: roughly its overhead on disk.
const OVERHEAD_BYTES: i64 = 256;
/// Characters of an answer that are kept apart, to show them without reading the answer.
const HEAD: usize = 16;

/// A call to record, with its answer.
pub(super) struct AnsweredCall {
    pub(super) position: Position,
    pub(super) called: Called,
    pub(super) answer: Arc<str>,
}

/// Returns the bytes that a call counts for.
pub(super) fn bytes(called: &Called, answer: Option<&str>) -> i64 {
    let asked_by = called.asked_by.as_deref().map_or(0, size);
    OVERHEAD_BYTES + size(&called.arguments) + asked_by + answer.map_or(0, size)
}

const INSERT: &str = "INSERT INTO run_call (run, block, branch, stage, attempts, until_ms, repeatable, \
                      tool, definition, answer_head, arguments, answer, sources, written, asked_by) \
                      VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) \
                      ON CONFLICT (run, block, branch) DO NOTHING";

/// Returns the values of [`INSERT`].
fn insert_values<'v>(
    run: i64,
    position: Position,
    call: &'v Call,
    answer: Option<&'v str>,
) -> [Param<'v>; 15] {
    let (stage, attempts, until_ms) = stage_columns(call.stage);
    let Called { tool, arguments, written, definition, is_repeatable, sources, asked_by } =
        &call.called;
    *params![
        run,
        position.block,
        position.branch,
        stage,
        attempts,
        until_ms,
        *is_repeatable,
        &**tool,
        &**definition,
        answer.map(head),
        &**arguments,
        answer,
        sources.as_deref(),
        written.as_deref(),
        asked_by.as_deref(),
    ]
}

fn head(answer: &str) -> &str {
    let end = answer.char_indices().nth(HEAD).map_or(answer.len(), |(end, _)| end);
    &answer[..end]
}

impl Tx<'_> {
    /// Reads a call.
    pub(super) fn call(&self, run: i64, position: Position) -> SqlResult<Option<Call>> {
        let select = format!(
            "SELECT {COLUMNS}, arguments \
             FROM run_call WHERE run = ?1 AND block = ?2 AND branch = ?3"
        );
        self.sql.find(&select, params![run, position.block, position.branch], |row| {
            read(row, row.get(9)?)
        })
    }

    /// Writes a call that has no answer: a new one, or all but the tool of one that the run has as `present`.
    pub(super) fn put(
        &self,
        run: i64,
        position: Position,
        call: &Call,
        present: Option<&Call>,
    ) -> SqlResult<()> {
        let before = present.map_or(0, |present| bytes(&present.called, None));
        self.grow(bytes(&call.called, None) - before);
        if present.is_none() {
            return self.sql.run(INSERT, &insert_values(run, position, call, None)).map(drop);
        }
        let repeatable = ("repeatable", call.called.is_repeatable.into());
        let definition = ("definition", Param::Text(&call.called.definition));
        let sources = ("sources", call.called.sources.as_deref().into());
        // Guards may leave other arguments than before.
        let arguments = ("arguments", Param::Text(&call.called.arguments));
        let written = ("written", call.called.written.as_deref().into());
        let asked_by = ("asked_by", call.called.asked_by.as_deref().into());
        let others = [repeatable, definition, sources, arguments, written, asked_by];
        self.set_stage(run, position, call.stage, others)
    }

    /// Writes the stage of a call, and other columns.
    fn set_stage<const N: usize>(
        &self,
        run: i64,
        position: Position,
        stage: Stage,
        others: [(&'static str, Param<'_>); N],
    ) -> SqlResult<()> {
        let (stage, attempts, until_ms) = stage_columns(stage);
        let mut update = "UPDATE run_call SET stage = ?4, attempts = ?5, until_ms = ?6".to_owned();
        let mut values =
            params![run, position.block, position.branch, stage, attempts, until_ms].to_vec();
        for (column, value) in others {
            values.push(value);
            // Writing to a String cannot fail.
            let _ = write!(update, ", {column} = ?{}", values.len());
        }
        update.push_str(" WHERE run = ?1 AND block = ?2 AND branch = ?3");
        self.sql.run(&update, &values).map(drop)
    }

    /// Writes answered calls that the run does not have yet.
    pub(super) fn record(&self, run: i64, records: Vec<AnsweredCall>) -> Done<()> {
        let mut calls = Vec::with_capacity(records.len());
        for AnsweredCall { position, called, answer } in records {
            let call = Call::record(None, called).map_err(about(position))?;
            calls.push((position, call, answer));
        }
        let rows = calls.iter().map(|(position, call, answer)| {
            insert_values(run, *position, call, Some(answer)).to_vec()
        });
        let inserted = self.sql.run_each(INSERT, &rows.collect::<Vec<_>>())?;
        let mut calls = calls.into_iter().zip(inserted);
        let Some(((position, call, _), _)) = calls.find(|(_, rows)| *rows == 0) else {
            return Ok(());
        };
        // The model decides between the reasons.
        let present = self.call(run, position)?;
        match Call::record(present.as_ref(), call.called) {
            Ok(_) => Err(about(position)(Refused::Stale)),
            Err(refused) => Err(about(position)(refused)),
        }
    }

    /// Inserts answered calls of a run that has none.
    pub(super) fn insert_records(
        &self,
        run: i64,
        records: &BTreeMap<Position, (Call, Arc<str>)>,
    ) -> SqlResult<()> {
        let rows = records.iter().map(|(position, (call, answer))| {
            insert_values(run, *position, call, Some(answer)).to_vec()
        });
        self.sql.run_all(INSERT, &rows.collect::<Vec<_>>()).map(drop)
    }

    /// Writes the answer of an attempt, as [`Call::answer`] has it, without reading the call.
    pub(super) fn answer(
        &self,
        run: i64,
        position: Position,
        attempt: u32,
        answer: &str,
    ) -> Done<()> {
        let update = "UPDATE run_call SET stage = 'answered', attempts = 0, until_ms = NULL, \
                      answer_head = ?5, answer = ?6 \
                      WHERE run = ?1 AND block = ?2 AND branch = ?3 AND attempts = ?4 \
                      AND stage IN ('sent', 'in_doubt')";
        let values = params![run, position.block, position.branch, attempt, head(answer), answer];
        if self.sql.run(update, values)? > 0 {
            // In these stages, it had none.
            self.grow(size(answer));
            return Ok(());
        }
        match self.call(run, position)? {
            Some(_) => Err(about(position)(Refused::Stale)),
            None => Err(RunError::NoCall(position).into()),
        }
    }

    /// Writes what a person has decided about a call of the run, which has no answer, with its answer
    /// if the decision gives one.
    pub(super) fn set_decision(
        &self,
        run: i64,
        position: Position,
        stage: Stage,
        answer: Option<&str>,
    ) -> SqlResult<()> {
        self.grow(answer.map_or(0, size));
        let head = ("answer_head", answer.map(head).into());
        self.set_stage(run, position, stage, [head, ("answer", answer.into())])
    }

    /// Marks the calls that are in doubt for the process that takes the run over, as
    /// [`Call::claimed`] has it, without reading them.
    pub(super) fn doubt(&self, run: i64) -> SqlResult<()> {
        let update = "UPDATE run_call SET stage = 'in_doubt' \
                      WHERE run = ?1 AND stage = 'sent' AND repeatable = 0";
        self.sql.run(update, params![run]).map(drop)
    }
}

/// Reads the calls of a run.
pub(super) fn all(sql: &Sql<'_>, run: i64) -> SqlResult<Vec<StoredCall>> {
    let select = format!(
        "SELECT {COLUMNS}, arguments, block, branch, answer \
         FROM run_call WHERE run = ?1 ORDER BY block, branch"
    );
    sql.all(&select, params![run], |row| {
        Ok(StoredCall {
            position: Position { block: row.get(10)?, branch: row.get(11)? },
            call: read(row, row.get(9)?)?,
            answer: row.get(12)?,
        })
    })
}

/// The columns of a call that [`read`] reads, which come first.
pub(crate) const COLUMNS: &str =
    "stage, attempts, until_ms, repeatable, tool, definition, sources, written, asked_by";

/// Reads a call with these arguments from [`COLUMNS`].
pub(crate) fn read(row: &Row<'_>, arguments: String) -> SqlResult<Call> {
    let attempts: u32 = row.get(1)?;
    let until_ms = row.get::<Option<i64>>(2)?.unwrap_or_default();
    let stage = match row.get::<&str>(0)? {
        "pending" => Stage::Pending { attempts },
        "approved" => Stage::Approved { attempts, until_ms },
        "retried" => Stage::Retried { attempts, until_ms },
        "denied" => Stage::Denied,
        "sent" => Stage::Sent { attempt: attempts },
        "in_doubt" => Stage::InDoubt { attempt: attempts },
        _ => Stage::Answered,
    };
    let called = Called {
        tool: row.get::<String>(4)?.into(),
        arguments: arguments.into(),
        written: row.get::<Option<String>>(7)?.map(Into::into),
        definition: row.get::<String>(5)?.into(),
        is_repeatable: row.get(3)?,
        sources: row.get::<Option<String>>(6)?.map(Into::into),
        asked_by: row.get::<Option<String>>(8)?.map(Into::into),
    };
    Ok(Call { called, stage })
}

/// Returns the columns of a stage: its name, the attempts, and the time at which an approval expires.
fn stage_columns(stage: Stage) -> (&'static str, u32, Option<i64>) {
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
