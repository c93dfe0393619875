//! A function of the program as a model: its requests, and its replies in the forms that a program writes.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use airlock::{
    ModelFailure, ModelReply, ModelSource,
    conversation::{
        Conversation, Delta, Object, ReplyError,
        chat::{self, ChatDialect, ReplyReader},
    },
};
use futures_util::{
    Stream, StreamExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use serde_json::{Map, Value, json};

use crate::GatewayProgram;

/// The longest wait before a retry that a model may ask for, in seconds: a day. A function may return any number, and a
/// `Duration` does not hold all of them.
const MAX_WAIT: f64 = 86_400.0;

/// Reply of a model function.
pub enum ModelAnswer {
    /// A text, a message of an assistant, a chat completion, or `{"error": …}`.
    Whole(Value),
    /// Pieces: texts, deltas of a message, or chunks of a chat completion.
    Stream(BoxStream<'static, Result<Value, ModelFailure>>),
}

/// The model function of a program.
pub(crate) struct ProgramModel(pub(crate) Arc<dyn GatewayProgram>);

impl ModelSource for ProgramModel {
    fn respond(&self, request: Conversation) -> BoxFuture<'_, Result<ModelReply, ModelFailure>> {
        Box::pin(async move {
            let body = chat::write_request(request, ChatDialect::WithAnthropicMembers);
            let body = body.map_err(|error| {
                ModelFailure::new(error.message).with_status(400).with_code(error.code)
            })?;
            match self.0.clone().respond(body).await? {
                ModelAnswer::Whole(reply) => whole(reply).map(ModelReply::whole),
                ModelAnswer::Stream(pieces) => Ok(ModelReply::stream(deltas(pieces))),
            }
        })
    }
}

fn whole(reply: Value) -> Result<Vec<Delta>, ModelFailure> {
    let completion = framed(reply, "message")?;
    ReplyReader::default().whole(completion).map_err(broken)
}

/// Pieces of a reply that is being read.
struct PieceReader {
    pieces: BoxStream<'static, Result<Value, ModelFailure>>,
    reader: ReplyReader,
    ready: VecDeque<Delta>,
    has_ended: bool,
}

fn deltas(
    pieces: BoxStream<'static, Result<Value, ModelFailure>>,
) -> impl Stream<Item = Result<Delta, ModelFailure>> + Send + 'static {
    let reader = ReplyReader::default();
    let state = PieceReader { pieces, reader, ready: VecDeque::new(), has_ended: false };
    stream::try_unfold(state, |mut state| async move {
        let delta = state.next().await?;
        Ok::<_, ModelFailure>(delta.map(|delta| (delta, state)))
    })
}

impl PieceReader {
    async fn next(&mut self) -> Result<Option<Delta>, ModelFailure> {
        loop {
            if let Some(delta) = self.ready.pop_front() {
                return Ok(Some(delta));
            }
            if self.has_ended {
                return Ok(None);
            }
            let read = if let Some(piece) = self.pieces.next().await {
                self.reader.chunk(framed(piece?, "delta")?)
            } else {
                self.has_ended = true;
                self.reader.finish()
            };
            self.ready.extend(read.map_err(broken)?);
        }
    }
}

/// Returns a reply, or a piece of one, in the frame of a chat completion.
fn framed(piece: Value, member: &str) -> Result<Object, ModelFailure> {
    let message = match piece {
        Value::String(text) => json!({"content": text}),
        Value::Object(mut object) => match object.shift_remove("error") {
            Some(Value::Object(error)) => return Err(failure(&error)),
            _ if object.contains_key("choices") => return Ok(object),
            _ => Value::Object(object),
        },
        _ => {
            return Err(ModelFailure::new(
                "the model function must return a text, a message or a chat completion",
            ));
        }
    };
    let choice = Object::from_iter([("index".to_owned(), 0.into()), (member.to_owned(), message)]);
    Ok(Object::from_iter([("choices".to_owned(), vec![Value::Object(choice)].into())]))
}

/// Reads an `error` object: `message`, `status`, `code` and `retry_after`, in seconds.
fn failure(error: &Map<String, Value>) -> ModelFailure {
    let message = error.get("message").and_then(Value::as_str);
    let mut failure = ModelFailure::new(message.unwrap_or("the model has failed"));
    let status = error.get("status").and_then(Value::as_u64);
    if let Some(status) = status.and_then(|status| u16::try_from(status).ok()) {
        failure = failure.with_status(status);
    }
    if let Some(code) = error.get("code").and_then(Value::as_str) {
        failure = failure.with_code(code);
    }
    let wait = error.get("retry_after").and_then(Value::as_f64);
    match wait.map(|seconds| Duration::try_from_secs_f64(seconds.min(MAX_WAIT))) {
        Some(Ok(wait)) => failure.with_retry_after(wait),
        _ => failure,
    }
}

fn broken(error: ReplyError) -> ModelFailure {
    match error {
        ReplyError::Reported { error, .. } => failure(&error),
        ReplyError::Invalid { .. } => {
            ModelFailure::new(format!("the model function returned {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use airlock::conversation::Reply;
    use futures_util::TryStreamExt as _;

    use super::*;

    fn text_of(deltas: Vec<Delta>) -> String {
        let mut reply = Reply::default();
        reply.extend(deltas);
        let completion = chat::write_reply(reply, 0);
        let text = &completion["choices"][0]["message"]["content"];
        text.as_str().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_text_a_message_and_a_completion_are_replies() {
        let message = json!({"role": "assistant", "content": "tea"});
        let completion = json!({"choices": [{"index": 0, "message": message}]});
        for reply in [json!("tea"), message, completion] {
            assert_eq!(text_of(whole(reply).expect("a reply")), "tea");
        }
        whole(json!(7)).expect_err("a number is no reply");
    }

    #[tokio::test]
    async fn texts_deltas_and_chunks_are_pieces_of_one_reply() {
        let chunk = json!({"choices": [{"index": 0, "delta": {"content": "!"}}]});
        let pieces = [json!("te"), json!({"content": "a"}), chunk];
        let pieces = stream::iter(pieces.map(Ok)).boxed();
        let read: Vec<Delta> = deltas(pieces).try_collect().await.expect("a reply");
        assert_eq!(text_of(read), "tea!");
        deltas(stream::empty().boxed())
            .try_collect::<Vec<_>>()
            .await
            .expect_err("it has no choice");
    }

    #[test]
    fn an_error_of_the_function_has_its_code() {
        let error = json!({"error": {"message": "later", "status": 429, "retry_after": 1e300}});
        let failed = whole(error).expect_err("it is an error");
        assert_eq!(failed.to_string(), "later");
    }
}
