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
//! `round` has the state of one response, and `deltas` tells the kinds of deltas.
//!
//! *Shown* means sent to the caller; *held back* means kept until the end of the response. The *place* of a
//! call is its index in the reply that the caller receives.

mod deltas;
mod round;

use std::{collections::BTreeSet, mem, pin::pin};

use tokio::time::sleep_until;

use self::{
    deltas::{LOGPROBS, in_pieces, is_chunk_member, is_text, kept_bytes, last_deltas},
    round::{HeldChunk, RelayedRound},
};
use super::{
    Failure,
    allowance::Allowance,
    answer::Answer,
    calls,
    controlled::ControlledRequest,
    event::{Emitter, Event},
    names::CallableNames,
    round::PendingCall,
};
use airlock_conversation::{Begin, CallInput, Delta, FinishReason, Usage};
use airlock_model::{Charge, Chunks, ReplyChunk};

/// Bytes of a response that are charged at a time.
const CHARGE_BYTES: usize = 4 << 10;
/// Maximum number of deltas of a chunk that is made at the end.
const MAX_LAST_DELTAS: usize = 64;
/// Member with pieces of calls that have begun.
const TOOL_CALLS: &str = "tool_calls";
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

/// The end of a stream.
pub(super) struct StreamEnd<'e> {
    pub(super) pending: &'e [PendingCall],
    /// True if calls were run and others are pending.
    pub(super) is_mixed: bool,
    /// Text of the gateway itself.
    pub(super) own_text: Option<String>,
    /// Usage of all rounds; `None` if that of the last response is sent.
    pub(super) usage: Option<Usage>,
    /// True if the reply has a description of its calls.
    pub(super) is_described: bool,
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

/// The deltas of a chunk that are shown.
#[derive(Default)]
struct ShownDeltas {
    /// Those that are shown before, each group as a chunk: texts that were held back.
    earlier: Vec<Vec<Delta>>,
    deltas: Vec<Delta>,
    /// Unknown members of the beginning, which follow the pieces.
    of_begin: Vec<Delta>,
    /// True if a piece is held back.
    is_held: bool,
    /// True if they are not those that came.
    is_changed: bool,
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
        mut chunks: Chunks<'_>,
        names: &CallableNames,
        ids: &mut BTreeSet<String>,
        allowance: &Allowance,
        emitter: &Emitter,
        mut controlled: Option<&mut ControlledRequest>,
    ) -> Result<Box<Answer>, Failure> {
        let mut answer = Box::<Answer>::default();
        let mut bytes = 0;
        let mut charged = 0;
        let mut found = 0;
        // One timer for all chunks.
        let mut over = pin!(sleep_until(allowance.deadline));
        loop {
            let chunk = tokio::select! {
                biased;
                chunk = chunks.next() => chunk?,
                () = &mut over => return Err(allowance.timeout()),
            };
            let Some(mut chunk) = chunk else { break };
            if let Some(controlled) = &mut controlled {
                controlled.receives(&chunk);
            }
            // A timer does not fire while the stream is always ready, so a provider that sends
            // without a pause would not be stopped.
            if allowance.is_over() {
                return Err(allowance.timeout());
            }
            let is_repaired = calls::repair(chunk.deltas_mut(), ids, &mut found)?;
            if is_repaired {
                chunk.drop_exact();
            }
            if !self.style.holds {
                self.has_ended |= chunk.has_end();
                emitter.emit(Event::Chunk(chunk)).await;
                continue;
            }
            // Unknown members of chunks are part of no message.
            let pieces = chunk.deltas().iter().filter(|delta| !is_chunk_member(delta));
            for delta in pieces {
                bytes += kept_bytes(delta);
                answer.add(delta.clone());
            }
            charge(&allowance.held, &mut charged, bytes)?;
            // Boxed: the stream would keep its room while it waits for the next chunk.
            Box::pin(self.held_chunk(chunk, names, allowance, emitter)).await?;
        }
        Ok(answer)
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

    /// Ends the stream with the pending calls, the ends of the choices and the usage.
    pub(super) async fn finish(mut self, end: StreamEnd<'_>, emitter: &Emitter) {
        if !self.style.holds && self.has_ended {
            return;
        }
        let StreamEnd { pending, is_mixed, own_text, usage, is_described } = end;
        let own_text = own_text.filter(|_| self.style.is_one_text || !is_mixed);
        let last = self.last(own_text, pending);
        let is_changed = !last.is_empty() || is_mixed || is_described || usage.is_some();
        let is_exact = !is_changed && self.round.has_exact_tail();
        let mut ends = self.ends(pending, is_mixed, usage);
        let tail = mem::take(&mut self.round.tail);
        if !is_exact {
            let mut all = last_deltas(tail, last, ends).into_iter().peekable();
            while all.peek().is_some() {
                let deltas: Vec<_> = all.by_ref().take(MAX_LAST_DELTAS).collect();
                emitter.emit(Event::Chunk(deltas.into())).await;
            }
            return;
        }
        for HeldChunk { mut chunk, .. } in tail {
            // They are in the exact forms.
            chunk.extend(mem::take(&mut ends));
            emitter.emit(Event::Chunk(chunk)).await;
        }
    }

    /// Returns what is shown before the ends: the texts that are held back, the gateway's own text, and the
    /// pending calls.
    fn last(&mut self, own_text: Option<String>, pending: &[PendingCall]) -> Vec<Delta> {
        let mut last = self.round.take_texts();
        last.extend(own_text.map(|text| self.last_text(text)));
        self.add_pending(pending, &mut last);
        last.extend(self.round.take_members());
        last
    }

    /// Returns the gateway's own text after that of the model.
    fn last_text(&self, last: String) -> Delta {
        let has_text = self.round.speaking.contains(&0) || self.spoken.contains(&0);
        let text = if has_text { format!("{BETWEEN_ROUNDS}{last}") } else { last };
        Delta::Text { choice: 0, text }
    }

    /// Appends the pending calls that were held back.
    fn add_pending(&mut self, pending: &[PendingCall], out: &mut Vec<Delta>) {
        let shown = mem::take(&mut self.round.shown);
        for pending in pending.iter().filter(|pending| !shown.contains(&pending.call.id)) {
            let choice = pending.call.choice;
            let index = self.round.next_place(choice);
            let call = pending.call.item.clone();
            let (is_custom, text) = match call.input {
                CallInput::Arguments(text) => (false, text),
                CallInput::Text(text) => (true, text),
            };
            let airlock_conversation::ToolCall { id, name, extra, .. } = call;
            out.push(Delta::Call { choice, index, id, name, is_custom, extra });
            if !text.is_empty() {
                out.push(Delta::Arguments { choice, index, text });
            }
        }
    }

    /// Returns the ends of the choices, and the usage: `sum` in the place of that of the last response. A
    /// stream without an end gets one.
    fn ends(&mut self, pending: &[PendingCall], is_mixed: bool, sum: Option<Usage>) -> Vec<Delta> {
        let mut ends = mem::take(&mut self.round.ends);
        if ends.is_empty() {
            let reason =
                if pending.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
            ends.push((0, reason));
        }
        let mut members = mem::take(&mut self.round.end_members);
        let ends = ends.into_iter().flat_map(|(choice, reason)| {
            let reason = if is_mixed { FinishReason::ToolCalls } else { reason };
            let members = members.remove(&choice).unwrap_or_default();
            [Delta::End { choice, reason }].into_iter().chain(members)
        });
        let usage = self.round.usage.take().map(|usage| match sum {
            Some(sum) => Delta::Usage(Usage { chunk: usage.chunk, ..sum }),
            None => Delta::Usage(usage),
        });
        ends.chain(usage).collect()
    }

    /// Shows the parts of a chunk that are not held back.
    async fn held_chunk(
        &mut self,
        mut chunk: ReplyChunk,
        names: &CallableNames,
        allowance: &Allowance,
        emitter: &Emitter,
    ) -> Result<(), Failure> {
        if !self.style.is_chat {
            chunk.drop_exact();
        }
        let is_later = allowance.rounds > 0;
        // A call may be shown only when its name is complete.
        let is_changed = is_later || chunk.has_calls();
        let mut shown = ShownDeltas { is_changed, ..ShownDeltas::default() };
        for delta in chunk.take_deltas() {
            self.sort(delta, is_later, names, &allowance.held, &mut shown)?;
        }
        let ShownDeltas { earlier, mut deltas, mut of_begin, is_held, is_changed } = shown;
        deltas.append(&mut of_begin);
        let is_held = is_changed && (is_held || chunk.has_calls());
        if is_held && !has_tail(&chunk) && deltas.iter().all(is_chunk_member) {
            self.round.hold_members(mem::take(&mut deltas), &allowance.held)?;
        }
        chunk.extend(deltas);
        self.show(chunk, earlier, is_changed, allowance, emitter).await
    }

    /// Shows a chunk after the texts before it, or holds it back if it has an end or the usage as it came. Chunks
    /// that were held back for an end of the same choice are shown, because some servers send one in every chunk.
    async fn show(
        &mut self,
        mut chunk: ReplyChunk,
        earlier: Vec<Vec<Delta>>,
        is_changed: bool,
        allowance: &Allowance,
        emitter: &Emitter,
    ) -> Result<(), Failure> {
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

    /// Shows a delta, or holds it back.
    fn sort(
        &mut self,
        delta: Delta,
        is_later: bool,
        names: &CallableNames,
        held: &Charge,
        shown: &mut ShownDeltas,
    ) -> Result<(), Failure> {
        match delta {
            Delta::Begin(begin) => self.sort_begin(begin, names, shown),
            Delta::End { choice, reason } => self.round.ends.push((choice, reason)),
            Delta::Usage(usage) => self.round.usage = Some(usage),
            Delta::ItemEnd { .. } if self.style.is_one_text => shown.is_changed = true,
            Delta::Call { .. } | Delta::Arguments { .. } => self.sort_call(delta, names, shown),
            Delta::Member { choice, wire, name, value } if name == TOOL_CALLS => {
                let (value, is_changed) = self.round.place_members(choice, value);
                shown.is_changed |= is_changed;
                if let Some(value) = value {
                    shown.deltas.push(Delta::Member { choice, wire, name, value });
                }
            }
            Delta::ChunkMember { .. } => self.sort_member(delta, names, shown),
            Delta::Member { name, value, .. }
                if name != LOGPROBS && names.is_call_member(&name, &value) =>
            {
                shown.is_changed = true;
            }
            delta if self.style.holds_text && is_text(&delta) => {
                shown.is_changed = true;
                shown.is_held = true;
                let delta = self.joined(delta, is_later);
                self.round.hold_text(delta, held)?;
            }
            delta => {
                let delta = self.joined(delta, is_later);
                self.round.note_text(&delta);
                shown.deltas.push(delta);
            }
        }
        Ok(())
    }

    /// Shows the beginning of the reply; of a later round, its unknown members alone.
    fn sort_begin(&mut self, mut begin: Begin, names: &CallableNames, shown: &mut ShownDeltas) {
        let is_later = mem::replace(&mut self.has_begun, true);
        if is_later {
            shown.is_changed = true;
            names.remove_calls(&mut begin.extra);
            let members = begin.extra.into_iter().filter(|_| self.style.is_chat);
            let members =
                members.map(|(name, value)| Delta::ChunkMember { choice: None, name, value });
            shown.of_begin.extend(members);
        } else {
            shown.is_changed |= names.remove_calls(&mut begin.extra);
            shown.deltas.push(Delta::Begin(begin));
        }
    }

    /// Shows a piece of a call, or holds it back.
    fn sort_call(&mut self, delta: Delta, names: &CallableNames, shown: &mut ShownDeltas) {
        // It may have begun in an earlier chunk, and texts before it may be shown now.
        shown.is_changed = true;
        let Some(delta) = self.round.place(delta, names, self.style.keeps_order) else {
            shown.is_held = true;
            return;
        };
        let begins = matches!(delta, Delta::Call { .. });
        if begins {
            // The caller's own call ends the loop, so the text before it is shown.
            let texts = self.round.take_texts();
            if !texts.is_empty() {
                let before = mem::take(&mut shown.deltas);
                shown.earlier.extend(Some(before).filter(|before| !before.is_empty()));
                shown.earlier.extend(in_pieces(texts));
            }
        }
        shown.deltas.push(delta);
        if begins {
            shown.deltas.extend(self.round.take_members());
        }
    }

    /// Shows an unknown member of a chunk, or holds it back with the end of its choice.
    fn sort_member(&mut self, delta: Delta, names: &CallableNames, shown: &mut ShownDeltas) {
        let Delta::ChunkMember { choice, name, value } = &delta else { return };
        if !self.style.is_chat || names.is_call_member(name, value) {
            shown.is_changed = true;
        } else if let Some(choice) = choice.filter(|choice| self.round.has_just_ended(*choice)) {
            self.round.end_members.entry(choice).or_default().push(delta);
        } else {
            shown.deltas.push(delta);
        }
    }

    /// Makes the first text of a later round a part of the text before it.
    fn joined(&mut self, mut delta: Delta, is_later: bool) -> Delta {
        if let Delta::Text { choice, text } = &mut delta
            && is_later
            && self.style.is_one_text
            && !text.is_empty()
            && self.spoken.remove(choice)
        {
            text.insert_str(0, BETWEEN_ROUNDS);
        }
        delta
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

/// Returns whether a chunk has an end or the usage in the form in which it came.
fn has_tail(chunk: &ReplyChunk) -> bool {
    chunk.exact().is_some() && (chunk.has_end() || chunk.is_usage())
}

/// Charges the growth of a response, [`CHARGE_BYTES`] or more at a time. Fails if there is no memory.
fn charge(held: &Charge, charged: &mut usize, bytes: usize) -> Result<(), Failure> {
    if bytes >= *charged + CHARGE_BYTES {
        if !held.grow(bytes - *charged) {
            return Err(Failure::NoMemory);
        }
        *charged = bytes;
    }
    Ok(())
}
