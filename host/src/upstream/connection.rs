//! From settings to a server that has shaken hands and listed its tools.

use std::sync::Arc;

use rmcp::{
    ClientHandler, RoleClient,
    model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion},
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, NotificationContext, RunningService},
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

use super::{
    Settings, Transport,
    bounded::Bounded,
    http::{self, Http},
    link::{Abandoned, Link},
    listing,
    process::{Pipes, Process},
    trouble::{Failure, Trouble, cause},
};
use crate::catalog::ToolDefinition;

/// A server that is ready.
pub(super) struct Connection {
    pub(super) service: RunningService<RoleClient, Handler>,
    pub(super) process: Option<Process>,
    pub(super) link: Arc<Link>,
    pub(super) abandoned: Abandoned,
    pub(super) tools: Vec<ToolDefinition>,
    pub(super) changed: Arc<Notify>,
}

/// What to try first. The protocol has two eras: in one a connection begins with `initialize`, in the other with
/// `server/discover`. Asking an old server in new words can cost ten seconds, so what was found is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// The new way, then the old.
    Either,
    /// The old way.
    Legacy,
}

impl Era {
    /// What to try after an attempt in this way came to nothing.
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

/// Connects within the time that `settings` allow. A child that does not get so far is stopped.
pub(super) async fn open(settings: &Settings, era: Era) -> Result<Connection, Failure> {
    let deadline = Instant::now() + settings.connect_timeout;
    let late = || Trouble::Late(settings.connect_timeout);
    let (wire, process) = Wire::open(&settings.transport)?;
    let handler = Handler::new(settings);
    let changed = handler.changed.clone();
    let service = match timeout_at(deadline, wire.greet(handler, era.mode())).await {
        Ok(Ok(service)) => service,
        Ok(Err(error)) => return Err(give_up(Trouble::from(error), process).await),
        Err(_) => return Err(give_up(late(), process).await),
    };
    let (link, abandoned) = Link::new(service.peer().clone());
    let trouble = match timeout_at(deadline, listing::read(&link, &settings.name)).await {
        Ok(Ok(tools)) => return Ok(Connection { service, process, link, abandoned, tools, changed }),
        Ok(Err(error)) => Trouble::List(cause(error)),
        Err(_) => late(),
    };
    // Closes its stdin, the first step of ending it.
    let _ = service.cancel().await;
    Err(give_up(trouble, process).await)
}

async fn give_up(trouble: Trouble, process: Option<Process>) -> Failure {
    let ending = match process {
        Some(process) => Some(process.stop().await),
        None => None,
    };
    Failure { trouble, ending }
}

/// A way to a server.
enum Wire {
    Stdio(Bounded<Pipes>),
    Http(Bounded<Http>),
}

impl Wire {
    fn open(transport: &Transport) -> Result<(Self, Option<Process>), Trouble> {
        match transport {
            Transport::Stdio { command, args, env } => {
                let (process, pipes) = Process::spawn(command, args, env)?;
                Ok((Self::Stdio(Bounded::new(pipes)), Some(process)))
            }
            Transport::Http { url, headers } => Ok((Self::Http(Bounded::new(http::transport(url, headers)?)), None)),
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

/// What a server may ask of the gateway: nothing. It can say that its list has changed.
#[derive(Debug)]
pub(super) struct Handler {
    config: ClientConfig,
    changed: Arc<Notify>,
}

impl Handler {
    fn new(settings: &Settings) -> Self {
        let name = format!("Airlock-{}", settings.name);
        let identity = Implementation::new(name, env!("CARGO_PKG_VERSION"));
        let config = ClientConfig::new(ClientCapabilities::default(), identity)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
        Self { config, changed: Arc::default() }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
