//! `POST /v1/messages`: Anthropic's Messages API, whole or streamed, and the number of tokens of a
//! request.
//!
//! A request goes to the agent loop as it came, and the loop runs it as it runs one of
//! [`chat`](super::chat). The deltas of its reply are written as the events of a message. Calls that the
//! gateway runs are not part of the message; pending calls are its last blocks.
//!
//! | file | purpose |
//! |---|---|
//! | `request` | a request, prepared for the loop |
//! | `stream` | the events of the loop → server-sent events |

mod request;
mod stream;

use std::{mem, sync::Arc, time::Duration};

use http::{HeaderValue, Request, StatusCode};
use serde_json::Value;
use uuid::Uuid;

use self::{request::MessageRequest, stream::MessageStream};
use super::{
    App, debug, options,
    responses::{DROPPED, DROPPED_TOOLS, TOKEN_BYTES, dropped, report_dropped, tool_bytes},
};
use airlock_agent::{Answer, EXTENSION, RequestObserver, Run};
use airlock_conversation::{self as conversation, Item, Object, Wire, messages};
use airlock_core::{
    request_memory::{ChargeRefused, RequestCharge},
    tool::QuestionKinds,
};
use airlock_http::{
    events,
    memory::AfterWork as _,
    respond::{self, ApiError, Reply, RequestId},
    work,
};
use airlock_ingress::RequestBody;
use airlock_requests::{PreparedChat, Sender};

/// Handles a request for a message. Fails if the request is invalid, or ends before its message begins.
/// Dropping the future or the reply cancels the request to the provider and every running tool.
pub(super) async fn create(
    app: &App,
    sender: &Sender,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let timeout = options::timeout(request.headers(), app.parts.agent.timeout)?;
    let request_id =
        request.extensions().get::<RequestId>().cloned().unwrap_or_else(RequestId::generate);
    let observer = debug::observe(app, sender, &request);
    let mut message = request::read(app, request, charge).await?;
    request::restore(app, sender, &mut message, charge).await?;
    app.parts.wait_for_sources(sender).await;
    let types = report_dropped(sender, &message.dropped);
    let is_streamed = message.is_streamed;
    let wants_events = message.options.events;
    let id = format!("msg_{}", Uuid::new_v4().simple());
    let model = std::mem::take(&mut message.model);
    let run = start(app, sender, message, timeout, charge, observer);
    let answering = run.answering();
    let reply = if is_streamed {
        let writer = messages::EventWriter::new(&id, &model);
        let stream =
            MessageStream::begin(run, writer, wants_events, request_id, charge.clone()).await?;
        respond::events(events::parts(stream))
    } else {
        respond::json_text(whole(run, id, charge).await?)
    };
    let mut reply = respond::answered_by(answering.provider(), answering.cost(), reply);
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
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let message = request::read_without_limit(app, request, charge).await?;
    let texts = message.prompt.body.text_len().saturating_sub(message.media.bytes);
    let bytes = texts.saturating_add(tool_bytes(app, sender, message.options.tools));
    let tokens = bytes.div_ceil(TOKEN_BYTES).saturating_add(message.media.tokens);
    Ok(respond::json(
        &serde_json::json!({"input_tokens": tokens, EXTENSION: {"is_estimate": true}}),
    ))
}

/// Starts the agent loop for a request.
fn start(
    app: &App,
    sender: &Sender,
    message: MessageRequest,
    timeout: Duration,
    charge: &RequestCharge,
    observer: Option<Arc<dyn RequestObserver>>,
) -> Run {
    let mut notes = Object::new();
    if !message.dropped.is_empty() {
        notes.insert(DROPPED.to_owned(), dropped(&message.dropped).collect());
    }
    let chat = PreparedChat {
        wire: Wire::Messages,
        prompt: message.prompt,
        is_streamed: message.is_streamed,
        wants_events: message.is_streamed && message.options.events,
        questions: QuestionKinds::ELICITATION,
        may_store: message.stores,
        notes,
        tools: message.options.tools,
        timeout,
        charge: charge.clone(),
        observer,
    };
    app.parts.start_chat(sender, chat)
}

/// Runs the loop to its end and returns the message as JSON text. `id` is used unless the provider sends
/// one.
async fn whole(run: Run, id: String, charge: &RequestCharge) -> Result<String, ApiError> {
    let completion = run.finish().await.map_err(|error| error.into_error_reply())?;
    let answer = completion.answer.expect("it was not streamed");
    let airlock = completion.airlock;
    work::on_tree(charge, move |charge| write(answer, airlock, id, charge)).await
}

/// Writes a whole answer of the loop as the JSON text of a message. An error has the record of the calls
/// that were run, as the message has.
fn write(
    answer: Answer,
    airlock: Option<Object>,
    id: String,
    charge: &RequestCharge,
) -> Result<String, ApiError> {
    match message_of(answer, id, charge) {
        Ok(mut message) => {
            message.extend(airlock.map(|airlock| (EXTENSION.to_owned(), airlock.into())));
            Ok(Value::from(message).to_string())
        }
        Err(error) => Err(after_calls(error, airlock)),
    }
}

fn message_of(mut answer: Answer, id: String, charge: &RequestCharge) -> Result<Object, ApiError> {
    let items = answer.reply.choices.values().flat_map(|choice| &choice.items);
    let arguments = items.map(arguments_bytes).fold(0, usize::saturating_add);
    let bytes = answer.bytes().saturating_add(arguments);
    charge.grow(bytes).map_err(ChargeRefused::after_work)?;
    if answer.reply.choices.is_empty() {
        let status = StatusCode::BAD_GATEWAY;
        let message = "the provider sent a reply without choices";
        return Err(ApiError::from_status(status, "provider_bad_answer", message));
    }
    let mut reply = mem::take(&mut answer.reply);
    if reply.begin.id.is_empty() {
        reply.begin.id = id;
    }
    Ok(messages::write_reply(reply))
}

/// Returns the memory of the arguments of a call as an object, in bytes.
fn arguments_bytes(item: &Item) -> usize {
    match item {
        Item::ToolCall(call) => conversation::arguments_bytes(call.input.text()),
        _ => 0,
    }
}

/// Adds the record of the calls to the error of a reply. The client is asked not to repeat a request with
/// calls.
fn after_calls(error: ApiError, airlock: Option<Object>) -> ApiError {
    match airlock {
        Some(airlock) => error.not_repeated().with_airlock(airlock),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_conversation::{Reply, chat::ReplyReader};
    use airlock_core::{request_memory::Memory, tenant::Tenant};
    use airlock_json::object;

    fn charge(bytes: usize) -> RequestCharge {
        Memory::new(bytes).open(Tenant::ANONYMOUS, 0).expect("room")
    }

    fn written(
        completion: Value,
        airlock: Option<&Value>,
        charge: &RequestCharge,
    ) -> Result<String, ApiError> {
        let mut reply = Reply::default();
        reply.extend(ReplyReader::default().whole(object(completion)).expect("a completion"));
        let airlock = airlock.cloned().map(object);
        write(reply.into(), airlock, "msg_1".to_owned(), charge)
    }

    #[test]
    fn the_record_of_the_calls_is_a_member_of_the_message_or_of_its_error() {
        let airlock = json!({"calls": [], "rounds": 1});
        let short = json!({"choices": [{"message": {"content": "hi"}}]});
        let message = written(short, Some(&airlock), &charge(usize::MAX)).expect("a message");
        let message: Value = serde_json::from_str(&message).expect("JSON");
        assert_eq!((&message["id"], &message["airlock"]), (&json!("msg_1"), &airlock));

        let long = json!({"choices": [{"message": {"content": "x".repeat(100_000)}}]});
        let too_long = charge(100_000);
        for (reply, airlock) in [
            (Some(&long), Some(&airlock)),
            (Some(&long), None),
            (None, Some(&airlock)),
            (None, None),
        ] {
            // Without one, a reply without choices.
            let written = if let Some(long) = reply {
                written(long.clone(), airlock, &too_long)
            } else {
                let airlock = airlock.cloned().map(object);
                write(Reply::default().into(), airlock, "msg_1".to_owned(), &too_long)
            };
            let error = written.expect_err("not written");
            let asks = error.headers().contains_key("x-should-retry");
            assert_eq!(error.headers().get("retry-after"), None);
            let body = Value::from(error.into_anthropic_body(&RequestId::generate()));
            assert_eq!(body["error"].get("airlock"), airlock);
            assert!(asks || airlock.is_none(), "{body}");
        }
    }

    #[test]
    fn arguments_are_charged_as_their_tree() {
        let dense = format!("{{\"a\":[{}0]}}", "{\"\":0},".repeat(1_000));
        let call = json!({"id": "c", "function": {"name": "f", "arguments": dense}});
        let answer = json!({"choices": [{"message": {"tool_calls": [call]}}]});
        let free = charge(usize::MAX);
        let before = free.bytes();
        written(answer, None, &free).expect("a message");
        let bytes = free.bytes() - before;
        assert!(bytes > 300_000, "{bytes}");
    }
}
