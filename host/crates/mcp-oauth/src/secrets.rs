//! The secrets that a server has, for redaction in everything that it sends: those of its requests, and the tokens of
//! its login.
//!
//! A server receives these secrets in its environment, or in the headers and the URL of its
//! requests. Many servers repeat them: in an error, in a line on stderr, in the response to a
//! refused request. The inbox therefore redacts every message, and each text for a log or an error
//! is made with [`Scrubber::line`].
//!
//! The tokens of a login are such secrets too. They change while the server is connected, so the
//! scrubber of a server is replaced then: see [`Redactor`].

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use arc_swap::ArcSwap;
use base64::engine::{Engine as _, general_purpose::STANDARD};
use parking_lot::Mutex;
use reqwest::Url;

use tracing::error;

use airlock_core::secret::{BadSecret, Scrubber, Secret};

/// Minimum length of a configured value that is treated as a secret, in bytes. Shorter values are
/// more likely to be words than credentials, and redacting them would garble every message.
const MIN_SECRET_BYTES: usize = 8;
/// Headers whose values describe the format of messages and not the identity of the client.
const PUBLIC_HEADERS: [&str; 7] = [
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-type",
    "user-agent",
];
/// Minimum length of a segment of a URL's path that is taken for a token, in bytes, if it has
/// both letters and digits. Names such as `v1beta2` are shorter, tokens of 96 bits or more are
/// not.
const MIN_PATH_TOKEN_BYTES: usize = 16;

/// Tokens that are redacted besides the secrets of the settings: those of the present login, and of
/// the one before it, which answers on their way may still have.
const KEPT_TOKENS: usize = 6;

/// The scrubber of one server: for the secrets of its settings, and for the tokens that the gateway
/// has sent it of late.
#[derive(Default)]
pub struct Redactor {
    fixed: Vec<(String, Secret)>,
    tokens: Mutex<VecDeque<(String, Secret)>>,
    scrubber: ArcSwap<Scrubber>,
}

impl Redactor {
    /// Creates the redactor for the secrets of a transport. Fails as [`Scrubber::new`] does.
    pub fn new(Secrets(fixed): Secrets) -> Result<Self, BadSecret> {
        let scrubber = ArcSwap::from_pointee(scrubber(fixed.iter())?);
        Ok(Self { fixed, tokens: Mutex::default(), scrubber })
    }

    /// Returns the scrubber for all present secrets.
    pub fn scrubber(&self) -> Arc<Scrubber> {
        self.scrubber.load_full()
    }

    /// Redacts the values of headers that a user has entered, as those of the settings are. Fails as
    /// [`Scrubber::new`] does.
    pub(super) fn add_headers<'h>(
        &self,
        headers: impl IntoIterator<Item = (&'h str, &'h Secret)>,
    ) -> Result<(), BadSecret> {
        let mut secrets = Secrets::default();
        for (name, value) in headers {
            secrets.add_header(name, value.expose());
        }
        let mut tokens = self.tokens.lock();
        let before = tokens.len();
        for (name, secret) in secrets.0 {
            if !tokens.iter().chain(&self.fixed).any(|(_, known)| *known == secret) {
                tokens.push_back((name, secret));
            }
        }
        if tokens.len() > before {
            self.scrubber.store(Arc::new(scrubber(self.fixed.iter().chain(tokens.iter()))?));
        }
        Ok(())
    }

    /// Redacts tokens from now on, until [`KEPT_TOKENS`] further ones have been added.
    pub fn add_tokens(&self, added: impl IntoIterator<Item = (&'static str, String)>) {
        let mut tokens = self.tokens.lock();
        let mut is_changed = false;
        for (name, token) in added {
            let is_known =
                tokens.iter().chain(&self.fixed).any(|(_, known)| known.expose() == token);
            if token.len() < MIN_SECRET_BYTES || is_known {
                continue;
            }
            if tokens.len() == KEPT_TOKENS {
                tokens.pop_front();
            }
            tokens.push_back((name.to_owned(), Secret::new(token)));
            is_changed = true;
        }
        if is_changed {
            match scrubber(self.fixed.iter().chain(tokens.iter())) {
                Ok(scrubber) => self.scrubber.store(Arc::new(scrubber)),
                // The sizes of tokens are bounded.
                Err(error) => error!(%error, "tokens of an upstream login cannot be redacted"),
            }
        }
    }
}

fn scrubber<'a>(
    secrets: impl Iterator<Item = &'a (String, Secret)>,
) -> Result<Scrubber, BadSecret> {
    Scrubber::new(secrets.map(|(name, value)| (name.as_str(), value)))
}

/// The secrets of a transport's settings, with the names that replace them. These are not secrets: values below
/// [`MIN_SECRET_BYTES`] bytes, headers like `Accept`, and a URL without path, query and password. Redacting those
/// would garble legitimate responses.
#[derive(Default)]
pub struct Secrets(Vec<(String, Secret)>);

impl Secrets {
    /// Collects the secrets in the URL and the headers of a server.
    pub(super) fn in_requests(url: &str, headers: &BTreeMap<String, Secret>) -> Self {
        let mut secrets = Self::default();
        for (name, value) in headers.iter().filter(|(name, _)| !is_public_header(name)) {
            secrets.add_header(name, value.expose());
        }
        secrets.add_url("url", url);
        secrets
    }

    /// Adds a secret, unless it is known or too short.
    pub fn add(&mut self, name: &str, value: &str) {
        let is_new = !self.0.iter().any(|(_, known)| known.expose() == value);
        if value.len() >= MIN_SECRET_BYTES && is_new {
            self.0.push((name.to_owned(), Secret::new(value)));
        }
    }

    /// Adds a header's value, each of its words, and the password of a `Basic` credential.
    fn add_header(&mut self, name: &str, value: &str) {
        self.add(name, value);
        for part in value.split_ascii_whitespace() {
            self.add(name, part);
        }
        let basic =
            value.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"));
        let decoded = basic.and_then(|(_, encoded)| STANDARD.decode(encoded.trim()).ok());
        if let Some((_, password)) =
            decoded.as_deref().and_then(|pair| std::str::from_utf8(pair).ok()?.split_once(':'))
        {
            self.add(name, password);
        }
    }

    /// Adds the parts of a URL that may grant access.
    pub fn add_url(&mut self, name: &str, url: &str) {
        let Ok(url) = Url::parse(url) else { return };
        self.add(name, url.password().unwrap_or_default());
        self.add(name, url.query().unwrap_or_default());
        for (_, value) in url.query_pairs() {
            self.add(name, &value);
        }
        for segment in url.path_segments().into_iter().flatten() {
            let has_digit = segment.bytes().any(|byte| byte.is_ascii_digit());
            let has_letter = segment.bytes().any(|byte| byte.is_ascii_alphabetic());
            if segment.len() >= MIN_PATH_TOKEN_BYTES && has_digit && has_letter {
                self.add(name, segment);
            }
        }
    }
}

fn is_public_header(name: &str) -> bool {
    PUBLIC_HEADERS.iter().any(|public| public.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(pairs: &[(&str, &str)]) -> BTreeMap<String, Secret> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect()
    }

    fn built(secrets: Secrets) -> Arc<Scrubber> {
        Redactor::new(secrets).expect("good secrets").scrubber()
    }

    fn http(url: &str, headers: &[(&str, &str)]) -> Arc<Scrubber> {
        built(Secrets::in_requests(url, &secrets(headers)))
    }

    #[test]
    fn a_header_that_describes_a_format_is_not_redacted() {
        let scrubber =
            http("http://h/mcp", &[("Content-Type", "application/json"), ("X-Key", "Some words")]);
        insta::assert_snapshot!(scrubber.line("application/json Some words", 1_000), @"application/json [secret X-Key]");
    }

    #[test]
    fn a_header_is_redacted_whole_and_by_its_credential_in_any_encoding() {
        let scrubber = http(
            "http://h/mcp",
            &[
                ("authorization", "Bearer s3cr3t-t0ken"),
                ("x-basic", "Basic YWRtaW46b3Blbi1zZXNhbWU="),
            ],
        );
        insta::assert_snapshot!(
            scrubber.line("Bearer s3cr3t-t0ken, s3cr3t-t0ken, czNjcjN0LXQwa2Vu, 7333637233742D74306B656E, open-sesame", 1_000),
            @"[secret authorization], [secret authorization], [secret authorization], [secret authorization], [secret x-basic]"
        );
    }

    #[test]
    fn credentials_in_a_url_are_redacted_and_its_words_are_not() {
        let scrubber =
            http("https://h/model-context-protocol/0a1b2c3d4e5f6a7b/mcp?key=abc%20defgh&v=1", &[]);
        insta::assert_snapshot!(
            scrubber.line("/model-context-protocol/0a1b2c3d4e5f6a7b/mcp?key=abc%20defgh&v=1 abc defgh", 1_000),
            @"/model-context-protocol/[secret url]/mcp?[secret url] [secret url]"
        );
    }

    #[test]
    fn a_token_in_a_path_is_secret_from_sixteen_bytes_with_letters_and_digits() {
        for (token, is_secret) in [
            ("0a1b2c3d4e5f6a7", false),
            ("0a1b2c3d4e5f6a7b", true),
            ("abcdefghijklmnop", false),
            ("0123456789012345", false),
        ] {
            let scrubber = http(&format!("https://h/mcp/{token}"), &[]);
            assert_eq!(scrubber.line(token, 1_000) != token, is_secret, "{token}");
        }
    }

    #[test]
    fn public_headers_are_never_secret_in_any_case() {
        let value = "C0rrect-Horse-Battery";
        for name in [
            "Accept",
            "accept-charset",
            "Accept-Encoding",
            "accept-language",
            "CACHE-CONTROL",
            "content-type",
            "User-Agent",
        ] {
            assert!(!is_redacted_header(name, value), "{name}");
        }
        for name in ["x-accept", "content-type-token"] {
            assert!(is_redacted_header(name, value), "{name}");
        }
    }

    fn is_redacted_header(name: &str, value: &str) -> bool {
        http("http://h/mcp", &[(name, value)]).line(value, 1_000) != value
    }

    #[test]
    fn the_last_tokens_are_redacted_beside_the_secrets_of_the_settings() {
        let fixed = Secrets(vec![("x-key".to_owned(), Secret::new("hunter2hunter2"))]);
        let redactor = Redactor::new(fixed).expect("a good secret");
        for number in 0..=KEPT_TOKENS {
            assert!(!redacts(&redactor, &token(number)));
            // A token that is added again takes no place.
            redactor.add_tokens([("access token", token(number)), ("access token", token(number))]);
            assert!(redacts(&redactor, &token(number)) && redacts(&redactor, "hunter2hunter2"));
        }
        assert!(!redacts(&redactor, &token(0)) && redacts(&redactor, &token(1)));
        redactor.add_tokens([("access token", "short".to_owned())]);
        assert!(!redacts(&redactor, "short"));
        insta::assert_snapshot!(redactor.scrubber().line(&token(2), 1_000), @"[secret access token]");
    }

    fn redacts(redactor: &Redactor, text: &str) -> bool {
        redactor.scrubber().line(text, 1_000) != text
    }

    fn token(number: usize) -> String {
        format!("token-number-{number}")
    }
}
