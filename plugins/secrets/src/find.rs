//! The secrets in a text, by their formats. Each position is looked at once, and each format looks at a bounded part
//! of the text or takes what it has looked at, so the time is linear in the length of the text.

pub(crate) mod checksum;
mod documents;
mod tokens;
mod variety;

use airlock_digits::words::starts_word;
use serde::Deserialize;

/// Kind of a secret. Its name in settings is [`Self::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// ID of an access key of AWS.
    AwsAccessKeyId,
    /// The secret of an access key of AWS, beside its name.
    AwsSecretAccessKey,
    /// Token of GitHub.
    GithubToken,
    /// Token of npm.
    NpmToken,
    /// Token of Slack.
    SlackToken,
    /// URL of a webhook of Slack.
    SlackWebhook,
    /// Live key of Stripe.
    StripeKey,
    /// Private key in PEM.
    PrivateKey,
    /// JSON Web Token.
    Jwt,
    /// Number of a payment card.
    CardNumber,
    /// International bank account number.
    Iban,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::AwsAccessKeyId,
        Self::AwsSecretAccessKey,
        Self::GithubToken,
        Self::NpmToken,
        Self::SlackToken,
        Self::SlackWebhook,
        Self::StripeKey,
        Self::PrivateKey,
        Self::Jwt,
        Self::CardNumber,
        Self::Iban,
    ];

    /// Returns its name in reasons and marks.
    pub fn name(self) -> &'static str {
        match self {
            Self::AwsAccessKeyId => "aws_access_key_id",
            Self::AwsSecretAccessKey => "aws_secret_access_key",
            Self::GithubToken => "github_token",
            Self::NpmToken => "npm_token",
            Self::SlackToken => "slack_token",
            Self::SlackWebhook => "slack_webhook",
            Self::StripeKey => "stripe_key",
            Self::PrivateKey => "private_key",
            Self::Jwt => "jwt",
            Self::CardNumber => "card_number",
            Self::Iban => "iban",
        }
    }
}

/// A secret in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundSecret {
    /// Its kind.
    pub kind: Kind,
    /// Place of its first byte.
    pub start: usize,
    /// Place after its last byte.
    pub end: usize,
}

/// Returns the secrets of these kinds in a text, in their order. `name` is the key that the text has in its document: the
/// secret of a key of AWS is known by its name alone.
pub fn secrets(text: &str, name: &str, kinds: &[Kind]) -> Vec<FoundSecret> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match secret_at(text.as_bytes(), at, name, kinds) {
            Some((kind, end)) => {
                found.push(FoundSecret { kind, start: at, end });
                at = end;
            }
            None => at += 1,
        }
    }
    found
}

/// Finds a secret of one format at a place. Returns its end.
type FormatMatcher = fn(&[u8], usize) -> Option<usize>;

/// Returns the kind and the end of the secret at a place. Secrets are ASCII, or end where the text does.
fn secret_at(text: &[u8], at: usize, name: &str, kinds: &[Kind]) -> Option<(Kind, usize)> {
    let formats = formats(text, at).iter().filter(|(kind, _)| kinds.contains(kind));
    let mut found = formats.filter_map(|(kind, format)| Some((*kind, format(text, at)?)));
    found.next().or_else(|| {
        if !kinds.contains(&Kind::AwsSecretAccessKey) {
            return None;
        }
        tokens::aws_secret(text, at, name).map(|end| (Kind::AwsSecretAccessKey, end))
    })
}

/// Returns the formats that a secret at a place may have, by its first byte.
fn formats(text: &[u8], at: usize) -> &'static [(Kind, FormatMatcher)] {
    match text[at] {
        b'-' => &[(Kind::PrivateKey, documents::private_key)],
        _ if !starts_word(text, at) => &[],
        b'e' => &[(Kind::Jwt, documents::jwt)],
        b'0'..=b'9' => &[(Kind::CardNumber, airlock_digits::card)],
        b'A'..=b'Z' => {
            &[(Kind::AwsAccessKeyId, tokens::aws_key_id), (Kind::Iban, airlock_digits::iban)]
        }
        b'g' => &[(Kind::GithubToken, tokens::github)],
        b'n' => &[(Kind::NpmToken, tokens::npm)],
        b'x' => &[(Kind::SlackToken, tokens::slack)],
        b'h' => &[(Kind::SlackWebhook, tokens::slack_webhook)],
        b's' | b'r' => &[(Kind::StripeKey, tokens::stripe)],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<&'static str> {
        secrets(text, "", &Kind::ALL).iter().map(|found| found.kind.name()).collect()
    }

    #[test]
    fn a_word_starts_after_punctuation_and_escapes() {
        let key = "AKIAQ3EGV5ZKWL7TNB2M";
        for before in ["", " ", "=", "_", "\"", "%3D", "\\n", "é"] {
            assert_eq!(kinds(&format!("{before}{key}")), ["aws_access_key_id"], "{before}");
        }
        for before in ["x", "7", "n", "3D"] {
            assert!(kinds(&format!("{before}{key}")).is_empty(), "{before}");
        }
        assert!(kinds(&format!("{key}A")).is_empty());
    }

    #[test]
    fn secrets_are_found_in_their_order() {
        let text = "AKIAQ3EGV5ZKWL7TNB2M, 4111 1111 1111 1111";
        let found = secrets(text, "", &Kind::ALL);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].start, found[0].end), (0, 20));
        assert_eq!(&text[found[1].start..found[1].end], "4111 1111 1111 1111");
    }

    #[test]
    fn only_secrets_of_the_kinds_are_found() {
        let text = "AKIAQ3EGV5ZKWL7TNB2M, 4111 1111 1111 1111";
        for kind in Kind::ALL {
            let found = secrets(text, "", &[kind]);
            let is_there = matches!(kind, Kind::AwsAccessKeyId | Kind::CardNumber);
            assert_eq!(found.len(), usize::from(is_there), "{kind:?}");
            assert!(found.iter().all(|found| found.kind == kind));
        }
    }

    #[test]
    fn the_time_is_linear_in_the_length_of_texts_that_begin_like_secrets() {
        for part in [
            "-----BEGIN ",
            "-----BEGIN PRIVATE KEY-----",
            "eyJ",
            "eyJ.",
            "eyJhbGciOiJIUzI1NiJ9.",
            "eyJ-",
            "1111 ",
            "xoxb-",
            "sk_live_",
            "ghp_",
            "AKIA",
            "DE89 ",
            "secret_access_key ",
            "0123456789/+0123456789/+0123456789/+0123 ",
        ] {
            // A quadratic scan would take minutes.
            let text = part.repeat((1 << 18) / part.len());
            assert!(secrets(&text, "secretaccesskey", &Kind::ALL).len() < 1 << 14, "{part}");
            assert!(secrets(&text, "", &[Kind::Jwt]).len() < 1 << 14, "{part}");
        }
    }
}
