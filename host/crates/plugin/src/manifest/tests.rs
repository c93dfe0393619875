mod golden;
mod schema;

use std::collections::HashSet;

use serde_json::json;

use super::*;
use airlock_core::limit::{GuestLimit, GuestLimitSet};

fn parse(more: &Value) -> Result<Manifest, BadManifest> {
    let mut manifest =
        json!({"schema": SCHEMA, "id": "weather", "version": "1.2.0", "contract": "0.1"});
    let members = more.as_object().expect("an object").clone();
    manifest.as_object_mut().expect("an object").extend(members);
    Manifest::parse(manifest.to_string().as_bytes())
}

/// Returns the manifest of a plugin `p` with these keys.
pub(crate) fn manifest_with(more: &Value) -> Manifest {
    let mut keys = json!({"id": "p", "version": "1.0.0"});
    keys.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    parse(&keys).expect("a manifest")
}

fn refusal(more: &Value) -> String {
    parse(more).expect_err("refused").to_string()
}

#[test]
fn every_kind_of_request_is_parsed_with_its_reason() {
    let manifest = parse(&json!({
        "license": "MIT",
        "metadata": {"author": "Ann", "links": {"homepage": "https://a.example"}},
        "tool": [{"name": "get", "effects": ["http", "secret"]}],
        "request": {
            "http": {"api": {"url": "https://api.example.com", "methods": ["POST"], "paths": ["/v1/**"], "reason": "forecasts"}},
            "secret": {"token": {"inject": {"header": "authorization", "prefix": "Bearer "}, "audience": ["api"], "reason": "signs in"}},
            "kv": {"cache": {"max_bytes": "1MiB", "reason": "remembers", "optional": true}},
            "files": {"data": {"access": "read_only", "reason": "reads"}},
            "scratch": {"max_bytes": "1MiB", "max_files": 3, "reason": "unpacks"},
            "tools": {"call": ["text-word_count"], "reason": "counts"},
            "clocks": {"reason": "dates"},
            "slot": {"forecast": {"description": "Returns a forecast.", "reason": "plans"}},
            "limits": {"memory": "32MiB", "cpu_time": "1s"}
        },
        "config": {"schema": {"type": "object"}}
    }))
    .expect("a good manifest");
    let asked: Vec<_> = manifest
        .request
        .all()
        .map(|request| format!("{request} {} {}", request.reason(), request.is_optional()))
        .collect();
    insta::assert_snapshot!(asked.join("\n"), @r"
    http.api forecasts false
    secret.token signs in false
    kv.cache remembers true
    files.data reads false
    scratch unpacks false
    slot.forecast plans false
    tools counts false
    clocks dates false
    ");
    assert_eq!(manifest.metadata["links"]["homepage"], "https://a.example");
    assert_eq!(manifest.config_schema(), Some(&json!({"type": "object"})));
}

/// Returns a manifest with every key that the embedded form may have.
fn whole() -> Value {
    let http = json!({"url": "https://api.example.com", "methods": ["POST"], "paths": ["/v1/**"], "private": false});
    let header = json!({"inject": {"header": "x-key", "prefix": "Bearer "}, "audience": ["api"], "reveal": true});
    let query = json!({"inject": {"query": "key"}, "audience": ["api"]});
    let basic = json!({"inject": {"basic": "me"}, "audience": ["api"]});
    let files = json!({"access": "read_write", "max_bytes": "1GiB", "max_files": 5});
    json!({
        "schema": SCHEMA, "id": "weather", "version": "1.2.0", "contract": "0.1",
        "description": "Tells the weather.", "license": "MIT", "metadata": {"author": "Ann"},
        "tool": [{"name": "get", "effects": ["read_files", "write_files", "http", "secret", "read_kv", "write_kv", "call_tools"]}],
        "request": {
            "http": {"api": terms(http)},
            "secret": {"header": terms(header), "query": terms(query), "basic": terms(basic)},
            "kv": {"cache": terms(json!({"max_bytes": "1MiB", "cache": false}))},
            "files": {"*": terms(files)},
            "scratch": terms(json!({"max_bytes": "1MiB", "max_files": 3})),
            "slot": {"search": terms(json!({"description": "Counts."}))},
            "tools": terms(json!({"call": ["text-word_count"]})),
            "clocks": terms(json!({})),
            "limits": {
                "fuel": 1, "cpu_time": "1s", "deadline": "1m", "memory": "1MiB", "host_calls": 1,
                "result": "1KiB", "http_requests": 1, "http_request": "1KiB", "http_response": "1KiB", "http_timeout": "1s",
            },
        },
        "config": {"schema": {"type": "object"}},
    })
}

/// Adds what every request may have.
fn terms(mut request: Value) -> Value {
    request["reason"] = json!("r");
    request["optional"] = json!(true);
    request
}

/// Adds the paths of all keys of a value, in the notation of [`airlock_manifest::key_paths`].
fn collect(path: &str, value: &Value, paths: &mut HashSet<String>) {
    let is_leaf = ["metadata", "config.schema"].contains(&path);
    match value {
        Value::Object(members) if !is_leaf => {
            let kind = path.strip_prefix("request.").unwrap_or_default();
            let has_names = ["http", "secret", "kv", "files", "slot"].contains(&kind);
            for (name, value) in members {
                let name = if has_names { "NAME" } else { name };
                let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                collect(&path, value, paths);
            }
        }
        Value::Array(elements) if path == "tool" => {
            for element in elements {
                collect("tool[]", element, paths);
            }
        }
        _ => {
            paths.insert(path.to_owned());
        }
    }
}

#[test]
fn the_types_accept_every_key_of_the_table() {
    let whole = whole();
    let mut found = HashSet::new();
    collect("", &whole, &mut found);
    let mut expected: HashSet<_> = airlock_manifest::key_paths().into_iter().collect();
    // The build replaces it by `config.schema`.
    assert!(expected.remove("config.schema_file") && expected.remove("config.from_code"));
    // The build leaves it out.
    assert!(expected.remove("build.wasi"));
    assert_eq!(found, expected);
    Manifest::parse(whole.to_string().as_bytes()).expect("every key is accepted");
}

#[test]
fn the_table_has_exactly_the_limits_that_may_be_requested() {
    let keys = airlock_manifest::key_paths();
    for limit in GuestLimit::ALL {
        let is_known = keys.contains(&format!("request.limits.{}", limit.key()));
        let null = json!({limit.key(): null});
        assert_eq!(is_known, GuestLimitSet::deserialize_requested(&null).is_ok(), "{limit:?}");
    }
}

#[test]
fn an_invalid_request_is_refused_with_the_path_of_its_key() {
    insta::assert_snapshot!(refusal(&json!({"schema": "airlock.plugin/2"})), @r#"schema: found "airlock.plugin/2", expected "airlock.plugin/1""#);
    insta::assert_snapshot!(refusal(&json!({"id": "Weather"})), @r#"id: found "Weather", expected 1 to 32 of the characters a-z, 0-9 and `-`"#);
    insta::assert_snapshot!(refusal(&json!({"contract": "0.2"})), @r#"contract: found "0.2", this gateway supports "0.1""#);
    insta::assert_snapshot!(refusal(&json!({"version": "1.2"})), @r#"version: found "1.2", expected a version, such as "1.0.0": unexpected end of input while parsing minor version number"#);
    insta::assert_snapshot!(refusal(&json!({"request": {"htp": {}}})), @r#"request.htp: unknown key; did you mean "http"?"#);
    insta::assert_snapshot!(
        refusal(&json!({"request": {"clocks": {"reason": " "}}})),
        @r#"request.clocks.reason: found " ", expected 1 to 300 characters of text for the person who decides"#
    );
    insta::assert_snapshot!(
        refusal(&json!({"tool": [{"name": "a"}, {"name": "b", "effects": ["http"]}]})),
        @r#"tool[1].effects[0]: found "http", which needs a [request.http.NAME]"#
    );
    insta::assert_snapshot!(
        refusal(&json!({"request": {"secret": {"t": {"reason": "r", "inject": {"header": "x-key"}, "audience": ["api"]}}}})),
        @r#"request.secret.t.audience[0]: found "api", expected a name of [request.http]: there is none"#
    );
    insta::assert_snapshot!(
        refusal(&json!({"request": {"secret": {"t": {"reason": "r"}}}})),
        @"request.secret.t: needs `inject`, which attaches it to requests, or `reveal = true`, which shows it to the plugin"
    );
    insta::assert_snapshot!(
        refusal(&json!({"request": {"secret": {"t": {"reason": "r", "inject": "x-key"}}}})),
        @r#"2 errors: request.secret.t.inject: found "x-key", expected a table; request.secret.t.audience: is empty, so that the secret could be sent nowhere; list names of [request.http]"#
    );
    insta::assert_snapshot!(
        refusal(&json!({"request": {"tools": {"call": ["text-count", "a\n  clocks"], "reason": "r"}}})),
        @r#"request.tools.call[1]: found "a\n  clocks", expected the full name of a tool: 1 to 128 letters, digits, `_` or `-`"#
    );
    insta::assert_snapshot!(
        refusal(&json!({"request": {"http": {"web": {"url": "*", "methods": ["POST"], "reason": "r"}}}})),
        @r#"request.http.web.methods: is valid only with a host; for `url = "*"` the operator grants it"#
    );
    let longest = "a".repeat(128);
    let longest = json!({"request": {"tools": {"call": [longest], "reason": "r"}}});
    assert!(parse(&longest).is_ok());
    let too_long = "a".repeat(129);
    let too_long = json!({"request": {"tools": {"call": [too_long], "reason": "r"}}});
    assert!(parse(&too_long).is_err());
    assert!(
        refusal(&json!({"request": {"http": {"api": {"url": "https://*", "reason": "all"}}}}))
            .starts_with("request.http.api.url: ")
    );
}

#[test]
fn a_secret_is_injected_by_a_header_or_a_query_parameter_that_can_be_sent() {
    insta::assert_snapshot!(
        with_injection(&json!({"query": "key\nrandom"})).expect_err("refused"),
        @r#"request.secret.t.inject: found the query parameter "key\nrandom", expected a name without spaces and control characters"#
    );
    insta::assert_snapshot!(
        with_injection(&json!({"basic": "a:b"})).expect_err("refused"),
        @r#"request.secret.t.inject: found the user "a:b", expected printable ASCII without a colon; leave it empty if the secret is "user:password""#
    );
    for two in [json!({"basic": "", "query": "k"}), json!({"basic": "", "header": "x"}), json!({})]
    {
        insta::allow_duplicates! {
            insta::assert_snapshot!(
                with_injection(&two).expect_err("refused"),
                @"request.secret.t.inject: expected one of `header`, `basic` and `query`"
            );
        }
    }
    for other in ["basic", "query"] {
        insta::allow_duplicates! {
            insta::assert_snapshot!(
                with_injection(&json!({other: "a", "prefix": "b"})).expect_err("refused"),
                @"request.secret.t.inject: a `prefix` goes with a `header` alone"
            );
        }
    }
    assert!(
        with_injection(&json!({"basic": "me"})).is_ok()
            && with_injection(&json!({"basic": ""})).is_ok()
    );
    assert!(
        with_injection(&json!({"query": "a key"})).is_err()
            && with_injection(&json!({"header": "x-key\nrandom"})).is_err()
    );
    assert!(
        with_injection(&json!({"query": "api_key"})).is_ok()
            && with_injection(&json!({"header": "X-Key"})).is_ok()
    );
    assert!(local(true).is_ok());
    insta::assert_snapshot!(
        local(false).expect_err("refused"),
        @"request.http.api.url: found the private address 127.0.0.1, expected a public one, or `private` set to true beside it"
    );
}

fn with_injection(inject: &Value) -> Result<Manifest, String> {
    let http = json!({"api": {"url": "https://api.example.com", "reason": "r"}});
    let secret = json!({"t": {"reason": "r", "inject": inject, "audience": ["api"]}});
    parse(&json!({"request": {"http": http, "secret": secret}})).map_err(|error| error.to_string())
}

fn local(private: bool) -> Result<Manifest, String> {
    let api = json!({"url": "http://127.0.0.1:8080", "private": private, "reason": "r"});
    parse(&json!({"request": {"http": {"api": api}}})).map_err(|error| error.to_string())
}

#[test]
fn the_faults_of_a_destination_are_reported_at_once_each_at_the_line_of_its_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = r#"schema = "airlock.plugin/1"
id = "a"
version = "1.0.0"
contract = "0.1"

[request.http.api]
url = "https://10.0.0.1/v1"
methods = [
  "GET",
  "post",
  "TRACE",
]
paths = ["/a/**", "/b/../c", "/d e"]
reason = "r"

[request.http.any]
url = "*"
methods = ["GET"]
paths = ["/a"]
reason = "r"

[request.http.bad]
url = "https://api.example.com?page=1"
methods = ["get"]
reason = "r"
"#;
    std::fs::write(directory.path().join("plugin.toml"), text).expect("written");
    let bad = Manifest::of_directory(directory.path()).expect_err("it has faults");
    insta::assert_snapshot!(bad.lines().join("\n"), @r#"
    plugin.toml:7:7: request.http.api.url: found the private address 10.0.0.1, expected a public one, or `private` set to true beside it
    plugin.toml:10:3: request.http.api.methods[1]: found the method "post", expected one such as GET or POST, in capitals, and neither CONNECT nor TRACE
    plugin.toml:11:3: request.http.api.methods[2]: found the method "TRACE", expected one such as GET or POST, in capitals, and neither CONNECT nor TRACE
    plugin.toml:13:9: request.http.api.paths: found a path in "https://10.0.0.1/v1" and a list of paths, expected one of them
    plugin.toml:13:19: request.http.api.paths[1]: found the path "/b/../c": a dot segment cannot occur in a request
    plugin.toml:13:30: request.http.api.paths[2]: found "/d e", expected a pattern for paths, such as "/v1/**", with other characters than those of a path escaped, as in "/a%20b"
    plugin.toml:18:11: request.http.any.methods: is valid only with a host; for `url = "*"` the operator grants it
    plugin.toml:19:9: request.http.any.paths: is valid only with a host; for `url = "*"` the operator grants it
    plugin.toml:23:7: request.http.bad.url: found "https://api.example.com?page=1", which has a query, expected a scheme and a host, such as "https://api.example.com", or "*" for hosts that the operator chooses
    plugin.toml:24:12: request.http.bad.methods[0]: found the method "get", expected one such as GET or POST, in capitals, and neither CONNECT nor TRACE
    "#);
}

#[test]
fn all_faults_are_reported_at_once_without_the_names_of_types() {
    let told = refusal(&json!({
        "version": "one",
        "contract": "9",
        "request": {
            "http": {"api": {"url": "example.com"}},
            "secret": {"t": {"inject": {"header": "a b"}, "audience": ["api"], "reason": "r"}},
            "kv": {"notes": {"max_bytes": "16", "reason": ["r"]}},
            "limits": {"memory": 1, "cpu_time": "1", "handles": 1},
        },
        "config": {"schema_file": "config.json"},
    }));
    let keys = [
        "version: ",
        "contract: ",
        "request.http.api.reason: ",
        "request.http.api.url: ",
        "request.secret.t.inject: ",
        "request.kv.notes.max_bytes: ",
        "request.kv.notes.reason: ",
        "request.limits.memory: ",
        "request.limits.cpu_time: ",
        "request.limits.handles: ",
        "config.schema_file: ",
    ];
    assert!(told.starts_with("11 errors: "), "{told}");
    for key in keys {
        assert!(told.contains(&format!(" {key}")), "{key}: {told}");
    }
    for name in ["struct", "enum", "Request", "u64", "sequence", "map", "line 1"] {
        assert!(!told.contains(name), "{name}: {told}");
    }
}

#[test]
fn text_that_is_too_large_or_is_no_json_or_has_a_key_twice_is_refused() {
    insta::assert_snapshot!(refusal_of_text(&vec![b' '; MAX_BYTES + 1]), @"has 262145 bytes; the limit is 262144");
    assert!(refusal_of_text(b"{").starts_with("is not the JSON of a manifest: EOF"));
    assert!(refusal_of_text(b"\xff").starts_with("is not the JSON of a manifest: invalid utf-8"));
    insta::assert_snapshot!(refusal_of_text(br#"{"id": "a", "id": "b"}"#), @r#"is not the JSON of a manifest: the key "id" occurs twice in one object"#);
    insta::assert_snapshot!(refusal_of_text(b"[]"), @"found a list, expected a table");
    let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
    assert!(refusal_of_text(deep.as_bytes()).contains("recursion limit"));
}

fn refusal_of_text(text: &[u8]) -> String {
    Manifest::parse(text).expect_err("refused").to_string()
}

#[test]
fn a_wildcard_of_a_url_means_the_same_in_a_request_and_in_a_grant() {
    let asked = parse(&json!({"request": {"http": {"api": {
        "url": "https://*.example.com", "paths": ["/v1/*", "/v2/**"], "reason": "r",
    }}}}))
    .expect("a good manifest");
    let requested = asked.request.http["api"].rule().expect("a rule");
    let granted = "https://*.example.com GET,HEAD /v1/*,/v2/**".parse().expect("a rule");
    assert_eq!(requested, Some(granted));
}

#[test]
fn a_slot_has_a_name_of_its_own_kind_and_a_description_on_one_line() {
    let longest = format!("a{}", "b".repeat(31));
    for name in ["a", "search_web2", longest.as_str()] {
        assert!(slot(name, "Searches.").is_ok(), "{name}");
    }
    for name in ["", "A", "2a", "_a", "a-b", "a.b", &format!("{longest}b")] {
        assert!(slot(name, "Searches.").is_err(), "{name}");
    }
    insta::assert_snapshot!(
        slot("a-b", "Searches.").expect_err("refused"),
        @"request.slot.a-b: the name of a slot is a letter a-z and then at most 31 of a-z, 0-9 and `_`"
    );
    insta::assert_snapshot!(
        slot("a", "Searches.\n  clocks").expect_err("refused"),
        @r#"request.slot.a.description: found "Searches.\n  clocks", expected one line of 1 to 300 characters"#
    );
    assert!(slot("a", " ").is_err() && slot("a", &"x".repeat(301)).is_err());
    let unreasoned = json!({"request": {"slot": {"a": {"reason": ""}}}});
    assert!(refusal(&unreasoned).starts_with("request.slot.a.reason: "));
    let many: serde_json::Map<_, _> =
        (0..33).map(|n| (format!("a{n}"), json!({"reason": "r"}))).collect();
    assert!(refusal(&json!({"request": {"slot": many}})).starts_with("request.slot: found 33"));
}

fn slot(name: &str, description: &str) -> Result<Manifest, BadManifest> {
    parse(&json!({"request": {"slot": {name: {"reason": "r", "description": description}}}}))
}

#[test]
fn a_tool_is_listed_once_with_a_name_that_fits_and_effects_that_are_requested() {
    insta::assert_snapshot!(
        refusal_of_tools(&json!([{"name": "a"}, {"name": "a"}])),
        @r#"tool[1].name: another [[tool]] is named "a" already"#
    );
    insta::assert_snapshot!(
        refusal_of_tools(&json!([{"name": "a\nb"}])),
        @r#"tool[0].name: found "a\nb", expected 1 to 64 letters, digits, `_` or `-`"#
    );
    insta::assert_snapshot!(
        refusal_of_tools(&json!([{"name": "a", "effects": ["call_tools"]}])),
        @r#"tool[0].effects[0]: found "call_tools", which needs a [request.slot.NAME] or [request.tools]"#
    );
    for effect in [
        "http.api",
        "read_files.in",
        "read_files.*",
        "write_files.*",
        "read_kv.notes",
        "write_kv.notes",
        "call_tools.search",
    ] {
        let manifest = with_effect(effect).expect("it is requested");
        assert_eq!(manifest.tools[0].effects, [effect.parse().expect("an effect")].into());
    }
    let refused: Vec<_> = [
        "http.web",
        "http.",
        "http.api.x",
        "secret.api",
        "write_files.in",
        "read_files.data",
        "call_tools.text-count",
        "netwrk.api",
        ".api",
    ]
    .map(|effect| with_effect(effect).expect_err(effect))
    .into();
    insta::assert_snapshot!(refused.join("\n"), @r#"
    tool[0].effects[0]: found "http.web", expected a name of [request.http] after the dot: "api"
    tool[0].effects[0]: found "http.", expected a name of [request.http] after the dot: "api"
    tool[0].effects[0]: found "http.api.x", expected a name of [request.http] after the dot: "api"
    tool[0].effects[0]: found "secret.api", expected a name of [request.secret] after the dot: there is none
    tool[0].effects[0]: found "write_files.in", which needs [request.files.in] with `access = "read_write"`
    tool[0].effects[0]: found "read_files.data", expected a name of [request.files] after the dot: "in", "*"
    tool[0].effects[0]: found "call_tools.text-count", expected a name of [request.slot] after the dot: "search"
    tool[0].effects[0]: found "netwrk", expected "read_files", "write_files", "http", "secret", "read_kv", "write_kv" or "call_tools"
    tool[0].effects[0]: found "", expected "read_files", "write_files", "http", "secret", "read_kv", "write_kv" or "call_tools"
    "#);
    let by_slot = json!({
        "tool": [{"name": "a", "effects": ["call_tools"]}],
        "request": {"slot": {"search": {"reason": "r"}}},
    });
    assert!(parse(&by_slot).is_ok());
}

fn refusal_of_tools(tools: &Value) -> String {
    refusal(&json!({"tool": tools}))
}

fn with_effect(effect: &str) -> Result<Manifest, String> {
    let manifest = json!({
        "tool": [{"name": "a", "effects": [effect]}],
        "request": {
            "http": {"api": {"url": "https://api.example.com", "reason": "r"}},
            "files": {
                "in": {"access": "read_only", "reason": "r"},
                "*": {"access": "read_write", "reason": "r"},
            },
            "kv": {"notes": {"max_bytes": "1KiB", "reason": "r"}},
            "slot": {"search": {"reason": "r"}},
            "tools": {"call": ["text-count"], "reason": "r"},
        },
    });
    parse(&manifest).map_err(|error| error.to_string())
}

#[test]
fn a_request_that_no_tool_can_use_is_named_with_the_effect_that_it_needs() {
    assert_eq!(unused(&json!([])), ["kv.n read_kv.n", "slot.search call_tools.search"]);
    assert_eq!(
        unused(&json!([{"name": "a", "effects": ["write_kv"]}])),
        ["slot.search call_tools.search"]
    );
    assert!(unused(&json!([{"name": "a", "effects": ["read_kv", "call_tools"]}])).is_empty());
    let named = json!([{"name": "a", "effects": ["write_kv.n"]}, {"name": "b", "effects": ["call_tools.search"]}]);
    assert!(unused(&named).is_empty());
}

fn unused(tools: &Value) -> Vec<String> {
    let manifest = parse(&json!({
        "tool": tools,
        "request": {
            "kv": {"n": {"max_bytes": "1KiB", "reason": "r"}},
            "slot": {"search": {"reason": "r"}},
            "clocks": {"reason": "r"},
            "scratch": {"max_bytes": "1KiB", "max_files": 1, "reason": "r"},
        },
    }));
    let manifest = manifest.expect("a good manifest");
    let unused = manifest.unused().into_iter();
    unused.map(|(request, effect)| format!("{request} {effect}")).collect()
}
