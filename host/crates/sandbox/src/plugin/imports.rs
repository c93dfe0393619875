//! Host functions that only plugins may import, one file an interface, in the host's own types.

pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod http;
mod http_cost;
pub(crate) mod kv;
pub(crate) mod secrets;
pub(crate) mod tools;
pub(crate) mod wasi_http;

#[cfg(test)]
mod tests;
