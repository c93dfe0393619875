//! The HTTP server, on hyper: sockets, limits, drain, routes. One file per API.
//!
//! A request is admitted (`Host` and `Origin`, virtual key), charged for its memory, given a
//! [`View`](airlock_core::door::View), and handed to its API. The server makes no decisions about
//! tools. Browsers of users are served pages at which they log in at MCP servers, and
//! those of operators the redirects of their logins. Between requests it keeps stored responses, and the sessions and streams of MCP clients.
//! Through a Unix socket it serves the management API alone, to administrators. Another server of the process
//! passes requests on to a [`GatewayService`].
//! Errors have the form of OpenAI's errors, or of Anthropic's for clients of its API, and contain
//! no paths or host internals.

mod activity;
mod admin;
mod admin_page;
mod alias;
mod app;
mod approvals;
mod audit_key;
mod auth;
mod availability;
mod body;
mod chat;
mod connections;
mod console;
mod cors;
mod debug;
mod dry_run;
mod event_bus;
mod events;
mod execute;
mod explain;
mod health;
mod hooks;
mod http_metrics;
mod identity;
mod ingress;
mod listen;
mod live_calls;
mod logins;
mod management;
mod mcp;
mod memory;
mod messages;
mod metrics;
mod models;
mod operator;
mod operator_events;
mod operator_login;
mod operator_runs;
mod options;
mod origin;
mod peer;
mod quota;
mod reload;
mod replicas;
mod reports;
mod request_body;
mod respond;
mod responses;
mod results;
mod router;
mod runs;
mod sender;
mod service;
mod settings;
pub mod socket;
mod tls;
mod trace;
mod tries;
mod upstreams;
mod work;

use self::app::App;
pub use self::{
    app::{LiveApp, RequestSettings},
    debug::DebugSettings,
    dry_run::DryRuns,
    event_bus::{EventBus, Topic},
    hooks::{
        AuditKey, Gauge, Hooks, Management, ManagementRefusal, ManagementRequest, NotDone,
        NotReloaded, Reload, Upstreams,
    },
    http_metrics::HttpMetrics,
    ingress::{PeerAddress, PeerCertificate},
    listen::serve,
    live_calls::LiveCalls,
    logins::{LoginOffer, LoginRefusal, UserLogins},
    operator_login::{
        BegunLogin, OpenedSession, OperatorLoginRefusal, OperatorLogins, OperatorSession,
    },
    replicas::{BadReplicaTls, NoReplicas, ReplicaTls, Replicas},
    responses::BuiltinTools,
    service::{GatewayBody, GatewayService},
    settings::{
        BadSettings, ConfiguredOperator, ManagementSettings, OidcRole, OidcSettings, Settings,
    },
    tls::{BadTls, ClientAuth, ListenerTls, TlsProblem, TlsSettings, Untimely},
};
pub use airlock_store::responses::ResponseBounds;

#[cfg(test)]
mod tests;
