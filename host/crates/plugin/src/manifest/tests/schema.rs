//! The JSON Schema of the section and the gateway have the same verdict on every manifest, except
//! for the rules that the `$comment` of the schema lists.

use std::fs;

use super::*;
use airlock_json::schema::CompiledSchema;

/// Parts of the problems of rules that the schema cannot state.
const BEYOND: [&str; 10] = [
    "another [[tool]] is named",
    "which needs a [request.",
    "which needs [request.",
    "expected a name of [request.",
    "stands for the content of a file",
    "stands for the schema in the plugin's code",
    "found the private address",
    "not UTF-8 cannot occur",
    "text that is encoded twice cannot occur",
    "invalid international domain name",
];

pub(super) fn schema() -> CompiledSchema {
    let file =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../wit/sections/0.1.1/manifest.schema.json");
    let schema = serde_json::from_str(&fs::read_to_string(file).expect("the schema"));
    let compiled = CompiledSchema::compile("schema", &schema.expect("JSON"));
    compiled.unwrap_or_else(|error| panic!("{error}"))
}

/// Returns both verdicts if they differ. The gateway may refuse more, by the rules of [`BEYOND`].
pub(super) fn disagreement(schema: &CompiledSchema, manifest: &Value) -> Option<String> {
    let fits = schema.check(manifest).map_err(|error| error.to_string());
    let read = Manifest::parse(manifest.to_string().as_bytes());
    match (&fits, &read) {
        (Ok(()), Err(bad)) if bad.faults.iter().all(is_beyond) => None,
        (Ok(()), Err(bad)) => Some(format!("the schema accepts it, the gateway: {bad}")),
        (Err(wrong), Ok(_)) => Some(format!("the gateway accepts it, the schema: {wrong}")),
        _ => None,
    }
}

fn is_beyond(fault: &Fault) -> bool {
    BEYOND.iter().any(|problem| fault.problem.contains(problem))
}

/// Returns a manifest with these keys.
fn with(more: Value) -> Value {
    let mut manifest = json!({"schema": SCHEMA, "id": "p", "version": "1.0.0", "contract": "0.1"});
    let (members, Value::Object(more)) = (manifest.as_object_mut().expect("an object"), more)
    else {
        panic!("a table")
    };
    members.extend(more);
    manifest
}

/// Returns a small manifest for each part of [`whole`], and the place of the part.
fn parts() -> Vec<(Value, String)> {
    let whole = whole();
    let request = &whole["request"];
    let mut parts = vec![
        (with(json!({"description": "d", "license": "MIT", "metadata": {"a": 1}})), String::new()),
        (with(json!({"config": whole["config"]})), "/config".to_owned()),
        (with(json!({"build": {"wasi": true}})), "/build".to_owned()),
        (with(json!({"tool": whole["tool"], "request": request})), "/tool".to_owned()),
        (with(json!({"request": {}})), "/request".to_owned()),
    ];
    for (kind, asked) in request.as_object().expect("a table") {
        let mut asked = json!({kind: asked});
        if kind == "secret" {
            asked["http"] = request["http"].clone();
        }
        parts.push((with(json!({"request": asked})), format!("/request/{kind}")));
    }
    parts
}

/// Values of every type, and texts that are near the edge of some form.
fn probes() -> Vec<Value> {
    let mut probes = vec![json!(null), json!(true), json!(7), json!(-1), json!([]), json!({})];
    probes.extend([json!(u64::MAX), json!([[]]), json!([""]), json!({"a": {}})]);
    let texts = "a|A|a-b|a_b|a b| a|é|*|a.b|a:b|a\n|\t|\u{85}|\u{a0}|\u{feff}|\u{7f}|\u{9f}|\
        airlock.plugin/1|0|007|1|1B|1b|1KiB|1kib|1K|1MB|1.5MiB|1 MiB|0000000001B|00000000001B|9999999999GiB|\
        1ms|1s|1m|1h|1S|1d|1us|1min|1s 5ms|9999999999h|\
        0.1|0.2|1.2|1.2.3|01.2.3|1.2.3-|1.2.3-a.1|1.2.3-01|1.2.3-a..b|1.2.3+|1.2.3+01.a-b|1.2.3-x+y|1.2.3 |v1.2.3|\
        999999999.0.0|1000000000.0.0|\
        https://a.example|http://a|https://*.a.example|https://*.a|https://*|HTTPS://a.example|https://A.example|\
        https://a.example:1|https://a.example:0|https://a.example:65535|https://a.example:65536|https://a.example:080|\
        https://a.example:|https://u@a.example|https://a.example?q|https://a.example#f|https://a.example\\b|\
        https://a.example/|https://a.example/v1|https://a.example/v1/|https://a.example/a/../b|https://a.example/%2e%2E|\
        https://a.example/.;x|https://a.example/.a|https://a.example/a b|https://a.example/a%20b|https://a.example/a%2fb|\
        https://a.example/%25zz|https://a.example/%2541|https://a.example/%C3%BC|https://a.example/%ff|https://a.example/%00|\
        https://a..example|https://a.example.|https://a_b.example|https://-a.example|https://a.1|https://1a.example|\
        https://bücher.example|https://xn--a|https://9.9.9.9|https://09.9.9.9|https://9.9.9|https://256.1.1.1|https://10.0.0.1|\
        https://[2606:4700::1111]|https://[2606:4700::1111]:8443/a|ftp://a.example|a.example|https://|https:///a|\
        /|/**|/v1/**|/v1/*|/v1/*.json|/a**|/**a|/***|/**/**|/**/a/**|/a b|/a%20b|/%2f|/%2F|/%5c|/%1f|/%7F|/%zz|/%|/%2541|\
        /%25|/./a|/..|/..;x|/a/%2e%3bx|/.a|/...|/ü|/%C3%BC|/%C3|/a?b|/a#b|//|v1|\
        GET|get|PATCH|CONNECT|TRACE|M-SEARCH|X_Y|PROPFIND1|\
        authorization|Authorization|host|Host|x-key|X-Key|x_http_method|X.Original.Url|te|te1|proxy-x|Proxy_x|proxy|\
        transfer-encoding|a/b|Bearer |NTLM|negotiate x|\"NTLM x|ntlmx|\
        read_only|read_write|read-only|http|http.api|http.nope|http.|http.*|http.a.b|read_files|read_files.*|read_files.x|\
        write_files.*|secret|secret.header|read_kv.cache|write_kv|call_tools|call_tools.search|call_tools.Search|tools|.api|api|cache";
    probes.push(json!(""));
    probes.extend(texts.split('|').map(Value::from));
    for length in [32, 33, 64, 65, 128, 129, 300, 301, 1024, 1025] {
        probes.extend([json!("x".repeat(length)), json!("é".repeat(length))]);
        probes.push(json!(format!("/{}", "x".repeat(length - 1))));
        probes.push(json!(format!("https://a.example/{}", "x".repeat(length.saturating_sub(18)))));
    }
    for count in [31, 32, 33] {
        probes.extend([json!("/a".repeat(count)), json!(format!("{}/", "/a".repeat(count)))]);
        probes.push(json!(format!("https://a.example{}", "/a".repeat(count))));
        probes.push(json!(format!("https://a.example{}/", "/a".repeat(count))));
    }
    probes
}

/// Calls `visit` with copies of a manifest that differ in one place below `from`: another value, another name,
/// one more key, one key less, or one more element.
fn mutate(manifest: &Value, from: String, probes: &[Value], visit: &mut dyn FnMut(&str, &Value)) {
    let mut pointers = vec![from];
    while let Some(pointer) = pointers.pop() {
        let mut changed = |change: &str, edit: &dyn Fn(&mut Value)| {
            let mut copy = manifest.clone();
            edit(copy.pointer_mut(&pointer).expect("the same manifest"));
            visit(&format!("{pointer} {change}"), &copy);
        };
        let is_text = matches!(manifest.pointer(&pointer), Some(Value::String(_)));
        for probe in probes.iter().filter(|probe| is_text || !probe.is_string()) {
            changed(&format!("= {probe}"), &|value| *value = probe.clone());
        }
        match manifest.pointer(&pointer).expect("it was found") {
            Value::Array(elements) => {
                for probe in
                    probes.iter().filter(|probe| elements[0].is_string() || !probe.is_string())
                {
                    changed(&format!("+ {probe}"), &|value| {
                        value.as_array_mut().expect("a list").push(probe.clone());
                    });
                }
                pointers.extend((0..elements.len()).map(|index| format!("{pointer}/{index}")));
            }
            Value::Object(members) => {
                for (name, member) in members {
                    changed(&format!("without {name}"), &|value| {
                        value.as_object_mut().expect("a table").remove(name);
                    });
                    let names =
                        ["a", "A", "a b", "*", "tmp", "", "é", &"a".repeat(33), &"a".repeat(65)];
                    for other in names {
                        changed(&format!("with {name} as {other:?}"), &|value| {
                            value[other] = member.clone();
                        });
                    }
                    pointers
                        .push(format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")));
                }
            }
            _ => {}
        }
    }
}

#[test]
fn the_schema_and_the_gateway_agree_on_every_value_in_every_place() {
    let schema = schema();
    let probes = probes();
    let mut seen = 0;
    let mut accepted = 0;
    let mut wrong = Vec::new();
    for (part, place) in parts() {
        assert_eq!(disagreement(&schema, &part), None);
        assert!(schema.check(&part).is_ok(), "{part}");
        mutate(&part, place, &probes, &mut |change, manifest| {
            seen += 1;
            accepted += usize::from(schema.check(manifest).is_ok());
            wrong.extend(
                disagreement(&schema, manifest).map(|problem| format!("{change}: {problem}")),
            );
        });
    }
    assert!(seen > 5_000 && accepted > 1_000 && seen - accepted > 4_000, "{accepted} of {seen}");
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns a manifest with one secret, and the destination that it is sent to.
fn secret(secret: Value) -> Value {
    let mut secret = secret;
    secret["reason"] = json!("r");
    let api = json!({"url": "https://api.example.com", "reason": "r"});
    with(json!({"request": {"http": {"api": api}, "secret": {"s": secret}}}))
}

fn http(http: Value) -> Value {
    let mut http = http;
    http["reason"] = json!("r");
    with(json!({"request": {"http": {"api": http}}}))
}

fn injected(inject: &Value) -> Value {
    secret(json!({"inject": inject, "audience": ["api"]}))
}

/// Returns as many slots.
fn slots(count: usize) -> Value {
    let slots = (0..count).map(|n| (format!("s{n}"), json!({"reason": "r"})));
    with(json!({"request": {"slot": slots.collect::<Map<_, _>>()}}))
}

/// Returns as many tools.
fn tools(count: usize) -> Value {
    with(json!({"tool": (0..count).map(|n| json!({"name": format!("t{n}")})).collect::<Vec<_>>()}))
}

/// Returns as many methods or paths.
fn many(key: &str, count: usize) -> Value {
    let elements = (0..count).map(|n| match key {
        "methods" => char::from(b'A' + u8::try_from(n).expect("few")).to_string(),
        _ => format!("/p{n}"),
    });
    http(json!({"url": "https://a.example", key: elements.collect::<Vec<_>>()}))
}

#[test]
fn valid_combinations_of_keys_are_accepted_by_both() {
    let schema = schema();
    for valid in [
        with(json!({})),
        whole(),
        http(json!({"url": "*"})),
        http(json!({"url": "*", "methods": [], "paths": [], "private": true})),
        http(json!({"url": "https://a.example/", "paths": ["/v1/**"]})),
        http(json!({"url": "https://a.example/v1", "paths": []})),
        http(json!({"url": "http://10.0.0.1", "private": true})),
        many("methods", 16),
        many("paths", 32),
        secret(json!({"reveal": true})),
        secret(json!({"reveal": true, "audience": []})),
        injected(&json!({"header": "x-key"})),
        injected(&json!({"header": "Authorization", "prefix": "Bearer "})),
        injected(&json!({"header": "authorization", "prefix": "NTLMx "})),
        injected(&json!({"header": "x-key", "prefix": "NTLM "})),
        injected(&json!({"basic": "", "prefix": ""})),
        injected(&json!({"basic": "me and you"})),
        injected(&json!({"query": "clé"})),
        slots(32),
        tools(2_000),
    ] {
        assert!(schema.check(&valid).is_ok(), "{:?}: {valid}", schema.check(&valid));
        assert_eq!(disagreement(&schema, &valid), None, "{valid}");
    }
}

#[test]
fn invalid_combinations_of_keys_are_refused_by_both() {
    let schema = schema();
    for invalid in [
        http(json!({"url": "*", "methods": ["GET"]})),
        http(json!({"url": "*", "paths": ["/"]})),
        http(json!({"url": "https://a.example/v1", "paths": ["/v1/**"]})),
        many("methods", 17),
        many("paths", 33),
        secret(json!({})),
        secret(json!({"reveal": false})),
        secret(json!({"inject": {"header": "x-key"}})),
        secret(json!({"inject": {"header": "x-key"}, "audience": []})),
        injected(&json!({})),
        injected(&json!({"prefix": "Bearer "})),
        injected(&json!({"header": "x", "query": "q"})),
        injected(&json!({"basic": "", "query": "q"})),
        injected(&json!({"header": "x", "basic": "", "query": "q"})),
        injected(&json!({"query": "q", "prefix": "p"})),
        injected(&json!({"basic": "me", "prefix": "p"})),
        injected(&json!({"header": "Authorization", "prefix": "Negotiate "})),
        injected(&json!({"header": "authorization", "prefix": "(ntlm,x)"})),
        slots(33),
        tools(2_001),
        with(json!({"config": {}})),
        with(json!({"config": {"schema": true}})),
        with(json!({"config": {"schema": {}, "schema_file": "f.json"}})),
    ] {
        assert!(schema.check(&invalid).is_err(), "{invalid}");
        assert_eq!(disagreement(&schema, &invalid), None, "{invalid}");
    }
}

#[test]
fn each_rule_beyond_the_schema_is_refused_by_the_gateway_alone() {
    let schema = schema();
    let read_only = json!({"files": {"in": {"access": "read_only", "reason": "r"}}});
    let cases = [
        with(json!({"tool": [{"name": "a"}, {"name": "a"}]})),
        with(json!({"tool": [{"name": "a", "effects": ["http"]}]})),
        with(json!({"tool": [{"name": "a", "effects": ["write_files.in"]}], "request": read_only})),
        with(json!({"tool": [{"name": "a", "effects": ["read_files.out"]}], "request": read_only})),
        with(json!({"config": {"schema_file": "config.schema.json"}})),
        with(json!({"config": {"from_code": true}})),
        http(json!({"url": "https://10.0.0.1"})),
        http(json!({"url": "https://a.example", "paths": ["/%ff"]})),
        http(json!({"url": "https://a.example", "paths": ["/%25%34%31"]})),
        http(json!({"url": "https://xn--a.example"})),
    ];
    let mut held = HashSet::new();
    for manifest in cases {
        assert!(schema.check(&manifest).is_ok(), "{manifest}");
        let bad = Manifest::parse(manifest.to_string().as_bytes()).expect_err("beyond the schema");
        assert_eq!(disagreement(&schema, &manifest), None, "{manifest}");
        held.extend(BEYOND.into_iter().filter(|rule| bad.faults[0].problem.contains(rule)));
    }
    assert_eq!(held.len(), BEYOND.len(), "{held:?}");
}
