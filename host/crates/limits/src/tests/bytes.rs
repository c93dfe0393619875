//! Limits of the bytes of arguments.

use std::{collections::BTreeMap, future, sync::Arc, time::Duration};

use airlock_core::{
    door::{
        Arguments, CallControl, CallGuards, Caller, ControlledCall, FinishedCall, GuardedCall,
        Membership, Origin, ProposedCall,
    },
    model_control::ModelControl,
    tool::{Answers, CallError, ErrorKind, HostCode, ToolOutput},
};
use futures_util::future::{BoxFuture, join_all};
use tokio::time::{Instant, advance};

use super::{
    MINUTE, MINUTE_AT_MOST,
    calls::{BUDGET, call, caller, open, view},
    home::{TestHome, on_both, state},
    limit,
    operators::request,
};
use crate::{
    Limiter,
    limit::{Limit, Measure, Owner, Scope},
};

fn bytes(id: &str, most: u64) -> Limit {
    limit(id, Measure::ArgumentBytes, most, MINUTE)
}

/// Returns arguments of this length, from 8.
fn arguments(length: usize) -> String {
    format!("{{\"t\":\"{}\"}}", "a".repeat(length - 8))
}

/// Begins a call with arguments of this length.
async fn begin(
    limiter: &Limiter,
    tool: &str,
    length: usize,
) -> Result<Box<dyn ControlledCall>, CallError> {
    let call = caller("k", tool, None).admit(&format!("files-{tool}"), &arguments(length));
    CallControl::begin(limiter, &call.expect("it is permitted")).await
}

async fn pass(limiter: &Limiter, tool: &str, length: usize) {
    begin(limiter, tool, length).await.map(drop).expect("it passes");
}

async fn refusal(limiter: &Limiter, tool: &str, length: usize) -> CallError {
    begin(limiter, tool, length).await.map(drop).expect_err("it is refused")
}

on_both! {
    the_last_byte_of_a_limit_may_be_sent_and_no_further_one,
    arguments_above_the_whole_limit_are_refused_without_a_time_to_wait,
    arguments_are_counted_by_all_limits_or_by_none,
    a_call_that_was_not_made_returns_its_bytes,
    a_call_that_its_source_receives_and_refuses_keeps_its_bytes,
    a_continuation_is_counted_once_and_a_fallback_sends_the_arguments_again,
    the_arguments_that_guards_leave_are_counted,
    requests_to_models_need_no_bytes,
    a_share_of_bytes_is_counted_in_memory,
}

on_both! {
    threads: of_parallel_calls_on_ten_gateways_exactly_the_bytes_pass,
}

async fn the_last_byte_of_a_limit_may_be_sent_and_no_further_one(home: TestHome) {
    let limiter = home.limiter(&[bytes("l", 100)]);
    pass(&limiter, "read", 60).await;
    let error = refusal(&limiter, "read", 41).await;
    assert_eq!((error.code(), error.kind()), (HostCode::LimitReached, ErrorKind::RateLimited));
    let wait = error.retry_after().expect("it ends");
    assert!(wait > Duration::from_mins(1) && wait <= MINUTE_AT_MOST, "{wait:?}");
    assert_eq!(state(&limiter, "l").await.used, 60, "a refused call sends nothing");
    pass(&limiter, "read", 40).await;
    assert_eq!(state(&limiter, "l").await.used, 100);
    refusal(&limiter, "read", 8).await;
    home.pass(MINUTE_AT_MOST);
    // A refusal is repeated for a moment without the store.
    advance(Duration::from_secs(1)).await;
    pass(&limiter, "read", 100).await;
}

async fn arguments_above_the_whole_limit_are_refused_without_a_time_to_wait(home: TestHome) {
    let limiter = home.limiter(&[bytes("l", 100)]);
    pass(&limiter, "read", 60).await;
    let waiting = refusal(&limiter, "read", 50).await;
    assert_eq!(waiting.kind(), ErrorKind::RateLimited);
    // The refusal of a moment ago had a time to wait, which does not help this call.
    let error = refusal(&limiter, "read", 101).await;
    assert_eq!((error.code(), error.kind()), (HostCode::LimitReached, ErrorKind::LimitReached));
    assert_eq!(error.retry_after(), None);
    assert!(error.to_string().contains("more than the limit of 100 bytes"), "{error}");
    assert_eq!(state(&limiter, "l").await.used, 60);
}

async fn arguments_are_counted_by_all_limits_or_by_none(home: TestHome) {
    let limiter = home.limiter(&[
        Limit { scope: Scope::Tool("files-write".into()), ..bytes("tool", 30) },
        Limit { scope: Scope::Client("files".into()), ..bytes("client", 100) },
        Limit { owner: Owner::Team("t".into()), ..bytes("team", 1_000) },
        Limit { owner: Owner::Key("k".into()), ..bytes("key", 1_000) },
        Limit { owner: Owner::Key("other".into()), ..bytes("other", 1) },
        limit("calls", Measure::ToolCalls, 10, MINUTE),
    ]);
    pass(&limiter, "write", 30).await;
    let error = refusal(&limiter, "write", 8).await;
    assert!(error.to_string().contains("for tool 'files-write'"), "{error}");
    pass(&limiter, "read", 70).await;
    let error = refusal(&limiter, "read", 8).await;
    assert!(error.to_string().contains("for client 'files'"), "{error}");
    for (id, used) in [("tool", 30), ("client", 100), ("team", 100), ("key", 100), ("calls", 2)] {
        assert_eq!(state(&limiter, id).await.used, used, "{id}");
    }
}

async fn a_call_that_was_not_made_returns_its_bytes(home: TestHome) {
    let limiter = home.limiter(&[bytes("l", 100)]);
    let away = CallError::new(ErrorKind::Unavailable, HostCode::Unavailable, "away").not_begun();
    begin(&limiter, "read", 50).await.expect("it passes").end(&Err(away));
    assert_eq!(state(&limiter, "l").await.used, 0);
    let lost = CallError::new(ErrorKind::Unavailable, HostCode::Unavailable, "lost on the way");
    begin(&limiter, "read", 50).await.expect("it passes").end(&Err(lost));
    assert_eq!(state(&limiter, "l").await.used, 50);
}

async fn a_call_that_its_source_receives_and_refuses_keeps_its_bytes(home: TestHome) {
    let limiter = home.limiter(&[bytes("l", 100), limit("calls", Measure::ToolCalls, 10, MINUTE)]);
    let call = caller("k", "read", None).admit("files-read", &arguments(50));
    let call = call.expect("it is permitted");
    let begun = CallControl::begin(&*limiter, &call).await.expect("it passes");
    call.chain().reporter().deliver();
    let refused = CallError::new(ErrorKind::Unavailable, HostCode::Unavailable, "log in");
    begun.end(&Err(refused.not_begun()));
    assert_eq!(state(&limiter, "l").await.used, 50);
    assert_eq!(state(&limiter, "calls").await.used, 0, "nothing was executed");
}

async fn a_continuation_is_counted_once_and_a_fallback_sends_the_arguments_again(home: TestHome) {
    let limiter = home.limiter(&[bytes("l", 100)]);
    pass(&limiter, "read", 50).await;
    let answers = Answers { token: String::new(), given: BTreeMap::new() };
    let resumed = caller("k", "read", None).resume("files-read", &arguments(50), answers);
    let resumed = resumed.expect("it is permitted");
    CallControl::begin(&*limiter, resumed.call()).await.map(drop).expect("it was counted");
    assert_eq!(state(&limiter, "l").await.used, 50);
    let call = caller("k", "read", None).admit("files-read", &arguments(50));
    let call = call.expect("it is permitted");
    let replacing = call.chain().admit_in_place(&Origin::Caller, "files-read", call.arguments());
    let replacing = replacing.expect("it needs no approval");
    CallControl::begin(&*limiter, &replacing).await.map(drop).expect("it passes");
    assert_eq!(state(&limiter, "l").await.used, 100);
    CallControl::begin(&*limiter, &replacing).await.map(drop).expect_err("nothing is left");
}

/// Removes the arguments of each call.
struct Shortening;

impl CallGuards for Shortening {
    fn before<'g>(
        &'g self,
        call: &'g ProposedCall<'g>,
        _: std::time::Instant,
    ) -> BoxFuture<'g, Result<GuardedCall, CallError>> {
        let arguments = Arguments::parse(call.tool.name.as_str(), "{}");
        let guarded = arguments
            .map(|arguments| GuardedCall { arguments: Some(arguments), ..GuardedCall::default() });
        Box::pin(future::ready(guarded))
    }

    fn looks_before(&self, _: &ProposedCall<'_>) -> bool {
        true
    }

    fn looks_after(&self, _: &ProposedCall<'_>) -> bool {
        false
    }

    fn after(
        &self,
        _: FinishedCall,
        outcome: Result<ToolOutput, CallError>,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(future::ready(outcome))
    }
}

async fn the_arguments_that_guards_leave_are_counted(home: TestHome) {
    let limiter = home.limiter(&[bytes("l", 10)]);
    let guards: Arc<dyn CallGuards> = Arc::new(Shortening);
    let view = view("k", "read", None).with_guards(Some(guards));
    let caller = Caller::new(view, Origin::Caller, BUDGET);
    let call = caller.admit("files-read", &arguments(50)).expect("it is permitted");
    CallControl::begin(&*limiter, &call).await.map(drop).expect("it passes");
    assert_eq!(state(&limiter, "l").await.used, 2);
}

async fn requests_to_models_need_no_bytes(home: TestHome) {
    let limiter = home.limiter(&[bytes("l", 8)]);
    pass(&limiter, "read", 8).await;
    assert!(!ModelControl::applies(&*limiter, &Membership::default()));
    assert!(request(&limiter).await);
    assert_eq!(state(&limiter, "l").await.used, 8);
}

async fn a_share_of_bytes_is_counted_in_memory(home: TestHome) {
    let limits = [bytes("l", 1_000_000)];
    let limiter = home.limiter(&limits);
    let live = limiter.limits();
    let live = live.find("l").expect("it exists");
    for _ in 0..60 {
        live.local.note_call(100, Instant::now());
    }
    pass(&limiter, "read", 100).await;
    // The call, and a share for the 61 calls of this second.
    let other = home.limiter(&limits);
    assert_eq!(state(&other, "l").await.used, 6_200);
    for _ in 0..20 {
        pass(&limiter, "read", 100).await;
    }
    assert_eq!(state(&other, "l").await.used, 6_200, "the store was not asked");
    advance(Duration::from_secs(1)).await;
    assert_eq!(state(&limiter, "l").await.used, 2_100, "the rest of the share is returned");
}

async fn of_parallel_calls_on_ten_gateways_exactly_the_bytes_pass(home: TestHome) {
    // Each call has the two bytes of an empty object.
    let limits = [bytes("all", 200)];
    let limiters = [(); 10].map(|()| home.limiter(&limits));
    open(&limiters).await;
    let all = (0..300).map(|number| {
        let limiter = limiters[number % limiters.len()].clone();
        tokio::spawn(async move { call(&limiter, "k").await })
    });
    let results = join_all(all).await.into_iter().map(|result| result.expect("no panic"));
    let (passed, refused): (Vec<_>, Vec<_>) = results.partition(Result::is_ok);
    assert_eq!(passed.len(), 100);
    assert!(refused.iter().all(|result| *result == Err(HostCode::LimitReached)), "{refused:?}");
    assert_eq!(state(&limiters[0], "all").await.used, 200);
}
