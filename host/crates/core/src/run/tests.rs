//! The steps of leases and calls, each at and beyond its edge.

use proptest::prelude::*;

use super::*;

const STAGES: [Stage; 7] = [
    Stage::Pending { attempts: 2 },
    Stage::Approved { attempts: 2, until_ms: 100 },
    Stage::Denied,
    Stage::Sent { attempt: 3 },
    Stage::InDoubt { attempt: 3 },
    Stage::Answered,
    Stage::Retried { attempts: 2, until_ms: 100 },
];

fn called(is_repeatable: bool) -> Called {
    let tool = "notes.add".into();
    let arguments = r#"{"n":1}"#.into();
    Called {
        tool,
        arguments,
        written: None,
        definition: "old".into(),
        is_repeatable,
        sources: None,
        asked_by: None,
    }
}

fn write() -> Called {
    called(false)
}

/// Returns the same call, of a tool whose definition has changed.
fn redefined(called: Called) -> Called {
    Called { definition: "new".into(), ..called }
}

/// Returns calls that are not the same.
fn others() -> [Called; 2] {
    [Called { tool: "notes.set".into(), ..write() }, Called { arguments: "{}".into(), ..write() }]
}

fn at(stage: Stage) -> Call {
    Call { called: write(), stage }
}

/// Takes a step at each of [`STAGES`].
fn stages(step: impl Fn(&Call) -> Result<Call, Refused>) -> [Result<Stage, Refused>; 7] {
    STAGES.map(|stage| step(&at(stage)).map(|call| call.stage))
}

fn refused<T>(result: Result<T, Refused>) -> Option<Refused> {
    result.err()
}

#[test]
fn a_position_has_one_spelling() {
    for text in ["1", "7", "7.1", "7.2", "10.10", "4294967295", "4294967295.4294967295"] {
        let position: Position = text.parse().expect("a position");
        assert_eq!(position.to_string(), text);
    }
    assert_eq!("7".parse(), Ok(Position { block: 7, branch: 0 }));
    assert_eq!("7.2".parse(), Ok(Position { block: 7, branch: 2 }));
    let wrong = [
        "",
        ".",
        "7.",
        ".2",
        "7.0",
        "0",
        "0.1",
        "07",
        "7.02",
        "+7",
        "-7",
        " 7",
        "7 ",
        "7.2.1",
        "7,2",
        "x",
        "7.x",
        "٧",
        "4294967296",
        "7.4294967296",
        "99999999999999999999999",
    ];
    for text in wrong {
        assert_eq!(text.parse::<Position>(), Err(BadPosition), "{text:?}");
    }
}

#[test]
fn positions_are_in_the_order_of_the_script() {
    let positions: Vec<Position> =
        ["1", "2", "2.1", "2.2", "2.10", "3.1", "10"].map(|text| text.parse().unwrap()).into();
    assert!(positions.is_sorted_by(|one, other| one < other));
}

proptest! {
    #[test]
    fn every_position_is_read_as_it_is_printed(block in 1..=u32::MAX, branch: u32) {
        let position = Position { block, branch };
        prop_assert_eq!(position.to_string().parse(), Ok(position));
    }

    #[test]
    fn a_text_that_is_a_position_is_printed_as_it_was(text in "[0-9.]{0,12}") {
        if let Ok(position) = text.parse::<Position>() {
            prop_assert_eq!(position.to_string(), text);
        }
    }
}

/// Returns a lease of epoch 1 until 110.
fn lease() -> Lease {
    let lease = Lease::begin(100, 10);
    assert_eq!((lease.epoch, lease.is_cancelled), (1, false));
    assert_eq!(lease.phase, Phase::Running { until_ms: 110 });
    lease
}

fn suspended() -> Lease {
    lease().suspend(1).expect("its process suspends it")
}

fn ended() -> Lease {
    lease().end(1).expect("its process ends it")
}

fn cancelled() -> Lease {
    let (lease, cancelled) = lease().cancel(109).expect("a run that runs can be cancelled");
    assert_eq!((cancelled, lease.is_cancelled), (Cancelled::Requested, true));
    assert_eq!(lease.phase, Phase::Running { until_ms: 110 });
    lease
}

#[test]
fn a_lease_ends_exactly_at_its_time() {
    assert_eq!(lease().is_idle(109), Err(Refused::Running));
    assert_eq!(lease().is_idle(110), Ok(()));
    assert!(!lease().is_interrupted(109));
    assert!(lease().is_interrupted(110));
    assert_eq!(refused(lease().claim(109, 10, 0)), Some(Refused::Running));
    let claimed = lease().claim(110, 10, 0).expect("the lease has expired");
    assert_eq!((claimed.epoch, claimed.phase), (2, Phase::Running { until_ms: 120 }));
}

#[test]
fn only_a_lease_that_runs_is_interrupted() {
    assert!(!suspended().is_interrupted(i64::MAX));
    assert!(!ended().is_interrupted(i64::MAX));
}

#[test]
fn a_suspended_run_is_claimed_at_once_and_one_that_has_ended_never() {
    assert_eq!(suspended().claim(0, 10, 0).map(|lease| lease.epoch), Ok(2));
    assert_eq!(suspended().claim(0, 10, 7).map(|lease| lease.epoch), Ok(9));
    let last = Lease { epoch: i64::MAX - 1, ..suspended() };
    assert_eq!(last.claim(0, 10, 0).map(|lease| lease.epoch), Ok(i64::MAX));
    assert_eq!(refused(last.claim(0, 10, 1)), Some(Refused::Ended));
    assert_eq!(refused(ended().claim(i64::MAX, 10, 0)), Some(Refused::Ended));
    assert_eq!(ended().is_idle(i64::MAX), Err(Refused::Ended));
}

#[test]
fn a_lease_beyond_the_end_of_time_ends_there() {
    let last = Lease::begin(i64::MAX - 5, 10);
    assert_eq!(last.phase, Phase::Running { until_ms: i64::MAX });
    assert_eq!(last.is_idle(i64::MAX - 1), Err(Refused::Running));
    assert_eq!(last.renew(1, i64::MAX, 10), Ok(last));
    assert_eq!(last.claim(i64::MAX, 10, 0).map(|lease| lease.phase), Ok(last.phase));
}

#[test]
fn a_step_needs_the_current_epoch_of_a_run_that_runs() {
    let claimed = lease().claim(110, 10, 0).expect("the lease has expired");
    for (lease, epoch, expected) in [
        (lease(), 1, None),
        (lease(), 0, Some(Refused::Superseded)),
        (lease(), 2, Some(Refused::Superseded)),
        (claimed, 1, Some(Refused::Superseded)),
        (claimed, 2, None),
        (suspended(), 1, Some(Refused::Superseded)),
        (ended(), 1, Some(Refused::Ended)),
        (ended(), 2, Some(Refused::Superseded)),
        (cancelled(), 1, Some(Refused::Cancelled)),
        (cancelled(), 2, Some(Refused::Superseded)),
    ] {
        assert_eq!(refused(lease.check(epoch)), expected, "{lease:?}, {epoch}");
        assert_eq!(refused(lease.renew(epoch, 120, 10)), expected, "{lease:?}, {epoch}");
        assert_eq!(refused(lease.suspend(epoch)), expected, "{lease:?}, {epoch}");
        // A process that is to stop stores what it knows, and ends the run.
        let expected = expected.filter(|refused| *refused != Refused::Cancelled);
        assert_eq!(refused(lease.check_held(epoch)), expected, "{lease:?}, {epoch}");
        assert_eq!(refused(lease.end(epoch)), expected, "{lease:?}, {epoch}");
    }
}

#[test]
fn a_change_extends_the_lease_of_its_process_alone() {
    assert_eq!(lease().touched(1, 105, 10).phase, Phase::Running { until_ms: 115 });
    for (lease, epoch) in [(lease(), 2), (cancelled(), 1), (suspended(), 1), (ended(), 1)] {
        assert_eq!(lease.touched(epoch, 105, 10), lease, "{lease:?}");
    }
}

#[test]
fn an_expired_lease_is_that_of_its_process_until_it_is_claimed() {
    let renewed = lease().renew(1, 500, 10).expect("no other process has the run");
    assert_eq!((renewed.epoch, renewed.phase), (1, Phase::Running { until_ms: 510 }));
    assert_eq!(lease().end(1).map(|lease| lease.phase), Ok(Phase::Ended));
}

#[test]
fn a_run_that_is_idle_is_cancelled_at_once() {
    for (lease, now_ms) in [(lease(), 110), (cancelled(), 110), (suspended(), 0)] {
        let (lease, cancelled) = lease.cancel(now_ms).expect("the run has not ended");
        assert_eq!((lease.phase, cancelled), (Phase::Ended, Cancelled::Ended));
    }
    // It is not resumed: its process has ended before it could end the run.
    assert_eq!(refused(cancelled().claim(110, 10, 0)), Some(Refused::Cancelled));
    assert_eq!(refused(cancelled().can_go_on(110)), Some(Refused::Cancelled));
    assert_eq!(cancelled().cancel(109), Ok((cancelled(), Cancelled::Requested)));
    assert_eq!(refused(ended().cancel(110)), Some(Refused::Ended));
}

#[test]
fn a_call_that_the_journal_does_not_have_is_asked_sent_or_recorded() {
    let asked = Stage::Pending { attempts: 0 };
    let sent = Stage::Sent { attempt: 1 };
    assert_eq!(made(Call::ask(None, write(), 0)), Ok((write(), asked)));
    assert_eq!(made(Call::intend(None, write(), 0)), Ok((write(), sent)));
    assert_eq!(made(Call::record(None, write())), Ok((write(), Stage::Answered)));
}

fn made(result: Result<Call, Refused>) -> Result<(Called, Stage), Refused> {
    result.map(|call| (call.called, call.stage))
}

#[test]
fn another_call_at_the_same_position_is_refused_at_every_stage() {
    for (stage, other) in STAGES.into_iter().flat_map(|stage| others().map(|other| (stage, other)))
    {
        let present = at(stage);
        assert!(!present.called.is_same_call(&other));
        let results = [
            Call::ask(Some(&present), other.clone(), 0),
            Call::intend(Some(&present), other.clone(), 0),
            Call::record(Some(&present), other),
        ];
        assert_eq!(results.map(refused), [Some(Refused::Diverged); 3], "{stage:?}");
    }
}

#[test]
fn a_call_is_asked_for_until_it_is_sent() {
    let pending = Ok(Stage::Pending { attempts: 2 });
    let not = Err(Refused::NotPending);
    // The attempt found that it needs an approval. Its number is not used again.
    let sent = Ok(Stage::Pending { attempts: 3 });
    assert_eq!(asked(write, 99), [pending, not, not, sent, not, not, not]);
    assert_eq!(asked(write, 100), [pending, pending, not, sent, not, not, pending], "expired");
    let void = [pending, pending, not, sent, not, not, pending];
    assert_eq!(asked(|| redefined(write()), 99), void, "redefined");
    let asked = Call::ask(Some(&at(STAGES[0])), redefined(write()), 0).expect("it is pending");
    assert_eq!(asked.called, redefined(write()), "the person approves the newer definition");
}

fn asked(called: fn() -> Called, now_ms: i64) -> [Result<Stage, Refused>; 7] {
    stages(move |present| Call::ask(Some(present), called(), now_ms))
}

#[test]
fn an_approval_is_used_until_it_expires() {
    let not = Err(Refused::NotDue);
    let sent = Ok(Stage::Sent { attempt: 3 });
    let expired = Err(Refused::Expired);
    let void = Err(Refused::Redefined);
    assert_eq!(intended(write, 99), [not, sent, not, not, not, not, sent]);
    assert_eq!(intended(write, 100), [not, expired, not, not, not, not, expired]);
    let redefined = intended(|| redefined(write()), 99);
    assert_eq!(redefined, [not, void, not, not, not, not, void]);
}

fn intended(called: fn() -> Called, now_ms: i64) -> [Result<Stage, Refused>; 7] {
    stages(move |present| Call::intend(Some(present), called(), now_ms))
}

#[test]
fn an_approval_is_used_once() {
    for stage in [STAGES[1], STAGES[6]] {
        let sent = Call::intend(Some(&at(stage)), write(), 0).expect("it is approved");
        assert_eq!(refused(Call::intend(Some(&sent), write(), 0)), Some(Refused::NotDue));
    }
}

#[test]
fn a_repeatable_call_without_an_answer_is_sent_again_with_a_new_number() {
    let present = Call { called: called(true), stage: Stage::Sent { attempt: 3 } };
    let again = Call::intend(Some(&present), redefined(called(true)), 0).expect("it is repeatable");
    assert_eq!(again.stage, Stage::Sent { attempt: 4 });
    assert_eq!(again.called, redefined(called(true)));
}

#[test]
fn an_answer_belongs_to_the_attempt_that_was_sent_last() {
    let yes = Ok(Stage::Answered);
    let stale = Err(Refused::Stale);
    assert_eq!(answered(3), [stale, stale, stale, yes, yes, stale, stale]);
    assert_eq!((answered(2), answered(4)), ([stale; 7], [stale; 7]));
}

fn answered(attempt: u32) -> [Result<Stage, Refused>; 7] {
    stages(move |present| present.answer(attempt))
}

#[test]
fn a_call_without_an_intent_is_recorded_once() {
    assert_eq!(stages(|present| Call::record(Some(present), write())), [Err(Refused::Stale); 7]);
}

#[test]
fn the_next_process_finds_calls_that_may_have_been_sent_in_doubt() {
    let mut expected = STAGES.map(Ok);
    assert_eq!(
        stages(|present| Ok(Call { called: called(true), ..present.clone() }.claimed())),
        expected
    );
    expected[3] = Ok(Stage::InDoubt { attempt: 3 });
    assert_eq!(stages(|present| Ok(present.claimed())), expected);
}

#[test]
fn a_person_decides_what_waits_for_a_decision() {
    let not_pending = Err(Refused::NotPending);
    let not_in_doubt = Err(Refused::NotInDoubt);
    let approved = Ok(Stage::Approved { attempts: 2, until_ms: 7 });
    let mut decided = [not_pending; 7];
    (decided[0], decided[1]) = (approved, approved);
    assert_eq!(stages(|present| present.approve(7)), decided);
    // A decision that was not used can be taken back.
    (decided[0], decided[1], decided[6]) =
        (Ok(Stage::Denied), Ok(Stage::Denied), Ok(Stage::Denied));
    assert_eq!(stages(Call::deny), decided);
    let mut in_doubt = [not_in_doubt; 7];
    in_doubt[4] = Ok(Stage::Retried { attempts: 3, until_ms: 7 });
    assert_eq!(stages(|present| present.retry(7)), in_doubt);
    in_doubt[4] = Ok(Stage::Approved { attempts: 3, until_ms: 7 });
    assert_eq!(stages(|present| present.retry_approved(7)), in_doubt);
    in_doubt[4] = Ok(Stage::Answered);
    assert_eq!(stages(Call::skip), in_doubt);
}

#[test]
fn an_approval_of_a_call_that_is_shown_otherwise_is_void() {
    let present = Call { called: write(), stage: Stage::Approved { attempts: 2, until_ms: 100 } };
    let asked_by = r#"[{"guard":"mail","reason":"to others"}]"#;
    for other in [
        Called { sources: Some(r#"["web"]"#.into()), ..write() },
        Called { asked_by: Some(asked_by.into()), ..write() },
        rewritten(r#"{"n":2}"#),
    ] {
        let asked = Call::ask(Some(&present), other.clone(), 0);
        assert_eq!(asked, Ok(Call { called: other, stage: Stage::Pending { attempts: 2 } }));
    }
    assert_eq!(Call::ask(Some(&present), write(), 0), Err(Refused::NotPending));
}

/// Returns the call with these arguments, which guards have left of what the script wrote.
fn rewritten(arguments: &str) -> Called {
    Called { arguments: arguments.into(), ..write() }.written_as(&write().arguments)
}

#[test]
fn a_call_is_the_same_if_the_script_writes_the_same_whatever_guards_leave_of_it() {
    let changed = rewritten(r#"{"n":2}"#);
    for (one, other, expected) in [
        (&write(), &changed, true),
        (&changed, &write(), true),
        (&changed, &rewritten("{}"), true),
        (&changed, &Called { written: None, ..changed.clone() }, false),
        (&changed, &changed.clone().written_as("{}"), false),
        (&changed, &Called { tool: "notes.set".into(), ..changed.clone() }, false),
    ] {
        assert_eq!(one.is_same_call(other), expected, "{one:?} {other:?}");
    }
    assert!(changed.is_made_by("notes.add", r#"{"n":1}"#));
    assert!(!changed.is_made_by("notes.add", r#"{"n":2}"#));
    assert!(!changed.is_made_by("notes.set", r#"{"n":1}"#));
}

#[test]
fn an_approval_is_not_used_for_arguments_that_guards_leave_otherwise() {
    let stage = Stage::Approved { attempts: 2, until_ms: 100 };
    let present = Call { called: write(), stage };
    let other = rewritten("{}");
    assert_eq!(Call::intend(Some(&present), other.clone(), 0), Err(Refused::Redefined));
    // A repeatable call that was sent before is made again with them.
    let sent = Call { called: called(true), stage: Stage::Sent { attempt: 3 } };
    let again = Call::intend(Some(&sent), Called { is_repeatable: true, ..other }, 0);
    assert_eq!(again.map(|call| call.stage), Ok(Stage::Sent { attempt: 4 }));
}
