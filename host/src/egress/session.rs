//! What one caller may send and what one of its calls has sent: places, counts and deadlines. What a request meets on its way
//! is in [`exchange`](super::exchange).

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit},
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

/// Requests of one caller that are on their way at the same time, all its calls together: no caller can take all places.
pub(super) const MAX_OF_CALLER: usize = 64;

/// What the sessions of a process share.
pub(super) struct Shared {
    pub(super) clients: Clients,
    pub(super) in_flight: Semaphore,
}

/// What one caller may send, call by call. Cheap to clone.
#[derive(Clone)]
pub struct Outlet {
    pub(super) shared: Arc<Shared>,
    pub(super) caller: Arc<str>,
    pub(super) policy: Arc<Policy>,
    pub(super) credentials: Arc<Credentials>,
    in_flight: Arc<Semaphore>,
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
    deadline: Instant,
    requests_left: AtomicU32,
    in_flight: Arc<Semaphore>,
}

impl Outlet {
    pub(super) fn new(shared: &Arc<Shared>, caller: &str, policy: Arc<Policy>, credentials: Arc<Credentials>) -> Self {
        let in_flight = Arc::new(Semaphore::new(MAX_OF_CALLER));
        Self { shared: shared.clone(), caller: caller.into(), policy, credentials, in_flight }
    }

    /// Opens what one call may send until `deadline`.
    pub fn session(&self, deadline: Instant) -> Session {
        let bounds = self.policy.bounds();
        Session(Arc::new(Inner {
            deadline,
            requests_left: AtomicU32::new(bounds.requests),
            in_flight: Arc::new(Semaphore::new(bounds.in_flight.min(Semaphore::MAX_PERMITS))),
            outlet: self.clone(),
        }))
    }

    /// Takes a place among the requests of the caller, and one among those of the process.
    fn enter(&self) -> Result<[SemaphorePermit<'_>; 2], Error> {
        let full = |_| {
            warn!(caller = %self.caller, "outbound request refused: too many are on their way");
            Error::new(ErrorKind::Unavailable, "too many requests are on their way")
        };
        Ok([self.in_flight.try_acquire().map_err(full)?, self.shared.in_flight.try_acquire().map_err(full)?])
    }
}

impl Session {
    /// Bounds on what is sent and taken in.
    pub fn bounds(&self) -> &Bounds {
        self.0.outlet.policy.bounds()
    }

    /// Takes a place among the requests of the call, for whoever has work to do around a request that counts with it.
    pub fn enter(&self) -> Result<Place, Error> {
        let message = "too many requests of this call are on their way";
        let permit = self.0.in_flight.clone().try_acquire_owned().map_err(|_| Error::new(ErrorKind::Unavailable, message))?;
        Ok(Place { session: self.0.clone(), _permit: permit })
    }

    /// Sends a request and takes in the whole response. The future borrows nothing, so that it can run on a task of its own;
    /// dropping it drops the connection and leaves open whether the request has arrived.
    pub fn send(&self, request: Request) -> impl Future<Output = Result<Response, Error>> + Send + 'static + use<> {
        let session = self.clone();
        async move { session.enter()?.send(request).await }
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
        let _places = self.outlet.enter()?;
        let bounds = self.outlet.policy.bounds();
        let now = Instant::now();
        let time = request.timeout.map_or(bounds.timeout, |asked| asked.min(bounds.timeout));
        let until = now.checked_add(time).map_or(self.deadline, |until| until.min(self.deadline));
        if until <= now {
            return Err(Error::timeout());
        }
        let exchange = Exchange::new(self);
        let result = timeout_at(until.into(), exchange.run(request)).await.unwrap_or_else(|_| Err(Error::timeout()));
        result.map_err(|error| error.having_sent(exchange.has_sent()))
    }

    /// Counts a request that is about to be decided on.
    pub(super) fn count(&self) -> Result<(), Error> {
        let left = self.requests_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| Error::new(ErrorKind::Unavailable, "the requests of this call are used up"))
    }
}
