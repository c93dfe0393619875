//! The ways to the instances of a server, and the permits that its calls share.

use std::{
    collections::HashMap,
    future::{Future, pending},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{
    choice::{Asker, Linked, Way},
    instance::{Instance, Occupied},
};
use crate::{metrics::Metrics, users::Users};
use airlock_core::{
    tenant::Tenant,
    tool::{Cause, ClientName, QuestionKinds},
};
use airlock_mcp_client::{
    Attempt, Bounds, Connection, ConnectionError, Credentials, HeldPermits, Intake, Link, Settings,
    answer_requests,
};

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

/// Way to an instance for a call.
#[derive(Clone, Default)]
pub(crate) enum Access {
    /// There is none at present.
    #[default]
    Down,
    /// The instance is started by a call, or is starting because of one.
    OnDemand,
    /// Over this link.
    Up(UsedLink),
    /// Over a connection of the call's own.
    PerCall(Arc<PerCall>),
}

/// A link in use. A connection that is replaced is closed once every clone is dropped.
#[derive(Clone)]
pub(crate) struct UsedLink {
    pub(super) link: Arc<Link>,
    _user: TaskTrackerToken,
}

impl UsedLink {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        let user = link.users().token();
        Self { link, _user: user }
    }

    /// Returns whether the link is in use elsewhere too.
    pub(super) fn has_others(&self) -> bool {
        self.link.users().len() > 1
    }
}

/// Settings for connections of single calls.
pub(crate) struct PerCall {
    pub(crate) settings: Settings,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) attempt: Attempt,
}

/// Permits of a running call: that of its tenant, and that of its server.
pub(super) struct Permits {
    _of_tenant: OwnedSemaphorePermit,
    _of_server: OwnedSemaphorePermit,
}

/// Reason that a request that is no tool call found no way to the server, or no end.
pub(crate) enum NoLink {
    /// Too many requests run or wait.
    Busy,
    /// The deadline has passed.
    Late,
    /// The server is not available.
    Unavailable(Cause),
}

/// Reason that a server could not be asked or its response was lost. For the operator.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unavailable {
    #[error("it is not connected; nothing was sent")]
    NotConnected,
    #[error("it could not be started for the call; nothing was sent")]
    NotStarted(#[source] ConnectionError),
    #[error("no connection was opened for the caller; nothing was sent")]
    UserNotConnected(#[source] Arc<ConnectionError>),
    #[error("nothing was sent")]
    NotSent(#[source] Cause),
    #[error("the connection broke; the tool may have run")]
    ConnectionLost(#[source] Cause),
}

/// Permits of a running call with its place at an instance.
struct Held {
    _permits: Arc<Permits>,
    _occupied: Occupied,
}

/// Combines the permits of a call with its place at an instance.
pub(super) fn held(permits: Arc<Permits>, occupied: Occupied) -> HeldPermits {
    Arc::new(Held { _permits: permits, _occupied: occupied })
}

/// Shuts down the connection of a call in the background. The caller does not wait for it, and the
/// permits are kept until then, so that a server that does not end bounds its own processes.
fn shut_down(connection: Connection, permits: HeldPermits) {
    tokio::spawn(async move {
        Box::pin(connection.shut_down()).await;
        drop(permits);
    });
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

    /// Runs `work` with a link to the server, within the permits of its calls, which `work` holds if they
    /// are not those of a connection of its own. A request that resumes another one goes to the instance
    /// `at` which that was.
    pub(super) async fn with_link<T, F: Future<Output = T>>(
        &self,
        tenant: &Tenant,
        at: Option<&Asker>,
        deadline: Instant,
        work: impl FnOnce(Arc<Link>, Option<HeldPermits>) -> F,
    ) -> Result<Linked<T>, NoLink> {
        let permits = Arc::new(self.permits(tenant).await.ok_or(NoLink::Busy)?);
        // What is relayed is listed with the operator's account, and is not that of a user.
        let way = if self.users.is_some() { None } else { self.way(at, &[]).await };
        let Some(Way { occupied, access }) = way else {
            return Err(no_link(Unavailable::NotConnected));
        };
        let instance = occupied.instance().clone();
        let held = held(permits, occupied);
        let awaited = instance.awaited(deadline, None);
        let linked = match access {
            Access::Down | Access::OnDemand => Err(no_link(Unavailable::NotConnected)),
            // The use ends with the work.
            Access::Up(used) => {
                let worked = work(used.link.clone(), Some(held)).await;
                Ok(Linked { worked, asker: Asker { instance, used: Some(used) } })
            }
            Access::PerCall(own) => {
                let worked = instance.run_alone(&own, &held, |link| work(link, None)).await;
                match worked {
                    Err(error) => Err(no_link(Unavailable::NotStarted(error))),
                    Ok(None) => Err(no_link(Unavailable::NotConnected)),
                    Ok(Some(worked)) => {
                        Ok(Linked { worked, asker: Asker { instance, used: None } })
                    }
                }
            }
        };
        awaited.end();
        linked
    }
}

impl Instance {
    /// Runs `work` with a link of its own, and responds to the requests of the server meanwhile. `None`
    /// if the connection breaks. The instance is suspected then, and if there is no connection. If the future is dropped, so is the connection, and its process group
    /// is killed.
    pub(super) async fn run_alone<T, F: Future<Output = T>>(
        &self,
        own: &PerCall,
        held: &HeldPermits,
        work: impl FnOnce(Arc<Link>) -> F,
    ) -> Result<Option<T>, ConnectionError> {
        let opening = Connection::open(&own.settings, &own.credentials, self.logs(), own.attempt);
        let opened = Box::pin(opening).await;
        let mut connection = opened.map_err(|failure| {
            self.suspect();
            failure.error
        })?;
        let link = connection.link.clone();
        let intake = connection.intake.take();
        let requests = async {
            match intake {
                Some(Intake { unsolicited, .. }) => {
                    answer_requests(&link, unsolicited.requests, unsolicited.responses).await;
                }
                None => pending().await,
            }
        };
        let worked = tokio::select! {
            worked = work(link.clone()) => Some(worked),
            () = requests => None,
        };
        if worked.is_none() {
            self.suspect();
        }
        shut_down(connection, held.clone());
        Ok(worked)
    }
}

/// Returns the calls of one tenant that may run at the same time, so that other tenants get
/// permits.
pub(super) fn per_tenant(running: usize) -> usize {
    (running / 4 * 3).max(1)
}

fn no_link(cause: Unavailable) -> NoLink {
    NoLink::Unavailable(Cause::from(cause))
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::{super::Server, *};
    use airlock_mcp_client::Process;

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
