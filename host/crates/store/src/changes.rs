//! Changes that any process makes, noticed by all: a client that is added on one gateway, or a key
//! that is revoked there, is known to the others within about a second.
//!
//! Each kind of data has a revision, which a change raises in its own transaction. A thread of each
//! gateway reads the revisions every second. A server also notifies it when a change is committed. A
//! notification that is lost, with its connection for example, costs a second: the revisions decide.
//!
//! After a failure to read them, everything counts as changed: of a server that was restored, or replaced by a standby
//! that lacks the last changes, a revision may come back for another change.
//!
//! A file is read only if another connection has changed it since.

use std::{collections::BTreeSet, mem, sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::database::Database;
pub use airlock_database::revision::ChangeKind;
use airlock_database::{
    error::Unavailable,
    sql::Subject,
    watcher::{WatchedRevisions, Watcher},
};

/// The changes of a database, for one reader.
#[derive(Debug)]
pub struct Changes {
    published: watch::Receiver<WatchedRevisions>,
    seen: WatchedRevisions,
    watcher: Arc<Watcher>,
}

impl Database {
    /// Returns the changes of this database. The first of them are those before this call: a reader
    /// that reads everything after it, and then what [`Changes::next`] returns, misses nothing.
    ///
    /// The first call starts a thread with a connection of its own, which end with the last clone of
    /// the database and of its changes.
    pub fn changes(&self) -> Changes {
        let watcher = self.watcher();
        Changes { published: watcher.published(), seen: WatchedRevisions::default(), watcher }
    }

    /// Announces a change of data that the store does not have.
    pub async fn announce(&self, kind: ChangeKind) -> Result<(), Unavailable> {
        self.write(Subject::revision(kind.name()), move |sql| sql.announce(kind)).await
    }
}

impl Changes {
    /// Waits until data has changed, and returns its kinds; `None` once the database was deleted or
    /// replaced. Changes of one kind that follow each other quickly are returned once. After an outage, all
    /// kinds that were ever changed are returned. If the future is dropped, the next call returns them.
    pub async fn next(&mut self) -> Option<BTreeSet<ChangeKind>> {
        loop {
            let published = self.published.borrow_and_update().clone();
            let seen = mem::replace(&mut self.seen, published);
            let changed = changed(&seen, &self.seen);
            if !changed.is_empty() {
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

/// Returns the kinds that may have changed between two readings.
fn changed(seen: &WatchedRevisions, read: &WatchedRevisions) -> BTreeSet<ChangeKind> {
    let was_away = seen.outages != read.outages;
    let kinds = ChangeKind::ALL.into_iter().filter(|kind| {
        let revision = read.revisions.get(kind);
        // A kind that was never changed in the backup that a database is restored from has none.
        seen.revisions.get(kind) != revision || (was_away && revision.is_some())
    });
    kinds.collect()
}

#[cfg(test)]
mod tests;
