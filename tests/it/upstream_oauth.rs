//! Logins at MCP servers with OAuth, against a running gateway.

mod peer;

use std::{os::unix::fs::PermissionsExt as _, path::Path, process::Stdio};

use airlock_tests::{Airlock, Client, Finished, Gateway, Reply, Setup, binary, wait};
use reqwest::Url;
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{Child, ChildStdout, Command},
};

use self::peer::{Flaw, Peer};

fn setup(peer: &Peer) -> Setup {
    Setup::new().client(Client::http("up", &peer.url()).set("/auth_type", "oauth"))
}

/// A running `airlock upstream login` that has printed its URL.
struct Login {
    process: Child,
    stdout: BufReader<ChildStdout>,
    url: Url,
}

impl Login {
    async fn start(config: &Path) -> Self {
        let mut command = Command::new(binary("airlock-under-test"));
        command.args(["upstream", "login", "up", "--no-browser", "--config"]).arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.kill_on_drop(true).spawn().expect("it can be started");
        let mut stdout = BufReader::new(process.stdout.take().expect("piped above"));
        let mut announced = String::new();
        let mut url = String::new();
        stdout.read_line(&mut announced).await.expect("a line");
        stdout.read_line(&mut url).await.expect("a line");
        assert!(announced.starts_with("open this URL in a browser"), "{announced}");
        Self { process, stdout, url: Url::parse(url.trim()).expect("a URL") }
    }

    fn parameter(&self, name: &str) -> String {
        let found = self.url.query_pairs().find(|(key, _)| key == name);
        found.map(|(_, value)| value.into_owned()).unwrap_or_default()
    }

    /// Follows the redirects as a browser does. Returns the status of the last page.
    async fn follow(&self) -> u16 {
        get(self.url.as_str()).await
    }

    /// Returns success, and the output of both kinds.
    async fn ended(mut self) -> (bool, String) {
        let mut said = String::new();
        let mut stderr = self.process.stderr.take().expect("piped above");
        self.stdout.read_to_string(&mut said).await.expect("text");
        stderr.read_to_string(&mut said).await.expect("text");
        (self.process.wait().await.expect("it ends").success(), said)
    }
}

async fn get(url: &str) -> u16 {
    let http = airlock::tls::client().no_proxy().build().expect("a client");
    http.get(url).send().await.expect("a response").status().as_u16()
}

/// Logs in as the operator at the server `up`. Returns the output of the command.
pub(crate) async fn log_in(config: &Path) -> String {
    let login = Login::start(config).await;
    assert_eq!(login.follow().await, 200);
    let (is_done, said) = login.ended().await;
    assert!(is_done, "{said}");
    said
}

async fn call(gateway: &Gateway, tool: &str) -> Reply {
    gateway.execute(&format!("up-{tool}"), &json!({})).await
}

/// Waits until a call succeeds, and returns its result.
async fn until_called(gateway: &Gateway, tool: &str) -> String {
    wait::until("a successful call", async || {
        let reply = call(gateway, tool).await;
        (reply.status == 200).then(|| reply.content())
    })
    .await
}

async fn run(config: &Path, command: &str) -> Finished {
    Airlock::new().arg("upstream").arg(command).arg("up").arg("--config").arg(config).run().await
}

#[tokio::test]
async fn a_login_connects_the_running_gateway_and_is_renewed_until_it_is_refused() {
    let peer = Peer::start(Flaw::None).await;
    let setup = setup(&peer);
    let config = setup.write();
    let gateway = setup.serve().await;
    let failed = gateway.in_state("up", "error").await;
    let reason = failed["reason"].as_str().expect("a reason");
    let command = format!("`airlock upstream login up --config {}`", config.display());
    assert_eq!(reason, format!("it needs a login; run {command}"));

    let said = log_in(&config).await;
    assert!(said.starts_with("logged in at up through http://127.0.0.1:"), "{said}");
    assert!(said.contains("with the scopes \"read\"; the gateway renews the login"), "{said}");
    gateway.connected("up").await;
    let store = gateway.directory().join("airlock.db");
    let mode = std::fs::metadata(store).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(call(&gateway, "read").await.content(), "run 1 with [secret access token]");

    // The server forgets the access token: the call is sent again with another one.
    peer.state().good = None;
    assert_eq!(call(&gateway, "read").await.content(), "run 2 with [secret access token]");
    assert_eq!(peer.counts(), (1, 2));

    // It forgets that one at once: no other is requested for half a minute.
    peer.state().good = None;
    peer.state().refresh = None;
    let refused = call(&gateway, "read").await;
    assert!(refused.status != 200, "{}", refused.text);
    let failed = gateway.in_state("up", "error").await;
    let reason = failed["reason"].as_str().expect("a reason");
    let expected = format!("refuses the token of the login; run {command}");
    assert!(reason.contains(&expected), "{reason}");
    assert!(!refused.text.contains("--config"), "a caller learns no path: {}", refused.text);
    assert_eq!(peer.counts(), (1, 2));

    log_in(&config).await;
    assert_eq!(until_called(&gateway, "read").await, "run 3 with [secret access token]");
    assert!(run(&config, "logout").await.ok().stdout.contains("is removed"));
    assert!(run(&config, "logout").await.failed().stdout.contains("there is no login"));
    wait::until("the logout to be noticed", async || {
        (call(&gateway, "read").await.status != 200).then_some(())
    })
    .await;
    gateway.in_state("up", "error").await;

    let shown = gateway.get("/api/mcp/clients").await.text;
    let tokens = peer.state().tokens.clone();
    for secret in tokens.iter().map(String::as_str).chain(["code-0123456789"]) {
        for text in [&gateway.said(), &shown, &said] {
            assert!(!text.contains(secret), "{secret} is in {text}");
        }
    }
}

#[tokio::test]
async fn a_client_that_an_operator_adds_is_kept_until_it_is_logged_in_at() {
    for auth_type in ["oauth", "per_user_oauth"] {
        let peer = Peer::start(Flaw::None).await;
        let setup = Setup::new().set("/server/external_url", "https://gateway.example");
        let config = setup.write();
        let gateway = setup.serve().await;
        let client = json!({
            "name": "up", "connection_type": "http", "connection_string": peer.url(),
            "auth_type": auth_type, "tools_to_execute": ["*"],
        });
        let added = gateway.post("/api/mcp/client", &client).await.ok();
        assert_eq!(
            (&added["status"], &added["mcp_client_id"]),
            (&json!("pending_oauth"), &json!("up"))
        );
        let command = format!("`airlock upstream login up --config {}`", config.display());
        assert!(added["message"].as_str().is_some_and(|text| text.contains(&command)), "{added}");
        gateway.in_state("up", "error").await;
        log_in(&config).await;
        gateway.connected("up").await;
        let same = run(&config, "diff").await.ok().stdout;
        assert!(same.starts_with("up: "), "{same}");
        assert!(run(&config, "logout").await.ok().stdout.contains("is removed"));
    }
}

#[tokio::test]
async fn a_token_is_refreshed_before_the_server_refuses_it() {
    let peer = Peer::start(Flaw::None).await;
    // Long enough for a slow machine to refresh it in time.
    peer.state().life = 8;
    // A call that is on its way while the token is refreshed.
    peer.state().keeps_refreshed = true;
    let setup = setup(&peer);
    log_in(&setup.write()).await;
    let gateway = setup.serve_connected().await;
    wait::until("a refresh", async || {
        assert_eq!(call(&gateway, "read").await.status, 200);
        (peer.state().refreshes >= 1).then_some(())
    })
    .await;
    assert_eq!(peer.state().refused, 0);
}

#[tokio::test]
async fn scopes_that_a_tool_needs_are_asked_for_by_the_next_login() {
    let peer = Peer::start(Flaw::None).await;
    let setup = setup(&peer);
    let config = setup.write();
    log_in(&config).await;
    let gateway = setup.serve_connected().await;
    let refused = call(&gateway, "write").await;
    assert!(refused.status != 200, "{}", refused.text);
    assert_eq!(call(&gateway, "read").await.status, 200, "other tools work");
    let command = "run `airlock upstream login up`";
    wait::until("the log to name the rights", async || {
        let said = gateway.said();
        let mut scopes = [r#"\"write\""#, r#""write""#].iter();
        scopes.any(|scope| said.contains(&format!("more rights: {scope}; {command}"))).then_some(())
    })
    .await;
    log_in(&config).await;
    assert_eq!(peer.state().scopes, "read write");
    until_called(&gateway, "write").await;
    assert_eq!(peer.state().refreshes, 0);
}

#[tokio::test]
async fn a_redirect_of_another_login_is_refused_and_the_login_goes_on() {
    let peer = Peer::start(Flaw::None).await;
    let setup = setup(&peer);
    let login = Login::start(&setup.write()).await;
    let callback = login.parameter("redirect_uri");
    assert!(callback.starts_with("http://127.0.0.1:"), "{callback}");
    assert_eq!(get(&format!("{callback}?code=code-0123456789&state=guessed")).await, 400);
    assert_eq!(get(&format!("{callback}?code=code-0123456789")).await, 404);
    assert_eq!(login.follow().await, 200);
    assert!(login.ended().await.0);
}

#[tokio::test]
async fn a_redirect_of_another_issuer_or_with_an_error_ends_the_login() {
    for (flaw, reason) in [
        (Flaw::WrongIss, "it names \"https://other.example.com\", expected"),
        (Flaw::NoMetadata, "it names \"https://other.example.com\", expected"),
        (Flaw::MissingIss, "it does not name"),
        (Flaw::Denied, "the authorization server refuses the login: access_denied"),
    ] {
        let peer = Peer::start(flaw).await;
        let login = Login::start(&setup(&peer).write()).await;
        assert_eq!(login.follow().await, 400);
        let (is_done, said) = login.ended().await;
        assert!(!is_done && said.contains(reason), "{said}");
        assert!(!peer.paths().contains(&"/token".to_owned()), "the code was sent");
    }
}

#[tokio::test]
async fn documents_that_lead_elsewhere_or_never_end_are_refused_with_the_reason() {
    for (flaw, reason) in [
        (Flaw::OtherIssuer, "issuer mismatch"),
        (Flaw::OtherResource, "resource mismatch"),
        (Flaw::LinkLocalServer, "none published usable metadata"),
        (Flaw::LinkLocalToken, "169.254.169.254/latest/meta-data is not used"),
        (Flaw::ScriptedLogin, "must begin with https://"),
        (Flaw::HugeMetadata, "has more than 262144 bytes"),
        (Flaw::ManyServers, "not found within 48 requests"),
        (Flaw::NoPkce, "PKCE"),
        (Flaw::OwnParameter, "its query sets \"resource\""),
        (Flaw::NoRegistration, "set `oauth_config.client_id`"),
        (Flaw::LongClient, "the identifier or the secret has 5000 bytes"),
    ] {
        let peer = Peer::start(flaw).await;
        let setup = setup(&peer);
        let failed = run(&setup.write(), "login").await.failed();
        assert!(failed.stderr.contains(reason), "{reason}: {}", failed.stderr);
        assert!(!peer.paths().iter().any(|path| path.starts_with("/authorize")));
    }
}

#[tokio::test]
async fn a_registered_client_authenticates_itself_with_its_secret() {
    let peer = Peer::start(Flaw::NoRegistration).await;
    let client = Client::http("up", &peer.url())
        .set("/auth_type", "oauth")
        .set("/oauth_config/client_id", "own-client")
        .set("/oauth_config/client_secret", "own-secret-0123")
        .set("/oauth_config/issuer", peer.server.url("127.0.0.1", ""))
        .set("/oauth_config/scopes", json!(["other"]));
    log_in(&Setup::new().client(client).write()).await;
    assert_eq!(peer.state().scopes, "other");
    let requests = peer.server.requests();
    let token =
        requests.iter().find(|request| request.starts_with("POST /token")).expect("a request");
    assert!(token.to_lowercase().contains("authorization: basic "), "{token}");
    assert!(!token.contains("own-secret-0123"), "{token}");
}

#[tokio::test]
async fn a_call_that_the_server_refuses_for_its_content_stops_no_other() {
    let peer = Peer::start(Flaw::None).await;
    let setup = setup(&peer);
    log_in(&setup.write()).await;
    let gateway = setup.serve_connected().await;
    for _ in 0..3 {
        let refused = call(&gateway, "picky").await;
        assert!(refused.status != 200, "{}", refused.text);
        assert_eq!(call(&gateway, "read").await.status, 200);
    }
    gateway.connected("up").await;
    assert_eq!(peer.counts(), (1, 3));
}

#[tokio::test]
async fn the_arguments_of_calls_that_the_server_refuses_count() {
    let peer = Peer::start(Flaw::None).await;
    // Those of two calls, which have two bytes each.
    let limit = json!({"argument_byte_max_limit": 4, "argument_byte_reset_duration": "1h"});
    let client = Client::http("up", &peer.url()).set("/auth_type", "oauth");
    let setup = Setup::new().client(client.set("/rate_limit", limit));
    log_in(&setup.write()).await;
    let gateway = setup.serve_connected().await;
    for _ in 0..2 {
        let refused = call(&gateway, "picky").await;
        assert!(refused.status != 200, "{}", refused.text);
        assert_ne!(refused.code(), "limit_reached");
    }
    assert_eq!(call(&gateway, "picky").await.code(), "limit_reached");
}

#[tokio::test]
async fn an_unknown_scope_that_the_server_asks_for_prevents_one_login_only() {
    let peer = Peer::start(Flaw::UnknownScope).await;
    let setup = setup(&peer);
    let config = setup.write();
    log_in(&config).await;
    let gateway = setup.serve_connected().await;
    assert!(call(&gateway, "write").await.status != 200);
    let login = Login::start(&config).await;
    assert_eq!((login.parameter("scope").as_str(), login.follow().await), ("read write", 400));
    assert!(!login.ended().await.0);
    log_in(&config).await;
    assert_eq!(peer.state().scopes, "read");
}

#[tokio::test]
async fn a_token_endpoint_that_repeats_secrets_is_not_quoted() {
    let peer = Peer::start(Flaw::Echo).await;
    let login = Login::start(&setup(&peer).write()).await;
    assert_eq!(login.follow().await, 400);
    let (_, said) = login.ended().await;
    assert!(said.contains("the authorization server refuses it: invalid_grant"), "{said}");
    assert!(!said.contains("code_verifier") && !said.contains("code-0123456789"), "{said}");
}

#[tokio::test]
async fn nothing_is_sent_to_another_issuer_than_that_of_the_settings() {
    let peer = Peer::start(Flaw::None).await;
    let client = Client::http("up", &peer.url())
        .set("/auth_type", "oauth")
        .set("/oauth_config/client_id", "own-client")
        .set("/oauth_config/client_secret", "own-secret-0123")
        .set("/oauth_config/issuer", "https://as.example.com");
    let failed = run(&Setup::new().client(client).write(), "login").await.failed();
    let reason = "but `oauth_config.issuer` is \"https://as.example.com\"";
    assert!(failed.stderr.contains(reason), "{}", failed.stderr);
    let sent = ["/register", "/authorize", "/token"];
    assert!(!peer.paths().iter().any(|path| sent.iter().any(|prefix| path.starts_with(prefix))));
}
