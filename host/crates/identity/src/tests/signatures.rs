//! The form of tokens, their signatures and the choice of the key.

use proptest::prelude::*;
use ring::hmac;
use serde_json::{Value, json};

use super::*;
use crate::{MAX_TOKEN_BYTES, tests::signer::encode};

/// Keys and tokens of another implementation.
fn other() -> Value {
    serde_json::from_str(include_str!("other_signer/tokens.json")).expect("JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

async fn gate_of_other(name: &str) -> Gate {
    Gate::new(&[other()["keys"][name].clone()]).await
}

#[tokio::test]
async fn tokens_of_another_implementation_verify_with_each_algorithm() {
    let other = other();
    let keys: Vec<_> = other["keys"].as_object().expect("keys").values().cloned().collect();
    let gate = Gate::new(&keys).await;
    for algorithm in
        ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
    {
        let token = text(&other["tokens"][algorithm]);
        let principal =
            gate.verify(token).await.unwrap_or_else(|refusal| panic!("{algorithm}: {refusal}"));
        assert_eq!(principal.subject, "ann");
    }
    // P-521 and secp256k1: good signatures with algorithms that are not accepted.
    for algorithm in ["ES512", "ES256K"] {
        assert_eq!(gate.invalid(text(&other["tokens"][algorithm])).await, InvalidToken::Algorithm);
    }
}

#[tokio::test]
async fn an_rsa_key_of_less_than_2048_bits_is_not_used() {
    let other = other();
    for bits in ["1024", "2047"] {
        let gate = gate_of_other(&format!("rsa-{bits}")).await;
        let token = text(&other["tokens"][format!("RS256 with {bits} bits")]);
        assert_eq!(gate.invalid(token).await, InvalidToken::Key, "{bits}");
    }
}

#[tokio::test]
async fn each_curve_verifies_its_own_signatures_only() {
    let signers = [Signer::es256("a"), Signer::es384("a"), Signer::ed25519("a")];
    for signer in &signers {
        for other in &signers {
            let gate = Gate::new(&[other.jwk()]).await;
            let outcome = gate.verify(&signer.token(&claims())).await;
            if std::ptr::eq(signer, other) {
                assert!(outcome.is_ok(), "{outcome:?}");
            } else {
                assert_eq!(outcome, Err(InvalidToken::Key.into()));
            }
        }
    }
}

#[tokio::test]
async fn the_name_of_ed25519_in_rfc_9864_is_accepted_for_token_and_key() {
    let signer = Signer::ed25519("a");
    for (header, key) in [("Ed25519", "EdDSA"), ("EdDSA", "Ed25519"), ("Ed25519", "Ed25519")] {
        let gate = Gate::new(&[signer.jwk_with(json!({ "alg": key }))]).await;
        let token = signer.token_with(json!({ "alg": header }), &claims());
        assert!(gate.verify(&token).await.is_ok(), "{header} {key}");
    }
}

#[tokio::test]
async fn a_signature_of_another_key_is_refused() {
    let signer = Signer::es256("a");
    let thief = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    assert_eq!(gate.invalid(&thief.token(&claims())).await, InvalidToken::Signature);
    // The signature of another token of the same key.
    let one = signer.token(&claims());
    let two = signer.token(&claims_with(json!({ "groups": ["admins"] })));
    let (content, _) = two.rsplit_once('.').expect("a signature");
    let (_, signature) = one.rsplit_once('.').expect("a signature");
    assert_eq!(gate.invalid(&format!("{content}.{signature}")).await, InvalidToken::Signature);
}

#[tokio::test]
async fn a_signature_in_another_form_is_refused() {
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    let token = signer.token(&claims());
    let (content, _) = token.rsplit_once('.').expect("a signature");
    for signature in [vec![], vec![0; 1], vec![0; 63], vec![0; 64], vec![0; 65], vec![255; 64]] {
        let token = format!("{content}.{}", encode(signature));
        assert_eq!(gate.invalid(&token).await, InvalidToken::Signature);
    }
}

#[tokio::test]
async fn none_and_symmetric_algorithms_are_refused() {
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    for algorithm in [
        "none", "None", "NONE", "nOnE", "", "HS256", "HS384", "HS512", "es256", "ES256 ", "ES512",
        "RS1", "RSA-OAEP", "dir",
    ] {
        let token = signer.token_with(json!({ "alg": algorithm }), &claims());
        assert_eq!(gate.invalid(&token).await, InvalidToken::Algorithm, "{algorithm}");
        let (content, _) = token.rsplit_once('.').expect("a signature");
        assert_eq!(
            gate.invalid(&format!("{content}.")).await,
            InvalidToken::Algorithm,
            "{algorithm}"
        );
    }
    let without = signer.token_with(json!({ "alg": null }), &claims());
    assert_eq!(gate.invalid(&without).await, InvalidToken::Algorithm);
    for odd in [json!(7), json!(["ES256"]), json!({ "alg": "ES256" }), json!(true)] {
        let token = signer.token_with(json!({ "alg": odd }), &claims());
        assert_eq!(gate.invalid(&token).await, InvalidToken::Malformed);
    }
}

#[tokio::test]
async fn a_public_key_is_not_a_secret_for_hmac() {
    let other = other();
    let jwk = &other["keys"]["rsa"];
    let gate = Gate::new(std::slice::from_ref(jwk)).await;
    let modulus = text(&jwk["n"]);
    for secret in [modulus.as_bytes(), jwk.to_string().as_bytes(), b""] {
        let header = json!({ "alg": "HS256", "kid": "rsa", "typ": "at+jwt" }).to_string();
        let signed = format!("{}.{}", encode(header), encode(claims().to_string()));
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let signature = encode(hmac::sign(&key, signed.as_bytes()));
        assert_eq!(gate.invalid(&format!("{signed}.{signature}")).await, InvalidToken::Algorithm);
        // The same under the name of the key's own algorithm.
        let header = json!({ "alg": "RS256", "kid": "rsa", "typ": "at+jwt" }).to_string();
        let signed = format!("{}.{}", encode(header), encode(claims().to_string()));
        let signature = encode(hmac::sign(&key, signed.as_bytes()));
        assert_eq!(gate.invalid(&format!("{signed}.{signature}")).await, InvalidToken::Signature);
    }
}

#[tokio::test]
async fn an_algorithm_of_the_same_key_type_does_not_verify_the_signature_of_another() {
    let other = other();
    let gate = gate_of_other("rsa").await;
    let token = text(&other["tokens"]["RS256"]);
    let (_, rest) = token.split_once('.').expect("a header");
    for algorithm in ["RS384", "RS512", "PS256", "PS384", "PS512"] {
        let header = encode(json!({ "alg": algorithm, "kid": "rsa" }).to_string());
        assert_eq!(gate.invalid(&format!("{header}.{rest}")).await, InvalidToken::Signature);
    }
}

#[tokio::test]
async fn the_algorithm_of_a_key_is_the_only_one_that_it_verifies() {
    let other = other();
    let mut jwk = other["keys"]["rsa"].clone();
    jwk["alg"] = json!("PS256");
    let gate = Gate::new(&[jwk]).await;
    assert!(gate.verify(text(&other["tokens"]["PS256"])).await.is_ok());
    for algorithm in ["RS256", "RS384", "RS512", "PS384", "PS512"] {
        assert_eq!(gate.invalid(text(&other["tokens"][algorithm])).await, InvalidToken::Key);
    }
}

#[tokio::test]
async fn a_token_without_a_kid_needs_exactly_one_key_that_fits() {
    let one = Signer::es256("a");
    let two = Signer::es256("b");
    let ed = Signer::ed25519("c");
    let token = one.token_with(json!({ "kid": null }), &claims());

    let gate = Gate::new(&[one.jwk(), ed.jwk()]).await;
    assert!(gate.verify(&token).await.is_ok());
    let gate = Gate::new(&[one.jwk_with(json!({ "kid": null }))]).await;
    assert!(gate.verify(&token).await.is_ok());
    let gate = Gate::new(&[one.jwk(), two.jwk()]).await;
    assert_eq!(gate.invalid(&token).await, InvalidToken::Key);
    let gate = Gate::new(&[ed.jwk()]).await;
    assert_eq!(gate.invalid(&token).await, InvalidToken::Key);
    let gate = Gate::new(&[two.jwk()]).await;
    assert_eq!(gate.invalid(&token).await, InvalidToken::Signature);
}

#[tokio::test]
async fn a_kid_names_one_key_to_the_byte() {
    let one = Signer::es256("a");
    let two = Signer::es256("b");
    let gate = Gate::new(&[one.jwk(), two.jwk()]).await;
    assert!(gate.verify(&two.token(&claims())).await.is_ok());
    for kid in [
        "A",
        "",
        "a ",
        " a",
        "a\0",
        "*",
        "a,b",
        "../a",
        "../../../../dev/null",
        "a' OR '1'='1",
        "http://127.0.0.1/keys",
        "$(id)",
        "\u{430}",
    ] {
        let token = one.token_with(json!({ "kid": kid }), &claims());
        assert_eq!(gate.invalid(&token).await, InvalidToken::Key, "{kid}");
    }
    for kid in [json!(7), json!(["a"]), json!({ "a": 1 }), json!(false)] {
        let token = one.token_with(json!({ "kid": kid }), &claims());
        assert_eq!(gate.invalid(&token).await, InvalidToken::Malformed);
    }
    let null = r#"{"alg":"ES256","kid":null}"#;
    assert_eq!(gate.invalid(&one.sign(null, &claims().to_string())).await, InvalidToken::Malformed);
    // A key without a name has no name to match.
    let gate = Gate::new(&[one.jwk_with(json!({ "kid": null }))]).await;
    assert_eq!(gate.invalid(&one.token(&claims())).await, InvalidToken::Key);
}

#[tokio::test]
async fn keys_in_a_header_are_ignored() {
    let signer = Signer::es256("a");
    let thief = Signer::es256("thief");
    let gate = Gate::new(&[signer.jwk()]).await;
    let elsewhere = Issuer::start([("/keys", Page::keys(&[thief.jwk()]))]).await;
    let sources = json!({
        "jwk": thief.jwk(),
        "jku": elsewhere.url("/keys"),
        "x5u": elsewhere.url("/keys"),
        "x5c": ["MIIB"],
    });
    assert_eq!(
        gate.invalid(&thief.token_with(sources.clone(), &claims())).await,
        InvalidToken::Key
    );
    let mut named = sources.clone();
    named["kid"] = json!("a");
    assert_eq!(gate.invalid(&thief.token_with(named, &claims())).await, InvalidToken::Signature);
    assert!(gate.verify(&signer.token_with(sources, &claims())).await.is_ok());
    assert_eq!(elsewhere.fetches(), 0);
}

#[tokio::test]
async fn critical_extensions_are_refused() {
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    for crit in [json!(["exp"]), json!(["b64"]), json!([]), json!("b64"), json!(1)] {
        let token = signer.token_with(json!({ "crit": crit, "b64": false }), &claims());
        assert_eq!(gate.invalid(&token).await, InvalidToken::Critical);
    }
    let null = r#"{"alg":"ES256","kid":"a","crit":null}"#;
    assert_eq!(
        gate.invalid(&signer.sign(null, &claims().to_string())).await,
        InvalidToken::Critical
    );
}

#[tokio::test]
async fn the_type_is_that_of_an_access_token_or_of_any_token() {
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    for typ in ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt", "application/jwt"] {
        let token = signer.token_with(json!({ "typ": typ }), &claims());
        assert!(gate.verify(&token).await.is_ok(), "{typ}");
    }
    let token = signer.token_with(json!({ "typ": null }), &claims());
    assert!(gate.verify(&token).await.is_ok());
    for typ in [
        "",
        "id+jwt",
        "logout+jwt",
        "secevent+jwt",
        "dpop+jwt",
        "JWE",
        "JOSE",
        "JOSE+JSON",
        "at+jwt ",
        "application/application/at+jwt",
        "text/at+jwt",
    ] {
        let token = signer.token_with(json!({ "typ": typ }), &claims());
        assert_eq!(gate.invalid(&token).await, InvalidToken::Type, "{typ}");
    }
}

#[tokio::test]
async fn a_token_in_another_form_than_the_compact_one_is_refused() {
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    let token = signer.token(&claims());
    let parts: Vec<_> = token.split('.').collect();
    let header = parts[0];
    let payload = parts[1];
    let signature = parts[2];
    let json_form =
        json!({ "protected": header, "payload": payload, "signature": signature }).to_string();
    for odd in [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "...".to_owned(),
        header.to_owned(),
        format!("{header}.{payload}"),
        format!("{token}."),
        format!(".{token}"),
        format!("{token}.{signature}"),
        format!("{header}.{payload}.{signature}.{signature}.{signature}"),
        format!("{header}..{payload}.{signature}"),
        format!(" {token}"),
        format!("{token}\n"),
        format!("{token}="),
        format!("{header}=.{payload}.{signature}"),
        format!("Bearer {token}"),
        format!("{token},{token}"),
        token.replace('.', "\u{ff0e}"),
        format!("{header}.{payload}.+/{signature}"),
        format!(".{payload}.{signature}"),
        json_form,
    ] {
        assert_eq!(gate.invalid(&odd).await, InvalidToken::Malformed, "{odd}");
    }
    // A detached payload.
    assert_eq!(gate.invalid(&format!("{header}..{signature}")).await, InvalidToken::Signature);
}

#[tokio::test]
async fn json_that_is_not_an_object_or_has_a_member_twice_is_refused() {
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    let header = signer.header().to_string();
    let claims = claims().to_string();
    for (header, claims) in [
        (with_member(&header, r#""alg":"none""#), claims.clone()),
        (with_member(&header, r#""a\u006cg":"ES256""#), claims.clone()),
        (with_member(&header, r#""x":{"y":1,"y":2}"#), claims.clone()),
        (header.clone(), with_member(&claims, r#""sub":"eve""#)),
        (header.clone(), with_member(&claims, r#""s\u0075b":"eve""#)),
        (header.clone(), with_member(&claims, r#""x":[{"y":1,"y":2}]"#)),
        (String::new(), claims.clone()),
        ("[]".to_owned(), claims.clone()),
        (r#""ES256""#.to_owned(), claims.clone()),
        (format!("{header}{header}"), claims.clone()),
        (format!("\u{feff}{header}"), claims.clone()),
        (header.clone(), String::new()),
        (header.clone(), "null".to_owned()),
        (header.clone(), format!("[{claims}]")),
        (header.clone(), format!("{claims} x")),
        (header.clone(), with_member(&claims, r#""x":"\ud800""#)),
        (format!("{}{}", "[".repeat(5000), header), claims.clone()),
        (header.clone(), format!(r#"{{"x":{}"#, "[".repeat(5000))),
    ] {
        assert_eq!(gate.invalid(&signer.sign(&header, &claims)).await, InvalidToken::Malformed);
    }
    // Bytes that are not UTF-8.
    let payload = encode(b"{\"sub\":\"\xff\"}");
    let token = format!("{}.{payload}.AA", encode(&header));
    assert_eq!(gate.invalid(&token).await, InvalidToken::Signature);
    let token = format!("{}.{payload}.AA", encode(b"{\"alg\":\"ES256\",\"x\":\"\xff\"}"));
    assert_eq!(gate.invalid(&token).await, InvalidToken::Malformed);
}

fn with_member(text: &str, member: &str) -> String {
    format!("{{{member},{}", &text[1..])
}

#[tokio::test]
async fn a_header_that_takes_much_memory_is_refused_before_its_signature_is_checked() {
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    let many = format!(r#"{{"alg":"ES256","kid":"a","x":[{}{{}}]}}"#, "{},".repeat(1500));
    assert_eq!(gate.invalid(&signer.sign(&many, "{}")).await, InvalidToken::Malformed);
}

#[tokio::test]
async fn a_token_may_have_8192_bytes_and_no_more() {
    let signer = Signer::es256("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    // Base64 grows by one or two bytes for one of the padding, so each length but every fourth exists.
    let mut padding = (MAX_TOKEN_BYTES - padded_token(&signer, 0).len()) * 3 / 4 - 8;
    while padded_token(&signer, padding).len() < MAX_TOKEN_BYTES {
        padding += 1;
    }
    let fits = padded_token(&signer, padding);
    let too_long = format!("{}x", padded_token(&signer, padding));
    assert_eq!(fits.len(), MAX_TOKEN_BYTES);
    assert!(gate.verify(&fits).await.is_ok());
    assert_eq!(gate.invalid(&too_long).await, InvalidToken::TooLong);
    assert_eq!(gate.invalid(&"x".repeat(100 * 1024 * 1024)).await, InvalidToken::TooLong);
}

fn padded_token(signer: &Signer, padding: usize) -> String {
    signer.token(&claims_with(json!({ "x": "x".repeat(padding) })))
}

#[tokio::test]
async fn a_token_with_any_byte_changed_is_refused() {
    let signer = Signer::ed25519("a");
    let gate = Gate::new(&[signer.jwk()]).await;
    let token = signer.token(&claims());
    // Also remembered as verified, which must not help.
    assert!(gate.verify(&token).await.is_ok());
    for at in 0..token.len() {
        for other in ["A", "B", "-", "_", ".", "", "="] {
            let mut changed = token.clone();
            changed.replace_range(at..=at, other);
            if changed != token {
                assert!(gate.verify(&changed).await.is_err(), "{at} {other}");
            }
        }
    }
    assert!(gate.verify(&token).await.is_ok());
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_of_tokens_panic(
        text in "\\PC*",
        parts in prop::collection::vec("[A-Za-z0-9_-]{0,40}", 0..5),
        header in r#"\{("alg"|"kid"|"typ"|"crit"|:|,|"ES256"|null|\[|\]|\}|1){0,12}\}"#,
    ) {
        for token in [text, parts.join("."), format!("{}.{}.AA", encode(header), encode("{}"))] {
            let _ = crate::jws::Jws::parse(&token);
        }
    }
}
