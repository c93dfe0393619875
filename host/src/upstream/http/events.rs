//! Streams of server-sent events, limited in number and size by the inbox.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{
    Stream, StreamExt as _, TryStreamExt as _, stream::BoxStream, stream::try_unfold,
};
use http::HeaderValue;
use reqwest::Response;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::{Sse, SseStream};

use super::super::{
    flood::Flood,
    inbox::Inbox,
    limits::{MAX_ID_BYTES, MAX_MESSAGE_BYTES, MAX_QUOTE_BYTES, STREAM_RETRY_MILLIS},
};
use crate::text::with_causes;

/// Reason that a stream ended early.
#[derive(Debug, thiserror::Error)]
enum StreamError {
    #[error(transparent)]
    Flood(#[from] Flood),
    #[error("an event has more than {MAX_MESSAGE_BYTES} bytes")]
    TooLarge,
    #[error("the stream broke off: {0}")]
    Broken(String),
}

/// Returns the events of a response. An event that the inbox does not accept loses its data but
/// keeps its identifier, from which the stream can be resumed.
///
/// The first `free_bytes` are not charged: a response that was requested costs nothing, however
/// slowly its event arrives.
pub(super) fn stream(
    response: Response,
    inbox: Arc<Inbox>,
    free_bytes: usize,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let bytes = bytes(response, inbox.clone(), free_bytes);
    SseStream::from_bytes_stream(Box::pin(bytes))
        .map_ok(move |event| screened(event, &inbox))
        .boxed()
}

fn bytes(
    response: Response,
    inbox: Arc<Inbox>,
    free_bytes: usize,
) -> impl Stream<Item = Result<Bytes, StreamError>> + Send {
    try_unfold(
        (response, inbox, EventSize::default(), free_bytes),
        |(mut response, inbox, mut size, mut free)| async move {
            if free == 0 {
                inbox.ready().await?;
            }
            let received = response.chunk().await.map_err(|error| {
                let reason = with_causes(&error.without_url());
                StreamError::Broken(inbox.scrubber().line(&reason, MAX_QUOTE_BYTES))
            });
            let Some(chunk) = received? else { return Ok(None) };
            let paid = chunk.len().saturating_sub(free);
            free -= chunk.len().min(free);
            if paid > 0 {
                inbox.charge(paid);
            }
            if !size.add(&chunk) {
                return Err(StreamError::TooLarge);
            }
            Ok(Some((chunk, (response, inbox, size, free))))
        },
    )
}

fn screened(mut event: Sse, inbox: &Inbox) -> Sse {
    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
    event.event = None;
    event.data = event.data.filter(|_| is_message).and_then(|data| inbox.receive_event(&data));
    // The identifier is sent back in a header.
    event.id = event.id.filter(|id| id.len() <= MAX_ID_BYTES && HeaderValue::from_str(id).is_ok());
    event.retry = event
        .retry
        .map(|millis| millis.clamp(*STREAM_RETRY_MILLIS.start(), *STREAM_RETRY_MILLIS.end()));
    event
}

/// Size of the event that is being received, in bytes.
#[derive(Debug, Default)]
struct EventSize {
    event: usize,
    line: usize,
    after_return: bool,
}

impl EventSize {
    /// Counts a chunk. Returns false if an event in it is too large.
    fn add(&mut self, chunk: &[u8]) -> bool {
        chunk.iter().all(|byte| {
            match byte {
                b'\n' if self.after_return => self.after_return = false,
                b'\r' | b'\n' => {
                    // A blank line ends an event.
                    self.event = if self.line == 0 { 0 } else { self.event + 1 };
                    self.line = 0;
                    self.after_return = *byte == b'\r';
                }
                _ => {
                    self.after_return = false;
                    self.line += 1;
                    self.event += 1;
                }
            }
            self.event <= MAX_MESSAGE_BYTES
        })
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, RequestId};
    use serde_json::json;

    use super::*;

    fn response(body: String) -> Response {
        Response::from(http::Response::new(body))
    }

    async fn events(body: String) -> Vec<Result<Sse, String>> {
        let stream = stream(response(body), Inbox::new(Arc::default()), 0);
        stream.map_err(|error| error.to_string()).collect().await
    }

    #[tokio::test]
    async fn an_event_that_is_not_accepted_keeps_its_identifier_and_a_bounded_delay() {
        let events =
            events("id: 1\nretry: 0\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n".into()).await;
        assert_eq!(events, [Ok(Sse::default().id("1").retry(1_000))]);
        assert_eq!(events_of("event: endpoint\ndata: /x\n\n").await, [Ok(Sse::default())]);
        assert_eq!(
            events_of(&format!("id: {}\ndata: x\n\n", "1".repeat(MAX_ID_BYTES + 1))).await,
            [Ok(Sse::default())]
        );
    }

    async fn events_of(text: &str) -> Vec<Result<Sse, String>> {
        events(text.to_owned()).await
    }

    #[tokio::test]
    async fn a_ping_is_accepted() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let events = events_of(&format!("data: {ping}\n\n")).await;
        let data = events
            .first()
            .and_then(|event| event.as_ref().ok()?.data.clone())
            .expect("an event with data");
        assert!(data.contains(r#""method":"ping""#), "{data}");
    }

    #[tokio::test(start_paused = true)]
    async fn large_responses_that_were_requested_are_not_a_flood() {
        let inbox = Inbox::new(Arc::default());
        let text = "x".repeat(3 << 20);
        for id in 0..20 {
            let params = CallToolRequestParams::new("tool");
            inbox.expect_response(
                &RequestId::Number(id),
                &ClientRequest::CallToolRequest(CallToolRequest::new(params)),
            );
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}});
            let events =
                stream(response(format!("data: {answer}\n\n")), inbox.clone(), MAX_MESSAGE_BYTES);
            let events: Vec<_> = events.collect().await;
            assert!(
                events.iter().any(|event| event.as_ref().is_ok_and(|event| event.data.is_some())),
                "answer {id}"
            );
            assert_eq!((inbox.ready().await, inbox.flood()), (Ok(()), None));
        }
    }

    #[test]
    fn an_event_is_bounded_to_the_byte_and_a_blank_line_ends_it() {
        for end in ["\n", "\r\n", "\r"] {
            let mut size = EventSize::default();
            let half = "x".repeat(MAX_MESSAGE_BYTES / 2 - 1);
            assert!(size.add(format!("{half}{end}{half}{end}").as_bytes()));
            assert!(size.add(end.as_bytes()));
            assert!(size.add("x".repeat(MAX_MESSAGE_BYTES).as_bytes()));
            assert!(!size.add(b"x"), "{end:?}");
        }
    }

    #[tokio::test]
    async fn a_stream_ends_where_an_event_is_too_large() {
        let events = events(format!("data: {}\n\n", "x".repeat(MAX_MESSAGE_BYTES))).await;
        assert!(
            matches!(&events[..], [Err(reason)] if reason.contains("more than 4194304 bytes")),
            "{events:?}"
        );
    }
}
