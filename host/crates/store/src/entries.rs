//! Settings that operators change while gateways run: entries that are added to those of the
//! configuration file or stand in their place, and the record of all changes.
//!
//! The documents are JSON, which this module does not parse. They may have secrets, so they are sealed
//! if the database has a key. A change is checked by its caller against all entries of a revision; it
//! is made only if the entries still have that revision.

pub(crate) mod record;
mod sql;

use std::fmt;

use crate::{database::Database, error::Unavailable, sql::Subject};

/// Maximum number of entries.
pub const MAX_ENTRIES: u32 = 10_000;
/// Maximum bytes of one document.
pub const MAX_DOCUMENT_BYTES: usize = 1 << 20;
/// Maximum bytes of the documents of all entries, which are read at once.
pub const MAX_ENTRIES_BYTES: u64 = 64 << 20;
/// Number of the latest changes that are kept in the record. The latest one of an entry is kept in any
/// case.
pub const MAX_RECORDED: u32 = 10_000;
/// Maximum number of changes that [`Database::recorded_changes`] returns at once.
pub const MAX_LISTED: u32 = 1_000;

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// An element of `mcp.client_configs`.
    Client,
    /// An element of `governance.virtual_keys`.
    VirtualKey,
}

/// One entry. `Debug` shows the size of the document alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its kind.
    pub kind: EntryKind,
    /// Its name, unique within the kind.
    pub name: String,
    /// Digest of the element of the file that it stands in place of; `None` if the file had none with
    /// this name.
    pub replaces: Option<[u8; 32]>,
    /// The JSON text of the element; `None` if the element of the file is removed.
    pub document: Option<String>,
    /// Time of the last change, in milliseconds since 1970.
    pub changed_ms: i64,
}

/// All entries at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entries {
    /// Number of the latest change of an entry; 0 if there was none.
    pub revision: i64,
    /// The entries, sorted by kind and name.
    pub entries: Vec<Entry>,
    /// True if a virtual key was ever changed, also if no entry of one is left.
    pub keys_changed: bool,
}

/// A change of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryChange {
    /// The operator who makes it.
    pub actor: String,
    /// The act, such as `client.add`.
    pub action: String,
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Name of the entry.
    pub name: String,
    /// The entry after the change; `None` if it is removed, and the element of the file has effect
    /// again if there is one.
    pub after: Option<EntryValue>,
    /// Revision of the entries that the change was checked against.
    pub revision: i64,
}

/// Content of an entry. `Debug` shows the size of the document alone.
#[derive(Clone, PartialEq, Eq)]
pub struct EntryValue {
    /// As in [`Entry::replaces`].
    pub replaces: Option<[u8; 32]>,
    /// As in [`Entry::document`].
    pub document: Option<String>,
}

/// Outcome of [`Database::change_entry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryChanged {
    /// It is made. The number of the change in the record.
    Done(i64),
    /// Entries were changed since the revision that the change was checked against.
    Outdated,
    /// There would be more entries than [`MAX_ENTRIES`], or a document or all of them would have more
    /// bytes than [`MAX_DOCUMENT_BYTES`] and [`MAX_ENTRIES_BYTES`].
    Full,
}

/// A change in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedChange {
    /// Its number; later changes have larger ones.
    pub id: i64,
    /// Its time, in milliseconds since 1970.
    pub at_ms: i64,
    /// The operator who made it.
    pub actor: String,
    /// The act.
    pub action: String,
    /// Kind of the entry; `None` for a change of operators.
    pub kind: Option<EntryKind>,
    /// Name of the entry or of the operator.
    pub name: String,
    /// The entry before; `None` if there was none. For an operator, its document has the role, the
    /// right to see payloads and the expiry.
    pub before: Option<EntryValue>,
    /// The entry afterwards; `None` if there is none.
    pub after: Option<EntryValue>,
}

impl Database {
    /// Returns all entries. Fails if the database cannot be used, or has not the key of a document.
    pub async fn entries(&self) -> Result<Entries, Unavailable> {
        let sealer = self.sealer();
        self.read_snapshot(move |sql| sql::all(sql, &sealer)).await
    }

    /// Makes a change, records it and announces it, in one transaction. If the future is dropped, the
    /// change is made completely or not at all. Fails as [`Self::entries`] does.
    pub async fn change_entry(&self, change: EntryChange) -> Result<EntryChanged, Unavailable> {
        let sealer = self.sealer();
        self.write(Subject::SETTINGS, move |sql| sql::change(sql, &sealer, &change)).await
    }

    /// Returns recorded changes, the latest first: those before the number `before`, at most `limit`
    /// and at most [`MAX_LISTED`]. Fewer are returned if their documents are large, but always one if
    /// there is one. Fails as [`Self::entries`] does.
    pub async fn recorded_changes(
        &self,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<RecordedChange>, Unavailable> {
        let sealer = self.sealer();
        self.read(move |sql| record::list(sql, &sealer, before, limit.min(MAX_LISTED))).await
    }

    /// Returns one recorded change; `None` if there is none with this number. Fails as
    /// [`Self::entries`] does.
    pub async fn recorded_change(&self, id: i64) -> Result<Option<RecordedChange>, Unavailable> {
        let sealer = self.sealer();
        self.read(move |sql| record::find(sql, &sealer, id)).await
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("kind", &self.kind)
            .field("name", &self.name)
            .field("document_bytes", &self.document.as_ref().map(String::len))
            .field("changed_ms", &self.changed_ms)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for EntryValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryValue")
            .field("document_bytes", &self.document.as_ref().map(String::len))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
