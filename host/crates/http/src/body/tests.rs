use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use hyper::body::{Body, Frame, SizeHint};

use super::*;
use crate::memory::least_for_body;
use airlock_core::{
    request_memory::{Memory, REQUEST_BYTES},
    tenant::Tenant,
};
use airlock_ingress::{Connections, EvictionRank, Peer};

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
    check_type(&headers, is_program)
}

fn charge(memory: &Arc<Memory>) -> RequestCharge {
    memory.open(Tenant::ANONYMOUS, 0).expect("there is room")
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
    assert_eq!(time_at(COMPONENT_RATE, 64 << 20), Duration::from_secs(256));
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

/// Returns whether a form of this text is read.
async fn is_form_read(text: String) -> bool {
    let memory = Memory::new(least_for_body(1 << 20, 8 << 10));
    let settings = BodySettings { max_body_bytes: 1 << 20, read_timeout: Duration::from_secs(5) };
    let body = RequestBody::passed_on(http_body_util::Full::new(Bytes::from(text)));
    let mut request = Request::new(body);
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(FORM));
    form(request, settings, &charge(&memory)).await.is_ok()
}

#[tokio::test]
async fn a_form_may_have_eight_percent_encoded_values_of_4_kib_and_no_more_than_its_limit() {
    let value = "%7E".repeat(4 << 10);
    let fields: Vec<_> = (0..8).map(|number| format!("header-x-key-{number}={value}")).collect();
    assert!(is_form_read(fields.join("&")).await);
    let most = usize::try_from(MAX_FORM_BYTES).expect("a small number");
    for (length, is_read) in [(most, true), (most + 1, false)] {
        assert_eq!(is_form_read("x".repeat(length)).await, is_read, "{length}");
    }
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
    let body = RequestBody::passed_on(StalledBody).with_seat(slot.seats().seat());
    let request = Request::new(body);
    let mut discarding = std::pin::pin!(discard(request));
    assert!(discarding.as_mut().now_or_never().is_none(), "the body does not arrive");
    assert!(matches!(slot.activity.rank(), Some(EvictionRank::Reading(_))));
}
