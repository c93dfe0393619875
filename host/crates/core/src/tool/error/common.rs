//! Errors that several crates make.

use std::{fmt, time::Duration};

use super::{CallError, Cause, Details, ErrorKind, ReachedLimit};
use crate::tool::{HostCode, InputRequired, SourceSet, ToolName};
use airlock_json::schema::Violations;

impl CallError {
    /// Creates the error of a call of a tool that does not exist or is hidden from the caller.
    pub fn not_found(name: &str) -> Self {
        let message = ("tool '", "' is not available or not permitted");
        Self::about(ToolName::alias(name), ErrorKind::NotFound, HostCode::NotFound, message)
    }

    /// Creates the error of a call that was not approved. `arguments` is JSON text.
    pub fn needs_approval(tool: ToolName, arguments: String) -> Self {
        let message = ("tool '", "' needs approval before it may run");
        Self::about(tool, ErrorKind::Denied, HostCode::NeedsApproval, message)
            .with_details(Details::Unapproved { arguments })
    }

    /// Adds the sources because of which the call is refused.
    #[must_use]
    pub fn with_sources(self, sources: SourceSet) -> Self {
        self.with_details(Details::Untrusted(Box::new(sources)))
    }

    /// Returns the sources because of which the call is refused; `None` if that is not the reason.
    pub fn untrusted_sources(&self) -> Option<&SourceSet> {
        if let Details::Untrusted(sources) = self.details() { Some(sources) } else { None }
    }

    /// Adds to the error of a call that was not approved why the approval is asked for.
    #[must_use]
    pub fn because(mut self, question: &str) -> Self {
        self.0.message.1 = format!("{}: {question}", self.0.message.1).into();
        self
    }

    /// Creates the error of a tool that asks its caller.
    pub fn needs_input(tool: ToolName, asked: Box<InputRequired>) -> Self {
        let questions = match asked.questions.len() {
            1 => "a question".to_owned(),
            count => format!("{count} questions"),
        };
        let message = ("tool '", format!("' waits for its caller to answer {questions}"));
        Self::about(tool, ErrorKind::Unsupported, HostCode::InputRequired, message)
            .with_details(Details::InputRequired(asked))
    }

    /// Creates the error of answers that no call waits for.
    pub fn not_waiting(tool: ToolName) -> Self {
        let message = (
            "no call of tool '",
            "' with these arguments waits for these answers: they came too late, were given before, or belong to another call",
        );
        Self::about(tool, ErrorKind::InvalidInput, HostCode::NotWaiting, message)
    }

    /// Creates the error of arguments that are not a JSON object, have a duplicate key, or are too
    /// large. `detail` is the problem, and a valid value where one can be named.
    pub fn bad_arguments(name: &str, detail: impl fmt::Display) -> Self {
        let message = ("the arguments of tool '", format!("' cannot be used: {detail}"));
        Self::about(ToolName::alias(name), ErrorKind::InvalidInput, HostCode::BadArguments, message)
    }

    /// Creates the error of arguments that do not fit the tool's input schema. The tool has not run.
    pub fn invalid_arguments(tool: ToolName, violations: &Violations) -> Self {
        // One violation is on the same line, several are on lines of their own.
        let text = violations.to_string();
        let space = if text.starts_with('\n') { "" } else { " " };
        let message =
            ("the arguments of tool '", format!("' do not fit its input schema:{space}{text}"));
        Self::about(tool, ErrorKind::InvalidInput, HostCode::BadArguments, message)
    }

    /// Creates the error of a call that would exceed a budget, named in the plural.
    pub fn budget(what: &'static str, most: u64) -> Self {
        let message = format!("the call reached its limit of {most} {what}");
        Self::new(ErrorKind::LimitReached, HostCode::Budget, message)
            .with_limit(ReachedLimit::Budget { what, most })
    }

    /// Creates the error of a call that ran past its deadline.
    pub fn deadline(tool: ToolName, limit: Duration) -> Self {
        let message = ("tool ", format!(" ran past its {limit:?} deadline"));
        Self::about(tool, ErrorKind::Timeout, HostCode::Deadline, message)
            .with_limit(ReachedLimit::Time(limit))
    }

    /// Creates the error of a result over the limit.
    pub fn result_too_large(tool: ToolName, limit_bytes: usize) -> Self {
        let message =
            ("the result of tool ", format!(" is larger than {limit_bytes} bytes; ask for less"));
        Self::about(tool, ErrorKind::TooLarge, HostCode::ResultTooLarge, message)
            .with_limit(ReachedLimit::Amount(limit_bytes as u64))
    }

    /// Creates the error of a result that violates the contract.
    pub fn bad_result(tool: ToolName, cause: impl Into<Cause>) -> Self {
        let message = ("tool ", " returned an invalid result");
        Self::about(tool, ErrorKind::Internal, HostCode::BadResult, message).with_cause(cause)
    }

    /// Creates the error of a result that does not fit the tool's own output schema at `place`; empty
    /// for the result as a whole.
    pub fn invalid_result(tool: ToolName, place: &str, cause: impl Into<Cause>) -> Self {
        let at = if place.is_empty() { "" } else { " at " };
        let message =
            ("the result of tool ", format!(" does not fit its output schema{at}{place}"));
        Self::about(tool, ErrorKind::Internal, HostCode::InvalidResult, message).with_cause(cause)
    }

    /// Leaves out the place at which a result does not fit its output schema. It names members of the result, which may
    /// be data, and no guard has looked at it.
    #[must_use]
    pub(crate) fn without_place(mut self) -> Self {
        if self.code() == HostCode::InvalidResult {
            self.0.message.1 = " does not fit its output schema".into();
        }
        self
    }

    /// Creates the error of a tool whose source does not respond, or is not connected.
    pub fn unavailable(tool: ToolName, cause: impl Into<Cause>) -> Self {
        let message = ("the source of tool ", " is unavailable");
        Self::about(tool, ErrorKind::Unavailable, HostCode::Unavailable, message).with_cause(cause)
    }

    /// Creates the error of a call for which there is no room.
    pub fn busy() -> Self {
        let message = "the gateway is busy; try again in a moment";
        Self::new(ErrorKind::Unavailable, HostCode::Busy, message)
            .with_retry_after(Duration::from_secs(1))
    }

    /// Creates the error of every call while the operator has switched all tools off.
    pub fn tools_disabled() -> Self {
        let message = "all tools of this gateway are switched off by its operator";
        Self::new(ErrorKind::Denied, HostCode::ToolsDisabled, message)
    }

    /// Creates the error of a call that would exceed a limit of the operator, or of a request to a model.
    /// `limit` says whose limit it is and what it counts: for people, without secrets. Without
    /// `retry_after` the limit does not end by itself.
    pub fn limit_reached(limit: &str, retry_after: Option<Duration>) -> Self {
        let message = format!("a limit of this gateway is reached: {limit}");
        let error = Self::new(ErrorKind::Denied, HostCode::LimitReached, message);
        match retry_after {
            Some(retry_after) => error.with_retry_after(retry_after),
            None => error,
        }
    }

    /// Creates the error of a call whose record cannot be written.
    pub fn records_unavailable() -> Self {
        let message = "the gateway cannot write its records, and makes no call without a record";
        Self::new(ErrorKind::Unavailable, HostCode::RecordsUnavailable, message)
            .with_retry_after(Duration::from_secs(1))
            .not_begun()
    }

    /// Creates the error of a call that its caller cancelled.
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, HostCode::Cancelled, "the call was cancelled")
    }
}
