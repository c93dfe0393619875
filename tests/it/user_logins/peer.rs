//! An MCP server that acts for the user whose access token it is sent, and its authorization server, in
//! one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use airlock_test_http::{Answer, Server, says};
use reqwest::Url;
use serde_json::{Value, json};

use crate::oauth_peer::{JSON, PeerRequest, document};

/// The state of the peer, and what it has seen.
#[derive(Default)]
pub(super) struct State {
    /// True if the tools are listed without a token.
    pub(super) lists_openly: bool,
    /// Life of the tokens, in seconds.
    pub(super) life: u64,
    /// True if no token is renewed any more.
    pub(super) refuses_renewal: bool,
    /// Error with which the token endpoints answer.
    pub(super) token_error: Option<&'static str>,
    /// True if users are known by the header `x-api-key`, by `keys`.
    pub(super) takes_headers: bool,
    pub(super) keys: BTreeMap<String, String>,
    /// Users, by their tokens of the identity provider.
    pub(super) subjects: BTreeMap<String, String>,
    /// Exchanges of tokens.
    pub(super) exchanges: usize,
    /// Requests with a token of the identity provider.
    pub(super) leaked: usize,
    pub(super) issued: usize,
    /// Users, by their codes, access tokens, refresh tokens and MCP sessions.
    pub(super) codes: BTreeMap<String, String>,
    pub(super) access: BTreeMap<String, String>,
    pub(super) refresh: BTreeMap<String, String>,
    pub(super) sessions: BTreeMap<String, String>,
    /// Clients that were registered.
    pub(super) registered: usize,
    /// Refreshes of each user.
    pub(super) refreshes: BTreeMap<String, usize>,
    /// Tools that were run, by their users.
    pub(super) runs: Vec<String>,
    /// Requests in the session of another user, or with a refresh token that was used before.
    pub(super) mixed: usize,
}

/// The running peer.
pub(super) struct Peer {
    server: Server,
    state: Arc<Mutex<State>>,
}

impl Peer {
    pub(super) async fn start(state: State) -> Self {
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        let server = Server::start_by_request(move |request| {
            let mut state = shared.lock().expect("no request panicked");
            Request(PeerRequest::parse(request)).answer(&mut state)
        })
        .await;
        Self { server, state }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no request panicked")
    }

    pub(super) fn url(&self) -> String {
        self.server.url("127.0.0.1", "/mcp")
    }

    pub(super) fn exchange_url(&self) -> String {
        self.server.url("127.0.0.1", "/exchange")
    }
}

struct Request<'r>(PeerRequest<'r>);

impl Request<'_> {
    fn answer(&self, state: &mut State) -> Answer {
        match (self.0.method, self.0.url.path()) {
            (_, "/mcp") => self.mcp(state),
            ("GET", "/.well-known/oauth-protected-resource/mcp") => self.resource(),
            ("GET", "/.well-known/oauth-authorization-server") => document(&self.0.metadata()),
            ("POST", "/register") => {
                state.registered += 1;
                self.0.registered()
            }
            ("GET", "/authorize") => self.authorize(state),
            ("POST", "/token") => self.token(state),
            ("POST", "/exchange") => self.exchange(state),
            _ => says("404 Not Found", "", ""),
        }
    }

    fn mcp(&self, state: &mut State) -> Answer {
        let message: Value = serde_json::from_str(self.0.body).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default();
        // A token of the identity provider never reaches a server.
        state.leaked += usize::from(self.0.bearer.is_some_and(|token| token.contains('.')));
        let user = if state.takes_headers {
            self.0.header("x-api-key").and_then(|key| state.keys.get(key))
        } else {
            self.0.bearer.and_then(|token| state.access.get(token))
        };
        let user = user.cloned();
        let has_credential = self.0.bearer.is_some() || self.0.header("x-api-key").is_some();
        let may_be_anonymous = state.lists_openly && method != "tools/call" && !has_credential;
        let user = match user {
            Some(user) => user,
            None if may_be_anonymous => "anonymous".to_owned(),
            None => return self.0.challenge(""),
        };
        let mut headers = JSON.to_owned();
        if method == "initialize" {
            state.issued += 1;
            let session = format!("session-{}", state.issued);
            headers = format!("{headers}mcp-session-id: {session}\r\n");
            state.sessions.insert(session, user.clone());
        } else {
            let session = self.0.header("mcp-session-id");
            let owner = session.and_then(|session| state.sessions.get(session));
            if method != "server/discover" && owner != Some(&user) {
                // What looks for the authorization server has no session.
                state.mixed += usize::from(session.is_some() || method == "tools/call");
                return says("400 Bad Request", "", "the session of another user");
            }
        }
        let result = match method {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "peer", "version": "1"},
            }),
            "ping" => json!({}),
            "tools/list" => {
                let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}});
                json!({"tools": [tool("whoami"), tool("guarded")]})
            }
            "tools/call" if message["params"]["name"] == "guarded" => return self.0.challenge(""),
            "tools/call" => {
                state.runs.push(user.clone());
                json!({"content": [{"type": "text", "text": format!("you are {user}")}]})
            }
            "" => return says("405 Method Not Allowed", "", ""),
            method if method.starts_with("notifications/") => return says("202 Accepted", "", ""),
            _ => {
                let error = json!({"code": -32_601, "message": "unknown method"});
                let response = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
                return says("200 OK", &headers, &response.to_string());
            }
        };
        let response = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        says("200 OK", &headers, &response.to_string())
    }

    fn resource(&self) -> Answer {
        document(&json!({
            "resource": self.0.resource(), "authorization_servers": [self.0.base],
        }))
    }

    /// Logs in the user whose name the browser adds to the URL.
    fn authorize(&self, state: &mut State) -> Answer {
        let Self(request) = self;
        request.check_authorization();
        state.issued += 1;
        let code = format!("code-{}", state.issued);
        let user = request.parameter("user").unwrap_or_else(|| "operator".to_owned());
        let redirect = request.parameter("redirect_uri").expect("a redirect");
        let mut redirect = Url::parse(&redirect).expect("a URL");
        redirect
            .query_pairs_mut()
            .append_pair("state", &request.parameter("state").expect("a state"))
            .append_pair("code", &code)
            .append_pair("iss", &request.base);
        state.codes.insert(code, user);
        says("302 Found", &format!("location: {redirect}\r\n"), "")
    }

    fn token(&self, state: &mut State) -> Answer {
        let Self(request) = self;
        assert_eq!(request.field("resource"), Some(request.resource()));
        if let Some(code) = state.token_error {
            return says("401 Unauthorized", JSON, &json!({"error": code}).to_string());
        }
        let user = if request.field("grant_type").as_deref() == Some("refresh_token") {
            let token = request.field("refresh_token").unwrap_or_default();
            // As many servers do, it takes a refresh token once.
            let user = state.refresh.remove(&token).filter(|_| !state.refuses_renewal);
            match &user {
                Some(user) => *state.refreshes.entry(user.clone()).or_default() += 1,
                None => state.mixed += usize::from(!state.refuses_renewal),
            }
            user
        } else {
            assert!(request.field("code_verifier").is_some_and(|verifier| verifier.len() >= 43));
            state.codes.remove(&request.field("code").unwrap_or_default())
        };
        let Some(user) = user else {
            return says("400 Bad Request", JSON, r#"{"error": "invalid_grant"}"#);
        };
        state.issued += 1;
        let [access, refresh] =
            ["access", "refresh"].map(|kind| format!("{kind}-token-{:08}", state.issued));
        state.access.insert(access.clone(), user.clone());
        state.refresh.insert(refresh.clone(), user);
        document(&json!({
            "access_token": access, "refresh_token": refresh, "token_type": "Bearer",
            "expires_in": state.life,
        }))
    }

    /// Exchanges the token of a user of the identity provider, whose signature the gateway has checked.
    fn exchange(&self, state: &mut State) -> Answer {
        let Self(request) = self;
        state.exchanges += 1;
        if let Some(code) = state.token_error {
            return says("400 Bad Request", JSON, &json!({"error": code}).to_string());
        }
        assert_eq!(request.field("audience").as_deref(), Some("api://up"));
        let subject = request.field("subject_token").expect("a token");
        let user = state.subjects.get(&subject).expect("a known token").clone();
        state.issued += 1;
        let access = format!("exchanged-token-{:08}", state.issued);
        state.access.insert(access.clone(), user);
        document(&json!({
            "access_token": access, "token_type": "Bearer", "expires_in": state.life,
            "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
        }))
    }
}
