//! A streamed response about which guards decide while it arrives.
//!
//! Guards see of each text what is held back, and what has arrived since. What they leave of it is shown, but for its last
//! bytes: the window. So a pattern that is not longer than the window is whole in one of the texts that they see. If they
//! replace something in these last bytes, nothing of the text is shown until they have seen what follows.
//!
//! A text goes on until an item ends, as it does in a response that is kept whole; only reasoning ends where the text of
//! the answer begins. What cannot be divided is decided with the end of the response: calls with their arguments, and
//! members that are not known.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
};

use super::{
    ModelReview, OpenText, empty_logprobs, end_texts, is_logprobs, joined, kind_of, text_of,
};
use crate::{Failure, allowance::Allowance, controlled::ControlledRequest};
use airlock_conversation::Delta;
use airlock_core::memory::Charge;
use airlock_model::{Chunks, ReplyChunk};

/// Longest word that is not divided where a text is, in bytes: the rest of a word may look like what guards search for.
const WORD_BYTES: usize = 64;

/// The decisions about a response that arrives.
pub(crate) struct ReplyWindows<'r> {
    review: &'r ModelReview<'r>,
    allowance: &'r Allowance,
    /// Receives the response as it arrives.
    controlled: Option<&'r mut ControlledRequest>,
    held: HeldDeltas,
    /// Memory of the deltas that are held back.
    charge: Charge,
    is_complete: bool,
}

impl<'r> ReplyWindows<'r> {
    pub(super) fn new(
        review: &'r ModelReview<'r>,
        window: usize,
        allowance: &'r Allowance,
        controlled: Option<&'r mut ControlledRequest>,
    ) -> Self {
        let held = HeldDeltas::new(window);
        let charge = allowance.held.beside();
        Self { review, allowance, controlled, held, charge, is_complete: false }
    }

    /// Returns the next part of the response that is shown; `None` at its end. Fails if a guard withholds the rest or
    /// fails, if the provider fails, at the deadline, or if there is no memory.
    pub(crate) async fn next(
        &mut self,
        chunks: &mut Chunks<'_>,
    ) -> Result<Option<ReplyChunk>, Failure> {
        while !self.is_complete {
            let shown = match chunks.next().await? {
                Some(chunk) => {
                    self.receive(chunk)?;
                    if self.held.are_due() { self.decide().await? } else { Vec::new() }
                }
                None => self.decide_last().await?,
            };
            if !shown.is_empty() {
                return Ok(Some(shown.into()));
            }
        }
        Ok(None)
    }

    fn receive(&mut self, chunk: ReplyChunk) -> Result<(), Failure> {
        if let Some(controlled) = &mut self.controlled {
            controlled.receives(&chunk);
        }
        // A timer does not fire while the stream is always ready.
        if self.allowance.is_over() {
            return Err(self.allowance.timeout());
        }
        for delta in chunk.into_deltas() {
            if !self.charge.grow(delta.bytes()) {
                return Err(Failure::NoMemory);
            }
            self.held.push(delta);
        }
        Ok(())
    }

    /// Decides about what is held back, and returns the part of it that is shown.
    async fn decide(&mut self) -> Result<Vec<Delta>, Failure> {
        let mut decided = self.held.queue.clone();
        self.review.deltas(&mut decided, &self.allowance.held).await?;
        let shown = self.held.take_shown(decided);
        self.charge = self.allowance.held.beside();
        if !self.charge.grow(self.held.bytes()) {
            return Err(Failure::NoMemory);
        }
        Ok(shown)
    }

    /// Decides about the rest of a response that is complete, and returns it.
    async fn decide_last(&mut self) -> Result<Vec<Delta>, Failure> {
        self.is_complete = true;
        let mut rest = self.held.take_all();
        self.review.deltas(&mut rest, &self.allowance.held).await?;
        Ok(rest)
    }
}

/// The deltas of a response that are not shown yet.
struct HeldDeltas {
    window: usize,
    /// Deltas in their order. An unfinished text is one of them, at the position of its first piece.
    queue: Vec<Delta>,
    /// Places of the texts that go on.
    open: HashMap<(u64, OpenText), usize>,
    /// Deltas that are decided with the end of the response.
    last: Vec<Delta>,
    /// Upper estimate of their memory, in bytes. Summed up as they come: each window of a text asks for it.
    last_bytes: usize,
    /// True if a call is among the last deltas: what follows it stays behind it.
    has_call: bool,
    /// Choices whose end is among the last deltas.
    ended: BTreeSet<u64>,
    /// Bytes of text that no guard has seen.
    unseen: usize,
    /// Number of such bytes at which guards are asked. It is no less than what they would see again, so that their work
    /// grows no faster than the response.
    due: usize,
}

impl HeldDeltas {
    fn new(window: usize) -> Self {
        Self {
            window,
            queue: Vec::new(),
            open: HashMap::new(),
            last: Vec::new(),
            last_bytes: 0,
            has_call: false,
            ended: BTreeSet::new(),
            unseen: 0,
            // Of one window nothing would be shown.
            due: window.saturating_mul(2),
        }
    }

    /// Adds a delta. Log probabilities are left out, because they repeat the text.
    fn push(&mut self, mut delta: Delta) {
        if is_logprobs(&delta) {
            return;
        }
        empty_logprobs(&mut delta);
        end_texts(&delta, &mut self.open);
        let kind = kind_of(&delta);
        if let Some((choice, OpenText::Text | OpenText::Refusal)) = kind {
            self.open.remove(&(choice, OpenText::Reasoning));
        }
        let place = kind.and_then(|text| self.open.get(&text)).copied();
        let sum = place.and_then(|place| self.queue.get_mut(place)).and_then(text_of);
        if let Some(sum) = sum
            && let Some(piece) = text_of(&mut delta)
        {
            sum.push_str(piece);
            self.unseen += piece.len();
            return;
        }
        if self.has_call || self.is_last(&delta) {
            self.has_call |= matches!(delta, Delta::Call { .. } | Delta::Arguments { .. });
            if let Delta::End { choice, .. } = &delta {
                self.ended.insert(*choice);
            }
            self.last_bytes = self.last_bytes.saturating_add(delta.bytes());
            self.last.push(delta);
            return;
        }
        if let Some(text) = kind {
            self.unseen += seen_bytes(&mut delta);
            self.open.insert(text, self.queue.len());
        }
        self.queue.push(delta);
    }

    /// Returns whether a delta is decided with the end of the response: it may go on, or it ends something.
    fn is_last(&self, delta: &Delta) -> bool {
        match delta {
            Delta::Call { .. }
            | Delta::Arguments { .. }
            | Delta::Member { .. }
            | Delta::ServiceTier(_)
            | Delta::End { .. }
            | Delta::Usage(_) => true,
            Delta::ChunkMember { choice, .. } => {
                choice.is_some_and(|choice| self.ended.contains(&choice))
            }
            Delta::Begin(_)
            | Delta::Text { .. }
            | Delta::Refusal { .. }
            | Delta::Reasoning { .. }
            | Delta::ReasoningPart { .. }
            | Delta::ReasoningEnd { .. }
            | Delta::Citation { .. }
            | Delta::ItemEnd { .. } => false,
        }
    }

    /// Returns whether guards are to be asked.
    fn are_due(&self) -> bool {
        self.unseen >= self.due
    }

    /// Takes the part of the queue that can be sent: all of an unfinished text except its end. Items after such a text
    /// wait until it has ended. `decided` is the queue as the guards leave it.
    fn take_shown(&mut self, decided: Vec<Delta>) -> Vec<Delta> {
        let open: BTreeSet<usize> = self.open.values().copied().collect();
        let mut places = HashMap::new();
        let mut held_choices = BTreeSet::new();
        let mut shown = Vec::new();
        let all = mem::take(&mut self.queue).into_iter().zip(decided);
        for (place, (mut delta, decided)) in all.enumerate() {
            if !is_behind(&delta, &held_choices) {
                if !open.contains(&place) {
                    shown.push(decided);
                    continue;
                }
                shown.extend(take_part(&mut delta, decided, self.window));
            }
            held_choices.extend(delta.choice());
            places.insert(place, self.queue.len());
            self.queue.push(delta);
        }
        for place in self.open.values_mut() {
            // A text that goes on is never shown whole.
            *place = places.get(place).copied().unwrap_or(*place);
        }
        self.unseen = 0;
        self.due = self.queue.iter_mut().map(seen_bytes).sum::<usize>().max(self.window);
        shown
    }

    /// Takes all deltas, with the pieces of each text joined.
    fn take_all(&mut self) -> Vec<Delta> {
        let mut all = mem::take(&mut self.queue);
        all.append(&mut self.last);
        self.last_bytes = 0;
        self.open.clear();
        joined(all)
    }

    /// Returns an upper estimate of the memory that the deltas take, in bytes.
    fn bytes(&self) -> usize {
        self.queue.iter().map(Delta::bytes).fold(self.last_bytes, usize::saturating_add)
    }
}

/// Returns the bytes of a delta that guards see, or more.
fn seen_bytes(delta: &mut Delta) -> usize {
    match text_of(delta) {
        Some(text) => text.len(),
        None => delta.bytes(),
    }
}

/// Returns whether a delta has its place behind what is held back of these choices. Members of chunks and of the
/// beginning have none.
fn is_behind(delta: &Delta, held_choices: &BTreeSet<u64>) -> bool {
    !matches!(delta, Delta::Begin(_) | Delta::ChunkMember { .. })
        && delta.choice().is_some_and(|choice| held_choices.contains(&choice))
}

/// Takes the part of a text that is shown, as the guards leave it; `None` if all of it is held back. The end of the text
/// stays as it is. It is a part of what the guards leave, or they have replaced something in it, of which more may come.
fn take_part(held: &mut Delta, mut decided: Delta, window: usize) -> Option<Delta> {
    let text = text_of(held)?;
    let end = end_of_part(text, window);
    if end == 0 {
        return None;
    }
    let left = text_of(&mut decided)?;
    let shown = left.strip_suffix(&text[end..])?.len();
    left.truncate(shown);
    text.replace_range(..end, "");
    (shown > 0).then_some(decided)
}

/// Returns the length of the part of a text that is shown, in bytes: before the window, and before the last word.
fn end_of_part(text: &str, window: usize) -> usize {
    let end = text.floor_char_boundary(text.len().saturating_sub(window));
    let word = text.floor_char_boundary(end.saturating_sub(WORD_BYTES));
    text[word..end].rfind(char::is_whitespace).map_or(end, |place| word + place)
}

#[cfg(test)]
mod tests;
