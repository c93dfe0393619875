//! Reads streams of server-sent events as model servers send them.
//!
//! The grammar is that of the WHATWG's HTML standard, section 9.2: lines end with LF, CR or CRLF, a
//! blank line ends an event, a colon starts a comment, and unknown fields are ignored. There are
//! three deviations. Data at the end of the stream is an event without a blank line too, because
//! some servers leave the line out. A field `error` is the data of an event of type `error`, as
//! llama.cpp sent it until September 2025. An event is bounded in size.

use std::mem;

/// Type of an event that reports an error, and a field of old versions of llama.cpp.
pub(super) const ERROR: &str = "error";

/// Event of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Event {
    /// Its type; empty if the server sent none.
    pub(super) kind: String,
    /// Its data. Lines are joined by LF.
    pub(super) data: String,
    /// True if the data is not UTF-8. Invalid bytes are replaced by U+FFFD.
    pub(super) is_broken: bool,
}

/// An event that has more bytes than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EventTooLarge;

/// Splits bytes into events. Keeps at most one event, and nothing of comments but their colon.
#[derive(Debug)]
pub(super) struct EventDecoder {
    limit_bytes: usize,
    /// The line that is not complete yet.
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    /// True after CR: a following LF belongs to the same line end.
    after_return: bool,
    is_first_line: bool,
}

impl EventDecoder {
    /// Creates a decoder for events of up to `limit_bytes`, field names included.
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            line: Vec::new(),
            event: Event::default(),
            has_data: false,
            after_return: false,
            is_first_line: true,
        }
    }

    /// Reads bytes up to the end of the next event, and removes them from `bytes`. Returns `None`
    /// and removes all bytes if they complete no event. Fails if the event is larger than the
    /// limit.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Event>, EventTooLarge> {
        while let Some((&first, rest)) = bytes.split_first() {
            if mem::take(&mut self.after_return) && first == b'\n' {
                *bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.keep(line)?;
            let Some((end, rest)) = rest.split_first() else {
                *bytes = rest;
                return Ok(None);
            };
            self.after_return = *end == b'\r';
            *bytes = rest;
            if let Some(event) = self.end_line()? {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// Returns the event that the end of the stream completes; `None` if there is none. Fails if it
    /// is larger than the limit.
    pub(super) fn finish(mut self) -> Result<Option<Event>, EventTooLarge> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        Ok(self.end_event())
    }

    /// Returns the bytes that are allocated for the event that is being read.
    pub(super) fn allocated(&self) -> usize {
        self.line.capacity() + self.event.data.capacity() + self.event.kind.capacity()
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), EventTooLarge> {
        // The text of a comment is dropped as it arrives, so it needs no bound. Its colon marks the
        // line as a comment.
        if self.line.first().or(part.first()) == Some(&b':') {
            if self.line.is_empty() {
                self.line.push(b':');
            }
            return Ok(());
        }
        if self.line.len() + self.event.data.len() + part.len() > self.limit_bytes {
            return Err(EventTooLarge);
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<Event>, EventTooLarge> {
        let line = mem::take(&mut self.line);
        let mut text = String::from_utf8_lossy(&line);
        if mem::take(&mut self.is_first_line)
            && let Some(rest) = text.strip_prefix('\u{feff}')
        {
            text = rest.to_owned().into();
        }
        if text.is_empty() {
            self.line = cleared(line);
            return Ok(self.end_event());
        }
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                self.event.is_broken |= is_broken(value, &line);
                if mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.event.kind),
            ERROR => {
                self.event.is_broken = is_broken(value, &line);
                self.has_data = true;
                value.clone_into(&mut self.event.data);
                ERROR.clone_into(&mut self.event.kind);
            }
            _ => {}
        }
        let is_too_large = self.event.data.len() + self.event.kind.len() > self.limit_bytes;
        drop(text);
        self.line = cleared(line);
        if is_too_large { Err(EventTooLarge) } else { Ok(None) }
    }

    /// Ends an event; `None` if it has no data.
    fn end_event(&mut self) -> Option<Event> {
        let event = mem::take(&mut self.event);
        mem::take(&mut self.has_data).then_some(event)
    }
}

/// Returns whether the value of a field has replacements of invalid bytes.
fn is_broken(value: &str, line: &[u8]) -> bool {
    value.contains(char::REPLACEMENT_CHARACTER) && std::str::from_utf8(line).is_err()
}

/// Returns the buffer of a line, emptied, for the next line.
fn cleared(mut line: Vec<u8>) -> Vec<u8> {
    line.clear();
    line
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};

    use super::*;

    /// Decodes a stream that arrives in these pieces.
    fn decode<'a>(
        limit: usize,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<Event>, EventTooLarge> {
        let mut decoder = EventDecoder::new(limit);
        let mut events = Vec::new();
        for mut piece in pieces {
            while let Some(event) = decoder.next(&mut piece)? {
                events.push(event);
            }
            assert!(piece.is_empty(), "everything is read");
        }
        events.extend(decoder.finish()?);
        Ok(events)
    }

    fn data(text: &str) -> Vec<String> {
        let events = decode(1_000, [text.as_bytes()]).expect("small events");
        events.into_iter().map(|event| event.data).collect()
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
            ("data\n\n", &[""]),
            ("event: e\n\n\n\n", &[]),
            ("data: a\n\ndata: [DONE]", &["a", "[DONE]"]),
            ("data: é\u{fffd}\n\n", &["é\u{fffd}"]),
        ] {
            assert_eq!(data(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_last_type_counts_and_does_not_reach_the_next_event() {
        let events = decode(100, [b"event: a\nevent: b\ndata: 1\n\ndata: 2\n\n".as_slice()]);
        let kinds: Vec<_> = events.expect("small").into_iter().map(|event| event.kind).collect();
        assert_eq!(kinds, ["b", ""]);
    }

    #[test]
    fn a_field_error_is_an_event_of_that_type() {
        let events = decode(100, [b"error: {}\n\ndata: 1\n\n".as_slice()]).expect("small");
        let read: Vec<_> =
            events.iter().map(|event| (event.kind.as_str(), event.data.as_str())).collect();
        assert_eq!(read, [("error", "{}"), ("", "1")]);
    }

    #[test]
    fn bytes_that_are_not_utf_8_break_data_and_errors_and_nothing_else() {
        for (stream, expected) in [
            (b"data: \x80\n\n".as_slice(), true),
            (b"data: a\ndata: \x80\n\n", true),
            (b"error: \x80\n\n", true),
            (b"data: \x80\nerror: a\n\n", false),
            (b"data: a\nevent: \x80\n: \x80\n\x80\n\n", false),
            ("data: \u{fffd}\n\n".as_bytes(), false),
        ] {
            let events = decode(100, [stream]).expect("small");
            assert_eq!(events.len(), 1);
            assert_eq!(events[0].is_broken, expected, "{stream:?}");
        }
    }

    #[test]
    fn a_comment_after_data_of_the_maximum_size_is_skipped() {
        // Three bytes that are not UTF-8 become nine, as many as the limit.
        let events = decode(9, [b"data:\x80\x80\x80\n: a\n\n".as_slice()]);
        assert_eq!(events.map(|events| events[0].data.len()), Ok(9));
    }

    #[test]
    fn an_event_is_bounded_to_the_byte_and_a_comment_is_not() {
        let line = format!("data: {}", "x".repeat(94));
        assert!(decode(100, [format!("{line}\n\n{line}\n\n").as_bytes()]).is_ok());
        assert_eq!(decode(100, [format!("{line}x\n\n").as_bytes()]), Err(EventTooLarge));
        assert_eq!(decode(100, [format!("{line}x").as_bytes()]), Err(EventTooLarge));
        let lines = "data: 1234\n".repeat(21);
        assert_eq!(decode(100, [lines.as_bytes()]), Err(EventTooLarge));
        let comment = format!(":{}\n", "x".repeat(10_000));
        let mut decoder = EventDecoder::new(100);
        for mut piece in comment.as_bytes().chunks(7) {
            assert_eq!(decoder.next(&mut piece), Ok(None));
            assert!(decoder.allocated() <= 64, "{}", decoder.allocated());
        }
    }

    proptest! {
        #[test]
        fn the_cuts_between_pieces_change_nothing(
            text in "(data|event|: é|x|\u{feff}|data: \u{1f600}|[:a \n\r]){0,40}",
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
            prop_assert_eq!(decode(1_000, pieces), decode(1_000, [bytes]));
        }

        #[test]
        fn any_bytes_are_read_within_the_limit(bytes: Vec<u8>, limit in 0_usize..40) {
            let mut decoder = EventDecoder::new(limit);
            let mut rest = bytes.as_slice();
            while let Ok(Some(event)) = decoder.next(&mut rest) {
                prop_assert!(event.data.len() <= limit * 3, "a byte that is not UTF-8 takes three");
            }
        }
    }
}
