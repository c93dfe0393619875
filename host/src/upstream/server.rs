//! Provides the tools of one server.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore, watch},
    time::{timeout, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument as _, warn};

use super::{
    connection::Connection,
    error::ConnectionError,
    handshake::Handshake,
    http::mirror,
    limits::{RECONNECT_PATIENCE, SLOTS_WEIGHT},
    link::{AskError, Link, Report, Request},
    logs::Logs,
    metrics::{Metrics, Sample},
    relay::{self, Relaying},
    result,
    settings::{Bounds, Settings},
    status::Status,
    transport::SendError,
};
use crate::{
    door::{Admitted, Mailbox, Provider, Relay, RelayError, Subscription},
    secret::Scrubber,
    tenant::{Pool, Tenant},
    tool::{CallError, Cause, ClientName, Tool, ToolName, ToolOutput},
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

struct Shared {
    access: watch::Sender<Access>,
    /// Notified by a call that waits for the server to be started.
    demand: Notify,
    /// Calls so far.
    uses: AtomicU64,
    client: ClientName,
    status: Status,
    metrics: Metrics,
    logs: Logs,
    bounds: Bounds,
    /// Permits for running calls.
    permits: Semaphore,
    /// Permits for the running calls of each tenant that has a running or waiting call. There are
    /// at most as many tenants as slots.
    tenant_permits: Mutex<HashMap<Tenant, Weak<Semaphore>>>,
}

/// Way to the server for a call.
#[derive(Clone, Default)]
pub(super) enum Access {
    /// There is none at present.
    #[default]
    Down,
    /// The server is started by a call, or is starting because of one.
    OnDemand,
    /// Over this link.
    Up(Arc<Link>),
    /// Over a connection of the call's own.
    PerCall(Arc<PerCall>),
}

/// Settings for connections of single calls.
pub(super) struct PerCall {
    pub(super) settings: Settings,
    pub(super) scrubber: Arc<Scrubber>,
    pub(super) handshake: Handshake,
}

/// Reason that a server could not be asked or its response was lost. For the operator.
#[derive(Debug, thiserror::Error)]
enum Unavailable {
    #[error("it is not connected; nothing was sent")]
    NotConnected,
    #[error("it could not be started for the call; nothing was sent")]
    NotStarted(#[source] ConnectionError),
    #[error("nothing was sent")]
    NotSent(#[source] Cause),
    #[error("the connection broke; the tool may have run")]
    ConnectionLost(#[source] Cause),
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
            permits: Semaphore::new(bounds.running),
            tenant_permits: Mutex::default(),
        };
        Arc::new(Self {
            shared: Arc::new(shared),
            slots: Pool::new(bounds.running + bounds.waiting, SLOTS_WEIGHT),
            request_timeout: settings.timeouts.request,
            relaying: Relaying::default(),
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

    /// Returns its counters.
    pub(super) fn sample(&self) -> Sample {
        let status = &self.shared.status;
        self.shared.metrics.sample(status.phase(), status.totals())
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
        work: impl FnOnce(Arc<Link>) -> F + Send + 'static,
    ) -> Result<T, NoLink>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let _slot = self.slots.take(tenant, 1).ok_or(NoLink::Busy)?;
        self.shared.uses.fetch_add(1, Ordering::Relaxed);
        let own = self.request_timeout.map(|limit| Instant::now() + limit);
        let deadline = own.map_or(deadline, |own| own.min(deadline));
        let (shared, tenant) = (self.shared.clone(), tenant.clone());
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

    /// Waits until no call is running.
    pub(super) async fn drained(&self) {
        let all = u32::try_from(self.shared.bounds.running).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        drop(self.shared.permits.acquire_many(all).await);
    }

    async fn run(&self, call: Admitted) -> Result<ToolOutput, CallError> {
        let observed = self.shared.metrics.begin(call.tool().name.clone());
        let result = self.run_in_time(call).await;
        observed.end(&result);
        result
    }

    async fn run_in_time(&self, call: Admitted) -> Result<ToolOutput, CallError> {
        let _slot = self.slots.take(call.chain().tenant(), 1).ok_or(CallError::Busy)?;
        self.shared.uses.fetch_add(1, Ordering::Relaxed);
        let tool = call.tool().name.clone();
        let own = self.request_timeout.map(|limit| Instant::now() + limit);
        let deadline = call.chain().deadline();
        let deadline = own.map_or(deadline, |own| own.min(deadline));
        let limit = whole_millis(deadline.saturating_duration_since(Instant::now()));
        let shared = self.shared.clone();
        let asking = async move { shared.run(&call).await }.in_current_span();
        let asking = AbortOnDropHandle::new(self.runtime.spawn(asking));
        match timeout_at(deadline.into(), asking).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(ended)) => {
                Err(unavailable(&tool, Unavailable::ConnectionLost(Cause::from(ended))))
            }
            Err(_) => Err(CallError::Deadline { tool, limit }),
        }
    }
}

impl Shared {
    /// Returns the permits of one tenant.
    fn tenant_permits(&self, tenant: &Tenant) -> Arc<Semaphore> {
        // The map is consistent after every statement.
        let mut permits = self.tenant_permits.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = permits.get(tenant).and_then(Weak::upgrade) {
            return known;
        }
        permits.retain(|_, known| known.strong_count() > 0);
        let own = Arc::new(Semaphore::new(per_tenant(self.bounds.running)));
        permits.insert(tenant.clone(), Arc::downgrade(&own));
        own
    }

    async fn run(&self, call: &Admitted) -> Result<ToolOutput, CallError> {
        let tool = call.tool();
        let waiting = self.metrics.wait();
        // The tenant's own permit comes first, so that its calls do not queue ahead of other
        // tenants' calls.
        let own = self.tenant_permits(call.chain().tenant());
        let _own_permit = own.acquire().await.map_err(|_| CallError::Busy)?;
        let _permit = self.permits.acquire().await.map_err(|_| CallError::Busy)?;
        let access = self.access().await;
        let running = waiting.granted();
        if let Some(waited) = running.slow {
            let (client, tool) = (&self.client, &tool.name);
            warn!(%client, %tool, ?waited, "a call waited for its upstream server");
        }
        match access {
            Access::Down | Access::OnDemand => {
                Err(unavailable(&tool.name, Unavailable::NotConnected))
            }
            Access::PerCall(own) => self.run_alone(&own, call).await,
            Access::Up(link) => match ask(&link, call).await {
                Err(error) if may_repeat(&error, tool) => {
                    link.request_check();
                    match self.replacement(&link).await {
                        Some(next) => read(tool, &next, ask(&next, call).await),
                        None => read(tool, &link, Err(error)),
                    }
                }
                asked => read(tool, &link, asked),
            },
        }
    }

    async fn with_link<T, F: Future<Output = T>>(
        &self,
        tenant: &Tenant,
        work: impl FnOnce(Arc<Link>) -> F,
    ) -> Result<T, NoLink> {
        let own = self.tenant_permits(tenant);
        let _own_permit = own.acquire().await.map_err(|_| NoLink::Busy)?;
        let _permit = self.permits.acquire().await.map_err(|_| NoLink::Busy)?;
        let down = |cause: Unavailable| NoLink::Unavailable(Cause::from(cause));
        match self.access().await {
            Access::Down | Access::OnDemand => Err(down(Unavailable::NotConnected)),
            Access::Up(link) => Ok(work(link).await),
            Access::PerCall(own) => {
                let opening =
                    Connection::open(&own.settings, &own.scrubber, &self.logs, own.handshake);
                let opened = Box::pin(opening).await;
                let connection =
                    opened.map_err(|failure| down(Unavailable::NotStarted(failure.error)))?;
                let worked = work(connection.link.clone()).await;
                Box::pin(connection.shut_down()).await;
                Ok(worked)
            }
        }
    }

    /// Returns the way to the server. Waits for a server that is started on demand.
    async fn access(&self) -> Access {
        let mut access = self.access.subscribe();
        loop {
            let now = access.borrow_and_update().clone();
            if !matches!(now, Access::OnDemand) {
                return now;
            }
            self.demand.notify_one();
            if access.changed().await.is_err() {
                return Access::Down;
            }
        }
    }

    /// Waits for the link of a later connection; `None` if there is none soon.
    async fn replacement(&self, old: &Arc<Link>) -> Option<Arc<Link>> {
        let mut access = self.access.subscribe();
        let waiting =
            access.wait_for(|access| matches!(access, Access::Up(link) if !Arc::ptr_eq(link, old)));
        match timeout(RECONNECT_PATIENCE, waiting).await {
            Ok(Ok(found)) => match &*found {
                Access::Up(link) => Some(link.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    /// Runs a call over a connection of its own. If the future is dropped, so is the connection, and
    /// its process group is killed.
    async fn run_alone(&self, own: &PerCall, call: &Admitted) -> Result<ToolOutput, CallError> {
        let tool = call.tool();
        let opening = Connection::open(&own.settings, &own.scrubber, &self.logs, own.handshake);
        let connection = Box::pin(opening)
            .await
            .map_err(|failure| unavailable(&tool.name, Unavailable::NotStarted(failure.error)))?;
        let link = connection.link.clone();
        let result = read(tool, &link, ask(&link, call).await);
        // The caller does not wait for the server to stop. Its permit does: see `drained`.
        Box::pin(connection.shut_down()).await;
        result
    }
}

/// Sends a call. Progress is passed on in the order of its arrival.
async fn ask(link: &Link, call: &Admitted) -> Result<Value, AskError> {
    let (tool, level) = (call.tool(), call.chain().log_level());
    let request = Request::new("tools/call")
        .about("name", &tool.original)
        .with("arguments", on_one_line(call.arguments().as_str()))
        .with_headers(headers(link, call))
        .with_progress();
    let request = relay::with_log_level(link, request, level).await;
    let reporter = call.chain().reporter();
    let report = |report| match report {
        Report::Progress(progress) => reporter.progress(progress),
        Report::Log(text) => {
            if let Some(log) = relay::read_log(tool.client.as_ref(), &text) {
                reporter.log(log);
            }
        }
    };
    link.ask_with_reports(request, report).await
}

/// Returns the headers of a call: those of the caller that are passed on, and those that mirror
/// arguments.
fn headers(link: &Link, call: &Admitted) -> Vec<(HeaderName, HeaderValue)> {
    let transport = link.transport();
    let mut headers = transport.pass_on(call.chain().view().headers());
    if transport.mirrors_parameters() {
        let schema = call.tool().input_schema.as_str();
        headers.extend(mirror::headers(schema, call.arguments().as_str()));
    }
    headers
}

/// Returns JSON text without line breaks, which are possible between its tokens alone.
pub(super) fn on_one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

/// Returns whether a call may be sent once more over another connection: nothing was sent, or
/// running the tool twice does no more than running it once.
fn may_repeat(error: &AskError, tool: &Tool) -> bool {
    let is_harmless =
        tool.annotations.read_only == Some(true) || tool.annotations.idempotent == Some(true);
    match error {
        AskError::Send(SendError::NotSent(_)) => true,
        AskError::Send(SendError::SessionExpired | SendError::Closed) | AskError::Lost => {
            is_harmless
        }
        _ => false,
    }
}

/// Reads the result of a call.
fn read(tool: &Tool, link: &Link, asked: Result<Value, AskError>) -> Result<ToolOutput, CallError> {
    let name = &tool.name;
    match asked {
        Ok(result) => result::read(name, result),
        Err(AskError::Refused(error)) => Err(result::refusal(error)),
        Err(AskError::TooLarge | AskError::Send(SendError::TooLarge)) => {
            Err(result::too_large(name))
        }
        Err(AskError::Unreadable(reason)) => Err(result::no_result(name, reason)),
        Err(error) if error.is_full() => Err(CallError::Busy),
        Err(error) => {
            link.request_check();
            let is_unsent = error.is_unsent();
            let cause = Cause::from(error);
            Err(unavailable(
                name,
                if is_unsent {
                    Unavailable::NotSent(cause)
                } else {
                    Unavailable::ConnectionLost(cause)
                },
            ))
        }
    }
}

impl Provider for Server {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(self.run(call))
    }

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

    fn status(&self) -> Map<String, Value> {
        let shared = &self.shared;
        let mut status = shared.status.to_json();
        let metrics = shared.metrics.to_json().map(|(name, value)| (name.to_owned(), value));
        status.extend(metrics);
        status
    }
}

/// Returns the calls of one tenant that may run at the same time, so that other tenants get
/// permits.
fn per_tenant(running: usize) -> usize {
    (running / 4 * 3).max(1)
}

fn unavailable(tool: &ToolName, cause: Unavailable) -> CallError {
    CallError::Unavailable { tool: tool.clone(), cause: Cause::from(cause) }
}

/// Rounds a time up to whole milliseconds. A deadline is an instant, so the time left of 30 s would
/// read 29.999987 s.
fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{tool::ClientName, upstream::Transport};

    #[tokio::test]
    async fn permits_are_shared_by_the_calls_of_a_tenant_and_dropped_with_its_last_call() {
        let name = ClientName::parse("up").expect("a good name");
        let url = Transport::Http(Box::default());
        let server = Server::new(&Settings::new(name, url), Handle::current());
        let tenant = |number: u8| Tenant::of_key([number; 32], "name");
        let first = server.shared.tenant_permits(&tenant(0));
        assert!(Arc::ptr_eq(&first, &server.shared.tenant_permits(&tenant(0))));
        assert!(!Arc::ptr_eq(&first, &server.shared.tenant_permits(&tenant(1))));
        assert_eq!(first.available_permits(), per_tenant(server.shared.bounds.running));
        for number in 1..=u8::MAX {
            drop(server.shared.tenant_permits(&tenant(number)));
        }
        let kept = server.shared.tenant_permits.lock().expect("not poisoned").len();
        assert_eq!(kept, 2, "those of the first tenant and of the last");
    }

    #[test]
    fn arguments_are_sent_on_one_line_with_their_numbers_as_written() {
        assert_eq!(on_one_line("{\"n\":\r\n 1.10}"), "{\"n\":   1.10}");
    }

    #[test]
    fn a_tenant_gets_three_quarters_of_the_permits_and_at_least_one() {
        assert_eq!([1, 2, 4, 32].map(per_tenant), [1, 1, 3, 24]);
    }
}
