//! Host functions about the running call.

use std::time::Instant;

use airlock_core::{
    door::Progress,
    tool::{CallError, Content},
};

use super::{BASE_FUEL, Store, charge, charge_call};

/// Bytes of a progress message; the rest is cut.
const MAX_MESSAGE_BYTES: usize = 1 << 10;

/// Returns the call's identifier; empty while a guest only describes itself.
pub(crate) fn id(store: &mut Store<'_>) -> wasmtime::Result<String> {
    charge_call(store, BASE_FUEL, 0)?;
    Ok(store.data().call.chain.as_ref().map(|chain| chain.id().to_string()).unwrap_or_default())
}

/// Returns the milliseconds until the host ends the call.
pub(crate) fn remaining_ms(store: &mut Store<'_>) -> wasmtime::Result<u64> {
    charge_call(store, BASE_FUEL, 0)?;
    let left = store.data().deadline.saturating_duration_since(Instant::now());
    Ok(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}

/// Returns false. Cancelling a call drops its future, which ends the guest; a guest that still runs
/// has not been cancelled.
pub(crate) fn is_cancelled(store: &mut Store<'_>) -> wasmtime::Result<bool> {
    charge_call(store, BASE_FUEL, 0)?;
    Ok(false)
}

/// Reports the progress of the call to its caller. Not counted as a host call: a tool that reports
/// each of its steps must not run out of host calls. The fuel bounds the number of reports, and the
/// caller gets no more than its queue of events takes.
pub(crate) fn progress(
    store: &mut Store<'_>,
    done: f64,
    total: Option<f64>,
    message: Option<String>,
) -> wasmtime::Result<()> {
    charge(store, BASE_FUEL + message.as_ref().map_or(0, String::len) as u64)?;
    let state = store.data();
    // MCP transports these numbers as JSON, which has no infinities and no NaN.
    let is_fit = done.is_finite() && total.is_none_or(f64::is_finite);
    if let Some(chain) = state.call.chain.as_ref().filter(|_| is_fit) {
        let message =
            message.map(|message| state.call.grants.scrubber.cut(&message, MAX_MESSAGE_BYTES));
        chain.reporter().progress(Progress { done, total, message });
    }
    Ok(())
}

/// Sends one part of the result ahead of the rest.
pub(crate) fn emit(store: &mut Store<'_>, mut part: Content) -> wasmtime::Result<()> {
    let size = part.size();
    charge_call(store, BASE_FUEL, size)?;
    let state = store.data_mut();
    let Some(left) = state.emit_bytes_left.checked_sub(size) else {
        let limit = state.call.limits.result_bytes as u64;
        return Err(state.stop(CallError::Budget { what: "bytes sent before the result", limit }));
    };
    state.emit_bytes_left = left;
    state.call.grants.scrubber.content(&mut part);
    if let Some(chain) = &state.call.chain {
        chain.reporter().emit(part);
    }
    Ok(())
}
