//! The outline of a chat completion, or of a chunk of one: what has to be known of it before its text is
//! passed on, and its tokens.
//!
//! It is read in the pass that checks the text, which builds no tree. Names and texts are compared with their escapes
//! resolved, so no escape hides a member.

mod reader;
mod usage;

pub(super) use self::{reader::OutlineReader, usage::UsageMember};
use airlock_core::model_control::ServiceTier;

/// Outline of a reply in which nothing has to be changed.
#[derive(Debug)]
pub(super) struct Outline {
    pub(super) choices: Vec<ChoiceOutline>,
    pub(super) usage: UsageMember,
    /// Tier of service that it names; `None` if it names none that prices know.
    pub(super) tier: Option<ServiceTier>,
}

/// Outline of a choice.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ChoiceOutline {
    pub(super) index: u64,
    /// True if it has a `finish_reason`.
    pub(super) has_ended: bool,
    /// True if it has calls.
    pub(super) has_calls: bool,
}

impl Outline {
    /// Returns whether a choice has calls.
    pub(super) fn has_calls(&self) -> bool {
        self.choices.iter().any(|choice| choice.has_calls)
    }

    /// Returns whether a choice ends.
    pub(super) fn has_end(&self) -> bool {
        self.choices.iter().any(|choice| choice.has_ended)
    }
}

#[cfg(test)]
mod tests;
