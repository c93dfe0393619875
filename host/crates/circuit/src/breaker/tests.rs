use super::*;

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Returns a breaker with a failure at each of these times.
fn failed(times: &[Instant]) -> Breaker {
    let mut breaker = Breaker::closed();
    for &time in times {
        breaker.record(time, false, Verdict::Fails);
    }
    breaker
}

fn opened(now: Instant) -> Breaker {
    failed(&[now; FAILURES])
}

#[test]
fn five_failures_open_a_breaker_and_four_do_not() {
    let now = Instant::now();
    assert_eq!(failed(&[now; 4]).permit(now), Ok(false));
    assert_eq!(failed(&[now; 5]).permit(now), Err(FIRST_COOL_DOWN));
}

#[test]
fn failures_count_for_sixty_seconds_and_no_longer() {
    let now = Instant::now();
    assert!(matches!(spread(now, 60 * SECOND), Breaker::Open(_)));
    assert!(
        matches!(spread(now, 60 * SECOND + MILLISECOND), Breaker::Closed(times) if times.len() == 4)
    );
}

fn spread(now: Instant, last: Duration) -> Breaker {
    failed(&[now, now + SECOND, now + SECOND, now + SECOND, now + last])
}

#[test]
fn a_success_between_failures_does_not_reset_their_count() {
    let now = Instant::now();
    let mut breaker = failed(&[now; 4]);
    assert_eq!(breaker.record(now, false, Verdict::Works), None);
    assert!(matches!(breaker.record(now, false, Verdict::Fails), Some(Transition::Opened(_))));
}

#[test]
fn after_the_cool_down_exactly_one_trial_call_is_permitted() {
    let now = Instant::now();
    let mut breaker = opened(now);
    assert_eq!(
        breaker.permit((now + FIRST_COOL_DOWN).checked_sub(MILLISECOND).unwrap()),
        Err(MILLISECOND)
    );
    assert_eq!(breaker.permit(now + FIRST_COOL_DOWN), Ok(true));
    assert_eq!(breaker.permit(now + FIRST_COOL_DOWN), Err(WHILE_HALF_OPEN));
    assert_eq!(
        breaker.record(now + FIRST_COOL_DOWN, false, Verdict::Works),
        None,
        "a call from before says nothing"
    );
    assert_eq!(breaker.record(now + FIRST_COOL_DOWN, false, Verdict::Fails), None);
    assert_eq!(
        breaker.record(now + FIRST_COOL_DOWN, true, Verdict::Works),
        Some(Transition::Closed)
    );
    assert_eq!(breaker, Breaker::closed());
}

#[test]
fn a_failed_trial_doubles_the_cool_down_up_to_five_minutes() {
    let mut now = Instant::now();
    let mut breaker = opened(now);
    for seconds in [60, 120, 240, 300, 300] {
        let Breaker::Open(open) = breaker else { panic!("{breaker:?}") };
        now = open.until;
        assert_eq!(breaker.permit(now), Ok(true));
        assert!(matches!(breaker.record(now, true, Verdict::Fails), Some(Transition::Opened(_))));
        assert_eq!(breaker.permit(now), Err(seconds * SECOND));
    }
    let Breaker::Open(open) = breaker else { panic!("{breaker:?}") };
    assert_eq!(breaker.permit(open.until), Ok(true));
    breaker.record(open.until, true, Verdict::Works);
    for _ in 0..FAILURES {
        breaker.record(open.until, false, Verdict::Fails);
    }
    assert_eq!(breaker.permit(open.until), Err(FIRST_COOL_DOWN), "having worked, it begins anew");
}

#[test]
fn after_a_trial_without_a_verdict_the_next_call_is_the_trial() {
    let now = Instant::now();
    let mut breaker = opened(now);
    assert_eq!(breaker.permit(now + FIRST_COOL_DOWN), Ok(true));
    assert_eq!(breaker.record(now + FIRST_COOL_DOWN, true, Verdict::None), None);
    assert_eq!(breaker.permit(now + FIRST_COOL_DOWN), Ok(true));
}

#[test]
fn a_breaker_is_stale_when_dropping_it_changes_nothing() {
    let now = Instant::now();
    assert!(Breaker::closed().is_stale(now));
    let once = failed(&[now]);
    assert!(!once.is_stale(now + WINDOW) && once.is_stale(now + WINDOW + MILLISECOND));
    let mut open = opened(now);
    let forgotten = now + FIRST_COOL_DOWN + LONGEST_COOL_DOWN + MILLISECOND;
    assert!(
        !open.is_stale(forgotten.checked_sub(MILLISECOND).unwrap()) && open.is_stale(forgotten)
    );
    assert_eq!(open.permit(forgotten), Ok(true));
    assert!(!open.is_stale(forgotten), "a call trials");
}
