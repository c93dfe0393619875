//! Sockets: accepts, bounds and drains connections.

use std::{
    convert::Infallible,
    fmt,
    future::{Future, pending},
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Either, Full};
use hyper::{
    body::{Frame, Incoming},
    rt::Executor,
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixStream},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

use super::{
    LiveApp, Settings,
    activity::{Activity, CloseReason, ConnectionTimeouts, RunningRequest, SendingResponse},
    connections::{ConnectionSlot, Connections, SOCKET_CONNECTIONS, Seat},
    ingress::Ingress,
    memory::RequestCharge,
    peer::Peer,
    request_body::RequestBody,
    respond::{Parts, Payload},
    router::ChargedReply,
    socket::SocketListener,
    tls::{self, CallerChain, Handshake, ListenerTls},
};

/// Maximum number of requests in flight on one HTTP/2 connection. RFC 9113, section 6.5.2,
/// recommends at least 100 for browsers; here, requests run for minutes, and connections are
/// bounded apart.
const MAX_STREAMS: u32 = 64;
/// Maximum number of streams on one HTTP/2 connection that the gateway resets because of client
/// errors before it closes the connection (CVE-2025-8671). Streams that the client resets before
/// they are accepted are bounded by `h2`, to 20. As many errors are no accident.
const MAX_LOCAL_RESETS: usize = 128;
/// Pause after `accept` fails, which it usually does for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for a graceful shutdown of a connection without a running request. Over HTTP/2 the shutdown
/// needs the client.
const GOODBYE: Duration = Duration::from_millis(100);

/// Maximum size of a part of a stream that the base charge of its request covers, in bytes.
const FREE_PART_BYTES: usize = 4 << 10;
/// Idle time of a connection while the gateway drains, and of one in a reserved place. An idle HTTP/2
/// client that does not close its connection would delay the end for the whole `drain_timeout`.
const LAST_IDLE: Duration = Duration::from_secs(1);

/// Error of a listener whose certificate was not loaded.
const NOT_LOADED: &str = "the certificate of the listener was not loaded";
/// Error of settings with TLS, without the certificate: the listener would speak plain HTTP.
const NO_CERTIFICATE: &str =
    "the settings have `tls`, and the hooks have none: create a `ListenerTls` and load it";

/// Serves until `shutdown` completes: all APIs over `listener`, and the management API over
/// `socket`. Then it stops accepting connections, removes the path of the socket and lets the
/// requests in flight end, for at most `drain_timeout`. Dropping the future stops them at once.
/// Fails if the settings are unsafe or cannot work, or if they have TLS and its files were never loaded;
/// errors of connections are logged.
pub async fn serve(
    listener: TcpListener,
    socket: Option<SocketListener>,
    live: Arc<LiveApp>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let app = live.current();
    app.settings.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let unusable = match &app.hooks.tls {
        Some(tls) => (!tls.is_loaded()).then_some(NOT_LOADED),
        None => app.settings.tls.as_ref().map(|_| NO_CERTIFICATE),
    };
    if let Some(problem) = unusable {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    let tasks = Tasks::default();
    let _stop = tasks.stop.clone().drop_guard();
    let server = Server {
        served: Arc::new(Served {
            live: live.clone(),
            tasks: tasks.clone(),
            draining: CancellationToken::new(),
            failed_handshakes: tls::FailedHandshakes::default(),
        }),
        connections: Connections::new(
            app.settings.max_connections,
            app.settings.max_connections_per_peer,
        ),
        socket_connections: Connections::new(SOCKET_CONNECTIONS, SOCKET_CONNECTIONS),
        live,
        tasks,
    };
    drop(app);
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            // Before the other: a flood of connections must not delay an administrator.
            accepted = accept_local(socket.as_ref(), &server.socket_connections) => {
                server.begin(accepted);
            }
            accepted = accept(&listener, || server.places()) => server.begin_remote(accepted),
        }
    }
    drop(listener);
    drop(socket);
    server.drain().await;
    Ok(())
}

struct Server {
    live: Arc<LiveApp>,
    served: Arc<Served>,
    connections: Arc<Connections>,
    /// Connections through the Unix socket. They have their own places, so that those of remote
    /// peers, of any number, cannot lock an administrator out.
    socket_connections: Arc<Connections>,
    tasks: Tasks,
}

/// The parts of a server that its connections share.
struct Served {
    live: Arc<LiveApp>,
    /// Tasks that hyper starts.
    tasks: Tasks,
    draining: CancellationToken,
    failed_handshakes: tls::FailedHandshakes,
}

impl Server {
    /// Returns the places of connections over TCP, with the limits of this moment.
    fn places(&self) -> &Arc<Connections> {
        let Settings { max_connections, max_connections_per_peer, .. } =
            self.live.current().settings;
        self.connections.set_limits(max_connections, max_connections_per_peer);
        &self.connections
    }

    fn begin<S>(&self, accepted: Accepted<S>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.tasks.execute(self.served.clone().serve(accepted, CallerChain::default()));
    }

    /// Begins a connection over TCP: with TLS if the listener has it.
    fn begin_remote(&self, accepted: Accepted<TcpStream>) {
        let app = self.live.current();
        let Some(tls) = &app.hooks.tls else { return self.begin(accepted) };
        self.tasks.execute(self.served.clone().serve_tls(accepted, tls.clone()));
    }

    async fn drain(self) {
        info!(connections = self.tasks.tracker.len(), "draining");
        self.tasks.tracker.close();
        self.served.draining.cancel();
        self.live.drain(self.tasks.tracker.wait()).await;
        self.tasks.stop.cancel();
        self.tasks.tracker.wait().await;
    }
}

impl Served {
    /// Makes the handshake of a connection, which has the time of the first request's head, and serves
    /// its requests. It counts as a connection without a request until then, so it may be evicted.
    async fn serve_tls(self: Arc<Self>, accepted: Accepted<TcpStream>, tls: ListenerTls) {
        // It was loaded before the first connection.
        let Some(acceptor) = tls.acceptor() else { return };
        let Accepted { stream, ingress, slot } = accepted;
        let waits = waits(&self.live.current().settings, &slot);
        // Boxed, like the stream: the task would keep room for both for as long as the connection lives.
        let handshake = Box::pin(tls::accept(acceptor, stream));
        let shaken = tokio::select! {
            shaken = handshake => shaken,
            reason = slot.activity.end(&waits) => {
                debug!(?reason, "the gateway closes a connection before the end of its handshake");
                return;
            }
            () = self.draining.cancelled() => return,
        };
        match shaken {
            // The handshake may have used lists that were replaced meanwhile.
            Ok(Handshake { chain, .. }) if tls.time_left(&chain).is_none() => {
                debug!("the certificate of a caller is revoked, so its connection is closed");
            }
            Ok(Handshake { stream, certificate, chain }) => {
                let ingress = ingress.with_certificate(certificate);
                let accepted = Accepted { stream: Box::new(stream), ingress, slot };
                self.serve(accepted, chain).await;
            }
            Err(error) => self.failed_handshakes.report(&error),
        }
    }

    /// Serves the requests of a connection until its end.
    async fn serve<S>(self: Arc<Self>, accepted: Accepted<S>, chain: CallerChain)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Accepted { stream, ingress, slot } = accepted;
        let opened = self.live.current();
        let waits = waits(&opened.settings, &slot);
        let drain_timeout = opened.settings.drain_timeout;
        let builder = builder(&opened.settings, self.tasks.clone());
        // A connection may last for hours, and would keep the parts of settings that are long replaced.
        drop(opened);
        let live = self.live.clone();
        let hooks = live.current().hooks.clone();
        let activity = slot.activity.clone();
        let seats = slot.seats();
        let service = service_fn(move |mut request: Request<Incoming>| {
            // Begun here and not inside the future: HTTP/2 runs the future as its own task, which
            // may be dropped before its first poll.
            let app = live.current();
            let running = activity.begin();
            let seat = seats.seat();
            request.extensions_mut().insert(seat.clone());
            let request = request.map(RequestBody::from);
            async move {
                let answer = app.handle(request, ingress).await;
                Ok::<_, Infallible>(send(answer, running, Some(seat)))
            }
        });
        // Boxed: a task would keep room for it three times, once for each future that it is moved into.
        let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let mut connection = Box::pin(connection);
        let certificate_ended = tls::certificate_ended(hooks.tls.as_ref(), ingress, &chain);
        let reason = tokio::select! {
            biased;
            // Before the first request is read.
            () = certificate_ended => {
                debug!("the certificate of the caller has expired or is revoked, so the gateway closes its connection");
                connection.as_mut().graceful_shutdown();
                let waits = ConnectionTimeouts { first_head: LAST_IDLE, idle: LAST_IDLE, ..waits };
                tokio::select! {
                    result = &mut connection => return ended(result),
                    reason = slot.activity.end(&waits) => reason,
                    // A stream has no end of its own.
                    () = sleep(drain_timeout) => return,
                }
            }
            result = &mut connection => return ended(result),
            reason = slot.activity.end(&waits) => reason,
            () = self.draining.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let waits = ConnectionTimeouts { first_head: LAST_IDLE, idle: LAST_IDLE, ..waits };
                tokio::select! {
                    result = &mut connection => return ended(result),
                    reason = slot.activity.end(&waits) => reason,
                }
            }
        };
        debug!(?reason, "the gateway closes a connection");
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            result = &mut connection => ended(result),
            () = goodbye(reason, &slot.activity, waits.write, drain_timeout) => {}
        }
    }
}

fn waits(settings: &Settings, slot: &ConnectionSlot) -> ConnectionTimeouts {
    ConnectionTimeouts {
        first_head: settings.read_timeout,
        idle: if slot.is_reserved() { LAST_IDLE } else { settings.idle_timeout },
        write: settings.write_timeout,
    }
}

/// A listener of one kind of sockets.
trait Listen {
    type Stream;

    /// Waits for the next connection. Dropping the future loses none.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Ingress)>> + Send;
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Ingress)> {
        let (stream, address) = self.accept().await?;
        // Responses are written whole, so Nagle's algorithm only adds latency.
        let _ = stream.set_nodelay(true);
        Ok((stream, Ingress::Remote { address: Some(address.ip()), certificate: None }))
    }
}

impl Listen for SocketListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Ingress)> {
        Ok((self.accept().await?, Ingress::Socket(self.token())))
    }
}

/// A connection that has a place.
struct Accepted<S> {
    stream: S,
    ingress: Ingress,
    slot: ConnectionSlot,
}

/// Waits for a connection that gets one of the places. Others are closed at once.
async fn accept<'p, L: Listen>(
    listener: &L,
    places: impl Fn() -> &'p Arc<Connections>,
) -> Accepted<L::Stream> {
    loop {
        let (stream, ingress) = match listener.next().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if let Some(slot) = places().admit(Peer::new(ingress.address())) {
            return Accepted { stream, ingress, slot };
        }
    }
}

/// Waits for a connection through the Unix socket, for ever if there is none.
async fn accept_local(
    socket: Option<&SocketListener>,
    places: &Arc<Connections>,
) -> Accepted<UnixStream> {
    match socket {
        Some(socket) => accept(socket, || places).await,
        None => pending().await,
    }
}

fn builder(settings: &Settings, tasks: Tasks) -> Builder<Tasks> {
    let mut builder = Builder::new(tasks);
    let head_bytes = u32::try_from(settings.max_header_bytes).unwrap_or(u32::MAX);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.read_timeout)
        .max_buf_size(settings.max_header_bytes)
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(head_bytes)
        .max_concurrent_streams(MAX_STREAMS)
        .max_local_error_reset_streams(MAX_LOCAL_RESETS)
        .keep_alive_interval(settings.read_timeout)
        .keep_alive_timeout(settings.read_timeout);
    builder
}

/// Completes when a connection that is being closed has used up its time.
async fn goodbye(
    reason: CloseReason,
    activity: &Activity,
    write_timeout: Duration,
    drain_timeout: Duration,
) {
    match reason {
        CloseReason::Silent | CloseReason::Idle | CloseReason::Evicted => sleep(GOODBYE).await,
        // Other requests on the same connection still get their responses.
        CloseReason::Unread => {
            let _ = timeout(drain_timeout, activity.answered(write_timeout)).await;
        }
        CloseReason::BrokenOff => {}
    }
}

fn ended<E: fmt::Display>(result: Result<(), E>) {
    if let Err(error) = result {
        debug!(%error, "connection ended with an error");
    }
}

/// Hands a response to hyper. Dropping the bytes marks the response as sent: HTTP/1 and HTTP/2 do
/// not report the last write, and `h2` buffers a whole response before its client has granted any
/// window.
pub(super) fn send(
    answer: ChargedReply,
    mut running: RunningRequest,
    seat: Option<Seat>,
) -> Response<Body> {
    let (reply, charge) = answer;
    reply.map(|payload| match payload {
        Payload::Whole(bytes) => {
            let sending = running.answer();
            let unsent = Unsent { bytes, _charge: charge, _sending: sending };
            Either::Left(Full::new(Bytes::from_owner(unsent)))
        }
        Payload::Stream(parts) => {
            running.begin_answer();
            let waiting = Some(running.send_part());
            Either::Right(Streaming { parts, running, waiting, charge, _seat: seat })
        }
    })
}

/// Body of a response.
pub(super) type Body = Either<Full<Bytes>, Streaming>;

/// Body that is sent part by part. Each part must be read within the write timeout. hyper polls for
/// the next part when there is room for it. That must happen within the write timeout too, because
/// an HTTP/2 client may grant no window at all.
pub(super) struct Streaming {
    parts: Parts,
    running: RunningRequest,
    /// Present while there is no room for the next part.
    waiting: Option<SendingResponse>,
    charge: Option<RequestCharge>,
    /// Counts the request for its tenant until the end of the stream; `None` for a request that another server
    /// passes on.
    _seat: Option<Seat>,
}

impl hyper::body::Body for Streaming {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.waiting = None;
        let part = ready!(self.parts.as_mut().poll_next(context));
        Poll::Ready(part.map(|bytes| {
            // hyper keeps up to two parts that are not sent. A large part is charged until it is
            // sent.
            let part = self.charge.as_ref().filter(|_| bytes.len() > FREE_PART_BYTES);
            let charge = part.map(|charge| charge.beside(bytes.len()));
            let unsent = Unsent { bytes, _charge: charge, _sending: self.running.send_part() };
            self.waiting = Some(self.running.send_part());
            Ok(Frame::data(Bytes::from_owner(unsent)))
        }))
    }
}

/// Bytes that are not sent yet, with their charge. hyper drops them when they are sent.
struct Unsent {
    bytes: Bytes,
    _charge: Option<RequestCharge>,
    _sending: SendingResponse,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Tasks of the server: one per connection, and those that hyper spawns for HTTP/2. All of them end
/// with the server.
#[derive(Clone, Default)]
struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move { stop.run_until_cancelled_owned(task).await });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, future::poll_fn, stream};
    use hyper::body::Body as _;

    use super::*;
    use crate::memory::{Memory, REQUEST_BYTES};
    use airlock_core::tenant::Tenant;

    #[tokio::test]
    async fn a_large_part_of_a_stream_is_charged_until_it_is_sent() {
        for (length, is_charged) in [(FREE_PART_BYTES, false), (FREE_PART_BYTES + 1, true)] {
            let memory = Memory::new(8 * REQUEST_BYTES);
            let charge = memory.open(Tenant::ANONYMOUS, 0).expect("there is room");
            let room = 3 * REQUEST_BYTES;
            let parts = stream::iter([Bytes::from(vec![b'x'; length])]).boxed();
            let slot = Connections::new(1, 1).admit(Peer::new(None)).expect("there is room");
            let running = slot.activity.begin();
            let seat = Some(slot.seats().seat());
            let mut body = Box::pin(Streaming {
                parts,
                running,
                waiting: None,
                charge: Some(charge.clone()),
                _seat: seat,
            });
            let part = poll_fn(|context| body.as_mut().poll_frame(context)).await;
            assert_eq!(charge.grow(room).is_err(), is_charged, "{length}");
            drop(part);
            assert_eq!(charge.grow(room).is_ok(), is_charged, "{length}");
        }
    }
}
