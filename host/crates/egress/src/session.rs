//! Outlets and sessions: the permissions of one caller, and the slots, counters and deadline of one
//! of its calls. The steps of a single request are in [`exchange`](super::exchange).

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use airlock_core::tenant::{Pool, Reservation, Tenant};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout_at,
};
use tracing::warn;

use super::{
    client::HttpClients,
    credential::Credentials,
    error::{EgressError, EgressErrorKind},
    exchange::SessionExchange,
    message::{EgressRequest, EgressResponse},
    policy::{Bounds, Destinations, Policy},
};

/// Maximum number of requests of one caller in flight, over all its calls: a quarter of those of the
/// process, so that no caller can take all slots.
pub(super) const MAX_OF_CALLER: usize = 64;
/// Weight that divides the slots of a caller among the tenants of its calls: a single tenant gets
/// three quarters.
const CALLER_WEIGHT: usize = 3;
/// Weight that divides the slots of the process: a single tenant gets seven eighths, whatever
/// callers it uses.
const PROCESS_WEIGHT: usize = 7;
/// Part of the time left that a request leaves to its call: a tenth.
const LEFT_OVER: u32 = 10;
/// Maximum time that a request leaves to its call: a guest handles a timeout in far less.
const MAX_LEFT_OVER: Duration = Duration::from_secs(1);

/// State that the sessions of a process share.
pub(super) struct EgressState {
    pub(super) clients: HttpClients,
    in_flight: Pool,
}

impl EgressState {
    pub(super) fn new(clients: HttpClients, max_in_flight: usize) -> Self {
        Self { clients, in_flight: Pool::new(max_in_flight, PROCESS_WEIGHT) }
    }
}

/// Receives the names of what the requests of an outlet use.
pub trait EgressObserver: Send + Sync {
    /// Takes the destinations of a request and the credentials that are attached to it. Called for
    /// every request that the policy permits, before it is sent; a redirect that is followed is a
    /// request too.
    fn permitted(&self, destinations: &[&str], credentials: &[&str]);
}

/// An observer, and the names by which it knows the destinations.
#[derive(Clone)]
pub(super) struct OutletObserver {
    pub(super) observer: Arc<dyn EgressObserver>,
    pub(super) destinations: Arc<Destinations>,
}

/// The permissions of one caller. Opens a [`Session`] for each call. Cheap to clone.
#[derive(Clone)]
pub struct Outlet {
    pub(super) shared: Arc<EgressState>,
    pub(super) caller: Arc<str>,
    pub(super) policy: Arc<Policy>,
    pub(super) credentials: Arc<Credentials>,
    /// `None` if the requests are not observed.
    pub(super) observed: Option<OutletObserver>,
    in_flight: Pool,
}

/// The requests of one call. Cheap to clone; clones share the counters.
#[derive(Clone)]
pub struct Session(Arc<SessionState>);

/// A slot for one request of a call in flight. Dropping it releases the slot.
pub struct RequestSlot {
    session: Arc<SessionState>,
    _permit: OwnedSemaphorePermit,
}

/// State that the clones of a session share.
pub(super) struct SessionState {
    pub(super) outlet: Outlet,
    tenant: Tenant,
    /// Memory for the bodies of responses.
    memory: Pool,
    deadline: Instant,
    requests_left: AtomicU32,
    in_flight: Arc<Semaphore>,
}

impl Outlet {
    pub(super) fn new(
        shared: &Arc<EgressState>,
        caller: &str,
        policy: Arc<Policy>,
        credentials: Arc<Credentials>,
    ) -> Self {
        let in_flight = Pool::new(MAX_OF_CALLER, CALLER_WEIGHT);
        let shared = shared.clone();
        let caller = caller.into();
        Self { shared, caller, policy, credentials, observed: None, in_flight }
    }

    /// Returns an outlet for some of the caller's calls, under a narrower policy. It shares the slots
    /// of this one.
    #[must_use]
    pub fn narrowed(&self, policy: Arc<Policy>) -> Self {
        Self { policy, ..self.clone() }
    }

    /// Returns an outlet whose requests are reported to `observer`, by the names of `destinations`. It
    /// shares the slots of this one.
    #[must_use]
    pub fn observed(
        &self,
        destinations: Arc<Destinations>,
        observer: Arc<dyn EgressObserver>,
    ) -> Self {
        Self { observed: Some(OutletObserver { observer, destinations }), ..self.clone() }
    }

    /// Opens the session of one call of `tenant`, which may send requests until `deadline`. Each
    /// request ends before it, by a tenth of the time left and at most by 1 s. The bodies of its
    /// responses count against `memory`, in bytes, from their arrival until they are dropped.
    pub fn session(&self, tenant: &Tenant, memory: &Pool, deadline: Instant) -> Session {
        let bounds = self.policy.bounds();
        Session(Arc::new(SessionState {
            tenant: tenant.clone(),
            memory: memory.clone(),
            deadline,
            requests_left: AtomicU32::new(bounds.requests),
            in_flight: Arc::new(Semaphore::new(bounds.in_flight.min(Semaphore::MAX_PERMITS))),
            outlet: self.clone(),
        }))
    }

    /// Takes a slot of the caller and a slot of the process. Fails if `tenant` can get no slot.
    fn reserve(&self, tenant: &Tenant) -> Result<[Reservation; 2], EgressError> {
        Ok([
            self.in_flight.take(tenant, 1).ok_or_else(|| self.too_many_in_flight(tenant))?,
            self.shared.in_flight.take(tenant, 1).ok_or_else(|| self.too_many_in_flight(tenant))?,
        ])
    }

    fn too_many_in_flight(&self, tenant: &Tenant) -> EgressError {
        warn!(caller = %self.caller, %tenant, "outbound request refused: too many are in flight");
        EgressError::new(EgressErrorKind::Unavailable, "too many requests are in flight")
    }
}

impl Session {
    /// Returns the bounds on requests and responses.
    pub fn bounds(&self) -> &Bounds {
        self.0.outlet.policy.bounds()
    }

    /// Takes a slot of the call. Use it if work around a request must count together with the
    /// request. Fails if no slot is free.
    pub fn reserve(&self) -> Result<RequestSlot, EgressError> {
        let message = "too many requests of this call are in flight";
        let permit = self
            .0
            .in_flight
            .clone()
            .try_acquire_owned()
            .map_err(|_| EgressError::new(EgressErrorKind::Unavailable, message))?;
        Ok(RequestSlot { session: self.0.clone(), _permit: permit })
    }

    /// Sends a request and reads the whole response. The future borrows nothing, so that it can run
    /// on a task of its own. Dropping it closes the connection; the request may or may not have
    /// arrived.
    pub fn send(
        &self,
        request: EgressRequest,
    ) -> impl Future<Output = Result<EgressResponse, EgressError>> + Send + 'static + use<> {
        let session = self.clone();
        async move { session.reserve()?.send(request).await }
    }
}

impl RequestSlot {
    /// Sends a request and reads the whole response. A slot is for one request at a time.
    pub async fn send(&mut self, request: EgressRequest) -> Result<EgressResponse, EgressError> {
        self.session.send(request).await
    }
}

impl SessionState {
    async fn send(&self, request: EgressRequest) -> Result<EgressResponse, EgressError> {
        let _places = self.outlet.reserve(&self.tenant)?;
        let bounds = self.outlet.policy.bounds();
        let now = Instant::now();
        let left = usable(self.deadline.saturating_duration_since(now));
        let time = request.timeout.unwrap_or(Duration::MAX).min(bounds.timeout).min(left);
        if time.is_zero() {
            return Err(EgressError::timeout());
        }
        let exchange = SessionExchange::new(self);
        let result = timeout_at((now + time).into(), exchange.run(request))
            .await
            .unwrap_or_else(|_| Err(EgressError::timeout()));
        result.map_err(|error| error.having_sent(exchange.has_sent()))
    }

    /// Returns the tenant of the call.
    pub(super) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Opens a reservation of no bytes for the body of one response.
    pub(super) fn memory(&self) -> Reservation {
        self.memory.reservation(self.tenant.clone())
    }

    /// Counts a request before the policy decision. Fails if the call has used all its requests.
    pub(super) fn count(&self) -> Result<(), EgressError> {
        let left = self
            .requests_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| {
            EgressError::new(
                EgressErrorKind::LimitReached,
                "this call has used all its HTTP requests",
            )
        })
    }
}

/// Returns the time that a request may take if `left` is left of its call: a little less. A timeout
/// at the deadline itself would end the caller, which could not handle it.
fn usable(left: Duration) -> Duration {
    left.saturating_sub((left / LEFT_OVER).min(MAX_LEFT_OVER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_leaves_a_tenth_of_the_time_to_its_call_and_at_most_a_second() {
        for (left, time) in [(0, 0), (10, 9), (10_000, 9_000), (30_000, 29_000)] {
            let [left, time] = [left, time].map(Duration::from_millis);
            assert_eq!(usable(left), time, "{left:?}");
        }
    }
}
