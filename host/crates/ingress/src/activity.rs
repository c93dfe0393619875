//! Tracks the requests and responses of one connection, and ends the connection after too long a
//! time in one state.
//!
//! hyper only times the head of an HTTP/1 request, by a timer that it sets for each, and is told not to. An HTTP/2
//! connection may send pings for ever, never read its responses, or begin requests and reset them at once; none of that
//! counts as use here.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Maximum number of aborted requests of a connection in excess of those that got a response.
/// Resetting streams as fast as they are opened costs a client nothing and the gateway one call
/// each (CVE-2023-44487). It is twice the number of streams that a connection may have.
const MAX_BROKEN_OFF: usize = 128;

/// Maximum time of a connection in each state.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionTimeouts {
    /// From the start of the connection to the end of the first request's head.
    pub(super) first_head: Duration,
    /// Without any request. Over HTTP/1, the next head arrives in it.
    pub(super) idle: Duration,
    /// From the moment a response is ready until all of it is sent.
    pub(super) write: Duration,
}

/// Reason that the gateway closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseReason {
    /// It never sent a request.
    Silent,
    /// It sent no request for longer than the idle time.
    Idle,
    /// It could be interrupted, and a new connection needed its room.
    Evicted,
    /// The client did not read a response in time.
    Unread,
    /// The client aborted too many requests.
    BrokenOff,
}

/// Position in the order of eviction: the lowest is evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionRank {
    /// No request is running and every response is sent, since this time.
    Idle(Instant),
    /// Every running request may be interrupted, and the oldest unsent response was ready at this
    /// time.
    Unsent(Instant),
    /// Bodies of requests arrive, or their senders are not known yet, and nothing else is running,
    /// since this time.
    Reading(Instant),
    /// Streams wait for notifications, and nothing else is running, since this time.
    Waiting(Instant),
}

impl EvictionRank {
    /// Returns the rank without its time.
    pub(super) fn class(self) -> u8 {
        match self {
            Self::Idle(_) => 0,
            Self::Unsent(_) => 1,
            Self::Reading(_) => 2,
            Self::Waiting(_) => 3,
        }
    }
}

/// State in which a running request may be interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parking {
    /// Its body arrives, or its sender is not known yet.
    Reading,
    /// It is a stream that waits for notifications.
    Waiting,
}

/// State of one connection's requests.
pub struct Activity {
    state: Mutex<ActivityState>,
    changed: Notify,
}

struct ActivityState {
    has_asked: bool,
    /// Requests whose responses are not ready yet.
    running: usize,
    /// The unsent responses and parts of responses, the oldest first.
    unsent: VecDeque<UnsentPart>,
    next_answer: u64,
    next_request: u64,
    /// Start of the time without running requests and unsent responses.
    idle_since: Instant,
    broken_off: usize,
    is_evicted: bool,
    /// The running requests that may be interrupted, by number.
    parked: BTreeMap<u64, EvictionRank>,
    next_parked: u64,
    /// The wait for the end of the connection; `None` if another wait must see every change.
    watch: Option<EndWatch>,
}

/// A wait for the end of the connection.
#[derive(Clone, Copy)]
struct EndWatch {
    waits: ConnectionTimeouts,
    /// Time at which it looks at the state again; `None` if it waits for a change.
    until: Option<Instant>,
}

/// Next step of the wait for the end of the connection.
enum EndWait {
    /// The connection must be closed.
    Over(CloseReason),
    /// The wait goes on until a change, or until this time.
    Until(Instant),
    /// The wait goes on until a change.
    ForChange,
}

/// A response, or a part of one, that its client has not read.
struct UnsentPart {
    number: u64,
    /// Time when it was ready.
    since: Instant,
    /// Number of its request, if that is still running.
    streamed: Option<u64>,
}

impl Activity {
    /// Creates the state of a connection that starts now.
    pub fn new() -> Arc<Self> {
        let state = ActivityState {
            has_asked: false,
            running: 0,
            unsent: VecDeque::new(),
            next_answer: 0,
            next_request: 0,
            idle_since: Instant::now(),
            broken_off: 0,
            is_evicted: false,
            parked: BTreeMap::new(),
            next_parked: 0,
            watch: None,
        };
        Arc::new(Self { state: Mutex::new(state), changed: Notify::new() })
    }

    /// Records the start of a request.
    pub fn begin(self: &Arc<Self>) -> RunningRequest {
        let number = self.change(|state| {
            state.has_asked = true;
            state.running += 1;
            state.next_request += 1;
            state.next_request
        });
        RunningRequest { activity: self.clone(), number, is_answered: false }
    }

    /// Notes that a running request may be interrupted, until the result is dropped.
    pub(super) fn park(self: &Arc<Self>, parking: Parking) -> ParkedRequest {
        let number = self.change(|state| {
            let rank = match parking {
                Parking::Reading => EvictionRank::Reading,
                Parking::Waiting => EvictionRank::Waiting,
            };
            state.next_parked += 1;
            state.parked.insert(state.next_parked, rank(Instant::now()));
            state.next_parked
        });
        ParkedRequest { activity: self.clone(), number }
    }

    /// Returns the eviction rank of the connection; `None` while a request is running that may not be
    /// interrupted, or after eviction.
    pub fn rank(&self) -> Option<EvictionRank> {
        let state = self.state();
        if state.is_evicted { None } else { state.rank() }
    }

    /// Marks the connection as evicted unless it has no rank. Returns whether it is evicted.
    pub(super) fn evict(&self) -> bool {
        self.change(|state| {
            state.is_evicted |= state.rank().is_some();
            state.is_evicted
        })
    }

    /// Waits until the connection must be closed.
    pub(super) async fn end(&self, waits: &ConnectionTimeouts) -> CloseReason {
        loop {
            let changed = self.changed.notified();
            let watched = self.state().watch(waits);
            match watched {
                EndWait::Over(reason) => return reason,
                EndWait::Until(at) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(at) => {}
                },
                EndWait::ForChange => changed.await,
            }
        }
    }

    /// Waits until no request is running, except for those whose streams are unread for longer than
    /// `write`.
    pub(super) async fn answered(&self, write: Duration) {
        loop {
            let changed = self.changed.notified();
            let (running, unread, next) = {
                let mut state = self.state();
                state.watch = None;
                state.unread(write)
            };
            if running <= unread {
                return;
            }
            match next {
                Some(at) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut ActivityState) -> T) -> T {
        let mut state = self.state();
        let was_idle = state.is_idle();
        let changed = change(&mut state);
        if state.is_idle() && !was_idle {
            state.idle_since = Instant::now();
        }
        let is_awaited = state.is_awaited();
        drop(state);
        // `notify_one` stores the notification if the waiting task does not wait at this moment.
        if is_awaited {
            self.changed.notify_one();
        }
        changed
    }

    fn state(&self) -> MutexGuard<'_, ActivityState> {
        self.state.lock()
    }
}

impl ActivityState {
    fn is_idle(&self) -> bool {
        self.running == 0 && self.unsent.is_empty()
    }

    /// Notes a response, or a part of one, that is ready now. Returns its number.
    fn await_sending(&mut self, streamed: Option<u64>) -> u64 {
        self.await_sending_since(Instant::now(), streamed)
    }

    /// As [`Self::await_sending`], of one that is ready since a time.
    fn await_sending_since(&mut self, since: Instant, streamed: Option<u64>) -> u64 {
        let number = self.next_answer;
        self.next_answer += 1;
        self.unsent.push_back(UnsentPart { number, since, streamed });
        number
    }

    /// Returns the time when the oldest unsent response was ready.
    fn oldest_unsent(&self) -> Option<Instant> {
        self.unsent.front().map(|unsent| unsent.since)
    }

    /// Returns the number of running requests, the number of those whose streams are unread for
    /// longer than `write`, and the time when this may change by itself.
    fn unread(&self, write: Duration) -> (usize, usize, Option<Instant>) {
        let now = Instant::now();
        let (late, in_time): (Vec<_>, Vec<_>) =
            self.unsent.iter().partition(|unsent| unsent.since + write <= now);
        let unread: BTreeSet<u64> = late.iter().filter_map(|unsent| unsent.streamed).collect();
        (self.running, unread.len(), in_time.first().map(|unsent| unsent.since + write))
    }

    /// `None` while a request is running that may not be interrupted. An unsent response alone does
    /// not protect a connection: a client that never reads its responses, not even a refusal for a
    /// missing key, would keep its place until `write` is over.
    fn rank(&self) -> Option<EvictionRank> {
        (self.running <= self.parked.len()).then(|| {
            let unsent = self.oldest_unsent().map(EvictionRank::Unsent);
            let rank = unsent.or_else(|| self.parked.values().max().copied());
            rank.unwrap_or(EvictionRank::Idle(self.idle_since))
        })
    }

    /// Returns the next step of the wait for the end of the connection, and records its time. A recorded time in the
    /// future is kept, even if the end is due later by now: the next response would set it again, and wake the connection.
    fn watch(&mut self, waits: &ConnectionTimeouts) -> EndWait {
        let now = Instant::now();
        let due = self.due(waits);
        if let Some((_, reason)) = due.filter(|(at, _)| *at <= now) {
            return EndWait::Over(reason);
        }
        let noted = self.watch.and_then(|watch| watch.until).filter(|until| *until > now);
        let until = due.map(|(at, _)| at).into_iter().chain(noted).min();
        self.watch = Some(EndWatch { waits: *waits, until });
        until.map_or(EndWait::ForChange, EndWait::Until)
    }

    /// Returns whether the task that waits for the end of the connection must be woken, and records the time of its next
    /// wake-up. It is not woken if the end is due later than before: it checks the state again at the earlier time. Every
    /// request changes the state several times, a stream with each chunk, and each notification costs one more
    /// poll of the whole connection.
    fn is_awaited(&mut self) -> bool {
        let Some(EndWatch { waits, until }) = self.watch else { return true };
        let due = self.due(&waits).map(|(at, _)| at);
        let is_earlier = due.is_some_and(|at| until.is_none_or(|until| at < until));
        if is_earlier {
            self.watch = Some(EndWatch { waits, until: due });
        }
        is_earlier
    }

    /// Removes a response, or a part of one, that is sent.
    fn sent(&mut self, number: u64) {
        // Most are sent in their order.
        if let Some(at) = self.unsent.iter().position(|unsent| unsent.number == number) {
            self.unsent.remove(at);
        }
    }

    /// Returns the time when the connection must be closed in its current state, and the reason.
    fn due(&self, waits: &ConnectionTimeouts) -> Option<(Instant, CloseReason)> {
        if self.broken_off > MAX_BROKEN_OFF {
            return Some((self.idle_since, CloseReason::BrokenOff));
        }
        if self.is_evicted {
            return Some((self.idle_since, CloseReason::Evicted));
        }
        if let Some(since) = self.oldest_unsent() {
            return Some((since + waits.write, CloseReason::Unread));
        }
        match (self.is_idle(), self.has_asked) {
            (true, true) => Some((self.idle_since + waits.idle, CloseReason::Idle)),
            (true, false) => Some((self.idle_since + waits.first_head, CloseReason::Silent)),
            (false, _) => None,
        }
    }
}

/// A request that is being handled. Dropping it without a response counts it as aborted.
pub struct RunningRequest {
    activity: Arc<Activity>,
    /// Its number on the connection.
    number: u64,
    is_answered: bool,
}

impl RunningRequest {
    /// Records that a streamed response has begun. The request stays in the state of running until
    /// it is dropped, and a client that ends it early has not aborted it.
    pub(super) fn begin_answer(&mut self) {
        self.is_answered = true;
        self.activity.change(|state| state.broken_off = state.broken_off.saturating_sub(1));
    }

    /// Records that the client must read: a part of the response is ready and remains to be sent, or
    /// there is no room for the next one.
    pub(super) fn send_part(&self) -> SendingResponse {
        let number = self.activity.change(|state| state.await_sending(Some(self.number)));
        SendingResponse { activity: self.activity.clone(), number }
    }

    /// Records at once, as [`Self::send_part`] does, that a part is ready and that there is no room for the next one.
    pub(super) fn send_part_before_next(&self) -> [SendingResponse; 2] {
        let numbers = self.activity.change(|state| {
            let now = Instant::now();
            [0, 1].map(|_| state.await_sending_since(now, Some(self.number)))
        });
        numbers.map(|number| SendingResponse { activity: self.activity.clone(), number })
    }

    /// Records that the response is ready and remains to be sent.
    pub(super) fn answer(mut self) -> SendingResponse {
        self.is_answered = true;
        let number = self.activity.change(|state| {
            state.broken_off = state.broken_off.saturating_sub(1);
            state.await_sending(None)
        });
        SendingResponse { activity: self.activity.clone(), number }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.activity.change(|state| {
            state.running -= 1;
            state.broken_off += usize::from(!self.is_answered);
        });
    }
}

/// A running request that may be interrupted.
pub struct ParkedRequest {
    activity: Arc<Activity>,
    number: u64,
}

impl Drop for ParkedRequest {
    fn drop(&mut self) {
        self.activity.change(|state| state.parked.remove(&self.number));
    }
}

/// A response that is being sent. Dropping it records that it is sent, or never will be.
pub(super) struct SendingResponse {
    activity: Arc<Activity>,
    number: u64,
}

impl Drop for SendingResponse {
    fn drop(&mut self) {
        self.activity.change(|state| state.sent(self.number));
    }
}

#[cfg(test)]
mod tests;
