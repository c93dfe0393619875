//! Airlock: a hardened gateway between language models and tools.
//!
//! Every tool call, wherever it comes from, crosses one policy decision. All code that the operator
//! did not write runs in a WebAssembly sandbox with hard limits. The modules, in the direction of
//! data flow:
//!
//! | module | purpose |
//! |---|---|
//! | [`cli`] | the command line: flags → configuration → telemetry → gateway |
//! | [`config`] | the configuration file → the settings of each module |
//! | [`gateway`] | wires the parts and runs until shutdown; the type that an embedder builds |
//! | [`server`] | hyper: sockets, limits, drain, routes; one file per API |
//! | [`mcp`] | the gateway as an MCP server: messages, sessions, `tools/list` and `tools/call` |
//! | [`agent`] | the loop: ask the model, run the tool calls that policy permits, respond |
//! | [`model`] | model providers |
//! | [`results`] | results of tools as models read them: marked, shortened, kept |
//! | [`approvals`] | calls that wait for the decision of a person |
//! | [`recall`] | calls of the gateway's tools that a client does not send back, kept and put back |
//! | [`catalog`] | the registry: every tool under one name, and the view of a request |
//! | [`door`] | the policy decision: `View`, `Origin`, `Admitted`, and the `Provider` trait |
//! | [`run`] | the protocol of a run's journal: which calls were made, and which may be made now |
//! | [`memory`] | accounting for the memory of one request |
//! | [`tool`] | tools as plain data: names, definitions, results, errors, policies |
//! | [`upstream`] | MCP servers as sources of tools |
//! | [`code_mode`] | runs a script against the tools and returns its result |
//! | [`runs`] | runs of scripts: journals, decisions about their calls, resuming, replay |
//! | [`plugin`] | plugins: their rights and accepted state; loads and reloads them |
//! | [`sandbox`] | wasmtime: a fresh instance for every call |
//! | [`egress`] | the only path to the network |
//! | [`tls`] | the cryptography of outbound connections |
//! | [`store`] | state that survives a restart |
//! | [`schema`] | checks values against JSON Schemas that may be malicious |
//! | [`json`] | untrusted JSON, bounded in memory before it is parsed |
//! | [`limit`] | the limits of one call, in one table |
//! | [`text`] | text for people and models: cut, on one line, made visible |
//! | [`secret`] | credentials: their sources, and their redaction |
//! | [`tenant`] | the accounts that calls are charged to, and their shares of resources |
//! | [`demo`] | the whole gateway at work in six scenes |
//!
//! To embed a gateway in another program, see [`Gateway::builder`] and `examples/embed.rs`.

pub mod cli;
pub mod demo;
pub mod gateway;
mod guests;
mod native;
pub mod telemetry;

pub use airlock_agent::{self as agent, approvals, recall, results};
pub use airlock_catalog as catalog;
pub use airlock_config as config;
pub use airlock_core::{door, limit, memory, run, secret, tenant, tool, units};
pub use airlock_egress::{self as egress, tls};
pub use airlock_json::{self as json, schema};
pub use airlock_mcp_server as mcp;
pub use airlock_model as model;
pub use airlock_plugin as plugin;
pub use airlock_sandbox as sandbox;
pub use airlock_scripts::{self as code_mode, runs};
pub use airlock_server as server;
pub use airlock_store as store;
pub use airlock_strings as text;
pub use airlock_upstream as upstream;

pub use gateway::Gateway;
