//! CORS for the pages of `allowed_origins` (WHATWG Fetch standard, section 3.2). Pages of all other
//! origins are refused before, and so are orders of the operator.

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};

use super::{Settings, origin::is_listed};
use airlock_http::respond::Reply;
use airlock_ingress::Payload;

/// Maximum time for which a browser keeps the response to a preflight request, in seconds. A change of
/// `allowed_origins` takes effect after it; Firefox and Chromium permit more.
const MAX_AGE: &str = "600";
/// Headers of responses that pages may read.
const EXPOSED: &str = "mcp-session-id, request-id, retry-after, www-authenticate, x-airlock-cost-usd-micros, x-airlock-dropped-tools, x-airlock-provider, x-request-id";
/// A server on a private network may be asked by a page of a public one.
const PRIVATE: &str = "access-control-allow-private-network";
const ASKS_FOR_PRIVATE: &str = "access-control-request-private-network";

/// Returns the origin of the page that sends a request, if the operator permits it.
pub(super) fn origin(settings: &Settings, headers: &HeaderMap) -> Option<HeaderValue> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let origin = origins.next().filter(|origin| is_listed(settings, origin))?;
    origins.next().is_none().then(|| origin.clone())
}

/// Returns whether a request asks whether a page may send another one.
pub(super) fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Permits a page to send requests with these methods, and with the headers that it names.
pub(super) fn preflight(methods: &[Method], headers: &HeaderMap) -> Reply {
    let mut reply = Response::new(Payload::Whole(bytes::Bytes::new()));
    *reply.status_mut() = StatusCode::NO_CONTENT;
    let out = reply.headers_mut();
    let methods = methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
    let methods = HeaderValue::try_from(methods).expect("method names are header text");
    out.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    out.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE));
    if let Some(wanted) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        out.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    if headers.get(ASKS_FOR_PRIVATE).is_some_and(|asks| asks == "true") {
        out.insert(PRIVATE, HeaderValue::from_static("true"));
    }
    reply
}

/// Permits the page of this origin to read a response.
pub(super) fn permit(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let exposed = HeaderValue::from_static(EXPOSED);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}
