//! Posts a message, and receives the response to it.

use std::sync::atomic::Ordering;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use reqwest::Response;

use super::{
    super::{
        limits::{MAX_ERROR_BODY_BYTES, MAX_MESSAGE_BYTES},
        transport::{Outgoing, OutgoingKind, RequestHead, SendError},
    },
    EVENT_STREAM, Events, HttpSession, Purpose, RefusedResponse, add_all, body, broken, failed,
    has_type,
    refusal::JSON,
    resume::StreamPosition,
    unexpected_type,
};
use airlock_wire::{
    envelope::MessageKind, headers, id::MAX_ID_BYTES, method, sse::Item, version::Version,
};

/// Content types of a response, in the order that the specification shows.
const ACCEPTED: &str = "application/json, text/event-stream";

impl HttpSession {
    /// Sends a message. Completes for a request when its response was received.
    pub(super) async fn exchange(&self, message: Outgoing) -> Result<(), SendError> {
        let Outgoing { text, kind } = message;
        let _permit = self.connection.permit(&kind).await?;
        let purpose = Purpose::from_kind(&kind);
        let had_session = self.id.get().is_some();
        let mut own = self.headers(&kind);
        self.add_own(&mut own);
        let (head, method) = match kind {
            OutgoingKind::Request(mut head) => {
                add_all(&mut own, std::mem::take(&mut head.headers));
                (Some(head), "")
            }
            OutgoingKind::Notification(method) => (None, method),
            OutgoingKind::Response => (None, ""),
        };
        let sending = self.connection.endpoint.send(
            purpose,
            (Method::POST, self.connection.endpoint.url()),
            own,
            Some(text),
            &self.connection.inbox,
        );
        let response = sending.await?;
        if response.status() == StatusCode::NOT_FOUND && had_session {
            return Err(self.connection.expire());
        }
        match head {
            Some(head) => self.answer(&head, purpose, had_session, response).await,
            None => self.acknowledged(method, had_session, response).await,
        }
    }

    /// Returns the headers that describe a message.
    fn headers(&self, kind: &OutgoingKind) -> HeaderMap {
        let mut own = HeaderMap::new();
        own.insert(header::ACCEPT, HeaderValue::from_static(ACCEPTED));
        own.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        let (method, name) = match kind {
            OutgoingKind::Request(head) => (head.method, head.name.as_deref()),
            OutgoingKind::Notification(method) => (*method, None),
            OutgoingKind::Response => return own,
        };
        let is_probe = method == method::DISCOVER && self.version.get().is_none();
        if is_probe {
            let version = Version::LATEST.as_str();
            own.insert(headers::VERSION, HeaderValue::from_static(version));
        }
        if is_probe || self.is_modern() {
            own.insert(headers::METHOD, HeaderValue::from_static(method));
            // Everything that is no printable ASCII is encoded.
            let name = name.and_then(|name| HeaderValue::try_from(&*headers::encoded(name)).ok());
            own.extend(name.map(|name| (headers::NAME, name)));
        }
        own
    }

    /// Reads the result of sending a message that is no request.
    async fn acknowledged(
        &self,
        method: &str,
        had_session: bool,
        response: Response,
    ) -> Result<(), SendError> {
        if !response.status().is_success() {
            let refusal = RefusedResponse::read(response, &self.connection.inbox).await;
            let is_lost = had_session && refusal.names_lost_session();
            return Err(if is_lost {
                self.connection.expire()
            } else {
                refusal.into_error(&self.connection.inbox)
            });
        }
        if method == method::INITIALIZED {
            // Sent once.
            let _ = self.initialized.set(());
        }
        self.connection.drains.body(response);
        Ok(())
    }

    /// Reads the response to a request.
    async fn answer(
        &self,
        head: &RequestHead,
        purpose: Purpose,
        had_session: bool,
        response: Response,
    ) -> Result<(), SendError> {
        let status = response.status();
        if !status.is_success() {
            let refusal = RefusedResponse::read(response, &self.connection.inbox).await;
            if had_session && refusal.names_lost_session() {
                if purpose == Purpose::Own {
                    return Err(self.connection.expire());
                }
                // The arguments of a caller may have caused the text. A check decides about the connection, which all
                // callers share.
                self.connection.inbox.request_check();
                return Err(SendError::SessionExpired);
            }
            let is_probe = head.method == method::DISCOVER && !had_session;
            let is_handshake = head.method == method::INITIALIZE;
            return refusal.hand_over(head.id, is_probe, is_handshake, &self.connection.inbox);
        }
        if head.method == method::INITIALIZE {
            self.begin(&response)?;
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            self.connection.drains.body(response);
            return self.accepted(status);
        }
        if has_type(&response, EVENT_STREAM) {
            return self
                .stream(head.id, Events::new(response, self.connection.inbox.clone()))
                .await;
        }
        if !has_type(&response, JSON) {
            return Err(unexpected_type(&response, &[JSON, EVENT_STREAM], &self.connection.inbox));
        }
        self.whole(head.id, response).await
    }

    /// Records the session that the server has started. Every later request names it. Fails if its
    /// identifier is too long.
    fn begin(&self, response: &Response) -> Result<(), SendError> {
        let Some(id) = response.headers().get(headers::SESSION) else { return Ok(()) };
        if id.len() > MAX_ID_BYTES {
            return Err(failed(format!("a session identifier of more than {MAX_ID_BYTES} bytes")));
        }
        if !id.is_empty() {
            let mut id = id.clone();
            id.set_sensitive(true);
            let _ = self.id.set(id);
        }
        Ok(())
    }

    /// Decides about a request that the server has accepted without a response. It may come on the
    /// stream for the server's own messages.
    fn accepted(&self, status: StatusCode) -> Result<(), SendError> {
        if self.is_heard.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(failed(format!("HTTP {status} without a response to the request")))
        }
    }

    /// Receives a response that is a whole body.
    async fn whole(&self, id: i64, response: Response) -> Result<(), SendError> {
        let body = body::read(response, MAX_MESSAGE_BYTES, &self.connection.inbox).await;
        let body = body.map_err(|error| match error {
            body::BodyError::TooLarge { .. } => SendError::TooLarge,
            body::BodyError::Broken(error) => broken(error, &self.connection.inbox),
        })?;
        if self.receive(id, &body) {
            return Ok(());
        }
        let quoted = self.connection.inbox.quote(&body);
        Err(failed(format!("the body is no response to the request: {quoted}")))
    }

    /// Receives a response that is an event of a stream. In the legacy era the stream is resumed if
    /// it ends too early.
    async fn stream(&self, id: i64, events: Events) -> Result<(), SendError> {
        let mut events = events;
        let mut position = StreamPosition::default();
        loop {
            let Err(reason) = self.until_answered(id, events, &mut position).await else {
                return Ok(());
            };
            if self.is_modern() || matches!(reason, SendError::TooLarge) {
                return Err(reason);
            }
            events = self.resume(&mut position, reason).await?;
        }
    }

    /// Receives the messages of a stream until one of them is the response. Fails if the stream
    /// ends before it.
    async fn until_answered(
        &self,
        id: i64,
        mut events: Events,
        position: &mut StreamPosition,
    ) -> Result<(), SendError> {
        loop {
            let item = events.next().await.map_err(|error| failed(error.to_string()))?;
            match item {
                None => return Err(failed("the stream ended before the response")),
                Some(Item::TooLong { answered }) => {
                    if let Some(id) = answered {
                        self.connection.inbox.refuse_too_long(id);
                    }
                    // Without an identifier, it is the response: notifications are never that long.
                    if answered.is_none_or(|answered| answered == id) {
                        return Err(SendError::TooLarge);
                    }
                }
                Some(Item::Event(event)) => {
                    position.advance(&event);
                    if event.message().is_some_and(|text| self.receive(id, text)) {
                        self.connection.drains.events(events);
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Receives a message. Returns whether it was the response to `id`, or whether that is no longer
    /// expected.
    fn receive(&self, id: i64, text: &[u8]) -> bool {
        self.connection.inbox.receive_within(Some(id), text);
        if !self.connection.inbox.is_awaited(id) {
            return true;
        }
        // Some servers do not repeat the identifier in errors.
        let is_refusal = text.len() <= MAX_ERROR_BODY_BYTES
            && matches!(MessageKind::read(text), Some(MessageKind::Refusal));
        if is_refusal {
            self.connection.inbox.receive_as(id, text);
        }
        is_refusal
    }
}
