//! A decoder of server-sent events that is simple and slow: it has the whole stream before it.
//!
//! Written after section 9.2.6 of the WHATWG's HTML standard, with the deviations that `sse.rs`
//! names: the end of the stream ends the last event, a field `error` is an event, and an event is
//! bounded.

use super::{super::sse::Event, Decoded};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Decodes a stream.
pub(super) fn decode(stream: &[u8], limit: usize) -> Decoded {
    let mut events = Vec::new();
    let mut data = Vec::new();
    let mut kind = String::new();
    let mut is_first = true;
    for line in lines(stream) {
        let length = line.len();
        let line = line
            .strip_prefix(BYTE_ORDER_MARK)
            .filter(|_| std::mem::take(&mut is_first))
            .unwrap_or(&line);
        is_first = false;
        if line.is_empty() {
            events.extend(event(&mut data, &mut kind));
            continue;
        }
        // The mark hides the colon of a comment, which is then bounded.
        if line[0] == b':' && length == line.len() {
            continue;
        }
        if length + joined(&data).len() > limit {
            return (events, true);
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = colon.map_or((line, &[][..]), |at| (&line[..at], &line[at + 1..]));
        let value = value.strip_prefix(b" ").unwrap_or(value).to_vec();
        match field {
            b"data" => data.push(value),
            b"event" => kind = String::from_utf8_lossy(&value).into_owned(),
            b"error" => (data, kind) = (vec![value], "error".to_owned()),
            _ => {}
        }
        if joined(&data).len() + kind.len() > limit {
            return (events, true);
        }
    }
    events.extend(event(&mut data, &mut kind));
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

fn joined(data: &[Vec<u8>]) -> String {
    String::from_utf8_lossy(&data.join(&b'\n')).into_owned()
}

fn event(data: &mut Vec<Vec<u8>>, kind: &mut String) -> Option<Event> {
    let data = std::mem::take(data);
    let kind = std::mem::take(kind);
    let is_broken = std::str::from_utf8(&data.join(&b'\n')).is_err();
    (!data.is_empty()).then(|| Event { kind, data: joined(&data), is_broken })
}
