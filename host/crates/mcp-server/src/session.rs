//! Sessions of the legacy era over HTTP.
//!
//! A session belongs to the tenant that opened it, and to the path: for every other one it does not exist. Its
//! requests run in tasks of their own, because a lost connection is no cancellation, and their events
//! are kept for a while. Everything that grows is bounded, per tenant and in all.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    event_log::{EventLog, EventReader},
    exchange::{Asks, Exchange, Outgoing},
    meta::{LogLevel, Peer},
    metrics::ServerTimes,
    running::{RunningRequests, guarded},
    settings::SessionBounds,
    subscriptions::Subscriptions,
    toolbox::Scope,
    watch::Known,
};
use airlock_core::{memory::MemoryBudget, replica::ReplicaId, tenant::Tenant};
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

/// The most sessions, and streams, that make room for another one. After a bound was lowered, there are more
/// than it permits; all of them at once would hold up every other client for as long as it takes to find them.
const MOST_CLOSED: usize = 16;

/// All sessions.
pub struct Sessions {
    bounds: Mutex<SessionBounds>,
    by_id: Mutex<HashMap<Arc<str>, Arc<Session>>>,
    streams: Mutex<Streams>,
    /// Running requests.
    tasks: TaskTracker,
    times: Arc<ServerTimes>,
}

/// Streams that wait for notifications, by tenant and in their order.
#[derive(Default)]
struct Streams {
    by_tenant: HashMap<Tenant, BTreeMap<u64, CancellationToken>>,
    next: u64,
}

impl Streams {
    fn count(&self) -> usize {
        self.by_tenant.values().map(BTreeMap::len).sum()
    }

    /// Ends the oldest streams of a tenant beyond `most`, which is lower than it was when they began. Returns
    /// the number of the rest.
    fn cut(&mut self, tenant: &Tenant, most: usize) -> usize {
        let Some(own) = self.by_tenant.get_mut(tenant) else { return 0 };
        while own.len() > most {
            if let Some((_, evicted)) = own.pop_first() {
                evicted.cancel();
            }
        }
        own.len()
    }

    /// Ends the oldest stream of the tenant with the most, if that has at least two more than a
    /// tenant with `own`; false if it has not.
    fn displace(&mut self, own: usize) -> bool {
        let largest = self.by_tenant.values_mut().max_by_key(|streams| streams.len());
        let oldest =
            largest.filter(|streams| streams.len() > own + 1).and_then(BTreeMap::pop_first);
        oldest.map(|(_, evicted)| evicted.cancel()).is_some()
    }
}

/// A session that one client opened with `initialize`.
pub struct Session {
    id: Arc<str>,
    tenant: Tenant,
    /// Tools of the path at which it was opened.
    scope: Scope,
    peer: Peer,
    /// Name that the client gives itself.
    name: OnceLock<Arc<str>>,
    /// The gateway's requests to the client.
    asks: Arc<Asks>,
    subscriptions: Subscriptions,
    state: Mutex<SessionState>,
    /// Number of the stream that receives notifications; 0 if none does.
    listener: AtomicU64,
    next_stream: AtomicU64,
    closed: CancellationToken,
    tasks: TaskTracker,
    opened: Instant,
    times: Arc<ServerTimes>,
}

struct SessionState {
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

impl Sessions {
    /// Creates an empty set of sessions, whose times are measured.
    pub fn new(bounds: SessionBounds, times: Arc<ServerTimes>) -> Arc<Self> {
        Arc::new(Self {
            bounds: Mutex::new(bounds),
            by_id: Mutex::default(),
            streams: Mutex::default(),
            tasks: TaskTracker::new(),
            times,
        })
    }

    /// Changes the bounds. Sessions and streams beyond lower ones end when further ones are opened, some for
    /// each, in the order in which they make room for it.
    pub fn set_bounds(&self, bounds: SessionBounds) {
        *lock(&self.bounds) = bounds;
    }

    /// Opens a session. Fails if the tenant has as many as it may and none of them is idle, or if
    /// all are in use.
    pub fn open(&self, tenant: Tenant, scope: Scope, peer: Peer) -> Result<Arc<Session>, RpcError> {
        let bounds = *lock(&self.bounds);
        let mut by_id = lock(&self.by_id);
        let now = Instant::now();
        by_id.retain(|_, session| session.is_alive(now, bounds.idle));
        let mut own = count(&by_id, &tenant);
        for _ in 0..MOST_CLOSED {
            if own < bounds.per_key {
                break;
            }
            if !close_idle(&mut by_id, &tenant) {
                return Err(full(format!(
                    "this caller has {own} sessions in use, as many as it may; end one with DELETE"
                )));
            }
            own -= 1;
        }
        for _ in 0..MOST_CLOSED {
            if by_id.len() < bounds.total {
                break;
            }
            if !displace(&mut by_id, own) {
                return Err(full(format!("all {} sessions are in use", bounds.total)));
            }
            own = count(&by_id, &tenant);
        }
        let session = Session::new(tenant, scope, peer, self.tasks.clone(), self.times.clone());
        let session = Arc::new(session);
        by_id.insert(session.id.clone(), session.clone());
        Ok(session)
    }

    /// Finds a session of a tenant that was opened at the path with these tools; `None` if there is none,
    /// or if it is another tenant's or another path's.
    pub fn find(&self, id: &str, tenant: &Tenant, scope: &Scope) -> Option<Arc<Session>> {
        let idle = lock(&self.bounds).idle;
        let mut by_id = lock(&self.by_id);
        let session = by_id.get(id)?;
        let session = Some(session).filter(|own| own.tenant == *tenant && own.scope == *scope)?;
        let session = session.clone();
        let now = Instant::now();
        if session.is_alive(now, idle) {
            session.state().last_used = now;
            return Some(session);
        }
        by_id.remove(id);
        session.close();
        None
    }

    /// Closes a session: its requests are cancelled, its streams end.
    pub fn close(&self, session: &Session) {
        lock(&self.by_id).remove(&session.id);
        session.close();
    }

    /// Takes room for a stream that waits for notifications.
    pub fn stream(self: &Arc<Self>, tenant: Tenant) -> Result<StreamSlot, RpcError> {
        let bounds = *lock(&self.bounds);
        let mut streams = lock(&self.streams);
        let own = streams.cut(&tenant, bounds.streams_per_key);
        if own >= bounds.streams_per_key {
            return Err(full(format!("this caller has {own} waiting streams, as many as it may")));
        }
        for _ in 0..MOST_CLOSED {
            if streams.count() < bounds.streams {
                break;
            }
            if !streams.displace(own) {
                return Err(full(format!("all {} waiting streams are in use", bounds.streams)));
            }
        }
        let number = streams.next;
        let evicted = CancellationToken::new();
        streams.next += 1;
        streams.by_tenant.entry(tenant.clone()).or_default().insert(number, evicted.clone());
        drop(streams);
        Ok(StreamSlot { sessions: self.clone(), tenant, number, evicted })
    }

    /// Waits until no request is running. Call it when no more begin.
    pub async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Closes all sessions.
    pub fn close_all(&self) {
        for (_, session) in lock(&self.by_id).drain() {
            session.close();
        }
    }

    /// Returns the number of sessions, and that of streams that wait for notifications.
    pub fn usage(&self) -> (usize, usize) {
        (lock(&self.by_id).len(), lock(&self.streams).count())
    }
}

fn count(by_id: &HashMap<Arc<str>, Arc<Session>>, tenant: &Tenant) -> usize {
    by_id.values().filter(|session| session.tenant == *tenant).count()
}

fn full(message: String) -> RpcError {
    RpcError::new(code::REFUSED, message)
}

/// Closes the session of a tenant that has been idle for longest; false if none is idle.
fn close_idle(by_id: &mut HashMap<Arc<str>, Arc<Session>>, tenant: &Tenant) -> bool {
    let own = by_id.values().filter(|session| session.tenant == *tenant);
    let idle = own.filter_map(|session| Some((session.idle_since()?, session.id.clone())));
    let oldest = idle.min().map(|(_, id)| id);
    remove(by_id, oldest)
}

/// Closes a session; false if there is none.
fn remove(by_id: &mut HashMap<Arc<str>, Arc<Session>>, id: Option<Arc<str>>) -> bool {
    let session = id.and_then(|id| by_id.remove(&id));
    session.inspect(|session| session.close()).is_some()
}

/// Closes a session of the tenant with the most: the one that is idle for longest, or else the one
/// that was not used for longest, if that tenant has at least two more than a tenant with `own`.
/// False if none could be closed.
fn displace(by_id: &mut HashMap<Arc<str>, Arc<Session>>, own: usize) -> bool {
    let mut counts: HashMap<&Tenant, usize> = HashMap::new();
    for session in by_id.values() {
        *counts.entry(&session.tenant).or_default() += 1;
    }
    let Some((largest, count)) = counts.into_iter().max_by_key(|(_, count)| *count) else {
        return false;
    };
    let largest = largest.clone();
    if close_idle(by_id, &largest) {
        return true;
    }
    let busy = by_id.values().filter(|session| session.tenant == largest && count > own + 1);
    let oldest = busy.min_by_key(|session| session.state().last_used);
    let oldest = oldest.map(|session| session.id.clone());
    remove(by_id, oldest)
}

/// Room for a stream that waits for notifications. Dropping it gives the room back.
pub struct StreamSlot {
    sessions: Arc<Sessions>,
    tenant: Tenant,
    number: u64,
    evicted: CancellationToken,
}

impl StreamSlot {
    /// Waits until the room is needed for a stream of another tenant, which has fewer.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut streams = lock(&self.sessions.streams);
        if let Some(own) = streams.by_tenant.get_mut(&self.tenant) {
            own.remove(&self.number);
            if own.is_empty() {
                streams.by_tenant.remove(&self.tenant);
            }
        }
    }
}

impl Session {
    fn new(
        tenant: Tenant,
        scope: Scope,
        peer: Peer,
        tasks: TaskTracker,
        times: Arc<ServerTimes>,
    ) -> Self {
        let state = SessionState {
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

    /// Token that is cancelled when the session is closed.
    pub fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Runs an exchange in a task of its own. Returns its events, which take their memory from
    /// `memory`. `held` is what the request itself holds: it is dropped when the request has ended.
    /// Fails if a request with the same identifier is running, or too many are.
    pub fn run(
        self: &Arc<Self>,
        exchange: Exchange,
        memory: MemoryBudget,
        held: impl Send + 'static,
    ) -> Result<EventReader, RpcError> {
        let id = exchange.id().clone();
        let cancel = self.closed.child_token();
        let log = {
            let mut state = self.state();
            state.running.begin(&id, &cancel)?;
            let stream = self.next_stream.fetch_add(1, Ordering::Relaxed);
            let log = Arc::new(EventLog::new(stream));
            state.logs.insert(stream, log.clone());
            log
        };
        let reader = log.reader(0);
        let session = self.clone();
        let work = async move {
            let filling = guarded(&id, fill(&log, exchange, &memory));
            let response = cancel.run_until_cancelled(filling).await.flatten();
            // Before the response, which the client may answer with the next request.
            session.state().running.end(&id);
            match response {
                Some(response) => complete(&log, &id, response, &memory),
                // Of a cancelled request no response is sent (section "Cancellation").
                None => log.abandon(),
            }
            session.retire(log.stream);
            drop((held, memory));
            (session, log)
        };
        let work = self.tasks.track_future(work);
        tokio::spawn(async move {
            let (session, log) = work.await;
            let stream = log.stream;
            let is_streamed = session.closed.run_until_cancelled(log.is_streamed()).await;
            // While the events are kept, the session alone holds them.
            drop(log);
            if is_streamed == Some(true) {
                wait_or_cancelled(KEPT_FOR, &session.closed).await;
            }
            session.forget(stream);
        });
        Ok(reader)
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
            state.logs.remove(&oldest);
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

    fn state(&self) -> MutexGuard<'_, SessionState> {
        lock(&self.state)
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

/// Waits for a time, or until a token is cancelled.
async fn wait_or_cancelled(time: Duration, token: &CancellationToken) {
    let _ = token.run_until_cancelled(tokio::time::sleep(time)).await;
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests;
