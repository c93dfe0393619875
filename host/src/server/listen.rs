//! Sockets: accepts connections, bounds them, drains them.

use std::{
    future::Future,
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::Request;
use hyper::{body::Incoming, rt::Executor, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

use super::{App, Settings};

/// Requests that one HTTP/2 connection may have in flight.
const MAX_STREAMS: u32 = 64;
/// How long to wait after the system could not give a connection, usually for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` completes, then accepts no more and lets the requests in flight end, for at most
/// `drain_timeout`. Dropping the future stops them at once.
pub async fn serve(listener: TcpListener, app: Arc<App>, shutdown: impl Future<Output = ()>) -> io::Result<()> {
    app.settings.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let tasks = Tasks::default();
    let _stop = tasks.stop.clone().drop_guard();
    let server = Server {
        builder: builder(&app.settings, tasks.clone()),
        room: Arc::new(Semaphore::new(app.settings.max_connections)),
        draining: GracefulShutdown::new(),
        app,
        tasks,
    };
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            (permit, stream) = server.accept(&listener) => server.begin(stream, permit),
        }
    }
    drop(listener);
    server.drain().await;
    Ok(())
}

struct Server {
    app: Arc<App>,
    builder: Builder<Tasks>,
    room: Arc<Semaphore>,
    draining: GracefulShutdown,
    tasks: Tasks,
}

impl Server {
    /// Waits for room and then for a connection, so that those beyond the cap wait in the system's queue.
    async fn accept(&self, listener: &TcpListener) -> (OwnedSemaphorePermit, TcpStream) {
        let permit = self.room.clone().acquire_owned().await.expect("the semaphore is never closed");
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return (permit, stream),
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn begin(&self, stream: TcpStream, permit: OwnedSemaphorePermit) {
        // Answers are written whole, so waiting for more of them only costs time.
        let _ = stream.set_nodelay(true);
        let has_asked = Arc::new(AtomicBool::new(false));
        let peer = stream.peer_addr().ok().map(|peer| peer.ip());
        let (app, asking) = (self.app.clone(), has_asked.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            asking.store(true, Ordering::Relaxed);
            let app = app.clone();
            async move { app.handle(request, peer).await }
        });
        let connection = self.builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = self.draining.watch(connection);
        let silence = silence(has_asked, self.app.settings.read_timeout);
        self.tasks.execute(async move {
            tokio::select! {
                result = connection => if let Err(error) = result {
                    debug!(%error, "connection broke off");
                },
                () = silence => debug!("connection closed, it asked for nothing"),
            }
            drop(permit);
        });
    }

    async fn drain(self) {
        info!(connections = self.tasks.tracker.len(), "draining");
        self.tasks.tracker.close();
        let ended = async {
            self.draining.shutdown().await;
            self.tasks.tracker.wait().await;
        };
        if timeout(self.app.settings.drain_timeout, ended).await.is_err() {
            warn!(left = self.tasks.tracker.len(), "requests were cut off, the time to drain is over");
        }
        self.tasks.stop.cancel();
        self.tasks.tracker.wait().await;
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
        .keep_alive_interval(settings.read_timeout);
    builder
}

/// Ends once a connection has asked for nothing in `limit`. hyper times a request's head, but not the bytes before it by
/// which it tells HTTP/1 from HTTP/2, and a connection that sends none would be kept for ever.
async fn silence(has_asked: Arc<AtomicBool>, limit: Duration) {
    sleep(limit).await;
    if has_asked.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// The server's tasks: a connection each, and what hyper spawns for a connection of HTTP/2. All end when the server does.
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
