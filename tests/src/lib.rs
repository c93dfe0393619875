//! Harness of the tests: the real gateway as a child process, the servers that it talks to, and the
//! client's side.
//!
//! - [`Gateway`] serves on a free port, and is stopped as an operator would stop it; [`EventStream`]
//!   is a streamed response of it
//! - [`mcp`] is a client of its MCP endpoint
//! - [`Airlock`] is one run of the command line
//! - [`Setup`] and [`Client`] write the configuration of either
//! - [`peers`] are real MCP servers and real clients; [`misbehaving()`] is an MCP server of this
//!   repository that misbehaves on request
//! - [`Service`] is a model provider that sends the responses of a test, whole or streamed, and
//!   records the requests
//! - [`Collector`] receives traces, metrics and log records over OTLP
//! - [`Embedded`] is the gateway in the test's own process
//! - [`guests`] are the components, [`wat`] writes more of them as text; [`component`] changes
//!   their embedded sections
//! - [`languages`] are the plugins that the command line builds
//! - [`mod@bench`] is what the benchmarks share
//! - [`commitment()`] is how a record proves what a call was about
//! - [`misdeeds`] lists attacks by guests, and how each must end
//! - [`lab`] has the attacks of the lab, and the model that obeys them

#![allow(clippy::missing_panics_doc, reason = "a harness tells of failure by panicking")]

mod airlock;
pub mod bench;
pub mod collector;
mod commitment;
pub mod component;
mod embedded;
mod gateway;
pub mod guests;
pub mod lab;
pub mod languages;
pub mod mcp;
pub mod misdeeds;
pub mod peers;
pub mod service;
mod setup;
mod stream;
mod upstream;
pub mod wait;
pub mod wat;

use std::path::Path;

pub use self::{
    airlock::{Airlock, Finished, binary, example_binary},
    collector::Collector,
    commitment::commitment,
    embedded::{BUDGET, Embedded},
    gateway::{Gateway, Reply},
    service::Service,
    setup::{Client, OPERATOR, Setup},
    stream::EventStream,
    upstream::{MisbehavingHttp, misbehaving},
};

/// Returns the directory of the whole project.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this crate is a directory of the project")
}
