//! The HTTP server: routes, admission, and the APIs of callers. One file per API.
//!
//! Connections are accepted and bounded by `airlock-ingress`. What operators use is in `airlock-operator-api`, and
//! the Responses API without its routes in `airlock-responses`.
//!
//! A request is admitted (`Host` and `Origin`, virtual key), charged for its memory, given a
//! [`View`](airlock_core::door::View), and handed to its API. The server makes no decisions about
//! tools. Browsers of users are served pages at which they log in at MCP servers, and
//! those of operators the redirects of their logins. Between requests it keeps stored responses, and the sessions and streams of MCP clients.
//! Through a Unix socket it serves the management API alone, to administrators. Another server of the process
//! passes requests on to a [`GatewayService`].
//! Errors have the form of OpenAI's errors, or of Anthropic's for clients of its API, and contain
//! no paths or host internals.

mod app;
mod audit_key;
mod availability;
mod chat;
mod cors;
mod debug;
mod execute;
mod health;
mod hooks;
mod http_metrics;
mod identity;
mod logins;
mod mcp;
mod messages;
mod metrics;
mod models;
mod options;
mod origin;
mod quota;
mod responses;
mod results;
mod router;
mod runs;
mod sender;
mod serve;
mod served;
mod service;
mod settings;
mod template;
mod trace;

use self::app::App;
pub use self::{
    app::{LiveApp, RequestSettings},
    debug::DebugSettings,
    hooks::{AuditKey, Gauge, Hooks},
    http_metrics::HttpMetrics,
    logins::{LoginOffer, LoginRefusal, UserLogins},
    metrics::ShownMetrics,
    serve::serve,
    service::{GatewayBody, GatewayService},
    settings::{BadSettings, Settings},
};

#[cfg(test)]
mod tests;
