mod secrets;
mod storage;

use serde_json::{Value, json};

use super::*;
use crate::{
    FilesGrant, HttpGrant, KvGrant, PartialQuota, SecretGrant, manifest::tests::manifest_with,
};
use airlock_core::limit::{GuestLimit, GuestLimitSet};
use airlock_egress::{Bounds, Injection, Policy, Rule};
use airlock_sandbox::{Access, Effect, Effects, KvStore, Quota};

fn manifest(request: &Value, config: Option<Value>) -> Manifest {
    let mut keys = json!({"id": "weather", "request": request});
    if let Some(schema) = config {
        keys["config"] = json!({"schema": schema});
    }
    manifest_with(&keys)
}

/// Returns the same value for every secret except the missing one.
fn read(source: &SecretSource) -> Result<Secret, SourceError> {
    match source {
        SecretSource::Env(name) if name == "UNSET" => {
            Err(SourceError::NotSet { origin: source.clone() })
        }
        _ => Ok(Secret::new("hush-hush-hush")),
    }
}

fn decide(request: &Value, grant: &Grant) -> Result<Rights, String> {
    Rights::intersect(Some(&manifest(request, None)), grant, &read)
        .map_err(|refusal| refusal.to_string())
}

fn granted(request: &Value, grant: &Grant) -> Rights {
    decide(request, grant).expect("it is granted")
}

fn refused(request: &Value, grant: &Grant) -> String {
    decide(request, grant).expect_err("it is refused")
}

fn trusted(grant: Grant) -> Grant {
    Grant { profile: Profile::Trusted, ..grant }
}

fn rule(text: &str) -> Rule {
    text.parse().expect("a rule")
}

fn http(grants: &[HttpGrant]) -> Grant {
    Grant { http: grants.to_vec(), ..Grant::default() }
}

fn named(name: &str) -> HttpGrant {
    HttpGrant::Requested(name.to_owned())
}

fn api(more: &Value) -> Value {
    let mut api = json!({"url": "https://api.example.com", "reason": "forecasts"});
    api.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!({"http": {"api": api}})
}

#[test]
fn no_request_and_no_grant_result_in_no_rights() {
    let Rights { grants, limits, notes } = granted(&json!({}), &Grant::default());
    assert!(
        grants.http.is_none()
            && grants.secrets.is_empty()
            && grants.revealed.is_empty()
            && grants.stores.is_empty()
    );
    assert!(grants.directories.is_empty() && grants.scratch.is_none());
    assert!(grants.tools == ToolNames::default() && !grants.clocks);
    assert_eq!(
        (limits.fuel, limits.memory_bytes),
        (Limits::PLUGIN.fuel, Limits::PLUGIN.memory_bytes)
    );
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn a_destination_is_granted_by_its_name() {
    let asked = api(&json!({"methods": ["POST"]}));
    let policy = granted(&asked, &http(&[named("api")])).grants.http.expect("a policy");
    let both = vec![rule("https://api.example.com POST /**")];
    let requested = [("api".to_owned(), both.clone())].into();
    assert_eq!(*policy, Policy::new(Some(requested), both, Bounds::PLUGIN).expect("a policy"));
    insta::assert_snapshot!(
        refused(&asked, &Grant::default()),
        @r#"the plugin needs http.api (https://api.example.com POST /**), which is not granted; its reason: forecasts; grant it with "http": ["api"]"#
    );
    insta::assert_snapshot!(
        refused(&asked, &http(&[named("api"), named("other")])),
        @r#"grants.http[1]: found "other"; the plugin requests api"#
    );
    let optional = granted(&api(&json!({"optional": true})), &Grant::default());
    assert!(
        optional.grants.http.is_none() && optional.notes[0].contains("can do without"),
        "{:?}",
        optional.notes
    );
}

#[test]
fn a_destination_is_granted_by_a_rule_for_the_same_host() {
    let asked = api(&json!({}));
    for text in ["https://api.example.com GET /v1/**", "https://*.example.com GET /**"] {
        let policy =
            granted(&asked, &http(&[HttpGrant::Rule(rule(text))])).grants.http.expect("a policy");
        let wanted = vec![rule("https://api.example.com GET,HEAD /**")];
        let wanted = [("api".to_owned(), wanted)].into();
        assert_eq!(
            *policy,
            Policy::new(Some(wanted), vec![rule(text)], Bounds::PLUGIN).expect("a policy"),
            "{text}"
        );
    }
    let elsewhere =
        refused(&asked, &http(&[HttpGrant::Rule(rule("https://other.example.org GET /**"))]));
    assert!(elsewhere.contains("needs http.api"), "{elsewhere}");
}

#[test]
fn a_rule_that_permits_less_than_the_request_is_noted_with_both() {
    let all = "https://*.example.com GET,HEAD,POST /**";
    for whole in [&[all][..], &["https://api.example.com GET /v1/**", all]] {
        assert!(noted(whole).is_empty(), "{whole:?}");
    }
    let part = noted(&["https://api.example.com GET /v1/**", "https://other.example.org GET /**"]);
    insta::assert_snapshot!(part.join("\n"), @"http.api is granted for https://api.example.com GET /v1/**; the plugin requests https://api.example.com GET,HEAD /**");
}

/// Returns the notes about these rules for a request of `https://api.example.com GET,HEAD /**`.
fn noted(rules: &[&str]) -> Vec<String> {
    let rules: Vec<_> = rules.iter().map(|text| HttpGrant::Rule(rule(text))).collect();
    granted(&api(&json!({})), &http(&rules)).notes
}

#[test]
fn private_networks_and_plain_http_need_a_trusted_plugin() {
    let private = api(&json!({"private": true}));
    insta::assert_snapshot!(
        refused(&private, &http(&[named("api")])),
        @r#"grants.http[0]: the profile "untrusted" does not open private networks; "profile": "trusted" does"#
    );
    let plain = json!({"http": {"api": {"url": "http://api.example.com", "reason": "forecasts"}}});
    assert!(refused(&plain, &http(&[named("api")])).contains("does not open HTTP without TLS"));
    for asked in [private, plain] {
        assert!(granted(&asked, &trusted(http(&[named("api")]))).grants.http.is_some());
    }
}

#[test]
fn a_request_for_any_host_leaves_private_networks_to_the_operator_too() {
    let private = rule("http://intranet.example GET /** private");
    for is_asked in [false, true] {
        let policy =
            granted(&any_host(is_asked), &trusted(http(&[HttpGrant::Rule(private.clone())])))
                .grants
                .http;
        assert_eq!(
            *policy.expect("a policy"),
            Policy::new(None, vec![private.clone()], Bounds::PLUGIN).expect("a policy")
        );
    }
    insta::assert_snapshot!(
        refused(&any_host(false), &http(&[named("web")])),
        @r#"grants.http[0]: the request "web" of the plugin leaves the host to you; grant a rule in its place, such as {"url": "https://api.example.com"}; the plugin needs http.web (hosts of your choice), which is not granted; its reason: reads; grant hosts with "http": [{"url": "https://…"}]"#
    );
}

fn any_host(private: bool) -> Value {
    json!({"http": {"web": {"url": "*", "private": private, "reason": "reads"}}})
}

#[test]
fn a_destination_of_the_operators_choice_stands_for_the_operators_rules_and_not_for_named_grants() {
    let mut asked = api(&json!({}));
    asked["http"]["web"] = json!({"url": "*", "reason": "reads"});
    let news = rule("https://news.example.org GET /**");
    let grant = http(&[named("api"), HttpGrant::Rule(news.clone())]);
    let destinations = granted(&asked, &grant).grants.destinations;
    let own = rule("https://api.example.com GET,HEAD /**");
    let expected = [("api".to_owned(), vec![own]), ("web".to_owned(), vec![news])];
    assert_eq!(*destinations, expected.into());
}

#[test]
fn a_rule_of_the_operator_belongs_to_the_request_with_a_host_that_contains_it_and_to_no_other() {
    let mut asked = api(&json!({"methods": ["GET", "POST"], "paths": ["/v1/**"]}));
    asked["http"]["web"] = json!({"url": "*", "reason": "reads"});
    asked["http"]["wide"] = json!({"url": "*", "reason": "reads"});
    for (text, is_of_named) in [
        ("https://api.example.com GET /v1/a", true),
        ("https://api.example.com GET,POST /v1/**", true),
        ("https://api.example.com PUT /v1/a", false),
        ("https://api.example.com GET /**", false),
        ("https://api.example.com GET /v1/a private", false),
        ("https://*.example.com GET /v1/a", false),
    ] {
        let grant = trusted(http(&[HttpGrant::Rule(rule(text))]));
        let destinations = granted(&asked, &grant).grants.destinations;
        let own = if is_of_named { Vec::new() } else { vec![rule(text)] };
        assert_eq!((&destinations["web"], &destinations["wide"]), (&own, &own), "{text}");
    }
}

#[test]
fn tools_are_granted_one_by_one() {
    let asked = json!({"tools": {"call": ["text-count", "files-read"], "reason": "counts"}});
    let all = granted(&asked, &tools(&["files-read", "text-count", "files-write"]));
    assert!(all.grants.tools.full.iter().eq(["files-read", "text-count"]));
    assert_eq!(all.notes, ["grants.tools[2] opens nothing: the plugin does not ask for it"]);
    insta::assert_snapshot!(
        refused(&asked, &tools(&["text-count"])),
        @r#"the plugin needs the tool files-read, which is not granted; its reason: counts; grant it with "tools": ["files-read"]"#
    );
}

fn tools(names: &[&str]) -> Grant {
    Grant { tools: names.iter().map(ToString::to_string).collect(), ..Grant::default() }
}

#[test]
fn a_slot_has_the_tool_that_the_operator_bound_to_it_or_none() {
    let asked = json!({"slot": {
        "forecast": {"reason": "plans"},
        "notify": {"reason": "reports", "optional": true},
    }});
    let found = granted(&asked, &slots(&["forecast", "other"]));
    let expected =
        [("forecast".to_owned(), Some("p-forecast".to_owned())), ("notify".to_owned(), None)];
    assert_eq!(found.grants.tools, ToolNames { slots: expected.into(), ..ToolNames::default() });
    assert_eq!(
        found.notes,
        [
            "grants.slot.other opens nothing: the plugin does not ask for it",
            "slot.notify is not granted, and the plugin can do without",
        ]
    );
    insta::assert_snapshot!(
        refused(&asked, &slots(&["notify"])),
        @r#"the plugin needs slot.forecast, which is not granted; its reason: plans; bind a tool to it with "slot": {"forecast": "CLIENT-TOOL"}"#
    );
    let without_manifest = Rights::intersect(None, &slots(&["any"]), &read).expect("it is granted");
    assert_eq!(without_manifest.grants.tools.slots["any"].as_deref(), Some("p-any"));
}

fn slots(bound: &[&str]) -> Grant {
    let slots = bound.iter().map(|slot| ((*slot).to_owned(), format!("p-{slot}")));
    Grant { slots: slots.collect(), ..Grant::default() }
}

#[test]
fn the_declared_effects_of_each_tool_are_part_of_the_grants_unless_there_is_no_manifest() {
    let tools = declared(&json!([{"name": "put", "effects": ["write_kv"]}, {"name": "count"}]));
    assert!(tools["put"].contains(Effect::WriteKv) && !tools["put"].contains(Effect::Http));
    assert_eq!(tools["count"], Effects::default());
    assert!(declared(&json!([])).is_empty(), "a manifest without tools declares nothing");
    let without = Rights::intersect(None, &Grant::default(), &read).expect("it is granted");
    assert!(without.grants.declared.is_none());
}

fn declared(tools: &Value) -> std::collections::BTreeMap<String, Effects> {
    let kv = json!({"n": {"max_bytes": "1KiB", "reason": "r"}});
    let manifest = manifest_with(&json!({"request": {"kv": kv}, "tool": tools}));
    let grant = Grant { kv: [("n".to_owned(), KvGrant::default())].into(), ..Grant::default() };
    let rights = Rights::intersect(Some(&manifest), &grant, &read).expect("it is granted");
    rights.grants.declared.as_deref().expect("there is a manifest").clone()
}

#[test]
fn a_limit_is_the_least_of_request_grant_and_ceiling() {
    let most = GuestLimit::HostCalls.default_amount();
    for (request, grant, expected) in [
        (None, None, most),
        (Some(10), None, 10),
        (None, Some(20), 20),
        (Some(10), Some(20), 10),
        (Some(20), Some(10), 10),
        (Some(most + 1), None, most),
        (None, Some(most), most),
    ] {
        let found = granted(&host_calls(request), &granting_host_calls(grant));
        assert_eq!(u64::from(found.limits.host_calls), expected, "{request:?}, {grant:?}");
        let falls_short = request.is_some_and(|request| request > expected);
        assert_eq!(
            !found.notes.is_empty(),
            falls_short,
            "{request:?}, {grant:?}: {:?}",
            found.notes
        );
    }
    let beyond = refused(&host_calls(None), &granting_host_calls(Some(most + 1)));
    assert!(
        beyond.starts_with("limits.host_calls: found ")
            && beyond.contains("the profile \"untrusted\""),
        "{beyond}"
    );
    let trusted = granted(&host_calls(None), &trusted(granting_host_calls(Some(most + 1))));
    assert_eq!(u64::from(trusted.limits.host_calls), most + 1);
}

fn host_calls(requested: Option<u64>) -> Value {
    match requested {
        Some(calls) => json!({"limits": {"host_calls": calls}}),
        None => json!({}),
    }
}

fn granting_host_calls(granted: Option<u64>) -> Grant {
    let mut limits = GuestLimitSet::default();
    if let Some(calls) = granted {
        limits = limits.with(GuestLimit::HostCalls, calls);
    }
    Grant { limits, ..Grant::default() }
}

#[test]
fn times_and_sizes_are_limited_like_counts() {
    let asked = json!({"limits": {"memory": "1MiB", "cpu_time": "10ms", "deadline": "2s", "http_requests": 3, "http_request": "2KiB", "http_timeout": "5s"}});
    let limits = granted(&asked, &Grant::default()).limits;
    let expected =
        (1 << 20, std::time::Duration::from_millis(10), std::time::Duration::from_secs(2));
    assert_eq!((limits.memory_bytes, limits.cpu, limits.deadline), expected);
    let mut with_http = api(&json!({}));
    with_http["limits"] = asked["limits"].clone();
    let policy = granted(&with_http, &http(&[named("api")])).grants.http.expect("a policy");
    let bounds = Bounds {
        requests: 3,
        request_bytes: 2 << 10,
        timeout: std::time::Duration::from_secs(5),
        ..Bounds::PLUGIN
    };
    assert_eq!(*policy.bounds(), bounds);
    with_http["limits"] = json!({"http_request": "1GiB", "http_timeout": "1h"});
    let beyond = granted(&with_http, &http(&[named("api")]));
    assert_eq!(*beyond.grants.http.expect("a policy").bounds(), Bounds::PLUGIN);
    assert_eq!(
        beyond.notes,
        [
            "limits.http_request is 1MiB; the plugin requests 1GiB",
            "limits.http_timeout is 30s; the plugin requests 1h",
        ]
    );
}

#[test]
fn real_time_must_be_requested_and_granted() {
    assert!(granted(&real_time(false), &clocks(true)).grants.clocks);
    assert!(!granted(&json!({}), &clocks(true)).grants.clocks);
    assert!(!granted(&real_time(true), &clocks(false)).grants.clocks);
    insta::assert_snapshot!(
        refused(&real_time(false), &clocks(false)),
        @r#"the plugin needs clocks, which is not granted; its reason: dates; grant it with "clocks": true"#
    );
}

fn real_time(optional: bool) -> Value {
    json!({"clocks": {"reason": "dates", "optional": optional}})
}

fn clocks(clocks: bool) -> Grant {
    Grant { clocks, ..Grant::default() }
}

#[test]
fn a_configuration_is_refused_for_a_plugin_that_takes_none() {
    let grant = Grant {
        config: Arc::new(json!({"unit": "c"}).as_object().expect("an object").clone()),
        ..Grant::default()
    };
    let takes = manifest(
        &json!({}),
        Some(json!({"type": "object", "properties": {"unit": {"type": "string"}}})),
    );
    assert_eq!(
        Rights::intersect(Some(&takes), &grant, &read).expect("it is granted").grants.config["unit"],
        "c"
    );
    insta::assert_snapshot!(refused(&json!({}), &grant), @"config: the plugin takes no configuration");
    assert!(Rights::intersect(None, &grant, &read).is_ok(), "without a manifest nobody knows");
}

#[test]
fn all_reasons_for_a_refusal_are_reported_at_once() {
    let asked =
        json!({"clocks": {"reason": "dates"}, "kv": {"n": {"max_bytes": "1KiB", "reason": "r"}}});
    let refusal = Rights::intersect(Some(&manifest(&asked, None)), &Grant::default(), &read)
        .expect_err("refused");
    assert_eq!(refusal.reasons.len(), 2, "{refusal}");
}

#[test]
fn a_configuration_that_cannot_be_checked_is_refused() {
    let endless = manifest(&json!({}), Some(json!({"type": "object", "allOf": [{"$ref": "#"}]})));
    let refusal = Rights::intersect(Some(&endless), &Grant::default(), &read);
    let refusal = refusal.map(|_| ()).expect_err("the schema has no bound").to_string();
    insta::assert_snapshot!(refusal, @"the plugin's manifest: nothing can be checked against the config.schema: #: more than 256 subschemas inside each other for one value; does a reference lead back to itself?");
}
