//! Path of a key in a manifest.

use std::fmt;

use crate::form::shown;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Member of a table.
    Name(String),
    /// Element of a list, from 0.
    Index(usize),
}

/// Path of a key, as TOML writes it: `request.files."*".access`, `tool[1].effects[0]`. Empty for the
/// whole manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyPath(pub(crate) Vec<Step>);

impl KeyPath {
    /// Returns the path of a member.
    #[must_use]
    pub fn member(&self, name: impl Into<String>) -> Self {
        self.then(Step::Name(name.into()))
    }

    /// Returns the path of an element.
    #[must_use]
    pub fn element(&self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    /// Parses a path whose names are bare keys or `*`.
    pub(crate) fn parse(text: &str) -> Self {
        let steps = text.split('.').flat_map(|part| {
            let mut parts = part.split('[');
            let name = Step::Name(parts.next().unwrap_or_default().to_owned());
            let indices = parts.filter_map(|index| index.strip_suffix(']')?.parse().ok());
            std::iter::once(name).chain(indices.map(Step::Index)).collect::<Vec<_>>()
        });
        Self(steps.collect())
    }

    fn then(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    /// Returns whether this is the path of `other` or of something inside it.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }
}

impl<'a> FromIterator<&'a str> for KeyPath {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        Self(names.into_iter().map(|name| Step::Name(name.to_owned())).collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.0.iter().enumerate() {
            let dot = if depth == 0 { "" } else { "." };
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Name(name) if is_bare(name) => write!(f, "{dot}{name}")?,
                Step::Name(name) => write!(f, "{dot}{}", shown(name))?,
            }
        }
        Ok(())
    }
}

fn is_bare(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}
