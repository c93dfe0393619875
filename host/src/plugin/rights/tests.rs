use serde_json::{Value, json};

use super::*;
use crate::{
    egress::Bounds,
    plugin::{DirectoryAnswer, LimitsAnswer, MANIFEST_SCHEMA, StoreAnswer},
};

fn manifest(request: &Value, config: Option<Value>) -> Manifest {
    let mut manifest = json!({"schema": MANIFEST_SCHEMA, "id": "weather", "version": "1.0.0", "contract": "0.1", "request": request});
    if let Some(schema) = config {
        manifest["config"] = json!({"schema": schema});
    }
    Manifest::parse(manifest.to_string().as_bytes()).expect("a good manifest")
}

/// Returns the same value for every secret except the missing one.
fn read(source: &Source) -> Result<Secret, SourceError> {
    match source {
        Source::Env(name) if name == "UNSET" => Err(SourceError::NotSet { origin: source.clone() }),
        _ => Ok(Secret::new("hush-hush-hush")),
    }
}

fn decide(request: &Value, answer: &Answer) -> Result<Settled, String> {
    settle(Some(&manifest(request, None)), answer, &read).map_err(|refusal| refusal.to_string())
}

fn granted(request: &Value, answer: &Answer) -> Settled {
    decide(request, answer).expect("it is granted")
}

fn refused(request: &Value, answer: &Answer) -> String {
    decide(request, answer).expect_err("it is refused")
}

fn trusted(answer: Answer) -> Answer {
    Answer { profile: Profile::Trusted, ..answer }
}

fn rule(text: &str) -> Rule {
    text.parse().expect("a rule")
}

fn http(grants: &[HttpAnswer]) -> Answer {
    Answer { http: grants.to_vec(), ..Answer::default() }
}

fn named(name: &str) -> HttpAnswer {
    HttpAnswer::Requested(name.to_owned())
}

fn api(more: &Value) -> Value {
    let mut api = json!({"url": "https://api.example.com", "reason": "forecasts"});
    api.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    json!({"http": {"api": api}})
}

#[test]
fn no_request_and_no_grant_result_in_no_rights() {
    let Settled { grants, limits, notes } = granted(&json!({}), &Answer::default());
    assert!(
        grants.http.is_none()
            && grants.secrets.is_empty()
            && grants.revealed.is_empty()
            && grants.stores.is_empty()
    );
    assert!(grants.directories.is_empty() && grants.scratch.is_none() && grants.tools.is_empty());
    assert!(!grants.clocks && !grants.random);
    assert_eq!(
        (limits.fuel, limits.memory_bytes),
        (Limits::PLUGIN.fuel, Limits::PLUGIN.memory_bytes)
    );
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn a_place_on_the_network_is_granted_by_its_name() {
    let asked = api(&json!({"methods": ["POST"]}));
    let lent = granted(&asked, &http(&[named("api")])).grants.http.expect("a policy");
    let both = vec![rule("https://api.example.com POST /**")];
    assert_eq!(*lent, Policy::new(Some(both.clone()), both, Bounds::PLUGIN).expect("a policy"));
    insta::assert_snapshot!(
        refused(&asked, &Answer::default()),
        @r#"the plugin needs http.api (https://api.example.com POST /**) (forecasts), which is not granted; grant it with "http": ["api"]"#
    );
    insta::assert_snapshot!(
        refused(&asked, &http(&[named("api"), named("other")])),
        @r#"grants.http[1]: found "other", the plugin asks for api"#
    );
    let optional = granted(&api(&json!({"optional": true})), &Answer::default());
    assert!(
        optional.grants.http.is_none() && optional.notes[0].contains("can do without"),
        "{:?}",
        optional.notes
    );
}

#[test]
fn a_place_on_the_network_is_granted_by_a_rule_for_the_same_host() {
    let asked = api(&json!({}));
    for text in ["https://api.example.com GET /v1/**", "https://*.example.com GET /**"] {
        let lent =
            granted(&asked, &http(&[HttpAnswer::Rule(rule(text))])).grants.http.expect("a policy");
        let wanted = vec![rule("https://api.example.com GET,HEAD /**")];
        assert_eq!(
            *lent,
            Policy::new(Some(wanted), vec![rule(text)], Bounds::PLUGIN).expect("a policy"),
            "{text}"
        );
    }
    let elsewhere =
        refused(&asked, &http(&[HttpAnswer::Rule(rule("https://other.example.org GET /**"))]));
    assert!(elsewhere.contains("needs http.api"), "{elsewhere}");
}

#[test]
fn private_networks_and_plain_http_need_a_trusted_plugin() {
    let private = api(&json!({"private": true}));
    insta::assert_snapshot!(
        refused(&private, &http(&[named("api")])).split("; the plugin needs").next().unwrap_or_default(),
        @r#"grants.http[0]: the profile "untrusted" does not open private networks; "profile": "trusted" does"#
    );
    let plain = json!({"http": {"api": {"url": "http://api.example.com", "reason": "forecasts"}}});
    assert!(refused(&plain, &http(&[named("api")])).contains("does not open HTTP without TLS"));
    for asked in [private, plain] {
        assert!(granted(&asked, &trusted(http(&[named("api")]))).grants.http.is_some());
    }
}

fn token(more: &Value) -> Value {
    let mut secret = json!({"reason": "signs in"});
    secret.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let mut request = api(&json!({}));
    request["secret"] = json!({"token": secret});
    request
}

fn secret(answer: SecretAnswer) -> Answer {
    Answer { secrets: [("token".to_owned(), answer)].into(), ..http(&[named("api")]) }
}

fn from(variable: &str) -> SecretAnswer {
    SecretAnswer {
        source: Source::Env(variable.to_owned()),
        audience: None,
        inject: None,
        reveal: false,
    }
}

fn injected() -> Value {
    json!({"inject": {"header": "authorization", "prefix": "Bearer "}, "audience": ["api"]})
}

#[test]
fn a_secret_is_attached_to_its_audience_and_not_revealed() {
    let asked = token(&injected());
    let grants = granted(&asked, &secret(from("TOKEN"))).grants;
    assert!(grants.secrets.contains("token") && grants.revealed.is_empty());
    let credential = format!("{:?}", grants.credentials);
    assert!(
        credential.contains("authorization") && credential.contains("api.example.com"),
        "{credential}"
    );
    assert!(!credential.contains("hush"), "{credential}");
    insta::assert_snapshot!(
        refused(&asked, &http(&[named("api")])),
        @r#"the plugin needs secret.token (signs in), which is not granted; grant it with "secrets": {"token": {"from": "env:NAME"}}"#
    );
    insta::assert_snapshot!(
        refused(&asked, &secret(from("UNSET"))),
        @"grants.secrets.token.from: the environment variable UNSET is not set, or is not text"
    );
    let unasked = granted(&api(&json!({})), &secret(from("TOKEN")));
    assert!(unasked.grants.secrets.is_empty());
    assert_eq!(
        unasked.notes,
        ["grants.secrets.token opens nothing: the plugin does not ask for it"]
    );
}

#[test]
fn an_audience_of_the_operator_is_required_without_a_manifest() {
    let narrow = SecretAnswer {
        audience: Some(vec![HttpAnswer::Rule(rule("https://api.example.com GET /v1"))]),
        ..from("TOKEN")
    };
    let credentials =
        format!("{:?}", granted(&token(&injected()), &secret(narrow)).grants.credentials);
    assert!(credentials.contains("v1"), "{credentials}");
    let header = Injection::header("x-key", "").expect("a header");
    let plain = SecretAnswer { inject: Some(header), ..from("TOKEN") };
    let answer = Answer { secrets: [("token".to_owned(), plain)].into(), ..Answer::default() };
    insta::assert_snapshot!(
        settle(None, &answer, &read).expect_err("refused"),
        @"grants.secrets.token.audience: is required for a plugin that embeds no manifest"
    );
}

#[test]
fn a_secret_is_sent_only_to_places_that_the_plugin_requested() {
    let answer = |audience: &[&str]| {
        let audience = audience.iter().map(|text| HttpAnswer::Rule(rule(text))).collect();
        let secret = SecretAnswer { audience: Some(audience), ..from("TOKEN") };
        let places = ["https://api.example.com GET,POST /**", "https://other.example.org GET /**"];
        Answer {
            secrets: [("token".to_owned(), secret)].into(),
            ..http(&places.map(|text| HttpAnswer::Rule(rule(text))))
        }
    };
    let asked = token(&injected());
    let wide = granted(&asked, &answer(&["https://*.example.com GET,POST /v1/**"]));
    let credentials = format!("{:?}", wide.grants.credentials);
    assert!(
        !credentials.contains("Below")
            && credentials.contains("v1")
            && !credentials.contains("POST"),
        "{credentials}"
    );
    insta::assert_snapshot!(
        refused(&asked, &answer(&["https://api.example.com GET /**", "https://other.example.org GET /**"])),
        @"grants.secrets.token.audience[1]: found https://other.example.org GET /**, the plugin asks to send it to https://api.example.com GET,HEAD /**"
    );
    let mut open = token(&injected());
    open["http"]["api"]["url"] = json!("*");
    let chosen = granted(&open, &answer(&["https://other.example.org GET /**"]));
    assert!(
        format!("{:?}", chosen.grants.credentials).contains("other.example.org"),
        "the hosts are the operator's choice"
    );
}

#[test]
fn a_request_for_any_host_leaves_private_networks_to_the_operator_too() {
    let asked = |private: bool| json!({"http": {"web": {"url": "*", "private": private, "reason": "reads"}}});
    let private = rule("http://intranet.example GET /** private");
    for is_asked in [false, true] {
        let policy =
            granted(&asked(is_asked), &trusted(http(&[HttpAnswer::Rule(private.clone())])))
                .grants
                .http;
        assert_eq!(
            *policy.expect("a policy"),
            Policy::new(None, vec![private.clone()], Bounds::PLUGIN).expect("a policy")
        );
    }
}

#[test]
fn a_secrets_value_is_shown_only_if_asked_for_granted_and_trusted() {
    let asked = token(&json!({"reveal": true}));
    let answer = || secret(SecretAnswer { reveal: true, ..from("TOKEN") });
    assert!(granted(&asked, &trusted(answer())).grants.revealed.contains_key("token"));
    insta::assert_snapshot!(
        refused(&asked, &answer()),
        @r#"grants.secrets.token.reveal: the profile "untrusted" shows no plugin a secret's value; "profile": "trusted" does"#
    );
    let kept = granted(&asked, &trusted(secret(from("TOKEN"))));
    assert!(
        kept.grants.revealed.is_empty() && kept.notes[0].contains("asks for the value"),
        "{:?}",
        kept.notes
    );
    let unasked = granted(&token(&injected()), &trusted(answer()));
    assert!(
        unasked.grants.revealed.is_empty() && unasked.notes[0].contains("opens nothing"),
        "{:?}",
        unasked.notes
    );
}

#[test]
fn a_store_holds_the_lesser_of_request_and_grant() {
    let asked = json!({"kv": {"notes": {"max_bytes": "1MiB", "reason": "remembers"}}});
    let store = |name: &str, max_bytes| Answer {
        stores: vec![StoreAnswer { name: name.to_owned(), max_bytes }],
        ..Answer::default()
    };
    for (found, expected) in [(None, 1 << 20), (Some(1 << 10), 1 << 10), (Some(1 << 30), 1 << 20)] {
        let stores = granted(&asked, &store("notes", found)).grants.stores;
        assert_eq!(stores, [KvStore { name: "notes".to_owned(), max_bytes: expected }]);
    }
    insta::assert_snapshot!(
        refused(&asked, &Answer::default()),
        @r#"the plugin needs kv.notes (remembers), which is not granted; grant it with "kv": ["notes"]"#
    );
    let unasked = granted(&json!({}), &store("notes", None));
    assert!(unasked.grants.stores.is_empty());
    assert_eq!(unasked.notes, ["grants.kv[0] opens nothing: the plugin does not ask for it"]);
    let without_manifest = settle(None, &store("notes", None), &read).expect("it is granted");
    assert_eq!(without_manifest.grants.stores[0].max_bytes, DEFAULT_STORE_BYTES);
}

#[test]
fn a_directory_is_writable_only_if_requested_and_granted() {
    let asked = |access: &str| json!({"files": {"data": {"access": access, "max_files": 5, "reason": "reads"}}});
    let answer = |access| {
        let quota = QuotaAnswer { bytes: Some(1_000), files: Some(9) };
        let directory =
            DirectoryAnswer { name: "data".to_owned(), path: "/d".into(), access, quota };
        Answer { directories: vec![directory], ..Answer::default() }
    };
    for (request, grant, lent) in [
        ("read-write", Access::ReadWrite, Access::ReadWrite),
        ("read-write", Access::ReadOnly, Access::ReadOnly),
        ("read-only", Access::ReadWrite, Access::ReadOnly),
    ] {
        let found = granted(&asked(request), &answer(grant));
        let directory = &found.grants.directories[0];
        assert_eq!(
            (directory.access, directory.quota),
            (lent, Quota { bytes: 1_000, files: 5 }),
            "{request}, {grant:?}"
        );
        assert_eq!(
            !found.notes.is_empty(),
            request == "read-write" && grant == Access::ReadOnly,
            "{:?}",
            found.notes
        );
    }
    insta::assert_snapshot!(
        refused(&asked("read-only"), &Answer::default()),
        @r#"the plugin needs files.data (reads), which is not granted; grant a directory with "directories""#
    );
    assert!(
        granted(&json!({}), &answer(Access::ReadOnly)).grants.directories.is_empty(),
        "it does not ask"
    );
}

#[test]
fn scratch_space_must_be_requested_and_granted() {
    let asked = json!({"scratch": {"max_bytes": "1MiB", "max_files": 3, "reason": "unpacks"}});
    let answer =
        |bytes| Answer { scratch: Some(QuotaAnswer { bytes, files: None }), ..Answer::default() };
    assert_eq!(
        granted(&asked, &answer(None)).grants.scratch,
        Some(Quota { bytes: 1 << 20, files: 3 })
    );
    assert_eq!(
        granted(&asked, &answer(Some(7))).grants.scratch,
        Some(Quota { bytes: 7, files: 3 })
    );
    insta::assert_snapshot!(
        refused(&asked, &Answer::default()),
        @r#"the plugin needs scratch (unpacks), which is not granted; grant it with "scratch": {}"#
    );
    assert_eq!(granted(&json!({}), &answer(None)).grants.scratch, None);
}

#[test]
fn a_requested_quota_is_capped_at_the_default_unless_the_operator_sets_one() {
    let asked = json!({
        "kv": {"notes": {"max_bytes": "10240GiB", "reason": "remembers"}},
        "files": {"data": {"access": "read-write", "max_bytes": "10240GiB", "max_files": 1_000_000_000, "reason": "writes"}},
        "scratch": {"max_bytes": "10240GiB", "max_files": 1_000_000_000, "reason": "unpacks"},
    });
    let answer = |bytes: Option<u64>, files: Option<u64>| {
        let quota = QuotaAnswer { bytes, files };
        let directory = DirectoryAnswer {
            name: "data".to_owned(),
            path: "/d".into(),
            access: Access::ReadWrite,
            quota,
        };
        Answer {
            stores: vec![StoreAnswer { name: "notes".to_owned(), max_bytes: bytes }],
            directories: vec![directory],
            scratch: Some(quota),
            ..Answer::default()
        }
    };
    let usual = granted(&asked, &answer(None, None));
    assert_eq!(usual.grants.stores[0].max_bytes, DEFAULT_STORE_BYTES);
    assert_eq!(
        (usual.grants.directories[0].quota, usual.grants.scratch),
        (DEFAULT_DIRECTORY, Some(DEFAULT_SCRATCH))
    );
    insta::assert_snapshot!(usual.notes.join("\n"), @r"
    files.data holds 1GiB, the plugin asks for 10240GiB
    files.data holds 10000 files, the plugin asks for 1000000000 files
    scratch holds 64MiB, the plugin asks for 10240GiB
    scratch holds 1000 files, the plugin asks for 1000000000 files
    kv.notes holds 4MiB, the plugin asks for 10240GiB
    ");
    let (bytes, files) = (10_240_u64 << 30, 1_000_000_000);
    let said = granted(&asked, &answer(Some(bytes), Some(files)));
    assert_eq!(
        (said.grants.stores[0].max_bytes, said.grants.scratch),
        (bytes, Some(Quota { bytes, files }))
    );
    assert_eq!(said.grants.directories[0].quota, Quota { bytes, files });
    assert!(said.notes.is_empty(), "{:?}", said.notes);
}

#[test]
fn tools_are_granted_one_by_one() {
    let asked = json!({"tools": {"call": ["text-count", "files-read"], "reason": "counts"}});
    let answer = |tools: &[&str]| Answer {
        tools: tools.iter().map(ToString::to_string).collect(),
        ..Answer::default()
    };
    let all = granted(&asked, &answer(&["files-read", "text-count", "files-write"]));
    assert_eq!(all.grants.tools, ["files-read", "text-count"]);
    assert_eq!(all.notes, ["grants.tools[2] opens nothing: the plugin does not ask for it"]);
    insta::assert_snapshot!(
        refused(&asked, &answer(&["text-count"])),
        @r#"the plugin needs the tool files-read (counts), which is not granted; grant it with "tools": ["files-read"]"#
    );
}

#[test]
fn real_time_and_real_randomness_must_be_requested_and_granted() {
    let clocks = |on| Answer { clocks: on, ..Answer::default() };
    let random = |on| Answer { random: on, ..Answer::default() };
    let asks =
        |name: &str, optional: bool| json!({name: {"reason": "dates", "optional": optional}});
    assert!(granted(&asks("clocks", false), &clocks(true)).grants.clocks);
    assert!(granted(&asks("random", false), &random(true)).grants.random);
    assert!(
        !granted(&json!({}), &clocks(true)).grants.clocks
            && !granted(&json!({}), &random(true)).grants.random
    );
    assert!(!granted(&asks("clocks", true), &clocks(false)).grants.clocks);
    insta::assert_snapshot!(
        refused(&asks("clocks", false), &clocks(false)),
        @r#"the plugin needs clocks (dates), which is not granted; grant it with "clocks": true"#
    );
    assert!(refused(&asks("random", false), &random(false)).contains("\"random\": true"));
}

#[test]
fn a_limit_is_the_least_of_request_grant_and_ceiling() {
    let most = Limits::PLUGIN.host_calls;
    let asks = |calls: Option<u32>| {
        calls.map_or_else(|| json!({}), |calls| json!({"limits": {"host_calls": calls}}))
    };
    let says = |calls| Answer {
        limits: LimitsAnswer { host_calls: calls, ..LimitsAnswer::default() },
        ..Answer::default()
    };
    for (request, grant, expected) in [
        (None, None, most),
        (Some(10), None, 10),
        (None, Some(20), 20),
        (Some(10), Some(20), 10),
        (Some(20), Some(10), 10),
        (Some(most + 1), None, most),
        (None, Some(most), most),
    ] {
        let found = granted(&asks(request), &says(grant));
        assert_eq!(found.limits.host_calls, expected, "{request:?}, {grant:?}");
        let falls_short = request.is_some_and(|request| request > expected);
        assert_eq!(
            !found.notes.is_empty(),
            falls_short,
            "{request:?}, {grant:?}: {:?}",
            found.notes
        );
    }
    let beyond = refused(&asks(None), &says(Some(most + 1)));
    assert!(
        beyond.starts_with("limits.host_calls: found ")
            && beyond.contains("the profile \"untrusted\""),
        "{beyond}"
    );
    assert_eq!(granted(&asks(None), &trusted(says(Some(most + 1)))).limits.host_calls, most + 1);
}

#[test]
fn times_and_sizes_are_limited_like_counts() {
    let asked = json!({"limits": {"memory": "1MiB", "cpu_time": "10ms", "deadline": "2s", "http_requests": 3}});
    let limits = granted(&asked, &Answer::default()).limits;
    let expected =
        (1 << 20, std::time::Duration::from_millis(10), std::time::Duration::from_secs(2));
    assert_eq!((limits.memory_bytes, limits.cpu, limits.deadline), expected);
    let mut with_http = api(&json!({}));
    with_http["limits"] = asked["limits"].clone();
    let policy = granted(&with_http, &http(&[named("api")])).grants.http.expect("a policy");
    assert_eq!(policy.bounds().requests, 3);
}

#[test]
fn a_configuration_is_refused_for_a_plugin_that_takes_none() {
    let answer = Answer {
        config: Arc::new(json!({"unit": "c"}).as_object().expect("an object").clone()),
        ..Answer::default()
    };
    let takes = manifest(
        &json!({}),
        Some(json!({"type": "object", "properties": {"unit": {"type": "string"}}})),
    );
    assert_eq!(
        settle(Some(&takes), &answer, &read).expect("it is granted").grants.config["unit"],
        "c"
    );
    insta::assert_snapshot!(refused(&json!({}), &answer), @"config: the plugin takes no configuration");
    assert!(settle(None, &answer, &read).is_ok(), "without a manifest nobody knows");
}

#[test]
fn all_reasons_for_a_refusal_are_reported_at_once() {
    let asked = json!({"clocks": {"reason": "dates"}, "random": {"reason": "dice"}});
    let refusal =
        settle(Some(&manifest(&asked, None)), &Answer::default(), &read).expect_err("refused");
    assert_eq!(refusal.reasons.len(), 2, "{refusal}");
}

#[test]
fn a_configuration_that_cannot_be_checked_is_refused() {
    let endless = manifest(&json!({}), Some(json!({"type": "object", "allOf": [{"$ref": "#"}]})));
    let refusal = settle(Some(&endless), &Answer::default(), &read);
    let refusal = refusal.map(|_| ()).expect_err("the schema has no bound").to_string();
    insta::assert_snapshot!(refusal, @"the plugin's manifest: nothing can be checked against the config.schema: #: more than 256 subschemas inside each other for one value; does a reference lead back to itself?");
}
