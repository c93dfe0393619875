//! Rejects requests of web pages. A page in a browser can send requests to loopback addresses, and
//! can read the responses through a name that resolves to such an address (DNS rebinding). It
//! cannot forge `Host`, `Origin` and `Sec-Fetch-Site`.
//!
//! `Host` must be one of the gateway's names, which stops DNS rebinding. `Origin` must be the
//! gateway's own origin, port included, because every other port of this machine belongs to another
//! program; or it must be listed by the operator.
//!
//! No browser can open a Unix socket. A request through it may have any `Host`, and neither of the
//! other headers, which would be those of a page that some program passes on.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue, Uri, header, uri::Authority};

use super::Settings;
use airlock_http::{browser::FETCH_SITE, respond::ApiError};
use airlock_ingress::Ingress;
use airlock_strings::{MAX_EXCERPT_BYTES, cut};

/// Header in which a browser states what a request is for.
const FETCH_MODE: &str = "sec-fetch-mode";

/// Fails if `Host` is not one of the gateway's names, or if a page of another origin made the
/// browser send the request.
pub(super) fn check(
    settings: &Settings,
    ingress: Ingress,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(), ApiError> {
    check_host(settings, ingress, headers, uri)?;
    if matches!(ingress, Ingress::Socket(_)) { Ok(()) } else { check_page(settings, headers, uri) }
}

/// Fails as [`check`] does, but for a page of another origin that has led the browser to this one: by a
/// link, or by a redirect. Only for requests that change nothing by themselves.
pub(super) fn check_visit(
    settings: &Settings,
    ingress: Ingress,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(), ApiError> {
    check_host(settings, ingress, headers, uri)?;
    let is_visit = headers.get(FETCH_MODE).is_none_or(|mode| mode == "navigate");
    if is_visit && !headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    check(settings, ingress, headers, uri)
}

fn check_host(
    settings: &Settings,
    ingress: Ingress,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(), ApiError> {
    if matches!(ingress, Ingress::Socket(_)) {
        return check_socket(headers);
    }
    let checks_hosts = settings.listen.ip().is_loopback() || !settings.allowed_hosts.is_empty();
    if checks_hosts && !is_named(headers, uri, |host| is_allowed(settings, host)) {
        let valid = "a loopback name, the address of `listen` and the names in `allowed_hosts`";
        return Err(host_refused(headers, uri, valid));
    }
    Ok(())
}

/// Fails if `Host` is a name that a web page may have rebound to the gateway, and not an address, `localhost` or one of
/// `allowed_hosts`. For what is shown without a credential to programs of the gateway's own machine: over plain HTTP, a
/// browser sends neither `Origin` nor `Sec-Fetch-Site` with a GET request of such a page, so it looks like a program.
/// Beyond loopback and without `allowed_hosts`, [`check`] permits every `Host`.
pub(super) fn check_unbound(
    settings: &Settings,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<(), ApiError> {
    if is_named(headers, uri, |host| address(host).is_some() || is_allowed(settings, host)) {
        return Ok(());
    }
    let valid = "an address, `localhost` and the names in `allowed_hosts`, or any name with the token of an operator";
    Err(host_refused(headers, uri, valid))
}

/// Returns whether a request names the gateway, and `is_valid` holds for all the names.
fn is_named(headers: &HeaderMap, uri: &Uri, is_valid: impl Fn(&str) -> bool) -> bool {
    let is_named = headers.contains_key(header::HOST) || uri.authority().is_some();
    is_named && hosts(headers, uri).all(|host| host.is_some_and(|host| is_valid(host.host())))
}

fn host_refused(headers: &HeaderMap, uri: &Uri, valid: &str) -> ApiError {
    let sent = headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    let sent = sent.chain(uri.authority().map(|authority| authority.as_str().as_bytes()));
    ApiError::forbidden("host_not_allowed", format!("`Host` is {}; valid are {valid}", shown(sent)))
}

/// Iterates over the names by which a request names the gateway. HTTP/2 sends `:authority`. If a request has
/// both, both are checked.
fn hosts(headers: &HeaderMap, uri: &Uri) -> impl Iterator<Item = Option<Authority>> {
    let hosts =
        headers.get_all(header::HOST).iter().map(|host| Authority::try_from(host.as_bytes()).ok());
    hosts.chain(uri.authority().cloned().map(Some))
}

/// Fails if a page of another origin made the browser send the request.
fn check_page(settings: &Settings, headers: &HeaderMap, uri: &Uri) -> Result<(), ApiError> {
    let origins: Vec<&HeaderValue> = headers.get_all(header::ORIGIN).iter().collect();
    if !origins.is_empty() && origins.iter().all(|origin| is_listed(settings, origin)) {
        return Ok(());
    }
    // Programs send no `Origin`.
    let hosts: Vec<_> = if origins.is_empty() { Vec::new() } else { hosts(headers, uri).collect() };
    if !origins.iter().all(|origin| is_same(origin, &hosts)) {
        let message = format!(
            "`Origin` is {}; valid are the gateway's own origin, which is `Host` with its port, and those in `allowed_origins`",
            shown(origins.iter().map(|origin| origin.as_bytes())),
        );
        return Err(ApiError::forbidden("origin_not_allowed", message));
    }
    // A page's GET request carries no `Origin`, but every recent browser sends this header.
    let sites: Vec<&[u8]> = headers.get_all(FETCH_SITE).iter().map(HeaderValue::as_bytes).collect();
    if !sites.iter().all(|site| matches!(*site, b"same-origin" | b"none")) {
        let message = format!(
            "`Sec-Fetch-Site` is {}: a web page of another origin made this request; valid are \"same-origin\" and \"none\"",
            shown(sites.into_iter()),
        );
        return Err(ApiError::forbidden("origin_not_allowed", message));
    }
    Ok(())
}

/// Fails if a request through the Unix socket is that of a page, the gateway's own included.
fn check_socket(headers: &HeaderMap) -> Result<(), ApiError> {
    if headers.contains_key(header::ORIGIN) || headers.contains_key(FETCH_SITE) {
        let message = "a request through the Unix socket must have neither `Origin` nor `Sec-Fetch-Site`: web pages may not use it";
        return Err(ApiError::forbidden("origin_not_allowed", message));
    }
    Ok(())
}

/// Returns the values of a header for an error message, quoted and cut.
fn shown<'a>(values: impl Iterator<Item = &'a [u8]>) -> String {
    let values: Vec<_> = values.map(String::from_utf8_lossy).collect();
    if values.is_empty() {
        "missing".to_owned()
    } else {
        format!("{:?}", cut(values.join(", "), MAX_EXCERPT_BYTES))
    }
}

pub(super) fn is_listed(settings: &Settings, origin: &HeaderValue) -> bool {
    settings
        .allowed_origins
        .iter()
        .any(|allowed| allowed.as_bytes().eq_ignore_ascii_case(origin.as_bytes()))
}

/// Returns whether `origin` is the origin of all `hosts`. `null` equals no origin.
fn is_same(origin: &HeaderValue, hosts: &[Option<Authority>]) -> bool {
    let Ok(origin) = Uri::try_from(origin.as_bytes()) else { return false };
    let scheme_port = match origin.scheme_str() {
        Some("http") => 80,
        Some("https") => 443,
        _ => return false,
    };
    let Some(origin) = origin.authority() else { return false };
    // A `Host` without a port means the default port of the scheme. Only a proxy in front of the
    // gateway may know the scheme.
    let port = origin.port_u16().unwrap_or(scheme_port);
    !hosts.is_empty()
        && hosts.iter().all(|host| {
            host.as_ref().is_some_and(|host| {
                host.host().eq_ignore_ascii_case(origin.host())
                    && host.port_u16().unwrap_or(scheme_port) == port
            })
        })
}

fn is_allowed(settings: &Settings, host: &str) -> bool {
    let is_local = match address(host) {
        Some(address) => address.is_loopback() || address == settings.listen.ip(),
        None => host.eq_ignore_ascii_case("localhost"),
    };
    is_local || settings.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host))
}

/// Returns the address that a host is; `None` if it is a name.
fn address(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::tests::settings;
    use airlock_ingress::socket::SocketToken;

    fn is_let_in(listen: &str, sent: &[(&'static str, &str)]) -> bool {
        is_let_in_by(REMOTE, listen, sent)
    }

    fn is_let_in_by(ingress: Ingress, listen: &str, sent: &[(&'static str, &str)]) -> bool {
        let settings = Settings {
            listen: listen.parse().expect("an address"),
            allowed_hosts: vec!["Tools.example".to_owned()],
            allowed_origins: vec![
                "https://ui.example:8443".to_owned(),
                "https://chat.example".to_owned(),
            ],
            ..settings()
        };
        let sent = sent.iter().map(|(name, value)| (*name, value.as_bytes()));
        check(&settings, ingress, &headers(sent), &Uri::from_static("/health")).is_ok()
    }

    fn headers<'a>(sent: impl Iterator<Item = (&'static str, &'a [u8])>) -> HeaderMap {
        let sent = sent.map(|(name, value)| {
            let value = HeaderValue::from_bytes(value).expect("a good value");
            (header::HeaderName::from_static(name), value)
        });
        sent.collect()
    }

    /// Returns the message of a refused request.
    fn refusal(sent: &[(&'static str, &[u8])]) -> String {
        let headers = headers(sent.iter().copied());
        let refused = check(&settings(), REMOTE, &headers, &Uri::from_static("/"));
        let body = refused.expect_err("it is refused").into_body();
        body["error"]["message"].as_str().expect("a text").to_owned()
    }

    const REMOTE: Ingress =
        Ingress::Remote { address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), certificate: None };
    const LOCAL: &str = "127.0.0.1:0";
    const HOST: (&str, &str) = ("host", "localhost:8080");

    #[test]
    fn own_names_are_accepted_on_any_port() {
        for host in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:8080",
            "tools.example",
            "TOOLS.EXAMPLE:443",
        ] {
            assert!(is_let_in(LOCAL, &[("host", host)]), "{host}");
        }
        assert!(is_let_in("10.1.2.3:0", &[("host", "10.1.2.3:8080")]));
    }

    #[test]
    fn a_page_may_lead_a_browser_to_a_page_of_the_gateway_and_send_nothing() {
        for (sent, is_let_in) in [
            (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")][..], true),
            (&[("sec-fetch-site", "none")], true),
            (&[], true),
            (&[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], false),
            (&[("origin", "https://evil.example"), ("sec-fetch-mode", "navigate")], false),
        ] {
            let sent: Vec<_> = sent.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
            let own = [("host", b"localhost:8080".as_slice())];
            let headers = headers(own.into_iter().chain(sent.iter().copied()));
            let uri = Uri::from_static("/oauth/login/x");
            let visited = check_visit(&settings(), REMOTE, &headers, &uri);
            assert_eq!(visited.is_ok(), is_let_in, "{sent:?}");
        }
        let foreign = headers([("host", b"evil.example".as_slice())].into_iter());
        assert!(check_visit(&settings(), REMOTE, &foreign, &Uri::from_static("/")).is_err());
    }

    #[test]
    fn other_names_are_refused() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "tools.example.evil",
            "",
        ] {
            assert!(!is_let_in(LOCAL, &[("host", host)]), "{host}");
            assert!(
                !is_let_in(LOCAL, &[("host", host), ("origin", &format!("http://{host}"))]),
                "{host}"
            );
        }
        assert!(!is_let_in(LOCAL, &[]));
        assert!(!is_let_in("0.0.0.0:0", &[("host", "evil.example")]));
    }

    #[test]
    fn through_the_unix_socket_every_host_is_accepted_and_no_page() {
        for sent in [&[][..], &[("host", "evil.example")], &[("host", "")]] {
            assert!(is_let_in_by(Ingress::Socket(SocketToken::new("t")), LOCAL, sent), "{sent:?}");
        }
        for sent in [
            ("origin", "http://localhost:8080"),
            ("origin", "https://chat.example"),
            ("origin", "null"),
            ("sec-fetch-site", "same-origin"),
            ("sec-fetch-site", "none"),
        ] {
            assert!(
                !is_let_in_by(Ingress::Socket(SocketToken::new("t")), LOCAL, &[HOST, sent]),
                "{sent:?}"
            );
        }
    }

    #[test]
    fn an_origin_must_equal_the_host_with_its_port() {
        for (host, origin) in [
            ("localhost:8080", "http://localhost:8080"),
            ("localhost:8080", "http://LOCALHOST:8080"),
            ("localhost:8080", "https://localhost:8080"),
            ("[::1]:8080", "http://[::1]:8080"),
            ("tools.example", "https://tools.example"),
            ("tools.example", "https://tools.example:443"),
            ("tools.example:80", "http://tools.example"),
        ] {
            assert!(is_let_in(LOCAL, &[("host", host), ("origin", origin)]), "{host} {origin}");
        }
        for (host, origin) in [
            ("localhost:8080", "http://localhost:3000"),
            ("localhost:8080", "http://localhost"),
            ("localhost:8080", "http://127.0.0.1:8080"),
            ("localhost", "http://localhost:8080"),
            ("tools.example:80", "https://tools.example"),
            ("localhost:8080", "http://tools.example:8080"),
            ("localhost:8080", "https://evil.example"),
            ("localhost:8080", "null"),
            ("localhost:8080", ""),
            ("localhost:8080", "localhost:8080"),
            ("localhost:8080", "file://localhost:8080"),
        ] {
            assert!(!is_let_in(LOCAL, &[("host", host), ("origin", origin)]), "{host} {origin}");
        }
    }

    #[test]
    fn a_listed_origin_is_accepted_only_exactly_as_listed() {
        assert!(is_let_in(LOCAL, &[HOST, ("origin", "https://ui.example:8443")]));
        assert!(is_let_in(
            LOCAL,
            &[HOST, ("origin", "https://ui.example:8443"), (FETCH_SITE, "cross-site")]
        ));
        assert!(is_let_in(LOCAL, &[HOST, ("origin", "https://CHAT.example")]));
        for origin in [
            "http://ui.example:8443",
            "https://ui.example",
            "https://a.ui.example:8443",
            "https://chat.example.evil",
            "https://chat.example:8443",
            "https://chat.example/",
            "null",
        ] {
            assert!(!is_let_in(LOCAL, &[HOST, ("origin", origin)]), "{origin}");
        }
        let both =
            [HOST, ("origin", "https://ui.example:8443"), ("origin", "https://evil.example")];
        assert!(!is_let_in(LOCAL, &both));
    }

    #[test]
    fn origins_are_checked_even_if_hosts_are_not() {
        let settings = Settings {
            listen: "0.0.0.0:0".parse().expect("an address"),
            require_virtual_key: true,
            ..settings()
        };
        for (origin, is_permitted) in
            [("https://any.example", true), ("https://other.example", false)]
        {
            let sent = [(header::HOST, "any.example"), (header::ORIGIN, origin)];
            let sent = sent.map(|(name, value)| (name, HeaderValue::from_static(value)));
            let headers = sent.into_iter().collect();
            let checked = check(&settings, REMOTE, &headers, &Uri::from_static("/health"));
            assert_eq!(checked.is_ok(), is_permitted, "{origin}");
        }
    }

    #[test]
    fn a_name_that_may_be_rebound_is_refused_even_if_hosts_are_not_checked() {
        let mut settings = Settings {
            listen: "0.0.0.0:0".parse().expect("an address"),
            require_virtual_key: true,
            ..settings()
        };
        let uri = Uri::from_static("/metrics");
        for allowed_hosts in [&[][..], &["gw.example"]] {
            settings.allowed_hosts = allowed_hosts.iter().map(|&host| host.to_owned()).collect();
            for (host, is_permitted) in [
                ("localhost:8080", true),
                ("127.0.0.1:8080", true),
                ("10.1.2.3:8080", true),
                ("[::1]:8080", true),
                ("[fd00::7]", true),
                ("GW.example:8080", !allowed_hosts.is_empty()),
                ("evil.example:8080", false),
                ("10.1.2.3.evil.example", false),
                ("localhost.evil.example", false),
                ("[localhost]", false),
                ("", false),
            ] {
                let sent = headers([("host", host.as_bytes())].into_iter());
                let checked = check_unbound(&settings, &sent, &uri);
                assert_eq!(checked.is_ok(), is_permitted, "{host}");
            }
        }
        let none = HeaderMap::new();
        assert!(check_unbound(&settings, &none, &uri).is_err());
        let rebound = Uri::from_static("http://evil.example/metrics");
        let both = headers([("host", b"localhost".as_slice())].into_iter());
        for sent in [none, both] {
            assert!(check_unbound(&settings, &sent, &rebound).is_err(), "{sent:?}");
        }
    }

    #[test]
    fn a_cross_site_request_without_an_origin_is_refused() {
        for (site, expected) in [
            ("same-origin", true),
            ("none", true),
            ("same-site", false),
            ("cross-site", false),
            ("", false),
        ] {
            assert_eq!(is_let_in(LOCAL, &[HOST, (FETCH_SITE, site)]), expected, "{site}");
        }
        assert!(!is_let_in(
            LOCAL,
            &[HOST, ("origin", "http://localhost:8080"), (FETCH_SITE, "same-site")]
        ));
    }

    #[test]
    fn every_sent_host_is_checked() {
        for (host, origin, is_permitted) in [
            ("localhost:1", Some("http://localhost:1"), true),
            ("evil.example", None, false),
            ("localhost:2", Some("http://localhost:1"), false),
            ("localhost:2", Some("http://localhost:2"), false),
        ] {
            let mut headers =
                HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            headers.extend(origin.map(|origin| (header::ORIGIN, HeaderValue::from_static(origin))));
            let uri = Uri::from_static("http://localhost:1/health");
            let checked = check(&settings(), REMOTE, &headers, &uri);
            assert_eq!(checked.is_ok(), is_permitted, "{host} {origin:?}");
        }
    }

    #[test]
    fn a_refusal_quotes_the_refused_header() {
        insta::assert_snapshot!(
            refusal(&[("host", b"evil.example")]),
            @r#"`Host` is "evil.example"; valid are a loopback name, the address of `listen` and the names in `allowed_hosts`"#
        );
        assert!(refusal(&[]).starts_with("`Host` is missing; "));
        let host: (_, &[u8]) = ("host", b"localhost");
        insta::assert_snapshot!(
            refusal(&[host, ("origin", b"http://evil.example"), ("origin", b"null")]),
            @r#"`Origin` is "http://evil.example, null"; valid are the gateway's own origin, which is `Host` with its port, and those in `allowed_origins`"#
        );
        insta::assert_snapshot!(
            refusal(&[host, (FETCH_SITE, b"cross-site")]),
            @r#"`Sec-Fetch-Site` is "cross-site": a web page of another origin made this request; valid are "same-origin" and "none""#
        );
    }

    #[test]
    fn a_refusal_quotes_a_bounded_and_printable_part_of_a_header() {
        let hidden = [b"a\"\t", "\u{202e}\u{e0041}".as_bytes(), b"\xff"].concat();
        assert_eq!(quoted(&[&hidden]), r#""a\"\t\u{202e}\u{e0041}�""#);
        let longest = [b'x'; MAX_EXCERPT_BYTES];
        let longer = [b'x'; MAX_EXCERPT_BYTES + 1];
        assert_eq!(quoted(&[&longest]), format!("{:?}", "x".repeat(MAX_EXCERPT_BYTES)));
        let shown = format!("\"{}…\"", "x".repeat(MAX_EXCERPT_BYTES - 3));
        assert_eq!(quoted(&[&longer]), shown);
        assert_eq!(quoted(&[&longer[..]; 20]), shown);
    }

    fn quoted(values: &[&[u8]]) -> String {
        let sent: Vec<_> = values.iter().map(|value| ("host", *value)).collect();
        let message = refusal(&sent);
        let quoted = message.strip_prefix("`Host` is ").expect("it begins with the header");
        quoted.split_once("; valid are ").expect("it ends with the valid values").0.to_owned()
    }
}
