//! The loop: ask the model, run what it may run, answer.
//!
//! A request is sent to its model with the tools that its caller may see. Calls that the door admits are run, and their
//! results sent back, round after round, until the model has said what it wanted. A call that nobody allowed in advance, or
//! that names a tool of the caller's own, ends the loop and is handed to the caller. Every answer in which tools were called
//! says what was done, in an object named `airlock`.
//!
//! The loop decides nothing: [`Caller`] does. It holds no task of its own, so dropping [`run`] stops every tool.

mod answer;
mod calls;
mod conversation;
mod round;
mod trace;
mod usage;

use std::collections::BTreeSet;

use self::{
    conversation::Conversation,
    round::{Pending, Reason, Sorted},
    trace::Trace,
};
pub(crate) use self::{
    round::log_failure,
    trace::{describe, milliseconds},
};
use crate::{
    door::Caller,
    model::{ModelError, Models, Object},
};

/// The member of an answer that says what was done.
pub(crate) const EXTENSION: &str = "airlock";

/// How the loop behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Rounds of tool calls before the model's last answer is returned as it is.
    pub max_depth: u32,
    /// Tool calls of one round that run at the same time.
    pub parallel_calls: usize,
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
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("the model gave no answer")]
pub struct AgentError {
    /// What the model's provider did.
    #[source]
    pub error: ModelError,
    /// What was called before that, if anything was: the `airlock` object of an answer.
    pub airlock: Option<Object>,
}

/// Answers a chat completion: an OpenAI `chat.completion` object, with an `airlock` member if tools were called. Dropping
/// the future hangs up on the model and cancels every running tool.
pub async fn run(models: &Models, caller: &Caller, mut request: Request, settings: &Settings) -> Result<Object, AgentError> {
    let mut trace = Trace::new(caller.ledger());
    let model = models.route(&mut request.body).map_err(|error| AgentError { error, airlock: None })?;
    let mut conversation = Conversation::begin(request, caller, settings);
    let mut ids = BTreeSet::new();
    loop {
        let mut answer = match model.complete(conversation.request()).await {
            Ok(answer) => answer,
            Err(error) => return Err(AgentError { error, airlock: trace.extension(&[]) }),
        };
        trace.usage.add(&answer);
        let calls = calls::read(&mut answer, &mut ids);
        let Sorted { run, mut pending } = round::sort(calls, conversation.offered(), caller);
        if run.is_empty() {
            return Ok(trace.finish(answer, &pending));
        }
        if trace.rounds == settings.max_depth {
            pending.extend(run.into_iter().map(|call| Pending::new(call, Reason::DepthLimit)));
            return Ok(trace.finish_at_limit(answer, pending));
        }
        let results = round::run(run, caller, settings.parallel_calls).await;
        pending.extend(trace.note(&results));
        if !pending.is_empty() {
            pending.sort_by_key(|pending| pending.call.position);
            return Ok(trace.finish(answer, &pending));
        }
        conversation.go_on(&answer, &results);
    }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
