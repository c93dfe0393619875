//! The agent loop: asks the model, runs the tool calls that policy permits, and responds.
//!
//! A running request is a sequence of [`Event`]s: chunks of the model's responses, calls that start
//! and end, rounds, and one end. Every API is a rendering of this sequence: a plain response is its
//! last event, a stream its chunks.
//!
//! | file | purpose |
//! |---|---|
//! | `event` | the events of a request, and the [`Run`] that yields them |
//! | `dialog` | the exchange with the model: a response, whole or streamed, and the next round |
//! | `conversation` | the request to the model, extended in every round |
//! | `relay` | the stream to the caller: the chunks that it receives, and their order |
//! | `calls` | reads the calls of a response and repairs them |
//! | `round` | one round of calls: those to run, those for the caller |
//! | `allowance` | bounds on all calls of a request: bytes of the conversation, memory and time |
//! | `present` | the result of a call as the message that the model receives |
//! | `parts` | results with images, for models that read them |
//! | `trace` | the record of the work, and the `airlock` object |
//! | `record` | the door's call records as JSON |
//! | `answer` | the response with results of some calls and other calls that are pending |
//! | `waiting` | calls that wait for a person's decision |
//! | `usage` | the sum of the usage of all responses |
//! | `error` | errors that end a request, and their form for callers |
//!
//! A request is sent to its model with the tools that its caller may see. Calls that the door
//! admits are run and their results sent back, round after round, until the model calls no more
//! tools. A call that needs approval, or that names a tool of the caller's own, ends the loop and
//! is handed to the caller. The results of other calls of the same answer are kept for the request
//! in which the caller answers, or are part of the text: see [`ResultsAsText`]. Every response with
//! tool calls describes them in an object named `airlock`.
//!
//! The loop makes no policy decisions: the door does, through [`Caller`]. It spawns no tasks and
//! runs only while its [`Run`] is polled, so a slow reader stops the model, and dropping the run
//! stops every tool.
//!
//! Model and tools are untrusted, so a request is bounded in rounds, in calls per response, in
//! bytes that calls and results add to the conversation, and in time: see [`Settings`]. The added
//! bytes are also charged to the request's [`MemoryBudget`]. An error that a model can act on
//! becomes the result of a call; any other error ends the request with a [`Failure`] and a
//! description of the calls that were made.

mod allowance;
mod answer;
pub mod approvals;
mod calls;
mod conversation;
mod dialog;
mod error;
mod event;
mod parts;
mod present;
pub mod recall;
mod record;
mod relay;
pub mod results;
mod round;
mod trace;
mod usage;
mod waiting;

use std::{sync::Arc, time::Duration};

use self::{
    allowance::Allowance,
    dialog::{Dialog, Ending},
    event::Reports,
    round::{Conditions, Listener, Pending, Quota, Reason, Sorted},
    trace::Trace,
};
pub use self::{
    error::{AgentError, Failure},
    event::{Answering, Completion, Ended, Event, Run, Started},
    waiting::{ApprovalList, ApprovalVerdict, Approver},
};
pub use self::{
    present::{Message, Presenter, ResultSource, raw_error},
    record::{describe, milliseconds},
    trace::{INPUT_REQUIRED, RUN, input_required},
};
use crate::{recall::Keeper, results::Results};
use airlock_core::door::{ApprovalChoice, Caller, Events};
use airlock_json::RawObject;
use airlock_model::{MemoryBudget, Models, Native, Object, document::OWN_MEMBER};

/// Member of a response that describes its tool calls.
pub const EXTENSION: &str = OWN_MEMBER;
/// Maximum number of calls that are read from one response; a response with more ends the request.
/// Of the calls that are read, those beyond [`Settings::calls_per_answer`] are refused one by one,
/// each with a message to the model.
pub const MAX_CALLS_READ: u32 = 1_024;

/// Settings of the agent loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Maximum number of rounds of tool calls. The calls of the response after the last round are
    /// pending.
    pub max_depth: u32,
    /// Maximum number of tool calls of one round that run at the same time. 0 counts as 1.
    pub parallel_calls: usize,
    /// Maximum number of tool calls of one response that are run. The others are
    /// refused, and the model is told to ask for them again.
    pub calls_per_answer: usize,
    /// Bytes that tool calls and their results may add to the conversation, in all rounds of one
    /// request together. A result that does not fit is left out, and the model is told so.
    pub max_tool_bytes: usize,
    /// Wall-clock time of one request: model and tools, all rounds together. At the deadline
    /// running tools are cancelled.
    pub timeout: Duration,
    /// True if tools are offered to the model only if the request names them in an include header.
    pub disable_auto_tool_inject: bool,
    /// Whether a chat completion has results as text if other calls are pending.
    pub results_as_text: ResultsAsText,
    /// Treatment of calls that need an approval, if neither the request nor its key sets one.
    pub approval: ApprovalChoice,
    /// Longest time that one call waits for an approval.
    pub approval_wait: Duration,
}

/// Whether the text of a chat completion has the results of calls that ran, if other calls of the
/// same answer are for the caller. Results that are not in the text are kept, and put back into the
/// request in which the caller answers its calls, if the identifier of one of these is unique.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResultsAsText {
    /// Only if all pending calls are of the gateway's tools, and the caller did not ask for JSON, or
    /// if nothing can be kept.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never, even if nothing can be kept.
    Never,
}

/// A chat completion request.
#[derive(Debug)]
pub struct Request {
    /// Request body. Members that the loop does not use reach the provider unchanged.
    pub body: RawObject,
    /// The request as it came, if it came in the Responses API and its provider has that API.
    pub native: Option<Native>,
    /// True if the response is streamed: its chunks are events.
    pub is_streamed: bool,
    /// True if the events have chunks even if the model does not stream, and each round is on its
    /// own: no text separates the rounds, and results of calls are not repeated as text. For an
    /// API whose responses are lists of items, in which calls are items of their own.
    pub shows_rounds: bool,
    /// True if the request names tools in an include header.
    pub names_tools: bool,
    /// Maximum number of calls of the gateway's tools, in all rounds together. Calls beyond it are
    /// refused with a message to the model. `None` if only [`Settings`] bounds them.
    pub max_tool_calls: Option<usize>,
    /// Events of the caller's calls, from [`Caller::with_events`]; `None` if their progress is not
    /// wanted.
    pub reports: Option<Events>,
    /// Keeps large results of MCP servers, of which the model receives a preview; `None` if it
    /// receives them whole.
    pub results: Option<Results>,
    /// Keeps calls that the caller does not see; `None` if nothing is kept.
    pub keeper: Option<Keeper>,
    /// Waits for approvals; `None` if calls that need one are handed to the caller.
    pub approver: Option<Approver>,
    /// Members of the `airlock` object that do not depend on the calls, such as servers that are
    /// unavailable. A few, because they are not charged.
    pub notes: Object,
    /// Budget to which the bytes are charged that the model and tools add to the body. They are
    /// released when the [`Run`] is dropped.
    pub budget: MemoryBudget,
}

/// Runs a chat completion. Nothing happens until the returned [`Run`] is polled. Its last event is
/// [`Event::Done`], or [`Event::Failed`] with the reason. Dropping it cancels the request.
pub fn run(models: Arc<Models>, caller: Caller, request: Request, settings: Settings) -> Run {
    Run::new(|emitter| async move {
        let mut request = request;
        let listener = Listener { emitter, reports: Reports::new(request.reports.take()) };
        let mut trace = Trace::new(caller.ledger(), request.notes.clone());
        let ended = converse(&models, &caller, request, &settings, &mut trace, &listener).await;
        let last = match ended {
            Ok(Ending::Whole { answer, pending, is_in_text }) => {
                trace.finish(answer, &pending, is_in_text)
            }
            Ok(Ending::Streamed { relay, answer, pending, is_in_text }) => {
                let emitter = &listener.emitter;
                trace.finish_stream(*relay, &answer, &pending, is_in_text, emitter).await
            }
            Err(error) => {
                let airlock = trace.extension(&[]);
                let failed = Event::Failed(Box::new(AgentError { error, airlock }));
                return listener.emitter.emit(failed).await;
            }
        };
        listener.emitter.emit(Event::Done(Box::new(last))).await;
    })
}

/// Asks the model and runs its calls until the loop ends.
async fn converse(
    models: &Models,
    caller: &Caller,
    mut request: Request,
    settings: &Settings,
    trace: &mut Trace<'_>,
    listener: &Listener,
) -> Result<Ending, Failure> {
    let allowance = Allowance::new(settings, &request.budget);
    let mut route = models.route(&mut request.body)?;
    let mut quota = Quota::new(settings.calls_per_answer, request.max_tool_calls);
    let results = request.results.take();
    let approver = request.approver.take();
    let mut dialog = Dialog::begin(request, caller, settings).await;
    loop {
        let is_last = trace.rounds == settings.max_depth;
        let mut answer =
            dialog.ask(&mut route, &allowance, trace.rounds, is_last, listener).await?;
        trace.usage.add(answer.object());
        check_count(calls::count(answer.object()))?;
        let calls = dialog.calls(&mut answer, is_last);
        let offered = dialog.conversation.offered();
        // Charged before the calls are parsed, and before a tool is run whose result the model
        // could not receive. A response that ends the loop adds nothing to the conversation.
        if !is_last && round::any_offered(&calls, offered) {
            allowance.take(conversation::message_bytes(&answer))?;
        }
        let Sorted { batch, mut pending } =
            round::sort(calls, offered, caller, approver.is_some(), &mut quota).await;
        let style = settings.results_as_text;
        if batch.is_empty() {
            return Ok(dialog.end(answer, pending, &[], style, &allowance).await);
        }
        if is_last {
            trace.depth_limit_reached = true;
            pending.extend(batch.into_calls().map(|call| Pending::new(call, Reason::DepthLimit)));
            return Ok(dialog.end(answer, pending, &[], style, &allowance).await);
        }
        let reads_images = route.reads_images();
        let results = results.as_ref();
        let allowance = &allowance;
        let approver = approver.as_ref();
        let conditions =
            Conditions { caller, settings, allowance, listener, results, reads_images, approver };
        // Boxed: a request without calls of the gateway's tools needs no room for it.
        let ended = Box::pin(round::run(batch, &conditions)).await;
        pending.extend(trace.note(&ended));
        if allowance.is_over() {
            return Err(allowance.timeout(trace.rounds));
        }
        if !pending.is_empty() {
            return Ok(dialog.end(answer, pending, &ended, style, allowance).await);
        }
        dialog.go_on(answer, &ended, trace.rounds, listener).await;
    }
}

/// Fails if a response has more than [`MAX_CALLS_READ`] calls. Checked before the calls are copied.
fn check_count(found: usize) -> Result<(), Failure> {
    let limit = MAX_CALLS_READ as usize;
    if found > limit { Err(Failure::TooManyCalls { found, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
