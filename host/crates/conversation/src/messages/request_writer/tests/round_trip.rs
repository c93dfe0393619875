//! Requests of the Messages API that are read and written again.

use super::*;
use crate::messages::read_request;

/// Returns requests in the forms that Anthropic's documentation shows.
fn documented() -> Vec<Value> {
    serde_json::from_str(include_str!("documented.json")).expect("a list of requests")
}

/// Returns a request with texts as blocks, as the writer has them.
fn with_blocks(mut request: Value) -> Value {
    expand(&mut request, "system");
    let messages = request["messages"].as_array_mut().expect("a list");
    for message in messages {
        expand(message, "content");
        let blocks = message["content"].as_array_mut().expect("a list").iter_mut();
        blocks
            .filter(|block| block["type"] == "tool_result")
            .for_each(|block| expand(block, "content"));
    }
    request
}

fn expand(object: &mut Value, name: &str) {
    if let Some(text @ Value::String(_)) = object.get_mut(name) {
        *text = json!([{"type": "text", "text": text.take()}]);
    }
}

fn round_trip(request: Value) -> Result<Value, Untranslatable> {
    read_request(object(request)).and_then(write_request).map(Value::from)
}

#[test]
fn a_documented_request_leaves_as_it_came() {
    for request in documented() {
        let written = round_trip(request.clone()).expect("a good request");
        assert_eq!(written, with_blocks(request));
    }
}

#[test]
fn a_signature_of_the_gateway_is_not_sent() {
    let foreign = r#"airlock:{"id":"rs_1","encrypted":"e"}"#;
    let of_call = r#"airlock:{"call":"t","thought_signature":"s"}"#;
    let used = json!({"type": "tool_use", "id": "t", "name": "f", "input": {}});
    let written = round_trip(json!({"model": "m", "max_tokens": 9, "messages": [
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "why", "signature": foreign},
            {"type": "thinking", "thinking": "unsigned", "signature": ""},
            {"type": "thinking", "thinking": "", "signature": of_call},
            used,
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]},
    ]}));
    assert_eq!(written.expect("a good request")["messages"][0]["content"], json!([used]));
}

#[test]
fn tools_of_the_provider_are_refused_and_members_of_the_payer_left_out() {
    let request = |more: Value| {
        let mut request =
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
        object(more).into_iter().for_each(|(name, value)| request[name] = value);
        round_trip(request)
    };
    let search = json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]});
    assert_eq!(request(search).expect_err("refused").param, "tools[0].type");
    let written = request(json!({"speed": "fast", "mcp_servers": []})).expect("a good request");
    assert_eq!(written.as_object().map(Object::len), Some(3), "{written}");
}

#[test]
fn an_error_names_the_block_of_the_caller() {
    let svg = json!({"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": ""}});
    let text = json!({"type": "text", "text": "a"});
    let result = json!({"type": "tool_result", "tool_use_id": "t", "content": [text, svg]});
    let user = |content: Value| json!({"role": "user", "content": content});
    let model = json!({"role": "assistant", "content": [text, {"type": "tool_use", "id": "t", "name": "f", "input": {}}]});
    for (messages, param) in [
        (json!([user(json!([text, svg]))]), "messages[0].content[1].source"),
        (json!([user(json!("hi")), model, user(json!([svg]))]), "messages[2].content[0].source"),
        (
            json!([user(json!("hi")), model, user(json!([result]))]),
            "messages[2].content[0].content[1].source",
        ),
        (
            json!([
                user(json!("hi")),
                model,
                user(json!([{"type": "tool_result", "tool_use_id": "t"}, text, svg]))
            ]),
            "messages[2].content[2].source",
        ),
    ] {
        for system in [json!(null), json!("be kind")] {
            let request =
                json!({"model": "m", "max_tokens": 9, "system": system, "messages": messages});
            assert_eq!(round_trip(request).expect_err("refused").param, param, "{messages}");
        }
    }
    let request = json!({"model": "m", "max_tokens": 9, "system": [text, svg], "messages": [user(json!("hi"))]});
    assert_eq!(round_trip(request).expect_err("refused").param, "system[1].type");
}

/// Returns a strategy for the blocks of a role in the documented requests.
fn blocks_of(role: &'static str) -> impl Strategy<Value = Vec<Value>> {
    let requests = documented().into_iter().map(with_blocks);
    let messages =
        requests.flat_map(|request| request["messages"].as_array().cloned().unwrap_or_default());
    let blocks = messages.filter(|message| message["role"] == role);
    let blocks =
        blocks.flat_map(|message| message["content"].as_array().cloned().unwrap_or_default());
    prop::collection::vec(prop::sample::select(blocks.collect::<Vec<_>>()), 1..6)
}

proptest! {
    #[test]
    fn any_turns_of_documented_blocks_leave_as_they_came(
        mut turns in prop::collection::vec((blocks_of("user"), blocks_of("assistant")), 1..5)
    ) {
        // Results come first, as the API requires.
        for (user, _) in &mut turns {
            user.sort_by_key(|block| block["type"] != "tool_result");
        }
        let turns = turns.into_iter().flat_map(|(user, model)| {
            [json!({"role": "user", "content": user}), json!({"role": "assistant", "content": model})]
        });
        let request = json!({"model": "m", "max_tokens": 9, "messages": turns.collect::<Vec<_>>()});
        prop_assert_eq!(round_trip(request.clone()).expect("a good request"), request);
    }
}
