//! Why a tool call gave no answer. One enum for every kind of provider, because every caller treats
//! them alike.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::ToolName;
use crate::schema::Violations;

/// A cause that only the operator may read.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a tool call gave no answer. `Display` is safe to show to models and clients: it holds no
/// paths and no host internals, which stay in `source()`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No such tool, or not for this caller: the two look the same on purpose.
    #[error("tool '{name}' is not available or not permitted")]
    NotFound {
        /// The name that was called.
        name: String,
    },
    /// The tool exists and may be called, once someone says so.
    #[error("tool '{name}' needs approval before it may run")]
    NeedsApproval {
        /// The tool.
        name: ToolName,
        /// The arguments it was called with, as JSON text.
        arguments: String,
    },
    /// The arguments are no JSON object, or too large.
    #[error("the arguments of tool '{name}' cannot be used: {detail}")]
    BadArguments {
        /// The name that was called.
        name: String,
        /// What was found and what would be valid.
        detail: String,
    },
    /// The arguments do not fit the tool's input schema. The tool has not run.
    #[error("the arguments of tool '{name}' do not fit its input schema:{}", listed(violations))]
    InvalidArguments {
        /// The tool.
        name: ToolName,
        /// What to change.
        violations: Violations,
    },
    /// The tool itself says that it failed.
    #[error("{}", .0.message)]
    Tool(ToolError),
    /// A call went over what its chain may spend.
    #[error("{what}: the limit is {limit}")]
    Budget {
        /// What ran out.
        what: &'static str,
        /// How much there was.
        limit: u64,
    },
    /// One answer of a model asks for more calls than it may.
    #[error(
        "the answer has {found} tool calls; the limit is {limit}, and this call was not made; ask for it in your next answer"
    )]
    TooManyCalls {
        /// Calls in the answer.
        found: usize,
        /// Calls that one answer may have.
        limit: usize,
    },
    /// The result does not fit into what all results of one request may take.
    #[error("the tool calls of this request and their results would take {found} bytes; the limit is {limit}; {}", made(*was_made))]
    ResultsTooLarge {
        /// Bytes with this result.
        found: usize,
        /// Bytes there may be.
        limit: usize,
        /// Whether the tool ran.
        was_made: bool,
    },
    /// The gateway has no memory left for the result, beside the requests in flight.
    #[error("the gateway has no memory left for the results of this request; {}", made(*was_made))]
    RequestMemory {
        /// Whether the tool ran.
        was_made: bool,
    },
    /// The guest burnt all its fuel.
    #[error("tool {tool} used up its fuel of {limit}")]
    Fuel {
        /// The tool.
        tool: ToolName,
        /// Fuel it had.
        limit: u64,
    },
    /// The guest computed for too long.
    #[error("tool {tool} computed for more than {limit:?}")]
    Cpu {
        /// The tool.
        tool: ToolName,
        /// CPU time it had.
        limit: Duration,
    },
    /// The call took too long, waiting included.
    #[error("tool {tool} ran past its {limit:?} deadline")]
    Deadline {
        /// The tool.
        tool: ToolName,
        /// Wall-clock time it had.
        limit: Duration,
    },
    /// The guest wanted more memory than it may have, and could not go on without.
    #[error("tool {tool} needed more than its {limit_bytes} bytes of memory")]
    Memory {
        /// The tool.
        tool: ToolName,
        /// Memory it had.
        limit_bytes: u64,
    },
    /// The guest recursed too deeply.
    #[error("tool {tool} overflowed its stack")]
    Stack {
        /// The tool.
        tool: ToolName,
    },
    /// The guest broke off.
    #[error("tool {tool} trapped")]
    Trap {
        /// The tool.
        tool: ToolName,
        /// What it did, with a backtrace. For the operator.
        #[source]
        trap: Cause,
    },
    /// The answer is larger than answers may be.
    #[error("the result of tool {tool} is larger than {limit_bytes} bytes; ask for less")]
    ResultTooLarge {
        /// The tool.
        tool: ToolName,
        /// The bound.
        limit_bytes: u64,
    },
    /// The answer breaks the contract.
    #[error("tool {tool} answered with something that is no result")]
    BadResult {
        /// The tool.
        tool: ToolName,
        /// What was wrong. For the operator.
        #[source]
        cause: Cause,
    },
    /// The structured result does not fit the tool's own output schema.
    #[error("the answer of tool {tool} does not fit its output schema{}", at(place))]
    InvalidResult {
        /// The tool.
        tool: ToolName,
        /// Where in it, if not as a whole.
        place: String,
        /// What was wrong. For the operator.
        #[source]
        cause: Cause,
    },
    /// No room: the pool is full and so is its queue.
    #[error("the gateway is busy; try again in a moment")]
    Busy,
    /// The plugin failed repeatedly. Its calls fail fast until the cool-down ends.
    #[error("tool {tool} failed repeatedly; its calls fail until the cool-down ends, in {} s", retry_after.as_millis().div_ceil(1_000))]
    CircuitOpen {
        /// The tool.
        tool: ToolName,
        /// When the plugin is tried again.
        retry_after: Duration,
    },
    /// The caller went away.
    #[error("the call was cancelled")]
    Cancelled,
    /// The tool's source does not answer, or is not connected.
    #[error("the source of tool {tool} is unavailable")]
    Unavailable {
        /// The tool.
        tool: ToolName,
        /// Why. For the operator.
        #[source]
        cause: Cause,
    },
}

/// A tool's own account of its failure, the `tool-error` of the plugin contract.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolError {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// Short stable identifier chosen by the tool.
    pub code: Option<String>,
    /// Text for the model.
    pub message: String,
    /// When trying again makes sense.
    pub retry_after_ms: Option<u64>,
    /// More, as data.
    pub details: Option<Value>,
}

impl ToolError {
    /// A failure of one kind with a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, code: None, message: message.into(), retry_after_ms: None, details: None }
    }
}

/// The closed set of failure kinds, `error-kind` of the plugin contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The arguments cannot be used.
    InvalidInput,
    /// What the arguments name does not exist.
    NotFound,
    /// Not granted.
    Denied,
    /// Someone has to sign in first.
    AuthRequired,
    /// Too many requests.
    RateLimited,
    /// Something needed does not answer.
    Unavailable,
    /// The time was up.
    Timeout,
    /// The caller went away.
    Cancelled,
    /// Over a bound.
    TooLarge,
    /// The tool is at fault.
    Internal,
}

impl CallError {
    /// A short stable identifier of the variant, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "not_found",
            Self::NeedsApproval { .. } => "needs_approval",
            // Whether they are no object or break the schema: the caller has to change them.
            Self::BadArguments { .. } | Self::InvalidArguments { .. } => "bad_arguments",
            Self::Tool(_) => "tool_error",
            Self::Budget { .. } => "budget",
            Self::TooManyCalls { .. } => "too_many_calls",
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

    /// Whether a bound of the sandbox ended the call.
    pub fn is_limit(&self) -> bool {
        matches!(
            self,
            Self::Budget { .. }
                | Self::TooManyCalls { .. }
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

    /// The kind that a guest is told.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::NeedsApproval { .. } => ErrorKind::Denied,
            Self::BadArguments { .. } | Self::InvalidArguments { .. } => ErrorKind::InvalidInput,
            Self::Tool(error) => error.kind,
            Self::Cpu { .. } | Self::Deadline { .. } => ErrorKind::Timeout,
            Self::ResultTooLarge { .. }
            | Self::ResultsTooLarge { .. }
            | Self::RequestMemory { .. } => ErrorKind::TooLarge,
            Self::Budget { .. } | Self::TooManyCalls { .. } | Self::Busy => ErrorKind::RateLimited,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Unavailable { .. } | Self::CircuitOpen { .. } => ErrorKind::Unavailable,
            Self::Fuel { .. }
            | Self::Memory { .. }
            | Self::Stack { .. }
            | Self::Trap { .. }
            | Self::BadResult { .. }
            | Self::InvalidResult { .. } => ErrorKind::Internal,
        }
    }

    /// When trying again makes sense, if that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::CircuitOpen { retry_after, .. } => Some(*retry_after),
            Self::Busy => Some(Duration::from_secs(1)),
            Self::Tool(error) => error.retry_after_ms.map(Duration::from_millis),
            _ => None,
        }
    }
}

/// One behind the colon, several on lines of their own.
fn listed(violations: &Violations) -> String {
    let text = violations.to_string();
    if text.starts_with('\n') { text } else { format!(" {text}") }
}

fn made(was_made: bool) -> &'static str {
    if was_made {
        "the call was made, but its result is left out; ask for less"
    } else {
        "this call was not made; answer with what you have"
    }
}

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" at {place}") }
}
