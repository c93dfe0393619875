//! A run as people see it: without the answers of its calls, which can be many megabytes.

use airlock_core::run::{Call, Position};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    sql::{call, read},
    stored::StoredRun,
};
use crate::{columns::unsigned, owner::OwnerId};

/// Longest answer that is shown, and longest arguments of a call that nobody has to decide about, in
/// bytes: as much as a person reads. A run may have thousands of calls with answers of 1 MiB.
pub(super) const MAX_SHOWN: u32 = 16 << 10;

/// A run as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownRun {
    /// The run, without its tools and calls.
    pub run: StoredRun,
    /// Its calls, in the order of their positions.
    pub calls: Vec<ShownCall>,
}

/// A call as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownCall {
    /// Its position.
    pub position: Position,
    /// The call. If it waits for a decision, or may after its process has ended, its arguments are
    /// whole. Otherwise they are cut after 16 Ki characters.
    pub call: Call,
    /// Its answer, if it has one.
    pub answer: Option<ShownAnswer>,
}

/// An answer as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShownAnswer {
    /// An answer of at most 16 KiB.
    Whole(String),
    /// A longer answer.
    Head {
        /// Its first 16 characters.
        head: String,
        /// Its size in bytes.
        bytes: u64,
    },
}

impl ShownRun {
    /// Returns the bytes of the texts that it has.
    pub fn bytes(&self) -> usize {
        let calls = self.calls.iter().map(|shown| {
            let answer = match &shown.answer {
                Some(ShownAnswer::Whole(answer)) => answer.len(),
                _ => 0,
            };
            shown.call.called.arguments.len() + answer
        });
        let outcome = self.run.outcome.as_ref().map_or(0, String::len);
        self.run.script.len() + outcome + calls.sum::<usize>()
    }
}

/// Bytes that a call counts for beside its texts.
const CALL_BYTES: u32 = 1 << 10;

/// Reads a run of an owner, unless `admit` refuses its size.
pub(super) fn show_within<E>(
    connection: &Connection,
    scope: &OwnerId,
    id: &str,
    now: i64,
    admit: impl FnOnce(u64) -> Result<(), E>,
) -> rusqlite::Result<Option<Result<ShownRun, E>>> {
    let Some(bytes) = size(connection, scope, id)? else { return Ok(None) };
    if let Err(refusal) = admit(bytes) {
        return Ok(Some(Err(refusal)));
    }
    Ok(show(connection, Some(scope), id, now)?.map(Ok))
}

/// Returns the bytes of the texts that [`show`] reads, with [`CALL_BYTES`] for each call.
fn size(connection: &Connection, scope: &OwnerId, id: &str) -> rusqlite::Result<Option<u64>> {
    let mut select = connection.prepare_cached(
        "SELECT octet_length(script) + coalesce(octet_length(outcome), 0) + (\
         SELECT coalesce(sum(?4 + \
         CASE WHEN octet_length(arguments) <= ?3 OR stage IN ('pending', 'in_doubt', 'sent') \
         THEN octet_length(arguments) ELSE ?3 END + \
         CASE WHEN octet_length(answer) <= ?3 THEN octet_length(answer) ELSE 0 END), 0) \
         FROM run_call WHERE run_call.run = run.number) \
         FROM run WHERE id = ?1 AND scope = ?2",
    )?;
    let bytes = select.query_row(params![id, scope, MAX_SHOWN, CALL_BYTES], |row| row.get(0));
    Ok(bytes.optional()?.map(unsigned))
}

/// Reads a run; of any owner without a `scope`.
pub(super) fn show(
    connection: &Connection,
    scope: Option<&OwnerId>,
    id: &str,
    now: i64,
) -> rusqlite::Result<Option<ShownRun>> {
    let Some((number, run)) = read::run(connection, scope, id, now)? else { return Ok(None) };
    let mut select = connection.prepare_cached(
        "SELECT stage, attempts, until_ms, repeatable, tool, definition, \
         CASE WHEN octet_length(arguments) <= ?2 OR stage IN ('pending', 'in_doubt', 'sent') \
         THEN arguments ELSE substr(arguments, 1, ?2 + 1) END, \
         block, branch, octet_length(answer), answer_head, \
         CASE WHEN octet_length(answer) <= ?2 THEN answer END \
         FROM run_call WHERE run = ?1 ORDER BY block, branch",
    )?;
    let calls = select.query_map(params![number, MAX_SHOWN], |row| {
        let answer = match (row.get::<_, Option<i64>>(9)?, row.get(11)?) {
            (None, _) => None,
            (Some(_), Some(whole)) => Some(ShownAnswer::Whole(whole)),
            (Some(bytes), None) => {
                Some(ShownAnswer::Head { head: row.get(10)?, bytes: unsigned(bytes) })
            }
        };
        let position = Position { block: row.get(7)?, branch: row.get(8)? };
        Ok(ShownCall { position, call: call::read(row)?, answer })
    })?;
    Ok(Some(ShownRun { run, calls: calls.collect::<Result<_, _>>()? }))
}
