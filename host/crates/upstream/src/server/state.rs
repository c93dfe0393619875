//! One server, connected or not: the places and permits of its calls, and what outlives its connections.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::Semaphore,
    time::{interval, timeout, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::{
    access::ServerAccess,
    attempt::{Attempted, NoLink},
    choice::{Asker, Linked},
    instance::Instance,
    permits::Shared,
};
use crate::{
    limits::{DRAIN_CHECK, PLACES_WEIGHT},
    metrics::Metrics,
    questions::{Parked, ServerConversation, ServerResponse},
    subscriptions::Relaying,
    users::Users,
};
use airlock_core::{
    tenant::{Pool, Tenant},
    tool::{CallError, Cause, ToolOutput},
};
use airlock_mcp_client::{HeldPermits, Link, Settings};
use airlock_telemetry::{Span, TraceFuture as _};

/// End of the task of a call.
pub(super) type CallResponse = Result<Responded, CallError>;

/// Response to a call, and the instance to which the answers go if it asks something; `None` if that does
/// not matter.
pub(super) struct Responded {
    pub(super) response: ServerResponse<ToolOutput>,
    pub(super) asker: Option<Asker>,
}

/// Runs the tools of one server, connected or not. It outlives its connections, so a view from
/// before a disconnect can still be called through after it.
///
/// A call runs on the runtime of the upstream servers, which also reads the response. The caller's
/// task enforces the deadline.
pub(crate) struct Server {
    pub(super) shared: Arc<Shared>,
    /// Places for running and waiting calls, divided among tenants.
    pub(super) places: Pool,
    pub(super) request_timeout: Option<Duration>,
    relaying: Arc<Relaying>,
    /// Names at the server of the tools whose definitions the operator has not accepted.
    quarantine: Mutex<Arc<[String]>>,
    pub(super) parked: Parked<ServerConversation<CallResponse>, Asker>,
    pub(super) runtime: Handle,
}

impl Server {
    /// Creates a server that is not connected, whose calls run on `runtime`: for its `users`, if it acts
    /// for them. It takes over the counters and the subscriptions of its `predecessor`.
    pub(crate) fn new(
        settings: &Settings,
        runtime: Handle,
        predecessor: Option<&Arc<Self>>,
        users: Option<Arc<Users>>,
    ) -> Arc<Self> {
        let bounds = settings.bounds;
        let metrics = predecessor.map(|server| server.shared.metrics.clone());
        let relaying = predecessor.map(|server| server.relaying.clone());
        let heartbeat = settings.timeouts.heartbeat;
        let numbers = 1..=settings.instances().count();
        let shared = Shared {
            client: settings.name.clone(),
            instances: numbers.map(|number| Instance::new(number, heartbeat)).collect(),
            turn: Mutex::default(),
            metrics: metrics.unwrap_or_else(|| Arc::new(Metrics::new())),
            bounds,
            questions: settings.questions,
            users,
            permits: Arc::new(Semaphore::new(bounds.running)),
            tenant_permits: Mutex::default(),
        };
        Arc::new(Self {
            shared: Arc::new(shared),
            places: Pool::new(bounds.running + bounds.waiting, PLACES_WEIGHT),
            request_timeout: settings.timeouts.request,
            relaying: relaying.unwrap_or_default(),
            quarantine: Mutex::default(),
            parked: Parked::new(runtime.clone()),
            runtime,
        })
    }

    /// Returns its instances, by their numbers.
    pub(crate) fn instances(&self) -> &[Arc<Instance>] {
        &self.shared.instances
    }

    /// Returns the users that it acts for; `None` if it acts for the operator.
    pub(crate) fn users(&self) -> Option<&Arc<Users>> {
        self.shared.users.as_ref()
    }

    /// Returns the counters of its calls.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Returns the names at the server of the tools whose definitions the operator has not accepted.
    pub(crate) fn quarantine(&self) -> Arc<[String]> {
        self.quarantine.lock().clone()
    }

    /// Records the tools whose definitions the operator has not accepted, by their names at the server.
    pub(crate) fn set_quarantine(&self, tools: Arc<[String]>) {
        let mut quarantine = self.quarantine.lock();
        let new = {
            let known: BTreeSet<&String> = quarantine.iter().collect();
            tools.iter().filter(|tool| !known.contains(tool)).count()
        };
        self.metrics().drifts.inc_by(new as u64);
        *quarantine = tools;
    }

    /// Observes a connection to the server.
    pub(crate) fn observe(&self, link: &Link) {
        link.observe(self.shared.metrics.clone());
    }

    /// Returns the state of relaying.
    pub(crate) fn relaying(&self) -> &Relaying {
        &self.relaying
    }

    /// Runs `work` with a link to the server until `deadline`, within the places and permits of tool
    /// calls: to the instance `at` which the request was that it resumes, or else with one instance after the
    /// other until the request is sent. Dropping the future cancels the work.
    pub(crate) async fn with_link<T, F>(
        &self,
        tenant: &Tenant,
        deadline: Instant,
        at: Option<Asker>,
        work: impl Fn(Arc<Link>, Option<HeldPermits>) -> F + Send + Sync + 'static,
    ) -> Result<Linked<T>, NoLink>
    where
        T: Send + 'static,
        F: Future<Output = Attempted<T>> + Send + 'static,
    {
        let _place = self.places.take(tenant, 1).ok_or(NoLink::Busy)?;
        let own = self.request_timeout.map(|limit| Instant::now() + limit);
        let deadline = own.map_or(deadline, |own| own.min(deadline));
        let shared = self.shared.clone();
        let tenant = tenant.clone();
        let working =
            async move { shared.with_link(&tenant, at.as_ref(), deadline.into(), work).await }
                .in_current_span()
                .in_span(&Span::current());
        let working = AbortOnDropHandle::new(self.runtime.spawn(working));
        match timeout_at(deadline.into(), working).await {
            Ok(Ok(worked)) => worked,
            Ok(Err(ended)) => Err(NoLink::Unavailable(Cause::from(ended))),
            Err(_) => Err(NoLink::Late),
        }
    }

    /// Waits until no call runs or waits, for at most `limit`, and has later ones fail.
    pub(crate) async fn drain(&self, limit: Duration) {
        let all = u32::try_from(self.shared.bounds.running).unwrap_or(u32::MAX);
        let idle = async {
            // A call that waited for all permits would hold up those that still come.
            let mut ticks = interval(DRAIN_CHECK);
            loop {
                ticks.tick().await;
                if let Ok(held) = self.shared.permits.try_acquire_many(all) {
                    return held;
                }
            }
        };
        // While all permits are held, no call can take the link.
        let held = timeout(limit, idle).await;
        for instance in self.instances() {
            instance.set_access(ServerAccess::Down);
        }
        if let Some(users) = self.users() {
            users.stop();
        }
        drop(held);
    }

    /// Drops a parked request whose caller has left.
    pub(crate) fn forget_parked(&self, token: &str) {
        self.parked.forget(token);
    }
}
