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
    connection::{self, Connection, Handshake, flood_or},
    error::{ConnectionError, ConnectionFailure, cause},
    inbox::Inbox,
    limits::{
        CLOSE_TIMEOUT, FLOOD_COOL_DOWN, HEARTBEAT, LAST_RETRY, LIST_CHANGE_DELAY,
        MAX_VERSION_BYTES, QUICK_LIST_CHANGES, SUBSCRIPTION_RETRY,
    },
    listing::{self, ToolList},
    secrets,
    sender::RequestSender,
    server::Server,
    skipped::SkippedTools,
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
/// may be installed later. Any other error sets `Disconnected`. A server that floods the gateway
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
        Err(error) => {
            (Scrubber::default(), Some(ConnectionError::InvalidSettings(with_causes(&error))))
        }
    };
    let mut supervisor = Supervisor {
        settings,
        catalog,
        server: Server::new(Handle::current()),
        scrubber: Arc::new(scrubber),
        logged: SkippedTools::default(),
    };
    match unusable {
        // The server is not started, because its output could not be redacted.
        Some(error) => supervisor.report(&error.into()),
        None => supervisor.keep_connected(&stop).await,
    }
    stop.cancelled().await;
    supervisor
        .catalog
        .set_state(&supervisor.settings.name, State::Disconnected { reason: "stopped".into() });
}

struct Supervisor {
    settings: Settings,
    catalog: Arc<Catalog>,
    server: Arc<Server>,
    scrubber: Arc<Scrubber>,
    /// Tools left out of the last list, whose reasons are logged.
    logged: SkippedTools,
}

impl Supervisor {
    /// Connects, and reconnects after each failure. Returns if `stop` is cancelled or if the
    /// settings can never work.
    async fn keep_connected(&mut self, stop: &CancellationToken) {
        let mut backoff = Backoff::default();
        let mut handshake = Handshake::ModernFirst;
        loop {
            let began = Instant::now();
            let Err(failure) = Box::pin(self.connect_and_serve(&mut handshake, stop)).await else {
                return;
            };
            self.report(&failure);
            let delay = match &failure.error {
                ConnectionError::InvalidSettings(_) => return,
                ConnectionError::CommandNotFound { .. } => LAST_RETRY,
                ConnectionError::Flood(_) => backoff.after(began.elapsed()).max(FLOOD_COOL_DOWN),
                _ => backoff.after(began.elapsed()),
            };
            if stop.run_until_cancelled(sleep(delay)).await.is_none() {
                return;
            }
        }
    }

    /// Connects and serves the connection until it ends. Returns `Ok` if `stop` is cancelled.
    async fn connect_and_serve(
        &mut self,
        handshake: &mut Handshake,
        stop: &CancellationToken,
    ) -> Result<(), ConnectionFailure> {
        let opening = Box::pin(connection::open(&self.settings, &self.scrubber, *handshake));
        let Some(opened) = stop.run_until_cancelled(opening).await else { return Ok(()) };
        let mut connection = match opened {
            Ok(connection) => connection,
            Err(failure) => {
                if failure.error.suggests_other_handshake() {
                    *handshake = handshake.other();
                }
                return Err(failure);
            }
        };
        *handshake =
            if connection.sender.is_modern() { Handshake::ModernFirst } else { Handshake::Legacy };
        self.publish_tools(std::mem::take(&mut connection.list), &connection.sender).await;
        let outcome = Box::pin(self.serve(connection, stop)).await;
        outcome.map_or(Ok(()), Err)
    }

    /// Serves a connection until it ends, then closes it and stops its process. Returns `None` if
    /// `stop` is cancelled.
    async fn serve(
        &mut self,
        connection: Connection,
        stop: &CancellationToken,
    ) -> Option<ConnectionFailure> {
        let Connection { service, process, sender, inbox, abandoned, .. } = connection;
        let close = service.cancellation_token();
        let mut ended = std::pin::pin!(service.waiting());
        let server = self.server.clone();
        let error = tokio::select! {
            () = stop.cancelled() => None,
            _ = &mut ended => Some(ConnectionError::Closed),
            flood = inbox.flooded() => Some(ConnectionError::Flood(flood)),
            error = check_regularly(&server, &sender) => Some(error),
            error = self.follow_list_changes(&sender, &inbox) => Some(error),
            () = sender.cancel_abandoned(abandoned) => Some(ConnectionError::Closed),
            () = subscribe(&sender, &inbox) => Some(ConnectionError::Closed),
        };
        self.server.set_sender(None);
        close.cancel();
        let has_ended = matches!(error, Some(ConnectionError::Closed));
        let error = error.map(|error| flood_or(error, &inbox));
        if !has_ended {
            let _ = timeout(CLOSE_TIMEOUT, ended).await;
        }
        let exit = match process {
            Some(process) => Some(process.stop().await),
            None => None,
        };
        error.map(|error| ConnectionFailure { error, exit })
    }

    async fn publish_tools(&mut self, list: ToolList, sender: &Arc<RequestSender>) {
        let client = &self.settings.name;
        let ToolList { tools, mut skipped, .. } = list;
        let count = tools.len();
        self.server.set_sender(Some(sender.clone()));
        let dropped = self.catalog.publish(client, tools, self.server.clone()).await;
        let tools = count - dropped.len().min(count);
        for reason in dropped {
            skipped.push(&reason);
        }
        skipped.log_new(client, &self.logged);
        self.logged = skipped;
        let version = sender
            .peer()
            .peer_info()
            .map(|info| info.protocol_version.to_string())
            .unwrap_or_default();
        let version = self.scrubber.line(&version, MAX_VERSION_BYTES);
        info!(%client, version, tools, "upstream server listed its tools");
    }

    fn report(&self, failure: &ConnectionFailure) {
        let client = &self.settings.name;
        let reason = failure.reason(&self.scrubber);
        warn!(%client, reason, "upstream server is not connected");
        let state = if failure.error.is_permanent() {
            State::Failed { reason }
        } else {
            State::Disconnected { reason }
        };
        self.catalog.set_state(client, state);
    }

    /// Reads the list again whenever it has changed. A list that changes constantly is read less
    /// and less often. Returns the error if reading fails.
    async fn follow_list_changes(
        &mut self,
        sender: &Arc<RequestSender>,
        inbox: &Inbox,
    ) -> ConnectionError {
        let mut pace = Backoff::with_free(QUICK_LIST_CHANGES);
        let mut read = Instant::now();
        loop {
            inbox.changed().await;
            sleep(pace.after(read.elapsed()).max(LIST_CHANGE_DELAY)).await;
            match timeout(self.settings.connect_timeout, listing::read(sender)).await {
                Ok(Ok(list)) => self.publish_tools(list, sender).await,
                Ok(Err(error)) => return ConnectionError::ListTools(cause(error)),
                Err(_) => return ConnectionError::ConnectTimeout(self.settings.connect_timeout),
            }
            read = Instant::now();
        }
    }
}

/// Checks an idle server at intervals, and any server to which a message could not be sent. A busy
/// server is not checked at intervals: many do not respond while they work, and their calls have
/// deadlines. Returns the error if a check fails.
async fn check_regularly(server: &Server, sender: &RequestSender) -> ConnectionError {
    loop {
        tokio::select! {
            () = sleep(HEARTBEAT) => if !server.is_idle() { continue },
            () = sender.check_requested() => {}
        }
        if let Err(error) = sender.check().await {
            return error;
        }
    }
}

/// Subscribes to changes of the list at a modern server; a legacy server reports them without a
/// subscription. The inbox handles the reports, so this only keeps the subscription open.
async fn subscribe(sender: &RequestSender, inbox: &Inbox) {
    if sender.is_modern() && reports_list_changes(sender.peer()) {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        while let Ok(mut subscription) = sender.peer().listen(filter.clone()).await {
            while let Ok(Some(_)) = subscription.next().await {}
            sleep(SUBSCRIPTION_RETRY).await;
            // Changes in the meantime are not reported again.
            inbox.suspect_change();
        }
    }
    std::future::pending::<()>().await;
}

fn reports_list_changes(peer: &Peer<RoleClient>) -> bool {
    let capabilities = peer.peer_info().map(|info| info.capabilities.clone());
    capabilities.and_then(|all| all.tools).and_then(|tools| tools.list_changed).unwrap_or(false)
}
