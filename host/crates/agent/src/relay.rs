//! Relays responses to the caller: the deltas that it receives, and their order.
//!
//! Deltas are shown as they arrive, and a chunk of a chat completion in which nothing is held back or
//! changed as it came. If the gateway offers tools in the request, all calls but those of the caller's own
//! tools are held back until the response is complete, because most of them run here, and the rest is
//! refused. The ends of choices are held back too, because another round may follow. All rounds are one reply
//! for the caller: one beginning, one end, one usage. If the caller asked for JSON, text is held back as
//! well: before a call of the gateway's tools it is not part of the JSON, and not shown. If each round is
//! shown on its own, the caller sees the gateway's calls too, so a call of its own after one that is held
//! back is held back as well, and follows it. With a provider that has the Responses API it is not: its item
//! has members that belong to the open call.
//!
//! `round` has the state of one response, `shown` divides its deltas, `ending` ends the stream, and `deltas`
//! has the kinds of deltas.
//!
//! *Shown* means sent to the caller; *held back* means kept until the end of the response. The *place* of a
//! call is its index in the reply that the caller receives.

mod deltas;
mod ending;
mod round;
mod shown;

use std::{collections::BTreeSet, mem};

pub(super) use self::ending::StreamEnd;
use self::{
    deltas::{is_chunk_member, kept_bytes},
    round::{HeldChunk, RelayedRound},
    shown::ShownDeltas,
};
use super::{
    Failure,
    allowance::Allowance,
    answer::Answer,
    calls,
    controlled::ControlledRequest,
    event::{Emitter, Event},
    guarded::ReplyWindows,
    names::CallableNames,
};
use airlock_conversation::Delta;
use airlock_core::{
    memory::Charge,
    threads::{self, INLINE_BYTES},
    timer::StreamTimer,
};
use airlock_model::{Chunks, ReplyChunk};

/// Bytes of a response that are charged at a time.
const CHARGE_BYTES: usize = 4 << 10;
/// Memory of a chunk, in bytes, up to which its pieces are copied on a worker.
const INLINE_CHUNK_BYTES: usize = 8 * INLINE_BYTES;
/// Text between the texts of two rounds.
const BETWEEN_ROUNDS: &str = "\n\n";

/// The parts of responses that a caller receives, and when.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "each is chosen for itself")]
pub(super) struct RelayStyle {
    /// True if calls of the gateway's tools and ends of choices are held back: the gateway offers
    /// tools, or each round is shown on its own.
    pub(super) holds: bool,
    /// True if the texts of all rounds become one text, which includes results of calls; false if
    /// each round is shown on its own.
    pub(super) is_one_text: bool,
    /// True if a call of the caller's own is held back too after one that is.
    pub(super) keeps_order: bool,
    /// True if the text of a round whose calls all run here is not shown.
    pub(super) holds_text: bool,
    /// True if the caller receives chunks of a chat completion as they came.
    pub(super) is_chat: bool,
}

/// The chunks of a response that is relayed.
pub(super) struct RelayedChunks<'r> {
    pub(super) chunks: Chunks<'r>,
    /// The decisions of guards about them; `None` if they are relayed as they come.
    pub(super) windows: Option<Box<ReplyWindows<'r>>>,
}

impl RelayedChunks<'_> {
    /// Returns the next chunk; `None` at the end of the response.
    async fn next(&mut self) -> Result<Option<ReplyChunk>, Failure> {
        match &mut self.windows {
            None => Ok(self.chunks.next().await?),
            // Boxed: most responses are not reviewed.
            Some(windows) => Box::pin(windows.next(&mut self.chunks)).await,
        }
    }
}

/// The parts of a request that each of its relayed responses uses.
#[derive(Clone, Copy)]
pub(super) struct RelayContext<'a> {
    pub(super) names: &'a CallableNames,
    pub(super) allowance: &'a Allowance,
    pub(super) emitter: &'a Emitter,
}

/// The stream of one request.
pub(super) struct Relay {
    style: RelayStyle,
    /// Choices that have text from an earlier round.
    spoken: BTreeSet<u64>,
    round: RelayedRound,
    has_begun: bool,
    /// True if the caller has received the end of a choice.
    has_ended: bool,
}

/// A response that is collected while it is relayed, and charged as it grows.
struct CollectedAnswer<'a> {
    /// `None` before its first chunk: a stream in which nothing is held back needs no room for it.
    answer: Option<Box<Answer>>,
    held: &'a Charge,
    bytes: usize,
    charged_bytes: usize,
}

impl RelayContext<'_> {
    /// Returns whether a response follows a round of calls.
    fn is_later(&self) -> bool {
        self.allowance.rounds > 0
    }
}

impl Relay {
    /// Creates the relay of a request.
    pub(super) fn new(style: RelayStyle) -> Self {
        let spoken = BTreeSet::new();
        let round = RelayedRound::default();
        Self { style, spoken, round, has_begun: false, has_ended: false }
    }

    /// Relays a response and returns it; an empty one if nothing is held back. Calls that
    /// [`CallableNames::holds_back`] are not shown yet. Fails if the provider fails, at the deadline, if there
    /// are too many calls, or if there is no memory.
    pub(super) async fn response(
        &mut self,
        mut chunks: RelayedChunks<'_>,
        ids: &mut BTreeSet<String>,
        mut controlled: Option<&mut ControlledRequest>,
        context: RelayContext<'_>,
    ) -> Result<Box<Answer>, Failure> {
        let RelayContext { allowance, emitter, .. } = context;
        let mut collected = CollectedAnswer::new(&allowance.held);
        let mut found = 0;
        // One timer for all chunks.
        let mut over = StreamTimer::until(allowance.deadline);
        loop {
            let next = tokio::select! {
                biased;
                next = chunks.next() => next?,
                () = over.ended() => return Err(allowance.timeout()),
            };
            let Some(mut chunk) = next else { return Ok(collected.answer.unwrap_or_default()) };
            if let Some(controlled) = &mut controlled {
                controlled.receives(&chunk);
            }
            // A timer does not fire while the stream is always ready, so a provider that sends
            // without a pause would not be stopped.
            if allowance.is_over() {
                return Err(allowance.timeout());
            }
            if calls::repair(chunk.deltas_mut(), ids, &mut found)? {
                chunk.drop_exact();
            }
            let is_late = chunk.has_end() || chunk.is_usage();
            if self.style.holds {
                let chunk = collected.add(chunk).await?;
                // Boxed: the future of the stream would have room for it also while it waits for the next chunk.
                Box::pin(self.relay_chunk(chunk, &context)).await?;
            } else {
                self.has_ended |= chunk.has_end();
                emitter.emit(Event::Chunk(chunk)).await;
            }
            // A caller that has the end may leave, and the tokens of the stream count only once all of it is read.
            if !is_late {
                emitter.handed_over().await;
            }
        }
    }

    /// Returns whether a call of this response was shown.
    pub(super) fn has_shown(&self, id: &str) -> bool {
        self.round.shown.contains(id)
    }

    /// Ends a round whose calls were all run here. Its held texts are not shown.
    pub(super) async fn end_round(&mut self, emitter: &Emitter) {
        let tail = mem::take(&mut self.round.tail);
        Self::show_without_ends(tail, emitter).await;
        self.spoken.extend(mem::take(&mut self.round).speaking);
    }

    /// Shows the parts of a chunk that are not held back.
    async fn relay_chunk(
        &mut self,
        mut chunk: ReplyChunk,
        context: &RelayContext<'_>,
    ) -> Result<(), Failure> {
        if !self.style.is_chat {
            chunk.drop_exact();
        }
        // A call may be shown only when its name is complete.
        let is_changed = context.is_later() || chunk.has_calls();
        let mut shown = ShownDeltas { is_changed, ..ShownDeltas::default() };
        for delta in chunk.take_deltas() {
            self.show_delta(delta, context, &mut shown)?;
        }
        let ShownDeltas { earlier, mut deltas, mut of_begin, is_held, is_changed } = shown;
        deltas.append(&mut of_begin);
        let is_held = is_changed && (is_held || chunk.has_calls());
        if is_held && !has_tail(&chunk) && deltas.iter().all(is_chunk_member) {
            self.round.hold_members(mem::take(&mut deltas), &context.allowance.held)?;
        }
        chunk.extend(deltas);
        self.show_chunk(chunk, earlier, is_changed, context).await
    }

    /// Shows a chunk after the texts before it, or holds it back if it has an end or the usage as it came. Chunks
    /// that were held back for an end of the same choice are shown, because some servers send one in every chunk.
    async fn show_chunk(
        &mut self,
        mut chunk: ReplyChunk,
        earlier: Vec<Vec<Delta>>,
        is_changed: bool,
        context: &RelayContext<'_>,
    ) -> Result<(), Failure> {
        let RelayContext { allowance, emitter, .. } = *context;
        let mut choices = chunk.choices();
        choices.sort_unstable();
        choices.dedup();
        let tail = self.round.take_tail(&choices, chunk.is_usage());
        Self::show_without_ends(tail, emitter).await;
        for deltas in earlier {
            emitter.emit(Event::Chunk(deltas.into())).await;
        }
        if has_tail(&chunk) {
            if !chunk.keep(&allowance.held) {
                return Err(Failure::NoMemory);
            }
            self.round.tail.push(HeldChunk { chunk, choices, is_changed });
            return Ok(());
        }
        if is_changed {
            chunk.drop_exact();
        }
        if chunk.is_empty() {
            return Ok(());
        }
        emitter.emit(Event::Chunk(chunk)).await;
        Ok(())
    }

    /// Shows the deltas of chunks that were held back for the end of a choice, without it.
    async fn show_without_ends(tail: Vec<HeldChunk>, emitter: &Emitter) {
        for HeldChunk { mut chunk, .. } in tail {
            chunk.drop_exact();
            // The members beside an end belong to it.
            if !chunk.deltas().iter().all(is_chunk_member) {
                emitter.emit(Event::Chunk(chunk)).await;
            }
        }
    }
}

impl<'a> CollectedAnswer<'a> {
    fn new(held: &'a Charge) -> Self {
        Self { answer: None, held, bytes: 0, charged_bytes: 0 }
    }

    /// Adds copies of the pieces of a chunk: here if it is small, else on a blocking thread. Charges the growth,
    /// [`CHARGE_BYTES`] or more at a time. Returns the chunk. Fails if there is no memory.
    async fn add(&mut self, mut chunk: ReplyChunk) -> Result<ReplyChunk, Failure> {
        if chunk.bytes() <= INLINE_CHUNK_BYTES {
            self.bytes += add_pieces(self.answer.get_or_insert_default(), &chunk);
        } else {
            let mut answer = self.answer.take().unwrap_or_default();
            let tenant = self.held.tenant();
            let adding = threads::run(&tenant, move || {
                let bytes = add_pieces(&mut answer, &chunk);
                (answer, chunk, bytes)
            });
            // Boxed: most chunks are small.
            let (answer, added, bytes) = Box::pin(adding).await;
            self.answer = Some(answer);
            self.bytes += bytes;
            chunk = added;
        }
        let growth = self.bytes - self.charged_bytes;
        if growth < CHARGE_BYTES {
            return Ok(chunk);
        }
        self.charged_bytes = self.bytes;
        if self.held.grow(growth) { Ok(chunk) } else { Err(Failure::NoMemory) }
    }
}

/// Adds copies of the pieces of a chunk to an answer. Returns the memory that they take, in bytes.
fn add_pieces(answer: &mut Answer, chunk: &ReplyChunk) -> usize {
    let mut bytes = 0;
    // Unknown members of chunks are part of no message.
    for delta in chunk.deltas().iter().filter(|delta| !is_chunk_member(delta)) {
        bytes += kept_bytes(delta, &answer.reply);
        answer.add(delta.clone());
    }
    bytes
}

/// Returns whether a chunk has an end or the usage in the form in which it came.
fn has_tail(chunk: &ReplyChunk) -> bool {
    chunk.exact().is_some() && (chunk.has_end() || chunk.is_usage())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use airlock_core::memory::MemoryBudget;

    #[tokio::test]
    async fn pieces_that_begin_items_are_charged_as_the_memory_of_the_items() {
        let held = MemoryBudget::unlimited().charge();
        let mut collected = CollectedAnswer::new(&held);
        let choice = 0;
        for _ in 0..100 {
            let [thought, said, refused] = ["a", "b", "c"].map(str::to_owned);
            let pieces = vec![
                Delta::Reasoning { choice, text: thought },
                Delta::Text { choice, text: said },
                Delta::Refusal { choice, text: refused },
            ];
            collected.add(pieces.into()).await.expect("there is room");
        }
        let items = collected.answer.as_deref().map_or(0, Answer::item_bytes);
        assert!(items > 100 && collected.bytes >= items, "{} for {items}", collected.bytes);
        let before = collected.bytes;
        for _ in 0..100 {
            let piece = Delta::Refusal { choice, text: "c".to_owned() };
            collected.add(vec![piece].into()).await.expect("there is room");
        }
        assert_eq!(collected.bytes - before, 200, "a piece that goes on takes its text");
    }

    #[tokio::test]
    async fn the_pieces_of_a_long_chunk_are_not_copied_on_a_worker() {
        let held = MemoryBudget::unlimited().charge();
        for (bytes, is_here) in [(10, true), (INLINE_CHUNK_BYTES, false)] {
            let mut collected = CollectedAnswer::new(&held);
            let text = Delta::Text { choice: 0, text: "x".repeat(bytes) };
            let occupied = threads::occupy(&held.tenant()).await;
            let mut adding = Box::pin(collected.add(vec![text].into()));
            let at_once = adding.as_mut().now_or_never();
            assert_eq!(at_once.is_some(), is_here, "{bytes}");
            drop(occupied);
            let added = if let Some(added) = at_once { added } else { adding.as_mut().await };
            drop(adding);
            assert!(added.is_ok_and(|chunk| chunk.deltas().len() == 1));
            assert!(collected.answer.is_some_and(|answer| answer.bytes() >= bytes));
            assert!(collected.bytes >= bytes);
        }
    }
}
