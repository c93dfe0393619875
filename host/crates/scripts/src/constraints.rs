//! Renders what a schema demands of a value besides its type.

use serde_json::{Map, Value};

use super::{literal::scalar, text};

/// Maximum bytes of one value in a constraint. Longer ones, such as the patterns of whole URLs, tell a
/// model little.
const MAX_VALUE: usize = 120;
/// Maximum bytes of all permitted values of one field, and of all its examples: about 250 tokens.
const MAX_VALUES: usize = 1_000;
/// Maximum cost of reading the values of one list: one for each, and one for each byte of those that are rendered.
/// Values that are left out could take all of a schema of 256 KiB, and hundreds of its fields can refer to one list.
const MAX_READ: usize = 2 * MAX_VALUES;
/// Maximum number of examples. More of them show no new form.
const MAX_EXAMPLES: usize = 3;

/// Keywords whose values are texts that are shown.
pub(super) const TEXTS: [&str; 4] = ["format", "pattern", "contentEncoding", "contentMediaType"];

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
        let options = values(options, usize::MAX);
        out.extend((!options.is_empty()).then(|| format!("one of {options}")));
    }
    out.extend(limits(schema));
    out.extend(items(schema));
    out.extend(deprecated(schema));
    if let Some(examples) = schema.get("examples").and_then(Value::as_array) {
        let examples = values(examples, MAX_EXAMPLES);
        out.extend((!examples.is_empty()).then(|| format!("e.g. {examples}")));
    }
    out
}

/// Returns the limits and the format of a value.
fn limits(schema: &Map<String, Value>) -> Vec<String> {
    let mut out = Vec::new();
    for (keyword, words) in NUMBERS {
        if let Some(number) = schema.get(keyword).filter(|number| number.is_number()) {
            out.push(format!("{words} {number}"));
        }
    }
    if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
        out.push("unique items".to_owned());
    }
    out.extend(format(schema));
    out
}

fn deprecated(schema: &Map<String, Value>) -> Option<String> {
    (schema.get("deprecated") == Some(&Value::Bool(true))).then(|| "deprecated".to_owned())
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
    let items =
        schema.get("items")?.as_object().filter(|items| !items.contains_key("properties"))?;
    // One level: the items of items are not described.
    let constraints: Vec<_> = limits(items).into_iter().chain(deprecated(items)).collect();
    (!constraints.is_empty()).then(|| format!("each: {}", constraints.join(", ")))
}

/// Returns the cost of reading the lists of values that [`describe`] renders, at most: one for each value, and one for each
/// byte of a text that is not too long.
pub(super) fn values_cost(schema: &Value) -> usize {
    let lists =
        ["enum", "examples"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
    lists.map(|list| list.iter().take(MAX_READ).map(value_cost).sum::<usize>().min(MAX_READ)).sum()
}

fn value_cost(value: &Value) -> usize {
    1 + value.as_str().map(str::len).filter(|bytes| *bytes <= MAX_VALUE).unwrap_or(0)
}

/// Renders values, as many as fit. Lists, objects and long texts are left out; empty if nothing remains.
fn values(values: &[Value], limit: usize) -> String {
    let mut out = String::new();
    let mut shown = 0;
    let mut read = 0;
    for value in values {
        if shown == limit {
            break;
        }
        let is_long = value.as_str().is_some_and(|text| text.len() > MAX_VALUE);
        let rendered = (!is_long).then(|| scalar(value)).flatten();
        read += 1 + rendered.as_ref().map_or(0, String::len);
        let rendered = rendered.filter(|value| value.len() <= MAX_VALUE);
        let is_full = rendered.as_ref().is_some_and(|value| out.len() + value.len() > MAX_VALUES);
        if is_full || read > MAX_READ {
            out.push_str(if out.is_empty() { "" } else { ", ..." });
            break;
        }
        if let Some(value) = rendered {
            out.push_str(if out.is_empty() { "" } else { ", " });
            out.push_str(&value);
            shown += 1;
        }
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
    fn values_that_are_left_out_are_read_up_to_a_limit() {
        let long = "x".repeat(MAX_VALUE + 1);
        let escaped = "\"".repeat(MAX_VALUE - 1);
        let escaped_bytes = 1 + 2 * MAX_VALUE;
        for (left_out, count, expected) in [
            (json!(long), MAX_READ - 2, "one of 7"),
            (json!(long), MAX_READ - 1, ""),
            (json!([]), MAX_READ - 2, "one of 7"),
            (json!([]), MAX_READ - 1, ""),
            (json!(escaped), MAX_READ / escaped_bytes, "one of 7"),
            (json!(escaped), MAX_READ / escaped_bytes + 1, ""),
        ] {
            let options = vec![left_out; count].into_iter().chain([json!(7)]);
            let schema = json!({"enum": options.collect::<Vec<_>>()});
            assert_eq!(describe(&schema, true).join("; "), expected, "{count}");
        }
        let options: Vec<_> = [json!(1)].into_iter().chain(vec![json!([]); MAX_READ]).collect();
        assert_eq!(describe(&json!({"enum": options}), true), ["one of 1, ..."]);
    }

    #[test]
    fn keywords_of_another_kind_are_ignored() {
        let schema =
            json!({"minimum": "x", "format": 7, "pattern": [], "items": 5, "examples": {}});
        assert_eq!(describe(&schema, true), [""; 0]);
        assert_eq!(describe(&json!(7), true), [""; 0]);
    }
}
