mod allocator;

use proptest::{prelude::*, sample::select};
use serde_json::{Map, Value};

use super::*;

const NO_CAPS: Caps = Caps::memory(usize::MAX);

fn cost(text: &str) -> Cost {
    check(text.as_bytes(), &NO_CAPS).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Generates scalars: null, booleans, numbers, and strings that match `characters`.
fn scalar(characters: &'static str) -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        characters.prop_map(Value::from),
    ]
}

fn tree(characters: &'static str) -> impl Strategy<Value = Value> {
    scalar(characters).prop_recursive(5, 256, 40, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..40).prop_map(Value::from),
            prop::collection::vec((characters, inner), 0..40)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Generates JSON text of objects in objects whose keys are often the same, with and without escapes.
fn repeated_keys() -> impl Strategy<Value = String> {
    let keys = vec!["a", "\\u0061", "b", "é", "\\u00e9", "\\n", ""];
    let leaf = Just("1".to_owned());
    leaf.prop_recursive(4, 64, 12, move |inner| {
        let member = (select(keys.clone()), inner.clone())
            .prop_map(|(key, value)| format!("\"{key}\": {value}"));
        prop_oneof![
            prop::collection::vec(member, 0..12)
                .prop_map(|members| format!("{{{}}}", members.join(","))),
            prop::collection::vec(inner, 0..3).prop_map(|items| format!("[{}]", items.join(","))),
        ]
    })
}

/// Generates sequences of JSON fragments, most of which are not valid JSON.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b" ",
        b"\n",
        b"\"",
        b"\"a\"",
        b"\"a\":",
        b"\\",
        b"\\u0041",
        b"\\ud800",
        b"\\udc00",
        b"\"\\ud83d\\ude00\"",
        b"0",
        b"1",
        b"-",
        b".",
        b"5",
        b"e",
        b"E+",
        b"1e999",
        b"-1.5e-3",
        b"true",
        b"false",
        b"null",
        b"nul",
        b"\xc3\xa9",
        b"\xff",
        b"\x01",
        b"\xef\xbb\xbf",
    ];
    prop::collection::vec(select(pieces), 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_tree_holds_no_more_than_its_text_was_charged(tree in tree("\\PC{0,20}")) {
        let text = tree.to_string();
        let (parsed, held) = allocator::held_by(|| serde_json::from_str::<Value>(&text).expect("it was a tree"));
        prop_assert!(held.bytes <= cost(&text).tree_bytes, "{held:?} {:?}", cost(&text));
        drop(parsed);
    }

    #[test]
    fn the_charge_exceeds_the_held_memory_only_by_rounding(tree in tree("[a-z]{0,20}")) {
        let text = tree.to_string();
        let (parsed, held) = allocator::held_by(|| serde_json::from_str::<Value>(&text).expect("it was a tree"));
        prop_assert!(cost(&text).tree_bytes <= held.bytes + 32 * held.allocations + charge::VALUE_BYTES, "{held:?} {:?}", cost(&text));
        drop(parsed);
    }

    #[test]
    fn a_text_is_accepted_exactly_if_serde_json_parses_it(text in pieces()) {
        prop_assert_eq!(check(&text, &NO_CAPS).is_ok(), serde_json::from_slice::<Value>(&text).is_ok());
    }

    #[test]
    fn a_text_with_one_changed_byte_is_accepted_exactly_if_serde_json_parses_it(tree in tree("\\PC{0,8}"), at in any::<prop::sample::Index>(), byte: u8) {
        let mut text = tree.to_string().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        prop_assert_eq!(check(&text, &NO_CAPS).is_ok(), serde_json::from_slice::<Value>(&text).is_ok());
    }

    #[test]
    fn the_same_duplicate_key_is_found_with_a_check_and_without(text in repeated_keys()) {
        let found = check_keys(&text, &NO_CAPS).expect("it is JSON");
        prop_assert_eq!(found, check_unique_keys(&text).err());
    }

    #[test]
    fn caps_equal_to_the_cost_admit_a_text_and_one_less_does_not(tree in tree("[a-z]{0,20}")) {
        let text = tree.to_string();
        let Cost { nodes, depth, tree_bytes } = cost(&text);
        let exact = Caps { nodes, depth, tree_bytes };
        prop_assert_eq!(check(text.as_bytes(), &exact).expect("it fits"), cost(&text));
        let too_many = fails(&text, Caps { nodes: nodes - 1, ..exact });
        let is_refused = matches!(too_many, Error::TooManyNodes { limit, .. } if limit == nodes - 1);
        prop_assert!(is_refused);
        let too_large = fails(&text, Caps { tree_bytes: tree_bytes - 1, ..exact });
        let is_refused = matches!(too_large, Error::TooLarge { found_bytes, .. } if found_bytes == tree_bytes);
        prop_assert!(is_refused);
        if depth > 0 {
            let too_deep = fails(&text, Caps { depth: depth - 1, ..exact });
            let is_refused = matches!(too_deep, Error::TooDeep { limit, .. } if limit == depth - 1);
        prop_assert!(is_refused);
        }
    }
}

fn fails(text: &str, caps: Caps) -> Error {
    check(text.as_bytes(), &caps).expect_err("it does not fit")
}

#[test]
fn every_byte_of_a_string_is_judged_at_every_place_in_a_word() {
    for byte in 0..=u8::MAX {
        for at in 0..80 {
            let mut text = format!("[\"{}\"]", "a".repeat(80)).into_bytes();
            text[2 + at] = byte;
            let parsed = serde_json::from_slice::<Value>(&text);
            assert_eq!(check(&text, &NO_CAPS).is_ok(), parsed.is_ok(), "{byte} at {at}");
        }
    }
    for wide in ["é", "日本語の文章", "😀"] {
        let text = format!("[\"{wide}aaaaaaa{wide}\\n{wide}!\"]");
        assert_eq!(cost(&text).nodes, 2, "{text}");
    }
}

#[test]
fn small_objects_cost_many_times_their_text() {
    let text = format!("[{}0]", r#"{"":0},"#.repeat(10_000));
    let Cost { nodes, depth, tree_bytes } = cost(&text);
    assert_eq!((nodes, depth), (1 + 10_000 * 3 + 1, 2));
    assert!(tree_bytes > 60 * text.len(), "{tree_bytes}");
    let error = check(text.as_bytes(), &Caps::memory(100_000)).expect_err("it does not fit");
    assert!(error.is_cap());
    assert!(
        error.to_string().starts_with("takes more than 100000 bytes of memory when parsed, found "),
        "{error}"
    );
}

#[test]
fn a_tree_takes_up_to_150_times_the_memory_of_its_text() {
    let depth = MAX_DEPTH - 1;
    let deep = format!("{}0{}", "[".repeat(depth), "]".repeat(depth));
    for (item, times) in [(deep.as_str(), 145..=155), ("[0]", 90..=115), (r#"{"":0}"#, 60..=95)] {
        let text = format!("[{}]", vec![item; 1_000].join(","));
        let (parsed, held) =
            allocator::held_by(|| serde_json::from_str::<Value>(&text).expect("it is JSON"));
        let charged = cost(&text).tree_bytes;
        assert!(times.contains(&(charged / text.len())), "{item} {charged}");
        assert!(held.bytes <= charged && charged < held.bytes / 10 * 13, "{item} {held:?}");
        drop(parsed);
    }
}

#[test]
fn arrays_and_objects_are_charged_as_they_grow() {
    for count in 0..200 {
        for text in [
            format!("[{}]", vec!["0"; count].join(",")),
            format!(
                "{{{}}}",
                (0..count).map(|key| format!("\"{key}\":0")).collect::<Vec<_>>().join(",")
            ),
        ] {
            let (parsed, held) =
                allocator::held_by(|| serde_json::from_str::<Value>(&text).expect("it is JSON"));
            let charged = cost(&text).tree_bytes;
            assert!(
                held.bytes <= charged
                    && charged <= held.bytes + 32 * held.allocations + charge::VALUE_BYTES,
                "{count} {held:?}"
            );
            drop(parsed);
        }
    }
}

/// Writes the tokens that it receives, one after the other.
#[derive(Default)]
struct WrittenTokens(String);

impl TokenSink for WrittenTokens {
    fn key(&mut self, key: &[u8], has_escapes: bool) {
        let escaped = if has_escapes { "!" } else { "" };
        self.0.extend(["<", escaped, &String::from_utf8_lossy(key), ">"]);
    }

    fn scalar(&mut self, text: &[u8], has_escapes: bool, at: usize) {
        let escaped = if has_escapes { "!" } else { "" };
        let text = String::from_utf8_lossy(text);
        self.0.extend(["(", escaped, &text, " at ", &at.to_string(), ")"]);
    }

    fn open(&mut self, is_object: bool, at: usize) {
        self.0.extend([if is_object { "{" } else { "[" }, &at.to_string(), " "]);
    }

    fn close(&mut self, end: usize) {
        self.0.extend([".", &end.to_string()]);
    }
}

#[test]
fn a_sink_receives_the_tokens_as_they_are_in_the_text() {
    let text = r#" { "a\u0062" : [ 1.50 , "x\"é" , {} ] , "é" : null , "c": {"d":[["x"]]} } "#;
    let mut sink = WrittenTokens::default();
    let caps = Caps::memory(1 << 20);
    let cost = check_with(text.as_bytes(), &caps, &mut sink).expect("it is JSON");
    let expected = r#"{1 <!a\u0062>[15 (1.50 at 17)(!"x\"é" at 24){34 .36.38<é>(null at 48)<c>{60 <d>[65 [66 ("x" at 67).71.72.73.75"#;
    assert_eq!(sink.0, expected);
    assert_eq!(cost, check(text.as_bytes(), &caps).expect("it is JSON"));
}

#[test]
fn the_greatest_depth_is_that_of_serde_json() {
    for (depth, fits) in [(1, true), (MAX_DEPTH, true), (MAX_DEPTH + 1, false), (1_000_000, false)]
    {
        for (open, close) in [("[", "]"), (r#"{"":"#, "}")] {
            let text = format!("{}0{}", open.repeat(depth), close.repeat(depth));
            let caps = Caps { depth: usize::MAX, ..NO_CAPS };
            assert_eq!(check(text.as_bytes(), &caps).is_ok(), fits, "{depth}");
            assert_eq!(serde_json::from_str::<Value>(&text).is_ok(), fits, "{depth}");
        }
    }
}

#[test]
fn numbers_are_accepted_exactly_if_serde_json_parses_them() {
    for text in [
        digits(308),
        digits(309),
        digits(400),
        format!("-{}", digits(309)),
        format!("{}.{}", digits(299), digits(400)),
        format!("0.{}", digits(400)),
        "1e308".to_owned(),
        "1e309".to_owned(),
        "-1e309".to_owned(),
        "1e-999".to_owned(),
        "0e999".to_owned(),
        "1e99999999999".to_owned(),
        "18446744073709551616".to_owned(),
        "-0".to_owned(),
        "00".to_owned(),
        "-".to_owned(),
        "1.".to_owned(),
        "1e".to_owned(),
        "1e+".to_owned(),
        ".5".to_owned(),
    ] {
        assert_eq!(
            check(text.as_bytes(), &NO_CAPS).is_ok(),
            serde_json::from_str::<Value>(&text).is_ok(),
            "{text}"
        );
    }
}

fn digits(count: usize) -> String {
    "9".repeat(count)
}

#[test]
fn errors_name_the_expected_token_and_the_offset() {
    for (text, message) in [
        ("", "expected a JSON value at byte 0"),
        ("[1 2]", "expected `,` or `]` at byte 3"),
        ("{1:2}", "expected a key in double quotes at byte 1"),
        (r#"{"a"}"#, "expected `:` at byte 4"),
        ("1 1", "expected the end of the text at byte 2"),
        ("\"\u{1}\"", "expected no control character in a string at byte 1"),
        ("\"a", "expected the end of a string at byte 2"),
    ] {
        let error = check(text.as_bytes(), &NO_CAPS).expect_err("it is no JSON");
        assert_eq!((error.to_string().as_str(), error.is_cap()), (message, false));
    }
}

#[test]
fn parsing_returns_the_tree_or_an_error_with_its_line() {
    let (tree, charged) =
        parse::<Map<String, Value>>(br#"{"a": [1]}"#, &NO_CAPS).expect("it is an object");
    assert_eq!((Value::from(tree), charged.nodes), (serde_json::json!({"a": [1]}), 4));
    let error = parse::<Value>(b"[\n1 2]", &NO_CAPS).expect_err("it is no JSON");
    assert_eq!(error.to_string(), "expected `,` or `]` at line 2 column 3");
    let error = parse::<Map<String, Value>>(b"[]", &NO_CAPS).expect_err("it is no object");
    assert!(matches!(error, Error::Parse(_)), "{error}");
    let error = parse::<Value>(b"[[]]", &Caps { depth: 1, ..NO_CAPS }).expect_err("it is too deep");
    assert_eq!(error.to_string(), "arrays and objects nested more than 1 deep, found at byte 1");
}

#[test]
fn a_duplicate_key_is_named_at_any_depth() {
    for (text, key) in [
        (r#"{"a":1,"a":2}"#, Some("a")),
        (r#"{"a":1,"\u0061":2}"#, Some("a")),
        (r#"{"a":[0,{"b":{"c":1,"d":2,"c":1}}]}"#, Some("c")),
        (r#"[{"":1,"":1}]"#, Some("")),
        (r#"{"a":{"a":{"a":1}},"b":{"a":1}}"#, None),
        (r#"[{"a":1},{"a":1}]"#, None),
        (r#"{"a":1,"A":2}"#, None),
        (r#"{"a":1,"#, None),
        ("[1.5,-1,18446744073709551615,true,null,\"a\"]", None),
    ] {
        let found = check_unique_keys(text).err().map(|duplicate| duplicate.key);
        assert_eq!(found.as_deref(), key, "{text}");
        if let Ok(found) = check_keys(text, &NO_CAPS) {
            assert_eq!(found.map(|duplicate| duplicate.key).as_deref(), key, "{text}");
        }
    }
    for count in [7, 8, 9, 100] {
        let members: Vec<_> = (0..count).map(|at| format!("\"{at}\":{{}},")).collect();
        let members = members.concat();
        let distinct = format!("{{{members}\"a\":1}}");
        assert_eq!(check_unique_keys(&distinct), Ok(()));
        assert!(matches!(check_keys(&distinct, &NO_CAPS), Ok(None)), "{count}");
        let last = (count - 1).to_string();
        for (again, key) in [("0", "0"), ("\\u0030", "0"), (last.as_str(), last.as_str())] {
            let text = format!("{{{members}\"{again}\":1}}");
            let duplicate = DuplicateKey { key: key.to_owned() };
            assert_eq!(check_unique_keys(&text), Err(duplicate.clone()), "{count}");
            let found = check_keys(&text, &NO_CAPS).expect("it is JSON");
            assert_eq!(found, Some(duplicate), "{count}");
        }
    }
    let long = "é".repeat(100);
    let duplicate =
        check_unique_keys(&format!(r#"{{"{long}":1,"{long}":2}}"#)).expect_err("it is there twice");
    assert_eq!(duplicate.key, "é".repeat(64));
}

#[test]
fn a_check_of_keys_fails_as_a_check_without_them_does() {
    let text = r#"{"a":1,"a":[[]]}"#;
    assert!(matches!(check_keys(text, &NO_CAPS), Ok(Some(DuplicateKey { key })) if key == "a"));
    let shallow = Caps { depth: 2, ..NO_CAPS };
    assert!(matches!(check_keys(text, &shallow), Err(Error::TooDeep { limit: 2, at: 12 })));
    assert!(matches!(check_keys(r#"{"a":1,"a":"#, &NO_CAPS), Err(Error::Syntax { .. })));
}

#[test]
fn a_value_is_indented_unless_that_would_be_most_of_its_text() {
    let value = serde_json::json!({"a": [1, {"b": "x"}]});
    assert_eq!(indented(&value), serde_json::to_string_pretty(&value).expect("JSON"));
    let elements = Value::from(vec![1; 10_000]);
    let deep = (0..100).fold(elements, |inner, _| Value::from(vec![inner]));
    assert_eq!(indented(&deep), deep.to_string(), "it would be a hundred times as long");
}
