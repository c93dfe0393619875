//! Polls an HTTP/1 connection once more for a request that hyper has read and not polled.
//!
//! hyper 1.12 reads the next request of a connection once it has the response to the last one and the end of the body of
//! that one. It polls the handler of the next request once that response is written. If the body ends while
//! the response is being written, nothing makes hyper poll the handler after the last write. The request would wait until its
//! client sends more: without a time limit, not counted for its tenant, and on a connection that cannot be evicted,
//! because a request is running.
//!
//! ```text
//! client ─GET, length 4─▶ hyper ─▶ handler ─▶ response, which does not fit into the socket
//! client ─body, GET─────▶ hyper, which reads both and waits for room
//! client ◀─response────── hyper, which does not poll the handler of the second request
//! ```

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
};

thread_local! {
    /// True if the connection that this thread polls has read a request that was not polled.
    static IS_UNPOLLED: Cell<bool> = const { Cell::new(false) };
}

/// The request of a connection that was read last.
#[derive(Default)]
pub(super) struct NextRequest {
    /// True if it was not polled yet. The task of the connection alone reads and writes it.
    is_unpolled: AtomicBool,
}

impl NextRequest {
    /// Notes that the connection that this thread polls has read a request.
    pub(super) fn note_read() {
        IS_UNPOLLED.set(true);
    }

    /// Notes that this thread polls the request.
    pub(super) fn note_polled() {
        IS_UNPOLLED.set(false);
    }

    /// Polls the connection: twice if its request was not polled by then.
    pub(super) fn poll<T>(&self, mut poll: impl FnMut() -> Poll<T>) -> Poll<T> {
        IS_UNPOLLED.set(self.is_unpolled.load(Ordering::Relaxed));
        let mut polled = poll();
        if polled.is_pending() && IS_UNPOLLED.get() {
            polled = poll();
        }
        self.is_unpolled.store(IS_UNPOLLED.replace(false), Ordering::Relaxed);
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::poll_fn, time::Duration};

    use bytes::Bytes;
    use futures_util::poll;
    use http::{Request, Response};
    use http_body_util::Full;
    use hyper::{body::Incoming, server::conn::http1, service::service_fn};
    use hyper_util::rt::TokioIo;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        time::timeout,
    };

    use super::*;
    use crate::body_wake::ConnectionWaker;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_read_while_the_last_response_is_written_gets_its_own() {
        let (mut client, server) = duplex(256);
        let handled = service_fn(|request: Request<Incoming>| {
            NextRequest::note_read();
            async move {
                NextRequest::note_polled();
                let body =
                    if request.uri().path() == "/first" { vec![b'x'; 4096] } else { vec![b'y'] };
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body))))
            }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(server), handled);
        let mut connection = Box::pin(connection);
        let waker = ConnectionWaker::default();
        let first = b"GET /first HTTP/1.1\r\ncontent-length: 4\r\n\r\n";
        client.write_all(first).await.expect("there is room");
        let begun = poll!(poll_fn(|context| waker.poll(connection.as_mut(), context)));
        assert!(begun.is_pending(), "the client has read nothing");
        let second = b"bodyGET /second HTTP/1.1\r\nconnection: close\r\n\r\n";
        client.write_all(second).await.expect("there is room");
        let serving = tokio::spawn(async move {
            poll_fn(|context| waker.poll(connection.as_mut(), context)).await
        });
        let mut responses = String::new();
        // The clock goes on by itself if nothing wakes the connection.
        let reading = timeout(Duration::from_secs(10), client.read_to_string(&mut responses));
        reading.await.expect("the second request is polled").expect("responses");
        assert!(responses.ends_with("\r\n\r\ny"), "{responses}");
        assert_eq!(responses.matches("HTTP/1.1 200").count(), 2);
        serving.await.expect("no panic").expect("good requests");
    }
}
