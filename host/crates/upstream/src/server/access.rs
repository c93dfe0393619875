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
    AskError, Attempt, Bounds, Connection, ConnectionError, Credentials, HeldPermits, Intake, Link,
    Settings, answer_requests,
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

/// Outcome of asking one instance.
pub(crate) enum Attempted<T> {
    /// The instance has got the request, or may have.
    Sent(T),
    /// The instance surely has not got the request. The outcome counts if no other one gets it.
    Unsent(T),
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
struct InstancePermits {
    _permits: Arc<Permits>,
    _occupied: Occupied,
}

/// Combines the permits of a call with its place at an instance.
pub(super) fn held(permits: Arc<Permits>, occupied: Occupied) -> HeldPermits {
    Arc::new(InstancePermits { _permits: permits, _occupied: occupied })
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
    /// are not those of a connection of its own. A request that was surely not sent to an instance goes to
    /// another one, each at most once; one that resumes another request goes only to the instance `at` which
    /// that was.
    pub(super) async fn with_link<T, F: Future<Output = Attempted<T>>>(
        &self,
        tenant: &Tenant,
        at: Option<&Asker>,
        deadline: Instant,
        work: impl Fn(Arc<Link>, Option<HeldPermits>) -> F,
    ) -> Result<Linked<T>, NoLink> {
        let permits = Arc::new(self.permits(tenant).await.ok_or(NoLink::Busy)?);
        let mut tried = Vec::new();
        let mut last = Err(no_link(Unavailable::NotConnected));
        // What is relayed is listed with the operator's account, and is not that of a user.
        while self.users.is_none()
            && let Some(way) = self.way(at, &tried).await
        {
            tried.push(way.occupied.instance().number());
            let attempting = attempt(way, permits.clone(), deadline, |link, held| {
                link.observe(self.metrics.clone());
                work(link, held)
            });
            match attempting.await {
                Attempted::Sent(linked) => return linked,
                Attempted::Unsent(linked) => last = linked,
            }
        }
        last
    }
}

/// Runs `work` with a link to one instance.
async fn attempt<T, F: Future<Output = Attempted<T>>>(
    way: Way,
    permits: Arc<Permits>,
    deadline: Instant,
    work: impl Fn(Arc<Link>, Option<HeldPermits>) -> F,
) -> Attempted<Result<Linked<T>, NoLink>> {
    let Way { occupied, access } = way;
    let instance = occupied.instance().clone();
    let held = held(permits, occupied);
    let awaited = instance.awaited(deadline, None);
    let attempted = match access {
        Access::Down | Access::OnDemand => {
            Attempted::Unsent(Err(no_link(Unavailable::NotConnected)))
        }
        // The use ends with the work.
        Access::Up(used) => {
            let attempted = work(used.link.clone(), Some(held)).await;
            linked(attempted, Asker { instance, used: Some(used) })
        }
        Access::PerCall(own) => {
            match instance.run_alone(&own, &held, |link| work(link, None)).await {
                Err(error) => Attempted::Unsent(Err(no_link(Unavailable::NotStarted(error)))),
                Ok(None) => {
                    let cause = Unavailable::ConnectionLost(Cause::from(AskError::Lost));
                    Attempted::Sent(Err(no_link(cause)))
                }
                Ok(Some(attempted)) => linked(attempted, Asker { instance, used: None }),
            }
        }
    };
    awaited.end();
    attempted
}

fn linked<T>(attempted: Attempted<T>, asker: Asker) -> Attempted<Result<Linked<T>, NoLink>> {
    match attempted {
        Attempted::Sent(worked) => Attempted::Sent(Ok(Linked { worked, asker })),
        Attempted::Unsent(worked) => Attempted::Unsent(Ok(Linked { worked, asker })),
    }
}

impl Instance {
    /// Runs `work` with a link of its own, and responds to the requests of the server meanwhile. `None`
    /// if the connection breaks. The instance is suspected then, and if there is no connection. If the future
    /// is dropped, so is the connection, and its process group is killed.
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
    use std::{future::ready, time::Duration};

    use futures_util::FutureExt as _;
    use tokio::runtime::Handle;

    use super::{
        super::{Server, instance::tests::link},
        *,
    };
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

    #[tokio::test]
    async fn a_request_goes_from_instance_to_instance_until_one_may_have_got_it() {
        let name = ClientName::parse("up").expect("a good name");
        let mut settings = Settings::new(name, Process::default());
        settings.others = vec![settings.transport.clone(); 2];
        let server = Server::new(&settings, Handle::current(), None, None);
        let mut peers = Vec::new();
        for instance in server.instances() {
            let (link, peer) = link();
            instance.set_access(Access::Up(UsedLink::new(link)));
            instance.set_admitted(true);
            peers.push(peer);
        }
        let second = Asker { instance: server.instances()[1].clone(), used: None };
        for (at, sent_by, expected) in [
            (None, 1, vec![1]),
            (None, 3, vec![1, 2, 3]),
            (None, 4, vec![1, 2, 3]),
            (Some(&second), 4, vec![2]),
        ] {
            *server.shared.turn.lock() = 0;
            let asked = Mutex::new(Vec::new());
            let deadline = Instant::now() + Duration::from_mins(1);
            let tenant = tenant(0);
            let asking = server.shared.with_link(&tenant, at, deadline, |link, _| {
                let mut asked = asked.lock();
                asked.push(number(&server, &link));
                let count = asked.len();
                ready(if count < sent_by { Attempted::Unsent(()) } else { Attempted::Sent(()) })
            });
            let linked = asking.await.ok().expect("the last outcome");
            let asked = asked.into_inner();
            assert_eq!(asked.last(), Some(&linked.asker.instance.number()));
            assert_eq!(asked, expected);
        }
    }

    /// Returns the number of the instance with this link.
    fn number(server: &Server, link: &Arc<Link>) -> usize {
        let mut instances = server.instances().iter();
        let own = instances.find(|instance| {
            let access = instance.access().now_or_never();
            matches!(access, Some(Access::Up(used)) if Arc::ptr_eq(&used.link, link))
        });
        own.expect("one of them").number()
    }

    #[test]
    fn a_tenant_gets_three_quarters_of_the_permits_and_at_least_one() {
        assert_eq!([1, 2, 4, 32].map(per_tenant), [1, 1, 3, 24]);
    }
}
