//! The part that all benchmarks share: their arguments, their measurements and their report.
//!
//! - [`report`] is what a benchmark measured, as tables or as one JSON document
//! - [`latency`] is the arithmetic of load tests, [`run`] are requests one after the other and at once
//! - [`far`] is a network with a delay
//! - [`process`] is the CPU time and the memory of a process
//! - [`message`], [`sdk`], [`server`] and [`http_tool`] are the requests, a client and servers of MCP

pub mod far;
pub mod http_tool;
pub mod latency;
pub mod message;
pub mod process;
pub mod report;
pub mod run;
pub mod sdk;
pub mod server;

use std::{env, net::SocketAddr, time::Duration};

use tokio::runtime::{Builder, Runtime};

use crate::Gateway;

/// Returns whether to measure at full length. `cargo test` runs benchmarks too, to check that they
/// work; it passes no `--bench`.
pub fn is_full() -> bool {
    has_option("--bench")
}

/// Returns whether an argument of the program is `name`.
pub fn has_option(name: &str) -> bool {
    env::args().any(|argument| argument == name)
}

/// Returns the argument of the program that follows `name`.
pub fn option(name: &str) -> Option<String> {
    env::args().skip_while(|argument| argument != name).nth(1)
}

/// Creates the runtime that a gateway or an embedding program has.
pub fn runtime() -> Runtime {
    Builder::new_multi_thread().enable_all().build().expect("a runtime")
}

/// Creates a runtime of one thread, for clients and servers that must leave cores to the gateway.
pub fn runtime_of_one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Returns the socket of a gateway.
pub fn address(gateway: &Gateway) -> SocketAddr {
    let address = gateway.address().strip_prefix("http://").unwrap_or_default();
    address.parse().expect("the gateway announces an address")
}

/// Returns a time in microseconds.
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
