//! States of limits, and their changes by operators.

use std::time::{Duration, SystemTime};

use airlock_core::{
    door::Membership,
    model_control::{ModelControl, ModelRequest, ServiceTier},
    tenant::Tenant,
};
use tokio::time::advance;

use super::{
    MINUTE,
    home::{NOON, TestHome, on_both, state},
    limit,
};
use crate::{
    LimitChangeError, Limiter,
    limit::{Measure, Period, Window},
};

const DAY: Duration = Duration::from_hours(24);

/// Makes a request, and returns whether it was permitted.
pub(super) async fn request(limiter: &Limiter) -> bool {
    let request = ModelRequest {
        tenant: &Tenant::ANONYMOUS,
        membership: &Membership::default(),
        model: "m",
        fallbacks: &[],
        bytes: 0,
        choices: 1,
        max_output_tokens: None,
        tier: ServiceTier::Standard,
        is_streamed: false,
        tool_tokens: None,
    };
    ModelControl::begin(limiter, request).await.is_ok()
}

fn at(time: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(NOON) + time
}

on_both! {
    a_raise_holds_for_its_windows_on_all_gateways,
    a_reset_begins_a_new_window_on_all_gateways,
    the_state_has_the_window,
    a_limit_that_does_not_exist_is_not_changed,
    a_removed_limit_begins_anew_when_it_is_added_again,
}

async fn a_raise_holds_for_its_windows_on_all_gateways(home: TestHome) {
    let limits = [limit("l", Measure::Requests, 1, Window::Calendar(Period::Day))];
    let limiter = home.limiter(&limits);
    let other = home.limiter(&limits);
    assert!(request(&limiter).await && !request(&other).await);
    limiter.set_override("l", 1, Some(1)).await.expect("written");
    // The refusal is repeated for a moment.
    advance(Duration::from_secs(1)).await;
    assert!(request(&other).await && !request(&limiter).await);
    let raised = state(&other, "l").await;
    assert_eq!((raised.used, raised.most), (2, 2));
    let raise = raised.raise.expect("it is raised");
    assert_eq!((raise.amount, raise.until), (1, Some(at(DAY / 2))));
    home.pass(DAY / 2);
    advance(Duration::from_secs(1)).await;
    let next = state(&limiter, "l").await;
    assert_eq!((next.used, next.most, next.raise), (0, 1, None));
    limiter.set_override("l", 5, None).await.expect("written");
    assert_eq!(state(&other, "l").await.most, 6);
    other.clear_override("l").await.expect("written");
    assert_eq!(state(&limiter, "l").await.most, 1);
}

async fn a_reset_begins_a_new_window_on_all_gateways(home: TestHome) {
    let limits = [limit("l", Measure::Requests, 1, MINUTE), limit("t", Measure::Tokens, 9, MINUTE)];
    let limiter = home.limiter(&limits);
    let other = home.limiter(&limits);
    assert!(request(&limiter).await && !request(&other).await);
    limiter.reset(&["l", "t"]).await.expect("written");
    let reset = state(&other, "l").await;
    assert_eq!((reset.used, reset.reserved), (0, 0));
    advance(Duration::from_secs(1)).await;
    assert!(request(&other).await && !request(&limiter).await);
}

async fn the_state_has_the_window(home: TestHome) {
    let minute = Duration::from_mins(1);
    let limiter = home.limiter(&[
        limit("day", Measure::Requests, 5, Window::Calendar(Period::Day)),
        limit("minute", Measure::Requests, 5, MINUTE),
        limit("prepaid", Measure::Requests, 5, Window::Never),
        limit("running", Measure::Concurrency, 5, Window::Never),
    ]);
    let unused = state(&limiter, "minute").await;
    assert_eq!((unused.used, unused.window_end), (0, None));
    assert!(request(&limiter).await);
    let states = limiter.states(&["prepaid", "unknown", "day"]).await.expect("read");
    assert_eq!(
        states.iter().map(|state| state.id.as_str()).collect::<Vec<_>>(),
        ["prepaid", "day"]
    );
    assert_eq!((states[0].window_start, states[0].window_end), (None, None));
    let midnight = SystemTime::UNIX_EPOCH + Duration::from_millis(NOON).saturating_sub(DAY / 2);
    assert_eq!((states[1].window_start, states[1].window_end), (Some(midnight), Some(at(DAY / 2))));
    let used = state(&limiter, "minute").await;
    let end = used.window_end.expect("one is used");
    assert!(Some(end) > Some(at(minute)) && Some(end) <= Some(at(minute + Duration::from_secs(1))));
    assert_eq!(state(&limiter, "running").await.used, 0, "the request was dropped");
}

async fn a_limit_that_does_not_exist_is_not_changed(home: TestHome) {
    let limiter = home.limiter(&[limit("running", Measure::Concurrency, 5, Window::Never)]);
    for id in ["unknown", "running"] {
        let error = limiter.reset(&[id]).await.expect_err("it has no count");
        assert!(matches!(&error, LimitChangeError::Unknown(unknown) if unknown == id), "{error}");
    }
    let raised = limiter.set_override("unknown", 1, None).await;
    assert!(matches!(raised, Err(LimitChangeError::Unknown(_))));
}

async fn a_removed_limit_begins_anew_when_it_is_added_again(home: TestHome) {
    let limits = ["removed", "kept"].map(|id| limit(id, Measure::Requests, 2, Window::Never));
    let limiter = home.limiter(&limits);
    let other = home.limiter(&limits);
    assert!(request(&limiter).await && request(&other).await && !request(&limiter).await);
    let raised = limiter.set_override("kept", 1, None).await;
    raised.expect("written");
    limiter.set(&limits[1..]);
    limiter.forget(["removed".to_owned()].into());
    limiter.set(&limits);
    assert!(request(&limiter).await);
    assert_eq!(state(&other, "removed").await.used, 1);
    assert_eq!(state(&other, "kept").await.used, 3);
}
