//! Calls of tools by guests: what they cost, and how a guest receives their results.

use airlock_core::tool::{CallError, ToolError, ToolOutput};
use airlock_strings::{MAX_NAME_BYTES, cut};
use tracing::warn;

use crate::run::{
    charge::charge,
    state::{GuestSide, State, Store},
};

/// Fuel that calling a tool costs in addition to [`BASE_FUEL`](crate::run::charge::BASE_FUEL).
pub(crate) const TOOL_FUEL: u64 = 9_000;

/// Result of a call.
pub(crate) type ToolReply = Result<ToolOutput, CallError>;

/// Charges fuel for the result of the tool that the guest calls `name`. Stops the guest if the guest
/// may not receive it.
pub(crate) fn receive<G: GuestSide>(
    store: &mut Store<'_, G>,
    name: &str,
    answer: ToolReply,
) -> wasmtime::Result<ToolReply> {
    let size = match &answer {
        Ok(output) => output.size(),
        Err(error) => error.tool_error().map_or(0, ToolError::size),
    };
    let answer = store.data_mut().take_result(answer, size)?;
    charge(store, size as u64)?;
    // The guest knows the tool by the name that it called, which may be that of a slot.
    Ok(answer.map_err(|error| error.as_called(&cut(name.to_owned(), MAX_NAME_BYTES))))
}

impl<G: GuestSide> State<G> {
    /// Takes the result of a finished call, `size` bytes. A missing approval further down the chain
    /// ends this guest too.
    fn take_result(&mut self, answer: ToolReply, size: usize) -> wasmtime::Result<ToolReply> {
        let Some(left) = self.result_bytes_left.checked_sub(size) else {
            let limit = self.call.limits.copied_bytes as u64 * 8;
            return Err(self.stop(CallError::budget("bytes of tool results", limit)));
        };
        self.result_bytes_left = left;
        match answer {
            Ok(output) => Ok(Ok(output)),
            Err(error) if error.is_unapproved() => Err(self.stop(error)),
            Err(error) => {
                // The guest receives fewer details than the operator, for whom this is the only
                // report of the cause.
                if let Some(cause) = std::error::Error::source(&error) {
                    warn!(code = error.code().as_str(), cause = %cause, "nested tool call failed");
                }
                Ok(Err(error))
            }
        }
    }
}
