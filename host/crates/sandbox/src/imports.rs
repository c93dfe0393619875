//! Host functions that guests may import, one file an interface, in the host's own types. The
//! [`contract`](crate::contract) links them under the names and types of each version. Each call of
//! one is counted and [charged](crate::run::charge).

pub(super) mod config;
pub(super) mod context;
pub(super) mod http;
mod http_cost;
pub(super) mod kv;
pub(super) mod log;
pub(super) mod script;
pub(super) mod secrets;
pub(super) mod tools;
pub(super) mod wasi_http;

#[cfg(test)]
mod tests;
