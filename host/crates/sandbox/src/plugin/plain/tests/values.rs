//! Every row of the type mapping, in both directions, through a guest.

use serde_json::{Value, json};

use super::*;

fn echoing(definitions: &str, ty: &str) -> Plain {
    load(&echo(definitions, ty)).expect("a usable component")
}

fn schemas(plain: &Plain) -> (Value, Value) {
    let definition = plain.definitions().remove(0);
    let output = tree(&definition.output_schema.expect("it returns something"));
    (
        tree(&definition.input_schema)["properties"]["value"].clone(),
        output["properties"]["result"]["prefixItems"][0].clone(),
    )
}

fn tree(schema: &airlock_json::JsonText) -> Value {
    schema.to_value().expect("it is shallow")
}

/// Checks that these values come back unchanged.
async fn kept(plain: &Plain, values: &[Value]) {
    for value in values {
        assert_eq!(echoed(plain, value).await.as_ref(), Ok(value));
    }
}

/// Checks that these values come back as the second of each pair.
async fn changed(plain: &Plain, values: &[(Value, Value)]) {
    for (value, back) in values {
        assert_eq!(echoed(plain, value).await.as_ref(), Ok(back), "{value}");
    }
}

/// Checks that these values are refused with this message.
async fn refused(plain: &Plain, values: &[(Value, &str)]) {
    for (value, message) in values {
        assert_eq!(echoed(plain, value).await, Err((*message).to_owned()), "{value}");
    }
}

#[tokio::test]
async fn integers_out_of_range_are_refused() {
    for (ty, least, most) in [
        ("s8", i64::from(i8::MIN), i64::from(i8::MAX)),
        ("u8", 0, i64::from(u8::MAX)),
        ("s16", i64::from(i16::MIN), i64::from(i16::MAX)),
        ("u16", 0, i64::from(u16::MAX)),
        ("s32", i64::from(i32::MIN), i64::from(i32::MAX)),
        ("u32", 0, i64::from(u32::MAX)),
    ] {
        let plain = echoing("", ty);
        let schema = json!({"type": "integer", "minimum": least, "maximum": most});
        assert_eq!(schemas(&plain), (schema.clone(), schema));
        kept(&plain, &[json!(least), json!(0), json!(most)]).await;
        changed(&plain, &[(json!(3.0), json!(3))]).await;
        for bad in [
            json!(least - 1),
            json!(most + 1),
            json!(1.5),
            json!("1"),
            json!(null),
            json!(true),
            json!([]),
            json!(1e300),
        ] {
            let shown = if bad == json!([]) { "a list".to_owned() } else { bad.to_string() };
            let message =
                format!("value: found {shown}, expected an integer from {least} to {most}");
            refused(&plain, &[(bad, &message)]).await;
        }
    }
}

#[tokio::test]
async fn integers_of_64_bits_are_text_where_numbers_would_be_rounded() {
    let safe = (1_i64 << 53) - 1;
    let signed = echoing("", "s64");
    let number = json!({"type": "integer", "minimum": -safe, "maximum": safe});
    let schema = json!({"anyOf": [number, {"type": "string", "pattern": "^-?[0-9]{1,19}$"}]});
    assert_eq!(schemas(&signed), (schema.clone(), schema));
    kept(
        &signed,
        &[
            json!(0),
            json!(safe),
            json!(-safe),
            json!((safe + 1).to_string()),
            json!(i64::MIN.to_string()),
        ],
    )
    .await;
    changed(&signed, &[(json!("-7"), json!(-7)), (json!("0007"), json!(7))]).await;
    let expected = "expected an integer from -9007199254740991 to 9007199254740991, or a larger one as text of digits";
    for bad in [
        json!(safe + 1),
        json!(-safe - 1),
        json!("9223372036854775808"),
        json!(""),
        json!("-"),
        json!("+1"),
        json!("1.0"),
    ] {
        refused(&signed, &[(bad.clone(), &format!("value: found {bad}, {expected}"))]).await;
    }

    let unsigned = echoing("", "u64");
    let number = json!({"type": "integer", "minimum": 0, "maximum": safe});
    let schema = json!({"anyOf": [number, {"type": "string", "pattern": "^[0-9]{1,20}$"}]});
    assert_eq!(schemas(&unsigned), (schema.clone(), schema));
    kept(&unsigned, &[json!(0), json!(safe), json!(u64::MAX.to_string())]).await;
    let expected =
        "expected an integer from 0 to 9007199254740991, or a larger one as text of digits";
    for bad in [
        json!(u64::MAX),
        json!(-1),
        json!("-1"),
        json!("18446744073709551616"),
        json!("999999999999999999999"),
    ] {
        refused(&unsigned, &[(bad.clone(), &format!("value: found {bad}, {expected}"))]).await;
    }
}

#[tokio::test]
async fn floats_are_numbers_and_only_results_may_be_nan_or_infinite() {
    let double = echoing("", "f64");
    let out = json!({"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]});
    assert_eq!(schemas(&double), (json!({"type": "number"}), out));
    kept(&double, &[json!(0.1), json!(-1e300), json!(-0.0)]).await;
    changed(&double, &[(json!(3), json!(3.0))]).await;
    refused(&double, &[(json!("NaN"), r#"value: found "NaN", expected a number"#)]).await;

    let single = echoing("", "f32");
    kept(&single, &[json!(0.1), json!(16_777_216.0)]).await;
    changed(&single, &[(json!(0.100_000_000_01), json!(0.1))]).await;
    refused(&single, &[(json!(1e39), "value: found 1e+39, expected a number of 32 bits")]).await;

    let core = core(
        r#"(func (export "f") (param f64) (result f64) (f64.div (local.get 0) (f64.const 0)))"#,
    );
    let lift = lift("f");
    let divide =
        format!(r#"(component {core} (func (export "f") (param "by" f64) (result f64) {lift}))"#);
    let divide = load(&divide).expect("a usable component");
    for (by, result) in [(0.0, "NaN"), (1.0, "Infinity"), (-1.0, "-Infinity")] {
        let output = call(&divide, "f", &json!({"by": by})).await.expect("an answer");
        assert_eq!(output.structured, Some(json!({"result": result})));
    }
}

#[tokio::test]
async fn strings_chars_and_bools_come_back_unchanged() {
    let text = echoing("", "string");
    assert_eq!(schemas(&text).0, json!({"type": "string"}));
    kept(&text, &[json!(""), json!("a\"\u{0}\n"), json!("日本語 🦀")]).await;
    refused(&text, &[(json!(1), "value: found 1, expected text")]).await;

    let character = echoing("", "char");
    assert_eq!(schemas(&character).0, json!({"type": "string", "minLength": 1, "maxLength": 1}));
    kept(&character, &[json!("a"), json!("🦀"), json!("\u{0}")]).await;
    refused(
        &character,
        &[
            (json!(""), r#"value: found "", expected text of one character"#),
            (json!("ab"), r#"value: found "ab", expected text of one character"#),
            (json!("e\u{301}"), "value: found \"e\u{301}\", expected text of one character"),
        ],
    )
    .await;

    let truth = echoing("", "bool");
    assert_eq!(schemas(&truth).0, json!({"type": "boolean"}));
    kept(&truth, &[json!(true), json!(false)]).await;
    refused(&truth, &[(json!("true"), r#"value: found "true", expected true or false"#)]).await;
}

#[tokio::test]
async fn bytes_are_base64() {
    let bytes = echoing("", "(list u8)");
    assert_eq!(schemas(&bytes).0, json!({"type": "string", "contentEncoding": "base64"}));
    kept(&bytes, &[json!(""), json!("AA=="), json!("3q2+7w==")]).await;
    changed(&bytes, &[(json!("3q2+7w"), json!("3q2+7w=="))]).await;
    refused(
        &bytes,
        &[
            (json!("3q2-7w=="), r#"value: found "3q2-7w==", expected base64"#),
            (json!("A"), r#"value: found "A", expected base64"#),
            (json!([1]), "value: found a list, expected base64"),
        ],
    )
    .await;
}

#[tokio::test]
async fn lists_and_tuples_are_arrays() {
    let lists = echoing("", "(list (list string))");
    assert_eq!(
        schemas(&lists).0,
        json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}})
    );
    kept(&lists, &[json!([]), json!([[], ["a"], ["b", "c"]])]).await;
    refused(
        &lists,
        &[
            (json!([["a"], ["b", 2]]), "value[1][1]: found 2, expected text"),
            (json!({}), "value: found an object of 0 members, expected a list"),
        ],
    )
    .await;

    let tuple = echoing("", "(tuple u8 string)");
    let schema = json!({"type": "array", "prefixItems": [{"type": "integer", "minimum": 0, "maximum": 255}, {"type": "string"}],
        "items": false, "minItems": 2, "maxItems": 2});
    assert_eq!(schemas(&tuple).0, schema);
    kept(&tuple, &[json!([1, "a"])]).await;
    refused(
        &tuple,
        &[
            (json!([1]), "value: found 1 items, expected 2"),
            (json!([1, "a", 2]), "value: found 3 items, expected 2"),
            (json!(["a", 1]), r#"value[0]: found "a", expected an integer from 0 to 255"#),
            (json!(1), "value: found 1, expected a list of 2 items"),
        ],
    )
    .await;
}

#[tokio::test]
async fn records_are_objects_and_their_options_may_be_absent() {
    let definition = r#"(record (field "x" s32) (field "max-results" (option u8)) (field "twice" (option (option bool))))"#;
    let point = echoing(&named("point", definition), "$point");
    let schema = json!({
        "type": "object",
        "properties": {
            "x": integer(i32::MIN.into(), i32::MAX.into()),
            "max_results": integer(0, 255),
            "twice": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        },
        "required": ["x"],
        "additionalProperties": false,
    });
    assert_eq!(schemas(&point), (schema.clone(), schema));
    kept(
        &point,
        &[
            json!({"x": -1}),
            json!({"x": 1, "max_results": 7, "twice": true}),
            json!({"x": 1, "twice": null}),
        ],
    )
    .await;
    refused(
        &point,
        &[
            (
                json!({"x": "a"}),
                r#"value.x: found "a", expected an integer from -2147483648 to 2147483647"#,
            ),
            (json!({}), "value.x: missing, expected an integer from -2147483648 to 2147483647"),
            (
                json!({"x": null}),
                "value.x: found null, expected an integer from -2147483648 to 2147483647",
            ),
            (
                json!({"x": 1, "max_results": null}),
                "value.max_results: found null, expected an integer from 0 to 255",
            ),
            (
                json!({"x": 1, "max-results": 7}),
                "value.max-results: unknown, expected x, max_results, twice",
            ),
            (json!("x"), r#"value: found "x", expected an object"#),
        ],
    )
    .await;
}

fn integer(least: i64, most: i64) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most})
}

#[tokio::test]
async fn absent_options_outside_records_are_null() {
    let options = echoing("", "(list (option u8))");
    let item =
        json!({"anyOf": [{"type": "integer", "minimum": 0, "maximum": 255}, {"type": "null"}]});
    assert_eq!(schemas(&options).0, json!({"type": "array", "items": item}));
    kept(&options, &[json!([null, 0, 255, null])]).await;
    refused(&options, &[(json!([256]), "value[0]: found 256, expected an integer from 0 to 255")])
        .await;
}

#[tokio::test]
async fn enums_are_strings_and_variants_objects_of_one_key() {
    let level = echoing(&named("level", r#"(enum "low" "very-high")"#), "$level");
    assert_eq!(schemas(&level).0, json!({"type": "string", "enum": ["low", "very-high"]}));
    kept(&level, &[json!("low"), json!("very-high")]).await;
    refused(
        &level,
        &[(json!("very_high"), r#"value: found "very_high", expected one of "low", "very-high""#)],
    )
    .await;

    let definition =
        r#"(variant (case "none") (case "circle" f64) (case "two-sided" (tuple f64 f64)))"#;
    let area = echoing(&named("area", definition), "$area");
    let (schema, _) = schemas(&area);
    assert_eq!(schema["oneOf"][0], json!({"const": "none"}));
    let circle = json!({"type": "object", "properties": {"circle": {"type": "number"}}, "required": ["circle"], "additionalProperties": false});
    assert_eq!(schema["oneOf"][1], circle);
    kept(&area, &[json!("none"), json!({"circle": 1.5}), json!({"two-sided": [1.0, 2.0]})]).await;
    refused(
        &area,
        &[
            (json!("square"), r#"value: found "square", expected one case of "none", "circle", "two-sided""#),
            (json!({"square": 1}), r#"value: found "square", expected one case of "none", "circle", "two-sided""#),
            (json!("circle"), r#"value: found "circle", expected an object with "circle": a number"#),
            (json!({"none": null}), r#"value: found an object with "none", expected the text "none" alone"#),
            (json!({"two-sided": [1, "a"]}), r#"value.two-sided[1]: found "a", expected a number"#),
            (json!({}), r#"value: found an object of 0 members, expected one case of "none", "circle", "two-sided""#),
        ],
    )
    .await;
}

#[tokio::test]
async fn flags_are_strings_without_repetition() {
    let access = echoing(&named("access", r#"(flags "read" "write" "run-it")"#), "$access");
    let schema = json!({"type": "array", "items": {"type": "string", "enum": ["read", "write", "run-it"]}, "uniqueItems": true});
    assert_eq!(schemas(&access).0, schema);
    kept(&access, &[json!([]), json!(["read"]), json!(["read", "run-it"])]).await;
    changed(&access, &[(json!(["run-it", "read"]), json!(["read", "run-it"]))]).await;
    refused(
        &access,
        &[
            (json!(["read", "read"]), r#"value[1]: "read" for the second time"#),
            (json!(["own"]), r#"value[0]: found "own", expected one of "read", "write", "run-it""#),
            (
                json!("read"),
                r#"value: found "read", expected a list with some of "read", "write", "run-it""#,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_result_inside_a_value_is_like_a_variant() {
    let results = echoing("", "(list (result u8 (error string)))");
    kept(&results, &[json!([{"ok": 1}, {"err": "no"}])]).await;
    refused(
        &results,
        &[(json!([{"ok": "no"}]), r#"value[0].ok: found "no", expected an integer from 0 to 255"#)],
    )
    .await;
    let units = echoing("", "(list (result))");
    assert_eq!(
        schemas(&units).0,
        json!({"type": "array", "items": {"oneOf": [{"const": "ok"}, {"const": "err"}]}})
    );
    kept(&units, &[json!(["ok", "err"])]).await;
    refused(
        &units,
        &[(json!(["okay"]), r#"value[0]: found "okay", expected one case of "ok", "err""#)],
    )
    .await;
}

#[tokio::test]
async fn arguments_are_the_parameters_by_name_and_others_are_refused() {
    let core = core(
        r#"(func (export "add") (param i32 i32 i32) (result i32) (i32.add (local.get 0) (local.get 2)))"#,
    );
    let lift = lift("add");
    let add = format!(
        r#"(component {core} (func (export "add-up") (param "first-one" u8) (param "other" (option u8)) (result u8) {lift}))"#
    );
    let add = load(&add).expect("a usable component");
    let byte = json!({"type": "integer", "minimum": 0, "maximum": 255});
    let definition = add.definitions().remove(0);
    let input = json!({"type": "object", "properties": {"first_one": byte, "other": byte}, "required": ["first_one"], "additionalProperties": false});
    assert_eq!(definition.input_schema, input);
    let output = json!({"type": "object", "properties": {"result": byte}, "required": ["result"], "additionalProperties": false});
    assert_eq!(definition.output_schema, Some(output.into()));
    for (arguments, result) in [
        (json!({"first_one": 1, "other": 2}), Ok(3)),
        (json!({"other": 2, "first_one": 1}), Ok(3)),
        (json!({"first_one": 1}), Ok(1)),
        (
            json!({"first_one": 1, "other": null}),
            Err("other: found null, expected an integer from 0 to 255"),
        ),
        (json!({}), Err("first_one: missing, expected an integer from 0 to 255")),
        (json!({"first_one": 1, "third": 2}), Err("third: unknown, expected first_one, other")),
        (json!([1, 2]), Err("the arguments: found a list, expected an object")),
    ] {
        let called = call(&add, "add_up", &arguments).await;
        let called = called.map(|output| output.structured).map_err(|error| error.to_string());
        assert_eq!(
            called,
            result.map(|sum| Some(json!({"result": sum}))).map_err(|detail| format!(
                "the arguments of tool 'plain' cannot be used: {detail}"
            )),
            "{arguments}"
        );
    }
}
