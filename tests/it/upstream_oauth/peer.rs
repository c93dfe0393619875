//! An MCP server that wants an access token, and its authorization server, in one.

use std::sync::{Arc, Mutex, MutexGuard};

use airlock_test_http::{Answer, Server, says};
use reqwest::Url;
use serde_json::{Value, json};

use crate::oauth_peer::{PeerRequest, document};

/// Flaw of the documents or of the redirect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    /// The metadata names another issuer than it was asked for.
    OtherIssuer,
    /// The resource is that of another server.
    OtherResource,
    /// The resource names an authorization server at a link-local address.
    LinkLocalServer,
    /// The token endpoint is at a link-local address.
    LinkLocalToken,
    /// The browser would be sent to a URL that runs a script.
    ScriptedLogin,
    /// The metadata is endless.
    HugeMetadata,
    /// The resource names a thousand authorization servers without metadata.
    ManyServers,
    /// The metadata does not announce PKCE.
    NoPkce,
    /// Clients are not registered.
    NoRegistration,
    /// The identifier of a registered client is long.
    LongClient,
    /// The redirect names another issuer.
    WrongIss,
    /// The redirect names no issuer, although the metadata announces it.
    MissingIss,
    /// The user refuses.
    Denied,
    /// There is no metadata, and the redirect names another issuer.
    NoMetadata,
    /// The authorization endpoint names a resource itself.
    OwnParameter,
    /// The token endpoint repeats what it was sent.
    Echo,
    /// The scope "write" is not known.
    UnknownScope,
}

/// The state of the peer, and what it has seen.
pub(super) struct State {
    pub(super) flaw: Flaw,
    /// Life of the tokens, in seconds.
    pub(super) life: u64,
    issued: usize,
    /// The access token that is good, with its scopes.
    pub(super) good: Option<(String, String)>,
    /// True if a token is good until its life ends, though it was refreshed meanwhile.
    pub(super) keeps_refreshed: bool,
    /// The refresh token that is good.
    pub(super) refresh: Option<String>,
    /// Scopes of the last login.
    pub(super) scopes: String,
    /// Tokens that were issued.
    pub(super) tokens: Vec<String>,
    pub(super) refreshes: usize,
    /// Requests with a token that is not good.
    pub(super) refused: usize,
    /// Tools that were run.
    pub(super) runs: usize,
}

/// The running peer.
pub(super) struct Peer {
    pub(super) server: Server,
    state: Arc<Mutex<State>>,
}

impl Peer {
    pub(super) async fn start(flaw: Flaw) -> Self {
        let state = Arc::new(Mutex::new(State {
            flaw,
            life: 3_600,
            issued: 0,
            good: None,
            keeps_refreshed: false,
            refresh: None,
            scopes: String::new(),
            tokens: Vec::new(),
            refreshes: 0,
            refused: 0,
            runs: 0,
        }));
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

    /// Returns the number of refreshes, and of tools that were run.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.refreshes, state.runs)
    }

    pub(super) fn url(&self) -> String {
        self.server.url("127.0.0.1", "/mcp")
    }

    /// Returns the paths of the requests so far.
    pub(super) fn paths(&self) -> Vec<String> {
        let requests = self.server.requests();
        let path = |request: &String| request.split(' ').nth(1).unwrap_or_default().to_owned();
        requests.iter().map(path).collect()
    }
}

struct Request<'r>(PeerRequest<'r>);

impl Request<'_> {
    fn answer(&self, state: &mut State) -> Answer {
        match (self.0.method, self.0.url.path()) {
            (_, "/mcp") => self.mcp(state),
            ("GET", "/.well-known/oauth-protected-resource/mcp")
                if state.flaw != Flaw::NoMetadata =>
            {
                self.resource(state.flaw)
            }
            ("GET", "/.well-known/oauth-authorization-server")
                if !matches!(state.flaw, Flaw::ManyServers | Flaw::NoMetadata) =>
            {
                self.metadata(state.flaw)
            }
            ("POST", "/register") if state.flaw == Flaw::LongClient => {
                document(&json!({"client_id": "x".repeat(5_000), "redirect_uris": []}))
            }
            ("POST", "/register") => self.0.registered(),
            ("GET", "/authorize") => self.authorize(state),
            ("POST", "/token") => self.token(state),
            _ => says("404 Not Found", "", ""),
        }
    }

    fn mcp(&self, state: &mut State) -> Answer {
        let bearer = self.0.bearer.unwrap_or_default();
        let is_kept = state.keeps_refreshed && state.tokens.iter().any(|token| token == bearer);
        let good = state.good.clone().filter(|(token, _)| is_kept || token == bearer);
        let Some((token, scopes)) = good else {
            state.refused += usize::from(self.0.bearer.is_some());
            return self.0.challenge("scope=\"read\", ");
        };
        let message: Value = serde_json::from_str(self.0.body).unwrap_or_default();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "peer", "version": "1"},
            }),
            Some("ping") => json!({}),
            Some("tools/list") => {
                let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}});
                json!({"tools": [tool("read"), tool("write"), tool("picky")]})
            }
            Some("tools/call") => {
                let scope = message["params"]["name"].as_str().expect("a name");
                if scope == "picky" {
                    // It passes on the refusal of a service behind it.
                    return says("401 Unauthorized", "", "");
                }
                if !scopes.split(' ').any(|granted| granted == scope) {
                    let challenge = format!(
                        "www-authenticate: Bearer error=\"insufficient_scope\", scope=\"{scope}\"\r\n"
                    );
                    return says("403 Forbidden", &challenge, "");
                }
                state.runs += 1;
                // Like many servers, it repeats the credentials that it was sent.
                let text = format!("run {} with {token}", state.runs);
                json!({"content": [{"type": "text", "text": text}]})
            }
            Some(method) if method.starts_with("notifications/") => {
                return says("202 Accepted", "", "");
            }
            Some(_) => {
                let error = json!({"code": -32_601, "message": "unknown method"});
                return document(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
            }
            None => return says("405 Method Not Allowed", "", ""),
        };
        document(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    }

    fn resource(&self, flaw: Flaw) -> Answer {
        let resource = match flaw {
            Flaw::OtherResource => "https://other.example.com/mcp".to_owned(),
            _ => self.0.resource(),
        };
        let servers: Vec<String> = match flaw {
            Flaw::LinkLocalServer => vec!["http://169.254.169.254".to_owned()],
            Flaw::ManyServers => (0..1_000).map(|n| format!("{}/as/{n}", self.0.base)).collect(),
            _ => vec![self.0.base.clone()],
        };
        document(&json!({"resource": resource, "authorization_servers": servers}))
    }

    fn metadata(&self, flaw: Flaw) -> Answer {
        let base = &self.0.base;
        let mut metadata = self.0.metadata();
        let link_local = "http://169.254.169.254/latest/meta-data";
        match flaw {
            Flaw::OtherIssuer => metadata["issuer"] = json!("https://other.example.com"),
            Flaw::LinkLocalToken => metadata["token_endpoint"] = json!(link_local),
            Flaw::ScriptedLogin => {
                metadata["authorization_endpoint"] = json!("javascript:alert(1)");
            }
            Flaw::OwnParameter => {
                let endpoint = format!("{base}/authorize?resource=https://bank.example.com");
                metadata["authorization_endpoint"] = json!(endpoint);
            }
            Flaw::HugeMetadata => return Answer::Drips,
            Flaw::NoPkce => metadata["code_challenge_methods_supported"] = json!(["plain"]),
            Flaw::NoRegistration => metadata["registration_endpoint"] = Value::Null,
            _ => {}
        }
        document(&metadata)
    }

    fn authorize(&self, state: &mut State) -> Answer {
        self.0.check_authorization();
        state.scopes = self.0.parameter("scope").unwrap_or_default();
        let redirect = self.0.parameter("redirect_uri").expect("a redirect");
        let mut redirect = Url::parse(&redirect).expect("a URL");
        let mut query = redirect.query_pairs_mut();
        query.append_pair("state", &self.0.parameter("state").expect("a state"));
        match state.flaw {
            Flaw::Denied => query.append_pair("error", "access_denied"),
            Flaw::UnknownScope if state.scopes.contains("write") => {
                query.append_pair("error", "invalid_scope")
            }
            _ => query.append_pair("code", "code-0123456789"),
        };
        match state.flaw {
            Flaw::WrongIss | Flaw::NoMetadata => {
                query.append_pair("iss", "https://other.example.com");
            }
            Flaw::MissingIss => {}
            _ => drop(query.append_pair("iss", &self.0.base)),
        }
        drop(query);
        says("302 Found", &format!("location: {redirect}\r\n"), "")
    }

    fn token(&self, state: &mut State) -> Answer {
        let Self(request) = self;
        assert_eq!(request.field("resource"), Some(request.resource()));
        let is_good = match request.field("grant_type").as_deref() {
            Some("authorization_code") => {
                request.field("code").as_deref() == Some("code-0123456789")
                    && request.field("code_verifier").is_some_and(|verifier| verifier.len() >= 43)
            }
            Some("refresh_token") => {
                state.refreshes += 1;
                request
                    .field("refresh_token")
                    .is_some_and(|token| state.refresh.as_ref() == Some(&token))
            }
            other => panic!("{other:?}"),
        };
        if state.flaw == Flaw::Echo {
            let error = json!({"error": "invalid_grant", "error_description": request.body});
            let kind = "content-type: application/json\r\n";
            return says("400 Bad Request", kind, &error.to_string());
        }
        if !is_good {
            let kind = "content-type: application/json\r\n";
            return says("400 Bad Request", kind, r#"{"error": "invalid_grant"}"#);
        }
        state.issued += 1;
        let [access, refresh] =
            ["access", "refresh"].map(|kind| format!("{kind}-token-{:08}", state.issued));
        state.good = Some((access.clone(), state.scopes.clone()));
        state.refresh = Some(refresh.clone());
        state.tokens.extend([access.clone(), refresh.clone()]);
        document(&json!({
            "access_token": access, "refresh_token": refresh, "token_type": "Bearer",
            "expires_in": state.life,
        }))
    }
}
