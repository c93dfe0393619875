//! The body of a request: from the gateway's own sockets, or from a server that passes requests on.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::{Buf as _, Bytes};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use parking_lot::Mutex;

use super::{body_wake::poll_body, connections::Seat};

/// Reason that a body ended early.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request, with what a gateway keeps of each request. It is not in the extensions of the request, whose
/// map takes an allocation for itself and one for each value.
pub struct RequestBody {
    source: ArrivingBody,
    seat: Option<Seat>,
    /// Counts the bytes of bodies that are read.
    received: Option<Arc<AtomicU64>>,
}

enum ArrivingBody {
    /// A socket of the gateway.
    Socket(Incoming),
    /// Another server. Locked because requests are shared between threads, which such a body need not
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
        Self::new(ArrivingBody::PassedOn(Mutex::new(ForeignBody(Box::pin(body)).boxed_unsync())))
    }

    fn new(source: ArrivingBody) -> Self {
        Self { source, seat: None, received: None }
    }

    /// Returns the body of a request that has a seat.
    pub fn with_seat(self, seat: Seat) -> Self {
        Self { seat: Some(seat), ..self }
    }

    /// Returns the seat of the request; `None` if another server passes it on.
    pub fn seat(&self) -> Option<&Seat> {
        self.seat.as_ref()
    }

    /// Sets the counter of the bytes that are read.
    pub fn count_in(&mut self, received: Arc<AtomicU64>) {
        self.received = Some(received);
    }

    /// Counts bytes of the body that were read.
    pub fn note_received(&self, bytes: usize) {
        if let Some(received) = &self.received {
            received.fetch_add(bytes as u64, Ordering::Relaxed);
        }
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
        Self::new(ArrivingBody::Socket(body))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.get_mut().source {
            ArrivingBody::Socket(body) => poll_body(body, context).map_err(Into::into),
            ArrivingBody::PassedOn(body) => Pin::new(body.get_mut()).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            ArrivingBody::Socket(body) => body.is_end_stream(),
            ArrivingBody::PassedOn(body) => body.lock().is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            ArrivingBody::Socket(body) => body.size_hint(),
            ArrivingBody::PassedOn(body) => body.lock().size_hint(),
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
    use std::{
        collections::VecDeque,
        convert::Infallible,
        future::{pending, poll_fn},
        pin::pin,
        sync::atomic::AtomicBool,
        task::Waker,
        time::Duration,
    };

    use http::{Request, Response};
    use http_body_util::{Full, StreamBody};
    use hyper::{server::conn::http1, service::service_fn};
    use hyper_util::rt::TokioIo;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::timeout,
    };

    use super::*;
    use crate::body_wake::ConnectionWaker;
    use airlock_core::wake::CountedWakes;

    #[tokio::test]
    async fn a_body_of_another_server_keeps_its_length_and_its_bytes() {
        let data = VecDeque::from(b"some text".to_vec());
        let body = RequestBody::passed_on(Full::new(data));
        assert_eq!(body.size_hint().exact(), Some(9));
        let read = body.collect().await.expect("it ends well").to_bytes();
        assert_eq!(read, &b"some text"[..]);
    }

    /// Begins to serve a request on a connection of HTTP/1, and reads its body in the poll in which the request arrives.
    /// Returns the number of times that the connection has woken its task by then.
    async fn wakes(request: &[u8]) -> usize {
        let (mut client, server) = tokio::io::duplex(1 << 10);
        client.write_all(request).await.expect("there is room");
        let has_read = Arc::new(AtomicBool::new(false));
        let noted = has_read.clone();
        let handled = service_fn(move |request: Request<Incoming>| {
            let noted = noted.clone();
            async move {
                let read = RequestBody::from(request.into_body()).collect().await;
                assert_eq!(read.expect("a body").to_bytes(), &b"text"[..]);
                noted.store(true, Ordering::Relaxed);
                pending::<Result<Response<Full<Bytes>>, Infallible>>().await
            }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(server), handled);
        let counted = Arc::new(CountedWakes::default());
        let task = Waker::from(counted.clone());
        let waker = ConnectionWaker::default();
        let polled = waker.poll(pin!(connection), &mut Context::from_waker(&task));
        assert!(polled.is_pending());
        assert!(has_read.load(Ordering::Relaxed), "the body was there");
        counted.taken()
    }

    #[tokio::test]
    async fn a_body_that_is_read_to_its_end_does_not_wake_its_connection() {
        assert_eq!(wakes(b"PUT / HTTP/1.1\r\ncontent-length: 4\r\n\r\ntext").await, 0);
    }

    /// Sends requests to a connection of HTTP/1 with a task of its own, which responds with the bodies that it has read.
    /// Returns all that it sends.
    async fn exchange(parts: &[&str]) -> String {
        let (mut client, server) = tokio::io::duplex(1 << 10);
        let handled = service_fn(|request: Request<Incoming>| async move {
            let read = RequestBody::from(request.into_body()).collect().await;
            let bytes = read.expect("a body").to_bytes();
            Ok::<_, Infallible>(Response::new(Full::new(bytes)))
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(server), handled);
        let mut connection = Box::pin(connection);
        let waker = ConnectionWaker::default();
        let serving = tokio::spawn(async move {
            poll_fn(|context| waker.poll(connection.as_mut(), context)).await
        });
        for part in parts {
            client.write_all(part.as_bytes()).await.expect("it is read");
            tokio::task::yield_now().await;
        }
        let mut text = String::new();
        client.read_to_string(&mut text).await.expect("a response");
        serving.await.expect("no panic").expect("good requests");
        text
    }

    const LAST: &str = "PUT / HTTP/1.1\r\nconnection: close\r\n";

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_to_its_end_however_it_arrives() {
        let next = format!("PUT / HTTP/1.1\r\ncontent-length: 4\r\n\r\npart{LAST}");
        let parts: [&[&str]; 5] = [
            &[LAST, "content-length: 8\r\n\r\npart", "part"],
            &[LAST, "transfer-encoding: chunked\r\n\r\n4\r\npart\r\n4\r\npart\r\n0\r\n\r\n"],
            &[LAST, "transfer-encoding: chunked\r\n\r\n", "8\r\npartpart", "\r\n0\r\n", "\r\n"],
            &[LAST, "expect: 100-continue\r\ncontent-length: 8\r\n\r\n", "part", "part"],
            &[next.as_str(), "content-length: 8\r\n\r\npart", "part"],
        ];
        let statuses: [&[&str]; 5] =
            [&["200"], &["200"], &["200"], &["100", "200"], &["200", "200"]];
        for (parts, expected) in parts.into_iter().zip(statuses) {
            // The clock goes on by itself if nothing wakes the connection.
            let sent = timeout(Duration::from_secs(10), exchange(parts)).await;
            let sent = sent.expect("the connection was woken");
            let found: Vec<_> =
                sent.split("HTTP/1.1 ").skip(1).map(|response| &response[..3]).collect();
            assert_eq!(found, expected, "{sent}");
            assert!(sent.ends_with("\r\n\r\npartpart"), "{sent}");
        }
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
