use airlock_core::tool::ToolError;

use super::{
    breaker::{FAILURES, FIRST_COOL_DOWN},
    *,
};

const SECOND: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(30);
const FUEL: u64 = 1_000;

fn circuit() -> (Circuit, ToolName) {
    let plugin = ClientName::parse("p").expect("a good name");
    let tool = ToolName::new(&plugin, "t");
    (Circuit::new(plugin, DEADLINE, FUEL), tool)
}

fn key(number: u8) -> Tenant {
    Tenant::of_key([number; 32], number.to_string())
}

#[test]
fn traps_are_crashes_and_the_plugins_own_limits_are_overruns() {
    let (circuit, tool) = circuit();
    assert_eq!(outcome(&circuit, trapped()), CallEnding::Crashed);
    for overrun in [
        at_limit(HostCode::OutOfFuel, ReachedLimit::Amount(FUEL)),
        at_limit(HostCode::CpuTime, ReachedLimit::Time(SECOND)),
        CallError::deadline(tool.clone(), DEADLINE),
        at_limit(HostCode::Memory, ReachedLimit::Amount(1)),
        at_limit(HostCode::StackOverflow, ReachedLimit::Unnumbered),
    ] {
        assert_eq!(outcome(&circuit, overrun), CallEnding::Overran);
    }
    for worked in [
        CallError::from(ToolError::new(ErrorKind::Internal, "no luck")),
        CallError::result_too_large(tool.clone(), 1),
        CallError::bad_result(tool.clone(), "unreachable"),
    ] {
        assert_eq!(outcome(&circuit, worked), CallEnding::Worked);
    }
    for unrelated in [
        CallError::busy(),
        CallError::cancelled(),
        CallError::not_found("x"),
        CallError::deadline(tool.clone(), 29 * SECOND),
        at_limit(HostCode::OutOfFuel, ReachedLimit::Amount(FUEL - 1)),
        CallError::budget("nested tool calls", 1),
    ] {
        assert_eq!(outcome(&circuit, unrelated), CallEnding::Unknown);
    }
    assert_eq!(circuit.outcome(&Ok(())), CallEnding::Worked);
}

fn outcome(circuit: &Circuit, error: CallError) -> CallEnding {
    circuit.outcome::<()>(&Err(error))
}

fn at_limit(code: HostCode, limit: ReachedLimit) -> CallError {
    CallError::new(ErrorKind::LimitReached, code, "").with_limit(limit)
}

fn trapped() -> CallError {
    CallError::new(ErrorKind::Internal, HostCode::Trap, "tool p-t trapped")
}

#[test]
fn the_failures_of_one_tenant_stop_no_calls_of_another() {
    let (circuit, tool) = circuit();
    for _ in 0..FAILURES {
        circuit
            .permit(&key(1), &tool)
            .expect("closed")
            .end(&Err::<(), _>(at_limit(HostCode::CpuTime, ReachedLimit::Time(SECOND))));
    }
    let Err(refused) = circuit.permit(&key(1), &tool) else { panic!("it is open") };
    assert_eq!((refused.code(), refused.kind()), (HostCode::CircuitOpen, ErrorKind::Unavailable));
    assert!(
        refused.retry_after().is_some_and(|wait| wait <= FIRST_COOL_DOWN
            && wait > FIRST_COOL_DOWN.checked_sub(10 * SECOND).unwrap())
    );
    for other in [key(2), Tenant::ANONYMOUS] {
        circuit.permit(&other, &tool).expect("it is open for one key").end(&Ok(()));
    }
}

#[test]
fn a_pass_dropped_without_an_outcome_counts_as_no_failure() {
    let (circuit, tool) = circuit();
    for _ in 0..2 * FAILURES {
        drop(circuit.permit(&key(1), &tool).expect("closed"));
    }
    circuit.permit(&key(1), &tool).expect("still closed").end(&Ok(()));
}

#[test]
fn of_many_calls_at_once_one_is_the_trial_and_a_cancelled_trial_is_replaced() {
    let (circuit, tool) = circuit();
    let tenant = key(1);
    for _ in 0..FAILURES {
        circuit.permit(&tenant, &tool).expect("closed").end(&Err::<(), _>(trapped()));
    }
    circuit.breakers.lock().end_cool_downs();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut passes: Vec<_> =
                        (0..100).map(|_| circuit.permit(&tenant, &tool)).collect();
                    passes.retain(Result::is_ok);
                    passes
                })
            })
            .collect();
        let passes: Vec<_> =
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
        assert_eq!(passes.len(), 1);
        assert!(circuit.permit(&tenant, &tool).is_err());
        // Dropped without an outcome, as when the caller disconnects.
        drop(passes);
    });
    circuit.permit(&tenant, &tool).expect("the next one trials").end(&Ok(()));
    circuit.permit(&tenant, &tool).expect("it works again").end(&Ok(()));
    assert!(circuit.is_quiet(), "nothing is kept of the failures");
}

#[test]
fn calls_need_no_lock_until_one_fails() {
    let (circuit, tool) = circuit();
    // They would wait for this lock for ever.
    let held = circuit.breakers.lock();
    circuit.permit(&key(1), &tool).expect("closed").end(&Ok(()));
    circuit.permit(&key(1), &tool).expect("closed").end(&Err::<(), _>(CallError::busy()));
    drop(held);
    circuit.permit(&key(1), &tool).expect("closed").end(&Err::<(), _>(trapped()));
    assert!(!circuit.is_quiet());
}
