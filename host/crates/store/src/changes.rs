//! Changes that any process makes, noticed by all: a client that is added on one gateway, or a key
//! that is revoked there, is known to the others within about a second.
//!
//! Each kind of data has a revision, which a change raises in its own transaction. A thread of each
//! gateway reads the revisions every second. A server also notifies it when a change is committed. A
//! notification that is lost, with its connection for example, costs a second: the revisions decide.
//!
//! A file is read only if another connection has changed it since.

mod watcher;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::sync::watch;

pub(crate) use self::watcher::Watcher;
use crate::{
    database::Database,
    error::Unavailable,
    sql::{Sql, SqlError, Subject, params},
};

/// Channel of the notifications.
pub(crate) const CHANNEL: &str = "airlock";

/// A kind of data whose changes are noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
    /// Calls that wait for a decision, and decisions.
    Approvals,
    /// The configuration that is kept in the store.
    Config,
    /// Keys of callers.
    Keys,
    /// Logins at MCP servers.
    Logins,
    /// Pinned definitions of tools.
    Pins,
}

/// Revision of each kind that was ever changed.
pub(crate) type Revisions = BTreeMap<ChangeKind, i64>;

/// The changes of a database, for one reader.
#[derive(Debug)]
pub struct Changes {
    published: watch::Receiver<Revisions>,
    seen: Revisions,
    watcher: Arc<Watcher>,
}

impl ChangeKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::Approvals, Self::Config, Self::Keys, Self::Logins, Self::Pins];

    /// Name of the kind in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approvals => "approvals",
            Self::Config => "config",
            Self::Keys => "keys",
            Self::Logins => "logins",
            Self::Pins => "pins",
        }
    }

    fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Database {
    /// Returns the changes of this database. The first of them are those before this call: a reader
    /// that reads everything after it, and then what [`Changes::next`] returns, misses nothing.
    ///
    /// The first call starts a thread with a connection of its own, which end with the last clone of
    /// the database and of its changes.
    pub fn changes(&self) -> Changes {
        let watcher = self.watcher();
        Changes { published: watcher.published(), seen: Revisions::new(), watcher }
    }

    /// Announces a change of data that the store does not have.
    pub async fn announce(&self, kind: ChangeKind) -> Result<(), Unavailable> {
        self.write(Subject::revision(kind.name()), move |sql| sql.announce(kind)).await
    }
}

impl Changes {
    /// Waits until data has changed, and returns its kinds; `None` once the database was deleted or
    /// replaced. Changes of one kind that follow each other quickly are returned once. If the future
    /// is dropped, the next call returns them.
    pub async fn next(&mut self) -> Option<BTreeSet<ChangeKind>> {
        loop {
            let published = self.published.borrow_and_update().clone();
            let changed: BTreeSet<_> = published
                .iter()
                .filter(|(kind, revision)| self.seen.get(kind) != Some(*revision))
                .map(|(kind, _)| *kind)
                .collect();
            if !changed.is_empty() {
                self.seen = published;
                return Some(changed);
            }
            self.published.changed().await.ok()?;
        }
    }

    /// Time since the revisions were last read. Much more than a second means that the database
    /// cannot be reached, and that changes may have been missed so far.
    pub fn age(&self) -> Duration {
        self.watcher.age()
    }
}

impl Sql<'_> {
    /// Announces a change in its own transaction. Transactions that announce the same kind wait for
    /// each other from here to their ends, so this comes last. Not for what every call changes.
    pub(crate) fn announce(&self, kind: ChangeKind) -> Result<(), SqlError> {
        let raise = "INSERT INTO airlock_revision (kind, revision) VALUES (?1, 1) \
                     ON CONFLICT (kind) DO UPDATE SET revision = airlock_revision.revision + 1 \
                     RETURNING revision";
        let revision: i64 = self.one(raise, params![kind.name()], crate::columns::first)?;
        self.notify(&format!("{} {revision}", kind.name()))
    }
}

/// Reads the revisions. Kinds of newer versions are left out.
pub(crate) fn read(sql: &Sql<'_>) -> Result<Revisions, SqlError> {
    let select = "SELECT kind, revision FROM airlock_revision";
    let found =
        sql.all(select, &[], |row| Ok((ChangeKind::find(row.get(0)?), row.get::<i64>(1)?)))?;
    Ok(found.into_iter().filter_map(|(kind, revision)| Some((kind?, revision))).collect())
}

#[cfg(test)]
mod tests;
