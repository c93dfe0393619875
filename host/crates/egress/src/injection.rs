//! Parts of a request that carry a credential.

use std::collections::BTreeSet;

use base64::engine::{Engine as _, general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use url::{Url, form_urlencoded};

use super::{
    credential::{BadCredential, MIN_BLOTTED_BYTES},
    headers,
};

/// Part of a request that carries a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Injection {
    /// A header, with a prefix before the value: `authorization` and `Bearer `.
    Header {
        /// The header.
        name: HeaderName,
        /// Text before the value.
        prefix: String,
    },
    /// The header `authorization`, as Basic authentication (RFC 7617).
    Basic {
        /// User whose password is the value. If it is empty, the value has both:
        /// `user:password`.
        user: String,
    },
    /// A parameter of the query.
    Query {
        /// The parameter's name.
        parameter: String,
    },
}

impl Injection {
    /// Puts the credential into a header, after `prefix`. Fails if the name is invalid or reserved
    /// for the host, if the prefix is not printable ASCII, or if it names a scheme that
    /// authenticates the connection instead of the request.
    pub fn header(name: &str, prefix: &str) -> Result<Self, BadCredential> {
        let parsed =
            HeaderName::try_from(name).ok().filter(|name| !headers::is_reserved(name.as_str()));
        let name = parsed.ok_or_else(|| BadCredential::Header { found: name.to_owned() })?;
        if !is_plain(prefix) {
            return Err(BadCredential::Prefix { found: prefix.to_owned() });
        }
        if name == header::AUTHORIZATION && headers::authenticates_the_connection(prefix.as_bytes())
        {
            return Err(BadCredential::Scheme);
        }
        Ok(Self::Header { name, prefix: prefix.to_owned() })
    }

    /// Sends the credential by Basic authentication, as the password of `user`. If `user` is empty,
    /// the credential's value is `user:password`. Fails if the user's name cannot be sent.
    pub fn basic(user: &str) -> Result<Self, BadCredential> {
        // A colon would end the name, and no character set is agreed on for others than ASCII (RFC
        // 7617, section 2).
        if user.contains(':') || !is_plain(user) {
            return Err(BadCredential::User { found: user.to_owned() });
        }
        Ok(Self::Basic { user: user.to_owned() })
    }

    /// Puts the credential into a parameter of the query. Fails if the parameter's name is empty.
    pub fn query(parameter: &str) -> Result<Self, BadCredential> {
        if parameter.is_empty() {
            return Err(BadCredential::Parameter);
        }
        Ok(Self::Query { parameter: parameter.to_owned() })
    }

    /// Fails if the value of the credential `name`, which is printable ASCII, cannot be sent here.
    pub(super) fn check(&self, name: &str, value: &str) -> Result<(), BadCredential> {
        match self {
            Self::Header { name: its, prefix }
                if *its == header::AUTHORIZATION
                    && headers::authenticates_the_connection(
                        format!("{prefix}{value}").as_bytes(),
                    ) =>
            {
                Err(BadCredential::Scheme)
            }
            Self::Basic { user } if user.is_empty() && !value.contains(':') => {
                Err(BadCredential::Pair { name: name.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// Returns the header that carries it; `None` if a query parameter does.
    pub(super) fn header_name(&self) -> Option<&HeaderName> {
        match self {
            Self::Header { name, .. } => Some(name),
            Self::Basic { .. } => Some(&header::AUTHORIZATION),
            Self::Query { .. } => None,
        }
    }

    /// Returns the part of the request that both would set; `None` if there is none.
    pub(super) fn conflict(&self, other: &Self) -> Option<String> {
        if let (Self::Query { parameter }, Self::Query { parameter: its }) = (self, other) {
            return (parameter == its).then(|| format!("query parameter {parameter}"));
        }
        let one = self.header_name()?;
        let other = other.header_name()?;
        headers::are_alike(one, other).then(|| format!("header {one}"))
    }

    /// Returns whether the URL already has its parameter.
    pub(super) fn is_in(&self, url: &Url) -> bool {
        matches!(self, Self::Query { parameter }
            if url.query_pairs().any(|(name, _)| name == parameter.as_str()))
    }

    /// Adds a value that was checked to the URL or the headers.
    pub(super) fn attach(&self, value: &str, url: &mut Url, headers: &mut HeaderMap) {
        let (name, text) = match self {
            Self::Header { name, prefix } => (name, format!("{prefix}{value}")),
            Self::Basic { user } => {
                (&header::AUTHORIZATION, format!("Basic {}", pair(user, value)))
            }
            Self::Query { parameter } => {
                url.query_pairs_mut().append_pair(parameter, value);
                return;
            }
        };
        let text = HeaderValue::try_from(text);
        let mut text = text.expect("prefix, user and value were found to be printable ASCII");
        text.set_sensitive(true);
        headers.insert(name.clone(), text);
    }

    /// Returns a query without the parameter that holds the value; `None` if it has none.
    pub(super) fn without(&self, value: &str, query: &str) -> Option<String> {
        let Self::Query { parameter } = self else { return None };
        let kept = query.split('&').filter(|piece| {
            !form_urlencoded::parse(piece.as_bytes())
                .any(|(name, its)| name == parameter.as_str() && its == value)
        });
        let kept: Vec<_> = kept.collect();
        (kept.len() < query.split('&').count()).then(|| kept.join("&"))
    }

    /// Returns the user and the password of a value that holds both, without those of less than
    /// [`MIN_BLOTTED_BYTES`]. Either may be the token: `me@example.com:TOKEN` or `TOKEN:x`.
    pub(super) fn parts<'v>(&self, value: &'v str) -> Vec<&'v str> {
        let is_pair = matches!(self, Self::Basic { user } if user.is_empty());
        let parts =
            value.split_once(':').filter(|_| is_pair).map(|(user, password)| [user, password]);
        let parts = parts.into_iter().flatten();
        parts.filter(|part| part.len() >= MIN_BLOTTED_BYTES).collect()
    }

    /// Returns the texts that show a value: the value, its parts, and what Basic authentication sends,
    /// with and without padding.
    pub(super) fn shown(&self, value: &str) -> BTreeSet<String> {
        let mut shown = BTreeSet::from([value.to_owned()]);
        shown.extend(self.parts(value).into_iter().map(str::to_owned));
        if let Self::Basic { user } = self {
            let pair = pair(user, value);
            shown.insert(pair.trim_end_matches('=').to_owned());
            shown.insert(pair);
        }
        shown
    }
}

/// Returns a user and a password as Basic authentication sends them.
fn pair(user: &str, value: &str) -> String {
    STANDARD.encode(if user.is_empty() { value.to_owned() } else { format!("{user}:{value}") })
}

/// Returns whether a text is printable ASCII.
pub(super) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attached(injection: &Injection, value: &str) -> String {
        let mut url = Url::parse("https://x.com/a?b=%63").unwrap();
        let mut headers = HeaderMap::new();
        injection.attach(value, &mut url, &mut headers);
        let header = headers.iter().map(|(name, value)| {
            assert!(value.is_sensitive());
            format!("{name}: {}", value.to_str().unwrap())
        });
        header.last().unwrap_or_else(|| url.to_string())
    }

    #[test]
    fn a_value_is_attached_to_its_header_or_query_parameter() {
        let bearer = Injection::header("Authorization", "Bearer ").unwrap();
        assert_eq!(attached(&bearer, "s3cret/&"), "authorization: Bearer s3cret/&");
        let query = Injection::query("api key").unwrap();
        assert_eq!(attached(&query, "s3cret/&"), "https://x.com/a?b=%63&api+key=s3cret%2F%26");
    }

    #[test]
    fn basic_authentication_sends_the_user_and_the_value_as_base64() {
        // The example of RFC 7617, section 2.
        let sent = "authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
        assert_eq!(attached(&Injection::basic("Aladdin").unwrap(), "open sesame"), sent);
        assert_eq!(attached(&Injection::basic("").unwrap(), "Aladdin:open sesame"), sent);
        let unreadable = ["a:b", ":", "caf\u{e9}", "a\nb"];
        for user in unreadable {
            assert!(Injection::basic(user).is_err(), "{user:?}");
        }
        insta::assert_snapshot!(Injection::basic("a:b").unwrap_err(), @r#"found the user "a:b", expected printable ASCII without a colon; leave it empty if the secret is "user:password""#);
        insta::assert_snapshot!(Injection::basic("").unwrap().check("token", "s3cret").unwrap_err(), @r#"the value of "token" must be "user:password", because `basic` names no user"#);
        assert!(Injection::basic("").unwrap().check("token", "s3cret:").is_ok());
        assert!(Injection::basic("me").unwrap().check("token", "s3cret").is_ok());
    }

    #[test]
    fn the_parts_of_a_pair_are_found_unless_they_are_short() {
        let both = Injection::basic("").unwrap();
        assert_eq!(both.parts("me:s3cret:value"), ["s3cret:value"]);
        assert_eq!(both.parts("s3cret-value:"), ["s3cret-value"]);
        assert_eq!(both.parts("12345678:1234567"), ["12345678"]);
        assert_eq!(both.parts("somebody:s3cret-value"), ["somebody", "s3cret-value"]);
        let none: [&str; 0] = [];
        assert_eq!(Injection::basic("me").unwrap().parts("12345678:12345678"), none);
        assert_eq!(Injection::query("key").unwrap().parts("12345678:12345678"), none);
    }

    #[test]
    fn injections_conflict_if_they_set_the_same_part_of_a_request() {
        let basic = Injection::basic("me").unwrap();
        for (one, other, part) in [
            (header("X-Key"), header("x_key"), Some("header x-key")),
            (header("authorization"), basic.clone(), Some("header authorization")),
            (basic.clone(), basic.clone(), Some("header authorization")),
            (query("key"), query("key"), Some("query parameter key")),
            (query("key"), query("Key"), None),
            (query("authorization"), basic, None),
            (header("x-key"), header("x-keys"), None),
        ] {
            assert_eq!(one.conflict(&other).as_deref(), part, "{one:?} {other:?}");
        }
    }

    fn header(name: &str) -> Injection {
        Injection::header(name, "").unwrap()
    }

    fn query(name: &str) -> Injection {
        Injection::query(name).unwrap()
    }

    #[test]
    fn only_the_parameter_that_holds_the_value_is_removed_from_a_query() {
        let query = Injection::query("key").unwrap();
        for (text, without) in [
            ("key=s3cret%2F", Some("")),
            ("a=%62&key=s3cret/&c", Some("a=%62&c")),
            ("a&k%65y=s3cret%2f&key=other", Some("a&key=other")),
            ("", None),
            ("a&&b", None),
        ] {
            assert_eq!(query.without("s3cret/", text).as_deref(), without, "{text}");
        }
        assert_eq!(Injection::basic("key").unwrap().without("a", "key=a"), None);
    }
}
