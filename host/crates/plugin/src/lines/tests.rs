mod coverage;
mod grants;

use serde_json::{Value, json};

use super::*;
use crate::{
    Drift, FilesGrant, KvGrant, Metadata, PartialQuota, SecretGrant, manifest::tests::manifest_with,
};
use airlock_core::{
    secret::SecretSource,
    tool::{Allowlist, ClientName, Policy},
};
use airlock_lock::Lock;
use airlock_sandbox::Access;

/// Returns a build with these requests.
fn build(request: &Value) -> Metadata {
    build_with_tools(request, &json!([]), &json!([]))
}

/// Returns a build with these requests, these tools with their effects, and these definitions of tools.
fn build_with_tools(request: &Value, effects: &Value, tools: &Value) -> Metadata {
    let manifest = manifest_with(&json!({"tool": effects, "request": request}));
    let tools = serde_json::from_value(tools.clone()).expect("tools");
    Metadata::new(b"", tools, Some(manifest), Vec::new())
}

/// Returns the lines of a build that have grown under a grant, as text.
fn grown(was: &Metadata, is: &Metadata, grant: &Grant) -> String {
    grown_if_allowed(was, is, grant, &[])
}

/// Returns the same for a client whose tools of these names may run.
fn grown_if_allowed(was: &Metadata, is: &Metadata, grant: &Grant, allowed: &[&str]) -> String {
    let client = ClientName::parse("p").expect("a name");
    let lock = Lock::of_one(was.pin(&client));
    let execute = Allowlist::parse(allowed).expect("a list");
    let policy = Policy { execute, ..Policy::default() };
    let drift = Drift::between(&lock, &client, is, grant, &policy);
    let lines = drift.iter().flat_map(Drift::widened).map(ToString::to_string);
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the requests that have grown under a grant, as text.
fn widened(was: &Value, is: &Value, grant: &Grant) -> String {
    grown(&build(was), &build(is), grant)
}

/// Returns a grant of everything that [`requests`] requests.
fn everything() -> Grant {
    let secret = SecretGrant {
        source: SecretSource::Env("TOKEN".to_owned()),
        audience: None,
        inject: None,
        reveal: false,
    };
    let data = FilesGrant {
        path: "/data".into(),
        access: Access::ReadWrite,
        quota: PartialQuota::default(),
    };
    Grant {
        http: vec![HttpGrant::Requested("api".to_owned())],
        secret: [("token".to_owned(), secret)].into(),
        kv: [("notes".to_owned(), KvGrant::default())].into(),
        files: [("data".to_owned(), data)].into(),
        scratch: Some(PartialQuota::default()),
        tools: vec!["text-count".to_owned()],
        clocks: true,
        ..Grant::default()
    }
}

fn requests(host: &str, header: &str, bytes: &str, access: &str, tools: &[&str]) -> Value {
    json!({
        "http": {"api": {"url": format!("https://{host}"), "reason": "r"}},
        "secret": {"token": {"inject": {"header": header}, "audience": ["api"], "reason": "r"}},
        "kv": {"notes": {"max_bytes": bytes, "reason": "r"}},
        "files": {"data": {"access": access, "reason": "r"}},
        "scratch": {"max_bytes": bytes, "max_files": 1, "reason": "r"},
        "tools": {"call": tools, "reason": "r"},
    })
}

#[test]
fn every_kind_of_granted_request_that_became_wider_is_named_and_an_ungranted_one_is_not() {
    let was = requests("api.example.com", "x-key", "1KiB", "read_only", &["text-trim"]);
    let mut is = requests(
        "example.org:8443",
        "x-token",
        "2KiB",
        "read_write",
        &["text-trim", "text-count", "files-read"],
    );
    is["clocks"] = json!({"reason": "r"});
    insta::assert_snapshot!(widened(&was, &is, &everything()), @"
    clocks (granted)
    files.data read_write (granted)
    http.api https://example.org:8443 GET,HEAD /** (granted, with secret.token)
    kv.notes 2KiB (granted)
    scratch 2KiB 1 files (granted)
    secret.token in header x-token to api (granted)
    tools text-count (granted)
    ");
    assert_eq!(widened(&was, &is, &Grant::default()), "");
    assert_eq!(widened(&is, &is, &everything()), "");
    let lines = widened(&json!({}), &is, &everything());
    assert_eq!(lines.lines().count(), 7, "{lines}");
}

#[test]
fn narrower_requests_and_a_component_without_a_manifest_widen_nothing() {
    let was = requests("api.example.com", "x-key", "2KiB", "read_write", &["text-count", "text-x"]);
    let is = requests("api.example.com/v1", "x-key", "1KiB", "read_only", &["text-count"]);
    assert_eq!(widened(&was, &is, &everything()), "");
    assert_eq!(widened(&was, &json!({}), &everything()), "");
    let without_manifest = Metadata::new(b"", Vec::new(), None, Vec::new());
    assert_eq!(grown(&build(&was), &without_manifest, &everything()), "");
}

#[test]
fn a_request_below_a_rule_of_the_operator_is_granted_too() {
    let rule = "https://*.example.com GET /**".parse().expect("a rule");
    let grant = Grant { http: vec![HttpGrant::Rule(rule)], ..Grant::default() };
    let moved = widened(&api("a.example.com"), &api("b.example.com"), &grant);
    assert!(moved.starts_with("http.api https://b.example.com"), "{moved}");
    assert_eq!(widened(&api("a.example.com"), &api("example.org"), &grant), "");
    let any = json!({"http": {"api": {"url": "*", "reason": "r"}}});
    let any = widened(&api("a.example.com"), &any, &grant);
    assert_eq!(any, "http.api * (granted)\nhttp.api https://*.example.com GET /** (granted)");
}

fn api(host: &str) -> Value {
    json!({"http": {"api": {"url": format!("https://{host}"), "reason": "r"}}})
}

fn secret_grant(http: &[&str]) -> Grant {
    let http = http.iter().map(|grant| match grant.parse() {
        Ok(rule) => HttpGrant::Rule(rule),
        Err(_) => HttpGrant::Requested((*grant).to_owned()),
    });
    Grant { http: http.collect(), secret: everything().secret, ..Grant::default() }
}

#[test]
fn a_destination_of_a_granted_secret_that_moves_is_wider_even_if_its_name_is_not_granted() {
    let was = sending_to("https://api.example.com");
    let grant = secret_grant(&["a", "https://*.example.com GET /**"]);
    insta::assert_snapshot!(
        widened(&was, &sending_to("https://telemetry.example.org"), &grant),
        @"http.b https://telemetry.example.org GET,HEAD /** (granted, with secret.token)"
    );
    assert_eq!(widened(&was, &was, &grant), "");
    // Before, the operator had to name a host; now the plugin does.
    let moved = widened(&sending_to("*"), &sending_to("https://telemetry.example.org"), &grant);
    assert!(moved.starts_with("http.b https://telemetry"), "{moved}");
}

fn sending_to(url: &str) -> Value {
    json!({
        "http": {
            "a": {"url": "https://telemetry.example.org", "reason": "r"},
            "b": {"url": url, "reason": "r"},
        },
        "secret": {"token": {"inject": {"header": "x-key"}, "audience": ["b"], "reason": "r"}},
    })
}

#[test]
fn a_named_directory_is_compared_with_its_own_accepted_access() {
    let was = files(Some("read_only"));
    for is in [files(Some("read_write")), files(None)] {
        assert_eq!(widened(&was, &is, &everything()), "files.data read_write (granted)");
    }
    assert_eq!(widened(&files(None), &files(Some("read_only")), &everything()), "");
}

fn files(named: Option<&str>) -> Value {
    let mut files = json!({"*": {"access": "read_write", "reason": "r"}});
    if let Some(access) = named {
        files["data"] = json!({"access": access, "reason": "r"});
    }
    json!({"files": files})
}

#[test]
fn another_effect_of_an_accepted_tool_grows_if_a_granted_request_makes_it_possible() {
    let was = with_two_tools(&["http"]);
    let grown = |effects: &[&str], grant: &Grant| grown(&was, &with_two_tools(effects), grant);
    assert_eq!(grown(&["http", "write_kv"], &everything()), "effect write_kv of sum (granted)");
    assert_eq!(grown(&["http", "write_kv"], &Grant::default()), "");
    assert_eq!(grown(&[], &everything()), "");
}

/// Returns a build with the tool `sum`, and with effects of `sum` and of a tool that it does not have.
fn with_two_tools(effects: &[&str]) -> Metadata {
    let requests = json!({
        "http": {"api": {"url": "https://api.example.com", "reason": "r"}},
        "kv": {"notes": {"max_bytes": "1KiB", "reason": "r"}},
    });
    let effects = json!([{"name": "sum", "effects": effects}, {"name": "new", "effects": effects}]);
    build_with_tools(&requests, &effects, &json!([{"name": "sum", "inputSchema": {}}]))
}

#[test]
fn an_effect_of_a_tool_that_was_not_accepted_grows_if_the_lists_of_the_client_let_it_run() {
    let was = with_tool("get_weather", &[], true);
    for (tool, allowed, has_grown) in [
        ("Get_weather", &["get_weather"][..], true),
        ("forecast", &["get_weather", "Forecast"], true),
        ("forecast", &["*"], true),
        ("forecast", &["get_weather"], false),
        ("forecast", &[], false),
    ] {
        let is = with_tool(tool, &["write_kv.notes"], true);
        let expected = if has_grown {
            format!("effect write_kv.notes of {tool} (granted)")
        } else {
            String::new()
        };
        let found = grown_if_allowed(&was, &is, &everything(), allowed);
        assert_eq!(found, expected, "{tool} {allowed:?}");
        assert_eq!(grown_if_allowed(&was, &is, &Grant::default(), allowed), "");
    }
}

#[test]
fn every_effect_grows_if_the_accepted_build_embeds_no_tools() {
    let was = with_tool("get_weather", &["read_kv.notes"], false);
    for tool in ["get_weather", "forecast"] {
        let is = with_tool(tool, &["write_kv.notes"], true);
        let expected = format!("effect write_kv.notes of {tool} (granted)");
        assert_eq!(grown(&was, &is, &everything()), expected);
    }
    let same = with_tool("get_weather", &["read_kv.notes"], true);
    assert_eq!(grown(&was, &same, &everything()), "");
}

/// Returns a build with one tool that has these effects, and whose definition may be embedded.
fn with_tool(name: &str, effects: &[&str], is_embedded: bool) -> Metadata {
    let requests = json!({"kv": {"notes": {"max_bytes": "1KiB", "reason": "r"}}});
    let effects = json!([{"name": name, "effects": effects}]);
    let tools = if is_embedded { json!([{"name": name, "inputSchema": {}}]) } else { json!([]) };
    build_with_tools(&requests, &effects, &tools)
}

/// Returns a build whose tools `sum` and `all` have these effects on directories, one of which may
/// have a request of its own.
fn with_directories(effects: &[&str], is_named: bool) -> Metadata {
    let request = json!({"access": "read_write", "reason": "r"});
    let mut files = json!({"*": request});
    if is_named {
        files["data"] = request;
    }
    let effects =
        json!([{"name": "sum", "effects": effects}, {"name": "all", "effects": ["read_files"]}]);
    let tools = json!([{"name": "sum", "inputSchema": {}}, {"name": "all", "inputSchema": {}}]);
    build_with_tools(&json!({"files": files}), &effects, &tools)
}

#[test]
fn an_effect_on_any_directory_grows_if_one_loses_its_own_request() {
    let reading_any = |is_named| with_directories(&["read_files.*"], is_named);
    let grown = |was, is| grown(&reading_any(was), &reading_any(is), &everything());
    assert_eq!(grown(true, false), "effect read_files.data of sum (granted)");
    for (was, is) in [(true, true), (false, false), (false, true)] {
        assert_eq!(grown(was, is), "");
    }
}

#[test]
fn an_effect_on_a_directory_that_the_effect_on_any_covered_has_not_grown() {
    for (was, had_own, is, has_grown) in [
        ("read_files.*", false, "read_files.data", false),
        ("write_files.*", false, "read_files.data", false),
        ("read_files.*", false, "write_files.data", true),
        ("read_files.*", true, "read_files.data", true),
    ] {
        let before = with_directories(&[was], had_own);
        let found = grown(&before, &with_directories(&[is], true), &everything());
        assert_eq!(!found.is_empty(), has_grown, "{was} {is}: {found}");
    }
}

#[test]
fn an_effect_on_more_requests_has_grown_and_one_on_fewer_has_not() {
    let mut grant = everything();
    grant.http.push(HttpGrant::Requested("b".to_owned()));
    let grown = |was: &[&str], is: &[&str]| grown(&with_one_tool(was), &with_one_tool(is), &grant);
    assert_eq!(grown(&["http.api"], &["http"]), "effect http of sum (granted)");
    insta::assert_snapshot!(
        grown(&["http.api", "read_kv.notes"], &["http.api", "http.b", "write_kv.notes"]),
        @"
    effect http.b of sum (granted)
    effect write_kv.notes of sum (granted)
    "
    );
    for (was, is) in [
        (&["http"][..], &["http.api"][..]),
        (&["http.api", "http.b"], &["http.b"]),
        (&["write_kv.notes"], &["read_kv.notes"]),
        (&["write_kv"], &["read_kv.notes", "read_kv"]),
        // The request is not granted.
        (&["http.api"], &["http.api", "http.c"]),
    ] {
        assert_eq!(grown(was, is), "", "{was:?} {is:?}");
    }
}

fn with_one_tool(effects: &[&str]) -> Metadata {
    let http = |host: &str| json!({"url": format!("https://{host}.example.com"), "reason": "r"});
    let requests = json!({
        "http": {"api": http("a"), "b": http("b"), "c": http("c")},
        "kv": {"notes": {"max_bytes": "1KiB", "reason": "r"}},
    });
    let effects = json!([{"name": "sum", "effects": effects}]);
    build_with_tools(&requests, &effects, &json!([{"name": "sum", "inputSchema": {}}]))
}

/// Returns requests for any host, one of which is the audience of a secret, and a request with this
/// host.
fn any_host(named: Option<&str>) -> Value {
    let http = |url: &str| json!({"url": url, "reason": "r"});
    let mut requests = json!({
        "http": {"any": http("*"), "other": http("*")},
        "secret": {"token": {"inject": {"header": "x-key"}, "audience": ["any"], "reason": "r"}},
    });
    if let Some(url) = named {
        requests["http"]["a"] = http(url);
    }
    requests
}

#[test]
fn a_rule_whose_own_request_is_gone_comes_to_the_requests_for_any_host() {
    let was = any_host(Some("https://a.example"));
    for rules in [
        &["https://a.example GET /v1/**", "https://b.example GET /**"][..],
        &["https://a.example GET /v1/**"],
    ] {
        let grant = secret_grant(rules);
        insta::allow_duplicates! {
            insta::assert_snapshot!(widened(&was, &any_host(None), &grant), @"
            http.any https://a.example GET /v1/** (granted, with secret.token)
            http.other https://a.example GET /v1/** (granted)
            ");
        }
    }
}

#[test]
fn a_rule_whose_own_request_became_narrower_or_moved_counts_and_one_that_is_still_within_does_not()
{
    let grant = secret_grant(&["https://a.example GET /v1/**"]);
    let was = any_host(Some("https://a.example"));
    for (named, has_grown) in [
        ("https://a.example", false),
        ("https://a.example/v1", false),
        ("https://a.example/v2", true),
        ("https://c.example", true),
    ] {
        let found = widened(&was, &any_host(Some(named)), &grant);
        assert_eq!(found.contains("http.any https://a.example GET"), has_grown, "{found}");
    }
    let new = widened(&any_host(None), &was, &grant);
    assert!(!new.contains("http.any") && !new.contains("http.other"), "{new}");
    assert_eq!(widened(&any_host(None), &any_host(None), &grant), "");
}

#[test]
fn a_request_for_any_host_that_is_new_is_named_with_the_rules_that_it_stands_for() {
    let grant = secret_grant(&["https://a.example GET /v1/**"]);
    let mut was = any_host(Some("https://a.example"));
    was["http"].as_object_mut().expect("an object").remove("other");
    let found = widened(&was, &any_host(None), &grant);
    assert_eq!(found.matches("http.other * (granted)").count(), 1, "{found}");
    assert_eq!(found.matches("http.other https://a.example GET").count(), 1, "{found}");
}

#[test]
fn a_line_is_the_line_of_the_lock_file() {
    for line in [
        "import wasi:io/poll@0.2.0",
        "effect http.api of sum",
        "http.api https://a.example GET /**",
        "clocks",
        "slot.find Finds pages of a site.",
        "limits.memory 1MiB",
        "effect of nothing",
    ] {
        assert_eq!(LockLine::parse(line).to_string(), line);
    }
}
