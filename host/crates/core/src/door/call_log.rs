//! Log lines about calls that have ended, for the operator.

use std::{error::Error as _, time::Duration};

use airlock_strings::with_causes;
use tracing::{info, warn};

use crate::tool::CallError;

/// Logs a call that succeeded, and the causes of one that failed.
pub fn log_call(tool: &str, error: Option<&CallError>, duration: Duration) {
    if error.is_none() {
        info!(tool, ?duration, "tool call");
    }
    log_failure(tool, error);
}

/// Logs the causes of a failed call, which only the operator may see. Does nothing without an error
/// or without a cause.
pub fn log_failure(tool: &str, error: Option<&CallError>) {
    if let Some(error) = error
        && let Some(cause) = error.source()
    {
        warn!(tool, code = error.code().as_str(), cause = with_causes(cause), "tool call failed");
    }
}
