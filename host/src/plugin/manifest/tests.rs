use serde_json::json;

use super::{check::MAX_TOOL_NAME, *};

fn parse(more: &Value) -> Result<Manifest, BadManifest> {
    let mut manifest =
        json!({"schema": SCHEMA, "id": "weather", "version": "1.2.0", "contract": "0.1"});
    let members = more.as_object().expect("an object").clone();
    manifest.as_object_mut().expect("an object").extend(members);
    Manifest::parse(manifest.to_string().as_bytes())
}

fn refusal(more: &Value) -> String {
    parse(more).expect_err("refused").to_string()
}

#[test]
fn every_kind_of_request_is_parsed_with_its_reason() {
    let manifest = parse(&json!({
        "license": "MIT",
        "tool": [{"name": "get", "effects": ["network", "credential"]}],
        "request": {
            "http": {"api": {"url": "https://api.example.com", "methods": ["POST"], "paths": ["/v1/**"], "reason": "forecasts"}},
            "secret": {"token": {"inject": {"header": "authorization", "prefix": "Bearer "}, "audience": ["api"], "reason": "signs in"}},
            "kv": {"cache": {"max_bytes": "1MiB", "reason": "remembers", "optional": true}},
            "files": {"data": {"access": "read-only", "reason": "reads"}},
            "scratch": {"max_bytes": "1MiB", "max_files": 3, "reason": "unpacks"},
            "tools": {"call": ["text-word_count"], "reason": "counts"},
            "clocks": {"reason": "dates"},
            "tool": {"forecast": {"description": "Returns a forecast.", "reason": "plans"}},
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
    tool.forecast plans false
    tools counts false
    clocks dates false
    ");
    assert_eq!(manifest.config_schema(), Some(&json!({"type": "object"})));
}

#[test]
fn an_invalid_request_is_refused_with_its_position() {
    insta::assert_snapshot!(refusal(&json!({"schema": "airlock.plugin/2"})), @r#"schema: found "airlock.plugin/2", this build reads "airlock.plugin/1""#);
    insta::assert_snapshot!(refusal(&json!({"id": "Weather"})), @r#"id: found "Weather", expected 1 to 32 of the characters a-z, 0-9 and `-`"#);
    insta::assert_snapshot!(
        refusal(&json!({"request": {"htp": {}}})),
        @"request.htp: unknown field `htp`, expected one of `http`, `secret`, `kv`, `files`, `scratch`, `tool`, `tools`, `clocks`, `limits` at line 1 column 95"
    );
    insta::assert_snapshot!(
        refusal(&json!({"request": {"clocks": {"reason": " "}}})),
        @"request.clocks.reason: expected 1 to 300 bytes for the person who decides, found 1"
    );
    insta::assert_snapshot!(
        refusal(&json!({"tool": [{"name": "a"}, {"name": "b", "effects": ["network"]}]})),
        @r#"tool[1].effects: found "network", which needs a [request.http.NAME]"#
    );
    insta::assert_snapshot!(
        refusal(&json!({"request": {"secret": {"t": {"reason": "r", "inject": {"header": "x-key"}, "audience": ["api"]}}}})),
        @r#"request.secret.t.audience: found "api", expected a name of [request.http]"#
    );
    insta::assert_snapshot!(
        refusal(&json!({"request": {"secret": {"t": {"reason": "r"}}}})),
        @"request.secret.t: it is neither attached to requests (`inject`) nor shown to the plugin (`reveal`)"
    );
    insta::assert_snapshot!(
        refusal(&json!({"request": {"tools": {"call": ["text-count", "a\n  clocks"], "reason": "r"}}})),
        @r#"request.tools.call: found "a\n  clocks", expected the full name of a tool: 1 to 128 letters, digits, `_` or `-`"#
    );
    let injected = |inject: Value| {
        let http = json!({"api": {"url": "https://api.example.com", "reason": "r"}});
        let secret = json!({"t": {"reason": "r", "inject": inject, "audience": ["api"]}});
        parse(&json!({"request": {"http": http, "secret": secret}}))
            .map_err(|error| error.to_string())
    };
    insta::assert_snapshot!(
        injected(json!({"query": "key\nrandom"})).expect_err("refused"),
        @r#"request.secret.t.inject: found the query parameter "key\nrandom", expected a name without spaces and control characters"#
    );
    assert!(
        injected(json!({"query": "a key"})).is_err()
            && injected(json!({"header": "x-key\nrandom"})).is_err()
    );
    assert!(
        injected(json!({"query": "api_key"})).is_ok()
            && injected(json!({"header": "X-Key"})).is_ok()
    );
    let longest =
        |length| json!({"request": {"tools": {"call": ["a".repeat(length)], "reason": "r"}}});
    assert!(parse(&longest(MAX_TOOL_NAME)).is_ok() && parse(&longest(MAX_TOOL_NAME + 1)).is_err());
    assert!(
        refusal(&json!({"request": {"http": {"api": {"url": "https://*", "reason": "all"}}}}))
            .starts_with("request.http.api: ")
    );
    assert!(Manifest::parse(&vec![b' '; MAX_BYTES + 1]).is_err());
}

#[test]
fn a_slot_has_a_name_of_its_own_kind_and_a_description_on_one_line() {
    let slot = |name: &str, description: &str| {
        parse(&json!({"request": {"tool": {name: {"reason": "r", "description": description}}}}))
    };
    let longest = format!("a{}", "b".repeat(31));
    for name in ["a", "search_web2", longest.as_str()] {
        assert!(slot(name, "Searches.").is_ok(), "{name}");
    }
    for name in ["", "A", "2a", "_a", "a-b", "a.b", &format!("{longest}b")] {
        assert!(slot(name, "Searches.").is_err(), "{name}");
    }
    insta::assert_snapshot!(
        slot("a-b", "Searches.").expect_err("refused"),
        @r#"request.tool: found the name "a-b", expected a letter a-z and then at most 31 of a-z, 0-9 and `_`"#
    );
    insta::assert_snapshot!(
        slot("a", "Searches.\n  clocks").expect_err("refused"),
        @"request.tool.a.description: found 18 bytes, expected one line of 1 to 300 bytes"
    );
    assert!(slot("a", " ").is_err() && slot("a", &"x".repeat(301)).is_err());
    let unreasoned = json!({"request": {"tool": {"a": {"reason": ""}}}});
    assert!(refusal(&unreasoned).starts_with("request.tool.a.reason: "));
    let many: serde_json::Map<_, _> =
        (0..33).map(|n| (format!("a{n}"), json!({"reason": "r"}))).collect();
    assert!(refusal(&json!({"request": {"tool": many}})).starts_with("request.tool: found 33"));
}

#[test]
fn a_tool_is_listed_once_with_a_name_that_fits_and_effects_that_are_requested() {
    let refused = |tools: Value| refusal(&json!({"tool": tools}));
    insta::assert_snapshot!(
        refused(json!([{"name": "a"}, {"name": "a"}])),
        @r#"tool[1].name: found "a" for a second time"#
    );
    insta::assert_snapshot!(
        refused(json!([{"name": "a\nb"}])),
        @r#"tool[0].name: found "a\nb", expected 1 to 64 letters, digits, `_` or `-`"#
    );
    insta::assert_snapshot!(
        refused(json!([{"name": "a", "effects": ["call-tools"]}])),
        @r#"tool[0].effects: found "call-tools", which needs a [request.tool.NAME] or [request.tools]"#
    );
    let by_slot = json!({
        "tool": [{"name": "a", "effects": ["call-tools"]}],
        "request": {"tool": {"search": {"reason": "r"}}},
    });
    assert!(parse(&by_slot).is_ok());
}

#[test]
fn a_request_that_no_tool_can_use_is_named_with_the_effect_that_it_needs() {
    let unused = |tools: Value| -> Vec<String> {
        let manifest = parse(&json!({
            "tool": tools,
            "request": {
                "kv": {"n": {"max_bytes": "1KiB", "reason": "r"}},
                "tool": {"search": {"reason": "r"}},
                "clocks": {"reason": "r"},
                "scratch": {"max_bytes": "1KiB", "max_files": 1, "reason": "r"},
            },
        }));
        let manifest = manifest.expect("a good manifest");
        let unused = manifest.unused().into_iter();
        unused.map(|(request, effect)| format!("{request} {}", effect.name())).collect()
    };
    assert_eq!(unused(json!([])), ["kv.n read-store", "tool.search call-tools"]);
    assert_eq!(unused(json!([{"name": "a", "effects": ["store"]}])), ["tool.search call-tools"]);
    assert!(unused(json!([{"name": "a", "effects": ["read-store", "call-tools"]}])).is_empty());
}

#[test]
fn a_limit_that_may_not_be_requested_or_has_no_unit_is_refused_with_its_position() {
    let limits = |limits: Value| refusal(&json!({"request": {"limits": limits}}));
    let unknown = limits(json!({"handles": 1}));
    assert!(
        unknown.starts_with("request.limits.handles: unknown field `handles`, expected one of"),
        "{unknown}"
    );
    let bare = limits(json!({"memory": 1}));
    assert!(
        bare.starts_with("request.limits.memory: invalid type: integer `1`, expected a size"),
        "{bare}"
    );
}
