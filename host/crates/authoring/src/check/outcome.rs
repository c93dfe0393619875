//! The outcome of a check, with its findings.

use serde::Serialize;

use crate::Finding;

/// Outcome of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckOutcome {
    /// Nothing was found.
    Pass,
    /// Something was found that an author may leave as it is.
    Warn,
    /// Something was found that the author must change.
    Fail,
}

/// One check and its findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The statement that is checked.
    #[serde(rename = "check")]
    pub name: &'static str,
    /// Its outcome.
    pub outcome: CheckOutcome,
    /// The findings; none if it passed.
    pub details: Vec<Finding>,
}

impl Check {
    pub(crate) fn pass(name: &'static str) -> Self {
        Self { name, outcome: CheckOutcome::Pass, details: Vec::new() }
    }

    pub(crate) fn warn(name: &'static str, finding: impl Into<Finding>) -> Self {
        Self { name, outcome: CheckOutcome::Warn, details: vec![finding.into()] }
    }

    pub(crate) fn fail(name: &'static str, finding: impl Into<Finding>) -> Self {
        Self { name, outcome: CheckOutcome::Fail, details: vec![finding.into()] }
    }

    /// Passes if `found` is empty; else the outcome is `otherwise`.
    pub(crate) fn unless<T: Into<Finding>>(
        name: &'static str,
        otherwise: CheckOutcome,
        found: impl IntoIterator<Item = T>,
    ) -> Self {
        let details: Vec<_> = found.into_iter().map(Into::into).collect();
        Self {
            name,
            outcome: if details.is_empty() { CheckOutcome::Pass } else { otherwise },
            details,
        }
    }
}
