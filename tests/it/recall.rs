//! Calls of the gateway's tools that a client does not send back, in the next request.

use airlock_tests::{
    Gateway, Reply, Service, Setup, misbehaving,
    service::{self, Answer, text},
};
use futures_util::stream;
use reqwest::Method;
use serde_json::{Value, json};

const ANN: &str = "sk-bf-ann-0123456789";
const BEN: &str = "sk-bf-ben-0123456789";

/// A model that calls a tool of the gateway and one of the caller in its first answer.
async fn model() -> Service {
    let call = |id: &str, name: &str, arguments: Value| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
    let calls = [
        call("call_0123456789abcdef0", "desk-echo", json!({"text": "ran"})),
        call("call_0123456789abcdef1", "get_weather", json!({"city": "Bern"})),
    ];
    let both = json!({"role": "assistant", "content": null, "tool_calls": calls});
    Service::saying([both, text("done")]).await
}

fn setup(model: &Service) -> Setup {
    Setup::new()
        .set("/server/require_virtual_key", false)
        .openai("fake", model.base_url())
        .client(misbehaving("desk", []).auto(&["echo"]).set("/trust", "trusted"))
        .key("ann", ANN, &[("desk", &["*"])])
        .key("ben", BEN, &[("desk", &["*"])])
}

/// Sends a request of a caller that has a tool of its own.
async fn chat(gateway: &Gateway, key: &str, body: &Value) -> Value {
    let mut body = body.clone();
    body["tools"] = json!([{"type": "function", "function": {"name": "get_weather"}}]);
    let request = gateway.request(Method::POST, "/v1/chat/completions");
    Reply::fetch(request.header("x-bf-vk", key).json(&body)).await.ok()
}

/// Returns the next request of a conversation: with the answer, and the result of the caller's call.
fn next(answer: &Value) -> Value {
    let message = &answer["choices"][0]["message"];
    let id = &message["tool_calls"][0]["id"];
    json!({"model": "fake/model", "messages": [
        {"role": "user", "content": "go"},
        message,
        {"role": "tool", "tool_call_id": id, "content": "sunny"},
    ]})
}

async fn message(gateway: &Gateway, body: &Value) -> Value {
    let request = gateway.request(Method::POST, "/v1/messages");
    Reply::fetch(request.header("x-api-key", ANN).json(body)).await.ok()
}

/// Returns the next request of a conversation in messages, as [`next`] does.
fn next_message(message: &Value) -> Value {
    let id = &message["content"][0]["id"];
    json!({"model": "fake/model", "max_tokens": 100, "messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": message["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "sunny"}]},
    ]})
}

/// Returns the roles of the messages of the last request to the model, and the calls in them.
fn seen(model: &Service) -> (Vec<Value>, Vec<Value>) {
    let asked = model.asked();
    let messages = asked.last().expect("a request").body["messages"].clone();
    let messages = messages.as_array().cloned().unwrap_or_default();
    let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array().cloned());
    let names = calls.flatten().map(|call| call["function"]["name"].clone()).collect();
    (messages.into_iter().map(|message| message["role"].clone()).collect(), names)
}

#[tokio::test]
async fn results_beside_a_callers_call_outlive_a_restart_and_are_for_their_key_alone() {
    let model = model().await;
    let gateway = setup(&model).serve_connected().await;
    let body = json!({"model": "fake/model", "messages": [{"role": "user", "content": "go"}]});
    let answer = chat(&gateway, ANN, &body).await;
    let choice = &answer["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!(null), &json!("tool_calls"))
    );
    assert_eq!(choice["message"]["tool_calls"].as_array().map(Vec::len), Some(1), "{answer:#}");
    assert_eq!(answer["airlock"]["calls"][0]["result"], "ran");

    let gateway = gateway.kill().await.serve_connected().await;
    let next = next(&answer);
    assert_eq!(chat(&gateway, ANN, &next).await["choices"][0]["message"]["content"], "done");
    let all = ["user", "assistant", "tool", "tool"].map(Value::from).to_vec();
    let calls = ["desk-echo", "get_weather"].map(Value::from).to_vec();
    assert_eq!(seen(&model), (all, calls));
    let asked = model.asked();
    let results = &asked.last().expect("a request").body["messages"];
    assert_eq!((&results[2]["content"], &results[3]["content"]), (&json!("ran"), &json!("sunny")));

    chat(&gateway, BEN, &next).await;
    let own = ["user", "assistant", "tool"].map(Value::from).to_vec();
    assert_eq!(seen(&model), (own, vec!["get_weather".into()]));
}

#[tokio::test]
async fn results_beside_a_callers_call_are_put_back_for_a_client_of_messages() {
    let model = model().await;
    let gateway = setup(&model).serve_connected().await;
    let question = json!({"role": "user", "content": "go"});
    let tools = json!([{"name": "get_weather", "input_schema": {"type": "object"}}]);
    let body =
        json!({"model": "fake/model", "max_tokens": 100, "messages": [question], "tools": tools});
    let message = self::message(&gateway, &body).await;
    let [call] = message["content"].as_array().expect("a list").as_slice() else {
        panic!("{message:#}")
    };
    assert_eq!((&call["name"], &call["input"]), (&json!("get_weather"), &json!({"city": "Bern"})));
    assert_eq!(message["airlock"]["calls"][0]["result"], "ran");
    self::message(&gateway, &next_message(&message)).await;
    let (roles, names) = seen(&model);
    assert_eq!(roles, ["user", "assistant", "tool", "tool"]);
    assert_eq!(names, ["desk-echo", "get_weather"]);
}

/// Returns a streamed message of Anthropic's API that ends with a call.
fn streamed(blocks: &[Value]) -> Answer {
    let begin = json!({"type": "message_start", "message": {"id": "msg_1", "model": "m"}});
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}});
    let blocks = blocks.iter().enumerate().flat_map(|(index, block)| {
        [
            json!({"type": "content_block_start", "index": index, "content_block": block}),
            json!({"type": "content_block_stop", "index": index}),
        ]
    });
    let events = [begin].into_iter().chain(blocks).chain([end, json!({"type": "message_stop"})]);
    Answer::stream(stream::iter([service::events(events.map(|event| event.to_string()))]))
}

/// Collects the blocks of a streamed message, as Anthropic's clients do.
fn collected(events: &str) -> Vec<Value> {
    let mut blocks = Vec::<Value>::new();
    let mut input = String::new();
    for data in events.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let event: Value = data.parse().expect("JSON");
        if event["type"] == "content_block_start" {
            blocks.push(event["content_block"].clone());
            input.clear();
        }
        let Some(block) = blocks.last_mut() else { continue };
        for member in ["text", "thinking", "signature"] {
            if let Some(piece) = event["delta"][member].as_str() {
                let before = block[member].as_str().unwrap_or_default();
                block[member] = format!("{before}{piece}").into();
            }
        }
        input.push_str(event["delta"]["partial_json"].as_str().unwrap_or_default());
        if event["type"] == "content_block_stop" && !input.is_empty() {
            block["input"] = input.parse().expect("JSON");
        }
    }
    blocks
}

#[tokio::test]
async fn each_round_of_a_streamed_message_reaches_anthropics_api_once() {
    let think = |text: &str| json!({"type": "thinking", "thinking": text, "signature": format!("signature of {text}")});
    let used = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    let first = [
        think("one"),
        json!({"type": "text", "text": "First."}),
        used("toolu_0123456789abcdef0", "desk-echo", json!({"text": "ran"})),
    ];
    let second =
        [think("two"), used("toolu_0123456789abcdef1", "get_weather", json!({"city": "Bern"}))];
    let rounds = [first.to_vec(), second.to_vec()];
    let model = Service::start(move |asked| {
        let messages = asked.body["messages"].as_array().map_or(0, Vec::len);
        streamed(&rounds[usize::from(messages > 1)])
    })
    .await;
    let provider = json!({"kind": "anthropic", "base_url": model.base_url(), "api_key": "sk-test"});
    let gateway = setup(&model).set("/providers/claude", provider).serve_connected().await;
    let question = json!({"role": "user", "content": "go"});
    let tools = json!([{"name": "get_weather", "input_schema": {"type": "object"}}]);
    let ask = async |messages: Value| {
        let body = json!({"model": "claude/m", "max_tokens": 100, "stream": true, "messages": messages, "tools": tools});
        let request = gateway.request(Method::POST, "/v1/messages").header("x-api-key", ANN);
        let reply = request.json(&body).send().await.expect("a response");
        collected(&reply.text().await.expect("a whole response"))
    };
    let blocks = ask(json!([question])).await;
    assert_eq!(blocks, [&first[..2], &second[..]].concat());
    let result = json!({"type": "tool_result", "tool_use_id": second[1]["id"], "content": "sunny"});
    ask(json!([question, {"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}])).await;
    let asked = model.asked();
    let messages = &asked.last().expect("a request").body["messages"];
    assert_eq!((&messages[1]["content"], &messages[3]["content"]), (&json!(first), &json!(second)));
    assert_eq!(messages.as_array().map(Vec::len), Some(5), "{messages:#}");
}

#[tokio::test]
async fn results_that_a_client_of_messages_forbids_to_store_are_lost_after_a_restart() {
    for (store, messages) in [(true, 4), (false, 3)] {
        let model = model().await;
        let gateway = setup(&model).serve_connected().await;
        let question = json!({"role": "user", "content": "go"});
        let tools = json!([{"name": "get_weather", "input_schema": {"type": "object"}}]);
        let body = json!({
            "model": "fake/model", "max_tokens": 100, "store": store, "messages": [question],
            "tools": tools,
        });
        let message = self::message(&gateway, &body).await;
        assert_eq!(model.asked()[0].body.get("store"), None, "it is the gateway's own");
        let gateway = gateway.kill().await.serve_connected().await;
        self::message(&gateway, &next_message(&message)).await;
        assert_eq!(seen(&model).0.len(), messages, "store: {store}");
    }
}

#[tokio::test]
async fn results_that_may_not_be_stored_are_reported_as_lost_after_a_restart() {
    let model = model().await;
    let gateway = setup(&model).serve_connected().await;
    let body = json!({"model": "fake/model", "store": false, "messages": [{"role": "user", "content": "go"}]});
    let answer = chat(&gateway, ANN, &body).await;
    let next = next(&answer);
    chat(&gateway, ANN, &next).await;
    assert_eq!(seen(&model).0.len(), 4);
    let gateway = gateway.kill().await.serve_connected().await;
    chat(&gateway, ANN, &next).await;
    assert_eq!(seen(&model).0.len(), 3);
    let asked = model.asked();
    let told = asked.last().expect("a request").body["messages"][2]["content"].to_string();
    assert!(told.starts_with("\"sunny\\n[Note of the gateway: "), "{told}");
}

#[tokio::test]
async fn calls_that_a_responses_client_drops_are_put_back() {
    let script = json!({"turns": [
        {"when": {"role": "user"}, "answer": {"tool_calls": [
            {"name": "desk-echo", "arguments": {"text": "ran"}},
            {"name": "get_weather", "arguments": {}},
        ]}},
        {"when": {"tool_results": 2}, "answer": {"content": "both"}},
        {"answer": {"content": "one"}},
    ]});
    let setup = Setup::new().scripted("script", &script);
    let gateway = setup
        .client(misbehaving("desk", []).auto(&["echo"]).set("/trust", "trusted"))
        .serve_connected()
        .await;
    for store in [true, false] {
        let user = json!({"type": "message", "role": "user", "content": "go"});
        let tools = json!([{"type": "function", "name": "get_weather", "parameters": {}}]);
        let ask = async |input: Value| {
            let body = json!({"model": "script/m", "store": store, "input": input, "tools": tools});
            gateway.post("/v1/responses", &body).await.ok()
        };
        let first = ask(json!([user])).await;
        let items = first["output"].as_array().expect("items");
        let kinds: Vec<_> = items.iter().map(|item| &item["type"]).collect();
        assert!(kinds.contains(&&json!("mcp_call")), "{kinds:?}");
        let own = items.iter().find(|item| item["type"] == "function_call").expect("a call");
        let result =
            json!({"type": "function_call_output", "call_id": own["call_id"], "output": "sunny"});
        let end = ask(json!([user, own, result])).await;
        assert_eq!(end["output"][0]["content"][0]["text"], "both", "{end:#}");
    }
}
