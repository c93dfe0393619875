//! Tests of the names and the pages that may send requests.

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
        "localhost:80:80",
        ":80",
        "[localhost]",
        "localhost@evil.example",
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
    let both = [HOST, ("origin", "https://ui.example:8443"), ("origin", "https://evil.example")];
    assert!(!is_let_in(LOCAL, &both));
}

#[test]
fn origins_are_checked_even_if_hosts_are_not() {
    let settings = Settings {
        listen: "0.0.0.0:0".parse().expect("an address"),
        require_virtual_key: true,
        ..settings()
    };
    for (origin, is_permitted) in [("https://any.example", true), ("https://other.example", false)]
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
        let mut headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
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
