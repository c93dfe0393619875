//! Notices that a list of a client has changed.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    offers::OfferList,
    toolbox::{Digests, Selection, Toolbox, Toolboxes},
};
use airlock_wire::method;

/// Shortest time between two looks at the lists. A source that changes them all the time costs each
/// listening client one look a second.
const PAUSE: Duration = Duration::from_secs(1);

airlock_strings::named_enum! {
    /// A list whose changes are announced. The filters are the members of a subscription that ask for the notifications.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ListKind as filter {
        /// Tools.
        Tools = "toolsListChanged",
        /// Resources and their templates.
        Resources = "resourcesListChanged",
        /// Prompts.
        Prompts = "promptsListChanged",
    }
}

impl ListKind {
    /// Method of the notification.
    pub(crate) fn notification(self) -> &'static str {
        match self {
            Self::Tools => method::TOOLS_CHANGED,
            Self::Resources => method::RESOURCES_CHANGED,
            Self::Prompts => method::PROMPTS_CHANGED,
        }
    }
}

/// Digests of the lists that a client knows; `None` for one that it has not received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    tools: Option<u64>,
    resources: Option<u64>,
    prompts: Option<u64>,
}

impl Known {
    /// Returns the present state of one list; of that of tools for `None`.
    pub(super) fn read(toolbox: &Toolbox, list: Option<OfferList>) -> Self {
        let none = Self::default();
        let offering = toolbox.offering();
        match list {
            None => Self { tools: Some(toolbox.tools_digest()), ..none },
            Some(OfferList::Resources | OfferList::Templates) => {
                Self { resources: Some(offering.resources_digest()), ..none }
            }
            Some(OfferList::Prompts) => Self { prompts: Some(offering.prompts_digest()), ..none },
        }
    }

    /// Replaces the lists that `newer` has.
    pub(crate) fn merge(&mut self, newer: Self) {
        self.tools = newer.tools.or(self.tools);
        self.resources = newer.resources.or(self.resources);
        self.prompts = newer.prompts.or(self.prompts);
    }

    /// Iterates over the lists that it has.
    pub fn kinds(self) -> impl Iterator<Item = ListKind> {
        let all = [
            self.tools.map(|_| ListKind::Tools),
            self.resources.map(|_| ListKind::Resources),
            self.prompts.map(|_| ListKind::Prompts),
        ];
        all.into_iter().flatten()
    }

    /// Returns the lists of `found` that differ from those that are known.
    fn changes(&self, found: &Digests) -> Self {
        Self {
            tools: changed(self.tools, found.tools),
            resources: changed(self.resources, found.resources),
            prompts: changed(self.prompts, found.prompts),
        }
    }
}

/// Returns `found` if it differs from what is known.
fn changed(known: Option<u64>, found: u64) -> Option<u64> {
    (known != Some(found)).then_some(found)
}

/// Watches the lists of one client. A change of what the client may not see is not noticed.
pub struct ListWatch {
    changes: watch::Receiver<()>,
    selection: Selection,
    /// The lists that the client knows.
    known: Known,
    next_look: Instant,
}

impl ListWatch {
    /// Begins to watch. `known` has the lists that the client has received; of the others, the
    /// present one becomes the known one.
    pub fn new(toolboxes: &Toolboxes, selection: Selection, known: Known) -> Self {
        // Before the lists are read, so that no change is missed.
        let mut changes = toolboxes.catalog().changes();
        let mut all = Known::default().changes(&toolboxes.open(&selection).digests());
        all.merge(known);
        changes.mark_changed();
        Self { changes, selection, known: all, next_look: Instant::now() }
    }

    /// Waits until a list differs from the known one, and returns those that do. Never completes if
    /// the catalog is gone. Dropping the future loses no change.
    pub async fn changed(&mut self, toolboxes: &Arc<Toolboxes>) -> Known {
        loop {
            sleep_until(self.next_look).await;
            if self.changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            self.next_look = Instant::now() + PAUSE;
            let found = self.known.changes(&toolboxes.open(&self.selection).digests());
            if found != Known::default() {
                self.known.merge(found);
                return found;
            }
        }
    }
}
