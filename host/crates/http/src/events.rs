//! Streams of server-sent events to HTTP clients.

use std::{panic::AssertUnwindSafe, pin::pin, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use serde_json::Value;
use tracing::error;

use super::respond::ApiError;
use airlock_conversation::Object;
use airlock_core::{model_calls::EXTENSION, timer::RepeatedTimeout};
use airlock_ingress::Parts;

/// Time without an event after which a comment is sent. Proxies close connections that are silent
/// for a minute, and some after 30 seconds.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Comment that keeps a connection open. Clients ignore it (WHATWG HTML standard, section 9.2.6).
const COMMENT: &[u8] = b": keep-alive\n\n";

/// Source of the events of one response. Dropping it cancels the work behind it.
pub trait EventSource: Send + 'static {
    /// Returns the next event, as text for the stream; `None` at the end. Dropping the future must
    /// lose no event.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;

    /// Returns the event that ends a failed stream.
    fn failure(&self, error: ApiError) -> Bytes {
        failure(error)
    }
}

/// Creates the body of a response. After each [`HEARTBEAT`] without an event a comment is sent. A
/// panic of the source ends the stream with an error.
pub fn parts<S: EventSource>(source: S) -> Parts {
    // Boxed: it is moved into the future of each part and back, which also would keep room for it twice.
    let state = Box::new((source, RepeatedTimeout::new(HEARTBEAT)));
    let parts = stream::unfold(Some(state), |state| async move {
        let mut state = state?;
        let (source, heartbeat) = &mut *state;
        let waiting = next_or_comment(source, heartbeat);
        if let Ok(part) = AssertUnwindSafe(waiting).catch_unwind().await {
            part.map(|part| (part, Some(state)))
        } else {
            error!("a streamed request made the gateway panic");
            Some((state.0.failure(ApiError::internal()), None))
        }
    });
    boxed(parts)
}

fn boxed(parts: impl Stream<Item = Bytes> + Send + 'static) -> Parts {
    parts.boxed()
}

async fn next_or_comment(
    source: &mut impl EventSource,
    heartbeat: &mut RepeatedTimeout,
) -> Option<Bytes> {
    // Dropping the future of a source loses no event.
    heartbeat.wait(pin!(source.next())).await.unwrap_or(Some(Bytes::from_static(COMMENT)))
}

/// Returns an event without a type. `data` must be on one line.
pub fn data(data: &str) -> Bytes {
    [b"data: ", data.as_bytes(), b"\n\n"].concat().into()
}

/// Returns an event with a type. `data` must be on one line.
pub fn typed(kind: &str, data: &str) -> Bytes {
    format!("event: {kind}\ndata: {data}\n\n").into()
}

/// Returns an event that is an object, with its member `type` as its type.
pub fn object(event: &Object) -> Bytes {
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    typed(kind, &serde_json::to_string(event).unwrap_or_default())
}

/// Returns the event that ends a failed stream, in OpenAI's form. The `airlock` object is a member
/// of `error`, because OpenAI's clients keep nothing else of the event.
pub fn failure(error: ApiError) -> Bytes {
    let mut body = error.into_body();
    if let Some(airlock) = body.shift_remove(EXTENSION) {
        body["error"][EXTENSION] = airlock;
    }
    typed("error", &Value::from(body).to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_json::object;

    #[test]
    fn the_last_event_of_a_failed_stream_has_the_calls_in_its_error() {
        let error = ApiError::bad_request("x", "no").with_airlock(object(json!({"rounds": 1})));
        let text = String::from_utf8(failure(error).to_vec()).expect("text");
        let data = text.strip_prefix("event: error\ndata: ").expect("an error event");
        let data: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!((&data["error"]["airlock"]["rounds"], data.get("airlock")), (&json!(1), None));
    }
}
