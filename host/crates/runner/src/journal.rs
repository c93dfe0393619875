//! The calls of a run, in the order in which the script asks for them, with their answers and the decisions about them.
//!
//! A script has nothing but its inputs and the answers of its calls, so a script that runs again makes the same calls. Calls
//! that were answered get their answers, and are not made.

use airlock_core::{door::MAX_ARGUMENT_BYTES, run::AnswerError, tool::ToolOutput};
use airlock_sandbox::ScriptCall;
use airlock_strings::{MAX_EXCERPT_BYTES, cut};
use serde::{Deserialize, Serialize};

use crate::RunError;

/// Maximum bytes of the arguments and answers that a journal keeps. A call beyond it ends the run, unless it may be repeated.
/// A run that waits has all of them in memory; as strings of JSON, in a dump, they take up to six times as many, which is
/// less than a dump may have.
const MAX_KEPT_BYTES: usize = 32 << 20;
/// Name of the bound in errors.
pub(crate) const KEPT_BYTES: &str = "bytes of a journal";

/// A call in a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JournalEntry {
    pub(crate) function: String,
    /// The arguments as the script sent them. Empty if the call is not kept, or if the door refuses arguments of their size.
    pub(crate) arguments: String,
    pub(crate) state: CallState,
}

/// State of a call in a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallState {
    /// It has returned this value, as JSON text.
    Value(String),
    /// It has failed.
    Error(AnswerError),
    /// It was answered, and the journal had no room. It may be repeated.
    NotKept,
    /// It may be made, and has not been: another call of its block waits for a decision.
    Due,
    /// It waits for a decision.
    Pending,
    /// It may be made once.
    Approved,
    /// It is not made, for this reason.
    Denied(String),
}

impl CallState {
    /// Returns whether the program may decide about the call until the run is resumed.
    pub(crate) fn is_undecided(&self) -> bool {
        matches!(self, Self::Pending | Self::Approved | Self::Denied(_))
    }
}

/// Answer of a call. A failure is the same for the script when it is made and when it comes from the journal.
pub(crate) type FunctionAnswer = Result<ToolOutput, AnswerError>;

/// The knowledge of the journal about a call that the script makes.
pub(crate) enum JournalLookup {
    /// Nothing: the door decides about it.
    New,
    /// It is approved.
    Approved,
    /// It waits for a decision.
    Waits,
    /// It is denied. The script receives this failure.
    Denied(AnswerError),
    /// It has this answer. A value is JSON text.
    Answered(FunctionAnswer),
}

/// Reason that the calls of a script stop it.
#[derive(Debug)]
pub(crate) enum RunStop {
    /// A call waits for a decision.
    Pending,
    /// The script makes other calls than its journal has. Holds the message.
    Diverged(String),
    /// The journal has no room for a further call.
    Full,
    /// A replay has come to a call of this function whose answer was not kept.
    NotKept(String),
}

impl RunStop {
    /// Returns the error of the run; `None` if it can be resumed after a decision.
    pub(crate) fn into_error(self) -> Option<RunError> {
        Some(match self {
            Self::Pending => return None,
            Self::Diverged(message) => RunError::Diverged { message },
            Self::Full => RunError::Limit {
                limit: KEPT_BYTES,
                message: format!(
                    "the arguments and answers of the calls are larger than {MAX_KEPT_BYTES} bytes; make fewer calls, or \
                     split the script"
                ),
            },
            Self::NotKept(function) => RunError::NotKept { function },
        })
    }
}

/// Journal of a run whose script runs.
pub(crate) struct RunJournal {
    entries: Vec<JournalEntry>,
    /// Calls that the script has asked for so far.
    made: usize,
    /// Bytes of arguments and answers that are kept.
    bytes: usize,
    /// False if no call is kept, because the run is neither resumed nor replayed.
    keeps: bool,
    /// True if every answer comes from here.
    is_replay: bool,
}

impl RunJournal {
    /// Creates the journal of a run with the calls that it had before.
    pub(crate) fn new(entries: Vec<JournalEntry>, keeps: bool, is_replay: bool) -> Self {
        let bytes = entries.iter().map(JournalEntry::bytes).sum();
        Self { entries, made: 0, bytes, keeps, is_replay }
    }

    /// Counts calls that the script asks for at the same time. Returns the place of the first.
    pub(crate) fn next(&mut self, calls: usize) -> usize {
        let first = self.made;
        self.made += calls;
        first
    }

    /// Number of calls that the script has asked for.
    pub(crate) fn made(&self) -> usize {
        self.made
    }

    /// Returns what is known of the call at a place. Fails if the journal has another call there.
    pub(crate) fn find(&self, at: usize, call: &ScriptCall) -> Result<JournalLookup, RunStop> {
        let Some(entry) = self.entries.get(at) else {
            if self.is_replay {
                return Err(RunStop::Diverged(divergence(at, None, Some(call))));
            }
            return Ok(JournalLookup::New);
        };
        let is_kept = entry.state != CallState::NotKept;
        if entry.function != call.tool || is_kept && entry.arguments != kept(&call.arguments) {
            return Err(RunStop::Diverged(divergence(at, Some(entry), Some(call))));
        }
        Ok(match &entry.state {
            CallState::Value(text) => JournalLookup::Answered(Ok(ToolOutput::text(text.as_str()))),
            CallState::Error(error) => JournalLookup::Answered(Err(error.clone())),
            CallState::Denied(reason) => JournalLookup::Denied(AnswerError::denied(reason)),
            CallState::NotKept if self.is_replay => {
                return Err(RunStop::NotKept(entry.function.clone()));
            }
            CallState::Due | CallState::Approved if self.is_replay => JournalLookup::Waits,
            CallState::Pending => JournalLookup::Waits,
            CallState::Approved => JournalLookup::Approved,
            CallState::NotKept | CallState::Due => JournalLookup::New,
        })
    }

    /// Returns whether no further call can be kept.
    pub(crate) fn is_full(&self) -> bool {
        self.keeps && self.bytes >= MAX_KEPT_BYTES
    }

    /// Returns whether a call at a place can be kept. One that the journal has already was counted when it was put there: a
    /// call that a person has approved is made, even if the journal is full since.
    pub(crate) fn has_room(&self, at: usize) -> bool {
        at < self.entries.len() || !self.is_full()
    }

    /// Returns whether calls are kept.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Keeps a call with its state.
    pub(crate) fn put(&mut self, at: usize, call: &ScriptCall, state: CallState) {
        if !self.keeps {
            return;
        }
        let is_kept = state != CallState::NotKept;
        let arguments = if is_kept { kept(&call.arguments) } else { "" };
        let entry =
            JournalEntry { function: call.tool.clone(), arguments: arguments.to_owned(), state };
        let added = entry.bytes();
        if let Some(present) = self.entries.get_mut(at) {
            self.bytes = self.bytes.saturating_sub(present.bytes());
            *present = entry;
        } else {
            self.entries.push(entry);
        }
        self.bytes = self.bytes.saturating_add(added);
    }

    /// Keeps a call that was not made, because another one of its block waits. A decision about it stays.
    pub(crate) fn defer(&mut self, at: usize, call: &ScriptCall) {
        if at >= self.entries.len() {
            self.put(at, call, CallState::Due);
        }
    }

    /// Fails if the script has ended without a call that the journal has.
    pub(crate) fn check_complete(&self) -> Result<(), RunError> {
        match self.entries.get(self.made) {
            None => Ok(()),
            Some(left) => {
                Err(RunError::Diverged { message: divergence(self.made, Some(left), None) })
            }
        }
    }

    /// Returns the calls.
    pub(crate) fn into_entries(self) -> Vec<JournalEntry> {
        self.entries
    }
}

impl JournalEntry {
    fn bytes(&self) -> usize {
        let answer = match &self.state {
            CallState::Value(text) | CallState::Denied(text) => text.len(),
            // A dump is refused for the memory of its document as well, in which details take more than their text.
            CallState::Error(error) => airlock_json::text_len(error).max(error.bytes()),
            _ => 0,
        };
        (self.function.len() + self.arguments.len()).saturating_add(answer)
    }
}

/// Returns arguments as a journal keeps them. Those that the door refuses for their size are not kept.
fn kept(arguments: &str) -> &str {
    if arguments.len() > MAX_ARGUMENT_BYTES { "" } else { arguments }
}

/// Returns the message about a script that makes another call than its journal has.
fn divergence(at: usize, known: Option<&JournalEntry>, made: Option<&ScriptCall>) -> String {
    let had = known.map_or_else(
        || "no further call".to_owned(),
        |known| shown(&known.function, &known.arguments),
    );
    let made = made.map_or_else(
        || "the script does not make it".to_owned(),
        |made| format!("the script makes {}", shown(&made.tool, &made.arguments)),
    );
    let number = at + 1;
    format!("as call {number} the journal has {had}, and {made}")
}

fn shown(function: &str, arguments: &str) -> String {
    format!("{function}({})", cut(arguments.to_owned(), MAX_EXCERPT_BYTES))
}

#[cfg(test)]
mod tests {
    use airlock_core::tool::{CallError, ErrorKind, ToolError};
    use airlock_json::weight::weight;
    use serde_json::{Value, json};

    use super::*;

    fn call(function: &str, arguments: &str) -> ScriptCall {
        ScriptCall { tool: function.to_owned(), arguments: arguments.to_owned() }
    }

    /// Returns a journal after a script has made two calls: one that was answered, and one that waits.
    fn entries() -> Vec<JournalEntry> {
        let mut journal = RunJournal::new(Vec::new(), true, false);
        assert_eq!((journal.next(1), journal.next(1)), (0, 1));
        journal.put(0, &call("f", "{}"), CallState::Value("[1]".to_owned()));
        journal.put(1, &call("g", "{}"), CallState::Pending);
        journal.into_entries()
    }

    fn is_diverged(found: &Result<JournalLookup, RunStop>) -> bool {
        matches!(found, Err(RunStop::Diverged(_)))
    }

    #[test]
    fn a_call_that_was_answered_has_its_answer_and_another_call_diverges() {
        let journal = RunJournal::new(entries(), true, false);
        let found = journal.find(0, &call("f", "{}"));
        let Ok(JournalLookup::Answered(Ok(output))) = found else { panic!("it has its answer") };
        assert_eq!(output, ToolOutput::text("[1]"));
        assert!(matches!(journal.find(1, &call("g", "{}")), Ok(JournalLookup::Waits)));
        assert!(matches!(journal.find(2, &call("h", "{}")), Ok(JournalLookup::New)));
        assert!(is_diverged(&journal.find(0, &call("g", "{}"))));
        assert!(is_diverged(&journal.find(0, &call("f", r#"{"a":1}"#))));
    }

    #[test]
    fn decisions_decide_what_is_known() {
        let mut entries = entries();
        entries[1].state = CallState::Approved;
        let journal = RunJournal::new(entries.clone(), true, false);
        assert!(matches!(journal.find(1, &call("g", "{}")), Ok(JournalLookup::Approved)));
        entries[1].state = CallState::Denied("no".to_owned());
        let journal = RunJournal::new(entries, true, false);
        let found = journal.find(1, &call("g", "{}"));
        assert!(matches!(found, Ok(JournalLookup::Denied(_))));
    }

    #[test]
    fn a_replay_has_no_answers_but_those_of_the_journal() {
        let mut entries = entries();
        entries[1].state = CallState::Approved;
        let journal = RunJournal::new(entries.clone(), false, true);
        assert!(matches!(journal.find(1, &call("g", "{}")), Ok(JournalLookup::Waits)));
        assert!(is_diverged(&journal.find(2, &call("h", "{}"))));
        entries[1].state = CallState::NotKept;
        let journal = RunJournal::new(entries, false, true);
        assert!(matches!(journal.find(1, &call("g", "{}")), Err(RunStop::NotKept(_))));
    }

    #[test]
    fn a_script_that_ends_without_a_call_of_its_journal_diverges() {
        let mut journal = RunJournal::new(entries(), true, false);
        journal.next(1);
        assert!(matches!(journal.check_complete(), Err(RunError::Diverged { .. })));
        journal.next(1);
        assert!(journal.check_complete().is_ok());
    }

    #[test]
    fn a_journal_is_full_once_it_keeps_as_much_as_it_may() {
        let mut journal = RunJournal::new(Vec::new(), true, false);
        journal.put(0, &call("f", ""), CallState::Value("1".repeat(MAX_KEPT_BYTES - 2)));
        assert!(!journal.is_full());
        journal.put(1, &call("f", "1"), CallState::Due);
        assert!(journal.is_full());
        journal.put(0, &call("f", ""), CallState::NotKept);
        assert!(!journal.is_full(), "what is replaced is not kept");
        let mut none = RunJournal::new(Vec::new(), false, false);
        assert!(none.has_room(0));
        none.put(0, &call("f", ""), CallState::Value("1".repeat(MAX_KEPT_BYTES)));
        assert!(!none.is_full() && none.into_entries().is_empty());
    }

    #[test]
    fn a_full_journal_has_room_for_the_calls_that_it_has_alone() {
        let mut journal = RunJournal::new(Vec::new(), true, false);
        journal.put(0, &call("f", ""), CallState::Value("1".repeat(MAX_KEPT_BYTES - 2)));
        assert!(journal.has_room(1));
        journal.put(1, &call("f", "1"), CallState::Pending);
        assert_eq!([0, 1, 2].map(|at| journal.has_room(at)), [true, true, false]);
    }

    #[test]
    fn the_details_of_a_failure_count_with_their_memory() {
        let details = Value::from(vec![json!([]); 1_000]);
        let failed =
            ToolError { details: Some(details.clone()), ..ToolError::new(ErrorKind::Other, "no") };
        let failed = AnswerError::from(CallError::from(failed));
        let entry = JournalEntry {
            function: "f".to_owned(),
            arguments: String::new(),
            state: CallState::Error(failed),
        };
        assert!(entry.bytes() >= weight(&details), "{}", entry.bytes());
    }

    #[test]
    fn arguments_that_the_door_refuses_for_their_size_are_not_kept() {
        let long = call("f", &"1".repeat(MAX_ARGUMENT_BYTES + 1));
        let mut journal = RunJournal::new(Vec::new(), true, false);
        let refused = AnswerError::denied("");
        journal.put(0, &long, CallState::Error(refused));
        assert!(matches!(journal.find(0, &long), Ok(JournalLookup::Answered(Err(_)))));
        assert_eq!(journal.into_entries()[0].arguments, "");
    }
}
