use tempfile::TempDir;

use super::*;
use crate::{run::Phase, runs::Settings, store::runs::RunBounds};

const TENANT: Tenant = Tenant::ANONYMOUS;

fn at(branch: u32) -> Position {
    Position { block: 1, branch }
}

fn called() -> Called {
    Called {
        tool: "a-b".into(),
        arguments: "{}".into(),
        definition: "d".into(),
        is_repeatable: false,
    }
}

/// A run that begins, and the directory of its database.
fn begun() -> (TempDir, Runs, Arc<Journal>) {
    let directory = TempDir::new().expect("a directory");
    let bounds = RunBounds {
        expire_after: Duration::from_mins(10),
        owner_runs: 10,
        owner_bytes: 1 << 20,
        total_bytes: 1 << 24,
        lease: Duration::from_mins(10),
        approval: Duration::from_mins(10),
    };
    let settings = Settings {
        journal: true,
        bounds,
        cpu_time: Duration::from_secs(1),
        approves_whole_scripts: false,
        clock: false,
    };
    let store = crate::store::Settings::new(directory.path().join("airlock.db"));
    let runs = Runs::new(settings, store);
    let new = NewRun {
        language: "starlark".to_owned(),
        script: "s".to_owned(),
        bindings: "[]".into(),
        bindings_digest: [0; 32],
        clock_ms: None,
    };
    let journal = Journal::begin(&runs, &TENANT, new);
    (directory, runs, journal)
}

#[tokio::test]
async fn calls_at_the_same_time_are_all_refused_once_a_step_of_one_is() {
    let (_directory, runs, journal) = begun();
    journal.intend(at(1), called()).await.expect("it is stored");
    runs.own(&TENANT).cancel(&journal.id).await.expect("requested");
    // The first stores its step alone; the steps of the others wait, and are refused together.
    let intents = (2..6).map(|branch| journal.intend(at(branch), called()));
    for (n, intended) in futures_util::future::join_all(intents).await.into_iter().enumerate() {
        assert!(intended.is_err(), "call {n} may be sent");
    }
    assert!(journal.intend(at(7), called()).await.is_err());
    let stored = runs.own(&TENANT).get(&journal.id).await.expect("it is there");
    assert_eq!(stored.calls.iter().map(|call| call.position).collect::<Vec<_>>(), [at(1)]);
}

#[tokio::test]
async fn an_answer_is_stored_also_after_the_run_was_cancelled() {
    let (_directory, runs, journal) = begun();
    let attempt = journal.intend(at(1), called()).await.expect("it is stored");
    runs.own(&TENANT).cancel(&journal.id).await.expect("requested");
    journal.answer(at(1), attempt, &Answer::Text("done".to_owned())).await.expect("it is a fact");
    assert!(journal.intend(at(2), called()).await.is_err(), "the script must stop");
    let stored = runs.own(&TENANT).get(&journal.id).await.expect("it is there");
    assert_eq!(stored.calls[0].call.stage, Stage::Answered);
}

#[tokio::test]
async fn a_suspended_run_is_not_ended_by_a_journal_that_is_dropped() {
    let (_directory, runs, journal) = begun();
    let id = journal.id.clone();
    let stop = journal.suspend(vec![(at(1), called())], &[]).await;
    assert!(matches!(stop, CallError::Suspended(_)), "{stop:?}");
    let other = journal.suspend(vec![(at(2), called())], &[]).await;
    assert!(matches!(other, CallError::Cancelled), "one question for the block: {other:?}");
    drop(journal);
    let stored = runs.own(&TENANT).get(&id).await.expect("it is there");
    assert_eq!(stored.lease.phase, Phase::Suspended);
}
