//! Provides the tools of one server.
//!
//! | module | purpose |
//! |---|---|
//! | `access` | the way to the server, and the permits that its calls share |
//! | `sending` | sends one call to the server, in a task of its own |
//! | `call` | runs a call until it completes or requires input of its caller, and resumes it |

mod access;
mod call;
mod sending;

use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore, watch},
    time::timeout_at,
};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use self::{access::Shared, call::CallResponse};
pub(super) use self::{
    access::{Access, PerCall},
    call::Retry,
};
use super::{
    metrics::Metrics,
    questions::{Conversation, Parked},
    relay::{self, Relaying},
    status::Status,
};
use crate::limits::SLOTS_WEIGHT;
use airlock_core::{
    door::{Admitted, Mailbox, McpServer, Provider, Relay, RelayError, Subscription},
    tenant::{Pool, Tenant},
    tool::{Answers, CallError, Cause, ToolOutput},
};
use airlock_mcp_client::{
    link::{HeldPermits, Link},
    logs::Logs,
    settings::Settings,
};

/// Runs the tools of one server, connected or not. It outlives its connections, so a view from
/// before a disconnect can still be called through after it.
///
/// A call runs on the runtime of the upstream servers, which also reads the response. The caller's
/// task enforces the deadline.
pub(super) struct Server {
    shared: Arc<Shared>,
    /// Slots for running and waiting calls, divided among tenants.
    slots: Pool,
    request_timeout: Option<Duration>,
    relaying: Relaying,
    parked: Parked<Conversation<CallResponse>>,
    runtime: Handle,
}

/// Reason that a request that is no tool call found no way to the server, or no end.
pub(super) enum NoLink {
    /// Too many requests run or wait.
    Busy,
    /// The deadline has passed.
    Late,
    /// The server is not available.
    Unavailable(Cause),
}

impl Server {
    /// Creates a server that is not connected, whose calls run on `runtime`.
    pub(super) fn new(settings: &Settings, runtime: Handle) -> Arc<Self> {
        let bounds = settings.bounds;
        let shared = Shared {
            access: watch::Sender::default(),
            demand: Notify::new(),
            uses: AtomicU64::new(0),
            client: settings.name.clone(),
            status: Status::new(),
            metrics: Metrics::new(),
            logs: Logs::default(),
            bounds,
            heartbeat: settings.timeouts.heartbeat,
            questions: settings.questions,
            permits: Arc::new(Semaphore::new(bounds.running)),
            tenant_permits: Mutex::default(),
        };
        Arc::new(Self {
            shared: Arc::new(shared),
            slots: Pool::new(bounds.running + bounds.waiting, SLOTS_WEIGHT),
            request_timeout: settings.timeouts.request,
            relaying: Relaying::default(),
            parked: Parked::new(runtime.clone()),
            runtime,
        })
    }

    /// Sets the way to the server for calls that are not sent yet.
    pub(super) fn set_access(&self, access: Access) {
        self.shared.access.send_replace(access);
    }

    /// Waits until a call needs a server that is started on demand.
    pub(super) async fn demanded(&self) {
        self.shared.demand.notified().await;
    }

    /// Returns the state for operators.
    pub(super) fn status_record(&self) -> &Status {
        &self.shared.status
    }

    /// Returns the stored stderr of its processes.
    pub(super) fn logs(&self) -> &Logs {
        &self.shared.logs
    }

    /// Returns the counters of its calls.
    pub(super) fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Returns the state of relaying.
    pub(super) fn relaying(&self) -> &Relaying {
        &self.relaying
    }

    /// Runs `work` with a link to the server until `deadline`, within the slots and permits of tool
    /// calls. Dropping the future cancels the work.
    pub(super) async fn with_link<T, F>(
        &self,
        tenant: &Tenant,
        deadline: Instant,
        work: impl FnOnce(Arc<Link>, Option<HeldPermits>) -> F + Send + 'static,
    ) -> Result<T, NoLink>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let _slot = self.slots.take(tenant, 1).ok_or(NoLink::Busy)?;
        self.shared.uses.fetch_add(1, Ordering::Relaxed);
        let own = self.request_timeout.map(|limit| Instant::now() + limit);
        let deadline = own.map_or(deadline, |own| own.min(deadline));
        let shared = self.shared.clone();
        let tenant = tenant.clone();
        let working = async move { shared.with_link(&tenant, work).await }.in_current_span();
        let working = AbortOnDropHandle::new(self.runtime.spawn(working));
        match timeout_at(deadline.into(), working).await {
            Ok(Ok(worked)) => worked,
            Ok(Err(ended)) => Err(NoLink::Unavailable(Cause::from(ended))),
            Err(_) => Err(NoLink::Late),
        }
    }

    /// Returns the number of calls so far.
    pub(super) fn uses(&self) -> u64 {
        self.shared.uses.load(Ordering::Relaxed)
    }

    /// Returns whether no call is running.
    pub(super) fn is_idle(&self) -> bool {
        self.shared.permits.available_permits() == self.shared.bounds.running
    }

    /// Makes calls wait for the server to be started by them, if no call is running. Returns whether
    /// it does.
    pub(super) fn retire(&self) -> bool {
        let all = u32::try_from(self.shared.bounds.running).unwrap_or(u32::MAX);
        // While all permits are held, no call can take the link.
        let Ok(_held) = self.shared.permits.try_acquire_many(all) else { return false };
        self.set_access(Access::OnDemand);
        true
    }

    async fn run(&self, call: Admitted, answers: Option<Answers>) -> Result<ToolOutput, CallError> {
        let observed = self.shared.metrics.begin(call.tool().name.clone());
        let result = match answers {
            None => self.send(call, Retry::default()).await,
            Some(answers) => self.resume_parked(call, answers).await,
        };
        observed.end(&result);
        result
    }
}

impl Provider for Server {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(self.run(call, None))
    }

    fn resume(
        &self,
        call: Admitted,
        answers: Answers,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(self.run(call, Some(answers)))
    }

    fn server(&self) -> Option<&dyn McpServer> {
        Some(self)
    }

    fn status(&self) -> Map<String, Value> {
        let shared = &self.shared;
        let mut status = shared.status.to_json();
        let metrics = shared.metrics.to_json().map(|(name, value)| (name.to_owned(), value));
        status.extend(metrics);
        status
    }
}

impl McpServer for Server {
    fn relay(&self, request: Relay) -> BoxFuture<'_, Result<String, RelayError>> {
        Box::pin(relay::run(self, request))
    }

    fn subscribe(
        &self,
        request: Relay,
        mailbox: &Arc<Mailbox>,
        label: &str,
    ) -> Result<Subscription, RelayError> {
        relay::watch(self, &request, mailbox, label)
    }

    fn forget(&self, token: &str) {
        self.parked.forget(token);
    }
}

/// Rounds a time up to whole milliseconds. A deadline is an instant, so the time left of 30 s would
/// read 29.999987 s.
fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX))
}
