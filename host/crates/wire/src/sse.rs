//! Decodes streams of server-sent events, each bounded in size.
//!
//! The grammar is that of the WHATWG's HTML standard, section 9.2: lines end with LF, CR or CRLF, a
//! blank line ends an event, a colon starts a comment, and unknown fields are ignored.

use std::{mem, time::Duration};

use http::HeaderValue;

use super::{id::MAX_ID_BYTES, scan::IdScanner};

/// Type of an event that reports an error, and a field of [`Dialect::Model`].
pub const ERROR: &str = "error";

/// Field whose lines are the message.
const DATA: &[u8] = b"data:";
/// Maximum bytes of the type of an event; the rest is cut. Those that matter are `message`, `endpoint`
/// and `error`. Without this limit, an event could be kept that is twice as long as its own.
const MAX_KIND_BYTES: usize = 32;
/// Maximum buffer that is kept after a line, in bytes.
const KEPT_LINE_BYTES: usize = 64 << 10;

/// Protocol of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// MCP. An event that is too long is reported as soon as it is known which request it answers, or
    /// at its end.
    Mcp,
    /// The APIs of models. An event that is too long is reported at once. A field `error` is the data
    /// of an event of type [`ERROR`], as llama.cpp sent it until September 2025.
    Model,
}

/// An event that has at least one field that matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its type; empty if the server sent none.
    pub kind: String,
    /// Its data, which may not be UTF-8. Lines are joined by LF.
    pub data: Vec<u8>,
    /// Its identifier, from which the stream can be resumed.
    pub id: Option<HeaderValue>,
    /// Delay that the server asks for before the stream is opened again.
    pub retry: Option<Duration>,
}

impl SseEvent {
    /// Returns the JSON-RPC message; `None` if the event carries none.
    pub fn message(&self) -> Option<&[u8]> {
        let is_message = matches!(self.kind.as_str(), "" | "message");
        (is_message && !self.data.is_empty()).then_some(&self.data)
    }
}

/// Result of decoding.
#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    /// An event.
    Event(SseEvent),
    /// The data of an event is longer than the limit. Reported once for each such event, which is
    /// dropped; when, depends on the [`Dialect`].
    TooLong {
        /// The request of the gateway that it answers; `None` if none is known.
        answered: Option<i64>,
    },
}

/// Splits bytes into events. Keeps at most one event.
#[derive(Debug)]
pub struct SseDecoder {
    dialect: Dialect,
    limit_bytes: usize,
    /// The line that is not complete yet; of a line that is dropped, its first bytes.
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    /// True after CR: a following LF belongs to the same line end.
    after_return: bool,
    is_first_line: bool,
    too_long: Option<TooLong>,
    dropped_bytes: usize,
}

/// The rest of an event that is too long.
#[derive(Debug, Default)]
struct TooLong {
    scanner: IdScanner,
    is_reported: bool,
}

impl SseDecoder {
    /// Creates a decoder for events with up to `limit_bytes` of data.
    pub fn new(dialect: Dialect, limit_bytes: usize) -> Self {
        Self {
            dialect,
            limit_bytes,
            line: Vec::new(),
            event: SseEvent::default(),
            has_data: false,
            after_return: false,
            is_first_line: true,
            too_long: None,
            dropped_bytes: 0,
        }
    }

    /// Reads bytes up to the end of the next item, and removes them from `bytes`. Returns `None`
    /// and removes all bytes if they complete no item.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<Item> {
        while let Some((&first, rest)) = bytes.split_first() {
            if mem::take(&mut self.after_return) && first == b'\n' {
                *bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.keep(part);
            *bytes = rest.get(1..).unwrap_or_default();
            let ended = rest.first().and_then(|end| {
                self.after_return = *end == b'\r';
                self.end_line()
            });
            if let Some(item) = ended.or_else(|| self.report()) {
                return Some(item);
            }
        }
        None
    }

    /// Returns the item that the end of the stream completes; `None` if there is none. The standard
    /// drops an event without a blank line after it, but some models' servers leave the line out.
    pub fn finish(&mut self) -> Option<Item> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.end_event()
    }

    /// Returns the bytes that are allocated for the event that is being read.
    pub fn allocated(&self) -> usize {
        self.line.capacity() + self.event.data.capacity() + self.event.kind.capacity()
    }

    /// Takes the number of bytes that were read since the last call and belong to no event that was
    /// returned: comments, unknown fields, and events that are too long.
    pub fn take_dropped(&mut self) -> usize {
        mem::take(&mut self.dropped_bytes)
    }

    fn keep(&mut self, part: &[u8]) {
        if self.too_long.is_some() {
            return self.skip(part);
        }
        // The text of a comment is dropped as it arrives. Its colon marks the line as a comment.
        if self.line.first().or(part.first()) == Some(&b':') {
            self.dropped_bytes += part.len();
            if self.line.is_empty() {
                self.line.push(b':');
            }
            return;
        }
        let bytes = self.line.len() + self.event.data.len() + part.len();
        if bytes <= self.limit_bytes.saturating_add(DATA.len() + 1) {
            self.line.extend_from_slice(part);
        } else {
            self.begin_to_skip(part);
        }
    }

    /// Drops an event that is too long, from here to its end.
    fn begin_to_skip(&mut self, part: &[u8]) {
        let line = mem::take(&mut self.line);
        let event = mem::take(&mut self.event);
        let mut scanner = IdScanner::default();
        scanner.push(&event.data);
        self.dropped_bytes += event.data.len();
        self.too_long = Some(TooLong { scanner, is_reported: false });
        self.skip(&line);
        self.skip(part);
    }

    /// Reads a part of a line that is dropped.
    fn skip(&mut self, part: &[u8]) {
        let Some(too_long) = &mut self.too_long else { return };
        self.dropped_bytes += part.len();
        let (name, rest) =
            part.split_at(DATA.len().saturating_sub(self.line.len()).min(part.len()));
        self.line.extend_from_slice(name);
        if self.line == DATA {
            too_long.scanner.push(rest);
        }
    }

    /// Returns an event that is too long, in the dialect of MCP only when its request is known.
    fn report(&mut self) -> Option<Item> {
        let too_long = self.too_long.as_mut().filter(|event| !event.is_reported)?;
        let answered = too_long.scanner.answered();
        too_long.is_reported = answered.is_some() || self.dialect == Dialect::Model;
        too_long.is_reported.then_some(Item::TooLong { answered })
    }

    fn end_line(&mut self) -> Option<Item> {
        let mut line = mem::take(&mut self.line);
        if mem::take(&mut self.is_first_line) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        self.dropped_bytes += 1;
        if line.is_empty() {
            self.line = line;
            return self.end_event();
        }
        if self.too_long.is_none() {
            self.field(&line);
        }
        line.clear();
        // A long line was one message, and the next one may be short.
        line.shrink_to(KEPT_LINE_BYTES);
        self.line = line;
        None
    }

    fn field(&mut self, line: &[u8]) {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if mem::replace(&mut self.has_data, true) {
                    self.event.data.push(b'\n');
                }
                self.event.data.extend_from_slice(value);
                return;
            }
            // A comment, which was counted as it arrived.
            b"" => return,
            b"event" => {
                let kind = &value[..value.len().min(MAX_KIND_BYTES)];
                self.event.kind = String::from_utf8_lossy(kind).into_owned();
            }
            b"error" if self.dialect == Dialect::Model => {
                self.has_data = true;
                self.event.data = value.to_vec();
                ERROR.clone_into(&mut self.event.kind);
                return;
            }
            // The identifier is sent back in a header.
            b"id" if value.len() <= MAX_ID_BYTES => {
                self.event.id = HeaderValue::from_bytes(value).ok();
            }
            b"retry" => {
                let millis = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.event.retry = millis.map(Duration::from_millis);
            }
            _ => {}
        }
        self.dropped_bytes += line.len();
    }

    fn end_event(&mut self) -> Option<Item> {
        let event = mem::take(&mut self.event);
        let has_data = mem::take(&mut self.has_data);
        if let Some(too_long) = self.too_long.take() {
            let answered = too_long.scanner.answered();
            return (!too_long.is_reported).then_some(Item::TooLong { answered });
        }
        if event.data.len() > self.limit_bytes {
            let mut scanner = IdScanner::default();
            scanner.push(&event.data);
            self.dropped_bytes += event.data.len();
            return Some(Item::TooLong { answered: scanner.answered() });
        }
        let matters = has_data || event.id.is_some() || event.retry.is_some();
        matters.then_some(Item::Event(event))
    }
}

#[cfg(test)]
mod tests {
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
        let second =
            SseEvent { kind: "endpoint".into(), data: b"/x".into(), ..SseEvent::default() };
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
}
