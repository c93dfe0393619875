//! Requests that stay although the calls of a build did not use them.

use super::*;

fn directory() -> Value {
    json!({"access": "read_only", "reason": "r"})
}

/// Returns the calls of a plugin with a store and these requests, whose tool may read both.
fn reads_notes(more: &Value) -> UsesFixture {
    let mut requests = json!({"kv": {"notes": {"max_bytes": "1MiB", "reason": "r"}}});
    requests.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
    let tools = json!([{"name": "sync", "effects": ["read_kv.notes", "read_files"]}]);
    UsesFixture::new(tools, requests).granted(&["files.data=/d"])
}

/// Returns the line of a report that begins with this text; empty if there is none.
fn line(report: &str, begin: &str) -> String {
    report.lines().find(|line| line.starts_with(begin)).unwrap_or_default().to_owned()
}

#[test]
fn the_first_request_that_gives_the_plugin_wasi_stays_if_no_such_request_was_used() {
    let requests = json!({"files": {"data": directory()}, "clocks": {"reason": "r"}});
    let mut fixture = reads_notes(&requests).called("sync", &[used(Use::ReadKv, "notes")]);
    let report = fixture.report();
    assert_eq!(line(&report, "never used: "), "never used: files.data, clocks");
    assert_eq!(line(&report, "Remove: "), "Remove: [request.clocks]");
    assert!(line(&report, "[request.files.data]").contains("WASI"), "{report}");
}

#[test]
fn no_unused_request_stays_for_wasi_beside_one_that_was_used() {
    for (request, use_of_it) in [
        (json!({"scratch": {"max_bytes": "1KiB", "max_files": 1, "reason": "r"}}), Use::Scratch),
        (json!({"clocks": {"reason": "r"}}), Use::Clocks),
    ] {
        let mut requests = request;
        requests["files"] = json!({"data": directory()});
        let uses = [used(Use::ReadKv, "notes"), use_of_it];
        let mut fixture = reads_notes(&requests).called("sync", &uses);
        let report = fixture.report();
        assert_eq!(line(&report, "Remove: "), "Remove: [request.files.data]", "{report}");
        assert!(!report.contains("WASI"), "{report}");
    }
}

#[test]
fn a_request_without_wasi_does_not_stay_for_it() {
    let requests = json!({"kv": {"notes": {"max_bytes": "1MiB", "reason": "r"}, "old": {"max_bytes": "1MiB", "reason": "r"}}});
    let tools = json!([{"name": "sync", "effects": ["read_kv"]}]);
    let mut fixture =
        UsesFixture::new(tools, requests).called("sync", &[used(Use::ReadKv, "notes")]);
    let report = fixture.report();
    assert_eq!(line(&report, "Remove: "), "Remove: [request.kv.old]", "{report}");
    assert!(!report.contains("WASI"), "{report}");
}

#[test]
fn a_secret_for_hosts_of_the_operators_choice_and_its_destinations_are_not_judged() {
    let inject = json!({"query": "k"});
    let mut fixture = UsesFixture::new(
        json!([{"name": "sync", "effects": ["http", "secret"]}]),
        json!({
            "http": {"any": http("*"), "api": http("https://a.example"), "old": http("https://b.example")},
            "secret": {
                "fixed": {"inject": inject, "audience": ["old"], "reason": "r"},
                "open": {"inject": inject, "audience": ["any", "api"], "reason": "r"},
            },
        }),
    )
    .granted(&["http=https://x.example", "secret.fixed=env:F", "secret.open=env:O"])
    .called("sync", &[]);
    let report = fixture.report();
    assert_eq!(line(&report, "Remove: "), "Remove: [request.http.old], [request.secret.fixed]");
    assert!(!report.contains("effects"), "the tool keeps them for what is not judged: {report}");
}
