//! What the host lends to guests, one file an interface, and what every host call has in common: it counts, and it costs
//! fuel by its size.

mod call;
mod log;
mod tools;

use wasmtime::{StoreContextMut, Trap, component::Linker};

use super::{
    bindings,
    instance::{State, Stop},
};
use crate::catalog::CallError;

/// Links what both worlds import. The functions are linked by hand, with the generated types: they charge fuel, and the
/// generated traits see the store only with the engine's concurrency support, which stays out of the build.
pub(super) fn link_shared(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    log::link(linker)?;
    tools::link(linker)
}

/// Links what only plugins import.
pub(super) fn link_call(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    bindings::call::add_to_linker::<State, Host>(linker, |state| state)
}

/// Marks the host's side of the generated traits.
struct Host;

impl wasmtime::component::HasData for Host {
    type Data<'a> = &'a mut State;
}

/// What any host call costs, in fuel.
const BASE_FUEL: u64 = 1_000;
/// What it costs on top to call a tool.
const TOOL_FUEL: u64 = 9_000;

/// Counts a host call and charges it for `bytes`. By size and never by time, so that fuel stays deterministic.
fn charge(store: &mut StoreContextMut<'_, State>, base: u64, bytes: usize) -> wasmtime::Result<()> {
    store.data_mut().count()?;
    burn(store, base + bytes as u64)
}

/// Charges for what a host call takes or returns.
///
/// The store's own fuel is left alone: setting it starts a new slice, so a guest that keeps calling the host would never give
/// way. What the host charges is a debt beside it, looked at here and when the call ends.
fn burn(store: &mut StoreContextMut<'_, State>, fuel: u64) -> wasmtime::Result<()> {
    let left = store.get_fuel()?;
    let state = store.data_mut();
    state.fuel_debt = state.fuel_debt.saturating_add(fuel);
    if state.fuel_debt > left { Err(Trap::OutOfFuel.into()) } else { Ok(()) }
}

impl State {
    /// Counts a host call.
    fn count(&mut self) -> wasmtime::Result<()> {
        let Some(left) = self.host_calls_left.checked_sub(1) else {
            let limit = self.limits.host_calls.into();
            return Err(self.stop(CallError::Budget { what: "host calls", limit }));
        };
        self.host_calls_left = left;
        Ok(())
    }

    /// Ends the guest because of `reason`; the returned error only unwinds it.
    pub(super) fn stop(&mut self, reason: CallError) -> wasmtime::Error {
        self.stopped.get_or_insert(reason);
        Stop.into()
    }
}
