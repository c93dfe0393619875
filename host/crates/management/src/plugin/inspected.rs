//! Components that were inspected, and the turns of inspections.
//!
//! Each inspection holds a component of up to 64 MiB, so there is one at a time for those who look at
//! plugins, and one for those who install and accept them, who do not wait for the others. What was found
//! depends on the bytes alone, so it is kept for the components that were asked for last.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::refusal::{Result, busy};
use airlock_plugin::Metadata;
use airlock_store::components::ComponentDigest;

/// Number of components whose metadata is kept.
const KEPT: usize = 16;
/// Maximum requests that look at components: one that inspects, and those that wait for it.
const SHOWING: usize = 1 + 8;

/// A component that was compiled with nothing granted.
pub(crate) struct Inspected {
    pub(super) digest: ComponentDigest,
    pub(super) bytes: usize,
    pub(super) metadata: Metadata,
}

/// Purpose of an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// The component is shown.
    Show,
    /// The component is installed or accepted, which only administrators do.
    Change,
}

/// Inspections of one gateway.
pub(crate) struct Inspections {
    /// Place of the inspection for each purpose.
    showing: Semaphore,
    changing: Semaphore,
    /// Places of the requests that look at components.
    waiting: Semaphore,
    /// Components that were inspected, the last used one last.
    kept: Mutex<Vec<Arc<Inspected>>>,
}

/// Right to inspect a component.
pub(super) struct InspectionPermit<'i> {
    _place: Option<SemaphorePermit<'i>>,
    _turn: SemaphorePermit<'i>,
}

impl Inspections {
    pub(crate) fn new() -> Self {
        Self {
            showing: Semaphore::new(1),
            changing: Semaphore::new(1),
            waiting: Semaphore::new(SHOWING),
            kept: Mutex::default(),
        }
    }

    /// Returns the number of free places for requests that look at components.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.waiting.available_permits()
    }

    /// Returns a component that was inspected before.
    pub(super) fn find(&self, digest: ComponentDigest) -> Option<Arc<Inspected>> {
        let mut kept = self.kept.lock();
        let place = kept.iter().position(|inspected| inspected.digest == digest)?;
        let found = kept.remove(place);
        kept.push(found.clone());
        Some(found)
    }

    /// Keeps what was found of a component, in the place of the one that was used longest ago.
    pub(super) fn keep(&self, inspected: &Arc<Inspected>) {
        let mut kept = self.kept.lock();
        kept.retain(|known| known.digest != inspected.digest);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push(inspected.clone());
    }

    /// Waits until a component may be inspected. Fails if too many requests wait already.
    pub(super) async fn turn(&self, purpose: Purpose) -> Result<InspectionPermit<'_>> {
        let place = match purpose {
            Purpose::Show => Some(self.waiting.try_acquire().map_err(|_| {
                busy("inspections_busy", "too many requests wait for components to be inspected")
            })?),
            Purpose::Change => None,
        };
        let turns = match purpose {
            Purpose::Show => &self.showing,
            Purpose::Change => &self.changing,
        };
        let turn = turns.acquire().await.expect("it is never closed");
        Ok(InspectionPermit { _place: place, _turn: turn })
    }
}
