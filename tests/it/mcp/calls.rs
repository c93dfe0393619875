//! Listing and calling tools: what a client of each era receives.

use airlock_tests::{
    Client, Gateway, Reply, Setup, guests,
    mcp::{Endpoint, McpClient, McpRequest},
    misbehaving, wait,
    wat::{Text, WELL_BEHAVED},
};
use serde_json::{Value, json};

use super::{
    ANN, BOB, plain, text,
    upstream::{self, Upstream},
};

/// Key of the metadata that names the gateway.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Returns the names of the members of an object, sorted.
fn members(object: &Value) -> Vec<&str> {
    let mut names: Vec<_> =
        object.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn descriptors_of_an_upstream_are_listed_as_they_are() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new().client(upstream.client("up")).serve_connected().await;
    let mut expected: Vec<Value> = serde_json::from_value(upstream::tools()).expect("a list");
    expected.sort_by_key(|tool| tool["name"].to_string());
    for client in Endpoint::new(&gateway).source("up").both().await {
        assert_eq!(json!(client.tools().await), json!(expected), "{client:?}");
        let text = client.request("tools/list", json!({})).reply().await.text;
        assert!(text.find("\"z\":") < text.find("\"a\":"), "the members keep their order");
    }
}

#[tokio::test]
async fn a_modern_list_may_not_be_cached_and_a_legacy_one_has_no_such_members() {
    let setup = Setup::new();
    let client = plain(&setup, "guest");
    let gateway = setup.client(client).serve_connected().await;
    let [modern, legacy] = Endpoint::new(&gateway).both().await;
    let list = modern.request("tools/list", json!({})).result().await;
    assert_eq!(members(&list), ["_meta", "cacheScope", "resultType", "tools", "ttlMs"]);
    assert_eq!((&list["ttlMs"], &list["cacheScope"]), (&json!(0), &json!("private")));
    assert_eq!(list["_meta"][SERVER_INFO]["name"], "airlock");
    let list = legacy.request("tools/list", json!({})).result().await;
    assert_eq!(members(&list), ["tools"]);
    let twice = [modern.tools().await, modern.tools().await, legacy.tools().await];
    assert!(twice[0] == twice[1] && twice[1] == twice[2], "{twice:?}");
}

#[tokio::test]
async fn rich_and_structured_content_is_passed_on_unflattened() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new().client(upstream.client("up")).serve_connected().await;
    let rich = upstream::rich();
    for client in Endpoint::new(&gateway).both().await {
        let result = client.call("up-rich", &json!({})).result().await;
        for member in ["content", "structuredContent"] {
            assert_eq!(result[member], rich[member], "{client:?}");
        }
        assert_eq!(result["_meta"]["vendor/result"], rich["_meta"]["vendor/result"], "{client:?}");
        assert_ne!(result["isError"], json!(true), "{client:?}");
        let is_modern = matches!(client, McpClient::Modern(_));
        assert_eq!(result["resultType"] == "complete", is_modern, "{result}");
        assert_eq!(result["_meta"].get(SERVER_INFO).is_some(), is_modern, "{result}");
    }
}

#[tokio::test]
async fn a_client_of_the_first_revision_gets_newer_content_as_text() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new().client(upstream.client("up")).serve_connected().await;
    let session = Endpoint::new(&gateway).session_of("2024-11-05").await;
    let result = session.request("tools/call", json!({"name": "up-rich"})).result().await;
    let kinds: Vec<_> = result["content"].as_array().expect("a list").iter().collect();
    let kinds: Vec<_> = kinds.iter().map(|part| part["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["text", "image", "text", "text", "resource", "resource"]);
    assert!(result["content"][3]["text"].to_string().contains("file:///a.txt"), "{result}");
}

#[tokio::test]
async fn a_tool_that_fails_returns_a_result_with_is_error() {
    let gateway = Setup::new()
        .client(Client::wasm("guest", guests::HOSTILE).auto(&["*"]))
        .client(misbehaving("server", []).auto(&["*"]))
        .serve_connected()
        .await;
    for client in Endpoint::new(&gateway).both().await {
        for (tool, message, code) in [
            ("guest-fail", "there is no such thing", "no_such_thing"),
            ("server-fail", "it did not work", ""),
            ("guest-trap", "", "airlock.trap"),
        ] {
            let reply = client.call(tool, &json!({})).reply().await;
            let result = &reply.body["result"];
            assert_eq!((reply.status, &result["isError"]), (200, &json!(true)), "{}", reply.text);
            let said = result["content"][0]["text"].as_str().expect("a text");
            assert!(said.contains(message) && !reply.text.contains("/etc/shadow"), "{said}");
            if !code.is_empty() {
                assert_eq!(result["_meta"]["airlock/error"]["code"], code, "{result}");
            }
        }
    }
}

#[tokio::test]
async fn a_call_that_exceeds_its_time_limit_is_cancelled_and_returns_an_error() {
    // It applies to the calls that ask what was cancelled as well.
    let setup = Setup::new().set("/mcp/tool_manager_config/tool_execution_timeout", "2s");
    let gateway = setup.client(misbehaving("server", []).auto(&["*"])).serve_connected().await;
    for (client, count) in Endpoint::new(&gateway).both().await.into_iter().zip(["1", "2"]) {
        let result = client.call("server-hang", &json!({})).result().await;
        assert_eq!(result["isError"], true, "{client:?}: {result}");
        assert_eq!(
            result["_meta"]["airlock/error"]["code"], "airlock.deadline",
            "{client:?}: {result}"
        );
        wait::until("the server to be told", async || {
            let result = client.call("server-cancelled", &json!({})).result().await;
            (result["content"] == text(count)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn initialize_negotiates_a_revision_with_sessions() {
    let gateway = Setup::new().serve().await;
    let endpoint = Endpoint::new(&gateway);
    for (asked, expected) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2026-07-28", "2025-11-25"),
        ("1.0", "2025-11-25"),
    ] {
        let result = endpoint.initialize(asked).result().await;
        assert_eq!(result["protocolVersion"], expected, "{asked}");
        let mut capabilities = json!({"tools": {"listChanged": true}, "logging": {}});
        if expected == "2025-11-25" {
            // The first revision with tasks.
            capabilities["tasks"] = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
        }
        assert_eq!(result["capabilities"], capabilities, "{asked}");
    }
    for params in [json!({}), json!({"protocolVersion": 7})] {
        let request = endpoint.initialize("x").member("/params", params.clone());
        assert_eq!(request.error().await["code"], -32602, "{params}");
    }
}

#[tokio::test]
async fn a_result_that_a_client_cannot_read_is_repaired() {
    let gateway =
        Setup::new().client(misbehaving("server", []).auto(&["*"])).serve_connected().await;
    for client in Endpoint::new(&gateway).both().await {
        let result = client.call("server-odd_content", &json!({})).result().await;
        let parts = result["content"].as_array().expect("a list");
        assert!(parts.iter().all(|part| part["type"] == "text"), "{result}");
        assert_eq!(parts[1]["text"], "beside it");
    }
}

#[tokio::test]
async fn an_unknown_tool_and_a_hidden_one_get_the_same_response() {
    let rows: [(&str, &[&str]); 1] = [("guest", &["ok"])];
    let gateway = Setup::new()
        .set("/server/require_virtual_key", false)
        .client(Client::wasm("guest", guests::HOSTILE).auto(&["*"]))
        .client(misbehaving("server", []).execute(&["echo"]))
        .client(misbehaving("scripts", []).code_mode())
        .key("ann", ANN, &rows)
        .serve_connected()
        .await;
    // Of a tool that the key has not, one that the operator disabled, another source's, and one that
    // only scripts may call.
    let hidden = ["guest-fail", "server-pid", "server-echo", "scripts-echo", "fail", "guest-ok2"];
    for client in Endpoint::new(&gateway).key(ANN).both().await {
        assert_eq!(client.names().await, ["guest-ok"], "{client:?}");
        let called = async |name: &str| {
            let request = client.call(name, &json!({})).member("/id", 1);
            let Reply { status, text, .. } = request.reply().await;
            (status, text.replace(name, "NAME"))
        };
        let unknown = called("no-such-tool").await;
        assert!(unknown.0 == 200 && unknown.1.contains("-32602"), "{unknown:?}");
        for name in hidden {
            assert_eq!(called(name).await, unknown, "{client:?} {name}");
        }
    }
}

#[tokio::test]
async fn a_key_and_the_filter_headers_narrow_what_is_listed_and_called() {
    let setup = Setup::new().set("/server/require_virtual_key", false);
    let one = plain(&setup, "one");
    let two = plain(&setup, "two");
    let setup = setup.client(one).client(two);
    let gateway = setup.key("ann", ANN, &[("one", &["*"])]).serve_connected().await;
    let anyone = Endpoint::new(&gateway);
    let narrowed = [
        anyone.clone().key(ANN),
        anyone.clone().header("x-bf-vk", ANN),
        anyone.clone().header("x-bf-mcp-include-clients", "one"),
        anyone.clone().header("x-bf-mcp-include-tools", "one-run"),
    ];
    for endpoint in narrowed {
        for client in endpoint.both().await {
            assert_eq!(client.names().await, ["one-run"], "{client:?}");
            assert_eq!(client.call("one-run", &json!({})).result().await["content"], text("ok"));
            let error = client.call("two-run", &json!({})).error().await;
            assert_eq!(error["code"], -32602, "{client:?}");
        }
    }
    for client in anyone.both().await {
        assert_eq!(client.names().await, ["one-run", "two-run"], "{client:?}");
    }
}

#[tokio::test]
async fn a_missing_or_wrong_key_is_refused_with_a_json_rpc_error() {
    let setup = Setup::new().set("/server/require_virtual_key", true);
    let gateway = setup.key("ann", ANN, &[]).serve().await;
    let endpoint = Endpoint::new(&gateway);
    for endpoint in [endpoint.clone(), endpoint.clone().key(BOB), endpoint.header("x-bf-vk", "")] {
        for request in [endpoint.modern("tools/list", json!({})), endpoint.initialize("2025-11-25")]
        {
            let reply = request.reply().await;
            assert_eq!((reply.status, &reply.body["jsonrpc"]), (401, &json!("2.0")));
            assert!(reply.body["error"]["code"].is_i64(), "{}", reply.text);
            assert!(!reply.text.contains(BOB), "{}", reply.text);
        }
    }
}

/// Returns the status and the body of a request, without the name.
async fn refused(request: McpRequest, name: &str) -> (u16, String) {
    let Reply { status, text, .. } = request.reply().await;
    (status, text.replace(name, "NAME"))
}

#[tokio::test]
async fn one_source_is_listed_and_called_with_its_own_names() {
    let upstream = Upstream::start().await;
    let setup = Setup::new();
    let guest = plain(&setup, "guest");
    let gateway = setup.client(upstream.client("up")).client(guest).serve_connected().await;
    for client in Endpoint::new(&gateway).source("up").both().await {
        let names = client.names().await;
        assert_eq!(names, ["big", "count/all tools", "region", "rich", "steps"], "{client:?}");
        let result = client.call("count/all tools", &json!({})).result().await;
        assert_eq!(result["content"], text("counted"), "{client:?}");
        for name in ["up-rich", "guest-run", "run", "executeToolCode"] {
            assert_eq!(client.call(name, &json!({})).error().await["code"], -32602, "{name}");
        }
    }
}

#[tokio::test]
async fn an_unknown_source_and_one_that_the_key_may_not_see_get_the_same_response() {
    let setup = Setup::new().set("/server/require_virtual_key", false);
    let one = plain(&setup, "one");
    let two = plain(&setup, "two");
    let setup = setup.client(one).client(two).key("ann", ANN, &[("one", &["*"])]);
    let gateway = setup.serve_connected().await;
    let endpoint = Endpoint::new(&gateway).key(ANN);
    let hidden = endpoint.clone().source("two");
    let unknown = endpoint.clone().source("owt");
    let requests = |endpoint: &Endpoint| {
        [
            endpoint.modern("tools/list", json!({})),
            endpoint.modern("tools/call", json!({"name": "run"})),
            endpoint.initialize("2025-11-25"),
            endpoint.post("{"),
        ]
    };
    for (hidden, unknown) in requests(&hidden).into_iter().zip(requests(&unknown)) {
        let hidden = refused(hidden, "two").await;
        let unknown = refused(unknown, "owt").await;
        assert_eq!(hidden, unknown);
        assert!(hidden.0 == 404 && hidden.1.starts_with("{\"jsonrpc\":\"2.0\""), "{hidden:?}");
    }
    for odd in ["one/two", "%6Fne", "..", "one%2Ftwo", "a.b"] {
        let reply = endpoint.clone().source(odd).modern("tools/list", json!({})).reply().await;
        assert!(matches!(reply.status, 404 | 200), "{odd}: {}", reply.text);
        assert!(!reply.text.contains("\"run\""), "{odd}: {}", reply.text);
    }
    let visible = endpoint.source("one").both().await;
    for client in visible {
        assert_eq!(client.names().await, ["run"], "{client:?}");
    }
}

#[tokio::test]
async fn a_source_for_scripts_appears_as_the_meta_tools() {
    let setup = Setup::new();
    let guest = plain(&setup, "guest");
    let gateway = setup
        .client(misbehaving("server", []).code_mode().auto(&["*"]))
        .client(guest)
        .serve_connected()
        .await;
    let meta = ["executeToolCode", "getToolDocs", "listToolFiles", "readToolFile"];
    let script = json!({"code": "result = server.echo(text = \"from a script\")"});
    for endpoint in [Endpoint::new(&gateway), Endpoint::new(&gateway).source("server")] {
        for client in endpoint.both().await {
            let names = client.names().await;
            let is_meta = |name: &&String| meta.contains(&name.as_str());
            assert_eq!(names.iter().filter(is_meta).count(), meta.len(), "{names:?}");
            assert!(names.iter().all(|name| is_meta(&name) || name == "guest-run"), "{names:?}");
            let result = client.call("executeToolCode", &script).result().await;
            assert!(result.to_string().contains("from a script"), "{client:?}: {result}");
            for name in ["server-echo", "echo"] {
                assert_eq!(client.call(name, &json!({})).error().await["code"], -32602, "{name}");
            }
        }
    }
    for client in Endpoint::new(&gateway).source("guest").both().await {
        assert_eq!(client.names().await, ["run"], "{client:?}");
    }
}

/// Returns a gateway with 1,200 tools.
async fn with_many_tools() -> Gateway {
    let setup = Setup::new();
    let tools: Vec<Value> = (0..600)
        .map(|n| json!({"name": format!("t{n:04}"), "description": "d", "inputSchema": {"type": "object"}}))
        .collect();
    let tools = json!({"schema": "airlock.tools/1", "tools": tools}).to_string();
    let many = Text { tools: tools.leak(), ..WELL_BEHAVED };
    let clients = ["a", "b"].map(|name| Client::text(&setup, name, &many).auto(&["*"]));
    clients.into_iter().fold(setup, Setup::client).serve_connected().await
}

#[tokio::test]
async fn pages_hold_every_tool_once() {
    let gateway = with_many_tools().await;
    for client in Endpoint::new(&gateway).both().await {
        let mut names = Vec::new();
        let mut cursor = Value::Null;
        let mut pages = 0;
        loop {
            let params = if pages == 0 { json!({}) } else { json!({"cursor": cursor}) };
            let result = client.request("tools/list", params).result().await;
            let tools = result["tools"].as_array().expect("a list");
            names.extend(tools.iter().map(|tool| tool["name"].as_str().expect("").to_owned()));
            (cursor, pages) = (result["nextCursor"].clone(), pages + 1);
            if cursor.is_null() {
                break;
            }
        }
        assert!(pages > 1 && names.len() == 1_200, "{pages} pages with {} tools", names.len());
        assert!(names.is_sorted_by(|one, next| one < next), "{client:?}");
        for bad in [json!("no cursor"), json!(7), json!(""), json!({"a": 1})] {
            let error = client.request("tools/list", json!({"cursor": bad})).error().await;
            assert_eq!(error["code"], -32602, "{client:?} {bad}");
        }
    }
}
