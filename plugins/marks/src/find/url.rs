//! URLs of images and links that carry data in their query to another host.

/// Length from which a value in the query of an image is data.
const LONG: usize = 32;
/// Maximum number of hosts that are taken from arguments. Each URL in a result is compared with all of them, and one to a
/// further host is a mark.
const MAX_HOSTS: usize = 16;
/// Bytes of the arguments in which hosts are looked for. Arguments may have 1 MiB, in which 100,000 URLs of the same host
/// would each be compared with all.
const MAX_ARGUMENTS: usize = 64 << 10;
/// Characters of a place that a model is to fill with data, also in percent-encoding.
const PLACEHOLDERS: [&str; 10] = ["{", "}", "<", ">", "[", "]", "$", "%7b", "%3c", "\u{2026}"];

/// Returns whether the query of a URL carries data to a host that is none of `hosts`: a value is left open at the end, has
/// a place to fill, or is long and the URL is one that is loaded without a click.
pub(super) fn carries_data(url: &str, is_loaded: bool, hosts: &[String]) -> bool {
    let Some(rest) = after_scheme(url) else { return false };
    let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
    let host = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    let Some((_, query)) = rest.split_once('?') else { return false };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    if hosts.iter().any(|own| is_within(host, own)) {
        return false;
    }
    if query.ends_with('=') {
        return true;
    }
    query.split('&').any(|pair| {
        let value = pair.split_once('=').map_or(pair, |(_, value)| value);
        (is_loaded && value.len() >= LONG) || has_placeholder(value)
    })
}

fn after_scheme(url: &str) -> Option<&str> {
    ["https://", "http://", "//"].iter().find_map(|scheme| {
        let start = url.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| &url[scheme.len()..])
    })
}

/// Returns whether a host is another one, or below it.
fn is_within(host: &str, own: &str) -> bool {
    let Some(start) = host.len().checked_sub(own.len()) else { return false };
    let is_end = host.get(start..).is_some_and(|end| end.eq_ignore_ascii_case(own));
    is_end && (start == 0 || host.as_bytes()[start - 1] == b'.')
}

fn has_placeholder(value: &str) -> bool {
    PLACEHOLDERS.iter().any(|place| match place.strip_prefix('%') {
        Some(code) => value.split('%').skip(1).any(|escape| {
            escape.get(..code.len()).is_some_and(|found| found.eq_ignore_ascii_case(code))
        }),
        None => value.contains(*place),
    })
}

/// Returns the hosts of the URLs in the arguments of a call: a result may refer to them.
pub(crate) fn hosts(arguments: &str) -> Vec<String> {
    let mut hosts: Vec<String> = Vec::new();
    for (at, separator) in arguments.match_indices("://") {
        if at > MAX_ARGUMENTS || hosts.len() == MAX_HOSTS {
            break;
        }
        let rest = &arguments[at + separator.len()..];
        let length = rest.bytes().take(253).take_while(|byte| is_in_host(*byte)).count();
        let host = &rest[..length];
        if host.contains('.') && !hosts.iter().any(|known| known == host) {
            hosts.push(host.to_owned());
        }
    }
    hosts
}

fn is_in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_in_the_query_of_another_host_is_found() {
        let long = format!("https://e.example/p.png?d={}", "a".repeat(LONG));
        for url in [
            "https://e.example/?q=",
            "HTTPS://e.example/x.png?a=1&q=",
            "//e.example/?q={conversation}",
            "http://user@e.example:80?q=%7Bdata%7D",
            "https://e.example/?[the notes]",
            "https://e.example/?q=$NOTES#x",
            long.as_str(),
        ] {
            assert!(carries_data(url, true, &[]), "{url}");
            assert_eq!(carries_data(url, false, &[]), url != long, "{url}");
            assert!(!carries_data(url, true, &["e.example".to_owned()]), "{url}");
        }
    }

    #[test]
    fn ordinary_urls_carry_no_data() {
        for url in [
            "https://img.example/badge/build-passing.svg?style=flat&branch=main",
            "https://example.com/watch?v=dQw4w9WgXcQ",
            "https://example.com/a#b?c=",
            "https://example.com/{id}",
            "/search?q=",
            "data:image/png;base64,AAAA?q=",
            "https://example.com/?",
            "é",
        ] {
            assert!(!carries_data(url, true, &[]), "{url}");
        }
    }

    #[test]
    fn a_host_of_the_arguments_has_its_subdomains_and_no_other_host() {
        let own =
            hosts(r#"{"url":"https://Example.com/a?b=http://b.example/","n":"x://localhost/"}"#);
        assert_eq!(own, ["Example.com", "b.example"]);
        assert!(!carries_data("https://cdn.example.com/?q=", true, &own));
        for host in ["evilexample.com", "example.com.e.example", "example.co"] {
            assert!(carries_data(&format!("https://{host}/?q="), true, &own), "{host}");
        }
    }
}
