mod credentials;
mod limits;
mod logs;
mod names;
mod observed;
mod redirects;

use std::time::{Duration, Instant};

use airlock_core::{
    secret::Secret,
    tenant::{Pool, Tenant},
};
use airlock_test_http::{Answer, Server, ok, redirect, says};
use bytes::Bytes;

use self::{logs::Log, names::Names};
use super::*;

const LOCAL: &[&[&str]] = &[&["127.0.0.1"]];
const LONG: Duration = Duration::from_secs(20);

/// Opens a session with rules in which `PORT` stands for the server's port. `names` resolves the
/// names. The requested rules are those of one request, `web`.
fn session_with(names: &Arc<Names>, server: &Server, granted: &[&str], bounds: Bounds) -> Session {
    session(names, server, None, granted, Vec::new(), bounds, LONG)
}

fn session(
    names: &Arc<Names>,
    server: &Server,
    requested: Option<&[&str]>,
    granted: &[&str],
    credentials: Vec<Credential>,
    bounds: Bounds,
    time: Duration,
) -> Session {
    let requested = requested.map(|texts| [("web".to_owned(), rules(server, texts))].into());
    let policy = Policy::new(requested, rules(server, granted), bounds).unwrap();
    let egress = Egress::with_resolver(names.clone()).unwrap();
    egress.outlet("plugin", policy, Credentials::new(credentials).unwrap()).session(
        &Tenant::ANONYMOUS,
        &memory(),
        Instant::now() + time,
    )
}

/// A pool with more memory than any response needs.
fn memory() -> Pool {
    Pool::new(1 << 30, 3)
}

fn rules(server: &Server, texts: &[&str]) -> Vec<Rule> {
    texts
        .iter()
        .map(|text| text.replace("PORT", &server.address.port().to_string()).parse().unwrap())
        .collect()
}

fn get(url: &str) -> EgressRequest {
    EgressRequest { method: "GET".to_owned(), url: url.to_owned(), ..EgressRequest::default() }
}

fn post(url: &str, body: &'static str) -> EgressRequest {
    EgressRequest {
        method: "POST".to_owned(),
        body: Some(Bytes::from_static(body.as_bytes())),
        ..get(url)
    }
}

fn kind_of(result: Result<EgressResponse, EgressError>) -> (EgressErrorKind, bool) {
    let error = result.expect_err("it fails");
    (error.kind, error.request_sent)
}

#[tokio::test]
async fn a_permitted_request_and_its_response_are_forwarded_unchanged() {
    let server = Server::start(|_| {
        says("418 Teapot", "x-odd: 1\r\nX-Odd: 2\r\ncontent-encoding: gzip\r\n", "not gzip at all")
    })
    .await;
    let names = Names::new(&[("api.example.com", LOCAL)]);
    let session = session_with(
        &names,
        &server,
        &["http://api.example.com:PORT POST /v1/** private"],
        Bounds::PLUGIN,
    );
    let headers =
        vec![("X-Mine".to_owned(), b"a".to_vec()), ("x-mine".to_owned(), b"caf\xc3\xa9".to_vec())];
    let url = server.url("API.example.com.", "/v1/x/../%61%20%62%3b;?q=%2f#fragment");
    let response = session.send(EgressRequest { headers, ..post(&url, "body") }).await.unwrap();
    assert_eq!((response.status, response.body.as_slice()), (418, b"not gzip at all".as_slice()));
    let odd: Vec<_> = response
        .headers
        .iter()
        .filter(|(name, _)| name == "x-odd")
        .map(|(_, value)| value.as_slice())
        .collect();
    assert_eq!(odd, [b"1", b"2"]);
    assert_eq!(response.final_url, server.url("api.example.com", "/v1/a%20b%3B;?q=%2f"));
    let sent = &server.requests()[0];
    assert!(
        sent.starts_with("POST /v1/a%20b%3B;?q=%2f HTTP/1.1\r\nx-mine: a\r\nx-mine: café\r\n"),
        "{sent}"
    );
    assert!(
        sent.contains(&format!("host: api.example.com:{}\r\n", server.address.port())),
        "{sent}"
    );
    assert!(
        sent.contains("user-agent: airlock/")
            && sent.contains("content-length: 4\r\n")
            && sent.ends_with("\r\n\r\nbody"),
        "{sent}"
    );
    assert!(!sent.contains("accept-encoding") && !sent.contains("referer"), "{sent}");
}

#[tokio::test]
async fn a_denied_request_is_neither_resolved_nor_sent() {
    let server = Server::start(|_| ok("")).await;
    let names = Names::new(&[("a.example.com", LOCAL), ("b.example.com", LOCAL)]);
    let both = ["http://a.example.com:PORT GET /v1/** private"];
    let session = session(
        &names,
        &server,
        Some(&both),
        &["http://*.example.com:PORT GET,POST /** private"],
        Vec::new(),
        Bounds::PLUGIN,
        LONG,
    );
    let other_port = format!("http://a.example.com:{}/v1/x", server.address.port() ^ 1);
    for denied in [
        get(&server.url("b.example.com", "/v1/x")),
        get(&server.url("a.example.com", "/v2")),
        get(&server.url("a.example.com", "/v1/%2e%2e/v2")),
        get(&server.url("127.0.0.1", "/v1/x")),
        get(&other_port),
        post(&server.url("a.example.com", "/v1/x"), ""),
    ] {
        let error = session.send(denied).await.expect_err("it is refused");
        assert_eq!(
            (error.kind, error.request_sent, &*error.message),
            (EgressErrorKind::Denied, false, "the request is not permitted")
        );
    }
    assert_eq!((names.asked(), server.connections()), (Vec::new(), 0));
    session.send(get(&server.url("a.example.com", "/v1/x"))).await.expect("this one is permitted");
}

#[tokio::test]
async fn the_path_that_was_decided_on_is_sent() {
    let server = Server::start(|_| ok("")).await;
    let names = Names::new(&[("x.example.com", LOCAL)]);
    let granted = ["http://x.example.com:PORT GET /echo,/a;b,/c%3Bd private"];
    let session = session_with(&names, &server, &granted, Bounds::PLUGIN);
    for (path, sent) in [
        ("/%65cho", Some("/echo")),
        ("/x/%2E%2e/ec%68o", Some("/echo")),
        ("/%61;b", Some("/a;b")),
        ("/a%3bb", None),
        ("/c%3bd", Some("/c%3Bd")),
        ("/c;d", None),
        ("/echo%2f", None),
    ] {
        let from = server.requests().len();
        let result = session.send(get(&server.url("x.example.com", path))).await;
        let expected = sent.map(|sent| format!("GET {sent} HTTP/1.1"));
        let seen = server.requests()[from..].first().cloned();
        assert_eq!(
            seen.as_ref().and_then(|seen| seen.lines().next()),
            expected.as_deref(),
            "{path}"
        );
        assert_eq!(result.is_ok(), sent.is_some(), "{path}");
    }
}

#[tokio::test]
async fn an_address_beyond_the_reach_of_a_rule_is_denied_in_every_spelling() {
    let server = Server::start(|_| ok("")).await;
    let port = server.address.port();
    for (name, answer, granted) in [
        ("x.example.com", "127.0.0.1", "http://x.example.com:PORT GET /**"),
        ("x.example.com", "::ffff:127.0.0.1", "http://x.example.com:PORT GET /**"),
        ("x.example.com", "64:ff9b::7f00:1", "http://x.example.com:PORT GET /**"),
        ("x.example.com", "169.254.169.254", "http://x.example.com:PORT GET /** private"),
        ("x.example.com", "0.0.0.0", "http://x.example.com:PORT GET /** private"),
        ("2130706433", "", "http://127.0.0.1:PORT GET /**"),
        ("[::ffff:7f00:1]", "", "http://127.0.0.1:PORT GET /**"),
        ("[::1]", "", "http://[::1]:PORT GET /**"),
        ("169.254.169.254", "", "http://169.254.169.254:PORT GET /** private"),
        ("0", "", "http://0.0.0.0:PORT GET /** private"),
    ] {
        let answer: &[&str] = if answer.is_empty() { &[] } else { &[answer] };
        let names = Names::new(&[(name, &[answer])]);
        let session = session_with(&names, &server, &[granted], Bounds::PLUGIN);
        let result = session.send(get(&format!("http://{name}:{port}/"))).await;
        assert_eq!(kind_of(result), (EgressErrorKind::Denied, false), "{name} {answer:?}");
    }
    assert_eq!(server.connections(), 0);
    let session = session_with(
        &Names::new(&[]),
        &server,
        &["http://127.0.0.1:PORT GET /** private"],
        Bounds::PLUGIN,
    );
    session
        .send(get(&format!("http://2130706433:{port}/")))
        .await
        .expect("a private rule leads there");
}

#[tokio::test]
async fn a_private_address_needs_a_private_rule_on_both_sides() {
    let server = Server::start(|_| ok("")).await;
    let names = Names::new(&[("x.example.com", LOCAL)]);
    let public = "http://x.example.com:PORT GET /**";
    let private = "http://x.example.com:PORT GET /** private";
    for (requested, granted, fine) in
        [(private, private, true), (public, private, false), (private, public, false)]
    {
        let session = session(
            &names,
            &server,
            Some(&[requested]),
            &[granted],
            Vec::new(),
            Bounds::PLUGIN,
            LONG,
        );
        assert_eq!(
            session.send(get(&server.url("x.example.com", "/"))).await.is_ok(),
            fine,
            "{requested} {granted}"
        );
    }
}

#[tokio::test]
async fn the_addresses_of_a_name_are_checked_for_every_connection() {
    let server = Server::start(|_| says("200 OK", "connection: close\r\n", "")).await;
    let answers: &[&[&str]] =
        &[&["127.0.0.1"], &["169.254.169.254"], &["127.0.0.1", "169.254.169.254"], &["127.0.0.1"]];
    let names = Names::new(&[("x.example.com", answers)]);
    let session = session_with(
        &names,
        &server,
        &["http://x.example.com:PORT GET /** private"],
        Bounds::PLUGIN,
    );
    let url = server.url("x.example.com", "/");
    session.send(get(&url)).await.expect("the first answer is fine");
    assert_eq!(kind_of(session.send(get(&url)).await), (EgressErrorKind::Denied, false));
    assert_eq!(kind_of(session.send(get(&url)).await), (EgressErrorKind::Denied, false));
    session.send(get(&url)).await.expect("the last answer is fine");
    // Each request resolved the name once: the checked addresses are the dialled ones.
    assert_eq!((names.asked().len(), server.connections()), (4, 2));
}

#[tokio::test]
async fn a_connection_is_not_reused_after_a_body_that_the_server_may_ignore() {
    let server = Server::start(|_| ok("")).await;
    let names = Names::new(&[("x.example.com", LOCAL)]);
    let granted = ["http://x.example.com:PORT POST,DELETE /** private"];
    let session = session_with(&names, &server, &granted, Bounds::PLUGIN);
    let url = server.url("x.example.com", "/");
    for (method, body, connections) in
        [("POST", "GET /a", 1), ("DELETE", "", 1), ("DELETE", "GET /a", 1), ("POST", "GET /a", 2)]
    {
        let request = EgressRequest { method: method.to_owned(), ..post(&url, body) };
        session.send(request).await.expect("it is granted");
        assert_eq!(server.connections(), connections, "{method} {body}");
    }
}

#[tokio::test]
async fn callers_and_tenants_share_no_connection() {
    let server = Server::start(|_| ok("")).await;
    let egress = Egress::with_resolver(Names::new(&[("x.example.com", LOCAL)])).unwrap();
    let url = server.url("x.example.com", "/");
    let ann = Tenant::of_key([1; 32], "ann");
    let bob = Tenant::of_key([2; 32], "bob");
    for (caller, tenant, connections) in [
        ("one", &ann, 1),
        ("one", &ann, 1),
        ("one", &bob, 2),
        ("two", &ann, 3),
        ("one", &ann, 3),
        ("two", &ann, 3),
    ] {
        let granted = rules(&server, &["http://x.example.com:PORT POST /** private"]);
        let policy = Policy::new(None, granted, Bounds::PLUGIN).unwrap();
        let outlet = egress.outlet(caller, policy, Credentials::default());
        let session = outlet.session(tenant, &memory(), Instant::now() + LONG);
        session.send(post(&url, "GET /a")).await.expect("it is granted");
        assert_eq!(server.connections(), connections, "{caller} {tenant}");
    }
}

#[tokio::test]
async fn a_connection_of_a_private_rule_is_not_reused_by_a_public_rule() {
    let server = Server::start(|_| ok("")).await;
    let names = Names::new(&[("x.example.com", LOCAL)]);
    let granted =
        ["http://x.example.com:PORT GET /in private", "http://x.example.com:PORT GET /out"];
    let session = session_with(&names, &server, &granted, Bounds::PLUGIN);
    session.send(get(&server.url("x.example.com", "/in"))).await.expect("it is private");
    session.send(get(&server.url("x.example.com", "/in"))).await.expect("it is private");
    assert_eq!(
        kind_of(session.send(get(&server.url("x.example.com", "/out"))).await),
        (EgressErrorKind::Denied, false)
    );
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn connections_are_reused_for_named_hosts_and_not_for_wildcard_hosts() {
    for (host, connections) in [("x.example.com", 1), ("*.example.com", 2)] {
        let server = Server::start(|_| ok("")).await;
        let names = Names::new(&[("x.example.com", LOCAL)]);
        let session = session_with(
            &names,
            &server,
            &[&format!("http://{host}:PORT GET /** private")],
            Bounds::PLUGIN,
        );
        for _ in 0..2 {
            session.send(get(&server.url("x.example.com", "/"))).await.unwrap();
        }
        assert_eq!(server.connections(), connections, "{host}");
    }
}

#[tokio::test]
async fn a_request_that_could_be_read_as_two_is_refused() {
    let server = Server::start(|_| ok("")).await;
    let names = Names::new(&[("x.example.com", LOCAL)]);
    let session = session_with(
        &names,
        &server,
        &["http://x.example.com:PORT GET,POST /** private"],
        Bounds::PLUGIN,
    );
    let url = server.url("x.example.com", "/");
    let smuggled = "x\r\ncontent-length: 0\r\n\r\nGET /admin HTTP/1.1\r\nhost: x";
    for request in [
        EgressRequest {
            headers: vec![("x-a".to_owned(), smuggled.as_bytes().to_vec())],
            ..get(&url)
        },
        EgressRequest { headers: vec![(format!("x-a: {smuggled}"), b"".to_vec())], ..get(&url) },
        EgressRequest {
            headers: vec![("transfer-encoding".to_owned(), b"chunked".to_vec())],
            ..post(&url, "0\r\n\r\nGET /admin")
        },
        EgressRequest {
            headers: vec![("Content-Length".to_owned(), b"1".to_vec())],
            ..post(&url, "0GET /admin")
        },
        EgressRequest { method: format!("GET / HTTP/1.1\r\n{smuggled}"), ..get(&url) },
        get(&format!("{url}{smuggled}")),
        get(&format!("{url}%0d%0aGET%20/admin")),
        EgressRequest {
            body: Some(Bytes::from_static(b"GET /admin HTTP/1.1\r\n\r\n")),
            ..get(&url)
        },
    ] {
        assert_eq!(kind_of(session.send(request).await), (EgressErrorKind::InvalidRequest, false));
    }
    assert_eq!(server.connections(), 0);
    session
        .send(get(&format!("{url}?a=x%0d%0aGET%20/admin")))
        .await
        .expect("a query may hold it, encoded");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn transport_failures_are_reported_by_kind_and_without_addresses() {
    let server = Server::start(|path| match path {
        "/garbage" => Answer::Says("SSH-2.0-OpenSSH_9\r\n\r\n".to_owned()),
        "/cut" => Answer::Says(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 10\r\n\r\nabc".to_owned(),
        ),
        "/switch" => Answer::Says(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
                .to_owned(),
        ),
        _ => Answer::HangsUp,
    })
    .await;
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = gone.local_addr().unwrap().port();
    drop(gone);
    let names = Names::new(&[("x.example.com", LOCAL), ("empty.example.com", &[&[]])]);
    let nobody_rule = format!("http://x.example.com:{nobody} GET /** private");
    let granted = [
        "http://*.example.com:PORT GET /** private",
        "https://x.example.com:PORT GET /** private",
        nobody_rule.as_str(),
    ];
    let session = session_with(&names, &server, &granted, Bounds::PLUGIN);
    for (url, kind, sent) in [
        (server.url("unknown.example.com", "/"), EgressErrorKind::Dns, false),
        (server.url("empty.example.com", "/"), EgressErrorKind::Dns, false),
        (format!("http://x.example.com:{nobody}/"), EgressErrorKind::Connect, false),
        (server.url("x.example.com", "/hang-up"), EgressErrorKind::Protocol, true),
        (server.url("x.example.com", "/garbage"), EgressErrorKind::Protocol, true),
        (server.url("x.example.com", "/cut"), EgressErrorKind::Protocol, true),
        (server.url("x.example.com", "/switch"), EgressErrorKind::Protocol, true),
        (
            server.url("x.example.com", "/tls").replace("http:", "https:"),
            EgressErrorKind::Tls,
            false,
        ),
    ] {
        let error = session.send(get(&url)).await.expect_err(&url);
        // A server that closes the connection during the handshake may be reported as either kind.
        let told = if kind == EgressErrorKind::Tls && error.kind == EgressErrorKind::Connect {
            EgressErrorKind::Tls
        } else {
            error.kind
        };
        assert_eq!((told, error.request_sent), (kind, sent), "{url} {error}");
        assert!(!format!("{error} {error:?}").contains("127.0.0.1"), "{error:?}");
    }
}
