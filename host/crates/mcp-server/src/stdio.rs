//! One client over a pair of queues: standard input and output, where each message is a line of JSON,
//! or the transport HTTP+SSE.
//!
//! Requests of both eras may be mixed. A client of the legacy era declares its capabilities with
//! `initialize`; before, it is treated as a client without any.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    exchange::{Answer, Asks, Exchange, Outgoing},
    meta::{self, Peer},
    metrics::ObservedSession,
    running::{RunningRequests, guarded},
    service::{self, EMPTY_RESULT, McpService, Requester},
    session::no_memory,
    subscriptions::Subscriptions,
    toolbox::Selection,
    watch::{Known, ListWatch},
};
use airlock_core::{
    door::SessionSources,
    memory::{Charge, MemoryBudget},
    tool::QuestionKinds,
};
use airlock_wire::{
    error::RpcError,
    lines::{Line, caps},
    message::{self, BadMessage, Message, Notification, Request},
    method,
    version::Version,
};

/// A message of the client.
pub enum Input {
    /// A line, as it came.
    Line(Line),
    /// A message that its transport has read. What it and its response take is charged to the budget,
    /// which is kept until the response is in the queue.
    Message(Message, MemoryBudget),
}

impl From<Line> for Input {
    fn from(line: Line) -> Self {
        Self::Line(line)
    }
}

/// Settings of a connection.
pub struct ConnectionSettings {
    /// The tools that the client may see.
    pub selection: Selection,
    /// Longest line, in bytes.
    pub limit_bytes: usize,
    /// Time for running requests to end after the end of the input.
    pub drain_timeout: Duration,
    /// Cancelled when the first list of tools can be complete. Requests for tools wait until then.
    pub ready: CancellationToken,
    /// Cancelled when the connection has to end at once.
    pub stop: CancellationToken,
    /// The running requests of the connection.
    pub requests: ConnectionRequests,
}

/// Running requests of one connection, as its owner sees them. Clones share them.
#[derive(Clone, Default)]
pub struct ConnectionRequests(Arc<Mutex<RunningRequests>>);

impl ConnectionRequests {
    /// Returns whether no request is running.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// Serves one client until its input ends or `stop` is cancelled. After the end of the input,
/// running requests have `drain_timeout` to complete, and are then cancelled.
pub async fn serve_connection(
    service: Arc<McpService>,
    settings: ConnectionSettings,
    mut input: mpsc::Receiver<impl Into<Input>>,
    output: mpsc::Sender<String>,
) {
    let stop = settings.stop.clone();
    let drain_timeout = settings.drain_timeout;
    let _session = ObservedSession::open(service.times().clone());
    let mut connection = StdioClient::new(service.of_connection(), settings, output);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            next = input.recv() => match next {
                // The client may not read what is answered.
                Some(next) => {
                    if stop.run_until_cancelled(connection.take(next.into())).await.is_none() {
                        return;
                    }
                }
                None => break,
            },
            Some(_) = connection.tasks.join_next() => {}
        }
    }
    let draining = tokio::time::timeout(drain_timeout, connection.drain());
    let _ = stop.run_until_cancelled(draining).await;
}

/// One client.
struct StdioClient {
    service: Arc<McpService>,
    settings: ConnectionSettings,
    output: mpsc::Sender<String>,
    /// Client of the legacy era, once it has sent `initialize`.
    peer: Option<Peer>,
    /// Name that it gives itself.
    name: Option<Arc<str>>,
    asks: Arc<Asks>,
    /// Sources whose results the client has received.
    received: SessionSources,
    /// Subscriptions of a client of the legacy era.
    subscriptions: Arc<Subscriptions>,
    tasks: JoinSet<()>,
    /// Watches lists and resources for a client of the legacy era.
    watching: CancellationToken,
}

impl StdioClient {
    fn new(
        service: Arc<McpService>,
        settings: ConnectionSettings,
        output: mpsc::Sender<String>,
    ) -> Self {
        Self {
            watching: settings.stop.child_token(),
            service,
            settings,
            output,
            peer: None,
            name: None,
            asks: Arc::default(),
            received: SessionSources::default(),
            subscriptions: Arc::default(),
            tasks: JoinSet::new(),
        }
    }

    async fn take(&mut self, input: Input) {
        let (read, memory) = match input {
            Input::Line(line) => (self.read(line), MemoryBudget::unlimited()),
            Input::Message(message, memory) => (Ok(Some(message)), memory),
        };
        match read {
            Ok(None) => {}
            Ok(Some(Message::Request(request))) => self.request(request, memory.charge()).await,
            Ok(Some(Message::Notification(notification))) => self.notification(&notification),
            Ok(Some(Message::Response(response))) => {
                // One to a request that the gateway has given up changes nothing.
                self.asks.resolve(&response);
            }
            Err(bad) => self.send(message::failure(bad.id.as_ref(), &bad.error)).await,
        }
    }

    fn read(&self, line: Line) -> Result<Option<Message>, BadMessage> {
        let limit_bytes = self.settings.limit_bytes;
        let text = line.into_text(limit_bytes)?;
        text.map(|text| Message::read(text, &caps(limit_bytes))).transpose()
    }

    async fn request(&mut self, request: Request, memory: Charge) {
        let id = request.id.clone();
        let began = Instant::now();
        let is_modern = request.params.names_version() || request.method == method::DISCOVER;
        let name = method::metric_name(&request.method);
        let result = match request.method.as_str() {
            method::INITIALIZE if !is_modern => self.initialize(&request),
            method::SET_LEVEL if !is_modern => {
                service::requested_log_level(&request).map(|level| {
                    let peer = self.legacy_peer();
                    self.peer = Some(Peer { log_level: Some(level), ..peer });
                    EMPTY_RESULT.to_owned()
                })
            }
            method::RESOURCES_SUBSCRIBE | method::RESOURCES_UNSUBSCRIBE if !is_modern => {
                self.client(&request, false).and_then(|client| {
                    self.service.change_subscription(&request, &client, &self.subscriptions)
                })
            }
            _ => {
                let client = self.client(&request, is_modern);
                match client.and_then(|client| self.run(request, client, memory)) {
                    Ok(()) => return,
                    Err(error) => Err(error),
                }
            }
        };
        self.service.times().observe(name, began, &result);
        self.send(Answer::new(&id, result).text).await;
    }

    fn initialize(&mut self, request: &Request) -> Result<String, RpcError> {
        let peer = Peer::initializing(&request.params)?;
        self.peer = Some(peer);
        self.name = meta::initialized_name(&request.params);
        Ok(self.service.initialized(peer.version, &self.settings.selection))
    }

    /// Client of the legacy era as far as it is known.
    fn legacy_peer(&self) -> Peer {
        let questions = QuestionKinds::NONE;
        let unknown =
            Peer { version: Version::LATEST_LEGACY, questions, log_level: None, takes_tasks: true };
        self.peer.unwrap_or(unknown)
    }

    fn client(&self, request: &Request, is_modern: bool) -> Result<Requester, RpcError> {
        let peer = if is_modern { Peer::modern(&request.params)? } else { self.legacy_peer() };
        let budget = self.service.latest().budget();
        Ok(Requester {
            selection: self.settings.selection.clone(),
            peer,
            name: if is_modern { meta::client_name(&request.params) } else { self.name.clone() },
            timeout: budget.script.max(budget.deadline),
            asks: (!is_modern).then(|| self.asks.clone()),
            received: self.received.clone(),
        })
    }

    /// Runs a request in a task of its own.
    fn run(&mut self, request: Request, client: Requester, memory: Charge) -> Result<(), RpcError> {
        let id = request.id.clone();
        let cancel = self.settings.stop.child_token();
        self.settings.requests.0.lock().begin(&id, &cancel)?;
        let service = self.service.latest();
        let ready = self.settings.ready.clone();
        let output = self.output.clone();
        let running = self.settings.requests.0.clone();
        self.tasks.spawn(async move {
            let working = async {
                if method::needs_sources(&request.method) {
                    ready.cancelled().await;
                }
                if method::is_list(&request.method) {
                    service.settled(&client.selection).await;
                }
                response(service.begin(request, client), &output).await
            };
            // Of a cancelled request no response is sent (section "Cancellation").
            let response = cancel.run_until_cancelled(guarded(&id, working)).await.flatten();
            // Before the response, which the client may answer with the next request.
            running.lock().end(&id);
            if let Some(response) = response {
                let response = if memory.grow(response.len()) {
                    response
                } else {
                    message::failure(Some(&id), &no_memory())
                };
                let _ = output.send(response).await;
            }
            drop(memory);
        });
        Ok(())
    }

    fn notification(&mut self, notification: &Notification) {
        if let Some(id) = notification.cancelled() {
            self.settings.requests.0.lock().cancel(&id);
        } else if notification.method == method::INITIALIZED {
            self.watch();
        }
    }

    /// Begins to notify of changes of lists and resources. Ends an earlier watch.
    fn watch(&mut self) {
        self.watching.cancel();
        self.watching = self.settings.stop.child_token();
        let service = self.service.clone();
        let selection = self.settings.selection.clone();
        let output = self.output.clone();
        let stop = self.watching.clone();
        let ready = self.settings.ready.clone();
        let subscriptions = self.subscriptions.clone();
        self.tasks.spawn(async move {
            let notifying = async {
                ready.cancelled().await;
                let toolboxes = service.toolboxes();
                let mut watch = ListWatch::new(toolboxes, selection, Known::default());
                loop {
                    let notices: Vec<String> = tokio::select! {
                        changed = watch.changed(toolboxes) => {
                            changed.kinds().map(service::list_changed).collect()
                        }
                        uri = subscriptions.updated() => vec![service::resource_updated(&uri)],
                    };
                    for notice in notices {
                        if output.send(notice).await.is_err() {
                            return;
                        }
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

/// Writes what precedes the response of an exchange, and returns the response; `None` if the client
/// is gone.
async fn response(mut exchange: Exchange, output: &mpsc::Sender<String>) -> Option<String> {
    loop {
        match exchange.next().await? {
            Outgoing::Before(text) | Outgoing::Ask(text) => output.send(text).await.ok()?,
            Outgoing::Last(answer) => return Some(answer.text),
        }
    }
}
