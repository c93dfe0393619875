//! Transport to servers over HTTP+SSE, the transport of 2024-11-05: everything that the server sends
//! comes on one stream of events, whose first event names the URL to which messages are posted.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::{Response, Url};
use tokio::sync::SetOnce;

use super::{
    http::{
        EVENT_STREAM, Events, HttpConnection, Purpose, RefusedResponse, failed, has_type,
        unexpected_type,
    },
    transport::{Outgoing, OutgoingKind, ReceiveError, SendError, Transport},
};
use airlock_core::{door::CallerHeaders, tool::Cause};
use airlock_mcp_oauth::MAX_URL_BYTES;
use airlock_wire::{
    method,
    sse::{Item, SseEvent},
    version::Version,
};

pub(super) fn transport(connection: HttpConnection) -> Arc<dyn Transport> {
    Arc::new(Sse(Arc::new(SseSession { connection, target: SetOnce::new() })))
}

/// One connection to a server. Dropping it ends everything that runs for it.
struct Sse(Arc<SseSession>);

/// State of one connection.
struct SseSession {
    connection: HttpConnection,
    /// URL to which messages are posted, once the server has named it.
    target: SetOnce<Url>,
}

impl SseSession {
    /// Receives the stream until it ends. A broken stream cannot be resumed, so the connection ends
    /// with it.
    async fn hear(&self) -> ReceiveError {
        let mut events = match self.open().await {
            Ok(response) => Events::new(response, self.connection.inbox.clone()),
            Err(error) => return ReceiveError::NotOpened(error),
        };
        loop {
            match events.next().await {
                Ok(Some(Item::Event(event))) if event.kind == "endpoint" => {
                    if let Err(error) = self.name_target(&event) {
                        return error;
                    }
                }
                Ok(Some(Item::Event(event))) => {
                    if let Some(text) = event.message() {
                        self.connection.inbox.receive(text);
                    }
                }
                Ok(Some(Item::TooLong { answered })) => {
                    if let Some(id) = answered {
                        self.connection.inbox.refuse_too_long(id);
                    }
                }
                Ok(None) => return ReceiveError::Closed,
                Err(error) => return ReceiveError::Lost(Cause::from(error)),
            }
        }
    }

    async fn open(&self) -> Result<Response, SendError> {
        let mut own = HeaderMap::new();
        own.insert(header::ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        let url = self.connection.endpoint.url();
        let response = self
            .connection
            .endpoint
            .send(Purpose::Own, (Method::GET, url), own, None, &self.connection.inbox)
            .await?;
        if !response.status().is_success() {
            return Err(RefusedResponse::read(response, &self.connection.inbox)
                .await
                .into_error(&self.connection.inbox));
        }
        if !has_type(&response, EVENT_STREAM) {
            return Err(unexpected_type(&response, &[EVENT_STREAM], &self.connection.inbox));
        }
        Ok(response)
    }

    /// Reads the URL that the server names. The credentials are for the origin of the
    /// configuration, so the URL must have the same one. Later events that name one are ignored.
    fn name_target(&self, event: &SseEvent) -> Result<(), ReceiveError> {
        let text = std::str::from_utf8(&event.data).ok().filter(|text| text.len() <= MAX_URL_BYTES);
        let base = self.connection.endpoint.url();
        let target = text.and_then(|text| base.join(text.trim()).ok());
        let target = target.filter(|target| target.origin() == base.origin());
        let Some(target) = target else {
            let reason = "the server names an endpoint that is no URL of its own origin";
            return Err(ReceiveError::NotOpened(failed(reason)));
        };
        let _ = self.target.set(target);
        Ok(())
    }

    async fn post(&self, message: Outgoing) -> Result<(), SendError> {
        let Outgoing { text, kind } = message;
        let purpose = Purpose::from_kind(&kind);
        let _permit = self.connection.permit(&kind).await?;
        let (mut own, request) = match kind {
            OutgoingKind::Request(head) => {
                let own: HeaderMap = head.headers.iter().cloned().collect();
                (own, Some((head.id, head.method)))
            }
            _ => (HeaderMap::new(), None),
        };
        let target = self.target.wait().await;
        own.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let response = self
            .connection
            .endpoint
            .send(purpose, (Method::POST, target), own, Some(text), &self.connection.inbox)
            .await?;
        let status = response.status();
        if status.is_success() {
            self.connection.drains.body(response);
            return Ok(());
        }
        let is_probe = request.is_some_and(|(_, method)| method == method::DISCOVER);
        if status == StatusCode::NOT_FOUND && !is_probe {
            return Err(self.connection.expire());
        }
        let refusal = RefusedResponse::read(response, &self.connection.inbox).await;
        match request {
            Some((id, method)) => refusal.hand_over(
                id,
                is_probe,
                method == method::INITIALIZE,
                &self.connection.inbox,
            ),
            None => Err(refusal.into_error(&self.connection.inbox)),
        }
    }
}

impl Transport for Sse {
    /// Sends a message. Completes when the server has taken it: the response comes on the stream.
    fn send(&self, message: Outgoing) -> BoxFuture<'static, Result<(), SendError>> {
        let session = self.0.clone();
        Box::pin(async move { session.connection.send(session.post(message)).await })
    }

    fn receive(&self) -> BoxFuture<'_, ReceiveError> {
        Box::pin(self.0.connection.receive(self.0.hear()))
    }

    fn negotiated(&self, _: Version) {}

    fn pass_on(&self, caller: &CallerHeaders) -> Vec<(HeaderName, HeaderValue)> {
        self.0.connection.endpoint.pass_on(caller)
    }

    fn address(&self) -> Option<(String, u16)> {
        self.0.connection.endpoint.address()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.0.connection.close() })
    }
}

impl Drop for Sse {
    fn drop(&mut self) {
        self.0.connection.close();
    }
}

#[cfg(test)]
mod tests;
