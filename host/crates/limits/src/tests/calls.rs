//! Limits of calls of tools.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use airlock_core::{
    door::{
        Admitted, Budget, CallControl, Caller, ControlledCall, Filter, Membership, Origin,
        Provider, Source, View, VirtualKey,
    },
    money::Money,
    tool::{
        Allowlist, Answers, CallError, ClientName, ErrorKind, HostCode, Policy, Tool, ToolOutput,
    },
};
use airlock_store::{
    Settings,
    limits::{CountSelection, MAX_CHANGED_LIMITS},
};
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, join_all},
};
use serde_json::json;
use tokio::time::{Instant, advance};

use super::{
    MINUTE, MINUTE_AT_MOST,
    home::{TestHome, limiter, on_both, state},
    limit,
};
use crate::{
    Limiter,
    limit::{Limit, Measure, Owner, Scope, Window},
    price::PriceTable,
};

pub(super) const BUDGET: Budget = Budget {
    deadline: Duration::from_secs(30),
    script: Duration::from_secs(30),
    nested_calls: 3,
    depth: 3,
    in_flight: 8,
};

/// Responds to each call.
struct Echo;

impl Provider for Echo {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move { Ok(ToolOutput::text(call.tool().name.as_str())) })
    }
}

/// Admits a call of a tool of the client `files`, of a key in the team `t`.
fn admitted(key: &str, tool: &str, control: Option<Arc<dyn CallControl>>) -> Admitted {
    let caller = caller(key, tool, control);
    caller.admit(&format!("files-{tool}"), "{}").expect("it is permitted")
}

pub(super) fn caller(key: &str, tool: &str, control: Option<Arc<dyn CallControl>>) -> Caller {
    Caller::new(view(key, tool, control), Origin::Caller, BUDGET)
}

pub(super) fn view(key: &str, tool: &str, control: Option<Arc<dyn CallControl>>) -> View {
    let client = ClientName::parse("files").expect("a name");
    let definition = json!({"name": tool, "inputSchema": {}});
    let definition = serde_json::from_value(definition).expect("a definition");
    let tools = [Arc::new(Tool::adopt(&client, definition).expect("a good tool"))];
    let policy =
        Policy { execute: Allowlist::All, auto_execute: Allowlist::All, ..Policy::default() };
    let provider: Arc<dyn Provider> = Arc::new(Echo);
    let source = Source {
        client: &client,
        policy: &policy,
        tools: &tools,
        unaccepted: &BTreeSet::new(),
        provider: &provider,
        is_server: false,
        is_switched_off: false,
    };
    let membership = Membership {
        key: Some(key.to_owned()),
        team: Some("t".to_owned()),
        ..Membership::default()
    };
    let rows = BTreeMap::from([(client.clone(), Allowlist::All)]);
    let key = VirtualKey::new(key, "sk-bf-test", rows).with_membership(membership);
    View::new([source], None, &Filter::none(), Some(&key)).with_control(control)
}

pub(super) async fn begin(
    limiter: &Limiter,
    tool: &str,
) -> Result<Box<dyn ControlledCall>, CallError> {
    CallControl::begin(limiter, &admitted("k", tool, None)).await
}

/// Makes a call that succeeds, or returns the code of the refusal.
pub(super) async fn call(limiter: &Arc<Limiter>, key: &str) -> Result<(), HostCode> {
    let call = admitted(key, "read", Some(limiter.clone()));
    call.run().await.map(drop).map_err(|error| error.code())
}

/// Opens the stores, so that no call waits for their tables.
pub(super) async fn open(limiters: &[Arc<Limiter>]) {
    for limiter in limiters {
        limiter.states(&["all"]).await.expect("read");
    }
}

fn calls(id: &str, most: u64) -> Limit {
    limit(id, Measure::ToolCalls, most, MINUTE)
}

on_both! {
    a_call_takes_of_all_its_limits_or_of_none,
    a_refused_call_may_be_made_when_the_window_has_passed_and_not_before,
    a_call_that_was_not_made_does_not_count,
    a_continuation_is_the_call_that_it_goes_on_with,
    calls_have_the_price_of_their_tool,
    a_call_in_the_place_of_another_one_costs_its_own_price,
    as_many_calls_run_as_the_limit,
    a_call_that_waits_for_the_store_takes_no_place_of_those_that_run,
    a_gateway_with_many_calls_counts_a_share_in_memory,
    a_gateway_that_ends_returns_the_rest_of_its_shares_and_leases_no_more,
    a_caller_that_leaves_takes_nothing,
    a_call_that_ends_after_its_limit_was_removed_leaves_no_count,
}

on_both! {
    threads: of_parallel_calls_on_ten_gateways_exactly_the_limit_passes,
        callers_with_overlapping_limits_do_not_block_each_other,
}

async fn of_parallel_calls_on_ten_gateways_exactly_the_limit_passes(home: TestHome) {
    let limits = [calls("all", 100), calls("wide", 1_000)];
    let limiters = [(); 10].map(|()| home.limiter(&limits));
    open(&limiters).await;
    // On each gateway they are too few for a share in advance.
    let all = (0..300).map(|number| {
        let limiter = limiters[number % limiters.len()].clone();
        tokio::spawn(async move { call(&limiter, "k").await })
    });
    let results = join_all(all).await.into_iter().map(|result| result.expect("no panic"));
    let (passed, refused): (Vec<_>, Vec<_>) = results.partition(Result::is_ok);
    assert_eq!(passed.len(), 100);
    assert!(refused.iter().all(|result| *result == Err(HostCode::LimitReached)), "{refused:?}");
    for limiter in &limiters {
        assert_eq!(call(limiter, "k").await, Err(HostCode::LimitReached), "the next one too");
        assert_eq!(state(limiter, "all").await.used, 100);
        assert_eq!(state(limiter, "wide").await.used, 100, "a refused call takes nothing");
    }
}

async fn callers_with_overlapping_limits_do_not_block_each_other(home: TestHome) {
    let limits: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .flat_map(|id| {
            let others = ["a", "b", "c"].into_iter().filter(move |other| *other != id);
            others.map(move |key| Limit {
                owner: Owner::Key(key.to_owned()),
                ..calls(&format!("{id}-{key}"), 1_000)
            })
        })
        .chain([calls("all", 1_000)])
        .collect();
    let limiters = [home.limiter(&limits), home.limiter(&limits)];
    open(&limiters).await;
    let all = (0..60).map(|number| {
        let limiter = limiters[number % 2].clone();
        tokio::spawn(async move { call(&limiter, ["a", "b", "c"][number % 3]).await })
    });
    for result in join_all(all).await {
        result.expect("no panic").expect("it passes");
    }
    assert_eq!(state(&limiters[0], "all").await.used, 60);
    assert_eq!(state(&limiters[1], "a-b").await.used, 20);
}

async fn a_call_takes_of_all_its_limits_or_of_none(home: TestHome) {
    let of_tool = Limit { scope: Scope::Tool("files-write".into()), ..calls("z", 1) };
    let of_team = Limit { owner: Owner::Team("t".into()), ..calls("m", 3) };
    let of_other = Limit { owner: Owner::Key("other".into()), ..calls("b", 0) };
    let limiter = home.limiter(&[of_tool, of_team, of_other]);
    begin(&limiter, "write").await.map(drop).expect("it passes");
    let error = begin(&limiter, "write").await.map(drop).expect_err("the limit of the tool");
    assert_eq!((error.code(), error.kind()), (HostCode::LimitReached, ErrorKind::RateLimited));
    let wait = error.retry_after().expect("it ends");
    assert!(wait > Duration::from_mins(1) && wait <= MINUTE_AT_MOST, "{wait:?}");
    assert!(error.to_string().contains("1 tool calls for tool 'files-write'"), "{error}");
    assert_eq!(state(&limiter, "m").await.used, 1);
    begin(&limiter, "read").await.map(drop).expect("another tool");
    begin(&limiter, "read").await.map(drop).expect("the last of the team");
    // A refusal is repeated for a moment without the store.
    advance(Duration::from_secs(1)).await;
    let error = begin(&limiter, "write").await.map(drop).expect_err("both");
    assert!(error.to_string().contains("of this team"), "the first one in order: {error}");
}

async fn a_refused_call_may_be_made_when_the_window_has_passed_and_not_before(home: TestHome) {
    let limiter = home.limiter(&[calls("l", 1)]);
    begin(&limiter, "read").await.map(drop).expect("it passes");
    home.step_back(Duration::from_secs(30));
    begin(&limiter, "read").await.map(drop).expect_err("a step back gives nothing");
    home.pass(Duration::from_secs(90));
    // A refusal is repeated for a moment without the store.
    advance(Duration::from_secs(1)).await;
    begin(&limiter, "read")
        .await
        .map(drop)
        .expect_err("a minute since the call, to the bucket's end");
    home.pass(MINUTE_AT_MOST);
    advance(Duration::from_secs(1)).await;
    begin(&limiter, "read").await.map(drop).expect("it passes");
}

async fn a_call_that_was_not_made_does_not_count(home: TestHome) {
    let limiter = home.limiter(&[calls("l", 10)]);
    let refused = CallError::records_unavailable();
    let away = CallError::new(ErrorKind::Unavailable, HostCode::Unavailable, "away").not_begun();
    for error in [refused, away] {
        begin(&limiter, "read").await.expect("it passes").end(&Err(error));
        assert_eq!(state(&limiter, "l").await.used, 0);
    }
    let failed = CallError::new(ErrorKind::Unavailable, HostCode::Unavailable, "lost on the way");
    begin(&limiter, "read").await.expect("it passes").end(&Err(failed));
    assert_eq!(state(&limiter, "l").await.used, 1);
    begin(&limiter, "read").await.expect("it passes").end(&Ok(ToolOutput::text("done")));
    drop(begin(&limiter, "read").await.expect("it passes"));
    assert_eq!(state(&limiter, "l").await.used, 3, "a cancelled call may have had its effect");
    // As a plugin may return it, whose own call was refused after others.
    let nested = CallError::limit_reached("calls of a test", None);
    begin(&limiter, "read").await.expect("it passes").end(&Err(nested));
    assert_eq!(state(&limiter, "l").await.used, 4);
}

async fn a_continuation_is_the_call_that_it_goes_on_with(home: TestHome) {
    let running = limit("running", Measure::Concurrency, 1, Window::Never);
    let limiter = home.limiter(&[calls("l", 1), running]);
    drop(begin(&limiter, "read").await.expect("it passes"));
    let answers = Answers { token: String::new(), given: BTreeMap::new() };
    let resumed = caller("k", "read", None).resume("files-read", "{}", answers);
    let resumed = resumed.expect("it is permitted");
    let continued = CallControl::begin(&*limiter, resumed.call()).await;
    assert!(continued.is_ok(), "it was counted");
    let second = CallControl::begin(&*limiter, resumed.call()).await;
    second.map(drop).expect_err("one runs");
    assert_eq!(state(&limiter, "l").await.used, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_another_process_holds_blocks_its_own_callers_alone() {
    let Some(home) = TestHome::postgres() else { return };
    let of_key =
        ["held", "free"].map(|key| Limit { owner: Owner::Key(key.into()), ..calls(key, 9) });
    let limiters = [home.limiter(&of_key), home.limiter(&of_key)];
    open(&limiters).await;
    let [stopped, running] = &limiters;
    let database = stopped.store.available().await.expect("it is open");
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let limits = BTreeSet::from(["held".to_owned()]);
    let selection = CountSelection { limits, ..CountSelection::default() };
    let holding = database.change_counts(selection, move |_| {
        let _ = begun.send(());
        wait.recv().is_err()
    });
    let calling = async {
        has_begun.await.expect("it has begun");
        let results =
            tokio::join!(call(running, "held"), call(running, "held"), call(running, "free"));
        drop(go);
        results
    };
    let (_, (first, second, free)) = tokio::join!(holding, calling);
    assert_eq!([first, second], [Err(HostCode::Unavailable); 2]);
    assert_eq!(free, Ok(()));
}

async fn calls_have_the_price_of_their_tool(home: TestHome) {
    let limiter = home.limiter(&[limit("l", Measure::Cost, 10, Window::Never)]);
    let price = Money::from_millionths(6);
    limiter.set_prices(PriceTable::default().with_calls([("files-w*".to_owned(), price)]));
    begin(&limiter, "write").await.map(drop).expect("it passes");
    let error = begin(&limiter, "write").await.map(drop).expect_err("4 are left");
    assert_eq!((error.kind(), error.retry_after()), (ErrorKind::LimitReached, None));
    begin(&limiter, "read").await.map(drop).expect("it costs nothing");
    assert_eq!(state(&limiter, "l").await.used, 6);
}

async fn a_call_in_the_place_of_another_one_costs_its_own_price(home: TestHome) {
    let limiter = home.limiter(&[limit("l", Measure::Cost, 10, Window::Never), calls("calls", 10)]);
    let price = Money::from_millionths(6);
    limiter.set_prices(PriceTable::default().with_calls([("files-read".to_owned(), price)]));
    let call = admitted("k", "read", None);
    let replacing = call.chain().admit_in_place(&Origin::Caller, "files-read", call.arguments());
    let replacing = replacing.expect("it needs no approval");
    CallControl::begin(&*limiter, &replacing).await.map(drop).expect("it passes");
    assert_eq!(state(&limiter, "l").await.used, 6);
    assert_eq!(state(&limiter, "calls").await.used, 0, "the call that it replaces is counted");
    let error = CallControl::begin(&*limiter, &replacing).await.map(drop).expect_err("4 are left");
    assert_eq!(error.code(), HostCode::BudgetExceeded);
}

async fn as_many_calls_run_as_the_limit(home: TestHome) {
    let limiter = home.limiter(&[limit("l", Measure::Concurrency, 2, Window::Never)]);
    let running = [begin(&limiter, "read").await, begin(&limiter, "read").await];
    assert!(running.iter().all(Result::is_ok));
    assert_eq!(state(&limiter, "l").await.used, 2);
    let error = begin(&limiter, "read").await.map(drop).expect_err("two run");
    assert_eq!((error.code(), error.kind()), (HostCode::LimitReached, ErrorKind::RateLimited));
    drop(running);
    begin(&limiter, "read").await.map(drop).expect("none runs");
}

async fn a_call_that_waits_for_the_store_takes_no_place_of_those_that_run(home: TestHome) {
    let of_key = Limit { owner: Owner::Key("k".into()), ..calls("l", 10) };
    let limiter = home.limiter(&[of_key, limit("running", Measure::Concurrency, 1, Window::Never)]);
    let waiting_call = admitted("k", "read", None);
    let mut waiting = CallControl::begin(&*limiter, &waiting_call);
    assert!(waiting.as_mut().now_or_never().is_none(), "it asks the store");
    let other = admitted("other", "read", None);
    let running = CallControl::begin(&*limiter, &other).await.expect("none runs");
    let error = waiting.await.map(drop).expect_err("one runs");
    assert_eq!((error.code(), error.kind()), (HostCode::LimitReached, ErrorKind::RateLimited));
    assert_eq!(state(&limiter, "l").await.used, 0, "it is returned");
    drop(running);
    begin(&limiter, "read").await.map(drop).expect("none runs");
}

async fn a_gateway_with_many_calls_counts_a_share_in_memory(home: TestHome) {
    let limits = [calls("l", 100_000)];
    let limiter = home.limiter(&limits);
    let live = limiter.limits();
    let live = live.find("l").expect("it exists");
    for _ in 0..60 {
        live.local.note_call(1, Instant::now());
    }
    begin(&limiter, "read").await.map(drop).expect("it passes");
    // The call, and a share for the 61 calls of this second.
    let other = home.limiter(&limits);
    assert_eq!(state(&other, "l").await.used, 62);
    for _ in 0..20 {
        begin(&limiter, "read").await.map(drop).expect("it passes");
    }
    let away = CallError::new(ErrorKind::Unavailable, HostCode::Unavailable, "away").not_begun();
    begin(&limiter, "read").await.expect("it passes").end(&Err(away));
    assert_eq!(state(&other, "l").await.used, 62, "the store was not asked");
    advance(Duration::from_secs(1)).await;
    assert_eq!(state(&limiter, "l").await.used, 21, "the rest of the share is returned");
}

async fn a_gateway_that_ends_returns_the_rest_of_its_shares_and_leases_no_more(home: TestHome) {
    // More than one transaction returns.
    let ids: Vec<_> = (0..MAX_CHANGED_LIMITS).map(|number| format!("l-{number}")).collect();
    let limits = ids.iter().map(|id| Limit { owner: Owner::Key(id.clone()), ..calls(id, 100_000) });
    let limits: Vec<_> = limits.chain([calls("all", 100_000)]).collect();
    let limiter = home.limiter(&limits);
    let live = limiter.limits();
    for limit in &limits {
        let live = live.find(&limit.id).expect("it exists");
        for _ in 0..60 {
            live.local.note_call(1, Instant::now());
        }
    }
    for id in &ids {
        call(&limiter, id).await.expect("it passes");
    }
    let other = home.limiter(&limits);
    for id in &ids {
        assert!(state(&other, id).await.used > 60, "a share is out");
    }
    limiter.end().await;
    for id in &ids {
        assert_eq!(state(&other, id).await.used, 1);
    }
    assert_eq!(state(&other, "all").await.used, ids.len() as u64);
    call(&limiter, "l-0").await.expect("it passes");
    assert_eq!(state(&other, "l-0").await.used, 2, "the store counts it");
}

async fn a_caller_that_leaves_takes_nothing(home: TestHome) {
    let limiter = home.limiter(&[calls("l", 10)]);
    begin(&limiter, "read").await.map(drop).expect("the store is open");
    let call = admitted("k", "read", None);
    for _ in 0..5 {
        let begun = CallControl::begin(&*limiter, &call);
        assert!(begun.now_or_never().is_none(), "it asks the store");
    }
    assert_eq!(state(&limiter, "l").await.used, 1);
}

async fn a_call_that_ends_after_its_limit_was_removed_leaves_no_count(home: TestHome) {
    let limiter = home.limiter(&[calls("l", 10)]);
    let running = begin(&limiter, "read").await.expect("it passes");
    limiter.set(&[]);
    limiter.forget(["l".to_owned()].into());
    let away = CallError::new(ErrorKind::Unavailable, HostCode::Unavailable, "away").not_begun();
    running.end(&Err(away));
    limiter.flush().await;
    let database = limiter.store.available().await.expect("it is open");
    let read = database.counts(vec!["l".to_owned()]).await.expect("read");
    assert!(read.counts.is_empty(), "{:?}", read.counts);
}

#[tokio::test]
async fn without_its_store_a_limited_call_is_refused_and_another_one_passes() {
    let limits = [Limit { owner: Owner::Key("k".into()), ..calls("l", 10) }];
    let limiter = limiter(Settings::new(Path::new("/dev/null/airlock.db")), &limits);
    assert_eq!(call(&limiter, "k").await, Err(HostCode::Unavailable));
    assert_eq!(call(&limiter, "other").await, Ok(()));
    limiter.flush().await;
}
