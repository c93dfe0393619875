//! The way to the server, and the permits that its calls share.

use std::{
    collections::HashMap,
    future::{Future, pending},
    sync::{Arc, Weak, atomic::AtomicU64},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::{limits::RECONNECT_PATIENCE, metrics::Metrics, status::Status, users::Users};
use airlock_core::{
    tenant::Tenant,
    tool::{Cause, ClientName, QuestionKinds},
};
use airlock_mcp_client::{
    Attempt, Bounds, Connection, ConnectionError, Credentials, HeldPermits, Intake, Link, Settings,
    StderrLogs, answer_requests,
};

/// State of a server that its calls share with the one who keeps it connected.
pub(super) struct Shared {
    pub(super) access: watch::Sender<Access>,
    /// Notified by a call that waits for the server to be started.
    pub(super) demand: Notify,
    /// Calls so far.
    pub(super) uses: AtomicU64,
    pub(super) client: ClientName,
    pub(super) status: Status,
    pub(super) metrics: Arc<Metrics>,
    pub(super) logs: StderrLogs,
    pub(super) bounds: Bounds,
    /// Interval between checks of an idle server; `None` for no checks.
    pub(super) heartbeat: Option<Duration>,
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

/// Way to the server for a call.
#[derive(Clone, Default)]
pub(crate) enum Access {
    /// There is none at present.
    #[default]
    Down,
    /// The server is started by a call, or is starting because of one.
    OnDemand,
    /// Over this link.
    Up(UsedLink),
    /// Over a connection of the call's own.
    PerCall(Arc<PerCall>),
    /// Over the connection of the caller's user.
    OfUser(Arc<Users>),
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

impl Permits {
    /// Shuts down the connection of a call in the background. The caller does not wait for it, and the
    /// permits are kept until then, so that a server that does not end bounds its own processes.
    pub(super) fn shut_down(self, connection: Connection) {
        tokio::spawn(async move {
            Box::pin(connection.shut_down()).await;
            drop(self);
        });
    }
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
    /// are not those of a connection of its own.
    pub(super) async fn with_link<T, F: Future<Output = T>>(
        &self,
        tenant: &Tenant,
        work: impl FnOnce(Arc<Link>, Option<HeldPermits>) -> F,
    ) -> Result<T, NoLink> {
        let permits = self.permits(tenant).await.ok_or(NoLink::Busy)?;
        match self.access().await {
            // What is relayed is listed with the operator's account, and is not that of a user.
            Access::Down | Access::OnDemand | Access::OfUser(_) => {
                Err(no_link(Unavailable::NotConnected))
            }
            // The use ends with the work.
            Access::Up(used) => Ok(work(used.link.clone(), Some(Arc::new(permits))).await),
            Access::PerCall(own) => {
                let working = self.run_alone(&own, permits, |link| work(link, None)).await;
                let worked = working.map_err(|error| no_link(Unavailable::NotStarted(error)))?;
                worked.ok_or_else(|| no_link(Unavailable::NotConnected))
            }
        }
    }

    /// Runs `work` with a link of its own, and responds to the requests of the server meanwhile. `None`
    /// if the connection breaks. If the future is dropped, so is the connection, and its process group
    /// is killed.
    pub(super) async fn run_alone<T, F: Future<Output = T>>(
        &self,
        own: &PerCall,
        permits: Permits,
        work: impl FnOnce(Arc<Link>) -> F,
    ) -> Result<Option<T>, ConnectionError> {
        let opening = Connection::open(&own.settings, &own.credentials, &self.logs, own.attempt);
        let mut connection = Box::pin(opening).await.map_err(|failure| failure.error)?;
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
        permits.shut_down(connection);
        Ok(worked)
    }

    /// Returns the way to the server. Waits for a server that is started on demand.
    pub(super) async fn access(&self) -> Access {
        if let Some(users) = &self.users {
            return Access::OfUser(users.clone());
        }
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

    /// Has the server checked, because a call reached its deadline, if the server has sent nothing for
    /// as long as an idle server is left unchecked. One that hangs would be called again and again
    /// otherwise, because a busy server is not checked at intervals.
    pub(super) fn suspect(&self) {
        let Some(heartbeat) = self.heartbeat else { return };
        if let Access::Up(used) = &*self.access.borrow()
            && used.link.inbox().last_received().elapsed() >= heartbeat
        {
            used.link.request_check();
        }
    }

    /// Waits for the link of a later connection; `None` if there is none soon.
    pub(super) async fn replacement(&self, old: &Arc<Link>) -> Option<UsedLink> {
        let mut access = self.access.subscribe();
        let waiting = access
            .wait_for(|access| matches!(access, Access::Up(used) if !Arc::ptr_eq(&used.link, old)));
        match timeout(RECONNECT_PATIENCE, waiting).await {
            Ok(Ok(found)) => match &*found {
                Access::Up(used) => Some(used.clone()),
                _ => None,
            },
            _ => None,
        }
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
    use futures_util::FutureExt as _;
    use tokio::runtime::Handle;

    use super::{super::Server, *};
    use airlock_mcp_client::{Inbox, Process, Stdio};

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

    #[tokio::test(start_paused = true)]
    async fn a_call_without_an_answer_has_a_silent_server_checked() {
        let server = server(Some(Duration::from_secs(30)));
        let (link, _server) = link();
        server.set_access(Access::Up(UsedLink::new(link.clone())));
        server.shared.suspect();
        assert!(!is_checked(&link), "it has just sent something");
        tokio::time::advance(Duration::from_secs(30)).await;
        server.shared.suspect();
        assert!(is_checked(&link));
        link.inbox().touch();
        server.shared.suspect();
        assert!(!is_checked(&link));
    }

    fn is_checked(link: &Link) -> bool {
        link.check_requested().now_or_never().is_some()
    }

    #[tokio::test]
    async fn a_server_is_not_stopped_as_idle_while_a_call_has_a_permit() {
        let server = server(None);
        let (link, _server) = link();
        server.set_access(Access::Up(UsedLink::new(link)));
        let permits = server.shared.permits(&Tenant::ANONYMOUS).await.expect("permits");
        assert!(!server.retire());
        assert!(matches!(server.shared.access().await, Access::Up(_)));
        drop(permits);
        assert!(server.retire());
        assert!(matches!(&*server.shared.access.borrow(), Access::OnDemand));
        assert!(server.is_idle());
    }

    fn server(heartbeat: Option<Duration>) -> Arc<Server> {
        let name = ClientName::parse("up").expect("a good name");
        let mut settings = Settings::new(name, Process::default());
        settings.timeouts.heartbeat = heartbeat;
        Server::new(&settings, Handle::current(), None, None)
    }

    /// Returns a link, and the other end, which must live as long.
    fn link() -> (Arc<Link>, impl Send) {
        let (ours, theirs) = tokio::io::duplex(64);
        let (read, write) = tokio::io::split(ours);
        let (inbox, unsolicited) = Inbox::new(Arc::default());
        let stdio = Arc::new(Stdio::new(read, write, inbox.clone(), false));
        let (link, abandoned, receiver) = Link::open(stdio, inbox);
        (link, (theirs, unsolicited, abandoned, receiver))
    }
}
