//! Sockets: bounds, serves and drains connections.

use std::{
    convert::Infallible,
    fmt,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use futures_util::future::{Either, OptionFuture};
use http::Request;
use hyper::{
    body::Incoming,
    rt::Executor,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    time::sleep,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info};

use super::{
    accept::{AcceptedConnection, accept, accept_local, either},
    activity::{Activity, ConnectionTimeouts},
    body_wake::ConnectionWaker,
    closing::{self, Closing, goodbye},
    connections::{ConnectionSlot, Connections, SOCKET_CONNECTIONS},
    ingress::Ingress,
    next_request::NextRequest,
    request_body::RequestBody,
    response::{ChargedReply, send},
    socket::SocketListener,
    tls::{self, CallerChain, Handshake, ListenerTls},
    version::{HttpVersion, read_version},
};

/// Maximum number of requests in flight on one HTTP/2 connection. Each has a task, and a head of at most
/// `server.max_header`: 4 MiB for a connection by default. `server.max_connections` bounds the
/// connections. RFC 9113, section 6.5.2, recommends at least 100, for browsers that load pages; here,
/// requests run for minutes.
const MAX_STREAMS: u32 = 64;
/// Maximum number of streams on one HTTP/2 connection that the gateway resets because of client
/// errors before it closes the connection (CVE-2025-8671). Streams that the client resets before
/// they are accepted are bounded by `h2`, to 20. As many errors are no accident.
const MAX_LOCAL_RESETS: usize = 128;

/// Idle time of a connection while the gateway drains, and of one in a reserved place. An idle HTTP/2
/// client that does not close its connection would delay the end for the whole `drain_timeout`.
const LAST_IDLE: Duration = Duration::from_secs(1);

/// Minimum of [`ConnectionSettings::max_header_bytes`]: hyper panics with less for HTTP/1.
pub const MIN_HEADER_BYTES: usize = 8 * 1024;

/// Bounds on connections, and on the heads of their requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// Maximum number of open connections.
    pub max_connections: usize,
    /// Maximum number of open connections of one peer.
    pub max_connections_per_peer: usize,
    /// Largest request head; at least [`MIN_HEADER_BYTES`].
    pub max_header_bytes: usize,
    /// Time for the head of a request to arrive.
    pub read_timeout: Duration,
    /// Time for a client to read a response.
    pub write_timeout: Duration,
    /// Time that a connection may stay open without a request; over HTTP/1 at most `read_timeout`.
    pub idle_timeout: Duration,
    /// Time for requests in flight to end after the drain has begun.
    pub drain_timeout: Duration,
}

/// Handles the requests that begin with the same settings.
pub trait RequestHandler: Send + Sync + 'static {
    /// Returns the bounds on connections.
    fn connections(&self) -> ConnectionSettings;

    /// Returns the TLS of the listener, which was loaded; `None` for plain HTTP.
    fn tls(&self) -> Option<&ListenerTls>;

    /// Handles one request. A panic would end its connection.
    fn handle(
        &self,
        request: Request<RequestBody>,
        ingress: Ingress,
    ) -> impl Future<Output = ChargedReply> + Send;
}

/// The service that gets the requests of all connections.
pub trait HttpService: Send + Sync + 'static {
    /// Handles the requests of one moment.
    type Handler: RequestHandler;

    /// Returns the handler of requests and connections that begin now.
    fn current(&self) -> Arc<Self::Handler>;

    /// Waits until `connections` and all other work of requests have ended, at most the drain timeout.
    fn drain(
        &self,
        connections: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = ()> + Send;
}

/// Serves until `shutdown` completes, over `listener` and over `socket`. Then it stops accepting connections,
/// removes the path of the socket and drains the service. Dropping the future stops the requests in flight at
/// once. Errors of connections are logged.
pub async fn serve<S: HttpService>(
    listener: TcpListener,
    socket: Option<SocketListener>,
    service: Arc<S>,
    shutdown: impl Future<Output = ()>,
) {
    let tasks = ConnectionTasks::default();
    let _stop = tasks.stop.clone().drop_guard();
    let ConnectionSettings { max_connections, max_connections_per_peer, .. } =
        service.current().connections();
    let server = ConnectionServer {
        context: Arc::new(ConnectionContext {
            service,
            tasks,
            draining: CancellationToken::new(),
            failed_handshakes: tls::FailedHandshakes::default(),
        }),
        connections: Connections::new(max_connections, max_connections_per_peer),
        socket_connections: Connections::new(SOCKET_CONNECTIONS, SOCKET_CONNECTIONS),
    };
    let mut shutdown = pin!(shutdown);
    loop {
        let local = accept_local(socket.as_ref(), &server.socket_connections);
        let remote = accept(&listener, || server.places());
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            accepted = either(local, remote) => match accepted {
                Either::Left(accepted) => server.begin(accepted),
                Either::Right(accepted) => server.begin_remote(accepted),
            },
        }
    }
    drop(listener);
    drop(socket);
    server.drain().await;
}

struct ConnectionServer<S> {
    context: Arc<ConnectionContext<S>>,
    connections: Arc<Connections>,
    /// Connections through the Unix socket. They have their own places, so that those of remote
    /// peers, of any number, cannot lock an administrator out.
    socket_connections: Arc<Connections>,
}

/// The parts of a server that its connections share.
struct ConnectionContext<S> {
    service: Arc<S>,
    /// The tasks of connections, and those that hyper starts.
    tasks: ConnectionTasks,
    draining: CancellationToken,
    failed_handshakes: tls::FailedHandshakes,
}

impl<S: HttpService> ConnectionServer<S> {
    /// Returns the places of connections over TCP, with the limits of this moment.
    fn places(&self) -> &Arc<Connections> {
        let ConnectionSettings { max_connections, max_connections_per_peer, .. } =
            self.context.service.current().connections();
        self.connections.set_limits(max_connections, max_connections_per_peer);
        &self.connections
    }

    fn begin<C>(&self, accepted: AcceptedConnection<C>)
    where
        C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let serving = self.context.clone().serve(accepted, CallerChain::default());
        self.context.tasks.execute(serving);
    }

    /// Begins a connection over TCP: with TLS if the listener has it.
    fn begin_remote(&self, accepted: AcceptedConnection<TcpStream>) {
        let handler = self.context.service.current();
        let Some(tls) = handler.tls() else { return self.begin(accepted) };
        self.context.tasks.execute(self.context.clone().serve_tls(accepted, tls.clone()));
    }

    async fn drain(self) {
        let ConnectionContext { service, tasks, draining, .. } = &*self.context;
        info!(connections = tasks.tracker.len(), "draining");
        tasks.tracker.close();
        draining.cancel();
        service.drain(tasks.tracker.wait()).await;
        tasks.stop.cancel();
        tasks.tracker.wait().await;
    }
}

impl<S: HttpService> ConnectionContext<S> {
    /// Makes the handshake of a connection, which has the time of the first request's head, and serves
    /// its requests. It counts as a connection without a request until then, so it may be evicted.
    async fn serve_tls(self: Arc<Self>, accepted: AcceptedConnection<TcpStream>, tls: ListenerTls) {
        // It was loaded before the first connection.
        let Some(acceptor) = tls.acceptor() else { return };
        let AcceptedConnection { stream, ingress, slot } = accepted;
        let waits = waits(&self.service.current().connections(), &slot);
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
                let accepted = AcceptedConnection { stream: Box::new(stream), ingress, slot };
                self.serve(accepted, chain).await;
            }
            Err(error) => self.failed_handshakes.report(&error),
        }
    }

    /// Serves the requests of a connection until its end.
    fn serve<C>(
        self: Arc<Self>,
        accepted: AcceptedConnection<C>,
        chain: CallerChain,
    ) -> impl Future<Output = ()>
    where
        C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let AcceptedConnection { stream, ingress, slot } = accepted;
        // A block, because an `async fn` has room for its arguments twice.
        async move {
            let opened = self.service.current();
            let settings = opened.connections();
            let tls = opened.tls().cloned();
            // A connection may last for hours, and would keep the parts of settings that are long replaced.
            drop(opened);
            let waits = waits(&settings, &slot);
            // Without a certificate, it is polled once and not with each poll of the connection.
            let certificate = tls::certificate_ended(tls.as_ref(), ingress, &chain);
            let mut certificate_ended = pin!(OptionFuture::from(certificate));
            let begun = tokio::select! {
                biased;
                Some(()) = &mut certificate_ended => {
                    debug!("the certificate of a caller without a request has expired or is revoked, so its connection is closed");
                    return;
                }
                begun = read_version(stream) => begun,
                // Boxed: a connection would have room for it until its end.
                reason = Box::pin(slot.activity.end(&waits)) => {
                    debug!(?reason, "the gateway closes a connection before its first request");
                    return;
                }
                () = self.draining.cancelled() => return,
            };
            let (version, stream) = match begun {
                Ok(begun) => begun,
                Err(error) => return ended(Err(error)),
            };
            let stream = TokioIo::new(stream);
            let service = self.service.clone();
            let activity = slot.activity.clone();
            let seats = slot.seats();
            let handled = service_fn(move |request: Request<Incoming>| {
                // Begun here and not inside the future: HTTP/2 runs the future as its own task, which
                // may be dropped before its first poll.
                NextRequest::note_read();
                let handler = service.current();
                let running = activity.begin();
                let seat = seats.seat();
                let request = request.map(|body| RequestBody::from(body).with_seat(seat.clone()));
                // Boxed: hyper keeps the room of a request's future for as long as the connection lives.
                Box::pin(async move {
                    NextRequest::note_polled();
                    let answer = handler.handle(request, ingress).await;
                    Ok::<_, Infallible>(send(answer, running, Some(seat)))
                })
            });
            let drain = settings.drain_timeout;
            // Boxed: a task would keep room for a connection once for each future that it is moved into. The builders have no
            // names: a local that was borrowed keeps its room to the end of its scope, even if it is dropped before.
            match version {
                HttpVersion::Http1 => {
                    let connection =
                        Box::pin(http1_builder(&settings).serve_connection(stream, handled));
                    let waker = Some(ConnectionWaker::default());
                    // The next head has its time from the end of the response before it, as with hyper's timer, which would be
                    // set for each request.
                    let idle = waits.idle.min(settings.read_timeout);
                    let times =
                        ConnectionTimes { waits: ConnectionTimeouts { idle, ..waits }, drain };
                    self.run(connection, waker, certificate_ended, &slot.activity, times).await;
                }
                HttpVersion::Http2 => {
                    let connection = Box::pin(
                        http2_builder(&settings, self.tasks.clone())
                            .serve_connection(stream, handled),
                    );
                    let times = ConnectionTimes { waits, drain };
                    self.run(connection, None, certificate_ended, &slot.activity, times).await;
                }
            }
        }
    }

    /// Runs a connection until its end, or until the gateway closes it. One of HTTP/1 has a waker of its own.
    async fn run<C>(
        &self,
        mut connection: Pin<Box<C>>,
        waker: Option<ConnectionWaker>,
        certificate_ended: impl Future<Output = Option<()>>,
        activity: &Activity,
        times: ConnectionTimes,
    ) where
        C: GracefulConnection<Error = hyper::Error>,
    {
        let mut waiting = closing::wait(activity, &times.waits, &self.draining);
        let cause = tokio::select! {
            biased;
            // Before the first request is read.
            Some(()) = certificate_ended => None,
            result = poll_fn(|context| match &waker {
                Some(waker) => waker.poll(connection.as_mut(), context),
                None => connection.as_mut().poll(context),
            }) => return ended(result),
            cause = waiting.cause() => Some(cause),
        };
        // Otherwise it would take a notification that `close` waits for.
        drop(waiting);
        // Boxed: a connection would have room for this future from its beginning.
        Box::pin(close(connection, cause, activity, times)).await;
    }
}

/// Closes a connection: for a cause, or because the certificate of its caller has expired or is revoked. Requests that run
/// have some time to end.
async fn close<C>(
    mut connection: Pin<Box<C>>,
    cause: Option<Closing>,
    activity: &Activity,
    times: ConnectionTimes,
) where
    C: GracefulConnection<Error = hyper::Error>,
{
    let ConnectionTimes { waits, drain } = times;
    let last_waits = ConnectionTimeouts { first_head: LAST_IDLE, idle: LAST_IDLE, ..waits };
    let reason = match cause {
        Some(Closing::Reason(reason)) => reason,
        Some(Closing::Draining) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                result = &mut connection => return ended(result),
                reason = activity.end(&last_waits) => reason,
            }
        }
        None => {
            debug!(
                "the certificate of the caller has expired or is revoked, so the gateway closes its connection"
            );
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                result = &mut connection => return ended(result),
                reason = activity.end(&last_waits) => reason,
                // A stream has no end of its own.
                () = sleep(drain) => return,
            }
        }
    };
    debug!(?reason, "the gateway closes a connection");
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        result = &mut connection => ended(result),
        () = goodbye(reason, activity, waits.write, drain) => {}
    }
}

/// Times of one connection.
#[derive(Clone, Copy)]
struct ConnectionTimes {
    waits: ConnectionTimeouts,
    /// Time for requests in flight to end.
    drain: Duration,
}

fn waits(settings: &ConnectionSettings, slot: &ConnectionSlot) -> ConnectionTimeouts {
    ConnectionTimeouts {
        first_head: settings.read_timeout,
        idle: if slot.is_reserved() { LAST_IDLE } else { settings.idle_timeout },
        write: settings.write_timeout,
    }
}

fn http1_builder(settings: &ConnectionSettings) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.header_read_timeout(None::<Duration>).max_buf_size(settings.max_header_bytes);
    builder
}

fn http2_builder(
    settings: &ConnectionSettings,
    tasks: ConnectionTasks,
) -> http2::Builder<ConnectionTasks> {
    let mut builder = http2::Builder::new(tasks);
    let head_bytes = u32::try_from(settings.max_header_bytes).unwrap_or(u32::MAX);
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(head_bytes)
        .max_concurrent_streams(MAX_STREAMS)
        .max_local_error_reset_streams(MAX_LOCAL_RESETS)
        .keep_alive_interval(settings.read_timeout)
        .keep_alive_timeout(settings.read_timeout);
    builder
}

fn ended<E: fmt::Display>(result: Result<(), E>) {
    if let Err(error) = result {
        debug!(%error, "connection ended with an error");
    }
}

/// Tasks of the server: one per connection, and those that hyper spawns for HTTP/2. All of them end
/// with the server.
#[derive(Clone, Default)]
struct ConnectionTasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl<F> Executor<F> for ConnectionTasks
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, task: F) {
        // Boxed: the future that stops the task would keep room for it three times.
        let task = Box::pin(task);
        self.tracker.spawn(self.stop.clone().run_until_cancelled_owned(task));
    }
}

#[cfg(test)]
mod tests;
