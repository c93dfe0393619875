//! Errors of tool calls. All kinds of providers share one type, because every caller treats their
//! errors alike.

mod common;

use std::{borrow::Cow, fmt, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Content, GuardAct, HostCode, InputRequired, LoginRequired, Members, SourceSet, Suspension,
    ToolName,
    output::{content_size, extra_size},
};
use airlock_json as json;

/// A cause that only the operator may read.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Error of a tool call. `Display` is safe to show to models and clients: it holds no paths and no
/// host internals, which stay in `source()`.
///
/// Callers ask for its [kind](Self::kind), its [code](Self::code), and the [`Details`] that they need.
/// An error that several crates make has a constructor in `common`, or in `login` if it is about one; any other
/// is made beside the code that fails, by [`CallError::new`] or [`CallError::about`].
#[derive(Debug)]
pub struct CallError(Box<CallErrorParts>);

#[derive(Debug)]
struct CallErrorParts {
    kind: ErrorKind,
    code: HostCode,
    /// The message, around the name of the tool.
    message: (&'static str, Cow<'static, str>),
    tool: Option<ToolName>,
    limit: Option<ReachedLimit>,
    retry_after: Option<Duration>,
    cause: Option<Cause>,
    details: Details,
    has_not_begun: bool,
}

/// Limit that ended a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReachedLimit {
    /// A time.
    Time(Duration),
    /// A number of bytes, units of fuel or calls.
    Amount(u64),
    /// A budget of the call or of its chain.
    Budget {
        /// Name of the budget, in the plural.
        what: &'static str,
        /// The limit.
        most: u64,
    },
    /// A limit that has no number for the caller.
    Unnumbered,
}

/// Data of an error that callers handle apart.
#[derive(Debug)]
pub enum Details {
    /// No data.
    None,
    /// The tool itself returned an error.
    Tool(Box<ToolError>),
    /// The call was not made, because it needs an approval.
    Unapproved {
        /// The arguments it was called with, as JSON text.
        arguments: String,
    },
    /// A script has stopped at calls that a person must decide about.
    Suspended(Box<Suspension>),
    /// The tool asks its caller, and goes on with the answers.
    InputRequired(Box<InputRequired>),
    /// The caller's user has to log in at the server of the tool. Nothing was sent.
    LoginRequired(Box<LoginRequired>),
    /// A guard has denied the call or withheld its outcome, or has failed.
    Guarded(Box<GuardAct>),
    /// The call is refused, because its author has read results of these sources.
    Untrusted(Box<SourceSet>),
    /// A limit has ended a script, and the message reports what it had done until then.
    Report {
        /// Name of the limit, and the remedy.
        reason: String,
    },
}

/// Failure of a call for programs. It has this form on every face of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFailure {
    /// The tool's own code, or a [`HostCode`] with its prefix. No tool's own code begins with that.
    pub code: String,
    /// Kind of failure.
    pub kind: ErrorKind,
    /// Time to wait before a retry, in milliseconds, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl From<&CallError> for CallFailure {
    fn from(error: &CallError) -> Self {
        // Sources pass the codes of their tools through `own_code`, so one with the prefix is an
        // error that the gateway made in the place of a tool's.
        let code = error.tool_code().map(str::to_owned);
        Self {
            code: code.unwrap_or_else(|| error.code().prefixed()),
            kind: error.kind(),
            retry_after_ms: error
                .retry_after()
                .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// Error that a tool itself returns: the `tool-error` of the plugin contract.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolError {
    /// Kind of failure.
    pub kind: ErrorKind,
    /// Short stable identifier, chosen by the tool.
    pub code: Option<String>,
    /// Text for the model.
    pub message: String,
    /// Time to wait before a retry, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Further parts, such as a screenshot. The message is not repeated in them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
    /// Further details, as data.
    pub details: Option<Value>,
    /// Vendor keys.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Map<String, Value>>,
    /// Other members of the MCP result that carries the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra: Members,
}

impl ToolError {
    /// Creates an error of one kind with a message, and no further fields.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: None,
            message: message.into(),
            retry_after_ms: None,
            content: Vec::new(),
            details: None,
            meta: None,
            extra: None,
        }
    }

    /// Sets the code.
    #[must_use]
    pub fn with_code(self, code: &str) -> Self {
        Self { code: Some(code.to_owned()), ..self }
    }

    /// Returns the approximate size of the error in bytes.
    pub fn size(&self) -> usize {
        let details = self.details.as_ref().map_or(0, json::text_len);
        let meta = self.meta.as_ref().map_or(0, json::text_len);
        let code = self.code.as_ref().map_or(0, String::len);
        let extra = extra_size(&self.extra);
        code + self.message.len() + content_size(&self.content) + details + meta + extra
    }
}

/// The closed set of failure kinds, `error-kind` of the plugin contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The arguments cannot be used.
    InvalidInput,
    /// A thing that the arguments name does not exist.
    NotFound,
    /// The present state does not permit the operation.
    Conflict,
    /// The call is not permitted.
    Denied,
    /// A user has to sign in first.
    AuthRequired,
    /// Too many requests in a period.
    RateLimited,
    /// This call has used all that it may use of something.
    LimitReached,
    /// The gateway is too busy, or a service that the tool needs does not respond.
    Unavailable,
    /// The tool or the gateway cannot do this at all.
    Unsupported,
    /// The time limit was reached.
    Timeout,
    /// The caller disconnected or cancelled the call.
    Cancelled,
    /// The data is larger than a limit.
    TooLarge,
    /// The tool has an internal error.
    Internal,
    /// Any other kind; the error's code names it.
    Other,
}

impl CallError {
    /// Creates an error whose message names no tool.
    pub fn new(kind: ErrorKind, code: HostCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(CallErrorParts {
            kind,
            code,
            message: ("", message.into()),
            tool: None,
            limit: None,
            retry_after: None,
            cause: None,
            details: Details::None,
            has_not_begun: false,
        }))
    }

    /// Creates an error whose message names a tool: between its two parts.
    pub fn about(
        tool: ToolName,
        kind: ErrorKind,
        code: HostCode,
        (before, after): (&'static str, impl Into<Cow<'static, str>>),
    ) -> Self {
        let mut error = Self::new(kind, code, after);
        error.0.message.0 = before;
        error.0.tool = Some(tool);
        error
    }

    /// Adds the limit that ended the call.
    #[must_use]
    pub fn with_limit(mut self, limit: ReachedLimit) -> Self {
        self.0.limit = Some(limit);
        self
    }

    /// Adds the time to wait before a retry.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Duration) -> Self {
        self.0.retry_after = Some(retry_after);
        self
    }

    /// Adds the cause, for the operator.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<Cause>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// Marks that the source has certainly not begun the call, so that another one may take it.
    #[must_use]
    pub fn not_begun(mut self) -> Self {
        self.0.has_not_begun = true;
        self
    }

    /// Returns whether the source has certainly not begun the call: it is away, or has no room. False if it
    /// may have.
    pub fn has_not_begun(&self) -> bool {
        self.0.has_not_begun
    }

    pub(super) fn with_details(mut self, details: Details) -> Self {
        self.0.details = details;
        self
    }

    /// Replaces the message by a report on the script that the limit has ended. `reason` names the
    /// limit and the remedy.
    #[must_use]
    pub fn with_report(mut self, reason: String, report: String) -> Self {
        self.0.message = ("", report.into());
        self.0.tool = None;
        self.with_details(Details::Report { reason })
    }

    /// Returns the error as a caller reads it that knows the called tool as `called`. The tool's own
    /// error is unchanged.
    #[must_use]
    pub fn as_called(mut self, called: &str) -> Self {
        if let Some(tool) = &mut self.0.tool {
            *tool = ToolName::alias(called);
        }
        self
    }

    /// Returns the code: for every tool's own error [`HostCode::ToolError`].
    pub fn code(&self) -> HostCode {
        self.0.code
    }

    /// Returns the error kind for a guest.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the tool that the message names.
    pub fn tool(&self) -> Option<&ToolName> {
        self.0.tool.as_ref()
    }

    /// Returns the limit on resources that ended the call.
    pub fn limit(&self) -> Option<ReachedLimit> {
        self.0.limit
    }

    /// Returns the time to wait before a retry; `None` if it is not known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// Returns the data that callers handle apart.
    pub fn details(&self) -> &Details {
        &self.0.details
    }

    /// Returns the tool's own error.
    pub fn tool_error(&self) -> Option<&ToolError> {
        if let Details::Tool(error) = &self.0.details { Some(error) } else { None }
    }

    /// Returns the login that the call needs.
    pub fn needed_login(&self) -> Option<&LoginRequired> {
        if let Details::LoginRequired(login) = &self.0.details { Some(login) } else { None }
    }

    /// Returns the code of the tool's own error.
    pub fn tool_code(&self) -> Option<&str> {
        self.tool_error()?.code.as_deref()
    }

    /// Returns the tool's own error, or this error if it is none.
    pub fn into_tool_error(self) -> Result<ToolError, Self> {
        match self.0.details {
            Details::Tool(error) => Ok(*error),
            details => Err(Self(Box::new(CallErrorParts { details, ..*self.0 }))),
        }
    }

    /// Returns the run of a script that has stopped at calls to decide about.
    pub fn suspension(&self) -> Option<&Suspension> {
        if let Details::Suspended(suspension) = &self.0.details { Some(suspension) } else { None }
    }

    /// Returns what the tool asks its caller.
    pub fn input_required(&self) -> Option<&InputRequired> {
        if let Details::InputRequired(asked) = &self.0.details { Some(asked) } else { None }
    }

    /// Returns whether the call was not made because it needs an approval.
    pub fn is_unapproved(&self) -> bool {
        matches!(self.0.details, Details::Unapproved { .. })
    }

    /// Renders the error for a reader: its message, and the content of a tool's own error after it.
    /// The text is never blank.
    pub fn to_text(&self) -> String {
        let mut text = self.message();
        for part in self.tool_error().into_iter().flat_map(|error| &error.content) {
            text.push('\n');
            part.render(&mut text);
        }
        text
    }

    /// Returns the message for a reader. It is never blank.
    pub fn message(&self) -> String {
        let message = self.to_string();
        let is_blank = message.trim().is_empty();
        if is_blank { "the tool failed and gave no reason".to_owned() } else { message }
    }
}

impl From<ToolError> for CallError {
    fn from(error: ToolError) -> Self {
        let mut call_error = Self::new(error.kind, HostCode::ToolError, "");
        call_error.0.retry_after = error.retry_after_ms.map(Duration::from_millis);
        call_error.with_details(Details::Tool(Box::new(error)))
    }
}

impl From<Suspension> for CallError {
    fn from(suspension: Suspension) -> Self {
        let is_in_doubt = suspension.pending.is_empty();
        let code = if is_in_doubt { HostCode::InDoubt } else { HostCode::NeedsApproval };
        let run = &suspension.run;
        let message = format!("the script has stopped: its run {run} {}", suspension.described());
        Self::new(ErrorKind::Denied, code, message)
            .with_details(Details::Suspended(Box::new(suspension)))
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = self.tool_error() {
            return f.write_str(&error.message);
        }
        let (before, after) = &self.0.message;
        f.write_str(before)?;
        if let Some(tool) = &self.0.tool {
            f.write_str(tool.as_str())?;
        }
        f.write_str(after)
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tools_own_code_never_looks_like_one_of_the_gateway() {
        let deadline = CallError::deadline(ToolName::alias("a"), Duration::from_secs(1));
        assert_eq!(code_of(&deadline), "airlock.deadline");
        assert_eq!(code_of(&own(Some("deadline"))), "deadline");
        assert_eq!(code_of(&own(Some("airlock.deadline"))), "deadline");
        for none in [None, Some(""), Some("airlock.")] {
            assert_eq!(code_of(&own(none)), "airlock.tool_error");
        }
        let busy = CallFailure::from(&CallError::busy());
        assert_eq!((busy.kind, busy.retry_after_ms), (ErrorKind::Unavailable, Some(1_000)));
    }

    fn code_of(error: &CallError) -> String {
        CallFailure::from(error).code
    }

    fn own(code: Option<&str>) -> CallError {
        let error = ToolError::new(ErrorKind::Timeout, "too late");
        // As every source does.
        let code = code.map(str::to_owned).and_then(crate::tool::own_code);
        ToolError { code, ..error }.into()
    }

    #[test]
    fn a_limit_with_a_report_is_the_limit_for_programs() {
        let limit = CallError::result_too_large(ToolName::alias("a"), 20);
        let error = limit.with_report("less".to_owned(), "all".to_owned()).as_called("b");
        assert_eq!((error.code(), error.kind()), (HostCode::ResultTooLarge, ErrorKind::TooLarge));
        assert_eq!(
            (error.limit(), error.to_text()),
            (Some(ReachedLimit::Amount(20)), "all".to_owned())
        );
    }
}
