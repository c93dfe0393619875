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
    /// Returns whether the server cannot have acted on the request. It may have received and refused it.
    pub fn is_unsent(&self) -> bool {
        matches!(self, Self::Send(error) if error.is_unsent())
    }

    /// Returns whether the server cannot have received the request.
    pub fn is_undelivered(&self) -> bool {
        matches!(self, Self::Send(error) if error.is_undelivered())
    }

    /// Returns whether the server cannot take the request because it does not read.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Send(SendError::Full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_may_have_received_a_request_that_it_cannot_have_acted_on() {
        for (error, is_unsent, is_undelivered) in [
            (SendError::Full, true, true),
            (SendError::NotSent("away".into()), true, true),
            (SendError::LoginNeeded("no login".into()), true, false),
            (SendError::Declined("no token".into()), true, false),
            (SendError::Failed("reset".into()), false, false),
            (SendError::Closed, false, false),
        ] {
            let error = AskError::from(error);
            assert_eq!(
                (error.is_unsent(), error.is_undelivered()),
                (is_unsent, is_undelivered),
                "{error}"
            );
        }
    }
}
