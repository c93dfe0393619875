//! Opens a connection: from settings to a server that has completed the handshake and listed its
//! tools.

use std::sync::Arc;

use rmcp::{
    ClientHandler, RoleClient,
    model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion},
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService},
};
use tokio::time::{Instant, timeout_at};

use super::{
    Settings, Transport,
    error::{ConnectionError, ConnectionFailure, cause},
    http::{self, Http},
    inbox::Inbox,
    listing::{self, ToolList},
    outbox::Outbox,
    process::{ChildPipes, Process},
    sender::{AbandonedRequests, RequestSender},
};
use crate::secret::Scrubber;

/// A connected server that has listed its tools.
pub(super) struct Connection {
    pub(super) service: RunningService<RoleClient, Handler>,
    pub(super) process: Option<Process>,
    pub(super) sender: Arc<RequestSender>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) abandoned: AbandonedRequests,
    pub(super) list: ToolList,
}

/// Handshake to try first: a legacy connection begins with `initialize`, a modern one with
/// `server/discover`. The modern handshake can cost ten seconds with a legacy server, so the one
/// that worked is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handshake {
    /// The modern handshake, then the legacy one.
    ModernFirst,
    /// The legacy handshake.
    Legacy,
}

impl Handshake {
    /// Returns the handshake to try after an attempt with this one has failed.
    pub(super) fn other(self) -> Self {
        match self {
            Self::ModernFirst => Self::Legacy,
            Self::Legacy => Self::ModernFirst,
        }
    }

    fn mode(self) -> ClientLifecycleMode {
        match self {
            Self::Legacy => ClientLifecycleMode::Initialize,
            Self::ModernFirst => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::LATEST],
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
        }
    }
}

/// Connects within the time that `settings` allow. If that fails, the child process is stopped.
pub(super) async fn open(
    settings: &Settings,
    scrubber: &Arc<Scrubber>,
    handshake: Handshake,
) -> Result<Connection, ConnectionFailure> {
    let inbox = Inbox::new(scrubber.clone());
    let (transport, process) = AnyTransport::open(&settings.transport, &inbox)?;
    let ready = tokio::select! {
        flood = inbox.flooded() => Err(ConnectionError::Flood(flood)),
        ready = handshake_and_list(settings, transport, &inbox, handshake) => ready,
    };
    match ready {
        Ok((service, sender, abandoned, list)) => {
            Ok(Connection { service, process, sender, inbox, abandoned, list })
        }
        Err(error) => Err(stop_process(flood_or(error, &inbox), process).await),
    }
}

type Ready = (RunningService<RoleClient, Handler>, Arc<RequestSender>, AbandonedRequests, ToolList);

/// Completes the handshake and lists the tools. If this fails or the future is dropped, the
/// connection is closed, which is the first step of stopping a child process.
async fn handshake_and_list(
    settings: &Settings,
    transport: AnyTransport,
    inbox: &Arc<Inbox>,
    handshake: Handshake,
) -> Result<Ready, ConnectionError> {
    let timed_out = |_| ConnectionError::ConnectTimeout(settings.connect_timeout);
    let deadline = Instant::now() + settings.connect_timeout;
    let service =
        timeout_at(deadline, transport.handshake(Handler::new(settings), handshake.mode()))
            .await
            .map_err(timed_out)??;
    let (sender, abandoned) = RequestSender::new(service.peer().clone(), inbox.clone());
    let list = timeout_at(deadline, listing::read(&sender)).await.map_err(timed_out);
    match list.and_then(|list| list.map_err(|error| ConnectionError::ListTools(cause(error)))) {
        Ok(list) => Ok((service, sender, abandoned, list)),
        Err(error) => {
            let _ = service.cancel().await;
            Err(error)
        }
    }
}

/// Returns the flood if the server floods the gateway, else `error`: a flood is the cause of any
/// other error.
pub(super) fn flood_or(error: ConnectionError, inbox: &Inbox) -> ConnectionError {
    inbox.flood().map_or(error, ConnectionError::Flood)
}

/// Stops the process of a connection that failed.
async fn stop_process(error: ConnectionError, process: Option<Process>) -> ConnectionFailure {
    let exit = match process {
        Some(process) => Some(process.stop().await),
        None => None,
    };
    ConnectionFailure { error, exit }
}

/// An outbox over one of the transports.
enum AnyTransport {
    Stdio(Outbox<ChildPipes>),
    Http(Outbox<Http>),
}

impl AnyTransport {
    fn open(
        transport: &Transport,
        inbox: &Arc<Inbox>,
    ) -> Result<(Self, Option<Process>), ConnectionError> {
        match transport {
            Transport::Stdio { command, args, env } => {
                let (process, pipes) = Process::spawn(command, args, env, inbox.clone())?;
                Ok((Self::Stdio(Outbox::new(pipes, inbox.clone())), Some(process)))
            }
            Transport::Http { url, headers } => {
                let http = http::transport(url, headers, inbox.clone())?;
                Ok((Self::Http(Outbox::new(http, inbox.clone())), None))
            }
        }
    }

    async fn handshake(
        self,
        handler: Handler,
        mode: ClientLifecycleMode,
    ) -> Result<RunningService<RoleClient, Handler>, ClientInitializeError> {
        match self {
            Self::Stdio(pipes) => handler.serve_with_lifecycle(pipes, mode).await,
            Self::Http(http) => handler.serve_with_lifecycle(http, mode).await,
        }
    }
}

/// Handles the requests of a server. A server may only send `ping`, which `rmcp` answers.
#[derive(Debug)]
pub(super) struct Handler(ClientConfig);

impl Handler {
    fn new(settings: &Settings) -> Self {
        let name = format!("Airlock-{}", settings.name);
        let identity = Implementation::new(name, env!("CARGO_PKG_VERSION"));
        Self(
            ClientConfig::new(ClientCapabilities::default(), identity)
                .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE),
        )
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        self.0.clone()
    }
}
