//! An MCP server that acts for the user whose access token it is sent, and its authorization server, in
//! one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use airlock_test_http::{Answer, Server, says};
use reqwest::Url;
use serde_json::{Value, json};

const JSON: &str = "content-type: application/json\r\n";

/// The state of the peer, and what it has seen.
#[derive(Default)]
pub(super) struct State {
    /// True if the tools are listed without a token.
    pub(super) lists_openly: bool,
    /// Life of the tokens, in seconds.
    pub(super) life: u64,
    /// True if no token is renewed any more.
    pub(super) refuses_renewal: bool,
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
            Request::parse(request).answer(&mut state)
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
}

struct Request<'r> {
    method: &'r str,
    url: Url,
    base: String,
    bearer: Option<&'r str>,
    session: Option<&'r str>,
    body: &'r str,
}

impl<'r> Request<'r> {
    fn parse(text: &'r str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole request");
        let mut first = head.split(' ');
        let method = first.next().expect("a method");
        let path = first.next().expect("a path");
        let header = |name: &str| {
            head.lines().find_map(|line| {
                let (found, value) = line.split_once(": ")?;
                found.eq_ignore_ascii_case(name).then_some(value)
            })
        };
        let base = format!("http://{}", header("host").expect("HTTP/1.1"));
        let url = Url::parse(&format!("{base}{path}")).expect("a URL");
        let bearer = header("authorization").and_then(|value| value.strip_prefix("Bearer "));
        Self { method, url, base, bearer, session: header("mcp-session-id"), body }
    }

    fn answer(&self, state: &mut State) -> Answer {
        match (self.method, self.url.path()) {
            (_, "/mcp") => self.mcp(state),
            ("GET", "/.well-known/oauth-protected-resource/mcp") => self.resource(),
            ("GET", "/.well-known/oauth-authorization-server") => self.metadata(),
            ("POST", "/register") => {
                state.registered += 1;
                let asked: Value = serde_json::from_str(self.body).expect("JSON");
                let client =
                    json!({"client_id": "registered", "redirect_uris": asked["redirect_uris"]});
                says("201 Created", JSON, &client.to_string())
            }
            ("GET", "/authorize") => self.authorize(state),
            ("POST", "/token") => self.token(state),
            _ => says("404 Not Found", "", ""),
        }
    }

    fn mcp(&self, state: &mut State) -> Answer {
        let message: Value = serde_json::from_str(self.body).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default();
        let user = self.bearer.and_then(|token| state.access.get(token)).cloned();
        let may_be_anonymous =
            state.lists_openly && method != "tools/call" && self.bearer.is_none();
        let user = match user {
            Some(user) => user,
            None if may_be_anonymous => "anonymous".to_owned(),
            None => {
                let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", self.base);
                let challenge =
                    format!("www-authenticate: Bearer resource_metadata=\"{metadata}\"\r\n");
                return says("401 Unauthorized", &challenge, "");
            }
        };
        let mut headers = JSON.to_owned();
        if method == "initialize" {
            state.issued += 1;
            let session = format!("session-{}", state.issued);
            headers = format!("{headers}mcp-session-id: {session}\r\n");
            state.sessions.insert(session, user.clone());
        } else {
            let owner = self.session.and_then(|session| state.sessions.get(session));
            if method != "server/discover" && owner != Some(&user) {
                // What looks for the authorization server has no session.
                state.mixed += usize::from(self.session.is_some() || method == "tools/call");
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
                json!({"tools": [tool("whoami")]})
            }
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
        let resource = format!("{}/mcp", self.base);
        document(&json!({"resource": resource, "authorization_servers": [self.base]}))
    }

    fn metadata(&self) -> Answer {
        let base = &self.base;
        document(&json!({
            "issuer": base,
            "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        }))
    }

    /// Logs in the user whose name the browser adds to the URL.
    fn authorize(&self, state: &mut State) -> Answer {
        let parameter = |name: &str| {
            let found = self.url.query_pairs().find(|(key, _)| key == name);
            found.map(|(_, value)| value.into_owned())
        };
        assert_eq!(parameter("code_challenge_method").as_deref(), Some("S256"));
        assert_eq!(parameter("resource"), Some(format!("{}/mcp", self.base)));
        state.issued += 1;
        let code = format!("code-{}", state.issued);
        let user = parameter("user").unwrap_or_else(|| "operator".to_owned());
        let mut redirect =
            Url::parse(&parameter("redirect_uri").expect("a redirect")).expect("a URL");
        redirect
            .query_pairs_mut()
            .append_pair("state", &parameter("state").expect("a state"))
            .append_pair("code", &code)
            .append_pair("iss", &self.base);
        state.codes.insert(code, user);
        says("302 Found", &format!("location: {redirect}\r\n"), "")
    }

    fn token(&self, state: &mut State) -> Answer {
        let body = Url::parse(&format!("http://form/?{}", self.body)).expect("a form");
        let parameter = |name: &str| {
            let found = body.query_pairs().find(|(key, _)| key == name);
            found.map(|(_, value)| value.into_owned())
        };
        assert_eq!(parameter("resource"), Some(format!("{}/mcp", self.base)));
        let user = if parameter("grant_type").as_deref() == Some("refresh_token") {
            let token = parameter("refresh_token").unwrap_or_default();
            // As many servers do, it takes a refresh token once.
            let user = state.refresh.remove(&token).filter(|_| !state.refuses_renewal);
            match &user {
                Some(user) => *state.refreshes.entry(user.clone()).or_default() += 1,
                None => state.mixed += usize::from(!state.refuses_renewal),
            }
            user
        } else {
            assert!(parameter("code_verifier").is_some_and(|verifier| verifier.len() >= 43));
            state.codes.remove(&parameter("code").unwrap_or_default())
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
}

fn document(document: &Value) -> Answer {
    says("200 OK", JSON, &document.to_string())
}
