//! Reasons that a request has no result.

use super::super::transport::SendError;
use airlock_wire::error::RpcError;

/// Reason that a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The server refused the request.
    #[error(transparent)]
    Refused(RpcError),
    /// The request was not sent, or its response not received.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The connection ended before the response arrived.
    #[error("the connection ended before the response")]
    Lost,
    /// The response is over a bound.
    #[error("the response is too large")]
    TooLarge,
    /// The response cannot be read.
    #[error("the response cannot be read: {0}")]
    Unreadable(&'static str),
}

impl AskError {
    /// Returns whether the server cannot have seen the request.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::Send(error) if error.is_unsent())
    }

    /// Returns whether the server cannot take the request because it does not read.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Send(SendError::Full))
    }
}
