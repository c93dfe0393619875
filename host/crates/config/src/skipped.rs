//! Values of the file that cannot be read. The rest is resolved without them, and its problems are
//! reported with the positions that they have in the file.

use std::collections::BTreeSet;

use super::{error::Problem, key_path::KeyPath};

/// Keys of the values that were skipped.
#[derive(Debug, Default)]
pub(super) struct Skipped(BTreeSet<KeyPath>);

/// Parts of the file that are checked against names in another one: the part with the names, and the
/// text that the keys of the checked ones contain.
const REFERENCES: [(&str, &str); 5] = [
    ("mcp.client_configs", "mcp_client_name"),
    ("mcp.client_configs", ".grants."),
    ("governance", "mcp_server.oauth."),
    ("governance", "server.listen"),
    ("providers", ".fallbacks"),
];

impl Skipped {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn contains(&self, key: &KeyPath) -> bool {
        self.0.contains(key)
    }

    pub(super) fn insert(&mut self, key: KeyPath) {
        self.0.insert(key);
    }

    pub(super) fn into_keys(self) -> Vec<KeyPath> {
        self.0.into_iter().collect()
    }

    /// Returns the problems of the file without the skipped values, with their keys in the whole
    /// file. Problems that may exist only because a value was skipped are left out.
    pub(super) fn correct(&self, problems: Vec<Problem>) -> Vec<Problem> {
        let problems = problems.into_iter().filter(|problem| !self.may_cause(&problem.key));
        let problems =
            problems.map(|problem| Problem { key: self.restore(problem.key), ..problem });
        // That a skipped value is missing is no problem of the file.
        problems.filter(|problem| !self.contains(&problem.key)).collect()
    }

    /// Returns whether a problem of this key may be a missing name that a skipped value has.
    fn may_cause(&self, key: &KeyPath) -> bool {
        REFERENCES.iter().any(|(names, user)| {
            key.text().contains(user)
                && self.0.iter().any(|skipped| skipped.text().starts_with(names))
        })
    }

    /// Returns a key with the indices that its arrays have with the skipped elements.
    pub(super) fn restore(&self, key: KeyPath) -> KeyPath {
        // In the order of the keys' lengths, because the indices of outer arrays are part of the keys
        // of inner ones; then by index, because each skipped element moves those behind it.
        let mut elements: Vec<_> = self.0.iter().filter_map(KeyPath::as_element).collect();
        elements.sort_unstable_by_key(|&(array, index)| (array.len(), array, index));
        elements.into_iter().fold(key, |key, (array, skipped)| {
            let element = key.text().strip_prefix(array).and_then(|rest| rest.strip_prefix('['));
            let Some((index, rest)) = element.and_then(|element| element.split_once(']')) else {
                return key;
            };
            match index.parse::<usize>() {
                Ok(index) if index >= skipped => {
                    KeyPath::parse(&format!("{array}[{}]{rest}", index + 1))
                }
                _ => key,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restored(skipped: &[&str], key: &str) -> String {
        let skipped = Skipped(skipped.iter().map(|key| KeyPath::parse(key)).collect());
        skipped.restore(KeyPath::parse(key)).to_string()
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
