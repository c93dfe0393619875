//! SQL statements of the runs. Each function runs within one transaction.

use airlock_core::run::{Call, Called, Cancelled, Lease, Phase, Position, Refused, Stage};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, params};

use super::{Decision, NewRun, RunBounds, RunError, Scope, Step, StoredCall, StoredRun};

/// Most runs that one change removes, so that the change stays quick.
const REMOVED_AT_ONCE: u32 = 100;
/// Of so many runs, the end of one removes the runs of all owners that have expired or are beyond the
/// bound of all owners.
const SWEPT_EVERY: i64 = 64;
/// Bytes that are counted for a run besides its texts: roughly its overhead on disk.
const OVERHEAD_BYTES: i64 = 512;
/// Columns of a run, without its texts.
const COLUMNS: &str = "number, id, created_ms, changed_ms, epoch, phase, until_ms, cancelled, language, \
     (SELECT COUNT(*) FROM run_call WHERE run = run.number AND stage = 'pending')";

/// Reason that a change is not made.
#[derive(Debug)]
pub(super) enum Failure {
    Refused(RunError),
    Database(rusqlite::Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self::Refused(error)
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self::Refused(RunError::Refused { position: None, refused })
    }
}

type Done<T> = Result<T, Failure>;

/// Maps a refusal of a step of the call at `position`.
fn about(position: Position) -> impl Fn(Refused) -> Failure {
    move |refused| Failure::Refused(RunError::Refused { position: Some(position), refused })
}

/// Row of a run.
struct Found {
    number: i64,
    lease: Lease,
}

/// Makes steps of the process of `epoch`.
pub(super) fn steps(
    transaction: &Transaction<'_>,
    scope: &Scope,
    id: &str,
    epoch: u32,
    steps: Vec<Step>,
    now: i64,
    bounds: &RunBounds,
) -> Done<()> {
    let mut steps = steps.into_iter().peekable();
    if let Some(Step::Begin(new)) = steps.next_if(|step| matches!(step, Step::Begin(_))) {
        begin(transaction, scope, id, &new, now, bounds)?;
    }
    let mut found = find(transaction, scope, id)?;
    let mut ends = false;
    for step in steps {
        match step {
            Step::Begin(_) => {}
            Step::Answer(position, attempt, answer) => {
                let call = stored(transaction, found.number, position)?;
                let call = call.ok_or(RunError::NoCall(position))?;
                let answered = call.answer(attempt).map_err(about(position))?;
                put(transaction, found.number, position, &answered, Some(&answer))?;
            }
            Step::Ask(position, called) => {
                found.lease.check(epoch)?;
                let present = stored(transaction, found.number, position)?;
                let asked = Call::ask(present.as_ref(), called, now).map_err(about(position))?;
                put(transaction, found.number, position, &asked, None)?;
            }
            Step::Intend(position, called) => {
                found.lease.check(epoch)?;
                let present = stored(transaction, found.number, position)?;
                let sent = Call::intend(present.as_ref(), called, now).map_err(about(position))?;
                put(transaction, found.number, position, &sent, None)?;
            }
            Step::Record(position, called, answer) => {
                found.lease.check_held(epoch)?;
                let present = stored(transaction, found.number, position)?;
                let call = Call::record(present.as_ref(), called).map_err(about(position))?;
                put(transaction, found.number, position, &call, Some(&answer))?;
            }
            Step::Renew => {
                found.lease = found.lease.renew(epoch, now, milliseconds(bounds.lease))?;
            }
            Step::Suspend => found.lease = found.lease.suspend(epoch)?,
            Step::End(outcome) => {
                found.lease = found.lease.end(epoch)?;
                set_outcome(transaction, found.number, &outcome)?;
                ends = true;
            }
        }
    }
    found.lease = found.lease.touched(epoch, now, milliseconds(bounds.lease));
    set_lease(transaction, &found, now)?;
    if ends || found.lease.phase == Phase::Suspended {
        make_room(transaction, scope, found.number, now, bounds)?;
    }
    Ok(())
}

fn begin(
    transaction: &Transaction<'_>,
    scope: &Scope,
    id: &str,
    new: &NewRun,
    now: i64,
    bounds: &RunBounds,
) -> Done<()> {
    transaction
        .prepare_cached("INSERT OR IGNORE INTO run_tools (digest, bindings) VALUES (?1, ?2)")?
        .execute(params![new.bindings_digest, new.bindings])?;
    let Lease { epoch, phase, is_cancelled } = Lease::begin(now, milliseconds(bounds.lease));
    let (phase, until_ms) = written(phase);
    transaction
        .prepare_cached(
            "INSERT INTO run (id, scope, bytes, created_ms, changed_ms, epoch, phase, until_ms, \
             cancelled, language, tools, script, clock_ms) \
             VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8, ?9, \
             (SELECT id FROM run_tools WHERE digest = ?10), ?11, ?12)",
        )?
        .execute(params![
            id,
            scope,
            OVERHEAD_BYTES.saturating_add(i64::try_from(new.script.len()).unwrap_or(i64::MAX)),
            now,
            epoch,
            phase,
            until_ms,
            is_cancelled,
            new.language,
            new.bindings_digest,
            new.script,
            new.clock_ms,
        ])?;
    Ok(())
}

/// Takes a run over.
pub(super) fn claim(
    transaction: &Transaction<'_>,
    scope: &Scope,
    id: &str,
    now: i64,
    bounds: &RunBounds,
) -> Done<StoredRun> {
    let mut found = find(transaction, scope, id)?;
    found.lease = found.lease.claim(now, milliseconds(bounds.lease))?;
    set_lease(transaction, &found, now)?;
    // As `Call::claimed` has it, without reading the answers.
    transaction
        .prepare_cached(
            "UPDATE run_call SET stage = 'in_doubt' \
             WHERE run = ?1 AND stage = 'sent' AND NOT repeatable",
        )?
        .execute([found.number])?;
    Ok(get(transaction, Some(scope), id, now)?.ok_or(RunError::Unknown)?)
}

/// Makes decisions of a person.
pub(super) fn decide(
    transaction: &Transaction<'_>,
    scope: &Scope,
    id: &str,
    shown: Option<u32>,
    decisions: Vec<(Position, Decision)>,
    now: i64,
    bounds: &RunBounds,
) -> Done<()> {
    let found = find(transaction, scope, id)?;
    found.lease.is_idle(now)?;
    if shown.is_some_and(|epoch| epoch != found.lease.epoch) {
        return Err(Refused::Changed.into());
    }
    let until = now.saturating_add(milliseconds(bounds.approval));
    for (position, decision) in decisions {
        let call = stored(transaction, found.number, position)?;
        // The calls of a run whose process has ended are as the next process finds them.
        let call = call.ok_or(RunError::NoCall(position))?.claimed();
        let (decided, answer) = match decision {
            Decision::Approve => (call.approve(until), None),
            Decision::Deny => (call.deny(), None),
            Decision::Retry => (call.retry(until), None),
            Decision::Skip(answer) => (call.skip(), Some(answer)),
        };
        let decided = decided.map_err(about(position))?;
        put(transaction, found.number, position, &decided, answer.as_deref())?;
    }
    set_lease(transaction, &found, now)?;
    Ok(())
}

/// Ends a run, or requests it.
pub(super) fn cancel(
    transaction: &Transaction<'_>,
    scope: &Scope,
    id: &str,
    outcome: &str,
    now: i64,
) -> Done<Cancelled> {
    let mut found = find(transaction, scope, id)?;
    let (lease, cancelled) = found.lease.cancel(now)?;
    found.lease = lease;
    set_lease(transaction, &found, now)?;
    if cancelled == Cancelled::Ended {
        set_outcome(transaction, found.number, outcome)?;
    }
    Ok(cancelled)
}

/// Reads a run with its calls; of any owner without a `scope`.
pub(super) fn get(
    connection: &Connection,
    scope: Option<&Scope>,
    id: &str,
    now: i64,
) -> rusqlite::Result<Option<StoredRun>> {
    let select = format!(
        "SELECT {COLUMNS}, outcome, script, (SELECT bindings FROM run_tools WHERE id = tools), clock_ms \
         FROM run WHERE id = ?1 AND (?2 IS NULL OR scope = ?2)"
    );
    let mut select = connection.prepare_cached(&select)?;
    let read = select.query_row(params![id, scope], |row| {
        let (number, mut run) = summary(row, now)?;
        run.outcome = row.get(10)?;
        run.script = row.get(11)?;
        run.bindings = row.get(12)?;
        run.clock_ms = row.get(13)?;
        Ok((number, run))
    });
    let Some((number, mut run)) = read.optional()? else { return Ok(None) };
    run.calls = calls(connection, number)?;
    Ok(Some(run))
}

/// Reads the latest runs.
pub(super) fn list(
    connection: &Connection,
    scope: Option<&Scope>,
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
        Ok(StoredRun { outcome: row.get(10)?, ..run })
    })?;
    runs.collect()
}

fn summary(row: &Row<'_>, now: i64) -> rusqlite::Result<(i64, StoredRun)> {
    let lease = lease(row, 4)?;
    let run = StoredRun {
        id: row.get(1)?,
        created_ms: row.get(2)?,
        changed_ms: row.get(3)?,
        lease,
        is_interrupted: lease.is_interrupted(now),
        language: row.get(8)?,
        pending: row.get(9)?,
        outcome: None,
        script: String::new(),
        bindings: String::new(),
        clock_ms: None,
        calls: Vec::new(),
    };
    Ok((row.get(0)?, run))
}

fn find(connection: &Connection, scope: &Scope, id: &str) -> Done<Found> {
    let found = connection
        .prepare_cached(
            "SELECT number, epoch, phase, until_ms, cancelled FROM run WHERE id = ?1 AND scope = ?2",
        )?
        .query_row(params![id, scope], |row| {
            Ok(Found { number: row.get(0)?, lease: lease(row, 1)? })
        })
        .optional()?;
    Ok(found.ok_or(RunError::Unknown)?)
}

/// Reads the lease from four columns.
fn lease(row: &Row<'_>, first: usize) -> rusqlite::Result<Lease> {
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

fn set_lease(transaction: &Transaction<'_>, found: &Found, now: i64) -> rusqlite::Result<()> {
    let Lease { epoch, phase, is_cancelled } = found.lease;
    let (phase, until_ms) = written(phase);
    transaction
        .prepare_cached(
            "UPDATE run SET epoch = ?1, phase = ?2, until_ms = ?3, cancelled = ?4, changed_ms = ?5 \
             WHERE number = ?6",
        )?
        .execute(params![epoch, phase, until_ms, is_cancelled, now, found.number])
        .map(drop)
}

fn set_outcome(transaction: &Transaction<'_>, run: i64, outcome: &str) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE run SET outcome = ?1, bytes = bytes + length(?1) WHERE number = ?2",
        )?
        .execute(params![outcome, run])
        .map(drop)
}

fn calls(connection: &Connection, run: i64) -> rusqlite::Result<Vec<StoredCall>> {
    let mut select = connection.prepare_cached(
        "SELECT stage, attempts, until_ms, repeatable, tool, definition, arguments, block, branch, answer \
         FROM run_call WHERE run = ?1 ORDER BY block, branch",
    )?;
    let calls = select.query_map([run], |row| {
        Ok(StoredCall {
            position: Position { block: row.get(7)?, branch: row.get(8)? },
            call: call(row)?,
            answer: row.get(9)?,
        })
    })?;
    calls.collect()
}

fn stored(connection: &Connection, run: i64, position: Position) -> rusqlite::Result<Option<Call>> {
    connection
        .prepare_cached(
            "SELECT stage, attempts, until_ms, repeatable, tool, definition, arguments \
             FROM run_call WHERE run = ?1 AND block = ?2 AND branch = ?3",
        )?
        .query_row(params![run, position.block, position.branch], call)
        .optional()
}

fn call(row: &Row<'_>) -> rusqlite::Result<Call> {
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
    let text = |column| row.get::<_, String>(column).map(Into::into);
    let called = Called {
        tool: text(4)?,
        arguments: text(6)?,
        definition: text(5)?,
        is_repeatable: row.get(3)?,
    };
    Ok(Call { called, stage })
}

/// Writes a call. Its answer, once it has one, is kept.
fn put(
    transaction: &Transaction<'_>,
    run: i64,
    position: Position,
    call: &Call,
    answer: Option<&str>,
) -> rusqlite::Result<()> {
    let (stage, attempts, until_ms) = match call.stage {
        Stage::Pending { attempts } => ("pending", attempts, None),
        Stage::Approved { attempts, until_ms } => ("approved", attempts, Some(until_ms)),
        Stage::Retried { attempts, until_ms } => ("retried", attempts, Some(until_ms)),
        Stage::Denied => ("denied", 0, None),
        Stage::Sent { attempt } => ("sent", attempt, None),
        Stage::InDoubt { attempt } => ("in_doubt", attempt, None),
        Stage::Answered => ("answered", 0, None),
    };
    let Called { tool, arguments, definition, is_repeatable } = &call.called;
    transaction
        .prepare_cached(
            "INSERT INTO run_call (run, block, branch, stage, attempts, until_ms, repeatable, tool, \
             definition, arguments, answer) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
             ON CONFLICT (run, block, branch) DO UPDATE SET stage = ?4, attempts = ?5, until_ms = ?6, \
             repeatable = ?7, definition = ?9, answer = coalesce(?11, answer)",
        )?
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

/// Removes runs that have expired, and runs beyond the bounds. A run whose script is running stays.
fn make_room(
    transaction: &Transaction<'_>,
    scope: &Scope,
    changed: i64,
    now: i64,
    bounds: &RunBounds,
) -> rusqlite::Result<()> {
    let limit = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    remove_beyond_owner(transaction, scope, changed, now, bounds)?;
    // What concerns the runs of all owners is done for one in many changes, because it costs more.
    if changed % SWEPT_EVERY != 0 {
        return Ok(());
    }
    transaction
        .prepare_cached(
            "DELETE FROM run WHERE number IN (SELECT number FROM run WHERE changed_ms < ?1 \
             AND (phase <> 'running' OR until_ms < ?2) ORDER BY number LIMIT ?3)",
        )?
        .execute(params![
            now.saturating_sub(milliseconds(bounds.expire_after)),
            now,
            REMOVED_AT_ONCE
        ])?;
    let total: i64 = transaction
        .prepare_cached("SELECT coalesce(sum(bytes), 0) FROM run")?
        .query_row((), |row| row.get(0))?;
    if total <= limit(bounds.total_bytes) {
        return Ok(());
    }
    transaction
        .prepare_cached(
            "DELETE FROM run WHERE number IN (SELECT number FROM run \
             WHERE number <> ?1 AND (phase <> 'running' OR until_ms < ?2) \
             ORDER BY phase <> 'ended', number LIMIT ?3)",
        )?
        .execute(params![changed, now, REMOVED_AT_ONCE])
        .map(drop)
}

/// Removes the runs of an owner that have expired, and its oldest ones beyond its bounds, those that have ended first. The run that
/// changes stays.
fn remove_beyond_owner(
    transaction: &Transaction<'_>,
    scope: &Scope,
    changed: i64,
    now: i64,
    bounds: &RunBounds,
) -> rusqlite::Result<()> {
    let bytes = i64::try_from(bounds.owner_bytes).unwrap_or(i64::MAX);
    transaction
        .prepare_cached(
            "DELETE FROM run WHERE number IN (SELECT number FROM (SELECT number, phase, until_ms, \
             changed_ms, count(*) OVER kept AS runs, sum(bytes) OVER kept AS bytes FROM run WHERE scope = ?1 \
             WINDOW kept AS (ORDER BY phase = 'ended', number DESC ROWS UNBOUNDED PRECEDING)) \
             WHERE (runs > ?2 OR bytes > ?3 OR changed_ms < ?7) AND number <> ?6 \
             AND (phase <> 'running' OR until_ms < ?4) ORDER BY number LIMIT ?5)",
        )?
        .execute(params![
            scope,
            bounds.owner_runs,
            bytes,
            now,
            REMOVED_AT_ONCE,
            changed,
            now.saturating_sub(milliseconds(bounds.expire_after)),
        ])
        .map(drop)
}

fn milliseconds(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
