//! Parts of the resource, with identifiers of their own.

use airlock_core::door::MAX_SLUG;

/// A part of the gateway at a path of its own: one segment below the path of `resource`. Its identifier
/// is that of the resource with the segment, so that a client can ask for a token that is good for this
/// part alone. Whether the part exists does not matter here: what a client learns without a credential
/// does not depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourcePart(String);

impl ResourcePart {
    /// Parses a segment of a path: letters, digits, `_` and `-`, at most 64; `None` for others.
    pub fn parse(segment: &str) -> Option<Self> {
        let has_form = (1..=MAX_SLUG).contains(&segment.len())
            && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        has_form.then(|| Self(segment.to_owned()))
    }

    /// The segment.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_one_plain_segment() {
        for good in ["a", "On_call-2", &"a".repeat(MAX_SLUG)] {
            assert!(ResourcePart::parse(good).is_some(), "{good}");
        }
        for bad in ["", "a/b", "..", "a b", "a%2f", "ä", "a\"", &"a".repeat(MAX_SLUG + 1)] {
            assert!(ResourcePart::parse(bad).is_none(), "{bad}");
        }
    }
}
