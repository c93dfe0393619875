//! Names and values that a changed script and its session agree on: `lower` writes them, `session` answers them.

use monty_types::{ExcType, MontyObject};

/// First argument of a call that the script awaits. The call is made when the script waits, at the
/// same time as the others that it waits for.
pub(crate) const LATER: MontyObject = MontyObject::Ellipsis;
/// [`LATER`] as it is written into a call.
pub(crate) const LATER_TEXT: &str = "...";
/// The class of what an awaited call gives if its tool failed.
pub(crate) const FAILED: &str = "_airlock_failed";
/// Function that a changed script calls with an object of that class, to raise the failure.
pub(crate) const RAISE: &str = "_airlock_raise";
/// Function that a changed script calls with a caught exception. Returns an object with the
/// exception's attributes, because the interpreter's exceptions have none.
pub(crate) const CAUGHT: &str = "_airlock_caught";
/// Function that a changed script calls with a caught exception, to write it for people. Returns
/// `None` for those that the interpreter writes itself.
pub(crate) const SHOWN: &str = "_airlock_shown";
/// Function that a changed script calls for `format % value`, by way of the prelude's
/// `_airlock_percent`.
pub(crate) const PERCENT: &str = "_airlock_formatted";
/// Start of the names under which a changed script finds the global functions and the inputs of its run.
pub(crate) const GIVEN: &str = "_airlock_given_";
/// The type that tools raise, as scripts write it.
pub(crate) const TOOL_ERROR: &str = "ToolError";
/// The interpreter's type of a tool's failure, because scripts cannot have exceptions of their own.
/// Nothing else raises it: what a run refuses is another.
pub(crate) const TOOL_ERROR_TYPE: ExcType = ExcType::OSError;
