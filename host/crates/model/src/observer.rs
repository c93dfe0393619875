//! Observation of what one request exchanges with providers: addresses and bodies, and no header.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::StatusCode;

use airlock_core::secret::Secret;

/// Receives what one request exchanges with providers, one exchange after the other. Its methods return
/// soon, because the exchange waits for them.
pub trait ExchangeObserver: fmt::Debug + Send + Sync {
    /// An attempt begins. The other methods are about it until the next one.
    fn begun(&self);

    /// The request of the attempt is sent. None is if it fails before, for example to sign in.
    fn sent(&self, request: SentRequest<'_>);

    /// The head of the response has arrived.
    fn answered(&self, status: StatusCode);

    /// A part of the body of the response has arrived. It may have a credential in it.
    fn received(&self, part: &[u8]);

    /// The attempt has failed before its response was used. `reason` is for operators.
    fn failed(&self, provider: &str, reason: &str);
}

/// A request that is sent to a provider.
#[derive(Debug)]
pub struct SentRequest<'r> {
    /// Name of the provider.
    pub provider: &'r str,
    /// Address, without its query.
    pub url: String,
    /// The body as it is sent.
    pub body: &'r Bytes,
    /// Credentials that neither the body nor the response may be shown with.
    pub redaction: Redaction,
}

/// The credentials for a provider, which are redacted. `Debug` shows none.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    pub(super) secrets: Arc<[Secret]>,
    pub(super) tokens: Arc<Vec<Secret>>,
}

impl Redaction {
    /// Redacts the credentials in a text that is whole.
    pub(super) fn redact(&self, text: String) -> String {
        without_secrets(&self.tokens, without_secrets(&self.secrets, text))
    }

    /// Redacts the credentials in a text. Its end is removed if a credential begins there, because the text
    /// may have been cut within it.
    pub fn apply(&self, text: String) -> String {
        let mut text = self.redact(text);
        // A character may have been cut too.
        let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let secrets = self.secrets.iter().chain(self.tokens.iter()).map(Secret::expose);
        let begun = secrets.map(|secret| begun_bytes(whole, secret)).max().unwrap_or(0);
        let end = whole.len() - begun;
        if begun > 0 {
            text.truncate(end);
        }
        text
    }
}

/// Returns how many bytes of a credential a text ends with.
fn begun_bytes(text: &str, secret: &str) -> usize {
    let mut ends = secret.char_indices().rev().map(|(end, _)| end);
    ends.find(|end| text.ends_with(&secret[..*end])).unwrap_or(0)
}

/// Replaces a credential. Shorter than all of them, so a text does not grow.
const REDACTED: &str = "***";

/// Bytes of a credential that are searched for first. The standard library searches for up to 32 bytes without
/// preparation. To prepare the search for a key of 164 bytes, as OpenAI has them, took 5,200 of the 37,000 instructions
/// of a chunk.
const SEARCHED_BYTES: usize = 32;

/// Redacts credentials that a service sends back, in the form in which they were sent.
pub(super) fn without_secrets(secrets: &[Secret], mut text: String) -> String {
    for secret in secrets.iter().map(Secret::expose) {
        let beginning = &secret[..secret.floor_char_boundary(SEARCHED_BYTES)];
        if text.contains(beginning) {
            text = text.replace(secret, REDACTED);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_credential_is_redacted_and_a_text_with_its_beginning_alone_is_not_changed() {
        for long in ["sk-proj-".repeat(20), "\u{20ac}".repeat(20), "x".repeat(33)] {
            let beginning = &long[..long.floor_char_boundary(long.len() - 1)];
            let secrets = [Secret::new(&long)];
            let redacted = without_secrets(&secrets, format!("{beginning} {long} {beginning}"));
            assert_eq!(redacted, format!("{beginning} *** {beginning}"));
            assert_eq!(without_secrets(&secrets, beginning.to_owned()), beginning);
        }
    }

    #[test]
    fn a_credential_is_redacted_also_if_the_text_was_cut_within_it() {
        let redaction = Redaction {
            secrets: ["secret-1", "p\u{e4}ssword"].map(Secret::new).into(),
            tokens: Arc::new(vec![Secret::new("token-token")]),
        };
        for (text, expected) in [
            ("a secret-1 b", "a *** b"),
            ("a secret-1", "a ***"),
            ("a secret-", "a "),
            ("a s", "a "),
            ("a secret-2", "a secret-2"),
            ("a token-token", "a ***"),
            ("a token-to", "a "),
            ("a p\u{fffd}", "a "),
            ("{}\u{fffd}", "{}\u{fffd}"),
            ("", ""),
        ] {
            assert_eq!(redaction.apply(text.to_owned()), expected, "{text}");
        }
        assert_eq!(Redaction::default().apply("a secret-".to_owned()), "a secret-");
    }
}
