//! The result of a check.

use serde::Serialize;

use airlock_config::Problem;

airlock_strings::named_enum! {
    /// Weight of a finding. The names are those in the document.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub(super) enum Status {
        /// Nothing is wrong.
        Ok = "ok",
        /// The gateway works, or a part of it may not.
        Warning = "warning",
        /// The gateway, or a part of it, does not work or is not safe.
        Error = "error",
    }
}

/// One result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct DoctorFinding {
    /// Stable code.
    pub(super) code: &'static str,
    pub(super) status: Status,
    /// The checked thing: a key of the file, a path, a server.
    pub(super) subject: String,
    pub(super) found: String,
    /// Description of what would be valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) valid: Option<String>,
    /// The command or the key that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fix: Option<String>,
}

impl DoctorFinding {
    /// Creates a finding without a remedy.
    pub(super) fn new(
        status: Status,
        code: &'static str,
        subject: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self { code, status, subject: subject.into(), found: found.into(), valid: None, fix: None }
    }

    pub(super) fn ok(
        code: &'static str,
        subject: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::new(Status::Ok, code, subject, found)
    }

    pub(super) fn warning(
        code: &'static str,
        subject: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::new(Status::Warning, code, subject, found)
    }

    pub(super) fn error(
        code: &'static str,
        subject: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::new(Status::Error, code, subject, found)
    }

    /// Creates the finding of a problem of the configuration, whose message has what would be valid.
    pub(super) fn problem(status: Status, code: &'static str, problem: Problem) -> Self {
        let key = problem.key.to_string();
        let subject = if key.is_empty() { "the file".to_owned() } else { key };
        Self::new(status, code, subject, problem.message)
    }

    #[must_use]
    pub(super) fn valid(self, valid: impl Into<String>) -> Self {
        Self { valid: Some(valid.into()), ..self }
    }

    #[must_use]
    pub(super) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}
