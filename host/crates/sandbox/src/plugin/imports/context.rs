//! Host functions about the running call.

use std::time::Instant;

use airlock_core::{
    door::Progress,
    secret::{Scrubber, scrubbed},
    threads,
    tool::{CallError, Content},
};

use crate::{
    plugin::side::PluginSide,
    run::{
        charge::{BASE_FUEL, charge, charge_call},
        state::{State, Store},
    },
};

/// Most bytes of memory that a byte of JSON takes as a tree, rounded up: `[0],` takes 112.
const TREE_BYTES: usize = 128;

/// Returns the call's identifier; empty while a guest only describes itself.
pub(crate) fn id(store: &mut Store<'_, PluginSide>) -> wasmtime::Result<String> {
    charge_call(store, BASE_FUEL, 0)?;
    Ok(store.data().call.chain.as_ref().map(|chain| chain.id().to_string()).unwrap_or_default())
}

/// Returns the milliseconds until the host ends the call.
pub(crate) fn remaining_ms(store: &mut Store<'_, PluginSide>) -> wasmtime::Result<u64> {
    charge_call(store, BASE_FUEL, 0)?;
    let left = store.data().deadline.saturating_duration_since(Instant::now());
    Ok(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}

/// Reports the progress of the call to its caller. Not counted as a host call: a tool that reports
/// each of its steps must not run out of host calls. The fuel bounds the number of reports, and the
/// caller gets no more than its queue of events takes.
pub(crate) fn progress(
    store: &mut Store<'_, PluginSide>,
    done: f64,
    total: Option<f64>,
    message: Option<String>,
) -> wasmtime::Result<()> {
    charge(store, BASE_FUEL + message.as_ref().map_or(0, String::len) as u64)?;
    let state = store.data();
    // MCP transports these numbers as JSON, which has no infinities and no NaN.
    let is_fit = done.is_finite() && total.is_none_or(f64::is_finite);
    if let Some(chain) = state.call.chain.as_ref().filter(|_| is_fit) {
        let message = message.map(|message| {
            state.call.guest.rights.grants.scrubber.cut(&message, airlock_strings::MAX_LINE_BYTES)
        });
        chain.reporter().progress(Progress { done, total, message });
    }
    Ok(())
}

/// Keeps one part of the result, and sends it ahead of the rest. `json_bytes` is the length of the JSON in it,
/// which `convert` parses: a parsed document takes many times the memory of its text, so the limit
/// is checked before. A long part is parsed and redacted on blocking threads.
pub(crate) async fn emit(
    store: &mut Store<'_, PluginSide>,
    json_bytes: usize,
    convert: impl FnOnce() -> wasmtime::Result<Content> + Send + 'static,
) -> wasmtime::Result<()> {
    charge_call(store, BASE_FUEL, json_bytes)?;
    store.data_mut().room_for_part(json_bytes)?;
    // Until the result is complete, the part is in the memory of the host.
    store.data_mut().hold_part(json_bytes.saturating_mul(TREE_BYTES))?;
    let tenant = store.data().call.tenant().clone();
    let part = threads::read(&tenant, json_bytes, convert).await?;
    let cost = part.cost().max(json_bytes);
    charge(store, cost as u64)?;
    let state = store.data_mut();
    state.running.emit_bytes_left = state.room_for_part(cost)?;
    state.hold_part(cost)?;
    let scrubber = &state.call.guest.rights.grants.scrubber;
    let (part, _) = scrubbed(scrubber, &tenant, cost, part, Scrubber::content).await;
    if let Some(chain) = &state.call.chain {
        chain.reporter().preview(&part);
    }
    state.running.emitted.push(part);
    Ok(())
}

impl State<PluginSide> {
    /// Takes memory of the process for a part of the result, until the call ends. Ends the guest if there
    /// is none.
    pub(crate) fn hold_part(&mut self, bytes: usize) -> wasmtime::Result<()> {
        if self.running.result_memory.grow(bytes) {
            Ok(())
        } else {
            Err(self.stop(CallError::busy()))
        }
    }

    /// Returns the bytes that are left after a part of `bytes`. Ends the guest if there are none.
    fn room_for_part(&mut self, bytes: usize) -> wasmtime::Result<usize> {
        self.running.emit_bytes_left.checked_sub(bytes).ok_or_else(|| {
            let limit = self.call.limits.result_bytes as u64;
            self.stop(CallError::budget("bytes sent before the result", limit))
        })
    }
}
