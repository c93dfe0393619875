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
    http::{self, Http},
    inbox::Inbox,
    link::{Abandoned, Link},
    listing::{self, List},
    outbox::Outbox,
    process::{Pipes, Process},
    trouble::{Failure, Trouble, cause},
};
use crate::secret::Scrubber;

/// A connected server that has listed its tools.
pub(super) struct Connection {
    pub(super) service: RunningService<RoleClient, Handler>,
    pub(super) process: Option<Process>,
    pub(super) link: Arc<Link>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) abandoned: Abandoned,
    pub(super) list: List,
}

/// Handshake to try first. The protocol has two eras: a legacy connection begins with `initialize`,
/// a modern one with `server/discover`. The modern handshake can cost ten seconds with a legacy
/// server, so the era of a server is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// The modern handshake, then the legacy one.
    Either,
    /// The legacy handshake.
    Legacy,
}

impl Era {
    /// Returns the era to try after an attempt with this one has failed.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Either => Self::Legacy,
            Self::Legacy => Self::Either,
        }
    }

    fn mode(self) -> ClientLifecycleMode {
        match self {
            Self::Legacy => ClientLifecycleMode::Initialize,
            Self::Either => ClientLifecycleMode::Auto {
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
    era: Era,
) -> Result<Connection, Failure> {
    let inbox = Inbox::new(scrubber.clone());
    let (wire, process) = Wire::open(&settings.transport, &inbox)?;
    let ready = tokio::select! {
        flood = inbox.flooded() => Err(Trouble::Flood(flood)),
        ready = make_ready(settings, wire, era) => ready,
    };
    match ready {
        Ok((service, link, abandoned, list)) => {
            Ok(Connection { service, process, link, inbox, abandoned, list })
        }
        Err(trouble) => Err(give_up(blame(trouble, &inbox), process).await),
    }
}

type Ready = (RunningService<RoleClient, Handler>, Arc<Link>, Abandoned, List);

/// Completes the handshake and lists the tools. If this fails or the future is dropped, the
/// connection is closed, which is the first step of stopping a child process.
async fn make_ready(settings: &Settings, wire: Wire, era: Era) -> Result<Ready, Trouble> {
    let late = |_| Trouble::Late(settings.connect_timeout);
    let deadline = Instant::now() + settings.connect_timeout;
    let service = timeout_at(deadline, wire.greet(Handler::new(settings), era.mode()))
        .await
        .map_err(late)??;
    let (link, abandoned) = Link::new(service.peer().clone());
    let list = timeout_at(deadline, listing::read(&link)).await.map_err(late);
    match list.and_then(|list| list.map_err(|error| Trouble::List(cause(error)))) {
        Ok(list) => Ok((service, link, abandoned, list)),
        Err(trouble) => {
            let _ = service.cancel().await;
            Err(trouble)
        }
    }
}

/// Returns the flood if the server floods the gateway, else `trouble`: a flood is the cause of any
/// other trouble.
pub(super) fn blame(trouble: Trouble, inbox: &Inbox) -> Trouble {
    inbox.flood().map_or(trouble, Trouble::Flood)
}

async fn give_up(trouble: Trouble, process: Option<Process>) -> Failure {
    let ending = match process {
        Some(process) => Some(process.stop().await),
        None => None,
    };
    Failure { trouble, ending }
}

/// An outbox over one of the transports.
enum Wire {
    Stdio(Outbox<Pipes>),
    Http(Outbox<Http>),
}

impl Wire {
    fn open(transport: &Transport, inbox: &Arc<Inbox>) -> Result<(Self, Option<Process>), Trouble> {
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

    async fn greet(
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
