//! Cleans the texts in a JSON document. Everything else of the document stays as it is written: it is not parsed, so
//! numbers keep their digits.

use std::borrow::Cow;

use airlock_guest::Error;

use crate::text::TextCleaner;

/// Returns the document without the marks in its texts and keys; `None` if it has none. Fails at a text that is not
/// valid, which the gateway does not pass.
pub fn cleaned(json: &str, cleaner: &mut TextCleaner<'_>) -> Result<Option<String>, Error> {
    let mut document = String::new();
    let mut copied = 0;
    let mut keys = 0;
    for token in (StringTokens { json, at: 0 }) {
        let Some(mut text) = cleaner.clean(&token.text(json)?) else { continue };
        if token.is_key {
            keys += 1;
            // No object may have a key twice. A number after the text could be the text of a hidden element.
            if keys > 1 {
                text = format!("{keys} {text}");
            }
        }
        document.push_str(&json[copied..token.start]);
        document.push_str(&serde_json::to_string(&text)?);
        copied = token.end;
    }
    if copied == 0 {
        return Ok(None);
    }
    document.push_str(&json[copied..]);
    Ok(Some(document))
}

/// A string of a document, as it is written.
struct StringToken {
    /// Place of the opening quote.
    start: usize,
    /// Place after the closing quote.
    end: usize,
    has_escapes: bool,
    is_key: bool,
}

impl StringToken {
    /// Returns its text. Only one with escapes is copied.
    fn text<'j>(&self, json: &'j str) -> Result<Cow<'j, str>, Error> {
        if self.has_escapes {
            return Ok(Cow::Owned(serde_json::from_str(&json[self.start..self.end])?));
        }
        Ok(Cow::Borrowed(&json[self.start + 1..self.end - 1]))
    }
}

/// Iterates over the strings of a document.
struct StringTokens<'j> {
    json: &'j str,
    at: usize,
}

impl Iterator for StringTokens<'_> {
    type Item = StringToken;

    fn next(&mut self) -> Option<StringToken> {
        let bytes = self.json.as_bytes();
        let start = self.at + bytes[self.at..].iter().position(|byte| *byte == b'"')?;
        let mut has_escapes = false;
        let mut end = start + 1;
        loop {
            match bytes.get(end)? {
                b'"' => break,
                b'\\' => {
                    has_escapes = true;
                    end += 2;
                }
                _ => end += 1,
            }
        }
        end += 1;
        self.at = end;
        let after = bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace());
        Some(StringToken { start, end, has_escapes, is_key: after == Some(&b':') })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::MarkSettings;

    fn cleaned_by_default(json: &str) -> Result<Option<String>, Error> {
        let settings = MarkSettings::default();
        cleaned(json, &mut TextCleaner::new(&settings, Vec::new()))
    }

    #[test]
    fn texts_are_cleaned_and_all_else_stays() {
        let json = r#"{"a" : ["x\u0041\n<!-- b -->", 1.50, "é[INST]"], "big":123456789012345678901, "c":"y\\"}"#;
        let expected = r#"{"a" : ["xA\n[hidden text removed: 10 characters]", 1.50, "é[forged mark removed: 6 characters]"], "big":123456789012345678901, "c":"y\\"}"#;
        assert_eq!(cleaned_by_default(json), Ok(Some(expected.to_owned())));
        assert_eq!(cleaned_by_default(expected), Ok(None));
        assert_eq!(cleaned_by_default("[]"), Ok(None));
    }

    #[test]
    fn keys_are_cleaned_and_stay_distinct() {
        let json = r#"{"[INST]a":1,"[INST]b":{"[INST]a":2}}"#;
        let note = "[forged mark removed: 6 characters]";
        let expected = format!(r#"{{"{note}a":1,"2 {note}b":{{"3 {note}a":2}}}}"#);
        assert_eq!(cleaned_by_default(json), Ok(Some(expected)));
        let empty = cleaned_by_default(r#"{"[INST]":1,"[INST]<div hidden>":2}"#);
        let empty = empty.expect("JSON").expect("it has marks");
        assert!(empty.ends_with("<div hidden>\":2}"), "{empty}");
        assert_eq!(cleaned_by_default(&empty), Ok(None));
    }

    #[test]
    fn a_text_that_is_not_valid_is_an_error() {
        assert!(cleaned_by_default(r#"["\ud800"]"#).is_err());
        assert_eq!(cleaned_by_default(r#"["open"#), Ok(None), "no such text reaches a guard");
    }
}
