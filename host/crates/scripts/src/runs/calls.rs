//! Makes the calls of one script.
//!
//! Each block of calls is looked up in the journal first. The calls that are left are all decided
//! before any runs, so if one of them needs an approval, none has had an effect.

mod answers;
mod ends;
mod written;

use std::{
    pin::pin,
    sync::{Arc, OnceLock},
};

use futures_util::{StreamExt as _, future::BoxFuture, stream};
use tracing::{error, warn};

use self::{
    answers::{BlockAnswers, memory},
    ends::{BlockEnds, BlockStops, ScriptCallEnd},
    written::WrittenCall,
};
use super::{
    ahead,
    answer::CallAnswer,
    codes::TOOL_ABSENT,
    flow::RunFlow,
    held::{HeldManifest, HeldVerdict},
    journal::{Journal, JournalRecord},
    known::KnownTools,
};
use airlock_core::{
    door::{Admitted, ArgumentSources, Arguments, CallId, Chain, Entry, Origin},
    run::{Called, Position},
    threads,
    tool::{CallError, ErrorKind, HostCode, SourceSet, Tool, ToolError, ToolName, ToolOutput},
};
use airlock_sandbox::{
    Bindings, Lost, ScriptAnswer, ScriptCall, ScriptCalls, SourceCall, ToolFlow, WrongCall,
    run_apart, run_beside,
};

/// Maximum bytes of the arguments of a refused call that the journal has. A script may make refused
/// calls in a loop, and they are decided again when it is resumed.
const MAX_REFUSED_BYTES: usize = 4 << 10;

/// Makes the calls of one script: those that its journal has no answer for.
pub struct RunCalls {
    chain: Chain,
    journal: Arc<Journal>,
    /// Calls of its source for which the script does not run.
    wrong: OnceLock<Vec<WrongCall>>,
    /// The manifest that the calls are held to; empty if the run has none.
    manifest: OnceLock<HeldManifest>,
    /// Where the values in its calls come from.
    flow: RunFlow,
    /// The tools that it has called.
    known: KnownTools,
}

/// A call of a block, once it is decided.
enum DecidedCall {
    /// The script receives this answer of the journal of a call of a tool, with content of these untrusted
    /// sources.
    Known(String, ScriptAnswer, SourceSet),
    /// The script receives this answer. It is stored if the call is here.
    Answered(CallAnswer, Option<Called>),
    /// The call runs.
    Runs {
        admitted: Box<Admitted>,
        called: Called,
        /// True if its intent is stored before it runs.
        is_intended: bool,
    },
}

impl RunCalls {
    /// Creates the calls of the script that runs in `chain`.
    pub(crate) fn new(chain: Chain, journal: Arc<Journal>) -> Arc<Self> {
        let flow = RunFlow::new(chain.nested_context());
        let wrong = OnceLock::new();
        let manifest = OnceLock::new();
        Arc::new(Self { chain, journal, wrong, manifest, flow, known: KnownTools::default() })
    }

    /// Holds the calls to a manifest. Called once, before the first call.
    pub(super) fn hold_to(&self, manifest: HeldManifest) {
        // It is empty before.
        let _ = self.manifest.set(manifest);
    }

    /// The chain in which the script runs.
    pub(crate) fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Returns the calls of its source for which the script has not run.
    pub(crate) fn wrong(&self) -> Vec<WrongCall> {
        self.wrong.get().cloned().unwrap_or_default()
    }

    async fn block(
        &self,
        calls: Vec<ScriptCall>,
        is_block: bool,
    ) -> Result<Vec<ScriptAnswer>, CallError> {
        let positions = self.journal.next_block(calls.len(), is_block)?;
        let mut decided = Vec::with_capacity(calls.len());
        let mut stops = BlockStops::default();
        let mut known = BlockAnswers::default();
        for (position, call) in positions.iter().copied().zip(calls) {
            match self.decide(position, call).await? {
                CallDecision::Now(call) => {
                    if let DecidedCall::Known(_, answer, _) = &call {
                        known.count(answer)?;
                    }
                    decided.push((position, call));
                }
                CallDecision::AfterApproval(called) => stops.waiting.push((position, called)),
                CallDecision::InDoubt => stops.in_doubt.push(position),
            }
        }
        if !stops.is_empty() {
            return Err(self.stop(stops).await);
        }
        let mut ends = BlockEnds::default();
        match <[_; 1]>::try_from(decided) {
            // Most calls are made one by one, and need no queue.
            Ok([(position, call)]) => ends.add(position, self.run(position, call).await)?,
            Err(decided) => {
                let running = decided.into_iter().map(|(position, call)| self.run(position, call));
                let mut ended = pin!(stream::iter(running).buffered(self.chain.in_flight().max(1)));
                for position in positions {
                    let Some(end) = ended.next().await else { break };
                    ends.add(position, end)?;
                }
            }
        }
        let BlockEnds { answers, stops, stopped } = ends;
        if let Some(stopped) = stopped {
            return Err(stopped);
        }
        if stops.is_empty() { answers.finish() } else { Err(self.stop(stops).await) }
    }

    /// Stops the script for decisions of a person.
    async fn stop(&self, stops: BlockStops) -> CallError {
        let BlockStops { waiting, in_doubt } = stops;
        if self.journal.can_suspend() {
            return self.journal.suspend(waiting, &in_doubt).await;
        }
        let first = waiting.into_iter().next();
        first.map_or_else(CallError::cancelled, |(_, called)| {
            let arguments = called.arguments.to_string();
            CallError::needs_approval(ToolName::alias(&called.tool), arguments)
        })
    }

    /// Decides one call. An error stops the script. The journal is asked first, because it knows calls as the script
    /// writes them: guards are asked about those that may be made or wait. It has the arguments as the guards leave
    /// them too, because a person approves these.
    async fn decide(
        &self,
        position: Position,
        call: ScriptCall,
    ) -> Result<CallDecision, CallError> {
        // It counts in each process that resumes the run, whatever the journal and the guards say there.
        let held = self.held(&call);
        let known = match self.journal.find(position, &call)? {
            JournalRecord::Answered(answer, sources) => {
                self.chain.count_call()?;
                let answer = answer.into_result();
                // A block may have many long answers, and each took milliseconds to read.
                if memory(&answer) > threads::INLINE_BYTES {
                    tokio::task::yield_now().await;
                }
                return Ok(CallDecision::Now(DecidedCall::Known(call.tool, answer, sources)));
            }
            JournalRecord::InDoubt => return Ok(CallDecision::InDoubt),
            known => known,
        };
        match self.checked(&call).await {
            Ok(checked) => {
                let call = WrittenCall { call, checked };
                let held = if call.is_asked_about() { held.without_approval() } else { held };
                self.decide_with(position, &call, known, &held)
            }
            Err(refused) => self.decide_refused(call, known, refused),
        }
    }

    /// Compares a call as the script writes it with the manifest of the run, and counts it.
    fn held(&self, call: &ScriptCall) -> HeldVerdict {
        self.manifest.get().map_or(HeldVerdict::NotHeld, |manifest| manifest.count(call))
    }

    /// Decides a call that guards refuse, whose tool is not there, or whose arguments are no JSON object. It is not made.
    /// A call that waits for a decision stays so.
    fn decide_refused(
        &self,
        call: ScriptCall,
        known: JournalRecord,
        refused: CallError,
    ) -> Result<CallDecision, CallError> {
        let call = WrittenCall::from(call);
        match known {
            JournalRecord::Pending(waiting) => {
                // As its tool is defined now.
                let Called { definition, .. } = self.seen(&call).ok_or_else(|| absent(&call))?;
                Ok(CallDecision::AfterApproval(Called { definition, ..waiting }))
            }
            JournalRecord::Approved(_) if refused.code() == HostCode::NotFound => {
                Err(absent(&call))
            }
            _ => {
                let refused = self.chain.refuse(&Origin::Script, call.tool(), refused);
                if refused.code() == HostCode::Budget {
                    return Err(refused);
                }
                Ok(self.refused(&call, refused))
            }
        }
    }

    /// Finds a tool by its full name, which a tool of another client may have on the wire once its own client is gone.
    fn find(&self, full_name: &str) -> Option<&Entry> {
        let found = self.chain.view().find(&Origin::Script, full_name);
        found.filter(|entry| entry.tool.full_name.as_str() == full_name)
    }

    /// Returns the arguments of a call as the guards leave them, or as the script writes them if they are long; `None` for
    /// short ones without guards, which the door checks at once. Yields afterwards: a block has many calls, and the
    /// script has to be stopped at its deadline while they are decided.
    async fn checked(&self, call: &ScriptCall) -> Result<Option<Arguments>, CallError> {
        let ScriptCall { tool, arguments } = call;
        let view = self.chain.view();
        if self.find(tool).is_none() {
            return Err(view.absent(&Origin::Script, tool));
        }
        let checked = if view.has_guards() {
            threads::guarded_nested(&self.chain, &Origin::Script, tool, arguments).await
        } else if arguments.len() > threads::INLINE_BYTES {
            threads::parse(self.chain.tenant(), tool, arguments).await.map(Some)
        } else {
            return Ok(None);
        };
        tokio::task::yield_now().await;
        checked
    }

    /// Returns the sources that the arguments of a call may have, of a script that has read `read`; `None` if they are
    /// not known.
    fn values(&self, call: &WrittenCall, read: &SourceSet) -> Option<ArgumentSources> {
        self.flow.of_call(&call.call, call.arguments(), read)
    }

    /// Decides one call that guards do not refuse.
    fn decide_with(
        &self,
        position: Position,
        call: &WrittenCall,
        known: JournalRecord,
        held: &HeldVerdict,
    ) -> Result<CallDecision, CallError> {
        let approved = match known {
            JournalRecord::Pending(_) => {
                let called = self.seen(call).ok_or_else(|| absent(call))?;
                return Ok(CallDecision::AfterApproval(called));
            }
            JournalRecord::Approved(approved) => Some(approved),
            _ => {
                if let Some(misfit) = self.misfit(call) {
                    self.chain.count_call()?;
                    return Ok(self.refused(call, misfit));
                }
                held.approved(call.arguments())
            }
        };
        let values = self.values(call, &self.chain.nested_context());
        let admitted = call.admit(&self.chain, approved.as_ref(), values);
        match admitted {
            // The policy permits it, and nobody has been shown it.
            Ok(admitted) if approved.is_none() && matches!(held, HeldVerdict::Outside) => {
                Ok(CallDecision::AfterApproval(self.called_of(call, admitted.tool(), true)))
            }
            Ok(admitted) => {
                let is_intended = approved.is_some() || !is_repeatable(admitted.tool());
                let called = self.called_of(call, admitted.tool(), is_intended);
                let admitted = admitted.within(self.chain.call_timeout());
                let admitted = Box::new(admitted.in_run(self.journal.id(), position));
                Ok(CallDecision::Now(DecidedCall::Runs { admitted, called, is_intended }))
            }
            Err(error) if error.is_unapproved() => {
                Ok(CallDecision::AfterApproval(self.called(call)))
            }
            Err(stop) if stop.code() == HostCode::Budget => Err(stop),
            // A person has decided that it is made.
            Err(error) if error.code() == HostCode::NotFound && approved.is_some() => {
                Err(absent(call))
            }
            Err(refused) => Ok(self.refused(call, refused)),
        }
    }

    /// Returns the error of arguments that the tool cannot take; `None` also for a tool that the
    /// script may not call, which the door refuses.
    fn misfit(&self, call: &WrittenCall) -> Option<CallError> {
        let entry = self.find(call.tool())?;
        self.known.check(&entry.tool, call.arguments()).err()
    }

    /// Ends a call that is not made.
    fn refused(&self, call: &WrittenCall, refused: CallError) -> CallDecision {
        let answer = CallAnswer::new(Err(refused), call.tool());
        // A refused call is decided again when the run is resumed; its arguments may be of any size,
        // and are not stored.
        let is_stored = call.arguments().len() <= MAX_REFUSED_BYTES;
        let called = is_stored.then(|| self.called(call));
        CallDecision::Now(DecidedCall::Answered(answer, called))
    }

    /// Returns a call with the definition of its tool, if the script may see the tool.
    fn called(&self, call: &WrittenCall) -> Called {
        self.seen(call).unwrap_or_else(|| call.to_called(Arc::default(), true, self.sources(call)))
    }

    /// Returns a call with the definition of its tool; `None` if the script may not see the tool.
    fn seen(&self, call: &WrittenCall) -> Option<Called> {
        let entry = self.find(call.tool())?;
        Some(self.called_of(call, &entry.tool, true))
    }

    /// Returns a call of a tool. `is_compared` tells whether its definition is compared with that of an
    /// approval: of pending and refused calls, and those with an intent.
    fn called_of(&self, call: &WrittenCall, tool: &Arc<Tool>, is_compared: bool) -> Called {
        let definition = if is_compared { self.known.digest(tool) } else { Arc::default() };
        call.to_called(definition, is_repeatable(tool), self.sources(call))
    }

    /// Returns the sources that the script has read so far, and those of the arguments of a call, as they are stored.
    fn sources(&self, call: &WrittenCall) -> Option<Arc<str>> {
        let read = self.chain.nested_context();
        let values = self.values(call, &read);
        let text = values.map_or_else(|| read.to_json(), |values| values.to_json(&read));
        text.map(Into::into)
    }

    async fn run(
        &self,
        position: Position,
        decided: DecidedCall,
    ) -> Result<ScriptCallEnd, CallError> {
        let (admitted, called, is_intended) = match decided {
            DecidedCall::Known(tool, answer, sources) => {
                self.chain.receive(&sources);
                self.flow.receive(&tool, &sources);
                return Ok(ScriptCallEnd::Answered(answer));
            }
            DecidedCall::Answered(answer, called) => {
                if let Some(called) = called {
                    self.journal.record(position, called, &answer, &SourceSet::default()).await?;
                }
                return Ok(ScriptCallEnd::Answered(answer.into_result()));
            }
            DecidedCall::Runs { admitted, called, is_intended } => (admitted, called, is_intended),
        };
        let attempt = if is_intended {
            Some(self.journal.intend(position, called.clone()).await?)
        } else {
            None
        };
        let chain = admitted.chain().clone();
        let answer = match ran(*admitted, position.branch > 0).await {
            Err(error) if error.is_unapproved() => {
                return Ok(self.unapproved(chain.id(), called));
            }
            result => {
                report(result.as_ref().err());
                CallAnswer::new(result, &called.tool)
            }
        };
        let sources = chain.received();
        self.flow.receive(&called.tool, &sources);
        match attempt {
            Some(attempt) => self.journal.answer(position, attempt, &answer, &sources).await?,
            None => self.journal.record(position, called, &answer, &sources).await?,
        }
        Ok(ScriptCallEnd::Answered(answer.into_result()))
    }

    /// Ends a call of a plugin that stopped for an approval. It can run again only if it has done
    /// nothing yet, or if all that it has done is repeatable.
    fn unapproved(&self, id: CallId, mut called: Called) -> ScriptCallEnd {
        // It is compared with that of the approval.
        if let Some(entry) = self.find(&called.tool) {
            called.definition = self.known.digest(&entry.tool);
        }
        let has_acted = self.chain.ledger().may_have_acted(id);
        if has_acted && !called.is_repeatable {
            ScriptCallEnd::Interrupted
        } else {
            ScriptCallEnd::NeedsApproval(called)
        }
    }
}

/// Decision about a call.
enum CallDecision {
    /// It is due.
    Now(DecidedCall),
    /// It needs an approval.
    AfterApproval(Called),
    /// It needs a decision, because it may have been made.
    InDoubt,
}

impl ScriptCalls for RunCalls {
    fn make(
        &self,
        calls: Vec<ScriptCall>,
        is_block: bool,
    ) -> BoxFuture<'_, Result<Vec<ScriptAnswer>, CallError>> {
        Box::pin(self.block(calls, is_block))
    }

    /// Looks at the calls of a run that begins. One that is resumed has passed, and tools may have changed
    /// since; one that is replayed ends as it did.
    fn check(&self, bindings: &Bindings, calls: &[SourceCall]) -> Vec<WrongCall> {
        let wrong = match self.journal.known_wrong() {
            Some(known) => known.to_vec(),
            None => ahead::wrong_calls(self.chain.view(), bindings, calls),
        };
        if !wrong.is_empty() {
            // Asked once.
            let _ = self.wrong.set(wrong.clone());
        }
        wrong
    }

    fn follow(&self, flows: Vec<ToolFlow>) {
        self.flow.follow(flows);
    }
}

/// Returns the error of a decided call whose tool is not there now. The run is not ended by it.
fn absent(call: &WrittenCall) -> CallError {
    let name = ToolName::alias(call.tool());
    let message = format!(
        "the tool '{name}' of a call that a person has decided about is not available now; the run \
         is still suspended, and can be resumed once the tool is there"
    );
    ToolError::new(ErrorKind::Unavailable, message).with_code(TOOL_ABSENT).into()
}

/// Returns whether a call may be repeated if its answer is lost. The source of the tool says so.
fn is_repeatable(tool: &Tool) -> bool {
    tool.annotations.read_only == Some(true) || tool.annotations.idempotent == Some(true)
}

/// Logs the cause of a failure, which the script does not receive.
fn report(failed: Option<&CallError>) {
    if let Some(error) = failed
        && let Some(cause) = std::error::Error::source(error)
    {
        warn!(code = error.code().as_str(), cause = %cause, "nested tool call failed");
    }
}

/// Runs a call: beside the script, or apart from it if it is one of a block. Dropping the future stops
/// the call.
async fn ran(admitted: Admitted, is_block: bool) -> Result<ToolOutput, CallError> {
    let tool = admitted.tool().name.clone();
    // Boxed: it has some KB, and is moved several times.
    let running = Box::pin(admitted.run());
    let ended = if is_block { run_apart(running).await } else { run_beside(running).await };
    ended.unwrap_or_else(|lost| {
        if matches!(lost, Lost::Panicked) {
            error!(%tool, "a tool call panicked");
        }
        Err(CallError::unavailable(tool, lost))
    })
}

#[cfg(test)]
mod tests;
