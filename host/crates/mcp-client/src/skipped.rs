//! Logs the reasons that tools cannot be used: in few lines, and each reason once.

use std::collections::BTreeSet;

use tracing::warn;

use airlock_core::tool::ClientName;
use airlock_strings::{MAX_EXCERPT_BYTES, MAX_LISTED, cut, one_line};

/// Reasons that tools of one list were left out. Keeps the first [`MAX_LISTED`] reasons, of
/// [`MAX_EXCERPT_BYTES`] each, and counts the others.
#[derive(Debug, Default)]
pub struct SkippedTools {
    reasons: BTreeSet<String>,
    more: usize,
}

impl SkippedTools {
    /// Adds a reason, which may quote the server.
    pub fn push(&mut self, reason: &str) {
        if self.reasons.len() < MAX_LISTED {
            self.reasons.insert(cut(one_line(reason), MAX_EXCERPT_BYTES));
        } else {
            self.more += 1;
        }
    }

    /// Returns the number of reasons.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.reasons.len() + self.more
    }

    /// Returns the reasons that are kept.
    #[cfg(test)]
    pub(super) fn reasons(&self) -> impl Iterator<Item = &str> {
        self.reasons.iter().map(String::as_str)
    }

    /// Logs the reasons that are not among those of the `previous` list.
    pub fn log_new(&self, client: &ClientName, previous: &Self) {
        for reason in self.not_in(previous) {
            warn!(%client, reason, "tool left out");
        }
        if self.more > 0 && self.more != previous.more {
            warn!(%client, more = self.more, "more tools left out");
        }
    }

    fn not_in<'a>(&'a self, previous: &'a Self) -> impl Iterator<Item = &'a String> {
        self.reasons.difference(&previous.reasons)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_and_length_of_reasons_are_limited() {
        let mut skipped = SkippedTools::default();
        for n in 0..MAX_LISTED * 3 {
            skipped.push(&format!("{n}\n{}", "\0".repeat(100_000)));
        }
        assert_eq!((skipped.reasons().count(), skipped.len()), (MAX_LISTED, MAX_LISTED * 3));
        for reason in skipped.reasons() {
            assert!(reason.len() <= MAX_EXCERPT_BYTES, "{reason}");
            assert!(!reason.contains(char::is_control), "{reason}");
        }
    }

    #[test]
    fn a_reason_of_the_previous_list_is_not_logged_again() {
        let first = skipped_for(&["a", "b"]);
        let second = skipped_for(&["b", "c"]);
        assert_eq!(second.not_in(&first).collect::<Vec<_>>(), ["c"]);
        assert_eq!(first.not_in(&SkippedTools::default()).count(), 2);
        assert_eq!(first.not_in(&first).count(), 0);
    }

    fn skipped_for(reasons: &[&str]) -> SkippedTools {
        let mut skipped = SkippedTools::default();
        for reason in reasons {
            skipped.push(reason);
        }
        skipped
    }
}
