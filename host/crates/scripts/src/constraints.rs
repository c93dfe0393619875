//! Renders what a schema demands of a value besides its type.

use serde_json::{Map, Value};

use super::{literal::scalar, text};

/// Maximum bytes of one value in a constraint. Longer ones, such as the patterns of whole URLs, tell a
/// model little.
const MAX_VALUE: usize = 120;
/// Maximum bytes of all permitted values of one field, and of all its examples: about 250 tokens.
const MAX_VALUES: usize = 1_000;
/// Maximum number of examples. More of them show no new form.
const MAX_EXAMPLES: usize = 3;

/// Keywords with a number, and their words.
const NUMBERS: [(&str, &str); 11] = [
    ("minimum", "minimum"),
    ("exclusiveMinimum", "more than"),
    ("maximum", "maximum"),
    ("exclusiveMaximum", "less than"),
    ("multipleOf", "multiple of"),
    ("minLength", "minimum length"),
    ("maxLength", "maximum length"),
    ("minItems", "minimum items"),
    ("maxItems", "maximum items"),
    ("minProperties", "minimum keys"),
    ("maxProperties", "maximum keys"),
];

/// Returns the constraints of a schema, each as a short phrase. `is_cut` is true if its type does not
/// show all permitted values.
pub(super) fn describe(schema: &Value, is_cut: bool) -> Vec<String> {
    let Some(schema) = schema.as_object() else { return Vec::new() };
    let mut out = Vec::new();
    if let Some(options) = schema.get("enum").and_then(Value::as_array).filter(|_| is_cut) {
        out.push(format!("one of {}", values(options, usize::MAX)));
    }
    for (keyword, words) in NUMBERS {
        if let Some(number) = schema.get(keyword).filter(|number| number.is_number()) {
            out.push(format!("{words} {number}"));
        }
    }
    if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
        out.push("unique items".to_owned());
    }
    out.extend(format(schema));
    out.extend(items(schema));
    if schema.get("deprecated") == Some(&Value::Bool(true)) {
        out.push("deprecated".to_owned());
    }
    if let Some(examples) = schema.get("examples").and_then(Value::as_array) {
        let examples = values(examples, MAX_EXAMPLES);
        out.extend((!examples.is_empty()).then(|| format!("e.g. {examples}")));
    }
    out
}

fn format(schema: &Map<String, Value>) -> Vec<String> {
    [
        named(schema, "format", "format"),
        string(schema, "pattern").map(|pattern| format!("pattern {}", text::quoted(&pattern))),
        named(schema, "contentEncoding", "encoding"),
        named(schema, "contentMediaType", "media type"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Renders a keyword that is a string as `words value`.
fn named(schema: &Map<String, Value>, keyword: &str, words: &str) -> Option<String> {
    string(schema, keyword).map(|value| format!("{words} {value}"))
}

/// Returns a keyword that is a string, as one line; `None` if it is empty.
fn string(schema: &Map<String, Value>, keyword: &str) -> Option<String> {
    let text = schema.get(keyword)?.as_str()?;
    Some(text::line(text, MAX_VALUE)).filter(|line| !line.is_empty())
}

/// Returns the format and the limits of the items of a list of plain values.
fn items(schema: &Map<String, Value>) -> Option<String> {
    let items = schema.get("items").filter(|items| items.get("properties").is_none())?;
    let constraints = of_items(items);
    (!constraints.is_empty()).then(|| format!("each: {}", constraints.join(", ")))
}

fn of_items(items: &Value) -> Vec<String> {
    let mut plain = items.as_object().cloned().unwrap_or_default();
    // One level: the items of items are not described.
    plain.remove("items");
    plain.remove("examples");
    describe(&Value::Object(plain), false)
}

/// Renders values, as many as fit. Lists and objects are left out.
fn values(values: &[Value], limit: usize) -> String {
    let mut out = String::new();
    let short = values.iter().filter_map(scalar).filter(|value| value.len() <= MAX_VALUE);
    for value in short.take(limit) {
        if out.len() + value.len() > MAX_VALUES {
            out.push_str(", ...");
            break;
        }
        out.push_str(if out.is_empty() { "" } else { ", " });
        out.push_str(&value);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_keyword_is_a_short_phrase() {
        let schema = json!({
            "minimum": 1, "maximum": 100, "multipleOf": 5, "minLength": 2, "format": "date-time",
            "pattern": "^\"\n[a-z]+$", "uniqueItems": true, "deprecated": true,
            "examples": ["a", {"b": 1}, 2, 3, 4], "items": {"format": "uuid", "maxLength": 36},
        });
        insta::assert_snapshot!(describe(&schema, false).join("; "), @r#"minimum 1; maximum 100; multiple of 5; minimum length 2; unique items; format date-time; pattern "^\" [a-z]+$"; each: maximum length 36, format uuid; deprecated; e.g. "a", 2, 3"#);
    }

    #[test]
    fn permitted_values_are_listed_if_the_type_does_not_show_them_all() {
        let schema = json!({"enum": (0..2_000).collect::<Vec<_>>()});
        assert!(describe(&schema, false).is_empty());
        let listed = describe(&schema, true).join("; ");
        assert!(listed.starts_with("one of 0, 1, 2, ") && listed.ends_with(", ..."), "{listed}");
        assert!(listed.len() < MAX_VALUES + 20);
    }

    #[test]
    fn keywords_of_another_kind_are_ignored() {
        let schema =
            json!({"minimum": "x", "format": 7, "pattern": [], "items": 5, "examples": {}});
        assert_eq!(describe(&schema, true), [""; 0]);
        assert_eq!(describe(&json!(7), true), [""; 0]);
    }
}
