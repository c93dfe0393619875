//! Tracks what one connection is doing, and ends it when that has gone on for too long.
//!
//! hyper times the head of a request over HTTP/1 and nothing else. A connection of HTTP/2 may send
//! pings for ever, never take its answers, or begin requests to break them off at once; none of
//! that counts as use here.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// Requests that a connection may have broken off beyond those that were answered. Resetting
/// streams as fast as they are opened costs a client nothing and the gateway a call each
/// (CVE-2023-44487).
const MAX_BROKEN_OFF: usize = 128;

/// How long a connection may go on in each state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waits {
    /// From its start to the end of the first request's head.
    pub(super) first_head: Duration,
    /// Without any request.
    pub(super) idle: Duration,
    /// From the answer to a request until all of it is sent.
    pub(super) write: Duration,
}

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// It never asked for anything.
    Silent,
    /// It asks for nothing any more.
    Idle,
    /// No request was running, and others needed its room.
    Evicted,
    /// It does not take an answer.
    Unread,
    /// It breaks its requests off.
    BrokenOff,
}

/// Place in the order of eviction: the least is evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// No request is running and every answer is sent, since this time.
    Idle(Instant),
    /// No request is running, and the oldest unsent answer was made at this time.
    Unsent(Instant),
}

/// One connection's requests.
pub(super) struct Activity {
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    has_asked: bool,
    /// Requests whose answers are not there yet.
    running: usize,
    /// When answers were there that are not sent yet, by their number.
    unsent: BTreeMap<u64, Instant>,
    next_answer: u64,
    /// Since when there is neither.
    idle_since: Instant,
    broken_off: usize,
    is_evicted: bool,
}

impl Activity {
    /// A connection that starts now.
    pub(super) fn new() -> Arc<Self> {
        let state = State {
            has_asked: false,
            running: 0,
            unsent: BTreeMap::new(),
            next_answer: 0,
            idle_since: Instant::now(),
            broken_off: 0,
            is_evicted: false,
        };
        Arc::new(Self { state: Mutex::new(state), changed: Notify::new() })
    }

    /// Notes that a request begins.
    pub(super) fn begin(self: &Arc<Self>) -> Running {
        self.change(|state| {
            state.has_asked = true;
            state.running += 1;
        });
        Running { activity: self.clone(), is_answered: false }
    }

    /// The connection's rank among those that may be evicted; `None` while a request is running or
    /// once it is evicted.
    pub(super) fn rank(&self) -> Option<Rank> {
        let state = self.state();
        if state.is_evicted { None } else { state.rank() }
    }

    /// Has the connection closed unless a request is running; returns whether it is evicted.
    pub(super) fn evict(&self) -> bool {
        self.change(|state| {
            state.is_evicted |= state.rank().is_some();
            state.is_evicted
        })
    }

    /// Waits until the connection has to be closed.
    pub(super) async fn end(&self, waits: &Waits) -> Reason {
        loop {
            let changed = self.changed.notified();
            let due = self.state().due(waits);
            match due {
                Some((at, reason)) if at <= Instant::now() => return reason,
                Some((at, _)) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Waits until no request is running.
    pub(super) async fn answered(&self) {
        loop {
            let changed = self.changed.notified();
            if self.state().running == 0 {
                return;
            }
            changed.await;
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let was_idle = state.is_idle();
        let changed = change(&mut state);
        if state.is_idle() && !was_idle {
            state.idle_since = Instant::now();
        }
        drop(state);
        // Kept for the one who waits if it is not waiting right now.
        self.changed.notify_one();
        changed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_idle(&self) -> bool {
        self.running == 0 && self.unsent.is_empty()
    }

    /// When the oldest answer that is not sent yet was made.
    fn oldest_unsent(&self) -> Option<Instant> {
        self.unsent.values().next().copied()
    }

    /// `None` while a request is running. An unsent answer alone does not protect a connection: a
    /// client that never reads its answers, not even a refusal for want of a key, would keep its
    /// place until `write` is over.
    fn rank(&self) -> Option<Rank> {
        (self.running == 0)
            .then(|| self.oldest_unsent().map_or(Rank::Idle(self.idle_since), Rank::Unsent))
    }

    /// When the connection has to be closed as things are, and why.
    fn due(&self, waits: &Waits) -> Option<(Instant, Reason)> {
        if self.broken_off > MAX_BROKEN_OFF {
            return Some((self.idle_since, Reason::BrokenOff));
        }
        if self.is_evicted {
            return Some((self.idle_since, Reason::Evicted));
        }
        if let Some(since) = self.oldest_unsent() {
            return Some((since + waits.write, Reason::Unread));
        }
        match (self.is_idle(), self.has_asked) {
            (true, true) => Some((self.idle_since + waits.idle, Reason::Idle)),
            (true, false) => Some((self.idle_since + waits.first_head, Reason::Silent)),
            (false, _) => None,
        }
    }
}

/// A request that is being answered. Dropping it without an answer notes that it was broken off.
pub(super) struct Running {
    activity: Arc<Activity>,
    is_answered: bool,
}

impl Running {
    /// Notes that the answer is there and remains to be sent.
    pub(super) fn answer(mut self) -> Sending {
        self.is_answered = true;
        let number = self.activity.change(|state| {
            let number = state.next_answer;
            state.next_answer += 1;
            state.unsent.insert(number, Instant::now());
            state.broken_off = state.broken_off.saturating_sub(1);
            number
        });
        Sending { activity: self.activity.clone(), number }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.activity.change(|state| {
            state.running -= 1;
            state.broken_off += usize::from(!self.is_answered);
        });
    }
}

/// An answer on its way. Dropping it notes that it is sent, or never will be.
pub(super) struct Sending {
    activity: Arc<Activity>,
    number: u64,
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.activity.change(|state| {
            state.unsent.remove(&self.number);
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const WAITS: Waits = Waits {
        first_head: Duration::from_secs(1),
        idle: Duration::from_secs(10),
        write: Duration::from_secs(100),
    };

    /// After how many seconds the connection is closed, and why.
    async fn end(activity: &Activity) -> (u64, Reason) {
        let started = Instant::now();
        let reason = activity.end(&WAITS).await;
        (started.elapsed().as_secs(), reason)
    }

    #[tokio::test(start_paused = true)]
    async fn each_state_lasts_so_long_and_a_running_request_lasts_for_ever() {
        let activity = Activity::new();
        assert_eq!(end(&activity).await, (1, Reason::Silent));
        let running = activity.begin();
        assert!(tokio::time::timeout(Duration::from_hours(1), end(&activity)).await.is_err());
        let sending = running.answer();
        assert_eq!(end(&activity).await, (100, Reason::Unread));
        drop(sending);
        assert_eq!(end(&activity).await, (10, Reason::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_answer_counts_whatever_comes_after_it() {
        let activity = Activity::new();
        let _old = activity.begin().answer();
        tokio::time::advance(Duration::from_mins(1)).await;
        drop(activity.begin().answer());
        let _new = activity.begin().answer();
        let _running = activity.begin();
        assert_eq!(end(&activity).await, (40, Reason::Unread));
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_is_waited_for_follows_every_change() {
        let activity = Activity::new();
        let (watch, ()) = tokio::join!(end(&activity), async {
            tokio::task::yield_now().await;
            drop(activity.begin().answer());
        });
        assert_eq!(watch, (10, Reason::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_evicted_unless_a_request_is_running() {
        let activity = Activity::new();
        let first = activity.begin();
        assert!(!activity.evict() && activity.rank().is_none());
        let _unsent = first.answer();
        let second = activity.begin();
        assert!(!activity.evict() && activity.rank().is_none(), "the second request is running");
        drop(second);
        assert!(activity.rank().is_some() && activity.evict() && activity.rank().is_none());
        assert_eq!(end(&activity).await, (0, Reason::Evicted));
        let idle = Activity::new();
        assert!(idle.rank().is_some() && idle.evict() && idle.rank().is_none());
        assert_eq!(end(&idle).await, (0, Reason::Evicted));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ranks_by_its_oldest_unsent_answer_and_before_that_if_it_is_idle() {
        let (activity, started) = (Activity::new(), Instant::now());
        let old = activity.begin().answer();
        tokio::time::advance(Duration::from_secs(1)).await;
        let later = Instant::now();
        let new = activity.begin().answer();
        assert_eq!(activity.rank(), Some(Rank::Unsent(started)));
        drop(old);
        assert_eq!(activity.rank(), Some(Rank::Unsent(later)));
        drop(new);
        assert_eq!(activity.rank(), Some(Rank::Idle(later)));
        let order =
            [Rank::Idle(started), Rank::Idle(later), Rank::Unsent(started), Rank::Unsent(later)];
        assert!(order.is_sorted());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_are_broken_off_end_the_connection_unless_as_many_are_answered() {
        let activity = Activity::new();
        for _ in 0..1_000 {
            drop(activity.begin());
            drop(activity.begin().answer());
        }
        for _ in 0..MAX_BROKEN_OFF {
            drop(activity.begin());
        }
        let _running = activity.begin();
        assert!(activity.end(&WAITS).now_or_never().is_none());
        drop(activity.begin());
        assert_eq!(end(&activity).await, (0, Reason::BrokenOff));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_running_is_waited_for_and_what_is_unsent_is_not() {
        let activity = Activity::new();
        let _unsent = activity.begin().answer();
        let running = activity.begin();
        assert!(activity.answered().now_or_never().is_none());
        drop(running);
        activity.answered().await;
    }
}
