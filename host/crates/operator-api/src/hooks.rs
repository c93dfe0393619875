//! The parts of the gateway that operators use, and that live as long as it.

mod logins;

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use futures_util::future::{self, BoxFuture};
use http::{Method, StatusCode};
use serde_json::{Map, Value};

pub use self::logins::{
    BegunLogin, OpenedSession, OperatorLoginRefusal, OperatorLogins, OperatorSession, SessionLookup,
};
use super::{event_bus::EventBus, live_calls::LiveCalls};
use airlock_agent::approvals::Approvals;
use airlock_core::{
    door::{Budget, Membership},
    operator::Operator,
    request_memory::{ChargeRefused, RequestCharge},
    secret::Secret,
};
use airlock_scripts::runs::RunOutcome;
use airlock_store::{Unavailable, runs::StoredRun};

/// Parts of the gateway that operators use, and that live as long as it.
pub struct OperatorHooks {
    /// Calls of MCP clients that wait for an approval.
    pub approvals: Approvals,
    /// The calls that run.
    pub live_calls: LiveCalls,
    /// Connects to servers that are not configured; `None` if this gateway cannot.
    pub dry_runs: Option<Arc<dyn DryRuns>>,
    /// Replays runs of scripts; `None` if this gateway cannot.
    pub replays: Option<Arc<dyn Replays>>,
    /// Events for operators.
    pub events: Arc<EventBus>,
    /// Reloads plugins and the configuration.
    pub plugins: Arc<dyn Reload>,
    /// Orders and diagnostics of MCP servers.
    pub upstreams: Arc<dyn Upstreams>,
    /// The management API; `None` if it is disabled.
    pub management: Option<Arc<dyn Management>>,
}

/// Reloads plugins and the configuration. The server does not depend on the way they are loaded.
pub trait Reload: Send + Sync + 'static {
    /// Returns the digest of the component that a client currently runs; `None` if there is no such
    /// plugin or if it is not loaded.
    fn digest(&self, client: &str) -> Option<String>;

    /// Takes the plugin entries of the configuration file, and reloads one client's plugin if its
    /// entry or its component has changed. Waits until no other request takes settings; dropping the future
    /// before that takes nothing. Returns whether it had changed. If its component cannot be
    /// loaded, the old plugin stays.
    fn reload<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<bool, NotReloaded>>;

    /// Takes the whole configuration file, and reloads every plugin whose component has changed. Returns
    /// what has changed, and the keys that wait for a restart. Waits until no other request takes settings;
    /// dropping the future before that takes nothing, and later does not cancel what it does.
    fn reload_all(&self) -> BoxFuture<'_, Result<Value, NotReloaded>>;
}

/// Reason that a plugin was not reloaded, as a message for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReloaded {
    /// No plugin has this name.
    #[error("no plugin is named {0:?}")]
    Unknown(String),
    /// The plugin differs from its accepted state or needs rights that are not granted: the
    /// operator must decide.
    #[error("{0}")]
    Undecided(String),
    /// The component is unusable.
    #[error("{0}")]
    Unusable(String),
    /// The configuration file, which is read again first, is invalid, or the gateway has none. Nothing has
    /// changed.
    #[error("the configuration file is invalid, so nothing was reloaded: {0}")]
    Configuration(String),
}

/// Operates MCP servers and reads their diagnostics. The server does not depend on the way
/// they are connected.
pub trait Upstreams: Send + Sync + 'static {
    /// Closes the connection to one instance of a server, or those to all, and opens new ones. Returns the
    /// reasons for which some of several instances are not connected; fails if none is. Dropping the future
    /// does not cancel the operation.
    fn reconnect<'a>(
        &'a self,
        client: &'a str,
        instance: Option<usize>,
    ) -> BoxFuture<'a, Result<Vec<String>, NotDone>>;

    /// Reads the list of tools of one server again. Returns the number of its tools.
    fn refresh<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<usize, NotDone>>;

    /// Returns the last lines that one instance of a server, or all, wrote to stderr, without secrets.
    fn logs(&self, client: &str, instance: Option<usize>) -> Result<Vec<String>, NotDone>;

    /// Describes the definitions of a server that have changed since they were accepted, as JSON text: at most `limit`
    /// of them from `offset`, each with the lines in which it differs. Blocks.
    fn definitions(&self, client: &str, limit: usize, offset: usize)
    -> Result<String, NotAccepted>;

    /// Accepts changed definitions of a server. `recorded` is awaited once they are known to be those that were shown;
    /// if it is false, nothing is accepted. Returns the names of the tools at the server.
    fn accept<'a>(
        &'a self,
        client: &'a str,
        wanted: DefinitionsToAccept,
        recorded: BoxFuture<'a, bool>,
    ) -> BoxFuture<'a, Result<Vec<String>, NotAccepted>>;

    /// Returns the names and transports of the servers that the configuration disables.
    fn disabled(&self) -> Vec<(String, &'static str)>;
}

/// Reason that an operation was not completed, as a message for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDone {
    /// No MCP server has this name.
    #[error("no MCP server is named {0:?}; one that is disabled must be enabled first")]
    Unknown(String),
    /// The server has no such instance, with a message.
    #[error("{0}")]
    NoInstance(String),
    /// An earlier request to reconnect is still being processed.
    #[error("reconnect already in progress for this client")]
    InProgress,
    /// The server failed, with the reason.
    #[error("{0}")]
    Failed(String),
    /// The gateway stops.
    #[error("the gateway stops")]
    Stopping,
}

/// Changed definitions of a server that an operator accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionsToAccept {
    /// Digest of the review that was shown.
    pub review: String,
    /// Tools whose changes are accepted; `None` for all of the review.
    pub tools: Option<BTreeSet<String>>,
}

/// Reason that changed definitions cannot be shown or were not accepted, as a message for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    /// No MCP server has this name.
    #[error("no MCP server is named {0:?}; one that is disabled must be enabled first")]
    Unknown(String),
    /// A tool has no change, with a message.
    #[error("{0}")]
    NoSuchChange(String),
    /// The server, or another operator, has changed them since.
    #[error("the definitions are not those that were shown; nothing was accepted: read them again")]
    Changed,
    /// Nothing of the server can be accepted, with the reason.
    #[error("nothing was accepted: {0}")]
    Unusable(String),
    /// The audit log cannot be written.
    #[error(
        "the acceptance cannot be recorded in the audit log, so nothing was accepted; try again later"
    )]
    NotRecorded,
    /// The lock file cannot be written, with the reason.
    #[error("nothing was accepted: {0}")]
    NotWritten(String),
}

/// Connects to servers that are not configured. The server does not depend on the way they are connected.
pub trait DryRuns: Send + Sync + 'static {
    /// Connects to the server of an element of `mcp.client_configs` for at most `limit`, and describes what was found:
    /// `state`, `tools`, `status`, `stderr` and `reason`. Each part of the description is charged before it is built.
    /// Nothing is kept, also if the future is dropped.
    fn connect<'a>(
        &'a self,
        element: Map<String, Value>,
        limit: Duration,
        charge: &'a RequestCharge,
    ) -> BoxFuture<'a, Result<Value, DryRunError>>;
}

/// Error of a dry connection.
#[derive(Debug, thiserror::Error)]
pub enum DryRunError {
    /// The element is not valid.
    #[error("{0}")]
    Element(String),
    /// The description has no room in the memory of requests.
    #[error(transparent)]
    Memory(#[from] ChargeRefused),
}

/// Replays runs. The server does not depend on the way scripts are run.
pub trait Replays: Send + Sync + 'static {
    /// Runs the script of a run with the answers of its journal, and returns its end. No tool is called. Dropping the
    /// future stops the script.
    fn replay(
        &self,
        stored: StoredRun,
        budget: Budget,
    ) -> BoxFuture<'_, Result<RunOutcome, NotReplayed>>;
}

/// Reason that a run was not replayed, as a message for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReplayed {
    /// Another run is being replayed.
    #[error("another run is being replayed at this gateway; try again in a moment")]
    Busy,
    /// The script cannot be run.
    #[error("the run cannot be replayed now: {0}")]
    Failed(String),
}

/// The management API: who operates the gateway, and changes of its settings while it runs. The
/// server checks that a request may be sent at all, reads its body, and asks here for the rest.
pub trait Management: Send + Sync + 'static {
    /// Finds the operator of a token. Compares digests, so the time of it does not leak the token.
    /// `None` if there is none, or if its token has expired.
    fn operator(&self, token: &str) -> Option<Arc<Operator>>;

    /// Answers a request to a path of the management API. `operator` is `None` if the request has no
    /// credential of one, which only the path that makes the first operator accepts. If the future is
    /// dropped, a change may have been made.
    fn answer<'a>(
        &'a self,
        operator: Option<&'a Operator>,
        request: ManagementRequest,
    ) -> BoxFuture<'a, Result<Value, ManagementRefusal>>;

    /// Shows the limits of a virtual key, and what is used of them. Fails if they are not known.
    fn quota<'a>(
        &'a self,
        membership: &'a Membership,
    ) -> BoxFuture<'a, Result<Value, ManagementRefusal>> {
        let key = membership.key_name.as_deref().unwrap_or_default();
        let message = format!("the limits of the key {key:?} are not known here");
        let status = StatusCode::NOT_FOUND;
        let refusal = ManagementRefusal { status, code: "not_found", message, retry_after: None };
        Box::pin(future::ready(Err(refusal)))
    }

    /// Returns the logins of operators with browsers; `None` if none are configured.
    fn logins(&self) -> Option<&dyn OperatorLogins> {
        None
    }
}

/// Request to the management API, whose body was read. `Debug` leaves the body out, which may have secrets.
pub struct ManagementRequest {
    /// Its method.
    pub method: Method,
    /// Its path, percent-encoded as it was sent.
    pub path: String,
    /// Its query, percent-encoded; empty if it has none.
    pub query: String,
    /// Its body; `None` if it is empty, or a component.
    pub body: Option<Value>,
    /// The component that is uploaded.
    pub component: Option<Vec<u8>>,
    /// The setup token of the first operator, if a header has one.
    pub setup_token: Option<Secret>,
    /// Credential of the operator's session; `None` if it has a token, or no credential.
    pub session: Option<Secret>,
}

impl fmt::Debug for ManagementRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path, .. } = self;
        f.debug_struct("ManagementRequest")
            .field("method", method)
            .field("path", path)
            .finish_non_exhaustive()
    }
}

/// Refusal of a request to the management API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagementRefusal {
    /// Status of the response.
    pub status: StatusCode,
    /// Stable code.
    pub code: &'static str,
    /// Reason, for people.
    pub message: String,
    /// Time after which the request may succeed; `None` if that does not depend on time.
    pub retry_after: Option<Duration>,
}

impl From<Unavailable> for ManagementRefusal {
    fn from(error: Unavailable) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: "store_unavailable",
            message: format!("the store cannot be used: {error}"),
            retry_after: None,
        }
    }
}
