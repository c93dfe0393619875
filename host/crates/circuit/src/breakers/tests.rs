use airlock_core::tool::ClientName;

use super::{
    super::breaker::{FAILURES, FIRST_COOL_DOWN, WHILE_HALF_OPEN, WINDOW},
    *,
};

const SECOND: Duration = Duration::from_secs(1);

fn tenant(number: u16) -> Tenant {
    let mut digest = [0; 32];
    digest[..2].copy_from_slice(&number.to_le_bytes());
    Tenant::of_key(digest, number.to_string())
}

fn tool(name: &str) -> ToolName {
    ToolName::new(&ClientName::parse("p").expect("a good name"), name)
}

/// Makes up to `times` calls of a tool with this outcome, until one is refused. Returns the state
/// changes.
fn call(
    breakers: &mut Breakers,
    now: Instant,
    number: u16,
    name: &str,
    outcome: CallEnding,
    times: usize,
) -> Vec<String> {
    let mut changes = Vec::new();
    for _ in 0..times {
        let Ok(trials) = breakers.permit(now, &tenant(number), &tool(name)) else { break };
        for change in breakers.record(now, &tenant(number), &tool(name), trials, outcome) {
            changes.push(match change {
                BreakerChange::Opened { scope, .. } => format!("open for {scope}"),
                BreakerChange::Closed { scope } => format!("closed for {scope}"),
            });
        }
    }
    changes
}

fn passes(breakers: &mut Breakers, now: Instant, number: u16, name: &str) -> bool {
    match breakers.permit(now, &tenant(number), &tool(name)) {
        Ok(trials) => {
            breakers.record(now, &tenant(number), &tool(name), trials, CallEnding::Unknown);
            true
        }
        Err(_) => false,
    }
}

#[test]
fn overruns_stop_the_calls_of_one_tenant_to_one_tool() {
    let now = Instant::now();
    let mut breakers = Breakers::default();
    assert_eq!(call(&mut breakers, now, 1, "query", CallEnding::Overran, 4), [""; 0]);
    assert_eq!(
        call(&mut breakers, now, 1, "query", CallEnding::Overran, 9),
        ["open for key \"1\", tool p-query"]
    );
    assert_eq!(breakers.permit(now, &tenant(1), &tool("query")), Err(FIRST_COOL_DOWN));
    assert!(passes(&mut breakers, now, 1, "other") && passes(&mut breakers, now, 2, "query"));
}

#[test]
fn crashes_stop_all_calls_of_one_tenant_and_those_of_three_tenants_stop_all_calls() {
    let now = Instant::now();
    let mut breakers = Breakers::default();
    assert_eq!(call(&mut breakers, now, 1, "one", CallEnding::Crashed, 3), [""; 0]);
    assert_eq!(call(&mut breakers, now, 1, "two", CallEnding::Crashed, 9), ["open for key \"1\""]);
    assert!(!passes(&mut breakers, now, 1, "one") && !passes(&mut breakers, now, 1, "three"));
    assert!(passes(&mut breakers, now, 2, "one"));
    assert_eq!(
        call(&mut breakers, now, 2, "one", CallEnding::Crashed, 9),
        ["open for key \"2\""],
        "two tenants are not all"
    );
    assert!(passes(&mut breakers, now, 3, "one"));
    assert_eq!(
        call(&mut breakers, now, 3, "one", CallEnding::Crashed, 9),
        ["open for all callers"]
    );
    assert!(!passes(&mut breakers, now, 4, "one"));
    assert!(passes(&mut breakers, now + FIRST_COOL_DOWN, 4, "one"), "and the next need not try");
}

#[test]
fn calls_that_began_before_a_breaker_opened_do_not_change_it() {
    let now = Instant::now();
    let mut breakers = Breakers::default();
    let entered: Vec<_> =
        (0..9).map(|_| breakers.permit(now, &tenant(1), &tool("t")).expect("closed")).collect();
    let changes: Vec<_> = entered
        .into_iter()
        .flat_map(|trials| {
            breakers.record(now, &tenant(1), &tool("t"), trials, CallEnding::Overran)
        })
        .collect();
    assert_eq!(changes.len(), 1);
    breakers.record(now, &tenant(1), &tool("t"), Trials::default(), CallEnding::Worked);
    assert!(!passes(&mut breakers, now, 1, "t"));
}

#[test]
fn a_call_that_another_breaker_refuses_is_no_trial() {
    let now = Instant::now();
    let mut breakers = Breakers::default();
    call(&mut breakers, now + SECOND, 1, "slow", CallEnding::Overran, FAILURES);
    call(&mut breakers, now, 1, "crash", CallEnding::Crashed, FAILURES);
    // At this time the tenant's breaker permits a trial call and the tool's does not.
    let between = now + FIRST_COOL_DOWN;
    assert_eq!(breakers.permit(between, &tenant(1), &tool("slow")), Err(SECOND));
    let trials =
        breakers.permit(between, &tenant(1), &tool("crash")).expect("the try is still to be made");
    assert!(trials.any());
    assert_eq!(breakers.permit(between, &tenant(1), &tool("other")), Err(WHILE_HALF_OPEN));
    let changes = breakers.record(between, &tenant(1), &tool("crash"), trials, CallEnding::Worked);
    assert_eq!(changes, [BreakerChange::Closed { scope: BreakerScope::Tenant(tenant(1)) }]);
}

#[test]
fn successes_make_no_breaker_and_stale_breakers_are_removed() {
    let now = Instant::now();
    let mut breakers = Breakers::default();
    call(&mut breakers, now, 1, "t", CallEnding::Worked, 100);
    call(&mut breakers, now, 1, "t", CallEnding::Unknown, 100);
    assert_eq!(breakers.scoped.len(), 0);
    for number in 0..100 {
        call(&mut breakers, now, number, "t", CallEnding::Overran, 1);
    }
    assert_eq!(breakers.scoped.len(), 100);
    call(&mut breakers, now + WINDOW + SECOND, 100, "t", CallEnding::Overran, 1);
    assert_eq!(breakers.scoped.len(), 1, "the others are older than a minute");
}

#[test]
fn the_breakers_of_a_tenant_are_bounded_and_do_not_evict_those_of_others() {
    let now = Instant::now();
    let mut breakers = Breakers::default();
    call(&mut breakers, now, 2, "t", CallEnding::Overran, FAILURES);
    for number in 0..3 * MAX_OF_TENANT {
        let later = now + Duration::from_millis(number as u64);
        call(&mut breakers, later, 1, &format!("t{number}"), CallEnding::Overran, 1);
    }
    assert_eq!(breakers.scoped.len(), MAX_OF_TENANT + 1);
    assert!(!passes(&mut breakers, now + SECOND, 2, "t"));
    for number in 0..3 * MAX_BREAKERS {
        call(
            &mut breakers,
            now + SECOND,
            u16::try_from(number).unwrap(),
            "t",
            CallEnding::Overran,
            1,
        );
    }
    assert_eq!(breakers.scoped.len(), MAX_BREAKERS);
}

#[test]
fn the_operator_sees_the_breaker_that_refuses_the_most() {
    let now = Instant::now();
    let mut breakers = Breakers::default();
    insta::assert_snapshot!(described(&breakers, now), @r#"{"state":"closed","scope":null,"failures":0,"retry_after_ms":null}"#);
    call(&mut breakers, now, 1, "t", CallEnding::Overran, 3);
    insta::assert_snapshot!(described(&breakers, now), @r#"{"state":"closed","scope":null,"failures":3,"retry_after_ms":null}"#);
    insta::assert_snapshot!(described(&breakers, now + WINDOW + SECOND), @r#"{"state":"closed","scope":null,"failures":0,"retry_after_ms":null}"#);
    call(&mut breakers, now, 1, "t", CallEnding::Overran, 2);
    insta::assert_snapshot!(described(&breakers, now + SECOND), @r#"{"state":"open","scope":"one caller of one tool","failures":5,"retry_after_ms":29000}"#);
    call(&mut breakers, now + SECOND, 2, "t", CallEnding::Crashed, 5);
    insta::assert_snapshot!(described(&breakers, now + SECOND), @r#"{"state":"open","scope":"one caller","failures":5,"retry_after_ms":30000}"#);
    insta::assert_snapshot!(described(&breakers, now + 31 * SECOND), @r#"{"state":"half_open","scope":"one caller","failures":5,"retry_after_ms":0}"#);
}

fn described(breakers: &Breakers, now: Instant) -> String {
    let described = breakers.describe(now);
    assert_eq!(described["state"] == "open", breakers.is_open(now));
    Value::Object(described).to_string()
}
