//! Whether one schema accepts all that another one accepts, decided cautiously: a schema that accepts it may
//! be refused, never the reverse. Only what the two say in the same words, or what is plainly wider, counts.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Keywords that restrict nothing.
const ANNOTATIONS: [&str; 9] = [
    "$comment",
    "$schema",
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];
/// Keywords that are compared by their meaning. All others must be the same in both schemas.
const COMPARED: [&str; 7] =
    ["additionalProperties", "const", "enum", "items", "properties", "required", "type"];

/// Checks that `wider` accepts every value that `narrower` accepts, and knows all members that it names.
/// Additional members that `narrower` permits without a name are not considered. Fails with the place and
/// the reason if this is not certain. Both schemas have at most [`MAX_DEPTH`](crate::MAX_DEPTH) levels.
pub fn check_accepts_all(wider: &Value, narrower: &Value) -> Result<(), String> {
    check(wider, narrower, &mut String::new())
}

fn check(wider: &Value, narrower: &Value, place: &mut String) -> Result<(), String> {
    if wider == narrower || *wider == Value::Bool(true) {
        return Ok(());
    }
    let (Value::Object(to), Value::Object(from)) = (wider, narrower) else {
        return Err(problem(place, "it cannot be compared"));
    };
    for (keyword, value) in to {
        let is_known =
            [&ANNOTATIONS[..], &COMPARED].iter().any(|list| list.contains(&keyword.as_str()));
        if !is_known && from.get(keyword) != Some(value) {
            return Err(problem(place, &format!("`{keyword}` differs")));
        }
    }
    check_types(to, from, place)?;
    check_values(to, from, place)?;
    check_object(to, from, place)?;
    match (to.get("items"), from.get("items")) {
        (None, _) => Ok(()),
        (Some(to), from) => {
            within(place, "[]", |place| check(to, from.unwrap_or(&Value::Bool(true)), place))
        }
    }
}

fn check_types(
    to: &Map<String, Value>,
    from: &Map<String, Value>,
    place: &str,
) -> Result<(), String> {
    let Some(to) = to.get("type") else { return Ok(()) };
    let to: HashSet<_> = names(to).collect();
    let Some(from) = from.get("type") else {
        return Err(problem(place, "it accepts some types alone"));
    };
    let refused = names(from).find(|name| {
        let is_number = *name == "integer" && to.contains(&"number");
        !is_number && !to.contains(name)
    });
    match refused {
        Some(name) => Err(problem(place, &format!("it does not accept the type `{name}`"))),
        None => Ok(()),
    }
}

/// Returns the names of a keyword that is a text or a list of texts.
fn names(value: &Value) -> impl Iterator<Item = &str> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).chain(value.as_str())
}

fn check_values(
    to: &Map<String, Value>,
    from: &Map<String, Value>,
    place: &str,
) -> Result<(), String> {
    let Some(accepted) = listed(to) else { return Ok(()) };
    let given = listed(from).ok_or_else(|| problem(place, "it accepts some values alone"))?;
    // Both lists may be long: a source writes them.
    let accepted: HashSet<_> = accepted.into_iter().collect();
    match given.iter().find(|value| !accepted.contains(*value)) {
        Some(value) => Err(problem(place, &format!("it does not accept the value {value}"))),
        None => Ok(()),
    }
}

/// Returns the values that a schema lists; `None` if it lists none.
fn listed(schema: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (schema.get("const"), schema.get("enum").and_then(Value::as_array)) {
        (Some(value), _) => Some(vec![value]),
        (None, Some(values)) => Some(values.iter().collect()),
        (None, None) => None,
    }
}

fn check_object(
    to: &Map<String, Value>,
    from: &Map<String, Value>,
    place: &mut String,
) -> Result<(), String> {
    let required: HashSet<_> = from.get("required").into_iter().flat_map(names).collect();
    let mut needed = to.get("required").into_iter().flat_map(names);
    if let Some(name) = needed.find(|name| !required.contains(name)) {
        return Err(problem(place, &format!("it requires `{name}`")));
    }
    let empty = Map::new();
    let known = to.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let named = from.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    for (name, narrower) in named {
        let Some(wider) = known.get(name) else {
            return Err(problem(place, &format!("it has no `{name}`")));
        };
        within(place, name, |place| check(wider, narrower, place))?;
    }
    match (to.get("additionalProperties"), from.get("additionalProperties")) {
        // Members that are not named are checked with each call.
        (None | Some(Value::Bool(_)), _) => Ok(()),
        (to, from) if to == from => Ok(()),
        _ => Err(problem(place, "`additionalProperties` differs")),
    }
}

/// Runs `work` at a place below.
fn within(
    place: &mut String,
    name: &str,
    work: impl FnOnce(&mut String) -> Result<(), String>,
) -> Result<(), String> {
    let length = place.len();
    if !place.is_empty() && name != "[]" {
        place.push('.');
    }
    place.push_str(name);
    work(place)?;
    place.truncate(length);
    Ok(())
}

fn problem(place: &str, reason: &str) -> String {
    if place.is_empty() { reason.to_owned() } else { format!("{place}: {reason}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(properties: &Value, required: &[&str]) -> Value {
        json!({"type": "object", "properties": properties, "required": required})
    }

    #[test]
    fn a_schema_that_says_the_same_or_less_accepts_all() {
        let query = object(&json!({"q": {"type": "string", "description": "a"}}), &["q"]);
        for (wider, narrower) in [
            (json!(true), query.clone()),
            (query.clone(), query.clone()),
            (object(&json!({"q": {"type": "string"}}), &[]), query.clone()),
            (object(&json!({"q": {}, "more": {"type": "integer"}}), &["q"]), query.clone()),
            (object(&json!({"q": {"type": ["null", "string"], "title": "t"}}), &[]), query.clone()),
            (
                object(&json!({"n": {"type": "number"}}), &[]),
                object(&json!({"n": {"type": "integer", "minimum": 1}}), &[]),
            ),
            (
                object(&json!({"a": {"type": "array", "items": {"enum": [1, 2, 3]}}}), &[]),
                object(
                    &json!({"a": {"type": "array", "items": {"enum": [3]}, "maxItems": 2}}),
                    &[],
                ),
            ),
            (json!({"type": "object", "additionalProperties": false}), json!({"type": "object"})),
        ] {
            assert_eq!(check_accepts_all(&wider, &narrower), Ok(()), "{wider} {narrower}");
        }
    }

    #[test]
    fn what_is_not_plainly_wider_is_refused_with_its_place() {
        let query =
            object(&json!({"q": {"type": "string"}, "o": {"properties": {"a": {}}}}), &["q"]);
        for (wider, expected) in [
            (object(&json!({"o": {"properties": {"a": {}}}}), &[]), "it has no `q`"),
            (
                object(&json!({"q": {"type": "integer"}, "o": {}}), &[]),
                "q: it does not accept the type `string`",
            ),
            (object(&json!({"q": {}, "o": {"properties": {"b": {}}}}), &[]), "o: it has no `a`"),
            (
                object(&json!({"q": {}, "o": {"properties": {"a": {"type": "null"}}}}), &[]),
                "o.a: it accepts some types alone",
            ),
            (
                object(&json!({"q": {}, "o": {"properties": {"a": {}}}}), &["q", "o"]),
                "it requires `o`",
            ),
            (
                object(&json!({"q": {"pattern": "^a"}, "o": {"properties": {"a": {}}}}), &[]),
                "q: `pattern` differs",
            ),
            (
                object(&json!({"q": {"enum": ["a"]}, "o": {"properties": {"a": {}}}}), &[]),
                "q: it accepts some values alone",
            ),
            (json!({"$ref": "#/x"}), "`$ref` differs"),
            (json!(false), "it cannot be compared"),
        ] {
            assert_eq!(
                check_accepts_all(&wider, &query).expect_err("refused"),
                expected,
                "{wider}"
            );
        }
        let numbers = json!({"type": "array", "items": {"enum": [1]}});
        let error =
            check_accepts_all(&numbers, &json!({"type": "array", "items": {"enum": [1, 2]}}));
        assert_eq!(error.expect_err("refused"), "[]: it does not accept the value 2");
        assert!(check_accepts_all(&numbers, &json!({"type": "array"})).is_err());
    }

    #[test]
    fn long_lists_are_compared_in_time() {
        let names: Vec<_> = (0..100_000).map(|number| format!("n{number}")).collect();
        let reversed: Vec<_> = names.iter().rev().collect();
        let began = std::time::Instant::now();
        let wider = json!({"enum": names, "required": names});
        let narrower = json!({"enum": reversed, "required": reversed});
        assert_eq!(check_accepts_all(&wider, &narrower), Ok(()));
        // Each with each would take minutes.
        assert!(began.elapsed() < std::time::Duration::from_secs(20));
    }
}
