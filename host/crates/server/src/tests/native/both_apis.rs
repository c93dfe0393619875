//! The same conversations over both APIs of a provider, and notes about approvals in them.

use super::*;

/// One answer of a model: its reasoning, its text, and the calls that it makes.
type Answer = (Option<&'static str>, Option<&'static str>, &'static [(&'static str, &'static str)]);

fn as_chat((reasoning, text, calls): &Answer, is_streamed: bool) -> String {
    let calls = calls.iter().enumerate().map(|(index, (id, name))| {
        json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": "{\"a\":1}"}})
    });
    let calls: Vec<Value> = calls.collect();
    let reason = if calls.is_empty() { "stop" } else { "tool_calls" };
    let mut message = json!({"role": "assistant", "content": text});
    if let Some(reasoning) = reasoning {
        message["reasoning_content"] = (*reasoning).into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let part = if is_streamed { "delta" } else { "message" };
    let answer = json!({
        "id": "x", "model": "m", "created": 1,
        "choices": [{"index": 0, part: message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5},
    });
    if !is_streamed {
        return service::json("200 OK", &answer.to_string());
    }
    service::events(&format!("data: {answer}\n\ndata: [DONE]\n\n"))
}

fn as_responses((reasoning, text, calls): &Answer, is_streamed: bool) -> String {
    let reasoning = reasoning.map(|text| {
        json!({"id": "rs_p", "type": "reasoning", "status": "completed", "summary": [],
               "content": [{"type": "reasoning_text", "text": text}], "encrypted_content": null})
    });
    let text = text.map(|text| {
        json!({"id": "msg_p", "type": "message", "status": "completed", "role": "assistant",
               "content": [{"type": "output_text", "text": text, "annotations": []}]})
    });
    let calls = calls.iter().map(|(id, name)| call(id, name));
    let output: Value = reasoning.into_iter().chain(text).chain(calls).collect();
    if is_streamed { streamed(&[], &output) } else { whole(&output) }
}

/// Returns a Response without the values that differ from one request to the next.
fn masked(response: &Value) -> String {
    let mut response = response.clone();
    let id = response["id"].as_str().expect("an id").replace("resp_", "");
    response["created_at"] = 0.into();
    let calls = response["airlock"]["calls"].as_array_mut();
    for call in calls.into_iter().flatten() {
        call["id"] = Value::Null;
        call["duration_ms"] = Value::Null;
        call["tool_call_id"] = Value::Null;
    }
    for item in response["output"].as_array_mut().into_iter().flatten() {
        if item["type"] == "reasoning" {
            item["id"] = Value::Null;
        }
    }
    response.to_string().replace(&id, "ID")
}

#[tokio::test]
async fn the_same_conversation_gives_the_same_response_over_both_apis_of_a_provider() {
    let conversations: [(&str, &[Answer]); 6] = [
        ("text", &[(None, Some("Hello"), &[])]),
        ("reasoning", &[(Some("Hm"), Some("Four"), &[])]),
        ("a call here", &[(None, None, &[("a", "desk-echo")]), (None, Some("done"), &[])]),
        (
            "text and parallel calls, two rounds",
            &[
                (Some("Hm"), Some("First"), &[("a", "desk-echo"), ("b", "desk-fail")]),
                (None, Some("Then"), &[("a", "desk-echo")]),
                (Some("So"), Some("done"), &[]),
            ],
        ),
        ("calls for the client", &[(None, Some("Now"), &[("a", "mine"), ("b", "desk-write")])]),
        ("a call of an unknown tool", &[(None, None, &[("a", "no.tool")]), DONE]),
    ];
    let request = json!({"input": "go", "tools": [{"type": "function", "name": "mine"}]});
    for (name, answers) in conversations {
        for is_streamed in [false, true] {
            let mut responses = Vec::new();
            for apis in [Apis::Chat, Apis::Responses] {
                let write = if apis == Apis::Chat { as_chat } else { as_responses };
                let answers = answers.iter().map(|answer| write(answer, is_streamed)).collect();
                let (gateway, _fake, _directory) = with_answers(apis, answers).await;
                let response = if is_streamed {
                    let events = gateway.stream(request.clone()).await;
                    events.last().expect("an event").1["response"].clone()
                } else {
                    gateway.respond(request.clone()).await.1
                };
                assert_eq!(response["status"], "completed", "{name}: {response}");
                responses.push(masked(&response));
                gateway.stop().await;
            }
            assert_eq!(responses[0], responses[1], "{name}, streamed: {is_streamed}");
        }
    }
}

#[tokio::test]
async fn a_refusal_of_an_unknown_tool_reaches_the_provider_with_a_name_that_it_takes() {
    for is_streamed in [false, true] {
        let calls = (None, None, &[("a", "no.tool")][..]);
        let answers = vec![as_responses(&calls, is_streamed), as_responses(&DONE, is_streamed)];
        let (gateway, fake, _directory) = with_answers(Apis::Responses, answers).await;
        let response = responded(&gateway, is_streamed, json!({"input": "go"})).await;
        let call = &response["output"][0];
        let found = (&call["type"], &call["status"], &call["name"]);
        assert_eq!(found, (&json!("mcp_call"), &json!("failed"), &json!("no_tool")), "{response}");
        gateway.stop().await;
        let sent = body(&fake.requests().await[1]);
        let [_, call, result] = sent["input"].as_array().expect("items").as_slice() else {
            panic!("{sent}")
        };
        assert_eq!((&call["name"], &call["call_id"]), (&json!("no_tool"), &json!("a")));
        assert_eq!(result["call_id"], "a");
        let text = result["output"].as_str().expect("a text");
        assert!(text.contains("'no_tool' is not available"), "{text}");
    }
}

/// An answer without text whose call needs an approval.
const ASKS: Answer = (None, None, &[("a", "desk-write")]);
const DONE: Answer = (None, Some("done"), &[]);
const NOTE: &str = "[Note of the gateway: `desk-write` needs an approval";

#[tokio::test]
async fn a_note_about_an_approval_is_an_item_that_does_not_reach_the_provider_beside_its_call() {
    for (apis, is_streamed) in
        [(Apis::Chat, false), (Apis::Chat, true), (Apis::Responses, false), (Apis::Responses, true)]
    {
        let write = if apis == Apis::Chat { as_chat } else { as_responses };
        let answers = vec![write(&ASKS, is_streamed), write(&DONE, is_streamed)];
        let (gateway, fake, _directory) = with_answers(apis, answers).await;
        let first = responded(&gateway, is_streamed, json!({"input": "go"})).await;
        let items = first["output"].as_array().expect("items");
        assert_eq!((items.len(), &items[1]["type"]), (2, &json!("function_call")), "{first}");
        let text = items[0]["content"][0]["text"].as_str().expect("a text");
        assert!(text.starts_with(NOTE), "{text}");
        let mut input = vec![json!({"role": "user", "content": "go"})];
        input.extend_from_slice(items);
        input.push(json!({"type": "function_call_output", "call_id": "a", "output": "written"}));
        let last = responded(&gateway, is_streamed, json!({"input": input})).await;
        assert_eq!(last["output"][0]["content"][0]["text"], "done", "{last}");
        gateway.stop().await;
        let sent = body(&fake.requests().await[1]);
        let history = if apis == Apis::Chat { &sent["messages"] } else { &sent["input"] };
        assert_eq!(history.as_array().map(Vec::len), Some(3), "{sent}");
        assert!(!history.to_string().contains("Note of the gateway"), "{sent}");
    }
}

/// Returns a Response, whole or from the last event of its stream.
async fn responded(gateway: &Gateway, is_streamed: bool, members: Value) -> Value {
    if !is_streamed {
        return gateway.respond(members).await.1;
    }
    let events = gateway.stream(members).await;
    events.last().expect("an event").1["response"].clone()
}

#[tokio::test]
async fn a_note_about_an_approval_does_not_reach_the_provider_of_a_chat_beside_its_call() {
    let answers = vec![as_chat(&ASKS, false), as_chat(&DONE, false)];
    let (gateway, fake, _directory) = with_answers(Apis::Chat, answers).await;
    let (_, first) = gateway.chat("go", &[]).await;
    let message = &first["choices"][0]["message"];
    assert!(message["content"].as_str().is_some_and(|text| text.starts_with(NOTE)), "{first}");
    let user = json!({"role": "user", "content": "go"});
    let result = json!({"role": "tool", "tool_call_id": "a", "content": "written"});
    let next = json!({"model": "demo/m", "messages": [user, message, result]}).to_string();
    let (status, last) = gateway.ask(Method::POST, "/v1/chat/completions", &[], &next).await;
    assert_eq!((status, &last["choices"][0]["message"]["content"]), (200, &json!("done")));
    gateway.stop().await;
    let sent = body(&fake.requests().await[1]);
    assert_eq!(sent["messages"][1]["content"], Value::Null, "{sent}");
    assert_eq!(sent["messages"][1]["tool_calls"], message["tool_calls"]);
}
