//! Messages of `application/vnd.amazon.eventstream`, the framing of AWS's streams, each bounded in size.
//!
//! | bytes | content |
//! |---|---|
//! | 4 | length of the whole message |
//! | 4 | length of its headers |
//! | 4 | CRC-32 of the bytes before |
//! | … | headers: a name with a length of 1 byte, a type, a value |
//! | … | payload |
//! | 4 | CRC-32 of all bytes before |
//!
//! An event of type `chunk` has an event of the model as base64 in its payload. It becomes what the same
//! event is as a server-sent event; an exception becomes an `error` event of Anthropic's API.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::json;

use airlock_wire::sse::SseEvent;

/// Type of the content of such a stream.
pub(super) const CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";
/// Bytes of the two lengths and their checksum.
const PRELUDE_BYTES: usize = 12;
/// Bytes of a checksum.
const CHECKSUM_BYTES: usize = 4;
/// Maximum bytes of the headers of a message, as AWS's own clients have it.
const MAX_HEADERS_BYTES: usize = 128 << 10;
/// Maximum buffer that is kept after a message, in bytes.
const KEPT_BYTES: usize = 64 << 10;

const TOO_LARGE: &str = "an event that is larger than the gateway accepts";
const BROKEN: &str = "a message of an event stream that is broken";

/// Splits bytes into events. Keeps at most one message. After an error, no more can be read.
#[derive(Debug)]
pub(super) struct AwsDecoder {
    limit_bytes: usize,
    /// The message that is not complete yet.
    message: Vec<u8>,
}

/// The headers of a message that matter.
#[derive(Debug, Default)]
struct MessageHeaders<'m> {
    message_type: &'m str,
    event_type: &'m str,
    exception_type: &'m str,
    error_code: &'m str,
    error_message: &'m str,
}

/// Payload of an event of type `chunk`. It has random padding too.
#[derive(Deserialize)]
struct Chunk<'m> {
    #[serde(borrow)]
    bytes: Cow<'m, str>,
}

/// Payload of an exception.
#[derive(Default, Deserialize)]
struct Exception {
    #[serde(default, alias = "Message")]
    message: String,
}

impl AwsDecoder {
    /// Creates a decoder of messages of at most `limit_bytes`.
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, message: Vec::new() }
    }

    /// Reads bytes up to the end of the next event, and removes them from `bytes`. Returns `None` and
    /// removes all bytes if they complete no event. Fails with a description of what was received.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Option<Result<SseEvent, &'static str>> {
        loop {
            let length = match self.length() {
                Ok(length) => length,
                Err(what) => return Some(Err(what)),
            };
            if self.message.len() == length && length > PRELUDE_BYTES {
                let event = read(&self.message);
                self.message.clear();
                self.message.shrink_to(KEPT_BYTES);
                if let Some(event) = event.transpose() {
                    return Some(event);
                }
                continue;
            }
            if bytes.is_empty() {
                return None;
            }
            let missing = (length - self.message.len()).min(bytes.len());
            let (part, rest) = bytes.split_at(missing);
            self.message.extend_from_slice(part);
            *bytes = rest;
        }
    }

    /// Returns the bytes that are allocated for the message that is being read.
    pub(super) fn allocated(&self) -> usize {
        self.message.capacity()
    }

    /// Returns the length of the message, or that of its prelude until it has been read. Fails if the
    /// prelude is broken, or if the message is too large.
    fn length(&self) -> Result<usize, &'static str> {
        let Some(prelude) = self.message.get(..PRELUDE_BYTES) else { return Ok(PRELUDE_BYTES) };
        let (lengths, checksum) = prelude.split_at(PRELUDE_BYTES - CHECKSUM_BYTES);
        if crc32fast::hash(lengths) != number(checksum) {
            return Err(BROKEN);
        }
        let length = number(&lengths[..4]) as usize;
        let headers = number(&lengths[4..]) as usize;
        if length > self.limit_bytes {
            return Err(TOO_LARGE);
        }
        let room = length.checked_sub(PRELUDE_BYTES + CHECKSUM_BYTES).ok_or(BROKEN)?;
        if headers > room.min(MAX_HEADERS_BYTES) {
            return Err(BROKEN);
        }
        Ok(length)
    }
}

/// Reads a whole message, whose lengths were checked; `None` if it has no event of a model.
fn read(message: &[u8]) -> Result<Option<SseEvent>, &'static str> {
    let (content, checksum) = message.split_at(message.len() - CHECKSUM_BYTES);
    if crc32fast::hash(content) != number(checksum) {
        return Err(BROKEN);
    }
    let headers_bytes = number(&content[4..8]) as usize;
    let (headers, payload) = content[PRELUDE_BYTES..].split_at(headers_bytes);
    let headers = MessageHeaders::read(headers).ok_or(BROKEN)?;
    let data = match headers.message_type {
        "event" if headers.event_type == "chunk" => {
            let chunk: Chunk<'_> = serde_json::from_slice(payload)
                .map_err(|_| "an event of a stream without its `bytes`")?;
            STANDARD
                .decode(chunk.bytes.as_bytes())
                .map_err(|_| "an event of a stream that is not base64")?
        }
        "event" => return Ok(None),
        "exception" => {
            let exception: Exception = serde_json::from_slice(payload).unwrap_or_default();
            error(headers.exception_type, &exception.message)
        }
        "error" => error(headers.error_code, headers.error_message),
        _ => return Err(BROKEN),
    };
    Ok(Some(SseEvent { data, ..SseEvent::default() }))
}

impl<'m> MessageHeaders<'m> {
    /// Reads the headers of a message; `None` if they are broken.
    fn read(mut bytes: &'m [u8]) -> Option<Self> {
        let mut headers = Self::default();
        while let Some((&length, rest)) = bytes.split_first() {
            let (name, rest) = rest.split_at_checked(length.into())?;
            let (&kind, rest) = rest.split_first()?;
            let (length, rest) = match kind {
                0 | 1 => (0, rest),
                2 => (1, rest),
                3 => (2, rest),
                4 => (4, rest),
                5 | 8 => (8, rest),
                6 | 7 => {
                    let (length, rest) = rest.split_at_checked(2)?;
                    (usize::from(u16::from_be_bytes([length[0], length[1]])), rest)
                }
                9 => (16, rest),
                _ => return None,
            };
            let (value, rest) = rest.split_at_checked(length)?;
            bytes = rest;
            let target = match name {
                b":message-type" => &mut headers.message_type,
                b":event-type" => &mut headers.event_type,
                b":exception-type" => &mut headers.exception_type,
                b":error-code" => &mut headers.error_code,
                b":error-message" => &mut headers.error_message,
                _ => continue,
            };
            if kind != 7 {
                return None;
            }
            *target = std::str::from_utf8(value).ok()?;
        }
        Some(headers)
    }
}

/// Returns the data of an `error` event for an exception of Bedrock.
fn error(exception: &str, message: &str) -> Vec<u8> {
    let kind = match exception {
        "throttlingException" => "rate_limit_error",
        "validationException" => "invalid_request_error",
        "modelTimeoutException" => "timeout_error",
        "serviceUnavailableException" => "overloaded_error",
        _ => "api_error",
    };
    let message = if message.is_empty() { exception } else { message };
    json!({"type": "error", "error": {"type": kind, "message": message}}).to_string().into_bytes()
}

/// Returns a number of four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| (number << 8) | u32::from(*byte))
}

#[cfg(test)]
pub(crate) mod tests;
