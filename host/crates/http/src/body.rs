//! Request bodies: JSON objects, bounded in bytes, time and memory.

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Frame};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{
    browser::FETCH_SITE,
    memory::tree_bytes,
    respond::{ApiError, excerpt},
    work,
};
use airlock_conversation::Object;
use airlock_core::{
    memory::RequestMemory as _,
    request_memory::{ChargeRefused, RequestCharge},
};
use airlock_ingress::{BodyError, ParkedRequest, Parking, RequestBody};
use airlock_json::{self as json, Caps, RawObject, raw::MAX_MEMBERS};
use airlock_wire::message::{BadMessage, Message};

/// Time that a body may take besides the time for its bytes at [`LEAST_RATE`].
const GRACE: Duration = Duration::from_secs(5);
/// Maximum bytes of a body that is read although its request is refused: about as many as a socket
/// buffers. A larger one costs its sender less than its reader.
const MAX_DISCARDED: u64 = 64 << 10;
/// Time for the body of a refused request to arrive.
const DISCARD_TIME: Duration = Duration::from_millis(500);
/// Minimum rate at which a body must arrive, in bytes per second, measured from its beginning. A
/// body that trickles keeps a connection, and 1,024 of them took all connections for the whole
/// `read_timeout`.
const LEAST_RATE: u64 = 4 << 10;

/// Rate at which a component arrives in time, whatever `read_timeout` is, in bytes per second.
const COMPONENT_RATE: u64 = 256 << 10;

/// Maximum bytes of a form of the gateway's own pages. The values of 8 headers fit, each of 4 KiB: percent-encoded, a
/// byte takes three, so they take 96 KiB, and their names the rest.
const MAX_FORM_BYTES: u64 = 128 << 10;

const JSON: &str = "application/json";
/// Type of components.
const WASM: &str = "application/wasm";
/// Type that `curl -d` states, whatever it sends.
const FORM: &str = "application/x-www-form-urlencoded";
/// Headers that browsers add to requests of pages, one of them at least.
const BROWSER: [&str; 3] = ["origin", "referer", FETCH_SITE];

/// Bounds on the bodies of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodySettings {
    /// Largest body.
    pub max_body_bytes: usize,
    /// Time for a body to arrive.
    pub read_timeout: Duration,
}

/// Reads and parses the body of `request`. The buffer is charged as it arrives, until the tree is
/// built, which is charged before. Fails if the content type is not JSON, if the body is too large
/// in bytes or memory or does not arrive in time, or if it is not a JSON object of at most
/// [`MAX_MEMBERS`] members.
pub async fn object(
    request: Request<RequestBody>,
    settings: BodySettings,
    charge: &RequestCharge,
) -> Result<Object, ApiError> {
    check_type(request.headers(), is_program)?;
    let text = bytes(request, settings, charge).await?;
    let buffer = text.capacity();
    let caps = Caps::memory(tree_bytes(settings.max_body_bytes));
    let object =
        work::on_text(text, charge, move |text, charge| parse(&text, &caps, charge)).await?;
    charge.give_back(buffer);
    Ok(object)
}

/// Reads the document of a body. Fails if it has another form.
pub fn parsed<T: DeserializeOwned>(body: Value) -> Result<T, ApiError> {
    serde_json::from_value(body).map_err(|error| {
        ApiError::bad_request("invalid_json", format!("Invalid request format: {error}"))
    })
}

/// Reads the body of `request` like [`object`], but keeps its members as text. No tree is
/// built; a text whose tree would take too much memory is refused all the same, because the API
/// of a provider may need one.
pub async fn members(
    request: Request<RequestBody>,
    settings: BodySettings,
    charge: &RequestCharge,
) -> Result<RawObject, ApiError> {
    check_type(request.headers(), is_program)?;
    let text = bytes(request, settings, charge).await?;
    let caps = Caps::memory(tree_bytes(settings.max_body_bytes));
    work::on_text(text, charge, move |text, _| match RawObject::parse(text, &caps) {
        Ok((object, _)) => Ok(object),
        Err(error @ json::Error::TooLarge { .. }) => Err(too_dense(&error)),
        Err(error) => Err(no_object(&error)),
    })
    .await
}

/// Reads the body of `request` as a message of MCP. `headers` are those of the request. The body is bounded
/// like that of other requests; a text that is no message is returned as such.
pub async fn message(
    headers: &HeaderMap,
    request: Request<RequestBody>,
    settings: BodySettings,
    charge: &RequestCharge,
) -> Result<Result<Message, BadMessage>, ApiError> {
    // MCP requires the content type.
    check_type(headers, |_| false)?;
    let text = bytes(request, settings, charge).await?;
    let caps = Caps::memory(tree_bytes(settings.max_body_bytes));
    work::on_text(text, charge, move |text, _| Ok(Message::read(text, &caps))).await
}

/// Reads the body of `request` unparsed, of whatever type. Meanwhile its connection may be evicted. Fails if it
/// is too large, arrives too slowly, or takes longer than `read_timeout`.
pub fn bytes(
    request: Request<RequestBody>,
    settings: BodySettings,
    charge: &RequestCharge,
) -> impl Future<Output = Result<Vec<u8>, ApiError>> {
    let limit = BodyLimit {
        bytes: settings.max_body_bytes,
        name: "`server.max_body`",
        time: settings.read_timeout,
    };
    // No `async` block, which would have room for the request twice.
    read_up_to(limit, request, charge)
}

/// Reads the body of `request` as a component of a plugin, of at most `max_bytes`. Fails if its type is not that
/// of components, which a page of another origin cannot send without a preflight request; if it is too large,
/// or does not arrive in time.
pub async fn component(
    request: Request<RequestBody>,
    max_bytes: usize,
    settings: BodySettings,
    charge: &RequestCharge,
) -> Result<Vec<u8>, ApiError> {
    let mut types = request.headers().get_all(header::CONTENT_TYPE).iter();
    let is_component = match (types.next().map(HeaderValue::to_str), types.next()) {
        (Some(Ok(found)), None) => is_type(found, WASM),
        _ => false,
    };
    if !is_component {
        return Err(wrong_type(&format!(
            "expected {WASM:?} in the header `Content-Type`, and a component as the body"
        )));
    }
    let bytes = request.body().size_hint().lower();
    let limit = BodyLimit {
        bytes: max_bytes,
        name: "a component",
        time: settings.read_timeout.max(GRACE + time_at(COMPONENT_RATE, bytes)),
    };
    read_up_to(limit, request, charge).await
}

/// Reads the body of `request` as a form of at most [`MAX_FORM_BYTES`]. Fails if it is none, or is no
/// UTF-8.
pub async fn form(
    request: Request<RequestBody>,
    settings: BodySettings,
    charge: &RequestCharge,
) -> Result<String, ApiError> {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let is_form = content_type
        .and_then(|found| found.to_str().ok())
        .is_some_and(|found| is_type(found, FORM));
    if !is_form {
        return Err(wrong_type(&format!("expected {FORM:?} in the header `Content-Type`")));
    }
    if request.body().size_hint().upper().is_none_or(|bytes| bytes > MAX_FORM_BYTES) {
        return Err(too_large(usize::try_from(MAX_FORM_BYTES).unwrap_or(usize::MAX), "a form"));
    }
    let text = bytes(request, settings, charge).await?;
    String::from_utf8(text).map_err(|_| ApiError::bad_request("bad_body", "the form is not UTF-8"))
}

/// Parses a list that the gateway itself has stored. The tree is charged before it is built.
pub async fn list(
    text: Vec<u8>,
    settings: BodySettings,
    charge: &RequestCharge,
) -> Result<Vec<Value>, ApiError> {
    let caps = Caps::memory(tree_bytes(settings.max_body_bytes));
    work::on_text(text, charge, move |text, charge| {
        let cost = json::check(&text, &caps).map_err(|error| too_dense_when_stored(&error))?;
        charge.grow(cost.tree_bytes)?;
        serde_json::from_slice(&text).map_err(|_| ApiError::internal())
    })
    .await
}

/// Fails if the body is not sent as JSON. A page of another origin can send text and forms without
/// a preflight request. JSON needs a CORS preflight, which the gateway approves for
/// `allowed_origins` alone. `curl -d` sends JSON as a form, which is accepted if the headers are `lenient`.
fn check_type(headers: &HeaderMap, lenient: fn(&HeaderMap) -> bool) -> Result<(), ApiError> {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let found = match (types.next().map(HeaderValue::to_str), types.next()) {
        (Some(Ok(found)), None) if is_type(found, JSON) => return Ok(()),
        (Some(Ok(found)), None) if is_type(found, FORM) && lenient(headers) => return Ok(()),
        (None, _) if lenient(headers) => return Ok(()),
        (Some(Ok(found)), None) => {
            format!("content type {:?}", excerpt(found))
        }
        (Some(Err(_)), None) => "a content type that is not text".to_owned(),
        (Some(_), Some(_)) => "more than one content type".to_owned(),
        (None, _) => "no content type".to_owned(),
    };
    let message =
        format!("found {found}, expected \"application/json\" in the header `Content-Type`");
    Err(wrong_type(&message))
}

fn wrong_type(message: &str) -> ApiError {
    ApiError::from_status(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
}

/// Returns whether a request has none of the headers that browsers add.
fn is_program(headers: &HeaderMap) -> bool {
    !BROWSER.iter().any(|name| headers.contains_key(*name))
}

/// Returns whether a content type is this one, with any parameters.
fn is_type(found: &str, expected: &str) -> bool {
    found.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case(expected))
}

/// Reads the body of a request that is refused by its head, if it is small and arrives soon. A
/// connection that is closed with an unread body is reset, and the reset can overtake the response.
/// Meanwhile the connection may be evicted.
pub async fn discard(request: Request<RequestBody>) {
    let mut body = request.into_body();
    let _parked = body.seat().map(|seat| seat.park(Parking::Reading));
    if body.is_end_stream() || body.size_hint().upper().is_none_or(|bytes| bytes > MAX_DISCARDED) {
        return;
    }
    let reading = async { while let Some(Ok(_)) = body.frame().await {} };
    // A body that is late is not waited for.
    let _ = tokio::time::timeout(DISCARD_TIME, reading).await;
}

/// Limits of a body.
#[derive(Debug, Clone, Copy)]
struct BodyLimit {
    bytes: usize,
    /// Name of the limit of bytes, for its error.
    name: &'static str,
    /// Time for the whole body.
    time: Duration,
}

async fn read_up_to(
    limit: BodyLimit,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Vec<u8>, ApiError> {
    let BodyLimit { bytes: limit, name, time } = limit;
    let announced = usize::try_from(request.body().size_hint().lower()).unwrap_or(usize::MAX);
    // An announced length above the limit is refused before any byte is read.
    if announced > limit {
        return Err(too_large(limit, name));
    }
    let mut body = request.into_body();
    let mut text = Vec::new();
    let mut wait = None;
    loop {
        // Most bodies come with their heads, and are not waited for.
        let frame = match arrived(&mut body).await {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                let wait = wait.get_or_insert_with(|| BodyWait::begin(&body));
                let due = wait.begun + time.min(time_for(text.len()));
                timeout_at(due, body.frame()).await.map_err(|_| too_slow())?
            }
        };
        let Some(frame) = frame else { return Ok(text) };
        let frame = frame.map_err(|_| {
            ApiError::bad_request(
                "bad_body",
                "the connection ended before the whole request body arrived",
            )
        })?;
        let Ok(data) = frame.into_data() else { continue };
        body.note_received(data.len());
        let len = text.len().saturating_add(data.len());
        if len > limit {
            return Err(too_large(limit, name));
        }
        make_room(&mut text, len, if announced > 0 { announced } else { limit }, charge)?;
        text.extend_from_slice(&data);
    }
}

/// Polls a body once.
async fn arrived(body: &mut RequestBody) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *body).poll_frame(context))).await
}

/// A wait for parts of a body. Meanwhile its connection may be evicted.
struct BodyWait {
    begun: Instant,
    _parked: Option<ParkedRequest>,
}

impl BodyWait {
    fn begin(body: &RequestBody) -> Self {
        let parked = body.seat().map(|seat| seat.park(Parking::Reading));
        Self { begun: Instant::now(), _parked: parked }
    }
}

/// Returns the time within which more than `len` bytes must have arrived.
fn time_for(len: usize) -> Duration {
    GRACE + time_at(LEAST_RATE, len as u64)
}

/// Returns the time for so many bytes at a rate, in bytes per second.
fn time_at(rate: u64, bytes: u64) -> Duration {
    Duration::from_millis(bytes.saturating_mul(1_000) / rate)
}

/// Lets `text` grow to `len` bytes, by doubling up to `most`. Only allocated bytes are charged: an
/// announced length costs its sender nothing, so it must not reserve memory that other callers
/// need.
pub fn make_room(
    text: &mut Vec<u8>,
    len: usize,
    most: usize,
    charge: &RequestCharge,
) -> Result<(), ChargeRefused> {
    let capacity = text.capacity();
    if len > capacity {
        let wanted = len.max(capacity.saturating_mul(2).min(most));
        charge.grow(wanted - capacity)?;
        text.reserve_exact(wanted - text.len());
    }
    Ok(())
}

fn parse(text: &[u8], caps: &Caps, charge: &RequestCharge) -> Result<Object, ApiError> {
    let cost = match json::check(text, caps) {
        Ok(cost) => cost,
        Err(error @ json::Error::TooLarge { .. }) => return Err(too_dense(&error)),
        // Parsed only for the error with line and column. The text is within the caps.
        Err(_) => {
            return json::parse(text, caps)
                .map(|(object, _)| object)
                .map_err(|error| no_object(&error));
        }
    };
    charge.grow(cost.tree_bytes)?;
    let object: Object = serde_json::from_slice(text).map_err(|error| no_object(&error))?;
    if object.len() > MAX_MEMBERS {
        return Err(no_object(&json::Error::TooManyMembers { limit: MAX_MEMBERS }));
    }
    Ok(object)
}

fn no_object(error: &dyn std::error::Error) -> ApiError {
    ApiError::bad_request("invalid_json", format!("the request body is not a JSON object: {error}"))
}

fn too_dense(error: &json::Error) -> ApiError {
    let message = format!("the request body {error}");
    ApiError::from_status(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
}

fn too_dense_when_stored(error: &json::Error) -> ApiError {
    let message = format!("the stored items cannot be read: the list {error}");
    ApiError::bad_request("context_length_exceeded", message)
}

fn too_large(limit: usize, name: &str) -> ApiError {
    let message = format!("the request body is larger than {limit} bytes, the limit of {name}");
    ApiError::from_status(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
}

fn too_slow() -> ApiError {
    let message = "the request body did not arrive in time";
    let error = ApiError::from_status(StatusCode::REQUEST_TIMEOUT, "request_timeout", message);
    error.with_header(header::CONNECTION, HeaderValue::from_static("close"))
}

#[cfg(test)]
mod tests;
