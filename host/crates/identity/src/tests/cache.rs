//! Fetches of the key set, and the time for which it is used.

use std::sync::Arc;

use tokio::time::Instant;

use super::*;
use crate::{
    fetch::TIMEOUT,
    key_cache::{MAX_STALENESS, PAUSE, PAUSE_WITHOUT_KEYS},
};

/// Distance from each limit on both sides: more than a slow machine takes for a step of a test.
const MARGIN: Duration = Duration::from_secs(10);
/// Lifetime of a key set that says nothing about it.
const LIFETIME: Duration = Duration::from_mins(10);

fn unavailable(outcome: &Result<Principal, TokenRefusal>) -> bool {
    matches!(outcome, Err(TokenRefusal::Unavailable { .. }))
}

#[tokio::test]
async fn nothing_is_fetched_before_the_first_token_that_could_be_valid() {
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    for odd in ["", "x", "a.b.c"] {
        assert_eq!(gate.invalid(odd).await, InvalidToken::Malformed);
    }
    assert_eq!(gate.issuer.fetches(), 0);
    assert!(gate.verify(&signer.token(&claims())).await.is_ok());
    assert_eq!(gate.issuer.fetches(), 1);
    assert!(gate.issuer.heads().contains("accept: application/json"));
}

#[tokio::test]
async fn requests_at_the_same_time_cause_one_fetch() {
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    let token = signer.token(&claims());
    let all = (0..100).map(|_| gate.verify(&token));
    let outcomes = futures_util::future::join_all(all).await;
    assert!(outcomes.iter().all(Result::is_ok));
    assert_eq!(gate.issuer.fetches(), 1);
}

#[tokio::test]
async fn a_caller_that_gives_up_does_not_stop_the_fetch_of_the_others() {
    let signer = Signer::es256("a");
    let gate = Arc::new(Gate::with(Page::IsSilent, |_| {}).await);
    let first = start_verifying(&gate, &signer);
    until(|| gate.issuer.fetches() == 1).await;
    let second = start_verifying(&gate, &signer);
    tokio::task::yield_now().await;
    first.abort();
    assert!(first.await.expect_err("it was stopped").is_cancelled());
    pass(TIMEOUT).await;
    assert!(unavailable(&second.await.expect("no panic")));
    assert_eq!(gate.issuer.fetches(), 1);
}

fn start_verifying(
    gate: &Arc<Gate>,
    signer: &Signer,
) -> tokio::task::JoinHandle<Result<Principal, TokenRefusal>> {
    let gate = gate.clone();
    let token = signer.token(&claims());
    tokio::spawn(async move { gate.verify(&token).await })
}

#[tokio::test]
async fn a_dropped_verifier_stops_its_fetch() {
    let signer = Signer::es256("a");
    let issuer = Issuer::start([("/keys", Page::IsSilent)]).await;
    let verifier =
        Arc::new(verifier(VerifierSettings { jwks_uri: Some(issuer.url("/keys")), ..settings() }));
    let waiting = tokio::spawn({
        let verifier = verifier.clone();
        let token = signer.token(&claims());
        async move { verifier.verify(&token, None).await }
    });
    until(|| issuer.fetches() == 1).await;
    waiting.abort();
    drop(waiting.await);
    let start = Instant::now();
    drop(verifier);
    issuer.until_hung_up().await;
    assert!(start.elapsed() < TIMEOUT);
}

#[tokio::test]
async fn a_key_set_is_fetched_again_after_its_lifetime() {
    let signer = Signer::es256("a");
    let token = signer.token(&claims());
    for (header, lifetime) in [
        ("x-nothing: 1", LIFETIME),
        ("cache-control: public, max-age=90", MARGIN * 9),
        ("cache-control: max-age=1", Duration::from_mins(1)),
        ("cache-control: no-store", Duration::from_mins(1)),
        ("cache-control: max-age=8640000", Duration::from_hours(24)),
    ] {
        let gate = Gate::with(Page::keys(&[signer.jwk()]).with_header(header), |_| {}).await;
        assert!(gate.verify(&token).await.is_ok());
        pass(lifetime.saturating_sub(MARGIN)).await;
        assert!(gate.verify(&token).await.is_ok());
        assert_eq!(gate.issuer.fetches(), 1, "{header}");
        pass(MARGIN).await;
        assert!(gate.verify(&token).await.is_ok());
        assert_eq!(gate.issuer.fetches(), 2, "{header}");
    }
}

#[tokio::test]
async fn a_new_key_works_at_once_and_a_removed_key_stops_with_the_next_fetch() {
    let old = Signer::es256("old");
    let new = Signer::es256("new");
    let old_token = old.token(&claims());
    let new_token = new.token(&claims());
    let gate = Gate::new(&[old.jwk()]).await;
    assert!(gate.verify(&old_token).await.is_ok());
    pass(PAUSE).await;

    gate.issuer.set("/keys", Page::keys(&[old.jwk(), new.jwk()]));
    assert!(gate.verify(&new_token).await.is_ok());
    assert!(gate.verify(&old_token).await.is_ok());
    assert_eq!(gate.issuer.fetches(), 2);

    gate.issuer.set("/keys", Page::keys(&[new.jwk()]));
    // Not yet known: the set is fresh.
    assert!(gate.verify(&old_token).await.is_ok());
    pass(LIFETIME).await;
    assert!(gate.verify(&new_token).await.is_ok());
    // Although its signature was verified before.
    assert_eq!(gate.invalid(&old_token).await, InvalidToken::Key);
}

#[tokio::test]
async fn a_key_without_a_kid_is_replaced_as_well() {
    let old = Signer::es256("x");
    let new = Signer::es256("x");
    let gate = Gate::new(&[nameless(&old)]).await;
    assert!(gate.verify(&nameless_token(&old)).await.is_ok());
    gate.issuer.set("/keys", Page::keys(&[nameless(&new)]));
    // Too early for another fetch.
    assert_eq!(gate.invalid(&nameless_token(&new)).await, InvalidToken::Signature);
    pass(PAUSE).await;
    assert!(gate.verify(&nameless_token(&new)).await.is_ok());
    assert_eq!(gate.invalid(&nameless_token(&old)).await, InvalidToken::Signature);
    assert_eq!(gate.issuer.fetches(), 2);
}

fn nameless(signer: &Signer) -> Value {
    signer.jwk_with(json!({ "kid": null }))
}

fn nameless_token(signer: &Signer) -> String {
    signer.token_with(json!({ "kid": null }), &claims())
}

#[tokio::test]
async fn unknown_kids_cause_one_fetch_in_30_seconds() {
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    let good = signer.token(&claims());
    assert!(gate.verify(&good).await.is_ok());
    for round in 1..=3 {
        for number in 0..200 {
            let stranger = json!({ "kid": format!("{round}-{number}") });
            let token = signer.token_with(stranger, &claims());
            assert_eq!(gate.invalid(&token).await, InvalidToken::Key);
            assert!(gate.verify(&good).await.is_ok());
        }
        assert_eq!(gate.issuer.fetches(), round);
        pass(PAUSE.saturating_sub(MARGIN)).await;
        assert_eq!(
            gate.invalid(&signer.token_with(json!({ "kid": "x" }), &claims())).await,
            InvalidToken::Key
        );
        assert_eq!(gate.issuer.fetches(), round);
        pass(MARGIN).await;
    }
    let all = (0..100).map(|number| {
        let token = signer.token_with(json!({ "kid": number.to_string() }), &claims());
        let gate = &gate;
        async move { gate.verify(&token).await }
    });
    let outcomes = futures_util::future::join_all(all).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Err(InvalidToken::Key.into())));
    assert_eq!(gate.issuer.fetches(), 4);
}

#[tokio::test]
async fn a_known_key_does_not_wait_for_the_fetch_of_an_unknown_one() {
    let signer = Signer::es256("a");
    let gate = Arc::new(Gate::new(&[signer.jwk()]).await);
    let good = signer.token(&claims());
    assert!(gate.verify(&good).await.is_ok());
    pass(PAUSE).await;
    gate.issuer.set("/keys", Page::IsSilent);
    let waiting = tokio::spawn({
        let gate = gate.clone();
        let token = signer.token_with(json!({ "kid": "b" }), &claims());
        async move { gate.verify(&token).await }
    });
    until(|| gate.issuer.fetches() == 2).await;
    assert!(gate.verify(&good).await.is_ok());
    assert!(!waiting.is_finished());
    pass(TIMEOUT).await;
    assert_eq!(waiting.await.expect("no panic"), Err(InvalidToken::Key.into()));
}

#[tokio::test]
async fn a_wrong_signature_or_claim_of_a_known_key_causes_no_fetch() {
    let signer = Signer::es256("a");
    let thief = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    assert!(gate.verify(&signer.token(&claims())).await.is_ok());
    pass(PAUSE).await;
    assert_eq!(gate.invalid(&thief.token(&claims())).await, InvalidToken::Signature);
    let foreign = signer.token(&claims_with(json!({ "aud": "x" })));
    assert_eq!(gate.invalid(&foreign).await, InvalidToken::Audience);
    assert_eq!(gate.issuer.fetches(), 1);
}

#[tokio::test]
async fn the_old_keys_work_through_an_outage_of_24_hours_and_no_longer() {
    let signer = Signer::es256("a");
    let token = signer.token(&claims());
    let gate = Gate::new(&[signer.jwk()]).await;
    assert!(gate.verify(&token).await.is_ok());
    gate.issuer.set("/keys", Page::status("503 Service Unavailable"));
    pass(LIFETIME).await;
    assert!(gate.verify(&token).await.is_ok());
    assert_eq!(gate.issuer.fetches(), 2);
    for _ in 0..100 {
        assert!(gate.verify(&token).await.is_ok());
    }
    assert_eq!(gate.issuer.fetches(), 2);
    pass(MAX_STALENESS.saturating_sub(MARGIN)).await;
    assert!(gate.verify(&token).await.is_ok());
    pass(MARGIN).await;
    assert!(unavailable(&gate.verify(&token).await));
    // And the issuer is back.
    gate.issuer.set("/keys", Page::keys(&[signer.jwk()]));
    pass(PAUSE_WITHOUT_KEYS).await;
    assert!(gate.verify(&token).await.is_ok());
}

#[tokio::test]
async fn during_an_outage_requests_do_not_wait_for_the_issuer() {
    let signer = Signer::es256("a");
    let token = signer.token(&claims());
    let gate = Gate::new(&[signer.jwk()]).await;
    assert!(gate.verify(&token).await.is_ok());
    gate.issuer.set("/keys", Page::HangsUp);
    pass(LIFETIME).await;
    assert!(gate.verify(&token).await.is_ok());
    let failed = gate.issuer.fetches();
    // From here, the issuer does not respond at all.
    gate.issuer.set("/keys", Page::IsSilent);
    pass(PAUSE).await;
    let start = Instant::now();
    assert!(gate.verify(&token).await.is_ok());
    until(|| gate.issuer.fetches() == failed + 1).await;
    assert!(gate.verify(&token).await.is_ok());
    assert!(start.elapsed() < TIMEOUT);
}

#[tokio::test]
async fn a_removed_key_does_not_profit_from_an_outage_long_ago() {
    let old = Signer::es256("old");
    let new = Signer::es256("new");
    let gate = Gate::new(&[old.jwk()]).await;
    assert!(gate.verify(&old.token(&claims())).await.is_ok());
    pass(PAUSE).await;
    gate.issuer.set("/keys", Page::status("503 Service Unavailable"));
    assert_eq!(gate.invalid(&new.token(&claims())).await, InvalidToken::Key);
    gate.issuer.set("/keys", Page::keys(&[new.jwk()]));
    pass(LIFETIME).await;
    assert_eq!(gate.invalid(&old.token(&claims())).await, InvalidToken::Key);
}

#[tokio::test]
async fn without_keys_the_issuer_is_asked_every_5_seconds() {
    let signer = Signer::es256("a");
    let token = signer.token(&claims());
    let gate = Gate::with(Page::status("503 Service Unavailable"), |_| {}).await;
    for fetches in 1..=3 {
        for _ in 0..50 {
            match gate.verify(&token).await {
                Err(refusal @ TokenRefusal::Unavailable { .. }) => {
                    assert!(
                        refusal.retry_after_s().is_some_and(|seconds| (1..=5).contains(&seconds))
                    );
                }
                other => panic!("not unavailable: {other:?}"),
            }
        }
        assert_eq!(gate.issuer.fetches(), fetches);
        pass(PAUSE_WITHOUT_KEYS).await;
    }
    gate.issuer.set("/keys", Page::keys(&[signer.jwk()]));
    assert!(gate.verify(&token).await.is_ok());
}

#[tokio::test]
async fn a_malformed_key_set_does_not_replace_a_good_one() {
    let signer = Signer::es256("a");
    let token = signer.token(&claims());
    let gate = Gate::new(&[signer.jwk()]).await;
    assert!(gate.verify(&token).await.is_ok());
    gate.issuer.set("/keys", Page::json("{}"));
    pass(LIFETIME).await;
    assert!(gate.verify(&token).await.is_ok());
    assert_eq!(gate.issuer.fetches(), 2);
}

#[tokio::test]
async fn other_settings_of_one_issuer_share_its_keys_and_decide_by_their_own_rules() {
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    let token = signer.token(&claims());
    assert!(gate.verify(&token).await.is_ok());
    let own = gate.verifier.settings().clone();
    let without_staff = VerifierSettings { views: vec![rule("admins", "all")], ..own.clone() };
    let stricter = gate.verifier.with_settings(without_staff, client()).expect("good settings");
    let at = UNIX_EPOCH + Duration::from_secs(NOW);
    assert!(matches!(stricter.verify_at(&token, None, at).await, Err(TokenRefusal::View)));
    assert_eq!(gate.issuer.fetches(), 1);
    let elsewhere = VerifierSettings { jwks_uri: Some(gate.issuer.url("/others")), ..own };
    let elsewhere = gate.verifier.with_settings(elsewhere, client()).expect("good settings");
    assert!(unavailable(&elsewhere.verify_at(&token, None, at).await));
}

fn client() -> reqwest::ClientBuilder {
    reqwest::Client::builder().no_proxy()
}
