use proptest::{collection::vec, prelude::any, proptest};
use serde_json::Value;

use super::*;

const LIMIT: usize = 4 << 10;

/// Returns a message with headers of type string.
pub(crate) fn message(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (name, value) in headers {
        encoded.push(u8::try_from(name.len()).expect("a short name"));
        encoded.extend_from_slice(name.as_bytes());
        encoded.push(7);
        encoded.extend_from_slice(&u16::try_from(value.len()).expect("short").to_be_bytes());
        encoded.extend_from_slice(value.as_bytes());
    }
    framed(&encoded, payload)
}

fn framed(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| u32::try_from(bytes).expect("short").to_be_bytes();
    let whole = PRELUDE_BYTES + headers.len() + payload.len() + CHECKSUM_BYTES;
    let mut message = [length(whole), length(headers.len())].concat();
    message.extend_from_slice(&crc32fast::hash(&message).to_be_bytes());
    message.extend_from_slice(headers);
    message.extend_from_slice(payload);
    message.extend_from_slice(&crc32fast::hash(&message).to_be_bytes());
    message
}

/// Returns the message of an event of the model.
pub(crate) fn chunk(data: &str) -> Vec<u8> {
    let payload = json!({"bytes": STANDARD.encode(data), "p": "abcdefgh"}).to_string();
    let headers = [
        (":event-type", "chunk"),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ];
    message(&headers, payload.as_bytes())
}

fn exception(kind: &str, payload: &str) -> Vec<u8> {
    let headers = [(":exception-type", kind), (":message-type", "exception")];
    message(&headers, payload.as_bytes())
}

/// Decodes pieces of a stream. Returns the data of its events, and the error at its end.
fn decode(pieces: &[&[u8]]) -> (Vec<String>, Option<&'static str>) {
    let mut decoder = AwsDecoder::new(LIMIT);
    let mut events = Vec::new();
    for piece in pieces {
        let mut bytes = *piece;
        while let Some(event) = decoder.next(&mut bytes) {
            match event {
                Ok(event) => events.push(String::from_utf8(event.data).expect("text")),
                Err(what) => return (events, Some(what)),
            }
        }
        assert!(bytes.is_empty());
    }
    (events, None)
}

/// Messages of the suite that AWS's SDKs have in common, without a type of their own.
const EMPTY: &[u8] = &[0, 0, 0, 16, 0, 0, 0, 0, 5, 194, 72, 235, 125, 152, 200, 255];
const ALL_HEADERS: &[u8] = b"\0\0\0\xcc\0\0\0\xaf\x0f\xaed\xca\nevent-type\x04\0\0\xa0\x0c\x0ccontent-type\x07\0\x10application/json\nbool false\x01\tbool true\0\x04byte\x02\xcf\x08byte buf\x06\0\x14I'm a little teapot!\ttimestamp\x08\0\0\0\0\0\x84_\xed\x05int16\x03\0*\x05int64\x05\0\0\0\0\x02\x87W\xb2\x04uuid\t\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f\x10{'foo':'bar'}\xab\xa5\xf1\x0c";
const ONE_HEADER: &[u8] = b"\0\0\0=\0\0\0 \x07\xfd\x83\x96\x0ccontent-type\x07\0\x10application/json{'foo':'bar'}\x8d\x9c\x08\xb1";

#[test]
fn the_published_messages_are_framed_and_their_headers_read() {
    for bytes in [EMPTY, ALL_HEADERS, ONE_HEADER] {
        let mut decoder = AwsDecoder::new(LIMIT);
        decoder.message = bytes.to_vec();
        assert_eq!(decoder.length(), Ok(bytes.len()));
        let headers = &bytes[PRELUDE_BYTES..][..number(&bytes[4..8]) as usize];
        assert!(MessageHeaders::read(headers).is_some());
        // They are no messages of Bedrock.
        assert_eq!(read(bytes), Err(BROKEN));
    }
    assert_eq!(framed(&[], &[]), EMPTY);
    assert_eq!(message(&[("content-type", "application/json")], b"{'foo':'bar'}"), ONE_HEADER);
}

#[test]
fn the_published_corrupt_messages_are_refused() {
    let changed = |at: usize, byte: u8| {
        let mut bytes = ONE_HEADER.to_vec();
        bytes[at] = byte;
        bytes
    };
    // The payload, the length of the headers, and the length of the message.
    for bytes in [changed(45, b'a'), changed(7, 33), changed(3, 62)] {
        assert_eq!(decode(&[&bytes]), (vec![], Some(BROKEN)));
    }
}

#[test]
fn events_are_found_however_the_stream_is_cut() {
    let other = [(":message-type", "event"), (":event-type", "other")];
    let stream = [chunk("{\"a\":1}"), message(&other, b"x"), chunk("{}"), chunk("")].concat();
    let expected = (vec!["{\"a\":1}".to_owned(), "{}".to_owned(), String::new()], None);
    for size in [1, 2, 7, 50, stream.len()] {
        let pieces: Vec<_> = stream.chunks(size).collect();
        assert_eq!(decode(&pieces), expected, "pieces of {size}");
    }
    // A message that is cut off is no event.
    for end in 0..stream.len() {
        let (events, error) = decode(&[&stream[..end]]);
        assert!(error.is_none() && expected.0.starts_with(&events), "{end}");
    }
}

#[test]
fn an_exception_is_an_error_event() {
    for (kind, payload, expected) in [
        ("throttlingException", r#"{"message":"slow"}"#, ("rate_limit_error", "slow")),
        ("validationException", r#"{"message":"bad"}"#, ("invalid_request_error", "bad")),
        ("serviceUnavailableException", "", ("overloaded_error", "serviceUnavailableException")),
        ("modelTimeoutException", r#"{"Message":"late"}"#, ("timeout_error", "late")),
        (
            "modelStreamErrorException",
            r#"{"originalStatusCode":1}"#,
            ("api_error", "modelStreamErrorException"),
        ),
    ] {
        let (events, error) = decode(&[&exception(kind, payload)]);
        assert_eq!(error, None);
        let event: Value = events[0].parse().expect("JSON");
        assert_eq!(event["type"], "error");
        assert_eq!(
            (event["error"]["type"].as_str(), event["error"]["message"].as_str()),
            (Some(expected.0), Some(expected.1))
        );
    }
    let headers = [(":message-type", "error"), (":error-code", "x"), (":error-message", "m")];
    let (events, _) = decode(&[&message(&headers, b"")]);
    assert!(events[0].contains("\"message\":\"m\""), "{events:?}");
}

#[test]
fn a_message_beyond_the_limits_is_refused_before_it_is_read() {
    let fits = chunk(&"x".repeat(2_900));
    assert!(fits.len() <= LIMIT);
    assert_eq!(decode(&[&fits]).1, None);
    let large = chunk(&"x".repeat(3_100));
    assert!(large.len() > LIMIT);
    assert_eq!(decode(&[&large[..PRELUDE_BYTES]]), (vec![], Some(TOO_LARGE)));
    let prelude = |length: u32, headers: u32| {
        let mut prelude = [length.to_be_bytes(), headers.to_be_bytes()].concat();
        prelude.extend_from_slice(&crc32fast::hash(&prelude).to_be_bytes());
        prelude
    };
    for (length, headers) in [(0, 0), (15, 0), (16, 1), (100, u32::MAX)] {
        assert_eq!(decode(&[&prelude(length, headers)]), (vec![], Some(BROKEN)), "{length}");
    }
}

#[test]
fn broken_headers_and_payloads_are_refused() {
    for headers in [
        b"\x05abc".as_slice(),
        b"\x01a",
        b"\x01a\x0a",
        b"\x01a\x07\x00",
        b"\x01a\x07\x00\x02x",
        b"\x0d:message-type\x04\0\0\0\0",
        b"\x0d:message-type\x07\0\x01\xff",
        b"\x0d:message-type\x07\0\x01x",
    ] {
        assert_eq!(decode(&[&framed(headers, b"{}")]), (vec![], Some(BROKEN)), "{headers:?}");
    }
    let headers = [(":message-type", "event"), (":event-type", "chunk")];
    for payload in ["", "{}", "{\"bytes\":1}", "{\"bytes\":\"?\"}", "{\"bytes\":\"YQ\"}"] {
        let (events, error) = decode(&[&message(&headers, payload.as_bytes())]);
        assert!(events.is_empty() && error.is_some(), "{payload}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..200), headers in vec(any::<u8>(), 0..100)) {
        decode(&[&bytes]);
        decode(&[&framed(&headers, &bytes)]);
    }
}
