//! Limits of requests to models.

use std::{pin::Pin, time::Duration};

use airlock_core::{
    door::Membership,
    model_control::{
        ControlRefusal, ControlledModelRequest, ModelControl, ModelOutcome, ModelRequest,
        ServiceTier, TokenUsage,
    },
    tenant::Tenant,
    tool::HostCode,
};
use airlock_store::Settings;
use futures_util::FutureExt as _;

use super::{
    MINUTE,
    home::{TestHome, limiter, on_both, state},
    limit,
};
use crate::{
    Limiter, MAX_TOKENS, UNDECLARED_OUTPUT,
    limit::{Limit, Measure, Scope, Window},
    price::{ModelPrice, PriceOverride, PriceTable, TierPrice},
    worker::QUEUE,
};

/// Tokens that are reserved for the input of each request of the tests.
const INPUT: u64 = 10;

/// Begins a request with 30 bytes of text.
async fn begin(
    limiter: &Limiter,
    model: &str,
    max_output_tokens: Option<u64>,
) -> Result<Box<dyn ControlledModelRequest>, ControlRefusal> {
    begin_of(limiter, &Tenant::ANONYMOUS, &[model], max_output_tokens).await
}

/// Begins a request of a tier with 30 bytes of text.
async fn begin_in(
    limiter: &Limiter,
    tier: ServiceTier,
    max_output_tokens: Option<u64>,
) -> Result<Box<dyn ControlledModelRequest>, ControlRefusal> {
    let tenant = Tenant::ANONYMOUS;
    let membership = Membership::default();
    let request = request(&tenant, &membership, "tiered", &[], max_output_tokens);
    ModelControl::begin(limiter, ModelRequest { tier, ..request }).await
}

/// Begins such a request of a tenant, with the model that is asked first and its fallbacks.
async fn begin_of(
    limiter: &Limiter,
    tenant: &Tenant,
    models: &[&str],
    max_output_tokens: Option<u64>,
) -> Result<Box<dyn ControlledModelRequest>, ControlRefusal> {
    let fallbacks: Vec<_> = models[1..].iter().map(|&model| model.to_owned()).collect();
    let membership = Membership::default();
    let request = request(tenant, &membership, models[0], &fallbacks, max_output_tokens);
    ModelControl::begin(limiter, request).await
}

fn request<'r>(
    tenant: &'r Tenant,
    membership: &'r Membership,
    model: &'r str,
    fallbacks: &'r [String],
    max_output_tokens: Option<u64>,
) -> ModelRequest<'r> {
    ModelRequest {
        tenant,
        membership,
        model,
        fallbacks,
        bytes: 30,
        choices: 1,
        max_output_tokens,
        tier: ServiceTier::Standard,
        is_streamed: false,
        tool_tokens: None,
    }
}

fn outcome(usage: Option<TokenUsage>) -> ModelOutcome<'static> {
    ModelOutcome { provider: Some("p"), usage, ..ModelOutcome::default() }
}

fn usage(input: u64, output: u64) -> TokenUsage {
    TokenUsage { input, output, ..TokenUsage::default() }
}

fn tokens(most: u64) -> Limit {
    limit("tokens", Measure::Tokens, most, Window::Never)
}

/// Prices of which each token of the response costs a dollar, and the rest nothing.
fn prices() -> PriceTable {
    let price = ModelPrice::new(0, 0, 1_000_000_000_000);
    let model = "dear*".to_owned();
    PriceTable::default().with_models([PriceOverride { provider: None, model, price }])
}

on_both! {
    a_request_is_charged_what_it_has_used,
    a_request_of_unknown_usage_is_charged_its_reservation,
    a_request_that_was_not_begun_does_not_count,
    a_reservation_of_a_gateway_that_was_killed_stays_charged,
    a_request_that_declares_more_than_is_left_is_refused,
    a_request_that_declares_nothing_takes_what_is_left_and_is_the_last,
    a_limit_of_money_needs_a_price,
    a_budget_without_a_rest_refuses_requests_that_cost_nothing_too,
    limits_of_a_model_count_its_requests_alone,
    limits_of_a_fallback_hold_and_are_returned_if_another_model_responds,
    a_model_that_may_have_worked_before_its_fallback_counts,
    a_fallback_without_a_price_or_with_a_higher_one_is_reckoned_with,
    a_stream_that_is_cut_off_is_charged_what_was_received,
    a_tier_is_reserved_and_charged_at_its_price,
}

async fn a_request_is_charged_what_it_has_used(home: TestHome) {
    let limiter = home.limiter(&[tokens(100_000_000), limit("r", Measure::Requests, 5, MINUTE)]);
    let running = begin(&limiter, "m", Some(90)).await.expect("it passes");
    let reserved = state(&limiter, "tokens").await;
    assert_eq!((reserved.used, reserved.reserved), (INPUT + 90, INPUT + 90));
    running.end(&outcome(Some(usage(7, 5))));
    let settled = state(&limiter, "tokens").await;
    assert_eq!((settled.used, settled.reserved), (12, 0));
    // A provider that lies is believed only up to what is possible.
    let running = begin(&limiter, "m", Some(90)).await.expect("it passes");
    running.end(&outcome(Some(usage(u64::MAX, u64::MAX))));
    assert_eq!(state(&limiter, "tokens").await.used, 12 + 2 * MAX_TOKENS);
    let requests = state(&limiter, "r").await;
    assert_eq!((requests.used, requests.reserved), (2, 0));
}

async fn a_request_of_unknown_usage_is_charged_its_reservation(home: TestHome) {
    let limiter = home.limiter(&[tokens(100_000)]);
    let each = INPUT + 90;
    begin(&limiter, "m", Some(90)).await.expect("it passes").end(&outcome(None));
    assert_eq!(state(&limiter, "tokens").await.used, each);
    let nothing = outcome(Some(usage(0, 0)));
    begin(&limiter, "m", Some(90)).await.expect("it passes").end(&nothing);
    assert_eq!(state(&limiter, "tokens").await.used, 2 * each, "no tokens are no count");
    drop(begin(&limiter, "m", Some(90)).await.expect("it passes"));
    let cut_off = state(&limiter, "tokens").await;
    assert_eq!((cut_off.used, cut_off.reserved), (3 * each, 0));
    let failed = ModelOutcome { error: Some("lost"), ..outcome(Some(usage(0, 4))) };
    begin(&limiter, "m", Some(90)).await.expect("it passes").end(&failed);
    assert_eq!(state(&limiter, "tokens").await.used, 3 * each + INPUT + 4, "at least the input");
}

async fn a_request_that_was_not_begun_does_not_count(home: TestHome) {
    let limiter = home.limiter(&[tokens(1_000), limit("r", Measure::Requests, 5, MINUTE)]);
    let refused = ModelOutcome { has_not_begun: true, error: Some("busy"), ..outcome(None) };
    begin(&limiter, "m", None).await.expect("it passes").end(&refused);
    for id in ["tokens", "r"] {
        let state = state(&limiter, id).await;
        assert_eq!((state.used, state.reserved), (0, 0), "{id}");
    }
}

async fn a_reservation_of_a_gateway_that_was_killed_stays_charged(home: TestHome) {
    let killed = home.limiter(&[tokens(1_000)]);
    let other = home.limiter(&[tokens(1_000)]);
    let running = begin(&killed, "m", Some(90)).await.expect("it passes");
    drop(killed);
    // As if the process had ended: nothing of the request is told to the store.
    std::mem::forget(running);
    let left = state(&other, "tokens").await;
    assert_eq!((left.used, left.reserved), (100, 100));
    home.pass(Duration::from_hours(7));
    let expired = state(&other, "tokens").await;
    assert_eq!((expired.used, expired.reserved), (100, 0));
}

async fn a_request_that_declares_more_than_is_left_is_refused(home: TestHome) {
    let limiter = home.limiter(&[tokens(250)]);
    let running = begin(&limiter, "m", Some(190)).await.expect("it passes");
    let refusal = begin(&limiter, "m", Some(41)).await.map(drop).expect_err("50 are left");
    assert_eq!((refusal.code, refusal.retry_after), (HostCode::LimitReached, None));
    assert!(refusal.message.contains("may need 51 tokens, and 50 tokens are left"), "{refusal:?}");
    begin(&limiter, "m", Some(40)).await.map(drop).expect("exactly what is left");
    running.end(&outcome(Some(usage(1, 1))));
    limiter.flush().await;
    begin(&limiter, "m", Some(188)).await.map(drop).expect("the rest was returned");
    assert_eq!(state(&limiter, "tokens").await.used, 250);
}

async fn a_request_that_declares_nothing_takes_what_is_left_and_is_the_last(home: TestHome) {
    let limiter = home.limiter(&[tokens(500 + UNDECLARED_OUTPUT)]);
    let first = begin(&limiter, "m", None).await.expect("it passes");
    let second = begin(&limiter, "m", None).await.expect("490 are left");
    let refusal = begin(&limiter, "m", None).await.map(drop).expect_err("nothing is left");
    assert_eq!(refusal.code, HostCode::LimitReached);
    first.end(&outcome(Some(usage(10, 500 + UNDECLARED_OUTPUT))));
    second.end(&outcome(None));
    let most = 500 + UNDECLARED_OUTPUT;
    assert_eq!(state(&limiter, "tokens").await.used, most + 10 + 490);
    begin(&limiter, "m", Some(0)).await.map(drop).expect_err("more than the limit was used");
}

async fn a_limit_of_money_needs_a_price(home: TestHome) {
    let limiter = home.limiter(&[limit("money", Measure::Cost, 100_000_000, Window::Never)]);
    limiter.set_prices(prices());
    let refusal = begin(&limiter, "p/free", Some(1)).await.map(drop).expect_err("no price");
    assert!(refusal.message.contains("model 'p/free' has no price"), "{refusal:?}");
    let running = begin(&limiter, "p/dear-1", Some(90)).await.expect("it passes");
    assert_eq!(state(&limiter, "money").await.used, 90_000_000);
    begin(&limiter, "p/dear-1", Some(11)).await.map(drop).expect_err("10 dollars are left");
    begin(&limiter, "p/dear-1", Some(0)).await.map(drop).expect("it costs nothing");
    running.end(&outcome(Some(usage(1_000, 3))));
    assert_eq!(state(&limiter, "money").await.used, 3_000_000);
}

async fn a_budget_without_a_rest_refuses_requests_that_cost_nothing_too(home: TestHome) {
    let limiter = home.limiter(&[limit("money", Measure::Cost, 0, Window::Never)]);
    limiter.set_prices(prices());
    let refusal =
        begin(&limiter, "p/dear-1", Some(0)).await.map(drop).expect_err("nothing is left");
    assert_eq!((refusal.code, refusal.retry_after), (HostCode::BudgetExceeded, None));
}

async fn limits_of_a_model_count_its_requests_alone(home: TestHome) {
    let scope = Scope::Model { provider: Some("p".into()), model: "m".into() };
    let limiter = home.limiter(&[Limit { scope, ..limit("l", Measure::Requests, 1, MINUTE) }]);
    begin(&limiter, "p/m", None).await.map(drop).expect("it passes");
    begin(&limiter, "p/M", None).await.map(drop).expect_err("the same model");
    begin(&limiter, "p/n", None).await.map(drop).expect("another model");
    begin(&limiter, "q/m", None).await.map(drop).expect("another provider");
}

/// Returns a limit of requests to one model of the provider `p`.
fn of_model(model: &str, most: u64) -> Limit {
    let scope = Scope::Model { provider: Some("p".into()), model: model.into() };
    Limit { scope, ..limit(model, Measure::Requests, most, MINUTE) }
}

async fn limits_of_a_fallback_hold_and_are_returned_if_another_model_responds(home: TestHome) {
    let limiter = home.limiter(&[of_model("m", 9), of_model("n", 1)]);
    let models = ["p/m", "p/n"];
    for asked in models {
        let running = begin_of(&limiter, &Tenant::ANONYMOUS, &models, None).await;
        let outcome = ModelOutcome { asked: Some(asked), ..outcome(Some(usage(1, 1))) };
        running.expect("it passes").end(&outcome);
        let other = if asked == "p/m" { "n" } else { "m" };
        assert_eq!(state(&limiter, asked.trim_start_matches("p/")).await.used, 1);
        assert_eq!(state(&limiter, other).await.used, u64::from(other == "m"));
    }
    let refused = begin_of(&limiter, &Tenant::ANONYMOUS, &models, None).await;
    let refusal = refused.map(drop).expect_err("the limit of the fallback is reached");
    assert!(refusal.message.contains("'p/n'"), "{refusal:?}");
    begin(&limiter, "p/m", None).await.map(drop).expect("it has no fallback");
}

async fn a_model_that_may_have_worked_before_its_fallback_counts(home: TestHome) {
    let limiter = home.limiter(&[of_model("m", 9), of_model("n", 9)]);
    let running = begin_of(&limiter, &Tenant::ANONYMOUS, &["p/m", "p/n"], None).await;
    let outcome = outcome(Some(usage(1, 1)));
    let outcome = ModelOutcome { asked: Some("p/n"), has_others: true, ..outcome };
    running.expect("it passes").end(&outcome);
    for id in ["m", "n"] {
        assert_eq!(state(&limiter, id).await.used, 1, "{id}");
    }
}

async fn a_fallback_without_a_price_or_with_a_higher_one_is_reckoned_with(home: TestHome) {
    let limiter = home.limiter(&[limit("money", Measure::Cost, 100_000_000, Window::Never)]);
    let cheap = PriceOverride {
        provider: None,
        model: "cheap".to_owned(),
        price: ModelPrice::new(0, 0, 1_000_000),
    };
    limiter.set_prices(prices().with_models([cheap]));
    let anyone = &Tenant::ANONYMOUS;
    let refused = begin_of(&limiter, anyone, &["p/cheap", "p/free"], Some(1)).await;
    let refusal = refused.map(drop).expect_err("the fallback has no price");
    assert!(refusal.message.contains("'p/free'"), "{refusal:?}");
    let models = ["p/cheap", "p/dear-1"];
    let refused = begin_of(&limiter, anyone, &models, Some(101)).await;
    refused.map(drop).expect_err("the fallback may cost 101 dollars");
    let running = begin_of(&limiter, anyone, &models, Some(90)).await.expect("it passes");
    assert_eq!(state(&limiter, "money").await.used, 90_000_000);
    // The provider may name another model than it was asked for.
    let told = ModelOutcome { model: Some("cheap"), ..outcome(Some(usage(1, 3))) };
    running.end(&ModelOutcome { asked: Some("p/dear-1"), ..told });
    assert_eq!(state(&limiter, "money").await.used, 3_000_000);
}

async fn a_stream_that_is_cut_off_is_charged_what_was_received(home: TestHome) {
    let limiter = home.limiter(&[tokens(1_000_000)]);
    let received = UNDECLARED_OUTPUT + 100;
    let mut dropped = begin(&limiter, "m", None).await.expect("it passes");
    let mut failed = begin(&limiter, "m", None).await.expect("it passes");
    for _ in 0..received {
        dropped.receives_part();
        failed.receives_part();
    }
    drop(dropped);
    assert_eq!(state(&limiter, "tokens").await.used, INPUT + received + INPUT + UNDECLARED_OUTPUT);
    failed.end(&ModelOutcome { error: Some("lost"), ..outcome(None) });
    assert_eq!(state(&limiter, "tokens").await.used, 2 * (INPUT + received));
}

async fn a_tier_is_reserved_and_charged_at_its_price(home: TestHome) {
    let limiter = home.limiter(&[limit("money", Measure::Cost, 10_000_000, Window::Never)]);
    // Of a token of the response: four dollars, one, and two.
    let [priority, flex] = [4, 1].map(|dollars| {
        let output = dollars * 1_000_000_000_000;
        Some(TierPrice { input: 0, cached_input: 0, output })
    });
    let price = ModelPrice { priority, flex, ..ModelPrice::new(0, 0, 2_000_000_000_000) };
    let tiered = PriceOverride { provider: None, model: "tiered".to_owned(), price };
    limiter.set_prices(PriceTable::default().with_models([tiered]));
    let refused = begin_in(&limiter, ServiceTier::Priority, Some(3)).await;
    refused.map(drop).expect_err("it may cost 12 dollars");
    // A provider that has no room for the tier that was asked for takes another.
    for (asked, reserved, tier, used) in [
        (ServiceTier::Priority, 4, ServiceTier::Priority, 4),
        (ServiceTier::Priority, 4, ServiceTier::Standard, 2),
        (ServiceTier::Flex, 2, ServiceTier::Flex, 1),
    ] {
        let before = state(&limiter, "money").await.used;
        let running = begin_in(&limiter, asked, Some(1)).await.expect("it passes");
        let taken = state(&limiter, "money").await.used - before;
        let outcome = ModelOutcome { asked: Some("p/tiered"), tier, ..outcome(Some(usage(1, 1))) };
        assert_eq!(running.cost(&outcome), Some(used * 1_000_000), "{asked:?}, {tier:?}");
        running.end(&outcome);
        let settled = state(&limiter, "money").await.used - before;
        assert_eq!((taken, settled), (reserved * 1_000_000, used * 1_000_000), "{asked:?}");
    }
}

#[tokio::test]
async fn a_burst_of_one_tenant_leaves_places_for_others() {
    let limiter = limiter(Settings::new("/dev/null/airlock.db"), &[tokens(1_000)]);
    let greedy = Tenant::of_key([1; 32], "a");
    let most = QUEUE / 2;
    let mut burst: Vec<Pin<Box<_>>> =
        (0..=most).map(|_| Box::pin(begin_of(&limiter, &greedy, &["m"], Some(1)))).collect();
    let mut replies: Vec<_> = burst.iter_mut().map(|begun| begun.as_mut().now_or_never()).collect();
    let last = replies.pop().flatten().expect("it does not wait");
    let refusal = last.map(drop).expect_err("it has no place");
    assert!(refusal.message.contains("too many requests wait"), "{refusal:?}");
    assert!(replies.iter().all(Option::is_none), "half of the places are one tenant's most");
    let other = begin(&limiter, "m", Some(1));
    assert!(other.now_or_never().is_none(), "it has a place");
}

#[tokio::test]
async fn a_request_without_limits_does_not_ask_the_store() {
    let limiter = limiter(Settings::new("/dev/null/airlock.db"), &[]);
    begin(&limiter, "m", None).await.map(drop).expect("it passes");
    limiter.set(&[tokens(1_000)]);
    let refusal = begin(&limiter, "m", Some(1)).await.map(drop).expect_err("no store");
    assert_eq!(refusal.code, HostCode::Unavailable);
}
