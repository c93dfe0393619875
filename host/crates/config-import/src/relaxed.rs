//! JSON as editors write it, with comments and trailing commas.

/// Returns the text as JSON: comments and commas after a last element are blanks. Positions stay.
pub(super) fn strict(text: &str) -> String {
    let mut strict = String::with_capacity(text.len());
    let mut rest = text;
    // Place of a comma after which nothing but blanks and comments was found.
    let mut comma = None;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '"' => string(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            _ => next.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        if part.starts_with('/') && length > 1 {
            strict.extend(part.chars().map(|c| if c == '\n' { c } else { ' ' }));
        } else {
            match next {
                '}' | ']' => {
                    if let Some(comma) = comma.take() {
                        strict.replace_range(comma..=comma, " ");
                    }
                }
                ',' => comma = Some(strict.len()),
                _ if next.is_whitespace() => {}
                _ => comma = None,
            }
            strict.push_str(part);
        }
        rest = after;
    }
    strict
}

/// Returns the length of the string at the beginning of a text, with its quotes.
fn string(text: &str) -> usize {
    let mut is_escaped = false;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_left_out_and_strings_stay() {
        let text = r#"{ // a "comment"
            "a": "// none /* \" ,}", /* one
            more */ "b": [1, 2, /* end */ ], "c": {"d": 1,},
        }"#;
        let found: Value = serde_json::from_str(&strict(text)).expect("JSON");
        assert_eq!(found, json!({"a": "// none /* \" ,}", "b": [1, 2], "c": {"d": 1}}));
        assert_eq!(strict(text).lines().count(), text.lines().count());
        for broken in ["\"", "/*", "//", "[,", "{\"a\\", "é,]"] {
            assert_eq!(strict(broken).lines().count(), broken.lines().count(), "{broken}");
        }
    }
}
