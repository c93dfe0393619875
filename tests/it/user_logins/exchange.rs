//! Access tokens of callers that are exchanged for those of a server.

use airlock_tests::{
    Client, EventStream, Gateway, Reply, Setup,
    mcp::{Endpoint, McpClient},
};
use futures_util::future::join_all;
use reqwest::{Method, header};
use serde_json::{Value, json};

use super::{ANN, oauth, open, peer::Peer, sessions, setup_of};
use crate::identity::Issuer;

fn exchange_setup(peer: &Peer, issuer: &Issuer) -> Setup {
    let exchange = json!({
        "token_url": peer.exchange_url(), "client_id": "gateway", "client_secret": "secret-of-gateway",
        "audience": "api://up",
    });
    let client = Client::http("up", &peer.url())
        .set("/auth_type", "token_exchange")
        .set("/token_exchange", exchange);
    setup_of(client).set("/mcp_server/oauth", oauth(issuer))
}

/// Calls `whoami` at `/mcp` with a credential. Returns the text, and the code of an error.
async fn whoami_at_mcp(gateway: &Gateway, credential: &str) -> (String, Value) {
    let client = McpClient::Modern(Endpoint::new(gateway).key(credential));
    let result = client.call("up-whoami", &json!({})).result().await;
    let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    (text, result["_meta"]["airlock/error"]["code"].clone())
}

#[tokio::test]
async fn the_token_of_each_caller_is_exchanged_for_its_own_and_reaches_no_server() {
    let peer = Peer::start(open()).await;
    let issuer = Issuer::start().await;
    let gateway = exchange_setup(&peer, &issuer).serve_connected().await;
    let mut tokens = Vec::new();
    for user in ["eve", "mallory"] {
        let token = issuer.token(&json!({"sub": user})).await;
        peer.state().subjects.insert(token.clone(), user.to_owned());
        tokens.push((token, user));
    }
    let calls = tokens.iter().flat_map(|own| [own; 8]).map(async |(token, user)| {
        let (text, _) = whoami_at_mcp(&gateway, token).await;
        assert_eq!(text, format!("you are {user}"));
    });
    join_all(calls).await;
    assert_eq!(peer.state().exchanges, 2, "one of each user");
    let (_, code) = whoami_at_mcp(&gateway, ANN).await;
    assert_eq!(code, "airlock.identity_required", "a virtual key is no token");
    assert!(sessions(&gateway, None).await.is_empty(), "nothing is stored");
    let state = peer.state();
    assert_eq!((state.mixed, state.leaked), (0, 0));
    let said = gateway.said();
    let secrets = tokens.iter().map(|(token, _)| token).chain(state.access.keys());
    assert!(secrets.into_iter().all(|secret| !said.contains(secret.as_str())), "{said}");
}

#[tokio::test]
async fn a_token_that_is_not_exchanged_fails_its_own_calls_with_the_reason() {
    let peer = Peer::start(open()).await;
    let issuer = Issuer::start().await;
    let gateway = exchange_setup(&peer, &issuer).serve_connected().await;
    let token = issuer.token(&json!({"sub": "eve"})).await;
    peer.state().subjects.insert(token.clone(), "eve".to_owned());
    peer.state().token_error = Some("invalid_target");
    for _ in 0..2 {
        let (text, code) = whoami_at_mcp(&gateway, &token).await;
        assert_eq!(code, "airlock.token_refused", "{text}");
        assert!(text.contains("invalid_target"), "{text}");
    }
    assert_eq!(peer.state().exchanges, 1, "not asked again at once");
    // The server refuses what the authorization server has issued.
    peer.state().token_error = None;
    let token = issuer.token(&json!({"sub": "mallory"})).await;
    peer.state().subjects.insert(token.clone(), "mallory".to_owned());
    assert_eq!(whoami_at_mcp(&gateway, &token).await.0, "you are mallory");
    peer.state().access.clear();
    for _ in 0..2 {
        assert_eq!(whoami_at_mcp(&gateway, &token).await.1, "airlock.token_refused");
    }
    assert_eq!(peer.state().exchanges, 2, "the refused token is new");
    assert!(peer.state().runs.iter().all(|user| user == "mallory"));
}

#[tokio::test]
async fn a_stream_of_the_deprecated_transport_keeps_no_token_of_its_caller() {
    let peer = Peer::start(open()).await;
    let issuer = Issuer::start().await;
    let setup = exchange_setup(&peer, &issuer).set("/mcp_server/sse", true);
    let gateway = setup.serve_connected().await;
    let token = issuer.token(&json!({"sub": "eve"})).await;
    peer.state().subjects.insert(token.clone(), "eve".to_owned());
    let opening = gateway.request(Method::GET, "/sse").bearer_auth(&token);
    let mut stream = EventStream::open(opening.header(header::ACCEPT, "text/event-stream")).await;
    let event = stream.next().await.expect("an event");
    let endpoint = event.strip_prefix("event: endpoint\ndata: ").expect("the endpoint");
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "up-whoami", "arguments": {}},
    });
    let posted = gateway.request(Method::POST, endpoint).bearer_auth(&token).json(&call);
    assert_eq!(Reply::fetch(posted).await.status, 202);
    let event = stream.next().await.expect("an event");
    assert!(event.contains("airlock.identity_required"), "{event}");
    assert_eq!(peer.state().exchanges, 0);
}
