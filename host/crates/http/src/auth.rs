//! The credentials of a request, in its headers: the virtual key of its sender, tokens, and the sessions of
//! operators.

use std::{sync::Arc, time::SystemTime};

use http::{HeaderMap, header};

use super::respond::ApiError;
use airlock_core::{
    door::{CallerHeaders, CertificateDigest, LiveKeys, VirtualKey},
    operator::TOKEN_PREFIX,
};

/// Header that carries virtual keys only, in any form.
const OWN_HEADER: &str = "x-bf-vk";
/// Prefix of virtual keys in headers that may also carry other credentials. Case-insensitive.
const PREFIX: &str = "sk-bf-";

/// Headers with the token that makes the first operator; the second one is Bifrost's.
pub const SETUP_TOKEN: [&str; 2] = ["x-airlock-setup-token", "x-bifrost-setup-token"];
/// Header with the token of a session that a request needs to change something.
pub const CSRF_HEADER: &str = "x-airlock-csrf";
/// Header of a request of a page that no person has caused: it is no use of the session.
pub const BACKGROUND_HEADER: &str = "x-airlock-background";
/// Names of the cookie of a session: over TLS, where the prefix keeps other hosts from setting it, and over
/// plain HTTP, which is for this machine alone and where browsers refuse the prefix.
pub const SESSION_COOKIES: [&str; 2] = ["__Host-airlock", "airlock"];
/// Names of the cookie with the secret of a browser that logs in.
pub const BROWSER_COOKIES: [&str; 2] = ["__Host-airlock-operator-login", "airlock-operator-login"];

/// Finds the sender's key. Fails if the sent key does not exist, has expired or needs another certificate than
/// that of the connection, or if `required` and no key is sent.
pub fn key(
    keys: &LiveKeys,
    required: bool,
    headers: &HeaderMap,
    certificate: Option<CertificateDigest>,
) -> Result<Option<Arc<VirtualKey>>, ApiError> {
    let Some(credential) = credential(headers) else {
        return if required {
            Err(ApiError::unauthorized("a virtual key is required"))
        } else {
            Ok(None)
        };
    };
    // Virtual keys are text, so bytes that are not UTF-8 match none.
    let credential = std::str::from_utf8(credential).ok();
    let found =
        credential.and_then(|credential| keys.find(credential, certificate, SystemTime::now()));
    found.map(Some).ok_or_else(|| ApiError::unauthorized("virtual key not found"))
}

/// Returns the access token of a request: a bearer credential that is no virtual key, where no header
/// has one. `None` if there is none; a token that is not ASCII is none.
pub fn token(headers: &HeaderMap) -> Option<&str> {
    let bearer = bearer(headers.get(header::AUTHORIZATION)?.as_bytes())?;
    credential(headers).is_none().then(|| std::str::from_utf8(bearer).ok()).flatten()
}

/// Returns the access token of a request where clients also send keys of other services: a bearer
/// credential in the form of a signed JWT (RFC 7515, section 7.1), where no header has a virtual key.
pub fn jwt(headers: &HeaderMap) -> Option<&str> {
    token(headers).filter(|token| {
        let mut parts = token.split('.');
        parts.clone().count() == 3 && parts.all(is_base64url)
    })
}

/// Returns whether a text has characters of Base64 in the alphabet for URLs, and at least one.
fn is_base64url(text: &str) -> bool {
    let mut bytes = text.bytes();
    !text.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Returns whether a request has a virtual key, known or not.
pub fn is_sent(headers: &HeaderMap) -> bool {
    credential(headers).is_some()
}

/// Returns whether a request has a bearer credential or a virtual key, known or not. A cookie is no credential
/// beside one.
pub fn is_explicit(headers: &HeaderMap) -> bool {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
    bearer.is_some() || is_sent(headers)
}

/// Returns the headers of a request that sources of tools may pass on, without virtual keys and tokens and
/// sessions of operators, which are for the gateway alone.
pub fn forwardable(headers: &HeaderMap) -> CallerHeaders {
    let kept = headers.iter().filter(|(name, value)| {
        let value = value.as_bytes();
        let credential = if **name == header::AUTHORIZATION { bearer(value) } else { Some(value) };
        let is_own = credential
            .map(<[u8]>::trim_ascii)
            .is_some_and(|value| is_virtual(&value) || value.starts_with(TOKEN_PREFIX.as_bytes()));
        let is_session = **name == header::COOKIE && has_cookie(value);
        let is_reserved = [OWN_HEADER, CSRF_HEADER].contains(&name.as_str())
            || SETUP_TOKEN.contains(&name.as_str());
        !is_reserved && !is_own && !is_session
    });
    CallerHeaders::collect(kept.map(|(name, value)| (name.as_str(), value.as_bytes())))
}

/// Returns whether a header has a cookie of an operator.
fn has_cookie(header: &[u8]) -> bool {
    header.split(|byte| *byte == b';').any(|pair| {
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        let own = SESSION_COOKIES.iter().chain(&BROWSER_COOKIES);
        own.into_iter().any(|own| own.as_bytes() == name)
    })
}

/// Returns the first header value that is a virtual key. Other credentials in the shared headers
/// are ignored, for example the dummy keys that OpenAI's clients require.
fn credential(headers: &HeaderMap) -> Option<&[u8]> {
    let names = [OWN_HEADER, "authorization", "x-api-key", "x-goog-api-key"];
    let [own, authorization, api_key, google_key] = first_values(headers, names);
    let bearer = authorization.and_then(bearer);
    let shared = [bearer, api_key, google_key].into_iter().flatten();
    own.or_else(|| shared.map(<[u8]>::trim_ascii).find(is_virtual)).map(<[u8]>::trim_ascii)
}

/// Returns the first value of each of these headers. One pass over the headers takes less time than hashing the names.
fn first_values<'h, const N: usize>(
    headers: &'h HeaderMap,
    names: [&str; N],
) -> [Option<&'h [u8]>; N] {
    let mut found = [None; N];
    for (name, value) in headers {
        let known = names.iter().position(|known| *known == name.as_str());
        if let Some(at) = known
            && found[at].is_none()
        {
            found[at] = Some(value.as_bytes());
        }
    }
    found
}

fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token.trim_ascii())
}

fn is_virtual(credential: &&[u8]) -> bool {
    credential
        .get(..PREFIX.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(PREFIX.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::UNIX_EPOCH};

    use super::*;
    use airlock_core::door::Keys;

    fn find(required: bool, headers: &[(&'static str, &str)]) -> Result<Option<String>, ()> {
        let keys = [("ann", "sk-bf-1"), ("bob", "SK-BF-2"), ("odd", "plain")]
            .map(|(name, credential)| VirtualKey::new(name, credential, BTreeMap::new()));
        let expired = VirtualKey::new("old", "sk-bf-old", BTreeMap::new());
        let expired = expired.with_expiry(Some(UNIX_EPOCH));
        let keys = LiveKeys::new(Keys::new(keys.into_iter().chain([expired])));
        let headers = headers.iter().map(|(name, value)| {
            (
                header::HeaderName::from_static(name),
                header::HeaderValue::from_str(value).expect("a good value"),
            )
        });
        key(&keys, required, &headers.collect(), None)
            .map(|key| key.map(|key| key.name.clone()))
            .map_err(drop)
    }

    #[test]
    fn a_jwt_is_told_from_the_keys_of_other_services() {
        for (value, is_jwt) in [
            ("Bearer eyJh.e30.A-_9", true),
            ("bearer eyJh.e30.AA ", true),
            ("Bearer sk-dummy", false),
            ("Bearer a.b", false),
            ("Bearer a.b.c.d.e", false),
            ("Bearer a..c", false),
            ("Bearer a.b.c=", false),
            ("Basic a.b.c", false),
        ] {
            let value = header::HeaderValue::from_str(value).expect("a good value");
            let mut headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
            assert_eq!(jwt(&headers).is_some(), is_jwt, "{headers:?}");
            headers.insert("x-api-key", header::HeaderValue::from_static("sk-bf-1"));
            assert_eq!(jwt(&headers), None, "a virtual key takes precedence");
        }
    }

    #[test]
    fn no_credential_for_the_gateway_is_passed_on() {
        let headers = [
            ("authorization", "Bearer alop_operator"),
            ("x-api-key", "SK-bf-1"),
            ("x-bf-vk", "plain"),
            ("x-airlock-setup-token", "setup_1"),
            ("x-bifrost-setup-token", "setup_1"),
            ("x-own", "alop_operator"),
            ("cookie", "a=b; __Host-airlock=c"),
            ("x-airlock-csrf", "0123"),
            ("x-tenant", "ann"),
        ];
        let headers = headers.map(|(name, value)| {
            let name = header::HeaderName::from_static(name);
            (name, header::HeaderValue::from_static(value))
        });
        let passed_on = forwardable(&headers.into_iter().collect());
        let names: Vec<_> = passed_on.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["x-tenant"]);
    }

    #[test]
    fn a_key_is_found_in_four_headers_and_the_first_one_wins() {
        for (headers, name) in [
            (&[("x-bf-vk", "plain")][..], "odd"),
            (&[("authorization", "Bearer sk-bf-1")], "ann"),
            (&[("authorization", "bearer SK-BF-2")], "bob"),
            (&[("x-api-key", "sk-bf-1")], "ann"),
            (&[("x-goog-api-key", "sk-bf-1")], "ann"),
            (&[("x-api-key", "SK-BF-2"), ("x-goog-api-key", "sk-bf-1")], "bob"),
            (&[("x-bf-vk", "SK-BF-2"), ("authorization", "Bearer sk-bf-1")], "bob"),
            (&[("authorization", "Bearer sk-bf-1"), ("x-bf-vk", " SK-BF-2 ")], "bob"),
            (&[("x-api-key", " sk-bf-1"), ("x-api-key", "SK-BF-2")], "ann"),
            (
                &[("x-api-key", "other"), ("x-api-key", "SK-BF-2"), ("x-goog-api-key", "sk-bf-1")],
                "ann",
            ),
            (&[("authorization", "Bearer other"), ("x-api-key", "sk-bf-1")], "ann"),
        ] {
            assert_eq!(find(true, headers), Ok(Some(name.to_owned())), "{headers:?}");
        }
    }

    #[test]
    fn an_unknown_or_expired_key_is_rejected_even_where_none_is_required() {
        for headers in [
            &[("x-bf-vk", "")][..],
            &[("x-bf-vk", "sk-bf-3"), ("authorization", "Bearer sk-bf-1")],
            &[("authorization", "Bearer sk-bf-")],
            &[("x-api-key", "Sk-Bf-1")],
            &[("x-bf-vk", "sk-bf-old")],
        ] {
            assert_eq!(find(false, headers), Err(()), "{headers:?}");
        }
    }

    #[test]
    fn credentials_without_the_prefix_are_ignored() {
        for headers in [
            &[][..],
            &[("authorization", "Bearer plain")],
            &[("authorization", "Basic sk-bf-1")],
            &[("x-api-key", "k")],
        ] {
            assert_eq!(
                (find(false, headers), find(true, headers)),
                (Ok(None), Err(())),
                "{headers:?}"
            );
        }
    }

    #[test]
    fn a_header_with_a_cookie_of_an_operator_is_found() {
        for (value, has) in [
            ("__Host-airlock=x", true),
            ("a=b;airlock=x", true),
            ("a=b; airlock-operator-login=x", true),
            ("airlock", true),
            ("airlocks=x; a=airlock", false),
            ("", false),
        ] {
            assert_eq!(has_cookie(value.as_bytes()), has, "{value}");
        }
    }
}
