//! The arguments of a call as text, compared with those that are expected.

use std::{borrow::Cow, cell::OnceCell};

use serde_json::Value;

use crate::ask::MAX_QUESTION;
use airlock_json::raw;

/// Maximum bytes of a value that is compared with a constant one: six times as many as a manifest has, because
/// each character may be escaped. The arguments of a call have up to 1 MiB.
const MAX_COMPARED: usize = 6 * MAX_QUESTION;
/// Maximum number of members or elements of a value that are compared with those of a partial one: a manifest has fewer
/// bytes, and the arguments of a call have room for half a million.
const MAX_PARTS: usize = MAX_QUESTION;

/// The arguments of a call, or the members of an object in them, read once for the comparison with all entries of a
/// manifest: arguments may have 1 MiB, and a manifest a hundred entries.
pub(in crate::runs) struct ComparedArguments<'t>(Vec<ComparedMember<'t>>);

/// A value in the arguments of a call.
pub(super) struct ComparedMember<'t> {
    /// Name of the member; empty for an element.
    name: Cow<'t, str>,
    text: &'t str,
    /// The value, once it has been compared with a constant one; `None` if no constant value can be as long.
    value: OnceCell<Option<Value>>,
    /// The members, once they have been compared; `None` if it is no object, or has too many.
    members: OnceCell<Option<ComparedArguments<'t>>>,
    /// The elements, once they have been compared; `None` if it is no array, or has too many.
    elements: OnceCell<Option<Vec<ComparedMember<'t>>>>,
}

impl<'t> From<&'t str> for ComparedArguments<'t> {
    /// Reads arguments, as JSON text of an object.
    fn from(arguments: &'t str) -> Self {
        let members = raw::members(arguments).into_iter().flatten();
        Self(members.map(|(name, text)| ComparedMember::new(name, text)).collect())
    }
}

impl<'t> ComparedArguments<'t> {
    /// Returns whether these are all required members, and no others but optional ones.
    pub(super) fn are_members(
        &self,
        required: usize,
        optional: usize,
        matching: impl Fn(&ComparedMember<'t>) -> MemberMatch,
    ) -> bool {
        // More are not looked at one by one.
        if self.0.len() > required + optional {
            return false;
        }
        let mut found = 0;
        for member in &self.0 {
            match matching(member) {
                MemberMatch::Required => found += 1,
                MemberMatch::Optional => {}
                MemberMatch::Other => return false,
            }
        }
        found == required
    }
}

/// Result of the comparison of a member with those that are expected.
pub(super) enum MemberMatch {
    /// It is a required one, with an expected value.
    Required,
    /// It is one that may be left out.
    Optional,
    /// It is not expected, or has another value.
    Other,
}

impl MemberMatch {
    /// Returns the result for a required member.
    pub(super) fn required(is_equal: bool) -> Self {
        if is_equal { Self::Required } else { Self::Other }
    }

    /// Returns the result for a member that is not required.
    pub(super) fn optional(is_expected: bool) -> Self {
        if is_expected { Self::Optional } else { Self::Other }
    }
}

impl<'t> ComparedMember<'t> {
    fn new(name: Cow<'t, str>, text: &'t str) -> Self {
        Self {
            name,
            text,
            value: OnceCell::new(),
            members: OnceCell::new(),
            elements: OnceCell::new(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_equal(&self, value: &Value) -> bool {
        let read = self.value.get_or_init(|| {
            (self.text.len() <= MAX_COMPARED)
                .then(|| serde_json::from_str(self.text).ok())
                .flatten()
        });
        read.as_ref() == Some(value)
    }

    /// Returns the members of an object; `None` if it is none, or if no partial value has as many.
    pub(super) fn members(&self) -> Option<&ComparedArguments<'t>> {
        let read = self.members.get_or_init(|| {
            let members = raw::members(self.text)?.map(|(name, text)| Self::new(name, text));
            bounded(members).map(ComparedArguments)
        });
        read.as_ref()
    }

    /// Returns the elements of an array; `None` if it is none, or if no partial value has as many.
    pub(super) fn elements(&self) -> Option<&[Self]> {
        let read = self.elements.get_or_init(|| {
            let elements = raw::elements(self.text)?;
            bounded(elements.map(|text| Self::new(Cow::Borrowed(""), text)))
        });
        read.as_deref()
    }
}

fn bounded<'t>(parts: impl Iterator<Item = ComparedMember<'t>>) -> Option<Vec<ComparedMember<'t>>> {
    let parts: Vec<_> = parts.take(MAX_PARTS + 1).collect();
    (parts.len() <= MAX_PARTS).then_some(parts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the member with a name.
    fn member<'m, 't>(made: &'m ComparedArguments<'t>, name: &str) -> &'m ComparedMember<'t> {
        made.0.iter().find(|member| member.name() == name).expect("it is there")
    }

    #[test]
    fn a_value_is_parsed_once_and_only_if_it_is_compared() {
        let long = format!("[{}1]", "1,".repeat(MAX_COMPARED / 2));
        let arguments = format!(r#"{{"reason":"x","number":{{"a":1}},"long":{long}}}"#);
        let made = ComparedArguments::from(arguments.as_str());
        assert!(member(&made, "reason").is_equal(&json!("x")));
        assert_eq!(member(&made, "reason").value.get(), Some(&Some(json!("x"))));
        assert!(!member(&made, "long").is_equal(&json!([1])));
        assert_eq!(member(&made, "long").value.get(), Some(&None), "too long to be constant");
        let number = member(&made, "number");
        assert!(number.elements().is_none());
        let inner = number.members().expect("an object");
        assert!(member(inner, "a").is_equal(&json!(1)));
        assert!(number.value.get().is_none(), "it is read in parts");
    }

    #[test]
    fn a_value_of_more_parts_than_a_manifest_has_is_not_compared_in_parts() {
        for (count, expected) in [(MAX_PARTS, true), (MAX_PARTS + 1, false)] {
            let list = vec!["1"; count].join(",");
            let arguments = format!(r#"{{"list":[{list}]}}"#);
            let made = ComparedArguments::from(arguments.as_str());
            let list = member(&made, "list");
            assert_eq!(list.elements().is_some(), expected, "{count}");
            assert!(list.members().is_none());
        }
    }
}
