//! The record of changes of entries and operators. The changes have consecutive numbers.

use std::ops::ControlFlow;

use super::{EntryKind, EntryValue, LimitChange, MAX_RECORDED, RecordedChange};
use crate::SealError;
use airlock_database::{
    seal::{Sealer, SecretPlace},
    sql::{Row, Sql, SqlResult, first, params},
};

/// Bytes of documents after which a list ends. The last change adds at most two documents.
const LISTED_BYTES: i64 = 8 << 20;
/// Maximum number of changes that one change removes from the record. It adds one.
const PURGED_AT_ONCE: u32 = 16;
/// Maximum bytes of the documents of all changes, of which each may have two of 1 MiB: without it, they
/// would take 20 GB. The changes themselves stay in the record.
const MAX_DOCUMENTS_BYTES: i64 = 256 << 20;
/// Bytes of documents after which a change removes no further ones. It adds less.
const FORGOTTEN_BYTES: i64 = 8 << 20;
/// Maximum number of changes whose documents one change removes.
const FORGOTTEN_AT_ONCE: u32 = 256;
/// Maximum bytes of the documents of a change that are kept in any case.
const SMALL_BYTES: i64 = 256;
/// Bytes of the documents of a change.
const BYTES: &str =
    "coalesce(octet_length(before_document), 0) + coalesce(octet_length(after_document), 0)";
/// Stands for a document that could not be opened when its entry was changed, or had no room any more. No
/// JSON is empty.
pub(super) const NOT_KEPT: &str = "";

/// A change to record.
pub(crate) struct NewChange<'c> {
    pub(crate) actor: &'c str,
    pub(crate) action: &'c str,
    /// `None` for a change of operators, or of what a limit counts.
    pub(crate) kind: Option<EntryKind>,
    pub(crate) name: &'c str,
    pub(crate) before: Option<&'c EntryValue>,
    pub(crate) after: Option<&'c EntryValue>,
}

/// Returns the number of the latest change of an entry; 0 if there was none.
pub(super) fn revision(sql: &Sql<'_>) -> SqlResult<i64> {
    let latest = "SELECT id FROM setting_change WHERE kind IS NOT NULL ORDER BY id DESC LIMIT 1";
    Ok(sql.find(latest, &[], first)?.unwrap_or_default())
}

/// Records a change, and removes those that are too old. Returns its number. The caller has the lock of
/// all changes, [`Subject::SETTINGS`](airlock_database::sql::Subject::SETTINGS).
pub(crate) fn add(sql: &Sql<'_>, sealer: &Sealer, change: &NewChange<'_>) -> SqlResult<i64> {
    let latest = "SELECT id FROM setting_change ORDER BY id DESC LIMIT 1";
    let id = sql.find::<i64>(latest, &[], first)?.unwrap_or_default() + 1;
    let before = seal(sealer, id, "before_document", change.before)?;
    let after = seal(sealer, id, "after_document", change.after)?;
    let insert = "INSERT INTO setting_change (id, at_ms, actor, action, kind, name, has_before, \
                  before_replaces, before_document, has_after, after_replaces, after_document) \
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let values = params![
        id,
        sql.now(),
        change.actor,
        change.action,
        change.kind.map(EntryKind::name),
        change.name,
        change.before.is_some(),
        replaces(change.before),
        before.as_ref(),
        change.after.is_some(),
        replaces(change.after),
        after.as_ref(),
    ];
    sql.run(insert, values)?;
    purge(sql, id)?;
    forget_documents(sql, sealer, MAX_DOCUMENTS_BYTES)?;
    Ok(id)
}

/// Records a change of what a limit counts. The caller has the lock of all changes.
pub(super) fn add_of_limit(sql: &Sql<'_>, sealer: &Sealer, change: LimitChange) -> SqlResult<i64> {
    let LimitChange { actor, action, limit, after } = change;
    let after = after.map(|document| EntryValue { replaces: None, document: Some(document) });
    let change = NewChange {
        actor: &actor,
        action: &action,
        kind: None,
        name: &limit,
        before: None,
        after: after.as_ref(),
    };
    add(sql, sealer, &change)
}

fn replaces(value: Option<&EntryValue>) -> Option<&[u8; 32]> {
    value.and_then(|value| value.replaces.as_ref())
}

/// Returns the document to store.
fn seal(
    sealer: &Sealer,
    id: i64,
    column: &str,
    value: Option<&EntryValue>,
) -> SqlResult<Option<Vec<u8>>> {
    let document = value.and_then(|value| value.document.as_ref());
    Ok(document.map(|document| sealer.seal(&place(id, column), document)).transpose()?)
}

/// Returns the place of a change's document.
fn place(id: i64, column: &str) -> SecretPlace {
    SecretPlace::new("setting_change", column, &[&id.to_be_bytes()])
}

/// Removes what is too old once the change `id` is there. The latest change of an entry stays: its
/// number is the revision.
fn purge(sql: &Sql<'_>, id: i64) -> SqlResult<()> {
    let oldest = id - i64::from(MAX_RECORDED);
    if oldest <= 0 {
        return Ok(());
    }
    sql.overwrite_deleted()?;
    let delete = "DELETE FROM setting_change WHERE id IN \
                  (SELECT id FROM setting_change WHERE id <= ?1 ORDER BY id LIMIT ?2) AND id <> ?3";
    sql.run(delete, params![oldest, PURGED_AT_ONCE, revision(sql)?]).map(drop)
}

/// Removes the oldest documents if those of all changes have more than `most_bytes` bytes. They are removed in
/// parts, because they are overwritten, and those of small changes stay. In the place of a removed document,
/// its change has [`NOT_KEPT`].
pub(super) fn forget_documents(sql: &Sql<'_>, sealer: &Sealer, most_bytes: i64) -> SqlResult<()> {
    let beyond = format!(
        "SELECT max(id) FROM (SELECT id, CAST(sum({BYTES}) OVER (ORDER BY id DESC) AS BIGINT) \
         AS bytes FROM setting_change) AS recorded WHERE bytes > ?1"
    );
    let Some(last) = sql.one(&beyond, params![most_bytes], first::<Option<i64>>)? else {
        return Ok(());
    };
    let select = format!(
        "SELECT id, {BYTES} FROM setting_change WHERE id <= ?1 AND {BYTES} > {SMALL_BYTES} \
         ORDER BY id LIMIT ?2"
    );
    let mut forgotten = Vec::new();
    let mut bytes = 0;
    sql.each(&select, params![last, FORGOTTEN_AT_ONCE], |row| {
        forgotten.push(row.get::<i64>(0)?);
        bytes += row.get::<i64>(1)?;
        let is_enough = bytes >= FORGOTTEN_BYTES;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    sql.overwrite_deleted()?;
    for column in ["before_document", "after_document"] {
        let update = format!(
            "UPDATE setting_change SET {column} = ?2 WHERE id = ?1 AND {column} IS NOT NULL"
        );
        for &id in &forgotten {
            let not_kept = sealer.seal(&place(id, column), NOT_KEPT)?;
            sql.run(&update, params![id, &not_kept])?;
        }
    }
    Ok(())
}

const SELECT: &str = "SELECT id, at_ms, actor, action, kind, name, has_before, before_replaces, \
                      before_document, has_after, after_replaces, after_document FROM setting_change";

/// Reads changes before the number `before`, the latest first.
pub(super) fn list(
    sql: &Sql<'_>,
    sealer: &Sealer,
    before: Option<i64>,
    limit: u32,
) -> SqlResult<Vec<RecordedChange>> {
    let before = before.unwrap_or(i64::MAX);
    let Some(last) = last_listed(sql, before, limit)? else { return Ok(Vec::new()) };
    let select = format!("{SELECT} WHERE id < ?1 AND id >= ?2 ORDER BY id DESC");
    sql.all(&select, params![before, last], |row| recorded(row, sealer))
}

/// Returns the last change of a list; `None` if there is none. Reads the sizes of documents alone: a
/// server would send all documents, also those that are not wanted any more.
fn last_listed(sql: &Sql<'_>, before: i64, limit: u32) -> SqlResult<Option<i64>> {
    let select =
        format!("SELECT id, {BYTES} FROM setting_change WHERE id < ?1 ORDER BY id DESC LIMIT ?2");
    let mut last = None;
    let mut bytes = 0;
    sql.each(&select, params![before, limit], |row| {
        last = Some(row.get(0)?);
        bytes += row.get::<i64>(1)?;
        let is_enough = bytes >= LISTED_BYTES;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(last)
}

/// Returns the number of the latest change of an entry.
pub(super) fn latest(sql: &Sql<'_>, kind: EntryKind, name: &str) -> SqlResult<Option<i64>> {
    let select =
        "SELECT id FROM setting_change WHERE kind = ?1 AND name = ?2 ORDER BY id DESC LIMIT 1";
    sql.find(select, params![kind.name(), name], first)
}

/// Reads one change.
pub(super) fn find(sql: &Sql<'_>, sealer: &Sealer, id: i64) -> SqlResult<Option<RecordedChange>> {
    let select = format!("{SELECT} WHERE id = ?1");
    sql.find(&select, params![id], |row| recorded(row, sealer))
}

fn recorded(row: &Row<'_>, sealer: &Sealer) -> SqlResult<RecordedChange> {
    let id = row.get(0)?;
    let kind: Option<&str> = row.get(4)?;
    Ok(RecordedChange {
        id,
        at_ms: row.get(1)?,
        actor: row.get(2)?,
        action: row.get(3)?,
        kind: kind.and_then(EntryKind::from_column),
        name: row.get(5)?,
        before: value(row, 6, sealer, id, "before_document")?,
        after: value(row, 9, sealer, id, "after_document")?,
    })
}

/// Reads an entry from three columns; `None` if there was none, or the reason that its document cannot be
/// opened.
fn value(
    row: &Row<'_>,
    index: usize,
    sealer: &Sealer,
    id: i64,
    column: &str,
) -> SqlResult<Result<Option<EntryValue>, SealError>> {
    if !row.get::<bool>(index)? {
        return Ok(Ok(None));
    }
    let replaces = row.get(index + 1)?;
    let stored: Option<&[u8]> = row.get(index + 2)?;
    Ok(match stored.map(|stored| sealer.open(&place(id, column), stored)).transpose() {
        Ok(document) if document.as_deref() == Some(NOT_KEPT) => Err(SealError::NotKept),
        Ok(document) => Ok(Some(EntryValue { replaces, document })),
        Err(reason) => Err(reason),
    })
}
