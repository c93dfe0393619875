//! Reads bodies of responses up to a limit.

use reqwest::Response;

use super::super::inbox::Inbox;

/// Reason that a body was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// The body is longer than the limit.
    #[error("the body has more than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// The connection broke off.
    #[error(transparent)]
    Broken(#[from] reqwest::Error),
}

/// Reads a body of at most `limit_bytes`. The length that the server announces is used only to
/// refuse a body early.
pub(crate) async fn read(
    mut response: Response,
    limit_bytes: usize,
    inbox: &Inbox,
) -> Result<Vec<u8>, BodyError> {
    let too_large = BodyError::TooLarge { limit_bytes };
    if response.content_length().is_some_and(|length| length > limit_bytes as u64) {
        return Err(too_large);
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        inbox.touch();
        if chunk.len() > limit_bytes - body.len() {
            return Err(too_large);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    async fn read(body: &str, limit_bytes: usize) -> Result<Vec<u8>, BodyError> {
        let (inbox, _unsolicited) = Inbox::new(Arc::default());
        super::read(http::Response::new(body.to_owned()).into(), limit_bytes, &inbox).await
    }

    #[tokio::test]
    async fn a_body_is_bounded_to_the_byte() {
        assert_eq!(read("abcd", 4).await.expect("it fits"), b"abcd");
        assert!(matches!(read("abcde", 4).await, Err(BodyError::TooLarge { limit_bytes: 4 })));
        assert_eq!(read("", 0).await.expect("it fits"), b"");
    }
}
