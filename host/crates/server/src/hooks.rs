//! The parts of the gateway that the request handlers use, and that live as long as it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{http_metrics::HttpMetrics, logins::UserLogins, metrics::ShownMetrics};
use airlock_agent::ApprovalList;
use airlock_catalog::Catalog;
use airlock_core::door::LiveKeys;
use airlock_ingress::ListenerTls;
use airlock_operator_api::OperatorHooks;
use airlock_store::LazyDatabase;

/// Parts of the gateway that the request handlers use, and that live as long as it.
pub struct Hooks {
    /// All tools.
    pub catalog: Arc<Catalog>,
    /// Virtual keys.
    pub keys: LiveKeys,
    /// The list in which calls of models wait for a person's decision.
    pub waiting: Arc<dyn ApprovalList>,
    /// Additional fields of `GET /health`.
    pub gauges: Vec<Gauge>,
    /// Metrics of `GET /metrics`.
    pub metrics: ShownMetrics,
    /// Metrics of requests, which are among them.
    pub http: Arc<HttpMetrics>,
    /// The parts that operators use.
    pub operators: Arc<OperatorHooks>,
    /// Logins of users at MCP servers that act for them.
    pub logins: Arc<dyn UserLogins>,
    /// Database of responses.
    pub database: LazyDatabase,
    /// Cancelled once the settings that operators keep in the store were read, or there are none. Until
    /// then, requests are refused: a key or a client that the file has may have been revoked.
    pub settings_read: CancellationToken,
    /// TLS of the listener; `None` for plain HTTP.
    pub tls: Option<ListenerTls>,
    /// The public key of the audit log.
    pub audit_key: AuditKey,
}

/// Returns the public key of the audit log as text; `None` while there is no log. Must not block.
pub type AuditKey = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// Additional field of `GET /health`: its name, and a function that returns its value.
pub type Gauge = (&'static str, Box<dyn Fn() -> serde_json::Value + Send + Sync>);
