//! Codes of the errors of scripts and of stored runs.

use airlock_core::run::Refused;
use airlock_store::runs::RunError;

/// Code of the error of a script whose executor is being compiled.
pub(crate) const EXECUTOR_LOADING: &str = "executor_loading";
/// Code of the error of a decided call whose tool is not there now.
pub(super) const TOOL_ABSENT: &str = "tool_absent";

/// Returns the code of an error of stored runs, for callers.
pub fn code(error: &RunError) -> &'static str {
    match error {
        RunError::Unknown => "run_not_found",
        RunError::NoCall(_) => "call_not_found",
        RunError::Refused { refused: Refused::Running, .. } => "run_running",
        RunError::Refused { refused: Refused::Changed, .. } => "run_changed",
        RunError::Refused { refused: Refused::Ended, .. } => "run_ended",
        RunError::Refused { .. } => "run_refused",
        RunError::Unavailable(_) => "store_unavailable",
    }
}
