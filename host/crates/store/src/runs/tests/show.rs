//! Reading a run to show it.

use super::*;
use crate::runs::{pending::COUNT, show::MAX_SHOWN};
use airlock_database::sql::params;

const MAX: usize = MAX_SHOWN as usize;

on_both! {
    the_head_of_a_run_has_its_script_and_its_state,
    answers_are_shown_up_to_a_size_and_of_longer_ones_the_start,
    a_run_is_admitted_by_the_size_of_what_is_shown_before_it_is_read,
    arguments_of_calls_to_decide_about_are_whole_and_others_are_cut,
    a_run_and_its_calls_keep_the_sources_that_were_read_before,
    a_call_that_is_asked_about_again_has_what_guards_leave_of_it_now,
    calls_that_wait_are_listed_in_turns_of_their_owners,
}

#[tokio::test]
async fn calls_that_wait_are_counted_by_an_index() {
    let home = TestHome::sqlite();
    let database = home.open().await;
    let planned = database.read(|sql| {
        // The fourth column is the text of a step.
        sql.all(&format!("EXPLAIN QUERY PLAN {COUNT}"), params![], |row| row.get::<String>(3))
    });
    let plan = planned.await.expect("planned").join("; ");
    assert!(plan.contains("INDEX run_call_pending"), "{plan}");
}

async fn calls_that_wait_are_listed_in_turns_of_their_owners(home: TestHome) {
    home.clock.set(BEGIN);
    let ann = open(&home, ANN, BOUNDS).await;
    let bob = open(&home, BOB, BOUNDS).await;
    for (runs, id, calls) in [(&ann, "a1", 2), (&ann, "a2", 1), (&bob, "b1", 2)] {
        let asked = (1..=calls).map(|n| RunStep::Ask(at(n), called("1")));
        let steps = [begin("s")].into_iter().chain(asked).chain([RunStep::Suspend]).collect();
        runs.step(id, 1, steps).await.expect("stored");
    }
    let all = ["a1 1", "b1 1", "a1 2", "b1 2", "a2 1"];
    let (listed, has_more) = waiting(&ann, 9, 0).await;
    assert_eq!(listed, all);
    assert!(!has_more);
    for (offset, expected, goes_on) in
        [(0, &all[..2], true), (2, &all[2..4], true), (4, &all[4..], false), (5, &all[5..], false)]
    {
        let (listed, has_more) = waiting(&ann, 2, offset).await;
        assert_eq!(listed, expected, "{offset}");
        assert_eq!(has_more, goes_on, "{offset}");
    }
    let (listed, has_more) = waiting(&ann, 0, 0).await;
    assert!(listed.is_empty() && has_more);
}

/// Returns the runs and the blocks of the calls of all owners that wait, and whether the list goes on.
async fn waiting(runs: &Runs, limit: u32, offset: u32) -> (Vec<String>, bool) {
    let (calls, has_more) = runs.database.pending_run_calls(limit, offset).await.expect("read");
    let names = calls.iter().map(|call| format!("{} {}", call.run, call.position));
    (names.collect(), has_more)
}

/// Returns a call of a script that has read these sources.
fn read_from(sources: &str) -> Called {
    Called { sources: Some(sources.into()), ..called("1") }
}

async fn a_run_and_its_calls_keep_the_sources_that_were_read_before(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    let RunStep::Begin(new) = begin("s") else { panic!("it begins") };
    let begin = RunStep::Begin(NewRun { sources: Some(r#"["web"]"#.into()), ..new });
    let steps = vec![begin, RunStep::Ask(at(1), read_from(r#"["web"]"#)), RunStep::Suspend];
    runs.step("r", 1, steps).await.expect("stored");
    let pending = runs.database.pending_run_calls(10, 0).await.expect("read").0;
    assert_eq!(pending[0].sources.as_deref(), Some(r#"["web"]"#));
    let run = runs.claim("r").await.expect("it is suspended");
    assert_eq!(run.sources.as_deref(), Some(r#"["web"]"#));
    // It is asked about again, after more was read.
    let more = read_from(r#"["mail","web"]"#);
    let steps = vec![RunStep::Ask(at(1), more.clone()), RunStep::Suspend];
    runs.step("r", run.lease.epoch, steps).await.expect("stored");
    assert_eq!(runs.get("r").await.expect("read").calls[0].call.called, more);
    assert_eq!(runs.show("r").await.expect("read").calls[0].call.called, more);
}

async fn a_call_that_is_asked_about_again_has_what_guards_leave_of_it_now(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    let steps = vec![begin("s"), RunStep::Ask(at(1), called("1")), RunStep::Suspend];
    runs.step("r", 1, steps).await.expect("stored");
    let before = runs.get("r").await.expect("read").bytes;
    let run = runs.claim("r").await.expect("it is suspended");
    let asked_by = r#"[{"guard":"mail","reason":"to others"}]"#;
    let changed = Called { asked_by: Some(asked_by.into()), ..called("12345").written_as("1") };
    let steps = vec![RunStep::Ask(at(1), changed.clone()), RunStep::Suspend];
    runs.step("r", run.lease.epoch, steps).await.expect("it is the same call");
    let stored = runs.get("r").await.expect("read");
    assert_eq!(stored.calls[0].call.called, changed);
    assert_eq!(stored.bytes, before + 4 + asked_by.len() as u64);
    assert_eq!(runs.show("r").await.expect("read").calls[0].call.called, changed);
    let pending = runs.database.pending_run_calls(10, 0).await.expect("read").0;
    assert_eq!((&*pending[0].arguments, pending[0].asked_by.as_deref()), ("12345", Some(asked_by)));
}

async fn the_head_of_a_run_has_its_script_and_its_state(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    let steps = vec![begin("s"), RunStep::Ask(at(1), called("1")), RunStep::Suspend];
    runs.step("r", 1, steps).await.expect("stored");
    let head = runs.head("r").await.expect("read");
    let whole = runs.get("r").await.expect("read");
    assert_eq!((head.script.as_str(), head.pending, head.lease.epoch), ("s", 1, 1));
    assert_eq!(head, StoredRun { bindings: String::new(), calls: Vec::new(), ..whole });
    runs.cancel("r", "{}").await.expect("it is suspended");
    assert_eq!(runs.head("r").await.expect("read").outcome, None, "it may be large");
    let bob = open(&home, BOB, BOUNDS).await;
    assert!(matches!(bob.head("r").await, Err(RunError::Unknown)));
    assert!(matches!(bob.show("r").await, Err(RunError::Unknown)));
    assert!(bob.database.show_any_run("r").await.is_ok());
}

async fn answers_are_shown_up_to_a_size_and_of_longer_ones_the_start(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    let answers = ["7".to_owned(), "é".repeat(MAX / 2), "é".repeat(MAX / 2) + "x"];
    let records = answers.iter().zip(1..);
    let records =
        records.map(|(answer, n)| RunStep::Record(at(n), called("1"), answer.as_str().into()));
    let intent = [RunStep::Intend(at(4), called("1"))];
    let steps = [begin("s")].into_iter().chain(records).chain(intent).collect();
    runs.step("r", 1, steps).await.expect("stored");
    let answer = RunStep::Answer(at(4), 1, answers[2].as_str().into());
    let steps = vec![answer, RunStep::Intend(at(5), called("1")), RunStep::End("{}".into())];
    runs.step("r", 1, steps).await.expect("stored");
    let shown = runs.show("r").await.expect("read");
    let long = Some(ShownAnswer::Head { head: "é".repeat(16), bytes: MAX as u64 + 1 });
    let expected = [
        Some(ShownAnswer::Whole("7".into())),
        Some(ShownAnswer::Whole(answers[1].clone())),
        long.clone(),
        long,
        None,
    ];
    assert_eq!(shown.calls.iter().map(|call| call.answer.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(shown.run.outcome.as_deref(), Some("{}"));
    assert_eq!(shown.bytes(), 1 + 2 + 5 + 1 + MAX);
}

async fn a_run_is_admitted_by_the_size_of_what_is_shown_before_it_is_read(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    let long = "x".repeat(2 * MAX);
    let answer = "y".repeat(MAX + 1);
    let steps = vec![
        begin("s"),
        RunStep::Record(at(1), called(&long), "1".into()),
        RunStep::Record(at(2), called("1"), answer.as_str().into()),
        RunStep::Ask(at(3), called(&long)),
        RunStep::Suspend,
    ];
    runs.step("r", 1, steps).await.expect("stored");
    // Arguments that are cut, and an answer of one byte; arguments of one byte; whole arguments.
    let expected = (1 + (MAX + 1) + 1 + 2 * MAX + 3 * 1_024) as u64;
    let shown = runs.show_within("r", admit(expected)).await.expect("it is there");
    assert_eq!(shown.expect("it is admitted"), runs.show("r").await.expect("read"));
    let refused = runs.show_within("r", admit(expected - 1)).await.expect("it is there");
    assert_eq!(refused.expect_err("one byte too much"), expected);
    let bob = open(&home, BOB, BOUNDS).await;
    assert!(matches!(bob.show_within("r", admit(0)).await, Err(RunError::Unknown)));
}

fn admit(most: u64) -> impl Fn(u64) -> Result<(), u64> {
    move |bytes| if bytes <= most { Ok(()) } else { Err(bytes) }
}

async fn arguments_of_calls_to_decide_about_are_whole_and_others_are_cut(home: TestHome) {
    home.clock.set(BEGIN);
    let runs = open(&home, ANN, BOUNDS).await;
    let fit = "x".repeat(MAX);
    let long = "x".repeat(2 * MAX);
    let steps = vec![
        begin("s"),
        RunStep::Record(at(1), called(&fit), "1".into()),
        RunStep::Record(at(2), called(&long), "1".into()),
        RunStep::Intend(at(3), called(&long)),
        RunStep::Ask(at(4), called(&long)),
        RunStep::Suspend,
    ];
    runs.step("r", 1, steps).await.expect("stored");
    assert_eq!(lengths(&runs).await, [MAX, MAX + 1, 2 * MAX, 2 * MAX]);
    runs.decide("r", None, vec![(at(4), RunDecision::Deny(None))]).await.expect("it waits");
    runs.claim("r").await.expect("it is suspended");
    assert_eq!(
        lengths(&runs).await,
        [MAX, MAX + 1, 2 * MAX, MAX + 1],
        "one is in doubt, one denied"
    );
}

async fn lengths(runs: &Runs) -> Vec<usize> {
    let shown = runs.show("r").await.expect("read");
    shown.calls.iter().map(|shown| shown.call.called.arguments.len()).collect::<Vec<_>>()
}
