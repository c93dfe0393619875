use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::session::MAX_OF_CALLER;

const ANY: [&str; 1] = ["http://x.example.com:PORT GET,HEAD,POST /** private"];

async fn limited(
    bounds: Bounds,
    time: Duration,
    answer: impl Fn(&str) -> Answer + Send + Sync + 'static,
) -> (Server, Session) {
    let server = Server::start(answer).await;
    let names = Names::new(&[("x.example.com", LOCAL)]);
    let session = session(&names, &server, None, &ANY, Vec::new(), bounds, time);
    (server, session)
}

fn url(server: &Server, path: &str) -> String {
    server.url("x.example.com", path)
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused_announced_or_not() {
    let bounds = Bounds { response_bytes: 10, ..Bounds::PLUGIN };
    let (server, session) = limited(bounds, LONG, |path| match path {
        "/announced/10" => ok("0123456789"),
        "/announced/11" => ok("0123456789x"),
        "/announced/lie" => Answer::Says(
            "HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551615\r\n\r\n".to_owned(),
        ),
        "/chunked/10" => Answer::Says(chunked(&["01234", "56789"])),
        "/chunked/11" => Answer::Says(chunked(&["01234", "56789", "x"])),
        "/until-close/10" => Answer::Says("HTTP/1.0 200 OK\r\n\r\n0123456789".to_owned()),
        _ => Answer::HangsUp,
    })
    .await;
    for (path, fine) in [
        ("/announced/10", true),
        ("/announced/11", false),
        ("/announced/lie", false),
        ("/chunked/10", true),
        ("/chunked/11", false),
    ] {
        match session.send(get(&url(&server, path))).await {
            Ok(response) => assert!(fine && response.body == b"0123456789", "{path}"),
            Err(error) => assert!(
                !fine && error.kind == EgressErrorKind::TooLarge && error.request_sent,
                "{path} {error:?}"
            ),
        }
    }
    // A request may lower the limit and not raise it.
    for (asked, path, fine) in
        [(9, "/announced/10", false), (10, "/announced/10", true), (u64::MAX, "/chunked/11", false)]
    {
        let request = EgressRequest { max_response_bytes: Some(asked), ..get(&url(&server, path)) };
        assert_eq!(session.send(request).await.is_ok(), fine, "{asked} {path}");
    }
}

fn chunked(pieces: &[&str]) -> String {
    let pieces: Vec<_> =
        pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len())).collect();
    let pieces = pieces.concat();
    format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{pieces}0\r\n\r\n")
}

#[tokio::test]
async fn headers_over_the_limit_are_refused() {
    let bounds = Bounds { response_header_bytes: 1_000, ..Bounds::PLUGIN };
    let (server, session) = limited(bounds, LONG, |path| match path {
        // `content-length: 0` has 15 bytes of its own.
        "/1000" => says("200 OK", &format!("x: {}\r\n", "a".repeat(984)), ""),
        "/1001" => says("200 OK", &format!("x: {}\r\n", "a".repeat(985)), ""),
        "/many" => says("200 OK", &"x: 1\r\n".repeat(101), ""),
        _ => says("200 OK", &format!("x: {}\r\n", "a".repeat(1 << 20)), ""),
    })
    .await;
    assert_eq!(session.send(get(&url(&server, "/1000"))).await.unwrap().status, 200);
    for path in ["/1001", "/many", "/endless"] {
        assert_eq!(
            kind_of(session.send(get(&url(&server, path))).await),
            (EgressErrorKind::TooLarge, true),
            "{path}"
        );
    }
}

#[tokio::test]
async fn responses_without_a_body_end_with_their_head() {
    let (server, session) =
        limited(Bounds { response_bytes: 10, ..Bounds::PLUGIN }, LONG, |path| match path {
            "/head" => {
                Answer::Says("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n".to_owned())
            }
            "/204" => Answer::Says("HTTP/1.1 204 No Content\r\n\r\n".to_owned()),
            _ => Answer::Says(
                "HTTP/1.1 304 Not Modified\r\ncontent-length: 1000000\r\n\r\n".to_owned(),
            ),
        })
        .await;
    for (method, path, status) in
        [("HEAD", "/head", 200), ("GET", "/204", 204), ("GET", "/304", 304)]
    {
        let request = EgressRequest { method: method.to_owned(), ..get(&url(&server, path)) };
        let response =
            session.send(request).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!((response.status, response.body.as_slice()), (status, b"".as_slice()), "{path}");
    }
    session.send(post(&url(&server, "/204"), "")).await.unwrap();
    let sent = server.requests().pop().unwrap();
    assert!(sent.contains("content-length: 0\r\n") || !sent.contains("content-length"), "{sent}");
}

#[tokio::test]
async fn a_slow_server_fails_at_the_shortest_time_limit() {
    // Long enough for the request to be sent on a busy machine.
    let short = Duration::from_millis(500);
    for path in ["/silent", "/drips"] {
        // The deadline of the call, the bound of the policy, and the timeout of the request: the
        // shortest applies.
        let (server, session) =
            limited(Bounds { response_bytes: usize::MAX, ..Bounds::PLUGIN }, short, behave).await;
        assert_eq!(
            kind_of(session.send(get(&url(&server, path))).await),
            (EgressErrorKind::Timeout, true),
            "{path}"
        );
        let bounds = Bounds { response_bytes: usize::MAX, timeout: short, ..Bounds::PLUGIN };
        let (server, session) = limited(bounds, LONG, behave).await;
        assert_eq!(
            kind_of(session.send(get(&url(&server, path))).await),
            (EgressErrorKind::Timeout, true),
            "{path}"
        );
        let bounds = Bounds { response_bytes: usize::MAX, ..Bounds::PLUGIN };
        let (server, session) = limited(bounds, LONG, behave).await;
        let request = EgressRequest { timeout: Some(short), ..get(&url(&server, path)) };
        assert_eq!(
            kind_of(session.send(request).await),
            (EgressErrorKind::Timeout, true),
            "{path}"
        );
    }
}

fn behave(path: &str) -> Answer {
    if path == "/drips" { Answer::Drips } else { Answer::IsSilent }
}

#[tokio::test]
async fn a_request_ends_before_its_call_so_that_the_timeout_can_be_handled() {
    let call = Duration::from_secs(3);
    let (default, as_long) =
        tokio::join!(until_timeout(call, None), until_timeout(call, Some(call)));
    assert!(default < call && as_long < call, "{default:?} {as_long:?}");
}

async fn until_timeout(call: Duration, timeout: Option<Duration>) -> Duration {
    let (server, session) = limited(Bounds::PLUGIN, call, |_| Answer::IsSilent).await;
    let began = Instant::now();
    let request = EgressRequest { timeout, ..get(&url(&server, "/")) };
    assert_eq!(kind_of(session.send(request).await), (EgressErrorKind::Timeout, true));
    began.elapsed()
}

#[tokio::test]
async fn nothing_is_sent_after_the_deadline() {
    let (server, late) = limited(Bounds::PLUGIN, Duration::ZERO, |_| ok("")).await;
    assert_eq!(
        kind_of(late.send(get(&url(&server, "/"))).await),
        (EgressErrorKind::Timeout, false)
    );
    let (server, session) = limited(Bounds::PLUGIN, LONG, |_| ok("")).await;
    let request = EgressRequest { timeout: Some(Duration::ZERO), ..get(&url(&server, "/")) };
    assert_eq!(kind_of(session.send(request).await), (EgressErrorKind::Timeout, false));
    assert_eq!(server.connections(), 0);
    let patient = EgressRequest { timeout: Some(Duration::MAX), ..get(&url(&server, "/")) };
    session.send(patient).await.expect("it gets what there is");
}

#[tokio::test]
async fn redirects_and_refusals_count_as_requests_of_a_call() {
    let (server, session) =
        limited(Bounds { requests: 5, ..Bounds::PLUGIN }, LONG, |path| match path {
            "/redirect" => redirect(302, "/end"),
            _ => ok(""),
        })
        .await;
    session.send(get(&url(&server, "/redirect"))).await.expect("two of five");
    assert_eq!(
        kind_of(session.send(get("https://evil.example.org/")).await),
        (EgressErrorKind::Denied, false)
    );
    session.clone().send(get(&url(&server, "/"))).await.expect("clones count together");
    assert_eq!(
        kind_of(session.send(get(&url(&server, "/redirect"))).await),
        (EgressErrorKind::LimitReached, true)
    );
    let error = session.send(get(&url(&server, "/"))).await.expect_err("they are used up");
    assert_eq!((error.kind, error.request_sent), (EgressErrorKind::LimitReached, false));
    assert_eq!(error.to_string(), "this call has used all its HTTP requests");
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn requests_in_flight_are_counted_until_they_end_or_are_dropped() {
    let (server, session) =
        limited(Bounds { in_flight: 2, ..Bounds::PLUGIN }, LONG, |path| match path {
            "/silent" => Answer::IsSilent,
            _ => ok(""),
        })
        .await;
    let waiting: Vec<_> =
        (0..2).map(|_| tokio::spawn(session.send(get(&url(&server, "/silent"))))).collect();
    while server.requests().len() < 2 {
        tokio::task::yield_now().await;
    }
    let error = session.send(get(&url(&server, "/"))).await.expect_err("two are on their way");
    assert_eq!((error.kind, error.request_sent), (EgressErrorKind::Unavailable, false));
    for task in waiting {
        task.abort();
        assert!(task.await.expect_err("it was silent").is_cancelled());
    }
    session.send(get(&url(&server, "/"))).await.expect("there is room again");
}

#[tokio::test]
async fn requests_in_flight_are_limited_for_the_whole_process() {
    let server = Server::start(|_| Answer::IsSilent).await;
    let names: std::sync::Arc<dyn Resolver> = Names::new(&[("x.example.com", LOCAL)]);
    let egress = Egress::assemble(&names, 1).unwrap();
    let policy = Policy::new(None, rules(&server, &ANY), Bounds::PLUGIN).unwrap();
    let outlet = egress.outlet("plugin", policy, Credentials::default());
    let waiting = tokio::spawn(open(&outlet).send(get(&url(&server, "/"))));
    while server.requests().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        kind_of(open(&outlet).send(get(&url(&server, "/"))).await),
        (EgressErrorKind::Unavailable, false)
    );
    waiting.abort();
}

fn open(outlet: &Outlet) -> Session {
    outlet.session(&Tenant::ANONYMOUS, &memory(), Instant::now() + LONG)
}

#[tokio::test]
async fn no_caller_takes_all_slots() {
    let server = Server::start(|_| Answer::IsSilent).await;
    let egress = Egress::with_resolver(Names::new(&[("x.example.com", LOCAL)])).unwrap();
    let greedy = outlet_to(&egress, &server);
    let other = outlet_to(&egress, &server);
    let mut waiting = Vec::new();
    // Slots of a caller that each further tenant can take.
    for (number, count) in [(1, 48), (2, 12), (3, 3), (4, 1)] {
        let before = server.requests().len();
        waiting.extend(
            (0..count)
                .map(|_| AbortOnDropHandle::new(tokio::spawn(send_as(&greedy, &server, number)))),
        );
        while server.requests().len() < before + count {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            kind_of(send_as(&greedy, &server, number).await),
            (EgressErrorKind::Unavailable, false),
            "tenant {number}"
        );
    }
    assert_eq!(waiting.len(), MAX_OF_CALLER);
    assert_eq!(kind_of(send_as(&greedy, &server, 5).await), (EgressErrorKind::Unavailable, false));
    let welcome = AbortOnDropHandle::new(tokio::spawn(send_as(&other, &server, 5)));
    while server.requests().len() == MAX_OF_CALLER {
        tokio::task::yield_now().await;
    }
    assert!(!welcome.is_finished() && waiting.iter().all(|task| !task.is_finished()));
}

fn send_as(
    outlet: &Outlet,
    server: &Server,
    number: u8,
) -> impl Future<Output = Result<EgressResponse, EgressError>> + Send + 'static + use<> {
    let tenant = Tenant::of_key([number; 32], number.to_string());
    let session = outlet.session(&tenant, &memory(), Instant::now() + LONG);
    session.send(get(&url(server, "/")))
}

fn outlet_to(egress: &Egress, server: &Server) -> Outlet {
    let policy = Policy::new(None, rules(server, &ANY), Bounds::PLUGIN).unwrap();
    egress.outlet("plugin", policy, Credentials::default())
}

#[tokio::test]
async fn bodies_count_against_the_granted_memory_until_they_are_dropped() {
    let server = Server::start(|path| match path {
        "/announced" => ok(&"x".repeat(1_000)),
        _ => Answer::Says(chunked(&["x"; 1_000])),
    })
    .await;
    let egress = Egress::with_resolver(Names::new(&[("x.example.com", LOCAL)])).unwrap();
    let policy = Policy::new(None, rules(&server, &ANY), Bounds::PLUGIN).unwrap();
    let outlet = egress.outlet("plugin", policy, Credentials::default());
    for path in ["/announced", "/chunked"] {
        let memory = Pool::new(2_500, usize::MAX);
        let session = outlet.session(&Tenant::ANONYMOUS, &memory, Instant::now() + LONG);
        let mut unread = Vec::new();
        for _ in 0..2 {
            unread.push(session.send(get(&url(&server, path))).await.expect("there is memory"));
        }
        assert_eq!(
            kind_of(session.send(get(&url(&server, path))).await),
            (EgressErrorKind::Unavailable, true),
            "{path}"
        );
        assert!(
            memory.take(&Tenant::ANONYMOUS, 501).is_none()
                && memory.take(&Tenant::ANONYMOUS, 500).is_some(),
            "{path}"
        );
        unread.pop();
        session.send(get(&url(&server, path))).await.expect("there is memory again");
    }
}
