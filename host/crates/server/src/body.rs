//! Request bodies: JSON objects, bounded in bytes, time and memory.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Incoming};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{
    Settings,
    activity::Parking,
    connections::Seat,
    memory::{ChargeRefused, RequestCharge, tree_bytes},
    respond::{ApiError, excerpt},
    work,
};
use airlock_json::{self as json, Caps, RawObject, raw::MAX_MEMBERS};
use airlock_model::{Object, RequestMemory as _};
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

/// Maximum bytes of a form of the gateway's own pages, which have a code of 64 characters.
const MAX_FORM_BYTES: u64 = 4 << 10;

const JSON: &str = "application/json";
/// Type that `curl -d` states, whatever it sends.
const FORM: &str = "application/x-www-form-urlencoded";
/// Headers that browsers add to requests of pages, one of them at least.
const BROWSER: [&str; 3] = ["origin", "referer", super::origin::FETCH_SITE];

/// Reads and parses the body of `request`. The buffer is charged as it arrives, until the tree is
/// built, which is charged before. Fails if the content type is not JSON, if the body is too large
/// in bytes or memory or does not arrive in time, or if it is not a JSON object of at most
/// [`MAX_MEMBERS`] members.
pub(super) async fn object(
    request: Request<Incoming>,
    settings: &Settings,
    charge: &RequestCharge,
) -> Result<Object, ApiError> {
    check_type(request.headers(), is_program(request.headers()))?;
    let text = read(request, settings, charge).await?;
    let buffer = text.capacity();
    let caps = Caps::memory(tree_bytes(settings.max_body_bytes));
    let object =
        work::on_text(text, charge, move |text, charge| parse(&text, &caps, charge)).await?;
    charge.give_back(buffer);
    Ok(object)
}

/// Reads the body of `request` like [`object`], but keeps its members as text. No tree is
/// built; a text whose tree would take too much memory is refused all the same, because the API
/// of a provider may need one.
pub(super) async fn members(
    request: Request<Incoming>,
    settings: &Settings,
    charge: &RequestCharge,
) -> Result<RawObject, ApiError> {
    check_type(request.headers(), is_program(request.headers()))?;
    let text = read(request, settings, charge).await?;
    let caps = Caps::memory(tree_bytes(settings.max_body_bytes));
    work::on_text(text, charge, move |text, _| match RawObject::parse(text, &caps) {
        Ok((object, _)) => Ok(object),
        Err(error @ json::Error::TooLarge { .. }) => Err(too_dense(&error)),
        Err(error) => Err(no_object(&error)),
    })
    .await
}

/// Reads the body of `request` as a message of MCP. The body is bounded like that of other
/// requests; a text that is no message is returned as such.
pub(super) async fn message(
    request: Request<Incoming>,
    settings: &Settings,
    charge: &RequestCharge,
) -> Result<Result<Message, BadMessage>, ApiError> {
    // MCP requires the content type.
    check_type(request.headers(), false)?;
    let text = read(request, settings, charge).await?;
    let caps = Caps::memory(tree_bytes(settings.max_body_bytes));
    work::on_text(text, charge, move |text, _| Ok(Message::read(text, &caps))).await
}

/// Reads the body of `request` unparsed, of whatever type. Fails if it is too large, or does not arrive
/// in time.
pub(super) async fn bytes(
    request: Request<Incoming>,
    settings: &Settings,
    charge: &RequestCharge,
) -> Result<Vec<u8>, ApiError> {
    read(request, settings, charge).await
}

/// Reads the body of `request` as a form of at most [`MAX_FORM_BYTES`]. Fails if it is none, or is no
/// UTF-8.
pub(super) async fn form(
    request: Request<Incoming>,
    settings: &Settings,
    charge: &RequestCharge,
) -> Result<String, ApiError> {
    let content_type = request.headers().get(header::CONTENT_TYPE);
    let is_form = content_type
        .and_then(|found| found.to_str().ok())
        .is_some_and(|found| is_type(found, FORM));
    if !is_form {
        let message = format!("expected {FORM:?} in the header `Content-Type`");
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let kind = "invalid_request_error";
        return Err(ApiError::new(status, kind, "unsupported_media_type", message));
    }
    if request.body().size_hint().upper().is_none_or(|bytes| bytes > MAX_FORM_BYTES) {
        return Err(too_large(usize::try_from(MAX_FORM_BYTES).unwrap_or(usize::MAX)));
    }
    let text = read(request, settings, charge).await?;
    String::from_utf8(text).map_err(|_| ApiError::bad_request("bad_body", "the form is not UTF-8"))
}

/// Parses a list that the gateway itself has stored. The tree is charged before it is built.
pub(super) async fn list(
    text: Vec<u8>,
    settings: &Settings,
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
/// `allowed_origins` alone. `curl -d` sends JSON as a form, which is `lenient`ly accepted.
fn check_type(headers: &HeaderMap, lenient: bool) -> Result<(), ApiError> {
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let found = match (types.next().map(HeaderValue::to_str), types.next()) {
        (Some(Ok(found)), None) if is_type(found, JSON) => return Ok(()),
        (Some(Ok(found)), None) if lenient && is_type(found, FORM) => return Ok(()),
        (None, _) if lenient => return Ok(()),
        (Some(Ok(found)), None) => {
            format!("content type {:?}", excerpt(found))
        }
        (Some(Err(_)), None) => "a content type that is not text".to_owned(),
        (Some(_), Some(_)) => "more than one content type".to_owned(),
        (None, _) => "no content type".to_owned(),
    };
    let message =
        format!("found {found}, expected \"application/json\" in the header `Content-Type`");
    Err(ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "invalid_request_error",
        "unsupported_media_type",
        message,
    ))
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
pub(super) async fn discard<B: Body + Unpin>(request: Request<B>) {
    let _parked = Seat::from_request(&request).map(|seat| seat.park(Parking::Reading));
    let mut body = request.into_body();
    if body.is_end_stream() || body.size_hint().upper().is_none_or(|bytes| bytes > MAX_DISCARDED) {
        return;
    }
    let reading = async { while let Some(Ok(_)) = body.frame().await {} };
    // A body that is late is not waited for.
    let _ = tokio::time::timeout(DISCARD_TIME, reading).await;
}

/// Reads a body. Meanwhile its connection may be evicted. Fails if the body does not arrive at
/// [`LEAST_RATE`], or takes longer than `read_timeout`.
async fn read(
    request: Request<Incoming>,
    settings: &Settings,
    charge: &RequestCharge,
) -> Result<Vec<u8>, ApiError> {
    let limit = settings.max_body_bytes;
    let announced = usize::try_from(request.body().size_hint().lower()).unwrap_or(usize::MAX);
    // An announced length above the limit is refused before any byte is read.
    if announced > limit {
        return Err(too_large(limit));
    }
    let _parked = Seat::from_request(&request).map(|seat| seat.park(Parking::Reading));
    let mut body = request.into_body();
    let mut text = Vec::new();
    let begun = Instant::now();
    loop {
        let due = begun + settings.read_timeout.min(time_for(text.len()));
        let frame = timeout_at(due, body.frame()).await.map_err(|_| too_slow())?;
        let Some(frame) = frame else { return Ok(text) };
        let frame = frame.map_err(|_| {
            ApiError::bad_request(
                "bad_body",
                "the connection ended before the whole request body arrived",
            )
        })?;
        let Ok(data) = frame.into_data() else { continue };
        let len = text.len().saturating_add(data.len());
        if len > limit {
            return Err(too_large(limit));
        }
        make_room(&mut text, len, if announced > 0 { announced } else { limit }, charge)?;
        text.extend_from_slice(&data);
    }
}

/// Returns the time within which more than `len` bytes must have arrived.
fn time_for(len: usize) -> Duration {
    GRACE + Duration::from_millis(1_000 * len as u64 / LEAST_RATE)
}

/// Lets `text` grow to `len` bytes, by doubling up to `most`. Only allocated bytes are charged: an
/// announced length costs its sender nothing, so it must not reserve memory that other callers
/// need.
pub(super) fn make_room(
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
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "invalid_request_error",
        "request_too_large",
        message,
    )
}

fn too_dense_when_stored(error: &json::Error) -> ApiError {
    let message = format!("the stored items cannot be read: the list {error}");
    ApiError::bad_request("context_length_exceeded", message)
}

fn too_large(limit: usize) -> ApiError {
    let message = format!("the request body is larger than the {limit} bytes of `server.max_body`");
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "invalid_request_error",
        "request_too_large",
        message,
    )
}

fn too_slow() -> ApiError {
    let message = "the request body did not arrive in time";
    let error = ApiError::new(
        StatusCode::REQUEST_TIMEOUT,
        "invalid_request_error",
        "request_timeout",
        message,
    );
    error.with_header(header::CONNECTION, HeaderValue::from_static("close"))
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        pin::Pin,
        sync::Arc,
        task::{Context, Poll},
    };

    use bytes::Bytes;
    use futures_util::FutureExt as _;
    use hyper::body::{Frame, SizeHint};

    use super::*;
    use crate::{
        activity::EvictionRank,
        connections::Connections,
        memory::{Memory, REQUEST_BYTES, least_for_body},
        peer::Peer,
    };
    use airlock_core::tenant::Tenant;

    /// Checks these content types in a request that has the header `by` too, if it is not empty.
    fn sent_as(types: &[&'static str], by: &'static str) -> Result<(), ApiError> {
        let types = types
            .iter()
            .map(|content_type| (header::CONTENT_TYPE, HeaderValue::from_static(content_type)));
        let by = (!by.is_empty())
            .then(|| (header::HeaderName::from_static(by), HeaderValue::from_static("x")));
        let mut headers = HeaderMap::new();
        for (name, value) in types.chain(by) {
            headers.append(name, value);
        }
        check_type(&headers, is_program(&headers))
    }

    fn charge(memory: &Arc<Memory>) -> RequestCharge {
        memory.open(Tenant::ANONYMOUS, &HeaderMap::new()).expect("there is room")
    }

    #[test]
    fn only_a_body_with_one_json_content_type_is_accepted() {
        for good in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json ;x=y",
        ] {
            assert!(sent_as(&[good], "").is_ok() && sent_as(&[good], "origin").is_ok(), "{good}");
        }
        for bad in [
            &["text/plain"][..],
            &["text/plain; application/json"],
            &["application/jsonp"],
            &["multipart/form-data"],
            &["application/json", "text/plain"],
            &[""],
        ] {
            let reply = sent_as(bad, "").expect_err("it is no JSON").into_reply();
            assert_eq!(reply.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{bad:?}");
        }
    }

    #[test]
    fn a_body_without_a_type_or_as_a_form_is_accepted_from_programs_and_not_from_browsers() {
        for types in [&[][..], &[FORM], &["application/x-www-form-urlencoded; charset=utf-8"]] {
            assert!(sent_as(types, "").is_ok(), "{types:?}");
            for by in BROWSER {
                assert!(sent_as(types, by).is_err(), "{types:?} with {by}");
            }
        }
    }

    #[test]
    fn a_body_has_a_grace_and_then_the_time_for_its_bytes() {
        assert_eq!(time_for(0), GRACE);
        assert_eq!(time_for(100 * 4096), GRACE + Duration::from_secs(100));
    }

    #[test]
    fn a_buffer_doubles_up_to_the_announced_length() {
        let memory = Memory::new(1 << 20);
        let charge = charge(&memory);
        let mut text = Vec::new();
        let mut capacities = Vec::new();
        for len in [10, 11, 20, 21, 40, 50, 60] {
            make_room(&mut text, len, 50, &charge).expect("there is room");
            text.resize(len, b' ');
            capacities.push(text.capacity());
        }
        assert_eq!(capacities, [10, 20, 20, 40, 40, 50, 60]);
        assert!(make_room(&mut text, 1 << 20, 1 << 20, &charge).is_err());
    }

    #[test]
    fn a_tree_is_charged_before_it_is_built() {
        let text = format!(r#"{{"a":[{}0]}}"#, r#"{"":0},"#.repeat(1_000));
        let memory = Memory::new(1 << 20);
        let small = charge(&memory);
        small.grow((512 << 10) - REQUEST_BYTES - 100_000).expect("there is room");
        let caps = Caps::memory(1 << 20);
        assert_eq!(status(parse(text.as_bytes(), &caps, &small)), StatusCode::TOO_MANY_REQUESTS);
        drop(small);
        assert_eq!(status(parse(text.as_bytes(), &caps, &charge(&memory))), StatusCode::OK);
        assert_eq!(
            status(parse(text.as_bytes(), &Caps::memory(100_000), &charge(&memory))),
            StatusCode::PAYLOAD_TOO_LARGE
        );
        assert_eq!(status(parse(b"[]", &caps, &charge(&memory))), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn an_object_has_a_bounded_number_of_members() {
        let memory = Memory::new(1 << 20);
        let caps = Caps::memory(1 << 20);
        for (count, expected) in
            [(MAX_MEMBERS, StatusCode::OK), (MAX_MEMBERS + 1, StatusCode::BAD_REQUEST)]
        {
            let members: Vec<_> = (0..count).map(|n| format!("\"{n}\":0")).collect();
            let text = format!("{{{}}}", members.join(","));
            let result = parse(text.as_bytes(), &caps, &charge(&memory));
            assert_eq!(status(result), expected, "{count}");
        }
    }

    fn status(result: Result<Object, ApiError>) -> StatusCode {
        result.map_or_else(|error| error.into_reply().status(), |_| StatusCode::OK)
    }

    #[test]
    fn the_smallest_budget_holds_a_body_of_the_largest_size() {
        let body = 1 << 20;
        let head = 8 << 10;
        let memory = Memory::new(least_for_body(body, head));
        let charge = charge(&memory);
        charge.grow(head + body + tree_bytes(body)).expect("there is room");
        assert!(charge.grow(1).is_err());
    }

    /// A body of 5 bytes that never arrives.
    struct StalledBody;

    impl Body for StalledBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(5)
        }
    }

    #[tokio::test]
    async fn a_connection_may_be_evicted_while_the_body_of_a_refused_request_arrives() {
        let slot = Connections::new(1, 1).admit(Peer::new(None)).expect("there is room");
        let _running = slot.activity.begin();
        let mut request = Request::new(StalledBody);
        request.extensions_mut().insert(slot.seats().seat());
        let mut discarding = std::pin::pin!(discard(request));
        assert!(discarding.as_mut().now_or_never().is_none(), "the body does not arrive");
        assert!(matches!(slot.activity.rank(), Some(EvictionRank::Reading(_))));
    }
}
