//! Opens streams of events with GET, and opens them again after they have ended, with increasing
//! delays.

use std::{convert::Infallible, future::pending, sync::atomic::Ordering, time::Duration};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::time::{Instant, sleep};

use super::{
    super::{
        backoff::jittered,
        limits::{MAX_RESUMPTIONS, STABLE_AFTER, STREAM_RETRY_MILLIS},
        transport::SendError,
    },
    EVENT_STREAM, Events, HttpSession, Purpose, RefusedResponse, StreamError, has_type,
    unexpected_type,
};
use airlock_wire::{
    headers,
    sse::{Item, SseEvent},
};

/// Position in a stream, from which it can be resumed.
#[derive(Debug, Default)]
pub(super) struct StreamPosition {
    /// Identifier of the last event that has one.
    last: Option<HeaderValue>,
    /// Delay that the server asks for.
    retry: Option<Duration>,
    /// Attempts since the last event with an identifier.
    attempts: u32,
}

impl StreamPosition {
    /// Moves behind an event.
    pub(super) fn advance(&mut self, event: &SseEvent) {
        if let Some(id) = &event.id {
            // An empty identifier means that there is none (HTML standard, section 9.2).
            self.last = Some(id.clone()).filter(|id| !id.is_empty());
            self.attempts = 0;
        }
        self.retry = event.retry.or(self.retry);
    }

    /// Returns the delay before the next attempt: that of the server or one that doubles with each
    /// attempt, whichever is longer, within [`STREAM_RETRY_MILLIS`].
    fn delay(&mut self) -> Duration {
        let [shortest, longest] =
            [*STREAM_RETRY_MILLIS.start(), *STREAM_RETRY_MILLIS.end()].map(Duration::from_millis);
        let own = jittered(shortest.saturating_mul(1 << self.attempts.min(16)));
        self.attempts = self.attempts.saturating_add(1);
        self.retry.unwrap_or_default().max(own).clamp(shortest, longest)
    }
}

/// Reason that a stream was not opened.
enum Unopened {
    /// A later attempt may succeed.
    Failed(SendError),
    /// A later attempt cannot succeed.
    Refused(SendError),
}

impl HttpSession {
    /// Opens a stream again that ended before the response to its request. Fails if the server has
    /// no stream to resume, or after [`MAX_RESUMPTIONS`] attempts without a new event.
    pub(super) async fn resume(
        &self,
        position: &mut StreamPosition,
        reason: SendError,
    ) -> Result<Events, SendError> {
        let mut reason = reason;
        while position.last.is_some() && position.attempts < MAX_RESUMPTIONS {
            sleep(position.delay()).await;
            match self.open(position.last.as_ref()).await {
                Ok(events) => return Ok(events),
                Err(Unopened::Failed(error)) => reason = error,
                Err(Unopened::Refused(error)) => return Err(error),
            }
        }
        Err(reason)
    }

    /// Receives what a legacy server sends on its own, on a stream that is opened as long as the
    /// server has one. Never returns.
    pub(super) async fn listen(&self) -> Infallible {
        self.initialized.wait().await;
        if self.is_modern() {
            return pending().await;
        }
        let mut position = StreamPosition::default();
        let mut is_first = true;
        loop {
            let began = Instant::now();
            match self.open(position.last.as_ref()).await {
                Ok(events) => {
                    if !is_first && position.last.is_none() {
                        // A report of a change may have been lost between the streams.
                        self.connection.inbox.suspect_change();
                    }
                    self.is_heard.store(true, Ordering::Relaxed);
                    self.hear(events, &mut position).await;
                    is_first = false;
                }
                // Its process may have ended. Without calls, only the next heartbeat would show that.
                Err(Unopened::Failed(_)) => self.connection.inbox.request_check(),
                Err(Unopened::Refused(_)) => {
                    self.is_heard.store(false, Ordering::Relaxed);
                    return pending().await;
                }
            }
            if began.elapsed() >= STABLE_AFTER {
                position.attempts = 0;
            }
            sleep(position.delay()).await;
        }
    }

    /// Receives the messages of a stream until it ends.
    async fn hear(&self, mut events: Events, position: &mut StreamPosition) {
        let attempts = position.attempts;
        // An end is as good as an error here: the stream is opened again in both cases.
        while let Ok(Some(item)) = events.next().await {
            match item {
                Item::Event(event) => {
                    position.advance(&event);
                    // Only time makes this stream stable: one event each costs a server nothing.
                    position.attempts = attempts;
                    if let Some(text) = event.message() {
                        self.connection.inbox.receive(text);
                    }
                }
                Item::TooLong { answered } => {
                    if let Some(id) = answered {
                        self.connection.inbox.refuse_too_long(id);
                    }
                }
            }
        }
    }

    /// Opens a stream. Charges the server for it.
    async fn open(&self, last: Option<&HeaderValue>) -> Result<Events, Unopened> {
        let ready = self.connection.inbox.ready().await.map_err(StreamError::from);
        ready.map_err(|error| Unopened::Refused(super::failed(error.to_string())))?;
        self.connection.inbox.charge_stream();
        let mut own = HeaderMap::new();
        own.insert(header::ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        if let Some(last) = last {
            own.insert(headers::LAST_EVENT, last.clone());
        }
        self.add_own(&mut own);
        let url = self.connection.endpoint.url();
        let sending = self.connection.endpoint.send(
            Purpose::Call,
            (Method::GET, url),
            own,
            None,
            &self.connection.inbox,
        );
        let response = sending.await.map_err(|error| match error {
            SendError::LoginNeeded(_) => Unopened::Refused(error),
            error => Unopened::Failed(error),
        })?;
        match response.status() {
            status if status.is_success() && has_type(&response, EVENT_STREAM) => {
                Ok(Events::new(response, self.connection.inbox.clone()))
            }
            status if status.is_success() => Err(Unopened::Refused(unexpected_type(
                &response,
                &[EVENT_STREAM],
                &self.connection.inbox,
            ))),
            StatusCode::NOT_FOUND if self.id.get().is_some() => {
                Err(Unopened::Refused(self.connection.expire()))
            }
            status => {
                let error = RefusedResponse::read(response, &self.connection.inbox)
                    .await
                    .into_error(&self.connection.inbox);
                let is_transient = status.is_server_error()
                    && status != StatusCode::NOT_IMPLEMENTED
                    || status == StatusCode::TOO_MANY_REQUESTS;
                Err(if is_transient { Unopened::Failed(error) } else { Unopened::Refused(error) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: Option<&'static str>, retry: Option<u64>) -> SseEvent {
        let id = id.map(HeaderValue::from_static);
        SseEvent { id, retry: retry.map(Duration::from_millis), ..SseEvent::default() }
    }

    #[test]
    fn a_delay_is_never_shorter_than_a_second_nor_longer_than_a_minute() {
        for (retry, shortest, longest) in [
            (Some(0), 1_000, 1_000),
            (Some(5_000), 5_000, 5_000),
            (Some(u64::MAX), 60_000, 60_000),
            (None, 1_000, 1_000),
        ] {
            let mut position = StreamPosition::default();
            position.advance(&event(None, retry));
            let delay = position.delay();
            let range = Duration::from_millis(shortest)..=Duration::from_millis(longest);
            assert!(range.contains(&delay), "{retry:?}: {delay:?}");
        }
    }

    #[test]
    fn delays_double_up_to_a_minute_and_an_event_with_an_identifier_resets_them() {
        let mut position = StreamPosition::default();
        let delays: Vec<Duration> = (0..40).map(|_| position.delay()).collect();
        assert!(delays[3] >= Duration::from_secs(4), "{:?}", delays[3]);
        assert!(delays[39] >= Duration::from_secs(30) && delays[39] <= Duration::from_mins(1));
        position.advance(&event(None, None));
        assert!(position.delay() >= Duration::from_secs(30));
        position.advance(&event(Some("7"), None));
        assert_eq!(position.delay(), Duration::from_secs(1));
        assert_eq!(position.last, Some(HeaderValue::from_static("7")));
        position.advance(&event(Some(""), None));
        assert_eq!(position.last, None);
    }
}
