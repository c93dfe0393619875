//! Logs the reasons that tools cannot be used: in few lines, and each reason once.

use std::collections::BTreeSet;

use tracing::warn;

use super::limits::{MAX_COMPLAINT_BYTES, MAX_COMPLAINTS};
use crate::{
    text::{cut, one_line},
    tool::ClientName,
};

/// Reasons that tools of one list were left out. Keeps the first [`MAX_COMPLAINTS`] reasons, of
/// [`MAX_COMPLAINT_BYTES`] each, and counts the others.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    reasons: BTreeSet<String>,
    more: usize,
}

impl Complaints {
    /// Adds a reason, which may quote the server.
    pub(super) fn push(&mut self, reason: &str) {
        if self.reasons.len() < MAX_COMPLAINTS {
            self.reasons.insert(cut(one_line(reason), MAX_COMPLAINT_BYTES));
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

    /// Logs the reasons that are not in `told`, the complaints about the previous list.
    pub(super) fn tell(&self, client: &ClientName, told: &Self) {
        for reason in self.unlike(told) {
            warn!(%client, reason, "tool left out");
        }
        if self.more > 0 && self.more != told.more {
            warn!(%client, more = self.more, "more tools left out");
        }
    }

    fn unlike<'a>(&'a self, told: &'a Self) -> impl Iterator<Item = &'a String> {
        self.reasons.difference(&told.reasons)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_and_length_of_reasons_are_limited() {
        let mut complaints = Complaints::default();
        for n in 0..MAX_COMPLAINTS * 3 {
            complaints.push(&format!("{n}\n{}", "\0".repeat(100_000)));
        }
        assert_eq!(
            (complaints.reasons().count(), complaints.len()),
            (MAX_COMPLAINTS, MAX_COMPLAINTS * 3)
        );
        let is_short_line = |reason: &str| {
            reason.len() <= MAX_COMPLAINT_BYTES && !reason.contains(char::is_control)
        };
        assert!(complaints.reasons().all(is_short_line));
    }

    #[test]
    fn a_reason_of_the_previous_list_is_not_logged_again() {
        let of = |reasons: &[&str]| {
            let mut complaints = Complaints::default();
            for reason in reasons {
                complaints.push(reason);
            }
            complaints
        };
        let (first, second) = (of(&["a", "b"]), of(&["b", "c"]));
        assert_eq!(second.unlike(&first).collect::<Vec<_>>(), ["c"]);
        assert_eq!(first.unlike(&Complaints::default()).count(), 2);
        assert_eq!(first.unlike(&first).count(), 0);
    }
}
