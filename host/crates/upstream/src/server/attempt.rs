//! Work with a link to one instance of a server after the other, until one has got the request.

use std::{
    future::{Future, pending},
    sync::Arc,
};

use tokio::time::Instant;

use super::{
    access::{PerCall, ServerAccess},
    choice::{Asker, ChosenInstance, Linked},
    instance::Instance,
    permits::{Permits, Shared, held},
    unavailable::Unavailable,
};
use airlock_core::{tenant::Tenant, tool::Cause};
use airlock_mcp_client::{
    AskError, Connection, ConnectionError, HeldPermits, Intake, Link, answer_requests,
};

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

/// Shuts down the connection of a call in the background. The caller does not wait for it, and the
/// permits are kept until then, so that a server that does not end bounds its own processes.
fn shut_down(connection: Connection, permits: HeldPermits) {
    tokio::spawn(async move {
        Box::pin(connection.shut_down()).await;
        drop(permits);
    });
}

impl Shared {
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
    way: ChosenInstance,
    permits: Arc<Permits>,
    deadline: Instant,
    work: impl Fn(Arc<Link>, Option<HeldPermits>) -> F,
) -> Attempted<Result<Linked<T>, NoLink>> {
    let ChosenInstance { occupied, access } = way;
    let instance = occupied.instance().clone();
    let held = held(permits, occupied);
    let awaited = instance.awaited(deadline, None);
    let attempted = match access {
        ServerAccess::Down | ServerAccess::OnDemand => {
            Attempted::Unsent(Err(no_link(Unavailable::NotConnected)))
        }
        // The use ends with the work.
        ServerAccess::Up(used) => {
            let attempted = work(used.link.clone(), Some(held)).await;
            linked(attempted, Asker { instance, used: Some(used) })
        }
        ServerAccess::PerCall(own) => {
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

fn no_link(cause: Unavailable) -> NoLink {
    NoLink::Unavailable(Cause::from(cause))
}

#[cfg(test)]
mod tests {
    use std::{future::ready, time::Duration};

    use futures_util::FutureExt as _;
    use parking_lot::Mutex;
    use tokio::runtime::Handle;

    use super::{
        super::{Server, access::UsedLink, instance::tests::link},
        *,
    };
    use airlock_core::tool::ClientName;
    use airlock_mcp_client::{Process, Settings};

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
            instance.set_access(ServerAccess::Up(UsedLink::new(link)));
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
            matches!(access, Some(ServerAccess::Up(used)) if Arc::ptr_eq(&used.link, link))
        });
        own.expect("one of them").number()
    }
}
