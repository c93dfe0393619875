//! The management API: operators, and the settings that they change while gateways run.
//!
//! ```text
//! request ─ operator (server) ─ route ─┬─ client, key   a wanted element of the configuration
//!                                      │      │
//!                                      │   change        entries + it, merged and checked; stored; applied
//!                                      ├─ operator, setup
//!                                      └─ record         all changes, and how to revert one
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | `service` | [`Service`]: the API of a gateway, or of a command that has only the store |
//! | `route` | path and method → act, and the right that it needs |
//! | `body` | bodies of requests: bounded, unknown members refused |
//! | `change` | one change of an element: checked against the whole configuration, stored, applied |
//! | `client` | clients: added, updated, removed |
//! | `key` | virtual keys: made, updated, rotated, deleted |
//! | `operators` | operators, and the table by which their tokens are found |
//! | `setup` | the token by which the first operator is made |
//! | `preview` | what another configuration file would change |
//! | `record` | the record of changes |
//! | `token` | random credentials, shown once and kept as digests |
//! | `page` | lists in pages |
//!
//! Paths and bodies are those of Bifrost 2.x where it has them. The settings are elements of the
//! configuration file, in its own form; `airlock_config` merges and checks them, and no rule about them
//! is here.

mod body;
mod change;
mod client;
mod key;
mod operators;
mod page;
mod preview;
mod record;
mod refusal;
mod route;
mod service;
mod setup;
mod token;

pub use self::{
    preview::{Changed, Differences, Preview},
    service::{Apply, NotApplied, Service, ServiceSettings},
    setup::SetupToken,
};

#[cfg(test)]
mod tests;
