use super::*;
use crate::catalog::{ErrorKind, ToolError};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

fn closed() -> State {
    State::Closed(VecDeque::new())
}

/// A state that has failed at each of these times.
fn failed(times: &[Instant]) -> State {
    let mut state = closed();
    for &time in times {
        state.settle(time, false, Verdict::Fails);
    }
    state
}

fn opened(now: Instant) -> State {
    failed(&[now; FAILURES])
}

#[test]
fn five_failures_open_it_and_four_do_not() {
    let now = Instant::now();
    assert_eq!(failed(&[now; 4]).enter(now), Ok(false));
    assert_eq!(failed(&[now; 5]).enter(now), Err(FIRST_WAIT));
}

#[test]
fn failures_count_for_sixty_seconds_and_no_longer() {
    let now = Instant::now();
    let spread = |last: Duration| failed(&[now, now + SECOND, now + SECOND, now + SECOND, now + last]);
    assert!(matches!(spread(60 * SECOND), State::Open(_)));
    assert!(matches!(spread(60 * SECOND + MILLISECOND), State::Closed(times) if times.len() == 4));
}

#[test]
fn what_works_in_between_does_not_hide_what_fails() {
    let now = Instant::now();
    let mut state = failed(&[now; 4]);
    assert_eq!(state.settle(now, false, Verdict::Works), None);
    assert!(matches!(state.settle(now, false, Verdict::Fails), Some(Change::Opened(_))));
}

#[test]
fn after_the_wait_exactly_one_call_tries() {
    let now = Instant::now();
    let mut state = opened(now);
    assert_eq!(state.enter((now + FIRST_WAIT).checked_sub(MILLISECOND).unwrap()), Err(MILLISECOND));
    assert_eq!(state.enter(now + FIRST_WAIT), Ok(true));
    assert_eq!(state.enter(now + FIRST_WAIT), Err(WHILE_TRYING));
    assert_eq!(state.settle(now + FIRST_WAIT, false, Verdict::Works), None, "a call from before says nothing");
    assert_eq!(state.settle(now + FIRST_WAIT, false, Verdict::Fails), None);
    assert_eq!(state.settle(now + FIRST_WAIT, true, Verdict::Works), Some(Change::Closed));
    assert_eq!(state, closed());
}

#[test]
fn a_try_that_fails_doubles_the_wait_up_to_five_minutes() {
    let mut now = Instant::now();
    let mut state = opened(now);
    for seconds in [60, 120, 240, 300, 300] {
        let State::Open(open) = state else { panic!("{state:?}") };
        now = open.until;
        assert_eq!(state.enter(now), Ok(true));
        assert!(matches!(state.settle(now, true, Verdict::Fails), Some(Change::Opened(_))));
        assert_eq!(state.enter(now), Err(seconds * SECOND));
    }
    let State::Open(open) = state else { panic!("{state:?}") };
    assert_eq!(state.enter(open.until), Ok(true));
    state.settle(open.until, true, Verdict::Works);
    for _ in 0..FAILURES {
        state.settle(open.until, false, Verdict::Fails);
    }
    assert_eq!(state.enter(open.until), Err(FIRST_WAIT), "having worked, it begins anew");
}

#[test]
fn a_try_without_a_verdict_leaves_the_next_call_to_try() {
    let now = Instant::now();
    let mut state = opened(now);
    assert_eq!(state.enter(now + FIRST_WAIT), Ok(true));
    assert_eq!(state.settle(now + FIRST_WAIT, true, Verdict::None), None);
    assert_eq!(state.enter(now + FIRST_WAIT), Ok(true));
}

#[test]
fn the_operator_sees_how_it_is() {
    let now = Instant::now();
    let described = |state: &State, now: Instant| state.describe(now).to_string();
    insta::assert_snapshot!(described(&failed(&[now; 3]), now), @r#"{"state":"closed","failures":3,"retry_after_ms":null}"#);
    insta::assert_snapshot!(described(&failed(&[now; 3]), now + 61 * SECOND), @r#"{"state":"closed","failures":0,"retry_after_ms":null}"#);
    let mut state = opened(now);
    insta::assert_snapshot!(described(&state, now + SECOND), @r#"{"state":"open","failures":5,"retry_after_ms":29000}"#);
    insta::assert_snapshot!(described(&state, now + FIRST_WAIT), @r#"{"state":"half_open","failures":5,"retry_after_ms":0}"#);
    assert_eq!(state.enter(now + FIRST_WAIT), Ok(true));
    state.settle(now + FIRST_WAIT, true, Verdict::Fails);
    insta::assert_snapshot!(described(&state, now + FIRST_WAIT), @r#"{"state":"open","failures":6,"retry_after_ms":60000}"#);
}

fn circuit() -> (Circuit, ToolName) {
    let plugin = ClientName::parse("p").expect("a good name");
    let tool = ToolName::new(&plugin, "t");
    (Circuit::new(plugin, &Limits::PLUGIN), tool)
}

#[test]
fn only_crashes_and_stops_of_its_own_count() {
    let (circuit, tool) = circuit();
    let verdict = |error| circuit.verdict::<()>(&Err(error));
    let tool = || tool.clone();
    let trap = || -> crate::catalog::Cause { "unreachable".into() };
    for failure in [
        CallError::Fuel { tool: tool(), limit: Limits::PLUGIN.fuel },
        CallError::Cpu { tool: tool(), limit: SECOND },
        CallError::Deadline { tool: tool(), limit: 30 * SECOND },
        CallError::Memory { tool: tool(), limit_bytes: 1 },
        CallError::Stack { tool: tool() },
        CallError::Trap { tool: tool(), trap: trap() },
    ] {
        assert_eq!(verdict(failure), Verdict::Fails);
    }
    for worked in [
        CallError::Tool(ToolError::new(ErrorKind::Internal, "no luck")),
        CallError::ResultTooLarge { tool: tool(), limit_bytes: 1 },
        CallError::BadResult { tool: tool(), cause: trap() },
    ] {
        assert_eq!(verdict(worked), Verdict::Works);
    }
    for unrelated in [
        CallError::Busy,
        CallError::Cancelled,
        CallError::NotFound { name: "x".into() },
        CallError::Deadline { tool: tool(), limit: 29 * SECOND },
        CallError::Fuel { tool: tool(), limit: Limits::PLUGIN.fuel - 1 },
        CallError::Budget { what: "nested tool calls", limit: 1 },
    ] {
        assert_eq!(verdict(unrelated), Verdict::None);
    }
    assert_eq!(circuit.verdict(&Ok(())), Verdict::Works);
}

#[test]
fn many_calls_at_once_are_refused_but_for_one_and_a_cancelled_one_is_replaced() {
    let (circuit, tool) = circuit();
    let crash = || Err::<(), _>(CallError::Stack { tool: tool.clone() });
    for _ in 0..FAILURES {
        circuit.enter(&tool).expect("closed").end(&crash());
    }
    let Err(refused) = circuit.enter(&tool) else { panic!("it is open") };
    assert_eq!((refused.code(), refused.kind()), ("circuit_open", ErrorKind::Unavailable));
    assert!(refused.retry_after().is_some_and(|wait| wait <= FIRST_WAIT && wait > FIRST_WAIT.checked_sub(10 * SECOND).unwrap()));
    if let State::Open(open) = &mut *circuit.lock() {
        open.until = Instant::now();
    }
    let enter_many = || {
        let mut passes: Vec<_> = (0..100).map(|_| circuit.enter(&tool)).collect();
        passes.retain(Result::is_ok);
        passes
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(enter_many)).collect();
        let passes: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
        assert_eq!(passes.len(), 1);
        assert!(circuit.enter(&tool).is_err());
        // Dropped without a verdict, as by a caller that went away.
        drop(passes);
    });
    circuit.enter(&tool).expect("the next one tries").end(&Ok(()));
    assert_eq!(*circuit.lock(), closed());
}
