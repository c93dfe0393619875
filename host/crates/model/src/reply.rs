//! A reply in pieces.

use super::{
    Document,
    document::{FREE_BYTES, SERVICE_TIER},
    work::counted,
};
use airlock_conversation::{Delta, Object};
use airlock_core::{
    memory::Charge,
    model_control::{ServiceTier, TokenUsage},
};

/// A piece of a reply, or a whole one: its deltas, and the text of a chat completion as it came.
#[derive(Debug, Default)]
pub struct ReplyChunk {
    /// Empty if the exact form was not read.
    deltas: Vec<Delta>,
    /// The chat completion or the chunk of one that the deltas were read from.
    exact: Option<Document>,
    parts: ChunkParts,
    /// The memory of the deltas, unless the exact form has it.
    held: Option<Charge>,
}

/// The parts of the exact form of a chunk.
#[derive(Debug, Clone, Copy, Default)]
struct ChunkParts {
    has_calls: bool,
    has_end: bool,
    /// True if it has the usage and no choice.
    is_usage: bool,
}

impl ReplyChunk {
    /// Creates a chunk of a chat completion that is passed on as it came. It has no deltas.
    pub(super) fn unread(document: Document) -> Self {
        let parts = ChunkParts {
            has_calls: document.has_calls(),
            has_end: document.has_end(),
            is_usage: document.is_usage(),
        };
        Self { exact: Some(document), parts, ..Self::default() }
    }

    /// Reads a chunk of a chat completion. It has an exact form, unless that needs a second tree.
    pub(super) fn read_chat<E>(
        document: Document,
        read: impl FnOnce(Object) -> Result<Vec<Delta>, E>,
    ) -> Result<Self, E> {
        if document.needs_second_tree() {
            return Self::read(document, read);
        }
        let mut this = Self::unread(document);
        let tree = this.exact.as_mut().map(Document::take_tree).unwrap_or_default();
        this.deltas = read(tree)?;
        Ok(this)
    }

    /// Reads the deltas of an event of another API. They hold its memory.
    pub(super) fn read<E>(
        event: Document,
        read: impl FnOnce(Object) -> Result<Vec<Delta>, E>,
    ) -> Result<Self, E> {
        let (object, held) = event.into_parts();
        Ok(Self { deltas: read(object)?, held, ..Self::default() })
    }

    /// Holds the memory by which the deltas are larger than what they were read from, of `before` bytes.
    /// Returns false if there is no room.
    pub(super) fn keep_growth(&mut self, before: usize, held: &Charge) -> bool {
        let growth = self.delta_bytes().saturating_sub(before);
        match &self.held {
            Some(own) => own.grow(growth),
            None if growth == 0 || before + growth <= FREE_BYTES => true,
            None => self.hold(growth, held),
        }
    }

    /// Holds the memory of the chunk, because it is kept for longer. Returns false if there is no room.
    pub fn keep(&mut self, held: &Charge) -> bool {
        let bytes = self.delta_bytes();
        let has_room = self.exact.as_mut().is_none_or(|exact| exact.keep(held));
        has_room && (self.held.is_some() || self.hold(bytes, held))
    }

    fn hold(&mut self, bytes: usize, held: &Charge) -> bool {
        let own = held.beside();
        let has_room = own.grow(bytes);
        self.held = Some(own);
        has_room
    }

    fn delta_bytes(&self) -> usize {
        self.deltas.iter().map(Delta::bytes).fold(0, usize::saturating_add)
    }

    /// Returns an upper estimate of the memory of the chunk, in bytes.
    pub fn bytes(&self) -> usize {
        self.exact.as_ref().map_or(0, Document::bytes).saturating_add(self.delta_bytes())
    }

    /// Returns the bytes that writing the chunk reads: those of its text, or an upper estimate of those of its deltas.
    pub fn written_bytes(&self) -> usize {
        self.exact.as_ref().map_or_else(|| self.delta_bytes(), Document::text_bytes)
    }

    /// Returns the deltas. There are none if the chunk is passed on as it came.
    pub fn deltas(&self) -> &[Delta] {
        &self.deltas
    }

    /// Returns the deltas, for changes.
    pub fn deltas_mut(&mut self) -> &mut [Delta] {
        &mut self.deltas
    }

    /// Takes the deltas.
    pub fn take_deltas(&mut self) -> Vec<Delta> {
        std::mem::take(&mut self.deltas)
    }

    /// Appends deltas.
    pub fn extend(&mut self, deltas: Vec<Delta>) {
        self.deltas.extend(deltas);
    }

    /// Returns the deltas. The memory of the chunk is released.
    pub fn into_deltas(self) -> Vec<Delta> {
        self.deltas
    }

    /// Returns the chunk of a chat completion that says the same as the deltas; `None` if there is none.
    pub fn exact(&self) -> Option<&Document> {
        self.exact.as_ref()
    }

    /// Returns the deltas, the exact form, and the memory of the deltas that the exact form does not hold.
    pub fn into_parts(self) -> (Vec<Delta>, Option<Document>, Option<Charge>) {
        (self.deltas, self.exact, self.held)
    }

    /// Removes the exact form, because the deltas say something else. Its memory stays held.
    pub fn drop_exact(&mut self) {
        let held = self.exact.take().and_then(Document::into_charge);
        self.held = self.held.take().or(held);
        self.parts = ChunkParts::default();
    }

    /// Returns whether the exact form may have a piece of a call.
    pub fn has_calls(&self) -> bool {
        self.parts.has_calls
    }

    /// Returns whether a choice ends.
    pub fn has_end(&self) -> bool {
        self.parts.has_end || self.deltas.iter().any(|delta| matches!(delta, Delta::End { .. }))
    }

    /// Returns the choices of the chunk; of one without an exact form, those of its deltas.
    pub fn choices(&self) -> Vec<u64> {
        match &self.exact {
            Some(exact) => exact.indices(),
            None => self.deltas.iter().filter_map(Delta::choice).collect(),
        }
    }

    /// Returns whether the exact form has the usage and no choice.
    pub fn is_usage(&self) -> bool {
        self.parts.is_usage
    }

    /// Returns the tokens that it tells, as the provider counts them; `None` if it tells none.
    pub fn tokens(&self) -> Option<TokenUsage> {
        let read = self.deltas.iter().rev().find_map(|delta| match delta {
            Delta::Usage(usage) => Some(usage),
            _ => None,
        });
        if let Some(usage) = read {
            return counted(usage);
        }
        self.exact.as_ref()?.tokens()
    }

    /// Returns the tier of service that the provider names in it; `None` if it names none that prices know.
    pub fn tier(&self) -> Option<ServiceTier> {
        if self.deltas.is_empty() {
            return self.exact.as_ref()?.tier();
        }
        let named = self.deltas.iter().rev().find_map(|delta| match delta {
            Delta::ServiceTier(tier) => Some(tier.as_str()),
            Delta::ChunkMember { choice: None, name, value } if name == SERVICE_TIER => {
                value.as_str()
            }
            Delta::Begin(begin) => begin.extra.get(SERVICE_TIER)?.as_str(),
            _ => None,
        });
        ServiceTier::parse(named?)
    }

    /// Returns the model that the provider names in it; `None` if it names none.
    pub fn model(&self) -> Option<String> {
        let begun = self.deltas.iter().find_map(|delta| match delta {
            Delta::Begin(begin) => Some(begin.model.as_str()),
            _ => None,
        });
        match begun.filter(|model| !model.is_empty()) {
            Some(model) => Some(model.to_owned()),
            None => self.exact.as_ref().and_then(Document::model),
        }
    }

    /// Returns whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.exact.is_none() && self.deltas.is_empty()
    }
}

impl From<Vec<Delta>> for ReplyChunk {
    fn from(deltas: Vec<Delta>) -> Self {
        Self { deltas, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_conversation::Begin;
    use airlock_core::memory::{Limited, MemoryBudget};
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
            let chunk = ReplyChunk::read(event, |_| Ok::<_, ()>(texts(200_000)));
            let mut chunk = chunk.expect("deltas");
            assert_eq!(chunk.keep_growth(before, &held), has_room);
            assert!(memory.taken() >= if has_room { 200_000 } else { before });
            drop(chunk);
            assert_eq!(memory.taken(), 0);
        }
    }

    #[test]
    fn the_tier_is_that_of_the_deltas_or_of_the_exact_form() {
        let [of_choice, of_chunk] = [Some(0), None].map(|choice| Delta::ChunkMember {
            choice,
            name: SERVICE_TIER.to_owned(),
            value: "priority".into(),
        });
        let extra = Object::from_iter([(SERVICE_TIER.to_owned(), "flex".into())]);
        let begin = Delta::Begin(Begin { extra, ..Begin::default() });
        for (deltas, tier) in [
            (texts(1), None),
            (vec![of_choice], None),
            (vec![of_chunk], Some(ServiceTier::Priority)),
            (vec![begin.clone()], Some(ServiceTier::Flex)),
            (vec![begin, Delta::ServiceTier("default".into())], Some(ServiceTier::Standard)),
        ] {
            assert_eq!(ReplyChunk::from(deltas.clone()).tier(), tier, "{deltas:?}");
        }
        let held = MemoryBudget::unlimited().charge();
        let text = r#"{"choices":[],"service_tier":"flex"}"#.to_owned();
        let document = Document::read_chunk(text, &Caps::memory(1 << 20), &held);
        let chunk = ReplyChunk::unread(document.expect("a chunk"));
        assert_eq!(chunk.tier(), Some(ServiceTier::Flex));
    }

    #[test]
    fn deltas_of_a_small_event_are_charged_if_they_are_large_or_kept() {
        for (bytes, keeps, least) in
            [(100, false, 0), (100, true, 100), (2 * FREE_BYTES, false, 2 * FREE_BYTES)]
        {
            let memory = Limited::new(1 << 20);
            let held = MemoryBudget::new(memory.clone()).charge();
            let mut chunk = ReplyChunk::from(texts(bytes));
            assert!(chunk.keep_growth(0, &held));
            assert!(!keeps || chunk.keep(&held));
            let most = if least == 0 { 0 } else { least + size_of::<Delta>() };
            assert!((least..=most).contains(&memory.taken()), "{}", memory.taken());
        }
    }

    #[test]
    fn a_long_chunk_without_its_text_or_an_outline_has_no_exact_form() {
        for (error, is_changed, bytes) in
            [("null", false, 5_000), ("1", false, 5_000), ("null", true, 5_000), ("1", true, 10)]
        {
            let memory = Limited::new(1 << 20);
            let held = MemoryBudget::new(memory.clone()).charge();
            let list = "0,".repeat(bytes);
            let text = format!(r#"{{"choices":[],"error":{error},"a":[{list}0]}}"#);
            let document = Document::read_chunk(text, &Caps::memory(1 << 20), &held);
            let mut document = document.expect("a chunk");
            if is_changed {
                document.object_mut();
            }
            let taken = memory.taken();
            let chunk = ReplyChunk::read_chat(document, |tree| {
                assert!(tree.contains_key("a"));
                Ok::<_, ()>(texts(10))
            });
            let chunk = chunk.expect("deltas");
            let has_exact = bytes == 10 || (error == "null" && !is_changed);
            assert_eq!(chunk.exact().is_some(), has_exact, "{error}, {is_changed}, {bytes}");
            assert_eq!(memory.taken(), taken, "it is held");
            drop(chunk);
            assert_eq!(memory.taken(), 0);
        }
    }

    #[test]
    fn the_memory_of_the_exact_form_is_held_without_it() {
        let memory = Limited::new(1 << 20);
        let held = MemoryBudget::new(memory.clone()).charge();
        let text = format!(r#"{{"choices":[],"a":"{}"}}"#, "x".repeat(20_000));
        let document = Document::read_chunk(text, &Caps::memory(1 << 20), &held);
        let document = document.expect("a chunk");
        let bytes = document.bytes();
        let chunk = ReplyChunk::read_chat(document, |_| Ok::<_, ()>(texts(10)));
        let mut chunk = chunk.expect("deltas");
        assert_eq!(chunk.exact().map(Document::bytes), Some(bytes));
        chunk.drop_exact();
        assert_eq!(memory.taken(), bytes);
        drop(chunk);
        assert_eq!(memory.taken(), 0);
    }
}
