//! Ranges of keys: a value at each bound is accepted, and the next one beyond it is refused. The
//! bounds are those of the published schema, and of the tables that the code has.

use std::collections::BTreeSet;

use super::*;
use airlock_config_file::{
    file::{File, RANGE},
    key_path::{Segment, segments},
    read::read,
};
use airlock_core::{
    limit::{GuestLimit, Unit},
    profile::Profile,
    units::{Size, Span},
};
use airlock_model::MAX_FALLBACKS;

/// A key with a range.
struct RangedKey {
    path: KeyPath,
    unit: Unit,
    min: u64,
    max: u64,
    /// True if 0 is valid too.
    or_zero: bool,
}

/// Finds the keys with a range in the schema of the code, and reads their bounds in the published one.
struct Search<'s> {
    schema: &'s Value,
    published: &'s Value,
    found: Vec<RangedKey>,
    /// The type and the name of each key that was found. Several places may have one type.
    seen: BTreeSet<(&'s str, &'s str)>,
}

impl<'s> Search<'s> {
    /// Searches a subschema, which is below `path` in a file. `owner` is the type that it is a part of.
    fn visit(&mut self, owner: &'s str, schema: &'s Value, published: &'s Value, path: &KeyPath) {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.strip_prefix("#/$defs/").expect("a reference to a type");
            let schema = self.schema;
            let published = self.published;
            return self.visit(name, &schema["$defs"][name], &published["$defs"][name], path);
        }
        for (name, key) in schema["properties"].as_object().into_iter().flatten() {
            let path = path.member(name);
            let published = &published["properties"][name];
            if key.get(RANGE).is_none() {
                self.visit(owner, key, published, &path);
                continue;
            }
            self.seen.insert((owner, name.as_str()));
            let description = key["description"].as_str().expect("a description");
            let published = published["description"].as_str().expect("a description");
            let range = published.strip_prefix(description).expect("the range follows");
            self.found.push(ranged(path, key, range.trim_start()));
        }
        self.visit_part(owner, "items", [schema, published], &path.element(0));
        self.visit_part(owner, "additionalProperties", [schema, published], &path.member("x"));
        for (at, form) in schema["anyOf"].as_array().into_iter().flatten().enumerate() {
            self.visit(owner, form, &published["anyOf"][at], path);
        }
    }

    fn visit_part(
        &mut self,
        owner: &'s str,
        part: &str,
        [schema, published]: [&'s Value; 2],
        path: &KeyPath,
    ) {
        if let Some(schema) = schema.get(part) {
            self.visit(owner, schema, &published[part], path);
        }
    }
}

/// Returns a key with the range in its description: `From 1s to 1day.` or `0, or from 1s to 1day.`
fn ranged(path: KeyPath, key: &Value, description: &str) -> RangedKey {
    let unit = if key.get("pattern").is_some() {
        Unit::Bytes
    } else if key["type"].to_string().contains("string") {
        Unit::Nanoseconds
    } else {
        Unit::Count
    };
    let (range, _) = description.split_once('.').expect("a sentence");
    let (or_zero, bounds) = match range.strip_prefix("0, or from ") {
        Some(bounds) => (true, bounds),
        None => (false, range.strip_prefix("From ").expect("a range")),
    };
    let (min, max) = bounds.split_once(" to ").expect("two bounds");
    RangedKey { path, unit, min: amount(unit, min), max: amount(unit, max), or_zero }
}

fn amount(unit: Unit, text: &str) -> u64 {
    match unit {
        Unit::Count => text.parse().expect("a number"),
        Unit::Bytes => serde_json::from_value::<Size>(json!(text)).expect("a size").0,
        Unit::Nanoseconds => {
            let time = serde_json::from_value::<Span>(json!(text)).expect("a time");
            time.0.as_nanos().try_into().expect("less than 584 years")
        }
    }
}

fn written(unit: Unit, amount: u64) -> Value {
    match unit {
        Unit::Count => json!(amount),
        Unit::Bytes => json!(format!("{amount}B")),
        Unit::Nanoseconds => json!(format!("{amount}ns")),
    }
}

/// Returns the problems of the key in a file that has nothing else.
fn problems(path: &KeyPath, value: Value) -> Vec<String> {
    let file = segments(path).iter().rev().fold(value, |inner, segment| match segment {
        Segment::Member(name) => json!({name: inner}),
        Segment::Element(_) | Segment::Named(_) => json!([inner]),
    });
    let problems = read::<File>(&file).problems.into_iter();
    problems.filter(|problem| problem.key == *path).map(|problem| problem.message).collect()
}

#[test]
fn every_bound_of_the_published_schema_is_accepted_and_the_next_value_refused() {
    let schema = schemars::schema_for!(File).to_value();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config.schema.json");
    let published = std::fs::read_to_string(path).expect("the published schema");
    let published: Value = serde_json::from_str(&published).expect("JSON");
    let mut search =
        Search { schema: &schema, published: &published, found: Vec::new(), seen: BTreeSet::new() };
    search.visit("File", &schema, &published, &KeyPath::default());
    let keys = schema.to_string().matches(&format!("{RANGE:?}:")).count();
    assert_eq!(search.seen.len(), keys, "each key with a range is found");
    for RangedKey { path, unit, min, max, or_zero } in search.found {
        for valid in [min, max].into_iter().chain(or_zero.then_some(0)) {
            let found = problems(&path, written(unit, valid));
            assert_eq!(found, Vec::<String>::new(), "{path}: {valid}");
        }
        let beyond = [min.checked_sub(1), max.checked_add(1)].into_iter().flatten();
        for invalid in beyond.filter(|amount| !or_zero || *amount > 0) {
            let found = problems(&path, written(unit, invalid));
            let is_refused = matches!(&found[..], [only] if only.starts_with("must be from "));
            assert!(is_refused, "{path}: {invalid}: {found:?}");
        }
    }
}

#[test]
fn every_limit_of_a_plugin_is_accepted_at_its_bounds_and_refused_beyond_them() {
    for profile in [Profile::Untrusted, Profile::Trusted] {
        for limit in GuestLimit::ALL {
            let refused = |amount| {
                let limits = json!({limit.key(): written(limit.unit(), amount)});
                let wasm = json!({"component": "x", "profile": profile.name(), "limits": limits});
                let file =
                    clients(json!([{"name": "p", "connection_type": "wasm", "wasm_config": wasm}]));
                parse(&file).err().map(|error| error.problems()[0].key.to_string())
            };
            let key = format!("mcp.client_configs[0].wasm_config.limits.{}", limit.key());
            let min = limit.minimum();
            let max = profile.maximum(limit);
            assert_eq!([refused(min), refused(max)], [None, None], "{key} {profile:?}");
            for amount in [min.checked_sub(1), max.checked_add(1)].into_iter().flatten() {
                assert_eq!(refused(amount), Some(key.clone()), "{amount} {profile:?}");
            }
        }
    }
    // The documentation has the maxima; `the_documented_limits_equal_the_table_of_the_code`.
    let minima =
        GuestLimit::ALL.map(|limit| format!("{} {}", limit.key(), limit.show(limit.minimum())));
    assert_snapshot!(minima.join(", "), @"fuel 1000, cpu_time 1ms, deadline 1ms, memory 64KiB, table_elements 0, handles 1, copied 64KiB, host_calls 0, result 1KiB, log_lines 0, log_line 64B, http_requests 0, http_request 0B, http_response 0B, http_timeout 1ms, http_redirects 0");
}

#[test]
fn fractions_are_accepted_at_their_bounds_and_refused_beyond_them() {
    let cpus = |cpus: f64| {
        let docker = json!({"image": "x", "command": ["x"], "cpus": cpus});
        clients(json!([{"name": "d", "connection_type": "docker", "docker_config": docker}]))
    };
    let weight = |weight: f64| {
        let key = json!({"name": "k", "value": "env.GOOD", "weight": weight});
        json!({"providers": {"openai": {"keys": [key]}}})
    };
    for valid in [cpus(0.01), cpus(1_024.0), weight(0.0), weight(1e6)] {
        good(&valid);
    }
    for (invalid, key) in [
        (cpus(0.009), "cpus"),
        (cpus(1_024.001), "cpus"),
        (weight(-0.001), "weight"),
        (weight(1_000_000.5), "weight"),
    ] {
        assert!(error(&invalid).contains(&format!("{key}: must be from ")), "{invalid}");
    }
}

/// Returns a file with a list or a name of this length.
type FileOf<'a> = &'a dyn Fn(usize) -> Value;

#[test]
fn lists_and_names_are_accepted_at_their_longest_and_refused_beyond_it() {
    let wasm = |grants: Value| {
        let wasm = json!({"component": "x", "grants": grants});
        clients(json!([{"name": "p", "connection_type": "wasm", "wasm_config": wasm}]))
    };
    let directory = json!({"path": "x", "access": "read_only"});
    let cases: [(&str, usize, FileOf<'_>); 13] = [
        ("a name of a client", 32, &|length| clients(json!([stdio(&"c".repeat(length))]))),
        ("a name of a provider", 64, &|length| {
            let provider = json!({"kind": "openai", "base_url": "http://localhost"});
            json!({"providers": {"p".repeat(length): provider}})
        }),
        ("a name of a virtual key", 256, &|length| {
            let key = json!({"name": "k".repeat(length), "value": SECRET});
            json!({"governance": {"virtual_keys": [key]}})
        }),
        ("a name of an environment", 256, &|length| {
            governed("environments", &json!({"name": "e".repeat(length), "clients": []}))
        }),
        ("a name of a team", 256, &|length| {
            governed("teams", &json!({"name": "t".repeat(length)}))
        }),
        ("an identifier of a team", 256, &|length| {
            governed("teams", &json!({"name": "t", "id": "i".repeat(length)}))
        }),
        ("a name of a customer", 256, &|length| {
            governed("customers", &json!({"name": "c".repeat(length)}))
        }),
        ("an identifier of a customer", 256, &|length| {
            governed("customers", &json!({"name": "c", "id": "i".repeat(length)}))
        }),
        ("a name of a store", 64, &|length| wasm(json!({"kv": {"s".repeat(length): {}}}))),
        ("a name of a directory", 64, &|length| {
            wasm(json!({"files": {"d".repeat(length): directory}}))
        }),
        ("keys of a provider", 64, &|count| {
            let keys = (0..count).map(|at| json!({"name": at.to_string(), "value": "env.GOOD"}));
            json!({"providers": {"openai": {"keys": keys.collect::<Value>()}}})
        }),
        ("fallbacks of a provider", MAX_FALLBACKS, &|count| {
            let fallbacks = vec!["openai/model"; count];
            json!({"providers": {"openai": {"api_key": "env.GOOD", "fallbacks": fallbacks}}})
        }),
        ("scopes of a client", 100, &|count| {
            let oauth = json!({"scopes": vec!["read"; count]});
            clients(json!([{
                "name": "web", "connection_type": "http", "connection_string": "https://example.com",
                "auth_type": "oauth", "oauth_config": oauth,
            }]))
        }),
    ];
    for (what, most, file) in cases {
        assert!(parse(&file(most)).is_ok(), "{most}: {what}");
        assert!(parse(&file(most + 1)).is_err(), "{}: {what}", most + 1);
    }
}

/// Returns a file with one element of a part of `governance`.
fn governed(part: &str, element: &Value) -> Value {
    json!({"governance": {part: [element]}})
}
