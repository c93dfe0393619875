use super::*;

/// Starts a server with two names, and opens a session with the rules `granted`.
async fn two_names(
    granted: &[&str],
    bounds: Bounds,
    answer: impl Fn(&str, u16) -> Answer + Send + Sync + 'static,
) -> (Server, Session) {
    let port = Arc::new(std::sync::OnceLock::new());
    let known = port.clone();
    let server = Server::start(move |path| {
        answer(path, *known.get().expect("it is known before the first request"))
    })
    .await;
    port.set(server.address.port()).expect("it is set once");
    let names = Names::new(&[
        ("a.example.com", LOCAL),
        ("b.example.com", LOCAL),
        ("meta.example.com", &[&["169.254.169.254"]]),
    ]);
    let session = session_with(&names, &server, granted, bounds);
    (server, session)
}

const BOTH: [&str; 3] = [
    "http://a.example.com:PORT GET,POST,PUT /** private",
    "http://b.example.com:PORT GET,POST,PUT /ok/** private",
    "http://meta.example.com:PORT GET /** private",
];

#[tokio::test]
async fn a_permitted_redirect_is_followed() {
    let (server, session) = two_names(&BOTH, Bounds::PLUGIN, |path, port| match path {
        "/start" => redirect(302, "/next?q"),
        "/next?q" => redirect(307, &format!("http://b.example.com:{port}/ok/end#part")),
        _ => ok("here"),
    })
    .await;
    let response = session.send(get(&server.url("a.example.com", "/start"))).await.unwrap();
    assert_eq!((response.status, response.body.as_slice()), (200, b"here".as_slice()));
    assert_eq!(response.final_url, server.url("b.example.com", "/ok/end"));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_redirect_that_is_not_permitted_fails_the_request() {
    for location in [
        "http://b.example.com:PORT/secret",
        "http://c.example.com:PORT/ok/",
        "http://127.0.0.1:PORT/",
        "http://meta.example.com:PORT/latest/meta-data",
        "http://169.254.169.254/latest/meta-data",
        "//[::1]:PORT/",
        "http://b.example.com:PORT/ok/../secret",
    ] {
        let (server, session) = two_names(&BOTH, Bounds::PLUGIN, move |path, port| match path {
            "/start" => redirect(302, &location.replace("PORT", &port.to_string())),
            _ => ok("never"),
        })
        .await;
        let error =
            session.send(get(&server.url("a.example.com", "/start"))).await.expect_err(location);
        assert_eq!(error, EgressError::denied().having_sent(true), "{location}");
        assert_eq!(server.requests().len(), 1, "{location}");
    }
}

#[tokio::test]
async fn the_policy_decides_on_a_redirect_with_its_new_method() {
    let granted = [
        "http://a.example.com:PORT GET,POST /** private",
        "http://b.example.com:PORT GET /** private",
    ];
    for (status, permitted) in [(302, true), (307, false)] {
        let (server, session) = two_names(&granted, Bounds::PLUGIN, move |path, port| match path {
            "/start" => redirect(status, &format!("http://b.example.com:{port}/x")),
            _ => ok(""),
        })
        .await;
        let result = session.send(post(&server.url("a.example.com", "/start"), "body")).await;
        assert_eq!(result.is_ok(), permitted, "{status}");
        if permitted {
            let second = &server.requests()[1];
            assert!(
                second.starts_with("GET /x HTTP/1.1\r\n") && second.ends_with("\r\n\r\n"),
                "{second}"
            );
            assert!(!second.contains("content-length"), "{second}");
        }
    }
}

#[tokio::test]
async fn a_redirect_that_keeps_the_method_sends_the_body_again() {
    let (server, session) = two_names(&BOTH, Bounds::PLUGIN, |path, _| match path {
        "/start" => redirect(308, "/next"),
        _ => ok(""),
    })
    .await;
    session.send(post(&server.url("a.example.com", "/start"), "body")).await.unwrap();
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.starts_with("POST ") && request.ends_with("\r\n\r\nbody"))
    );
}

#[tokio::test]
async fn headers_of_one_origin_are_not_sent_to_another() {
    let (server, session) = two_names(&BOTH, Bounds::PLUGIN, |path, port| match path {
        "/start" => redirect(302, "/same"),
        "/same" => redirect(302, &format!("http://b.example.com:{port}/ok/away")),
        "/ok/away" => redirect(302, &format!("http://a.example.com:{port}/back")),
        _ => ok(""),
    })
    .await;
    let names = ["authorization", "cookie", "x-api-key", "accept-language"];
    let headers = names.map(|name| (name.to_owned(), b"mine".to_vec())).to_vec();
    session
        .send(EgressRequest { headers, ..get(&server.url("a.example.com", "/start")) })
        .await
        .unwrap();
    let requests = server.requests();
    let shown: Vec<_> = requests
        .iter()
        .map(|request| names.map(|name| request.contains(&format!("{name}: mine"))))
        .collect();
    let all = [true; 4];
    let other = [false, false, false, true];
    assert_eq!(shown, [all, all, other, other]);
}

#[tokio::test]
async fn consecutive_redirects_are_limited() {
    for (redirects, fine) in [(2, false), (3, true)] {
        let bounds = Bounds { redirects, ..Bounds::PLUGIN };
        let (server, session) = two_names(&BOTH, bounds, |path, _| match path {
            "/0" => redirect(302, "/1"),
            "/1" => redirect(302, "/2"),
            "/2" => redirect(302, "/3"),
            _ => ok(""),
        })
        .await;
        match session.send(get(&server.url("a.example.com", "/0"))).await {
            Ok(_) => assert!(fine),
            Err(error) => assert_eq!(
                (error.kind, error.request_sent, fine),
                (EgressErrorKind::TooManyRedirects, true, false)
            ),
        }
    }
    let (server, session) = two_names(&BOTH, Bounds::PLUGIN, |_, _| redirect(301, "/again")).await;
    assert_eq!(
        kind_of(session.send(get(&server.url("a.example.com", "/"))).await),
        (EgressErrorKind::TooManyRedirects, true)
    );
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn redirects_are_returned_on_request_or_without_a_usable_location() {
    let (server, session) = two_names(&BOTH, Bounds::PLUGIN, |path, _| match path {
        "/nowhere" => says("302 Found", "", "no location"),
        "/unchanged" => {
            Answer::Says("HTTP/1.1 304 Not Modified\r\nlocation: /x\r\n\r\n".to_owned())
        }
        _ => redirect(302, "http://evil.example.org/"),
    })
    .await;
    let url = server.url("a.example.com", "/");
    let response =
        session.send(EgressRequest { redirects: Redirects::Manual, ..get(&url) }).await.unwrap();
    assert_eq!((response.status, response.final_url), (302, url));
    assert!(
        response.headers.contains(&("location".to_owned(), b"http://evil.example.org/".to_vec()))
    );
    for (path, status) in [("/nowhere", 302), ("/unchanged", 304)] {
        assert_eq!(
            session.send(get(&server.url("a.example.com", path))).await.unwrap().status,
            status
        );
    }
}
