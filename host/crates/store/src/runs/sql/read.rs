//! Reads runs.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{call, row};
use crate::{columns::unsigned, owner::OwnerId, runs::stored::StoredRun};

/// Columns of a run, without its texts.
const COLUMNS: &str = "number, id, created_ms, changed_ms, epoch, phase, until_ms, cancelled, language, \
     (SELECT COUNT(*) FROM run_call WHERE run = run.number AND stage = 'pending'), bytes";
/// The run `?1`, of the owner `?2` if that is not null.
const OF_OWNER: &str = "FROM run WHERE id = ?1 AND (?2 IS NULL OR scope = ?2)";

/// Reads a run with its calls; of any owner without a `scope`.
pub(crate) fn get(
    connection: &Connection,
    scope: Option<&OwnerId>,
    id: &str,
    now: i64,
) -> rusqlite::Result<Option<StoredRun>> {
    let select = format!(
        "SELECT {COLUMNS}, outcome, script, clock_ms, \
         (SELECT bindings FROM run_tools WHERE id = tools) {OF_OWNER}"
    );
    let mut select = connection.prepare_cached(&select)?;
    let read = select.query_row(params![id, scope], |row| {
        let (number, mut run) = with_script(row, now)?;
        run.bindings = row.get(14)?;
        Ok((number, run))
    });
    let Some((number, mut run)) = read.optional()? else { return Ok(None) };
    run.calls = call::all(connection, number)?;
    Ok(Some(run))
}

/// Reads a run without its tools and calls, and its number.
pub(crate) fn run(
    connection: &Connection,
    scope: Option<&OwnerId>,
    id: &str,
    now: i64,
) -> rusqlite::Result<Option<(i64, StoredRun)>> {
    let select = format!("SELECT {COLUMNS}, outcome, script, clock_ms {OF_OWNER}");
    let mut select = connection.prepare_cached(&select)?;
    select.query_row(params![id, scope], |row| with_script(row, now)).optional()
}

/// Reads a run without its tools, calls and outcome.
pub(crate) fn head(
    connection: &Connection,
    scope: Option<&OwnerId>,
    id: &str,
    now: i64,
) -> rusqlite::Result<Option<StoredRun>> {
    let select = format!("SELECT {COLUMNS}, NULL, script, clock_ms {OF_OWNER}");
    let mut select = connection.prepare_cached(&select)?;
    let read = select.query_row(params![id, scope], |row| with_script(row, now)).optional()?;
    Ok(read.map(|(_, run)| run))
}

/// Reads the latest runs.
pub(crate) fn list(
    connection: &Connection,
    scope: Option<&OwnerId>,
    limit: u32,
    now: i64,
) -> rusqlite::Result<Vec<StoredRun>> {
    let of = if scope.is_some() { "scope = ?1" } else { "?1 IS NULL" };
    let select = format!(
        "SELECT {COLUMNS}, CASE WHEN outcome IS NOT NULL THEN \
         json_object('status', json_extract(outcome, '$.status')) END \
         FROM run WHERE {of} ORDER BY number DESC LIMIT ?2"
    );
    let mut select = connection.prepare_cached(&select)?;
    let runs = select.query_map(params![scope, limit], |row| {
        let (_, run) = summary(row, now)?;
        Ok(StoredRun { outcome: row.get(11)?, ..run })
    })?;
    runs.collect()
}

/// Reads a run from [`COLUMNS`], its outcome, its script and its time.
fn with_script(row: &Row<'_>, now: i64) -> rusqlite::Result<(i64, StoredRun)> {
    let (number, run) = summary(row, now)?;
    let outcome = row.get(11)?;
    let script = row.get(12)?;
    let clock_ms = row.get(13)?;
    Ok((number, StoredRun { outcome, script, clock_ms, ..run }))
}

fn summary(row: &Row<'_>, now: i64) -> rusqlite::Result<(i64, StoredRun)> {
    let lease = row::lease(row, 4)?;
    let run = StoredRun {
        id: row.get(1)?,
        created_ms: row.get(2)?,
        changed_ms: row.get(3)?,
        lease,
        is_interrupted: lease.is_interrupted(now),
        language: row.get(8)?,
        bytes: unsigned(row.get(10)?),
        pending: row.get(9)?,
        outcome: None,
        script: String::new(),
        bindings: String::new(),
        clock_ms: None,
        calls: Vec::new(),
    };
    Ok((row.get(0)?, run))
}
