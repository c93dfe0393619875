//! The agent loop: asks the model, runs the tool calls that policy permits, and responds.
//!
//! A running request is a sequence of [`Event`]s: pieces of the model's replies, calls that start
//! and end, rounds, and one end. Every API is a rendering of this sequence: a plain response is its
//! last event, a stream its pieces.
//!
//! | file | purpose |
//! |---|---|
//! | `event` | the events of a request, and the [`Run`] that yields them |
//! | `conversation` | the request to the model, extended in every round |
//! | `relay` | the stream to the caller: the deltas that it receives, and their order |
//! | `calls` | reads the calls of a response and repairs them |
//! | `names` | the names that a model can call, and the owners of their tools |
//! | `run` | the loop of one request, as a state machine, and its end |
//! | `guarded` | the texts of requests and responses about which guards decide |
//! | `controlled` | one request to the model under the control of limits and records |
//! | `request`, `settings` | a request to the loop, and the settings of the loop |
//! | `round` | one round of calls: those to run, those for the caller |
//! | `allowance` | bounds on all calls of a request: bytes of the conversation, memory and time |
//! | `present` | the result of a call as the message that the model receives |
//! | `results` | marks of untrusted results, and previews of large ones |
//! | `parts` | results with images, for models that read them |
//! | `span` | the span of a request with tools |
//! | `trace` | the record of the work, and the `airlock` object |
//! | `record` | the door's call records as JSON |
//! | `answer` | a response of the model, also with results of some calls and other calls that are pending |
//! | `read_sources` | the sources of untrusted content in the messages of a caller |
//! | `recall` | calls of the gateway's tools that the client does not send back |
//! | `waiting` | calls that wait for a person's decision while their request stays open |
//! | `approvals` | the list of pending approvals, in the database |
//! | `observer` | receives what one request exchanges, its calls and its end |
//! | `tokens` | estimated tokens of definitions, results and scripts |
//! | `usage` | the sum of the usage of all responses |
//! | `error` | errors that end a request, and their form for callers |
//!
//! A request is sent to its model with the tools that its caller may see. Calls that the door
//! admits are run and their results sent back, round after round, until the model calls no more
//! tools. A call that needs approval, or that names a tool of the caller's own, ends the loop and
//! is returned to the caller. A call of an unknown tool is refused with a message to the model. The results of the
//! other calls of the same response are kept for the request in which the caller sends its own results, or are part of
//! the text: see [`ResultsAsText`]. Every response with tool calls describes them in an object named `airlock`.
//!
//! The loop makes no policy decisions: the door does, through [`Caller`](airlock_core::door::Caller). It spawns no tasks and
//! runs only while its [`Run`] is polled, so a slow reader stops the model, and dropping the run
//! stops every tool.
//!
//! Model and tools are untrusted, so a request is bounded in rounds, in calls per response, in
//! bytes that calls and results add to the conversation, and in time: see [`Settings`]. The added
//! bytes are also charged to the request's [`MemoryBudget`](airlock_core::memory::MemoryBudget). An error that a model can act on
//! becomes the result of a call; any other error ends the request with a [`Failure`] and a
//! description of the calls that were made.

mod allowance;
mod answer;
pub mod approvals;
mod calls;
mod controlled;
mod conversation;
mod error;
mod event;
mod guarded;
mod names;
mod observer;
mod parts;
mod present;
mod read_sources;
pub mod recall;
mod record;
mod relay;
mod request;
pub mod results;
mod round;
mod run;
mod settings;
mod span;
mod tokens;
mod trace;
mod usage;
mod waiting;

pub use self::{
    answer::Answer,
    error::{AUTH_REQUIRED, AgentError, Failure},
    event::{CallEnded, CallStarted, Completion, Event, RespondingProvider, Run},
    observer::RequestObserver,
    present::{Presenter, ResultMessage, ResultSource, raw_error},
    record::{describe, milliseconds},
    request::{Request, TokenVisibility},
    results::content_owner,
    run::run,
    settings::{ResultsAsText, Settings},
    trace::{INPUT_REQUIRED, MAX_TEXT_BYTES, RUN, input_required},
    waiting::{ApprovalList, ApprovalVerdict, Approver, declined, denied},
};
pub use airlock_core::model_calls::EXTENSION;

#[cfg(test)]
mod tests;
