//! The answers of a block of calls. They wait in the memory of the gateway until the last of them is there: the script
//! receives all at once.

use airlock_core::tool::CallError;
use airlock_json::weight::weight;
use airlock_sandbox::{Limits, ScriptAnswer};

/// Maximum memory of the answers of one block, in bytes: as much as a script receives of all its calls.
const MAX_BYTES: usize = Limits::SCRIPT.copied_bytes * 8;
/// Name of the bound in errors. The sandbox has the same for all results of a script.
const BOUND: &str = "bytes of tool results";

/// The answers of a block so far.
#[derive(Default)]
pub(super) struct BlockAnswers {
    answers: Vec<ScriptAnswer>,
    /// Memory of all answers that were counted.
    bytes: usize,
}

impl BlockAnswers {
    /// Adds the next answer. Beyond the bound, none is kept; the calls that run go on to their ends, so that the journal
    /// has their answers.
    pub(super) fn push(&mut self, answer: ScriptAnswer) {
        if self.count(&answer).is_ok() {
            self.answers.push(answer);
        } else {
            self.answers = Vec::new();
        }
    }

    /// Counts an answer that is kept elsewhere. Fails if the answers take too much memory.
    pub(super) fn count(&mut self, answer: &ScriptAnswer) -> Result<(), CallError> {
        self.bytes = self.bytes.saturating_add(memory(answer));
        self.check()
    }

    /// Returns the answers in their order. Fails if they take too much memory.
    pub(super) fn finish(self) -> Result<Vec<ScriptAnswer>, CallError> {
        self.check()?;
        Ok(self.answers)
    }

    fn check(&self) -> Result<(), CallError> {
        if self.bytes > MAX_BYTES {
            return Err(CallError::budget(BOUND, MAX_BYTES as u64));
        }
        Ok(())
    }
}

/// Returns the memory of an answer, in bytes. Data is text; the details of a failure are a tree.
pub(super) fn memory(answer: &ScriptAnswer) -> usize {
    match answer {
        Ok(output) => output.size(),
        Err(error) => error.tool_error().map_or(0, |own| {
            let details = own.details.as_ref().map_or(0, weight);
            own.message.len().saturating_add(details)
        }),
    }
}

#[cfg(test)]
mod tests {
    use airlock_core::tool::{ErrorKind, HostCode, ToolError, ToolOutput};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_answers_of_a_block_are_kept_up_to_the_bound_and_none_beyond_it() {
        let mut answers = BlockAnswers::default();
        answers.push(Ok(ToolOutput::text("x".repeat(MAX_BYTES - 1))));
        answers.push(Ok(ToolOutput::text("x")));
        assert_eq!(answers.answers.len(), 2);
        answers.push(Ok(ToolOutput::text("x")));
        assert!(answers.answers.is_empty());
        answers.push(Ok(ToolOutput::text("")));
        assert!(answers.answers.is_empty(), "later ones are not kept either");
        let code = answers.finish().expect_err("they are too large").code();
        assert_eq!(code, HostCode::Budget);
    }

    #[test]
    fn the_details_of_a_failure_count_with_the_memory_of_their_tree() {
        let details = Value::from(vec![json!([]); 1_000]);
        let failed =
            ToolError { details: Some(details.clone()), ..ToolError::new(ErrorKind::Other, "no") };
        assert_eq!(memory(&Err(failed.into())), weight(&details) + 2);
        assert_eq!(memory(&Err(CallError::cancelled())), 0);
    }
}
