//! Tokens: a prefix and a part that is random, of a certain length and some with a checksum. Each function returns the
//! end of the token at a place.

use airlock_digits::words::{ends_word, run};

use super::{checksum::is_signed, variety::has_variety};

/// Random part of a token with a checksum, in bytes.
const SIGNED: usize = 36;
/// Different bytes that a random part without a checksum has.
const VARIETY: usize = 8;
/// Secret of an access key of AWS, in bytes.
const AWS_SECRET: usize = 40;
/// Different bytes of one. Hexadecimal digests of this length have at most 16.
const AWS_SECRET_VARIETY: usize = 18;
/// Bytes before a secret of AWS in which its name is looked for.
const NAME_BEFORE: usize = 64;

/// Finds the ID of an access key of AWS: `AKIA` or `ASIA` and 16 digits in base 32.
pub(super) fn aws_key_id(text: &[u8], at: usize) -> Option<usize> {
    let body = after(text, at, &["AKIA", "ASIA"])?;
    let end = exactly(text, body, 16, |byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7'))?;
    let id = &text[body..end];
    // The documentation of AWS ends its examples like this.
    (has_variety(id, 6) && !id.ends_with(b"EXAMPLE")).then_some(end)
}

/// Finds the secret of an access key of AWS: 40 digits in base 64, if its name is before it or is that of the text.
pub(super) fn aws_secret(text: &[u8], at: usize, name: &str) -> Option<usize> {
    if at > 0 && is_base64(text[at - 1]) {
        return None;
    }
    if run(text, at, AWS_SECRET + 1, is_base64) != AWS_SECRET {
        return None;
    }
    let end = at + AWS_SECRET;
    let before = &text[at.saturating_sub(NAME_BEFORE)..at];
    let is_named = names_aws_secret(before) || names_aws_secret(name.as_bytes());
    let secret = &text[at..end];
    (is_named && has_variety(secret, AWS_SECRET_VARIETY) && !secret.ends_with(b"EXAMPLEKEY"))
        .then_some(end)
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'+')
}

/// Returns whether a text has `secret access key`, in any case and with any separator.
fn names_aws_secret(text: &[u8]) -> bool {
    const NAME: &[u8] = b"secretaccesskey";
    let letters = text.iter().filter(|byte| byte.is_ascii_alphabetic());
    let letters: Vec<_> = letters.map(u8::to_ascii_lowercase).collect();
    letters.windows(NAME.len()).any(|window| window == NAME)
}

/// Finds a token of GitHub: one of the classic prefixes and 36 characters with a checksum, or `github_pat_` and two
/// parts.
pub(super) fn github(text: &[u8], at: usize) -> Option<usize> {
    if let Some(body) = after(text, at, &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"]) {
        return signed(text, body);
    }
    let body = after(text, at, &["github_pat_"])?;
    let middle = exactly(text, body, 22, is_alphanumeric)?;
    let last = after(text, middle, &["_"])?;
    let end = exactly(text, last, 59, is_alphanumeric)?;
    has_variety(&text[last..end], VARIETY).then_some(end)
}

/// Finds a token of npm: `npm_` and 36 characters with a checksum.
pub(super) fn npm(text: &[u8], at: usize) -> Option<usize> {
    signed(text, after(text, at, &["npm_"])?)
}

fn signed(text: &[u8], body: usize) -> Option<usize> {
    let end = exactly(text, body, SIGNED, is_alphanumeric)?;
    is_signed(&text[body..end]).then_some(end)
}

/// Finds a token of Slack: a prefix, one or more parts of digits, and a part of letters and digits.
pub(super) fn slack(text: &[u8], at: usize) -> Option<usize> {
    const PREFIXES: [&str; 6] = ["xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xapp-1-"];
    let body = after(text, at, &PREFIXES)?;
    let first = run(text, body, 16, is_alphanumeric);
    let digits = run(text, body, 16, |byte| byte.is_ascii_digit());
    // An app token has the ID of the app there.
    if first < 8 || (digits != first && text[body] != b'A') {
        return None;
    }
    let length = run(text, body, 250, |byte| is_alphanumeric(byte) || byte == b'-');
    let token = &text[body..body + length];
    let last = token.rsplit(|byte| *byte == b'-').next().unwrap_or_default();
    (last.len() >= 16 && has_variety(last, VARIETY)).then_some(body + length)
}

/// Finds the address of a webhook of Slack, without its scheme.
pub(super) fn slack_webhook(text: &[u8], at: usize) -> Option<usize> {
    let workspace = after(text, at, &["hooks.slack.com/services/T"])?;
    let slash = workspace + run(text, workspace, 12, is_alphanumeric);
    let bot = after(text, slash, &["/B"])?;
    let slash = bot + run(text, bot, 12, is_alphanumeric);
    let body = after(text, slash, &["/"])?;
    let end = exactly(text, body, 24, is_alphanumeric)?;
    has_variety(&text[body..end], VARIETY).then_some(end)
}

/// Finds a live key of Stripe. Keys of its test mode reach no money.
pub(super) fn stripe(text: &[u8], at: usize) -> Option<usize> {
    let body = after(text, at, &["sk_live_", "rk_live_"])?;
    let length = run(text, body, 250, is_alphanumeric);
    (length >= 24 && has_variety(&text[body..body + length], VARIETY)).then_some(body + length)
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// Returns the place after one of these prefixes.
fn after(text: &[u8], at: usize, prefixes: &[&str]) -> Option<usize> {
    let rest = text.get(at..)?;
    prefixes
        .iter()
        .find(|prefix| rest.starts_with(prefix.as_bytes()))
        .map(|prefix| at + prefix.len())
}

/// Returns the end of a word of exactly this length.
fn exactly(text: &[u8], at: usize, length: usize, is_in: impl Fn(u8) -> bool) -> Option<usize> {
    let end = at + length;
    (run(text, at, length, is_in) == length && ends_word(text, end)).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, secrets};

    /// Returns the part of a text that is a secret.
    fn secret<'t>(text: &'t str, name: &str) -> Option<&'t str> {
        let found = secrets(text, name, &Kind::ALL);
        assert!(found.len() <= 1, "{text}: {found:?}");
        found.first().map(|found| &text[found.start..found.end])
    }

    #[test]
    fn tokens_of_slack_and_stripe_are_found_and_what_only_looks_like_one_is_not() {
        let random = "aB3dE5fG7hJ9kL1mN3pQ5rS7";
        for token in [
            format!("xoxb-123456789012-1234567890123-{random}"),
            format!("xapp-1-A0123456789-1234567890123-{random}"),
            format!("hooks.slack.com/services/T01234567/B01234567/{random}"),
            format!("sk_live_{random}"),
        ] {
            assert_eq!(secret(&format!("a {token}, b"), ""), Some(token.as_str()));
        }
        for other in [
            "xoxb-not-a-token-but-a-name".to_owned(),
            format!("xoxb-words-{random}"),
            "sk_live_xxxxxxxxxxxxxxxxxxxxxxxxxxxx".to_owned(),
            format!("sk_test_{random}"),
            "hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX".to_owned(),
        ] {
            assert_eq!(secret(&other, ""), None, "{other}");
        }
    }

    #[test]
    fn the_secret_of_aws_is_known_by_its_name() {
        let value = "q3Zr8/Lk+0TnVb5XyW2sAe9GhJ7dFp4cMu6RiOtY";
        assert_eq!(secret(value, "SecretAccessKey"), Some(value));
        assert_eq!(secret(value, "aws_secret_access_key"), Some(value));
        assert_eq!(secret(&format!("export AWS_SECRET_ACCESS_KEY={value}"), ""), Some(value));
        assert_eq!(secret(value, "digest"), None);
        assert_eq!(secret("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "secret_access_key"), None);
    }
}
