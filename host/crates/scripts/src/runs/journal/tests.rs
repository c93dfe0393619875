use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use futures_util::poll;

use tempfile::TempDir;

use super::*;
use crate::runs::RunSettings;
use airlock_core::{
    act::Actor,
    run::{Phase, Stage},
    tool::{HostCode, ToolError},
};
use airlock_store::runs::RunBounds;

const TENANT: Tenant = Tenant::ANONYMOUS;
static NONE: LazyLock<SourceSet> = LazyLock::new(SourceSet::default);

fn at(branch: u32) -> Position {
    Position { block: 1, branch }
}

fn called() -> Called {
    Called {
        tool: "a-b".into(),
        arguments: "{}".into(),
        definition: "d".into(),
        is_repeatable: false,
        sources: None,
    }
}

/// A run that begins, and the directory of its database.
fn begun() -> (TempDir, Runs, Arc<Journal>) {
    begun_at(&Arc::new(AtomicU64::new(1_000)))
}

/// As [`begun`], with a clock that shows so many seconds since 1970.
fn begun_at(seconds: &Arc<AtomicU64>) -> (TempDir, Runs, Arc<Journal>) {
    let directory = TempDir::new().expect("a directory");
    let bounds = RunBounds {
        expire_after: Duration::from_mins(10),
        owner_runs: 10,
        owner_bytes: 1 << 26,
        total_bytes: 1 << 26,
        lease: Duration::from_mins(10),
        approval: Duration::from_mins(10),
    };
    let settings = RunSettings {
        journal: true,
        bounds,
        cpu_time: Duration::from_secs(1),
        approves_whole_scripts: false,
        clock: false,
    };
    let mut store = airlock_store::Settings::new(directory.path().join("airlock.db"));
    let seconds = seconds.clone();
    store.clock = Arc::new(move || {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.load(Ordering::Relaxed))
    });
    let runs = Runs::new(settings, store.into());
    let new = NewRun {
        language: "starlark".to_owned(),
        script: "s".to_owned(),
        tools: airlock_store::runs::ScriptTools::new(|| ("[]".to_owned(), [0; 32])),
        clock_ms: None,
        trace: None,
        sources: None,
    };
    let journal = Journal::begin(&runs, &TENANT, new);
    (directory, runs, journal)
}

#[tokio::test]
async fn calls_at_the_same_time_are_all_refused_once_a_step_of_one_is() {
    let (_directory, runs, journal) = begun();
    journal.intend(at(1), called()).await.expect("it is stored");
    runs.own(&TENANT).cancel(journal.id().expect("it is stored")).await.expect("requested");
    // The first stores its step alone; the steps of the others wait, and are refused together.
    let intents = (2..6).map(|branch| journal.intend(at(branch), called()));
    for (n, intended) in futures_util::future::join_all(intents).await.into_iter().enumerate() {
        assert!(intended.is_err(), "call {n} may be sent");
    }
    assert!(journal.intend(at(7), called()).await.is_err());
    let stored =
        runs.own(&TENANT).get(journal.id().expect("it is stored")).await.expect("it is there");
    assert_eq!(stored.calls.iter().map(|call| call.position).collect::<Vec<_>>(), [at(1)]);
}

#[tokio::test]
async fn an_answer_is_stored_also_after_the_run_was_cancelled() {
    let (_directory, runs, journal) = begun();
    let attempt = journal.intend(at(1), called()).await.expect("it is stored");
    runs.own(&TENANT).cancel(journal.id().expect("it is stored")).await.expect("requested");
    journal
        .answer(at(1), attempt, &CallAnswer::Text("done".to_owned()), &NONE)
        .await
        .expect("it is a fact");
    assert!(journal.intend(at(2), called()).await.is_err(), "the script must stop");
    let stored =
        runs.own(&TENANT).get(journal.id().expect("it is stored")).await.expect("it is there");
    assert_eq!(stored.calls[0].call.stage, Stage::Answered);
}

#[tokio::test]
async fn a_suspended_run_is_not_ended_by_a_journal_that_is_dropped() {
    let (_directory, runs, journal) = begun();
    let id = journal.id().expect("it is stored").to_owned();
    let stop = journal.suspend(vec![(at(1), called())], &[]).await;
    assert!(stop.suspension().is_some(), "{stop:?}");
    let other = journal.suspend(vec![(at(2), called())], &[]).await;
    assert_eq!(other.code(), HostCode::Cancelled, "one question for the block");
    drop(journal);
    let stored = runs.own(&TENANT).get(&id).await.expect("it is there");
    assert_eq!(stored.lease.phase, Phase::Suspended);
}

fn made(tool: &str, arguments: &str) -> ScriptCall {
    ScriptCall { tool: tool.to_owned(), arguments: arguments.to_owned() }
}

/// Suspends a run at these calls, approves them, and takes the run over.
async fn approved(runs: &Runs, journal: Arc<Journal>, calls: &[Position]) -> Arc<Journal> {
    let id = journal.id().expect("it is stored").to_owned();
    let waiting = calls.iter().map(|position| (*position, called())).collect();
    let stop = journal.suspend(waiting, &[]).await;
    assert!(stop.suspension().is_some(), "{stop:?}");
    drop(journal);
    let mut decisions = crate::runs::Decisions::default();
    for position in calls {
        decisions = decisions.approve(*position);
    }
    runs.own(&TENANT).decide(&id, decisions, &Actor::Gateway).await.expect("it is suspended");
    Journal::claim(runs, &TENANT, &id).await.expect("it is suspended").0
}

#[tokio::test]
async fn the_calls_of_a_source_are_checked_only_when_its_run_begins() {
    let (_directory, runs, journal) = begun();
    assert_eq!(journal.known_wrong(), None);
    let journal = approved(&runs, journal, &[at(1)]).await;
    assert_eq!(journal.known_wrong(), Some(&[][..]));
}

#[tokio::test]
async fn calls_whose_approvals_expire_before_their_intents_are_stored_wait_again() {
    let seconds = Arc::new(AtomicU64::new(1_000));
    let (_directory, runs, journal) = begun_at(&seconds);
    let journal = approved(&runs, journal, &[at(1), at(2)]).await;
    for position in [at(1), at(2)] {
        let found = journal.find(position, &made("a-b", "{}"));
        assert!(matches!(found, Ok(JournalRecord::Approved(_))), "they were decided in time");
    }
    seconds.store(1_000 + 601, Ordering::Relaxed);
    let both = [at(1), at(2)].map(|position| journal.intend(position, called()));
    let ends = futures_util::future::join_all(both).await;
    let shown: Vec<_> = ends
        .iter()
        .filter_map(|end| {
            let error = end.as_ref().expect_err("it stops");
            let suspension = error.suspension();
            assert!(suspension.is_some() || error.code() == HostCode::Cancelled, "{error:?}");
            suspension.map(|suspension| suspension.pending.len())
        })
        .collect();
    assert_eq!(shown.len(), 1, "one question for the block");
    assert!(shown[0] > 0, "it shows a call");
    let stored = runs.own(&TENANT).get(journal.id().expect("stored")).await.expect("it is there");
    assert_eq!(stored.lease.phase, Phase::Suspended);
    let mut stages = stored.calls.iter().map(|call| call.call.stage);
    let was_sent = stages.any(|stage| matches!(stage, Stage::Sent { .. } | Stage::InDoubt { .. }));
    assert!(!was_sent, "{stored:?}");
}

#[tokio::test]
async fn a_denied_call_has_the_reason_of_its_denial_and_was_not_sent() {
    for (reason, end) in [(Some("too much"), "made: too much"), (None, "made")] {
        let (_directory, runs, journal) = begun();
        let id = journal.id().expect("it is stored").to_owned();
        let stop = journal.suspend(vec![(at(1), called())], &[]).await;
        assert!(stop.suspension().is_some(), "{stop:?}");
        drop(journal);
        let denial = crate::runs::Decisions::default().deny(at(1), reason);
        assert_eq!(denial.reason(), reason);
        runs.own(&TENANT).decide(&id, denial, &Actor::Gateway).await.expect("it is suspended");
        let journal = Journal::claim(&runs, &TENANT, &id).await.expect("it is suspended").0;
        let found = journal.find(at(1), &made("a-b", "{}"));
        let Ok(JournalRecord::Answered(CallAnswer::Error(failure), _)) = found else {
            panic!("it is denied");
        };
        assert!(failure.message().ends_with(end), "{}", failure.message());
        let stored = runs.own(&TENANT).get(&id).await.expect("it is there");
        assert_eq!(JournalState::from(stored.calls).failed().count(), 0);
    }
}

#[tokio::test]
async fn steps_are_stored_although_the_call_is_dropped() {
    let (_directory, runs, journal) = begun();
    let id = journal.id().expect("it is stored").to_owned();
    {
        let mut intended = std::pin::pin!(journal.intend(at(1), called()));
        assert!(poll!(&mut intended).is_pending());
    }
    journal.end(|| RunOutcome::without_result(RunEnding::Cancelled)).await;
    let stored = runs.own(&TENANT).get(&id).await.expect("the beginning of the run is stored");
    assert_eq!(stored.lease.phase, Phase::Ended);
    assert_eq!(stored.calls[0].call.stage, Stage::Sent { attempt: 1 });
}

#[tokio::test]
async fn a_run_is_put_back_only_if_it_was_resumed() {
    let (_directory, runs, journal) = begun();
    assert!(!journal.put_back().await, "a new run has nothing to go back to");
    let journal = approved(&runs, journal, &[at(1)]).await;
    assert!(journal.put_back().await);
    let stored = runs.own(&TENANT).get(journal.id().expect("stored")).await.expect("it is there");
    assert_eq!(stored.lease.phase, Phase::Suspended);
    assert!(matches!(stored.calls[0].call.stage, Stage::Approved { .. }), "{stored:?}");
}

#[tokio::test]
async fn a_run_without_room_for_answers_makes_no_call_that_is_not_repeatable() {
    const MIB: usize = 1 << 20;
    let (_directory, _runs, journal) = begun();
    let answer = CallAnswer::Text("x".repeat(MIB - 11));
    assert_eq!(answer.to_stored().len(), MIB);
    let repeatable = Called { is_repeatable: true, ..called() };
    for branch in 1..=15 {
        let attempt = journal.intend(at(branch), called()).await.expect("there is room");
        journal.answer(at(branch), attempt, &answer, &NONE).await.expect("it is stored");
    }
    // Of a repeatable call the answer is left out, so that it never takes the room of others.
    let large = CallAnswer::Text("x".repeat(2 * MIB));
    journal.record(at(16), repeatable.clone(), &large, &NONE).await.expect("it is kept");
    let attempt = journal.intend(at(17), called()).await.expect("there is room");
    journal.answer(at(17), attempt, &answer, &NONE).await.expect("it is stored");
    let full = journal.intend(at(18), called()).await;
    let error = own(full);
    assert_eq!(error.code.as_deref(), Some("journal_full"));
    assert!(error.message.contains("16 MiB of answers"), "{}", error.message);
    assert_eq!((journal.completed().len(), journal.failed().len()), (17, 0));
}

#[tokio::test]
async fn arguments_beyond_the_room_of_a_run_are_refused_before_the_call() {
    let (_directory, _runs, journal) = begun();
    let large: Arc<str> = "x".repeat((16 << 20) - 2).into();
    let repeatable = Called { arguments: large, is_repeatable: true, ..called() };
    journal
        .record(at(1), repeatable, &CallAnswer::Text(String::new()), &NONE)
        .await
        .expect("it is stored");
    assert!(matches!(journal.find(at(2), &made("a-b", "{}")), Ok(JournalRecord::New)));
    let error = own(journal.find(at(2), &made("a-b", "{ }")));
    assert_eq!(error.code.as_deref(), Some("journal_full"));
}

#[tokio::test]
async fn an_answer_that_was_not_kept_is_asked_for_again_and_cannot_be_replayed() {
    let (_directory, runs, journal) = begun();
    let repeatable = Called { is_repeatable: true, ..called() };
    let large = CallAnswer::Text("x".repeat(17 << 20));
    journal.record(at(1), repeatable, &large, &NONE).await.expect("it is kept");
    journal.suspend(vec![(at(2), called())], &[]).await;
    let id = journal.id().expect("it is stored");
    let (resumed, _) = Journal::claim(&runs, &TENANT, id).await.expect("it is suspended");
    assert!(matches!(resumed.find(at(1), &made("a-b", "{}")), Ok(JournalRecord::Again)));
    let stored = runs.own(&TENANT).get(id).await.expect("it is there");
    let error = own(Journal::replay(&stored).find(at(1), &made("a-b", "{}")));
    assert_eq!(error.code.as_deref(), Some("answer_not_stored"));
}

#[tokio::test]
async fn a_run_whose_suspension_is_refused_ends_although_the_script_is_dropped() {
    let (_directory, runs, journal) = begun();
    let id = journal.id().expect("it is stored").to_owned();
    journal.intend(at(1), called()).await.expect("it is stored");
    runs.own(&TENANT).cancel(&id).await.expect("requested");
    {
        let mut suspended = std::pin::pin!(journal.suspend(vec![(at(2), called())], &[]));
        assert!(poll!(&mut suspended).is_pending());
    }
    journal.end(|| RunOutcome::without_result(RunEnding::Cancelled)).await;
    let stored = runs.own(&TENANT).get(&id).await.expect("it is there");
    assert_eq!(stored.lease.phase, Phase::Ended);
    assert!(stored.outcome.is_some());
}

#[tokio::test]
async fn a_run_that_is_suspended_is_not_ended_after_it() {
    let (_directory, runs, journal) = begun();
    {
        let mut suspended = std::pin::pin!(journal.suspend(vec![(at(1), called())], &[]));
        assert!(poll!(&mut suspended).is_pending());
    }
    journal.end(|| RunOutcome::without_result(RunEnding::Cancelled)).await;
    let stored = runs.own(&TENANT).get(journal.id().expect("stored")).await.expect("it is there");
    assert_eq!(stored.lease.phase, Phase::Suspended);
}

#[tokio::test]
async fn the_end_of_an_earlier_epoch_leaves_the_later_one_alone() {
    let (_directory, runs, journal) = begun();
    let id = journal.id().expect("it is stored").to_owned();
    journal.suspend(vec![(at(1), called())], &[]).await;
    let (resumed, _) = Journal::claim(&runs, &TENANT, &id).await.expect("it is suspended");
    drop(journal);
    runs.own(&TENANT).cancel(&id).await.expect("it is running");
    let held = resumed.hold().await;
    assert_eq!(held.code(), HostCode::Cancelled);
}

/// Returns the tool's own error of a step that failed.
#[track_caller]
fn own<T>(step: Result<T, CallError>) -> ToolError {
    step.err().expect("it fails").into_tool_error().expect("it is the tool's own")
}

#[tokio::test]
async fn a_call_that_is_refused_has_the_arguments_of_the_journal() {
    let (_directory, _runs, journal) = begun();
    journal.intend(at(1), called()).await.expect("it is stored");
    let made = ScriptCall { tool: "a-b".to_owned(), arguments: r#"{"x":1}"#.to_owned() };
    assert_eq!(journal.as_known(at(1), made.clone()).arguments, "{}");
    assert_eq!(journal.as_known(at(2), made.clone()), made);
    let other = ScriptCall { tool: "a-c".to_owned(), ..made };
    assert_eq!(journal.as_known(at(1), other.clone()), other);
}
