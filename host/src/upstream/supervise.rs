//! Keeps one server connected.

use std::{sync::Arc, time::Duration};

use rmcp::{RoleClient, model::SubscriptionFilter, service::Peer};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Settings, backoff,
    backoff::Backoff,
    connection::{self, Connection, Era},
    link::Link,
    listing,
    server::Server,
    trouble::{Failure, Trouble, cause},
};
use crate::catalog::{Catalog, State};

/// An idle server is asked whether it is there this often.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// Lists are read again this long after a change, so that many changes cost one reading.
const SETTLE: Duration = Duration::from_millis(200);
/// A subscription that ends is renewed after this.
const RENEW: Duration = Duration::from_secs(5);
/// Time for a connection to be taken down on our side, before its process is.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Keeps one server connected until `stop` is cancelled: connects, lists, publishes into the catalog, follows changes of the
/// list, and reconnects. A lost server is tried again at once, then after 1 s, twice as long each time, up to a minute; a
/// connection that lasts a minute starts the count anew. Returns when the server is stopped, its process group included.
///
/// A server whose settings cannot work is `Failed`: the program is not there, or the URL or a header is none. It is looked
/// at once a minute all the same, because a program may be installed later. Any other trouble is `Disconnected`.
pub async fn supervise(settings: Settings, catalog: Arc<Catalog>, stop: CancellationToken) {
    let keeper = Keeper { settings, catalog, server: Server::new() };
    let mut backoff = Backoff::default();
    let mut era = Era::Either;
    loop {
        let began = Instant::now();
        let Err(failure) = Box::pin(keeper.attempt(&mut era, &stop)).await else { break };
        keeper.report(&failure);
        let delay = if failure.trouble.is_lasting() { backoff::LONGEST } else { backoff.after(began.elapsed()) };
        if stop.run_until_cancelled(sleep(delay)).await.is_none() {
            break;
        }
    }
    keeper.catalog.set_state(&keeper.settings.name, State::Disconnected { reason: "stopped".into() });
}

struct Keeper {
    settings: Settings,
    catalog: Arc<Catalog>,
    server: Arc<Server>,
}

impl Keeper {
    /// Connects and stays connected for as long as it goes well. Ends without a failure when told to stop.
    async fn attempt(&self, era: &mut Era, stop: &CancellationToken) -> Result<(), Failure> {
        let opening = Box::pin(connection::open(&self.settings, *era));
        let Some(opened) = stop.run_until_cancelled(opening).await else { return Ok(()) };
        let mut connection = match opened {
            Ok(connection) => connection,
            Err(failure) => {
                if failure.trouble.may_be_the_era() {
                    *era = era.other();
                }
                return Err(failure);
            }
        };
        *era = if connection.link.is_modern() { Era::Either } else { Era::Legacy };
        self.publish(std::mem::take(&mut connection.tools), &connection.link).await;
        let outcome = self.tend(connection, stop).await;
        outcome.map_or(Ok(()), Err)
    }

    /// Serves a connection until it ends, then takes it down with its process.
    async fn tend(&self, connection: Connection, stop: &CancellationToken) -> Option<Failure> {
        let Connection { service, process, link, abandoned, changed, .. } = connection;
        let close = service.cancellation_token();
        let mut ended = std::pin::pin!(service.waiting());
        let trouble = tokio::select! {
            () = stop.cancelled() => None,
            _ = &mut ended => Some(Trouble::Ended),
            trouble = self.watch(&link) => Some(trouble),
            trouble = self.follow(&link, &changed) => Some(trouble),
            () = link.cancel_abandoned(abandoned) => Some(Trouble::Ended),
            () = subscribe(&link, &changed) => Some(Trouble::Ended),
        };
        self.server.set_link(None);
        close.cancel();
        if !matches!(trouble, Some(Trouble::Ended)) {
            let _ = timeout(CLOSE_TIMEOUT, ended).await;
        }
        let ending = match process {
            Some(process) => Some(process.stop().await),
            None => None,
        };
        trouble.map(|trouble| Failure { trouble, ending })
    }

    async fn publish(&self, tools: Vec<crate::catalog::ToolDefinition>, link: &Arc<Link>) {
        let client = &self.settings.name;
        let count = tools.len();
        self.server.set_link(Some(link.clone()));
        let dropped = self.catalog.publish(client, tools, self.server.clone()).await;
        listing::complain(client, &dropped);
        let version = link.peer().peer_info().map(|info| info.protocol_version.to_string()).unwrap_or_default();
        info!(%client, version, tools = count - dropped.len().min(count), "upstream server listed its tools");
    }

    fn report(&self, failure: &Failure) {
        let client = &self.settings.name;
        let reason = failure.reason(&self.settings);
        warn!(%client, reason, "upstream server is not connected");
        let state = if failure.trouble.is_lasting() { State::Failed { reason } } else { State::Disconnected { reason } };
        self.catalog.set_state(client, state);
    }

    /// Looks after an idle server now and then, and after any whose messages do not get through. A busy one is left alone: many
    /// answer nothing while they work, and their calls have deadlines.
    async fn watch(&self, link: &Link) -> Trouble {
        loop {
            tokio::select! {
                () = sleep(HEARTBEAT) => if !self.server.is_idle() { continue },
                () = link.doubted() => {}
            }
            if let Err(trouble) = link.check().await {
                return trouble;
            }
        }
    }

    /// Reads the list again when it has changed.
    async fn follow(&self, link: &Arc<Link>, changed: &Notify) -> Trouble {
        loop {
            changed.notified().await;
            sleep(SETTLE).await;
            match timeout(self.settings.connect_timeout, listing::read(link, &self.settings.name)).await {
                Ok(Ok(tools)) => self.publish(tools, link).await,
                Ok(Err(error)) => return Trouble::List(cause(error)),
                Err(_) => return Trouble::Late(self.settings.connect_timeout),
            }
        }
    }
}

/// Asks a server of the new era to say when its list changes; one of the old era says so unasked.
async fn subscribe(link: &Link, changed: &Notify) {
    if link.is_modern() && tells_of_changes(link.peer()) {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        while let Ok(mut subscription) = link.peer().listen(filter.clone()).await {
            while let Ok(Some(_)) = subscription.next().await {
                changed.notify_one();
            }
            // What changed while nobody listened is not told again.
            sleep(RENEW).await;
            changed.notify_one();
        }
    }
    std::future::pending::<()>().await;
}

fn tells_of_changes(peer: &Peer<RoleClient>) -> bool {
    let capabilities = peer.peer_info().map(|info| info.capabilities.clone());
    capabilities.and_then(|all| all.tools).and_then(|tools| tools.list_changed).unwrap_or(false)
}
