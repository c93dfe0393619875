//! `governance.virtual_keys`: credentials, their digests, and their times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::*;
use airlock_core::{
    door::{CertificateDigest, VirtualKey, credential_digest},
    tenant::Tenant,
};

const OLD: &str = "sk-bf-hunter2-before-the-rotation";

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn sha256(credential: &str) -> String {
    let digits: Vec<_> =
        credential_digest(credential).iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

fn keys(keys: Value) -> Value {
    json!({"governance": with(json!({}), "virtual_keys", keys)})
}

/// A key `ann` by its digest, with other members.
fn ann(more: &Value) -> Value {
    let mut key = json!({"name": "ann", "value_sha256": sha256(SECRET)});
    for (name, value) in more.as_object().expect("members") {
        key[name] = value.clone();
    }
    keys(json!([key]))
}

fn find(file: &Value, credential: &str, now: SystemTime) -> Option<VirtualKey> {
    good(file).keys.find(credential, None, now).map(|key| (*key).clone())
}

#[test]
fn a_key_by_its_digest_is_the_same_as_by_its_credential() {
    let by_value = keys(json!([{"name": "ann", "value": SECRET}]));
    let found = find(&ann(&json!({})), SECRET, at(0)).expect("the key");
    assert_eq!(Some(&found), find(&by_value, SECRET, at(0)).as_ref());
    let upper = sha256(SECRET).to_uppercase();
    assert!(find(&ann(&json!({"value_sha256": upper})), SECRET, at(0)).is_some());
    assert!(good(&ann(&json!({"is_active": false}))).keys.is_empty());
}

fn tenant(file: &Value, credential: &str) -> Tenant {
    find(file, credential, at(0)).expect("the key").tenant().clone()
}

#[test]
fn an_identifier_names_the_tenant_only_of_a_key_by_its_digest() {
    let first = tenant(&ann(&json!({"id": "7"})), SECRET);
    assert_eq!(first, tenant(&ann(&json!({"id": "7", "value_sha256": sha256(OLD)})), OLD));
    assert_ne!(first, tenant(&ann(&json!({"id": "8"})), SECRET));
    let credential = tenant(&ann(&json!({})), SECRET);
    assert_ne!(first, credential);
    let with_value = keys(json!([{"id": "7", "name": "ann", "value": SECRET}]));
    assert_eq!(tenant(&with_value, SECRET), credential);
    assert_eq!(tenant(&ann(&json!({"id": ""})), SECRET), credential);
    let twice = json!([
        {"id": "7", "name": "a", "value_sha256": sha256("a")},
        {"id": "7", "name": "b", "value_sha256": sha256("b")},
        {"id": "7", "name": "c", "value": SECRET},
    ]);
    assert_snapshot!(error(&keys(twice)), @r"
    governance.virtual_keys[1].id: another key has this identifier already
    governance.virtual_keys[2].id: another key has this identifier already
    ");
}

#[test]
fn a_key_needs_exactly_one_of_its_credential_and_its_digest() {
    let file = keys(json!([
        {"name": "a"},
        {"name": "b", "value": SECRET, "value_sha256": sha256(SECRET)},
        {"name": "c", "value_sha256": SECRET},
        {"name": "d", "value": 7},
        {"name": "e", "is_active": false},
    ]));
    assert_snapshot!(error(&file), @r#"
    governance.virtual_keys[3].value: expected a string, "env.NAME", or {"env_var": "env.NAME"}, found 7
    governance.virtual_keys[0].value: is required, unless `value_sha256` is set; exactly one of both is needed
    governance.virtual_keys[1].value_sha256: is beside `value`; exactly one of both is needed
    governance.virtual_keys[2].value_sha256: expected a SHA-256 of 64 hexadecimal digits
    governance.virtual_keys[4].value: is required, unless `value_sha256` is set; exactly one of both is needed
    "#);
}

#[test]
fn a_key_is_refused_from_the_time_at_which_it_expires() {
    let file = ann(&json!({"expires_at": "1970-01-01T02:01:40+02:00"}));
    assert!(find(&file, SECRET, at(99)).is_some());
    assert!(find(&file, SECRET, at(100)).is_none());
    assert!(good(&file).server.require_virtual_key, "an expired key does not open the gateway");
    assert_snapshot!(error(&ann(&json!({"expires_at": "soon"}))), @r#"
    governance.virtual_keys[0].expires_at: found "soon", expected a time such as "2027-01-31T12:00:00Z" (RFC 3339)
    "#);
}

#[test]
fn the_credential_before_a_rotation_is_valid_until_its_time() {
    let previous = json!({
        "previous_value_sha256": sha256(OLD),
        "previous_valid_until": "1970-01-01T00:01:40Z",
    });
    let file = ann(&previous);
    let found = find(&file, OLD, at(99)).expect("it is valid");
    let current = find(&file, SECRET, at(99)).expect("the key");
    assert_eq!(found, current.expiring_by(at(100)), "it ends with its credential");
    assert!(find(&file, OLD, at(100)).is_none());
    assert_snapshot!(error(&keys(json!([
        {"name": "a", "value_sha256": sha256("a"), "previous_value_sha256": sha256(OLD)},
        {"name": "b", "value_sha256": sha256("b"), "previous_valid_until": "1970-01-01T00:00:00Z"},
        {
            "name": "c",
            "value_sha256": sha256("c"),
            "previous_value_sha256": "hunter2",
            "previous_valid_until": "hunter",
        },
    ]))), @r#"
    governance.virtual_keys[0].previous_value_sha256: needs `previous_valid_until` beside it
    governance.virtual_keys[1].previous_valid_until: needs `previous_value_sha256` beside it
    governance.virtual_keys[2].previous_value_sha256: expected a SHA-256 of 64 hexadecimal digits
    governance.virtual_keys[2].previous_valid_until: found "hunter", expected a time such as "2027-01-31T12:00:00Z" (RFC 3339)
    "#);
}

#[test]
fn no_two_keys_have_one_credential_before_or_after_a_rotation() {
    let file = keys(json!([
        rotated("a", SECRET, OLD),
        {"name": "b", "value": OLD},
        rotated("c", "c", SECRET),
        rotated("d", "d", "d"),
    ]));
    assert_snapshot!(error(&file), @r#"
    governance.virtual_keys[1].value: is the same as that of the key "a"
    governance.virtual_keys[2].previous_value_sha256: is the same as that of the key "a"
    governance.virtual_keys[3].previous_value_sha256: is the same as that of the key "d"
    "#);
}

fn rotated(name: &str, value: &str, previous: &str) -> Value {
    json!({
        "name": name,
        "value_sha256": sha256(value),
        "previous_value_sha256": sha256(previous),
        "previous_valid_until": "2027-01-01T00:00:00Z",
    })
}

/// A key `ann` that is bound to certificates, and a listener that may ask for them.
#[allow(clippy::needless_pass_by_value, reason = "the callers make the values on the spot")]
fn bound(certificates: Value, client_auth: &str) -> Value {
    let tls = json!({"certificate": "c", "key": "k", "client_ca": "a", "client_auth": client_auth});
    let file = ann(&json!({"client_certificate_sha256": certificates}));
    with(file, "server", json!({"tls": tls}))
}

#[test]
fn a_key_is_bound_to_certificates_that_callers_can_show() {
    let digest = CertificateDigest::from_der(b"a certificate");
    let text = credential_digest("a certificate").map(|byte| format!("{byte:02X}")).concat();
    for client_auth in ["optional", "required"] {
        let keys = good(&bound(json!([text]), client_auth)).keys;
        assert!(keys.find(SECRET, Some(digest), at(0)).is_some());
        assert!(keys.find(SECRET, None, at(0)).is_none());
    }
    assert_snapshot!(error(&bound(json!([text, "ab"]), "optional")), @"governance.virtual_keys[0].client_certificate_sha256[1]: expected a SHA-256 of 64 hexadecimal digits");
    assert_snapshot!(error(&bound(json!([]), "optional")), @"governance.virtual_keys[0].client_certificate_sha256: is empty; leave it out for a key that needs no certificate");
    assert_snapshot!(error(&bound(json!([text]), "none")), @"governance.virtual_keys[0].client_certificate_sha256: needs `server.tls.client_ca`: without it, no caller can show a certificate and every request with the key would be refused");
    good(&bound(json!(vec![text.clone(); 100]), "optional"));
    assert_snapshot!(error(&bound(json!(vec![text; 101]), "optional")), @"governance.virtual_keys[0].client_certificate_sha256: has more than 100 elements");
}
