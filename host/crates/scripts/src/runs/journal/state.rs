//! Calls of one run, as this process knows them, and its steps that are not stored yet.
//!
//! Each change is a step of the protocol ([`Call`]): made here first, and again by the store, on the
//! state that the store has.

use std::{collections::BTreeMap, mem};

use super::failure;
use crate::runs::{
    EXECUTE,
    answer::{CallAnswer, NOT_KEPT, StoredAnswer},
    manifest::MANIFEST_POSITION,
    run_call,
};
use airlock_core::{
    door::Approved,
    run::{Call, Called, Position, Refused, Stage},
    tool::{CallError, RunCall, SourceSet, Suspension},
};
use airlock_sandbox::ScriptCall;
use airlock_store::runs::{NewRun, RunStep, StoredCall};

/// Maximum bytes of the answers that one run stores, and of the arguments of its calls. A resumed run reads all of them,
/// and resumed runs have 256 MiB together. Beyond it, answers of repeatable calls are not stored, and a call that is not
/// repeatable, or whose arguments do not fit, is refused before it is made.
const MAX_STORED_BYTES: usize = 16 << 20;
/// Maximum bytes of steps that wait to be stored. They are in memory; a script that only reads waits
/// with all of them until it ends.
const MAX_WAITING_BYTES: usize = 1 << 20;

/// Calls of one run, and its steps that are not stored yet.
#[derive(Default)]
pub(super) struct JournalState {
    /// Calls of earlier epochs, and those of this one.
    calls: BTreeMap<Position, KnownCall>,
    /// Steps that are not stored yet, in their order.
    steps: Vec<RunStep>,
    /// Bytes of the arguments and answers in `steps`.
    waiting: usize,
    /// Bytes of arguments and of answers that the journal has.
    stored: TextBytes,
    /// Blocks of calls that the script has made so far.
    blocks: u32,
}

/// Bytes of the texts in a journal.
#[derive(Default, Clone, Copy)]
struct TextBytes {
    arguments: usize,
    answers: usize,
}

/// A call, and its answer if an earlier epoch has one.
struct KnownCall {
    call: Call,
    /// The stored text, until the script has come to the call; of a denied call, the reason.
    answer: Option<String>,
    /// False for a call that was refused, or only asked for.
    was_sent: bool,
    has_succeeded: bool,
}

/// State of a call that the script makes.
pub(crate) enum JournalRecord {
    /// The journal does not have it.
    New,
    /// It is repeatable, and the journal has no answer of it.
    Again,
    /// It has this answer, with content of these untrusted sources.
    Answered(CallAnswer, SourceSet),
    /// It has this approval.
    Approved(Approved),
    /// It waits for an approval, as this call.
    Pending(Called),
    /// It may have been made, and its answer is lost.
    InDoubt,
}

impl JournalState {
    /// Creates the state of a run that begins.
    pub(super) fn begin(new: NewRun) -> Self {
        Self { steps: vec![RunStep::Begin(new)], ..Self::default() }
    }

    /// Counts a block of `calls` calls and returns their positions. Fails if the journal has a call of the block at another
    /// position: the script would make it once more, or leave it out.
    pub(super) fn next_block(
        &mut self,
        calls: usize,
        is_block: bool,
    ) -> Result<Vec<Position>, CallError> {
        self.blocks += 1;
        let block = self.blocks;
        let first = u32::from(is_block);
        let positions: Vec<_> =
            (first..).take(calls).map(|branch| Position { block, branch }).collect();
        let whole = Position { block, branch: 0 }..=Position { block, branch: u32::MAX };
        let mut known = self.calls.range(whole);
        match known.find(|(position, _)| positions.binary_search(position).is_err()) {
            Some((position, known)) => Err(failure::diverged(*position, &known.call, None)),
            None => Ok(positions),
        }
    }

    /// Counts a block that the script does not make: that of its manifest.
    pub(super) fn skip_block(&mut self) {
        self.blocks += 1;
    }

    /// Returns the call that is the manifest of the run; `None` if the run has none.
    pub(super) fn manifest(&self) -> Option<Call> {
        let known = self.calls.get(&MANIFEST_POSITION)?;
        is_manifest(&known.call).then(|| known.call.clone())
    }

    /// Returns what is known of a call as the script writes it, and takes its answer out. Fails if the journal has
    /// another call at its position, or an answer that cannot be read, or if it has no room for the call.
    pub(super) fn find(
        &mut self,
        position: Position,
        made: &ScriptCall,
        now_ms: i64,
    ) -> Result<JournalRecord, CallError> {
        let Some(known) = self.calls.get_mut(&position) else {
            if self.stored.arguments.saturating_add(made.arguments.len()) > MAX_STORED_BYTES {
                return Err(failure::full("arguments", MAX_STORED_BYTES));
            }
            return Ok(JournalRecord::New);
        };
        let called = &known.call.called;
        if !called.is_made_by(&made.tool, &made.arguments) {
            return Err(failure::diverged(position, &known.call, Some(made)));
        }
        Ok(match known.call.stage {
            Stage::Answered => match known.answer.take().as_deref().map(StoredAnswer::read) {
                Some(StoredAnswer::Answer(answer, sources)) => {
                    JournalRecord::Answered(answer, sources)
                }
                Some(StoredAnswer::NotKept) if called.is_repeatable => JournalRecord::Again,
                _ => return Err(failure::unreadable(position)),
            },
            Stage::Denied => {
                let denial = StoredAnswer::of_denial(known.answer.as_deref());
                JournalRecord::Answered(denial, SourceSet::default())
            }
            Stage::Approved { until_ms, .. } | Stage::Retried { until_ms, .. }
                if until_ms <= now_ms =>
            {
                JournalRecord::Pending(called.clone())
            }
            Stage::Approved { .. } => JournalRecord::Approved(approved(called, true)),
            Stage::Retried { .. } => JournalRecord::Approved(approved(called, false)),
            Stage::InDoubt { .. } => JournalRecord::InDoubt,
            Stage::Pending { .. } => JournalRecord::Pending(called.clone()),
            Stage::Sent { .. } => JournalRecord::Again,
        })
    }

    /// Fails if no answer of a call that is not repeatable can be stored any more.
    pub(super) fn check_room(&self) -> Result<(), CallError> {
        if self.stored.answers >= MAX_STORED_BYTES {
            return Err(failure::full("answers", MAX_STORED_BYTES));
        }
        Ok(())
    }

    /// Intends to send a call. Returns the number of the attempt, and the call as it was before.
    pub(super) fn intend(
        &mut self,
        position: Position,
        called: Called,
        now_ms: i64,
    ) -> Result<(u32, Option<Call>), Refused> {
        let before = self.call(position).cloned();
        let sent = Call::intend(before.as_ref(), called.clone(), now_ms)?;
        let Stage::Sent { attempt } = sent.stage else { return Err(Refused::NotDue) };
        self.put(position, sent);
        self.push(called.arguments.len(), RunStep::Intend(position, called));
        Ok((attempt, before))
    }

    /// Takes an intent back that was not stored.
    pub(super) fn take_back(&mut self, position: Position, before: Option<Call>) {
        match before {
            Some(before) => self.put(position, before),
            None => drop(self.calls.remove(&position)),
        }
    }

    /// Answers a call whose intent is stored.
    pub(super) fn answer(
        &mut self,
        position: Position,
        attempt: u32,
        has_succeeded: bool,
        text: String,
    ) -> Result<(), Refused> {
        let answered = self.call(position).ok_or(Refused::Stale)?.answer(attempt)?;
        self.end(position, answered, true, has_succeeded);
        self.stored.answers = self.stored.answers.saturating_add(text.len());
        self.push(text.len(), RunStep::Answer(position, attempt, text.into()));
        Ok(())
    }

    /// Answers a call without an intent. A call that the journal has already keeps its entry: it is a
    /// repeatable one whose answer was not stored.
    pub(super) fn record(
        &mut self,
        position: Position,
        called: Called,
        has_succeeded: bool,
        mut text: String,
    ) {
        let Ok(call) = Call::record(self.call(position), called.clone()) else { return };
        let with = self.stored.answers.saturating_add(text.len());
        if with > MAX_STORED_BYTES && called.is_repeatable {
            NOT_KEPT.clone_into(&mut text);
        } else {
            self.stored.answers = with;
        }
        self.end(position, call, false, has_succeeded);
        self.push(
            called.arguments.len() + text.len(),
            RunStep::Record(position, called, text.into()),
        );
    }

    /// Notes that a call has ended, of a run that is not stored.
    pub(super) fn note(&mut self, position: Position, called: Called, has_succeeded: bool) {
        if let Ok(call) = Call::record(self.call(position), called) {
            self.end(position, call, false, has_succeeded);
        }
    }

    /// Asks for the approval of a call. An approval that is still good stays.
    pub(super) fn ask(
        &mut self,
        position: Position,
        called: Called,
        now_ms: i64,
    ) -> Result<(), Refused> {
        let present = self.call(position);
        let asked = match Call::ask(present, called.clone(), now_ms) {
            Err(Refused::NotPending)
                if matches!(
                    present.map(|call| call.stage),
                    Some(Stage::Approved { .. } | Stage::Retried { .. })
                ) =>
            {
                return Ok(());
            }
            asked => asked?,
        };
        self.put(position, asked);
        self.push(called.arguments.len(), RunStep::Ask(position, called));
        Ok(())
    }

    /// Extends the lease with the next steps.
    pub(super) fn renew(&mut self) {
        self.steps.push(RunStep::Renew);
    }

    /// Returns whether so many bytes wait that they are to be stored now.
    pub(super) fn is_full(&self) -> bool {
        self.waiting > MAX_WAITING_BYTES
    }

    /// Puts steps back that were not stored, before those that came after them.
    pub(super) fn put_back(&mut self, mut steps: Vec<RunStep>) {
        steps.append(&mut self.steps);
        self.steps = steps;
    }

    /// Takes the steps that are not stored yet.
    pub(super) fn take_steps(&mut self) -> Vec<RunStep> {
        self.waiting = 0;
        mem::take(&mut self.steps)
    }

    /// Returns the tools of the calls that have succeeded, in the order of the calls.
    pub(super) fn completed(&self) -> impl Iterator<Item = String> {
        let calls = self.calls.values().filter(|known| !is_manifest(&known.call));
        let succeeded = calls.filter(|known| known.has_succeeded);
        succeeded.map(|known| known.call.called.tool.to_string())
    }

    /// Returns the tools of the calls that may have changed something and have not succeeded, in the
    /// order of the calls.
    pub(super) fn failed(&self) -> impl Iterator<Item = String> {
        let failed = self.calls.values().filter(|known| {
            known.was_sent && !known.has_succeeded && !known.call.called.is_repeatable
        });
        failed.map(|known| known.call.called.tool.to_string())
    }

    /// Fails if the script has ended without a call that the journal has: it is not the script of the
    /// journal, or its calls depend on something other than earlier results.
    pub(super) fn check_complete(&self) -> Result<(), CallError> {
        let left = self.calls.iter().find(|(position, _)| position.block > self.blocks);
        left.map_or(Ok(()), |(position, known)| {
            Err(failure::diverged(*position, &known.call, None))
        })
    }

    /// Returns the calls of a run that stops, for the person who decides.
    pub(super) fn suspension(&self, id: &str, token: String, in_doubt: &[Position]) -> Suspension {
        Suspension {
            run: id.to_owned(),
            token,
            completed: self.completed_calls(),
            pending: self.shown(|_, stage| matches!(stage, Stage::Pending { .. })),
            in_doubt: self.shown(|position, _| in_doubt.contains(position)),
        }
    }

    /// Returns the calls of the script that have an answer.
    fn completed_calls(&self) -> Vec<RunCall> {
        let mut calls = self.shown(|_, stage| matches!(stage, Stage::Answered));
        calls.retain(|call| call.tool != EXECUTE);
        calls
    }

    /// Returns the calls whose position and stage meet a condition.
    fn shown(&self, is_shown: impl Fn(&Position, &Stage) -> bool) -> Vec<RunCall> {
        let calls = self.calls.iter();
        calls
            .filter(|(position, known)| is_shown(position, &known.call.stage))
            .map(|(position, known)| run_call(*position, &known.call.called))
            .collect()
    }

    fn call(&self, position: Position) -> Option<&Call> {
        self.calls.get(&position).map(|known| &known.call)
    }

    fn put(&mut self, position: Position, call: Call) {
        let added = call.called.arguments.len();
        let was_sent = matches!(call.stage, Stage::Sent { .. } | Stage::InDoubt { .. });
        let known = KnownCall { call, answer: None, was_sent, has_succeeded: false };
        let before = self.calls.insert(position, known);
        let removed = before.map_or(0, |before| before.call.called.arguments.len());
        let arguments = self.stored.arguments.saturating_add(added);
        self.stored.arguments = arguments.saturating_sub(removed);
    }

    fn end(&mut self, position: Position, call: Call, was_sent: bool, has_succeeded: bool) {
        self.put(position, call);
        if let Some(known) = self.calls.get_mut(&position) {
            known.was_sent = was_sent;
            known.has_succeeded = has_succeeded;
        }
    }

    fn push(&mut self, bytes: usize, step: RunStep) {
        self.waiting = self.waiting.saturating_add(bytes);
        self.steps.push(step);
    }
}

/// The answers stay text until the script comes to each: as values they take many times as much
/// memory, and a script may never come to them.
impl From<Vec<StoredCall>> for JournalState {
    fn from(calls: Vec<StoredCall>) -> Self {
        let mut state = Self::default();
        for StoredCall { position, call, answer } in calls {
            state.stored.answers += answer.as_ref().map_or(0, String::len);
            let is_denied = matches!(call.stage, Stage::Denied);
            state.put(position, call);
            if let Some(known) = state.calls.get_mut(&position) {
                // Whether it was refused or has failed is not stored.
                known.was_sent |= answer.is_some() && !is_denied;
                known.has_succeeded = answer.as_deref().is_some_and(CallAnswer::is_success);
                known.answer = answer;
            }
        }
        state
    }
}

/// Returns whether a call is the manifest of its run. A script cannot call the tool that runs scripts.
fn is_manifest(call: &Call) -> bool {
    *call.called.tool == *EXECUTE
}

fn approved(called: &Called, covers_nested: bool) -> Approved {
    let Called { tool, arguments, definition, sources, .. } = called.clone();
    Approved {
        tool,
        definition,
        arguments,
        covers_nested,
        by_operators: false,
        decided_by: None,
        sources: SourceSet::from_json(sources.as_deref()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the state of a run whose first block has two calls.
    fn resumed() -> JournalState {
        let called = Called {
            tool: "a-b".into(),
            arguments: "{}".into(),
            written: None,
            definition: "d".into(),
            is_repeatable: false,
            sources: None,
            asked_by: None,
        };
        let calls = [1, 2].map(|branch| StoredCall {
            position: Position { block: 1, branch },
            call: Call { called: called.clone(), stage: Stage::Pending { attempts: 0 } },
            answer: None,
        });
        JournalState::from(Vec::from(calls))
    }

    #[test]
    fn a_block_that_leaves_out_a_call_of_the_journal_diverges() {
        for (calls, is_block, is_same) in [
            (2, true, true),
            (3, true, true),
            (1, true, false),
            (0, true, false),
            (1, false, false),
        ] {
            let found = resumed().next_block(calls, is_block);
            let is_found = found.as_ref().is_ok_and(|positions| positions.len() == calls);
            assert_eq!(is_found, is_same, "{calls} {is_block}");
            let code = found.err().and_then(|error| error.tool_code().map(str::to_owned));
            assert_eq!(code.as_deref(), (!is_same).then_some("run_diverged"));
        }
        let mut state = resumed();
        assert!(state.next_block(2, true).is_ok() && state.next_block(1, false).is_ok());
    }
}
