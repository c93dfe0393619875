//! Streams of server-sent events, bounded in number and size.

use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use reqwest::Response;

use super::super::{
    flood::Flood,
    inbox::Inbox,
    limits::{BYTES_PER_TOKEN, MAX_MESSAGE_BYTES},
};
use airlock_strings::{MAX_EXCERPT_BYTES, with_causes};
use airlock_wire::sse::{Dialect, Item, SseDecoder};

/// Reason that a stream ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// The server floods the gateway.
    #[error(transparent)]
    Flood(#[from] Flood),
    /// The connection broke off.
    #[error("the stream broke off: {0}")]
    Broken(String),
}

/// The events of a response.
pub(crate) struct Events {
    response: Response,
    inbox: Arc<Inbox>,
    decoder: SseDecoder,
    chunk: Bytes,
    /// Bytes outside messages that are not charged yet.
    owed_bytes: usize,
}

impl Events {
    /// Begins to read the body of a response.
    pub(crate) fn new(response: Response, inbox: Arc<Inbox>) -> Self {
        let decoder = SseDecoder::new(Dialect::Mcp, MAX_MESSAGE_BYTES);
        Self { response, inbox, decoder, chunk: Bytes::new(), owed_bytes: 0 }
    }

    /// Returns the next event; `None` at the end of the stream. Bytes outside messages are charged
    /// here, the data of other events too, and messages by the inbox that receives them. Dropping the
    /// future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<Item>, StreamError> {
        loop {
            let mut bytes = &self.chunk[..];
            let item = self.decoder.next(&mut bytes);
            let read = self.chunk.len() - bytes.len();
            self.chunk.advance(read);
            self.charge(item.as_ref());
            if item.is_some() {
                return Ok(item);
            }
            self.inbox.ready().await?;
            let received = self.response.chunk().await.map_err(|error| {
                let reason = with_causes(&error.without_url());
                StreamError::Broken(self.inbox.scrubber().line(&reason, MAX_EXCERPT_BYTES))
            })?;
            let Some(chunk) = received else { return Ok(None) };
            self.inbox.touch();
            self.chunk = chunk;
        }
    }

    fn charge(&mut self, item: Option<&Item>) {
        self.owed_bytes += self.decoder.take_dropped();
        if let Some(Item::Event(event)) = item
            && event.message().is_none()
        {
            self.owed_bytes += event.data.len();
        }
        // The line ends of a message are not worth a token each.
        if self.owed_bytes >= BYTES_PER_TOKEN {
            self.inbox.charge(std::mem::take(&mut self.owed_bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::time::Instant;

    use super::*;
    use crate::{
        inbox::ResponseKind,
        limits::{BURST_TOKENS, TOKEN_TIME},
    };

    fn events(body: String) -> (Events, Arc<Inbox>) {
        let (inbox, _) = Inbox::new(Arc::default());
        (Events::new(http::Response::new(body).into(), inbox.clone()), inbox)
    }

    #[tokio::test(start_paused = true)]
    async fn large_responses_that_were_requested_are_not_a_flood() {
        let text = "x".repeat(3 << 20);
        for id in 0..20 {
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": text});
            let (mut events, inbox) = events(format!("data: {answer}\n\n"));
            let mut waiting = inbox.expect(id, ResponseKind::Whole);
            let Ok(Some(Item::Event(event))) = events.next().await else { panic!("no event") };
            inbox.receive(event.message().expect("a message"));
            assert!(waiting.response.try_recv().is_ok(), "answer {id}");
            assert_eq!((inbox.ready().await, inbox.flood()), (Ok(()), None));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_outside_messages_are_paid_for() {
        let tokens = usize::try_from(BURST_TOKENS).expect("it is small") * 3;
        let (mut events, _inbox) = events(format!(":{}\n\n", "x".repeat(tokens * BYTES_PER_TOKEN)));
        let began = Instant::now();
        assert!(matches!(events.next().await, Ok(None)));
        assert!(began.elapsed() >= 2 * TOKEN_TIME * BURST_TOKENS, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn the_data_of_events_that_are_no_messages_is_paid_for() {
        let tokens = usize::try_from(BURST_TOKENS).expect("it is small") * 3;
        let event = format!("event: x\ndata: {}\n\n", "x".repeat(tokens * BYTES_PER_TOKEN / 10));
        let (mut events, _inbox) = events(event.repeat(10));
        let began = Instant::now();
        while let Ok(Some(item)) = events.next().await {
            assert!(matches!(item, Item::Event(_)), "{item:?}");
        }
        assert!(began.elapsed() >= 2 * TOKEN_TIME * BURST_TOKENS, "{:?}", began.elapsed());
    }
}
