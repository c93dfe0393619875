//! Keeps one server connected.

use std::sync::Arc;

use rmcp::{RoleClient, model::SubscriptionFilter, service::Peer};
use tokio::{
    runtime::Handle,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Settings,
    backoff::Backoff,
    complaints::Complaints,
    connection::{self, Connection, Era, blame},
    inbox::Inbox,
    limits::{CLOSE_TIMEOUT, FLOOD_PAUSE, HEARTBEAT, LAST_RETRY, MAX_VERSION_BYTES, RENEW, SETTLE},
    link::Link,
    listing::{self, List},
    secrets,
    server::Server,
    trouble::{Failure, Trouble, cause},
};
use crate::{
    catalog::{Catalog, State},
    secret::{BadSecret, Scrubber},
    text::with_causes,
};

/// Keeps one server connected until `stop` is cancelled: connects, lists the tools, publishes them
/// into the catalog, follows changes of the list, and reconnects. The first reconnect is immediate.
/// The next one waits up to 1 s, and each further one twice as long, up to a minute. A connection
/// that lasts a minute resets this backoff. Returns when the server is stopped, its process group
/// included.
///
/// The state is `Failed` if the settings can never work, for example because the URL or a header is
/// invalid, or because their secrets cannot be redacted; the server is then not retried. The state
/// is `Failed` too if the program does not exist; it is looked up again once a minute, because it
/// may be installed later. Any other trouble sets `Disconnected`. A server that floods the gateway
/// is disconnected, with a cool-down of at least ten seconds.
///
/// The server's calls run on the runtime of this future. It should not be the runtime that serves
/// HTTP: see [`Runtime`](super::Runtime).
pub async fn supervise(settings: Settings, catalog: Arc<Catalog>, stop: CancellationToken) {
    let scrubber = secrets::scrubber(&settings.transport);
    supervise_redacted(settings, scrubber, catalog, stop).await;
}

/// Does the same as [`supervise`], with the scrubber for the secrets of `settings`.
pub(super) async fn supervise_redacted(
    settings: Settings,
    scrubber: Result<Scrubber, BadSecret>,
    catalog: Arc<Catalog>,
    stop: CancellationToken,
) {
    let (scrubber, unusable) = match scrubber {
        Ok(scrubber) => (scrubber, None),
        Err(error) => (Scrubber::default(), Some(Trouble::Settings(with_causes(&error)))),
    };
    let mut keeper = Keeper {
        settings,
        catalog,
        server: Server::new(Handle::current()),
        scrubber: Arc::new(scrubber),
        told: Complaints::default(),
    };
    match unusable {
        // The server is not started, because its output could not be redacted.
        Some(trouble) => keeper.report(&trouble.into()),
        None => keeper.keep_connected(&stop).await,
    }
    stop.cancelled().await;
    keeper
        .catalog
        .set_state(&keeper.settings.name, State::Disconnected { reason: "stopped".into() });
}

struct Keeper {
    settings: Settings,
    catalog: Arc<Catalog>,
    server: Arc<Server>,
    scrubber: Arc<Scrubber>,
    /// Complaints about the list that were already logged.
    told: Complaints,
}

impl Keeper {
    /// Connects, and reconnects after each failure. Returns if `stop` is cancelled or if the
    /// settings can never work.
    async fn keep_connected(&mut self, stop: &CancellationToken) {
        let mut backoff = Backoff::default();
        let mut era = Era::Either;
        loop {
            let began = Instant::now();
            let Err(failure) = Box::pin(self.attempt(&mut era, stop)).await else { return };
            self.report(&failure);
            let delay = match &failure.trouble {
                Trouble::Settings(_) => return,
                Trouble::NoCommand { .. } => LAST_RETRY,
                Trouble::Flood(_) => backoff.after(began.elapsed()).max(FLOOD_PAUSE),
                _ => backoff.after(began.elapsed()),
            };
            if stop.run_until_cancelled(sleep(delay)).await.is_none() {
                return;
            }
        }
    }

    /// Connects and serves the connection until it ends. Returns `Ok` if `stop` is cancelled.
    async fn attempt(&mut self, era: &mut Era, stop: &CancellationToken) -> Result<(), Failure> {
        let opening = Box::pin(connection::open(&self.settings, &self.scrubber, *era));
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
        self.publish(std::mem::take(&mut connection.list), &connection.link).await;
        let outcome = Box::pin(self.tend(connection, stop)).await;
        outcome.map_or(Ok(()), Err)
    }

    /// Serves a connection until it ends, then closes it and stops its process. Returns `None` if
    /// `stop` is cancelled.
    async fn tend(&mut self, connection: Connection, stop: &CancellationToken) -> Option<Failure> {
        let Connection { service, process, link, inbox, abandoned, .. } = connection;
        let close = service.cancellation_token();
        let mut ended = std::pin::pin!(service.waiting());
        let server = self.server.clone();
        let trouble = tokio::select! {
            () = stop.cancelled() => None,
            _ = &mut ended => Some(Trouble::Ended),
            flood = inbox.flooded() => Some(Trouble::Flood(flood)),
            trouble = watch(&server, &link) => Some(trouble),
            trouble = self.follow(&link, &inbox) => Some(trouble),
            () = link.cancel_abandoned(abandoned) => Some(Trouble::Ended),
            () = subscribe(&link, &inbox) => Some(Trouble::Ended),
        };
        self.server.set_link(None);
        close.cancel();
        let has_ended = matches!(trouble, Some(Trouble::Ended));
        let trouble = trouble.map(|trouble| blame(trouble, &inbox));
        if !has_ended {
            let _ = timeout(CLOSE_TIMEOUT, ended).await;
        }
        let ending = match process {
            Some(process) => Some(process.stop().await),
            None => None,
        };
        trouble.map(|trouble| Failure { trouble, ending })
    }

    async fn publish(&mut self, list: List, link: &Arc<Link>) {
        let client = &self.settings.name;
        let List { tools, mut complaints, .. } = list;
        let count = tools.len();
        self.server.set_link(Some(link.clone()));
        let dropped = self.catalog.publish(client, tools, self.server.clone()).await;
        let tools = count - dropped.len().min(count);
        for reason in dropped {
            complaints.push(&reason);
        }
        complaints.tell(client, &self.told);
        self.told = complaints;
        let version = link
            .peer()
            .peer_info()
            .map(|info| info.protocol_version.to_string())
            .unwrap_or_default();
        let version = self.scrubber.line(&version, MAX_VERSION_BYTES);
        info!(%client, version, tools, "upstream server listed its tools");
    }

    fn report(&self, failure: &Failure) {
        let client = &self.settings.name;
        let reason = failure.reason(&self.scrubber);
        warn!(%client, reason, "upstream server is not connected");
        let state = if failure.trouble.is_lasting() {
            State::Failed { reason }
        } else {
            State::Disconnected { reason }
        };
        self.catalog.set_state(client, state);
    }

    /// Reads the list again whenever it has changed. A list that changes constantly is read less
    /// and less often. Returns the trouble if reading fails.
    async fn follow(&mut self, link: &Arc<Link>, inbox: &Inbox) -> Trouble {
        let mut pace = Backoff::default();
        let mut read = Instant::now();
        loop {
            inbox.changed().await;
            sleep(pace.after(read.elapsed()).max(SETTLE)).await;
            match timeout(self.settings.connect_timeout, listing::read(link)).await {
                Ok(Ok(list)) => self.publish(list, link).await,
                Ok(Err(error)) => return Trouble::List(cause(error)),
                Err(_) => return Trouble::Late(self.settings.connect_timeout),
            }
            read = Instant::now();
        }
    }
}

/// Checks an idle server at intervals, and any server to which a message could not be sent. A busy
/// server is not checked at intervals: many do not respond while they work, and their calls have
/// deadlines. Returns the trouble if a check fails.
async fn watch(server: &Server, link: &Link) -> Trouble {
    loop {
        tokio::select! {
            () = sleep(HEARTBEAT) => if !server.is_idle() { continue },
            () = link.doubted() => {}
        }
        if let Err(trouble) = link.check().await {
            return trouble;
        }
    }
}

/// Subscribes to changes of the list at a modern server; a legacy server reports them without a
/// subscription. The inbox handles the reports, so this only keeps the subscription open.
async fn subscribe(link: &Link, inbox: &Inbox) {
    if link.is_modern() && tells_of_changes(link.peer()) {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        while let Ok(mut subscription) = link.peer().listen(filter.clone()).await {
            while let Ok(Some(_)) = subscription.next().await {}
            sleep(RENEW).await;
            // Changes in the meantime are not reported again.
            inbox.suspect_change();
        }
    }
    std::future::pending::<()>().await;
}

fn tells_of_changes(peer: &Peer<RoleClient>) -> bool {
    let capabilities = peer.peer_info().map(|info| info.capabilities.clone());
    capabilities.and_then(|all| all.tools).and_then(|tools| tools.list_changed).unwrap_or(false)
}
