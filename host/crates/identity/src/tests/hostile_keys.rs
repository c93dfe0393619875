//! Key sets that are malformed, malicious or too large.

use super::*;
use crate::{
    key::{IssuerKey, UnusableKey},
    key_set::{BadKeySet, KeySet, MAX_KEYS},
    tests::signer::encode,
};

/// Asserts that no token is verified with a page as key set, and that nothing hangs.
async fn assert_unavailable(page: Page) {
    let signer = Signer::es256("a");
    let gate = Gate::with(page, |_| {}).await;
    let outcome = gate.verify(&signer.token(&claims())).await;
    assert!(matches!(outcome, Err(TokenRefusal::Unavailable { .. })), "{outcome:?}");
    assert_eq!(gate.issuer.fetches(), 1);
}

#[tokio::test]
async fn a_page_that_is_no_key_set_makes_tokens_unverifiable() {
    for page in [
        Page::json(""),
        Page::json("{}"),
        Page::json("[]"),
        Page::json(r#"{"keys":{}}"#),
        Page::json(r#"{"keys":null}"#),
        Page::json(r#"{"keys":[],"keys":[]}"#),
        Page::json(r#"{"keys":[]"#),
        Page::json("<html></html>"),
        Page::status("200 OK"),
        Page::status("500 Internal Server Error"),
        Page::status("204 No Content"),
        Page::status("304 Not Modified"),
        Page::HangsUp,
    ] {
        assert_unavailable(page).await;
    }
}

#[tokio::test]
async fn a_key_set_that_is_not_declared_as_json_is_refused() {
    let signer = Signer::es256("a");
    let body = json!({ "keys": [signer.jwk()] }).to_string();
    for headers in ["", "content-type: text/html\r\n", "content-type: text/plain\r\n"] {
        let headers = headers.to_owned();
        let body = body.clone();
        assert_unavailable(Page::Response { status: "200 OK", headers, body }).await;
    }
}

#[tokio::test]
async fn a_key_set_with_another_status_than_200_is_refused() {
    let signer = Signer::es256("a");
    for status in ["201 Created", "203 Non-Authoritative", "206 Partial", "404 Not Found", "500 X"]
    {
        let headers = "content-type: application/json\r\n".to_owned();
        let body = json!({ "keys": [signer.jwk()] }).to_string();
        let gate = Gate::with(Page::Response { status, headers, body }, |_| {}).await;
        let outcome = gate.verify(&signer.token(&claims())).await;
        assert!(matches!(outcome, Err(TokenRefusal::Unavailable { .. })), "{status}");
    }
}

#[tokio::test]
async fn a_key_set_without_end_is_read_up_to_its_limit() {
    assert_unavailable(Page::Drips).await;
}

#[tokio::test]
async fn a_key_set_may_have_256_kib_and_no_more() {
    let signer = Signer::es256("a");
    let gate = Gate::with(Page::json(key_set_of(&signer, 256 * 1024)), |_| {}).await;
    assert!(gate.verify(&signer.token(&claims())).await.is_ok());
    assert_unavailable(Page::json(key_set_of(&signer, 256 * 1024 + 1))).await;
}

fn key_set_of(signer: &Signer, bytes: usize) -> String {
    let mut body = json!({ "keys": [signer.jwk()] }).to_string();
    body.push_str(&" ".repeat(bytes - body.len()));
    body
}

#[test]
fn a_key_set_may_have_100_keys_and_no_more() {
    assert_eq!(KeySet::parse(set_with(MAX_KEYS).as_bytes()).map(|keys| keys.len()).ok(), Some(100));
    assert_eq!(
        KeySet::parse(set_with(MAX_KEYS + 1).as_bytes()).err(),
        Some(BadKeySet::TooManyKeys)
    );
}

fn set_with(keys: usize) -> String {
    let signer = Signer::ed25519("a");
    json!({ "keys": vec![signer.jwk(); keys] }).to_string()
}

#[test]
fn a_key_set_that_takes_much_memory_is_refused() {
    // 256 KiB that would take 20 MiB as a tree.
    let text = format!(r#"{{"keys":[{}{{}}]}}"#, r#"{"":0},"#.repeat(36_000));
    assert_eq!(KeySet::parse(text.as_bytes()).err(), Some(BadKeySet::Malformed));
}

#[tokio::test]
async fn an_issuer_that_does_not_respond_is_given_5_seconds() {
    let signer = Signer::es256("a");
    let gate = std::sync::Arc::new(Gate::with(Page::IsSilent, |_| {}).await);
    let waiting = tokio::spawn({
        let gate = gate.clone();
        let token = signer.token(&claims());
        async move { gate.verify(&token).await }
    });
    until(|| gate.issuer.fetches() == 1).await;
    pass(Duration::from_secs(3)).await;
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    pass(Duration::from_secs(2)).await;
    let outcome = waiting.await.expect("no panic");
    let retry_after = Duration::from_secs(5);
    match outcome {
        Err(TokenRefusal::Unavailable { retry_after: found }) => assert!(found <= retry_after),
        other => panic!("not unavailable: {other:?}"),
    }
}

#[tokio::test]
async fn a_usable_key_beside_others_is_used() {
    let signer = Signer::es256("a");
    let other = Signer::es256("b");
    let odd = [
        json!(null),
        json!(7),
        json!("key"),
        json!([]),
        json!({}),
        json!({ "kty": "oct", "kid": "a", "k": "c2VjcmV0" }),
        json!({ "kty": "RSA", "kid": "a", "n": "AQAB", "e": "AQAB" }),
        json!({ "kty": "EC", "crv": "P-521", "kid": "a", "x": "AA", "y": "AA" }),
        json!({ "kty": "AKP", "kid": "a", "alg": "ML-DSA-44", "pub": "AA" }),
        other.jwk(),
    ];
    let keys: Vec<_> = odd.into_iter().chain([signer.jwk()]).collect();
    let gate = Gate::new(&keys).await;
    assert!(gate.verify(&signer.token(&claims())).await.is_ok());
}

#[tokio::test]
async fn of_two_keys_with_one_kid_none_is_used() {
    let one = Signer::es256("a");
    let two = Signer::es256("a");
    let gate = Gate::new(&[one.jwk(), two.jwk()]).await;
    for signer in [&one, &two] {
        assert_eq!(gate.invalid(&signer.token(&claims())).await, InvalidToken::Key);
    }
    let gate = Gate::new(&[one.jwk(), one.jwk()]).await;
    assert_eq!(gate.invalid(&one.token(&claims())).await, InvalidToken::Key);
    // RFC 7517, section 4.5: keys of different types may share a name.
    let ed = Signer::ed25519("a");
    let gate = Gate::new(&[one.jwk(), ed.jwk()]).await;
    assert!(gate.verify(&one.token(&claims())).await.is_ok());
    assert!(gate.verify(&ed.token(&claims())).await.is_ok());
}

#[test]
fn a_key_that_must_not_be_used_is_left_out() {
    let signer = Signer::es256("a");
    for changes in [
        json!({}),
        json!({ "use": null }),
        json!({ "alg": null }),
        json!({ "key_ops": ["verify"] }),
        json!({ "key_ops": ["sign", "verify"] }),
        json!({ "x5c": ["AA"], "x5t": "AA", "exp": 1, "unknown": {} }),
    ] {
        assert_eq!(fault_with(&signer, changes.clone()), None, "{changes}");
    }
    for (changes, reason) in [
        (json!({ "use": "enc" }), UnusableKey::Purpose),
        (json!({ "use": "SIG" }), UnusableKey::Purpose),
        (json!({ "use": 1 }), UnusableKey::Malformed),
        (json!({ "key_ops": ["encrypt"] }), UnusableKey::Purpose),
        (json!({ "key_ops": [] }), UnusableKey::Purpose),
        (json!({ "key_ops": "verify" }), UnusableKey::Malformed),
        (json!({ "alg": "ES384" }), UnusableKey::Purpose),
        (json!({ "alg": "RS256" }), UnusableKey::Purpose),
        (json!({ "alg": "HS256" }), UnusableKey::Purpose),
        (json!({ "alg": "none" }), UnusableKey::Purpose),
        (json!({ "alg": "ECDH-ES" }), UnusableKey::Purpose),
        (json!({ "alg": 1 }), UnusableKey::Malformed),
        (json!({ "kid": 1 }), UnusableKey::Malformed),
        (json!({ "kty": null }), UnusableKey::Malformed),
        (json!({ "kty": 1 }), UnusableKey::Malformed),
        (json!({ "kty": "ec" }), UnusableKey::Type),
        (json!({ "kty": "OKP" }), UnusableKey::Type),
        (json!({ "crv": null }), UnusableKey::Malformed),
        (json!({ "crv": "P-384" }), UnusableKey::Malformed),
        (json!({ "crv": "P-521" }), UnusableKey::Type),
        (json!({ "crv": "secp256k1" }), UnusableKey::Type),
        (json!({ "crv": "Ed25519" }), UnusableKey::Type),
        (json!({ "x": null }), UnusableKey::Malformed),
        (json!({ "x": encode([1; 31]) }), UnusableKey::Malformed),
        (json!({ "x": encode([1; 33]) }), UnusableKey::Malformed),
        (json!({ "y": "not base64!" }), UnusableKey::Malformed),
        (json!({ "y": 1 }), UnusableKey::Malformed),
        // Private and symmetric keys.
        (json!({ "d": encode([1; 32]) }), UnusableKey::Secret),
        (json!({ "k": "AA" }), UnusableKey::Secret),
        (json!({ "kty": "oct", "k": "AA" }), UnusableKey::Secret),
        (json!({ "kty": "oct" }), UnusableKey::Secret),
    ] {
        assert_eq!(fault_with(&signer, changes.clone()), Some(reason), "{changes}");
    }
    for curve in ["X25519", "Ed448"] {
        let jwk = Signer::ed25519("a").jwk_with(json!({ "crv": curve }));
        assert_eq!(IssuerKey::parse(&jwk).err(), Some(UnusableKey::Type));
    }
}

fn fault_with(signer: &Signer, changes: Value) -> Option<UnusableKey> {
    IssuerKey::parse(&signer.jwk_with(changes)).err()
}

#[test]
fn an_rsa_key_has_2048_to_8192_bits_and_an_odd_exponent_of_3_or_more() {
    let exponent = [1, 0, 1];
    for (bits, outcome) in [
        (0, Some(UnusableKey::Size)),
        (1024, Some(UnusableKey::Size)),
        (2047, Some(UnusableKey::Size)),
        (2048, None),
        (4096, None),
        (8192, None),
        (8193, Some(UnusableKey::Size)),
        (100_000, Some(UnusableKey::Size)),
    ] {
        let modulus = if bits == 0 { Vec::new() } else { modulus(bits) };
        assert_eq!(rsa_fault(modulus, &exponent), outcome, "{bits}");
    }
    // Zeros before the number add no bits.
    assert_eq!(rsa_fault(padded(2048), &exponent), None);
    assert_eq!(rsa_fault(padded(2040), &exponent), Some(UnusableKey::Size));
    for e in [&[3][..], &[0, 1, 0, 1], &[1, 0, 1]] {
        assert_eq!(rsa_fault(modulus(2048), e), None, "{e:?}");
    }
    for e in [&[][..], &[0], &[1], &[0, 1], &[2], &[4], &[1, 0, 0]] {
        assert_eq!(rsa_fault(modulus(2048), e), Some(UnusableKey::Malformed), "{e:?}");
    }
}

fn rsa_fault(n: Vec<u8>, e: &[u8]) -> Option<UnusableKey> {
    IssuerKey::parse(&json!({ "kty": "RSA", "n": encode(n), "e": encode(e) })).err()
}

/// Returns a number of so many bits.
fn modulus(bits: usize) -> Vec<u8> {
    let mut bytes = vec![0xff; bits.div_ceil(8)];
    bytes[0] = 0xff >> (bytes.len() * 8 - bits);
    bytes
}

fn padded(bits: usize) -> Vec<u8> {
    [vec![0; 8], modulus(bits)].concat()
}

#[tokio::test]
async fn a_point_off_the_curve_verifies_nothing() {
    let signer = Signer::es256("a");
    for point in [[0; 32], [1; 32], [255; 32]] {
        let jwk = signer.jwk_with(json!({ "x": encode(point), "y": encode(point) }));
        let gate = Gate::new(&[jwk]).await;
        assert_eq!(gate.invalid(&signer.token(&claims())).await, InvalidToken::Signature);
    }
}

#[tokio::test]
async fn an_issuer_without_usable_keys_is_believed() {
    let signer = Signer::es256("a");
    for keys in [vec![], vec![json!({ "kty": "oct", "kid": "a", "k": "AA" })]] {
        let gate = Gate::new(&keys).await;
        assert_eq!(gate.invalid(&signer.token(&claims())).await, InvalidToken::Key);
    }
}
