//! Notices that the list of tools of a client has changed.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::toolbox::{Selection, Toolboxes};

/// Shortest time between two looks at the list. A source that changes its tools all the time costs
/// each listening client one look a second.
const PAUSE: Duration = Duration::from_secs(1);

/// Watches the list of tools of one client. A change of tools that the client may not see is not
/// noticed.
pub(crate) struct ListWatch {
    changes: watch::Receiver<()>,
    selection: Selection,
    /// Digest of the list that the client knows.
    known: u64,
    next_look: Instant,
}

impl ListWatch {
    /// Begins to watch. `known` is the digest of the list that the client has received; `None` if it
    /// has received none, which makes the present list the known one.
    pub(crate) fn new(toolboxes: &Toolboxes, selection: Selection, known: Option<u64>) -> Self {
        // Before the list is read, so that no change is missed.
        let mut changes = toolboxes.catalog().changes();
        let known = known.unwrap_or_else(|| toolboxes.open(&selection).digest());
        changes.mark_changed();
        Self { changes, selection, known, next_look: Instant::now() }
    }

    /// Waits until the list differs from the known one, and returns its digest. Never completes if
    /// the catalog is gone. Dropping the future loses no change.
    pub(crate) async fn changed(&mut self, toolboxes: &Arc<Toolboxes>) -> u64 {
        loop {
            sleep_until(self.next_look).await;
            if self.changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            self.next_look = Instant::now() + PAUSE;
            let found = toolboxes.open(&self.selection).digest();
            if found != self.known {
                self.known = found;
                return found;
            }
        }
    }
}
