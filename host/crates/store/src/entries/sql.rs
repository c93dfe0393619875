//! SQL statements of the entries. Each function runs within one transaction.

use super::{
    Entries, Entry, EntryChange, EntryChanged, EntryKind, EntryValue, MAX_DOCUMENT_BYTES,
    MAX_ENTRIES, MAX_ENTRIES_BYTES, UnreadableEntry,
    record::{self, NewChange},
};
use crate::components::sql::{Assigned, assign};
use airlock_database::{
    columns::{size, unsigned},
    revision::{self, ChangeKind},
    seal::{Sealer, SecretPlace},
    sql::{Row, Sql, SqlResult, params},
};

impl EntryKind {
    /// Reads a column; `None` for a kind of a newer version.
    pub(super) fn from_column(column: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == column)
    }

    /// Returns the kind of data that an entry is announced as.
    fn announced(self) -> ChangeKind {
        match self {
            Self::VirtualKey | Self::KeyValue => ChangeKind::Keys,
            Self::Client
            | Self::Team
            | Self::Customer
            | Self::Role
            | Self::Environment
            | Self::VirtualMcp
            | Self::ModelConfig
            | Self::PricingOverride
            | Self::Setting => ChangeKind::Config,
        }
    }
}

/// Returns the place of an entry's document.
fn place(kind: EntryKind, name: &str) -> SecretPlace {
    let row = [kind.name().as_bytes(), name.as_bytes()];
    SecretPlace::new("setting_entry", "document", &row)
}

/// Reads all entries. Those of kinds of newer versions are left out.
pub(super) fn all(sql: &Sql<'_>, sealer: &Sealer) -> SqlResult<Entries> {
    let select = "SELECT kind, name, replaces, document, changed_ms FROM setting_entry \
                  ORDER BY kind, name";
    let mut all = Entries::default();
    for entry in sql.all(select, &[], |row| entry(row, sealer))?.into_iter().flatten() {
        match entry {
            Ok(entry) => all.entries.push(entry),
            Err(unreadable) => all.unreadable.push(unreadable),
        }
    }
    let revision = record::revision(sql)?;
    let keys_changed = revision::read(sql)?.contains_key(&ChangeKind::Keys);
    Ok(Entries { revision, keys_changed, ..all })
}

/// Reads an entry, or what is known of one whose document cannot be opened; `None` if its kind is one of a
/// newer version. An entry without a document, which removes an element of the file, needs no key.
fn entry(row: &Row<'_>, sealer: &Sealer) -> SqlResult<Option<Result<Entry, UnreadableEntry>>> {
    let Some(kind) = EntryKind::from_column(row.get(0)?) else { return Ok(None) };
    let name: String = row.get(1)?;
    let replaces = row.get(2)?;
    let changed_ms = row.get(4)?;
    let stored: Option<&[u8]> = row.get(3)?;
    let opened = stored.map(|stored| sealer.open(&place(kind, &name), stored)).transpose();
    Ok(Some(match opened {
        Ok(document) => Ok(Entry { kind, name, replaces, document, changed_ms }),
        Err(reason) => Err(UnreadableEntry { kind, name, replaces, reason }),
    }))
}

/// Makes a change, unless the entries are of another revision, or there is no room.
pub(super) fn change(
    sql: &Sql<'_>,
    sealer: &Sealer,
    change: &EntryChange,
) -> SqlResult<EntryChanged> {
    if record::revision(sql)? != change.revision {
        return Ok(EntryChanged::Outdated);
    }
    let before = find(sql, sealer, change.kind, &change.name)?;
    if !has_room(sql, before.as_ref(), change.after.as_ref())? {
        return Ok(EntryChanged::Full);
    }
    match assign(sql, change.kind.name(), &change.name, &change.components)? {
        Assigned::Done => {}
        Assigned::Absent(digest) => return Ok(EntryChanged::ComponentAbsent(digest)),
        Assigned::Full => return Ok(EntryChanged::ComponentsFull),
    }
    sql.overwrite_deleted()?;
    match &change.after {
        Some(after) => write(sql, sealer, change, after)?,
        None => remove(sql, change)?,
    }
    let id = record::add(
        sql,
        sealer,
        &NewChange {
            actor: &change.actor,
            action: &change.action,
            kind: Some(change.kind),
            name: &change.name,
            before: before.as_ref(),
            after: change.after.as_ref(),
        },
    )?;
    sql.announce(change.kind.announced())?;
    Ok(EntryChanged::Done(id))
}

/// Reads an entry for the record, which cannot keep a document that cannot be opened.
fn find(
    sql: &Sql<'_>,
    sealer: &Sealer,
    kind: EntryKind,
    name: &str,
) -> SqlResult<Option<EntryValue>> {
    let select = "SELECT replaces, document FROM setting_entry WHERE kind = ?1 AND name = ?2";
    sql.find(select, params![kind.name(), name], |row| {
        let stored: Option<&[u8]> = row.get(1)?;
        let document = stored.map(|stored| {
            let opened = sealer.open(&place(kind, name), stored);
            opened.unwrap_or_else(|_| record::NOT_KEPT.to_owned())
        });
        Ok(EntryValue { replaces: row.get(0)?, document })
    })
}

/// Returns whether an entry may grow from `before` to `after`.
fn has_room(
    sql: &Sql<'_>,
    before: Option<&EntryValue>,
    after: Option<&EntryValue>,
) -> SqlResult<bool> {
    let Some(after) = after else { return Ok(true) };
    let grows_by = after.bytes() - before.map_or(0, EntryValue::bytes);
    if before.is_some() && grows_by <= 0 {
        return Ok(true);
    }
    let select = "SELECT count(*), CAST(coalesce(sum(octet_length(document)), 0) AS BIGINT) \
                  FROM setting_entry";
    let (entries, bytes) =
        sql.one(select, &[], |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))?;
    let is_new = before.is_none();
    Ok(unsigned(after.bytes()) <= MAX_DOCUMENT_BYTES as u64
        && entries + i64::from(is_new) <= i64::from(MAX_ENTRIES)
        && unsigned(bytes + grows_by) <= MAX_ENTRIES_BYTES)
}

impl EntryValue {
    fn bytes(&self) -> i64 {
        self.document.as_deref().map_or(0, size)
    }
}

fn write(
    sql: &Sql<'_>,
    sealer: &Sealer,
    change: &EntryChange,
    after: &EntryValue,
) -> SqlResult<()> {
    let EntryChange { kind, name, .. } = change;
    let document = after.document.as_ref();
    let document =
        document.map(|document| sealer.seal(&place(*kind, name), document)).transpose()?;
    let upsert = "INSERT INTO setting_entry (kind, name, replaces, document, changed_ms) \
                  VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (kind, name) DO UPDATE SET \
                  replaces = excluded.replaces, document = excluded.document, \
                  changed_ms = excluded.changed_ms";
    let replaces = after.replaces.as_ref();
    let values = params![kind.name(), name, replaces, document.as_ref(), sql.now()];
    sql.run(upsert, values).map(drop)
}

fn remove(sql: &Sql<'_>, change: &EntryChange) -> SqlResult<()> {
    let delete = "DELETE FROM setting_entry WHERE kind = ?1 AND name = ?2";
    sql.run(delete, params![change.kind.name(), &change.name]).map(drop)
}
