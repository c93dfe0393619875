//! Changes of the call log.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::LazyLock,
    time::Duration,
};

use super::row::{
    CallContents, CallStatus, LogBatch, LoggedModelCall, LoggedParty, LoggedToolCall,
    MODEL_COLUMNS, TOOL_COLUMNS,
};
use airlock_database::{
    columns::milliseconds,
    seal::{Sealer, SecretPlace},
    sql::{InsertText, Param, Sql, SqlResult, first, numbered, params},
};

/// Maximum rows that one change erases or removes. Other changes of a file wait meanwhile, and it
/// overwrites the contents, up to 2 MiB of each row.
pub const MAX_ERASED: usize = 1_000;
/// Longer than any call. One that has not ended by then was cut off with its gateway.
const LONGEST_CALL: Duration = Duration::from_hours(25);
/// Code of such a call.
const GATEWAY_ENDED: &str = "gateway_ended";
/// Identifiers in one statement.
const IDS_AT_ONCE: usize = 100;

/// Inserts calls of tools, and updates the row of one that has ended since.
static INSERT_TOOLS: LazyLock<InsertText> = LazyLock::new(|| {
    let update = "(id) DO UPDATE SET status = excluded.status, run = excluded.run, code = excluded.code, \
         duration_us = excluded.duration_us, cost = excluded.cost, fuel = excluded.fuel, \
         memory_bytes = excluded.memory_bytes, result_digest = excluded.result_digest, guards = excluded.guards \
         WHERE tool_log.status = 'processing'";
    InsertText::new("tool_log", TOOL_COLUMNS, update)
});
static INSERT_MODELS: LazyLock<InsertText> =
    LazyLock::new(|| InsertText::new("model_log", MODEL_COLUMNS, "(id) DO NOTHING"));
static INSERT_CONTENTS: LazyLock<InsertText> = LazyLock::new(|| {
    InsertText::new("tool_log_content", "id, arguments, result", "(id) DO NOTHING")
});

/// Outcome of one sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SweepOutcome {
    /// Rows that were removed.
    pub removed: u64,
    /// True if there may be more to remove.
    pub has_more: bool,
}

/// Inserts the rows of a batch.
pub(super) fn insert(sql: &Sql<'_>, sealer: &Sealer, batch: &LogBatch) -> SqlResult<()> {
    let mut tools = Vec::new();
    for call in each_once(&batch.tools) {
        add_tool(&mut tools, call);
    }
    sql.insert(&INSERT_TOOLS, &tools)?;
    let mut models = Vec::new();
    for call in &batch.models {
        add_model(&mut models, call);
    }
    sql.insert(&INSERT_MODELS, &models)?;
    insert_contents(sql, sealer, &batch.contents)
}

/// Returns the calls of a batch, each with one row: the first that has ended, or the last if none has.
fn each_once(calls: &[LoggedToolCall]) -> Vec<&LoggedToolCall> {
    let mut places = HashMap::with_capacity(calls.len());
    let mut kept: Vec<&LoggedToolCall> = Vec::with_capacity(calls.len());
    for call in calls {
        match places.entry(call.id.as_str()) {
            Entry::Vacant(place) => {
                place.insert(kept.len());
                kept.push(call);
            }
            Entry::Occupied(place) => {
                let row = &mut kept[*place.get()];
                if row.status == CallStatus::Processing {
                    *row = call;
                }
            }
        }
    }
    kept
}

/// Inserts contents, except those of calls that were erased meanwhile.
fn insert_contents(
    sql: &Sql<'_>,
    sealer: &Sealer,
    contents: &[(String, CallContents)],
) -> SqlResult<()> {
    if contents.is_empty() {
        return Ok(());
    }
    let kept = unerased(sql, contents)?;
    let mut rows = Vec::new();
    for (id, contents) in contents.iter().filter(|(id, _)| kept.contains(id)) {
        let arguments = seal(sealer, id, "arguments", contents.arguments.as_deref())?;
        let result = seal(sealer, id, "result", contents.result.as_deref())?;
        rows.push((id, arguments, result));
    }
    let values = rows.iter().flat_map(|(id, arguments, result)| {
        [Param::from(*id), arguments.as_ref().into(), result.as_ref().into()]
    });
    sql.insert(&INSERT_CONTENTS, &values.collect::<Vec<_>>())
}

/// Returns the identifiers of those calls whose contents were not erased.
fn unerased(sql: &Sql<'_>, contents: &[(String, CallContents)]) -> SqlResult<HashSet<String>> {
    let mut kept = HashSet::with_capacity(contents.len());
    let listed = numbered(1, IDS_AT_ONCE);
    let select = format!("SELECT id FROM tool_log WHERE id IN ({listed}) AND erased_ms IS NULL");
    for contents in contents.chunks(IDS_AT_ONCE) {
        let mut ids: Vec<_> = contents.iter().map(|(id, _)| Param::from(id)).collect();
        // One text, whatever the number of identifiers.
        ids.resize(IDS_AT_ONCE, Param::Null);
        kept.extend(sql.all(&select, &ids, first::<String>)?);
    }
    Ok(kept)
}

fn seal(
    sealer: &Sealer,
    id: &str,
    column: &str,
    content: Option<&str>,
) -> SqlResult<Option<Vec<u8>>> {
    Ok(content.map(|content| sealer.seal(&place(id, column), content)).transpose()?)
}

fn place(id: &str, column: &str) -> SecretPlace {
    SecretPlace::new("tool_log_content", column, &[id.as_bytes()])
}

/// Reads the contents of a call.
pub(super) fn contents(
    sql: &Sql<'_>,
    sealer: &Sealer,
    id: &str,
) -> SqlResult<Option<CallContents>> {
    let select = "SELECT arguments, result FROM tool_log_content WHERE id = ?1";
    sql.find(select, params![id], |row| {
        let arguments: Option<&[u8]> = row.get(0)?;
        let result: Option<&[u8]> = row.get(1)?;
        let arguments =
            arguments.map(|stored| sealer.open(&place(id, "arguments"), stored)).transpose()?;
        let result = result.map(|stored| sealer.open(&place(id, "result"), stored)).transpose()?;
        Ok(CallContents { arguments, result })
    })
}

/// Adds the values of a row.
fn add_tool<'c>(values: &mut Vec<Param<'c>>, call: &'c LoggedToolCall) {
    values.extend([
        Param::from(&call.id),
        call.at_ms.into(),
        call.status.name().into(),
        Param::from(&call.tool),
        call.client.as_ref().into(),
        Param::from(&call.origin),
        Param::from(&call.decision),
    ]);
    values.extend(party_values(&call.party));
    values.extend([
        Param::from(call.parent.as_ref()),
        call.run.as_ref().into(),
        call.code.as_ref().into(),
        call.duration_us.into(),
        call.cost.into(),
        call.fuel.into(),
        call.arguments_digest.as_ref().into(),
        call.result_digest.as_ref().into(),
        call.salt.as_ref().into(),
        call.erased_ms.into(),
        call.memory_bytes.into(),
        call.decided_by.as_ref().into(),
        call.guards.as_ref().into(),
        call.sources.as_ref().into(),
    ]);
}

/// Adds the values of a row.
fn add_model<'c>(values: &mut Vec<Param<'c>>, call: &'c LoggedModelCall) {
    values.extend([
        Param::from(&call.id),
        call.at_ms.into(),
        call.status.name().into(),
        Param::from(&call.model),
        call.provider.as_ref().into(),
        call.served_model.as_ref().into(),
    ]);
    values.extend(party_values(&call.party));
    values.extend([
        Param::from(call.is_streamed),
        call.code.as_ref().into(),
        call.duration_us.into(),
        call.cost.into(),
        call.tokens.map(|tokens| tokens.input).into(),
        call.tokens.map(|tokens| tokens.cached).into(),
        call.tokens.map(|tokens| tokens.output).into(),
        call.tokens.map(|tokens| tokens.reasoning).into(),
        call.tool_tokens.as_ref().into(),
        call.guards.as_ref().into(),
    ]);
}

fn party_values(party: &LoggedParty) -> [Param<'_>; 6] {
    let LoggedParty { key_id, key_name, team, customer, user_issuer, user_subject } = party;
    [key_id, key_name, team, customer, user_issuer, user_subject]
        .map(|value| Param::from(value.as_ref()))
}

/// Erases the contents and the salts of calls. Returns the number of calls that exist.
pub(super) fn erase(sql: &Sql<'_>, ids: &[String]) -> SqlResult<u64> {
    sql.overwrite_deleted()?;
    let mut erased = 0;
    for ids in ids.iter().take(MAX_ERASED).collect::<Vec<_>>().chunks(IDS_AT_ONCE) {
        let mut values: Vec<Param<'_>> = vec![sql.now().into()];
        values.extend(ids.iter().map(|id| Param::from(*id)));
        let listed = numbered(2, ids.len());
        let update = format!(
            "UPDATE tool_log SET salt = NULL, erased_ms = coalesce(erased_ms, ?1) WHERE id IN ({listed})"
        );
        erased += sql.run(&update, &values)?;
        let listed = numbered(1, ids.len());
        let delete = format!("DELETE FROM tool_log_content WHERE id IN ({listed})");
        sql.run(&delete, &values[1..])?;
    }
    Ok(erased)
}

/// Removes requests to models. Returns the number of those that existed.
pub(super) fn remove_models(sql: &Sql<'_>, ids: &[String]) -> SqlResult<u64> {
    let mut removed = 0;
    for ids in ids.iter().take(MAX_ERASED).collect::<Vec<_>>().chunks(IDS_AT_ONCE) {
        let values: Vec<_> = ids.iter().map(|id| Param::from(*id)).collect();
        let listed = numbered(1, ids.len());
        removed += sql.run(&format!("DELETE FROM model_log WHERE id IN ({listed})"), &values)?;
    }
    Ok(removed)
}

/// Removes the oldest rows before a time, and ends calls whose gateway has ended.
pub(super) fn sweep(sql: &Sql<'_>, life: Duration) -> SqlResult<SweepOutcome> {
    sql.overwrite_deleted()?;
    let oldest = sql.now().saturating_sub(milliseconds(life));
    let most = i64::try_from(MAX_ERASED).unwrap_or(i64::MAX);
    let contents = "DELETE FROM tool_log_content WHERE id IN \
                    (SELECT id FROM tool_log WHERE at_ms < ?1 ORDER BY at_ms, id LIMIT ?2)";
    sql.run(contents, params![oldest, most])?;
    let tools = "DELETE FROM tool_log WHERE id IN \
                 (SELECT id FROM tool_log WHERE at_ms < ?1 ORDER BY at_ms, id LIMIT ?2)";
    let tools = sql.run(tools, params![oldest, most])?;
    let models = "DELETE FROM model_log WHERE id IN \
                  (SELECT id FROM model_log WHERE at_ms < ?1 ORDER BY at_ms, id LIMIT ?2)";
    let models = sql.run(models, params![oldest, most])?;
    let begun = sql.now().saturating_sub(milliseconds(LONGEST_CALL));
    // The index of states has no row of a call that has succeeded. With both conditions, the database uses it.
    let cut_off = "UPDATE tool_log SET status = 'cancelled', code = ?3 WHERE id IN \
                   (SELECT id FROM tool_log WHERE status = 'processing' AND status <> 'success' AND at_ms < ?1 \
                   LIMIT ?2)";
    sql.run(cut_off, params![begun, most, GATEWAY_ENDED])?;
    let full = MAX_ERASED as u64;
    Ok(SweepOutcome { removed: tools + models, has_more: tools >= full || models >= full })
}
