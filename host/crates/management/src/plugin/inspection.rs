//! Inspections of components: compiled with nothing granted, and asked for their tools.
//!
//! Each inspection holds a component of up to 64 MiB, so there is one at a time for those who look at
//! plugins, and one for those who install and accept them, who do not wait for the others. What was found
//! depends on the bytes alone, so it is kept for the components that were asked for last.

use std::sync::Arc;

use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::unusable;
use crate::{
    refusal::{busy, conflict, invalid, refusal, unavailable},
    service::{Apply, NotApplied, Service},
};
use airlock_operator_api::ManagementRefusal;
use airlock_plugin::{InspectError, Metadata};
use airlock_store::components::ComponentDigest;
use airlock_strings::with_causes;

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
struct InspectionPermit<'i> {
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

    fn keep(&self, inspected: &Arc<Inspected>) {
        let mut kept = self.kept.lock();
        kept.retain(|known| known.digest != inspected.digest);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push(inspected.clone());
    }

    /// Waits until a component may be inspected. Fails if too many requests wait already.
    async fn turn(&self, purpose: Purpose) -> Result<InspectionPermit<'_>, ManagementRefusal> {
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

impl Service {
    /// Returns the running gateway. Fails for a command that has only the store.
    pub(super) fn running(&self) -> Result<&dyn Apply, ManagementRefusal> {
        self.gateway.as_deref().ok_or_else(|| {
            let message =
                "components are compiled and inspected by a running gateway, and none runs";
            refusal(StatusCode::SERVICE_UNAVAILABLE, "gateway_required", message)
        })
    }

    /// Inspects a component that was uploaded. Fails if no gateway could load it.
    pub(super) async fn inspect_uploaded(
        &self,
        component: Arc<[u8]>,
    ) -> Result<Arc<Inspected>, ManagementRefusal> {
        let _turn = self.inspections.turn(Purpose::Change).await?;
        self.inspect(component).await
    }

    /// Reads a component from the store, and inspects it unless that was done before. Fails if the store
    /// does not have it.
    pub(super) async fn inspect_stored(
        &self,
        digest: ComponentDigest,
        purpose: Purpose,
    ) -> Result<Arc<Inspected>, ManagementRefusal> {
        if let Some(inspected) = self.inspections.find(digest) {
            return Ok(inspected);
        }
        let _turn = self.inspections.turn(purpose).await?;
        // Another request may have inspected it meanwhile.
        if let Some(inspected) = self.inspections.find(digest) {
            return Ok(inspected);
        }
        let component = self.database().await?.component(digest).await;
        let component = component.map_err(|error| unavailable(&error))?;
        let component = component.ok_or_else(|| {
            conflict(format!("the store does not have the component {digest}: upload it again"))
        })?;
        self.inspect(component.into()).await
    }

    /// Inspects the accepted component of a plugin. `None` if there is none, and if it cannot be read or
    /// used any more, so that another one can be accepted in its place.
    pub(super) async fn inspect_accepted(
        &self,
        accepted: Option<ComponentDigest>,
    ) -> Result<Option<Arc<Inspected>>, ManagementRefusal> {
        let Some(digest) = accepted else { return Ok(None) };
        match self.inspect_stored(digest, Purpose::Change).await {
            Ok(inspected) => Ok(Some(inspected)),
            Err(refused) if refused.status.is_server_error() => Err(refused),
            Err(_) => Ok(None),
        }
    }

    /// Inspects a component. The caller has the turn.
    async fn inspect(&self, component: Arc<[u8]>) -> Result<Arc<Inspected>, ManagementRefusal> {
        let bytes = component.len();
        let inspected = self.running()?.inspect(component).await;
        let metadata = inspected.map_err(|error| match error {
            InspectError::Busy => busy("compiler_busy", error.to_string()),
            InspectError::Slow | InspectError::Plugin(_) => {
                let reason = NotApplied(with_causes(&error));
                unusable("component_unusable", "the component cannot be used", &reason)
            }
        })?;
        let digest = metadata.digest.parse();
        let digest = digest.map_err(|_| invalid("the component has no digest of this store"))?;
        let inspected = Arc::new(Inspected { digest, bytes, metadata });
        self.inspections.keep(&inspected);
        Ok(inspected)
    }
}
