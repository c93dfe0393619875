//! The URL and the paths of a network request in a manifest: one spelling, in ASCII, so that the
//! JSON Schema of the section can state it. The gateway reads them once more, as rules.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum length of a URL or a pattern, in bytes, as in the schema: an operator reads it whole before the decision, and a
/// hostile manifest could have one of 256 KiB.
const MAX_BYTES: usize = 1 << 10;
/// Maximum length of a DNS name, without a final dot (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 253;
/// Maximum length of a part of a name (RFC 1035, section 2.3.4).
const MAX_LABEL: usize = 63;

/// Returns whether a text is a scheme, a host, and perhaps a port and a path without dot segments.
/// A host is a name, a pattern such as `*.example.com`, or an address.
pub(crate) fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest.filter(|_| text.len() <= MAX_BYTES) else { return false };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    is_authority(authority) && (path.is_empty() || is_path(path)) && !has_dot_segment(path)
}

/// Returns whether a text begins with `/` and has only characters that a path may have (RFC 3986,
/// section 3.3).
pub(crate) fn is_path(text: &str) -> bool {
    let mut parts = text.split('%');
    let first = parts.next().unwrap_or_default();
    let mut escaped = parts.map(str::as_bytes);
    text.len() <= MAX_BYTES
        && text.starts_with('/')
        && first.bytes().all(is_plain)
        && escaped.all(|part| match part {
            [high, low, rest @ ..] => {
                high.is_ascii_hexdigit()
                    && low.is_ascii_hexdigit()
                    && rest.iter().copied().all(is_plain)
            }
            _ => false,
        })
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._~!$&'()*+,;=:@-/".contains(&byte)
}

/// Describes the first defect of a text that is no URL.
pub(crate) fn defect(text: &str) -> &'static str {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest else { return "which does not begin with https:// or http://" };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (host, _) = authority.split_at(authority.rfind(':').unwrap_or(authority.len()));
    let is_bad_host = !is_authority(host) && !is_authority(authority);
    let defects = [
        (text.len() > MAX_BYTES, "which is longer than 1024 bytes"),
        (authority.is_empty(), "which has no host"),
        (authority.contains('@'), "which has a user or a password"),
        (is_bad_host && host.starts_with('*'), "whose host is not `*.` and a name with a dot"),
        (is_bad_host, "whose host is not a name or an address in ASCII"),
        (!is_authority(authority), "whose port is not a number from 1 to 65535"),
        (path.contains('?'), "which has a query"),
        (path.contains('#'), "which has a fragment"),
        (is_path(path), "whose path has a segment `.` or `..`"),
    ];
    let first = defects.into_iter().find(|(is_found, _)| *is_found);
    first.map_or("whose path has a character that must be escaped", |(_, defect)| defect)
}

fn is_authority(text: &str) -> bool {
    if let Some((address, port)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        return address.parse::<Ipv6Addr>().is_ok() && is_port(port);
    }
    let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
    let is_host = match host.strip_prefix("*.") {
        Some(name) => name.contains('.') && is_name(name),
        None => is_name(host) || host.parse::<Ipv4Addr>().is_ok(),
    };
    is_host && is_port(port)
}

/// Returns whether a text is empty, or a colon and a port from 1.
fn is_port(text: &str) -> bool {
    let port = text.strip_prefix(':').filter(|port| port.starts_with(|c: char| c.is_ascii_digit()));
    text.is_empty()
        || port.is_some_and(|port| !port.starts_with('0') && port.parse::<u16>().is_ok())
}

/// Returns whether a text is a name. One whose last label begins with a digit could be read as an
/// address.
fn is_name(text: &str) -> bool {
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= MAX_NAME
        && text.split('.').all(is_label)
        && last.starts_with(|c: char| c.is_ascii_alphabetic())
}

fn is_label(text: &str) -> bool {
    (1..=MAX_LABEL).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Returns whether a path has a segment `.` or `..`, also escaped or with parameters, which parsers
/// of URLs remove or servers resolve.
fn has_dot_segment(path: &str) -> bool {
    let path = path.to_ascii_lowercase().replace("%2e", ".").replace("%3b", ";");
    path.split('/').any(|segment| matches!(segment.split(';').next(), Some("." | "..")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_one_spelling_of_scheme_host_and_port() {
        for good in [
            "https://api.example.com",
            "http://localhost:8080/",
            "https://*.example.com/v1/a",
            "https://API.example.com/a;b/c%20d",
            "https://93.184.216.34:65535",
            "https://[2606:4700::1111]:8443/a",
            "https://xn--bcher-kva.de/~a/@b",
        ] {
            assert!(is_url(good), "{good}");
        }
        for bad in [
            "example.com",
            "HTTPS://example.com",
            "ftp://example.com",
            "https://",
            "https:///a",
            "https://*",
            "https://*.com",
            "https://example.com.",
            "https://a..example.com",
            "https://bücher.de",
            "https://1.2.3",
            "https://0x7f.1",
            "https://01.2.3.4",
            "https://[::1",
            "https://[fe80::1%25eth0]",
            "https://example.com:",
            "https://example.com:0",
            "https://example.com:080",
            "https://example.com:65536",
            "https://example.com:+80",
            "https://me@example.com",
            "https://example.com?q",
            "https://example.com/a?q",
            "https://example.com/#f",
            "https://example.com\\a",
            "https://example.com/a b",
            "https://example.com/a/../b",
            "https://example.com/%2E%2e;x/b",
        ] {
            assert!(!is_url(bad), "{bad}");
        }
        assert!(is_url(&long(1024)) && !is_url(&long(1025)));
    }

    fn long(bytes: usize) -> String {
        format!("https://example.com/{}", "a".repeat(bytes - 20))
    }

    #[test]
    fn the_defect_of_a_url_is_named() {
        for (bad, words) in [
            ("example.com", "does not begin with"),
            ("HTTPS://example.com", "does not begin with"),
            ("https://", "no host"),
            ("https:///a", "no host"),
            ("https://*.com", "`*.`"),
            ("https://*", "`*.`"),
            ("https://example.com.", "host is not a name"),
            ("https://bücher.de/a", "host is not a name"),
            ("https://[::1", "host is not a name"),
            ("https://example.com:0", "port"),
            ("https://[::1]:99999/a", "port"),
            ("https://me:pass@example.com", "user"),
            ("https://example.com?q", "query"),
            ("https://example.com/a?q", "query"),
            ("https://example.com/#f", "fragment"),
            ("https://example.com/a b", "escaped"),
            ("https://example.com/a/../b", "segment"),
        ] {
            assert!(!is_url(bad) && defect(bad).contains(words), "{bad}: {}", defect(bad));
        }
    }

    #[test]
    fn a_path_has_the_characters_of_a_path_and_whole_escapes() {
        for good in ["/", "/**", "/v1/*.json", "/a%2Ab/%C3%BC", "//", "/..a"] {
            assert!(is_path(good), "{good}");
        }
        for bad in ["", "a", "/a b", "/ü", "/a?b", "/a#b", "/a\\b", "/%", "/%2", "/%zz", "/\u{7f}"]
        {
            assert!(!is_path(bad), "{bad}");
        }
    }
}
