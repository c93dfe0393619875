//! Classifies the end of a call. Each row of this table was observed (see the hostile guests in the
//! tests).

use std::fmt::Write as _;

use airlock_core::tool::{CallError, Cause, ToolName};
use wasmtime::{Trap, WasmBacktrace, component::ResourceTableError};
use wasmtime_wasi::I32Exit;

use super::instance::{Ended, State};
use crate::wasi::NoScratch;

/// Message of wasmtime's error, of a private type, when a guest passes more bytes to the host than
/// `set_hostcall_fuel` allows.
const COPIES_TOO_MUCH: &str = "too much data is being copied between the host and the guest";
/// Message of wasmtime's error, which has no type of its own, when a guest has as many handles as
/// `set_max_component_handles` allows.
const HOLDS_TOO_MUCH: &str = "store handle limit exceeded";

/// A trap with the guest's last log line and its backtrace, for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{trap}{details}")]
struct Trapped {
    trap: String,
    details: String,
}

/// Turns the end of a call into its result.
pub(crate) fn classify<T>(ended: Ended<T>, mut state: State) -> Result<T, CallError> {
    let error = match ended {
        Ended::Returned(Ok(value)) => return Ok(value),
        Ended::Returned(Err(error)) => error,
        Ended::Cpu => {
            return Err(CallError::Cpu { tool: state.call.tool, limit: state.call.limits.cpu });
        }
        Ended::Deadline(limit) => return Err(CallError::Deadline { tool: state.call.tool, limit }),
    };
    if let Some(reason) = state.stopped.take() {
        return Err(reason);
    }
    let tool = state.call.tool.clone();
    let limits = state.call.limits;
    Err(match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => CallError::Fuel { tool, limit: limits.fuel },
        Some(Trap::StackOverflow) => CallError::Stack { tool },
        // A Rust guest that cannot allocate aborts with `unreachable`.
        Some(Trap::UnreachableCodeReached) if state.limiter.starved => CallError::Busy,
        Some(Trap::UnreachableCodeReached) if state.limiter.denied => {
            CallError::Memory { tool, limit_bytes: limits.memory_bytes as u64 }
        }
        Some(trap) => CallError::Trap { tool, trap: Box::new(trapped(*trap, &error, &state)) },
        None if is_pool_full(&error) => CallError::Busy,
        None if error.is::<I32Exit>() => CallError::Trap { tool, trap: exited(&error) },
        None if error.is::<NoScratch>() => CallError::Unavailable { tool, cause: error.into() },
        None if says(&error, COPIES_TOO_MUCH) => copied_too_much(tool, &error, &state),
        None if says(&error, HOLDS_TOO_MUCH) || is_table_full(&error) => {
            CallError::Budget { what: "handles at a time", limit: limits.handles as u64 }
        }
        // Growth that fails during instantiation is an error and not a trap.
        None if state.limiter.denied => {
            CallError::Memory { tool, limit_bytes: limits.memory_bytes as u64 }
        }
        None if state.limiter.starved => CallError::Busy,
        None => CallError::BadResult { tool, cause: error.into() },
    })
}

/// Returns the error of a result that is too large, or of arguments of a host call that are. Only a
/// host call has guest frames below it, and so a backtrace in its error.
fn copied_too_much(tool: ToolName, error: &wasmtime::Error, state: &State) -> CallError {
    let limit = state.call.limits.copied_bytes as u64;
    if error.is::<WasmBacktrace>() {
        CallError::Budget { what: "bytes copied to the host", limit }
    } else {
        CallError::ResultTooLarge { tool, limit_bytes: limit }
    }
}

fn says(error: &wasmtime::Error, text: &str) -> bool {
    error.chain().any(|cause| cause.to_string().contains(text))
}

/// Returns whether the error is that of a full resource table, in which the host keeps what it made
/// for the guest.
fn is_table_full(error: &wasmtime::Error) -> bool {
    matches!(error.downcast_ref(), Some(ResourceTableError::Full))
}

fn trapped(trap: Trap, error: &wasmtime::Error, state: &State) -> Trapped {
    let mut details = state
        .last_error_line
        .as_ref()
        .map(|line| format!("; its last log message: {line}"))
        .unwrap_or_default();
    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
        // Writing to a String cannot fail.
        let _ = write!(details, "\n{backtrace}");
    }
    Trapped { trap: trap.to_string(), details }
}

/// Returns the cause for a guest that exited instead of returning a result. This is a crash,
/// whatever the exit status.
fn exited(error: &wasmtime::Error) -> Cause {
    let status = error.downcast_ref::<I32Exit>().map_or(0, |exit| exit.0);
    format!("the guest exited with status {status} and returned no result").into()
}

fn is_pool_full(error: &wasmtime::Error) -> bool {
    error.is::<wasmtime::PoolConcurrencyLimitError>()
}
