//! A decoder of server-sent events that is simple and slow: it has the whole stream before it.
//!
//! Written after section 9.2.6 of the WHATWG's HTML standard, with the deviations that `sse.rs`
//! names: the end of the stream ends the last event, a field `error` is an event, and an event is
//! bounded.

use std::time::Duration;

use airlock_wire::{
    id::MAX_ID_BYTES,
    sse::{ERROR, SseEvent},
};

use super::Decoded;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Length of `data: `, which does not count.
const FIELD_BYTES: usize = 6;
/// Length to which the type of an event is cut, in bytes.
const KIND_BYTES: usize = 32;

/// Decodes a stream.
pub(super) fn decode(stream: &[u8], limit: usize) -> Decoded {
    let mut events = Vec::new();
    let mut data = Vec::new();
    let mut event = SseEvent::default();
    let mut is_first = true;
    // The end of the stream ends the last event.
    for line in lines(stream).into_iter().chain([Vec::new()]) {
        let length = line.len();
        let line = line
            .strip_prefix(BYTE_ORDER_MARK)
            .filter(|_| std::mem::take(&mut is_first))
            .unwrap_or(&line);
        is_first = false;
        if line.is_empty() {
            event.data = data.join(&b'\n');
            if event.data.len() > limit {
                return (events, true);
            }
            let event = std::mem::take(&mut event);
            if !data.is_empty() || event.id.is_some() || event.retry.is_some() {
                events.push(event);
            }
            data.clear();
            continue;
        }
        // The mark hides the colon of a comment, which is then bounded.
        if line[0] == b':' && length == line.len() {
            continue;
        }
        if length + data.join(&b'\n').len() > limit + FIELD_BYTES {
            return (events, true);
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = colon.map_or((line, &[][..]), |at| (&line[..at], &line[at + 1..]));
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => data.push(value.to_vec()),
            b"event" => {
                let kind = &value[..value.len().min(KIND_BYTES)];
                event.kind = String::from_utf8_lossy(kind).into_owned();
            }
            b"error" => (data, event.kind) = (vec![value.to_vec()], ERROR.to_owned()),
            b"id" if value.len() <= MAX_ID_BYTES => event.id = value.try_into().ok(),
            b"retry" => {
                let millis = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                event.retry = millis.map(Duration::from_millis);
            }
            _ => {}
        }
    }
    (events, false)
}

/// Splits a stream into lines. What follows the last line end is a line too, unless it is empty.
fn lines(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut lines = vec![Vec::new()];
    for (at, byte) in stream.iter().enumerate() {
        match byte {
            b'\n' if at > 0 && stream[at - 1] == b'\r' => {}
            b'\n' | b'\r' => lines.push(Vec::new()),
            _ => lines.last_mut().expect("it begins with one").push(*byte),
        }
    }
    lines.pop_if(|last| last.is_empty());
    lines
}
