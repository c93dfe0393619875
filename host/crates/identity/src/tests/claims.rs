//! The claims of tokens, at and beyond their limits.

use super::*;
use crate::ResourcePart;

/// A gate, and the key of its issuer.
async fn gate_and_signer() -> (Gate, Signer) {
    gate_with(|_| {}).await
}

async fn gate_with(change: impl FnOnce(&mut VerifierSettings)) -> (Gate, Signer) {
    let signer = Signer::es256("a");
    (Gate::with(Page::keys(&[signer.jwk()]), change).await, signer)
}

/// Verifies accepted claims with changes.
async fn outcome(
    (gate, signer): &(Gate, Signer),
    changes: Value,
) -> Result<Principal, TokenRefusal> {
    gate.verify(&signer.token(&claims_with(changes))).await
}

fn invalid<T>(invalid: InvalidToken) -> Result<T, TokenRefusal> {
    Err(TokenRefusal::Invalid(invalid))
}

#[tokio::test]
async fn the_issuer_is_the_configured_one_to_the_byte() {
    let both = gate_and_signer().await;
    for other in [
        "https://idp.example.com/",
        "https://IDP.example.com",
        "http://idp.example.com",
        "https://idp.example.com:443",
        "https://idp.example.com.evil.example",
        "https://idp.example.co",
        "",
    ] {
        assert_eq!(outcome(&both, json!({ "iss": other })).await, invalid(InvalidToken::Issuer));
    }
    assert_eq!(outcome(&both, json!({ "iss": null })).await, invalid(InvalidToken::Claim("iss")));
    for odd in [json!([ISSUER]), json!(1), json!({ "iss": ISSUER })] {
        assert_eq!(
            outcome(&both, json!({ "iss": odd })).await,
            invalid(InvalidToken::Claim("iss"))
        );
    }
}

#[tokio::test]
async fn the_audience_contains_this_gateway() {
    let both = gate_and_signer().await;
    for aud in [json!(RESOURCE), json!([RESOURCE]), json!(["https://other.example", RESOURCE])] {
        assert!(outcome(&both, json!({ "aud": aud })).await.is_ok());
    }
    for aud in [
        json!("https://gw.example.com"),
        json!("https://gw.example.com/mcp/"),
        json!("https://gw.example.com/MCP"),
        json!(format!("{RESOURCE} https://other.example")),
        json!("editor"),
        json!(""),
        json!([]),
        json!(["https://other.example"]),
    ] {
        let refused = outcome(&both, json!({ "aud": aud.clone() })).await;
        assert_eq!(refused, invalid(InvalidToken::Audience), "{aud}");
    }
    for aud in
        [json!(null), json!(1), json!([RESOURCE, 1]), json!([[RESOURCE]]), json!({ RESOURCE: 1 })]
    {
        let refused = outcome(&both, json!({ "aud": aud.clone() })).await;
        assert_eq!(refused, invalid(InvalidToken::Claim("aud")), "{aud}");
    }
}

#[tokio::test]
async fn a_token_for_a_part_is_good_at_this_part_alone() {
    let (gate, signer) = gate_and_signer().await;
    let mut claims = claims();
    claims["aud"] = json!(format!("{RESOURCE}/docs"));
    let token = signer.token(&claims);
    let now = UNIX_EPOCH + Duration::from_secs(NOW);
    let [docs, doc, upper] =
        ["docs", "doc", "Docs"].map(|name| ResourcePart::parse(name).expect("a part"));
    assert!(gate.verifier.verify_at(&token, Some(&docs), now).await.is_ok());
    for other in [None, Some(&doc), Some(&upper)] {
        let refused = gate.verifier.verify_at(&token, other, now).await;
        assert_eq!(refused, invalid(InvalidToken::Audience), "{other:?}");
    }
    // One for the whole gateway is good at its parts.
    let whole = signer.token(&self::claims());
    assert!(gate.verifier.verify_at(&whole, Some(&docs), now).await.is_ok());
}

#[tokio::test]
async fn configured_audiences_replace_the_resource() {
    let both = gate_with(|settings| {
        settings.audiences = vec!["api://airlock".to_owned(), "7d1f".to_owned()];
    })
    .await;
    for aud in ["api://airlock", "7d1f"] {
        assert!(outcome(&both, json!({ "aud": aud })).await.is_ok());
    }
    for aud in [RESOURCE, "api://airlock/", "7D1F"] {
        assert_eq!(outcome(&both, json!({ "aud": aud })).await, invalid(InvalidToken::Audience));
    }
}

#[tokio::test]
async fn a_token_expires_to_the_second_with_the_skew_of_a_minute() {
    let (gate, signer) = gate_and_signer().await;
    let token = signer.token(&claims());
    let exp = NOW + 600;
    assert!(gate.verify_at(&token, exp).await.is_ok());
    assert!(gate.verify_at(&token, exp + 59).await.is_ok());
    // The signature is remembered; the expiry is still checked.
    assert_eq!(gate.verify_at(&token, exp + 60).await, invalid(InvalidToken::Expired));
    assert_eq!(gate.verify_at(&token, exp + 61).await, invalid(InvalidToken::Expired));
}

#[tokio::test]
async fn without_skew_a_token_expires_at_its_time() {
    let (gate, signer) = gate_with(|settings| settings.clock_skew = Duration::ZERO).await;
    let token = signer.token(&claims());
    assert!(gate.verify_at(&token, NOW + 599).await.is_ok());
    assert_eq!(gate.verify_at(&token, NOW + 600).await, invalid(InvalidToken::Expired));
}

#[tokio::test]
async fn a_token_is_not_used_before_its_time() {
    let both = gate_and_signer().await;
    for name in ["nbf", "iat"] {
        for (offset, accepted) in [(0, true), (60, true), (61, false), (1_000_000, false)] {
            let refused = outcome(&both, json!({ name: NOW + offset })).await;
            if accepted {
                assert!(refused.is_ok(), "{name} {offset}: {refused:?}");
            } else {
                assert_eq!(refused, invalid(InvalidToken::Early), "{name} {offset}");
            }
        }
        assert!(outcome(&both, json!({ name: null })).await.is_ok());
    }
}

#[tokio::test]
async fn a_date_of_the_wrong_type_is_never_the_same_as_no_date() {
    let both = gate_and_signer().await;
    for name in ["exp", "nbf", "iat"] {
        for odd in [
            json!("1"),
            json!((NOW + 600).to_string()),
            json!("never"),
            json!(true),
            json!([NOW]),
            json!({}),
            // Milliseconds.
            json!(NOW * 1000),
            json!(1e300),
            json!(-1e300),
        ] {
            let refused = outcome(&both, json!({ name: odd.clone() })).await;
            assert_eq!(refused, invalid(InvalidToken::Claim(name)), "{name} {odd}");
        }
        let null = claims_with(json!({ name: null })).to_string();
        let null = format!(r#"{{"{name}":null,{}"#, &null[1..]);
        let token = both.1.sign(&both.1.header().to_string(), &null);
        assert_eq!(both.0.verify(&token).await, invalid(InvalidToken::Claim(name)));
    }
    assert_eq!(outcome(&both, json!({ "exp": null })).await, invalid(InvalidToken::Claim("exp")));
}

#[tokio::test]
async fn dates_may_have_fractions_and_may_be_far_away() {
    let both = gate_and_signer().await;
    let half = 1_900_000_600.5;
    let principal = outcome(&both, json!({ "exp": half })).await.expect("a valid token");
    assert_eq!(principal.expires_at, UNIX_EPOCH + Duration::from_secs_f64(half));
    for exp in [json!(253_402_300_799_u64), json!(2.5e11)] {
        assert!(outcome(&both, json!({ "exp": exp })).await.is_ok());
    }
    let exp = json!({ "exp": 253_402_300_800_u64 });
    assert_eq!(outcome(&both, exp).await, invalid(InvalidToken::Claim("exp")));
    for exp in [json!(0), json!(-1), json!(-0.5)] {
        assert_eq!(outcome(&both, json!({ "exp": exp })).await, invalid(InvalidToken::Expired));
    }
    assert!(outcome(&both, json!({ "nbf": -5, "iat": 0 })).await.is_ok());
}

#[tokio::test]
async fn the_subject_is_required_and_has_at_most_255_bytes() {
    let both = gate_and_signer().await;
    for subject in ["x".to_owned(), "x".repeat(255), "ä b".to_owned()] {
        let principal = outcome(&both, json!({ "sub": subject })).await.expect("a valid token");
        assert_eq!(principal.subject, subject);
    }
    for odd in [
        json!(null),
        json!(""),
        json!("x".repeat(256)),
        json!("ann\nadmin"),
        json!("ann\u{0}"),
        json!("ann\u{85}"),
        json!(7),
        json!(["ann"]),
    ] {
        let refused = outcome(&both, json!({ "sub": odd.clone() })).await;
        assert_eq!(refused, invalid(InvalidToken::Claim("sub")), "{odd}");
    }
}

#[tokio::test]
async fn the_client_is_client_id_or_else_azp() {
    let both = gate_and_signer().await;
    for (client_id, azp, found) in [
        (json!("one"), json!("two"), Some("one")),
        (json!(null), json!("two"), Some("two")),
        (json!(null), json!(null), None),
    ] {
        let changes = json!({ "client_id": client_id, "azp": azp });
        let principal = outcome(&both, changes).await.expect("a valid token");
        assert_eq!(principal.client_id.as_deref(), found);
    }
    for odd in [json!(""), json!("x".repeat(256)), json!(1)] {
        let refused = outcome(&both, json!({ "client_id": odd.clone(), "azp": "two" })).await;
        assert_eq!(refused, invalid(InvalidToken::Claim("client_id")));
        let refused = outcome(&both, json!({ "client_id": null, "azp": odd })).await;
        assert_eq!(refused, invalid(InvalidToken::Claim("azp")));
    }
}

#[tokio::test]
async fn an_id_token_is_refused_even_if_its_audience_is_this_gateway() {
    let (gate, signer) = gate_and_signer().await;
    for typ in [json!("JWT"), json!(null)] {
        for name in ["nonce", "at_hash", "c_hash", "s_hash", "events"] {
            let token = token_of_type(&signer, &typ, json!({ name: "x" }));
            assert_eq!(gate.invalid(&token).await, InvalidToken::Type, "{typ} {name}");
        }
        for kind in ["ID", "Refresh", "Offline", "Logout", ""] {
            let token = token_of_type(&signer, &typ, json!({ "typ": kind }));
            assert_eq!(gate.invalid(&token).await, InvalidToken::Type, "{typ} {kind}");
        }
        for kind in ["Bearer", "bearer"] {
            assert!(
                gate.verify(&token_of_type(&signer, &typ, json!({ "typ": kind }))).await.is_ok()
            );
        }
        let odd = token_of_type(&signer, &typ, json!({ "typ": 1 }));
        assert_eq!(gate.invalid(&odd).await, InvalidToken::Claim("typ"));
    }
    // The type in the header is certain.
    assert!(
        gate.verify(&token_of_type(&signer, &json!("at+jwt"), json!({ "nonce": "x" })))
            .await
            .is_ok()
    );
}

fn token_of_type(signer: &Signer, typ: &Value, changes: Value) -> String {
    signer.token_with(json!({ "typ": typ }), &claims_with(changes))
}

#[tokio::test]
async fn a_token_that_is_bound_to_a_key_is_refused() {
    let both = gate_and_signer().await;
    for cnf in [json!({ "jkt": "x" }), json!({ "x5t#S256": "x" }), json!({}), json!("x")] {
        assert_eq!(outcome(&both, json!({ "cnf": cnf })).await, invalid(InvalidToken::Bound));
    }
}

#[tokio::test]
async fn all_required_scopes_are_needed() {
    let required = ["tools:read", "tools:call"].map(str::to_owned).to_vec();
    let both = gate_with(|settings| settings.scopes = required.clone()).await;
    for changes in [
        json!({}),
        json!({ "scope": "tools:call openid  tools:read" }),
        json!({ "scope": ["tools:call", "tools:read"] }),
        json!({ "scope": null, "scp": "tools:call tools:read" }),
        json!({ "scope": null, "scp": ["tools:call", "tools:read", "x"] }),
    ] {
        assert!(outcome(&both, changes.clone()).await.is_ok(), "{changes}");
    }
    let lacking = TokenRefusal::Scope { required };
    for changes in [
        json!({ "scope": null }),
        json!({ "scope": "" }),
        json!({ "scope": "tools:read" }),
        json!({ "scope": "tools:read tools:call2" }),
        json!({ "scope": "tools:read Tools:call" }),
        json!({ "scope": "tools:read,tools:call" }),
        json!({ "scope": "tools:read\ttools:call" }),
        json!({ "scope": "tools:read", "scp": "tools:call" }),
        json!({ "scope": "", "scp": "tools:read tools:call" }),
    ] {
        assert_eq!(outcome(&both, changes.clone()).await, Err(lacking.clone()), "{changes}");
    }
    for odd in [json!(1), json!([1]), json!({ "tools:read": true })] {
        let refused = outcome(&both, json!({ "scope": odd })).await;
        assert_eq!(refused, invalid(InvalidToken::Claim("scope")));
    }
}

#[tokio::test]
async fn the_first_row_that_matches_chooses_the_view_and_without_one_nothing_is_seen() {
    let both = gate_and_signer().await;
    for (groups, view) in [
        (json!(["staff"]), Some("some")),
        (json!(["staff", "admins"]), Some("all")),
        (json!("admins"), Some("all")),
        (json!(["guests"]), None),
        (json!([]), None),
        (json!(null), None),
        (json!("staff admins"), None),
        (json!({ "admins": true }), None),
    ] {
        let seen = outcome(&both, json!({ "groups": groups.clone() })).await;
        let expected = view.map(str::to_owned).ok_or(TokenRefusal::View);
        assert_eq!(seen.map(|principal| principal.view), expected, "{groups}");
    }
}
