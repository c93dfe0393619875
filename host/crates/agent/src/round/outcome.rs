//! The outcome of a call: its result for the model, or the reason that the caller has to decide.

use std::sync::Arc;

use crate::{
    allowance::Allowance,
    calls::ToolCall,
    event::CallEnded,
    present::{Presenter, ResultMessage},
};
use airlock_conversation::Part;
use airlock_core::{
    door::CallId,
    tool::{
        CallError, CallFailure, Details, GuardQuestions, InputRequired, SourceSet, Suspension,
        ToolOutput,
    },
};

/// A call that is handed to the caller.
pub(crate) struct PendingCall {
    pub(crate) call: ToolCall,
    pub(crate) reason: PendingReason,
    /// Sources of untrusted content that the model had read before.
    pub(crate) sources: SourceSet,
    /// Reasons for which guards require an approval of it.
    pub(crate) asked_by: GuardQuestions,
}

/// Reason that a call is handed to the caller.
pub(crate) enum PendingReason {
    /// The tool needs approval.
    NeedsApproval,
    /// The call ran and reached a nested call that needs approval. It cannot be resumed.
    Stopped {
        /// Tool that needs approval.
        tool: String,
        /// Arguments of the nested call, as JSON text.
        arguments: String,
    },
    /// The script that ran reached a call that needs a decision, which resumes its run.
    Suspended(Box<Suspension>),
    /// The tool waits for answers of the caller.
    InputRequired(Box<InputRequired>),
    /// The tool is not the gateway's: it is the caller's own, or, after the last round or without tools
    /// of the gateway, may not exist.
    NotOffered,
    /// The gateway would run the call, but the maximum number of rounds is reached.
    DepthLimit,
}

/// A call that was run, or refused with a message to the model.
pub(crate) struct CallOutcome {
    pub(crate) call: ToolCall,
    /// Identifier at the door; `None` if the call was refused before the door admitted it.
    pub(crate) id: Option<CallId>,
    /// Text of the result that the model receives.
    pub(crate) text: Arc<str>,
    /// The result with its images as content parts. The model receives it instead of
    /// the text. `None` if there are no images, or the provider does not read them.
    pub(crate) parts: Option<Vec<Part>>,
    /// Handle of the unchanged result, for programs; `None` if it is not kept.
    pub(crate) raw: Option<String>,
    /// Estimated tokens of the parts of the result that the model does not receive.
    pub(crate) kept_out_tokens: u64,
    /// Error of the call; `None` if it succeeded.
    pub(crate) error: Option<CallError>,
}

impl PendingCall {
    pub(crate) fn new(call: ToolCall, reason: PendingReason) -> Self {
        let asked_by = GuardQuestions::new();
        Self { call, reason, sources: SourceSet::default(), asked_by }
    }

    /// Sets the sources that the model had read before.
    pub(crate) fn after(self, sources: SourceSet) -> Self {
        Self { sources, ..self }
    }

    /// Sets the reasons for which guards require an approval.
    pub(crate) fn asked_by(self, questions: &GuardQuestions) -> Self {
        Self { asked_by: questions.clone(), ..self }
    }
}

impl PendingReason {
    /// Returns whether the loop ended because no further round was permitted.
    pub(crate) fn is_depth_limit(pending: &[PendingCall]) -> bool {
        pending.iter().any(|pending| matches!(pending.reason, Self::DepthLimit))
    }
}

impl CallOutcome {
    /// Ends a call that was not made, or whose result does not fit.
    pub(super) fn refused(call: ToolCall, id: Option<CallId>, error: CallError) -> Self {
        let ResultMessage { text, parts, kept_out_tokens } =
            ResultMessage::refusal(&call.name, &error);
        let error = Some(error);
        Self { call, id, text: text.into(), parts, raw: None, kept_out_tokens, error }
    }

    /// Ends a call and presents its result.
    pub(super) fn ran(
        call: ToolCall,
        id: CallId,
        result: Result<ToolOutput, CallError>,
        presenter: &Presenter,
    ) -> Self {
        let raw = presenter.keep(&result);
        let (message, error) = match result {
            Ok(output) => (presenter.output(output), None),
            Err(error) => (presenter.error(&call.name, &error), Some(error)),
        };
        let ResultMessage { text, parts, kept_out_tokens } = message;
        Self { call, id: Some(id), text: text.into(), parts, raw, kept_out_tokens, error }
    }

    pub(super) fn to_event(&self) -> CallEnded {
        CallEnded {
            tool_call_id: self.call.id.clone(),
            name: self.call.name.clone(),
            text: self.text.clone(),
            error: self.error.as_ref().map(CallFailure::from),
        }
    }

    /// Returns whether the call waits for the caller and so has no result.
    pub(crate) fn is_waiting(&self) -> bool {
        self.to_pending().is_some()
    }

    /// Returns the call if it waits for an approval or for answers of the caller.
    pub(crate) fn to_pending(&self) -> Option<PendingCall> {
        let error = self.error.as_ref()?;
        let reason = match error.details() {
            Details::Unapproved { arguments } => {
                let tool = error.tool().map_or_else(String::new, ToString::to_string);
                PendingReason::Stopped { tool, arguments: arguments.clone() }
            }
            Details::Suspended(suspension) => PendingReason::Suspended(suspension.clone()),
            Details::InputRequired(asked) => PendingReason::InputRequired(asked.clone()),
            _ => return None,
        };
        Some(PendingCall::new(self.call.clone(), reason))
    }

    /// Charges the result. If it does not fit, its images become notes; if that does not fit
    /// either, an error replaces it.
    pub(super) fn within(self, allowance: &Allowance) -> Self {
        if self.is_waiting() {
            return self;
        }
        // An admitted call has an identifier, and its tool may have run.
        let was_made = self.id.is_some();
        let parts = self.parts.as_ref().map(|parts| parts.iter().map(Part::bytes).sum::<usize>());
        match allowance.take(parts.unwrap_or(self.text.len())) {
            Ok(()) => self,
            Err(_) if self.parts.is_some() => Self { parts: None, ..self }.within(allowance),
            Err(exceeded) => Self::refused(self.call, self.id, exceeded.into_call_error(was_made)),
        }
    }
}
