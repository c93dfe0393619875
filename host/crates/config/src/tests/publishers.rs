use super::*;

const KEY: &str = "RWRLp0qAmXAiFOHePhm8QeNW43riADgFksLThhuAg4Lo2QLkNZh/rQ7d";

#[test]
fn publishers_are_keys_by_name_and_a_required_signature_needs_one() {
    let plugins = json!({"publishers": {"acme": KEY}, "require_signature": true});
    let publishers = good(&json!({"plugins": plugins})).publishers;
    assert!(publishers.check_uploaded().is_err() && publishers.publisher(b"", None).is_err());
    let publishers = good(&json!({})).publishers;
    assert!(publishers.check_uploaded().is_ok() && publishers.publisher(b"", None).is_ok());
    assert_snapshot!(error(&json!({"plugins": {"require_signature": true}})), @"plugins.require_signature: requires `publishers`: without one, no plugin could be loaded");
}

#[test]
fn a_bad_key_and_a_bad_name_are_named() {
    let publishers = json!({"acme": "RWQ", "a b": KEY});
    assert_snapshot!(error(&json!({"plugins": {"publishers": publishers}})), @r#"
    plugins.publishers["a b"]: expected a name of 1 to 64 letters, digits, `.`, `_` or `-`
    plugins.publishers.acme: expected a public key of minisign: the second line of `minisign.pub`, such as RWQ…
    "#);
}
