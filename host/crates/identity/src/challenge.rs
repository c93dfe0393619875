//! The header `WWW-Authenticate` (RFC 6750, section 3; RFC 9728, section 5.1).

use http::HeaderValue;

use crate::refusal::TokenRefusal;

/// Writes a challenge. It has no error if there is no refusal, which means that no token was sent.
pub(crate) fn challenge(
    metadata_url: &str,
    refusal: Option<&TokenRefusal>,
    scopes: &[String],
) -> HeaderValue {
    let mut parameters = vec![format!("resource_metadata={}", quoted(metadata_url))];
    if let Some(refusal) = refusal
        && let Some(code) = refusal.error()
    {
        parameters.push(format!("error={}", quoted(code)));
        parameters.push(format!("error_description={}", quoted(&refusal.to_string())));
    }
    if !scopes.is_empty() {
        parameters.push(format!("scope={}", quoted(&scopes.join(" "))));
    }
    HeaderValue::try_from(format!("Bearer {}", parameters.join(", ")))
        .expect("the parameters are visible ASCII")
}

/// Writes a quoted string of RFC 9110, section 5.6.4. Characters beyond printable ASCII become `?`.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ' '..='~' => quoted.push(character),
            _ => quoted.push('?'),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::refusal::InvalidToken;

    const URL: &str = "https://gw.example.com/.well-known/oauth-protected-resource/mcp";

    fn shown(refusal: Option<&TokenRefusal>, scopes: &[&str]) -> String {
        let scopes: Vec<_> = scopes.iter().map(|&scope| scope.to_owned()).collect();
        challenge(URL, refusal, &scopes).to_str().expect("ASCII").replace(", ", ",\n")
    }

    #[test]
    fn a_challenge_without_a_token_has_no_error() {
        insta::assert_snapshot!(shown(None, &[]), @r#"Bearer resource_metadata="https://gw.example.com/.well-known/oauth-protected-resource/mcp""#);
        insta::assert_snapshot!(shown(None, &["tools", "tools:write"]), @r#"
        Bearer resource_metadata="https://gw.example.com/.well-known/oauth-protected-resource/mcp",
        scope="tools tools:write"
        "#);
    }

    #[test]
    fn a_challenge_names_the_error_of_oauth() {
        insta::assert_snapshot!(shown(Some(&InvalidToken::Expired.into()), &["tools"]), @r#"
        Bearer resource_metadata="https://gw.example.com/.well-known/oauth-protected-resource/mcp",
        error="invalid_token",
        error_description="the access token is not valid: it has expired",
        scope="tools"
        "#);
        let refusal = TokenRefusal::Scope { required: vec!["tools".to_owned()] };
        insta::assert_snapshot!(shown(Some(&refusal), &["tools"]), @r#"
        Bearer resource_metadata="https://gw.example.com/.well-known/oauth-protected-resource/mcp",
        error="insufficient_scope",
        error_description="the access token lacks a required scope",
        scope="tools"
        "#);
    }

    #[test]
    fn every_description_has_only_the_characters_that_rfc_6750_permits() {
        for invalid in [
            InvalidToken::TooLong,
            InvalidToken::Malformed,
            InvalidToken::Algorithm,
            InvalidToken::Critical,
            InvalidToken::Type,
            InvalidToken::Key,
            InvalidToken::Signature,
            InvalidToken::Claim("exp"),
            InvalidToken::Issuer,
            InvalidToken::Audience,
            InvalidToken::Expired,
            InvalidToken::Early,
            InvalidToken::Bound,
        ] {
            let text = TokenRefusal::from(invalid).to_string();
            assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"'), "{text}");
            assert!(!text.contains('\\'), "{text}");
        }
    }

    #[test]
    fn quotes_and_line_ends_stay_inside_the_quoted_string() {
        assert_eq!(quoted("a\"b\\c"), r#""a\"b\\c""#);
        assert_eq!(quoted("a\r\nset-cookie: b\u{e9}\0"), r#""a??set-cookie: b??""#);
    }

    #[test]
    fn each_refusal_has_its_status_and_error() {
        for (refusal, status, error, retry_after) in [
            (InvalidToken::Key.into(), 401, Some("invalid_token"), None),
            (TokenRefusal::Scope { required: Vec::new() }, 403, Some("insufficient_scope"), None),
            (TokenRefusal::View, 403, None, None),
            (unavailable(0), 503, None, Some(1)),
            (unavailable(1000), 503, None, Some(1)),
            (unavailable(1001), 503, None, Some(2)),
        ] {
            assert_eq!(refusal.status(), status, "{refusal:?}");
            assert_eq!(refusal.error(), error, "{refusal:?}");
            assert_eq!(refusal.retry_after_s(), retry_after, "{refusal:?}");
        }
    }

    fn unavailable(millis: u64) -> TokenRefusal {
        TokenRefusal::Unavailable { retry_after: Duration::from_millis(millis) }
    }
}
