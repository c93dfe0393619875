//! Bodies of errors, in the forms that services use.

use serde_json::Value;

use crate::error::SAID_BYTES;
use airlock_conversation::Object;
use airlock_json::weight::object_weight;
use airlock_strings::cut;

/// Maximum memory of an error that callers receive as it came, in bytes. Errors about the schema of a tool repeat it.
const ERROR_BYTES: usize = 256 << 10;
/// Members of an error in OpenAI's form.
const ERROR_MEMBERS: [&str; 4] = ["message", "type", "param", "code"];

/// Returns the message in the body of an error, in the forms that services use: `error` as an object
/// or a text, `message`, and `detail`, which may be a list. Cut to `SAID_BYTES`.
pub(crate) fn error_message(body: &Object) -> Option<String> {
    let error = body.get("error");
    let texts = [error.and_then(|error| error.get("message")), error, body.get("message")];
    // The page of a proxy tells a caller nothing.
    let mut texts = texts.into_iter().flatten().filter_map(Value::as_str);
    let text = texts.find(|text| !text.trim_start().starts_with('<'));
    let text = text.map(str::to_owned).or_else(|| detail(body));
    text.map(|text| cut(text, SAID_BYTES))
}

fn detail(body: &Object) -> Option<String> {
    let detail = body.get("detail").filter(|detail| !detail.is_null())?;
    Some(detail.as_str().map_or_else(|| detail.to_string(), str::to_owned))
}

/// Returns an error in OpenAI's form as it came, or, of one that takes more than [`ERROR_BYTES`], the members of the form
/// with texts of at most [`SAID_BYTES`].
pub(super) fn bounded_error(error: Object) -> Object {
    if object_weight(&error) <= ERROR_BYTES {
        return error;
    }
    let known = ERROR_MEMBERS.into_iter().filter_map(|name| Some((name, error.get(name)?)));
    known.map(|(name, value)| (name.to_owned(), short(value))).collect()
}

/// Returns a member of an error: a text cut to [`SAID_BYTES`], and nothing of an array or object.
fn short(value: &Value) -> Value {
    match value {
        // Slightly more than the limit, so that `cut` detects the overflow.
        Value::String(text) => {
            cut(text[..text.floor_char_boundary(SAID_BYTES + 4)].to_owned(), SAID_BYTES).into()
        }
        Value::Array(_) | Value::Object(_) => Value::Null,
        scalar => scalar.clone(),
    }
}

/// Removes the list around an error: Gemini can report one as a list with one element.
pub(super) fn remove_list(text: &mut [u8]) {
    if let Some(first) = text.iter().position(|byte| !byte.is_ascii_whitespace())
        && let Some(last) = text.iter().rposition(|byte| !byte.is_ascii_whitespace())
        && (text[first], text[last]) == (b'[', b']')
    {
        text[first] = b' ';
        text[last] = b' ';
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_json::object;

    #[test]
    fn an_error_of_excessive_size_has_the_members_of_its_form_alone() {
        let small = object(json!({"message": "x".repeat(10_000), "code": {"a": 1}, "more": [1]}));
        assert_eq!(bounded_error(small.clone()), small);
        for more in [json!("x".repeat(ERROR_BYTES)), json!(vec![json!([]); 100_000])] {
            let error = json!({"message": "é".repeat(1_000), "type": "t", "code": 429, "param": more, "more": more});
            let bounded = bounded_error(object(error));
            assert!(object_weight(&bounded) < 8 * SAID_BYTES, "{}", object_weight(&bounded));
            assert!(bounded["message"].as_str().is_some_and(|text| text.ends_with("é…")));
            assert_eq!((&bounded["type"], &bounded["code"]), (&json!("t"), &json!(429)));
            assert!(!bounded.contains_key("more"), "{bounded:?}");
        }
    }

    #[test]
    fn a_list_around_an_error_is_removed() {
        for (text, expected) in [
            (" [\n{\"error\":{}}\n] ", "  \n{\"error\":{}}\n  "),
            ("{\"a\":[1]}", "{\"a\":[1]}"),
            ("[]", "  "),
            ("[", "["),
            (" ", " "),
        ] {
            let mut found = text.as_bytes().to_vec();
            remove_list(&mut found);
            assert_eq!(String::from_utf8(found).expect("text"), expected, "{text:?}");
        }
    }
}
