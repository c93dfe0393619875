use proptest::{collection, prelude::*};

use super::*;

/// Maximum data of an event in these tests, in bytes.
const LIMIT: usize = 1_000;
const DIALECTS: [Dialect; 2] = [Dialect::Mcp, Dialect::Model];

/// Decodes a stream that arrives in these pieces.
fn decode<'a>(
    dialect: Dialect,
    limit: usize,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<Item> {
    let mut decoder = SseDecoder::new(dialect, limit);
    let mut items = Vec::new();
    for mut piece in pieces {
        while let Some(item) = decoder.next(&mut piece) {
            items.push(item);
        }
        assert!(piece.is_empty(), "everything is read");
    }
    if dialect == Dialect::Model {
        items.extend(decoder.finish());
    }
    items
}

fn data(dialect: Dialect, text: &str) -> Vec<String> {
    let items = decode(dialect, LIMIT, [text.as_bytes()]).into_iter();
    let data = items.map(|item| match item {
        Item::Event(event) => String::from_utf8(event.data).expect("UTF-8"),
        Item::TooLong { answered } => format!("too long: {answered:?}"),
    });
    data.collect()
}

#[test]
fn events_are_read_however_their_lines_are_written() {
    for (text, expected) in [
        ("data: a\n\ndata: b\n\n", &["a", "b"][..]),
        ("data:a\r\n\r\ndata: b\r\rdata:  c\n\r\n", &["a", "b", " c"]),
        ("\u{feff}data: a\n\n", &["a"]),
        (": ping\n\n:\n\ndata: a\n: x\n\n", &["a"]),
        ("id: 1\nretry: x\nodd\nevent: e\nevent: f\ndata: a\n\n", &["a"]),
        ("data: a\ndata: b\ndata\n\n", &["a\nb\n"]),
        ("data: a\r\ndata: b\r\n\r\n", &["a\nb"]),
        ("data: a\n\u{feff}data: b\n\n", &["a"]),
        ("data\n\n", &[""]),
        ("event: e\n\n\n\nretry: x\n\n", &[]),
        ("data: é\u{fffd}\n\n", &["é\u{fffd}"]),
    ] {
        for dialect in DIALECTS {
            assert_eq!(data(dialect, text), expected, "{text:?}");
        }
    }
}

#[test]
fn every_line_end_is_found_at_every_place_of_a_long_stream_and_of_its_pieces() {
    for length in 0..70 {
        let name = "x".repeat(length);
        for end in ["\n", "\r", "\r\n"] {
            let text = format!("{name}: y{end}data: {name}{end}data:{end}{end}data: b{end}{end}");
            let expected = [format!("{name}\n"), "b".to_owned()];
            for dialect in DIALECTS {
                assert_eq!(data(dialect, &text), expected, "{text:?}");
                let whole = decode(dialect, LIMIT, [text.as_bytes()]);
                for at in 0..=text.len() {
                    let (first, second) = text.as_bytes().split_at(at);
                    assert_eq!(decode(dialect, LIMIT, [first, second]), whole, "{text:?} {at}");
                }
            }
        }
    }
}

#[test]
fn an_unfinished_event_and_a_field_error_are_events_of_a_model_only() {
    let text = "data: a\n\ndata: [DONE]";
    assert_eq!(data(Dialect::Mcp, text), ["a"]);
    assert_eq!(data(Dialect::Model, text), ["a", "[DONE]"]);
    let text = b"data: a\nerror: {}\n\ndata: 1\n\n".as_slice();
    let error = SseEvent { kind: ERROR.into(), data: b"{}".into(), ..SseEvent::default() };
    let next = SseEvent { data: b"1".into(), ..SseEvent::default() };
    let expected = [error, next].map(Item::Event);
    assert_eq!(decode(Dialect::Model, LIMIT, [text]), expected);
    assert_eq!(data(Dialect::Mcp, "data: a\nerror: {}\n\ndata: 1\n\n"), ["a", "1"]);
}

#[test]
fn an_event_has_its_type_identifier_and_delay() {
    let stream = b"id: 7\nretry: 250\ndata:\n\nevent: a\nevent: endpoint\ndata: /x\n\n";
    let first = SseEvent {
        id: Some(HeaderValue::from_static("7")),
        retry: Some(Duration::from_millis(250)),
        ..SseEvent::default()
    };
    let second = SseEvent { kind: "endpoint".into(), data: b"/x".into(), ..SseEvent::default() };
    assert_eq!((first.message(), second.message()), (None, None));
    let expected = [first, second].map(Item::Event);
    assert_eq!(decode(Dialect::Mcp, LIMIT, [stream.as_slice()]), expected);
    for (bytes, events) in [(MAX_ID_BYTES, 1), (MAX_ID_BYTES + 1, 0)] {
        let text = format!("id: {}\n\n", "1".repeat(bytes));
        assert_eq!(decode(Dialect::Mcp, 2 * LIMIT, [text.as_bytes()]).len(), events, "{bytes}");
    }
    assert!(decode(Dialect::Mcp, LIMIT, [b"id: a\x01b\n\n".as_slice()]).is_empty());
    let delay = SseEvent { retry: Some(Duration::from_millis(5)), ..SseEvent::default() };
    assert_eq!(decode(Dialect::Mcp, LIMIT, [b"retry: 5\n\n".as_slice()]), [Item::Event(delay)]);
    let text = format!("event: {}\ndata: a\n\n", "e".repeat(MAX_KIND_BYTES + 1));
    let cut =
        SseEvent { kind: "e".repeat(MAX_KIND_BYTES), data: b"a".into(), ..SseEvent::default() };
    assert_eq!(decode(Dialect::Mcp, LIMIT, [text.as_bytes()]), [Item::Event(cut)]);
}

#[test]
fn an_event_is_bounded_to_the_byte_and_the_next_one_is_read() {
    for dialect in DIALECTS {
        let fits = data(dialect, &event(LIMIT));
        assert_eq!(fits.iter().map(String::len).collect::<Vec<_>>(), [LIMIT, 4]);
        for beyond in [1, 2, 1_000_000] {
            let read = data(dialect, &event(LIMIT + beyond));
            assert_eq!(read, ["too long: Some(7)", "next"], "{beyond}");
        }
        let lines = format!("data: {}\n", "x".repeat(LIMIT / 2)).repeat(3);
        let read = data(dialect, &format!("{lines}\ndata: next\n\n"));
        assert_eq!(read, ["too long: None", "next"]);
        let short = "data: 1234\n".repeat(LIMIT / 5 + 1);
        assert_eq!(data(dialect, &format!("{short}\n")), ["too long: None"]);
    }
}

/// Returns an event with a response of so many bytes, and another one after it.
fn event(bytes: usize) -> String {
    let frame = r#"{"jsonrpc":"2.0","id":7,"result":""}"#;
    let message = frame.replace(r#""""#, &format!("\"{}\"", "x".repeat(bytes - frame.len())));
    format!("data: {message}\n\ndata: next\n\n")
}

#[test]
fn an_event_that_is_too_long_is_reported_early() {
    let mut decoder = SseDecoder::new(Dialect::Mcp, KEPT_LINE_BYTES);
    let begin = format!("data: {{\"id\":3,\"result\":\"{}", "x".repeat(KEPT_LINE_BYTES));
    let early = decoder.next(&mut begin.as_bytes());
    assert_eq!(early, Some(Item::TooLong { answered: Some(3) }));
    assert!(decoder.allocated() <= KEPT_LINE_BYTES);
    assert_eq!(decoder.next(&mut b"xxx\"}\n\n".as_slice()), None);
    // One that names its request last.
    let begin = format!("data: {{\"result\":\"{}\",\n", "x".repeat(KEPT_LINE_BYTES));
    assert_eq!(decoder.next(&mut begin.as_bytes()), None);
    let end = Some(Item::TooLong { answered: Some(4) });
    assert_eq!(decoder.next(&mut b"data: \"id\":4}\n\n".as_slice()), end);
    // One that named its request before it was too long, in an earlier line or in the same one.
    for end in ["data: ", ""] {
        let mut decoder = SseDecoder::new(Dialect::Mcp, LIMIT);
        let begin = format!("data: {{\"id\":5,{}", if end.is_empty() { "" } else { "\n" });
        assert_eq!(decoder.next(&mut begin.as_bytes()), None);
        let rest = format!("{end}\"result\":\"{}", "x".repeat(LIMIT));
        let early = Some(Item::TooLong { answered: Some(5) });
        assert_eq!(decoder.next(&mut rest.as_bytes()), early, "{end:?}");
    }
    // Other fields of the event are no part of its message.
    let long = "x".repeat(LIMIT);
    let text = format!("data: {{\"result\":\"{long}\"\nevent: ,\"id\":6}}\n\n");
    assert_eq!(data(Dialect::Mcp, &text), ["too long: None"]);
    // A model's is not waited for.
    let mut decoder = SseDecoder::new(Dialect::Model, KEPT_LINE_BYTES);
    let too_long = Some(Item::TooLong { answered: None });
    assert_eq!(decoder.next(&mut begin.as_bytes()), too_long);
}

#[test]
fn bytes_outside_messages_are_counted_and_not_kept() {
    let mut decoder = SseDecoder::new(Dialect::Mcp, LIMIT);
    assert!(decoder.next(&mut b":1234\n\nodd\n".as_slice()).is_none());
    assert_eq!(decoder.take_dropped(), 5 + 1 + 1 + 3 + 1);
    assert!(decoder.next(&mut b"data: 12345678\n\n".as_slice()).is_some());
    assert_eq!(decoder.take_dropped(), 2);
    let comment = format!(":{}\n", "x".repeat(10 * LIMIT));
    for mut piece in comment.as_bytes().chunks(7) {
        assert_eq!(decoder.next(&mut piece), None);
        assert!(decoder.allocated() <= 64, "{}", decoder.allocated());
    }
    decoder.take_dropped();
    let long = format!("data: {}", "x".repeat(2 * LIMIT));
    assert!(decoder.next(&mut long.as_bytes()).is_none());
    assert!(decoder.take_dropped() > 2 * LIMIT);
    let mut decoder = SseDecoder::new(Dialect::Mcp, LIMIT);
    let line = format!("data: {}\n", "x".repeat(LIMIT));
    assert!(decoder.next(&mut line.as_bytes()).is_none());
    assert_eq!(decoder.take_dropped(), 1, "it may still become a message");
    assert!(decoder.next(&mut line.as_bytes()).is_none());
    assert_eq!(decoder.take_dropped(), LIMIT + line.len(), "with the first line's data");
}

#[test]
fn an_event_is_bounded_before_it_ends_and_its_buffer_afterwards() {
    let mut decoder = SseDecoder::new(Dialect::Mcp, 2 * KEPT_LINE_BYTES);
    let line = format!("data: {}\n", "x".repeat(LIMIT));
    for _ in 0..1_000 {
        assert_eq!(decoder.next(&mut line.as_bytes()), None);
        assert!(decoder.allocated() <= 5 * KEPT_LINE_BYTES, "{}", decoder.allocated());
    }
    let mut decoder = SseDecoder::new(Dialect::Mcp, 2 * KEPT_LINE_BYTES);
    let line = format!("data: {}\n\n", "x".repeat(2 * KEPT_LINE_BYTES));
    let (begin, end) = line.split_at(line.len() - 2);
    assert_eq!(decoder.next(&mut begin.as_bytes()), None);
    assert!(decoder.allocated() >= begin.len());
    assert!(decoder.next(&mut end.as_bytes()).is_some());
    assert!(decoder.allocated() <= KEPT_LINE_BYTES);
}

#[test]
fn a_line_that_arrives_whole_is_not_kept_beside_its_event() {
    let mut decoder = SseDecoder::new(Dialect::Model, LIMIT);
    assert!(decoder.next(&mut b"data: 1\n\n".as_slice()).is_some());
    assert_eq!(decoder.allocated(), 0);
    assert!(decoder.next(&mut b"da".as_slice()).is_none());
    assert!(decoder.allocated() > 0);
    assert!(decoder.next(&mut b"ta: 1\n\n".as_slice()).is_some());
}

#[test]
fn the_data_of_an_event_is_bounded_to_the_byte() {
    for dialect in DIALECTS {
        let fits = decode(dialect, 8, [&b"data:12345678\n\n"[..]]);
        assert!(matches!(&fits[..], [Item::Event(event)] if event.data.len() == 8));
        let beyond = decode(dialect, 8, [&b"data:123456789\n\n"[..]]);
        assert!(matches!(beyond[..], [Item::TooLong { .. }]), "{beyond:?}");
    }
}

proptest! {
    #[test]
    fn the_pieces_of_a_stream_do_not_matter(
        text in "(data|event|error|id: 1|retry: 5|: é|x|\u{feff}|data: \u{1f600}|[:a \n\r]){0,40}",
        limit in 0_usize..40,
        cuts in collection::vec(1_usize..5, 0..200),
    ) {
        let bytes = text.as_bytes();
        let mut pieces = Vec::new();
        let mut rest = bytes;
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        for dialect in DIALECTS {
            let whole = decode(dialect, limit, [bytes]);
            prop_assert_eq!(decode(dialect, limit, pieces.iter().copied()), whole);
        }
    }

    #[test]
    fn any_bytes_are_read_within_the_limit(bytes: Vec<u8>, limit in 0_usize..40) {
        for item in DIALECTS.iter().flat_map(|dialect| decode(*dialect, limit, [&bytes[..]])) {
            if let Item::Event(event) = item {
                prop_assert!(event.data.len() <= limit);
            }
        }
    }
}
