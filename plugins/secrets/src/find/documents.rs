//! Secrets with an inner form: private keys in PEM, and JSON Web Tokens. Each function returns the end of the one at a
//! place.

use airlock_digits::words::run;
use serde_json::Value;

/// Longest label of a PEM block that is looked for.
const LABEL: usize = 64;
/// Bytes after the label in which the key has to begin.
const HEAD: usize = 512;
/// Digits in base 64 of the shortest key.
const KEY: usize = 40;
const DASHES: &[u8] = b"-----";

/// Finds a private key in PEM. One without an end takes the rest of the text.
pub(super) fn private_key(text: &[u8], at: usize) -> Option<usize> {
    let label = text[at..].strip_prefix(b"-----BEGIN ")?;
    let label = &label[..position(&label[..label.len().min(LABEL)], DASHES)?];
    if !label.ends_with(b"PRIVATE KEY") && !label.ends_with(b"PRIVATE KEY BLOCK") {
        return None;
    }
    let body = at + b"-----BEGIN ".len() + label.len() + DASHES.len();
    let head = &text[body..text.len().min(body + HEAD)];
    let head = &head[..position(head, DASHES).unwrap_or(head.len())];
    let digits = head.iter().filter(|byte| byte.is_ascii_alphanumeric()).count();
    if digits < KEY {
        return None;
    }
    let Some(last) = position(&text[body..], b"-----END ") else { return Some(text.len()) };
    let label = body + last + b"-----END ".len();
    let label_end = text.len().min(label + LABEL);
    let end = position(&text[label..label_end], DASHES).map(|end| label + end + DASHES.len());
    Some(end.unwrap_or(text.len()))
}

fn position(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Finds a JSON Web Token: a header with an algorithm, a payload, and a signature, which may be empty.
pub(super) fn jwt(text: &[u8], at: usize) -> Option<usize> {
    // So that each part is looked at by few candidates.
    if at > 0 && matches!(text[at - 1], b'-' | b'_') {
        return None;
    }
    let header_end = part(text, at)?;
    if !text[at..header_end].starts_with(b"eyJ") || text.get(header_end) != Some(&b'.') {
        return None;
    }
    let header = object(&text[at..header_end])?;
    header.get("alg")?.as_str()?;
    let payload = header_end + 1;
    let payload_end = part(text, payload)?;
    if text.get(payload_end) != Some(&b'.') {
        return None;
    }
    object(&text[payload..payload_end])?;
    let signature = payload_end + 1;
    Some(signature + run(text, signature, usize::MAX, is_base64url))
}

/// Returns the end of a part of a token; `None` if it is empty.
fn part(text: &[u8], at: usize) -> Option<usize> {
    let length = run(text, at, usize::MAX, is_base64url);
    (length > 0).then_some(at + length)
}

fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Decodes an object of JSON in base 64.
fn object(part: &[u8]) -> Option<Value> {
    let value: Value = serde_json::from_slice(&decoded(part)?).ok()?;
    value.is_object().then_some(value)
}

/// Decodes base 64 in the alphabet for URLs, without padding.
fn decoded(part: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(part.len() / 4 * 3 + 2);
    for group in part.chunks(4) {
        if group.len() == 1 {
            return None;
        }
        let mut bits = 0_u32;
        for byte in group {
            bits = (bits << 6) | value(*byte)?;
        }
        bits <<= 6 * (4 - group.len());
        let [_, all @ ..] = bits.to_be_bytes();
        bytes.extend_from_slice(&all[..group.len() - 1]);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Kind, secrets},
        *,
    };

    fn secret(text: &str) -> Option<&str> {
        secrets(text, "", &Kind::ALL).first().map(|found| &text[found.start..found.end])
    }

    #[test]
    fn a_token_is_one_if_its_header_and_its_payload_are_objects() {
        // {"alg":"HS256","typ":"JWT"} and {"sub":"1234567890","iat":1516239022}
        let header = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";
        let payload = "eyJzdWIiOiIxMjM0NTY3ODkwIiwiaWF0IjoxNTE2MjM5MDIyfQ";
        let token = format!("{header}.{payload}.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c");
        assert_eq!(secret(&format!("Bearer {token}, and")), Some(token.as_str()));
        let unsigned = format!("{header}.{payload}.");
        assert_eq!(secret(&unsigned), Some(unsigned.as_str()));
        for other in [
            format!("{header}.{payload}"),
            format!("{header}.name.x"),
            format!("{payload}.{payload}.x"),
        ] {
            assert_eq!(secret(&other), None, "{other}");
        }
        assert_eq!(decoded(b"_-8"), Some(vec![0xff, 0xef]));
        assert!(decoded(b"abcde").is_none() && decoded(b"ab=").is_none());
    }

    #[test]
    fn a_private_key_is_found_with_its_labels_and_without_an_end() {
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\nVJTUt9Us8cKj";
        let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----");
        assert_eq!(secret(&format!("a\n{key}\nb")), Some(key.as_str()));
        let cut = format!("-----BEGIN PRIVATE KEY-----\n{body} …");
        assert_eq!(secret(&cut), Some(cut.as_str()));
        for other in [
            key.replace("PRIVATE", "PUBLIC"),
            "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----".to_owned(),
            "-----BEGIN ".to_owned(),
        ] {
            assert_eq!(secret(&other), None, "{other}");
        }
    }
}
