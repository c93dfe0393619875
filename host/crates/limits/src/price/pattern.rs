//! Values by names, or by prefixes of names.

use std::collections::BTreeMap;

/// Values by names and by prefixes, of which the longest holds.
#[derive(Debug, Clone)]
pub(super) struct Patterns<V> {
    names: BTreeMap<String, V>,
    prefixes: BTreeMap<String, V>,
}

impl<V> Default for Patterns<V> {
    fn default() -> Self {
        Self { names: BTreeMap::new(), prefixes: BTreeMap::new() }
    }
}

impl<V> Patterns<V> {
    /// Sets the value of a name, or of a prefix with `*` at its end.
    pub(super) fn insert(&mut self, pattern: &str, value: V) {
        match pattern.strip_suffix('*') {
            Some(prefix) => self.prefixes.insert(prefix.to_owned(), value),
            None => self.names.insert(pattern.to_owned(), value),
        };
    }

    /// Returns the value of a name; `None` if it has none.
    pub(super) fn find(&self, name: &str) -> Option<&V> {
        self.names.get(name).or_else(|| {
            let prefixes =
                self.prefixes.iter().filter(|(prefix, _)| name.starts_with(prefix.as_str()));
            prefixes.max_by_key(|(prefix, _)| prefix.len()).map(|(_, value)| value)
        })
    }
}
