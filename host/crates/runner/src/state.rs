//! Ends of a run: finished, or waiting for decisions.

use std::sync::Arc;

use airlock_core::run::denial_reason;
use airlock_json::Caps;
use serde_json::{Map, Value};

use crate::{
    BadDump, Functions, PrintHook, RunContext, RunDump,
    journal::{CallState, JournalEntry},
    request::RunContent,
};

/// Maximum memory of the arguments of all calls that wait, as values. A script chooses them, and their texts may take a
/// hundred and fifty times as much.
const MAX_SHOWN_BYTES: usize = 64 << 20;
/// Name of the bound in errors.
pub(crate) const SHOWN_BYTES: &str = "bytes of pending calls";

/// End of a run in this process.
#[derive(Debug)]
#[must_use = "the script may wait for decisions about its calls"]
pub enum RunState {
    /// The script has ended.
    Finished(FinishedRun),
    /// The script has stopped at calls that wait for a decision.
    Pending(PendingRun),
}

/// A run whose script has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedRun {
    /// Value of the script; `None` if it left none, or Python's `None`.
    pub value: Option<Value>,
    /// The printed lines, with a line break between them.
    pub output: String,
    /// Fuel that the script has burnt: the same for the same script with the same inputs and answers.
    pub fuel: u64,
    /// Memory of the sandbox at its largest, in bytes.
    pub peak_memory: u64,
    /// Calls of functions that the script has made.
    pub calls: u32,
    /// The run with the answers of its calls, for [`Runner::replay`](crate::Runner::replay), if it was
    /// [requested](crate::RunRequest::journal) and takes at most [`MAX_DUMP_BYTES`](crate::MAX_DUMP_BYTES).
    pub journal: Option<RunDump>,
}

/// A run whose script has stopped at calls that wait for a decision. None of these calls, and no other of the same block, was
/// made. Nothing of the run is left but this object.
///
/// Each call is [approved](Self::approve) or [denied](Self::deny); the last decision about a call counts. Then
/// [`Runner::resume`](crate::Runner::resume) runs the script again. A call without a decision waits on: the run is pending
/// again.
#[derive(Clone)]
pub struct PendingRun {
    content: RunContent,
    output: String,
    calls: Vec<PendingCall>,
}

/// A call that waits for a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingCall {
    /// Number of the call in its run, from 1.
    pub id: u32,
    /// Name of the function.
    pub function: String,
    /// The arguments, which fit the schema of the function.
    pub arguments: Map<String, Value>,
    /// The decision so far, which may have been made before the run was [loaded](PendingRun::load).
    pub decision: Option<PendingDecision>,
}

/// Decision about a [`PendingCall`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingDecision {
    /// It is made when the run is resumed.
    Approved,
    /// It is not made.
    Denied {
        /// The reason, which the script receives.
        reason: String,
    },
}

/// Error: no call with this number waits for a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no call {id} of the run waits for a decision")]
pub struct NoSuchCall {
    /// The number.
    pub id: u32,
}

impl PendingRun {
    /// Creates a run that waits, of a content with at least one such call. Fails if the arguments of all such calls take more
    /// than [`MAX_SHOWN_BYTES`] in memory, or are not objects.
    pub(crate) fn new(content: RunContent, output: String) -> Result<Self, airlock_json::Error> {
        let mut left = MAX_SHOWN_BYTES;
        let mut calls = Vec::new();
        for (id, entry) in (1..).zip(&content.entries) {
            if entry.state.is_undecided() {
                let (arguments, cost) =
                    airlock_json::parse(entry.arguments.as_bytes(), &Caps::memory(left))?;
                left = left.saturating_sub(cost.tree_bytes);
                let function = entry.function.clone();
                let decision = PendingDecision::from_state(&entry.state);
                calls.push(PendingCall { id, function, arguments, decision });
            }
        }
        Ok(Self { content, output, calls })
    }

    /// The calls that wait for a decision, or have got one since the script has stopped, by their numbers.
    pub fn calls(&self) -> &[PendingCall] {
        &self.calls
    }

    /// The printed lines until the script has stopped.
    pub fn output(&self) -> &str {
        &self.output
    }

    /// Approves a call: it is made once, with exactly these arguments.
    pub fn approve(&mut self, id: u32) -> Result<(), NoSuchCall> {
        self.decide(id, CallState::Approved)
    }

    /// Denies a call: it is not made, and the script receives an error with the code `airlock.approval_denied` and the
    /// reason, on one line, without hidden characters, and cut to 1,000 bytes. A dump keeps the reason.
    pub fn deny(&mut self, id: u32, reason: &str) -> Result<(), NoSuchCall> {
        self.decide(id, CallState::Denied(denial_reason(reason)))
    }

    /// Approves all calls without a decision.
    pub fn approve_all(&mut self) {
        for call in self.calls.iter_mut().filter(|call| call.decision.is_none()) {
            call.decision = Some(PendingDecision::Approved);
        }
        let entries = self.content.entries.iter_mut();
        for entry in entries.filter(|entry| entry.state == CallState::Pending) {
            entry.state = CallState::Approved;
        }
    }

    /// Sets what receives the lines that the resumed script prints. Lines that were printed before are not repeated.
    #[must_use]
    pub fn with_on_print(mut self, on_print: impl Fn(&str) + Send + Sync + 'static) -> Self {
        let on_print: PrintHook = Arc::new(on_print);
        self.content.on_print = Some(on_print);
        self
    }

    /// Sets the value that functions receive with each call when the run is resumed.
    #[must_use]
    pub fn with_context(mut self, context: RunContext) -> Self {
        self.content.context = Some(context);
        self
    }

    /// Sets the nesting of the call whose function resumes the run, as [`RunRequest::nesting`](crate::RunRequest::nesting) does.
    #[must_use]
    pub fn with_nesting(mut self, nesting: u32) -> Self {
        self.content.nesting = nesting;
        self
    }

    /// Returns the run as bytes, with the decisions so far, to be [loaded](Self::load) in another process. Fails with
    /// [`BadDump::TooLarge`] if it takes more than [`MAX_DUMP_BYTES`](crate::MAX_DUMP_BYTES), for which it has to print much
    /// more than it may by default: it can be resumed in this process alone.
    pub fn dump(&self) -> Result<RunDump, BadDump> {
        RunDump::new(&self.content, &self.output, false)
    }

    /// Loads a run. `functions` must have each function of the run as it was declared when the run began. Lines are printed
    /// to no hook, unless [one is set](Self::with_on_print).
    ///
    /// The decisions in the dump are believed, as are its answers and its limits: load a dump only if none but the program
    /// could have written it.
    pub fn load(dump: &RunDump, functions: Functions) -> Result<Self, BadDump> {
        let (content, output) = dump.pending(functions)?;
        Self::new(content, output).map_err(BadDump::content)
    }

    fn decide(&mut self, id: u32, decision: CallState) -> Result<(), NoSuchCall> {
        let entry = self.entry(id).ok_or(NoSuchCall { id })?;
        entry.state = decision;
        let decision = PendingDecision::from_state(&entry.state);
        if let Ok(at) = self.calls.binary_search_by_key(&id, |call| call.id) {
            self.calls[at].decision = decision;
        }
        Ok(())
    }

    fn entry(&mut self, id: u32) -> Option<&mut JournalEntry> {
        let at = usize::try_from(id).ok()?.checked_sub(1)?;
        self.content.entries.get_mut(at).filter(|entry| entry.state.is_undecided())
    }

    /// Returns all that the script needs to run again.
    pub(crate) fn into_content(self) -> RunContent {
        self.content
    }
}

impl PendingDecision {
    /// Returns the decision in a state of a call; `None` if there is none.
    fn from_state(state: &CallState) -> Option<Self> {
        match state {
            CallState::Approved => Some(Self::Approved),
            CallState::Denied(reason) => Some(Self::Denied { reason: reason.clone() }),
            _ => None,
        }
    }
}

airlock_strings::debug_fields!(PendingRun { calls });
