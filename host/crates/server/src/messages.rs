//! `POST /v1/messages`: Anthropic's Messages API, whole or streamed, and the number of tokens of a
//! request.
//!
//! A request is read into a conversation and written as a chat completion request, which the agent loop
//! runs as it runs one of [`chat`](super::chat). Its chunks are read as the pieces of a reply, and
//! written as the events of a message. Calls that the gateway runs are not part of the message; pending
//! calls are its last blocks.
//!
//! | file | purpose |
//! |---|---|
//! | `request` | a request → a chat completion request |
//! | `stream` | the events of the loop → server-sent events |

mod request;
mod stream;

use std::time::Duration;

use http::{HeaderValue, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};
use uuid::Uuid;

use self::{request::ChatRequest, stream::MessageStream};
use super::{
    App, availability, events,
    memory::{ChargeRefused, RequestCharge},
    options,
    respond::{self, ApiError, Reply},
    responses::{DROPPED, DROPPED_TOOLS, TOKEN_BYTES, dropped, report_dropped, tool_bytes},
    sender::Sender,
};
use airlock_agent::{self as agent, EXTENSION, Run};
use airlock_conversation::{self as conversation, ReplyError, chat::ReplyReader, messages};
use airlock_core::{
    door::{Caller, Hearing, Origin},
    tool::QuestionKinds,
};
use airlock_model::{MemoryBudget, Object, weight};

/// Path of the API.
pub(super) const PATH: &str = "/v1/messages";
/// Path of the number of tokens of a request.
pub(super) const COUNT_TOKENS: &str = "/v1/messages/count_tokens";

/// Handles a request for a message. Fails if the request is invalid, or ends before its message begins.
/// Dropping the future or the reply cancels the request to the provider and every running tool.
pub(super) async fn create(
    app: &App,
    sender: &Sender,
    request: Request<Incoming>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let timeout = options::timeout(request.headers(), app.agent.timeout)?;
    let mut chat = request::read(app, request, charge).await?;
    request::restore(app, sender, &mut chat.body, charge).await?;
    availability::wait_for_sources(app, sender).await;
    let types = report_dropped(sender, &chat.dropped);
    let is_streamed = chat.is_streamed;
    let wants_events = chat.wants_events;
    let id = format!("msg_{}", Uuid::new_v4().simple());
    let model = std::mem::take(&mut chat.model);
    let run = start(app, sender, chat, timeout, charge);
    let answering = run.answering();
    let reply = if is_streamed {
        let writer = messages::EventWriter::new(&id, &model);
        let stream = MessageStream::begin(run, writer, wants_events, charge.clone()).await?;
        respond::events(events::parts(stream))
    } else {
        respond::json(&whole(run, id, charge).await?.into())
    };
    let mut reply = respond::answered_by(&answering, reply);
    if let Some(types) = types.and_then(|types| HeaderValue::try_from(types).ok()) {
        reply.headers_mut().insert(DROPPED_TOOLS, types);
    }
    Ok(reply)
}

/// Handles a request for the number of its input tokens: an estimate from its length, with the
/// gateway's tools. Fails if the request is invalid.
pub(super) async fn count(
    app: &App,
    sender: &Sender,
    request: Request<Incoming>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let chat = request::read_without_limit(app, request, charge).await?;
    let texts = chat.body.text_len().saturating_sub(chat.media.bytes);
    let bytes = texts.saturating_add(tool_bytes(app, sender));
    let tokens = bytes.div_ceil(TOKEN_BYTES).saturating_add(chat.media.tokens);
    Ok(respond::json(&json!({"input_tokens": tokens, EXTENSION: {"is_estimate": true}})))
}

/// Starts the agent loop for a request.
fn start(
    app: &App,
    sender: &Sender,
    chat: ChatRequest,
    timeout: Duration,
    charge: &RequestCharge,
) -> Run {
    let view = app.model_view(sender);
    // A person reads the answer.
    let hearing = Hearing { questions: QuestionKinds::ELICITATION, ..Hearing::default() };
    let (caller, reports) = if chat.is_streamed && chat.wants_events {
        let (caller, reports) = Caller::with_events(view, Origin::Model, app.budget, hearing);
        (caller, Some(reports))
    } else {
        (Caller::hearing(view, Origin::Model, app.budget, hearing), None)
    };
    let mut notes = Object::new();
    availability::add_notes(app, sender, &mut notes);
    if !chat.dropped.is_empty() {
        notes.insert(DROPPED.to_owned(), dropped(&chat.dropped).collect());
    }
    let request = agent::Request {
        body: chat.body,
        native: None,
        is_streamed: chat.is_streamed,
        shows_rounds: false,
        names_tools: !sender.filter.is_none(),
        max_tool_calls: None,
        reports,
        results: Some(app.hooks.results.clone()),
        keeper: Some(app.keeper(sender, true)),
        approver: app.approver(sender),
        notes,
        budget: MemoryBudget::new(charge.clone()),
    };
    app.start(caller, request, timeout)
}

/// Runs the loop to its end and returns the message. `id` is used unless the provider sends one.
async fn whole(run: Run, id: String, charge: &RequestCharge) -> Result<Object, ApiError> {
    let completion = run.finish().await.map_err(|error| ApiError::from(*error))?;
    let mut answer = completion.answer.expect("it was not streamed").into_object();
    let airlock = answer.shift_remove(EXTENSION);
    let bytes = answer.values().map(weight).sum();
    charge.grow(bytes).map_err(ChargeRefused::after_work)?;
    let mut reply = conversation::Reply::default();
    reply.extend(ReplyReader::default().whole(answer).map_err(|error| unreadable(&error))?);
    if reply.begin.id.is_empty() {
        reply.begin.id = id;
    }
    let mut message = messages::write_reply(reply);
    message.extend(airlock.map(|airlock| (EXTENSION.to_owned(), airlock)));
    Ok(message)
}

/// Returns the error of a reply that cannot be read.
fn unreadable(error: &ReplyError) -> ApiError {
    let (status, code, message) = match error {
        ReplyError::Reported { error, status } => (
            status.and_then(|status| StatusCode::from_u16(status).ok()),
            error.get("code").and_then(Value::as_str),
            error.get("message").and_then(Value::as_str).map(str::to_owned),
        ),
        ReplyError::Invalid { what } => (None, None, Some(format!("the provider sent {what}"))),
    };
    ApiError::new(
        status.unwrap_or(StatusCode::BAD_GATEWAY),
        "server_error",
        code.unwrap_or("provider_bad_answer"),
        message.unwrap_or_else(|| error.to_string()),
    )
}
