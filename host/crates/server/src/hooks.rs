//! The parts of the gateway that the request handlers use, beside its tools and models.

use std::sync::{Arc, atomic::AtomicBool};

use airlock_identity::Verifier;
use futures_util::future::BoxFuture;
use http::{Method, StatusCode};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Replicas, logins::UserLogins, tls::ListenerTls};
use airlock_agent::{ApprovalList, approvals::Approvals, recall::Recall, results::Results};
use airlock_core::{operator::Operator, secret::Secret};
use airlock_scripts::runs::Runs;
use airlock_store::LazyDatabase;

/// Parts of the gateway that the request handlers use, beside its tools and models.
pub struct Hooks {
    /// Keeps large results of MCP servers.
    pub results: Results,
    /// Calls that clients do not send back.
    pub recall: Recall,
    /// Runs of scripts; `None` if none are kept.
    pub runs: Option<Runs>,
    /// The list in which calls of models wait for a person's decision.
    pub waiting: Arc<dyn ApprovalList>,
    /// Calls of MCP clients that wait for an approval.
    pub approvals: Approvals,
    /// Additional fields of `GET /health`.
    pub gauges: Vec<Gauge>,
    /// Metrics of `GET /metrics`.
    pub metrics: Registry,
    /// Reloads plugins.
    pub plugins: Arc<dyn Reload>,
    /// Orders and diagnostics of MCP servers.
    pub upstreams: Arc<dyn Upstreams>,
    /// Logins of users at MCP servers that act for them.
    pub logins: Arc<dyn UserLogins>,
    /// Database of responses.
    pub database: LazyDatabase,
    /// The gateways that share the store; `None` if this one neither is announced to them nor forwards
    /// requests.
    pub replicas: Option<Arc<Replicas>>,
    /// The management API; `None` if it is disabled.
    pub management: Option<Arc<dyn Management>>,
    /// Verifies access tokens at `/mcp`; `None` if only virtual keys are credentials.
    pub identity: Option<Verifier>,
    /// Cancelled once the settings that operators keep in the store were read, or there are none. Until
    /// then, requests are refused: a key or a client that the file has may have been revoked.
    pub settings_read: CancellationToken,
    /// True once every request needs a virtual key because of settings that were taken after the start,
    /// whatever `require_virtual_key` says. It never becomes false again.
    pub requires_key: Arc<AtomicBool>,
    /// TLS of the listener; `None` for plain HTTP.
    pub tls: Option<ListenerTls>,
}

/// Additional field of `GET /health`: its name, and a function that returns its value.
pub type Gauge = (&'static str, Box<dyn Fn() -> serde_json::Value + Send + Sync>);

/// Reloads plugins. The server does not depend on the way they are loaded.
pub trait Reload: Send + Sync + 'static {
    /// Returns the digest of the component that a client currently runs; `None` if there is no such
    /// plugin or if it is not loaded.
    fn digest(&self, client: &str) -> Option<String>;

    /// Takes the plugin entries of the configuration file, and reloads one client's plugin if its
    /// entry or its component has changed. Returns whether it had changed. If its component cannot be
    /// loaded, the old plugin stays.
    fn reload<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<bool, NotReloaded>>;
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
    /// The configuration file, which is read again first, is invalid. Nothing has changed.
    #[error("the configuration file is invalid, so nothing was reloaded: {0}")]
    Configuration(String),
}

/// Operates MCP servers and reads their diagnostics. The server does not depend on the way
/// they are connected.
pub trait Upstreams: Send + Sync + 'static {
    /// Closes the connection to one server and opens a new one. Dropping the future does not cancel
    /// the operation.
    fn reconnect<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<(), NotDone>>;

    /// Reads the list of tools of one server again. Returns the number of its tools.
    fn refresh<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<usize, NotDone>>;

    /// Returns the last lines that one server wrote to stderr, without secrets; `None` if there is
    /// no such server.
    fn logs(&self, client: &str) -> Option<Vec<String>>;

    /// Returns the names and transports of the servers that the configuration disables.
    fn disabled(&self) -> Vec<(String, &'static str)>;
}

/// Reason that an operation was not completed, as a message for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDone {
    /// No MCP server has this name.
    #[error("no MCP server is named {0:?}; one that is disabled must be enabled first")]
    Unknown(String),
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
}

/// Request to the management API, whose body was read.
#[derive(Debug)]
pub struct ManagementRequest {
    /// Its method.
    pub method: Method,
    /// Its path, percent-encoded as it was sent.
    pub path: String,
    /// Its query, percent-encoded; empty if it has none.
    pub query: String,
    /// Its body; `None` if it is empty.
    pub body: Option<Value>,
    /// The setup token of the first operator, if a header has one.
    pub setup_token: Option<Secret>,
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
}
