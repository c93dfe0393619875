//! Rules by which an accepted request covers another one.

use serde_json::{Value, json};

use super::{Grant, LockLine, LockLines, build, everything};

/// Returns whether the lines of one manifest cover every line of another one.
fn covers(was: &Value, is: &Value) -> bool {
    let grant = everything();
    let was = LockLines::new(&build(was).lock_lines(), &grant);
    build(is).lock_lines().iter().all(|line| was.cover(&LockLine::parse(line)))
}

/// Asserts that the second of two requests is narrower than the first.
fn narrows(wide: &Value, narrow: &Value) {
    assert!(covers(wide, wide) && covers(narrow, narrow), "{wide} {narrow}");
    assert!(covers(wide, narrow), "{narrow} is not within {wide}");
    assert!(!covers(narrow, wide), "{wide} is within {narrow}");
}

#[test]
fn a_destination_is_compared_by_its_rule() {
    let wide = api(&json!({"url": "https://api.example.com", "methods": ["GET", "POST"]}));
    for narrow in [
        json!({"url": "https://api.example.com", "methods": ["POST"]}),
        json!({"url": "https://api.example.com/v1", "methods": ["GET"]}),
    ] {
        narrows(&wide, &api(&narrow));
    }
    // A host of the author's choice is not one of the operator's.
    let any = api(&json!({"url": "*"}));
    assert!(!covers(&any, &wide) && !covers(&wide, &any));
    for moved in ["https://api.example.org", "https://api.example.com:8443"] {
        let moved = api(&json!({"url": moved}));
        assert!(!covers(&wide, &moved) && !covers(&moved, &wide), "{moved}");
    }
    let public = api(&json!({"url": "https://api.example.com", "private": false}));
    narrows(&api(&json!({"url": "https://api.example.com", "private": true})), &public);
}

fn api(rule: &Value) -> Value {
    let mut rule = rule.clone();
    rule["reason"] = json!("r");
    json!({"http": {"api": rule}})
}

#[test]
fn a_secret_is_compared_by_injection_audience_and_whether_it_is_revealed() {
    let both = json!(["to", "goto"]);
    let key = json!({"header": "x-key", "prefix": "comes to the "});
    narrows(&used(&key, &both), &used(&key, &json!(["goto"])));
    narrows(
        &secret(&json!({"inject": key, "audience": both, "reveal": true})),
        &used(&key, &json!(["to"])),
    );
    narrows(
        &secret(&json!({"inject": key, "audience": both, "reveal": true})),
        &secret(&json!({"reveal": true})),
    );
    for other in [json!({"query": "key"}), json!({"header": "x-key"}), json!({"header": "x-other"})]
    {
        assert!(!covers(&used(&key, &both), &used(&other, &both)), "{other}");
    }
}

fn secret(secret: &Value) -> Value {
    let to = json!({"url": "https://to.example.com", "reason": "r"});
    let goto = json!({"url": "https://goto.example.com", "reason": "r"});
    let mut request = json!({"http": {"to": to, "goto": goto}, "secret": {"t": secret}});
    request["secret"]["t"]["reason"] = json!("r");
    request
}

fn used(inject: &Value, audience: &Value) -> Value {
    secret(&json!({"inject": inject, "audience": audience}))
}

#[test]
fn space_is_compared_by_access_bytes_and_files() {
    let some = data(&json!({"access": "read_write", "max_bytes": "2MiB", "max_files": 5}));
    narrows(&data(&json!({"access": "read_write"})), &some);
    for narrow in [
        json!({"access": "read_write", "max_bytes": "2047KiB", "max_files": 5}),
        json!({"access": "read_write", "max_bytes": "2MiB", "max_files": 4}),
        json!({"access": "read_only"}),
    ] {
        narrows(&some, &data(&narrow));
    }
    assert!(covers(&any("read_write"), &some) && !covers(&any("read_only"), &some));
    assert!(!covers(&some, &any("read_only")));
    narrows(&cache("2KiB"), &cache("1KiB"));
    narrows(&cache("2KiB"), &store("2KiB"));
    assert!(!covers(&store("2KiB"), &cache("1KiB")));
    narrows(&store("1MiB"), &store("1500B"));
    narrows(&scratch(3), &scratch(2));
}

fn data(files: &Value) -> Value {
    let mut files = files.clone();
    files["reason"] = json!("r");
    json!({"files": {"data": files}})
}

fn any(access: &str) -> Value {
    json!({"files": {"*": {"access": access, "reason": "r"}}})
}

fn cache(bytes: &str) -> Value {
    json!({"kv": {"n": {"max_bytes": bytes, "cache": true, "reason": "r"}}})
}

fn store(bytes: &str) -> Value {
    json!({"kv": {"n": {"max_bytes": bytes, "reason": "r"}}})
}

fn scratch(files: u64) -> Value {
    json!({"scratch": {"max_bytes": "1MiB", "max_files": files, "reason": "r"}})
}

#[test]
fn a_line_that_cannot_be_read_covers_only_itself() {
    let grant = Grant::default();
    for (unreadable, line) in [
        ("http.api anything", "http.api https://api.example.com GET /**"),
        ("kv.n a lot", "kv.n 1B"),
        ("unknown.x a lot", "unknown.x"),
    ] {
        let accepted = LockLines::new(&[unreadable.to_owned()], &grant);
        assert!(accepted.cover(&LockLine::parse(unreadable)));
        assert!(!accepted.cover(&LockLine::parse(line)), "{line}");
    }
}

#[test]
fn a_slot_grows_if_its_description_changes_and_not_if_it_goes() {
    let slot =
        |description: &str| json!({"slot": {"find": {"description": description, "reason": "r"}}});
    let bare = json!({"slot": {"find": {"reason": "r"}}});
    narrows(&slot("Finds pages."), &bare);
    assert!(!covers(&slot("Finds pages."), &slot("Sends mail.")));
}
