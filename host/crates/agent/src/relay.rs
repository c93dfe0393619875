//! Relays streamed responses to the caller: the chunks that it receives, and their order.
//!
//! Chunks are forwarded as they arrive, unchanged where nothing has to change. If the gateway
//! offers tools in the request, all calls but those of the caller's own tools are held back until the
//! response is complete, because most of them run here, and the rest is refused. The end of each choice is held back too, because another round
//! may follow. All rounds are one stream for the caller: one `id`, one role, one end, one usage. If
//! the caller asked for JSON, text is held back as well: before a call of the gateway's tools it is not
//! part of the JSON, and not shown. If each round is shown on its own, the caller sees the gateway's
//! calls too, so a call of its own after one that is held back is held back as well, and follows it. With
//! a provider that has the Responses API it is not: its item has members that belong to the open call.
//!
//! `round` has the state of one response, and `chunk` reads and splits chunks.
//!
//! *Shown* means forwarded to the caller; *held back* means kept until the end of the response. The
//! *place* of a call is its `index` in the stream that the caller receives.

mod chunk;
mod round;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    pin::pin,
};

use serde_json::{Value, json};
use tokio::time::sleep_until;

use self::{
    chunk::{
        from_whole, has_calls, has_content, has_text, indices, is_end, is_usage, placed, set_end,
        split_text, take_text,
    },
    round::RelayedRound,
};
use super::{
    Failure, MAX_CALLS_READ,
    allowance::Allowance,
    event::{Emitter, Event},
    names::CallableNames,
    round::PendingCall,
};
use airlock_model::{
    Calls, Charge, ChatForm, Chunks, Document, Merged, Object, Part,
    document::{choices, choices_mut, index_of},
};

/// Bytes of a merged response that are charged at a time.
const CHARGE_BYTES: usize = 4 << 10;
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
}

/// The end of a stream.
pub(super) struct StreamEnd<'e> {
    /// The last response.
    pub(super) answer: &'e Object,
    pub(super) pending: &'e [PendingCall],
    /// True if calls were run and others are pending.
    pub(super) is_mixed: bool,
    /// Text of the gateway itself.
    pub(super) own_text: Option<String>,
    /// Usage of all rounds; `None` if that of the last response is sent.
    pub(super) usage: Option<&'e Value>,
    pub(super) airlock: Option<Object>,
}

/// The stream of one request.
pub(super) struct Relay {
    style: RelayStyle,
    /// Members that all chunks share, from the first chunk of the first round.
    head: Option<Object>,
    /// Choices that have text from an earlier round.
    spoken: BTreeSet<u64>,
    round: RelayedRound,
    /// True if the caller has received the end of a choice.
    has_ended: bool,
}

impl Relay {
    /// Creates the relay of a request.
    pub(super) fn new(style: RelayStyle) -> Self {
        let spoken = BTreeSet::new();
        Self { style, head: None, spoken, round: RelayedRound::default(), has_ended: false }
    }

    /// Relays a response and returns it merged, with the output items of its native form; an empty
    /// object if nothing is held back. Calls that [`CallableNames::holds_back`] are not shown yet. Fails
    /// if the provider fails, at the deadline, if there are more than [`MAX_CALLS_READ`] calls, or if
    /// there is no memory.
    pub(super) async fn response(
        &mut self,
        mut chunks: Chunks<'_>,
        mut form: ChatForm,
        names: &CallableNames,
        ids: &mut BTreeSet<String>,
        allowance: &Allowance,
        emitter: &Emitter,
    ) -> Result<Document, Failure> {
        let mut calls = Calls::default();
        let mut merged = Merged::default();
        let mut items = BTreeMap::new();
        let mut items_bytes = 0;
        let mut charged = 0;
        // One timer for all chunks.
        let mut over = pin!(sleep_until(allowance.deadline));
        loop {
            let chunk = tokio::select! {
                biased;
                chunk = chunks.next() => chunk?,
                () = &mut over => return Err(allowance.timeout()),
            };
            let Some(chunk) = chunk else { break };
            let chunks = form.chunks(chunk, &allowance.held).ok_or(Failure::NoMemory)?;
            for mut chunk in chunks {
                // A timer does not fire while the stream is always ready, so a provider that sends
                // without a pause would not be stopped.
                if allowance.is_over() {
                    return Err(allowance.timeout());
                }
                calls.repair(&mut chunk, ids, MAX_CALLS_READ as usize).map_err(|many| {
                    Failure::TooManyCalls { found: many.found, limit: MAX_CALLS_READ as usize }
                })?;
                if self.style.holds {
                    merged.add(chunk.object());
                    if let Some(Part::Item { index, item }) = chunk.part() {
                        let item = json!(item).to_string();
                        items_bytes += item.len();
                        items.insert(*index, item);
                    }
                    charge(&allowance.held, &mut charged, merged.bytes() + items_bytes)?;
                }
                self.chunk(chunk, names, allowance, emitter).await?;
            }
        }
        let merged = if self.style.holds { merged.finish() } else { Object::new() };
        Ok(Document::from(merged).with_items(items.into_values().collect()))
    }

    /// Relays a response that the provider did not stream. Fails if there is no memory.
    pub(super) async fn whole(
        &mut self,
        answer: &Object,
        includes_usage: bool,
        names: &CallableNames,
        allowance: &Allowance,
        emitter: &Emitter,
    ) -> Result<(), Failure> {
        for chunk in from_whole(answer, includes_usage) {
            self.chunk(chunk.into(), names, allowance, emitter).await?;
        }
        Ok(())
    }

    /// Returns whether a call of this response was shown.
    pub(super) fn has_shown(&self, id: &str) -> bool {
        self.round.shown.contains(id)
    }

    /// Ends a round whose calls were all run here: shows the texts that are held back with the ends
    /// of its choices.
    pub(super) async fn end_round(&mut self, emitter: &Emitter) {
        self.release_ends(None, emitter).await;
        self.spoken.extend(mem::take(&mut self.round).speaking);
    }

    /// Ends the stream with the pending calls, the ends of the choices and the usage.
    pub(super) async fn finish(mut self, end: StreamEnd<'_>, emitter: &Emitter) {
        let StreamEnd { answer, pending, is_mixed, own_text, usage, airlock } = end;
        if !self.style.holds && self.has_ended {
            return;
        }
        self.release_texts(emitter).await;
        if let Some(text) = own_text.filter(|_| self.style.is_one_text || !is_mixed) {
            self.show_last_text(text, emitter).await;
        }
        self.show_pending(answer, pending, emitter).await;
        let mut ends = mem::take(&mut self.round.ends);
        if ends.is_empty() {
            let mut end = self.new_chunk(0, &json!({}));
            let reason = if pending.is_empty() { "stop" } else { "tool_calls" };
            choices_mut(end.object_mut()).for_each(|choice| set_end(choice, reason));
            ends.push(end);
        }
        if is_mixed {
            ends.iter_mut().flat_map(|end| choices_mut(end.object_mut())).for_each(|choice| {
                set_end(choice, "tool_calls");
            });
        }
        if let (Some(airlock), Some(last)) = (airlock, ends.last_mut()) {
            last.object_mut().insert(super::EXTENSION.to_owned(), airlock.into());
        }
        for mut last in ends.into_iter().chain(self.round.usage.take()) {
            let has_usage = last.object().get("usage").is_some_and(|usage| !usage.is_null());
            if let Some(usage) = usage
                && has_usage
            {
                last.object_mut().insert("usage".to_owned(), usage.clone());
            }
            emitter.emit(Event::Chunk(last)).await;
        }
    }

    /// Shows the gateway's own text after that of the model.
    async fn show_last_text(&self, last: String, emitter: &Emitter) {
        let has_text = self.round.speaking.contains(&0) || self.spoken.contains(&0);
        let text = if has_text { format!("{BETWEEN_ROUNDS}{last}") } else { last };
        emitter.emit(Event::Chunk(self.new_chunk(0, &json!({"content": text})))).await;
    }

    /// Shows the pending calls that were held back, each in one chunk.
    async fn show_pending(&mut self, answer: &Object, pending: &[PendingCall], emitter: &Emitter) {
        let indices: Vec<u64> = indices(answer).collect();
        let shown = mem::take(&mut self.round.shown);
        for pending in pending.iter().filter(|pending| !shown.contains(&pending.call.id)) {
            let choice = indices.get(pending.call.choice).copied().unwrap_or_default();
            let place = self.round.next_place(choice);
            let call = pending.call.raw.as_object().map(|call| placed(call, place));
            let chunk = self.new_chunk(choice, &json!({"tool_calls": [call]}));
            emitter.emit(Event::Chunk(chunk)).await;
        }
    }

    async fn chunk(
        &mut self,
        mut chunk: Document,
        names: &CallableNames,
        allowance: &Allowance,
        emitter: &Emitter,
    ) -> Result<(), Failure> {
        let held = &allowance.held;
        let is_first = self.head.is_none();
        if is_first {
            self.head = Some(chunk.head());
        }
        // The end of an item, for which chat completions have no chunk.
        if self.style.is_one_text && chunk.part().is_some() && !has_content(chunk.object()) {
            return Ok(());
        }
        if !self.style.holds {
            self.has_ended |= chunk.has_end();
            emitter.emit(Event::Chunk(chunk)).await;
            return Ok(());
        }
        let mut is_changed = self.hold_back(&mut chunk, names);
        if allowance.rounds > 0 {
            self.join(&mut chunk);
            is_changed = true;
        }
        if self.style.holds_text && has_text(&chunk) {
            if chunk.part().is_some() {
                self.round.hold_text(chunk, held)?;
                self.begin(is_first, emitter).await;
                return Ok(());
            }
            self.round.hold_text(split_text(&mut chunk), held)?;
            is_changed = true;
        }
        if has_calls(chunk.object()) {
            // The caller's own call ends the loop, so the text before it is shown.
            self.release_texts(emitter).await;
        }
        if chunk.has_end() {
            self.release_ends(Some(chunk.object()), emitter).await;
            if !self.style.is_one_text && has_content(chunk.object()) {
                // Text in the same chunk as the end is shown now, before the calls of its round.
                emitter.emit(Event::Chunk(take_text(&mut chunk))).await;
            }
            self.round.ends.push(charged(chunk, held)?);
        } else if is_usage(chunk.object()) {
            self.round.usage = Some(charged(chunk, held)?);
        } else if !is_changed || chunk.part().is_some() || has_content(chunk.object()) {
            self.note_text(chunk.object());
            emitter.emit(Event::Chunk(chunk)).await;
            return Ok(());
        }
        self.begin(is_first, emitter).await;
        Ok(())
    }

    /// Begins the stream with a role if its first chunk is held back.
    async fn begin(&self, is_first: bool, emitter: &Emitter) {
        if is_first {
            let role = self.new_chunk(0, &json!({"role": "assistant"}));
            emitter.emit(Event::Chunk(role)).await;
        }
    }

    /// Shows the texts that were held back.
    async fn release_texts(&mut self, emitter: &Emitter) {
        for text in mem::take(&mut self.round.texts) {
            self.note_text(text.object());
            emitter.emit(Event::Chunk(text)).await;
        }
    }

    /// Shows chunks that were held back for their `finish_reason`, without it: those whose choices
    /// have a `finish_reason` in `again` as well, because some servers send one in every chunk; all
    /// of them if `again` is `None`, before the next round.
    async fn release_ends(&mut self, again: Option<&Object>, emitter: &Emitter) {
        let again: Option<BTreeSet<u64>> = again.map(|chunk| indices(chunk).collect());
        let ends = mem::take(&mut self.round.ends).into_iter();
        let (released, kept): (Vec<Document>, Vec<Document>) = ends.partition(|end| {
            let mut indices = indices(end.object());
            again.as_ref().is_none_or(|again| indices.any(|index| again.contains(&index)))
        });
        self.round.ends = kept;
        for mut end in released {
            let chunk = end.object_mut();
            chunk.shift_remove("usage");
            for choice in choices_mut(chunk) {
                choice.insert("finish_reason".to_owned(), Value::Null);
            }
            if has_content(chunk) {
                self.note_text(end.object());
                emitter.emit(Event::Chunk(end)).await;
            }
        }
    }

    /// Removes the deltas of calls that are held back, and gives the others their places. Returns
    /// whether the chunk was changed.
    fn hold_back(&mut self, chunk: &mut Document, names: &CallableNames) -> bool {
        let mut is_changed = false;
        let mut lists = Vec::new();
        let keeps_order = self.style.keeps_order;
        for (position, choice) in choices(chunk.object()).enumerate() {
            let calls = choice.get("delta").and_then(|delta| delta.get("tool_calls"));
            let calls = calls.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let mut shown = Vec::new();
            for call in calls {
                let choice = index_of(choice, position);
                let place = self.round.place(choice, call, names, keeps_order);
                is_changed |= place.is_none() || call["index"].as_u64() != place;
                shown.extend(place.and_then(|place| Some(placed(call.as_object()?, place))));
            }
            lists.push(shown);
        }
        if !is_changed {
            return false;
        }
        for (choice, list) in choices_mut(chunk.object_mut()).zip(lists) {
            let Some(delta) = choice.get_mut("delta").and_then(Value::as_object_mut) else {
                continue;
            };
            if list.is_empty() {
                delta.shift_remove("tool_calls");
            } else {
                delta.insert("tool_calls".to_owned(), list.into());
            }
        }
        true
    }

    /// Makes a chunk of a later round a part of the stream that the first round began.
    fn join(&mut self, chunk: &mut Document) {
        let is_usage = is_usage(chunk.object());
        let chunk = chunk.object_mut();
        for (name, value) in self.head.iter().flatten() {
            chunk.insert(name.clone(), value.clone());
        }
        // Usage of one round only. The last chunk has the sum.
        if !is_usage && !is_end(chunk) {
            chunk.shift_remove("usage");
        }
        for (position, choice) in choices_mut(chunk).enumerate() {
            let index = index_of(choice, position);
            let Some(delta) = choice.get_mut("delta").and_then(Value::as_object_mut) else {
                continue;
            };
            delta.shift_remove("role");
            if self.style.is_one_text
                && let Some(Value::String(text)) = delta.get_mut("content")
                && !text.is_empty()
                && self.spoken.remove(&index)
            {
                text.insert_str(0, BETWEEN_ROUNDS);
            }
        }
    }

    /// Notes the choices whose text has begun.
    fn note_text(&mut self, chunk: &Object) {
        for (position, choice) in choices(chunk).enumerate() {
            let text = choice.get("delta").and_then(|delta| delta.get("content"));
            if text.and_then(Value::as_str).is_some_and(|text| !text.is_empty()) {
                self.round.speaking.insert(index_of(choice, position));
            }
        }
    }

    /// Returns a chunk of the stream with one choice.
    fn new_chunk(&self, index: u64, delta: &Value) -> Document {
        let mut chunk = self.head.clone().unwrap_or_default();
        chunk.insert("object".to_owned(), "chat.completion.chunk".into());
        let choice = json!({"index": index, "delta": delta, "finish_reason": null});
        chunk.insert("choices".to_owned(), json!([choice]));
        chunk.into()
    }
}

/// Charges a chunk that is held back. Fails if there is no memory.
fn charged(mut chunk: Document, held: &Charge) -> Result<Document, Failure> {
    if chunk.keep(held) { Ok(chunk) } else { Err(Failure::NoMemory) }
}

/// Charges the growth of a merged response, [`CHARGE_BYTES`] or more at a time. Fails if there is
/// no memory.
fn charge(held: &Charge, charged: &mut usize, bytes: usize) -> Result<(), Failure> {
    if bytes >= *charged + CHARGE_BYTES {
        if !held.grow(bytes - *charged) {
            return Err(Failure::NoMemory);
        }
        *charged = bytes;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
