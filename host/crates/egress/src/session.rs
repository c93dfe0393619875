//! What one caller may send and what one of its calls has sent: places, counts and deadlines. What
//! a request meets on its way is in [`exchange`](super::exchange).

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use airlock_core::tenant::{Held, Pool, Tenant};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout_at,
};
use tracing::warn;

use super::{
    client::Clients,
    credential::Credentials,
    error::{Error, ErrorKind},
    exchange::Exchange,
    message::{Request, Response},
    policy::{Bounds, Policy},
};

/// Requests of one caller that are on their way at the same time, all its calls together: no caller
/// can take all places.
pub(super) const MAX_OF_CALLER: usize = 64;
/// Divides the places of a caller among the tenants of its calls: one alone gets three quarters.
const CALLER_WEIGHT: usize = 3;
/// Divides the places of the process: one tenant alone gets seven eighths, whatever callers it
/// uses.
const PROCESS_WEIGHT: usize = 7;

/// What the sessions of a process share.
pub(super) struct Shared {
    pub(super) clients: Clients,
    in_flight: Pool,
}

impl Shared {
    pub(super) fn new(clients: Clients, max_in_flight: usize) -> Self {
        Self { clients, in_flight: Pool::new(max_in_flight, PROCESS_WEIGHT) }
    }
}

/// What one caller may send, call by call. Cheap to clone.
#[derive(Clone)]
pub struct Outlet {
    pub(super) shared: Arc<Shared>,
    pub(super) caller: Arc<str>,
    pub(super) policy: Arc<Policy>,
    pub(super) credentials: Arc<Credentials>,
    in_flight: Pool,
}

/// What one call sends. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

/// A place among the requests of one call that are on their way. Dropping it gives it back.
pub struct Place {
    session: Arc<Inner>,
    _permit: OwnedSemaphorePermit,
}

/// What the clones of a session share.
pub(super) struct Inner {
    pub(super) outlet: Outlet,
    tenant: Tenant,
    /// Memory that responses may take up.
    memory: Pool,
    deadline: Instant,
    requests_left: AtomicU32,
    in_flight: Arc<Semaphore>,
}

impl Outlet {
    pub(super) fn new(
        shared: &Arc<Shared>,
        caller: &str,
        policy: Arc<Policy>,
        credentials: Arc<Credentials>,
    ) -> Self {
        let in_flight = Pool::new(MAX_OF_CALLER, CALLER_WEIGHT);
        Self { shared: shared.clone(), caller: caller.into(), policy, credentials, in_flight }
    }

    /// Opens what one call of `tenant` may send until `deadline`. The bodies of its responses count
    /// against `memory`, in bytes, from when they arrive until they are dropped.
    pub fn session(&self, tenant: &Tenant, memory: &Pool, deadline: Instant) -> Session {
        let bounds = self.policy.bounds();
        Session(Arc::new(Inner {
            tenant: tenant.clone(),
            memory: memory.clone(),
            deadline,
            requests_left: AtomicU32::new(bounds.requests),
            in_flight: Arc::new(Semaphore::new(bounds.in_flight.min(Semaphore::MAX_PERMITS))),
            outlet: self.clone(),
        }))
    }

    /// Takes a place among the requests of the caller, and one among those of the process.
    fn reserve(&self, tenant: &Tenant) -> Result<[Held; 2], Error> {
        let full = || {
            warn!(caller = %self.caller, %tenant, "outbound request refused: too many are on their way");
            Error::new(ErrorKind::Unavailable, "too many requests are on their way")
        };
        Ok([
            self.in_flight.take(tenant, 1).ok_or_else(full)?,
            self.shared.in_flight.take(tenant, 1).ok_or_else(full)?,
        ])
    }
}

impl Session {
    /// Bounds on what is sent and taken in.
    pub fn bounds(&self) -> &Bounds {
        self.0.outlet.policy.bounds()
    }

    /// Takes a place among the requests of the call, for whoever has work to do around a request
    /// that counts with it.
    pub fn reserve(&self) -> Result<Place, Error> {
        let message = "too many requests of this call are on their way";
        let permit = self
            .0
            .in_flight
            .clone()
            .try_acquire_owned()
            .map_err(|_| Error::new(ErrorKind::Unavailable, message))?;
        Ok(Place { session: self.0.clone(), _permit: permit })
    }

    /// Sends a request and takes in the whole response. The future borrows nothing, so that it can
    /// run on a task of its own; dropping it drops the connection and leaves open whether the
    /// request has arrived.
    pub fn send(
        &self,
        request: Request,
    ) -> impl Future<Output = Result<Response, Error>> + Send + 'static + use<> {
        let session = self.clone();
        async move { session.reserve()?.send(request).await }
    }
}

impl Place {
    /// Sends a request and takes in the whole response. One place is for one request at a time.
    pub async fn send(&mut self, request: Request) -> Result<Response, Error> {
        self.session.send(request).await
    }
}

impl Inner {
    async fn send(&self, request: Request) -> Result<Response, Error> {
        let _places = self.outlet.reserve(&self.tenant)?;
        let bounds = self.outlet.policy.bounds();
        let now = Instant::now();
        let time = request.timeout.map_or(bounds.timeout, |asked| asked.min(bounds.timeout));
        let until = now.checked_add(time).map_or(self.deadline, |until| until.min(self.deadline));
        if until <= now {
            return Err(Error::timeout());
        }
        let exchange = Exchange::new(self);
        let result = timeout_at(until.into(), exchange.run(request))
            .await
            .unwrap_or_else(|_| Err(Error::timeout()));
        result.map_err(|error| error.having_sent(exchange.has_sent()))
    }

    /// Opens an account for the body of one response.
    pub(super) fn memory(&self) -> Held {
        self.memory.account(self.tenant.clone())
    }

    /// Counts a request that is about to be decided on.
    pub(super) fn count(&self) -> Result<(), Error> {
        let left = self
            .requests_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| {
            Error::new(ErrorKind::Unavailable, "the requests of this call are used up")
        })
    }
}
