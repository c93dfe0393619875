//! Airlock: a hardened gateway between language models and tools.
//!
//! Every tool call, wherever it comes from, crosses one policy decision, and all code that the
//! operator did not write runs in a WebAssembly sandbox with hard limits. The map, in the direction
//! in which data flows:
//!
//! | module | what it is for |
//! |---|---|
//! | [`cli`] | the command line: flags → configuration → telemetry → gateway |
//! | [`config`] | the file as written → each module's settings |
//! | [`gateway`] | wires the parts and runs until told to stop; what an embedder builds |
//! | [`server`] | hyper: sockets, limits, drain, routes; one file an API |
//! | [`agent`] | the loop: ask the model, run what it may run, answer |
//! | [`model`] | providers of models |
//! | [`catalog`] | the registry: every tool under one name, and the view of a request |
//! | [`door`] | who may call what: `View`, `Origin`, `Admitted`, and the `Provider` trait of those who run calls |
//! | [`tool`] | tools as plain data: names, definitions, results, errors, policies |
//! | [`upstream`] | MCP servers as sources of tools |
//! | [`code_mode`] | a script in, a result out |
//! | [`plugin`] | what a plugin asks for, what it is granted, what was accepted of it |
//! | [`sandbox`] | wasmtime: a fresh instance for every call |
//! | [`egress`] | the one way out to the network |
//! | [`tls`] | the cryptography of outbound connections |
//! | [`store`] | what outlives a restart |
//! | [`schema`] | checks values against JSON Schemas that may have been written to do harm |
//! | [`json`] | JSON from outside, bounded in memory before it is parsed |
//! | [`text`] | text for people and models: cut, on one line, made visible |
//! | [`secret`] | credentials: where they come from, and where they must not appear |
//! | [`tenant`] | who calls are accounted to, and how resources are divided between them |
//! | [`demo`] | all of it at work in four scenes |
//!
//! A gateway in another program: [`Gateway::builder`], and `examples/embed.rs`.

pub mod agent;
pub mod catalog;
pub mod cli;
pub mod code_mode;
pub mod config;
pub mod demo;
pub mod gateway;
mod guests;
pub mod model;
mod native;
pub mod plugin;
pub mod server;
pub mod telemetry;
pub mod upstream;

pub use airlock_core::{door, json, schema, secret, tenant, text, tool, units};
pub use airlock_egress::{self as egress, tls};
pub use airlock_sandbox as sandbox;
pub use airlock_store as store;

pub use gateway::Gateway;
