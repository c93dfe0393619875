use parking_lot::Mutex;

use super::*;

/// Keeps what it receives, one line a request.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Lines {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl EgressObserver for Lines {
    fn permitted(&self, destinations: &[&str], credentials: &[&str]) {
        let line = format!("{} with {}", destinations.join(" "), credentials.join(" "));
        self.0.lock().push(line);
    }
}

/// Starts a server whose path `/start` redirects to another name, and opens a session for it that
/// may not send to `/secret`.
async fn observed() -> (Server, Session, Arc<Lines>) {
    let port = Arc::new(std::sync::OnceLock::<u16>::new());
    let known = port.clone();
    let server = Server::start(move |path| match (path, known.get()) {
        ("/v1/start", Some(port)) => redirect(302, &format!("http://b.example.com:{port}/end")),
        _ => ok(""),
    })
    .await;
    port.set(server.address.port()).unwrap();
    let all = [
        ("all", rules(&server, &["http://a.example.com:PORT GET /** private"])),
        ("first", rules(&server, &["http://a.example.com:PORT GET /v1/** private"])),
        ("other", rules(&server, &["http://b.example.com:PORT GET /** private"])),
    ];
    let granted = all[1..].iter().flat_map(|(_, rules)| rules.clone()).collect();
    let policy = Policy::new(None, granted, Bounds::PLUGIN).unwrap();
    let destinations = all.map(|(name, rules)| (name.to_owned(), rules));
    let audience = rules(&server, &["http://a.example.com:PORT GET /v1/**"]);
    let injection = Injection::header("x-key", "").unwrap();
    let token = Credential::new("token", Secret::new("s3cret"), injection, audience).unwrap();
    let names = Names::new(&[("a.example.com", LOCAL), ("b.example.com", LOCAL)]);
    let lines = Arc::new(Lines::default());
    let egress = Egress::with_resolver(names).unwrap();
    let outlet = egress.outlet("plugin", policy, Credentials::new(vec![token]).unwrap());
    let outlet = outlet.observed(Arc::new(destinations.into()), lines.clone());
    let session = outlet.session(&Tenant::ANONYMOUS, &memory(), Instant::now() + LONG);
    (server, session, lines)
}

#[tokio::test]
async fn an_observer_receives_the_destinations_and_the_attached_credentials_of_permitted_requests()
{
    let (server, session, lines) = observed().await;
    session.send(get(&server.url("b.example.com", "/x"))).await.unwrap();
    assert_eq!(lines.take(), ["other with "]);
    // The credential stays behind on the redirect to another host.
    session.send(with_token(&server.url("a.example.com", "/v1/start"))).await.unwrap();
    assert_eq!(lines.take(), ["all first with token", "other with "]);
    for refused in [
        get(&server.url("a.example.com", "/v2")),
        get(&server.url("c.example.com", "/")),
        with_token(&server.url("b.example.com", "/x")),
    ] {
        assert_eq!(kind_of(session.send(refused).await), (EgressErrorKind::Denied, false));
    }
    assert_eq!(lines.take(), Vec::<String>::new());
}

fn with_token(url: &str) -> EgressRequest {
    EgressRequest { credentials: vec!["token".to_owned()], ..get(url) }
}
