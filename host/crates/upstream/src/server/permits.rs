//! State that the calls of a server share, and the permits within which they run.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::instance::{Instance, Occupied};
use crate::{metrics::Metrics, users::Users};
use airlock_core::{
    tenant::Tenant,
    tool::{ClientName, QuestionKinds},
};
use airlock_mcp_client::{Bounds, HeldPermits};

/// State of a server that its calls share, whichever instance they go to.
pub(super) struct Shared {
    pub(super) client: ClientName,
    /// The instances, at least one, by their numbers.
    pub(super) instances: Vec<Arc<Instance>>,
    /// Index of the instance that is chosen next if all have as many calls.
    pub(super) turn: Mutex<usize>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) bounds: Bounds,
    /// Questions that the server may ask callers.
    pub(super) questions: QuestionKinds,
    /// Users of the server; `None` if it acts for the operator alone.
    pub(super) users: Option<Arc<Users>>,
    /// Permits for running calls.
    pub(super) permits: Arc<Semaphore>,
    /// Permits for the running calls of each tenant that has a running or waiting call. There are
    /// at most as many tenants as places.
    pub(super) tenant_permits: Mutex<HashMap<Tenant, Weak<Semaphore>>>,
}

/// Permits of a running call: that of its tenant, and that of its server.
pub(super) struct Permits {
    _of_tenant: OwnedSemaphorePermit,
    _of_server: OwnedSemaphorePermit,
}

/// Permits of a running call with its place at an instance.
struct InstancePermits {
    _permits: Arc<Permits>,
    _occupied: Occupied,
}

/// Combines the permits of a call with its place at an instance.
pub(super) fn held(permits: Arc<Permits>, occupied: Occupied) -> HeldPermits {
    Arc::new(InstancePermits { _permits: permits, _occupied: occupied })
}

impl Shared {
    /// Returns the permits of one tenant.
    pub(super) fn tenant_permits(&self, tenant: &Tenant) -> Arc<Semaphore> {
        let mut permits = self.tenant_permits.lock();
        if let Some(known) = permits.get(tenant).and_then(Weak::upgrade) {
            return known;
        }
        permits.retain(|_, known| known.strong_count() > 0);
        let own = Arc::new(Semaphore::new(per_tenant(self.bounds.running)));
        permits.insert(tenant.clone(), Arc::downgrade(&own));
        own
    }

    /// Waits for the permits of a call. The tenant's own comes first, so that its calls do not queue
    /// ahead of other tenants' calls. `None` never occurs: the semaphores are never closed.
    pub(super) async fn permits(&self, tenant: &Tenant) -> Option<Permits> {
        let own = self.tenant_permits(tenant).acquire_owned().await.ok()?;
        let of_server = self.permits.clone().acquire_owned().await.ok()?;
        Some(Permits { _of_tenant: own, _of_server: of_server })
    }
}

/// Returns the calls of one tenant that may run at the same time, so that other tenants get
/// permits.
fn per_tenant(running: usize) -> usize {
    (running / 4 * 3).max(1)
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::{super::Server, *};
    use airlock_mcp_client::{Process, Settings};

    #[tokio::test]
    async fn permits_are_shared_by_the_calls_of_a_tenant_and_dropped_with_its_last_call() {
        let name = ClientName::parse("up").expect("a good name");
        let settings = Settings::new(name, Process::default());
        let server = Server::new(&settings, Handle::current(), None, None);
        let first = server.shared.tenant_permits(&tenant(0));
        assert!(Arc::ptr_eq(&first, &server.shared.tenant_permits(&tenant(0))));
        assert!(!Arc::ptr_eq(&first, &server.shared.tenant_permits(&tenant(1))));
        assert_eq!(first.available_permits(), per_tenant(server.shared.bounds.running));
        for number in 1..=u8::MAX {
            drop(server.shared.tenant_permits(&tenant(number)));
        }
        let kept = server.shared.tenant_permits.lock().len();
        assert_eq!(kept, 2, "those of the first tenant and of the last");
    }

    fn tenant(number: u8) -> Tenant {
        Tenant::of_key([number; 32], "name")
    }

    #[test]
    fn a_tenant_gets_three_quarters_of_the_permits_and_at_least_one() {
        assert_eq!([1, 2, 4, 32].map(per_tenant), [1, 1, 3, 24]);
    }
}
