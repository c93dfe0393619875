//! Names of the sources of untrusted content.

use std::{collections::BTreeSet, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::ClientName;
use airlock_json::raw;

/// Names of sources of untrusted content: clients, and [`SourceSet::CALLER`]. An empty one takes no memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourceSet(BTreeSet<Arc<str>>);

impl SourceSet {
    /// Name of the source of results in a caller's messages whose tool the gateway does not know.
    pub const CALLER: &str = "caller";

    /// Member of a stored call with the sources that its author had read, if those of its arguments are beside them.
    pub(crate) const READ: &str = "read";

    /// Returns whether there is no source.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a source is in the set.
    pub fn contains(&self, source: &str) -> bool {
        self.0.contains(source)
    }

    /// Adds a source.
    pub fn insert(&mut self, source: &str) {
        if !self.contains(source) {
            self.0.insert(source.into());
        }
    }

    /// Adds all sources of another set.
    pub fn extend(&mut self, others: &Self) {
        self.0.extend(others.0.iter().cloned());
    }

    /// Returns whether another set has all of these sources.
    pub fn is_subset(&self, others: &Self) -> bool {
        self.0.is_subset(&others.0)
    }

    /// Returns the sources that another set has too.
    #[must_use]
    pub fn within(&self, others: &Self) -> Self {
        Self(self.0.intersection(&others.0).cloned().collect())
    }

    /// Returns the sources but for one.
    #[must_use]
    pub fn without(mut self, source: &str) -> Self {
        self.0.remove(source);
        self
    }

    /// Iterates over the names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }

    /// Returns the JSON text of the names as an array; `None` if there is none.
    pub fn to_json(&self) -> Option<String> {
        let text = (!self.is_empty()).then(|| serde_json::to_string(self));
        text.and_then(Result::ok)
    }

    /// Reads what [`Self::to_json`] returns, also with the sources of arguments beside it. Anything else counts as no
    /// source.
    pub fn from_json(text: Option<&str>) -> Self {
        let text = text.map(|text| raw::member(text, Self::READ).unwrap_or(text));
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

impl From<&ClientName> for SourceSet {
    fn from(client: &ClientName) -> Self {
        Self::from_iter([client.as_str()])
    }
}

impl<'n> FromIterator<&'n str> for SourceSet {
    fn from_iter<I: IntoIterator<Item = &'n str>>(names: I) -> Self {
        Self(names.into_iter().map(Arc::from).collect())
    }
}

impl fmt::Display for SourceSet {
    /// Writes the names with commas between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.names().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_stored_as_a_sorted_array_and_no_set_as_nothing() {
        let set = SourceSet::from_iter(["web", "mail", "web"]);
        assert_eq!(set.to_json().as_deref(), Some(r#"["mail","web"]"#));
        assert_eq!(SourceSet::from_json(set.to_json().as_deref()), set);
        assert_eq!(set.to_string(), "mail, web");
        assert_eq!(SourceSet::default().to_json(), None);
        assert!(SourceSet::from_json(None).is_empty());
        assert!(SourceSet::from_json(Some("{}")).is_empty());
    }

    #[test]
    fn a_set_is_compared_with_others() {
        let set = SourceSet::from_iter(["web", "mail"]);
        let other = SourceSet::from_iter(["web"]);
        assert!(other.is_subset(&set) && !set.is_subset(&other));
        assert_eq!(set.within(&other), other);
        let mut grown = other.clone();
        grown.extend(&set);
        grown.insert("mail");
        assert_eq!(grown, set);
        assert_eq!(grown.without("mail"), other);
    }
}
