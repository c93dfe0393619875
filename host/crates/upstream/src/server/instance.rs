//! One instance of a server: one connection after the other to one process or URL, and the calls that run
//! over it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::access::{ServerAccess, UsedLink};
use crate::{
    limits::{CALL_PATIENCE, INSTANCE_COOL_DOWN, RECONNECT_PATIENCE},
    status::{ServerPhase, Status},
};
use airlock_mcp_client::{AskError, Link, SendError, StderrLogs};

/// State of one instance that its calls share with the one who keeps it connected.
pub(crate) struct Instance {
    /// Its number among those of its server, from 1.
    number: usize,
    access: watch::Sender<ServerAccess>,
    /// Notified by a call that waits for the instance to be started.
    demand: Notify,
    /// Calls so far.
    uses: AtomicU64,
    in_flight: AtomicUsize,
    /// True if its tools are those that its client offers. No call goes to it otherwise.
    admitted: watch::Sender<bool>,
    /// Cancelled once it has listed its tools for the first time, or has failed to.
    settled: CancellationToken,
    cool_down: Mutex<InstanceCoolDown>,
    status: Status,
    logs: StderrLogs,
    /// Number of its process; 0 if there is none.
    process: AtomicU32,
    /// Interval between checks of an idle instance; `None` for no checks.
    heartbeat: Option<Duration>,
}

/// Cool-down of an instance whose calls may hang or fail, although it may answer checks.
#[derive(Debug, Default)]
struct InstanceCoolDown {
    /// Time until which other instances are preferred; `None` without a cool-down.
    until: Option<Instant>,
    /// Length of the last cool-down since a call has got a response.
    period: Duration,
}

/// Order in which instances are chosen, the smallest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// True if its calls may hang or fail, or its list of tools is in doubt.
    is_doubtful: bool,
    in_flight: usize,
    /// True if the call would have to start it.
    is_stopped: bool,
}

/// A call that counts as in flight at an instance until this is dropped.
pub(super) struct Occupied(Arc<Instance>);

/// A call that a caller waits for. Dropping it before the end abandons the call: it has reached its deadline, or its
/// caller has disconnected.
pub(super) struct Awaited {
    instance: Arc<Instance>,
    began: Instant,
    deadline: Instant,
    /// True while the call waits for answers of its caller; `None` if it never does.
    is_parked: Option<Arc<AtomicBool>>,
    has_ended: bool,
}

impl Instance {
    /// Creates an instance that is not connected.
    pub(super) fn new(number: usize, heartbeat: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            number,
            access: watch::Sender::default(),
            demand: Notify::new(),
            uses: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            admitted: watch::Sender::new(false),
            settled: CancellationToken::new(),
            cool_down: Mutex::default(),
            status: Status::new(),
            logs: StderrLogs::default(),
            process: AtomicU32::new(0),
            heartbeat,
        })
    }

    /// Returns its number among those of its server, from 1.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Returns the state for operators.
    pub(crate) fn status(&self) -> &Status {
        &self.status
    }

    /// Returns the stored stderr of its processes.
    pub(crate) fn logs(&self) -> &StderrLogs {
        &self.logs
    }

    /// Records the number of its process, until the result is dropped.
    pub(crate) fn runs(self: &Arc<Self>, process: u32) -> RunningProcess {
        self.process.store(process, Ordering::Relaxed);
        RunningProcess { instance: self.clone(), process }
    }

    /// Returns the number of its process; `None` if it has none that is in use.
    pub(crate) fn process(&self) -> Option<u32> {
        Some(self.process.load(Ordering::Relaxed)).filter(|process| *process != 0)
    }

    /// Sets the way to the instance for calls that are not sent yet.
    pub(crate) fn set_access(&self, access: ServerAccess) {
        self.access.send_replace(access);
    }

    /// Records whether its tools are those that its client offers.
    pub(crate) fn set_admitted(&self, is_admitted: bool) {
        self.admitted.send_if_modified(|present| {
            let is_news = *present != is_admitted;
            *present = is_admitted;
            is_news
        });
    }

    /// Returns whether its tools are those that its client offers.
    pub(crate) fn is_admitted(&self) -> bool {
        *self.admitted.borrow()
    }

    /// Waits until its tools are, or are not, those that its client offers.
    pub(crate) async fn until_admitted(&self, is_admitted: bool) {
        let mut admitted = self.admitted.subscribe();
        // The sender lives as long as `self`.
        let _ = admitted.wait_for(|present| *present == is_admitted).await;
    }

    /// Returns the token that is cancelled once it has listed its tools for the first time, or has failed to.
    pub(crate) fn settled(&self) -> &CancellationToken {
        &self.settled
    }

    /// Waits until a call needs an instance that is started on demand.
    pub(crate) async fn demanded(&self) {
        self.demand.notified().await;
    }

    /// Returns the number of calls so far.
    pub(crate) fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }

    /// Returns whether it is connected.
    pub(crate) fn has_connection(&self) -> bool {
        !matches!(*self.access.borrow(), ServerAccess::Down)
    }

    /// Returns the calls that run.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Returns whether no call is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight() == 0
    }

    /// Makes calls wait for the instance to be started by them, if no call is running, and none waits for
    /// an answer of its caller. Returns whether it does. It does not if the instance gets no calls: none
    /// would start it again.
    pub(crate) fn retire(&self) -> bool {
        if !self.is_idle() || !self.is_admitted() {
            return false;
        }
        let before = self.access.send_replace(ServerAccess::OnDemand);
        // A call counts as in flight before it looks for the way.
        let is_used = matches!(&before, ServerAccess::Up(used) if used.has_others());
        if self.is_idle() && !is_used {
            return true;
        }
        self.access.send_replace(before);
        false
    }

    /// Counts a call as in flight.
    pub(super) fn occupy(self: &Arc<Self>) -> Occupied {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        self.uses.fetch_add(1, Ordering::Relaxed);
        Occupied(self.clone())
    }

    /// Begins to wait for a call until `deadline`. A call that is abandoned while it `is_parked` does not count
    /// against the instance.
    pub(super) fn awaited(
        self: &Arc<Self>,
        deadline: Instant,
        is_parked: Option<Arc<AtomicBool>>,
    ) -> Awaited {
        let began = Instant::now();
        Awaited { instance: self.clone(), began, deadline, is_parked, has_ended: false }
    }

    /// Returns its place in the order of choice; `None` if no call can go to it.
    pub(super) fn rank(&self) -> Option<Rank> {
        if !self.is_admitted() {
            return None;
        }
        let access = self.access.borrow();
        let is_stopped = match &*access {
            ServerAccess::Down => return None,
            ServerAccess::OnDemand => true,
            ServerAccess::Up(_) | ServerAccess::PerCall(_) => false,
        };
        let is_suspected = !is_stopped && self.is_suspected();
        let is_degraded = self.status.phase() == ServerPhase::Degraded;
        let in_flight = self.in_flight();
        Some(Rank { is_doubtful: is_suspected || is_degraded, in_flight, is_stopped })
    }

    /// Returns whether a call can go to it without starting it.
    pub(super) fn is_running(&self) -> bool {
        self.rank().is_some_and(|rank| !rank.is_stopped)
    }

    /// Returns the way to the instance. Waits for one that is started on demand.
    pub(super) async fn access(&self) -> ServerAccess {
        let mut access = self.access.subscribe();
        loop {
            let now = access.borrow_and_update().clone();
            if !matches!(now, ServerAccess::OnDemand) {
                return now;
            }
            self.demand.notify_one();
            if access.changed().await.is_err() {
                return ServerAccess::Down;
            }
        }
    }

    /// Waits for the link of a later connection; `None` if there is none soon, or if the instance is held
    /// out then.
    pub(super) async fn replacement(&self, old: &Arc<Link>) -> Option<UsedLink> {
        let mut access = self.access.subscribe();
        let waiting = access.wait_for(
            |access| matches!(access, ServerAccess::Up(used) if !Arc::ptr_eq(&used.link, old)),
        );
        match timeout(RECONNECT_PATIENCE, waiting).await {
            Ok(Ok(found)) => match &*found {
                ServerAccess::Up(used) if self.is_admitted() => Some(used.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    /// Records how a call over it has ended. Only a response ends a suspicion: an instance whose calls fail
    /// or hang may answer checks all the time.
    pub(super) fn record<T>(&self, asked: &Result<T, AskError>) {
        match asked {
            Ok(_) | Err(AskError::Refused(_)) => {
                *self.cool_down.lock() = InstanceCoolDown::default();
            }
            // These are responses, but of no use.
            Err(
                AskError::TooLarge | AskError::Send(SendError::TooLarge) | AskError::Unreadable(_),
            ) => {}
            Err(AskError::Send(_) | AskError::Lost) => self.suspect(),
        }
    }

    /// Has other instances preferred for a time. Many calls that fail at once count as one.
    pub(super) fn suspect(&self) {
        let mut cool_down = self.cool_down.lock();
        let now = Instant::now();
        if cool_down.until.is_none_or(|until| until <= now) {
            cool_down.period = (cool_down.period * 2)
                .clamp(*INSTANCE_COOL_DOWN.start(), *INSTANCE_COOL_DOWN.end());
            cool_down.until = Some(now + cool_down.period);
        }
    }

    fn is_suspected(&self) -> bool {
        self.cool_down.lock().until.is_some_and(|until| Instant::now() < until)
    }

    /// Has the instance checked if it has sent nothing for as long as an idle one is left unchecked. One
    /// that hangs would be called again and again otherwise, because a busy one is not checked at
    /// intervals.
    fn check_if_silent(&self) {
        let Some(heartbeat) = self.heartbeat else { return };
        if let ServerAccess::Up(used) = &*self.access.borrow()
            && used.link.inbox().last_received().elapsed() >= heartbeat
        {
            used.link.request_check();
        }
    }
}

/// The process of an instance, until this is dropped.
pub(crate) struct RunningProcess {
    instance: Arc<Instance>,
    process: u32,
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        // Another one may have taken its place.
        let process = &self.instance.process;
        let _ = process.compare_exchange(self.process, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Occupied {
    /// Returns the instance.
    pub(super) fn instance(&self) -> &Arc<Instance> {
        &self.0
    }
}

impl Drop for Occupied {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Awaited {
    /// Records that the call has ended.
    pub(super) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        self.instance.check_if_silent();
        let is_parked = self.is_parked.as_ref().is_some_and(|flag| flag.load(Ordering::SeqCst));
        let now = Instant::now();
        let is_late = now >= self.deadline || now.duration_since(self.began) >= CALL_PATIENCE;
        if is_late && !is_parked {
            self.instance.suspect();
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
