//! Tests of stored runs: who may change them, and what is atomic. What is shown and what is removed have
//! files of their own.

mod migration;
mod room;
mod show;

use std::{fmt::Debug, time::Duration};

use airlock_core::run::{Call, Called, Refused, Stage};

use super::*;
use crate::tests::home::{TestHome, on_both};

const ANN: OwnerId = [1; 32];
const BOB: OwnerId = [2; 32];
const BOUNDS: RunBounds = RunBounds {
    expire_after: Duration::from_hours(1),
    owner_runs: 3,
    owner_bytes: 1 << 20,
    total_bytes: 16 << 20,
    lease: Duration::from_secs(10),
    approval: Duration::from_mins(1),
};

/// Time at which the tests begin.
const BEGIN: Duration = Duration::from_secs(1_000_000);

async fn open(home: &TestHome, scope: OwnerId, bounds: RunBounds) -> Runs {
    home.open().await.runs(scope, bounds)
}

fn at(block: u32) -> Position {
    Position { block, branch: 0 }
}

fn called(arguments: &str) -> Called {
    Called {
        tool: "fs-write".into(),
        arguments: arguments.into(),
        definition: "d".into(),
        is_repeatable: false,
        written: None,
        sources: None,
        asked_by: None,
    }
}

fn begin(script: &str) -> RunStep {
    begin_with(script, "[]", 0)
}

/// Begins a run with these tools.
fn begin_with(script: &str, tools: &str, digest: u8) -> RunStep {
    let tools = tools.to_owned();
    RunStep::Begin(NewRun {
        language: "starlark".into(),
        script: script.into(),
        tools: ScriptTools::new(move || (tools, [digest; 32])),
        clock_ms: Some(7),
        trace: None,
        sources: None,
    })
}

fn refused<T: Debug>(result: Result<T, RunError>) -> Refused {
    match result {
        Err(RunError::Refused { refused, .. }) => refused,
        other => panic!("not refused: {other:?}"),
    }
}

fn stages(run: &StoredRun) -> Vec<Stage> {
    run.calls.iter().map(|stored| stored.call.stage).collect()
}

on_both! {
    a_run_waits_for_an_approval_and_goes_on_in_another_process,
    steps_are_made_all_or_none,
    a_run_can_be_taken_over_once_its_lease_has_expired,
    an_approval_expires_to_the_millisecond,
    a_run_of_another_owner_does_not_exist,
    a_cancelled_run_ends_now_or_when_its_process_takes_the_next_step,
    a_run_that_begins_and_ends_at_once_is_stored_as_one_that_does_so_in_steps,
    a_call_is_recorded_once_also_by_the_steps_that_begin_and_end_a_run,
    a_run_begins_once,
    an_answer_belongs_to_the_last_attempt_of_a_call_that_was_sent,
}

async fn a_run_waits_for_an_approval_and_goes_on_in_another_process(home: TestHome) {
    home.clock.set(BEGIN);
    let first = open(&home, ANN, BOUNDS).await;
    let steps = vec![
        begin("s"),
        RunStep::Record(at(1), called("1"), "\"a\"".into()),
        RunStep::Ask(at(2), called("2")),
        RunStep::Suspend,
    ];
    first.step("r", 1, steps).await.expect("stored");
    let second = open(&home, ANN, BOUNDS).await;
    let decided = second.decide("r", None, vec![(at(2), RunDecision::Approve)]).await;
    assert_eq!(decided.expect("it waits"), [called("2")]);
    let again = second.decide("r", None, vec![(at(2), RunDecision::Approve)]).await;
    again.expect("it is approved already");
    let other = second.decide("r", None, vec![(at(1), RunDecision::Approve)]).await;
    assert_eq!(refused(other), Refused::NotPending);
    let run = second.claim("r").await.expect("it is suspended");
    let epoch = run.lease.epoch;
    assert_ne!(epoch, 2, "it cannot be guessed");
    assert_eq!((run.script.as_str(), run.bindings.as_str()), ("s", "[]"));
    assert!(matches!(stages(&run)[..], [Stage::Answered, Stage::Approved { attempts: 0, .. }]));
    assert_eq!(run.calls[0].answer.as_deref(), Some("\"a\""));
    // The first process has lost the run.
    let late = first.step("r", 1, vec![RunStep::Intend(at(2), called("2"))]).await;
    assert_eq!(refused(late), Refused::Superseded);
    let steps = vec![RunStep::Intend(at(2), called("2"))];
    second.step("r", epoch, steps.clone()).await.expect("it is approved");
    assert_eq!(refused(second.step("r", epoch, steps).await), Refused::NotDue, "used once");
    let steps = vec![RunStep::Answer(at(2), 1, "\"b\"".into()), RunStep::End("{}".into())];
    second.step("r", epoch, steps).await.expect("stored");
    let run = first.get("r").await.expect("it is there");
    assert_eq!((run.outcome.as_deref(), stages(&run)), (Some("{}"), vec![Stage::Answered; 2]));
    assert!(matches!(
        second.claim("r").await,
        Err(RunError::Refused { refused: Refused::Ended, .. })
    ));
}

async fn steps_are_made_all_or_none(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    let steps =
        vec![begin("s"), RunStep::Ask(at(1), called("1")), RunStep::Intend(at(1), called("1"))];
    assert_eq!(refused(runs.step("r", 1, steps).await), Refused::NotDue);
    assert!(matches!(runs.get("r").await, Err(RunError::Unknown)));
    let steps = vec![
        begin("s"),
        RunStep::Ask(at(1), called("1")),
        RunStep::Ask(at(2), called("2")),
        RunStep::Suspend,
    ];
    runs.step("r", 1, steps).await.expect("stored");
    let decisions = vec![(at(1), RunDecision::Approve), (at(3), RunDecision::Approve)];
    assert!(
        matches!(runs.decide("r", None, decisions).await, Err(RunError::NoCall(position)) if position == at(3))
    );
    let pending = Stage::Pending { attempts: 0 };
    assert_eq!(stages(&runs.get("r").await.expect("it is there")), [pending, pending]);
}

async fn a_run_can_be_taken_over_once_its_lease_has_expired(home: TestHome) {
    home.clock.set(BEGIN);
    let first = open(&home, ANN, BOUNDS).await;
    let second = open(&home, ANN, BOUNDS).await;
    let steps = vec![begin("s"), intend(1), intend(2), intend(3)];
    first.step("r", 1, steps).await.expect("stored");
    home.clock.pass(Duration::from_secs(9));
    first.step("r", 1, vec![RunStep::Renew]).await.expect("it is its own");
    home.clock.pass(Duration::from_secs(9));
    assert_eq!(refused(second.claim("r").await.map(drop)), Refused::Running);
    let decided = second.decide("r", None, vec![(at(1), RunDecision::Retry)]).await;
    assert_eq!(refused(decided), Refused::Running);
    home.clock.pass(Duration::from_secs(1));
    assert!(second.get("r").await.expect("it is there").is_interrupted);
    let run = second.claim("r").await.expect("the lease has expired");
    assert_eq!(stages(&run), [Stage::InDoubt { attempt: 1 }; 3]);
    // The first process still learns the answer of what it has sent.
    let answer = vec![RunStep::Answer(at(1), 1, "1".into())];
    first.step("r", 1, answer).await.expect("an answer needs no lease");
    second.step("r", run.lease.epoch, vec![RunStep::Suspend]).await.expect("stored");
    let decisions = vec![(at(2), RunDecision::Skip("7".into())), (at(3), RunDecision::Retry)];
    second.decide("r", None, decisions).await.expect("both are in doubt");
    let run = second.get("r").await.expect("it is there");
    let answers: Vec<_> = run.calls.iter().map(|call| call.answer.as_deref()).collect();
    assert_eq!(answers, [Some("1"), Some("7"), None]);
    let stages = stages(&run);
    assert!(matches!(stages[2], Stage::Retried { attempts: 1, .. }), "{stages:?}");
}

fn intend(n: u32) -> RunStep {
    RunStep::Intend(at(n), called(&n.to_string()))
}

async fn an_approval_expires_to_the_millisecond(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    let steps = vec![begin("s"), RunStep::Ask(at(1), called("1")), RunStep::Suspend];
    runs.step("r", 1, steps).await.expect("stored");
    runs.decide("r", None, vec![(at(1), RunDecision::Approve)]).await.expect("it waits");
    home.clock.pass(BOUNDS.approval);
    let epoch = claimed_epoch(&runs).await;
    let late = runs.step("r", epoch, vec![RunStep::Intend(at(1), called("1"))]).await;
    assert_eq!(refused(late), Refused::Expired);
    let again = vec![RunStep::Ask(at(1), called("1")), RunStep::Suspend];
    runs.step("r", epoch, again).await.expect("stored");
    runs.decide("r", None, vec![(at(1), RunDecision::Approve)]).await.expect("it waits again");
    home.clock.pass(Duration::from_secs(59));
    let intend = vec![RunStep::Intend(at(1), called("1"))];
    runs.step("r", claimed_epoch(&runs).await, intend).await.expect("a second is left");
}

async fn claimed_epoch(runs: &Runs) -> i64 {
    runs.claim("r").await.expect("it is suspended").lease.epoch
}

async fn a_run_of_another_owner_does_not_exist(home: TestHome) {
    home.clock.set(BEGIN);
    let ann = open(&home, ANN, BOUNDS).await;
    let bob = open(&home, BOB, BOUNDS).await;
    let steps = vec![begin("s"), RunStep::Ask(at(1), called("1")), RunStep::Suspend];
    ann.step("r", 1, steps).await.expect("stored");
    assert_unknown(&bob.get("r").await.expect_err("refused"));
    assert_unknown(&bob.claim("r").await.expect_err("refused"));
    assert_unknown(&bob.cancel("r", "{}").await.expect_err("refused"));
    assert_unknown(
        &bob.decide("r", None, vec![(at(1), RunDecision::Approve)]).await.expect_err("refused"),
    );
    assert_unknown(&bob.step("r", 1, vec![RunStep::Renew]).await.expect_err("refused"));
    assert!(bob.list(10).await.expect("read").is_empty());
    assert_eq!(ann.list(10).await.expect("read").len(), 1);
}

fn assert_unknown(error: &RunError) {
    assert!(matches!(error, RunError::Unknown), "{error:?}");
}

async fn a_cancelled_run_ends_now_or_when_its_process_takes_the_next_step(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    runs.step("a", 1, vec![begin("s"), RunStep::Suspend]).await.expect("stored");
    assert_eq!(runs.cancel("a", "{}").await.expect("it waits"), Cancelled::Ended);
    assert_eq!(refused(runs.cancel("a", "{}").await.map(drop)), Refused::Ended);
    runs.step("b", 1, vec![begin("s"), RunStep::Intend(at(1), called("1"))]).await.expect("stored");
    assert_eq!(runs.cancel("b", "{}").await.expect("it runs"), Cancelled::Requested);
    assert_eq!(refused(runs.step("b", 1, vec![RunStep::Renew]).await), Refused::Cancelled);
    let intended = runs.step("b", 1, vec![RunStep::Intend(at(2), called("2"))]).await;
    assert_eq!(refused(intended), Refused::Cancelled);
    runs.step("b", 1, vec![RunStep::End("{}".into())]).await.expect("its process may end it");
}

async fn a_run_that_begins_and_ends_at_once_is_stored_as_one_that_does_so_in_steps(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    runs.step("a", 1, vec![begin("s"), record(1), record(2), end()]).await.expect("stored");
    runs.step("b", 1, vec![begin("s"), record(1)]).await.expect("stored");
    runs.step("b", 1, vec![record(2), end()]).await.expect("stored");
    let once = runs.get("a").await.expect("read");
    let stepwise = runs.get("b").await.expect("read");
    // The tools are counted for the first of the runs that have them.
    let expected = StoredRun { id: "b".into(), bytes: once.bytes - 2, ..once };
    assert_eq!(stepwise, expected);
    assert_eq!(refused(runs.step("a", 1, vec![RunStep::Renew]).await), Refused::Ended);
}

fn record(n: u32) -> RunStep {
    RunStep::Record(at(n), called("1"), "\"a\"".into())
}

fn end() -> RunStep {
    RunStep::End("{\"status\":\"completed\"}".into())
}

async fn a_call_is_recorded_once_also_by_the_steps_that_begin_and_end_a_run(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    for (again, expected) in [("1", Refused::Stale), ("2", Refused::Diverged)] {
        let steps = vec![begin("s"), record_of("1"), record_of(again), RunStep::End("{}".into())];
        assert_eq!(refused(runs.step("r", 1, steps).await), expected);
        assert!(matches!(runs.get("r").await, Err(RunError::Unknown)));
    }
    let late = vec![begin("s"), record_of("1"), RunStep::End("{}".into())];
    assert_eq!(refused(runs.step("r", 2, late).await), Refused::Superseded);
}

fn record_of(arguments: &str) -> RunStep {
    RunStep::Record(at(1), called(arguments), "1".into())
}

async fn a_run_begins_once(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    assert_eq!(refused(runs.step("r", 1, vec![begin("s"), begin("t")]).await), Refused::Running);
    assert!(matches!(runs.get("r").await, Err(RunError::Unknown)));
    runs.step("r", 1, vec![begin("s")]).await.expect("stored");
    assert_eq!(
        refused(runs.step("r", 1, vec![RunStep::Renew, begin("t")]).await),
        Refused::Running
    );
    assert!(matches!(
        runs.step("q", 1, vec![RunStep::Renew, begin("t")]).await,
        Err(RunError::Unknown)
    ));
}

async fn an_answer_belongs_to_the_last_attempt_of_a_call_that_was_sent(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    let steps =
        vec![begin("s"), RunStep::Intend(at(1), called("1")), RunStep::Ask(at(2), called("2"))];
    runs.step("r", 1, steps).await.expect("stored");
    assert_eq!(refused(runs.step("r", 1, answer(1, 2)).await), Refused::Stale);
    assert_eq!(refused(runs.step("r", 1, answer(2, 0)).await), Refused::Stale);
    let missing = runs.step("r", 1, answer(3, 1)).await;
    assert!(matches!(missing, Err(RunError::NoCall(position)) if position == at(3)));
    runs.step("r", 1, answer(1, 1)).await.expect("stored");
    assert_eq!(refused(runs.step("r", 1, answer(1, 1)).await), Refused::Stale);
    let run = runs.get("r").await.expect("read");
    assert_eq!(run.calls[0].answer.as_deref(), Some("\"é\""));
    assert_eq!(stages(&run), [Stage::Answered, Stage::Pending { attempts: 0 }]);
}

fn answer(n: u32, attempt: u32) -> Vec<RunStep> {
    vec![RunStep::Answer(at(n), attempt, "\"é\"".into())]
}
