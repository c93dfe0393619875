//! The loop: ask the model, run what it may run, answer.
//!
//! A request is sent to its model with the tools that its caller may see. Calls that the door
//! admits are run, and their results sent back, round after round, until the model has said what it
//! wanted. A call that nobody allowed in advance, or that names a tool of the caller's own, ends
//! the loop and is handed to the caller. Every answer in which tools were called says what was
//! done, in an object named `airlock`.
//!
//! The loop decides nothing: [`Caller`] does. It holds no task of its own, so dropping [`run`]
//! stops every tool.
//!
//! Model and tools are untrusted, so a request is bounded in rounds, in calls of one answer, in
//! bytes that calls and results add to the conversation, and in time: see [`Settings`]. What they
//! add is taken of the request's [`Room`] as well. What a model can act on it is told as the result
//! of a call; anything else ends the request with a [`Failure`] and the account of what was done.

mod allowance;
mod answer;
mod calls;
mod conversation;
mod error;
mod record;
mod round;
mod trace;
mod usage;

use std::{collections::BTreeSet, time::Duration};

use tokio::time::timeout_at;

pub use self::error::{AgentError, Failure};
use self::{
    allowance::Allowance,
    conversation::Conversation,
    round::{Pending, Reason, Sorted},
    trace::Trace,
};
pub(crate) use self::{
    record::{describe, milliseconds},
    round::log_failure,
};
use crate::{
    door::Caller,
    model::{Models, Object, Room},
};

/// The member of an answer that says what was done.
pub(crate) const EXTENSION: &str = "airlock";
/// Calls of one answer that are read at all; more end the request. Those beyond
/// [`Settings::calls_per_answer`] are refused one by one, each with a message to the model.
pub const MAX_CALLS_READ: u32 = 1_024;

/// How the loop behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Rounds of tool calls before the model's last answer is returned as it is.
    pub max_depth: u32,
    /// Tool calls of one round that run at the same time.
    pub parallel_calls: usize,
    /// Tool calls of one answer that are run. The model is told to ask again for the others.
    pub calls_per_answer: usize,
    /// Bytes that tool calls and their results may add to the conversation, all rounds of one
    /// request together. A result that does not fit is left out, and the model told so.
    pub max_tool_bytes: usize,
    /// Wall-clock time of one request: the model and the tools, all rounds together. Then running
    /// tools are cancelled.
    pub timeout: Duration,
    /// Whether tools are offered to the model only where a request names them in an include header.
    pub disable_auto_tool_inject: bool,
}

/// A chat completion as it was asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The body. Members that the loop does not know reach the provider as they are.
    pub body: Object,
    /// Whether the request names tools in an include header.
    pub names_tools: bool,
    /// Memory for what the model and tools add, beside the body. All of it is given back when
    /// [`run`] returns or is dropped.
    pub room: Room,
}

/// Outcome of the loop: the model's last answer, and its calls that were not run.
struct Ending {
    answer: Object,
    pending: Vec<Pending>,
}

/// Answers a chat completion: an OpenAI `chat.completion` object, with an `airlock` member if tools
/// were called. Dropping the future hangs up on the model and cancels every running tool.
pub async fn run(
    models: &Models,
    caller: &Caller,
    request: Request,
    settings: &Settings,
) -> Result<Object, AgentError> {
    let mut trace = Trace::new(caller.ledger());
    match converse(models, caller, request, settings, &mut trace).await {
        Ok(Ending { answer, pending }) => Ok(trace.finish(answer, pending)),
        Err(error) => Err(AgentError { error, airlock: trace.extension(&[]) }),
    }
}

/// Asks the model and runs its calls until there is something to return.
async fn converse(
    models: &Models,
    caller: &Caller,
    mut request: Request,
    settings: &Settings,
    trace: &mut Trace<'_>,
) -> Result<Ending, Failure> {
    let allowance = Allowance::new(settings, &request.room);
    let model = models.route(&mut request.body)?;
    let mut conversation = Conversation::begin(request, caller, settings);
    let mut ids = BTreeSet::new();
    let timeout = |rounds| Failure::Timeout { limit: settings.timeout, rounds };
    loop {
        let asked =
            timeout_at(allowance.deadline, model.complete(conversation.prompt(), &allowance.held))
                .await;
        let mut answer = asked.map_err(|_| timeout(trace.rounds))??;
        trace.usage.add(&answer);
        check_count(calls::count(&answer))?;
        let calls = calls::read(&mut answer, &mut ids);
        let is_last = trace.rounds == settings.max_depth;
        // Before the calls are parsed, and before anything is run that the model could not be told
        // of. An answer that ends the loop anyway adds nothing to the conversation.
        if !is_last && round::any_offered(&calls, conversation.offered()) {
            allowance.take(conversation::message_bytes(&answer))?;
        }
        let Sorted { batch, mut pending } =
            round::sort(calls, conversation.offered(), caller, settings.calls_per_answer);
        if batch.is_empty() {
            return Ok(Ending { answer, pending });
        }
        if is_last {
            trace.depth_limit_reached = true;
            pending.extend(batch.into_calls().map(|call| Pending::new(call, Reason::DepthLimit)));
            return Ok(Ending { answer, pending });
        }
        let results = round::run(batch, caller, settings, &allowance).await;
        pending.extend(trace.note(&results));
        if allowance.is_over() {
            return Err(timeout(trace.rounds));
        }
        if !pending.is_empty() {
            return Ok(Ending { answer, pending });
        }
        conversation.go_on(answer, &results);
    }
}

/// Refuses an answer that no model gives by mistake, before its calls are copied.
fn check_count(found: usize) -> Result<(), Failure> {
    let limit = MAX_CALLS_READ as usize;
    if found > limit { Err(Failure::TooManyCalls { found, limit }) } else { Ok(()) }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
pub(crate) mod tests;
