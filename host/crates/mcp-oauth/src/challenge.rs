//! Reads the challenge of a server that refuses a request (RFC 6750, section 3).

use http::{HeaderMap, StatusCode, header};
use reqwest::Url;
use rmcp::transport::auth::WWWAuthenticateParams;

use super::tokens::scopes;

/// Maximum values of the header `WWW-Authenticate` that are read: a server has one for each
/// scheme, and HTTP/2 bounds the number of headers by their size alone.
const MAX_VALUES: usize = 8;
/// Maximum length of such a value, in bytes: twice the longest list of scopes.
const MAX_VALUE_BYTES: usize = 8 << 10;

/// Demand of a server that refuses a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    /// Another token.
    Token,
    /// A token with these scopes, separated by spaces; empty if the server names none.
    Scopes(String),
}

impl Challenge {
    /// Reads the demand of a response; `None` if it is not about the token.
    pub fn read(status: StatusCode, headers: &HeaderMap, server: &Url) -> Option<Self> {
        match status {
            StatusCode::UNAUTHORIZED => Some(Self::Token),
            StatusCode::FORBIDDEN => values(headers)
                .map(|value| WWWAuthenticateParams::parse(value, server))
                .find(WWWAuthenticateParams::is_insufficient_scope)
                .map(|params| Self::Scopes(scopes([params.scope.as_deref().unwrap_or_default()]))),
            _ => None,
        }
    }
}

/// Returns the value that begins a login: one that names the metadata of the resource, else the
/// first.
pub(super) fn first(headers: &HeaderMap) -> Option<&str> {
    let named = values(headers).find(|value| value.contains("resource_metadata"));
    named.or_else(|| values(headers).next())
}

fn values(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::WWW_AUTHENTICATE).into_iter().take(MAX_VALUES);
    values.filter_map(|value| value.to_str().ok()).filter(|value| value.len() <= MAX_VALUE_BYTES)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(status: u16, values: &[&str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::try_from(*value).expect("a header");
            headers.append(header::WWW_AUTHENTICATE, value);
        }
        let server = Url::parse("https://mcp.example.com/mcp").expect("a URL");
        Challenge::read(StatusCode::from_u16(status).expect("a status"), &headers, &server)
    }

    #[test]
    fn a_refusal_asks_for_a_token_or_for_scopes_or_for_neither() {
        assert_eq!(read(401, &[]), Some(Challenge::Token));
        let insufficient = r#"Bearer error="insufficient_scope", scope="read write""#;
        let scopes = Some(Challenge::Scopes("read write".to_owned()));
        assert_eq!(read(403, &["Basic realm=x", insufficient]), scopes);
        let none = Some(Challenge::Scopes(String::new()));
        assert_eq!(read(403, &["Bearer error=insufficient_scope"]), none);
        assert_eq!(read(403, &[r#"Bearer error="invalid_token""#]), None);
        assert_eq!((read(403, &[]), read(200, &[insufficient])), (None, None));
    }

    #[test]
    fn a_long_header_and_many_headers_are_not_read() {
        let fits = scope(MAX_VALUE_BYTES);
        assert!(fits.len() <= MAX_VALUE_BYTES && read(403, &[&fits]).is_some());
        assert_eq!(read(403, &[&scope(MAX_VALUE_BYTES + 4)]), None);
        let mut many = vec!["Basic"; MAX_VALUES - 1];
        many.push("Bearer error=insufficient_scope");
        assert!(read(403, &many).is_some());
        many.insert(0, "Basic");
        assert_eq!(read(403, &many), None);
    }

    /// Returns a header of about so many bytes.
    fn scope(length: usize) -> String {
        let head = "Bearer error=\"insufficient_scope\", scope=\"";
        format!("{head}{}\"", "x ".repeat((length - head.len() - 1) / 2))
    }
}
