//! The API of operators: the management API, the calls that wait for their decisions, and what they see of a running
//! gateway.
//!
//! An operator has a token, the session of a browser, or the token of the Unix socket. Each handler takes an
//! [`OperatorApi`], and an operator whose right was checked, or checks it. Settings are changed and read by the
//! [`Management`] of the gateway; the plugins and the MCP servers are behind traits too. Callers without a token of
//! an operator see their own part of the clients and of the calls that wait.
//!
//! | module | purpose |
//! |---|---|
//! | [`operator`], [`operator_login`] | who operates: tokens, sessions, logins at an identity provider |
//! | `credential` | checks the credential of an operator again |
//! | [`management`] | hands requests to the part of the gateway that changes its settings |
//! | [`admin`], [`explain`] | clients and their tools; which rules hide tools from a request |
//! | [`approvals`] | calls that wait for a decision |
//! | [`reload`], [`upstreams`] | plugins and the configuration; operations on MCP servers |
//! | [`console`] | events, live calls, runs, calls of an operator, dry connections, reports |
//! | `operator_events`, `event_bus`, `live_calls` | the stream of events, and what it reads: the latest events, the calls that run |
//! | `operator_runs`, `replays`, `tries` | runs of all callers; a run again, from its journal; a call of an operator |
//! | `definitions`, `dry_run`, `reports` | changed definitions of a server; a server that is not configured; reports of test suites |
//! | [`admin_page`] | the files of the page |
//! | `hooks`, `settings` | the parts of the gateway that operators use; settings |
//! | `api` | the state of all handlers |
//!
//! This crate has no routes: the server finds the handler of a path, and charges and counts the request.

pub mod admin;
pub mod admin_page;
mod api;
pub mod approvals;
pub mod console;
mod credential;
mod definitions;
mod dry_run;
mod event_bus;
pub mod explain;
mod hooks;
mod live_calls;
pub mod management;
pub mod operator;
mod operator_events;
pub mod operator_login;
mod operator_runs;
pub mod reload;
mod replays;
mod reports;
mod settings;
mod tries;
pub mod upstreams;

pub use self::{
    api::OperatorApi,
    event_bus::{EventBus, Topic},
    hooks::{
        BegunLogin, DefinitionsToAccept, DryRunError, DryRuns, Management, ManagementRefusal,
        ManagementRequest, NotAccepted, NotDone, NotReloaded, NotReplayed, OpenedSession,
        OperatorHooks, OperatorLoginRefusal, OperatorLogins, OperatorSession, Reload, Replays,
        SessionLookup, Upstreams,
    },
    live_calls::LiveCalls,
    settings::{ConfiguredOperator, ManagementSettings, OidcRole, OidcSettings, OperatorSettings},
};

#[cfg(test)]
mod tests;
