//! The journal of one run in this process: what is known of it, and what is still to be stored.
//!
//! A step that must be stored before a call is sent is stored at once, with all steps before it.
//! Other steps wait for the next such step: if they are lost, only repeatable calls are made again.
//! So a script that only reads is stored once, when it ends.
//!
//! | file | purpose |
//! |---|---|
//! | `state` | the calls of the run and the steps that wait, without I/O |
//! | `writer` | stores the steps, one transaction at a time |
//! | `manifest` | the manifest that a person approves in place of each call |
//! | `failure` | reasons for which a script is stopped by its journal |

mod failure;
mod manifest;
mod state;
mod writer;

use std::{mem, sync::Arc};

use parking_lot::Mutex;
use tracing::warn;
use uuid::Uuid;

pub(super) use self::state::JournalRecord;
use self::{failure::Halted, state::JournalState, writer::JournalWriter};
use super::{CallAnswer, PREFIX, RunEnding, RunOutcome, Runs};
use airlock_core::{
    run::{Called, Position},
    tenant::Tenant,
    tool::{CallError, SourceSet},
};
use airlock_sandbox::{ScriptCall, WrongCall};
use airlock_store::runs::{NewRun, RunError, RunStep, StoredRun};

/// Renewals of a lease in its time.
const RENEWALS: u32 = 3;

/// Journal of a run whose script runs in this process.
pub struct Journal {
    /// The time that the script sees, in milliseconds since 1970; `None` if it sees none.
    clock_ms: Option<i64>,
    /// `None` if nothing is stored.
    writer: Option<JournalWriter>,
    /// Calls for which the script of a run that began before did not run; `None` of a run that begins.
    known_wrong: Option<Vec<WrongCall>>,
    /// Whether the executor looked for the sources of arguments when a run ended that is replayed; `None` of another
    /// run.
    followed_values: Option<bool>,
    shared: Mutex<SharedJournal>,
}

/// State that the calls of a script share.
#[derive(Default)]
struct SharedJournal {
    state: JournalState,
    /// True once the run is in the store.
    is_stored: bool,
    /// True once the run is suspended or has ended.
    is_closed: bool,
    /// Set once the store has refused steps. No call is sent after that: the steps of several calls
    /// at the same time were refused together.
    halted: Option<Halted>,
}

impl Journal {
    /// Begins a run.
    pub(crate) fn begin(runs: &Runs, tenant: &Tenant, new: NewRun) -> Arc<Self> {
        let id = format!("{PREFIX}{}", Uuid::now_v7().simple());
        let clock_ms = new.clock_ms;
        let writer = JournalWriter::new(id, 1, runs, tenant);
        Self::new(clock_ms, Some(writer), JournalState::begin(new), None, None)
    }

    /// Begins a run that is not stored and cannot be resumed.
    pub(crate) fn without_store() -> Arc<Self> {
        Self::new(None, None, JournalState::default(), None, None)
    }

    /// Takes a stored run over to resume it. Returns the run as it was stored, without its calls.
    pub(crate) async fn claim(
        runs: &Runs,
        tenant: &Tenant,
        id: &str,
    ) -> Result<(Arc<Self>, StoredRun), RunError> {
        let mut run = runs.open(tenant).await?.claim(id).await?;
        let writer = JournalWriter::new(id.to_owned(), run.lease.epoch, runs, tenant);
        let state = JournalState::from(mem::take(&mut run.calls));
        Ok((Self::new(run.clock_ms, Some(writer), state, Some(Vec::new()), None), run))
    }

    /// Creates the journal of a stored run that is replayed. No call is made.
    pub(crate) fn replay(stored: &StoredRun) -> Arc<Self> {
        let outcome = stored.outcome.as_deref().and_then(RunOutcome::read);
        let followed = outcome.as_ref().is_some_and(|outcome| outcome.follows_values);
        let wrong = outcome.map_or_else(Vec::new, |outcome| outcome.wrong_calls);
        let state = JournalState::from(stored.calls.clone());
        Self::new(stored.clock_ms, None, state, Some(wrong), Some(followed))
    }

    fn new(
        clock_ms: Option<i64>,
        writer: Option<JournalWriter>,
        state: JournalState,
        known_wrong: Option<Vec<WrongCall>>,
        followed_values: Option<bool>,
    ) -> Arc<Self> {
        let is_stored = known_wrong.is_some();
        let shared = Mutex::new(SharedJournal { state, is_stored, ..SharedJournal::default() });
        Arc::new(Self { clock_ms, writer, known_wrong, followed_values, shared })
    }

    /// Returns the time that the script sees, in milliseconds since 1970; `None` if it sees none.
    pub(crate) fn clock_ms(&self) -> Option<i64> {
        self.clock_ms
    }

    /// Returns the calls for which the script of a run that began before did not run; `None` of a run that
    /// begins.
    pub(super) fn known_wrong(&self) -> Option<&[WrongCall]> {
        self.known_wrong.as_deref()
    }

    /// Returns whether the executor looked for the sources of arguments when a run ended that is replayed; `None` of
    /// another run.
    pub(crate) fn followed_values(&self) -> Option<bool> {
        self.followed_values
    }

    /// Returns whether the run can be resumed after its script has stopped.
    pub(super) fn can_suspend(&self) -> bool {
        self.writer.is_some()
    }

    /// Returns the identifier of the run; `None` if it is not stored.
    pub(crate) fn id(&self) -> Option<&str> {
        self.writer.as_ref().map(|writer| writer.id.as_str())
    }

    /// Renews the lease until the run is cancelled or another process has it. Returns the reason to
    /// stop the script.
    pub(crate) async fn hold(self: &Arc<Self>) -> CallError {
        let Some(writer) = &self.writer else { return std::future::pending().await };
        let renewal = writer.runs.settings().bounds.lease / RENEWALS;
        loop {
            let pause = tokio::time::sleep(renewal);
            if writer.live.token.run_until_cancelled(pause).await.is_none() {
                return CallError::cancelled();
            }
            if !self.shared.lock().is_stored {
                continue;
            }
            self.shared.lock().state.renew();
            if let Err(halted) = self.flush().await {
                if self.shared.lock().halted.is_some() {
                    return halted.into();
                }
                warn!(run = writer.id, ?halted, "the lease of a run cannot be renewed");
            }
        }
    }

    /// Counts a block of `calls` calls and returns their positions, as [`JournalState::next_block`].
    pub(super) fn next_block(
        &self,
        calls: usize,
        is_block: bool,
    ) -> Result<Vec<Position>, CallError> {
        self.shared.lock().state.next_block(calls, is_block)
    }

    /// Returns what is known of a call, as [`JournalState::find`]. In a replay, an answer that was
    /// not stored is an error.
    pub(super) fn find(
        &self,
        position: Position,
        made: &ScriptCall,
    ) -> Result<JournalRecord, CallError> {
        let now = self.now_ms();
        let mut shared = self.shared.lock();
        let is_replay = self.writer.is_none() && shared.is_stored;
        match shared.state.find(position, made, now)? {
            JournalRecord::Again if is_replay => Err(failure::not_kept(position)),
            entry => Ok(entry),
        }
    }

    /// Stores the intent to send a call. Returns the number of the attempt. The call may be sent once
    /// this has returned.
    pub(super) async fn intend(
        self: &Arc<Self>,
        position: Position,
        called: Called,
    ) -> Result<u32, CallError> {
        let now = self.now_ms();
        let intended = {
            let mut shared = self.shared.lock();
            shared.state.check_room()?;
            shared.state.intend(position, called.clone(), now)
        };
        let (attempt, before) = match intended {
            Ok(intended) => intended,
            Err(refused) => return Err(self.not_sent(position, called, refused.into()).await),
        };
        match self.flush().await {
            Ok(()) => Ok(attempt),
            Err(halted) => {
                self.shared.lock().state.take_back(position, before);
                Err(self.not_sent(position, called, halted).await)
            }
        }
    }

    /// Returns the reason to stop the script at a call whose intent is not stored.
    async fn not_sent(
        self: &Arc<Self>,
        position: Position,
        called: Called,
        halted: Halted,
    ) -> CallError {
        match halted {
            // It is asked for again.
            Halted::Void => self.suspend(vec![(position, called)], &[]).await,
            halted => halted.into(),
        }
    }

    /// Stores the answer of a call whose intent was stored, and its sources.
    pub(super) async fn answer(
        self: &Arc<Self>,
        position: Position,
        attempt: u32,
        answer: &CallAnswer,
        sources: &SourceSet,
    ) -> Result<(), CallError> {
        let has_succeeded = answer.has_succeeded();
        // Without a store, nothing reads it again, and it takes no room.
        let text = self.writer.as_ref().map(|_| answer.to_stored_with(sources));
        let text = text.unwrap_or_default();
        let answered = self.shared.lock().state.answer(position, attempt, has_succeeded, text);
        answered.map_err(|refused| CallError::from(Halted::from(refused)))?;
        Ok(self.flush().await?)
    }

    /// Keeps the answer of a call without an intent. It is stored with the next step that must be, or
    /// once much waits to be stored.
    pub(super) async fn record(
        self: &Arc<Self>,
        position: Position,
        called: Called,
        answer: &CallAnswer,
        sources: &SourceSet,
    ) -> Result<(), CallError> {
        let has_succeeded = answer.has_succeeded();
        if self.writer.is_none() {
            self.shared.lock().state.note(position, called, has_succeeded);
            return Ok(());
        }
        let text = answer.to_stored_with(sources);
        let is_full = {
            let mut shared = self.shared.lock();
            shared.state.record(position, called, has_succeeded, text);
            shared.state.is_full()
        };
        if is_full { Ok(self.flush().await?) } else { Ok(()) }
    }

    /// Stops the run at calls that need a decision. Returns the reason to stop the script.
    pub(super) async fn suspend(
        self: &Arc<Self>,
        waiting: Vec<(Position, Called)>,
        in_doubt: &[Position],
    ) -> CallError {
        let Some(writer) = &self.writer else { return CallError::cancelled() };
        let now = self.now_ms();
        let suspension = {
            let mut shared = self.shared.lock();
            for (position, called) in waiting {
                if let Err(refused) = shared.state.ask(position, called, now) {
                    return Halted::from(refused).into();
                }
            }
            shared.state.suspension(&writer.id, writer.token(), in_doubt)
        };
        match self.write(Some(RunStep::Suspend)).await {
            Ok(()) => suspension.into(),
            // If it is closed, another call of the same block has suspended the run.
            Err(halted) => halted.into(),
        }
    }

    /// Stops a run that was resumed as it was before, so that it can be resumed later. Returns whether
    /// it is suspended.
    pub(crate) async fn put_back(self: &Arc<Self>) -> bool {
        let is_resumed = self.writer.as_ref().is_some_and(|writer| writer.epoch > 1);
        is_resumed
            && match self.write(Some(RunStep::Suspend)).await {
                // Without the store, it is left to its lease.
                Ok(()) | Err(Halted::Lost(_)) => true,
                Err(_) => false,
            }
    }

    /// Ends the run. If its outcome cannot be stored, this is logged. A run whose journal cannot be
    /// written is not ended: it is left to its lease, and can then be resumed.
    pub async fn end(self: &Arc<Self>, outcome: impl FnOnce() -> RunOutcome) {
        let Some(writer) = &self.writer else { return };
        if self.is_lost() {
            return;
        }
        // As text: the tree of a value takes up to 150 times its memory, and the store may be slow.
        let outcome = outcome().to_stored();
        match self.write(Some(RunStep::End(outcome))).await {
            Ok(()) | Err(Halted::Closed) => {}
            Err(halted) => warn!(run = writer.id, ?halted, "the end of a run is not stored"),
        }
    }

    fn is_lost(&self) -> bool {
        matches!(self.shared.lock().halted, Some(Halted::Lost(_)))
    }

    /// Returns the tools of all calls that have succeeded, in the order of the calls.
    pub(crate) fn completed(&self) -> Vec<String> {
        self.shared.lock().state.completed().collect()
    }

    /// Returns the tools of all calls that were sent, may have changed something and have not
    /// succeeded, in the order of the calls.
    pub(crate) fn failed(&self) -> Vec<String> {
        self.shared.lock().state.failed().collect()
    }

    /// Fails if the script has ended without a call that the journal has, as
    /// [`JournalState::check_complete`].
    pub(crate) fn check_complete(&self) -> Result<(), CallError> {
        self.shared.lock().state.check_complete()
    }

    /// Stores all steps so far. Fails if they, or steps before them, were not stored.
    async fn flush(self: &Arc<Self>) -> Result<(), Halted> {
        self.write(None).await
    }

    /// Stores all steps so far, and `last`, which closes the run, also after others were refused. It
    /// does so on a task of its own: steps that it has taken are stored also if the caller is dropped.
    async fn write(self: &Arc<Self>, last: Option<RunStep>) -> Result<(), Halted> {
        if self.writer.is_none() {
            drop(self.shared.lock().state.take_steps());
            return Ok(());
        }
        let journal = self.clone();
        let written = tokio::spawn(async move { journal.write_in_turn(last).await });
        written.await.unwrap_or_else(|lost| Err(Halted::lost(&lost)))
    }

    async fn write_in_turn(&self, last: Option<RunStep>) -> Result<(), Halted> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let _turn = writer.turn.lock().await;
        let closes = last.is_some();
        let mut steps = {
            let mut shared = self.shared.lock();
            match (&shared.halted, &last) {
                _ if shared.is_closed => return Err(Halted::Closed),
                (None, _) => shared.state.take_steps(),
                (Some(halted), None) => return Err(halted.clone()),
                (Some(_), Some(_)) => writer::facts(shared.state.take_steps()),
            }
        };
        let facts = writer::facts(steps.clone());
        steps.extend(last);
        if steps.is_empty() {
            return Ok(());
        }
        let is_renewal = steps.iter().all(|step| *step == RunStep::Renew);
        let stored = writer.store(steps).await;
        let mut shared = self.shared.lock();
        match stored {
            Ok(()) => {
                shared.is_stored = true;
                shared.is_closed = closes;
                Ok(())
            }
            Err(error) => {
                let halted = Halted::by(&error);
                if let Halted::Lost(_) = halted {
                    shared.state.put_back(facts);
                }
                if !(is_renewal && matches!(halted, Halted::Lost(_))) {
                    shared.halted = Some(halted.clone());
                }
                Err(halted)
            }
        }
    }

    /// Returns the time by which approvals expire: that of the store. Without a store, none is valid.
    fn now_ms(&self) -> i64 {
        self.writer.as_ref().map_or(i64::MAX, |writer| writer.runs.now_ms())
    }
}

impl Drop for Journal {
    /// Ends a run whose caller has gone. A call that it has sent stays in doubt. Of a run whose journal
    /// could not be written, what is known is stored if the store is back by then.
    fn drop(&mut self) {
        let shared = self.shared.get_mut();
        let Some(writer) = self.writer.take().filter(|_| !shared.is_closed) else { return };
        let mut steps = shared.state.take_steps();
        if shared.halted.is_some() {
            steps = writer::facts(steps);
        }
        if !matches!(shared.halted, Some(Halted::Lost(_))) {
            steps.push(RunStep::End(RunOutcome::without_result(RunEnding::Cancelled).to_stored()));
        }
        if steps.is_empty() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = writer.store_patiently(steps).await {
                warn!(run = writer.id, %error, "the last steps of a run are not stored");
            }
        });
    }
}

#[cfg(test)]
mod tests;
