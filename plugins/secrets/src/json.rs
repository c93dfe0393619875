//! Finds secrets in the texts of a JSON document, and replaces them. Everything else of the document stays as it is
//! written: it is not parsed, so numbers keep their digits.

use std::borrow::Cow;

use airlock_guest::Error;

use crate::find::{self, FoundSecret, Kind};

/// Returns those of the kinds that the secrets in a document have, each once, in the order of their first places.
pub fn kinds(json: &str, kinds: &[Kind]) -> Result<Vec<Kind>, Error> {
    let mut present = Vec::new();
    for hit in hits(json, kinds) {
        for found in hit?.found {
            if !present.contains(&found.kind) {
                present.push(found.kind);
            }
        }
    }
    Ok(present)
}

/// Returns the document with a mark in the place of each secret of these kinds; `None` if it has none.
pub fn redact(json: &str, kinds: &[Kind]) -> Result<Option<String>, Error> {
    let mut redacted = String::new();
    let mut copied = 0;
    let mut keys = 0;
    for hit in hits(json, kinds) {
        let hit = hit?;
        let mut text = marked(&hit.text, &hit.found);
        if hit.literal.is_key {
            keys += 1;
            // No object may have a key twice.
            if keys > 1 {
                text = format!("{text} {keys}");
            }
        }
        redacted.push_str(&json[copied..hit.literal.start]);
        redacted.push_str(&serde_json::to_string(&text)?);
        copied = hit.literal.end;
    }
    if copied == 0 {
        return Ok(None);
    }
    redacted.push_str(&json[copied..]);
    Ok(Some(redacted))
}

/// Returns a text with a mark in the place of each secret.
fn marked(text: &str, found: &[FoundSecret]) -> String {
    let mut marked = String::new();
    let mut copied = 0;
    for found in found {
        marked.push_str(&text[copied..found.start]);
        marked.push_str("[secret removed: ");
        marked.push_str(found.kind.name());
        marked.push(']');
        copied = found.end;
    }
    marked.push_str(&text[copied..]);
    marked
}

/// A string of a document that has secrets.
struct LiteralHit<'j> {
    literal: Literal<'j>,
    text: Cow<'j, str>,
    found: Vec<FoundSecret>,
}

/// Iterates over the strings that have secrets of these kinds. Fails at one that is not valid, which the gateway does not
/// pass.
fn hits<'j>(json: &'j str, kinds: &[Kind]) -> impl Iterator<Item = Result<LiteralHit<'j>, Error>> {
    Literals { json, at: 0, name: "" }.filter_map(move |literal| {
        let text = match literal.text(json) {
            Ok(text) => text,
            Err(error) => return Some(Err(error)),
        };
        let found = find::secrets(&text, literal.name, kinds);
        (!found.is_empty()).then_some(Ok(LiteralHit { literal, text, found }))
    })
}

/// A string literal of a document.
struct Literal<'j> {
    /// Place of the opening quote.
    start: usize,
    /// Place after the closing quote.
    end: usize,
    is_key: bool,
    /// The last key before it, as it is written; empty for a key.
    name: &'j str,
}

impl Literal<'_> {
    /// Returns its text. Only one with escapes is copied.
    fn text<'j>(&self, json: &'j str) -> Result<Cow<'j, str>, Error> {
        let inner = &json[self.start + 1..self.end - 1];
        if inner.contains('\\') {
            return Ok(Cow::Owned(serde_json::from_str(&json[self.start..self.end])?));
        }
        Ok(Cow::Borrowed(inner))
    }
}

/// Iterates over the string literals of a document.
struct Literals<'j> {
    json: &'j str,
    at: usize,
    name: &'j str,
}

impl<'j> Iterator for Literals<'j> {
    type Item = Literal<'j>;

    fn next(&mut self) -> Option<Literal<'j>> {
        let start = self.at + self.json[self.at..].find('"')?;
        let end = end_of_literal(self.json.as_bytes(), start)?;
        self.at = end;
        let is_key = self.json[end..].trim_start().starts_with(':');
        let name = if is_key { "" } else { self.name };
        if is_key {
            self.name = &self.json[start + 1..end - 1];
        }
        Some(Literal { start, end, is_key, name })
    }
}

/// Returns the place after the closing quote of a literal; `None` if it has none.
fn end_of_literal(json: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_have_the_key_before_them() {
        let json = r#"{"a\"b": ["x", 1, "y\\"], "c" : {"d":"é"}, "e": ""}"#;
        let literals = Literals { json, at: 0, name: "" };
        let found: Vec<_> = literals
            .map(|literal| {
                let text = literal.text(json).expect("it is valid").into_owned();
                (text, literal.is_key, literal.name)
            })
            .collect();
        let found: Vec<_> =
            found.iter().map(|(text, is_key, name)| (text.as_str(), *is_key, *name)).collect();
        assert_eq!(
            found,
            [
                ("a\"b", true, ""),
                ("x", false, r#"a\"b"#),
                ("y\\", false, r#"a\"b"#),
                ("c", true, ""),
                ("d", true, ""),
                ("é", false, "d"),
                ("e", true, ""),
                ("", false, "e"),
            ]
        );
    }

    #[test]
    fn a_text_that_is_not_valid_is_an_error() {
        assert!(kinds(r#"["\ud800"]"#, &Kind::ALL).is_err());
        assert_eq!(kinds(r#"["open"#, &Kind::ALL), Ok(Vec::new()), "no such text reaches a guard");
    }
}
