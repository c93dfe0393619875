use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use futures_util::{future::BoxFuture, poll};
use tempfile::TempDir;

use super::*;
use crate::runs::{
    CarriedDecision, Decisions, EXECUTE, RunSettings, ScriptApproval, manifest::MANIFEST_POSITION,
};
use airlock_core::{
    act::{Act, ActRecord, Actor, Acts},
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
        written: None,
        sources: None,
        asked_by: None,
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
        approval: ScriptApproval::Calls,
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
    let mut decisions = Decisions::default();
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
        let denial = Decisions::default().deny(at(1), reason);
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
async fn a_replay_looks_for_the_sources_of_arguments_if_the_run_did() {
    for follows_values in [false, true] {
        let (_directory, runs, journal) = begun();
        assert_eq!(journal.followed_values(), None, "the rules of now decide");
        let ended = RunOutcome::without_result(RunEnding::Completed);
        journal.end(|| RunOutcome { follows_values, ..ended }).await;
        let id = journal.id().expect("it is stored");
        let stored = runs.own(&TENANT).get(id).await.expect("it is there");
        assert_eq!(Journal::replay(&stored).followed_values(), Some(follows_values));
    }
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
async fn a_call_is_known_by_the_arguments_that_its_script_writes() {
    let (_directory, runs, journal) = begun();
    let written = r#"{"x":1}"#;
    let rewritten = Called { is_repeatable: true, ..called() }.written_as(written);
    let answer = CallAnswer::Text("a".to_owned());
    journal.record(at(1), rewritten.clone(), &answer, &NONE).await.expect("it is kept");
    journal.suspend(vec![(at(2), rewritten.clone())], &[]).await;
    let id = journal.id().expect("it is stored");
    let stored = runs.own(&TENANT).get(id).await.expect("it is there");
    for (tool, arguments, is_same) in
        [("a-b", written, true), ("a-b", "{}", false), ("a-c", written, false)]
    {
        let replay = Journal::replay(&stored);
        let found = replay.find(at(1), &made(tool, arguments));
        if is_same {
            assert!(matches!(found, Ok(JournalRecord::Answered(..))), "{tool} {arguments}");
        } else {
            assert_eq!(own(found).code.as_deref(), Some("run_diverged"), "{tool} {arguments}");
        }
    }
    let (resumed, _) = Journal::claim(&runs, &TENANT, id).await.expect("it is suspended");
    let found = resumed.find(at(2), &made("a-b", written));
    assert!(matches!(found, Ok(JournalRecord::Pending(called)) if called == rewritten));
    // The guards leave other arguments now: these wait for the approval.
    let changed = Called { arguments: "[]".into(), ..rewritten };
    resumed.suspend(vec![(at(2), changed.clone())], &[]).await;
    let stored = runs.own(&TENANT).get(id).await.expect("it is there");
    assert_eq!(stored.calls[1].call.called, changed);
}

/// Suspends a run that begins at its manifest, and approves it. Returns the identifier of the run.
async fn approved_at_once(runs: &Runs, journal: Arc<Journal>) -> String {
    let id = journal.id().expect("it is stored").to_owned();
    let arguments: Arc<str> = r#"{"calls":[]}"#.into();
    let manifest = Called { tool: EXECUTE.into(), arguments, is_repeatable: true, ..called() };
    let stop = journal.ask_manifest(manifest).await;
    assert!(stop.suspension().is_some(), "{stop:?}");
    drop(journal);
    let decisions = Decisions::default().approve(MANIFEST_POSITION);
    runs.own(&TENANT).decide(&id, decisions, &Actor::Gateway).await.expect("it is suspended");
    id
}

#[tokio::test]
async fn the_approval_of_a_manifest_expires_also_after_the_first_call() {
    let seconds = Arc::new(AtomicU64::new(1_000));
    let (_directory, runs, journal) = begun_at(&seconds);
    let id = approved_at_once(&runs, journal).await;
    let (journal, _) = Journal::claim(&runs, &TENANT, &id).await.expect("it is suspended");
    let approved = journal.approved_manifest().await.expect("it is approved");
    assert!(approved.is_some_and(|approved| !approved.is_expired));
    seconds.store(1_300, Ordering::Relaxed);
    let call = Position { block: 2, branch: 0 };
    let stop = journal.suspend(vec![(call, called())], &[]).await;
    assert!(stop.suspension().is_some(), "{stop:?}");
    drop(journal);
    for (now, is_expired) in [(1_599, false), (1_600, true)] {
        seconds.store(now, Ordering::Relaxed);
        let (resumed, _) = Journal::claim(&runs, &TENANT, &id).await.expect("it is suspended");
        let approved = resumed.approved_manifest().await.expect("it was approved");
        assert_eq!(approved.map(|approved| approved.is_expired), Some(is_expired), "{now}");
        assert!(resumed.put_back().await);
    }
}

#[tokio::test]
async fn a_manifest_whose_approval_was_used_without_an_answer_waits_again() {
    let (_directory, runs, journal) = begun();
    let id = approved_at_once(&runs, journal).await;
    let (journal, _) = Journal::claim(&runs, &TENANT, &id).await.expect("it is suspended");
    let manifest = journal.shared.lock().state.manifest().expect("it has one").called;
    journal.intend(MANIFEST_POSITION, manifest).await.expect("it is approved");
    assert!(journal.put_back().await, "the process has ended");
    let (resumed, _) = Journal::claim(&runs, &TENANT, &id).await.expect("it is suspended");
    let stop = resumed.approved_manifest().await.expect_err("it waits");
    assert_eq!(stop.suspension().map(|suspension| suspension.pending.len()), Some(1));
}

/// Acts that were recorded, as lines.
#[derive(Default)]
struct ActLines(Mutex<Vec<String>>);

impl ActRecord for ActLines {
    fn record(&self, act: Act) {
        let details = act.details.iter().map(|(name, value)| format!(" {name}={value}"));
        let details: String = details.collect();
        let line = format!("{} by {}:{details}", act.kind.name(), act.actor);
        self.0.lock().push(line.replace(&act.object, "RUN"));
    }

    fn record_before(&self, act: Act) -> BoxFuture<'_, bool> {
        self.record(act);
        Box::pin(async { true })
    }
}

#[tokio::test]
async fn each_approval_and_denial_is_recorded_with_its_party_and_the_digest_of_a_manifest() {
    let (_directory, runs, journal) = begun();
    let lines = Arc::new(ActLines::default());
    let runs = runs.with_acts(Acts::new(lines.clone()));
    let id = journal.id().expect("it is stored").to_owned();
    let manifest = Called { tool: EXECUTE.into(), definition: "sha256:0a".into(), ..called() };
    let waiting = vec![(at(1), called()), (at(2), manifest), (at(3), called())];
    assert!(journal.suspend(waiting, &[]).await.suspension().is_some());
    drop(journal);
    let own = runs.own(&TENANT);
    let decisions = Decisions::default().deny(at(1), Some("too\nmuch")).approve(at(2));
    let unknown = Decisions::default().approve(at(2)).approve(at(9));
    let ann = Actor::Operator("ann".to_owned());
    assert!(own.decide(&id, unknown, &ann).await.is_err(), "all of them or none");
    own.decide(&id, decisions, &ann).await.expect("it is suspended");
    let epoch = own.head(&id).await.expect("it is there").lease.epoch;
    let user = CarriedDecision::OfUser { approves: false };
    let earlier = own.decide_pending(&id, epoch - 1, user, &Actor::Anonymous).await;
    assert!(earlier.is_err(), "that epoch was not shown");
    own.decide_pending(&id, epoch, user, &Actor::Anonymous).await.expect("it is suspended");
    assert_eq!(
        *lines.0.lock(),
        [
            "approval_denied by operator \"ann\": run=RUN position=1.1 tool=a-b reason=too\u{27e8}U+000A\u{27e9}much",
            "approval_granted by operator \"ann\": run=RUN position=1.2 tool=executeToolCode manifest=sha256:0a",
            "approval_denied by anonymous: run=RUN position=1.3 tool=a-b by=user",
        ]
    );
}

#[tokio::test]
async fn to_make_a_call_again_is_recorded_as_an_approval() {
    let (_directory, runs, journal) = begun();
    let lines = Arc::new(ActLines::default());
    let runs = runs.with_acts(Acts::new(lines.clone()));
    let id = journal.id().expect("it is stored").to_owned();
    for position in [at(1), at(2), at(3)] {
        journal.intend(position, called()).await.expect("it is stored");
    }
    assert!(journal.suspend(Vec::new(), &[at(1), at(2), at(3)]).await.suspension().is_some());
    drop(journal);
    let decisions = Decisions::default().retry(at(1)).retry_approved(at(2)).skip(at(3), 7.into());
    let decisions = decisions.expect("a short value");
    let decided = runs.own(&TENANT).decide(&id, decisions, &Actor::Gateway).await;
    decided.expect("they are in doubt");
    assert_eq!(
        *lines.0.lock(),
        [
            "approval_granted by gateway: run=RUN position=1.1 tool=a-b decision=retry",
            "approval_granted by gateway: run=RUN position=1.2 tool=a-b decision=retry_approved",
        ]
    );
}
