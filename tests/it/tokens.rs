//! Estimated tokens of tools, and the way of offering tools that takes the fewest.

use airlock::tool::{ClientName, Tool, ToolDefinition};
use airlock_tests::{Client, Gateway, Reply, Service, Setup, misbehaving, service::text, wait};
use reqwest::Method;
use serde_json::{Value, json};

use crate::management::SharedStore;

/// Returns the definitions of this many tools.
fn definitions(count: usize) -> Value {
    (0..count).map(definition).collect()
}

/// Returns a definition of about a hundred tokens.
fn definition(n: usize) -> Value {
    json!({
        "name": format!("get_thing_{n}"),
        "description": "Returns one thing of the shop by its identifier, with its name, its price and its supplier.",
        "inputSchema": {"type": "object", "properties": {
            "id": {"type": "string", "description": "Identifier of the thing, as the search returns it."},
            "currency": {"type": "string", "enum": ["EUR", "USD", "CHF"], "default": "EUR"},
        }},
    })
}

/// Returns a server in code mode with this many tools.
fn shop(setup: &Setup, tools: usize) -> Client {
    let file = setup.file("tools.json", definitions(tools).to_string());
    let mode = format!("tools={}", file.display());
    misbehaving("shop", [mode.as_str()]).code_mode().auto(&["*"])
}

/// Returns a gateway whose model runs a script with one call, and then responds with a text.
fn scripting(tools: usize) -> Setup {
    let code = json!({"code": "result = shop.get_thing_1(id=\"a\")"});
    let turns = json!({"turns": [
        {"when": {"role": "user"}, "answer": {"tool_calls": [{"id": "c1", "name": "executeToolCode", "arguments": code}]}},
        {"answer": {"content": "done"}},
    ]});
    let setup = Setup::new();
    let shop = shop(&setup, tools);
    setup.client(shop).scripted("model", &turns)
}

async fn send(gateway: &Gateway, path: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
    let request = gateway.request(Method::POST, path).json(body);
    Reply::fetch(
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)),
    )
    .await
}

/// Returns the last `airlock` object of a response, whole or streamed.
fn airlock_of(reply: &Reply) -> Value {
    let whole = serde_json::from_str::<Value>(&reply.text).ok();
    let data = reply.text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    let mut described = events.chain(whole).filter_map(|event| {
        let places = [&event["airlock"], &event["response"]["airlock"]];
        places.into_iter().find(|airlock| airlock.is_object()).cloned()
    });
    described.next_back().unwrap_or_else(|| panic!("nothing is described: {}", reply.text))
}

fn number(tokens: &Value, pointer: &str) -> u64 {
    tokens.pointer(pointer).and_then(Value::as_u64).expect("a number")
}

#[tokio::test]
async fn every_api_describes_the_tokens_of_a_script_whole_and_streamed() {
    let gateway = scripting(40).serve_connected().await;
    let messages = json!([{"role": "user", "content": "go"}]);
    let mut found = Vec::new();
    for (path, mut body) in [
        ("/v1/chat/completions", json!({"model": "model/m", "messages": messages})),
        ("/v1/responses", json!({"model": "model/m", "input": "go"})),
        ("/v1/messages", json!({"model": "model/m", "max_tokens": 100, "messages": messages})),
    ] {
        for is_streamed in [false, true] {
            body["stream"] = is_streamed.into();
            body["airlock"] = json!({"tokens": true});
            let mut tokens = airlock_of(&send(&gateway, path, &[], &body).await)["tokens"].take();
            assert_eq!(tokens["estimated"], true, "{path}: {tokens}");
            // The marks of a result have random digits.
            assert!(tokens["results"].take().as_u64() > Some(0), "{path}: {tokens}");
            found.push(tokens);
        }
    }
    assert!(found.iter().all(|tokens| *tokens == found[0]), "{found:#?}");
    let tokens = &found[0];
    assert!(number(tokens, "/definitions") > 300 && number(tokens, "/scripts") > 5, "{tokens}");
    let kept_out = number(tokens, "/kept_out/definitions");
    assert!(kept_out > number(tokens, "/definitions"), "{tokens}");
    assert_eq!(number(tokens, "/kept_out/script_results"), 5, "18 bytes");
    assert_eq!(number(tokens, "/kept_out/results"), 0);

    let header = [("x-airlock-tokens", "true")];
    let body = json!({"model": "model/m", "messages": messages});
    let asked = airlock_of(&send(&gateway, "/v1/chat/completions", &header, &body).await);
    assert!(asked["tokens"].is_object() && asked["calls"].is_array(), "{asked}");
    let plain = airlock_of(&send(&gateway, "/v1/chat/completions", &[], &body).await);
    assert!(plain.get("tokens").is_none(), "nothing asks for them: {plain}");
}

#[tokio::test]
async fn the_log_of_requests_to_models_has_the_tokens_until_each_request() {
    for store in SharedStore::all() {
        let gateway = scripting(3).set("/store", store.location()).serve_connected().await;
        let _ = gateway.chat("model/m", "go").await.ok();
        let rows = wait::until("the rows to be written", async || {
            let listed = gateway.get("/api/logs?status=success").await.ok();
            let rows = listed["logs"].as_array().expect("rows").clone();
            (rows.len() == 2).then_some(rows)
        });
        let rows = rows.await;
        let [second, first] = rows.as_slice() else { panic!("{rows:?}") };
        let [first, second] = [first, second].map(|row| &row["tool_tokens"]);
        assert_eq!((&first["results"], &first["scripts"]), (&json!(0), &json!(0)));
        assert!(second["results"].as_u64() > Some(0) && second["scripts"].as_u64() > Some(0));
        assert_eq!(second["kept_out"]["script_results"], 5);
        assert!(first["definitions"].as_u64() > Some(300), "{first}");
        assert_eq!(first["definitions"], second["definitions"]);
    }
}

/// Returns the names of the tools in the last request to a model.
fn offered(model: &Service) -> Vec<String> {
    let asked = model.asked();
    let tools = asked.last().expect("a request").body["tools"].as_array().cloned();
    let names = tools.into_iter().flatten();
    names.map(|tool| tool["function"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn auto_offers_tools_in_the_way_that_takes_the_fewest_tokens_and_names_it() {
    for (tools, used, reason) in [
        (4, "direct", "up_to_break_even"),
        (60, "code", "above_break_even"),
        (61, "search", "many_tools"),
    ] {
        let model = Service::saying([text("hello")]).await;
        let setup = Setup::new().openai("fake", model.base_url());
        let shop = shop(&setup, tools);
        let gateway = setup.client(shop).serve_connected().await;
        let chat = json!({"model": "fake/m", "messages": [{"role": "user", "content": "go"}]});
        let response = json!({"model": "fake/m", "input": "go"});
        let header = [("x-airlock-mode", "auto")];
        for (path, mut body) in [("/v1/chat/completions", chat), ("/v1/responses", response)] {
            body["airlock"] = json!({"tokens": true});
            let airlock = airlock_of(&send(&gateway, path, &header, &body).await);
            let mode = &airlock["mode"];
            assert_eq!(
                (&mode["asked"], &mode["used"], &mode["reason"], &mode["tools"]),
                (&json!("auto"), &json!(used), &json!(reason), &json!(tools)),
                "{path}: {mode}"
            );
            let names = offered(&model);
            assert_eq!(names.contains(&"shop-get_thing_0".to_owned()), used == "direct");
            assert_eq!(names.contains(&"executeToolCode".to_owned()), used != "direct");
            assert_eq!(names.contains(&"searchTools".to_owned()), used == "search");
            let kept_out = airlock["tokens"]["kept_out"]["definitions"].as_u64();
            let expected =
                if used == "direct" { Some(0) } else { mode["definition_tokens"].as_u64() };
            assert_eq!(kept_out, expected, "{path}: {airlock}");
        }
    }
}

#[tokio::test]
async fn a_member_overrides_the_configured_mode_and_tools_that_need_an_approval_still_do() {
    let calls = json!({"turns": [
        {"when": {"role": "user"}, "answer": {"tool_calls": [{"id": "c1", "name": "shop-get_thing_0", "arguments": {"id": "a"}}]}},
        {"answer": {"content": "{{last_tool_result}}"}},
    ]});
    let setup = Setup::new().set("/mcp/tool_manager_config/tool_mode", "code");
    let shop = shop(&setup, 2).auto(&["get_thing_1"]);
    let gateway = setup.client(shop).scripted("model", &calls).serve_connected().await;
    let mut body = json!({"model": "model/m", "messages": [{"role": "user", "content": "go"}]});
    let path = "/v1/chat/completions";
    let configured = airlock_of(&send(&gateway, path, &[], &body).await);
    assert_eq!(configured["mode"]["used"], "code");
    assert_eq!(configured["calls"][0]["error"]["code"], "airlock.not_found");
    body["airlock"] = json!({"mode": "direct"});
    let direct = airlock_of(&send(&gateway, path, &[], &body).await);
    assert_eq!(
        (&direct["mode"]["used"], &direct["mode"]["reason"]),
        (&json!("direct"), &json!("asked"))
    );
    assert_eq!(direct["pending"][0]["reason"], "needs_approval", "{direct:#}");
    body["airlock"] = json!({"mode": "fast"});
    assert_eq!(send(&gateway, path, &[], &body).await.status, 400);
}

#[test]
fn the_estimate_of_definitions_is_within_a_quarter_of_a_tokenizers_count() {
    let tokenizer = tiktoken_rs::o200k_base().expect("the tokenizer has its vocabulary");
    let client = ClientName::parse("shop").expect("a good name");
    let definitions: Vec<ToolDefinition> =
        serde_json::from_value(definitions(20)).expect("definitions");
    for definition in definitions {
        let tool = Tool::adopt(&client, definition).expect("a good tool");
        let sent = json!({"type": "function", "function": {
            "name": tool.name.as_str(), "description": tool.described(), "parameters": tool.parameters(),
        }});
        let counted = tokenizer.encode_ordinary(&sent.to_string()).len() as u64;
        let estimated = tool.definition_tokens();
        assert!(estimated.abs_diff(counted) * 4 <= counted, "{estimated} instead of {counted}");
    }
}
