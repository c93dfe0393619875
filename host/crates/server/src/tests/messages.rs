//! The Messages API: both forms of a message, its errors, and the paths of Anthropic's clients.

mod anthropic;

use super::*;

const PATH: &str = "/v1/messages";

fn turns() -> Value {
    json!([
        {"when": {"role": "user", "contains": "echo"},
         "answer": {"content": "let me see", "tool_calls": [{"id": "c1", "name": "desk-echo"}]}},
        {"when": {"role": "user", "contains": "write"},
         "answer": {"content": "May I?", "tool_calls": [{"id": "c1", "name": "desk-write", "arguments": {"a": 1}}]}},
        {"when": {"role": "user", "contains": "mine"},
         "answer": {"tool_calls": [{"id": "c1", "name": "mine", "arguments": {"city": "Bern"}}, {"id": "c2", "name": "mine", "arguments": "no JSON"}]}},
        {"when": {"role": "user", "contains": "think"}, "answer": {"reasoning": "let me think", "content": "four"}},
        {"when": {"role": "user", "contains": "too fast"},
         "answer": {"error": {"status": 429, "message": "slow down", "retry_after": 7}}},
        {"when": {"role": "user", "contains": "midway"},
         "answer": {"content": "once upon a", "error": {"status": 500, "message": "died", "after": 3}}},
        {"when": {"role": "user", "contains": "panic"}, "answer": {"tool_calls": [{"name": "desk-panic"}]}},
        {"when": {"role": "user"}, "answer": {"content": "hello"}},
        {"when": {"role": "tool"}, "answer": {"content": "done: {{last_tool_result}}"}},
    ])
}

/// Returns a request with these members more.
fn body(message: &str, more: &Value) -> Value {
    let messages = json!([{"role": "user", "content": message}]);
    let mut body = json!({"model": "demo/m", "max_tokens": 100, "messages": messages});
    let more = more.as_object().expect("members").clone();
    body.as_object_mut().expect("an object").extend(more);
    body
}

impl Gateway {
    async fn of_messages() -> Self {
        Self::with_turns(settings(), &turns()).await
    }

    async fn message(&self, body: &Value) -> (u16, Value) {
        self.ask(Method::POST, PATH, &[], &body.to_string()).await
    }

    /// Sends a streamed request and returns the name and the data of its events.
    async fn message_events(&self, message: &str, more: &Value) -> Vec<(String, Value)> {
        self.message_stream(body(message, more), &[]).await
    }

    async fn message_stream(
        &self,
        mut body: Value,
        headers: &[(&'static str, &str)],
    ) -> Vec<(String, Value)> {
        body["stream"] = true.into();
        let reply = self.send(Method::POST, PATH, headers, &body.to_string()).await;
        assert_eq!(reply.status().as_u16(), 200);
        assert_eq!(reply.headers()["content-type"], "text/event-stream");
        let text = soon(reply.text()).await.expect("a whole response");
        let events = text.split_terminator("\n\n").map(|event| {
            let (name, data) = event.split_once("\ndata: ").expect("an event with data");
            let name = name.strip_prefix("event: ").expect("a name").to_owned();
            let data: Value = serde_json::from_str(data).expect("JSON");
            assert_eq!(data["type"], *name, "the name of an event is its type");
            (name, data)
        });
        events.collect()
    }
}

/// Collects a message from the events of a stream, as Anthropic's clients do.
fn collected(events: &[(String, Value)]) -> Value {
    let mut message = events[0].1["message"].clone();
    let mut input = String::new();
    for (name, data) in &events[1..] {
        let blocks = message["content"].as_array_mut().expect("a list");
        match name.as_str() {
            "content_block_start" => {
                blocks.push(data["content_block"].clone());
                input.clear();
            }
            "content_block_delta" => {
                let block = blocks.last_mut().expect("a block");
                for member in ["text", "thinking", "signature"] {
                    if let Some(piece) = data["delta"][member].as_str() {
                        let before = block[member].as_str().expect("a text");
                        block[member] = format!("{before}{piece}").into();
                    }
                }
                input.push_str(data["delta"]["partial_json"].as_str().unwrap_or_default());
            }
            "content_block_stop" if !input.is_empty() => {
                let block = blocks.last_mut().expect("a block");
                block["input"] = serde_json::from_str(&input).expect("JSON");
            }
            "message_delta" => {
                let end = data["delta"].as_object().expect("an object").clone();
                message.as_object_mut().expect("an object").extend(end);
                message["usage"] = data["usage"].clone();
            }
            _ => {}
        }
    }
    message
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    let mut names: Vec<_> = events.iter().map(|(name, _)| name.as_str()).collect();
    names.dedup();
    names
}

/// Returns the text of all deltas.
fn text(events: &[(String, Value)]) -> String {
    events.iter().filter_map(|(_, data)| data["delta"]["text"].as_str()).collect()
}

#[tokio::test]
async fn a_message_runs_tools_and_reports_them_beside_its_content() {
    let gateway = Gateway::of_messages().await;
    let (status, message) = gateway.message(&body("echo", &json!({}))).await;
    assert_eq!(
        (status, &message["type"], &message["role"]),
        (200, &json!("message"), &json!("assistant"))
    );
    assert_eq!(message["content"], json!([{"type": "text", "text": "done: echo {}"}]));
    assert_eq!(
        (&message["stop_reason"], &message["stop_sequence"]),
        (&json!("end_turn"), &Value::Null)
    );
    assert_eq!(message["airlock"]["calls"][0]["name"], "desk-echo");
    let usage = &message["usage"];
    assert!(usage["input_tokens"].is_u64() && usage["output_tokens"].is_u64(), "{usage}");

    let events = gateway.message_events("echo", &json!({})).await;
    let expected = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names(&events), expected);
    assert_eq!(text(&events), "let me see\n\ndone: echo {}");
    let last = &events[events.len() - 2].1;
    assert_eq!(last["airlock"]["calls"][0]["name"], "desk-echo");
    assert_eq!(last["delta"]["stop_reason"], "end_turn");
    assert!(last["usage"]["output_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{last}");
    gateway.stop().await;
}

#[tokio::test]
async fn pending_calls_are_the_last_blocks_of_a_message() {
    let gateway = Gateway::of_messages().await;
    let (_, message) = gateway.message(&body("write", &json!({}))).await;
    assert_eq!(
        message["content"],
        json!([
            {"type": "text", "text": "May I?"},
            {"type": "tool_use", "id": "c1", "name": "desk-write", "input": {"a": 1}},
        ])
    );
    assert_eq!(message["stop_reason"], "tool_use");
    assert_eq!(message["airlock"]["pending"][0]["reason"], "needs_approval");
    let events = gateway.message_events("write", &json!({})).await;
    let starts: Vec<_> = events
        .iter()
        .filter(|(name, _)| name == "content_block_start")
        .map(|(_, data)| &data["content_block"])
        .collect();
    assert_eq!(
        (starts.len(), &starts[1]["name"], &starts[1]["input"]),
        (2, &json!("desk-write"), &json!({}))
    );
    let json: String =
        events.iter().filter_map(|(_, data)| data["delta"]["partial_json"].as_str()).collect();
    assert_eq!(json, r#"{"a":1}"#);
    assert_eq!(events[events.len() - 2].1["delta"]["stop_reason"], "tool_use");
    gateway.stop().await;
}

#[tokio::test]
async fn the_caller_answers_calls_of_its_own_tools_in_the_next_request() {
    let gateway = Gateway::of_messages().await;
    let tools = json!({"tools": [{"name": "mine", "input_schema": {"type": "object"}}]});
    let (_, message) = gateway.message(&body("mine", &tools)).await;
    let calls = json!([
        {"type": "tool_use", "id": "c1", "name": "mine", "input": {"city": "Bern"}},
        {"type": "tool_use", "id": "c2", "name": "mine", "input": {"INVALID_JSON": "no JSON"}},
    ]);
    assert_eq!((&message["content"], &message["stop_reason"]), (&calls, &json!("tool_use")));
    let mut next = body("mine", &tools);
    next["messages"] = json!([
        {"role": "user", "content": "mine"},
        {"role": "assistant", "content": message["content"]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "12 degrees"},
            {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "what?"}], "is_error": true},
        ]},
    ]);
    let (status, message) = gateway.message(&next).await;
    assert_eq!(status, 200, "{message}");
    let text = message["content"][0]["text"].as_str().expect("a text");
    assert!(text.starts_with("done: ") && text.ends_with("what?"), "{message}");
    gateway.stop().await;
}

#[tokio::test]
async fn reasoning_is_a_block_of_thinking() {
    let gateway = Gateway::of_messages().await;
    let (_, message) = gateway.message(&body("think", &json!({}))).await;
    let thinking = json!({"type": "thinking", "thinking": "let me think", "signature": ""});
    assert_eq!(message["content"], json!([thinking, {"type": "text", "text": "four"}]));
    let events = gateway.message_events("think", &json!({})).await;
    let thought: String =
        events.iter().filter_map(|(_, data)| data["delta"]["thinking"].as_str()).collect();
    assert_eq!((thought.as_str(), text(&events).as_str()), ("let me think", "four"));
    gateway.stop().await;
}

#[tokio::test]
async fn events_of_tools_are_pings_if_the_caller_asks_for_them() {
    let gateway = Gateway::of_messages().await;
    let events = gateway.message_events("echo", &json!({"airlock": {"events": true}})).await;
    let pings = events.iter().filter(|(name, _)| name == "ping");
    let types: Vec<_> = pings.map(|(_, data)| &data["airlock"]["event"]["type"]).collect();
    assert_eq!(types, ["call_started", "call_ended", "round"]);
    let events = gateway.message_events("echo", &json!({})).await;
    assert!(events.iter().all(|(name, _)| name != "ping"));
    gateway.stop().await;
}

#[tokio::test]
async fn errors_have_the_form_of_anthropics_errors() {
    let gateway = Gateway::of_messages().await;
    let large = body("hello", &json!({"x": "x".repeat(10_000)}));
    let hello = body("hello", &json!({}));
    for (path, key, body, status, kind, code) in [
        (
            PATH,
            "",
            json!({"model": "m"}),
            400,
            "invalid_request_error",
            "missing_required_parameter",
        ),
        (
            PATH,
            "",
            body("hello", &json!({"mcp_servers": [{}]})),
            400,
            "invalid_request_error",
            "unsupported_value",
        ),
        (
            PATH,
            "",
            body("hello", &json!({"web_search_options": {}})),
            400,
            "invalid_request_error",
            "unsupported_parameter",
        ),
        (
            PATH,
            "",
            body("hello", &json!({"messages": []})),
            400,
            "invalid_request_error",
            "invalid_value",
        ),
        (PATH, "sk-bf-nobody", hello.clone(), 401, "authentication_error", "invalid_api_key"),
        (PATH, "", large, 413, "request_too_large", "request_too_large"),
        (PATH, "", body("too fast", &json!({})), 429, "rate_limit_error", "scripted"),
        (PATH, "", body("panic", &json!({})), 500, "api_error", "internal_error"),
        ("/v1/messages/batches", "", hello.clone(), 404, "not_found_error", "unknown_url"),
        ("/anthropic/v1/complete", "", hello, 404, "not_found_error", "unknown_url"),
    ] {
        let headers = [("x-api-key", key)];
        let reply = gateway.send(Method::POST, path, &headers, &body.to_string()).await;
        assert_eq!(reply.status().as_u16(), status, "{path}: {body}");
        let id = reply.headers()["request-id"].to_str().expect("a text").to_owned();
        assert_eq!(reply.headers().get("retry-after").is_some(), status == 429);
        let error: Value = reply.json().await.expect("JSON");
        assert_eq!((&error["type"], &error["request_id"]), (&json!("error"), &json!(id)));
        assert_eq!(
            (&error["error"]["type"], &error["error"]["code"]),
            (&json!(kind), &json!(code)),
            "{error}"
        );
        let message = error["error"]["message"].as_str().expect("a text");
        assert!(status != 404 || message.contains(path), "the path that was sent: {error}");
    }
    let (status, error) = gateway.get(PATH, &[]).await;
    assert_eq!((status, &error["error"]["type"]), (405, &json!("invalid_request_error")));
    gateway.stop().await;
}

#[tokio::test]
async fn an_error_after_the_first_byte_is_an_event() {
    let gateway = Gateway::of_messages().await;
    let mut stream = body("midway", &json!({}));
    stream["stream"] = true.into();
    let reply = gateway.send(Method::POST, PATH, &[], &stream.to_string()).await;
    let id = reply.headers()["request-id"].to_str().expect("a text").to_owned();
    let sent = soon(reply.text()).await.expect("a whole response");
    let (_, last) = sent.trim_end().rsplit_once("data: ").expect("an event");
    let last: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!((&last["type"], &last["request_id"]), (&json!("error"), &json!(id)));
    let events = gateway.message_events("midway", &json!({})).await;
    assert_eq!(text(&events), "once upon ");
    let (name, data) = events.last().expect("an event");
    assert_eq!(name, "error");
    assert_eq!(
        (&data["error"]["type"], &data["error"]["message"]),
        (&json!("api_error"), &json!("died"))
    );
    let mut stream = body("panic", &json!({}));
    stream["stream"] = true.into();
    let reply = gateway.send(Method::POST, PATH, &[], &stream.to_string()).await;
    let text = soon(reply.text()).await.expect("a whole response");
    assert!(text.contains("\"internal_error\"") && text.contains("\"api_error\""), "{text}");
    gateway.stop().await;
}

#[tokio::test]
async fn the_number_of_tokens_is_an_estimate_and_needs_no_limit() {
    let gateway = Gateway::of_messages().await;
    let mut short = body("hello", &json!({}));
    short.as_object_mut().expect("an object").remove("max_tokens");
    let count = async |body: &Value| {
        let path = "/anthropic/v1/messages/count_tokens";
        let (status, count) = gateway.ask(Method::POST, path, &[], &body.to_string()).await;
        assert_eq!((status, &count["airlock"]), (200, &json!({"is_estimate": true})), "{count}");
        count["input_tokens"].as_u64().expect("a number")
    };
    let before = count(&short).await;
    let long = count(&body(&"word ".repeat(400), &json!({}))).await;
    assert!(before > 0 && long - before > 400, "{before} {long}");
    let source = json!({"type": "base64", "media_type": "image/png", "data": "A".repeat(8_000)});
    let mut image = short.clone();
    image["messages"][0]["content"] = json!([{"type": "image", "source": source}]);
    let image = count(&image).await;
    assert!((1_600..1_900 + before).contains(&image), "{before} {image}");
    gateway.stop().await;
}

#[tokio::test]
async fn tools_of_the_provider_are_left_out_and_named() {
    let gateway = Gateway::of_messages().await;
    let tools = json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]});
    let request = body("hello", &tools).to_string();
    let reply = gateway.send(Method::POST, "/anthropic/v1/messages?beta=true", &[], &request).await;
    assert_eq!(reply.headers()["x-airlock-dropped-tools"], "web_search_20250305");
    let message: Value = reply.json().await.expect("JSON");
    assert_eq!(message["airlock"]["dropped_tools"], json!(["web_search_20250305"]));
    gateway.stop().await;
    let settings = Settings { builtin_tools: BuiltinTools::Refuse, ..settings() };
    let gateway = Gateway::with_turns(settings, &turns()).await;
    let (status, error) = gateway.message(&body("hello", &tools)).await;
    assert_eq!((status, &error["error"]["param"]), (400, &json!("tools[0].type")));
    gateway.stop().await;
}
