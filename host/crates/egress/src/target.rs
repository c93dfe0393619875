//! Target of a request: a URL in one canonical spelling. The policy decides on this spelling, and
//! the same spelling is sent.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};

use url::Url;

use super::path::{self, BadPath};

/// Maximum bytes of a URL, both as given and as sent: as many as servers take in a request line
/// (RFC 9110, section 4.1, recommends 8,000).
pub(super) const MAX_URL_BYTES: usize = 8 << 10;
/// Maximum bytes of a DNS name, without the final dot (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 253;
/// Maximum bytes of a label of a DNS name (RFC 1035, section 2.3.4).
const MAX_LABEL: usize = 63;

/// Host of a URL: the part between `://` and the port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Host {
    /// A name: lower case, punycode, without a final dot.
    Name(String),
    /// An address. An IPv4-mapped IPv6 address (`::ffff:0:0/96`) is stored as IPv4.
    Address(IpAddr),
}

/// Reason that a text cannot be the URL of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadTarget {
    #[error("the URL has more than {MAX_URL_BYTES} bytes")]
    TooLong,
    #[error("the URL holds a control character")]
    Control,
    #[error("the URL cannot be read: {0}")]
    Url(#[from] url::ParseError),
    #[error("the URL must begin with https:// or http://")]
    Scheme,
    #[error("the URL must not hold a user or a password")]
    User,
    #[error("the URL's host is neither a name nor an address")]
    Host,
    #[error("the URL's port must not be 0")]
    Port,
    #[error("the URL's path holds {0}")]
    Path(#[from] BadPath),
}

/// Target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    url: Url,
    host: Host,
    port: u16,
    segments: Vec<String>,
}

impl Target {
    /// Parses an absolute URL. Its fragment is dropped.
    pub(super) fn parse(text: &str) -> Result<Self, BadTarget> {
        if text.len() > MAX_URL_BYTES {
            return Err(BadTarget::TooLong);
        }
        // `Url` removes some control characters, so the parsed URL would differ from the given
        // text.
        if text.contains(char::is_control) {
            return Err(BadTarget::Control);
        }
        Self::from_url(Url::parse(text)?)
    }

    /// Parses the location of a redirect, relative to this URL.
    pub(super) fn join(&self, location: &str) -> Result<Self, BadTarget> {
        if location.len() > MAX_URL_BYTES {
            return Err(BadTarget::TooLong);
        }
        Self::from_url(self.url.join(location)?)
    }

    fn from_url(mut url: Url) -> Result<Self, BadTarget> {
        if !matches!(url.scheme(), "https" | "http") {
            return Err(BadTarget::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(BadTarget::User);
        }
        url.set_fragment(None);
        let host = Host::from_url(&url).ok_or(BadTarget::Host)?;
        // The request and the check of the certificate use the same name as the policy decision.
        url.set_host(Some(&host.to_string()))?;
        let segments = path::segments(url.path())?;
        // Sent as it was decided on: the server reads the same characters as the policy.
        let path = path::normalized(url.path())?;
        url.set_path(&path);
        let port = url.port_or_known_default().filter(|port| *port != 0).ok_or(BadTarget::Port)?;
        if url.as_str().len() > MAX_URL_BYTES {
            return Err(BadTarget::TooLong);
        }
        Ok(Self { url, host, port, segments })
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Replaces the query. No policy decision depends on it.
    pub(super) fn set_query(&mut self, query: Option<&str>) {
        self.url.set_query(query);
    }

    pub(super) fn scheme(&self) -> &str {
        self.url.scheme()
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// Returns scheme, host and port, which are the beginning of a rule's text.
    pub(super) fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the path, decoded once and split into segments.
    pub(super) fn segments(&self) -> &[String] {
        &self.segments
    }

    /// Returns whether both have the same scheme, host and port.
    pub(super) fn same_origin(&self, other: &Self) -> bool {
        self.scheme() == other.scheme() && self.host == other.host && self.port == other.port
    }
}

impl Host {
    /// Returns the host of a URL; `None` if it has no host that a request can be sent to.
    pub(super) fn from_url(url: &Url) -> Option<Self> {
        match url.host()? {
            url::Host::Ipv4(address) => Some(Self::Address(address.into())),
            url::Host::Ipv6(address) => Some(Self::Address(IpAddr::V6(address).to_canonical())),
            url::Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(name);
                is_name(name).then(|| Self::Name(name.to_owned()))
            }
        }
    }
}

/// Returns whether a text is a valid name. `Url` accepts more characters, such as `*` and `$`,
/// which could not be distinguished from the text of a rule.
fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME && name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    (1..=MAX_LABEL).contains(&label.len())
        && label
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => bracketed(*address, f),
        }
    }
}

/// Writes an address as it appears in URLs. `Url` prints addresses that carry IPv4 in hexadecimal,
/// the standard library does not; a single spelling is enough.
fn bracketed(address: Ipv6Addr, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{}", url::Host::<&str>::Ipv6(address))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sent(text: &str) -> String {
        Target::parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).url.to_string()
    }

    #[test]
    fn every_spelling_of_a_host_becomes_one() {
        for (spellings, sent_as) in [
            (
                "https://API.Example.com https://api.example.com. https://api%2Eexample.com https://api。example.com",
                "https://api.example.com/",
            ),
            (
                "https://api.example.com:443/ https:\\\\api.example.com\\",
                "https://api.example.com/",
            ),
            (
                "http://b%C3%BCcher.de http://bücher.de http://BÜCHER.de http://xn--bcher-kva.de",
                "http://xn--bcher-kva.de/",
            ),
            (
                "http://127.0.0.1 http://2130706433 http://0x7f.1 http://0177.0.0.1 http://127.1 http://127.0.0.1.",
                "http://127.0.0.1/",
            ),
            (
                "http://[::ffff:127.0.0.1] http://[::ffff:7f00:1] http://①②⑦.0.0.1 http://0x7f000001:80",
                "http://127.0.0.1/",
            ),
            ("http://[0:0:0:0:0:0:0:1] http://[::1] http://[::0.0.0.1]", "http://[::1]/"),
        ] {
            for spelling in spellings.split(' ') {
                assert_eq!(sent(spelling), sent_as, "{spelling}");
            }
        }
    }

    #[test]
    fn the_sent_url_and_the_decided_segments_agree() {
        for (text, url, segments) in [
            ("https://h.example/a/../b/./c", "https://h.example/b/c", "b|c"),
            ("https://h.example/a/%2e%2E/b", "https://h.example/b", "b"),
            ("https://h.example/a\\..\\b", "https://h.example/b", "b"),
            ("https://h.example/../../etc", "https://h.example/etc", "etc"),
            ("https://h.example/a b?c d#e", "https://h.example/a%20b?c%20d", "a b"),
            ("https://h.example//a/", "https://h.example//a/", "|a|"),
            ("https://h.example/%61%7e", "https://h.example/a~", "a~"),
            ("https://h.example/[a]|%5b", "https://h.example/%5Ba%5D%7C%5B", "[a]|["),
            ("https://h.example/a%2cb,c?%61", "https://h.example/a%2Cb,c?%61", "a,b,c"),
            ("https://h.example", "https://h.example/", ""),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!(target.url.as_str(), url, "{text}");
            assert_eq!(target.segments.join("|"), segments, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_path_on_the_wire_is_the_path_of_the_decision(path in "/([ab./;,*:@|é\"\\\\%]|%[0-9a-fA-F]{2}|%2[eE]){0,16}") {
            if let Ok(target) = Target::parse(&format!("https://h.example{path}")) {
                let wire = target.url.path();
                prop_assert_eq!(path::normalized(wire), Ok(wire.to_owned()));
                // A decision does not tell `,` and `*` from their escapes.
                prop_assert_eq!(path::written(&target.segments), wire.replace(',', "%2C").replace('*', "%2A"));
                prop_assert_eq!(Target::parse(target.url.as_str()), Ok(target.clone()));
                // A location that begins with `//` begins with a host.
                let joined = Target::parse("https://h.example/x/y").unwrap().join(wire);
                prop_assert!(wire.starts_with("//") || joined == Ok(target));
            }
        }
    }

    #[test]
    fn invalid_request_urls_are_refused() {
        for (text, error) in [
            ("ftp://h.example/", BadTarget::Scheme),
            ("file:///etc/passwd", BadTarget::Scheme),
            ("javascript:alert(1)", BadTarget::Scheme),
            ("/relative", BadTarget::Url(url::ParseError::RelativeUrlWithoutBase)),
            ("https://", BadTarget::Url(url::ParseError::EmptyHost)),
            ("https://user@h.example/", BadTarget::User),
            ("https://:password@h.example/", BadTarget::User),
            ("https://good.example%40evil.example/", BadTarget::Url(url::ParseError::IdnaError)),
            ("https://good.example@evil.example/", BadTarget::User),
            ("https://*.h.example/", BadTarget::Host),
            ("https://h..example/", BadTarget::Host),
            ("https://h.example../", BadTarget::Host),
            ("https://a$b.example/", BadTarget::Host),
            ("https://h.example:0/", BadTarget::Port),
            ("https://h.example:65536/", BadTarget::Url(url::ParseError::InvalidPort)),
            ("https://1.2.3.4.5/", BadTarget::Url(url::ParseError::InvalidIpv4Address)),
            ("https://256.0.0.1/", BadTarget::Url(url::ParseError::InvalidIpv4Address)),
            ("https://[fe80::1%25eth0]/", BadTarget::Url(url::ParseError::InvalidIpv6Address)),
            ("https://h.exa\nmple/", BadTarget::Control),
            ("https://h.example/\r\nhost: x", BadTarget::Control),
            ("https://h.example/%0d%0a", BadTarget::Path(BadPath::Control)),
            ("https://h.example/a%2f..%2fb", BadTarget::Path(BadPath::Slash)),
        ] {
            assert_eq!(Target::parse(text), Err(error), "{text}");
        }
        let long = format!("https://{}.example/", "a".repeat(64));
        assert_eq!(Target::parse(&long), Err(BadTarget::Host));
    }

    #[test]
    fn the_length_of_a_url_is_limited_before_and_after_parsing() {
        assert!(of_length(MAX_URL_BYTES, 'a').is_ok());
        assert_eq!(of_length(MAX_URL_BYTES + 1, 'a'), Err(BadTarget::TooLong));
        assert_eq!(of_length(MAX_URL_BYTES, 'é'), Err(BadTarget::TooLong));
        let here = Target::parse("https://h.example/").unwrap();
        assert_eq!(here.join(&"a".repeat(MAX_URL_BYTES + 1)), Err(BadTarget::TooLong));
    }

    fn of_length(bytes: usize, with: char) -> Result<Target, BadTarget> {
        let head = "https://h.example/";
        let tail = with.to_string().repeat((bytes - head.len()) / with.len_utf8());
        Target::parse(&format!("{head}{tail}"))
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let here = origin("https://h.example/a");
        for same in ["https://H.example:443/b", "https://h.example./"] {
            assert!(here.same_origin(&origin(same)), "{same}");
        }
        for other in [
            "http://h.example/a",
            "https://x.h.example/a",
            "https://h.example:444/a",
            "http://h.example:443/a",
        ] {
            assert!(!here.same_origin(&origin(other)), "{other}");
        }
    }

    fn origin(text: &str) -> Target {
        Target::parse(text).unwrap()
    }
}
