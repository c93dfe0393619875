//! Settings that operators change while gateways run: entries that are added to those of the
//! configuration file or stand in their place, and the record of all changes.
//!
//! The documents are JSON, which this module does not parse. They may have secrets, so they are sealed
//! if the database has a key. A change is checked by its caller against all entries of a revision; it
//! is made only if the entries still have that revision.

pub(crate) mod record;
mod sql;

use std::fmt;

use crate::{SealError, components::ComponentDigest, database::Database};
use airlock_database::{error::Unavailable, sql::Subject};

/// Maximum number of entries: each change reads all of them.
pub const MAX_ENTRIES: u32 = 10_000;
/// Maximum bytes of one document: each change reads those of all entries.
pub const MAX_DOCUMENT_BYTES: usize = 1 << 20;
/// Maximum bytes of the documents of all entries, which are read at once.
pub const MAX_ENTRIES_BYTES: u64 = 64 << 20;
/// Number of the latest changes that are kept in the record, which would grow with every change of
/// an operator. The latest change of an entry is kept in any case. The documents of all changes have
/// 256 MiB together: the oldest documents are removed first, and their changes stay.
pub const MAX_RECORDED: u32 = 10_000;
/// Maximum number of rows that a list of changes, logins, runs or gateways has: all of them are in
/// memory, and callers decide how many logins and runs there are. A list of changes also
/// ends after 8 MiB of documents.
pub const MAX_LISTED: u32 = 1_000;

airlock_strings::named_enum! {
    /// Kind of an entry. The names are those in the database and in responses.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum EntryKind {
        /// An element of `mcp.client_configs`.
        Client = "client",
        /// An element of `governance.virtual_keys`.
        VirtualKey = "virtual_key",
        /// An element of `governance.teams`.
        Team = "team",
        /// An element of `governance.customers`.
        Customer = "customer",
        /// An element of `governance.roles`.
        Role = "role",
        /// An element of `governance.environments`.
        Environment = "environment",
        /// An element of `mcp.virtual_mcps`.
        VirtualMcp = "virtual_mcp",
        /// An element of `governance.model_configs`.
        ModelConfig = "model_config",
        /// An element of `governance.pricing_overrides`.
        PricingOverride = "pricing_override",
        /// One value of the file, whose key path is the name of the entry.
        Setting = "setting",
        /// Digest of the credential of a virtual key of the file that has none there. The name is that of the
        /// key.
        KeyValue = "key_value",
    }
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

/// An entry whose document cannot be opened: it is sealed with a key that this process does not have, or
/// it was altered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableEntry {
    /// Its kind.
    pub kind: EntryKind,
    /// Its name, unique within the kind.
    pub name: String,
    /// As in [`Entry::replaces`].
    pub replaces: Option<[u8; 32]>,
    /// Reason for it.
    pub reason: SealError,
}

/// All entries at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entries {
    /// Number of the latest change of an entry; 0 if there was none.
    pub revision: i64,
    /// The entries, sorted by name within each kind.
    pub entries: Vec<Entry>,
    /// Entries whose documents cannot be opened, in the same order. One of them does not keep the others
    /// from having effect: a key must be refused when it is revoked, whatever else is in the database.
    pub unreadable: Vec<UnreadableEntry>,
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
    /// Components that the entry names after the change. They are kept as long as it does.
    pub components: Vec<ComponentDigest>,
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
    /// A component that the entry names is not in the database, or not completely.
    ComponentAbsent(ComponentDigest),
    /// The components that entries name would have more bytes than
    /// [`MAX_USED_BYTES`](crate::components::MAX_USED_BYTES).
    ComponentsFull,
}

/// A change of what a limit counts, such as an override, for the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitChange {
    /// The operator who makes it.
    pub actor: String,
    /// The act, such as `limit.reset`.
    pub action: String,
    /// Identifier of the limit.
    pub limit: String,
    /// JSON text that describes what it is afterwards; `None` if nothing is left of it.
    pub after: Option<String>,
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
    /// Kind of the entry; `None` for a change of operators, or of what a limit counts.
    pub kind: Option<EntryKind>,
    /// Name of the entry or of the operator, or identifier of the limit.
    pub name: String,
    /// The entry before; `None` if there was none. For an operator, its document has the role, the
    /// right to see payloads and the expiry. The reason if its document cannot be opened, or is not kept.
    pub before: Result<Option<EntryValue>, SealError>,
    /// The entry afterwards; `None` if there is none. The reason if its document cannot be opened, or is not kept.
    pub after: Result<Option<EntryValue>, SealError>,
}

impl RecordedChange {
    /// Returns whether it is a change of what a limit counts: an override or a reset.
    pub fn is_of_limit(&self) -> bool {
        self.kind.is_none() && self.action.starts_with("limit.")
    }

    /// Returns the name of the kind of what was changed: that of the entry, `limit` or `operator`.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            Some(kind) => kind.name(),
            None if self.is_of_limit() => "limit",
            None => "operator",
        }
    }
}

impl Database {
    /// Returns all entries, also those whose documents cannot be opened. Fails if the database cannot be
    /// used.
    pub async fn entries(&self) -> Result<Entries, Unavailable> {
        let sealer = self.sealer();
        self.read_snapshot(move |sql| sql::all(sql, &sealer)).await
    }

    /// Makes a change, records it and announces it, in one transaction. If the future is dropped, the
    /// change is made completely or not at all. An entry whose document cannot be opened is replaced or
    /// removed like any other, and the record does not keep its document. Fails if the database cannot be
    /// used.
    pub async fn change_entry(&self, change: EntryChange) -> Result<EntryChanged, Unavailable> {
        let sealer = self.sealer();
        self.write(Subject::SETTINGS, move |sql| sql::change(sql, &sealer, &change)).await
    }

    /// Records a change of what a limit counts, which its caller makes. Returns its number. Fails if the
    /// database cannot be used.
    pub async fn record_limit_change(&self, change: LimitChange) -> Result<i64, Unavailable> {
        let sealer = self.sealer();
        self.write(Subject::SETTINGS, move |sql| record::add_of_limit(sql, &sealer, change)).await
    }

    /// Returns recorded changes, the latest first: those before the number `before`, at most `limit`
    /// and at most [`MAX_LISTED`], also those whose documents cannot be opened. Fewer are returned if their
    /// documents are large, but always one if there is one. Fails as [`Self::entries`] does.
    pub async fn recorded_changes(
        &self,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<RecordedChange>, Unavailable> {
        let sealer = self.sealer();
        self.read(move |sql| record::list(sql, &sealer, before, limit.min(MAX_LISTED))).await
    }

    /// Returns the number of the latest recorded change of an entry, which may be removed by now; `None` if
    /// none is recorded. Fails as [`Self::recorded_changes`] does.
    pub async fn latest_change(
        &self,
        kind: EntryKind,
        name: &str,
    ) -> Result<Option<i64>, Unavailable> {
        let name = name.to_owned();
        self.read(move |sql| record::latest(sql, kind, &name)).await
    }

    /// Returns one recorded change; `None` if there is none with this number. Fails as
    /// [`Self::recorded_changes`] does.
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
