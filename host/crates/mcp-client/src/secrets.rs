//! Finds the secrets in a server's settings, for redaction in everything that the server sends.
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

use super::limits::MIN_SECRET_BYTES;
use airlock_core::secret::{BadSecret, Scrubber, Secret};

/// Variables that the process of a server inherits from the gateway: places, languages and names,
/// which most programs need and which grant no access. Their values occur in many legitimate responses.
pub const INHERITED_VARIABLES: [&str; 15] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "LOGNAME",
    "PATH",
    "TMPDIR",
    "TZ",
    "USER",
];
/// Other variables of this kind, which a configuration may pass on.
const PLACE_VARIABLES: [&str; 3] = ["PWD", "SHELL", "TERM"];
/// Parts of the names of variables whose values are redacted even if they look like paths or plain
/// words.
const SECRET_WORDS: [&str; 12] = [
    "AUTH", "COOKIE", "CRED", "DSN", "KEY", "PASS", "PIN", "PRIVATE", "PWD", "SECRET", "SESSION",
    "TOKEN",
];
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
/// Maximum digits in a variable's value that is taken for plain words, as in `python3` or `v2.1`.
/// A generated secret has more.
const MAX_DIGITS_IN_WORDS: usize = 2;
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
    pub(super) fn new(Secrets(fixed): Secrets) -> Result<Self, BadSecret> {
        let scrubber = ArcSwap::from_pointee(scrubber(fixed.iter())?);
        Ok(Self { fixed, tokens: Mutex::default(), scrubber })
    }

    /// Returns the scrubber for all present secrets.
    pub(super) fn scrubber(&self) -> Arc<Scrubber> {
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
    pub(super) fn add_tokens(&self, added: impl IntoIterator<Item = (&'static str, String)>) {
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

/// The secrets of a transport's settings, with the names that replace them: the values of variables
/// and headers, and the parts of its URL that may grant access. These are not secrets: values below
/// [`MIN_SECRET_BYTES`] bytes, variables like `PATH`, headers like `Accept`, a variable's value that
/// is a path or plain words and whose name does not suggest a credential, and a URL without path,
/// query and password. Redacting those would garble legitimate responses, names of tools and files
/// among them.
#[derive(Default)]
pub struct Secrets(Vec<(String, Secret)>);

impl Secrets {
    /// Collects the secrets among the variables of a process.
    pub(super) fn in_variables(env: &BTreeMap<String, Secret>) -> Self {
        let mut secrets = Self::default();
        for (name, value) in env.iter().filter(|(name, _)| !is_public(name)) {
            secrets.add_variable(name, value.expose());
        }
        secrets
    }

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
    pub(super) fn add(&mut self, name: &str, value: &str) {
        let is_new = !self.0.iter().any(|(_, known)| known.expose() == value);
        if value.len() >= MIN_SECRET_BYTES && is_new {
            self.0.push((name.to_owned(), Secret::new(value)));
        }
    }

    fn add_variable(&mut self, name: &str, value: &str) {
        match Url::parse(value).ok().filter(Url::has_host) {
            // The address of a service occurs in most of its responses.
            Some(url) if is_bare(&url) => {}
            Some(_) => {
                self.add(name, value);
                self.add_url(name, value);
            }
            None if is_path_or_words(value) && !names_a_credential(name) => {}
            None => self.add(name, value),
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

    fn add_url(&mut self, name: &str, url: &str) {
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

fn names_a_credential(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Returns whether a value is a path or plain words: `production`, `us-east-1`, `/srv/data`.
fn is_path_or_words(value: &str) -> bool {
    let is_path = value.starts_with('/') || value.starts_with("./") || value.starts_with('~');
    let is_of_words =
        value.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_., ".contains(c));
    is_path
        || is_of_words && value.chars().filter(char::is_ascii_digit).count() <= MAX_DIGITS_IN_WORDS
}

/// Returns whether a URL has no path, query or password.
fn is_bare(url: &Url) -> bool {
    matches!(url.path(), "" | "/") && url.query().is_none() && url.password().is_none()
}

fn is_public(variable: &str) -> bool {
    INHERITED_VARIABLES.contains(&variable) || PLACE_VARIABLES.contains(&variable)
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

    fn stdio(env: &[(&str, &str)]) -> Arc<Scrubber> {
        built(Secrets::in_variables(&secrets(env)))
    }

    fn http(url: &str, headers: &[(&str, &str)]) -> Arc<Scrubber> {
        built(Secrets::in_requests(url, &secrets(headers)))
    }

    #[test]
    fn values_of_variables_are_redacted_and_places_are_not() {
        let env = [
            ("HOME", "/home/someone"),
            ("PATH", "/usr/bin:/bin"),
            ("LEVEL", "info"),
            ("TOKEN", "hunter2hunter2"),
            ("API", "https://api.example.com/"),
            ("HOOK", "https://hooks.example.com/T0/B0/xyz"),
            ("DB", "postgres://app:pass-word@db/app"),
        ];
        let scrubber = stdio(&env);
        let said = "info: /home/someone has hunter2hunter2 for https://api.example.com/ and https://hooks.example.com/T0/B0/xyz, pass-word";
        insta::assert_snapshot!(
            scrubber.line(said, 1_000),
            @"info: /home/someone has [secret TOKEN] for https://api.example.com/ and [secret HOOK], [secret DB]"
        );
    }

    #[test]
    fn words_and_paths_are_redacted_only_under_the_name_of_a_credential() {
        let words =
            [("AWS_REGION", "us-east-1"), ("NODE_ENV", "production"), ("ALLOWED", "/srv/data")];
        let scrubber = stdio(
            &[&words[..], &[("DB_PASSWORD", "correct-horse"), ("SALT", "x9f2k4p1")]].concat(),
        );
        insta::assert_snapshot!(
            scrubber.line("us-east-1 production /srv/data/a correct-horse x9f2k4p1", 1_000),
            @"us-east-1 production /srv/data/a [secret DB_PASSWORD] [secret SALT]"
        );
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

    /// Returns whether a variable's value is redacted.
    fn is_redacted(name: &str, value: &str) -> bool {
        stdio(&[(name, value)]).line(value, 1_000) != value
    }

    #[test]
    fn only_a_value_of_path_or_few_digits_and_lower_case_is_plain() {
        for plain in [
            "/srv/data/0123456789",
            "./data/0123456789",
            "~/data/0123456789",
            "eu-central-12",
            "one, two_three.four",
        ] {
            assert!(!is_redacted("SETTING", plain), "{plain}");
        }
        for secret in ["eu-central-123", "eu-Central", "production!", "../data/x", "data/x/y"] {
            assert!(is_redacted("SETTING", secret), "{secret}");
        }
    }

    #[test]
    fn a_value_is_secret_from_eight_bytes_and_a_path_token_from_sixteen() {
        assert!(!is_redacted("TOKEN", "abcdef1") && is_redacted("TOKEN", "abcdef12"));
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
    fn the_name_of_a_credential_makes_plain_words_a_secret() {
        for name in [
            "BASIC_AUTH",
            "COOKIES",
            "CREDENTIAL",
            "SENTRY_DSN",
            "api_key",
            "PASSPHRASE",
            "USER_PIN",
            "PRIVATE_SEED",
            "MYSQL_PWD",
            "CLIENT_SECRET",
            "SESSION_ID",
            "GhToken",
        ] {
            assert!(is_redacted(name, "correct-horse"), "{name}");
            assert!(is_redacted(name, "/correct/horse"), "{name}");
        }
        for name in ["HOST", "REGION", "MODE"] {
            assert!(!is_redacted(name, "correct-horse"), "{name}");
        }
    }

    #[test]
    fn public_variables_and_headers_are_never_secret_in_any_case_of_a_header() {
        let value = "C0rrect-Horse-Battery";
        for name in [
            "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "PWD", "SHELL", "TERM",
            "TMPDIR", "TZ", "USER",
        ] {
            assert!(!is_redacted(name, value), "{name}");
        }
        assert!(is_redacted("OTHER", value));
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
