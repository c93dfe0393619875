//! Errors of tool calls. All kinds of providers share one enum, because every caller treats their
//! errors alike.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Content, InputRequired, Members, Suspension, ToolName,
    output::{content_size, extra_size},
};
use airlock_json::{self as json, schema::Violations};

/// A cause that only the operator may read.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Error of a tool call. `Display` is safe to show to models and clients: it holds no paths and no
/// host internals, which stay in `source()`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The tool does not exist or is hidden from the caller. Both return the same error on purpose.
    #[error("tool '{name}' is not available or not permitted")]
    NotFound {
        /// The name that was called.
        name: String,
    },
    /// A plugin calls one of its slots, to which the operator has bound no tool.
    #[error("the operator has bound no tool to the slot '{slot}'")]
    UnboundSlot {
        /// The slot.
        slot: String,
    },
    /// A tool does what its plugin's manifest does not declare.
    #[error("the tool does not declare the effect {effect:?} in plugin.toml")]
    UndeclaredEffect {
        /// The running tool.
        tool: ToolName,
        /// The effect, as it is written in `plugin.toml`.
        effect: String,
    },
    /// The tool exists, but the call needs an approval.
    #[error("tool '{name}' needs approval before it may run")]
    NeedsApproval {
        /// The tool.
        name: ToolName,
        /// The arguments it was called with, as JSON text.
        arguments: String,
    },
    /// A script has stopped at calls that a person must decide about.
    #[error("the script has stopped: its run {} {}", .0.run, .0.described())]
    Suspended(Box<Suspension>),
    /// A limit has ended a script. `Display` is the report of what the script had done until then.
    #[error("{report}")]
    ScriptLimit {
        /// The limit.
        limit: Box<CallError>,
        /// Name of the limit, and the remedy.
        reason: String,
        /// The reason, the calls that were made and the printed text, for the model.
        report: String,
    },
    /// The tool asks its caller, and goes on with the answers.
    #[error("tool '{name}' waits for its caller to answer {}", questions(asked))]
    InputRequired {
        /// The tool.
        name: ToolName,
        /// The questions.
        asked: Box<InputRequired>,
    },
    /// No call waits for the answers.
    #[error(
        "no call of tool '{tool}' with these arguments waits for these answers: they came too late, were given before, or belong to another call"
    )]
    NotWaiting {
        /// The tool.
        tool: ToolName,
    },
    /// The arguments are not a JSON object, have a duplicate key, or are too large.
    #[error("the arguments of tool '{name}' cannot be used: {detail}")]
    BadArguments {
        /// The name that was called.
        name: String,
        /// The problem, and a valid value where one can be named.
        detail: String,
    },
    /// The arguments do not fit the tool's input schema. The tool has not run.
    #[error("the arguments of tool '{name}' do not fit its input schema:{}", listed(violations))]
    InvalidArguments {
        /// The tool.
        name: ToolName,
        /// The violations of the schema.
        violations: Violations,
    },
    /// The tool itself returned an error.
    #[error("{}", .0.message)]
    Tool(ToolError),
    /// The call would exceed the budget of its chain.
    #[error("the call reached its limit of {limit} {what}")]
    Budget {
        /// Name of the limit that was reached.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// One response of a model has more calls than the limit.
    #[error(
        "your answer has {found} tool calls, more than the limit of {limit}; this call was not made: ask for it in your next answer"
    )]
    TooManyCalls {
        /// Calls in the response.
        found: usize,
        /// Maximum number of calls of one response that are run.
        limit: usize,
    },
    /// The request bounds its calls in all rounds together, and so many were made.
    #[error(
        "this request may make {limit} tool calls in all, and they were made; this call was not made: answer without it"
    )]
    CallsSpent {
        /// Maximum number of calls of the request.
        limit: usize,
    },
    /// The calls of one request and their results are larger than the limit on them together.
    #[error("the tool calls of this request and their results would take {found} bytes; the limit is {limit}; {}", made(*was_made))]
    ResultsTooLarge {
        /// Size with this result, in bytes.
        found: usize,
        /// The limit, in bytes.
        limit: usize,
        /// True if the tool ran.
        was_made: bool,
    },
    /// The requests in flight leave no memory for the result.
    #[error("the gateway has no memory left for the results of this request; {}", made(*was_made))]
    RequestMemory {
        /// True if the tool ran.
        was_made: bool,
    },
    /// The guest burnt all its fuel.
    #[error("{}", ended(tool, format_args!("used up its fuel of {limit}"), LESS_WORK))]
    Fuel {
        /// The tool.
        tool: ToolName,
        /// The limit, in units of fuel.
        limit: u64,
    },
    /// The guest used more CPU time than its limit.
    #[error("{}", ended(tool, format_args!("used more than {limit:?} of CPU time"), LESS_WORK))]
    Cpu {
        /// The tool.
        tool: ToolName,
        /// The limit on CPU time.
        limit: Duration,
    },
    /// The call ran past its deadline. Waiting counts.
    #[error("{}", ended(tool, format_args!("ran past its {limit:?} deadline"), FEWER_CALLS))]
    Deadline {
        /// The tool.
        tool: ToolName,
        /// The limit on wall-clock time.
        limit: Duration,
    },
    /// The guest failed because it needed more memory than its limit.
    #[error("{}", ended(tool, format_args!("needed more than its {limit_bytes} bytes of memory"), LESS_DATA))]
    Memory {
        /// The tool.
        tool: ToolName,
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// The guest overflowed its stack.
    #[error("{}", ended(tool, format_args!("overflowed its stack"), LESS_DEPTH))]
    Stack {
        /// The tool.
        tool: ToolName,
    },
    /// The guest trapped.
    #[error("tool {tool} trapped")]
    Trap {
        /// The tool.
        tool: ToolName,
        /// The trap, with a backtrace. For the operator.
        #[source]
        trap: Cause,
    },
    /// The result is larger than the limit.
    #[error("the result of tool {tool} is larger than {limit_bytes} bytes; ask for less")]
    ResultTooLarge {
        /// The tool.
        tool: ToolName,
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// The result violates the contract.
    #[error("tool {tool} returned an invalid result")]
    BadResult {
        /// The tool.
        tool: ToolName,
        /// The violation. For the operator.
        #[source]
        cause: Cause,
    },
    /// The structured result does not fit the tool's own output schema.
    #[error("the result of tool {tool} does not fit its output schema{}", at(place))]
    InvalidResult {
        /// The tool.
        tool: ToolName,
        /// Path to the value that does not fit; empty for the result as a whole.
        place: String,
        /// The violation. For the operator.
        #[source]
        cause: Cause,
    },
    /// The pool is full, and so is its queue.
    #[error("the gateway is busy; try again in a moment")]
    Busy,
    /// The plugin failed repeatedly. Its calls fail fast until the cool-down ends.
    #[error("tool {tool} failed repeatedly; its calls fail until the cool-down ends, in {} s", retry_after.as_millis().div_ceil(1_000))]
    CircuitOpen {
        /// The tool.
        tool: ToolName,
        /// Time left until the cool-down ends.
        retry_after: Duration,
    },
    /// The caller disconnected or cancelled the call.
    #[error("the call was cancelled")]
    Cancelled,
    /// The tool's source does not respond, or is not connected.
    #[error("the source of tool {tool} is unavailable")]
    Unavailable {
        /// The tool.
        tool: ToolName,
        /// The cause. For the operator.
        #[source]
        cause: Cause,
    },
}

/// Prefix of the codes of the gateway's own errors, where plugins see them.
pub const HOST_CODE: &str = "airlock.";

/// Failure of a call for programs. It has this form on every face of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFailure {
    /// The tool's own code, or one of the gateway with [`HOST_CODE`] before it. No tool's own code
    /// begins with that.
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
        let code = match error {
            CallError::Tool(tool) => tool.code.clone(),
            _ => None,
        };
        let retry_after = error.retry_after();
        Self {
            code: code.unwrap_or_else(|| format!("{HOST_CODE}{}", error.code())),
            kind: error.kind(),
            retry_after_ms: retry_after
                .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// Returns the code of a tool's own error, without the prefix of the gateway's; `None` if nothing is
/// left. A plugin that returns the error of a tool that it called has the prefix there.
pub fn own_code(code: String) -> Option<String> {
    let mut own = code.as_str();
    while let Some(rest) = own.strip_prefix(HOST_CODE) {
        own = rest;
    }
    let own = if own.len() == code.len() { code } else { own.to_owned() };
    (!own.is_empty()).then_some(own)
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
    /// Returns the error as a caller reads it that knows the called tool as `called`. The tool's own
    /// error is unchanged.
    #[must_use]
    pub fn as_called(mut self, called: &str) -> Self {
        match &mut self {
            Self::NotFound { name } | Self::BadArguments { name, .. } => called.clone_into(name),
            Self::NeedsApproval { name: tool, .. }
            | Self::InputRequired { name: tool, .. }
            | Self::NotWaiting { tool }
            | Self::InvalidArguments { name: tool, .. }
            | Self::Fuel { tool, .. }
            | Self::Cpu { tool, .. }
            | Self::Deadline { tool, .. }
            | Self::Memory { tool, .. }
            | Self::Stack { tool }
            | Self::Trap { tool, .. }
            | Self::ResultTooLarge { tool, .. }
            | Self::BadResult { tool, .. }
            | Self::InvalidResult { tool, .. }
            | Self::CircuitOpen { tool, .. }
            | Self::Unavailable { tool, .. } => *tool = ToolName::alias(called),
            Self::UnboundSlot { .. }
            | Self::UndeclaredEffect { .. }
            | Self::Tool(_)
            | Self::Suspended(_)
            | Self::ScriptLimit { .. }
            | Self::Budget { .. }
            | Self::TooManyCalls { .. }
            | Self::CallsSpent { .. }
            | Self::ResultsTooLarge { .. }
            | Self::RequestMemory { .. }
            | Self::Busy
            | Self::Cancelled => {}
        }
        self
    }

    /// Returns a short stable identifier of the variant, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::UnboundSlot { .. } => "unbound_slot",
            Self::UndeclaredEffect { .. } => "undeclared_effect",
            Self::Suspended(suspension) if suspension.pending.is_empty() => "in_doubt",
            Self::ScriptLimit { limit, .. } => limit.code(),
            Self::NeedsApproval { .. } | Self::Suspended(_) => "needs_approval",
            Self::InputRequired { .. } => "input_required",
            Self::NotWaiting { .. } => "not_waiting",
            // One code for both, because in both cases the caller has to change the arguments.
            Self::BadArguments { .. } | Self::InvalidArguments { .. } => "bad_arguments",
            Self::Tool(_) => "tool_error",
            Self::Budget { .. } => "budget",
            Self::TooManyCalls { .. } => "too_many_calls",
            Self::CallsSpent { .. } => "max_tool_calls",
            Self::ResultsTooLarge { .. } => "results_too_large",
            Self::RequestMemory { .. } => "request_memory",
            Self::Fuel { .. } => "out_of_fuel",
            Self::Cpu { .. } => "cpu_time",
            Self::Deadline { .. } => "deadline",
            Self::Memory { .. } => "memory",
            Self::Stack { .. } => "stack_overflow",
            Self::Trap { .. } => "trap",
            Self::ResultTooLarge { .. } => "result_too_large",
            Self::BadResult { .. } => "bad_result",
            Self::InvalidResult { .. } => "invalid_result",
            Self::Busy => "busy",
            Self::CircuitOpen { .. } => "circuit_open",
            Self::Cancelled => "cancelled",
            Self::Unavailable { .. } => "unavailable",
        }
    }

    /// Returns whether a limit on resources ended the call.
    pub fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::ScriptLimit { .. }
                | Self::Budget { .. }
                | Self::TooManyCalls { .. }
                | Self::CallsSpent { .. }
                | Self::ResultsTooLarge { .. }
                | Self::RequestMemory { .. }
                | Self::Fuel { .. }
                | Self::Cpu { .. }
                | Self::Deadline { .. }
                | Self::Memory { .. }
                | Self::Stack { .. }
                | Self::ResultTooLarge { .. }
        )
    }

    /// Returns the error kind for a guest.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } | Self::UnboundSlot { .. } => ErrorKind::NotFound,
            Self::NeedsApproval { .. } | Self::Suspended(_) | Self::UndeclaredEffect { .. } => {
                ErrorKind::Denied
            }
            Self::BadArguments { .. } | Self::InvalidArguments { .. } | Self::NotWaiting { .. } => {
                ErrorKind::InvalidInput
            }
            Self::InputRequired { .. } => ErrorKind::Unsupported,
            Self::Tool(error) => error.kind,
            Self::ScriptLimit { limit, .. } => limit.kind(),
            Self::Deadline { .. } => ErrorKind::Timeout,
            Self::ResultTooLarge { .. } | Self::ResultsTooLarge { .. } => ErrorKind::TooLarge,
            Self::Budget { .. }
            | Self::TooManyCalls { .. }
            | Self::CallsSpent { .. }
            | Self::Fuel { .. }
            | Self::Cpu { .. }
            | Self::Memory { .. } => ErrorKind::LimitReached,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Unavailable { .. }
            | Self::CircuitOpen { .. }
            | Self::Busy
            | Self::RequestMemory { .. } => ErrorKind::Unavailable,
            Self::Stack { .. }
            | Self::Trap { .. }
            | Self::BadResult { .. }
            | Self::InvalidResult { .. } => ErrorKind::Internal,
        }
    }

    /// Renders the error for a reader: its message, and the content of a tool's own error after it.
    /// The text is never blank.
    pub fn to_text(&self) -> String {
        let mut text = self.message();
        if let Self::Tool(error) = self {
            for part in &error.content {
                text.push('\n');
                part.render(&mut text);
            }
        }
        text
    }

    /// Returns the message for a reader. It is never blank.
    pub fn message(&self) -> String {
        let message = self.to_string();
        let is_blank = message.trim().is_empty();
        if is_blank { "the tool failed and gave no reason".to_owned() } else { message }
    }

    /// Returns the message of a limit that has ended a script: the limit and the remedy.
    pub fn of_script(&self) -> String {
        match self {
            Self::Budget { what: NESTED_CALLS, limit } => format!(
                "the script reached its limit of {limit} tool calls; make fewer calls, or split the script (operator: max_nested_calls)"
            ),
            Self::Budget { what, limit } => {
                format!("the script reached its limit of {limit} {what}")
            }
            Self::ResultTooLarge { limit_bytes, .. } => format!(
                "the result of the script is larger than {limit_bytes} bytes; return less: a part, a sum, or only the keys that you need"
            ),
            limit => limit.message(),
        }
    }

    /// Returns the time to wait before a retry; `None` if it is not known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::CircuitOpen { retry_after, .. } => Some(*retry_after),
            Self::Busy => Some(Duration::from_secs(1)),
            Self::Tool(error) => error.retry_after_ms.map(Duration::from_millis),
            _ => None,
        }
    }
}

/// Renders violations after a colon: one violation on the same line, several on lines of their own.
fn listed(violations: &Violations) -> String {
    let text = violations.to_string();
    if text.starts_with('\n') { text } else { format!(" {text}") }
}

/// Name of the limit on the nested calls of a chain.
pub(crate) const NESTED_CALLS: &str = "nested tool calls";
/// Name of the tool that runs scripts. A model can do more about a limit of its own script than about
/// that of a tool.
const SCRIPT: &str = "executeToolCode";
const LESS_WORK: &str =
    "compute less: use fewer iterations, let a tool do the work, or split the script";
const FEWER_CALLS: &str = "make fewer calls, make them at the same time, or split the script";
const LESS_DATA: &str = "keep less: take what you need of each result, or split the script";
const LESS_DEPTH: &str = "use a loop in place of recursion, and values that nest less";

/// Describes a limit that ended a call, with the `remedy` if it is the call of a script. The sandbox
/// is gone then, and with it the line where the script was.
fn ended(tool: &ToolName, what: fmt::Arguments<'_>, remedy: &str) -> String {
    if tool.as_str() == SCRIPT {
        format!("the script {what}; the line where it stopped is not known; {remedy}")
    } else {
        format!("tool {tool} {what}")
    }
}

fn made(was_made: bool) -> &'static str {
    if was_made {
        "the call was made, but its result is left out; ask for less"
    } else {
        "this call was not made; answer with what you have"
    }
}

fn questions(asked: &InputRequired) -> String {
    match asked.questions.len() {
        1 => "a question".to_owned(),
        count => format!("{count} questions"),
    }
}

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" at {place}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_a_script_says_what_to_do_and_that_of_a_tool_does_not() {
        let of_tool = messages("text-count");
        assert_eq!(of_tool[0], "tool text-count used up its fuel of 20");
        for (of_tool, of_script) in of_tool.iter().zip(messages(SCRIPT)) {
            let what = of_tool.strip_prefix("tool text-count ").expect("it names the tool");
            let expected = format!("the script {what}; the line where it stopped is not known; ");
            let remedy = of_script.strip_prefix(&expected).expect("it has a remedy");
            assert!(remedy.len() > 20, "{of_script}");
        }
    }

    fn messages(tool: &str) -> [String; 5] {
        let tool = ToolName::alias(tool);
        let limit = Duration::from_secs(30);
        [
            CallError::Fuel { tool: tool.clone(), limit: 20 },
            CallError::Cpu { tool: tool.clone(), limit },
            CallError::Deadline { tool: tool.clone(), limit },
            CallError::Memory { tool: tool.clone(), limit_bytes: 64 },
            CallError::Stack { tool },
        ]
        .map(|error| error.to_string())
    }
    #[test]
    fn each_limit_of_a_script_has_a_remedy() {
        let calls = CallError::Budget { what: NESTED_CALLS, limit: 64 };
        assert_eq!(calls.to_string(), "the call reached its limit of 64 nested tool calls");
        assert_eq!(
            calls.of_script(),
            "the script reached its limit of 64 tool calls; make fewer calls, or split the script (operator: max_nested_calls)"
        );
        let result = CallError::ResultTooLarge { tool: ToolName::alias(SCRIPT), limit_bytes: 7 };
        assert!(result.of_script().contains("larger than 7 bytes; return less"));
        let handles = CallError::Budget { what: "handles at a time", limit: 3 };
        assert_eq!(handles.of_script(), "the script reached its limit of 3 handles at a time");
    }

    #[test]
    fn a_tools_own_code_never_looks_like_one_of_the_gateway() {
        let limit = Duration::from_secs(1);
        let deadline = CallError::Deadline { tool: ToolName::alias("a"), limit };
        assert_eq!(code_of(&deadline), "airlock.deadline");
        assert_eq!(code_of(&own(Some("deadline"))), "deadline");
        assert_eq!(code_of(&own(Some("airlock.deadline"))), "deadline");
        for none in [None, Some(""), Some("airlock.")] {
            assert_eq!(code_of(&own(none)), "airlock.tool_error");
        }
        let busy = CallFailure::from(&CallError::Busy);
        assert_eq!((busy.kind, busy.retry_after_ms), (ErrorKind::Unavailable, Some(1_000)));
    }

    fn code_of(error: &CallError) -> String {
        CallFailure::from(error).code
    }

    fn own(code: Option<&str>) -> CallError {
        let error = ToolError::new(ErrorKind::Timeout, "too late");
        // As every source does.
        let code = code.map(str::to_owned).and_then(own_code);
        CallError::Tool(ToolError { code, ..error })
    }

    #[test]
    fn a_limit_with_a_report_is_the_limit_for_programs() {
        let limit = Box::new(CallError::Fuel { tool: ToolName::alias(SCRIPT), limit: 20 });
        let reason = limit.of_script();
        let report = "all".to_owned();
        let error = CallError::ScriptLimit { limit, reason, report };
        assert_eq!((error.code(), error.kind()), ("out_of_fuel", ErrorKind::LimitReached));
        assert!(error.is_limit() && error.to_text() == "all");
    }
}
