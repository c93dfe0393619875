//! Classifies the end of a call. Each row of this table was observed (see the hostile guests in the
//! tests).

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use airlock_core::tool::{CallError, Cause, ErrorKind, Limit, ToolName};
use wasmtime::{Trap, WasmBacktrace, component::ResourceTableError};
use wasmtime_wasi::I32Exit;

use super::instance::{Call, Ended, Guest, State};
use crate::wasi::NoScratch;

/// Code of the error of a guest that used more CPU time than its limit.
pub(super) const CPU_TIME: &str = "cpu_time";
/// Code of the error of a guest that failed because it needed more memory than its limit.
pub(super) const MEMORY: &str = "memory";
/// Code of the error of a guest that burnt all its fuel.
pub(super) const OUT_OF_FUEL: &str = "out_of_fuel";
/// Code of the error of a guest that overflowed its stack.
pub(super) const STACK_OVERFLOW: &str = "stack_overflow";
/// Code of the error of a guest that trapped.
pub(super) const TRAP: &str = "trap";

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
        Ended::Cpu => return Err(cpu_time(&state.call)),
        Ended::Deadline(limit) => return Err(deadline(&state.call, limit)),
    };
    if let Some(reason) = state.stopped.take() {
        return Err(reason);
    }
    let tool = state.call.tool.clone();
    let limits = state.call.limits;
    Err(match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => out_of_fuel(&state.call),
        Some(Trap::StackOverflow) => stack_overflow(&state.call),
        // A Rust guest that cannot allocate aborts with `unreachable`.
        Some(Trap::UnreachableCodeReached) if state.limiter.starved => CallError::busy(),
        Some(Trap::UnreachableCodeReached) if state.limiter.denied => memory(&state.call),
        Some(trapped) => trap(tool, Box::new(describe(*trapped, &error, &state))),
        None if is_pool_full(&error) => CallError::busy(),
        None if error.is::<I32Exit>() => trap(tool, exited(&error)),
        None if error.is::<NoScratch>() => CallError::unavailable(tool, error),
        None if says(&error, COPIES_TOO_MUCH) => copied_too_much(tool, &error, &state),
        None if says(&error, HOLDS_TOO_MUCH) || is_table_full(&error) => {
            CallError::budget("handles at a time", limits.handles as u64)
        }
        // Growth that fails during instantiation is an error and not a trap.
        None if state.limiter.denied => memory(&state.call),
        None if state.limiter.starved => CallError::busy(),
        None => CallError::bad_result(tool, error),
    })
}

/// Returns the error of a result that is too large, or of arguments of a host call that are. Only a
/// host call has guest frames below it, and so a backtrace in its error.
fn copied_too_much(tool: ToolName, error: &wasmtime::Error, state: &State) -> CallError {
    let limit = state.call.limits.copied_bytes;
    if error.is::<WasmBacktrace>() {
        CallError::budget("bytes copied to the host", limit as u64)
    } else {
        CallError::result_too_large(tool, limit)
    }
}

/// Returns the error of a guest that burnt all its fuel.
pub(super) fn out_of_fuel(call: &Call) -> CallError {
    let limit = call.limits.fuel;
    let what = format_args!("used up its fuel of {limit}");
    overran(call, OUT_OF_FUEL, Limit::Amount(limit), what)
}

fn cpu_time(call: &Call) -> CallError {
    let limit = call.limits.cpu;
    overran(
        call,
        CPU_TIME,
        Limit::Time(limit),
        format_args!("used more than {limit:?} of CPU time"),
    )
}

fn deadline(call: &Call, limit: Duration) -> CallError {
    let what = format_args!("ran past its {limit:?} deadline");
    overran(call, CallError::DEADLINE, Limit::Time(limit), what)
}

fn memory(call: &Call) -> CallError {
    let limit = call.limits.memory_bytes as u64;
    let what = format_args!("needed more than its {limit} bytes of memory");
    overran(call, MEMORY, Limit::Amount(limit), what)
}

fn stack_overflow(call: &Call) -> CallError {
    overran(call, STACK_OVERFLOW, Limit::Unnumbered, format_args!("overflowed its stack"))
}

/// Returns the error of a guest that trapped. The trap is for the operator.
pub(super) fn trap(tool: ToolName, trap: Cause) -> CallError {
    CallError::about(tool, ErrorKind::Internal, TRAP, ("tool ", " trapped")).with_cause(trap)
}

/// Returns the error of a guest that a limit has ended. That of a script has a remedy, because a model
/// can do more about its own script than about a tool. The sandbox is gone then, and with it the line
/// where the script was.
fn overran(call: &Call, code: &'static str, limit: Limit, what: fmt::Arguments<'_>) -> CallError {
    let (kind, remedy) = match code {
        CallError::DEADLINE => (
            ErrorKind::Timeout,
            "make fewer calls, make them at the same time, or split the script",
        ),
        MEMORY => (
            ErrorKind::LimitReached,
            "keep less: take what you need of each result, or split the script",
        ),
        STACK_OVERFLOW => {
            (ErrorKind::Internal, "use a loop in place of recursion, and values that nest less")
        }
        _ => (
            ErrorKind::LimitReached,
            "compute less: use fewer iterations, let a tool do the work, or split the script",
        ),
    };
    let error = if matches!(call.guest, Guest::Script(_)) {
        let message =
            format!("the script {what}; the line where it stopped is not known; {remedy}");
        CallError::new(kind, code, message)
    } else {
        CallError::about(call.tool.clone(), kind, code, ("tool ", format!(" {what}")))
    };
    error.with_limit(limit)
}

fn says(error: &wasmtime::Error, text: &str) -> bool {
    error.chain().any(|cause| cause.to_string().contains(text))
}

/// Returns whether the error is that of a full resource table, in which the host keeps what it made
/// for the guest.
fn is_table_full(error: &wasmtime::Error) -> bool {
    matches!(error.downcast_ref(), Some(ResourceTableError::Full))
}

fn describe(trap: Trap, error: &wasmtime::Error, state: &State) -> Trapped {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use airlock_core::tool::ClientName;
    use futures_util::future::BoxFuture;

    use super::*;
    use crate::{
        Bindings, Limits, ScriptAnswer, ScriptCall, ScriptCalls, run::instance::ScriptSide,
    };

    #[test]
    fn a_limit_of_a_script_says_what_to_do_and_that_of_a_tool_does_not() {
        let plugin = Guest::Plugin(ClientName::parse("text").expect("a name"), Arc::default());
        let script =
            ScriptSide { bindings: Arc::new(Bindings::default()), calls: Arc::new(Uncalled) };
        let of_tool = messages(plugin);
        assert_eq!(of_tool[0], "tool text-count used up its fuel of 20");
        for (of_tool, of_script) in of_tool.iter().zip(messages(Guest::Script(script))) {
            let what = of_tool.strip_prefix("tool text-count ").expect("it names the tool");
            let expected = format!("the script {what}; the line where it stopped is not known; ");
            let remedy = of_script.strip_prefix(&expected).expect("it has a remedy");
            assert!(remedy.len() > 20, "{of_script}");
        }
    }

    fn messages(guest: Guest) -> [String; 5] {
        let limits = Limits { fuel: 20, ..Limits::PLUGIN };
        let call = Call::denied(ToolName::alias("text-count"), guest, limits);
        let late = deadline(&call, Duration::from_secs(30));
        [out_of_fuel(&call), cpu_time(&call), late, memory(&call), stack_overflow(&call)]
            .map(|error| error.to_string())
    }

    struct Uncalled;
    impl ScriptCalls for Uncalled {
        fn make(
            &self,
            _: Vec<ScriptCall>,
            _: bool,
        ) -> BoxFuture<'_, Result<Vec<ScriptAnswer>, CallError>> {
            Box::pin(async { Err(CallError::cancelled()) })
        }
    }
}
