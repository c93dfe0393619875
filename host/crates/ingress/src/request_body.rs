//! The body of a request: from the gateway's own sockets, or from a server that passes requests on.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf as _, Bytes};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;

/// Reason that a body ended early.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request.
pub enum RequestBody {
    /// From a socket of the gateway.
    Socket(Incoming),
    /// From another server. Locked because requests are shared between threads, which such a body need not
    /// permit.
    PassedOn(Mutex<UnsyncBoxBody<Bytes, BodyError>>),
}

impl RequestBody {
    /// Returns the body of a request that another server passes on.
    pub fn passed_on<B>(body: B) -> Self
    where
        B: Body + Send + 'static,
        B::Error: Into<BodyError>,
    {
        Self::PassedOn(Mutex::new(ForeignBody(Box::pin(body)).boxed_unsync()))
    }

    /// Returns whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.is_end_stream()
    }

    /// Returns the most bytes that the body may have; `None` if it does not tell them.
    pub fn most_bytes(&self) -> Option<u64> {
        self.size_hint().upper()
    }
}

impl From<Incoming> for RequestBody {
    fn from(body: Incoming) -> Self {
        Self::Socket(body)
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Socket(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
            Self::PassedOn(body) => Pin::new(body.get_mut()).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Socket(body) => body.is_end_stream(),
            Self::PassedOn(body) => body.lock().is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Socket(body) => body.size_hint(),
            Self::PassedOn(body) => body.lock().size_hint(),
        }
    }
}

/// A body of another server, with its data as bytes.
struct ForeignBody<B>(Pin<Box<B>>);

impl<B> Body for ForeignBody<B>
where
    B: Body,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = self.0.as_mut().poll_frame(context).map_err(Into::into);
        // No copy, if the data are `Bytes`.
        polled.map_ok(|frame| frame.map_data(|mut data| data.copy_to_bytes(data.remaining())))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, convert::Infallible};

    use http_body_util::{Full, StreamBody};

    use super::*;

    #[tokio::test]
    async fn a_body_of_another_server_keeps_its_length_and_its_bytes() {
        let data = VecDeque::from(b"some text".to_vec());
        let body = RequestBody::passed_on(Full::new(data));
        assert_eq!(body.size_hint().exact(), Some(9));
        let read = body.collect().await.expect("it ends well").to_bytes();
        assert_eq!(read, &b"some text"[..]);
    }

    #[tokio::test]
    async fn an_error_of_another_server_ends_the_body() {
        let frames = [Ok(Frame::data(Bytes::from_static(b"a"))), Err("it broke")];
        let body = RequestBody::passed_on(StreamBody::new(futures_util::stream::iter(frames)));
        let error = body.collect().await.expect_err("it breaks");
        assert_eq!(error.to_string(), "it broke");
        let empty = futures_util::stream::empty::<Result<Frame<Bytes>, Infallible>>();
        let body = RequestBody::passed_on(StreamBody::new(empty));
        assert!(body.collect().await.expect("it ends").to_bytes().is_empty());
    }
}
