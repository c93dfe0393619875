use super::*;

const VALUE: &str = "s3cret/value&more";
const BOTH: [&str; 2] = [
    "http://a.example.com:PORT GET,POST /** private",
    "http://b.example.com:PORT GET,POST /** private",
];

/// Opens a session with the credentials `header`, `query` and `basic`, all for `a.example.com` below
/// `/for/`.
fn with_credentials(server: &Server) -> Session {
    let credentials = [
        ("header", Injection::header("Authorization", "Bearer ").unwrap()),
        ("query", Injection::query("api_key").unwrap()),
        ("basic", Injection::basic("me").unwrap()),
    ]
    .map(|(name, injection)| {
        let audience = rules(server, &["http://a.example.com:PORT GET /for/**"]);
        Credential::new(name, Secret::new(VALUE), injection, audience).unwrap()
    });
    let names = Names::new(&[("a.example.com", LOCAL), ("b.example.com", LOCAL)]);
    session(&names, server, None, &BOTH, credentials.into(), Bounds::PLUGIN, LONG)
}

/// Builds a request with the credentials `name`, separated by spaces.
fn using(name: &str, url: &str) -> EgressRequest {
    let credentials = name.split_whitespace().map(str::to_owned).collect();
    EgressRequest { credentials, ..get(url) }
}

#[tokio::test]
async fn a_credential_is_attached_by_name_and_redacted_from_the_response() {
    // A server that returns all that it was sent, as a debugging page does.
    let server = Server::start(|path| {
        says("200 OK", &format!("x-echo: {path}\r\n"), &format!("{path} {VALUE}"))
    })
    .await;
    let session = with_credentials(&server);
    for (name, expected) in [
        ("header", "authorization: Bearer s3cret/value&more\r\n"),
        ("query", "GET /for/x?a=%62&api_key=s3cret%2Fvalue%26more HTTP/1.1\r\n"),
        // `printf 'me:s3cret/value&more' | base64`
        ("basic", "authorization: Basic bWU6czNjcmV0L3ZhbHVlJm1vcmU=\r\n"),
    ] {
        let response =
            session.send(using(name, &server.url("a.example.com", "/for/x?a=%62"))).await.unwrap();
        let sent = server.requests().pop().unwrap();
        assert!(sent.contains(expected), "{sent}");
        assert_eq!(response.final_url, server.url("a.example.com", "/for/x?a=%62"));
        let shown = format!("{response:?} {}", String::from_utf8_lossy(&response.body));
        assert!(!shown.contains("s3cret") && shown.contains("*****************"), "{shown}");
    }
}

#[tokio::test]
async fn several_credentials_are_attached_to_one_request_if_they_set_different_parts() {
    let server = Server::start(|_| ok("")).await;
    let session = with_credentials(&server);
    let url = server.url("a.example.com", "/for/x");
    session.send(using("query basic", &url)).await.expect("both are for it");
    let sent = server.requests().pop().unwrap();
    assert!(
        sent.starts_with("GET /for/x?api_key=s3cret%2Fvalue%26more HTTP/1.1\r\n")
            && sent.contains("authorization: Basic bWU6czNjcmV0L3ZhbHVlJm1vcmU=\r\n"),
        "{sent}"
    );
    let error = session.send(using("header query basic", &url)).await.expect_err("two of them");
    assert_eq!((error.kind, error.request_sent), (EgressErrorKind::InvalidRequest, false));
    assert_eq!(
        error.to_string(),
        r#"the credentials "header" and "basic" both set the header authorization"#
    );
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_request_is_denied_if_one_of_its_credentials_is_for_other_requests() {
    let server = Server::start(|_| ok("")).await;
    let credentials = vec![
        header_credential(&server, "x-wide", "/**"),
        header_credential(&server, "x-narrow", "/for/**"),
    ];
    let names = Names::new(&[("a.example.com", LOCAL)]);
    let session = session(&names, &server, None, &BOTH, credentials, Bounds::PLUGIN, LONG);
    let denied = session.send(using("x-wide x-narrow", &server.url("a.example.com", "/x"))).await;
    assert_eq!(kind_of(denied), (EgressErrorKind::Denied, false));
    session.send(using("x-wide", &server.url("a.example.com", "/x"))).await.expect("one is");
    assert_eq!(server.requests().len(), 1);
}

fn header_credential(server: &Server, name: &str, path: &str) -> Credential {
    let audience = rules(server, &[&format!("http://a.example.com:PORT GET {path}")]);
    let injection = Injection::header(name, "").unwrap();
    Credential::new(name, Secret::new(VALUE), injection, audience).unwrap()
}

#[tokio::test]
async fn a_tool_reaches_the_destinations_that_it_declares_and_has_only_their_credentials() {
    let server = Server::start(|_| ok("")).await;
    let destinations: Arc<Destinations> = Arc::new(
        [
            ("wide".to_owned(), rules(&server, &["http://a.example.com:PORT GET /** private"])),
            (
                "narrow".to_owned(),
                rules(&server, &["http://a.example.com:PORT GET /for/** private"]),
            ),
            ("other".to_owned(), rules(&server, &["http://b.example.com:PORT GET /** private"])),
        ]
        .into(),
    );
    let all: Vec<_> = destinations.values().flatten().cloned().collect();
    let policy = Policy::new(Some((*destinations).clone()), all, Bounds::PLUGIN).unwrap();
    let injection = Injection::header("x-key", "").unwrap();
    let audience = destinations["narrow"].clone();
    let key = Credential::new("key", Secret::new(VALUE), injection, audience).unwrap();
    let credentials = Credentials::new(vec![key.for_destinations(["narrow".to_owned()])]).unwrap();
    let names = Names::new(&[("a.example.com", LOCAL), ("b.example.com", LOCAL)]);
    let egress = Egress::with_resolver(names).unwrap();
    let outlet = egress.outlet("plugin", policy.clone(), credentials);
    let send = async |declared: &[&str], credential: &str, host: &str, path: &str| {
        let declared = declared.iter().map(|name| (*name).to_owned()).collect();
        let outlet = outlet.narrowed(Arc::new(policy.narrowed(&destinations, &declared)));
        let session = outlet.session(&Tenant::ANONYMOUS, &memory(), Instant::now() + LONG);
        let sent = session.send(using(credential, &server.url(host, path))).await;
        sent.map(|response| response.status).map_err(|error| error.to_string())
    };
    let a = "a.example.com";
    let b = "b.example.com";
    assert_eq!(send(&["wide"], "", b, "/").await, undeclared("other"));
    assert_eq!(send(&["narrow"], "", a, "/").await, undeclared("wide"));
    // The destination is declared; the credential belongs to another one with the same host.
    assert_eq!(send(&["wide"], "key", a, "/for/x").await, undeclared("narrow"));
    assert_eq!(server.connections(), 0);
    assert_eq!(send(&["wide"], "", a, "/for/x").await, Ok(200));
    assert_eq!(send(&["narrow"], "key", a, "/for/x").await, Ok(200));
    assert_eq!(server.requests().len(), 2);
}

fn undeclared(name: &str) -> Result<u16, String> {
    Err(format!("the tool does not declare the effect \"http.{name}\" in plugin.toml"))
}

#[tokio::test]
async fn a_redirect_that_is_returned_shows_no_credential() {
    let server = Server::start(|path| {
        let (_, query) = path.split_once('?').unwrap_or((path, ""));
        redirect(302, &format!("http://b.example.com/for/x/?{query}&t=s3cret/value%26more#end"))
    })
    .await;
    let session = with_credentials(&server);
    let url = server.url("a.example.com", "/for/x?a=b");
    let request = EgressRequest { redirects: Redirects::Manual, ..using("query", &url) };
    let response = session.send(request).await.unwrap();
    let location = response.headers.iter().find(|(name, _)| name == "location").unwrap();
    let location = String::from_utf8_lossy(&location.1);
    assert_eq!(location, format!("http://b.example.com/for/x/?a=b&t={}#end", "*".repeat(19)));
    assert_eq!((response.status, response.final_url), (302, url));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_request_outside_the_audience_of_its_credential_is_denied() {
    let server = Server::start(|_| ok("")).await;
    let session = with_credentials(&server);
    for (name, host, path) in [
        ("header", "b.example.com", "/for/x"),
        ("query", "a.example.com", "/other"),
        ("header", "a.example.com", "/for/%2e%2e/other"),
        ("unknown", "a.example.com", "/for/x"),
    ] {
        let error =
            session.send(using(name, &server.url(host, path))).await.expect_err("it is refused");
        assert_eq!(error, EgressError::denied(), "{name} {host}{path}");
    }
    let posted = EgressRequest {
        method: "POST".to_owned(),
        ..using("header", &server.url("a.example.com", "/for/x"))
    };
    assert_eq!(kind_of(session.send(posted).await), (EgressErrorKind::Denied, false));
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_guest_cannot_set_the_header_or_parameter_of_its_credential() {
    let server = Server::start(|_| ok("")).await;
    let session = with_credentials(&server);
    let url = server.url("a.example.com", "/for/x");
    let headers = vec![("AUTHORIZATION".to_owned(), b"Basic mine".to_vec())];
    let both = EgressRequest { headers: headers.clone(), ..using("header", &url) };
    assert_eq!(kind_of(session.send(both).await), (EgressErrorKind::InvalidRequest, false));
    assert_eq!(
        kind_of(session.send(using("query", &format!("{url}?api%5Fkey=mine"))).await),
        (EgressErrorKind::InvalidRequest, false)
    );
    session
        .send(EgressRequest { headers, ..using("query", &url) })
        .await
        .expect("the header is free");
}

#[tokio::test]
async fn reserved_headers_are_refused_in_every_spelling() {
    let server = Server::start(|_| ok("")).await;
    let audience = rules(&server, &["http://a.example.com:PORT GET /for/**"]);
    let key = Credential::new(
        "key",
        Secret::new(VALUE),
        Injection::header("X-Api-Key", "").unwrap(),
        audience,
    )
    .unwrap();
    let names = Names::new(&[("a.example.com", LOCAL)]);
    let session = session(&names, &server, None, &BOTH, vec![key], Bounds::PLUGIN, LONG);
    let url = server.url("a.example.com", "/for/x");
    for name in [
        "x-api-key",
        "X_Api_Key",
        "X_API-KEY",
        "X_HTTP_Method_Override",
        "X_Original_URL",
        "Content_Length",
    ] {
        assert_eq!(
            kind_of(session.send(with_header(name, &url)).await),
            (EgressErrorKind::InvalidRequest, false),
            "{name}"
        );
    }
    assert_eq!(server.connections(), 0);
    session.send(with_header("x_api_keys", &url)).await.expect("this is another one");
}

fn with_header(name: &str, url: &str) -> EgressRequest {
    let headers = vec![(name.to_owned(), b"mine".to_vec())];
    EgressRequest { headers, ..using("key", url) }
}

#[tokio::test]
async fn schemes_that_authenticate_the_whole_connection_are_refused() {
    let server = Server::start(|_| ok("")).await;
    let session = with_credentials(&server);
    for value in ["NTLM x", " NTLM x", "\tnegotiate\tx"] {
        let headers = vec![("Authorization".to_owned(), value.as_bytes().to_vec())];
        let request = EgressRequest { headers, ..get(&server.url("a.example.com", "/")) };
        assert_eq!(
            kind_of(session.send(request).await),
            (EgressErrorKind::InvalidRequest, false),
            "{value:?}"
        );
        assert!(Injection::header("Authorization", value).is_err(), "{value:?}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn all_spellings_of_a_value_are_redacted_from_a_response() {
    let spellings = "s3cret/value&more s3cret%2fvalue%26more s3cret%2Fvalue%26more s3cret/value%26more \
         S3CRET/VALUE&MORE bWU6czNjcmV0L3ZhbHVlJm1vcmU= bWU6czNjcmV0L3ZhbHVlJm1vcmU%3D";
    let server =
        Server::start(move |_| says("200 OK", &format!("x-echo: {spellings}\r\n"), spellings))
            .await;
    let session = with_credentials(&server);
    let response =
        session.send(using("header", &server.url("a.example.com", "/for/x"))).await.unwrap();
    for shown in response.headers.iter().map(|(_, value)| value).chain([&response.body]) {
        let shown = String::from_utf8_lossy(shown);
        assert!(shown.bytes().all(|byte| b"* ".contains(&byte)) || !shown.contains(' '), "{shown}");
        assert_eq!(shown.contains(' '), shown.len() == spellings.len(), "{shown}");
    }
}

#[tokio::test]
async fn a_value_written_by_the_guest_is_not_redirected_to_another_origin() {
    let port = Arc::new(std::sync::OnceLock::new());
    let known = port.clone();
    let server = Server::start(move |path| match path {
        "/stay" => redirect(307, "/end"),
        "/leave" => redirect(307, &format!("http://b.example.com:{}/end", known.get().unwrap())),
        _ => ok(""),
    })
    .await;
    port.set(server.address.port()).unwrap();
    let session = with_credentials(&server);
    for (body, leaves) in [("body", true), (VALUE, false), ("key=s3cret%2fvalue%26more", false)] {
        session
            .send(post(&server.url("a.example.com", "/stay"), body))
            .await
            .expect("it stays with its origin");
        let result = session.send(post(&server.url("a.example.com", "/leave"), body)).await;
        let expected = if leaves { Ok(()) } else { Err(EgressErrorKind::Denied) };
        assert_eq!(result.map(drop).map_err(|error| error.kind), expected, "{body}");
    }
    for (header, leaves) in [("accept-language", false), ("x-other", true)] {
        let headers = vec![(header.to_owned(), VALUE.as_bytes().to_vec())];
        let sent = server.requests().len();
        let result = session
            .send(EgressRequest { headers, ..get(&server.url("a.example.com", "/leave")) })
            .await;
        let expected = if leaves { Ok(()) } else { Err(EgressErrorKind::Denied) };
        assert_eq!(result.map(drop).map_err(|error| error.kind), expected, "{header}");
        assert!(
            server.requests()[sent + 1..].iter().all(|request| !request.contains(VALUE)),
            "{header}"
        );
    }
}

#[tokio::test]
async fn a_redirect_outside_its_origin_or_audience_drops_the_credential() {
    let port = Arc::new(std::sync::OnceLock::new());
    let known = port.clone();
    let server = Server::start(move |path| {
        let port = known.get().unwrap();
        // The server repeats the whole query, as servers do that redirect to add a slash.
        match path.split_once('?').map_or((path, ""), |(path, query)| (path, query)) {
            ("/for/a", query) => redirect(302, &format!("/for/b?{query}")),
            ("/for/b", query) => redirect(302, &format!("/other?{query}")),
            ("/other", _) => redirect(302, &format!("http://b.example.com:{port}/for/c")),
            ("/for/c", _) => redirect(302, &format!("http://a.example.com:{port}/for/d")),
            ("/for/leak", query) => {
                redirect(302, &format!("http://b.example.com:{port}/?again-{query}"))
            }
            _ => ok(""),
        }
    })
    .await;
    port.set(server.address.port()).unwrap();
    let session = with_credentials(&server);
    for name in ["header", "query", "basic"] {
        let from = server.requests().len();
        let response =
            session.send(using(name, &server.url("a.example.com", "/for/a?x=1"))).await.unwrap();
        assert_eq!(response.final_url, server.url("a.example.com", "/for/d"));
        let occurrences: Vec<_> = server.requests()[from..]
            .iter()
            .map(|request| request.matches("s3cret").count() + request.matches("Basic ").count())
            .collect();
        assert_eq!(occurrences, [1, 1, 0, 0, 0], "{name}");
    }
    let leaked = session.send(using("query", &server.url("a.example.com", "/for/leak"))).await;
    assert_eq!(kind_of(leaked), (EgressErrorKind::Denied, true));
}

#[tokio::test]
async fn errors_and_logs_contain_no_credential() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    let _here = tracing::subscriber::set_default(subscriber);
    let server = Server::start(|path| {
        if path.starts_with("/for/silent") { Answer::IsSilent } else { Answer::HangsUp }
    })
    .await;
    let session = with_credentials(&server);
    for name in ["header", "query"] {
        for path in ["/for/hang-up", "/for/silent", "/other"] {
            let request = EgressRequest {
                timeout: Some(Duration::from_millis(100)),
                ..using(name, &server.url("a.example.com", path))
            };
            let error = session.send(request).await.expect_err("it fails");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }
    let log = log.text();
    assert!(log.contains("outbound request failed") && !log.contains("s3cret"), "{log}");
}
