//! Reads runs.

use super::{call, row};
use crate::runs::stored::StoredRun;
use airlock_database::{
    columns::unsigned,
    owner::OwnerId,
    sql::{Row, Sql, SqlResult, params},
};

/// Columns of a run, without its texts.
const COLUMNS: &str = "number, id, created_ms, changed_ms, epoch, phase, until_ms, cancelled, language, \
     (SELECT COUNT(*) FROM run_call WHERE run = run.number AND stage = 'pending'), bytes";
/// The run `?1`, of the owner `?2` if that is not null.
const OF_OWNER: &str = "FROM run WHERE id = ?1 AND (scope = ?2 OR ?2 IS NULL)";

/// Reads a run with its calls; of any owner without a `scope`.
pub(crate) fn get(
    sql: &Sql<'_>,
    scope: Option<&OwnerId>,
    id: &str,
) -> SqlResult<Option<StoredRun>> {
    let select = format!(
        "SELECT {COLUMNS}, outcome, script, clock_ms, trace, sources, \
         (SELECT bindings FROM run_tools WHERE id = tools) {OF_OWNER}"
    );
    let read = sql.find(&select, params![id, scope], |row| {
        let (number, mut run) = with_script(row, sql.now())?;
        run.bindings = row.get(16)?;
        Ok((number, run))
    });
    let Some((number, mut run)) = read? else { return Ok(None) };
    run.calls = call::all(sql, number)?;
    Ok(Some(run))
}

/// Reads a run without its tools and calls, and its number.
pub(crate) fn run(
    sql: &Sql<'_>,
    scope: Option<&OwnerId>,
    id: &str,
) -> SqlResult<Option<(i64, StoredRun)>> {
    let select = format!("SELECT {COLUMNS}, outcome, script, clock_ms, trace, sources {OF_OWNER}");
    sql.find(&select, params![id, scope], |row| with_script(row, sql.now()))
}

/// Reads a run without its tools, calls and outcome.
pub(crate) fn head(
    sql: &Sql<'_>,
    scope: Option<&OwnerId>,
    id: &str,
) -> SqlResult<Option<StoredRun>> {
    let select = format!("SELECT {COLUMNS}, NULL, script, clock_ms, trace, sources {OF_OWNER}");
    let read = sql.find(&select, params![id, scope], |row| with_script(row, sql.now()))?;
    Ok(read.map(|(_, run)| run))
}

/// Reads the latest runs.
pub(crate) fn list(
    sql: &Sql<'_>,
    scope: Option<&OwnerId>,
    limit: u32,
) -> SqlResult<Vec<StoredRun>> {
    let select = format!("SELECT {COLUMNS}, outcome IS NOT NULL, status FROM run");
    if let Some(scope) = scope {
        let select = format!("{select} WHERE scope = ?2 ORDER BY number DESC LIMIT ?1");
        return sql.all(&select, params![limit, scope], |row| listed(row, sql.now()));
    }
    let select = format!("{select} ORDER BY number DESC LIMIT ?1");
    sql.all(&select, params![limit], |row| listed(row, sql.now()))
}

/// Reads a run from [`COLUMNS`], and its status as the outcome.
fn listed(row: &Row<'_>, now: i64) -> SqlResult<StoredRun> {
    let (_, run) = summary(row, now)?;
    let status: Option<&str> = row.get(12)?;
    let has_ended: bool = row.get(11)?;
    let outcome = has_ended.then(|| serde_json::json!({ "status": status }).to_string());
    Ok(StoredRun { outcome, ..run })
}

/// Reads a run from [`COLUMNS`], its outcome, its script, its time, its trace and its sources.
fn with_script(row: &Row<'_>, now: i64) -> SqlResult<(i64, StoredRun)> {
    let (number, run) = summary(row, now)?;
    let outcome = row.get(11)?;
    let script = row.get(12)?;
    let clock_ms = row.get(13)?;
    let trace = row.get(14)?;
    let sources = row.get(15)?;
    Ok((number, StoredRun { outcome, script, clock_ms, trace, sources, ..run }))
}

fn summary(row: &Row<'_>, now: i64) -> SqlResult<(i64, StoredRun)> {
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
        trace: None,
        sources: None,
        calls: Vec::new(),
    };
    Ok((row.get(0)?, run))
}
