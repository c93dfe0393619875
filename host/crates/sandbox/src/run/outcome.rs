//! Classifies the end of a call. Each row of this table was observed (see the hostile guests in the
//! tests).

use std::{fmt::Write as _, time::Duration};

use airlock_core::tool::{CallError, Cause, ErrorKind, HostCode, ReachedLimit, ToolName};
use wasmtime::{Trap, WasmBacktrace, component::ResourceTableError};

use super::state::{Call, GuestSide, State};
use crate::Limits;

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

/// End of a call, before its cause is classified.
pub(crate) enum GuestEnd<T> {
    /// The guest returned or trapped.
    Returned(wasmtime::Result<T>),
    /// The call used up its CPU time.
    Cpu,
    /// The call passed its deadline. Holds the time that it had.
    Deadline(Duration),
}

/// Turns the end of a call into its result.
pub(crate) fn classify<G: GuestSide, T>(
    ended: GuestEnd<T>,
    state: &mut State<G>,
) -> Result<T, CallError> {
    let error = match ended {
        GuestEnd::Returned(Ok(value)) => return Ok(value),
        GuestEnd::Returned(Err(error)) => error,
        GuestEnd::Cpu => return Err(Overrun::Cpu.error(&state.call)),
        GuestEnd::Deadline(limit) => return Err(Overrun::Deadline(limit).error(&state.call)),
    };
    if let Some(reason) = state.stopped.take() {
        return Err(reason);
    }
    let tool = state.call.tool.clone();
    let limits = state.call.limits;
    let error = match G::classify(&tool, error) {
        Ok(known) => return Err(known),
        Err(other) => other,
    };
    Err(match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => Overrun::Fuel.error(&state.call),
        Some(Trap::StackOverflow) => Overrun::Stack.error(&state.call),
        // A Rust guest that cannot allocate aborts with `unreachable`.
        Some(Trap::UnreachableCodeReached) if state.limiter.starved => CallError::busy(),
        Some(Trap::UnreachableCodeReached) if state.limiter.denied => {
            Overrun::Memory.error(&state.call)
        }
        Some(trapped) => {
            let last_line = state.last_error_line.as_deref();
            trap(tool, Box::new(describe(*trapped, &error, last_line)))
        }
        None if is_pool_full(&error) => CallError::busy(),
        None if says(&error, COPIES_TOO_MUCH) => copied_too_much(tool, &error, &limits),
        None if says(&error, HOLDS_TOO_MUCH) || is_table_full(&error) => {
            CallError::budget("handles at a time", limits.handles as u64)
        }
        // Growth that fails during instantiation is an error and not a trap.
        None if state.limiter.denied => Overrun::Memory.error(&state.call),
        None if state.limiter.starved => CallError::busy(),
        None => CallError::bad_result(tool, error),
    })
}

/// Returns the error of a result that is too large, or of arguments of a host call that are. Only a
/// host call has guest frames below it, and so a backtrace in its error.
fn copied_too_much(tool: ToolName, error: &wasmtime::Error, limits: &Limits) -> CallError {
    let limit = limits.copied_bytes;
    if error.is::<WasmBacktrace>() {
        CallError::budget("bytes copied to the host", limit as u64)
    } else {
        CallError::result_too_large(tool, limit)
    }
}

/// Returns the error of a guest that trapped. The trap is for the operator.
pub(crate) fn trap(tool: ToolName, trap: Cause) -> CallError {
    CallError::about(tool, ErrorKind::Internal, HostCode::Trap, ("tool ", " trapped"))
        .with_cause(trap)
}

/// Limit that a guest has reached.
pub(super) enum Overrun {
    Fuel,
    Cpu,
    Deadline(Duration),
    Memory,
    Stack,
}

impl Overrun {
    /// Returns the error of a call that the limit has ended.
    pub(super) fn error<G: GuestSide>(self, call: &Call<G>) -> CallError {
        self.error_for(&call.tool, G::IS_SCRIPT, &call.limits)
    }

    /// The error of a script has a remedy, because a model can do more about its own script than about
    /// a tool. The sandbox is gone then, and with it the line where the script was.
    fn error_for(self, tool: &ToolName, is_script: bool, limits: &Limits) -> CallError {
        let Limits { fuel, cpu, memory_bytes, .. } = *limits;
        let mut kind = ErrorKind::LimitReached;
        let mut remedy =
            "compute less: use fewer iterations, let a tool do the work, or split the script";
        let (code, limit, what) = match self {
            Self::Fuel => (
                HostCode::OutOfFuel,
                ReachedLimit::Amount(fuel),
                format!("used up its fuel of {fuel}"),
            ),
            Self::Cpu => (
                HostCode::CpuTime,
                ReachedLimit::Time(cpu),
                format!("used more than {cpu:?} of CPU time"),
            ),
            Self::Deadline(limit) => {
                kind = ErrorKind::Timeout;
                remedy = "make fewer calls, make them at the same time, or split the script";
                let what = format!("ran past its {limit:?} deadline");
                (HostCode::Deadline, ReachedLimit::Time(limit), what)
            }
            Self::Memory => {
                remedy = "keep less: take what you need of each result, or split the script";
                let what = format!("needed more than its {memory_bytes} bytes of memory");
                (HostCode::Memory, ReachedLimit::Amount(memory_bytes as u64), what)
            }
            Self::Stack => {
                kind = ErrorKind::Internal;
                remedy = "use a loop in place of recursion, and values that nest less";
                (
                    HostCode::StackOverflow,
                    ReachedLimit::Unnumbered,
                    "overflowed its stack".to_owned(),
                )
            }
        };
        let error = if is_script {
            let message =
                format!("the script {what}; the line where it stopped is not known; {remedy}");
            CallError::new(kind, code, message)
        } else {
            CallError::about(tool.clone(), kind, code, ("tool ", format!(" {what}")))
        };
        error.with_limit(limit)
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

fn describe(trap: Trap, error: &wasmtime::Error, last_line: Option<&str>) -> Trapped {
    let mut details =
        last_line.map(|line| format!("; its last log message: {line}")).unwrap_or_default();
    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
        // Writing to a String cannot fail.
        let _ = write!(details, "\n{backtrace}");
    }
    Trapped { trap: trap.to_string(), details }
}

fn is_pool_full(error: &wasmtime::Error) -> bool {
    error.is::<wasmtime::PoolConcurrencyLimitError>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_a_script_says_what_to_do_and_that_of_a_tool_does_not() {
        let of_tool = messages(false);
        assert_eq!(of_tool[0], "tool text-count used up its fuel of 20");
        for (of_tool, of_script) in of_tool.iter().zip(messages(true)) {
            let what = of_tool.strip_prefix("tool text-count ").expect("it names the tool");
            let expected = format!("the script {what}; the line where it stopped is not known; ");
            let remedy = of_script.strip_prefix(&expected).expect("it has a remedy");
            assert!(remedy.len() > 20, "{of_script}");
        }
    }

    fn messages(is_script: bool) -> [String; 5] {
        let tool = ToolName::alias("text-count");
        let limits = Limits { fuel: 20, ..Limits::PLUGIN };
        let late = Overrun::Deadline(Duration::from_secs(30));
        [Overrun::Fuel, Overrun::Cpu, late, Overrun::Memory, Overrun::Stack]
            .map(|overrun| overrun.error_for(&tool, is_script, &limits).to_string())
    }
}
