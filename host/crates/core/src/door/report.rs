//! Progress and partial results of a running call.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::{CallId, Event, Log, Progress, event};
use crate::tool::{Content, GuardAct, GuardActs};

/// Accepts the reports of a running call, for its record and for a caller that receives events.
pub struct Reporter<'c> {
    call: CallId,
    report: &'c Report,
    events: Option<&'c mpsc::Sender<Event>>,
}

impl<'c> Reporter<'c> {
    pub(super) fn new(
        call: CallId,
        report: &'c Report,
        events: Option<&'c mpsc::Sender<Event>>,
    ) -> Self {
        Self { call, report, events }
    }

    /// Emits content before the result. The provider limits number and size.
    pub fn emit(&self, part: Content) {
        self.preview(&part);
        self.report.emit(part);
    }

    /// Shows content of the result to the caller before the result is complete, unless a guard looks at the
    /// result first. It is not kept.
    pub fn preview(&self, part: &Content) {
        if self.is_withheld() {
            return;
        }
        self.send(|call| Event::Partial { call, part: Box::new(part.clone()) });
    }

    /// Reports the progress of the running call. A caller that receives events slowly gets only some
    /// of the reports.
    pub fn progress(&self, progress: Progress) {
        if self.events.is_some_and(|events| events.capacity() > event::RESERVED) {
            self.send(|call| Event::Progress { call, progress: progress.clone() });
        }
        self.report.set_progress(progress);
    }

    /// Passes on a log message of the source. A caller that receives events slowly gets only some.
    pub fn log(&self, log: Log) {
        if self.events.is_some_and(|events| events.capacity() > event::RESERVED) {
            self.send(|call| Event::Log { call, log: Box::new(log) });
        }
    }

    /// Reports to the caller that the source runs the call as a task.
    pub fn defer(&self) {
        self.send(|call| Event::Deferred { call });
    }

    /// Sets the run that the call is of, if it is of a script.
    pub fn set_run(&self, id: &str) {
        // A call is of one run.
        let _ = self.report.run.set(id.into());
    }

    /// Fuel that the guest of the running call has used, once it has ended; `None` if no guest ran.
    pub fn fuel(&self) -> Option<u64> {
        self.report.fuel()
    }

    /// Memory that the guest of the running call had, in bytes, once it has ended: a guest gives none back before. `None`
    /// if no guest ran.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.report.memory_bytes()
    }

    /// The run that the call is of; `None` if it is of none.
    pub fn run(&self) -> Option<Arc<str>> {
        self.report.run()
    }

    /// Decisions of guards about the running call that are recorded, so far.
    pub fn guard_acts(&self) -> Vec<GuardAct> {
        self.report.guards.recorded()
    }

    /// Records that the running call has changed something, or may have, otherwise than by calls of
    /// its own.
    pub fn act(&self) {
        self.report.has_acted.store(true, Ordering::Relaxed);
    }

    /// Records that the source of the running call may have received its arguments, also if it has then refused the call.
    pub fn deliver(&self) {
        self.report.is_delivered.store(true, Ordering::Relaxed);
    }

    /// Returns whether the source of the running call may have received its arguments. [`CallError::has_not_begun`] does
    /// not tell: a source receives a call that it refuses.
    ///
    /// [`CallError::has_not_begun`]: crate::tool::CallError::has_not_begun
    pub fn is_delivered(&self) -> bool {
        self.report.is_delivered.load(Ordering::Relaxed)
    }

    /// Returns whether a guard looks at the outcome of the running call before its caller gets it.
    pub fn is_withheld(&self) -> bool {
        self.report.is_withheld.load(Ordering::Relaxed)
    }

    /// Returns a copy of the content that the running call has emitted so far.
    pub fn emitted(&self) -> Vec<Content> {
        self.report.emitted()
    }

    /// Sends an event to the caller, if it receives events. Drops the event if the queue is full.
    fn send(&self, event: impl FnOnce(CallId) -> Event) {
        if let Some(events) = self.events {
            // A full queue or a dropped receiver must not fail the call.
            let _ = events.try_send(event(self.call));
        }
    }
}

/// Reports of a running call so far. They are kept apart from the result, so that a failed call has
/// them too.
pub(super) struct Report {
    fuel: AtomicU64,
    memory_bytes: AtomicU64,
    has_acted: AtomicBool,
    is_delivered: AtomicBool,
    emitted: Mutex<Vec<Content>>,
    progress: Mutex<Option<Progress>>,
    run: OnceLock<Arc<str>>,
    pub(super) guards: GuardActs,
    /// True if a guard looks at the outcome: content is not sent to listeners.
    is_withheld: AtomicBool,
}

impl Report {
    const UNKNOWN: u64 = u64::MAX;

    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            fuel: AtomicU64::new(Self::UNKNOWN),
            memory_bytes: AtomicU64::new(Self::UNKNOWN),
            has_acted: AtomicBool::new(false),
            is_delivered: AtomicBool::new(false),
            emitted: Mutex::default(),
            progress: Mutex::default(),
            run: OnceLock::new(),
            guards: GuardActs::default(),
            is_withheld: AtomicBool::new(false),
        })
    }

    pub(super) fn set_fuel(&self, fuel: u64) {
        self.fuel.store(fuel, Ordering::Relaxed);
    }

    pub(super) fn fuel(&self) -> Option<u64> {
        Some(self.fuel.load(Ordering::Relaxed)).filter(|fuel| *fuel != Self::UNKNOWN)
    }

    pub(super) fn set_memory_bytes(&self, bytes: u64) {
        self.memory_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn memory_bytes(&self) -> Option<u64> {
        Some(self.memory_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes != Self::UNKNOWN)
    }

    pub(super) fn has_acted(&self) -> bool {
        self.has_acted.load(Ordering::Relaxed)
    }

    pub(super) fn withhold(&self) {
        self.is_withheld.store(true, Ordering::Relaxed);
    }

    fn emit(&self, part: Content) {
        self.emitted.lock().push(part);
    }

    fn set_progress(&self, progress: Progress) {
        *self.progress.lock() = Some(progress);
    }

    pub(super) fn run(&self) -> Option<Arc<str>> {
        self.run.get().cloned()
    }

    pub(super) fn take_progress(&self) -> Option<Progress> {
        self.progress.lock().take()
    }

    pub(super) fn take_emitted(&self) -> Vec<Content> {
        std::mem::take(&mut *self.emitted.lock())
    }

    fn emitted(&self) -> Vec<Content> {
        self.emitted.lock().clone()
    }
}
