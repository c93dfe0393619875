//! Decodes streams of server-sent events, each bounded in size.
//!
//! The grammar is that of the WHATWG's HTML standard, section 9.2: lines end with LF, CR or CRLF, a
//! blank line ends an event, a colon starts a comment, and unknown fields are ignored.

use std::{mem, time::Duration};

use http::HeaderValue;

use super::{id::MAX_ID_BYTES, scan::IdScanner};
use airlock_strings::line_end;

/// Type of an event that reports an error, and a field of [`Dialect::Model`].
pub const ERROR: &str = "error";

/// Field whose lines are the message.
const DATA: &[u8] = b"data:";
/// Mark at the beginning of a stream that is not part of its first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
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
    /// The line that is not complete yet, of one that arrives in parts; of a line that is dropped, its first bytes.
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    /// True after CR: a following LF belongs to the same line end.
    after_return: bool,
    is_first_line: bool,
    /// Boxed: each stream has a decoder, and few have such an event.
    too_long: Option<Box<TooLong>>,
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
            let end = line_end(bytes);
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            *bytes = rest.get(1..).unwrap_or_default();
            let ended = if let Some(end) = rest.first() {
                self.after_return = *end == b'\r';
                self.end_line(part)
            } else {
                self.keep(part);
                None
            };
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
            self.end_line(&[]);
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
        if self.has_room(part) {
            self.line.extend_from_slice(part);
        } else {
            self.begin_to_skip(part);
        }
    }

    /// Returns whether an event may have one more part of a line.
    fn has_room(&self, part: &[u8]) -> bool {
        let bytes = self.line.len() + self.event.data.len() + part.len();
        bytes <= self.limit_bytes.saturating_add(DATA.len() + 1)
    }

    /// Drops an event that is too long, from here to its end.
    fn begin_to_skip(&mut self, part: &[u8]) {
        let line = mem::take(&mut self.line);
        let event = mem::take(&mut self.event);
        let mut scanner = IdScanner::default();
        scanner.push(&event.data);
        self.dropped_bytes += event.data.len();
        self.too_long = Some(Box::new(TooLong { scanner, is_reported: false }));
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

    /// Reads a line, of which `part` is the last part.
    fn end_line(&mut self, part: &[u8]) -> Option<Item> {
        // Most lines arrive whole, and are read where they are.
        let is_whole = self.line.is_empty() && self.too_long.is_none();
        if is_whole && self.has_room(part) && !part.starts_with(b":") {
            return self.read_line(part);
        }
        self.keep(part);
        let mut line = mem::take(&mut self.line);
        let item = self.read_line(&line);
        line.clear();
        // A long line was one message, and the next one may be short.
        line.shrink_to(KEPT_LINE_BYTES);
        self.line = line;
        item
    }

    fn read_line(&mut self, line: &[u8]) -> Option<Item> {
        let is_first = mem::take(&mut self.is_first_line);
        let line = line.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first).unwrap_or(line);
        self.dropped_bytes += 1;
        if line.is_empty() {
            return self.end_event();
        }
        if self.too_long.is_none() {
            self.field(line);
        }
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
mod tests;
