//! The arguments that a plan expects of calls: what is the same in both rehearsals is constant, in objects and arrays
//! too, and the rest varies.

mod compared;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(super) use self::compared::ComparedArguments;
use self::compared::{ComparedMember, MemberMatch};

/// Deepest nesting of values of which parts vary. A deeper one varies as a whole: a person approves the parts, which
/// are compared by recursion.
const MAX_DEPTH: usize = 8;

/// Arguments of calls that differ at most in some of them, or in parts of some.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExpectedArguments {
    /// Arguments that each of the calls has.
    #[serde(rename = "arguments")]
    pub constant: Map<String, Value>,
    /// Arguments that each of the calls has, and of which parts vary.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub partial: BTreeMap<String, PartialValue>,
    /// Names of the arguments that may have any value, or be left out. A script may make a call with tens of thousands, and
    /// each is looked up.
    #[serde(default)]
    pub varying: BTreeSet<String>,
}

/// An argument as it is shown to a person.
pub struct ShownArgument<'e> {
    /// Its name.
    pub name: &'e str,
    /// Its value, as JSON in which what varies may be a text that is no JSON.
    pub value: String,
}

/// A value of which parts may vary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartialValue {
    /// Any value.
    Any,
    /// This value.
    Constant(Value),
    /// An object with these members and no others. Those with any value may be left out.
    Object(BTreeMap<String, PartialValue>),
    /// An array with these elements.
    Array(Vec<PartialValue>),
}

impl ExpectedArguments {
    /// Returns what the arguments of two calls have in common.
    pub(super) fn between(one: &Map<String, Value>, other: &Map<String, Value>) -> Self {
        let mut expected = Self::default();
        for (name, value) in one {
            let part = other
                .get(name)
                .map_or(PartialValue::Any, |other| PartialValue::between(value, other, 0));
            match part {
                PartialValue::Constant(value) => {
                    expected.constant.insert(name.clone(), value);
                }
                PartialValue::Any => {
                    expected.varying.insert(name.clone());
                }
                part => {
                    expected.partial.insert(name.clone(), part);
                }
            }
        }
        let added = other.keys().filter(|name| !one.contains_key(*name));
        expected.varying.extend(added.cloned());
        expected
    }

    /// Returns the arguments of a call that one rehearsal alone makes. Those with values of answers, whose tools are in
    /// `origins`, vary: there is no other call to compare them with.
    pub(super) fn alone(
        arguments: &Map<String, Value>,
        origins: &BTreeMap<String, BTreeSet<String>>,
    ) -> Self {
        let mut expected = Self::default();
        for (name, value) in arguments {
            if origins.contains_key(name) {
                expected.varying.insert(name.clone());
            } else {
                expected.constant.insert(name.clone(), value.clone());
            }
        }
        expected
    }

    /// Returns whether an argument is constant in no part, or in some.
    pub(super) fn varies(&self, name: &str) -> bool {
        self.partial.contains_key(name) || self.varying.contains(name)
    }

    /// Returns whether arguments are these, but for what varies.
    pub(super) fn permit(&self, arguments: &Map<String, Value>) -> bool {
        self.required().all(|name| arguments.contains_key(name))
            && arguments.iter().all(|(name, value)| self.permits_argument(name, value))
    }

    /// Returns whether all arguments that others permit are permitted by these too.
    pub(super) fn cover(&self, others: &Self) -> bool {
        let mut required = self.required();
        required.all(|name| others.constant.contains_key(name) || others.partial.contains_key(name))
            && others.constant.iter().all(|(name, value)| self.permits_argument(name, value))
            && others.partial.iter().all(|(name, part)| {
                self.varying.contains(name) || self.partial.get(name) == Some(part)
            })
            && others.varying.is_subset(&self.varying)
    }

    /// Returns whether the arguments of a call are these, but for what varies.
    pub(super) fn permit_call(&self, made: &ComparedArguments<'_>) -> bool {
        made.are_members(self.required().count(), self.varying.len(), |member| {
            let name = member.name();
            match (self.constant.get(name), self.partial.get(name)) {
                (Some(value), _) => MemberMatch::required(member.is_equal(value)),
                (None, Some(part)) => MemberMatch::required(part.permits_member(member)),
                (None, None) => MemberMatch::optional(self.varying.contains(name)),
            }
        })
    }

    /// Returns a number that is greater for arguments that permit less: of those that permit the same call, it tells which
    /// is meant.
    pub(super) fn strictness(&self) -> (usize, usize, usize) {
        let parts = self.partial.values().map(PartialValue::constants).sum();
        (self.required().count(), self.constant.len(), parts)
    }

    /// Iterates over the arguments as they are shown, with `any` in the place of what varies: first those that are
    /// constant, last those that vary.
    pub fn shown(&self, any: &str) -> impl Iterator<Item = ShownArgument<'_>> {
        let constant = self.constant.iter().map(|(name, value)| (name, value.to_string()));
        let partial = self.partial.iter().map(move |(name, part)| (name, part.shown(any)));
        let varying = self.varying.iter().map(move |name| (name, any.to_owned()));
        let shown = constant.chain(partial).chain(varying);
        shown.map(|(name, value)| ShownArgument { name, value })
    }

    /// Iterates over the names of the arguments that each of the calls has.
    fn required(&self) -> impl Iterator<Item = &str> {
        self.constant.keys().chain(self.partial.keys()).map(String::as_str)
    }

    fn permits_argument(&self, name: &str, value: &Value) -> bool {
        match (self.constant.get(name), self.partial.get(name)) {
            (Some(constant), _) => constant == value,
            (None, Some(part)) => part.permits(value),
            (None, None) => self.varying.contains(name),
        }
    }
}

impl PartialValue {
    /// Returns what two values have in common. Objects and arrays of which no part is constant vary as a whole: they are
    /// those of an answer, which may have more members or elements.
    fn between(one: &Value, other: &Value, depth: usize) -> Self {
        if one == other {
            return Self::Constant(one.clone());
        }
        let is_partial = match (one, other) {
            _ if depth == MAX_DEPTH => false,
            (Value::Object(_), Value::Object(_)) => true,
            (Value::Array(one), Value::Array(other)) => one.len() == other.len(),
            _ => false,
        };
        if !is_partial {
            return Self::Any;
        }
        let part = Self::parts_between(one, other, depth + 1);
        if part.constants() == 0 { Self::Any } else { part }
    }

    fn parts_between(one: &Value, other: &Value, depth: usize) -> Self {
        match (one, other) {
            (Value::Object(one), Value::Object(other)) => {
                let parts = one.iter().map(|(name, value)| {
                    let other = other.get(name);
                    let part = other.map_or(Self::Any, |other| Self::between(value, other, depth));
                    (name.clone(), part)
                });
                let added = other.keys().filter(|name| !one.contains_key(*name));
                let added = added.map(|name| (name.clone(), Self::Any));
                Self::Object(parts.chain(added).collect())
            }
            (Value::Array(one), Value::Array(other)) => {
                let pairs = one.iter().zip(other);
                Self::Array(pairs.map(|(one, other)| Self::between(one, other, depth)).collect())
            }
            _ => Self::Any,
        }
    }

    /// Returns the number of constant parts.
    fn constants(&self) -> usize {
        match self {
            Self::Any => 0,
            Self::Constant(_) => 1,
            Self::Object(members) => members.values().map(Self::constants).sum(),
            Self::Array(elements) => elements.iter().map(Self::constants).sum(),
        }
    }

    /// Returns whether a value is this one, but for what varies.
    fn permits(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any, _) => true,
            (Self::Constant(constant), value) => constant == value,
            (Self::Object(parts), Value::Object(members)) => {
                parts.iter().all(|(name, part)| *part == Self::Any || members.contains_key(name))
                    && members.iter().all(|(name, value)| {
                        parts.get(name).is_some_and(|part| part.permits(value))
                    })
            }
            (Self::Array(parts), Value::Array(elements)) => {
                parts.len() == elements.len()
                    && parts.iter().zip(elements).all(|(part, value)| part.permits(value))
            }
            (Self::Object(_) | Self::Array(_), _) => false,
        }
    }

    /// Does the same as [`Self::permits`] with a value that is text.
    fn permits_member(&self, made: &ComparedMember<'_>) -> bool {
        match self {
            Self::Any => true,
            Self::Constant(value) => made.is_equal(value),
            Self::Object(parts) => made.members().is_some_and(|made| {
                let varying = parts.values().filter(|part| **part == Self::Any).count();
                made.are_members(parts.len() - varying, varying, |member| {
                    match parts.get(member.name()) {
                        None => MemberMatch::Other,
                        Some(Self::Any) => MemberMatch::Optional,
                        Some(part) => MemberMatch::required(part.permits_member(member)),
                    }
                })
            }),
            Self::Array(parts) => made.elements().is_some_and(|made| {
                made.len() == parts.len()
                    && parts.iter().zip(made).all(|(part, element)| part.permits_member(element))
            }),
        }
    }

    fn shown(&self, any: &str) -> String {
        ShownPart { part: self, any }.to_string()
    }
}

/// Shows a value with `any` in the place of what varies. No text in a value can imitate what varies: it is in quotation
/// marks.
struct ShownPart<'p> {
    part: &'p PartialValue,
    any: &'p str,
}

impl fmt::Display for ShownPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = self.any;
        match self.part {
            PartialValue::Any => f.write_str(any),
            PartialValue::Constant(value) => write!(f, "{value}"),
            PartialValue::Object(members) => {
                let members = members.iter().map(|(name, part)| {
                    format!("{}:{}", Value::from(name.as_str()), ShownPart { part, any })
                });
                write!(f, "{{{}}}", members.collect::<Vec<_>>().join(","))
            }
            PartialValue::Array(elements) => {
                let elements = elements.iter().map(|part| ShownPart { part, any }.to_string());
                write!(f, "[{}]", elements.collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests;
