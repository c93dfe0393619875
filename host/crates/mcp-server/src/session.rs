//! Sessions of the legacy era over HTTP.
//!
//! A session belongs to the tenant that opened it, and to the path: for every other one it does not exist. Its
//! requests outlive their connections, because a lost connection is no cancellation, and the events of
//! their streams are kept for a while. Everything that grows is bounded, per tenant and in all.

mod response;
mod set;
mod table;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::{
    response::SessionResponse,
    set::{Sessions, StreamSlot},
};
use super::{
    event_log::EventLog,
    exchange::{Asks, Exchange, Outgoing},
    meta::{LogLevel, Peer},
    metrics::ServerTimes,
    running::{RunningRequests, guarded},
    subscriptions::Subscriptions,
    toolbox::ToolboxScope,
    watch::Known,
};
use airlock_core::{
    door::SessionSources, memory::MemoryBudget, replica::ReplicaId, tenant::Tenant,
};
use airlock_wire::{
    error::{RpcError, code},
    id::RpcId,
    message,
};

/// Time that the events of a completed request are kept for a client that lost its stream.
const KEPT_FOR: Duration = Duration::from_mins(1);
/// The most completed requests of a session whose events are kept.
const KEPT_LOGS: usize = 16;
/// Bytes of the events of completed requests that a session keeps.
const KEPT_BYTES: usize = 4 << 20;

/// A session that one client opened with `initialize`.
pub struct Session {
    id: Arc<str>,
    tenant: Tenant,
    /// Tools of the path at which it was opened.
    scope: ToolboxScope,
    peer: Peer,
    /// Name that the client gives itself.
    name: OnceLock<Arc<str>>,
    /// The gateway's requests to the client.
    asks: Arc<Asks>,
    subscriptions: Subscriptions,
    /// Sources whose results the client has received.
    received: SessionSources,
    state: Mutex<McpSessionState>,
    /// Number of the stream that receives notifications; 0 if none does.
    listener: AtomicU64,
    next_stream: AtomicU64,
    closed: CancellationToken,
    tasks: TaskTracker,
    opened: Instant,
    times: Arc<ServerTimes>,
}

struct McpSessionState {
    log_level: Option<LogLevel>,
    last_used: Instant,
    /// Streams that wait for notifications.
    listening: usize,
    running: RunningRequests,
    /// Events by stream, the oldest first.
    logs: BTreeMap<u64, Arc<EventLog>>,
    /// The lists that the client knows.
    known: Known,
}

impl Session {
    fn new(
        tenant: Tenant,
        scope: ToolboxScope,
        peer: Peer,
        tasks: TaskTracker,
        times: Arc<ServerTimes>,
    ) -> Self {
        let state = McpSessionState {
            log_level: peer.log_level,
            last_used: Instant::now(),
            listening: 0,
            running: RunningRequests::default(),
            logs: BTreeMap::new(),
            known: Known::default(),
        };
        Self {
            id: ReplicaId::handle().to_string().into(),
            tenant,
            scope,
            peer,
            name: OnceLock::new(),
            asks: Arc::default(),
            subscriptions: Subscriptions::default(),
            received: SessionSources::default(),
            state: Mutex::new(state),
            listener: AtomicU64::new(0),
            next_stream: AtomicU64::new(1),
            closed: CancellationToken::new(),
            tasks,
            opened: Instant::now(),
            times,
        }
    }

    /// Its identifier, for `Mcp-Session-Id`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its client, with the level of log messages that was set last.
    pub fn peer(&self) -> Peer {
        Peer { log_level: self.state().log_level, ..self.peer }
    }

    /// Sets the name that its client gives itself.
    pub fn set_client_name(&self, name: Arc<str>) {
        // A client is initialized once in a session.
        let _ = self.name.set(name);
    }

    /// Returns the name that its client gives itself; `None` if it has sent none.
    pub fn client_name(&self) -> Option<Arc<str>> {
        self.name.get().cloned()
    }

    /// Returns the requests of the gateway that the client has not answered yet.
    pub fn asks(&self) -> &Arc<Asks> {
        &self.asks
    }

    /// Sets the level from which on the client receives log messages.
    pub fn set_log_level(&self, level: LogLevel) {
        self.state().log_level = Some(level);
    }

    /// Notes a list that the client knows.
    pub fn set_known(&self, known: Known) {
        self.state().known.merge(known);
    }

    /// The lists that the client knows.
    pub fn known(&self) -> Known {
        self.state().known
    }

    /// Its subscriptions to resources.
    pub fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// Sources whose results the client has received.
    pub fn received(&self) -> &SessionSources {
        &self.received
    }

    /// Token that is cancelled when the session is closed.
    pub fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Begins an exchange. Returns its response, which works on it; its events take their memory from
    /// `memory`. `held` is what the request itself holds: it is dropped when the request has ended.
    /// Fails if a request with the same identifier is running, or too many are. Must be called within a
    /// tokio runtime.
    pub fn run(
        self: &Arc<Self>,
        exchange: Exchange,
        memory: MemoryBudget,
        held: impl Send + 'static,
    ) -> Result<SessionResponse, RpcError> {
        let id = exchange.id().clone();
        let cancel = self.closed.child_token();
        let log = {
            let mut state = self.state();
            state.running.begin(&id, &cancel)?;
            let stream = self.next_stream.fetch_add(1, Ordering::Relaxed);
            let log = Arc::new(EventLog::new(stream, self.closed.child_token()));
            state.logs.insert(stream, log.clone());
            log
        };
        let session = self.clone();
        let filled = log.clone();
        let work = self.tasks.track_future(async move {
            let filling = guarded(&id, fill(&filled, exchange, &memory));
            let response = cancel.run_until_cancelled(filling).await.flatten();
            // Before the response, which the client may answer with the next request.
            session.state().running.end(&id);
            match response {
                Some(response) => complete(&filled, &id, response, &memory),
                // Of a cancelled request no response is sent (section "Cancellation").
                None => filled.abandon(),
            }
            session.retire(filled.stream);
            drop((held, memory));
        });
        Ok(SessionResponse::new(work, self.clone(), log))
    }

    /// Cancels a request of the client, if it is running.
    pub fn cancel(&self, id: &RpcId) {
        self.state().running.cancel(id);
    }

    /// Finds the events of a stream; `None` if they are not kept any more.
    pub fn log(&self, stream: u64) -> Option<Arc<EventLog>> {
        self.state().logs.get(&stream).cloned()
    }

    /// Drops the events of a stream.
    pub(crate) fn forget(&self, stream: u64) {
        self.state().logs.remove(&stream);
    }

    /// Begins to listen for notifications. The newest stream receives them.
    pub fn listen(self: &Arc<Self>) -> Listening {
        let number = self.next_stream.fetch_add(1, Ordering::Relaxed);
        self.listener.store(number, Ordering::Relaxed);
        self.state().listening += 1;
        Listening { session: self.clone(), number }
    }

    /// Ends a request. Of the completed ones, the oldest events are dropped beyond the bounds.
    fn retire(&self, stream: u64) {
        let mut state = self.state();
        state.last_used = Instant::now();
        let mut kept: Vec<(u64, usize)> = state
            .logs
            .values()
            .filter(|log| log.is_complete() && log.stream != stream)
            .map(|log| (log.stream, log.bytes()))
            .collect();
        let mut bytes: usize = kept.iter().map(|(_, bytes)| bytes).sum();
        while kept.len() >= KEPT_LOGS || (bytes > KEPT_BYTES && !kept.is_empty()) {
            let (oldest, freed) = kept.remove(0);
            // Its task ends with it: a client that makes thousands of requests a second would have a task for each of
            // the last minute.
            if let Some(log) = state.logs.remove(&oldest) {
                log.dropped().cancel();
            }
            bytes -= freed;
        }
    }

    fn is_alive(&self, now: Instant, idle: Duration) -> bool {
        self.idle_since().is_none_or(|since| now.duration_since(since) < idle)
    }

    /// Returns since when the session has neither requests nor streams; `None` if it has.
    fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.running.is_empty() && state.listening == 0).then_some(state.last_used)
    }

    fn close(&self) {
        self.closed.cancel();
        self.subscriptions.clear();
        let mut state = self.state();
        state.logs.clear();
    }

    fn state(&self) -> MutexGuard<'_, McpSessionState> {
        self.state.lock()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // One that has expired may be removed long after its last use.
        let is_closed = self.closed.is_cancelled();
        let ended = if is_closed { Instant::now() } else { self.state().last_used };
        self.times.observe_session(ended.saturating_duration_since(self.opened));
    }
}

/// Writes what precedes the response of an exchange, and returns the response. A notification without
/// room is dropped; without room for a question, the response is an error.
async fn fill(log: &EventLog, mut exchange: Exchange, memory: &MemoryBudget) -> Option<String> {
    loop {
        let outgoing = exchange.next().await?;
        let held = memory.charge();
        match outgoing {
            Outgoing::Before(text) | Outgoing::Ask(text) if held.grow(text.len()) => {
                log.push(text, Some(held));
            }
            Outgoing::Before(_) => {}
            // A question that the client never sees would be waited for.
            Outgoing::Ask(_) => return Some(message::failure(Some(exchange.id()), &no_memory())),
            Outgoing::Last(answer) => return Some(answer.text),
        }
    }
}

/// Adds the response to the events of its request; an error, if there is no memory for it.
fn complete(log: &EventLog, id: &RpcId, response: String, memory: &MemoryBudget) {
    let held = memory.charge();
    if held.grow(response.len()) {
        log.complete(response, Some(held));
    } else {
        log.complete(message::failure(Some(id), &no_memory()), None);
    }
}

/// The response does not fit into the memory of requests.
pub fn no_memory() -> RpcError {
    full("the gateway has no memory left for the response; ask for less".to_owned())
}

fn full(message: String) -> RpcError {
    RpcError::new(code::REFUSED, message)
}

/// A stream of a session that waits for notifications.
pub struct Listening {
    session: Arc<Session>,
    number: u64,
}

impl Listening {
    /// Returns whether the stream receives notifications: the newest one does, and once that has
    /// ended, the first other one that asks.
    pub fn is_current(&self) -> bool {
        let listener = &self.session.listener;
        let claimed =
            listener.compare_exchange(0, self.number, Ordering::Relaxed, Ordering::Relaxed);
        claimed.is_ok() || listener.load(Ordering::Relaxed) == self.number
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Self { session, number } = self;
        let _ = session.listener.compare_exchange(*number, 0, Ordering::Relaxed, Ordering::Relaxed);
        let mut state = session.state();
        state.listening -= 1;
        state.last_used = Instant::now();
    }
}

#[cfg(test)]
mod tests;
