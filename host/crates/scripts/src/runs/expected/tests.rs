use serde_json::json;

use super::*;

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(members) = value else { panic!("no object") };
    members
}

/// Returns what the arguments of two calls have in common.
fn between(one: Value, other: Value) -> ExpectedArguments {
    ExpectedArguments::between(&object(one), &object(other))
}

/// Returns the arguments as they are shown, with `*` in the place of what varies.
fn shown(one: Value, other: Value) -> Vec<String> {
    let expected = between(one, other);
    expected.shown("*").map(|shown| format!("{}={}", shown.name, shown.value)).collect()
}

/// Checks whether arguments are permitted, as text and as a tree.
fn assert_permitted(expected: &ExpectedArguments, arguments: &Value, is_permitted: bool) {
    let text = arguments.to_string();
    assert_eq!(expected.permit_call(&text.as_str().into()), is_permitted, "{text}");
    assert_eq!(expected.permit(&object(arguments.clone())), is_permitted, "{text}");
}

#[test]
fn constant_parts_stay_constant_beside_those_that_vary() {
    for (one, other, expected) in [
        (json!({"a": 1, "b": 2}), json!({"a": 1, "b": 3}), vec!["a=1", "b=*"]),
        (
            json!({"m": {"to": "x", "body": "1"}}),
            json!({"m": {"body": "2", "to": "x"}}),
            vec![r#"m={"body":*,"to":"x"}"#],
        ),
        (json!({"l": [1, "k"]}), json!({"l": [2, "k"]}), vec![r#"l=[*,"k"]"#]),
        (json!({"l": ["k"]}), json!({"l": ["k", "k"]}), vec!["l=*"]),
        // Nothing in it is constant: it is a part of an answer.
        (json!({"m": {"a": 1, "b": {"c": 2}}}), json!({"m": {"a": 2, "b": {"c": 3}}}), vec!["m=*"]),
        (
            json!({"m": {"a": 1, "b": 2, "c": 3}}),
            json!({"m": {"a": 1, "d": 4, "c": 3}}),
            vec![r#"m={"a":1,"b":*,"c":3,"d":*}"#],
        ),
        (json!({"m": {"a": 1}}), json!({"m": [1]}), vec!["m=*"]),
        (json!({"a": 1}), json!({"b": 1}), vec!["a=*", "b=*"]),
    ] {
        assert_eq!(shown(one, other), expected);
    }
}

#[test]
fn a_value_that_is_nested_too_deeply_varies_as_a_whole() {
    for (depth, is_partial) in [(MAX_DEPTH, true), (MAX_DEPTH + 1, false)] {
        let [one, other] = [1, 2].map(|end| {
            let inner = json!({"k": 0, "v": end});
            json!({"m": (1..depth).fold(inner, |inner, _| json!([inner]))})
        });
        assert_eq!(!between(one, other).partial.is_empty(), is_partial, "{depth}");
    }
}

#[test]
fn constant_arguments_are_equal_and_no_others_are_there_but_varying_ones() {
    let expected = between(
        json!({"reason": {"a": [1, "x"]}, "number": 1}),
        json!({"reason": {"a": [1, "x"]}, "number": 2}),
    );
    for arguments in [
        r#"{"reason": {"a": [1, "x"]}, "number": 7}"#,
        r#"{"number":{"any":"value"},"reason":{"a":[1,"\u0078"]}}"#,
        r#"{"reason": {"a":[1,"x"]}}"#,
    ] {
        assert!(expected.permit_call(&arguments.into()), "{arguments}");
    }
    for arguments in [
        "",
        "{}",
        "[]",
        r#"{"number":7}"#,
        r#"{"reason":{"a":[1,"y"]}}"#,
        r#"{"reason":{"a":[1,"x"]},"force":true}"#,
        r#"{"reason":{"a":[1.0,"x"]}}"#,
        r#"{"reason":{"a":[1,"x"],"b":2}}"#,
        r#"{"number":7,"number":8,"number":9}"#,
    ] {
        assert!(!expected.permit_call(&arguments.into()), "{arguments}");
    }
}

#[test]
fn a_name_that_varies_counts_once_in_arguments_that_are_read() {
    let written = json!({"arguments": {}, "varying": ["b", "a", "a"]});
    let expected: ExpectedArguments = serde_json::from_value(written).expect("arguments");
    assert!(expected.permit_call(&r#"{"b":1,"a":2}"#.into()));
    assert!(!expected.permit_call(&r#"{"a":1,"a":2,"b":3}"#.into()));
    let read = serde_json::to_value(&expected).expect("arguments");
    assert_eq!(read, json!({"arguments": {}, "varying": ["a", "b"]}));
}

#[test]
fn constant_parts_are_there_and_no_others_but_those_that_vary() {
    let expected = between(
        json!({"m": {"to": ["x", 1], "body": "1"}}),
        json!({"m": {"to": ["x", 2], "body": "2"}}),
    );
    for (arguments, is_permitted) in [
        (json!({"m": {"to": ["x", 1], "body": "1"}}), true),
        (json!({"m": {"to": ["x", {"any": []}], "body": null}}), true),
        (json!({"m": {"to": ["x", 7]}}), true),
        (json!({"m": {"to": ["y", 1], "body": "1"}}), false),
        (json!({"m": {"to": ["x"], "body": "1"}}), false),
        (json!({"m": {"to": ["x", 1, 2], "body": "1"}}), false),
        (json!({"m": {"to": "x", "body": "1"}}), false),
        (json!({"m": {"body": "1"}}), false),
        (json!({"m": {"to": ["x", 1], "bcc": "z"}}), false),
        (json!({"m": "text"}), false),
        (json!({"m": {"to": ["x", 1]}, "n": 1}), false),
        (json!({}), false),
    ] {
        assert_permitted(&expected, &arguments, is_permitted);
    }
}

#[test]
fn arguments_cover_others_that_permit_no_more() {
    let one = json!({"m": {"to": "x", "body": "1"}, "n": 1, "free": 1});
    let other = json!({"m": {"to": "x", "body": "2"}, "n": 1, "free": 2});
    let expected = between(one.clone(), other.clone());
    assert!(expected.cover(&expected));
    for (left, is_covered) in [
        (json!({"m": {"to": "x", "body": "redacted"}, "n": 1, "free": "redacted"}), true),
        (json!({"m": {"to": "x"}, "n": 1}), true),
        (json!({"m": {"to": "y", "body": "1"}, "n": 1}), false),
        (json!({"m": {"to": "x", "body": "1"}, "n": 2}), false),
        (json!({"m": {"to": "x", "body": "1"}}), false),
        (json!({"n": 1, "free": 1}), false),
        (json!({"m": {"to": "x"}, "n": 1, "added": 1}), false),
    ] {
        assert_eq!(expected.cover(&between(left.clone(), left.clone())), is_covered, "{left}");
    }
    let mut looser = other;
    looser["m"]["to"] = json!("y");
    assert!(!expected.cover(&between(one, looser)));
}

#[test]
fn arguments_are_stricter_with_more_constant_parts() {
    let any = between(json!({"m": 1}), json!({"m": 2}));
    let partial = between(json!({"m": {"a": 1, "b": 1}}), json!({"m": {"a": 1, "b": 2}}));
    let more =
        between(json!({"m": {"a": 1, "b": 1, "c": 1}}), json!({"m": {"a": 1, "b": 2, "c": 1}}));
    let constant = between(json!({"m": {"a": 1}}), json!({"m": {"a": 1}}));
    let ordered = [any, partial, more, constant];
    assert!(ordered.windows(2).all(|pair| pair[0].strictness() < pair[1].strictness()));
}
