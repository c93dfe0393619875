//! Host functions that guests may import, one file an interface, in the host's own types. The
//! [`contract`](super::contract) links them under the names and types of each version.
//!
//! This file has the part that all host calls share: each one counts, and costs fuel by its size.

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

/// A guest's store during a host call.
pub(super) type Store<'a> = StoreContextMut<'a, State>;

/// Fuel that every host call costs.
pub(super) const BASE_FUEL: u64 = 1_000;

/// Counts a host call and charges fuel for `bytes`. The charge depends on size and never on time,
/// so that fuel stays deterministic.
pub(super) fn charge(store: &mut Store<'_>, base: u64, bytes: usize) -> wasmtime::Result<()> {
    store.data_mut().count()?;
    burn(store, base + bytes as u64)
}

/// Charges fuel for the input or output of a host call. Fails if the guest has no fuel left.
///
/// The store's own fuel counter is not changed: setting it starts a new slice, so a guest that
/// keeps calling the host would never yield. The charge is added to `fuel_debt` instead, which is
/// checked here and at the end of the call.
pub(super) fn burn(store: &mut Store<'_>, fuel: u64) -> wasmtime::Result<()> {
    let left = store.get_fuel()?;
    let state = store.data_mut();
    state.fuel_debt = state.fuel_debt.saturating_add(fuel);
    if state.fuel_debt > left { Err(Trap::OutOfFuel.into()) } else { Ok(()) }
}

impl State {
    /// Counts a host call, for this guest and for the whole chain. Stops the guest if a limit is
    /// reached.
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

    /// Records `reason` as the end of the guest. The returned error only unwinds the guest.
    pub(super) fn stop(&mut self, reason: CallError) -> wasmtime::Error {
        self.stopped.get_or_insert(reason);
        Stop.into()
    }

    /// Stops the guest if its result has more bytes of JSON text than `result_bytes` allows.
    pub(super) fn check_result_bytes(&mut self, bytes: usize) -> wasmtime::Result<()> {
        let limit = self.limits.result_bytes;
        if bytes <= limit {
            return Ok(());
        }
        let tool = self.tool.clone();
        Err(self.stop(CallError::ResultTooLarge { tool, limit_bytes: limit as u64 }))
    }
}
