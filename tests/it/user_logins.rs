//! Logins of users at MCP servers that act for them: each virtual key, and each user with an access token,
//! has an account of its own.

mod browser;
mod exchange;
mod headers;
mod peer;

use airlock_tests::{
    Client, Gateway, Reply, Setup,
    mcp::{Endpoint, McpClient},
    wait,
};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use self::{
    browser::{Browser, confirmation},
    peer::{Peer, State},
};
use crate::{identity::Issuer, records::events, upstream_oauth};

const ANN: &str = "sk-bf-ann-0123456789abc";
const BOB: &str = "sk-bf-bob-0123456789abc";

fn open() -> State {
    State { lists_openly: true, life: 3_600, ..State::default() }
}

fn setup(peer: &Peer) -> Setup {
    setup_of(Client::http("up", &peer.url()).set("/auth_type", "per_user_oauth"))
}

/// Returns a gateway with this client, whose tools ann and bob may call.
fn setup_of(client: Client) -> Setup {
    let client = client.auto(&["*"]).set("/trust", "trusted");
    Setup::new().client(client).key("ann", ANN, &[("up", &["*"])]).key(
        "bob",
        BOB,
        &[("up", &["*"])],
    )
}

async fn whoami(gateway: &Gateway, key: &str) -> Reply {
    gateway.execute_with(&[("x-bf-vk", key)], "up-whoami", &json!({})).await
}

/// Returns the link of a call that needs a login.
fn link(reply: &Reply) -> String {
    assert_eq!((reply.status, reply.code()), (401, "login_required"), "{}", reply.text);
    let required = &reply.body["extra_fields"]["mcp_auth_required"];
    assert_eq!(reply.body["error"]["type"], "mcp_auth_required");
    assert_eq!(required["mcp_client_name"], "up");
    required["authorize_url"].as_str().expect("a link").to_owned()
}

/// Logs in the holder of a key as a user of the server.
async fn log_in(gateway: &Gateway, key: &'static str, user: &str) {
    let link = link(&whoami(gateway, key).await);
    Browser::new(key).log_in(&link, user).await;
}

/// Returns the logins that a caller sees, or an operator without a key.
async fn sessions(gateway: &Gateway, key: Option<&str>) -> Vec<Value> {
    let listed = match key {
        Some(key) => {
            let request = gateway.request(Method::GET, "/api/mcp/sessions").bearer_auth(key);
            Reply::fetch(request).await
        }
        None => gateway.get("/api/mcp/sessions").await,
    };
    listed.ok()["sessions"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn each_key_acts_with_its_own_account_also_at_once_and_after_refreshes() {
    let peer = Peer::start(State { life: 3, ..State::default() }).await;
    let setup = setup(&peer);
    upstream_oauth::log_in(&setup.write()).await;
    let gateway = setup.serve_connected().await;
    for (key, user) in [(ANN, "ann"), (BOB, "bob")] {
        log_in(&gateway, key, user).await;
    }
    assert_eq!(peer.state().registered, 2, "one client for the operator, one for all users");
    // Another gateway on the same store spends no refresh token that this one has spent.
    let store = gateway.directory().join("airlock.db").display().to_string();
    let other = self::setup(&peer).set("/store", store).serve_connected().await;
    let gateways = [&gateway, &other];
    wait::until("refreshes of both", async || {
        let calls = (0..24).map(async |number: usize| {
            let (key, user) = [(ANN, "ann"), (BOB, "bob")][number % 2];
            let gateway = gateways[number % 3 % 2];
            assert_eq!(whoami(gateway, key).await.content(), format!("you are {user}"));
        });
        join_all(calls).await;
        let state = peer.state();
        let are_renewed = ["ann", "bob"].iter().all(|user| state.refreshes.get(*user) >= Some(&2));
        are_renewed.then_some(())
    })
    .await;
    let state = peer.state();
    assert_eq!(state.mixed, 0);
    assert!(state.runs.iter().all(|user| user == "ann" || user == "bob"), "none as the operator");
    let said = gateway.said();
    assert!(!state.access.keys().any(|token| said.contains(token)), "{said}");
}

#[tokio::test]
async fn a_login_belongs_to_the_key_that_asked_and_to_the_browser_that_confirmed() {
    let peer = Peer::start(open()).await;
    let gateway = setup(&peer).set("/server/require_virtual_key", false).serve_connected().await;
    let anonymous = gateway.execute("up-whoami", &json!({})).await;
    assert_eq!(anonymous.code(), "identity_required", "{}", anonymous.text);
    let link = link(&whoami(&gateway, ANN).await);
    assert_eq!(self::link(&whoami(&gateway, ANN).await), link, "the last link stays");
    assert_ne!(self::link(&whoami(&gateway, BOB).await), link);

    let mut browser = Browser::new(ANN);
    let page = browser.open(&link).await;
    assert!(page.text.contains("“ann”") && page.text.contains("“up”"), "{}", page.text);
    let code = confirmation(&page.text);
    let refusals = [
        browser.send(&link, "0123", None).await,
        browser.send(&link, code, Some("https://evil.example")).await,
        Browser::new(ANN).send(&link, code, None).await,
        browser.as_user_of(BOB).send(&link, code, None).await,
    ];
    assert!(refusals.iter().all(|refused| refused.status().as_u16() == 403));
    let redirect = browser.authorize(&link, "ann").await;
    assert_eq!(Browser::new(ANN).open(&redirect).await.status, 403, "another browser");
    let forged = redirect.replace("iss=http%3A%2F%2F127", "iss=https%3A%2F%2Fother");
    assert_ne!(forged, redirect);
    let path = "/oauth/callback/";
    let elsewhere = redirect.replace(&format!("{path}up"), &format!("{path}other"));
    assert_ne!(elsewhere, redirect);
    assert_eq!(browser.open(&elsewhere).await.status, 404, "the redirect of another client");
    assert_eq!(browser.finish(&forged).await, 400, "another issuer");
    assert_eq!(browser.finish(&redirect).await, 404, "the login was used up by that");

    let redirect = browser.authorize(&self::link(&whoami(&gateway, ANN).await), "ann").await;
    let page = browser.open(&redirect).await;
    assert!(page.status == 200 && page.text.contains("“ann”"), "{}", page.text);
    let code = confirmation(&page.text);
    let foreign = browser.send(&redirect, code, Some("http://127.0.0.1:1")).await;
    assert_eq!(foreign.status().as_u16(), 403, "another program of this machine");
    assert_eq!(whoami(&gateway, ANN).await.status, 401, "not before it is confirmed");
    assert_eq!(browser.finish(&redirect).await, 200);
    assert_eq!(browser.finish(&redirect).await, 404, "replayed");
    assert_eq!(browser.open(&link).await.status, 404);
    assert_eq!(whoami(&gateway, ANN).await.content(), "you are ann");
    assert_eq!(whoami(&gateway, BOB).await.status, 401);
    assert_eq!(peer.state().runs, ["ann"]);
}

#[tokio::test]
async fn a_login_is_listed_for_its_holder_and_ends_when_it_is_revoked_or_not_renewed() {
    let log = tempfile::tempdir().expect("a directory");
    let peer = Peer::start(open()).await;
    let setup = setup(&peer).set("/records/audit/enabled", true);
    let setup = setup.set("/records/audit/dir", log.path().display().to_string());
    let gateway = setup.serve_connected().await;
    log_in(&gateway, ANN, "ann").await;
    log_in(&gateway, BOB, "bob").await;
    let [own] = &sessions(&gateway, Some(ANN)).await[..] else { panic!("one") };
    assert_eq!((&own["status"], &own["virtual_key_name"]), (&json!("active"), &json!("ann")));
    assert_eq!(sessions(&gateway, None).await.len(), 2, "an operator sees all");
    let path = format!("/api/mcp/sessions/{}", own["id"].as_str().expect("an identifier"));
    let foreign = gateway.request(Method::DELETE, &path).bearer_auth(BOB);
    assert_eq!(Reply::fetch(foreign).await.status, 404);
    assert_eq!(whoami(&gateway, ANN).await.status, 200);
    let revoked = gateway.request(Method::DELETE, &path).bearer_auth(ANN);
    assert_eq!(Reply::fetch(revoked).await.status, 200);
    link(&whoami(&gateway, ANN).await);

    {
        let mut state = peer.state();
        state.refuses_renewal = true;
        state.access.clear();
    }
    link(&whoami(&gateway, BOB).await);
    let [own] = &sessions(&gateway, Some(BOB)).await[..] else { panic!("one") };
    assert_eq!(own["status"], "needs_reauth");
    log_in(&gateway, BOB, "robert").await;
    assert_eq!(whoami(&gateway, BOB).await.content(), "you are robert");
    let [own] = &sessions(&gateway, Some(BOB)).await[..] else { panic!("one") };
    assert_eq!(own["status"], "active");
    assert_eq!(peer.state().mixed, 0);
    gateway.terminate();
    gateway.ended().await;
    let events = events(log.path());
    let recorded = events.iter().filter_map(|event| {
        let kind = event["kind"].as_str().filter(|kind| kind.starts_with("user_"));
        Some((kind?, event["actor"].as_str()?, event["object"].as_str()?))
    });
    let expected = [
        ("user_login", "key \"ann\"", "up"),
        ("user_login", "key \"bob\"", "up"),
        ("user_logout", "key \"ann\"", "up"),
        ("user_login", "key \"bob\"", "up"),
    ];
    assert_eq!(recorded.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn the_logins_of_a_key_are_removed_with_it() {
    let peer = Peer::start(open()).await;
    let gateway = setup(&peer).serve_connected().await;
    log_in(&gateway, ANN, "ann").await;
    log_in(&gateway, BOB, "bob").await;
    let path = gateway.directory().join("airlock.json");
    let text = std::fs::read_to_string(&path).expect("the configuration");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    let keys = config["governance"]["virtual_keys"].as_array_mut().expect("a list");
    keys.retain(|key| key["name"] != "ann");
    let new = path.with_extension("new");
    std::fs::write(&new, config.to_string()).expect("a file");
    std::fs::rename(&new, &path).expect("it takes its place");
    wait::until("the login to be removed", async || {
        (sessions(&gateway, None).await.len() == 1).then_some(())
    })
    .await;
    assert_eq!(sessions(&gateway, Some(BOB)).await.len(), 1);
    assert_eq!(whoami(&gateway, BOB).await.content(), "you are bob");
}

/// Calls `whoami` as an MCP client, and logs in as `user` with this virtual key if it is asked to.
async fn call_and_log_in(client: &McpClient, key: &'static str, user: &str) -> Value {
    let params = json!({"name": "up-whoami", "arguments": {}});
    match client {
        McpClient::Modern(endpoint) => {
            let asked = endpoint.modern("tools/call", params.clone()).result().await;
            assert_eq!(asked["resultType"], "input_required", "{asked}");
            let question = &asked["inputRequests"]["login"];
            follow(question, key, user).await;
            let mut params = params;
            params["requestState"] = asked["requestState"].clone();
            params["inputResponses"] = json!({"login": {"action": "accept"}});
            endpoint.modern("tools/call", params).result().await
        }
        McpClient::Legacy(session) => {
            let calling = session.request("tools/call", params).stream_or_response().await;
            let mut stream = calling.unwrap_or_else(|response| panic!("{response}"));
            let question = stream.next().await.expect("a question");
            follow(&question, key, user).await;
            let answer = session.respond(&question["id"], json!({"action": "accept"}));
            assert_eq!(answer.reply().await.status, 202);
            stream.next().await.expect("a response")["result"].clone()
        }
    }
}

async fn follow(question: &Value, key: &'static str, user: &str) {
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert_eq!(question["params"]["mode"], "url", "{question}");
    let link = question["params"]["url"].as_str().expect("a link");
    Browser::new(key).log_in(link, user).await;
}

#[tokio::test]
async fn an_mcp_client_has_its_user_log_in_and_the_call_goes_on() {
    let peer = Peer::start(open()).await;
    let gateway = setup(&peer).serve_connected().await;
    let capabilities = json!({"elicitation": {"form": {}, "url": {}}});
    for (key, user, index) in [(ANN, "ann", 0), (BOB, "bob", 1)] {
        let endpoint = Endpoint::new(&gateway).key(key).with_capabilities(capabilities.clone());
        let client = &endpoint.both().await[index];
        let result = call_and_log_in(client, key, user).await;
        assert_eq!(result["content"][0]["text"], format!("you are {user}"), "{client:?} {result}");
        let again = client.call("up-whoami", &json!({})).result().await;
        assert_eq!(again["content"][0]["text"], format!("you are {user}"));
    }
    assert_eq!(peer.state().mixed, 0);
}

#[tokio::test]
async fn an_mcp_client_that_declines_or_opens_no_links_is_told() {
    let peer = Peer::start(open()).await;
    let gateway = setup(&peer).serve_connected().await;
    let capabilities = json!({"elicitation": {"url": {}}});
    let endpoint = Endpoint::new(&gateway).key(ANN).with_capabilities(capabilities);
    let mut params = json!({"name": "up-whoami", "arguments": {}});
    let asked = endpoint.modern("tools/call", params.clone()).result().await;
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] = json!({"login": {"action": "decline"}});
    let declined = endpoint.modern("tools/call", params).result().await;
    assert_eq!(declined["_meta"]["airlock/error"]["code"], "airlock.declined", "{declined}");
    for client in Endpoint::new(&gateway).key(ANN).both().await {
        let told = client.call("up-whoami", &json!({})).result().await;
        assert_eq!(told["_meta"]["airlock/error"]["code"], "airlock.login_required", "{told}");
        let url = told["_meta"]["airlock/login"]["url"].as_str().expect("a link");
        let text = told["content"][0]["text"].as_str().expect("a text");
        assert!(told["isError"] == true && text.contains(url), "{told}");
    }
    assert!(peer.state().runs.is_empty());
}

#[tokio::test]
async fn users_with_access_tokens_have_accounts_of_their_own_although_they_share_a_key() {
    let peer = Peer::start(open()).await;
    let issuer = Issuer::start().await;
    let gateway = setup(&peer).set("/mcp_server/oauth", oauth(&issuer)).serve_connected().await;
    let capabilities = json!({"elicitation": {"url": {}}});
    let mut clients = Vec::new();
    for user in ["eve", "mallory"] {
        let token = issuer.token(&json!({"sub": user})).await;
        let endpoint = Endpoint::new(&gateway).key(&token).with_capabilities(capabilities.clone());
        let client = McpClient::Modern(endpoint);
        let result = call_and_log_in(&client, "", user).await;
        assert_eq!(result["content"][0]["text"], format!("you are {user}"));
        clients.push((client, user));
    }
    let calls = clients.iter().flat_map(|own| [own; 10]).map(async |(client, user)| {
        let result = client.call("up-whoami", &json!({})).result().await;
        assert_eq!(result["content"][0]["text"], format!("you are {user}"));
    });
    join_all(calls).await;
    assert_eq!(peer.state().mixed, 0);
    assert_eq!(whoami(&gateway, ANN).await.status, 401, "the key itself is not logged in");
    let listed = sessions(&gateway, None).await;
    let subjects: Vec<_> = listed.iter().map(|own| &own["user"]["subject"]).collect();
    assert!(subjects.contains(&&json!("eve")) && subjects.contains(&&json!("mallory")));
}

/// Returns the settings of an identity provider whose users see the tools of ann.
fn oauth(issuer: &Issuer) -> Value {
    let views = json!([{"claim": "groups", "value": "staff", "virtual_key": "ann"}]);
    json!({
        "issuer": issuer.url(), "resource": crate::identity::RESOURCE, "scopes": ["mcp"], "views": views,
    })
}

/// Returns a model that calls tools at the word `go`, and repeats the last result then.
fn model(calls: &[&str]) -> Value {
    let calls: Vec<_> = calls.iter().map(|name| json!({"name": name, "arguments": {}})).collect();
    json!({"turns": [
        {"when": {"role": "user", "contains": "go"}, "answer": {"content": "", "tool_calls": calls}},
        {"when": {"role": "tool"}, "answer": {"content": "Result: {{last_tool_result}}"}},
    ]})
}

async fn chat(gateway: &Gateway, key: &str) -> Reply {
    let body = json!({"model": "script/m", "messages": [{"role": "user", "content": "go"}]});
    let request = gateway.request(Method::POST, "/v1/chat/completions").json(&body);
    Reply::fetch(request.header("x-bf-vk", key)).await
}

#[tokio::test]
async fn a_chat_whose_calls_all_need_a_login_fails_with_the_link_and_can_be_repeated() {
    let peer = Peer::start(open()).await;
    let setup = setup(&peer).scripted("script", &model(&["up-whoami", "up-whoami"]));
    let gateway = setup.serve_connected().await;
    let link = link(&chat(&gateway, ANN).await);
    Browser::new(ANN).log_in(&link, "ann").await;
    let answer = chat(&gateway, ANN).await.ok();
    let text = answer["choices"][0]["message"]["content"].as_str().expect("a text");
    assert!(text.contains("you are ann"), "{answer}");
}

#[tokio::test]
async fn a_chat_in_which_another_call_ran_tells_the_model_the_link() {
    let peer = Peer::start(open()).await;
    peer.state().access.insert("token-of-a-service".to_owned(), "service".to_owned());
    let own = Client::http("own", &peer.url()).auto(&["*"]);
    let own = own.set("/headers/authorization", "Bearer token-of-a-service");
    let rows: &[(&str, &[&str])] = &[("up", &["*"]), ("own", &["*"])];
    let setup = setup(&peer).client(own.set("/trust", "trusted"));
    let setup = setup.key("eve", "sk-bf-eve-0123456789abc", rows);
    let setup = setup.scripted("script", &model(&["own-whoami", "up-whoami"]));
    let gateway = setup.serve_connected().await;
    let answer = chat(&gateway, "sk-bf-eve-0123456789abc").await.ok();
    let text = answer["choices"][0]["message"]["content"].as_str().expect("a text");
    assert!(text.contains("/oauth/login/"), "{answer}");
    assert_eq!(peer.state().runs, ["service"]);
}

#[tokio::test]
async fn the_logins_of_a_client_are_removed_with_it_and_with_its_url() {
    let peer = Peer::start(open()).await;
    let gateway = setup(&peer).serve_connected().await;
    log_in(&gateway, ANN, "ann").await;
    let path = gateway.directory().join("airlock.json");
    let text = std::fs::read_to_string(&path).expect("the configuration");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    config["mcp"]["client_configs"][0]["connection_string"] = json!(format!("{}?v=2", peer.url()));
    let new = path.with_extension("new");
    std::fs::write(&new, config.to_string()).expect("a file");
    std::fs::rename(&new, &path).expect("it takes its place");
    wait::until("the login to be removed", async || {
        sessions(&gateway, None).await.is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_authorization_server_that_refuses_the_gateway_costs_no_user_its_login() {
    let peer = Peer::start(State { life: 2, ..open() }).await;
    let gateway = setup(&peer).serve_connected().await;
    log_in(&gateway, ANN, "ann").await;
    {
        let mut state = peer.state();
        state.token_error = Some("invalid_client");
        state.access.clear();
    }
    link(&whoami(&gateway, ANN).await);
    let [own] = &sessions(&gateway, Some(ANN)).await[..] else { panic!("one") };
    assert_eq!(own["status"], "active", "its tokens are kept");
}
