//! Headers whose values each user of a server enters: the values as they are kept, and the headers of each
//! request.
//!
//! The values are kept as the credentials of a login, in the place of its tokens: they belong to one holder,
//! are sealed, listed and removed like them.

use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    authorizer::{AuthorizationError, LoginReason, REREAD},
    logins::StoredLogin,
    secrets::Redactor,
};
use airlock_core::secret::Secret;

/// Maximum length of a value, in bytes. Keys and signed tokens are shorter; servers accept 8 KiB in the head of a request.
pub const MAX_USER_HEADER_BYTES: usize = 4 << 10;
/// Maximum characters of an unknown name in a message: a form can have any text as a name.
const MAX_NAME_CHARS: usize = 64;
/// Maximum headers of one server: caps `per_user_header_keys`. A user enters all of them in one form.
pub const MAX_USER_HEADERS: usize = 8;

/// Reason that values of headers are not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUserHeaders {
    /// A value is missing.
    #[error("the header {0} has no value")]
    Missing(HeaderName),
    /// A value is too long.
    #[error("the value of the header {0} has more than {MAX_USER_HEADER_BYTES} bytes")]
    TooLong(HeaderName),
    /// A value has characters that no header can hold.
    #[error("the value of the header {0} has characters other than printable ASCII")]
    Characters(HeaderName),
    /// There is a value for a header that the server does not need.
    #[error("{0:?} is not a header that the server needs")]
    Unknown(String),
}

/// Checks the values that a user has entered for headers with these names. Returns them as they are kept.
pub(super) fn document(
    names: &[HeaderName],
    entered: &[(String, Secret)],
) -> Result<String, BadUserHeaders> {
    let unknown = entered.iter().find(|(given, _)| !names.iter().any(|name| is_name(name, given)));
    if let Some((given, _)) = unknown {
        return Err(BadUserHeaders::Unknown(given.chars().take(MAX_NAME_CHARS).collect()));
    }
    let values = names.iter().map(|name| {
        let value = entered.iter().find(|(given, _)| is_name(name, given));
        let value = value.map_or("", |(_, value)| value.expose().trim_ascii());
        if value.is_empty() {
            return Err(BadUserHeaders::Missing(name.clone()));
        }
        if value.len() > MAX_USER_HEADER_BYTES {
            return Err(BadUserHeaders::TooLong(name.clone()));
        }
        if !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            return Err(BadUserHeaders::Characters(name.clone()));
        }
        Ok((name.as_str(), value))
    });
    let values: BTreeMap<&str, &str> = values.collect::<Result<_, _>>()?;
    // Texts are always JSON.
    Ok(serde_json::to_string(&values).unwrap_or_default())
}

fn is_name(name: &HeaderName, given: &str) -> bool {
    name.as_str().eq_ignore_ascii_case(given)
}

/// Reads values that are kept; `None` if they are not for exactly these headers.
fn open(document: &str, names: &[HeaderName]) -> Option<Vec<(HeaderName, Secret)>> {
    let values: BTreeMap<String, String> = serde_json::from_str(document).ok()?;
    if values.len() != names.len() {
        return None;
    }
    let pairs = names.iter().map(|name| {
        let value = values.get(name.as_str())?;
        Some((name.clone(), Secret::new(value.as_str())))
    });
    pairs.collect()
}

/// Source of the headers of one user at one server.
pub struct UserHeaders {
    stored: StoredLogin,
    names: Vec<HeaderName>,
    redactor: Arc<Redactor>,
    /// The headers as they were read last, with the time.
    known: Mutex<Option<(SentHeaders, Instant)>>,
}

/// Headers of a request, with the values as they are kept.
#[derive(Clone)]
pub struct SentHeaders {
    kept: Arc<Secret>,
    headers: HeaderMap,
}

impl UserHeaders {
    /// Creates the source. Nothing is read yet.
    pub fn new(stored: StoredLogin, names: &[HeaderName], redactor: Arc<Redactor>) -> Self {
        Self { stored, names: names.to_vec(), redactor, known: Mutex::default() }
    }

    /// Returns the headers for a request. Fails if the user has entered none.
    pub async fn headers(&self) -> Result<SentHeaders, AuthorizationError> {
        let known = self.known.lock().clone();
        if let Some((sent, at)) = known
            && at.elapsed() < REREAD
        {
            return Ok(sent);
        }
        let login = self.stored.read().await?;
        let values = login
            .and_then(|login| Some((open(&login.access_token, &self.names)?, login.access_token)));
        let Some((values, kept)) = values else {
            *self.known.lock() = None;
            return Err(AuthorizationError::of_user(LoginReason::Missing));
        };
        self.redactor
            .add_headers(values.iter().map(|(name, value)| (name.as_str(), value)))
            .map_err(|_| AuthorizationError::Unusable)?;
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            let value = HeaderValue::try_from(value.expose());
            let mut value = value.map_err(|_| AuthorizationError::Unusable)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let sent = SentHeaders { kept: Arc::new(Secret::new(kept)), headers };
        *self.known.lock() = Some((sent.clone(), Instant::now()));
        Ok(sent)
    }

    /// Returns the error of a request whose headers the server refuses. If it is the gateway's own, their values
    /// are removed, so that the user is asked for others. Values that were entered meanwhile stay. A call may
    /// be refused for what is in it: the handshake of the next connection decides about the values.
    pub async fn reject(&self, sent: &SentHeaders, is_own: bool) -> AuthorizationError {
        *self.known.lock() = None;
        if !is_own {
            return AuthorizationError::of_user(LoginReason::RejectedHeaders);
        }
        match self.stored.void(sent.kept.expose()).await {
            Ok(()) => AuthorizationError::of_user(LoginReason::RejectedHeaders),
            Err(error) => error.into(),
        }
    }
}

impl SentHeaders {
    /// Adds the headers to those of a request, in the place of others with their names.
    pub fn add_to(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<HeaderName> {
        ["x-api-key", "x-tenant"].map(HeaderName::from_static).to_vec()
    }

    fn kept(entered: &[(&str, &str)]) -> Result<String, String> {
        let entered: Vec<_> =
            entered.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect();
        document(&names(), &entered).map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_taken_for_exactly_the_headers_of_the_server() {
        let good = kept(&[("X-Tenant", " acme "), ("X-Api-Key", "Bearer a b")]).expect("good");
        let opened = open(&good, &names()).expect("they fit");
        let values: Vec<_> = opened.iter().map(|(_, value)| value.expose()).collect();
        assert_eq!(values, ["Bearer a b", "acme"]);
        assert!(open(&good, &names()[..1]).is_none() && open("{}", &names()).is_none());
        let long = "x".repeat(MAX_USER_HEADER_BYTES + 1);
        let refused = [
            &[("x-api-key", "a")][..],
            &[("x-api-key", "a"), ("x-tenant", " ")],
            &[("x-api-key", "a\r\nx-admin: 1"), ("x-tenant", "t")],
            &[("x-api-key", "\u{e9}"), ("x-tenant", "t")],
            &[("x-api-key", &long), ("x-tenant", "t")],
            &[("x-api-key", "a"), ("x-tenant", "t"), ("host", "evil")],
        ];
        let refused: Vec<_> =
            refused.iter().map(|entered| kept(entered).expect_err("refused")).collect();
        insta::assert_snapshot!(refused.join("\n"), @r#"
        the header x-tenant has no value
        the header x-tenant has no value
        the value of the header x-api-key has characters other than printable ASCII
        the value of the header x-api-key has characters other than printable ASCII
        the value of the header x-api-key has more than 4096 bytes
        "host" is not a header that the server needs
        "#);
    }
}
