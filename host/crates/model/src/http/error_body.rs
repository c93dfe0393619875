//! Bodies of errors, in the forms that services use.

use serde_json::Value;

use crate::Object;
use airlock_strings::cut;

/// Maximum bytes of the message of an error that is not in OpenAI's form.
pub(super) const SAID_BYTES: usize = 1_024;

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
    use super::*;

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
