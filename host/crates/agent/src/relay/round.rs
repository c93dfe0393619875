//! One response of a relayed stream: the places of its calls, and the chunks that are held back.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{Failure, names::CallableNames};
use airlock_model::{Charge, Document, weight};

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
    /// Chunks with text, held back.
    pub(super) texts: Vec<Document>,
    /// Chunks with a `finish_reason`, held back.
    pub(super) ends: Vec<Document>,
    /// The chunk with the usage and without a choice, held back.
    pub(super) usage: Option<Document>,
}

impl RelayedRound {
    /// Holds a chunk with text back. Fails if there is no memory.
    pub(super) fn hold_text(&mut self, chunk: Document, held: &Charge) -> Result<(), Failure> {
        // A chunk that is made here has no charge of its own.
        if !held.grow(chunk.object().values().map(weight).sum()) {
            return Err(Failure::NoMemory);
        }
        self.texts.push(chunk);
        Ok(())
    }

    /// Returns the place of a call in the stream; `None` if it is held back. A call without a name
    /// in its first delta is held back too. So is one after a call that is held back, if the order of
    /// the calls is to be kept (`keeps_order`).
    pub(super) fn place(
        &mut self,
        choice: u64,
        call: &Value,
        names: &CallableNames,
        keeps_order: bool,
    ) -> Option<u64> {
        let index = call["index"].as_u64().unwrap_or_default();
        if let Some(place) = self.places.get(&(choice, index)) {
            return *place;
        }
        let body = call.get("function").or_else(|| call.get("custom"));
        let name = body.and_then(|body| body["name"].as_str()).unwrap_or_default();
        let mut earlier = self.places.range((choice, 0)..(choice, index));
        let is_held =
            names.holds_back(name) || keeps_order && earlier.any(|(_, place)| place.is_none());
        let place = (!is_held).then(|| self.next_place(choice));
        self.places.insert((choice, index), place);
        if place.is_some() {
            self.shown.extend(call["id"].as_str().map(str::to_owned));
        }
        place
    }

    /// Returns the place of a call that is shown, after those of the calls before it.
    pub(super) fn next_place(&mut self, choice: u64) -> u64 {
        let next = self.next_places.entry(choice).or_default();
        *next += 1;
        *next - 1
    }
}
