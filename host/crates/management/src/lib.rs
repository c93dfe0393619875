//! The management API: operators, and the settings that they change while gateways run.
//!
//! ```text
//! request ─ operator (server) ─ route ─┬─ client, key, element   a wanted element of the configuration
//!                                      │      │
//!                                      │   change        entries + it, merged and checked; stored; applied
//!                                      ├─ operator, setup
//!                                      └─ record         all changes, and how to revert one
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | `service` | [`Service`]: the API of a gateway, or of a command that has only the store |
//! | `gateway` | the running gateway, as the API needs it |
//! | `dispatch` | a request → its act → the method that does it |
//! | `route` | path and method → act, and the right that it needs |
//! | `body` | bodies of requests: bounded, unknown members refused |
//! | `change` | one change of an element: checked against the whole configuration, stored, applied |
//! | `client` | clients: added, updated, removed |
//! | `plugin` | plugins: uploaded, shown, accepted, granted |
//! | `key` | virtual keys: made, updated, rotated, deleted |
//! | `key_value` | credentials of virtual keys that have none in the configuration file |
//! | `kind` | the kinds of elements: names, paths, and members by which one names another |
//! | `element` | teams, customers, roles, environments, virtual MCPs, limits and prices of models |
//! | `limits` | budgets and rate limits with what is used of them, overrides, resets |
//! | `limit_members` | members of elements with limits, in the forms of Bifrost's bodies |
//! | `references` | elements that others name are not deleted |
//! | `config` | the switch of all tools, and the settings that need a restart |
//! | `operators` | operators, and the table by which their tokens are found |
//! | `oidc` | logins of operators at an identity provider |
//! | `sessions` | the sessions that follow: found, listed, ended |
//! | `setup` | the token by which the first operator is made |
//! | `preview` | what another configuration file would change |
//! | `record` | the record of changes |
//! | `timestamp` | times of the store, of requests and of responses |
//! | `token` | random credentials, shown once and kept as digests |
//! | `logs` | the call log: lists, statistics, histograms, erasure |
//! | `page` | lists in pages |
//!
//! Paths and bodies are those of Bifrost 2.x where it has them. The settings are elements of the
//! configuration file, in its own form; `airlock_config` merges and checks them, and no rule about them
//! is here.

mod body;
mod change;
mod client;
mod config;
mod dispatch;
mod element;
mod gateway;
mod key;
mod key_value;
mod kind;
mod limit_members;
mod limits;
mod logs;
mod oidc;
mod operators;
mod page;
mod plugin;
mod preview;
mod record;
mod references;
mod refusal;
mod route;
mod service;
mod sessions;
mod setup;
mod timestamp;
mod token;

pub use self::{
    config::RunningSettings,
    gateway::{Apply, Changed, Differences, FirstConnection, NotApplied, PluginState, Preview},
    key_value::NewKeyValue,
    oidc::OidcLogins,
    service::{Service, ServiceSettings},
    setup::SetupToken,
};

#[cfg(test)]
mod tests;
