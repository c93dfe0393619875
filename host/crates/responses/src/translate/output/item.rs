//! The output items of a Response.

use serde_json::Value;

use super::events::ResponseEvents;
use airlock_conversation::{Object, responses::is_own_id};

/// Length of the UUID in an identifier, which is that of the Response.
const RESPONSE_DIGITS: usize = 32;
/// Number of rounds that an identifier tells apart.
const ROUNDS: usize = 16;

/// The round of an item, from its identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Round {
    /// The UUID of the Response.
    response: u128,
    /// The digit of the round.
    digit: u8,
}

impl Round {
    /// Returns the round of the item with this identifier; `None` if the gateway did not make it.
    pub(in super::super) fn of_item(id: &str) -> Option<Self> {
        if !is_own_id(id) {
            return None;
        }
        let (_, digits) = id.split_once('_')?;
        let (response, rest) = digits.split_at_checked(RESPONSE_DIGITS)?;
        let digit = *rest.as_bytes().first()?;
        Some(Self { response: u128::from_str_radix(response, 16).ok()?, digit })
    }

    /// Returns whether this is another round of the same Response.
    pub(crate) fn differs_from(&self, other: &Self) -> bool {
        self.response == other.response && self.digit != other.digit
    }
}

airlock_strings::named_enum! {
    /// Status of an item that is done.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum ItemStatus as as_str {
        Completed = "completed",
        Incomplete = "incomplete",
    }
}

/// Place of an open item in the output.
#[derive(Debug, Default)]
pub(super) struct ItemSlot {
    id: String,
    index: usize,
}

impl ItemSlot {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }
}

/// The items of a Response, in the order in which they were added.
#[derive(Debug)]
pub(super) struct Items {
    /// Common part of the identifiers.
    stem: String,
    /// The round, modulo [`ROUNDS`].
    round: usize,
    values: Vec<Value>,
}

impl Items {
    /// Creates the items of the Response with this identifier.
    pub(super) fn new(response_id: &str) -> Self {
        let stem = response_id.strip_prefix("resp_").unwrap_or(response_id).to_owned();
        Self { stem, round: 0, values: Vec::new() }
    }

    pub(super) fn values(&self) -> &[Value] {
        &self.values
    }

    /// Begins the next round. Clients send items back without their rounds, so the identifiers tell
    /// them apart.
    pub(super) fn begin_round(&mut self) {
        self.round = (self.round + 1) % ROUNDS;
    }

    /// Adds an item. `members` are those after its identifier. With a UUID in the identifier of the
    /// Response, an identifier has at most 40 characters for the first 4,096 items, and a Response has
    /// no more: identifiers of `mcp_call` items become those of tool calls, and OpenAI's chat
    /// completions take no longer ones.
    pub(super) fn open(
        &mut self,
        prefix: &str,
        members: impl IntoIterator<Item = (String, Value)>,
        events: &mut ResponseEvents<'_>,
    ) -> ItemSlot {
        let id = format!("{prefix}_{}{:x}{:03x}", self.stem, self.round, self.values.len());
        self.open_as(id, members, events)
    }

    /// Adds an item with the identifier that its provider gave it, unless it is empty or taken.
    pub(super) fn open_native(
        &mut self,
        id: &str,
        prefix: &str,
        members: impl IntoIterator<Item = (String, Value)>,
        events: &mut ResponseEvents<'_>,
    ) -> ItemSlot {
        if id.is_empty() || self.values.iter().any(|item| item["id"] == *id) {
            return self.open(prefix, members, events);
        }
        self.open_as(id.to_owned(), members, events)
    }

    /// Adds an item that is complete, as its provider sent it.
    pub(super) fn add(&mut self, item: &Object, events: &mut ResponseEvents<'_>) {
        let index = self.values.len();
        self.values.push(item.clone().into());
        for kind in ["response.output_item.added", "response.output_item.done"] {
            events.write(kind, [("output_index", index.into()), ("item", item.clone().into())]);
        }
    }

    fn open_as(
        &mut self,
        id: String,
        members: impl IntoIterator<Item = (String, Value)>,
        events: &mut ResponseEvents<'_>,
    ) -> ItemSlot {
        let index = self.values.len();
        let slot = ItemSlot { id, index };
        let item = with_id(&slot, members);
        self.values.push(item.clone());
        events
            .write("response.output_item.added", [("output_index", index.into()), ("item", item)]);
        slot
    }

    /// Replaces an item by its final form.
    pub(super) fn close(
        &mut self,
        slot: &ItemSlot,
        members: impl IntoIterator<Item = (String, Value)>,
        events: &mut ResponseEvents<'_>,
    ) {
        let item = with_id(slot, members);
        self.values[slot.index] = item.clone();
        events.write(
            "response.output_item.done",
            [("output_index", slot.index.into()), ("item", item)],
        );
    }
}

fn with_id(slot: &ItemSlot, members: impl IntoIterator<Item = (String, Value)>) -> Value {
    let mut item = Object::new();
    item.insert("id".to_owned(), slot.id.clone().into());
    item.extend(members);
    item.into()
}
