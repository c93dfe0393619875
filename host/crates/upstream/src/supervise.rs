//! Keeps one server connected: each of its instances on its own. Together, they write the entry of its
//! client.
//!
//! | module | purpose |
//! |---|---|
//! | `connect` | connects an instance, and connects it again after each failure |
//! | `serve` | serves one connection until it ends |
//! | `renewal` | replaces the process of a connection that is served |
//! | `listing` | takes over the lists of tools of an instance |
//! | `entry` | the entry of the client in the catalog, for all instances |
//! | `agreement` | decides which list of several instances is offered |
//! | `reason` | reasons for the operator |

mod agreement;
mod connect;
mod entry;
mod listing;
mod reason;
mod renewal;
mod serve;

use std::sync::{Arc, Weak};

use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use self::entry::ClientEntry;

use self::reason::located;
use super::{
    control::{Control, ControlCommand, ReconnectAnswer},
    framing::FramingSearch,
    pins::ClientPins,
    server::{Instance, Server, ServerAccess},
    status::ServerPhase,
    users::{Accounts, Authority},
};
use crate::limits::WARNING_INTERVAL;
use airlock_catalog::{Catalog, EntryWriter, SourceKind, SourceState};
use airlock_mcp_client::{
    ConnectionError, ConnectionFailure, Credentials, Link, OpenError, Settings, SkippedTools,
};
use airlock_strings::with_causes;

/// Returns the future that keeps one server connected until `stop` is cancelled, and the operator's
/// control of it. The future connects, lists the tools, publishes them
/// into the catalog, follows changes of the list, and reconnects. The first reconnect is immediate;
/// each further one waits longer, as [`Restart`](airlock_mcp_client::Restart) says. Returns when the server is
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
/// A server with several instances is connected if one of them is. Each is connected on its own, and gets
/// calls if its tools are those that its client offers.
///
/// With a `predecessor`, the server replaces that one, under the same name: the catalog keeps the tools
/// and the state of the predecessor until this server has listed its own or has failed to, see
/// [`Control::started`]. The counters of calls and the subscriptions go on.
pub fn supervise(
    settings: &Settings,
    pins: &Arc<ClientPins>,
    accounts: &Accounts,
    catalog: Arc<Catalog>,
    predecessor: Option<&Control>,
    stop: &CancellationToken,
    runtime: &Handle,
) -> (Control, impl Future<Output = ()> + Send + use<>) {
    let authority = Authority::new(settings, accounts, runtime);
    supervise_with(settings, pins, authority, catalog, predecessor, stop, runtime)
}

/// Does the same as [`supervise`], with the credentials of `settings`.
pub(super) fn supervise_with(
    settings: &Settings,
    pins: &Arc<ClientPins>,
    Authority { credentials, users, config_option }: Authority,
    catalog: Arc<Catalog>,
    predecessor: Option<&Control>,
    stop: &CancellationToken,
    runtime: &Handle,
) -> (Control, impl Future<Output = ()> + Send + use<>) {
    let predecessor_server = predecessor.map(Control::server);
    let server = Server::new(settings, runtime.clone(), predecessor_server, users);
    let started = CancellationToken::new();
    let (control, commands) = Control::new(server.clone(), started.clone(), runtime.clone());
    let writer = EntryWriter::new(catalog, settings.name.clone());
    let kind = SourceKind::Server(settings.transport.connection_type());
    if predecessor.is_none() {
        writer.take(kind);
        writer.offer(server.clone());
    }
    let name = settings.name.clone();
    let starting = started.drop_guard();
    let patience = settings.timeouts.startup;
    let entry =
        ClientEntry::new(writer, kind, name, pins.clone(), server.clone(), patience, starting);
    let entry = Arc::new(entry);
    let retiring_place = Arc::new(Semaphore::new(1));
    let instances = settings.instances().zip(server.instances()).zip(credentials).zip(commands);
    let supervisors = instances.map(|(((settings, instance), credentials), commands)| {
        let (credentials, unusable) = match credentials {
            Ok(credentials) => (credentials, None),
            Err(error) => (Credentials::default(), Some(error)),
        };
        let supervisor = Supervisor {
            framing: FramingSearch::new(settings.framing),
            server: server.clone(),
            instance: instance.clone(),
            settings,
            pins: pins.clone(),
            entry: entry.clone(),
            credentials: Arc::new(credentials),
            config_option: config_option.clone(),
            logged: SkippedTools::default(),
            commands,
            reconnecting: None,
            warned: None,
            published: 0,
            announced: None,
            suspicions: 0,
            retiring: TaskTracker::new(),
            retiring_place: retiring_place.clone(),
        };
        run(supervisor, unusable, stop.clone())
    });
    (control, run_all(supervisors.collect()))
}

/// Runs the supervisors of all instances, each in a task of its own, so that one that is flooded delays no
/// other. Dropping the future stops them.
async fn run_all<F: Future<Output = ()> + Send + 'static>(supervisors: Vec<F>) {
    let mut tasks: JoinSet<()> = supervisors.into_iter().collect();
    while let Some(ended) = tasks.join_next().await {
        if let Err(panic) = ended.map_err(tokio::task::JoinError::try_into_panic)
            && let Ok(panic) = panic
        {
            std::panic::resume_unwind(panic);
        }
    }
}

async fn run(mut supervisor: Supervisor, unusable: Option<OpenError>, stop: CancellationToken) {
    match unusable {
        // The server is not started, because its output could not be redacted.
        Some(error) => {
            let reason = error.to_string();
            supervisor.report(&ConnectionError::from(error).into(), ServerPhase::Failed).await;
            stop.run_until_cancelled(supervisor.refuse_requests(&reason)).await;
        }
        None => supervisor.keep_connected(&stop).await,
    }
    stop.cancelled().await;
    let Supervisor { instance, server, entry, retiring, .. } = supervisor;
    instance.set_access(ServerAccess::Down);
    if let Some(users) = server.users() {
        users.stop();
    }
    instance.status().enter(ServerPhase::Stopped, "the gateway stopped");
    entry.set_stopped(&instance);
    server.relaying().wake_successor();
    // They stop with `stop` as well.
    retiring.close();
    retiring.wait().await;
}

/// Keeps one instance of a server connected.
struct Supervisor {
    /// Those of this instance.
    settings: Settings,
    pins: Arc<ClientPins>,
    entry: Arc<ClientEntry>,
    server: Arc<Server>,
    instance: Arc<Instance>,
    credentials: Arc<Credentials>,
    /// As in [`Accounts`].
    config_option: Arc<str>,
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
    /// The place of a replaced connection that still has calls, for all instances: only one of them is
    /// replaced at a time. It outlives the connection that took over, so that no third process starts
    /// beside the two after a reconnect.
    retiring_place: Arc<Semaphore>,
}

impl Supervisor {
    async fn report(&mut self, failure: &ConnectionFailure, phase: ServerPhase) {
        let is_news = self.is_news(failure);
        let client = &self.settings.name;
        let instance = self.numbered();
        let needs_login = matches!(failure.error, ConnectionError::LoginNeeded(_));
        let mut reason = failure.reason(&self.settings, &self.credentials.scrubber());
        if needs_login {
            reason = located(&reason, client, &self.config_option);
        }
        if is_news {
            warn!(%client, instance, reason, "upstream server is not connected");
        } else {
            debug!(%client, instance, reason, "upstream server is still not connected");
        }
        if !self.entry.is_sole() {
            // Calls that wait for it to start go to another instance.
            self.instance.set_access(ServerAccess::Down);
        }
        let status = self.instance.status();
        status.set_stale(self.published > 0);
        status.set_needs_login(needs_login);
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
        self.entry.set_away(&self.instance, state).await;
    }

    /// Returns the number of the instance for the log; `None` if there is no other.
    fn numbered(&self) -> Option<usize> {
        (!self.entry.is_sole()).then(|| self.instance.number())
    }

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
