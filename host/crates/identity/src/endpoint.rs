//! The URLs that trust depends on: of the issuer, of its keys and of this gateway.

use url::{Host, Url};

/// Maximum bytes of a URL: as many as every browser takes. The issuer names one, that of its keys.
const MAX_BYTES: usize = 2048;

/// Parses a URL that is safe to depend on: `https` (`http` only for this machine), without user,
/// password and fragment.
pub(crate) fn endpoint(text: &str) -> Option<Url> {
    // `Url` drops white space and turns `\` into `/`: then the text and the URL name two places.
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !br#""\<>"#.contains(&byte));
    let url = Url::parse(text).ok().filter(|_| plain && text.len() <= MAX_BYTES)?;
    let safe = match url.scheme() {
        "https" => true,
        "http" => is_loopback(&url),
        _ => false,
    };
    let anonymous = url.username().is_empty() && url.password().is_none();
    (safe && anonymous && url.host().is_some() && url.fragment().is_none()).then_some(url)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_safe_url_is_https_or_on_this_machine() {
        for text in [
            "https://idp.example.com",
            "https://idp.example.com:8443/realms/a?p=1",
            "http://localhost:8080/realms/a",
            "http://127.0.0.1:1/",
            "http://127.9.9.9",
            "http://[::1]:1/",
        ] {
            assert!(endpoint(text).is_some(), "{text}");
        }
    }

    #[test]
    fn an_unsafe_url_is_refused() {
        for text in [
            "",
            "idp.example.com",
            "http://idp.example.com",
            "http://10.0.0.1/",
            "http://127.0.0.1.example.com/",
            "http://localhost.example.com/",
            "http://[::ffff:127.0.0.1]/",
            "ftp://localhost/",
            "file:///etc/keys.json",
            "data:application/json,{}",
            "https://user@idp.example.com/",
            "https://user:pass@idp.example.com/",
            "https://:pass@idp.example.com/",
            "https://idp.example.com/#keys",
            "https://idp.example.com/#",
            " https://idp.example.com",
            "https://idp.example.com\n",
            "https://idp.exa\tmple.com",
            "https:\\\\idp.example.com",
            "https://idp.example.com/\"",
            "https://idp.exämple.com/",
        ] {
            assert!(endpoint(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_url_may_have_2048_bytes_and_no_more() {
        assert!(endpoint(&url_of(2048)).is_some());
        assert!(endpoint(&url_of(2049)).is_none());
    }

    fn url_of(bytes: usize) -> String {
        format!("https://a/{}", "x".repeat(bytes - "https://a/".len()))
    }
}
