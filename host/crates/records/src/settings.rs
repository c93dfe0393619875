//! Which logs there are, and what happens if they cannot be written.

use std::{path::PathBuf, time::Duration};

use airlock_core::secret::Secret;

/// Settings of the records of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSettings {
    /// The call log; `None` for none.
    pub call_log: Option<CallLogSettings>,
    /// The audit log; `None` for none.
    pub audit: Option<AuditPlace>,
    /// Treatment of calls whose record cannot be written.
    pub on_failure: OnFailure,
}

impl RecordSettings {
    /// Returns whether anything is recorded.
    pub fn is_on(&self) -> bool {
        self.call_log.is_some() || self.audit.is_some()
    }
}

/// Settings of the call log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLogSettings {
    /// Age at which rows are removed.
    pub retention: Duration,
    /// True to keep arguments and results.
    pub contents: bool,
}

/// The audit log, its key, and where its checkpoints are published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPlace {
    /// Directory of the log.
    pub directory: PathBuf,
    /// Name of the gateway, the first part of the log's origin.
    pub name: String,
    /// The key that signs; `None` for one that is made in the directory.
    pub key: Option<SigningKeySource>,
    /// The key that has signed so far, if `key` takes its place.
    pub old_key: Option<SigningKeySource>,
    /// Places where checkpoints are published.
    pub publish: Vec<CheckpointPlace>,
    /// Time between two checkpoints.
    pub checkpoint_interval: Duration,
}

/// Place where checkpoints are published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointPlace {
    /// A file that they are added to.
    File(PathBuf),
    /// A URL that they are posted to, as text.
    Url {
        /// The URL, which may have a secret.
        url: Secret,
        /// Its host, for the log.
        host: String,
    },
}

/// Source of the private key that signs the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SigningKeySource {
    /// The key, from the environment.
    Text(Secret),
    /// A file that has only the key, and that its owner alone can use.
    File(PathBuf),
}

/// Treatment of a call with effects whose admission cannot be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// It waits until its admission is in every log, and is refused if that fails.
    Refuse,
    /// It runs, and is counted.
    Count,
}
