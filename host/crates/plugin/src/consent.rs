//! The operator's consent to what a changed plugin would be granted without another word.

use std::collections::BTreeSet;

use super::{Change, Drift};

/// Consent to a changed plugin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consent {
    /// Granted requests, such as `http.api`, that may be wider than the accepted ones.
    pub regrant: BTreeSet<String>,
    /// True if the plugin may have another id than the accepted one.
    pub change_id: bool,
}

impl Consent {
    /// Returns the consent that a plugin needs for all of its differences from its accepted state.
    pub fn for_all_of(drift: &Drift) -> Self {
        Self {
            regrant: drift.widened().map(|widening| widening.request.clone()).collect(),
            change_id: drift.has_other_id(),
        }
    }

    /// Returns whether a change needs consent and has none.
    pub fn lacks(&self, change: &Change) -> bool {
        match change {
            Change::Widened(widening) => !self.regrant.contains(&widening.request),
            Change::Id { .. } => !self.change_id,
            _ => false,
        }
    }

    /// Returns the options that state this consent on the command line, with a space before each.
    pub fn options(&self) -> String {
        // Of the characters in the names of requests, only `*` means something to a shell.
        let regrants = self.regrant.iter().map(|request| {
            let quote = if request.contains('*') { "'" } else { "" };
            format!(" --regrant {quote}{request}{quote}")
        });
        let change_id = if self.change_id { " --change-id" } else { "" };
        regrants.collect::<String>() + change_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Widening;

    fn widening(request: &str) -> Change {
        let request = request.to_owned();
        let line = request.clone();
        Change::Widened(Widening { request, line, is_new: false, secrets: Vec::new() })
    }

    #[test]
    fn the_options_for_a_drift_give_the_consent_that_it_lacks() {
        let id = Change::Id { was: "one".to_owned(), is: "two".to_owned() };
        let version = Change::Version { was: "1.0.0".to_owned(), is: "2.0.0".to_owned() };
        let changes = vec![version.clone(), id.clone(), widening("http.api"), widening("files.*")];
        let drift = Drift { client: "mail".to_owned(), changes };
        let all = Consent::for_all_of(&drift);
        assert_eq!(all.options(), " --regrant 'files.*' --regrant http.api --change-id");
        assert!(!drift.changes.iter().any(|change| all.lacks(change)));
        let none = Consent::default();
        assert_eq!(none.options(), "");
        assert!(none.lacks(&id) && none.lacks(&widening("http.api")) && !none.lacks(&version));
        let some = Consent { regrant: ["http.api".to_owned()].into(), change_id: false };
        assert!(!some.lacks(&widening("http.api")) && some.lacks(&widening("http.api2")));
    }
}
