//! The same conversations through chat completions, Responses and messages, plain and streamed, tell the
//! same story.

mod wires;

use self::wires::{CONVERSATIONS, WIRES};
use super::*;
use airlock_conversation::{Reply, chat::ReplyReader};
use airlock_json::object;
use airlock_model::ChatForm;

/// Conversations: a name, and the answers of the model, one for each number of results.
fn conversations() -> Vec<(&'static str, Value)> {
    vec![
        ("text", json!([{"content": "Hello there, friend"}])),
        ("reasoning", json!([{"reasoning": "Hm, let me see", "content": "Four"}])),
        ("a call here", json!([{"tool_calls": [call("a", "desk-echo")]}, {"content": "done"}])),
        (
            "text before calls, two rounds",
            json!([
                {"content": "First", "tool_calls": [call("a", "desk-echo"), call("b", "desk-echo")]},
                {"content": "Then"},
                {"content": "Then", "tool_calls": [call("c", "desk-echo")]},
                {"content": "done"},
            ]),
        ),
        (
            "a call of an unknown tool",
            json!([{"tool_calls": [call("a", "desk-other")]}, {"content": "sorry"}]),
        ),
        ("a failing call", json!([{"tool_calls": [call("a", "desk-fail")]}, {"content": "sorry"}])),
        (
            "a call for approval",
            json!([{"content": "May I?", "tool_calls": [call("a", "desk-write")]}]),
        ),
        ("a call of the client", json!([{"tool_calls": [call("a", "mine"), call("b", "yours")]}])),
        (
            "calls here, for approval and of the client",
            json!([{"content": "Now", "tool_calls": [
                call("a", "desk-echo"), call("b", "mine"), call("c", "desk-write"), call("d", "desk-fail"),
            ]}]),
        ),
        (
            "a script that needs an approval",
            json!([{"tool_calls": [{"id": "a", "name": "executeToolCode", "arguments": {"code": "files-write"}}]}]),
        ),
        (
            "too many calls",
            json!([{"tool_calls": vec![json!({"name": "desk-echo"}); 8]}, {}, {}, {}, {}, {}, {}, {}, {"content": "done"}]),
        ),
        ("a failure", json!([{"error": {"status": 503, "message": "overloaded"}}])),
        (
            "a failure after a call",
            json!([{"tool_calls": [call("a", "desk-echo")]}, {"error": {"status": 500, "message": "broken"}}]),
        ),
    ]
}

fn call(id: &str, name: &str) -> Value {
    json!({"id": id, "name": name, "arguments": {"n": id}})
}

/// Turns of a model with these answers. Each has a text: `"content": null` is lost in a stream, and
/// the usage of the next round would differ by its length.
fn turns(answers: &Value) -> Value {
    let answers = answers.as_array().expect("a list").iter().enumerate();
    let turns = answers.filter(|(_, answer)| **answer != json!({})).map(|(results, answer)| {
        let mut answer = answer.clone();
        if answer.get("tool_calls").is_some() && answer.get("content").is_none() {
            answer["content"] = "".into();
        }
        json!({"when": {"tool_results": results}, "answer": answer})
    });
    turns.collect()
}

/// The parts of a conversation's outcome that do not depend on the API.
#[derive(Debug, Clone, PartialEq)]
struct Story {
    /// Name, arguments, error code and result of each call that the gateway made or refused.
    calls: Vec<[Value; 4]>,
    /// Name, arguments and reason of each call for the client.
    pending: Vec<[Value; 3]>,
    rounds: Value,
    usage: [Value; 3],
    /// Text of the last round; `None` where chat completions have results of calls in its place.
    text: Option<String>,
    error: Value,
}

/// Returns what the record and the errors tell, which both APIs have in the same place.
fn record(answer: &Value, error: &Value) -> Story {
    let airlock = &answer["airlock"];
    let calls: Vec<_> = list(airlock, "calls")
        .iter()
        .map(|call| ["name", "arguments", "error", "result"].map(|name| call[name].clone()))
        .collect();
    let pending: Vec<_> = list(airlock, "pending")
        .iter()
        .map(|call| ["name", "tool_call_id", "reason"].map(|name| call[name].clone()))
        .collect();
    Story {
        calls,
        pending,
        rounds: airlock["rounds"].clone(),
        usage: Default::default(),
        text: None,
        error: error["message"].clone(),
    }
}

fn list(airlock: &Value, name: &str) -> Vec<Value> {
    airlock[name].as_array().cloned().unwrap_or_default()
}

fn is_mixed(story: &Story) -> bool {
    let ran = story.calls.iter().any(|[_, _, error, _]| error["code"] != "airlock.needs_approval");
    ran && !story.pending.is_empty()
}

fn of_chat(answer: &Value) -> Story {
    let mut story = record(answer, &answer["error"]);
    let message = &answer["choices"][0]["message"];
    let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
    assert_eq!(calls, story.pending.len(), "{answer}");
    let counts = ["prompt_tokens", "completion_tokens", "total_tokens"];
    story.usage = counts.map(|name| answer["usage"][name].clone());
    if !is_mixed(&story) && answer.get("error").is_none() {
        story.text = Some(message["content"].as_str().unwrap_or_default().to_owned());
    }
    story
}

fn of_response(response: &Value, error: &Value) -> Story {
    let mut story = record(response, error);
    let items = response["output"].as_array().map_or(&[][..], Vec::as_slice);
    if error.is_null() {
        // The items agree with the record.
        let mut tops: Vec<_> =
            of_kind(items, "mcp_call").iter().map(|call| call["name"].clone()).collect();
        let made = response["airlock"]["calls"].as_array().map_or(&[][..], Vec::as_slice);
        let made = made.iter().filter(|call| call["parent"].is_null());
        let mut made: Vec<_> = made.map(|call| call["name"].clone()).collect();
        made.sort_by_key(Value::to_string);
        tops.sort_by_key(Value::to_string);
        assert_eq!(tops, made, "{response}");
        let ids = of_kind(items, "function_call").into_iter().map(|call| call["call_id"].clone());
        let mut ids: Vec<_> = ids.collect();
        let mut waiting: Vec<_> = story.pending.iter().map(|[_, id, _]| id.clone()).collect();
        ids.sort_by_key(Value::to_string);
        waiting.sort_by_key(Value::to_string);
        assert_eq!(ids, waiting, "{response}");
    }
    let counts = ["input_tokens", "output_tokens", "total_tokens"];
    story.usage = counts.map(|name| response["usage"][name].clone());
    if !is_mixed(&story) && error.is_null() {
        let after_calls = items.iter().rev().take_while(|item| item["type"] != "mcp_call");
        let mut texts = after_calls
            .filter(|item| item["type"] == "message")
            .filter_map(|item| item["content"][0]["text"].as_str());
        story.text = Some(texts.next().unwrap_or_default().to_owned());
    }
    story
}

fn of_kind<'a>(items: &'a [Value], kind: &str) -> Vec<&'a Value> {
    items.iter().filter(|item| item["type"] == *kind).collect()
}

async fn plain_chat(gateway: &Gateway) -> Story {
    let body = json!({"model": "demo/m", "messages": [{"role": "user", "content": "go"}], "tools": chat_tools()});
    let path = "/v1/chat/completions";
    of_chat(&gateway.ask(Method::POST, path, &[], &body.to_string()).await.1)
}

/// Returns definitions of the client's tools, each made from its name.
fn tools(definition: fn(&str) -> Value) -> Value {
    ["mine", "yours"].map(definition).into_iter().collect()
}

fn chat_tools() -> Value {
    tools(|name| json!({"type": "function", "function": {"name": name}}))
}

fn response_tools() -> Value {
    tools(
        |name| json!({"type": "function", "name": name, "parameters": {"type": "object"}, "strict": false}),
    )
}

async fn streamed_chat(gateway: &Gateway) -> Story {
    let body = json!({"model": "demo/m", "messages": [{"role": "user", "content": "go"}], "tools": chat_tools(), "stream": true, "stream_options": {"include_usage": true}});
    let path = "/v1/chat/completions";
    let reply = gateway.send(Method::POST, path, &[], &body.to_string()).await;
    if reply.status() != 200 {
        return of_chat(&reply.json().await.expect("JSON"));
    }
    let text = reply.text().await.expect("the whole stream");
    let mut reader = ReplyReader::default();
    let mut reply = Reply::default();
    let mut airlock = None;
    let mut error = None;
    for data in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let Ok(Value::Object(mut chunk)) = serde_json::from_str(data) else { continue };
        if let Some(found) = chunk.shift_remove("error") {
            error = Some(found);
            continue;
        }
        airlock = chunk.shift_remove("airlock").or(airlock);
        reply.extend(reader.chunk(chunk).expect("a chunk"));
    }
    if let Some(error) = error {
        return of_chat(&json!({"error": error, "airlock": error["airlock"]}));
    }
    reply.extend(reader.finish().expect("an end"));
    let mut answer = Value::from(ChatForm::whole(reply, airlock.map(object)));
    // The stream has the texts of all rounds, and the plain response that of the last one.
    if let Some(text) = answer["choices"][0]["message"]["content"].as_str() {
        answer["choices"][0]["message"]["content"] =
            text.rsplit("\n\n").next().unwrap_or_default().into();
    }
    of_chat(&answer)
}

async fn plain_response(gateway: &Gateway) -> Story {
    let (_, response) = gateway.respond(json!({"input": "go", "tools": response_tools()})).await;
    of_response(&response, &response["error"])
}

async fn streamed_response(gateway: &Gateway) -> Story {
    let tools = response_tools();
    let request = json!({"model": "demo/m", "input": "go", "tools": tools, "stream": true});
    let request = request.to_string();
    let reply = gateway.send(Method::POST, "/v1/responses", &[], &request).await;
    if reply.status() != 200 {
        let error: Value = reply.json().await.expect("JSON");
        return of_response(&error, &error["error"]);
    }
    let text = reply.text().await.expect("the whole stream");
    let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
    let last: Value = serde_json::from_str(last.expect("an event")).expect("JSON");
    of_response(&last["response"], &last["response"]["error"])
}

/// Returns the story of a message. Its text is that of the last round, as the plain form has it. `chat`
/// is the story of chat completions: the tokens of a request depend on how its text is written.
fn of_message(message: &Value, chat: &Story) -> Story {
    let error = &message["error"];
    let mut story = record(&json!({"airlock": message["airlock"]}), error);
    if !error.is_null() {
        story = record(error, error);
        story.usage = chat.usage.clone();
        return story;
    }
    let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
    let ids: Vec<_> = of_kind(blocks, "tool_use").iter().map(|block| block["id"].clone()).collect();
    assert_eq!(ids.len(), story.pending.len(), "{message}");
    assert!(story.pending.iter().all(|[_, id, _]| ids.contains(id)), "{message}");
    let reason = if ids.is_empty() { "end_turn" } else { "tool_use" };
    assert_eq!(message["stop_reason"], reason, "{message}");
    let [input, _, total] = &chat.usage;
    story.usage = [input.clone(), message["usage"]["output_tokens"].clone(), total.clone()];
    if !is_mixed(&story) {
        let texts = of_kind(blocks, "text").into_iter().filter_map(|block| block["text"].as_str());
        let text: String = texts.collect();
        story.text = Some(text.rsplit("\n\n").next().unwrap_or_default().to_owned());
    }
    story
}

fn message_request(is_streamed: bool) -> String {
    let messages = json!([{"role": "user", "content": "go"}]);
    let tools = tools(|name| json!({"name": name, "input_schema": {"type": "object"}}));
    json!({"model": "demo/m", "max_tokens": 100, "messages": messages, "tools": tools, "stream": is_streamed})
        .to_string()
}

async fn plain_message(gateway: &Gateway, chat: &Story) -> Story {
    let body = message_request(false);
    let (_, message) = gateway.ask(Method::POST, "/v1/messages", &[], &body).await;
    of_message(&message, chat)
}

async fn streamed_message(gateway: &Gateway, chat: &Story) -> Story {
    let reply = gateway.send(Method::POST, "/v1/messages", &[], &message_request(true)).await;
    if reply.status() != 200 {
        return of_message(&reply.json().await.expect("JSON"), chat);
    }
    let text = reply.text().await.expect("the whole stream");
    let mut message = json!({"content": []});
    for data in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let mut event: Value = serde_json::from_str(data).expect("JSON");
        let blocks = message["content"].as_array_mut().expect("a list");
        match event["type"].as_str().expect("a type") {
            "content_block_start" => blocks.push(event["content_block"].take()),
            "content_block_delta" if event["delta"]["type"] == "text_delta" => {
                let block = blocks.last_mut().expect("a block");
                let text = [&block["text"], &event["delta"]["text"]].map(|text| text.as_str());
                block["text"] = text.into_iter().flatten().collect::<String>().into();
            }
            "message_delta" => {
                message["stop_reason"] = event["delta"]["stop_reason"].take();
                message["usage"] = event["usage"].take();
                message["airlock"] = event["airlock"].take();
            }
            "error" => message["error"] = event["error"].take(),
            _ => {}
        }
    }
    of_message(&message, chat)
}

#[tokio::test]
async fn a_conversation_tells_the_same_story_through_all_apis_plain_and_streamed() {
    for (name, answers) in conversations() {
        let gateway = Gateway::with(settings(), &turns(&answers), None).await;
        let expected = plain_chat(&gateway).await;
        assert!(name.contains("fail") || expected.error.is_null(), "{name}: {expected:?}");
        let chat = expected;
        let expected = sorted(chat.clone());
        assert_eq!(sorted(streamed_chat(&gateway).await), expected, "{name}: streamed chat");
        assert_eq!(sorted(plain_response(&gateway).await), expected, "{name}: plain response");
        assert_eq!(
            sorted(streamed_response(&gateway).await),
            expected,
            "{name}: streamed response"
        );
        assert_eq!(sorted(plain_message(&gateway, &chat).await), expected, "{name}: plain message");
        assert_eq!(
            sorted(streamed_message(&gateway, &chat).await),
            expected,
            "{name}: streamed message"
        );
        gateway.stop().await;
    }
}

/// Sorts the calls for the client, whose order in a stream is that of their arrival.
fn sorted(mut story: Story) -> Story {
    story.pending.sort_by_key(|call| call[1].to_string());
    story
}

#[tokio::test]
async fn a_conversation_tells_the_same_story_with_every_api_of_a_provider() {
    for (number, answers) in CONVERSATIONS.iter().enumerate() {
        let (gateway, _fake) = WIRES[0].gateway(answers, false).await;
        let chat = plain_chat(&gateway).await;
        gateway.stop().await;
        assert!(chat.error.is_null(), "{number}: {chat:?}");
        for wire in &WIRES {
            for is_streamed in [false, true] {
                for face in ["chat", "Responses", "Messages"] {
                    let (gateway, fake) = wire.gateway(answers, is_streamed).await;
                    let story = match (face, is_streamed) {
                        ("chat", false) => plain_chat(&gateway).await,
                        ("chat", true) => streamed_chat(&gateway).await,
                        ("Responses", false) => plain_response(&gateway).await,
                        ("Responses", true) => streamed_response(&gateway).await,
                        (_, false) => plain_message(&gateway, &chat).await,
                        (_, true) => streamed_message(&gateway, &chat).await,
                    };
                    let name = wire.name;
                    let case = format!("{number}: {face} over {name}, streamed {is_streamed}");
                    assert_eq!(sorted(story), sorted(chat.clone()), "{case}");
                    gateway.stop().await;
                    assert_eq!(fake.requests().await.len(), answers.len(), "{case}");
                }
            }
        }
    }
}
