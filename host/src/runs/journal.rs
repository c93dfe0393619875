//! The journal of one run in this process: what is known of it, and what is still to be stored.
//!
//! Steps are stored in order. A step that must be stored before a call is sent is stored at once,
//! with all steps before it; the others wait for the next one, because a call that is repeatable can
//! be repeated. So a script that only reads is stored once, when it ends.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use tokio::sync::Semaphore;
use tracing::warn;
use uuid::Uuid;

use super::{Answer, Ending, Live, Outcome, PREFIX, Runs};
use crate::{
    door::Approved,
    run::{Call, Called, Position, Refused, Stage},
    sandbox::ScriptCall,
    store::{
        Unavailable,
        runs::{NewRun, RunError, Step, StoredCall, StoredRun},
    },
    tenant::Tenant,
    tool::{CallError, ErrorKind, RunCall, Suspension, ToolError, ToolName},
};

/// Bytes of answers that one run stores. Beyond it, answers of repeatable calls are not stored.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Part of the lease after which it is renewed.
const RENEWALS: u32 = 3;

/// Journal of a run whose script runs in this process.
pub(crate) struct Journal {
    id: String,
    epoch: u32,
    /// The time that the script sees, in milliseconds since 1970; `None` if it sees none.
    clock_ms: Option<i64>,
    /// The stored runs of its owner; `None` if nothing is stored.
    store: Option<Stored>,
    renewal: Duration,
    live: Option<Live>,
    state: Mutex<State>,
    /// Permit to store: one transaction at a time, so that steps are stored in order.
    turn: Semaphore,
}

/// The stored runs of one tenant. The database is opened when it is first needed.
struct Stored {
    runs: Runs,
    tenant: Tenant,
}

impl Stored {
    async fn step(&self, id: &str, epoch: u32, steps: Vec<Step>) -> Result<(), RunError> {
        self.runs.of(&self.tenant).await?.step(id, epoch, steps).await
    }
}

#[derive(Default)]
struct State {
    /// Calls of earlier epochs, and those of this one.
    calls: BTreeMap<Position, Known>,
    /// Steps that are not stored yet.
    steps: Vec<Step>,
    /// True once the run is in the store.
    is_stored: bool,
    answer_bytes: usize,
    /// Blocks of calls that the script has made so far.
    blocks: u32,
    /// True once the run is suspended or has ended.
    is_closed: bool,
    /// Set once steps were not stored. No call is sent after that: of the steps of several calls at
    /// the same time, all were refused together.
    halted: Option<Halted>,
}

/// Reason that the steps of a run are no longer stored.
#[derive(Debug, Clone)]
enum Halted {
    /// An approval has expired since its call was decided.
    Void,
    /// The run was cancelled.
    Cancelled,
    /// Another process has the run, or the store fails.
    Failed(Box<ToolError>),
}

/// A call and its answer, if it has one.
#[derive(Clone)]
struct Known {
    call: Call,
    answer: Option<Answer>,
    has_succeeded: bool,
}

/// State of a call of the script in the journal.
pub(super) enum Entry {
    /// Nothing, or a repeatable call without an answer.
    New,
    /// It has this answer.
    Answered(Answer),
    /// It has this approval.
    Approved(Approved),
    /// It waits for an approval.
    Pending,
    /// It may have been made, and its answer is lost.
    InDoubt,
}

/// Reason that a run is not resumed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotContinued {
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] RunError),
}

impl From<Unavailable> for NotContinued {
    fn from(error: Unavailable) -> Self {
        Self::Store(error.into())
    }
}

impl Journal {
    /// Begins a run.
    pub(crate) fn begin(runs: &Runs, tenant: &Tenant, new: NewRun) -> Arc<Self> {
        let id = format!("{PREFIX}{}", Uuid::now_v7().simple());
        let clock_ms = new.clock_ms;
        let state = State { steps: vec![Step::Begin(new)], ..State::default() };
        let store = Stored { runs: runs.clone(), tenant: tenant.clone() };
        let (live, renewal) = (runs.enter(&id), runs.settings().bounds.lease / RENEWALS);
        Self::new(id, 1, clock_ms, Some(store), renewal, Some(live), state)
    }

    /// Begins a run that is not stored and cannot be resumed.
    pub(crate) fn without_store() -> Arc<Self> {
        Self::new(String::new(), 1, None, None, Duration::MAX, None, State::default())
    }

    /// Takes a stored run over to continue it. Returns the run as it was stored.
    pub(crate) async fn claim(
        runs: &Runs,
        tenant: &Tenant,
        id: &str,
    ) -> Result<(Arc<Self>, StoredRun), NotContinued> {
        let store = Stored { runs: runs.clone(), tenant: tenant.clone() };
        let run = runs.of(tenant).await?.claim(id).await?;
        let state = State { is_stored: true, ..State::of(&run) };
        let (live, renewal) = (runs.enter(id), runs.settings().bounds.lease / RENEWALS);
        let (epoch, clock_ms) = (run.lease.epoch, run.clock_ms);
        let id = id.to_owned();
        Ok((Self::new(id, epoch, clock_ms, Some(store), renewal, Some(live), state), run))
    }

    /// Creates the journal of a stored run from which the run is derived again. No call is made.
    pub(crate) fn replay(stored: &StoredRun) -> Arc<Self> {
        let state = State::of(stored);
        Self::new(
            stored.id.clone(),
            stored.lease.epoch,
            stored.clock_ms,
            None,
            Duration::MAX,
            None,
            state,
        )
    }

    fn new(
        id: String,
        epoch: u32,
        clock_ms: Option<i64>,
        store: Option<Stored>,
        renewal: Duration,
        live: Option<Live>,
        state: State,
    ) -> Arc<Self> {
        let (state, turn) = (Mutex::new(state), Semaphore::new(1));
        Arc::new(Self { id, epoch, clock_ms, store, renewal, live, state, turn })
    }

    /// Returns the time that the script sees, in milliseconds since 1970; `None` if it sees none.
    pub(crate) fn clock_ms(&self) -> Option<i64> {
        self.clock_ms
    }

    /// Returns whether the run can be resumed after its script has stopped.
    pub(super) fn can_suspend(&self) -> bool {
        self.store.is_some()
    }

    /// Renews the lease until the run is cancelled or another process has it. Returns the reason to
    /// stop the script.
    pub(crate) async fn hold(&self) -> CallError {
        let Some(live) = &self.live else { return std::future::pending().await };
        loop {
            let pause = tokio::time::sleep(self.renewal);
            if live.token.run_until_cancelled(pause).await.is_none() {
                return CallError::Cancelled;
            }
            if !self.lock().is_stored {
                continue;
            }
            self.lock().steps.push(Step::Renew);
            if let Err(halted) = self.flush().await {
                if self.lock().halted.is_some() {
                    return halted.into();
                }
                warn!(run = self.id, ?halted, "the lease of a run cannot be renewed");
            }
        }
    }

    /// Counts a block of `calls` calls and returns their positions.
    pub(super) fn next_block(&self, calls: usize, is_block: bool) -> Vec<Position> {
        let mut state = self.lock();
        state.blocks += 1;
        let block = state.blocks;
        let first = u32::from(is_block);
        (first..).take(calls).map(|branch| Position { block, branch }).collect()
    }

    /// Returns what is known of a call. Fails if the journal has another call at its position.
    pub(super) fn find(&self, position: Position, made: &ScriptCall) -> Result<Entry, CallError> {
        let state = self.lock();
        let Some(known) = state.calls.get(&position) else { return Ok(Entry::New) };
        let Called { tool, arguments, definition, .. } = &known.call.called;
        if **tool != *made.tool || **arguments != *made.arguments {
            return Err(diverged(position, &known.call, Some(made)));
        }
        Ok(match known.call.stage {
            Stage::Answered => match &known.answer {
                // The call must not be made again, and its answer is not known.
                Some(Answer::NotKept) | None if !known.call.called.is_repeatable => Entry::InDoubt,
                Some(Answer::NotKept) | None => Entry::New,
                Some(answer) => Entry::Answered(answer.clone()),
            },
            Stage::Denied => Entry::Answered(Answer::denied()),
            Stage::Approved { until_ms, .. } if until_ms <= now_ms() => Entry::Pending,
            Stage::Approved { .. } => Entry::Approved(Approved {
                tool: tool.clone(),
                definition: definition.clone(),
                arguments: arguments.clone(),
            }),
            Stage::InDoubt { .. } => Entry::InDoubt,
            Stage::Pending { .. } => Entry::Pending,
            Stage::Sent { .. } => Entry::New,
        })
    }

    /// Stores the intent to send a call. Returns the number of the attempt. The call may be sent once
    /// this has returned.
    pub(super) async fn intend(
        &self,
        position: Position,
        called: Called,
    ) -> Result<u32, CallError> {
        let attempt = {
            let mut state = self.lock();
            let attempts = match state.calls.get(&position).map(|known| known.call.stage) {
                Some(Stage::Approved { attempts, .. }) => attempts,
                Some(Stage::Sent { attempt }) => attempt,
                _ => 0,
            };
            let sent = Stage::Sent { attempt: attempts + 1 };
            let call = Call { called: called.clone(), stage: sent };
            state.calls.insert(position, Known { call, answer: None, has_succeeded: false });
            state.steps.push(Step::Intend(position, called));
            attempts + 1
        };
        match self.flush().await {
            Ok(()) => Ok(attempt),
            // It is asked for again when the run is resumed.
            Err(Halted::Void) => Err(self.suspend(Vec::new(), &[]).await),
            Err(halted) => Err(halted.into()),
        }
    }

    /// Stores the answer of a call whose intent was stored.
    pub(super) async fn answer(
        &self,
        position: Position,
        attempt: u32,
        answer: &Answer,
    ) -> Result<(), CallError> {
        {
            let mut state = self.lock();
            let mut text = answer.to_stored();
            let with = state.answer_bytes.saturating_add(text.len());
            if with > MAX_ANSWER_BYTES {
                text = Answer::NotKept.to_stored();
            } else {
                state.answer_bytes = with;
            }
            if let Some(known) = state.calls.get_mut(&position) {
                known.call.stage = Stage::Answered;
                known.answer = Some(answer.clone());
                known.has_succeeded = answer.has_succeeded();
            }
            state.steps.push(Step::Answer(position, attempt, text));
        }
        self.flush().await.map_err(CallError::from)
    }

    /// Keeps the answer of a call without an intent. It is stored with the next step that must be.
    pub(super) fn record(&self, position: Position, called: Called, answer: &Answer) {
        let mut state = self.lock();
        if state.calls.contains_key(&position) {
            // A repeated call whose answer was not kept.
            return;
        }
        let mut text = answer.to_stored();
        let with = state.answer_bytes.saturating_add(text.len());
        if with > MAX_ANSWER_BYTES && called.is_repeatable {
            text = Answer::NotKept.to_stored();
        } else {
            state.answer_bytes = with;
        }
        let call = Call { called: called.clone(), stage: Stage::Answered };
        let has_succeeded = answer.has_succeeded();
        state.calls.insert(position, Known { call, answer: None, has_succeeded });
        state.steps.push(Step::Record(position, called, text));
    }

    /// Stops the run at calls that need a decision. Returns the reason to stop the script.
    pub(super) async fn suspend(
        &self,
        waiting: Vec<(Position, Called)>,
        in_doubt: &[Position],
    ) -> CallError {
        let suspension = {
            let mut state = self.lock();
            for (position, called) in waiting {
                let pending = Stage::Pending { attempts: 0 };
                let call = Call { called: called.clone(), stage: pending };
                state.calls.insert(position, Known { call, answer: None, has_succeeded: false });
                state.steps.push(Step::Ask(position, called));
            }
            if mem::replace(&mut state.is_closed, true) {
                // Another call of the same block has suspended the run already.
                return CallError::Cancelled;
            }
            state.suspension(&format!("{}.{}", self.id, self.epoch), &self.id, in_doubt)
        };
        match self.close(Step::Suspend).await {
            Ok(()) => CallError::Suspended(Box::new(suspension)),
            Err(halted) => {
                // The run is not suspended, so it still has to end.
                self.lock().is_closed = false;
                halted.into()
            }
        }
    }

    /// Ends the run. If its outcome cannot be stored, this is logged.
    pub(crate) async fn end(&self, outcome: &Outcome) {
        if self.store.is_none() {
            return;
        }
        {
            let mut state = self.lock();
            if mem::replace(&mut state.is_closed, true) {
                return;
            }
            // Steps that were not stored are not made up for.
            if state.halted.is_some() {
                state.steps.clear();
            }
        }
        if let Err(halted) = self.close(Step::End(outcome.to_stored())).await {
            warn!(run = self.id, ?halted, "the end of a run is not stored");
        }
    }

    /// Returns the identifier of the run; `None` if it is not stored.
    pub(crate) fn id(&self) -> Option<&str> {
        self.store.as_ref().map(|_| self.id.as_str())
    }

    /// Returns the tools of all calls that have succeeded, in the order of the calls.
    pub(crate) fn completed(&self) -> Vec<String> {
        let state = self.lock();
        let answered = state.calls.values().filter(|known| known.has_succeeded);
        answered.map(|known| known.call.called.tool.to_string()).collect()
    }

    /// Returns the tools of all calls that were sent, may have changed something and have not
    /// succeeded, in the order of the calls.
    pub(crate) fn failed(&self) -> Vec<String> {
        let state = self.lock();
        let failed = state.calls.values().filter(|known| {
            let was_sent = match known.call.stage {
                Stage::Sent { .. } | Stage::InDoubt { .. } => true,
                // A call that was refused has no intent, and its answer is not kept here.
                Stage::Answered => known.answer.is_some(),
                _ => false,
            };
            was_sent && !known.has_succeeded && !known.call.called.is_repeatable
        });
        failed.map(|known| known.call.called.tool.to_string()).collect()
    }

    /// Fails if the script has ended without a call that the journal has: it is not the script of the
    /// journal, or it depends on something else than its calls.
    pub(crate) fn check_complete(&self) -> Result<(), CallError> {
        let state = self.lock();
        let left = state.calls.iter().find(|(position, _)| position.block > state.blocks);
        match left {
            Some((position, known)) => Err(diverged(*position, &known.call, None)),
            None => Ok(()),
        }
    }

    /// Stores all steps so far. Fails if they, or steps before them, were not stored.
    async fn flush(&self) -> Result<(), Halted> {
        let Some(store) = &self.store else { return Ok(()) };
        // Never fails: the semaphore is never closed.
        let _turn = self.turn.acquire().await;
        let steps = {
            let mut state = self.lock();
            if let Some(halted) = &state.halted {
                return Err(halted.clone());
            }
            mem::take(&mut state.steps)
        };
        if steps.is_empty() {
            return Ok(());
        }
        let answers = steps.iter().filter(|step| matches!(step, Step::Answer(..)));
        let answers: Vec<_> = answers.cloned().collect();
        let is_renewal = steps.iter().all(|step| *step == Step::Renew);
        match store.step(&self.id, self.epoch, steps).await {
            Ok(()) => {
                self.lock().is_stored = true;
                Ok(())
            }
            Err(error) => {
                let halted = Halted::by(&error);
                if !(is_renewal && matches!(error, RunError::Unavailable(_))) {
                    self.lock().halted = Some(halted.clone());
                }
                // An answer is a fact, also of a process that has lost the run.
                if matches!(error, RunError::Refused { .. }) && !answers.is_empty() {
                    let _ = store.step(&self.id, self.epoch, answers).await;
                }
                Err(halted)
            }
        }
    }

    /// Stores a last step, also after others were not stored.
    async fn close(&self, last: Step) -> Result<(), Halted> {
        let Some(store) = &self.store else { return Ok(()) };
        // Never fails: the semaphore is never closed.
        let _turn = self.turn.acquire().await;
        let mut steps = mem::take(&mut self.lock().steps);
        steps.push(last);
        store.step(&self.id, self.epoch, steps).await.map_err(|error| Halted::by(&error))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Journal {
    /// Ends a run whose caller has gone. A call that it has sent stays in doubt.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(store) = self.store.take().filter(|_| !state.is_closed) else { return };
        let (id, epoch) = (mem::take(&mut self.id), self.epoch);
        let mut steps = mem::take(&mut state.steps);
        steps.push(Step::End(Outcome::of(Ending::Cancelled).to_stored()));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = store.step(&id, epoch, steps).await {
                warn!(run = id, %error, "the end of a run is not stored");
            }
        });
    }
}

impl State {
    fn of(stored: &StoredRun) -> Self {
        let known = |stored: &StoredCall| {
            let answer = stored.answer.as_deref().map(|text| {
                // What this program has not written is not kept.
                serde_json::from_str(text).unwrap_or(Answer::NotKept)
            });
            let has_succeeded = answer.as_ref().is_some_and(Answer::has_succeeded);
            (stored.position, Known { call: stored.call.clone(), answer, has_succeeded })
        };
        let answers = stored.calls.iter().filter_map(|call| call.answer.as_ref());
        Self {
            answer_bytes: answers.map(String::len).sum(),
            calls: stored.calls.iter().map(known).collect(),
            ..Self::default()
        }
    }

    fn suspension(&self, token: &str, id: &str, in_doubt: &[Position]) -> Suspension {
        let shown = |position: &Position, known: &Known| RunCall {
            position: *position,
            tool: known.call.called.tool.to_string(),
            arguments: known.call.called.arguments.to_string(),
        };
        let of = |is_so: &dyn Fn(&Position, &Stage) -> bool| {
            let calls =
                self.calls.iter().filter(|(position, known)| is_so(position, &known.call.stage));
            calls.map(|(position, known)| shown(position, known)).collect()
        };
        Suspension {
            run: id.to_owned(),
            token: token.to_owned(),
            completed: of(&|_, stage| matches!(stage, Stage::Answered)),
            pending: of(&|_, stage| matches!(stage, Stage::Pending { .. })),
            in_doubt: of(&|position, _| in_doubt.contains(position)),
        }
    }
}

/// Returns the time in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the error of a script that makes another call than its journal has.
fn diverged(position: Position, known: &Call, made: Option<&ScriptCall>) -> CallError {
    let made = made.map_or_else(
        || "and the script has ended without it".to_owned(),
        |made| format!("and the script now calls {} there", named(&made.tool, &made.arguments)),
    );
    let had = named(&known.called.tool, &known.called.arguments);
    conflict(
        "run_diverged",
        format!("the run cannot be resumed: its journal has call {position}, {had}, {made}"),
    )
}

fn named(tool: &str, arguments: &str) -> String {
    let arguments = crate::text::cut(arguments.to_owned(), 200);
    format!("{}({arguments})", ToolName::alias(tool))
}

impl Halted {
    fn by(error: &RunError) -> Self {
        let failed = |kind, code: &str, message| {
            let code = Some(code.to_owned());
            Self::Failed(Box::new(ToolError { code, ..ToolError::new(kind, message) }))
        };
        match error {
            RunError::Refused { refused: Refused::Cancelled, .. } => Self::Cancelled,
            RunError::Refused { refused: Refused::Expired | Refused::Redefined, .. } => Self::Void,
            RunError::Refused { refused: Refused::Superseded, .. } => failed(
                ErrorKind::Conflict,
                "run_superseded",
                format!("the run was stopped: {error}"),
            ),
            RunError::Unavailable(_) => failed(
                ErrorKind::Unavailable,
                "journal_unavailable",
                format!("the run was stopped, because its journal cannot be written: {error}"),
            ),
            error => {
                failed(ErrorKind::Conflict, "run_refused", format!("the run was stopped: {error}"))
            }
        }
    }
}

impl From<Halted> for CallError {
    fn from(halted: Halted) -> Self {
        match halted {
            Halted::Void | Halted::Cancelled => Self::Cancelled,
            Halted::Failed(error) => Self::Tool(*error),
        }
    }
}

fn conflict(code: &str, message: String) -> CallError {
    CallError::Tool(ToolError {
        code: Some(code.to_owned()),
        ..ToolError::new(ErrorKind::Conflict, message)
    })
}

#[cfg(test)]
mod tests;
