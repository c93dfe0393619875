//! Stream events.

use serde_json::Value;

use super::item::ItemSlot;
use airlock_conversation::Object;

/// Stream events of one step, numbered.
pub(super) struct ResponseEvents<'a> {
    out: &'a mut Vec<Object>,
    sequence: &'a mut u64,
}

impl<'a> ResponseEvents<'a> {
    /// Appends events to `out`. `sequence` is the number of the next event.
    pub(super) fn new(out: &'a mut Vec<Object>, sequence: &'a mut u64) -> Self {
        Self { out, sequence }
    }

    /// Writes an event.
    pub(super) fn write<const N: usize>(
        &mut self,
        kind: &'static str,
        members: [(&'static str, Value); N],
    ) {
        let mut event = Object::new();
        event.insert("type".to_owned(), kind.into());
        event.insert("sequence_number".to_owned(), (*self.sequence).into());
        event.extend(members.map(|(name, value)| (name.to_owned(), value)));
        *self.sequence += 1;
        self.out.push(event);
    }

    /// Writes an event of an item.
    pub(super) fn write_item<const N: usize>(
        &mut self,
        kind: &'static str,
        slot: &ItemSlot,
        members: [(&'static str, Value); N],
    ) {
        self.write(kind, [("item_id", slot.id().into()), ("output_index", slot.index().into())]);
        if let Some(event) = self.out.last_mut() {
            event.extend(members.map(|(name, value)| (name.to_owned(), value)));
        }
    }
}
