//! Places in the configuration file.

use std::fmt;

use serde::{Serialize, Serializer};

/// Path of a key in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPath(Vec<Segment>);

/// One step of a [`KeyPath`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Segment {
    /// The member with this name.
    Member(String),
    /// The element at this index.
    Element(usize),
    /// The element with this name, for places where its index is no longer known.
    Named(String),
}

/// Returns the steps of a path.
pub fn segments(key: &KeyPath) -> &[Segment] {
    &key.0
}

impl KeyPath {
    /// Parses a path as it is displayed: `a.b[0]["a name"].c[name = "x"]`. An index that is no number
    /// is read as that of no element.
    pub fn parse(text: &str) -> Self {
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (segment, after) = match rest.strip_prefix('[') {
                None => {
                    let name = rest.strip_prefix('.').unwrap_or(rest);
                    let end = name.find(['.', '[']).unwrap_or(name.len());
                    (Segment::Member(name[..end].to_owned()), &name[end..])
                }
                Some(inner) => bracketed(inner),
            };
            segments.push(segment);
            rest = after;
        }
        Self(segments)
    }

    /// Returns the steps of the path.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// Returns whether this is the path of the whole file.
    pub(crate) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the path of a member. It is displayed quoted if its name has characters other than
    /// ASCII letters, digits, `_`, `-` and `$`.
    pub fn member(&self, name: &str) -> Self {
        self.with(Segment::Member(name.to_owned()))
    }

    /// Returns the path of an element.
    pub fn element(&self, index: usize) -> Self {
        self.with(Segment::Element(index))
    }

    /// Returns the path of the element with a name, for places where its index is no longer known.
    pub fn named(&self, name: &str) -> Self {
        self.with(Segment::Named(name.to_owned()))
    }

    fn with(&self, segment: Segment) -> Self {
        self.join(&Self(vec![segment]))
    }

    /// Returns the path of `inner`, which is relative to this one.
    pub fn join(&self, inner: &Self) -> Self {
        Self([self.segments(), inner.segments()].concat())
    }

    /// Returns the rest of the path below `outer`: empty for `outer` itself, `None` for a path that
    /// is not below it.
    pub fn below(&self, outer: &Self) -> Option<Self> {
        self.0.strip_prefix(outer.segments()).map(|rest| Self(rest.to_vec()))
    }
}

/// Parses a step behind its opening bracket. Returns the text behind the closing one too.
fn bracketed(inner: &str) -> (Segment, &str) {
    let (text, is_name) = match inner.strip_prefix("name = ") {
        Some(name) => (name, true),
        None => (inner, false),
    };
    let mut strings = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let (segment, rest) = if let Some(Ok(name)) = strings.next() {
        let segment = if is_name { Segment::Named(name) } else { Segment::Member(name) };
        (segment, &text[strings.byte_offset()..])
    } else {
        let index = inner.split(']').next().and_then(|index| index.parse().ok());
        (Segment::Element(index.unwrap_or(usize::MAX)), inner)
    };
    (segment, rest.split_once(']').map_or("", |(_, after)| after))
}

impl From<Vec<Segment>> for KeyPath {
    fn from(segments: Vec<Segment>) -> Self {
        Self(segments)
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Member(name) if is_plain(name) => {
                    let dot = if at == 0 { "" } else { "." };
                    write!(f, "{dot}{name}")?;
                }
                Segment::Member(name) => {
                    write!(
                        f,
                        "[{:?}]",
                        airlock_strings::cut(name.clone(), airlock_strings::MAX_WORD_BYTES)
                    )?;
                }
                Segment::Element(index) => write!(f, "[{index}]")?,
                Segment::Named(name) => write!(f, "[name = {name:?}]")?,
            }
        }
        Ok(())
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$'))
}

impl Serialize for KeyPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_displayed_path_is_parsed_to_the_same_steps() {
        let path = KeyPath::default()
            .member("mcp")
            .member("client_configs")
            .element(12)
            .member("a name")
            .member("")
            .named("x")
            .element(0)
            .member("b");
        let text = path.to_string();
        assert_eq!(text, r#"mcp.client_configs[12]["a name"][""][name = "x"][0].b"#);
        assert_eq!(KeyPath::parse(&text), path);
        assert_eq!(serde_json::json!(path), text);
        assert!(KeyPath::parse("").is_root());
    }

    #[test]
    fn a_path_is_below_another_if_it_begins_with_its_whole_steps() {
        let inner = KeyPath::parse("a[1].b");
        for (outer, expected) in
            [("", Some("a[1].b")), ("a", Some("[1].b")), ("a[1]", Some("b")), ("a[1].b", Some(""))]
        {
            let found = inner.below(&KeyPath::parse(outer)).map(|rest| rest.to_string());
            assert_eq!(found.as_deref(), expected, "{outer}");
        }
        for other in ["a[1].b.c", "a[10]", "b"] {
            assert_eq!(inner.below(&KeyPath::parse(other)), None, "{other}");
        }
    }
}
