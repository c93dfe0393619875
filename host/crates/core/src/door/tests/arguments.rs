//! The arguments of a call as a text: what is refused before the door decides.

use super::*;

#[test]
fn scalars_are_the_wanted_members_without_what_is_nested() {
    let text = r#"{"a":"x","b":[[1,2],{}],"c":{"d":1},"e":2.5,"f":null,"other":"y"}"#;
    let arguments = Arguments::parse("any", text).expect("an object");
    let scalars = arguments.scalars(&["a", "b", "c", "e", "f", "g"]);
    assert_eq!(
        serde_json::Value::from(scalars),
        json!({"a": "x", "b": [], "c": {}, "e": 2.5, "f": null})
    );
}

const CANNOT_BE_USED: &str = "the arguments of tool 't' cannot be used: ";

#[test]
fn blank_arguments_are_an_empty_object_and_other_values_are_refused() {
    assert_eq!(Arguments::parse("t", " \n").expect("blank is fine").as_str(), "{}");
    for bad in
        ["[]", "1", "nul", "{", &format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200))]
    {
        assert_eq!(Arguments::parse("t", bad).expect_err(bad).code(), HostCode::BadArguments);
    }
    let fits = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_ARGUMENT_BYTES - 8));
    assert!(Arguments::parse("t", &fits).is_ok());
    assert!(Arguments::parse("t", &format!("{fits} ")).is_err());
}

#[test]
fn arguments_with_a_duplicate_key_are_refused_at_any_depth() {
    for (text, key) in [
        (r#"{"path":"/allowed","path":"/etc"}"#, "path"),
        (r#"{"path":1,"\u0070ath":2}"#, "path"),
        (r#"{"filter":[{"items":{"id":1,"id":2}}]}"#, "id"),
    ] {
        let error = Arguments::parse("t", text).expect_err(text);
        let expected = format!("{CANNOT_BE_USED}the key {key:?} occurs twice in one object");
        assert_eq!(error.to_string(), expected);
    }
    assert!(Arguments::parse("t", r#"{"a":{"a":1},"b":[{"a":1},{"a":2}]}"#).is_ok());
}

#[test]
fn arguments_that_take_too_much_memory_are_refused_before_they_are_parsed() {
    assert!(Arguments::parse("t", &small_objects(10_000)).is_ok());
    let error = Arguments::parse("t", &small_objects(140_000)).expect_err("it takes 64 MiB");
    let expected = format!("{CANNOT_BE_USED}takes more than 33554432 bytes of memory when parsed");
    assert!(error.to_string().starts_with(&expected), "{error}");
}

fn small_objects(count: usize) -> String {
    format!(r#"{{"a":[{}0]}}"#, r#"{"":0},"#.repeat(count))
}
