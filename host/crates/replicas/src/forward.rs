//! Forwards a request to the gateway that has what it refers to.
//!
//! The other gateway authenticates the sender itself: the credential is in the request. The response is
//! passed on as it arrives.

use std::{error::Error, io, iter, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{self, CONTENT_TYPE, HOST, RETRY_AFTER},
};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::warn;

use super::Replicas;
use airlock_core::{memory::RequestMemory as _, replica::ReplicaId, request_memory::RequestCharge};
use airlock_egress::https::{HttpsBody, HttpsError};
use airlock_http::{
    body::{self, BodySettings},
    memory::AfterWork as _,
    respond::{ApiError, Reply},
};
use airlock_ingress::{Parts, Payload, RequestBody};
use airlock_strings::with_causes;

/// Header of a forwarded request, with the identifier of the gateway that forwards it. Such a request
/// is not forwarded again.
pub(super) const FORWARDED: HeaderName = HeaderName::from_static("x-airlock-forwarded");
/// Headers of one connection (RFC 9110, section 7.6.1), and the length, which the sender of each
/// connection states anew. What the client's `Connection` names beside these stays: a client must not
/// choose which headers the two gateways see differently.
const OF_CONNECTION: [HeaderName; 11] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];
/// Headers that the gateway adds to its own responses.
const OF_RESPONSE: [HeaderName; 4] = [
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
    header::DATE,
    header::VARY,
];
/// Time without any part of a stream after which the stream is aborted. Gateways send a comment every 15
/// seconds.
const SILENCE: Duration = Duration::from_mins(1);
/// Time for the response to a request that runs nothing to begin.
const SOON: Duration = Duration::from_secs(30);

/// Head of a request that may be forwarded, kept while its body is read.
#[derive(Debug, Clone)]
pub struct ForwardedHead {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
}

impl ForwardedHead {
    /// Copies the head of a request.
    pub fn from_request<B>(request: &Request<B>) -> Self {
        Self::new(request.method().clone(), request.uri().clone(), request.headers().clone())
    }

    /// Creates the head of a request. Over HTTP/2, the URI has the host.
    pub fn new(method: Method, uri: Uri, mut headers: HeaderMap) -> Self {
        let host = uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
        if let Some(host) = host {
            headers.entry(HOST).or_insert(host);
        }
        Self { method, uri, headers }
    }

    /// Its headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

/// Another gateway, which has what a request refers to.
pub struct PeerGateway {
    /// The gateways of the store.
    pub replicas: Arc<Replicas>,
    /// Its URL.
    pub url: Uri,
    /// Time for the response to a request that runs a tool.
    pub limit: Duration,
}

impl PeerGateway {
    /// Reads the body of a request and sends the request to the other gateway, as [`Self::send`]. Fails
    /// also if the body is too large or does not arrive in time.
    pub async fn pass_on(
        self,
        request: Request<RequestBody>,
        settings: BodySettings,
        charge: &RequestCharge,
    ) -> Result<Option<Reply>, ApiError> {
        let head = ForwardedHead::from_request(&request);
        let body = body::bytes(request, settings, charge).await?;
        self.send(head, body, charge).await
    }

    /// Sends a request to the other gateway, and returns its response. The body is charged, and given
    /// back. `None` if its machine refuses the connection: the gateway has ended, and what it had with it. If the
    /// future or the response is dropped, the other gateway sees that the client has left. Fails if it cannot be
    /// reached or does not answer, or if there is no memory for the response.
    pub async fn send(
        self,
        head: ForwardedHead,
        body: Vec<u8>,
        charge: &RequestCharge,
    ) -> Result<Option<Reply>, ApiError> {
        let Self { replicas, url, limit } = self;
        let limit = if head.method == Method::POST { limit } else { limit.min(SOON) };
        let due = Instant::now() + limit;
        let charged = body.capacity();
        let request = addressed(&url, head, body.into()).ok_or_else(unanswered)?;
        let sent = timeout_at(due, replicas.client.current().send(request)).await;
        charge.give_back(charged);
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                warn!(error = with_causes(&error), %url, "a request was not forwarded to another gateway");
                return without_response(&error).map_or(Ok(None), Err);
            }
            Err(_) => {
                warn!(%url, "another gateway has not answered in time");
                return Err(unanswered());
            }
        };
        let (head, body) = response.into_parts();
        let is_stream = head
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        let payload = if is_stream {
            Payload::Stream(parts(body, charge.clone()))
        } else {
            let whole = timeout_at(due, whole(body, charge)).await;
            Payload::Whole(whole.unwrap_or_else(|_| Err(unanswered()))?)
        };
        let mut reply = Response::new(payload);
        *reply.status_mut() = head.status;
        *reply.headers_mut() = head.headers;
        remove(reply.headers_mut(), OF_CONNECTION.iter().chain(&OF_RESPONSE));
        Ok(Some(reply))
    }
}

/// Returns the request for the other gateway; `None` if the address cannot be one.
fn addressed(to: &Uri, head: ForwardedHead, body: Bytes) -> Option<Request<Bytes>> {
    let mut uri = to.clone().into_parts();
    uri.path_and_query = head.uri.path_and_query().cloned();
    let mut request = Request::new(body);
    *request.method_mut() = head.method;
    *request.uri_mut() = Uri::from_parts(uri).ok()?;
    *request.headers_mut() = head.headers;
    remove(request.headers_mut(), OF_CONNECTION.iter());
    let own = HeaderValue::try_from(ReplicaId::current().to_string()).ok()?;
    request.headers_mut().insert(FORWARDED, own);
    Some(request)
}

fn remove<'n>(headers: &mut HeaderMap, names: impl Iterator<Item = &'n HeaderName>) {
    for name in names {
        headers.remove(name);
    }
}

/// Reads a whole response. Fails if there is no memory for it, or if it is cut off: the request has run.
async fn whole(mut body: HttpsBody, charge: &RequestCharge) -> Result<Bytes, ApiError> {
    let mut text = Vec::new();
    while let Some(part) = next(&mut body).await? {
        let len = text.len() + part.len();
        if let Err(refused) = body::make_room(&mut text, len, usize::MAX, charge) {
            return Err(refused.after_work());
        }
        text.extend_from_slice(&part);
    }
    Ok(text.into())
}

/// Returns the parts of a stream. One that is cut off ends, as it does if this gateway stops.
fn parts(body: HttpsBody, charge: RequestCharge) -> Parts {
    Box::pin(stream::unfold((body, charge), |(mut body, charge)| async move {
        let part = next(&mut body).await.ok()??;
        Some((part, (body, charge)))
    }))
}

async fn next(body: &mut HttpsBody) -> Result<Option<Bytes>, ApiError> {
    match timeout(SILENCE, body.data()).await {
        Ok(Ok(part)) => Ok(part),
        Ok(Err(error)) => {
            warn!(error = with_causes(&error), "the response of another gateway was cut off");
            Err(unanswered())
        }
        Err(_) => Err(unanswered()),
    }
}

/// Returns the error for a request that a failure has left without a response; `None` if the other gateway has ended.
///
/// A gateway that cannot be reached, because the network or a certificate has failed, may still run. If its clients
/// received the error that their calls have expired, they would make the calls again. The gateway counts as ended once its
/// announcement is old.
fn without_response(error: &HttpsError) -> Option<ApiError> {
    if !error.is_before_request() {
        return Some(unanswered());
    }
    let causes = iter::successors(error.source(), |&cause| cause.source());
    let mut causes = causes.filter_map(|cause| cause.downcast_ref::<io::Error>());
    let is_refused = causes.any(|cause| cause.kind() == io::ErrorKind::ConnectionRefused);
    (!is_refused).then(unreachable)
}

/// The request was sent, and there is no response.
fn unanswered() -> ApiError {
    let message = "the gateway that has what the request refers to has not answered; the request may have run";
    let status = StatusCode::BAD_GATEWAY;
    ApiError::from_status(status, "replica_unanswered", message).not_repeated()
}

/// The request was not sent, and another attempt may succeed.
fn unreachable() -> ApiError {
    let message = "the gateway that has what the request refers to cannot be reached; try again";
    ApiError::unavailable("replica_unreachable", message).with_header(RETRY_AFTER, 1.into())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::{ReplicaTls, trust::ReplicaClient};

    #[test]
    fn a_request_keeps_its_path_and_headers_but_for_those_of_its_connection() {
        let request = Request::delete("/mcp/web?x=1")
            .header("host", "gateway.example.com")
            .header("authorization", "Bearer t")
            .header("mcp-session-id", "s")
            .header("connection", "close, X-Filter")
            .header("x-filter", "1")
            .header("keep-alive", "timeout=5")
            .header("transfer-encoding", "chunked")
            .header("content-length", "3")
            .body(())
            .expect("a request");
        let to = Uri::from_static("http://10.0.0.7:8080");
        let sent = addressed(&to, ForwardedHead::from_request(&request), Bytes::from_static(b"{}"));
        let sent = sent.expect("addressed");
        assert_eq!(
            (sent.method(), sent.uri().to_string()),
            (&Method::DELETE, "http://10.0.0.7:8080/mcp/web?x=1".to_owned())
        );
        let names: Vec<_> = sent.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(
            names,
            ["host", "authorization", "mcp-session-id", "x-filter", FORWARDED.as_str()]
        );
        assert_eq!(sent.headers()[&FORWARDED], ReplicaId::current().to_string());
    }

    #[tokio::test]
    async fn only_a_gateway_whose_machine_refuses_connections_has_ended() {
        let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = closed.local_addr().expect("an address");
        drop(closed);
        for scheme in ["http", "https"] {
            let error = failure(&format!("{scheme}://{address}/mcp")).await;
            assert!(without_response(&error).is_none(), "{error:?}");
        }
        // A server without TLS.
        let plain = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = plain.local_addr().expect("an address");
        let accept = tokio::spawn(async move { plain.accept().await.map(drop) });
        let error = failure(&format!("https://{address}/mcp")).await;
        let status = without_response(&error).map(|error| error.status());
        assert_eq!(status, Some(StatusCode::SERVICE_UNAVAILABLE), "{error:?}");
        accept.await.expect("it ends").expect("a connection");
        let away = HttpsError::Connect(io::Error::from(io::ErrorKind::HostUnreachable).into());
        assert!(without_response(&away).is_some(), "its machine may be cut off");
    }

    /// Returns the failure of a request.
    async fn failure(url: &str) -> HttpsError {
        let url: Uri = url.parse().expect("a URL");
        let client = ReplicaClient::new(&ReplicaTls::default(), &url).expect("a client");
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = url;
        client.current().send(request).await.expect_err("there is no gateway")
    }

    #[test]
    fn a_request_over_http2_keeps_its_host() {
        let uri = Uri::from_static("http://gateway.example.com/mcp");
        let to = Uri::from_static("http://10.0.0.7:8080");
        let head = ForwardedHead::new(Method::POST, uri.clone(), HeaderMap::new());
        let sent = addressed(&to, head, Bytes::new()).expect("addressed");
        assert_eq!(
            (&sent.headers()[HOST], sent.uri().path()),
            (&"gateway.example.com".parse().expect("text"), "/mcp")
        );
        let named = HeaderMap::from_iter([(HOST, "other".parse().expect("text"))]);
        assert_eq!(ForwardedHead::new(Method::POST, uri, named).headers()[HOST], "other");
    }
}
