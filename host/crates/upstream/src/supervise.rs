//! Keeps one server connected.

mod renewal;
mod serve;

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc},
    time::{Instant, sleep, timeout_at},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use tracing::{debug, info, warn};

use super::{
    control::{Control, ControlCommand, ReconnectAnswer},
    framing::FramingSearch,
    pins::{ClientPins, Screened},
    relay,
    server::{Access, PerCall, Server, UsedLink},
    status::ServerPhase,
    users::{Accounts, Authority},
};
use crate::limits::{FLOOD_COOL_DOWN, QUICK_LIST_CHANGES, SUSPICION_DELAYS, WARNING_INTERVAL};
use airlock_catalog::{Catalog, EntryWriter, SourceKind, SourceState};
use airlock_mcp_client::{
    Attempt, Backoff, Connection, ConnectionError, ConnectionFailure, Credentials, Handshake,
    LAST_RETRY, Lifecycle, Link, OpenError, Restart, Settings, SkippedTools, ToolList,
};
use airlock_strings::with_causes;

/// Returns the future that keeps one server connected until `stop` is cancelled, and the operator's
/// control of it. The future connects, lists the tools, publishes them
/// into the catalog, follows changes of the list, and reconnects. The first reconnect is immediate;
/// each further one waits longer, as [`Restart`] says. Returns when the server is
/// stopped, its process group included.
///
/// The state is `Failed` if the settings can never work, for example because the URL or a header is
/// invalid, or because their secrets cannot be redacted, and after the last permitted attempt; the
/// server is then started again by the operator alone. The state is `Failed` too if the program does
/// not exist; it is looked up again once a minute, because it may be installed later. Any other
/// error sets `Disconnected`. A server that floods the gateway is disconnected, with a cool-down of
/// at least ten seconds.
///
/// The server's calls run on `runtime`, on which the future is to be spawned. It should not be the
/// runtime that serves HTTP: see [`Runtime`](super::Runtime). The definitions of the tools pass
/// `pins`. Access tokens are those of `accounts`: the operator's for this connection, and, for the calls
/// of a server that acts for single users, those of its users for theirs.
///
/// With a `predecessor`, the server replaces that one, under the same name: the catalog keeps the tools
/// and the state of the predecessor until this server has listed its own or has failed to, see
/// [`Control::started`]. The counters of calls and the subscriptions go on.
pub fn supervise(
    settings: Settings,
    pins: Arc<ClientPins>,
    accounts: &Accounts,
    catalog: Arc<Catalog>,
    predecessor: Option<&Control>,
    stop: CancellationToken,
    runtime: &Handle,
) -> (Control, impl Future<Output = ()> + Send + use<>) {
    let authority = Authority::new(&settings, accounts, runtime);
    supervise_with(settings, pins, authority, catalog, predecessor, stop, runtime)
}

/// Does the same as [`supervise`], with the credentials of `settings`.
pub(super) fn supervise_with(
    settings: Settings,
    pins: Arc<ClientPins>,
    Authority { credentials, users }: Authority,
    catalog: Arc<Catalog>,
    predecessor: Option<&Control>,
    stop: CancellationToken,
    runtime: &Handle,
) -> (Control, impl Future<Output = ()> + Send + use<>) {
    let predecessor_server = predecessor.map(Control::server);
    let server = Server::new(&settings, runtime.clone(), predecessor_server, users);
    let started = CancellationToken::new();
    let (control, commands) = Control::new(server.clone(), started.clone());
    let entry = Arc::new(EntryWriter::new(catalog, settings.name.clone()));
    if predecessor.is_none() {
        entry.take(kind(&settings));
        entry.offer(server.clone());
    }
    let (credentials, unusable) = match credentials {
        Ok(credentials) => (credentials, None),
        Err(error) => (Credentials::default(), Some(error)),
    };
    let supervisor = Supervisor {
        framing: FramingSearch::new(settings.framing),
        server,
        settings,
        pins,
        entry,
        starting: Some(started.drop_guard()),
        credentials: Arc::new(credentials),
        logged: SkippedTools::default(),
        commands,
        reconnecting: None,
        warned: None,
        published: 0,
        announced: None,
        suspicions: 0,
        retiring: TaskTracker::new(),
        retiring_place: Arc::new(Semaphore::new(1)),
    };
    (control, run(supervisor, unusable, stop))
}

async fn run(mut supervisor: Supervisor, unusable: Option<OpenError>, stop: CancellationToken) {
    match unusable {
        // The server is not started, because its output could not be redacted.
        Some(error) => {
            let reason = error.to_string();
            supervisor.report(&ConnectionError::from(error).into(), ServerPhase::Failed);
            stop.run_until_cancelled(supervisor.refuse_requests(&reason)).await;
        }
        None => supervisor.keep_connected(&stop).await,
    }
    stop.cancelled().await;
    supervisor.server.set_access(Access::Down);
    if let Some(users) = supervisor.server.users() {
        users.stop();
    }
    supervisor.server.status_record().enter(ServerPhase::Stopped, "the gateway stopped");
    supervisor.entry.set_state(SourceState::Disconnected { reason: "stopped".into() });
    supervisor.server.relaying().wake_successor();
    // They stop with `stop` as well.
    supervisor.retiring.close();
    supervisor.retiring.wait().await;
}

struct Supervisor {
    settings: Settings,
    pins: Arc<ClientPins>,
    entry: Arc<EntryWriter>,
    /// Dropped once the entry in the catalog is this server's.
    starting: Option<DropGuard>,
    server: Arc<Server>,
    credentials: Arc<Credentials>,
    framing: FramingSearch,
    /// Tools left out of the last list, whose reasons are logged.
    logged: SkippedTools,
    commands: mpsc::Receiver<ControlCommand>,
    /// Answer to the operator who requested the present start.
    reconnecting: Option<ReconnectAnswer>,
    /// Error that was logged last, without what the server itself wrote, and the time; `None` after a
    /// connection.
    warned: Option<(String, Instant)>,
    /// Number of tools in the last list that was published.
    published: usize,
    /// Connection and number of tools of the last list that was logged.
    announced: Option<(Weak<Link>, usize)>,
    /// Consecutive lists that were suspiciously short.
    suspicions: usize,
    /// Replaced connections, whose last calls still run.
    retiring: TaskTracker,
    /// The place of a replaced connection that still has calls. It outlives the connection that took over,
    /// so that no third process starts beside the two after a reconnect.
    retiring_place: Arc<Semaphore>,
}

/// Reason that a connection was closed.
enum Ended {
    /// The gateway stops.
    Stopped,
    /// No call needs the server.
    Idle,
    /// The operator requested it.
    Reconnect,
    /// It failed.
    Failed(ConnectionFailure),
}

/// Decision after a pause.
enum Next {
    Connect,
    Stop,
}

impl Supervisor {
    /// Refuses every request of the operator, without end.
    async fn refuse_requests(&mut self, reason: &str) {
        while let Some(command) = self.commands.recv().await {
            command.refuse(reason);
        }
        std::future::pending::<()>().await;
    }

    /// Connects, and reconnects after each failure. Returns if `stop` is cancelled or if the
    /// settings can never work.
    async fn keep_connected(&mut self, stop: &CancellationToken) {
        let mut backoff = Backoff::new(self.settings.restart, 0);
        let mut handshake = Handshake::first(self.settings.protocol, self.settings.questions);
        let mut reason = "first start".to_owned();
        loop {
            self.server.status_record().enter(ServerPhase::Starting, &reason);
            let began = Instant::now();
            let next = match Box::pin(self.connect_and_serve(&mut handshake, stop)).await {
                Ended::Stopped => return,
                Ended::Idle => {
                    "a call needs it".clone_into(&mut reason);
                    self.sleep_until_demanded(stop).await
                }
                Ended::Reconnect => {
                    "the operator reconnected it".clone_into(&mut reason);
                    backoff.reset();
                    Next::Connect
                }
                Ended::Failed(failure) => {
                    let delay = backoff.after(began.elapsed());
                    reason = format!("attempt {} after a failure", backoff.failures() + 1);
                    self.server.status_record().set_attempts(backoff.failures());
                    let is_final = failure.error.is_invalid() || backoff.is_exhausted();
                    let delay = match &failure.error {
                        _ if is_final => None,
                        ConnectionError::Open(OpenError::Missing(_))
                        | ConnectionError::LoginNeeded(_) => Some(LAST_RETRY),
                        ConnectionError::Flood(_) => Some(delay.max(FLOOD_COOL_DOWN)),
                        _ => Some(delay),
                    };
                    let is_failed = delay.is_none() || failure.error.is_permanent();
                    self.report(
                        &failure,
                        if is_failed { ServerPhase::Failed } else { ServerPhase::Restarting },
                    );
                    let waits = matches!(failure.error, ConnectionError::LoginNeeded(_));
                    self.pause(delay, waits, &mut backoff, stop).await
                }
            };
            if matches!(next, Next::Stop) {
                return;
            }
        }
    }

    /// Waits for `delay`, or without end if there is none. A request of the operator to reconnect ends
    /// the pause and resets the attempts, and so does a login if the server `waits_for_login`.
    async fn pause(
        &mut self,
        delay: Option<Duration>,
        waits_for_login: bool,
        backoff: &mut Backoff,
        stop: &CancellationToken,
    ) -> Next {
        let mut waiting = std::pin::pin!(async {
            match delay {
                Some(delay) => sleep(delay).await,
                None => std::future::pending().await,
            }
        });
        let credentials = self.credentials.clone();
        let mut login = std::pin::pin!(credentials.login_changed());
        loop {
            tokio::select! {
                () = stop.cancelled() => return Next::Stop,
                () = &mut waiting => return Next::Connect,
                () = &mut login, if waits_for_login => {
                    backoff.reset();
                    return Next::Connect;
                }
                Some(command) = self.commands.recv() => match command {
                    ControlCommand::Reconnect(answer) => {
                        self.reconnecting = Some(answer);
                        backoff.reset();
                        return Next::Connect;
                    }
                    ControlCommand::Refresh(answer) => drop(answer.send(Err("it is not connected".into()))),
                },
            }
        }
    }

    /// Waits until a call or the operator needs the server.
    async fn sleep_until_demanded(&mut self, stop: &CancellationToken) -> Next {
        self.server.status_record().enter(ServerPhase::Stopped, "no call needs it");
        self.server.set_access(Access::OnDemand);
        let server = self.server.clone();
        tokio::select! {
            () = stop.cancelled() => Next::Stop,
            () = server.demanded() => Next::Connect,
            Some(command) = self.commands.recv() => {
                match command {
                    ControlCommand::Reconnect(answer) => self.reconnecting = Some(answer),
                    // The list is read after every start.
                    ControlCommand::Refresh(answer) => drop(answer.send(Ok(self.published))),
                }
                Next::Connect
            }
        }
    }

    /// Connects and serves the connection until it ends.
    async fn connect_and_serve(
        &mut self,
        handshake: &mut Handshake,
        stop: &CancellationToken,
    ) -> Ended {
        let server = self.server.clone();
        let opening = Box::pin(Connection::open(
            &self.settings,
            &self.credentials,
            server.logs(),
            Attempt { handshake: *handshake, has_headers: self.framing.has_headers() },
        ));
        let Some(opened) = stop.run_until_cancelled(opening).await else { return Ended::Stopped };
        let connection = match opened {
            Ok(connection) => connection,
            Err(failure) => {
                let is_late = matches!(failure.error, ConnectionError::StartupTimeout(_));
                self.framing.record_failed(failure.is_silent && is_late);
                if failure.error.suggests_other_handshake() {
                    *handshake = handshake.other();
                }
                return Ended::Failed(failure);
            }
        };
        self.framing.record_connected();
        *handshake = handshake.after_connection(connection.link.is_modern());
        if let Some(users) = server.users() {
            users.agree(*handshake);
        }
        if let Some(agreed) = connection.link.agreed() {
            self.server.status_record().agree(agreed);
        }
        let listing = timeout_at(connection.deadline, connection.list());
        let listing = async {
            listing.await.unwrap_or_else(|_| {
                Err(ConnectionError::StartupTimeout(self.settings.timeouts.startup))
            })
        };
        let Some(listed) = stop.run_until_cancelled(listing).await else {
            connection.shut_down().await;
            return Ended::Stopped;
        };
        match listed {
            Ok(list) => {
                let Self { entry, settings, server, .. } = &*self;
                entry.take(kind(settings));
                let publishing = relay::publish_lists(entry, settings, server, &connection.link);
                if stop.run_until_cancelled(publishing).await.is_none() {
                    connection.shut_down().await;
                    return Ended::Stopped;
                }
                let recheck = self.adopt(list, &connection.link).await;
                self.starting = None;
                if let Some(answer) = self.reconnecting.take() {
                    // The operator may have left.
                    let _ = answer.send(Ok(()));
                }
                Box::pin(self.serve(connection, *handshake, recheck, stop)).await
            }
            Err(error) => Ended::Failed(connection.close(error).await),
        }
    }

    /// Takes over a list. One that is suspiciously short after a longer one is not believed: the
    /// longer one is kept. A list that was read to its end is believed once it was the same in
    /// several readings. Returns the time after which the list is to be read again; `None` if it was
    /// believed.
    async fn adopt(&mut self, list: ToolList, link: &Arc<Link>) -> Option<Duration> {
        if let Some(delay) = self.doubt(&list) {
            let reason = format!(
                "it listed {} tools after {}; the last list is kept",
                list.tools.len(),
                self.published
            );
            warn!(client = %self.settings.name, reason, "upstream list of tools is in doubt");
            let status = self.server.status_record();
            status.set_stale(true);
            status.enter(ServerPhase::Degraded, &reason);
            self.give_access(link);
            self.entry.set_state(SourceState::Connected);
            return Some(delay);
        }
        self.suspicions = 0;
        self.warned = None;
        let is_cut = list.is_cut;
        let listed = list.tools.len();
        self.publish(list, link).await;
        let status = self.server.status_record();
        status.set_stale(false);
        if is_cut {
            status
                .enter(ServerPhase::Degraded, "its list of tools was cut; the log has the reason");
        } else {
            status.enter(ServerPhase::Ready, &self.listed(listed));
        }
        None
    }

    /// Returns the reason for the state of a server that has listed this many tools.
    fn listed(&self, tools: usize) -> String {
        let held = self.pins.held().len();
        let problem = self.pins.problem().map(|problem| format!("; {problem}")).unwrap_or_default();
        if held == 0 {
            format!("it listed {} tools{problem}", self.published)
        } else {
            format!("it listed {tools} tools, {held} in quarantine{problem}")
        }
    }

    /// Returns the time until a list is to be read again that is not believed; `None` if it is
    /// believed.
    fn doubt(&mut self, list: &ToolList) -> Option<Duration> {
        let is_short = list.tools.is_empty() || list.is_cut && list.tools.len() < self.published;
        if self.published == 0 || !is_short {
            return None;
        }
        let delay = SUSPICION_DELAYS.get(self.suspicions);
        self.suspicions += 1;
        let repeated = SUSPICION_DELAYS.last().filter(|_| list.is_cut);
        delay.or(repeated).copied()
    }

    async fn publish(&mut self, list: ToolList, link: &Arc<Link>) {
        let client = &self.settings.name;
        let ToolList { tools, mut skipped, .. } = list;
        let Screened { tools, unaccepted, left_out } = self.pins.screen(tools).await;
        for reason in left_out {
            skipped.push(&reason);
        }
        self.server.status_record().set_quarantine(self.pins.held());
        let count = tools.len();
        self.give_access(link);
        let dropped = self.entry.publish(tools, unaccepted, self.server.clone()).await;
        let tools = count - dropped.len().min(count);
        for reason in dropped {
            skipped.push(&reason);
        }
        skipped.log_new(client, &self.logged);
        self.logged = skipped;
        let is_news =
            self.announced.replace((Arc::downgrade(link), tools)).is_none_or(|(of, before)| {
                before != tools || !Weak::ptr_eq(&of, &Arc::downgrade(link))
            });
        self.published = tools;
        let agreed = link.agreed();
        let version = agreed.map(|agreed| agreed.version.as_str()).unwrap_or_default();
        if is_news {
            info!(%client, version, tools, "upstream server listed its tools");
        } else {
            debug!(%client, version, tools, "upstream server listed its tools again");
        }
    }

    fn give_access(&self, link: &Arc<Link>) {
        // Calls of a server with one connection for each do not use this one.
        if self.settings.lifecycle != Lifecycle::PerCall {
            self.server.set_access(Access::Up(UsedLink::new(link.clone())));
        }
    }

    /// Permits calls over connections of their own.
    fn give_own_access(&self, handshake: Handshake) {
        let settings = self.settings.clone();
        let credentials = self.credentials.clone();
        let attempt = Attempt { handshake, has_headers: self.framing.has_headers() };
        let own = PerCall { settings, credentials, attempt };
        self.server.set_access(Access::PerCall(Arc::new(own)));
    }

    fn report(&mut self, failure: &ConnectionFailure, phase: ServerPhase) {
        let is_news = self.is_news(failure);
        let client = &self.settings.name;
        let reason = failure.reason(&self.settings, &self.credentials.scrubber());
        if is_news {
            warn!(%client, reason, "upstream server is not connected");
        } else {
            debug!(%client, reason, "upstream server is still not connected");
        }
        let status = self.server.status_record();
        status.set_stale(self.published > 0);
        status.enter(phase, &reason);
        if let Some(answer) = self.reconnecting.take() {
            // The operator may have left.
            let _ = answer.send(Err(reason.clone()));
        }
        let state = if phase == ServerPhase::Failed {
            SourceState::Failed { reason }
        } else {
            SourceState::Disconnected { reason }
        };
        if self.starting.is_some() {
            self.entry.take(kind(&self.settings));
            // The tools that its predecessor has listed stay, and are called at this server.
            self.entry.offer(self.server.clone());
        }
        self.entry.set_state(state);
        self.starting = None;
    }
}

impl Supervisor {
    /// Returns whether a failure is worth a warning: it is another one than the last, or the last
    /// warning was [`WARNING_INTERVAL`] ago.
    fn is_news(&mut self, failure: &ConnectionFailure) -> bool {
        let error = with_causes(&failure.error);
        let is_known = self
            .warned
            .as_ref()
            .is_some_and(|(known, at)| *known == error && at.elapsed() < WARNING_INTERVAL);
        if !is_known {
            self.warned = Some((error, Instant::now()));
        }
        !is_known
    }
}

fn kind(settings: &Settings) -> SourceKind {
    SourceKind::Server(settings.transport.connection_type())
}

/// Returns the backoff between readings of a list that keeps changing.
fn list_pace() -> Backoff {
    Backoff::new(Restart::default(), QUICK_LIST_CHANGES)
}
