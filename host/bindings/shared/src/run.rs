//! Runs as objects of a program: finished, or waiting for decisions.

use std::{collections::BTreeSet, mem, sync::Arc};

use airlock_runner::{
    FinishedRun, NoSuchCall, PendingRun, RunDump, RunRequest, RunState, ScriptLanguage,
};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::{BindingFailure, CallTarget, HostProcess, ToolPool, tools::context};

/// Returns the language with this name. Fails if there is none.
pub fn script_language(name: &str) -> Result<ScriptLanguage, BindingFailure> {
    ScriptLanguage::named(name).ok_or_else(|| {
        let valid = ScriptLanguage::ALL.map(ScriptLanguage::name).join(" or ");
        BindingFailure::Invalid(format!("the language {name:?} is unknown; it must be {valid}"))
    })
}

/// Reads a dump. Fails before anything is copied if the bytes are too many, or are not those of a dump.
pub fn read_dump(bytes: &[u8]) -> Result<RunDump, BindingFailure> {
    Ok(RunDump::from_slice(bytes)?)
}

/// A run of a script.
pub struct BindingRun(Mutex<RunPhase>);

enum RunPhase {
    Finished(Arc<FinishedRun>),
    Waiting(Box<WaitingRun>),
    /// It was resumed, and is another object now.
    Resumed,
}

/// A run that waits.
pub struct WaitingRun(PendingRun);

impl BindingRun {
    /// Runs a script with the tools of a set. `target` makes its calls. Dropping the future stops the
    /// script.
    pub async fn start(
        process: Arc<HostProcess>,
        pool: Arc<ToolPool>,
        target: Arc<dyn CallTarget>,
        request: RunRequest,
    ) -> Result<Self, BindingFailure> {
        let request = request.with_functions(pool.functions()).with_context(context(target));
        let ran = process.runner().run(request).await;
        Ok(Self::new(ran?))
    }

    /// Resumes a run that waits. Dropping the future stops the script.
    pub async fn resume(
        process: Arc<HostProcess>,
        waiting: WaitingRun,
        target: Arc<dyn CallTarget>,
    ) -> Result<Self, BindingFailure> {
        let WaitingRun(pending) = waiting;
        let ran = process.runner().resume(pending.with_context(context(target))).await;
        Ok(Self::new(ran?))
    }

    /// Runs the script of a finished run again, from its journal alone.
    pub async fn replay(process: Arc<HostProcess>, dump: RunDump) -> Result<Self, BindingFailure> {
        let finished = process.runner().replay(&dump).await?;
        Ok(Self::in_phase(RunPhase::Finished(Arc::new(finished))))
    }

    /// Loads a run that waits, from its bytes.
    pub fn load(dump: &[u8], pool: &Arc<ToolPool>) -> Result<Self, BindingFailure> {
        let dump = read_dump(dump)?;
        Ok(Self::new(RunState::Pending(PendingRun::load(&dump, pool.functions())?)))
    }

    fn new(state: RunState) -> Self {
        Self::in_phase(match state {
            RunState::Finished(finished) => RunPhase::Finished(Arc::new(finished)),
            RunState::Pending(pending) => RunPhase::Waiting(Box::new(WaitingRun(pending))),
        })
    }

    fn in_phase(phase: RunPhase) -> Self {
        Self(Mutex::new(phase))
    }

    /// Returns the result of the run; `None` if it waits or was resumed.
    pub fn finished(&self) -> Option<Arc<FinishedRun>> {
        match &*self.0.lock() {
            RunPhase::Finished(finished) => Some(finished.clone()),
            RunPhase::Waiting(_) | RunPhase::Resumed => None,
        }
    }

    /// Returns the text that the script has printed.
    pub fn output(&self) -> String {
        match &*self.0.lock() {
            RunPhase::Finished(finished) => finished.output.clone(),
            RunPhase::Waiting(waiting) => waiting.0.output().to_owned(),
            RunPhase::Resumed => String::new(),
        }
    }

    /// Returns the calls without a decision: number, tool, arguments.
    pub fn pending(&self) -> Vec<(u32, String, Map<String, Value>)> {
        match &*self.0.lock() {
            RunPhase::Waiting(waiting) => waiting
                .0
                .calls()
                .iter()
                .filter(|call| call.decision.is_none())
                .map(|call| (call.id, call.function.clone(), call.arguments.clone()))
                .collect(),
            RunPhase::Finished(_) | RunPhase::Resumed => Vec::new(),
        }
    }

    /// Approves calls: all of them, or none if one of them does not wait. Without ids, approves the only call that waits, and
    /// fails if several wait: ids that a program has lost must not become an approval of all.
    pub fn approve(&self, ids: Option<Vec<u32>>) -> Result<(), BindingFailure> {
        let ids = match ids {
            Some(ids) => ids,
            None => self.only_undecided()?,
        };
        self.decide(ids, PendingRun::approve)
    }

    /// Denies calls, all that wait without ids: all of them, or none if one of them does not wait. The script receives the
    /// reason.
    pub fn deny(&self, ids: Option<Vec<u32>>, reason: &str) -> Result<(), BindingFailure> {
        let ids = match ids {
            Some(ids) => ids,
            None => self.undecided()?,
        };
        self.decide(ids, |run, id| run.deny(id, reason))
    }

    /// Returns the ids of the calls without a decision. Fails if the run was resumed.
    fn undecided(&self) -> Result<Vec<u32>, BindingFailure> {
        match &*self.0.lock() {
            RunPhase::Waiting(waiting) => {
                let calls = waiting.0.calls().iter();
                Ok(calls.filter(|call| call.decision.is_none()).map(|call| call.id).collect())
            }
            RunPhase::Finished(_) => Ok(Vec::new()),
            RunPhase::Resumed => Err(BindingFailure::used_up()),
        }
    }

    /// Returns the id of the only call without a decision, or none. Fails if there are several.
    fn only_undecided(&self) -> Result<Vec<u32>, BindingFailure> {
        let ids = self.undecided()?;
        if ids.len() > 1 {
            let count = ids.len();
            let ambiguous = format!("{count} calls wait; name those to approve by their ids");
            return Err(BindingFailure::Invalid(ambiguous));
        }
        Ok(ids)
    }

    fn decide(
        &self,
        ids: Vec<u32>,
        decide: impl Fn(&mut PendingRun, u32) -> Result<(), NoSuchCall>,
    ) -> Result<(), BindingFailure> {
        let Some(first) = ids.first() else { return Ok(()) };
        let mut phase = self.0.lock();
        let run = match &mut *phase {
            RunPhase::Waiting(waiting) => &mut waiting.0,
            RunPhase::Finished(_) => return Err(BindingFailure::NoSuchCall(*first)),
            RunPhase::Resumed => return Err(BindingFailure::used_up()),
        };
        let waiting: BTreeSet<_> = run.calls().iter().map(|call| call.id).collect();
        if let Some(id) = ids.iter().find(|id| !waiting.contains(id)) {
            return Err(BindingFailure::NoSuchCall(*id));
        }
        ids.into_iter()
            .try_for_each(|id| decide(run, id))
            .map_err(|NoSuchCall { id }| BindingFailure::NoSuchCall(id))
    }

    /// Returns the run as bytes. Fails if it takes too many, if it is finished and keeps no journal, or was resumed.
    pub fn dump(&self) -> Result<RunDump, BindingFailure> {
        match &*self.0.lock() {
            RunPhase::Waiting(waiting) => waiting.0.dump().map_err(BindingFailure::from),
            RunPhase::Finished(finished) => {
                finished.journal.clone().ok_or_else(BindingFailure::no_journal)
            }
            RunPhase::Resumed => Err(BindingFailure::used_up()),
        }
    }

    /// Takes a run that waits, to resume it. Fails if it does not wait. It is used up afterwards.
    pub fn take_waiting(&self) -> Result<WaitingRun, BindingFailure> {
        let mut phase = self.0.lock();
        match mem::replace(&mut *phase, RunPhase::Resumed) {
            RunPhase::Waiting(waiting) => Ok(*waiting),
            RunPhase::Resumed => Err(BindingFailure::used_up()),
            finished @ RunPhase::Finished(_) => {
                *phase = finished;
                Err(BindingFailure::Invalid("the run is finished, and cannot be resumed".into()))
            }
        }
    }
}

impl WaitingRun {
    /// Sets what receives the lines that the resumed script prints.
    #[must_use]
    pub fn with_on_print(self, on_print: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(self.0.with_on_print(on_print))
    }

    /// Sets the number of scripts in each other around this one.
    #[must_use]
    pub fn with_nesting(self, nesting: u32) -> Self {
        Self(self.0.with_nesting(nesting))
    }
}
