//! What the host lends to guests, one file an interface: what each function does, in the host's own
//! terms. The [`contract`](super::contract) links them under the names and types of each version.
//!
//! What every host call has in common is here: it counts, and it costs fuel by its size.

pub(super) mod call;
pub(super) mod config;
pub(super) mod http;
pub(super) mod kv;
pub(super) mod log;
pub(super) mod secrets;
pub(super) mod tools;
pub(super) mod wasi_http;

use airlock_core::tool::CallError;
use wasmtime::{StoreContextMut, Trap};

use super::instance::{State, Stop};

/// A guest's store, seen from a host call.
pub(super) type Store<'a> = StoreContextMut<'a, State>;

/// What any host call costs, in fuel.
pub(super) const BASE_FUEL: u64 = 1_000;

/// Counts a host call and charges it for `bytes`. By size and never by time, so that fuel stays
/// deterministic.
pub(super) fn charge(store: &mut Store<'_>, base: u64, bytes: usize) -> wasmtime::Result<()> {
    store.data_mut().count()?;
    burn(store, base + bytes as u64)
}

/// Charges for what a host call takes or returns.
///
/// The store's own fuel is left alone: setting it starts a new slice, so a guest that keeps calling
/// the host would never give way. What the host charges is a debt beside it, looked at here and
/// when the call ends.
pub(super) fn burn(store: &mut Store<'_>, fuel: u64) -> wasmtime::Result<()> {
    let left = store.get_fuel()?;
    let state = store.data_mut();
    state.fuel_debt = state.fuel_debt.saturating_add(fuel);
    if state.fuel_debt > left { Err(Trap::OutOfFuel.into()) } else { Ok(()) }
}

impl State {
    /// Counts a host call, here and for the whole chain.
    fn count(&mut self) -> wasmtime::Result<()> {
        let limit = self.limits.host_calls.into();
        let Some(left) = self.host_calls_left.checked_sub(1) else {
            return Err(self.stop(CallError::Budget { what: "host calls", limit }));
        };
        self.host_calls_left = left;
        match &self.chain {
            Some(chain) if !chain.meter().take_host_call() => {
                Err(self.stop(CallError::Budget { what: "host calls of the whole chain", limit }))
            }
            _ => Ok(()),
        }
    }

    /// Ends the guest because of `reason`; the returned error only unwinds it.
    pub(super) fn stop(&mut self, reason: CallError) -> wasmtime::Error {
        self.stopped.get_or_insert(reason);
        Stop.into()
    }

    /// Ends the guest if its result has more bytes of JSON text than it may.
    pub(super) fn check_result_bytes(&mut self, bytes: usize) -> wasmtime::Result<()> {
        let limit = self.limits.result_bytes;
        if bytes <= limit {
            return Ok(());
        }
        let tool = self.tool.clone();
        Err(self.stop(CallError::ResultTooLarge { tool, limit_bytes: limit as u64 }))
    }
}
