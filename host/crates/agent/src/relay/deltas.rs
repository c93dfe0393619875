//! The kinds of deltas of a relayed stream, and their order at its end.

use super::round::HeldChunk;
use airlock_conversation::{Delta, Item, Part, Reply};

/// Member with the log probabilities of a text.
pub(super) const LOGPROBS: &str = "logprobs";
/// Memory of an item with one part in a collected reply, in bytes beside its text. The capacity of both lists doubles.
const BEGUN_BYTES: usize = 2 * (size_of::<Item>() + size_of::<Part>());

/// Returns the deltas of a tail that cannot be sent as it came: its pieces, those that come `last`, and the
/// ends. The members of its chunks follow the ends, and those of the chunk with the usage the usage.
pub(super) fn last_deltas(tail: Vec<HeldChunk>, last: Vec<Delta>, ends: Vec<Delta>) -> Vec<Delta> {
    let mut all = Vec::new();
    let mut members = Vec::new();
    let mut usage_members = Vec::new();
    for HeldChunk { chunk, .. } in tail {
        let own = if chunk.is_usage() { &mut usage_members } else { &mut members };
        for delta in chunk.into_deltas() {
            let is_own = is_chunk_member(&delta) && delta.choice().is_none();
            if is_own { own.push(delta) } else { all.push(delta) }
        }
    }
    let (usage, ends): (Vec<_>, Vec<_>) =
        ends.into_iter().partition(|delta| matches!(delta, Delta::Usage(_)));
    for more in [last, ends, members, usage, usage_members] {
        all.extend(more);
    }
    all
}

/// Returns texts in groups that are shown one after the other. Log probabilities stay with their text.
pub(super) fn in_pieces(texts: Vec<Delta>) -> Vec<Vec<Delta>> {
    let mut pieces: Vec<Vec<Delta>> = Vec::new();
    for text in texts {
        match pieces.last_mut() {
            Some(piece) if piece.last().is_some_and(is_logprobs) => piece.push(text),
            _ => pieces.push(vec![text]),
        }
    }
    pieces
}

fn is_logprobs(delta: &Delta) -> bool {
    matches!(delta, Delta::Member { name, .. } if name == LOGPROBS)
}

/// Returns whether a delta is an unknown member of a chunk or of a choice.
pub(super) fn is_chunk_member(delta: &Delta) -> bool {
    matches!(delta, Delta::ChunkMember { .. })
}

/// Returns whether a delta is text of the answer, or ends a message with it.
pub(super) fn is_text(delta: &Delta) -> bool {
    match delta {
        Delta::Text { .. } | Delta::Refusal { .. } | Delta::Citation { .. } => true,
        Delta::ItemEnd { item, .. } => item.get("type").is_some_and(|kind| kind == "message"),
        // A text as a member only marks the form of the message.
        Delta::Member { name, value, .. } => {
            matches!(name.as_str(), LOGPROBS | "content" | "annotations") && !value.is_string()
        }
        _ => false,
    }
}

/// Returns an upper estimate of the memory that a delta takes when it is added to a collected reply, in bytes. A text is
/// appended to the one before it, whose capacity doubles, or begins an item: a model that writes a letter of its answer
/// and one of its reasoning by turns makes an item of each.
pub(super) fn kept_bytes(delta: &Delta, reply: &Reply) -> usize {
    match delta {
        Delta::Text { text, .. }
        | Delta::Refusal { text, .. }
        | Delta::Reasoning { text, .. }
        | Delta::Arguments { text, .. } => {
            2 * text.len() + if reply.continues(delta) { 0 } else { BEGUN_BYTES }
        }
        delta => 2 * delta.bytes(),
    }
}
