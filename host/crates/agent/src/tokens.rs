//! Estimated tokens of the gateway's tools in one request: those that the model reads, and those that code mode and
//! kept results spare it.

use super::{conversation::Conversation, round::CallOutcome};
use airlock_core::{
    door::{Caller, Entry, Origin},
    model_control::ToolTokens,
};
use airlock_strings::estimated_tokens;

/// Member of the `airlock` object with the tokens.
pub(super) const TOKENS: &str = "tokens";
/// Bytes of a result in one token. Results of scripts are measured, and not read.
const TOKEN_BYTES: u64 = 4;

/// The tokens of one request so far.
pub(super) struct TokenReport {
    counted: ToolTokens,
    /// True if the caller receives the report.
    is_shown: bool,
}

impl TokenReport {
    /// Begins the report of a request with the definitions that it sends; `None` if it offers no tools.
    pub(super) fn begin(
        conversation: &Conversation,
        caller: &Caller,
        is_shown: bool,
    ) -> Option<Self> {
        if !conversation.offers() {
            return None;
        }
        let sent = conversation.prompt.tools.iter().map(|tool| tool.definition_tokens());
        let mut counted = ToolTokens { definitions: sent.sum(), ..ToolTokens::default() };
        counted.kept_out.definitions =
            caller.view().list(&Origin::Script).map(|entry| entry.tool.definition_tokens()).sum();
        Some(Self { counted, is_shown })
    }

    /// Adds the calls of a round. One that waits for its caller has no result.
    pub(super) fn add(&mut self, round: &[CallOutcome], caller: &Caller) {
        for ended in round {
            let arguments = ended.call.arguments.as_deref().unwrap_or_default();
            if runs_script(caller, &ended.call.name) {
                self.counted.scripts += estimated_tokens(arguments);
            }
            if !ended.is_waiting() {
                self.counted.results += estimated_tokens(&ended.text);
                self.counted.kept_out.results += ended.kept_out_tokens;
            }
        }
    }

    /// Returns the tokens until now.
    pub(super) fn tokens(&self, caller: &Caller) -> ToolTokens {
        let mut tokens = self.counted;
        tokens.kept_out.script_results =
            caller.ledger().script_result_bytes().div_ceil(TOKEN_BYTES);
        tokens
    }

    /// Returns whether the caller receives the report.
    pub(super) fn is_shown(&self) -> bool {
        self.is_shown
    }
}

fn runs_script(caller: &Caller, name: &str) -> bool {
    caller.view().find(&Origin::Model, name).is_some_and(Entry::runs_scripts)
}
