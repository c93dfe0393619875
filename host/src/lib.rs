//! Airlock: a hardened gateway between language models and tools.
//!
//! Every tool call, wherever it comes from, crosses one policy decision, and all code that the operator did not write runs in
//! a WebAssembly sandbox with hard limits. The map, in the direction in which data flows:
//!
//! | module | what it is for |
//! |---|---|
//! | [`cli`] | the command line: flags → configuration → telemetry → gateway |
//! | [`config`] | the file as written → each module's settings |
//! | [`gateway`] | wires the parts and runs until told to stop; what an embedder builds |
//! | [`server`] | hyper: sockets, limits, drain, routes; one file an API |
//! | [`agent`] | the loop: ask the model, run what it may run, answer |
//! | [`model`] | providers of models |
//! | [`door`] | who may call what: `View`, `Origin`, `Admitted` |
//! | [`catalog`] | every tool under one name, and the `Provider` trait that runs it |
//! | [`upstream`] | MCP servers as sources of tools |
//! | [`code_mode`] | a script in, a result out |
//! | [`plugin`] | what a plugin asks for, what it is granted, what was accepted of it |
//! | [`sandbox`] | wasmtime: a fresh instance for every call |
//! | [`egress`] | the one way out to the network |
//! | [`tls`] | the cryptography of outbound connections |
//! | [`store`] | what outlives a restart |
//! | [`json`] | JSON from outside, bounded in memory before it is parsed |
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
pub mod door;
pub mod egress;
pub mod gateway;
mod guests;
pub mod json;
pub mod model;
mod native;
pub mod plugin;
pub mod sandbox;
pub mod secret;
pub mod server;
pub mod store;
pub mod telemetry;
pub mod tenant;
pub mod tls;
pub mod units;
pub mod upstream;

pub use gateway::Gateway;
