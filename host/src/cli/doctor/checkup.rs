//! Runs all checks at the same time, each for a limited time.

use std::{collections::BTreeMap, time::Duration};

use futures_util::{
    StreamExt as _,
    future::{BoxFuture, FutureExt as _},
    stream::FuturesUnordered,
};
use tokio::{task::spawn_blocking, time::timeout};

use super::finding::DoctorFinding;
use airlock_terminal::spinner::Spinner;

/// Longest time of a check.
pub(super) const LIMIT: Duration = Duration::from_secs(5);
/// Time of a connection that a check makes, which leaves it time to close the connection.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// A check that has not run yet.
pub(super) struct Check {
    code: &'static str,
    subject: String,
    work: BoxFuture<'static, Vec<DoctorFinding>>,
}

impl Check {
    /// Creates a check. `code` and `subject` are those of the finding if it does not end in time.
    pub(super) fn new(
        code: &'static str,
        subject: impl Into<String>,
        work: impl Future<Output = Vec<DoctorFinding>> + Send + 'static,
    ) -> Self {
        Self { code, subject: subject.into(), work: work.boxed() }
    }

    /// Creates a check that reads files, on a thread of its own: a file system may never respond.
    pub(super) fn blocking(
        code: &'static str,
        subject: impl Into<String>,
        work: impl FnOnce() -> Vec<DoctorFinding> + Send + 'static,
    ) -> Self {
        let subject = subject.into();
        let failed = DoctorFinding::error(code, subject.clone(), "the check itself has failed");
        let work = async move { spawn_blocking(work).await.unwrap_or_else(|_| vec![failed]) };
        Self::new(code, subject, work)
    }

    async fn run(self) -> Vec<DoctorFinding> {
        let Self { code, subject, work } = self;
        timeout(LIMIT, work).await.unwrap_or_else(|_| {
            let found = format!("there was no result within {} seconds", LIMIT.as_secs());
            vec![DoctorFinding::warning(code, subject, found)]
        })
    }
}

/// Runs the checks, and shows the progress on a terminal. Returns their findings in the order of the checks.
pub(super) async fn run(checks: Vec<Check>) -> Vec<DoctorFinding> {
    let count = checks.len();
    let spinner = Spinner::begin(format!("{count} checks"));
    let numbered = checks.into_iter().enumerate();
    let mut running: FuturesUnordered<_> =
        numbered.map(|(number, check)| check.run().map(move |found| (number, found))).collect();
    let mut findings = BTreeMap::new();
    while let Some((number, found)) = running.next().await {
        findings.insert(number, found);
        spinner.update(format!("{} of {count} checks", findings.len()));
    }
    findings.into_values().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::cli::doctor::finding::Status;

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_is_reported_and_delays_no_other() {
        let hung = Check::new("server", "a", pending());
        let good =
            Check::new("server", "b", async { vec![DoctorFinding::ok("server", "b", "good")] });
        let begun = tokio::time::Instant::now();
        let found = run(vec![hung, good]).await;
        assert_eq!(begun.elapsed(), LIMIT);
        let found: Vec<_> = found.iter().map(|one| (&*one.subject, one.status)).collect();
        assert_eq!(found, [("a", Status::Warning), ("b", Status::Ok)]);
    }
}
