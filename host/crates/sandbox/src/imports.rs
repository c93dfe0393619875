//! Host functions that guests may import, one file an interface, in the host's own types. The
//! [`contract`](crate::contract) links them under the names and types of each version. Each call of
//! one is counted and charged by the [`meter`](crate::run::meter).

pub(super) mod config;
pub(super) mod context;
pub(super) mod http;
pub(super) mod kv;
pub(super) mod log;
pub(super) mod script;
pub(super) mod secrets;
pub(super) mod tools;
pub(super) mod wasi_http;

use wasmtime::StoreContextMut;

use crate::run::instance::State;
pub(crate) use crate::run::meter::{charge, charge_call};

/// A guest's store during a host call.
pub(super) type Store<'a> = StoreContextMut<'a, State>;

/// Fuel that every host call costs.
pub(super) const BASE_FUEL: u64 = 1_000;

#[cfg(test)]
mod tests;
