//! One client over standard input and output: each message is a line of JSON.
//!
//! Both eras may be mixed. A client of the legacy era says with `initialize` what it can do; until
//! then its requests are served as those of a client that can do nothing special.

use std::{
    collections::HashMap,
    io::{self, BufRead, Write},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::{
    error::{RpcError, code},
    exchange::{Answer, Asks, Exchange, Outgoing},
    message::{self, Id, Message, Notification, Request},
    meta::{self, Peer},
    service::{self, Client, EMPTY, Service, in_use},
    toolbox::Selection,
    version::Version,
    watch::ListWatch,
};
use crate::json::Caps;

/// Lines that are read ahead, and messages that wait to be written.
const QUEUE: usize = 16;
/// The most requests that run at a time.
const MAX_RUNNING: usize = 64;
/// Factor between the longest line and the memory of its parsed form.
const TREE_FACTOR: usize = 4;

/// One line of input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line of at most the limit.
    Text(Vec<u8>),
    /// A longer line. It was dropped.
    TooLong,
}

/// Reads lines in a thread of its own, which ends with the input or with the process. (Tokio's
/// standard input would keep the process from ending.)
pub(crate) fn read_lines(
    input: impl BufRead + Send + 'static,
    limit_bytes: usize,
) -> mpsc::Receiver<Line> {
    let (sender, lines) = mpsc::channel(QUEUE);
    thread::spawn(move || {
        let mut input = input;
        while let Ok(Some(line)) = read_line(&mut input, limit_bytes) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Reads a line; `None` at the end of the input. A last line needs no line end.
fn read_line(input: &mut impl BufRead, limit_bytes: usize) -> io::Result<Option<Line>> {
    let (mut line, mut is_too_long, mut has_begun) = (Vec::new(), false, false);
    loop {
        let available = input.fill_buf()?;
        if available.is_empty() {
            break;
        }
        has_begun = true;
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        if line.len() + part.len() > limit_bytes {
            is_too_long = true;
            line = Vec::new();
        } else if !is_too_long {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            break;
        }
    }
    Ok(has_begun.then_some(if is_too_long { Line::TooLong } else { Line::Text(line) }))
}

/// Writes messages in a thread of its own, one a line. The second receiver completes when all are
/// written, or when the output is closed.
pub(crate) fn write_lines(
    mut output: impl Write + Send + 'static,
) -> (mpsc::Sender<String>, oneshot::Receiver<()>) {
    let (sender, mut texts) = mpsc::channel::<String>(QUEUE);
    let (written, done) = oneshot::channel();
    thread::spawn(move || {
        while let Some(text) = texts.blocking_recv() {
            let line = [text.as_bytes(), b"\n"].concat();
            if output.write_all(&line).and_then(|()| output.flush()).is_err() {
                break;
            }
        }
        drop(written);
    });
    (sender, done)
}

/// Settings of a connection.
pub(crate) struct Settings {
    /// The tools that the client may see.
    pub(crate) selection: Selection,
    /// Longest line, in bytes.
    pub(crate) limit_bytes: usize,
    /// Time for running requests to end after the end of the input.
    pub(crate) drain_timeout: Duration,
    /// Cancelled when the first list of tools can be complete: until then requests wait.
    pub(crate) ready: CancellationToken,
    /// Cancelled when the connection has to end at once.
    pub(crate) stop: CancellationToken,
}

/// Serves one client until its input ends or it has to stop. Running requests have some time to end
/// after the end of the input, and are cancelled then.
pub(crate) async fn serve(
    service: Arc<Service>,
    settings: Settings,
    mut lines: mpsc::Receiver<Line>,
    output: mpsc::Sender<String>,
) {
    let (stop, drain_timeout) = (settings.stop.clone(), settings.drain_timeout);
    let mut connection = Connection::new(service, settings, output);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            line = lines.recv() => match line {
                Some(line) => connection.take(line).await,
                None => break,
            },
            Some(_) = connection.tasks.join_next() => {}
        }
    }
    let draining = tokio::time::timeout(drain_timeout, connection.drain());
    let _ = stop.run_until_cancelled(draining).await;
}

/// One client.
struct Connection {
    service: Arc<Service>,
    settings: Settings,
    output: mpsc::Sender<String>,
    /// Client of the legacy era, once it has sent `initialize`.
    peer: Option<Peer>,
    asks: Arc<Asks>,
    running: Arc<Mutex<HashMap<Id, CancellationToken>>>,
    tasks: JoinSet<()>,
    /// Watches the list of tools for a client of the legacy era.
    watching: CancellationToken,
}

impl Connection {
    fn new(service: Arc<Service>, settings: Settings, output: mpsc::Sender<String>) -> Self {
        Self {
            watching: settings.stop.child_token(),
            service,
            settings,
            output,
            peer: None,
            asks: Arc::default(),
            running: Arc::default(),
            tasks: JoinSet::new(),
        }
    }

    async fn take(&mut self, line: Line) {
        let text = match line {
            Line::Text(text) if text.trim_ascii().is_empty() => return,
            Line::Text(text) => text,
            Line::TooLong => {
                let limit = self.settings.limit_bytes;
                let error = RpcError::parse(format!("the message has more than {limit} bytes"));
                return self.send(message::failure(None, &error)).await;
            }
        };
        let caps = Caps::memory(self.settings.limit_bytes.saturating_mul(TREE_FACTOR));
        match Message::read(text, &caps) {
            Ok(Message::Request(request)) => self.request(request).await,
            Ok(Message::Notification(notification)) => self.notification(&notification),
            Ok(Message::Response(response)) => {
                // One to a request that the gateway has given up changes nothing.
                self.asks.resolve(&response);
            }
            Err(bad) => self.send(message::failure(bad.id.as_ref(), &bad.error)).await,
        }
    }

    async fn request(&mut self, request: Request) {
        let id = request.id.clone();
        let is_modern =
            meta::names_version(request.params()) || request.method == "server/discover";
        let result = match request.method.as_str() {
            "initialize" if !is_modern => self.initialize(&request),
            "logging/setLevel" if !is_modern => service::log_level(&request).map(|level| {
                let peer = self.legacy_peer();
                self.peer = Some(Peer { log_level: Some(level), ..peer });
                EMPTY.to_owned()
            }),
            _ => {
                match self.client(&request, is_modern).and_then(|client| self.run(request, client))
                {
                    Ok(()) => return,
                    Err(error) => Err(error),
                }
            }
        };
        self.send(Answer::new(&id, result).text).await;
    }

    fn initialize(&mut self, request: &Request) -> Result<String, RpcError> {
        let peer = meta::initialize(request.params())?;
        self.peer = Some(peer);
        Ok(service::initialized(peer.version))
    }

    /// Client of the legacy era as far as it is known.
    fn legacy_peer(&self) -> Peer {
        let unknown = Peer { version: Version::LATEST_LEGACY, can_elicit: false, log_level: None };
        self.peer.unwrap_or(unknown)
    }

    fn client(&self, request: &Request, is_modern: bool) -> Result<Client, RpcError> {
        let peer = if is_modern { meta::modern(request.params())? } else { self.legacy_peer() };
        Ok(Client {
            selection: self.settings.selection.clone(),
            peer,
            timeout: self.service.budget().deadline,
            asks: (!is_modern).then(|| self.asks.clone()),
        })
    }

    /// Runs a request in a task of its own.
    fn run(&mut self, request: Request, client: Client) -> Result<(), RpcError> {
        let (id, cancel) = (request.id.clone(), self.settings.stop.child_token());
        {
            let mut running = lock(&self.running);
            if running.contains_key(&id) {
                return Err(in_use(&id));
            }
            if running.len() >= MAX_RUNNING {
                let message = format!("{MAX_RUNNING} requests are running");
                return Err(RpcError::new(code::REFUSED, message));
            }
            running.insert(id.clone(), cancel.clone());
        }
        let (service, ready) = (self.service.clone(), self.settings.ready.clone());
        let (output, running) = (self.output.clone(), self.running.clone());
        self.tasks.spawn(async move {
            let sending = async {
                if request.method.starts_with("tools/") {
                    ready.cancelled().await;
                }
                let sending = send_all(service.begin(request, client), &output);
                if AssertUnwindSafe(sending).catch_unwind().await.is_err() {
                    error!("a request of an MCP client made the gateway panic");
                    let failure = RpcError::new(code::INTERNAL, "the gateway failed");
                    let _ = output.send(message::failure(Some(&id), &failure)).await;
                }
            };
            // Of a cancelled request no response is sent (section "Cancellation").
            cancel.run_until_cancelled(sending).await;
            lock(&running).remove(&id);
        });
        Ok(())
    }

    fn notification(&mut self, notification: &Notification) {
        if let Some(id) = notification.cancelled() {
            if let Some(cancel) = lock(&self.running).get(&id) {
                cancel.cancel();
            }
        } else if notification.method == "notifications/initialized" {
            self.watch();
        }
    }

    /// Begins to notify of changes of the list of tools, unless it has begun already.
    fn watch(&mut self) {
        self.watching.cancel();
        self.watching = self.settings.stop.child_token();
        let (service, selection) = (self.service.clone(), self.settings.selection.clone());
        let (output, stop) = (self.output.clone(), self.watching.clone());
        let ready = self.settings.ready.clone();
        self.tasks.spawn(async move {
            let notifying = async {
                ready.cancelled().await;
                let mut watch = ListWatch::new(service.toolboxes(), selection, None);
                loop {
                    watch.changed(service.toolboxes()).await;
                    if output.send(service::list_changed()).await.is_err() {
                        return;
                    }
                }
            };
            stop.run_until_cancelled(notifying).await;
        });
    }

    /// Waits for the running requests to end.
    async fn drain(&mut self) {
        self.watching.cancel();
        self.service.closing().cancel();
        while self.tasks.join_next().await.is_some() {}
    }

    async fn send(&self, text: String) {
        // The client may be gone; the end of its input says so.
        let _ = self.output.send(text).await;
    }
}

/// Writes what an exchange sends.
async fn send_all(mut exchange: Exchange, output: &mpsc::Sender<String>) {
    while let Some(outgoing) = exchange.next().await {
        let (Outgoing::Before(text) | Outgoing::Last(Answer { text, .. })) = outgoing;
        if output.send(text).await.is_err() {
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
