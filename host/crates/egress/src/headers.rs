//! Headers that a guest may set. The host reserves the headers that frame a message or belong to
//! the connection, and those that make a server see another request than the one that the policy
//! decided on.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::{credential::Credential, error::EgressError};

/// Maximum number of headers of a request: fewer than the 100 that Apache's server takes.
const MAX_HEADERS: usize = 64;
/// Maximum bytes of all names and values of a request's headers: as many as of a response's.
const MAX_BYTES: usize = 64 << 10;

/// Headers of the connection and of the framing (RFC 9110, sections 7.2, 7.6 and 8.6; RFC 9112; RFC
/// 7540 for the last).
const FRAMING: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];
/// Headers that override the method or the path in some servers and frameworks. Rules decide on
/// both.
const OVERRIDES: [&str; 5] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-rewrite-url",
];
/// Headers that are valid for any origin. The meaning of other headers to a server is unknown:
/// `x-api-key` belongs to one origin as much as `authorization` does.
const OF_ANY_ORIGIN: [&str; 3] = ["accept", "range", "user-agent"];
/// Prefixes of further headers that are valid for any origin.
const FAMILIES_OF_ANY_ORIGIN: [&str; 3] = ["accept-", "content-", "if-"];
/// Headers that describe a body. They are dropped together with it.
const OF_THE_BODY: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
];

/// Returns whether only the host may set a header. `name` is in lower case. A name that servers
/// could take for a reserved header is reserved too.
pub fn is_reserved(name: &str) -> bool {
    let name = folded(name);
    FRAMING.contains(&name.as_str())
        || OVERRIDES.contains(&name.as_str())
        || name.starts_with("proxy-")
}

/// Returns a name as servers see it that pass headers on in environment variables (RFC 3875,
/// section 4.1.18). They do not distinguish `x_api_key` from `x-api-key`, and some replace every
/// character that is neither letter nor digit by `_`.
fn folded(name: &str) -> String {
    name.replace(|character: char| !character.is_ascii_alphanumeric(), "-")
}

/// Returns whether servers could take one header for the other.
pub(super) fn are_alike(one: &HeaderName, other: &HeaderName) -> bool {
    folded(one.as_str()) == folded(other.as_str())
}

/// Validates a guest's headers. Fails if they exceed the limits, or if one is malformed, reserved,
/// belongs to a credential of the request, or authenticates the connection.
pub(super) fn accept(
    given: &[(String, Vec<u8>)],
    credentials: &[&Credential],
) -> Result<HeaderMap, EgressError> {
    if given.len() > MAX_HEADERS {
        return Err(EgressError::invalid(format!(
            "the request has more than {MAX_HEADERS} headers"
        )));
    }
    if given.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > MAX_BYTES {
        return Err(EgressError::invalid(format!(
            "the request's headers have more than {MAX_BYTES} bytes"
        )));
    }
    let mut headers = HeaderMap::with_capacity(given.len());
    for (name, value) in given {
        let name = HeaderName::try_from(name.as_str())
            .map_err(|_| EgressError::invalid("a header's name is not valid"))?;
        let value = HeaderValue::try_from(value.as_slice()).map_err(|_| {
            EgressError::invalid(format!(
                "the value of header {name} has bytes that a header cannot hold"
            ))
        })?;
        if is_reserved(name.as_str()) {
            return Err(EgressError::invalid(format!("only the host may set header {name}")));
        }
        let owner = credentials
            .iter()
            .find(|credential| credential.header().is_some_and(|its| are_alike(its, &name)));
        if let Some(owner) = owner {
            let owner = owner.name();
            return Err(EgressError::invalid(format!(
                "header {name} belongs to the credential {owner:?}"
            )));
        }
        if name == header::AUTHORIZATION && authenticates_the_connection(value.as_bytes()) {
            return Err(EgressError::invalid(
                "an authorization scheme that authenticates a whole connection cannot be used",
            ));
        }
        headers.append(name, value);
    }
    Ok(headers)
}

/// Returns whether an `authorization` value authenticates the connection instead of the request
/// (NTLM, Negotiate). Connections are reused, also by other callers, and the server would take the
/// next caller for this one (RFC 4559, section 6). The scheme is the first token (RFC 9110, section
/// 5.6.2), whatever delimiters surround it.
pub(super) fn authenticates_the_connection(value: &[u8]) -> bool {
    let scheme =
        value.split(|byte| !is_of_token(*byte)).find(|token| !token.is_empty()).unwrap_or_default();
    [b"ntlm".as_slice(), b"negotiate"]
        .iter()
        .any(|of_connection| scheme.eq_ignore_ascii_case(of_connection))
}

fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Drops all headers that another origin must not see: every header that is not known to be valid
/// for any origin.
pub(super) fn leave_origin(headers: &mut HeaderMap) {
    let dropped: Vec<HeaderName> =
        headers.keys().filter(|name| !is_of_any_origin(name.as_str())).cloned().collect();
    for name in dropped {
        headers.remove(name);
    }
}

fn is_of_any_origin(name: &str) -> bool {
    OF_ANY_ORIGIN.contains(&name)
        || FAMILIES_OF_ANY_ORIGIN.iter().any(|beginning| name.starts_with(*beginning))
}

/// Drops the headers that describe a body that is not sent.
pub(super) fn leave_body(headers: &mut HeaderMap) {
    for name in OF_THE_BODY {
        headers.remove(name);
    }
}

/// Returns the bytes of all names and values.
pub(super) fn size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use airlock_core::secret::Secret;

    use super::*;
    use crate::Injection;

    fn accepted(headers: &[(&str, &str)]) -> Result<HeaderMap, String> {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
            .collect();
        accept(&headers, &[]).map_err(|error| error.to_string())
    }

    #[test]
    fn ordinary_headers_are_accepted_repeated_and_in_any_case() {
        let headers = accepted(&[
            ("Accept", "a"),
            ("accept", "b"),
            ("X-Odd", "\t caf\u{e9} "),
            ("Authorization", "Bearer x"),
        ])
        .unwrap();
        assert_eq!(headers.get_all("accept").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(headers.len(), 4);
    }

    #[test]
    fn framing_and_override_headers_are_refused() {
        let reserved = "Connection Content-Length Expect Host Keep-Alive TE Trailer Transfer-Encoding Upgrade HTTP2-Settings \
            Proxy-Authorization Proxy-Authenticate Proxy-Connection Proxy-Anything X-HTTP-Method X-HTTP-Method-Override \
            X-Method-Override X-Original-URL X-Rewrite-URL X_HTTP_Method_Override x-http_method Content_Length \
            Transfer_Encoding Proxy_Authorization X.Original.URL";
        for name in reserved.split_whitespace() {
            assert_eq!(
                accepted(&[(name, "x")]),
                Err(format!("only the host may set header {}", name.to_lowercase()))
            );
        }
    }

    #[test]
    fn names_and_values_that_could_break_out_of_a_header_are_refused() {
        for name in ["", " ", "a b", "a:b", ":authority", "a\r\nhost", "a\0", "é", "host "] {
            assert_eq!(
                accepted(&[(name, "x")]),
                Err("a header's name is not valid".to_owned()),
                "{name:?}"
            );
        }
        for value in ["a\r\nhost: evil", "a\nb", "a\rb", "a\0b", "\u{7f}"] {
            let error = accepted(&[("x-a", value)]).unwrap_err();
            assert_eq!(
                error, "the value of header x-a has bytes that a header cannot hold",
                "{value:?}"
            );
        }
    }

    #[test]
    fn the_number_and_size_of_headers_are_bounded() {
        assert!(accepted(&many(MAX_HEADERS)).is_ok());
        assert_eq!(
            accepted(&many(MAX_HEADERS + 1)),
            Err("the request has more than 64 headers".to_owned())
        );
        assert!(accepted_of_length(MAX_BYTES).is_ok());
        assert_eq!(
            accepted_of_length(MAX_BYTES + 1),
            Err("the request's headers have more than 65536 bytes".to_owned())
        );
    }

    fn many(count: usize) -> Vec<(&'static str, &'static str)> {
        vec![("x-a", "b"); count]
    }

    fn accepted_of_length(bytes: usize) -> Result<HeaderMap, String> {
        accepted(&[("x-a", &"b".repeat(bytes - 3))])
    }

    #[test]
    fn schemes_that_authenticate_the_connection_are_refused() {
        for value in [
            "NTLM TlRM",
            "negotiate abc",
            "Negotiate",
            " NTLM x",
            "\t Negotiate x",
            "NTLM\tx",
            "NTLM,x",
            ", NTLM x",
        ] {
            assert!(accepted(&[("authorization", value)]).is_err(), "{value:?}");
        }
        for value in ["Basic bnRsbQ==", " Bearer NTLM", "NTLMv3 x", "", " "] {
            assert!(accepted(&[("authorization", value), ("x-a", "NTLM x")]).is_ok(), "{value:?}");
        }
    }

    #[test]
    fn only_headers_valid_for_any_origin_leave_their_origin() {
        let names = "accept accept-language authorization content-type cookie if-none-match range ranger user-agent x-accept \
            x-api-key x_content-type";
        let given: Vec<_> =
            names.split_whitespace().flat_map(|name| [(name, "a"), (name, "b")]).collect();
        let mut headers = accepted(&given).unwrap();
        leave_origin(&mut headers);
        let kept: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(headers.len(), 12, "{kept:?}");
        for name in
            ["accept", "accept-language", "content-type", "if-none-match", "range", "user-agent"]
        {
            assert_eq!(headers.get_all(name).iter().count(), 2, "{name}");
        }
    }

    #[test]
    fn a_guest_header_that_belongs_to_the_credential_is_refused() {
        for name in ["X-Key", "X_Key"] {
            let given = [(name.to_owned(), b"mine".to_vec())];
            for its in ["x-key", "x_key"] {
                let error =
                    accept(&given, &[&credential_with(Injection::header(its, "").unwrap())])
                        .unwrap_err();
                assert_eq!(
                    error.to_string(),
                    format!("header {} belongs to the credential \"token\"", name.to_lowercase())
                );
            }
        }
        let given = [("X-Key".to_owned(), b"mine".to_vec())];
        assert!(
            accept(&given, &[&credential_with(Injection::header("authorization", "").unwrap())])
                .is_ok()
        );
        assert!(accept(&given, &[&credential_with(Injection::query("x-key").unwrap())]).is_ok());
    }

    fn credential_with(injection: Injection) -> Credential {
        Credential::new("token", Secret::new("value"), injection, Vec::new()).unwrap()
    }
}
