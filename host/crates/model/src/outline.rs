//! The outline of a chat completion, or of a chunk of one: what has to be known of it before its text is
//! passed on, and its tokens.
//!
//! One pass over the text reads it, and builds no tree. Names and texts are compared with their escapes
//! resolved, so no escape hides a member.

mod usage;

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

pub(super) use self::usage::UsageMember;
use super::document::OWN_MEMBER;
use airlock_conversation::MAX_CHOICES;

/// Outline of a reply in which nothing has to be changed.
#[derive(Debug)]
pub(super) struct Outline {
    pub(super) choices: Vec<ChoiceOutline>,
    pub(super) usage: UsageMember,
}

/// Outline of a choice.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChoiceOutline {
    pub(super) index: u64,
    /// True if it has a `finish_reason`.
    pub(super) has_ended: bool,
    /// True if it has calls.
    pub(super) has_calls: bool,
}

impl Outline {
    /// Reads a chunk. Returns `None` if its tree is needed: it has an error, a member that only the gateway
    /// may set or a `message`, repeats a member, or is not of the API.
    pub(super) fn of_chunk(text: &str) -> Option<Self> {
        let ObjectOnly(completion) = serde_json::from_str::<ObjectOnly<Completion>>(text).ok()?;
        let mut choices = completion.choices.iter().flat_map(|Choices(choices)| choices);
        let has_message = choices.any(|ObjectOnly(choice)| choice.message.is_some());
        if has_message { None } else { completion.into_outline() }
    }

    /// Reads a whole reply. Returns `None` if its tree is needed: as for a chunk, or because it has no
    /// choices.
    pub(super) fn of_whole(text: &str) -> Option<Self> {
        let ObjectOnly(completion) = serde_json::from_str::<ObjectOnly<Completion>>(text).ok()?;
        completion.choices.as_ref()?;
        completion.into_outline()
    }

    /// Returns whether a choice has calls.
    pub(super) fn has_calls(&self) -> bool {
        self.choices.iter().any(|choice| choice.has_calls)
    }

    /// Returns whether a choice ends.
    pub(super) fn has_end(&self) -> bool {
        self.choices.iter().any(|choice| choice.has_ended)
    }
}

/// A chat completion or a chunk. A text that does not fit has no outline.
#[derive(Deserialize)]
struct Completion {
    #[serde(default)]
    choices: Option<Choices>,
    #[serde(default)]
    error: Option<IgnoredAny>,
    #[serde(default)]
    object: TextKind,
    #[serde(default)]
    usage: UsageMember,
    /// The member that only the gateway may set.
    #[serde(default)]
    airlock: Presence,
}

/// The choices. More than [`MAX_CHOICES`] are refused.
#[derive(Default)]
struct Choices(Vec<ObjectOnly<Choice>>);

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    finish_reason: Option<TextKind>,
    #[serde(default)]
    delta: Option<ObjectOnly<OutlineMessage>>,
    #[serde(default)]
    message: Option<ObjectOnly<OutlineMessage>>,
}

#[derive(Deserialize)]
struct OutlineMessage {
    /// The elements take no memory.
    #[serde(default)]
    tool_calls: Option<Vec<IgnoredAny>>,
}

/// An object. A list, from which the members could be read by their order, is refused.
struct ObjectOnly<T>(T);

/// A text that is compared and not kept.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum TextKind {
    #[default]
    Empty,
    Error,
    Other,
}

/// Presence of a member, whatever its value is.
#[derive(Default)]
struct Presence(bool);

impl Completion {
    fn into_outline(self) -> Option<Outline> {
        debug_assert_eq!(OWN_MEMBER, "airlock", "it is the name of a field");
        if self.error.is_some() || self.airlock.0 || self.object == TextKind::Error {
            return None;
        }
        let Choices(choices) = self.choices.unwrap_or_default();
        let choices =
            (0..).zip(choices).map(|(position, ObjectOnly(choice))| choice.into_outline(position));
        Some(Outline { choices: choices.collect(), usage: self.usage })
    }
}

impl Choice {
    fn into_outline(self, position: u64) -> ChoiceOutline {
        let messages = [self.delta, self.message].into_iter().flatten();
        let mut calls = messages.filter_map(|ObjectOnly(message)| message.tool_calls);
        ChoiceOutline {
            index: self.index.unwrap_or(position),
            has_ended: self.finish_reason.is_some_and(|reason| reason != TextKind::Empty),
            has_calls: calls.any(|calls| !calls.is_empty()),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ObjectOnly<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor(PhantomData))
    }
}

struct MembersVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for MembersVisitor<T> {
    type Value = ObjectOnly<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<ObjectOnly<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members)).map(ObjectOnly)
    }
}

impl<'de> Deserialize<'de> for Choices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ChoicesVisitor)
    }
}

struct ChoicesVisitor;

impl<'de> Visitor<'de> for ChoicesVisitor {
    type Value = Choices;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a list of at most {MAX_CHOICES} choices")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Choices, A::Error> {
        let mut choices = Vec::new();
        while let Some(choice) = list.next_element()? {
            if choices.len() >= MAX_CHOICES {
                return Err(A::Error::invalid_length(choices.len() + 1, &self));
            }
            choices.push(choice);
        }
        Ok(Choices(choices))
    }
}

impl<'de> Deserialize<'de> for TextKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(KindVisitor)
    }
}

struct KindVisitor;

impl Visitor<'_> for KindVisitor {
    type Value = TextKind;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TextKind, E> {
        Ok(match text {
            "" => TextKind::Empty,
            "error" => TextKind::Error,
            _ => TextKind::Other,
        })
    }
}

impl<'de> Deserialize<'de> for Presence {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self(true))
    }
}

#[cfg(test)]
mod tests;
