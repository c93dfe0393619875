//! The span of a request over HTTP, from its admission to the end of its response. A request that is refused
//! by its head has none. Requests of MCP have those of the crate `airlock-mcp-server`.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, Method, Request};

use airlock_http::respond::Reply;
use airlock_ingress::{Parts, Payload, RequestBody};
use airlock_requests::Sender;
use airlock_telemetry::{Span, TraceContext, names};

/// Span of a request. Dropping it before [`Self::end`] means that the client has closed the connection.
#[derive(Default)]
pub(super) struct RequestSpan(Span);

impl RequestSpan {
    /// Starts the span of an admitted request, in the trace that its headers name if the operator trusts its
    /// sender. `route` is the template of its path.
    pub(super) fn begin(
        request: &Request<RequestBody>,
        route: &'static str,
        sender: &Sender,
    ) -> Self {
        if !airlock_telemetry::is_on() {
            return Self::default();
        }
        let method = known_method(request.method());
        let key = sender.key.as_deref();
        let span = Span::server(|| format!("{} {route}", method.unwrap_or("HTTP")));
        let span = span.of_caller(sent(request.headers()), key.is_some()).start();
        if span.is_recorded() {
            span.set(names::HTTP_REQUEST_METHOD, method.unwrap_or("_OTHER"));
            span.set(names::HTTP_ROUTE, route);
            if let Some(key) = key.and_then(|key| key.membership().key.as_deref()) {
                span.set(names::AIRLOCK_KEY_ID, key);
            }
        }
        Self(span)
    }

    /// The span, under which the request is handled.
    pub(super) fn span(&self) -> &Span {
        &self.0
    }

    /// Ends the span with the response, or when the stream of the response ends.
    pub(super) fn end(self, reply: Reply) -> Reply {
        if !self.0.is_recorded() {
            return reply;
        }
        let status = reply.status();
        self.0.set(names::HTTP_RESPONSE_STATUS_CODE, status.as_u16());
        if status.is_server_error() {
            self.0.fail(status.as_str(), "");
        }
        reply.map(|payload| match payload {
            Payload::Stream(parts) => Payload::Stream(Box::pin(TracedParts { parts, span: self })),
            whole @ Payload::Whole(_) => {
                self.0.end();
                whole
            }
        })
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        // It has ended otherwise, and drops what is set.
        self.0.set(names::AIRLOCK_CANCELLED, true);
        self.0.end();
    }
}

/// The parts of a streamed response, with the span of its request.
struct TracedParts {
    parts: Parts,
    span: RequestSpan,
}

impl Stream for TracedParts {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let part = ready!(self.parts.as_mut().poll_next(context));
        if part.is_none() {
            self.span.0.end();
        }
        Poll::Ready(part)
    }
}

/// Returns the name of a method of the standard; `None` for one that a caller has invented.
fn known_method(method: &Method) -> Option<&'static str> {
    Some(match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        _ => return None,
    })
}

/// Returns the position in its trace that a caller sends; `None` if it sends none that is valid.
fn sent(headers: &HeaderMap) -> Option<TraceContext> {
    TraceContext::parse(headers.get("traceparent")?.to_str().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_span_has_no_method_that_a_caller_has_invented() {
        assert_eq!(known_method(&Method::PATCH), Some("PATCH"));
        let invented = Method::from_bytes(b"SECRET").expect("a token");
        assert_eq!(known_method(&invented), None);
    }
}
