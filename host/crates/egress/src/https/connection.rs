//! One connection, which the task that uses it polls itself.
//!
//! With a task of its own, each request and each part of a response would wake first that task and then the one that
//! waits, often on different threads. hyper also wakes a connection for what its user does: for a request that is
//! sent, and for a part of a body that is taken. The user polls the connection after it, so these wake-ups are left out.
//!
//! ```text
//! task ─▶ send, poll_frame ─▶ connection ─▶ socket
//!   ▲                                          │
//!   └──────────────── WakeUps ◀────────────────┘ there is more to read, or room to write
//! ```
//!
//! A connection that is not used is not polled. That its server has closed it is found before the next request is written,
//! and by the [pool](super::pool) from time to time.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::{Body as _, Frame, Incoming},
    client::conn::{
        TrySendError,
        http1::{self, SendRequest},
    },
};
use parking_lot::Mutex;
use tokio::{runtime::Handle, task::coop::unconstrained, time::timeout};

use super::connect::ServiceConnection;
use airlock_core::wake::{WakeUps, hold};

/// Time for what is left of an exchange that nothing waits for: the rest of its request, and the end of TLS. A service
/// that reads nothing would keep the request in memory, which is charged to its caller no longer.
const END_TIME: Duration = Duration::from_secs(5);

/// A request as a connection takes it.
pub(super) type AddressedRequest = Request<Full<Bytes>>;
type HyperConnection = http1::Connection<ServiceConnection, Full<Bytes>>;

/// A connection to a service. Dropping it closes the connection.
pub(super) struct PolledConnection {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once it has ended. In a mutex, which is never locked, because it is not `Sync`, and bodies of responses are.
    connection: Mutex<Option<Pin<Box<HyperConnection>>>>,
    wakes: WakeUps,
}

airlock_strings::debug_fields!(PolledConnection { sender });

impl PolledConnection {
    /// Begins to speak HTTP/1.1.
    pub(super) async fn begin(stream: ServiceConnection) -> Result<Self, hyper::Error> {
        let (sender, connection) = http1::handshake(stream).await?;
        let connection = Mutex::new(Some(Box::pin(connection)));
        Ok(Self { sender, connection, wakes: WakeUps::default() })
    }

    /// Sends a request, and waits for the head of its response. The error has the request if nothing of it was
    /// sent.
    pub(super) async fn send(
        &mut self,
        request: AddressedRequest,
    ) -> Result<Response<Incoming>, Box<TrySendError<AddressedRequest>>> {
        let response = without_waking(|| self.sender.try_send_request(request));
        // The connection alone yields when the task has done enough: nothing would wake the task for the response.
        let mut response = pin!(unconstrained(response));
        poll_fn(|context| {
            self.poll(context);
            response.as_mut().poll(&mut Context::from_waker(Waker::noop())).map_err(Box::new)
        })
        .await
    }

    /// Polls the connection for the next frame of a body that arrives on it.
    pub(super) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let arrived = take_frame(body);
        if arrived.is_ready() {
            return arrived;
        }
        self.poll(context);
        take_frame(body)
    }

    /// Waits until the connection is ready for a request: until the rest of the last response, as far as it has arrived,
    /// is read. Returns false if it has ended, or is not ready after [`END_TIME`]: its server has responded to the last
    /// request and not read it.
    pub(super) async fn until_ready(&mut self) -> bool {
        let ready = poll_fn(|context| {
            self.poll(context);
            self.sender.poll_ready(context)
        });
        timeout(END_TIME, ready).await.is_ok_and(|ready| ready.is_ok())
    }

    /// Returns whether the connection is ready for a request.
    pub(super) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    /// Returns whether the connection has ended, as far as it was polled.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Polls an unused connection, and returns whether its server has left it open.
    pub(super) fn is_open(&mut self) -> bool {
        self.poll(&mut Context::from_waker(Waker::noop()));
        self.connection.get_mut().is_some()
    }

    /// Forgets the task that has used the connection, so that neither keeps its memory nor wakes it.
    pub(super) fn leave(&self) {
        self.wakes.forget_task();
    }

    /// Polls the connection if it can go on, and has it wake the task of `context` when it can. Its error is one of the
    /// exchange too.
    fn poll(&mut self, context: &mut Context<'_>) {
        let connection = self.connection.get_mut();
        let Some(open) = connection else { return };
        if self.wakes.poll_if_woken(context, |context| open.poll_unpin(context)).is_ready() {
            // The exchange ends with it: what it waits for is dropped.
            *connection = None;
        }
    }
}

impl Drop for PolledConnection {
    /// Ends the connection as hyper and TLS do: it ends when its sender is gone and what was begun is sent, or after
    /// [`END_TIME`].
    fn drop(&mut self) {
        if let Some(connection) = self.connection.get_mut().take()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(async move {
                let _ = timeout(END_TIME, connection).await;
            });
        }
    }
}

/// Acts on a connection that the task polls before it waits, without waking the task for it. Wake-ups by other threads
/// pass.
fn without_waking<T>(act: impl FnOnce() -> T) -> T {
    hold(|held| {
        let done = act();
        held.discard();
        done
    })
}

/// Takes a frame that has arrived.
fn take_frame(body: &mut Incoming) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
    without_waking(|| Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop())))
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use hyper::rt::{Read, ReadBufCursor, Write};
    use hyper_util::rt::TokioIo;
    use tokio::{
        io::{AsyncWriteExt as _, DuplexStream, duplex},
        time::sleep,
    };

    use super::*;
    use airlock_core::wake::CountedWakes;

    /// Bytes to and from a service, whose reads are counted.
    struct CountedReads {
        stream: TokioIo<DuplexStream>,
        reads: Arc<AtomicUsize>,
    }

    impl Read for CountedReads {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut self.stream).poll_read(context, buffer)
        }
    }

    impl Write for CountedReads {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.stream).poll_write(context, bytes)
        }

        fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_flush(context)
        }

        fn poll_shutdown(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_shutdown(context)
        }

        // As sockets and TLS: hyper knows then what of a body is not written.
        fn is_write_vectored(&self) -> bool {
            self.stream.is_write_vectored()
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            parts: &[io::IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.stream).poll_write_vectored(context, parts)
        }
    }

    async fn connected() -> (PolledConnection, DuplexStream, Arc<AtomicUsize>) {
        let (client, server) = duplex(1 << 10);
        let reads = Arc::<AtomicUsize>::default();
        let client = CountedReads { stream: TokioIo::new(client), reads: reads.clone() };
        let connection = PolledConnection::begin(Box::new(client)).await;
        (connection.expect("nothing is exchanged"), server, reads)
    }

    #[tokio::test]
    async fn an_exchange_wakes_its_task_once_when_the_response_arrives() {
        let (mut connection, mut server, _) = connected().await;
        let counted = Arc::new(CountedWakes::default());
        let waker = Waker::from(counted.clone());
        let mut context = Context::from_waker(&waker);
        for _ in 0..2 {
            let request = Request::new(Full::new(Bytes::from_static(b"hello")));
            let mut sending = Box::pin(connection.send(request));
            assert!(sending.as_mut().poll(&mut context).is_pending());
            let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
            server.write_all(response).await.expect("there is room");
            let Poll::Ready(Ok(response)) = sending.as_mut().poll(&mut context) else {
                panic!("the response has arrived");
            };
            drop(sending);
            let mut body = response.into_body();
            let Poll::Ready(Some(Ok(frame))) = connection.poll_frame(&mut body, &mut context)
            else {
                panic!("the body has arrived");
            };
            assert_eq!(frame.into_data().expect("data"), "hi");
            assert!(matches!(connection.poll_frame(&mut body, &mut context), Poll::Ready(None)));
            assert!(connection.is_ready());
            assert_eq!(counted.taken(), 1);
        }
    }

    #[tokio::test]
    async fn a_part_of_a_body_wakes_its_task_once_and_a_poll_without_one_reads_nothing() {
        let (mut connection, mut server, reads) = connected().await;
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let request = Request::new(Full::new(Bytes::new()));
        let both = tokio::join!(connection.send(request), server.write_all(head));
        let (sent, written) = both;
        written.expect("there is room");
        let mut body = sent.expect("a response").into_body();
        let counted = Arc::new(CountedWakes::default());
        let waker = Waker::from(counted.clone());
        let mut context = Context::from_waker(&waker);
        for _ in 0..3 {
            assert!(connection.poll_frame(&mut body, &mut context).is_pending());
            let before = reads.load(Ordering::Relaxed);
            assert!(connection.poll_frame(&mut body, &mut context).is_pending());
            assert_eq!(reads.load(Ordering::Relaxed), before);
            server.write_all(b"2\r\nhi\r\n").await.expect("there is room");
            assert_eq!(counted.taken(), 1);
            let Poll::Ready(Some(Ok(frame))) = connection.poll_frame(&mut body, &mut context)
            else {
                panic!("a part has arrived");
            };
            assert_eq!(frame.into_data().expect("data"), "hi");
        }
        assert!(!connection.is_ready());
    }

    #[tokio::test]
    async fn an_unused_connection_is_open_until_its_server_closes_it_or_sends_something() {
        let (mut connection, server, _) = connected().await;
        assert!(connection.is_open() && !connection.is_closed());
        drop(server);
        assert!(!connection.is_open() && connection.is_closed());
        let (mut connection, mut server, _) = connected().await;
        assert!(connection.is_open());
        server.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.expect("there is room");
        assert!(!connection.is_open() && connection.is_closed());
    }

    #[tokio::test]
    async fn a_request_on_a_connection_that_its_server_has_closed_is_returned() {
        let (mut connection, server, _) = connected().await;
        assert!(connection.is_open());
        drop(server);
        let sent = connection.send(Request::new(Full::new(Bytes::new()))).await;
        let mut unsent = sent.expect_err("it is closed");
        assert!(unsent.take_message().is_some() && connection.is_closed());
    }

    /// Returns a request that is not written before its server reads.
    fn large_request() -> AddressedRequest {
        Request::new(Full::new(Bytes::from(vec![b'x'; 1 << 16])))
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_read_a_request_that_it_has_refused_is_not_waited_for() {
        let (mut connection, mut server, _) = connected().await;
        let refusal = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 0\r\n\r\n";
        let both = tokio::join!(connection.send(large_request()), server.write_all(refusal));
        let (sent, written) = both;
        written.expect("there is room");
        assert_eq!(sent.expect("a response").status(), 413);
        assert!(!connection.is_ready() && !connection.is_closed());
        assert_eq!(timeout(2 * END_TIME, connection.until_ready()).await, Ok(false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_request_that_its_server_does_not_read_is_dropped_in_time() {
        let (mut connection, _server, reads) = connected().await;
        let sent = timeout(END_TIME, connection.send(large_request())).await;
        assert!(sent.is_err(), "there is no response");
        drop(connection);
        sleep(2 * END_TIME).await;
        assert_eq!(Arc::strong_count(&reads), 1, "the connection is gone");
    }
}
