//! A reply in pieces, as a provider sends it.

use super::{Charge, Document, Object, document::FREE_BYTES};
use airlock_conversation::Delta;

/// A piece of a reply, or a whole one.
#[derive(Debug)]
pub enum ReplyChunk {
    /// A chunk of a chat completion, or a whole one, as it came.
    Chat(Document),
    /// Deltas, read from another API.
    Deltas(Deltas),
}

/// The deltas of one event, or of a whole reply.
#[derive(Debug)]
pub struct Deltas {
    deltas: Vec<Delta>,
    /// The memory of the event that they were read from, and of their growth.
    held: Option<Charge>,
}

impl Deltas {
    /// Reads the deltas of an event. They hold its memory.
    pub(super) fn read<E>(
        event: Document,
        read: impl FnOnce(Object) -> Result<Vec<Delta>, E>,
    ) -> Result<Self, E> {
        let (object, held) = event.into_parts();
        Ok(Self { deltas: read(object)?, held })
    }

    /// Holds the memory by which the deltas are larger than an event of `before` bytes. Returns false if
    /// there is no room.
    pub(super) fn keep_growth(&mut self, before: usize, held: &Charge) -> bool {
        let bytes = self.deltas.iter().map(Delta::bytes).fold(0, usize::saturating_add);
        if let Some(own) = &self.held {
            return own.grow(bytes.saturating_sub(before));
        }
        if bytes <= FREE_BYTES {
            return true;
        }
        let own = held.beside();
        let has_room = own.grow(bytes);
        self.held = Some(own);
        has_room
    }

    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.deltas.is_empty()
    }

    /// Returns the deltas. The memory that they hold is released.
    pub fn into_deltas(self) -> Vec<Delta> {
        self.deltas
    }
}

impl From<Vec<Delta>> for Deltas {
    fn from(deltas: Vec<Delta>) -> Self {
        Self { deltas, held: None }
    }
}

impl From<Document> for ReplyChunk {
    fn from(document: Document) -> Self {
        Self::Chat(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryBudget;
    use airlock_core::memory::Limited;
    use airlock_json::Caps;

    fn texts(bytes: usize) -> Vec<Delta> {
        vec![Delta::Text { choice: 0, text: "x".repeat(bytes) }]
    }

    #[test]
    fn the_growth_of_deltas_beyond_their_event_is_charged() {
        for (limit, has_room) in [(1 << 20, true), (100 << 10, false)] {
            let memory = Limited::new(limit);
            let held = MemoryBudget::new(memory.clone()).charge();
            let text = format!(r#"{{"a":"{}"}}"#, "x".repeat(20_000));
            let event = Document::read(text, &Caps::memory(1 << 20), &held).expect("an object");
            let before = event.bytes();
            assert_eq!(memory.taken(), before);
            let mut deltas = Deltas::read(event, |_| Ok::<_, ()>(texts(200_000))).expect("deltas");
            assert_eq!(deltas.keep_growth(before, &held), has_room);
            assert!(memory.taken() >= if has_room { 200_000 } else { before });
            drop(deltas);
            assert_eq!(memory.taken(), 0);
        }
    }

    #[test]
    fn deltas_of_a_small_event_are_charged_if_they_are_large() {
        for (bytes, least) in [(100, 0), (2 * FREE_BYTES, 2 * FREE_BYTES)] {
            let memory = Limited::new(1 << 20);
            let held = MemoryBudget::new(memory.clone()).charge();
            let mut deltas = Deltas::from(texts(bytes));
            assert!(deltas.keep_growth(0, &held));
            assert!((least..=2 * least).contains(&memory.taken()), "{}", memory.taken());
        }
    }
}
