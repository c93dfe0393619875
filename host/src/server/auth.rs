//! Who sends a request: its virtual key.

use std::sync::Arc;

use http::{HeaderMap, header};

use super::respond::ApiError;
use crate::door::{Keys, VirtualKey};

/// Header for nothing else than virtual keys, of whatever form.
const OWN_HEADER: &str = "x-bf-vk";
/// How a virtual key starts that comes in a header which may hold other credentials. Case does not
/// count.
const PREFIX: &str = "sk-bf-";

/// Finds the sender's key. A key that was sent must exist; none need be sent unless one is
/// required.
pub(super) fn key(
    keys: &Keys,
    required: bool,
    headers: &HeaderMap,
) -> Result<Option<Arc<VirtualKey>>, ApiError> {
    let Some(credential) = credential(headers) else {
        return if required {
            Err(ApiError::unauthorized("a virtual key is required"))
        } else {
            Ok(None)
        };
    };
    // What is not text is no key of ours.
    let found = std::str::from_utf8(credential).ok().and_then(|credential| keys.find(credential));
    found.map(Some).ok_or_else(|| ApiError::unauthorized("virtual key not found"))
}

/// The first of the headers that holds a virtual key. Others' credentials in the same headers are
/// none, as the dummy keys that OpenAI's clients insist on.
fn credential(headers: &HeaderMap) -> Option<&[u8]> {
    let value = |name: &str| headers.get(name).map(http::HeaderValue::as_bytes);
    let bearer = value(header::AUTHORIZATION.as_str()).and_then(bearer);
    let own = value(OWN_HEADER).map(<[u8]>::trim_ascii);
    let shared = |name| value(name).map(<[u8]>::trim_ascii).filter(is_virtual);
    own.or_else(|| bearer.filter(is_virtual))
        .or_else(|| shared("x-api-key"))
        .or_else(|| shared("x-goog-api-key"))
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
    use std::collections::BTreeMap;

    use super::*;

    fn find(required: bool, headers: &[(&'static str, &str)]) -> Result<Option<String>, ()> {
        let keys = Keys::new(
            [("ann", "sk-bf-1"), ("bob", "SK-BF-2"), ("odd", "plain")]
                .map(|(name, credential)| VirtualKey::new(name, credential, BTreeMap::new())),
        );
        let headers = headers.iter().map(|(name, value)| {
            (
                header::HeaderName::from_static(name),
                header::HeaderValue::from_str(value).expect("a good value"),
            )
        });
        key(&keys, required, &headers.collect())
            .map(|key| key.map(|key| key.name.clone()))
            .map_err(drop)
    }

    #[test]
    fn a_key_is_found_in_four_headers_and_the_first_decides() {
        for (headers, name) in [
            (&[("x-bf-vk", "plain")][..], "odd"),
            (&[("authorization", "Bearer sk-bf-1")], "ann"),
            (&[("authorization", "bearer SK-BF-2")], "bob"),
            (&[("x-api-key", "sk-bf-1")], "ann"),
            (&[("x-goog-api-key", "sk-bf-1")], "ann"),
            (&[("x-api-key", "SK-BF-2"), ("x-goog-api-key", "sk-bf-1")], "bob"),
            (&[("x-bf-vk", "SK-BF-2"), ("authorization", "Bearer sk-bf-1")], "bob"),
            (&[("authorization", "Bearer other"), ("x-api-key", "sk-bf-1")], "ann"),
        ] {
            assert_eq!(find(true, headers), Ok(Some(name.to_owned())), "{headers:?}");
        }
    }

    #[test]
    fn a_key_that_is_sent_must_exist() {
        for headers in [
            &[("x-bf-vk", "")][..],
            &[("x-bf-vk", "sk-bf-3"), ("authorization", "Bearer sk-bf-1")],
            &[("authorization", "Bearer sk-bf-")],
            &[("x-api-key", "Sk-Bf-1")],
        ] {
            assert_eq!(find(false, headers), Err(()), "{headers:?}");
        }
    }

    #[test]
    fn other_credentials_are_no_key() {
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
}
