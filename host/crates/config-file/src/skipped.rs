//! Values of the file that cannot be read. The rest is resolved without them, and its problems are
//! reported with the positions that they have in the file.

use std::collections::BTreeSet;

use super::{
    error::Problem,
    key_path::{KeyPath, Segment},
    refused::{InvalidValue, Referent, RefusedValue},
};

/// Keys of the values that were skipped.
#[derive(Debug, Default)]
pub struct Skipped(BTreeSet<KeyPath>);

impl Skipped {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn contains(&self, key: &KeyPath) -> bool {
        self.0.contains(key)
    }

    pub(crate) fn insert(&mut self, key: KeyPath) {
        self.0.insert(key);
    }

    /// Returns the keys.
    pub fn into_keys(self) -> Vec<KeyPath> {
        self.0.into_iter().collect()
    }

    /// Returns the problems of the file without the skipped values, with their keys in the whole
    /// file. Problems that may exist only because a value was skipped are left out.
    pub fn correct(&self, refused: Vec<RefusedValue>) -> Vec<Problem> {
        let refused = refused.into_iter().filter(|value| !self.may_cause(&value.reason));
        let problems = refused
            .map(|value| Problem::from(RefusedValue { key: self.restore(&value.key), ..value }));
        // That a skipped value is missing is no problem of the file.
        problems.filter(|problem| !self.contains(&problem.key)).collect()
    }

    /// Returns whether a value may be refused because a skipped one has the name that it refers to.
    fn may_cause(&self, reason: &InvalidValue) -> bool {
        let Some(Referent::ElementOf(part)) = reason.absent else { return false };
        let part = part.key();
        // A skipped value is an element of the part, or is around it.
        self.0.iter().any(|key| key.below(&part).is_some() || part.below(key).is_some())
    }

    /// Returns a key with the indices that its arrays have with the skipped elements.
    pub(crate) fn restore(&self, key: &KeyPath) -> KeyPath {
        let elements = self.0.iter().filter_map(|skipped| match skipped.segments() {
            [array @ .., Segment::Element(index)] => Some((array, *index)),
            _ => None,
        });
        // Outer arrays first, because their indices are part of the keys of inner ones; then by index,
        // because each skipped element moves those behind it.
        let mut elements: Vec<_> = elements.collect();
        elements.sort_unstable_by_key(|&(array, index)| (array.len(), array, index));
        let mut restored = key.segments().to_vec();
        for (array, skipped) in elements {
            if restored.starts_with(array)
                && let Some(Segment::Element(index)) = restored.get_mut(array.len())
                && *index >= skipped
            {
                *index += 1;
            }
        }
        KeyPath::from(restored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restored(skipped: &[&str], key: &str) -> String {
        let skipped = Skipped(skipped.iter().map(|key| KeyPath::parse(key)).collect());
        skipped.restore(&KeyPath::parse(key)).to_string()
    }

    #[test]
    fn indices_behind_skipped_elements_are_those_of_the_file() {
        assert_eq!(restored(&["a[0]", "a[2]"], "a[0].b"), "a[1].b");
        assert_eq!(restored(&["a[0]", "a[2]"], "a[1]"), "a[3]");
        assert_eq!(restored(&["a[1]"], "a[0]"), "a[0]");
        assert_eq!(restored(&["a[0]", "a[1].b[0]"], "a[0].b[0]"), "a[1].b[1]");
        assert_eq!(restored(&["a[1]"], "ab[1]"), "ab[1]");
        assert_eq!(restored(&["a.b"], "a[name = \"x\"]"), "a[name = \"x\"]");
    }
}
