//! Places in the configuration file.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// Path of a key in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct KeyPath(String);

impl KeyPath {
    /// Returns a path that is already text.
    pub fn parse(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the names and indices of the path. A quoted name that was cut is not the whole name.
    pub(super) fn segments(&self) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut rest = self.0.as_str();
        while !rest.is_empty() {
            let (segment, after) = match rest.strip_prefix('[') {
                None => {
                    let name = rest.strip_prefix('.').unwrap_or(rest);
                    let end = name.find(['.', '[']).unwrap_or(name.len());
                    (Segment::Member(name[..end].to_owned()), &name[end..])
                }
                Some(inner) => {
                    let mut texts = serde_json::Deserializer::from_str(inner).into_iter();
                    let value = texts.next().and_then(Result::ok).unwrap_or(Value::Null);
                    let after = inner[texts.byte_offset()..].split_once(']');
                    let segment = match value {
                        Value::String(name) => Segment::Member(name),
                        value => Segment::Element(
                            value
                                .as_u64()
                                .and_then(|number| number.try_into().ok())
                                .unwrap_or(usize::MAX),
                        ),
                    };
                    (segment, after.map_or("", |(_, after)| after))
                }
            };
            segments.push(segment);
            rest = after;
        }
        segments
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Returns the array and the index if this is the path of an element.
    pub(super) fn as_element(&self) -> Option<(&str, usize)> {
        let (array, index) = self.0.strip_suffix(']')?.rsplit_once('[')?;
        Some((array, index.parse().ok()?))
    }

    /// Returns the path of a member. Names with characters other than ASCII letters, digits, `_`,
    /// `-` and `$` are quoted.
    pub fn member(&self, name: &str) -> Self {
        let is_plain = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$'));
        Self(match (is_plain, self.0.is_empty()) {
            (true, true) => name.to_owned(),
            (true, false) => format!("{}.{name}", self.0),
            (false, _) => format!("{}[{:?}]", self.0, airlock_strings::cut(name.to_owned(), 64)),
        })
    }

    /// Returns the path of `inner`, which is relative to this one.
    pub(super) fn join(&self, inner: &Self) -> Self {
        let is_element = inner.0.starts_with('[');
        let dot = if is_element || self.0.is_empty() || inner.0.is_empty() { "" } else { "." };
        Self(format!("{}{dot}{}", self.0, inner.0))
    }

    /// Returns the path of an element.
    pub fn element(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// Returns the rest of the path below `outer`: empty for `outer` itself, `None` for a path that
    /// is not below it.
    pub fn below(&self, outer: &Self) -> Option<Self> {
        if outer.0.is_empty() {
            return Some(self.clone());
        }
        let rest = self.0.strip_prefix(&outer.0)?;
        match rest.strip_prefix('.') {
            Some(rest) => Some(Self(rest.to_owned())),
            None => (rest.is_empty() || rest.starts_with('[')).then(|| Self(rest.to_owned())),
        }
    }

    /// Returns the path of the element with a name, for places where its index is no longer known.
    pub(super) fn named(&self, name: &str) -> Self {
        Self(format!("{}[name = {name:?}]", self.0))
    }
}

impl From<&[Segment]> for KeyPath {
    fn from(segments: &[Segment]) -> Self {
        segments.iter().fold(Self::default(), |key, segment| match segment {
            Segment::Member(name) => key.member(name),
            Segment::Element(index) => key.element(*index),
        })
    }
}

/// One step of a [`KeyPath`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Segment {
    Member(String),
    Element(usize),
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
