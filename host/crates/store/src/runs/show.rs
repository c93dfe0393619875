//! A run as people see it: without the answers of its calls, which can be many megabytes.

use airlock_core::run::{Call, Position};

use super::{
    sql::{call, read},
    stored::StoredRun,
};
use airlock_database::{
    columns::unsigned,
    owner::OwnerId,
    sql::{Row, Sql, SqlResult, first, params},
};

/// Longest answer that is shown, and longest arguments of a call that waits for no decision, in
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
            let called = &shown.call.called;
            let asked_by = called.asked_by.as_ref().map_or(0, |asked_by| asked_by.len());
            called.arguments.len() + asked_by + answer
        });
        let outcome = self.run.outcome.as_ref().map_or(0, String::len);
        self.run.script.len() + outcome + calls.sum::<usize>()
    }
}

/// Bytes that a call counts for beside its texts.
const CALL_BYTES: u32 = 1 << 10;
/// Length at which arguments are cut where they are read: a character of `SQLite`, a byte of
/// `PostgreSQL`. Enough for the characters that are shown.
const CUT: u32 = 4 * (MAX_SHOWN + 1);

/// Reads a run of an owner, unless `admit` refuses its size.
pub(super) fn show_within<E>(
    sql: &Sql<'_>,
    scope: &OwnerId,
    id: &str,
    admit: impl FnOnce(u64) -> Result<(), E>,
) -> SqlResult<Option<Result<ShownRun, E>>> {
    let Some(bytes) = size(sql, scope, id)? else { return Ok(None) };
    if let Err(refusal) = admit(bytes) {
        return Ok(Some(Err(refusal)));
    }
    Ok(show(sql, Some(scope), id)?.map(Ok))
}

/// Returns the bytes of the texts that [`show`] reads, with [`CALL_BYTES`] for each call.
fn size(sql: &Sql<'_>, scope: &OwnerId, id: &str) -> SqlResult<Option<u64>> {
    let select = "SELECT CAST(octet_length(script) + coalesce(octet_length(outcome), 0) + (\
         SELECT coalesce(sum(?4 + \
         CASE WHEN octet_length(arguments) <= ?3 OR stage IN ('pending', 'in_doubt', 'sent') \
         THEN octet_length(arguments) ELSE ?3 END + \
         CASE WHEN octet_length(answer) <= ?3 THEN octet_length(answer) ELSE 0 END + \
         coalesce(octet_length(asked_by), 0)), 0) \
         FROM run_call WHERE run_call.run = run.number) AS BIGINT) \
         FROM run WHERE id = ?1 AND scope = ?2";
    let bytes = sql.find(select, params![id, scope, MAX_SHOWN, CALL_BYTES], first)?;
    Ok(bytes.map(unsigned))
}

/// Reads a run; of any owner without a `scope`.
pub(super) fn show(
    sql: &Sql<'_>,
    scope: Option<&OwnerId>,
    id: &str,
) -> SqlResult<Option<ShownRun>> {
    let Some((number, run)) = read::run(sql, scope, id)? else { return Ok(None) };
    let columns = call::COLUMNS;
    let select = format!(
        "SELECT {columns}, \
         CASE WHEN octet_length(arguments) <= ?2 OR stage IN ('pending', 'in_doubt', 'sent') \
         THEN arguments ELSE substr(arguments, 1, CAST(?3 AS INTEGER)) END, \
         block, branch, octet_length(answer), answer_head, \
         CASE WHEN octet_length(answer) <= ?2 THEN answer END, \
         octet_length(arguments) <= ?2 OR stage IN ('pending', 'in_doubt', 'sent') \
         FROM run_call WHERE run = ?1 ORDER BY block, branch"
    );
    let calls = sql.all(&select, params![number, MAX_SHOWN, CUT], shown_call)?;
    Ok(Some(ShownRun { run, calls }))
}

fn shown_call(row: &Row<'_>) -> SqlResult<ShownCall> {
    let answer = match (row.get::<Option<i64>>(12)?, row.get(14)?) {
        (None, _) => None,
        (Some(_), Some(whole)) => Some(ShownAnswer::Whole(whole)),
        (Some(bytes), None) => {
            Some(ShownAnswer::Head { head: row.get(13)?, bytes: unsigned(bytes) })
        }
    };
    let position = Position { block: row.get(10)?, branch: row.get(11)? };
    let arguments = shown_arguments(row.get(9)?, row.get(15)?);
    let call = call::read(row, arguments)?;
    Ok(ShownCall { position, call, answer })
}

/// Returns arguments as they were read; of those that are not shown whole, the characters that are.
fn shown_arguments(read: &[u8], is_whole: bool) -> String {
    // A server may have cut them inside a character.
    let text = read.utf8_chunks().next().map(|chunk| chunk.valid()).unwrap_or_default();
    if is_whole {
        return text.to_owned();
    }
    text.chars().take(MAX_SHOWN as usize + 1).collect()
}
