//! The credential for a running gateway, from the environment.

use anyhow::{Context as _, bail};
use http::HeaderValue;
use reqwest::Url;

use airlock_config::environment;

/// Environment variable with the credential of a caller.
pub(super) const KEY_VARIABLE: &str = "AIRLOCK_KEY";
/// Environment variable with the token of an operator.
pub(super) const OPERATOR_VARIABLE: &str = "AIRLOCK_OPERATOR_TOKEN";

/// Returns the value of `Authorization` for a gateway at `url`; `None` if the variable is not set.
/// Fails if the variable holds no credential, or if it would be sent to another machine in clear
/// text.
pub(super) fn authorization(url: &Url) -> anyhow::Result<Option<HeaderValue>> {
    let key = environment(KEY_VARIABLE).filter(|key| !key.is_empty());
    key.map(|key| header(&key, url)).transpose()
}

/// Returns the value of `Authorization` with the token of an operator, as [`authorization`].
pub(super) fn operator_authorization(url: &Url) -> anyhow::Result<Option<HeaderValue>> {
    let token = environment(OPERATOR_VARIABLE).filter(|token| !token.is_empty());
    token.map(|token| bearer(OPERATOR_VARIABLE, &token, url)).transpose()
}

fn header(key: &str, url: &Url) -> anyhow::Result<HeaderValue> {
    let key = key.strip_prefix("Bearer ").unwrap_or(key).trim();
    if !key.starts_with("sk-bf-") && key.split('.').count() != 3 {
        bail!("{KEY_VARIABLE} is neither a virtual key (sk-bf-…) nor an access token (JWT)");
    }
    bearer(KEY_VARIABLE, key, url)
}

/// Returns the header with the credential of a variable. Fails if it would be sent to another machine in
/// clear text.
fn bearer(variable: &str, credential: &str, url: &Url) -> anyhow::Result<HeaderValue> {
    if url.scheme() == "http" && !url.host_str().is_some_and(is_loopback) {
        bail!("{variable} is not sent over http to another machine; use https");
    }
    let mut value = HeaderValue::try_from(format!("Bearer {}", credential.trim()))
        .with_context(|| format!("{variable} cannot be sent in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_sent_to_this_machine_or_over_https_alone() {
        for url in ["http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "https://a.example"]
        {
            assert!(is_sent("sk-bf-0123456789", url) && is_sent("Bearer a.b.c", url), "{url}");
            assert!(!is_sent("hunter2", url), "{url}");
        }
        assert!(!is_sent("sk-bf-0123456789", "http://a.example"));
    }

    fn is_sent(key: &str, url: &str) -> bool {
        header(key, &Url::parse(url).expect("a URL")).is_ok()
    }
}
