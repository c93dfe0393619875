//! Places of the elements of one kind in a merged configuration: those of the file that are kept, then
//! the entries, sorted by name. So a problem of two elements together is noted at the entry, and of two
//! entries at the later one.

use airlock_store::entries::EntryKind;
use serde_json::Value;

use airlock_config_file::{
    error::Problem,
    key_path::{KeyPath, Segment, segments},
    refused::{NamedPart, RefusedValue},
};

/// The elements of one kind.
pub(super) struct Layout<'p> {
    pub(super) kind: EntryKind,
    /// The part of the file that they are in.
    pub(super) part: NamedPart,
    /// The elements of the file that are kept, with their indices there.
    pub(super) kept: Vec<(usize, &'p Value)>,
    /// Names and documents of the entries.
    pub(super) added: Vec<(&'p str, &'p Value)>,
}

/// Problem of a merged configuration.
pub(super) enum Attributed {
    /// It is one of the entry of this kind and name. Its key is relative to the entry.
    Entry(EntryKind, String, Problem),
    /// It is one of the element of the file with this kind and name, which is kept. Its key is relative to
    /// the element.
    Kept(EntryKind, String, Problem),
    /// It is one of the file, and of no element.
    File(Problem),
}

impl Layout<'_> {
    /// Returns the documents of all elements, in their order.
    pub(super) fn documents(&self) -> Vec<Value> {
        let kept = self.kept.iter().map(|(_, element)| *element);
        kept.chain(self.added.iter().map(|(_, document)| *document)).cloned().collect()
    }

    /// Removes the elements of the file that are not kept from a list of all of them.
    pub(super) fn retain<T>(&self, elements: &mut Vec<T>) {
        let mut kept = self.kept.iter().map(|(index, _)| *index).peekable();
        let mut index = 0;
        elements.retain(|_| {
            let is_kept = kept.next_if_eq(&index).is_some();
            index += 1;
            is_kept
        });
    }

    /// Returns whose problem one at an element is; gives it back if it is at another place.
    fn attribute(&self, refused: RefusedValue) -> Result<Attributed, RefusedValue> {
        let part = self.part.key();
        let below = refused.key.below(&part);
        let below = below.as_ref().map(segments);
        let Some([Segment::Element(index), inner @ ..]) = below else { return Err(refused) };
        let inner = KeyPath::from(inner.to_vec());
        if let Some((_, element)) = self.kept.get(*index) {
            let name = element[self.part.name_member()].as_str().unwrap_or_default().to_owned();
            let problem = Problem::from(RefusedValue { key: inner, ..refused });
            return Ok(Attributed::Kept(self.kind, name, problem));
        }
        let Some((name, _)) = self.added.get(index - self.kept.len()) else { return Err(refused) };
        let problem = Problem::from(RefusedValue { key: inner, ..refused });
        Ok(Attributed::Entry(self.kind, (*name).to_owned(), problem))
    }
}

/// Returns whose problem one of a merged configuration is.
pub(super) fn attribute(layouts: &[Layout<'_>], refused: RefusedValue) -> Attributed {
    let attributed =
        layouts.iter().try_fold(refused, |refused, layout| match layout.attribute(refused) {
            Ok(attributed) => Err(attributed),
            Err(refused) => Ok(refused),
        });
    match attributed {
        Ok(refused) => Attributed::File(Problem::from(refused)),
        Err(attributed) => attributed,
    }
}
