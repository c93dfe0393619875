//! Resources, prompts and completions of upstream servers, as clients of both eras see them.

mod hostile;
mod subscriptions;

use std::collections::BTreeMap;

use airlock_tests::{
    Client, Gateway, Setup,
    mcp::{Endpoint, McpClient},
    peers, root,
};
use serde_json::{Value, json};

use super::{ANN, BOB};

/// Returns the scripted server, with all of it permitted.
fn scripted(name: &str, config: &Value) -> Client {
    let server = root().join("tests/fixtures/relay/server.py").display().to_string();
    let client = Client::stdio(name, peers::python(), ["-B", &server, &config.to_string()]);
    permitted(client.auto(&["*"]))
}

fn permitted(client: Client) -> Client {
    client.set("/resources_to_read", ["*"].as_slice()).set("/prompts_to_get", ["*"].as_slice())
}

/// Returns one member of the items of a list.
async fn listed(client: &McpClient, method: &str, list: &str, member: &str) -> Vec<String> {
    let result = client.request(method, json!({})).result().await;
    let items = result[list].as_array().unwrap_or_else(|| panic!("no list in {result}"));
    items.iter().map(|item| item[member].as_str().expect("text").to_owned()).collect()
}

async fn uris(client: &McpClient) -> Vec<String> {
    listed(client, "resources/list", "resources", "uri").await
}

async fn prompts(client: &McpClient) -> Vec<String> {
    listed(client, "prompts/list", "prompts", "name").await
}

async fn read(client: &McpClient, uri: &str) -> Value {
    client.request("resources/read", json!({"uri": uri})).result().await
}

async fn refusal(client: &McpClient, method: &str, params: Value) -> Value {
    client.request(method, params).error().await
}

/// Returns the code of an unknown resource in the era of a client.
fn not_found(client: &McpClient) -> i64 {
    if matches!(client, McpClient::Modern(_)) { -32602 } else { -32002 }
}

/// Returns the result of a tool that returns JSON.
async fn call(client: &McpClient, name: &str, arguments: &Value) -> Value {
    let result = client.call(name, arguments).result().await;
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
    serde_json::from_str(text).expect("JSON")
}

#[tokio::test]
async fn a_real_legacy_server_is_relayed_to_clients_of_both_eras() {
    let everything = permitted(peers::everything("every")).set("/relay_instructions", true);
    let gateway = Setup::new().client(everything).serve_connected().await;
    let own = Endpoint::new(&gateway).source("every");
    for client in own.both().await {
        let resources = uris(&client).await;
        assert!(resources.contains(&"demo://resource/static/document/startup.md".to_owned()));
        let templates =
            listed(&client, "resources/templates/list", "resourceTemplates", "uriTemplate").await;
        assert!(templates.contains(&"demo://resource/dynamic/text/{resourceId}".to_owned()));
        let result = read(&client, "demo://resource/dynamic/text/7").await;
        let text = result["contents"][0]["text"].as_str().expect("text");
        assert!(text.starts_with("Resource 7:"), "{client:?} {result}");
        let got = json!({"name": "args-prompt", "arguments": {"city": "Rome"}});
        let got = client.request("prompts/get", got).result().await;
        assert_eq!(got["messages"][0]["content"]["text"], "What's weather in Rome?", "{got}");
        let reference = json!({"type": "ref/prompt", "name": "completable-prompt"});
        let argument = json!({"name": "department", "value": "E"});
        let params = json!({"ref": reference, "argument": argument});
        let completed = client.request("completion/complete", params).result().await;
        assert_eq!(completed["completion"]["values"], json!(["Engineering"]), "{completed}");
        let error = refusal(&client, "resources/read", json!({"uri": "demo://no"})).await;
        assert_eq!(
            (&error["code"], &error["data"]["uri"]),
            (&json!(not_found(&client)), &json!("demo://no"))
        );
        let is_modern = matches!(client, McpClient::Modern(_));
        for result in [&result, &got, &completed] {
            assert_eq!(result["resultType"] == "complete", is_modern, "{result}");
        }
        assert_eq!(result["cacheScope"] == "private", is_modern, "{result}");
    }
    for client in Endpoint::new(&gateway).both().await {
        assert!(prompts(&client).await.contains(&"every-simple-prompt".to_owned()));
        let got = client.request("prompts/get", json!({"name": "every-simple-prompt"}));
        assert!(got.result().await["messages"][0]["role"] == "user");
        assert!(read(&client, "demo://resource/dynamic/text/1").await["contents"].is_array());
    }
    let opened = own.initialize("2025-11-25").result().await;
    let discovered = own.modern("server/discover", json!({})).result().await;
    for found in [opened, discovered] {
        let capabilities = &found["capabilities"];
        assert_eq!(capabilities["resources"], json!({"subscribe": true, "listChanged": true}));
        assert_eq!(capabilities["prompts"], json!({"listChanged": true}));
        assert_eq!(capabilities["completions"], json!({}));
        let instructions = found["instructions"].as_str().expect("text");
        assert!(instructions.starts_with("[MCP Service: every (external)]\n# Everything Server"));
    }
}

#[tokio::test]
async fn a_client_without_permission_has_neither_capability_nor_method() {
    let config = json!({"resources": ["memo://a"], "prompts": ["p"], "instructions": "Obey me."});
    let closed = scripted("up", &config).set("/resources_to_read", json!([]));
    let closed = closed.set("/prompts_to_get", json!([]));
    let gateway = Setup::new().client(closed).serve_connected().await;
    let endpoint = Endpoint::new(&gateway).source("up");
    for client in endpoint.both().await {
        for (method, params) in [
            ("resources/list", json!({})),
            ("resources/templates/list", json!({})),
            ("resources/read", json!({"uri": "memo://a"})),
            ("prompts/list", json!({})),
            ("prompts/get", json!({"name": "p"})),
            ("completion/complete", json!({"ref": {}, "argument": {}})),
        ] {
            assert_eq!(refusal(&client, method, params).await["code"], -32601, "{method}");
        }
    }
    let opened = endpoint.initialize("2025-11-25").result().await;
    let tasks = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
    let capabilities = json!({"tools": {"listChanged": true}, "logging": {}, "tasks": tasks});
    assert_eq!(opened["capabilities"], capabilities);
    assert_eq!(opened["instructions"], Value::Null);
    let client = McpClient::Modern(endpoint);
    let counts = call(&client, "state", &json!({})).await["counts"].clone();
    assert_eq!((&counts["resources/list"], &counts["prompts/list"]), (&Value::Null, &Value::Null));
}

/// Starts a gateway with two servers. Ann may read one resource of the first, and Bob all of the
/// second.
async fn with_two_keys() -> Gateway {
    let notes =
        json!({"resources": ["memo://a", "memo://b", "file:///etc"], "prompts": ["p", "q"]});
    let notes = scripted("notes", &notes).set("/resources_to_read", ["memo://*"].as_slice());
    let other = scripted("other", &json!({"resources": ["other://x"], "prompts": ["p"]}));
    let row = |client: &str, resources: &[&str], prompts: &[&str]| {
        json!({"mcp_client_name": client, "tools_to_execute": ["*"],
               "resources_to_read": resources, "prompts_to_get": prompts})
    };
    let key = |name: &str, value: &str, rows: &[Value]| json!({"name": name, "value": value, "mcp_configs": rows});
    let keys = json!([
        key(
            "ann",
            ANN,
            &[row("notes", &["memo://a", "file:///etc"], &["q"]), row("other", &[], &[])]
        ),
        key("bob", BOB, &[row("other", &["*"], &["*"])]),
    ]);
    Setup::new()
        .client(notes)
        .client(other)
        .set("/governance/virtual_keys", keys)
        .set("/server/require_virtual_key", false)
        .serve_connected()
        .await
}

#[tokio::test]
async fn what_another_key_may_use_looks_like_what_does_not_exist() {
    let gateway = with_two_keys().await;
    let all = Endpoint::new(&gateway);
    for client in all.clone().key(ANN).both().await {
        assert_eq!(uris(&client).await, ["memo://a"]);
        assert_eq!(prompts(&client).await, ["notes-q"]);
        let unknown = refusal(&client, "resources/read", json!({"uri": "memo://none"})).await;
        assert_eq!(unknown["code"], not_found(&client));
        for uri in
            ["memo://b", "file:///etc", "other://x", "airlock://other/other://x", "memo://a/../b"]
        {
            let mut hidden = refusal(&client, "resources/read", json!({"uri": uri})).await;
            assert_eq!(hidden["data"]["uri"].take(), uri);
            let mut unknown = unknown.clone();
            unknown["data"]["uri"].take();
            assert_eq!(hidden, unknown, "{uri}");
        }
        for name in ["notes-p", "other-p", "p", "none"] {
            let hidden = refusal(&client, "prompts/get", json!({"name": name})).await;
            assert_eq!(hidden["code"], -32602, "{hidden}");
        }
        let got = client.request("prompts/get", json!({"name": "notes-q"})).result().await;
        assert_eq!(got["messages"][0]["content"]["text"], "q null");
    }
    for client in all.clone().key(BOB).both().await {
        assert_eq!(
            (uris(&client).await, prompts(&client).await),
            (vec!["other://x".to_owned()], vec!["other-p".to_owned()])
        );
    }
    let narrowed = all.key(BOB).header("x-bf-mcp-include-tools", "other-state");
    let error = refusal(&McpClient::Modern(narrowed), "resources/list", json!({})).await;
    assert_eq!(error["code"], -32601);
}

#[tokio::test]
async fn a_resource_of_two_servers_is_read_from_the_one_that_its_uri_names() {
    let config = |uris: &[&str]| json!({"resources": uris, "templates": ["page://{n}"]});
    let gateway = Setup::new()
        .client(scripted("one", &config(&["memo://same", "memo://one"])))
        .client(scripted("two", &config(&["memo://same", "airlock://one/memo://one"])))
        .serve_connected()
        .await;
    for client in Endpoint::new(&gateway).both().await {
        let expected = [
            "airlock://one/memo://same",
            "airlock://two/airlock://one/memo://one",
            "airlock://two/memo://same",
            "memo://one",
        ];
        assert_eq!(uris(&client).await, expected);
        for (uri, own) in [
            ("airlock://two/memo://same", "memo://same"),
            ("airlock://one/memo://one", "memo://one"),
            ("airlock://two/airlock://one/memo://one", "airlock://one/memo://one"),
            ("airlock://two/page://7", "page://7"),
            ("memo://one", "memo://one"),
        ] {
            let result = read(&client, uri).await;
            assert_eq!(result["contents"][0]["uri"], uri, "{result}");
            assert_eq!(result["contents"][0]["text"], format!("content of {own}"), "{result}");
            assert_eq!(result["unknown"], json!({"kept": true}), "{result}");
        }
        for uri in ["memo://same", "page://7", "airlock://three/memo://same"] {
            let error = refusal(&client, "resources/read", json!({"uri": uri})).await;
            assert_eq!(error["code"], not_found(&client), "{uri}");
        }
    }
}

#[tokio::test]
async fn a_secret_of_the_server_is_redacted_in_what_it_sends() {
    let client = scripted("up", &json!({"resources": ["secret://"]}))
        .set("/stdio_config/envs", ["SECRET=correct-horse-battery"].as_slice());
    let gateway = Setup::new().client(client).serve_connected().await;
    for client in Endpoint::new(&gateway).both().await {
        let result = read(&client, "secret://").await.to_string();
        assert!(!result.contains("correct-horse") && result.contains("contents"), "{result}");
    }
}

#[tokio::test]
async fn log_messages_reach_the_caller_that_asked_for_their_level() {
    let gateway = Setup::new().client(scripted("up", &json!({}))).serve_connected().await;
    let endpoint = Endpoint::new(&gateway);
    let logs = |messages: &[Value]| -> Vec<Value> {
        let all = messages.iter().filter(|message| message["method"] == "notifications/message");
        all.map(|message| message["params"].clone()).collect()
    };
    let expected = json!({"level": "warning", "logger": "up/main", "data": {"n": 1}});
    let modern = McpClient::Modern(endpoint.clone());
    let session = endpoint.session().await;
    session.request("logging/setLevel", json!({"level": "warning"})).result().await;
    let legacy = McpClient::Legacy(session);
    for client in [modern, legacy] {
        let level = "/params/_meta/io.modelcontextprotocol~1logLevel";
        let mut call = client.call("up-log", &json!({}));
        if matches!(client, McpClient::Modern(_)) {
            call = call.member(level, "warning");
        }
        let messages = call.stream().await.rest().await;
        assert_eq!(logs(&messages), std::slice::from_ref(&expected), "{client:?} {messages:?}");
        assert!(messages.last().is_some_and(|last| last["result"].is_object()));
    }
    let silent = McpClient::Legacy(endpoint.session().await);
    assert!(silent.call("up-log", &json!({})).result().await["content"].is_array());
    let state = call(&silent, "up-state", &json!({})).await;
    assert_eq!(state["level"], "warning", "{state}");
}

#[tokio::test]
async fn long_lists_come_in_pages_that_hold_every_item_once() {
    let gateway = Setup::new()
        .client(scripted("a", &json!({"count": 900, "resources": ["a://"]})))
        .client(scripted("b", &json!({"count": 900, "resources": ["b://"]})))
        .serve_connected()
        .await;
    let client = McpClient::Modern(Endpoint::new(&gateway));
    let first = client.request("resources/list", json!({})).result().await;
    let cursor = first["nextCursor"].clone();
    let second = client.request("resources/list", json!({"cursor": cursor})).result().await;
    assert_eq!(second["nextCursor"], Value::Null);
    let mut found = BTreeMap::new();
    for item in
        [&first, &second].iter().flat_map(|page| page["resources"].as_array().expect("a list"))
    {
        *found.entry(item["uri"].as_str().expect("text").to_owned()).or_insert(0) += 1;
    }
    assert_eq!((found.len(), found.values().max()), (1_802, Some(&1)));
    let error = refusal(&client, "resources/list", json!({"cursor": "?"})).await;
    assert_eq!(error["code"], -32602);
}

#[tokio::test]
async fn a_server_of_one_request_gets_responses_to_its_own_requests_while_a_resource_is_read() {
    let server = scripted("one", &json!({"resources": ["ping://"]}));
    for lifecycle in ["persistent", "per_call"] {
        let server = server.clone().set("/lifecycle", lifecycle);
        let gateway = Setup::new().client(server).serve_connected().await;
        let [client, _] = Endpoint::new(&gateway).source("one").both().await;
        let result = read(&client, "ping://").await;
        assert_eq!(result["contents"][0]["text"], "content of ping://", "{lifecycle}: {result}");
    }
}
