//! The two harnesses.

mod generated;
mod input;
mod observed;
mod reference;

use std::collections::BTreeSet;

use airlock_conversation::{
    Object, Reply,
    chat::{self, ReplyReader},
};
use airlock_core::{
    memory::{Charge, MemoryBudget},
    model_calls::EXTENSION,
};
use airlock_json::{self as json, Caps};
use airlock_model::{
    Calls, Document,
    document::{choices, finish_reason, head, index_of},
};
use airlock_wire::sse::{Dialect, Item, SseDecoder, SseEvent};
use serde_json::Value;

use self::{generated::Generator, input::Input, observed::Observed};
use crate::counting::held_by;

/// Data of the event after the last chunk.
const DONE: &[u8] = b"[DONE]";
/// Maximum number of calls of one response.
const MAX_CALLS: usize = 256;
/// Memory that the tree of one chunk may take, in bytes.
const TREE_BYTES: usize = 4 << 20;
/// Ids of an earlier round.
const EARLIER: [&str; 2] = ["call_1", "a"];

/// Events of a stream, and whether an event larger than the limit ended it.
type Decoded = (Vec<SseEvent>, bool);

/// Reads the input as a stream of server-sent events: however it is cut, the events are those of the
/// reference.
///
/// # Panics
///
/// Panics if the input breaks an invariant.
pub fn sse(input: &[u8]) {
    let input = Input::from(input);
    let expected = reference::decode(input.stream, input.limit_bytes);
    assert_eq!(decode(input.limit_bytes, [input.stream]), expected, "in one piece");
    assert_eq!(decode(input.limit_bytes, input.pieces()), expected, "in pieces");
}

/// Reads the input as a streamed chat completion, as the gateway does.
///
/// # Panics
///
/// Panics if the input breaks an invariant.
pub fn chat_stream(input: &[u8]) {
    let input = Input::from(input);
    let (events, is_too_large) = decode(input.limit_bytes, [input.stream]);
    let in_pieces = decode(input.limit_bytes, input.pieces());
    assert_eq!(in_pieces, (events.clone(), is_too_large), "the cuts change the events");
    read(&events);
}

/// Reads chunks that are made from the input.
///
/// # Panics
///
/// Panics if the input breaks an invariant.
pub fn chunks(input: &[u8]) {
    let mut generator = Generator::new(input);
    let chunks = std::iter::from_fn(|| generator.chunk());
    let event = |chunk: Value| SseEvent { data: chunk.to_string().into(), ..SseEvent::default() };
    read(&chunks.map(event).collect::<Vec<_>>());
}

/// Decodes a stream that arrives in these pieces. Checks the memory of the decoder after each.
fn decode<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = SseDecoder::new(Dialect::Model, limit);
    let mut events = Vec::new();
    for mut piece in pieces {
        loop {
            let before = piece.len();
            let item = decoder.next(&mut piece);
            // Two buffers, which double when they grow, a field name in each line, and a type.
            let bound = 4 * (limit + 16) + 128;
            let allocated = decoder.allocated();
            assert!(allocated <= bound, "{allocated} bytes are allocated, {bound} are permitted");
            let Some(item) = item else { break };
            assert!(piece.len() < before, "an event takes at least one byte");
            let Item::Event(event) = item else { return (events, true) };
            assert!(event.data.len() <= limit, "the event is too large");
            events.push(event);
        }
        assert!(piece.is_empty(), "everything is read");
    }
    match decoder.finish() {
        Some(Item::TooLong { .. }) => return (events, true),
        Some(Item::Event(event)) => events.push(event),
        None => {}
    }
    (events, false)
}

/// Reads the chunks of a stream up to its end or the first that is refused.
fn read(events: &[SseEvent]) {
    let held = MemoryBudget::unlimited().charge();
    let mut ids = BTreeSet::from(EARLIER.map(str::to_owned));
    let mut observed = Observed::new(&ids);
    let mut calls = Calls::default();
    let mut again = Calls::default();
    let mut other_ids = ids.clone();
    let mut reader = ReplyReader::default();
    let mut reply = Reply::default();
    let mut text_bytes = 0;
    for event in events {
        match event.data.trim_ascii() {
            b"" => continue,
            DONE => break,
            _ => {}
        }
        let Ok(data) = str::from_utf8(&event.data) else { break };
        let Some(mut chunk) = document(data, &held) else { break };
        text_bytes += event.data.len();
        if calls.repair(&mut chunk, &mut ids, MAX_CALLS).is_err() {
            break;
        }
        repair_again(&chunk, &mut again, &mut other_ids, &held);
        let Ok(deltas) = reader.chunk(chunk.object().clone()) else { return };
        observed.add(chunk.object());
        reply.extend(deltas);
    }
    let Ok(deltas) = reader.finish() else { return };
    reply.extend(deltas);
    let answer = chat::write_reply(reply, 0);
    // A number grows most: `1e9` is written as `1000000000.0`.
    let bound = 6 * text_bytes + 160 * observed.choices() + 128 * observed.calls() + 256;
    let length = json::text_len(&answer);
    assert!(length <= bound, "the response has {length} bytes, the chunks have {text_bytes}");
    observed.compare(&answer);
}

/// Reads the document of an event. Its memory is what was charged, and its texts are itself.
fn document(text: &str, held: &Charge) -> Option<Document> {
    let caps = Caps::memory(TREE_BYTES);
    let checked = json::check(text.as_bytes(), &caps);
    let (tree, bytes) = held_by(|| serde_json::from_str::<Value>(text));
    match &checked {
        Ok(cost) => assert!(bytes <= cost.tree_bytes, "{bytes} bytes are held, charged {cost:?}"),
        Err(error) => assert!(error.is_cap() || tree.is_err(), "{error} is refused wrongly"),
    }
    assert!(checked.is_err() || tree.is_ok(), "a text that cannot be parsed is accepted");
    let chunk = Document::read_chunk(text.to_owned(), &caps, held).ok()?;
    let mut tree = tree.ok().and_then(|tree| tree.as_object().cloned()).unwrap_or_default();
    let is_exact = !remove_own(&mut tree);
    assert_eq!(chunk.object(), &tree);
    assert_eq!(chunk.is_exact(), is_exact);
    assert!(!is_exact || chunk.to_text() == text, "the text is not kept");
    let _ = head(chunk.object());
    Some(chunk)
}

/// Removes the members that only the gateway may send. Returns whether there were any.
fn remove_own(tree: &mut Object) -> bool {
    let error = tree.get_mut("error").and_then(Value::as_object_mut);
    let in_error = error.is_some_and(|error| error.shift_remove(EXTENSION).is_some());
    tree.shift_remove(EXTENSION).is_some() || in_error
}

/// Checks that the text of a repaired chunk is the chunk, on one line, and that it has no faults.
fn repair_again(chunk: &Document, calls: &mut Calls, ids: &mut BTreeSet<String>, held: &Charge) {
    let text = chunk.to_text();
    let read = || Document::read(text.clone(), &Caps::memory(usize::MAX), held);
    let mut copy = read().expect("it was written from an object");
    assert_eq!(copy.object(), chunk.object());
    calls.repair(&mut copy, ids, MAX_CALLS).expect("there are as many calls as before");
    assert!(copy.is_exact(), "{text} is repaired to {}", copy.to_text());
    let line = copy.into_line();
    assert!(!line.contains(['\n', '\r']), "a line has a line end");
    let read = serde_json::from_str::<Object>(&line).expect("it was written from an object");
    assert_eq!(&read, chunk.object());
}

/// Iterates over the choices of a chunk by their indices.
fn indexed(chunk: &Object) -> impl Iterator<Item = (u64, &Object)> {
    choices(chunk).enumerate().map(|(position, choice)| {
        assert!(finish_reason(choice).is_none_or(|reason| !reason.is_empty()));
        (index_of(choice, position), choice)
    })
}
