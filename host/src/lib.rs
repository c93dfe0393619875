//! Airlock: a hardened gateway between language models and tools.
//!
//! Every tool call, whatever makes it, passes one policy decision. Plugins, guards and the scripts of models run in a
//! WebAssembly sandbox with hard limits. This package contains the command line, and re-exports the items of the
//! crates in `host/crates` that embedders use. The crates, in the direction of data flow:
//!
//! | crate | purpose |
//! |---|---|
//! | `cli` | the command line, with the feature of this name: flags → configuration → telemetry → gateway |
//! | `config-file` | the configuration file as it is written |
//! | `config-import` | the configuration of another program, translated |
//! | `plugin-cli` | the commands of `airlock plugin` |
//! | `terminal` | what commands share: output, questions, a gateway for the time of one command |
//! | [`config`], [`settings`] | the configuration file → the settings of each crate; their types |
//! | `gateway` | joins the parts and runs until shutdown; [`Gateway`] is the type that an embedder builds, with its requests, tools and servers |
//! | `ingress` | sockets and connections: TLS, the Unix socket, limits, eviction, drain; it knows no API |
//! | `server` | routes, admission, and the APIs of callers; one file per API |
//! | `operator-api` | the API of operators: management, approvals, events, diagnostics, logins |
//! | `responses` | OpenAI's Responses API without its routes: translation, stored responses |
//! | `replicas` | the gateways that share a store: forwards requests to the one that has the state |
//! | `http` | the parts of requests and responses that all APIs share: bodies, credentials, errors, streams |
//! | `requests` | the view of a request and its chats, whether it comes over HTTP or from the program |
//! | `mcp-server` | the gateway as an MCP server: sessions, `tools/list` and `tools/call` |
//! | `mcp-bridge` | forwards messages between stdin and stdout and a running gateway, for `airlock mcp --connect` |
//! | `agent` | the loop: ask the model, run the calls that policy permits, respond; results as models read them, pending approvals, recall |
//! | `model` | providers of models: addresses, sign-in, retries, fallbacks |
//! | `limits` | limits that hold for many requests on all gateways of a store: requests, calls, tokens, money |
//! | `conversation` | one typed conversation with a model, in the APIs of callers and providers |
//! | [`catalog`] | the registry: every tool under one name, and the view of a request |
//! | `core` | [`door`]: the policy decision; [`tool`]: tools as plain data; secrets, the protocol of a run |
//! | `bounds` | the limits of one call with their units; tenants and their shares of bounded resources; the memory of requests |
//! | `upstream` | MCP servers as sources of tools: supervision, pins, relay, status |
//! | `mcp-client` | the protocol towards one MCP server: link, handshake, transports |
//! | `mcp-oauth` | the credentials at one MCP server over HTTP: logins, exchanged tokens, headers; its settings |
//! | `scripts` | code mode: runs a script against the tools; journals, resuming, replay |
//! | [`runner`] | untrusted scripts inside a program, with its functions as tools; no gateway |
//! | `executors` | the executors of scripts, embedded |
//! | `plugin` | plugins: their rights and accepted state; loads and reloads them |
//! | `guards` | components of the operator that decide about the arguments and results of calls |
//! | `audit` | the log that a third party can check: lines, tree, signed checkpoints, proofs, exports |
//! | `lock` | `airlock.lock`: the accepted plugins and definitions |
//! | `circuit` | breakers of plugins whose calls keep failing |
//! | `compile` | components to native code, in a child process; its cache |
//! | [`sandbox`] | wasmtime: a fresh instance for every call |
//! | `egress` | the only path of plugins to the network; the client of providers; [`tls`] for every connection |
//! | `process` | child processes, confined |
//! | `registry` | components in OCI registries and at URLs: pull, push, download |
//! | `admin-page` | the admin page for operators: its files, embedded |
//! | `authoring` | `airlock plugin`: new, build, check, install |
//! | `management` | the management API: operators, and the settings that they change while the gateway runs |
//! | `identity` | access tokens of callers, and logins of operators at an identity provider |
//! | `tls` | certificates and keys: read, bounded and checked |
//! | `telemetry` | spans; the export of traces, metrics and log records over OTLP |
//! | `records` | the record of each call, decision and change: the call log, the audit log |
//! | `store` | state that survives a restart |
//! | `database` | statements on a file of `SQLite` or a server of `PostgreSQL` |
//! | `wire` | JSON-RPC, MCP's messages, versions and headers: both ends |
//! | `json`, `strings` | untrusted JSON, bounded, and its schemas; text for people and models |
//! | `demo` | the whole gateway at work in eight scenes |
//!
//! To embed a gateway in another program, see [`Gateway::builder`], [`Gateway::request`], the directory `examples`
//! and `docs/embedding.md`. To run scripts alone, see [`runner`], `examples/scripts.rs` and
//! `docs/scripts-library.md`.

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
mod demo;
#[cfg(feature = "cli")]
mod guests;
pub mod settings;
#[cfg(feature = "cli")]
mod telemetry;

pub use airlock_agent::{CallEnded, CallStarted};
pub use airlock_catalog as catalog;
pub use airlock_compile as compile;
pub use airlock_config as config;
pub use airlock_conversation as conversation;
pub use airlock_core::{
    door, model_control, request_memory::ChargeRefused, secret::Secret, tenant::Tenant, tool,
};
pub use airlock_egress::tls;
pub use airlock_gateway::{
    BadNativeTool, BadServer, CallReply, CallToApprove, ChatEvent, ChatEvents, ChatFailure,
    ChatReply, Gateway, GatewayBuilder, GatewayError, GatewayRequest, NativeTool, PendingApproval,
    ProgramServer, ProgramTools, Reloader, RequestBuilder, RequestError, ToolContext, ToolEffect,
};
pub use airlock_guards::GuardLoadError;
pub use airlock_ingress::{BodyError, PeerAddress, PeerCertificate};
pub use airlock_management::{NewKeyValue, SetupToken};
pub use airlock_mcp_client::{ConnectFailure, ServerStream, ServerTransport};
pub use airlock_model::{ModelFailure, ModelReply, ModelSource};
pub use airlock_runner as runner;
pub use airlock_sandbox as sandbox;
pub use airlock_server::{GatewayBody, GatewayService};
// Types of arguments and results derive its trait.
pub use schemars;
