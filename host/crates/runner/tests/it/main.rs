//! Runs of scripts in both languages, in the sandbox.

mod approvals;
mod calls;
mod cancelling;
mod hostile;
mod limits;
mod values;

use std::sync::LazyLock;

use airlock_runner::{
    FinishedRun, PendingRun, RunError, RunRequest, RunState, Runner, RunnerSettings, ScriptLanguage,
};

/// The runner of all tests of a process.
static RUNNER: LazyLock<Runner> =
    LazyLock::new(|| Runner::new(RunnerSettings::default()).expect("a sandbox"));

/// Creates a request in each language.
fn in_each(code: &str) -> [RunRequest; 2] {
    ScriptLanguage::ALL.map(|language| RunRequest::new(language, code))
}

fn python(code: &str) -> RunRequest {
    RunRequest::new(ScriptLanguage::Python, code)
}

/// Runs a script that ends.
async fn finished(request: RunRequest) -> FinishedRun {
    let code = request.code.clone();
    match RUNNER.run(request).await {
        Ok(RunState::Finished(run)) => run,
        Ok(RunState::Pending(run)) => panic!("{code}: {run:?}"),
        Err(error) => panic!("{code}: {error}"),
    }
}

/// Runs a script that fails.
async fn failure(request: RunRequest) -> RunError {
    let code = request.code.clone();
    match RUNNER.run(request).await {
        Ok(ended) => panic!("{code}: {ended:?}"),
        Err(error) => error,
    }
}

/// Runs a script that stops at a call that needs an approval.
async fn pending(request: RunRequest) -> PendingRun {
    waiting(RUNNER.run(request).await)
}

#[track_caller]
fn waiting(ended: Result<RunState, RunError>) -> PendingRun {
    match ended {
        Ok(RunState::Pending(run)) => run,
        Ok(RunState::Finished(run)) => panic!("it has ended: {run:?}"),
        Err(error) => panic!("{error}"),
    }
}

/// Returns the name of the limit that has ended a run.
fn limit_of(error: &RunError) -> &'static str {
    match error {
        RunError::Limit { limit, .. } => limit,
        other => panic!("{other:?}"),
    }
}
