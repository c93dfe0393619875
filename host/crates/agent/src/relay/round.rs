//! One response of a relayed stream: the places of its calls, and what is held back.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use serde_json::Value;

use crate::{Failure, names::CallableNames};
use airlock_conversation::{Delta, FinishReason, Usage};
use airlock_core::memory::Charge;
use airlock_json::weight::weight;
use airlock_model::ReplyChunk;

/// State of one response.
#[derive(Default)]
pub(super) struct RelayedRound {
    /// Places of calls by choice and index in the response; `None` for a call that is held back.
    places: BTreeMap<(u64, u64), Option<u64>>,
    /// Number of calls that are shown, by choice.
    next_places: BTreeMap<u64, u64>,
    /// Ids of the calls that are shown.
    pub(super) shown: BTreeSet<String>,
    /// Choices whose text has begun.
    pub(super) speaking: BTreeSet<u64>,
    /// Texts that are held back.
    texts: Vec<Delta>,
    /// Unknown members of chunks of which all pieces are held back, by choice and name.
    members: BTreeMap<(Option<u64>, String), Value>,
    /// Ends of choices.
    pub(super) ends: Vec<(u64, FinishReason)>,
    /// Unknown members of choices that came with their ends.
    pub(super) end_members: BTreeMap<u64, Vec<Delta>>,
    /// Boxed: a stream has its room from the beginning, and few receive it here.
    pub(super) usage: Option<Box<Usage>>,
    /// Chunks of a chat completion with the ends and the usage.
    pub(super) tail: Vec<HeldChunk>,
}

/// A chunk of a chat completion that is held back.
pub(super) struct HeldChunk {
    pub(super) chunk: ReplyChunk,
    /// Its choices, each once.
    pub(super) choices: Vec<u64>,
    /// True if it cannot be sent as it came.
    pub(super) is_changed: bool,
}

impl RelayedRound {
    /// Holds a text back. Fails if there is no memory.
    pub(super) fn hold_text(&mut self, delta: Delta, held: &Charge) -> Result<(), Failure> {
        let continued = self.texts.last_mut().and_then(|last| continued(last, &delta));
        // The capacity of a text that grows doubles.
        let bytes = 2 * continued.as_ref().map_or_else(|| delta.bytes(), |(_, piece)| piece.len());
        if !held.grow(bytes) {
            return Err(Failure::NoMemory);
        }
        match continued {
            Some((text, piece)) => text.push_str(piece),
            None => self.texts.push(delta),
        }
        Ok(())
    }

    /// Takes the texts that are held back, because they are shown.
    pub(super) fn take_texts(&mut self) -> Vec<Delta> {
        let texts = mem::take(&mut self.texts);
        for text in &texts {
            self.note_text(text);
        }
        texts
    }

    /// Holds unknown members back. A later one replaces an earlier one. Fails if there is no memory.
    pub(super) fn hold_members(
        &mut self,
        members: Vec<Delta>,
        held: &Charge,
    ) -> Result<(), Failure> {
        for member in members {
            let bytes = member.bytes();
            let Delta::ChunkMember { choice, name, value } = member else { continue };
            let new = weight(&value);
            let growth = match self.members.insert((choice, name), value) {
                Some(earlier) => new.saturating_sub(weight(&earlier)),
                None => bytes,
            };
            if !held.grow(growth) {
                return Err(Failure::NoMemory);
            }
        }
        Ok(())
    }

    /// Takes the members that are held back, because their pieces are shown.
    pub(super) fn take_members(&mut self) -> impl Iterator<Item = Delta> + use<> {
        let members = mem::take(&mut self.members).into_iter();
        members.map(|((choice, name), value)| Delta::ChunkMember { choice, name, value })
    }

    /// Returns whether a choice was the last one to end. Its members follow its end.
    pub(super) fn has_just_ended(&self, choice: u64) -> bool {
        self.ends.last().is_some_and(|(ended, _)| *ended == choice)
    }

    /// Notes the choices whose text has begun.
    pub(super) fn note_text(&mut self, delta: &Delta) {
        if let Delta::Text { choice, text } = delta
            && !text.is_empty()
        {
            self.speaking.insert(*choice);
        }
    }

    /// Returns the piece of a call with its place in the stream; `None` if the call is held back. A call
    /// without a name is held back too. So is one after a call that is held back, if the order of the calls
    /// is to be kept (`keeps_order`).
    pub(super) fn place(
        &mut self,
        mut delta: Delta,
        names: &CallableNames,
        keeps_order: bool,
    ) -> Option<Delta> {
        match &mut delta {
            Delta::Call { choice, index, id, name, .. } => {
                *index = self.place_of((*choice, *index), id, name, names, keeps_order)?;
            }
            Delta::Arguments { choice, index, .. } => {
                *index = (*self.places.get(&(*choice, *index))?)?;
            }
            _ => {}
        }
        Some(delta)
    }

    /// Returns members of calls that have begun with the places of these; `None` if all are held back. The
    /// second value is true if they are not those that came.
    pub(super) fn place_members(&self, choice: u64, members: Value) -> (Option<Value>, bool) {
        let Value::Array(pieces) = members else { return (None, true) };
        let mut is_changed = false;
        let placed = pieces.into_iter().filter_map(|mut piece| {
            let index = piece.get("index").and_then(Value::as_u64);
            let place = index.and_then(|index| *self.places.get(&(choice, index))?);
            is_changed |= place.is_none() || place != index;
            piece["index"] = place?.into();
            Some(piece)
        });
        let placed: Vec<Value> = placed.collect();
        ((!placed.is_empty()).then(|| placed.into()), is_changed)
    }

    /// Returns the place of a call that begins.
    fn place_of(
        &mut self,
        (choice, index): (u64, u64),
        id: &str,
        name: &str,
        names: &CallableNames,
        keeps_order: bool,
    ) -> Option<u64> {
        let mut earlier = self.places.range((choice, 0)..(choice, index));
        let is_held =
            names.holds_back(name) || keeps_order && earlier.any(|(_, place)| place.is_none());
        let place = (!is_held).then(|| self.next_place(choice));
        self.places.insert((choice, index), place);
        if place.is_some() {
            self.shown.insert(id.to_owned());
        }
        place
    }

    /// Returns whether the tail has the ends of all choices, as they came.
    pub(super) fn has_exact_tail(&self) -> bool {
        let mut ended = self.ends.iter().map(|(choice, _)| choice);
        !self.tail.is_empty()
            && !self.tail.iter().any(|held| held.is_changed)
            && ended.all(|choice| self.tail.iter().any(|held| held.choices.contains(choice)))
    }

    /// Takes the chunks of the tail that have one of these choices, which are sorted; if they are those of a
    /// chunk with the usage alone, the earlier one, so that the tail has no more than one.
    pub(super) fn take_tail(&mut self, choices: &[u64], is_usage: bool) -> Vec<HeldChunk> {
        if choices.is_empty() && !is_usage {
            return Vec::new();
        }
        let taken = self.tail.extract_if(.., |held| {
            is_usage && held.choices.is_empty()
                || held.choices.iter().any(|own| choices.binary_search(own).is_ok())
        });
        taken.collect()
    }

    /// Returns the place of a call that is shown, after those of the calls before it.
    pub(super) fn next_place(&mut self, choice: u64) -> u64 {
        let next = self.next_places.entry(choice).or_default();
        *next += 1;
        *next - 1
    }
}

/// Returns the text that a piece of it continues, and the piece; `None` if the piece is of another text.
fn continued<'t>(last: &'t mut Delta, next: &'t Delta) -> Option<(&'t mut String, &'t str)> {
    match (last, next) {
        (Delta::Text { choice, text }, Delta::Text { choice: next, text: piece })
        | (Delta::Refusal { choice, text }, Delta::Refusal { choice: next, text: piece })
            if choice == next =>
        {
            Some((text, piece))
        }
        _ => None,
    }
}
