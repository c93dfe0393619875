//! Servers that could not be asked, or whose response was lost.

use std::sync::Arc;

use airlock_core::tool::{CallError, Cause, ToolName};
use airlock_mcp_client::ConnectionError;

/// Reason that a server could not be asked or its response was lost. For the operator.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unavailable {
    #[error("it is not connected; nothing was sent")]
    NotConnected,
    #[error("it could not be started for the call; nothing was sent")]
    NotStarted(#[source] ConnectionError),
    #[error("no connection was opened for the caller; nothing was sent")]
    UserNotConnected(#[source] Arc<ConnectionError>),
    #[error("nothing was sent")]
    NotSent(#[source] Cause),
    #[error("the connection broke; the tool may have run")]
    ConnectionLost(#[source] Cause),
}

/// Returns the error of a call that found no way to the server.
pub(super) fn unavailable(tool: &ToolName, cause: Unavailable) -> CallError {
    let may_have_run = matches!(cause, Unavailable::ConnectionLost(_));
    let error = CallError::unavailable(tool.clone(), cause);
    if may_have_run { error } else { error.not_begun() }
}

/// Returns the error of a call that was not sent.
pub(crate) fn unavailable_before_sent(tool: &ToolName, cause: impl Into<Cause>) -> CallError {
    unavailable(tool, Unavailable::NotSent(cause.into()))
}
