//! The response of a token endpoint (RFC 6749, section 5.1).

use std::time::{Duration, SystemTime};

use serde_json::Value;

use airlock_core::unix_time::{milliseconds, unix_milliseconds};
use airlock_store::login::UpstreamLogin;
use airlock_strings::{MAX_NAMED, MAX_WORD_BYTES, cut};

/// Maximum length of a token, in bytes. Redaction and the head of a request have room for it.
pub(super) const MAX_TOKEN_BYTES: usize = 16 << 10;
/// Maximum length of a list of scopes with a blank after each, in bytes: caps the key `scopes` of a client, and what a
/// server asks for is cut to it. It is a parameter of a URL for the browser, which has room for 8 KiB.
pub const MAX_SCOPES_BYTES: usize = 4 << 10;
/// Longest life of a token that is believed: ten years, so that the time at which it ends can be
/// computed.
const MAX_LIFE: Duration = Duration::from_hours(24 * 3650);

/// Reason that a response is not used. It has no text of the response.
#[derive(Debug, thiserror::Error)]
#[error("the response of the token endpoint {0}")]
pub struct BadTokens(&'static str);

impl BadTokens {
    /// Returns the reason, as a predicate about the response.
    pub(super) fn reason(&self) -> &'static str {
        self.0
    }
}

/// Tokens that were issued.
pub(super) struct Tokens {
    access: String,
    refresh: Option<String>,
    life: Option<Duration>,
    scopes: Option<String>,
}

/// Result of a login, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedIn {
    /// Identifier of the authorization server, if it has one.
    pub issuer: Option<String>,
    /// Granted scopes.
    pub scopes: Vec<String>,
    /// Time at which the access token expires, if it is known.
    pub expires: Option<SystemTime>,
    /// True if the gateway can refresh the access token.
    pub is_refreshable: bool,
}

impl Tokens {
    /// Reads the members of a response. Fails if there is no token of the type `Bearer` that fits
    /// into a header.
    pub(super) fn read(response: &Value) -> Result<Self, BadTokens> {
        let access = text(response, "access_token").ok_or(BadTokens("has no access token"))?;
        if !is_token(access) {
            return Err(BadTokens("has an access token that no header can hold"));
        }
        let kind = text(response, "token_type");
        if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
            return Err(BadTokens("has a token that is not of the type Bearer"));
        }
        // Some servers send an empty one, or null.
        let refresh = text(response, "refresh_token").filter(|token| !token.is_empty());
        if refresh.is_some_and(|token| !is_token(token)) {
            return Err(BadTokens("has a refresh token that cannot be used"));
        }
        let life = response.get("expires_in");
        let life = life.and_then(|life| life.as_u64().or_else(|| life.as_str()?.parse().ok()));
        Ok(Self {
            access: access.to_owned(),
            refresh: refresh.map(str::to_owned),
            life: life.map(|seconds| Duration::from_secs(seconds).min(MAX_LIFE)),
            scopes: text(response, "scope").map(|scopes| self::scopes([scopes])),
        })
    }

    /// Returns the access token, and its life if it is known.
    pub(super) fn into_access(self) -> (String, Option<Duration>) {
        (self.access, self.life)
    }

    /// Returns the login that has these tokens, and all else of `base`: also the scopes and the
    /// refresh token if the response has none (RFC 6749, sections 5.1 and 6).
    pub(super) fn into_login(self, base: UpstreamLogin, now: SystemTime) -> UpstreamLogin {
        let obtained_ms = unix_milliseconds(now);
        UpstreamLogin {
            access_token: self.access,
            refresh_token: self.refresh.or(base.refresh_token),
            scopes: self.scopes.filter(|scopes| !scopes.is_empty()).unwrap_or(base.scopes),
            obtained_ms,
            expires_ms: self.life.map(|life| obtained_ms.saturating_add(milliseconds(life))),
            ..base
        }
    }
}

impl LoggedIn {
    /// Returns what the operator may read of a login.
    pub(super) fn new(login: &UpstreamLogin) -> Self {
        let expires = login.expires_ms.and_then(|millis| {
            let since = Duration::from_millis(u64::try_from(millis).ok()?);
            SystemTime::UNIX_EPOCH.checked_add(since)
        });
        Self {
            issuer: Some(login.issuer.clone()).filter(|issuer| !issuer.is_empty()),
            scopes: login
                .scopes
                .split(' ')
                .filter(|scope| !scope.is_empty())
                .map(str::to_owned)
                .collect(),
            expires,
            is_refreshable: login.refresh_token.is_some(),
        }
    }
}

impl LoggedIn {
    /// Returns the granted scopes for use in a message.
    pub fn quoted_scopes(&self) -> String {
        quoted(&self.scopes.join(" "))
    }
}

/// Returns scopes for use in a message: each in quotes, which no scope can have; the first ten, and
/// the beginning of each.
pub(super) fn quoted(list: &str) -> String {
    let checked = scopes([list]);
    let all: Vec<&str> = checked.split_ascii_whitespace().collect();
    let first = all.iter().take(MAX_NAMED);
    let mut shown: Vec<String> =
        first.map(|scope| format!("\"{}\"", cut((*scope).to_owned(), MAX_WORD_BYTES))).collect();
    if all.len() > MAX_NAMED {
        shown.push(format!("{} more", all.len() - MAX_NAMED));
    }
    shown.join(", ")
}

/// Returns the error code of a response (RFC 6749, section 5.2), if it can be one. The rest of the
/// response may repeat secrets.
pub(super) fn error_code(body: &Value) -> Option<&str> {
    let code = body.get("error")?.as_str()?;
    let is_code = (1..=MAX_WORD_BYTES).contains(&code.len())
        && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_code.then_some(code)
}

/// Joins lists of scopes: each scope once, in the order of their first place, up to
/// [`MAX_SCOPES_BYTES`]. What is no scope is left out (RFC 6749, section 3.3).
pub(super) fn scopes<'a>(lists: impl IntoIterator<Item = &'a str>) -> String {
    let mut joined: Vec<&str> = Vec::new();
    let mut bytes = 0;
    let words = lists.into_iter().flat_map(str::split_ascii_whitespace);
    for scope in words.filter(|word| is_scope(word)) {
        bytes += scope.len() + 1;
        if bytes > MAX_SCOPES_BYTES {
            break;
        }
        if !joined.contains(&scope) {
            joined.push(scope);
        }
    }
    joined.join(" ")
}

fn is_scope(word: &str) -> bool {
    word.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

fn is_token(token: &str) -> bool {
    (1..=MAX_TOKEN_BYTES).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_graphic())
}

fn text<'r>(response: &'r Value, name: &str) -> Option<&'r str> {
    response.get(name).and_then(Value::as_str)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a login for tests.
    pub(crate) fn login(access_token: &str) -> UpstreamLogin {
        UpstreamLogin {
            holder: None,
            issuer: "https://as.example.com".to_owned(),
            client_id: "id".to_owned(),
            client_secret: None,
            authentication: "none".to_owned(),
            token_endpoint: "https://as.example.com/token".to_owned(),
            resource: "https://mcp.example.com".to_owned(),
            scopes: "read".to_owned(),
            wanted: "write".to_owned(),
            access_token: access_token.to_owned(),
            refresh_token: Some("old-refresh".to_owned()),
            obtained_ms: 0,
            expires_ms: None,
        }
    }

    fn refused(response: &Value) -> String {
        Tokens::read(response).err().expect("refused").to_string()
    }

    #[test]
    fn absent_members_of_a_response_keep_their_values() {
        let least = read(&json!({"access_token": "new", "token_type": "bearer"}));
        let expected = UpstreamLogin { obtained_ms: 10_000, ..login("new") };
        assert_eq!(least, expected);
        let most = read(&json!({
            "access_token": "new", "token_type": "Bearer", "expires_in": "60",
            "refresh_token": "next", "scope": "a  b a",
        }));
        assert_eq!((most.refresh_token.as_deref(), &*most.scopes), (Some("next"), "a b"));
        assert_eq!(most.expires_ms, Some(70_000));
        let huge =
            read(&json!({"access_token": "n", "token_type": "Bearer", "expires_in": u64::MAX}));
        assert!(LoggedIn::new(&huge).expires.is_some());
    }

    /// Reads a response of ten seconds after 1970.
    fn read(response: &Value) -> UpstreamLogin {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(10);
        Tokens::read(response).expect("tokens").into_login(login("old"), at)
    }

    #[test]
    fn a_token_that_cannot_be_sent_is_refused_and_not_quoted() {
        assert!(Tokens::read(&with_token(&"x".repeat(MAX_TOKEN_BYTES))).is_ok());
        for bad in ["", "a b", "a\r\nx: y", "ä", &"x".repeat(MAX_TOKEN_BYTES + 1)] {
            let error = refused(&with_token(bad));
            assert!(bad.is_empty() || !error.contains(bad), "{error}");
        }
        insta::assert_snapshot!(refused(&json!({"access_token": "t", "token_type": "DPoP"})), @"the response of the token endpoint has a token that is not of the type Bearer");
        insta::assert_snapshot!(refused(&json!("t")), @"the response of the token endpoint has no access token");
        let bad_refresh =
            json!({"access_token": "t", "token_type": "Bearer", "refresh_token": "a b"});
        assert!(refused(&bad_refresh).contains("refresh token"));
    }

    fn with_token(token: &str) -> Value {
        json!({"access_token": token, "token_type": "Bearer"})
    }

    #[test]
    fn scopes_are_quoted_in_messages_and_bounded() {
        assert_eq!(quoted("a b\"c"), "\"a\"");
        let fits = "x".repeat(MAX_WORD_BYTES);
        let long = "x".repeat(MAX_WORD_BYTES + 1);
        assert_eq!(quoted(&fits), format!("\"{fits}\""));
        assert!(!quoted(&long).contains(&long));
        assert!(quoted(&many(MAX_NAMED)).ends_with("\"9\""));
        assert!(quoted(&many(MAX_NAMED + 1)).ends_with("\"9\", 1 more"));
    }

    fn many(count: usize) -> String {
        (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_error_code_has_no_room_for_a_secret() {
        for code in ["invalid_grant", &"x".repeat(MAX_WORD_BYTES)] {
            assert_eq!(error_code(&json!({"error": code})), Some(code));
        }
        for code in ["Echo s3cret", "", &"x".repeat(MAX_WORD_BYTES + 1)] {
            assert_eq!(error_code(&json!({"error": code})), None);
        }
    }

    #[test]
    fn scopes_are_joined_without_repetition_and_bounded() {
        assert_eq!(scopes(["a b", "b c"]), "a b c");
        assert_eq!(scopes(["a\"b c\u{7}d ä ok:1/x"]), "ok:1/x");
        let long =
            scopes([(0..10_000).map(|n| n.to_string()).collect::<Vec<_>>().join(" ").as_str()]);
        assert!(long.len() <= MAX_SCOPES_BYTES && long.len() > MAX_SCOPES_BYTES - 10);
    }
}
