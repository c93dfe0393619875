//! Access tokens of an identity provider. The provider is a program of its own; its tokens
//! are signed by another implementation than the gateway's.

use std::process::Stdio;

use airlock_tests::{Client, Gateway, Reply, Setup, guests, peers, root};
use reqwest::{Method, header::WWW_AUTHENTICATE};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

pub(crate) const RESOURCE: &str = "https://airlock.example.com/mcp";
const KEY: &str = "sk-bf-0123456789abcdef";

/// The identity provider.
pub(crate) struct Issuer {
    url: String,
    http: reqwest::Client,
    _process: Child,
}

impl Issuer {
    pub(crate) async fn start() -> Self {
        let program = root().join("tests/fixtures/issuer/issuer.py");
        let mut command = Command::new(peers::python());
        command.arg("-B").arg(program).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("it can be started");
        let mut url = String::new();
        let stdout = process.stdout.take().expect("piped above");
        BufReader::new(stdout).read_line(&mut url).await.expect("its address");
        let http = airlock::tls::client().no_proxy().build().expect("a client");
        Self { url: url.trim().to_owned(), http, _process: process }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn token(&self, claims: &Value) -> String {
        let mut all = json!({"aud": RESOURCE, "scope": "mcp", "groups": ["staff"]});
        let claims = claims.as_object().expect("an object").clone();
        all.as_object_mut().expect("an object").extend(claims);
        let request = self.http.post(format!("{}/token", self.url)).json(&all);
        Reply::fetch(request).await.ok()["token"].as_str().expect("a token").to_owned()
    }

    /// Returns its identifier.
    async fn rotate(&self) {
        let _ = Reply::fetch(self.http.post(format!("{}/rotate", self.url))).await.ok();
    }

    async fn serve(&self) -> Gateway {
        let guest =
            Client::wasm("guest", guests::HOSTILE).execute(&["ok", "fail"]).auto(&["ok", "fail"]);
        let views = json!([
            {"claim": "realm_access.roles", "value": "admin", "virtual_key": "all"},
            {"claim": "groups", "value": "staff", "virtual_key": "some"},
        ]);
        let oauth =
            json!({"issuer": self.url, "resource": RESOURCE, "scopes": ["mcp"], "views": views});
        Setup::new()
            .client(guest)
            .key("all", KEY, &[("guest", &["*"])])
            .key("some", "sk-bf-fedcba9876543210", &[("guest", &["ok"])])
            .set("/mcp_server/oauth", oauth)
            .serve()
            .await
    }
}

fn list(gateway: &Gateway, credential: Option<&str>) -> reqwest::RequestBuilder {
    let request = gateway.request(Method::POST, "/mcp");
    let request = request.json(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    match credential {
        Some(credential) => request.bearer_auth(credential),
        None => request,
    }
}

async fn names(gateway: &Gateway, credential: &str) -> Vec<String> {
    let listed = Reply::fetch(list(gateway, Some(credential))).await.ok();
    let tools = listed["result"]["tools"].as_array().expect("a list").iter();
    tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

/// Returns status, challenge and message of a refusal.
async fn refusal(gateway: &Gateway, credential: Option<&str>) -> (u16, String, String) {
    let response = list(gateway, credential).send().await.expect("an answer");
    let status = response.status().as_u16();
    let challenge = response.headers().get(WWW_AUTHENTICATE);
    let challenge = challenge.map_or("", |value| value.to_str().expect("text")).to_owned();
    let body: Value = response.json().await.expect("JSON");
    assert_eq!(body["jsonrpc"], "2.0");
    (status, challenge, body["error"]["message"].as_str().expect("a message").to_owned())
}

#[tokio::test]
async fn the_claims_of_a_token_select_what_its_sender_sees() {
    let issuer = Issuer::start().await;
    let gateway = issuer.serve().await;
    assert_eq!(names(&gateway, &issuer.token(&json!({})).await).await, ["guest-ok"]);
    let admin = issuer.token(&json!({"realm_access": {"roles": ["admin"]}})).await;
    assert_eq!(names(&gateway, &admin).await, ["guest-fail", "guest-ok"]);
    assert_eq!(names(&gateway, KEY).await, ["guest-fail", "guest-ok"], "a virtual key");
    let (status, challenge, _) =
        refusal(&gateway, Some(&issuer.token(&json!({"groups": ["guests"]})).await)).await;
    assert_eq!((status, challenge.as_str()), (403, ""), "no other token would help");
}

#[tokio::test]
async fn a_client_without_a_token_learns_where_to_get_one() {
    let issuer = Issuer::start().await;
    let gateway = issuer.serve().await;
    let (status, challenge, _) = refusal(&gateway, None).await;
    let metadata = "https://airlock.example.com/.well-known/oauth-protected-resource/mcp";
    assert_eq!(status, 401);
    assert!(challenge.starts_with("Bearer ") && challenge.contains(metadata), "{challenge}");
    for path in ["", "/mcp"] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        let document = gateway.get(&path).await.ok();
        assert_eq!(document["resource"], RESOURCE);
        assert_eq!(document["authorization_servers"], json!([issuer.url]));
    }
    assert_eq!(gateway.get("/.well-known/oauth-protected-resource/other").await.status, 404);
}

#[tokio::test]
async fn a_token_that_is_not_for_this_gateway_is_refused() {
    let issuer = Issuer::start().await;
    let gateway = issuer.serve().await;
    let other = Issuer::start().await;
    for (claims, status, error) in [
        (json!({"aud": "https://other.example.com"}), 401, "invalid_token"),
        (json!({"exp": 1}), 401, "invalid_token"),
        (json!({"iss": "https://other.example.com"}), 401, "invalid_token"),
        (json!({"scope": "other"}), 403, "insufficient_scope"),
    ] {
        let token = issuer.token(&claims).await;
        let (found, challenge, message) = refusal(&gateway, Some(&token)).await;
        assert_eq!(found, status, "{claims}: {message}");
        assert!(challenge.contains(&format!("error=\"{error}\"")), "{claims}: {challenge}");
        assert!(!message.contains(&token));
    }
    let forged = other.token(&json!({"iss": issuer.url})).await;
    for bad in [forged.as_str(), "x", "a.b.c"] {
        assert_eq!(refusal(&gateway, Some(bad)).await.0, 401, "{bad}");
    }
    assert!(!gateway.said().contains(&forged), "a token reached the log");
}

#[tokio::test]
async fn each_sender_is_an_account_of_its_own() {
    let issuer = Issuer::start().await;
    let gateway = issuer.serve().await;
    let ann = issuer.token(&json!({"sub": "ann"})).await;
    let bob = issuer.token(&json!({"sub": "bob"})).await;
    let request = gateway.request(Method::POST, "/mcp").bearer_auth(&ann);
    let initialize = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
    let request = request
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}));
    let opened = request.send().await.expect("an answer");
    let session = opened.headers()["mcp-session-id"].to_str().expect("text").to_owned();
    let in_session = |token: &str| list(&gateway, Some(token)).header("mcp-session-id", &session);
    assert_eq!(Reply::fetch(in_session(&ann)).await.status, 200);
    assert_eq!(Reply::fetch(in_session(&bob)).await.status, 404);
}

#[tokio::test]
async fn a_token_whose_key_the_issuer_has_replaced_is_refused() {
    let issuer = Issuer::start().await;
    let gateway = issuer.serve().await;
    let first = issuer.token(&json!({})).await;
    issuer.rotate().await;
    let second = issuer.token(&json!({})).await;
    assert_eq!(names(&gateway, &second).await, ["guest-ok"]);
    assert_eq!(refusal(&gateway, Some(&first)).await.0, 401);
}

#[tokio::test]
async fn a_token_is_no_credential_of_an_operator() {
    let issuer = Issuer::start().await;
    let gateway = issuer.serve().await;
    let token = issuer.token(&json!({})).await;
    for path in ["/api/mcp/explain", "/api/operators", "/api/governance/virtual-keys"] {
        let request = gateway.request(Method::GET, path).bearer_auth(&token);
        assert_eq!(Reply::fetch(request).await.status, 401, "{path}");
    }
}
