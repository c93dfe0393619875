//! Accepts the changes of a server that an operator of the running gateway was shown, into `airlock.lock`.

use std::{collections::BTreeSet, future::Future};

use tokio::task::spawn_blocking;

use super::{ClientPins, NoSuchChange};
use airlock_lock::LockError;

/// Changes that an operator accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// Digest of the review that was shown.
    pub review: String,
    /// Tools whose changes are accepted; `None` for all of the review.
    pub tools: Option<BTreeSet<String>>,
}

/// Reason that changes were not accepted. The lock file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// The server has sent no list, or its definitions are not pinned.
    #[error("no list of the server was compared with accepted definitions")]
    NoReview,
    /// The accepted definitions cannot be read.
    #[error("the accepted definitions are unknown: {0}")]
    Unknown(String),
    /// The list or the accepted definitions are not those of the review.
    #[error("the definitions have changed since they were shown")]
    Changed,
    /// A tool of the acceptance has no change.
    #[error(transparent)]
    NoSuchChange(#[from] NoSuchChange),
    /// The acceptance cannot be recorded.
    #[error("the acceptance cannot be recorded")]
    NotRecorded,
    /// The gateway has no configuration file, beside which the lock file would be.
    #[error("there is no configuration file, so there is no place for airlock.lock")]
    NoFile,
    /// The lock file cannot be read or written.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The runtime is shutting down.
    #[error("writing airlock.lock was interrupted")]
    Interrupted,
}

impl ClientPins {
    /// Writes the definitions of an acceptance to the lock file. Fails if the review is not the one that was shown.
    /// `recorded` is awaited once that is known and before the file is written; if it is false, nothing is written.
    /// Returns the names of the tools whose changes were accepted. The next list is compared with the file. If the
    /// future is dropped, the file may be written or not.
    pub async fn accept(
        &self,
        acceptance: &Acceptance,
        recorded: impl Future<Output = bool> + Send,
    ) -> Result<Vec<String>, AcceptError> {
        let review = self.review().ok_or(AcceptError::NoReview)?;
        if let Some(problem) = &review.problem {
            return Err(AcceptError::Unknown(problem.clone()));
        }
        if review.digest() != acceptance.review {
            return Err(AcceptError::Changed);
        }
        let tools = acceptance.tools.as_ref();
        let locked = review.accept(tools)?;
        let names = review.changes.iter().map(|change| &change.tool);
        let names = names.filter(|name| tools.is_none_or(|tools| tools.contains(*name)));
        let names = names.cloned().collect();
        if !recorded.await {
            return Err(AcceptError::NotRecorded);
        }
        let keep = self.keep.clone();
        let client = self.client.clone();
        let base = review.is_locked.then_some(review.accepted);
        let written = spawn_blocking(move || keep.accept(&client, base.as_ref(), locked));
        written.await.map_err(|_| AcceptError::Interrupted)??;
        Ok(names)
    }
}
