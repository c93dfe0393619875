//! Decodes server-sent events as the WHATWG's HTML standard defines them (section 9.2), with each
//! event bounded in size. Pure.

use std::{mem, time::Duration};

use http::HeaderValue;

use super::super::{
    limits::{MAX_ID_BYTES, MAX_MESSAGE_BYTES},
    scan::IdScanner,
};

/// Field whose lines are the message.
const DATA: &[u8] = b"data:";
/// Length to which the type of an event is cut, in bytes. The types that matter are shorter.
const MAX_KIND_BYTES: usize = 32;
/// Maximum buffer that is kept after a line, in bytes.
const KEPT_LINE_BYTES: usize = 64 << 10;

/// An event that has at least one field that matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its type; empty if the server sent none.
    pub(crate) kind: String,
    /// Its data. Lines are joined by LF.
    pub(crate) data: Vec<u8>,
    /// Its identifier, from which the stream can be resumed.
    pub(crate) id: Option<HeaderValue>,
    /// Delay that the server asks for before the stream is opened again.
    pub(crate) retry: Option<Duration>,
}

impl Event {
    /// Returns the JSON-RPC message; `None` if the event carries none.
    pub(crate) fn message(&self) -> Option<&[u8]> {
        let is_message = matches!(self.kind.as_str(), "" | "message");
        (is_message && !self.data.is_empty()).then_some(&self.data)
    }
}

/// Result of decoding.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// An event.
    Event(Event),
    /// An event is longer than [`MAX_MESSAGE_BYTES`]. Reported once for each such event: as soon as
    /// it is known which request it answers, or at its end.
    TooLong {
        /// The request that it answers; `None` if it names none.
        answered: Option<i64>,
    },
}

/// Splits bytes into events. Keeps at most one event.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The line that is not complete yet; of a line that is dropped, its first bytes.
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    /// True after CR: a following LF belongs to the same line end.
    after_return: bool,
    is_past_first_line: bool,
    too_long: Option<TooLong>,
    dropped_bytes: usize,
}

/// The rest of an event that is too long.
#[derive(Debug, Default)]
struct TooLong {
    scanner: IdScanner,
    is_reported: bool,
}

impl Decoder {
    /// Reads bytes up to the end of the next item, and removes them from `bytes`. Returns `None`
    /// and removes all bytes if they complete no item.
    pub(crate) fn next(&mut self, bytes: &mut &[u8]) -> Option<Item> {
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

    /// Takes the number of bytes that were read since the last call and belong to no event that was
    /// returned: comments, unknown fields, and events that are too long.
    pub(crate) fn take_dropped(&mut self) -> usize {
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
        if self.line.len() + self.event.data.len() + part.len()
            <= MAX_MESSAGE_BYTES + DATA.len() + 1
        {
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
        self.has_data = false;
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

    /// Returns an event that is too long as soon as its request is known.
    fn report(&mut self) -> Option<Item> {
        let too_long = self.too_long.as_mut().filter(|event| !event.is_reported)?;
        let answered = too_long.scanner.answered()?;
        too_long.is_reported = true;
        Some(Item::TooLong { answered: Some(answered) })
    }

    fn end_line(&mut self) -> Option<Item> {
        let mut line = mem::take(&mut self.line);
        if !mem::replace(&mut self.is_past_first_line, true) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        self.dropped_bytes += 1;
        if line.is_empty() {
            return self.end_event();
        }
        match &mut self.too_long {
            Some(too_long) => too_long.scanner.push(b"\n"),
            None => self.field(&line),
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
        if event.data.len() > MAX_MESSAGE_BYTES {
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

    /// Decodes a stream that arrives in these pieces.
    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Item> {
        let mut decoder = Decoder::default();
        let mut items = Vec::new();
        for mut piece in pieces {
            while let Some(item) = decoder.next(&mut piece) {
                items.push(item);
            }
            assert!(piece.is_empty(), "everything is read");
        }
        items
    }

    fn data(text: &str) -> Vec<String> {
        let items = decode([text.as_bytes()]).into_iter();
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
            ("odd\nevent: e\ndata: a\n\n", &["a"]),
            ("data: a\ndata: b\ndata\n\n", &["a\nb\n"]),
            ("data\n\n", &[""]),
            ("event: e\n\n\n\nretry: x\n\n", &[]),
            ("data: a\n\ndata: unfinished", &["a"]),
        ] {
            assert_eq!(data(text), expected, "{text:?}");
        }
    }

    #[test]
    fn an_event_has_its_type_identifier_and_delay() {
        let events =
            decode([b"id: 7\nretry: 250\ndata:\n\nevent: endpoint\ndata: /x\n\n".as_slice()]);
        let first = Event {
            id: Some(HeaderValue::from_static("7")),
            retry: Some(Duration::from_millis(250)),
            ..Event::default()
        };
        let second = Event { kind: "endpoint".into(), data: b"/x".into(), ..Event::default() };
        assert_eq!((first.message(), second.message()), (None, None));
        assert_eq!(events, [Item::Event(first), Item::Event(second)]);
        for (bytes, events) in [(MAX_ID_BYTES, 1), (MAX_ID_BYTES + 1, 0)] {
            let text = format!("id: {}\n\n", "1".repeat(bytes));
            assert_eq!(decode([text.as_bytes()]).len(), events, "{bytes}");
        }
        assert!(decode([b"id: a\x01b\n\n".as_slice()]).is_empty());
    }

    #[test]
    fn an_event_is_bounded_to_the_byte_and_the_next_one_is_read() {
        let fits = data(&event(MAX_MESSAGE_BYTES));
        assert_eq!(fits.iter().map(String::len).collect::<Vec<_>>(), [MAX_MESSAGE_BYTES, 4]);
        for beyond in [1, 2, 1_000_000] {
            let read = data(&event(MAX_MESSAGE_BYTES + beyond));
            assert_eq!(read, ["too long: Some(7)", "next"], "{beyond}");
        }
    }

    /// Returns an event with a response of so many bytes, and another one after it.
    fn event(bytes: usize) -> String {
        let frame = r#"{"jsonrpc":"2.0","id":7,"result":""}"#;
        let message = frame.replace(r#""""#, &format!("\"{}\"", "x".repeat(bytes - frame.len())));
        format!("data: {message}\n\ndata: next\n\n")
    }

    #[test]
    fn an_event_that_is_too_long_is_reported_as_soon_as_its_request_is_known() {
        let mut decoder = Decoder::default();
        let begin = format!("data: {{\"id\":3,\"result\":\"{}", "x".repeat(MAX_MESSAGE_BYTES));
        let early = decoder.next(&mut begin.as_bytes());
        assert_eq!(early, Some(Item::TooLong { answered: Some(3) }));
        assert!(decoder.line.capacity() <= KEPT_LINE_BYTES);
        assert_eq!(decoder.next(&mut b"xxx\"}\n\n".as_slice()), None);
        // One that names its request last.
        let end = format!(
            "data: {{\"result\":\"{}\",\ndata: \"id\":4}}\n\n",
            "x".repeat(MAX_MESSAGE_BYTES)
        );
        assert_eq!(decoder.next(&mut end.as_bytes()), Some(Item::TooLong { answered: Some(4) }));
        let lines = format!("data: {}\n", "x".repeat(MAX_MESSAGE_BYTES / 2)).repeat(3);
        let read = data(&format!("{lines}\ndata: next\n\n"));
        assert_eq!(read, ["too long: None", "next"]);
    }

    #[test]
    fn bytes_outside_messages_are_counted() {
        let mut decoder = Decoder::default();
        assert!(decoder.next(&mut b":1234\n\nodd\n".as_slice()).is_none());
        assert_eq!(decoder.take_dropped(), 5 + 1 + 1 + 3 + 1);
        assert!(decoder.next(&mut b"data: 12345678\n\n".as_slice()).is_some());
        assert_eq!(decoder.take_dropped(), 2);
        let long = format!("data: {}", "x".repeat(2 * MAX_MESSAGE_BYTES));
        assert!(decoder.next(&mut long.as_bytes()).is_none());
        assert!(decoder.take_dropped() > 2 * MAX_MESSAGE_BYTES);
    }

    proptest! {
        #[test]
        fn the_pieces_of_a_stream_do_not_matter(
            text in "(data: [ab]{0,3}|id: 1|retry: 5|: c|event: e|x)?(\n|\r|\r\n)",
            repeats in 1..6_usize,
            cuts in collection::vec(0..80_usize, 0..6),
        ) {
            let text = format!("{}\n\n", text.repeat(repeats));
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| &text.as_bytes()[cut[0]..cut[1]]);
            prop_assert_eq!(decode(pieces), decode([text.as_bytes()]));
        }
    }
}
