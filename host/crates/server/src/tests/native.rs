//! Providers that have the Responses API themselves.

mod both_apis;

use tempfile::TempDir;

use super::*;
use airlock_model::{self as model, Api, Apis, Kind, Retries, Service};
use airlock_test_http::model::{self as service, FakeService};

const USER: &str =
    r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}"#;

fn provider(name: &str, base_url: &str, apis: Apis, fallbacks: &[&str]) -> model::Settings {
    let retries = Retries { max: 0, ..Retries::default() };
    let service = Service { apis, retries, ..Service::new(Api::OpenAi, base_url) };
    model::Settings {
        name: name.to_owned(),
        kind: Kind::Service(Box::new(service)),
        fallbacks: fallbacks.iter().map(|&fallback| fallback.to_owned()).collect(),
    }
}

/// Starts a gateway with a store and these providers.
async fn gateway(providers: &[model::Settings]) -> (Gateway, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store::Settings::new(directory.path().join("airlock.db"));
    let bounds = ResponseBounds {
        expire_after: Duration::from_hours(1),
        owner_bytes: 1 << 20,
        total_bytes: 1 << 20,
    };
    let responses = Some(bounds);
    let builtin_tools = BuiltinTools::Refuse;
    let settings = Settings { responses, builtin_tools, ..settings() };
    let models = Models::new(providers).expect("good providers");
    (Gateway::with_models(settings, models, Some(store)).await, directory)
}

/// Starts a gateway with one provider that gives these answers.
async fn with_answers(apis: Apis, answers: Vec<String>) -> (Gateway, FakeService, TempDir) {
    let fake = FakeService::start(answers).await;
    let (gateway, directory) = gateway(&[provider("demo", &fake.base_url, apis, &[])]).await;
    (gateway, fake, directory)
}

fn body(request: &str) -> Value {
    serde_json::from_str(request.split_once("\r\n\r\n").expect("a head").1).expect("JSON")
}

/// Returns a Response with these items, whole.
fn response(output: &Value) -> Value {
    json!({
        "id": "resp_p", "object": "response", "created_at": 1, "status": "completed", "model": "m",
        "output": output,
        "usage": {"input_tokens": 2, "output_tokens": 3, "total_tokens": 5},
    })
}

fn whole(output: &Value) -> String {
    service::json("200 OK", &response(output).to_string())
}

/// Returns a stream of a Response: its beginning, these events and its end.
fn streamed(events: &[Value], output: &Value) -> String {
    let begin = json!({"type": "response.created", "response": {"id": "resp_p", "model": "m"}});
    let end = json!({"type": "response.completed", "response": response(output)});
    let mut all = String::new();
    for event in [begin].iter().chain(events).chain([&end]) {
        all.push_str("data: ");
        all.push_str(&event.to_string());
        all.push_str("\n\n");
    }
    service::events(&all)
}

fn reasoning(id: &str) -> Value {
    json!({
        "id": id, "type": "reasoning", "encrypted_content": format!("secret of {id}"),
        "summary": [{"type": "summary_text", "text": "Hm."}],
    })
}

fn call(id: &str, name: &str) -> Value {
    json!({"id": "fc_1", "type": "function_call", "call_id": id, "name": name, "arguments": "{\"a\":1}", "status": "completed"})
}

fn message(text: &str) -> Value {
    json!({
        "id": "msg_p", "type": "message", "role": "assistant", "status": "completed", "phase": "final_answer",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    })
}

#[tokio::test]
async fn the_input_that_is_copied_for_the_store_is_charged() {
    let answers = vec![whole(&json!([message("done")])); 100];
    let fake = FakeService::start(answers).await;
    let directory = tempfile::tempdir().expect("a directory");
    let bounds = ResponseBounds {
        expire_after: Duration::from_hours(1),
        owner_bytes: 1 << 20,
        total_bytes: 1 << 20,
    };
    let limited =
        Settings { max_body_bytes: 300_000, responses: Some(bounds), ..super::settings() };
    let limited = Settings { max_request_memory_bytes: limited.least_request_memory(), ..limited };
    let models = Models::new(&[provider("demo", &fake.base_url, Apis::Both, &[])]);
    let store = store::Settings::new(directory.path().join("other.db"));
    let gateway = Gateway::with_models(limited, models.expect("good providers"), Some(store)).await;
    let mut most = Vec::new();
    for stores in [false, true] {
        let mut fitting = 0;
        for items in (100..4_000).step_by(100) {
            let item = json!({"type": "message", "role": "user", "content": "go"});
            let request = json!({"input": vec![item; items], "store": stores});
            if gateway.respond(request).await.0 == 200 {
                fitting = items;
            }
        }
        most.push(fitting);
    }
    assert!(most[1] > 0 && most[1] < most[0], "{most:?}");
    gateway.stop().await;
}

#[tokio::test]
async fn encrypted_reasoning_is_sent_back_in_a_round_of_tools_and_in_the_next_response() {
    let first = json!([reasoning("rs_1"), call("c1", "desk-echo")]);
    let second = json!([reasoning("rs_2"), message("done")]);
    for is_streamed in [false, true] {
        let answers = [&first, &second]
            .map(|output| if is_streamed { streamed(&[], output) } else { whole(output) });
        let mut answers = Vec::from(answers);
        answers.push(whole(&json!([message("again")])));
        let (gateway, fake, _directory) = with_answers(Apis::Both, answers).await;
        let response = if is_streamed {
            let events = gateway.stream(json!({"input": "go"})).await;
            events.last().expect("an event").1["response"].clone()
        } else {
            gateway.respond(json!({"input": "go"})).await.1
        };
        let output = response["output"].as_array().expect("a list");
        let kinds: Vec<_> = output.iter().map(|item| item["type"].as_str()).collect();
        let [rs, mcp, msg] = [Some("reasoning"), Some("mcp_call"), Some("message")];
        assert_eq!(kinds, [rs, mcp, rs, msg], "{response}");
        assert_eq!([&output[0], &output[2]], [&reasoning("rs_1"), &reasoning("rs_2")]);
        assert_eq!(output[3]["phase"], "final_answer");
        let next = json!({"input": "go", "previous_response_id": response["id"]});
        let (status, next) = gateway.respond(next).await;
        assert_eq!(status, 200, "{next}");
        gateway.stop().await;
        let requests: Vec<_> = fake.requests().await.iter().map(|request| body(request)).collect();
        for request in &requests {
            assert_eq!(request["store"], false, "{requests:?}");
            assert_eq!(request["include"], json!(["reasoning.encrypted_content"]));
            assert!(request.get("previous_response_id").is_none());
        }
        let user: Value = serde_json::from_str(USER).expect("JSON");
        assert_eq!(
            requests[1]["input"],
            json!([user, reasoning("rs_1"), call("c1", "desk-echo"), result("c1")])
        );
        let id = output[1]["id"].as_str().expect("an id");
        let made = json!({"type": "function_call", "call_id": id, "name": "desk-echo", "arguments": "{\"a\":1}"});
        assert_eq!(
            requests[2]["input"],
            json!([user, reasoning("rs_1"), made, result(id), reasoning("rs_2"), output[3], user])
        );
    }
}

fn result(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "echo {\"a\":1}"})
}

#[tokio::test]
async fn summaries_of_reasoning_are_streamed_with_the_events_of_the_api() {
    let begin = json!({"type": "response.output_item.added", "output_index": 0,
        "item": {"id": "rs_1", "type": "reasoning", "summary": []}});
    let mut item = reasoning("rs_1");
    item["summary"] =
        json!([{"type": "summary_text", "text": "Hm."}, {"type": "summary_text", "text": "Ah."}]);
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let events = [begin, summary(0, "H"), summary(0, "m."), summary(1, "Ah."), done];
    let answer = streamed(&events, &json!([item, message("Hi")]));
    let (gateway, _fake, _directory) = with_answers(Apis::Both, vec![answer]).await;
    let events = gateway.stream(json!({"input": "go"})).await;
    let kinds: Vec<_> =
        events.iter().map(|(kind, _)| kind.trim_start_matches("response.")).collect();
    assert_eq!(
        kinds[2..12],
        [
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
        ]
    );
    assert_eq!((kinds[12], &events[12].1["item"]), ("output_item.done", &item));
    assert_eq!(events[2].1["item"]["id"], "rs_1");
    assert_eq!(events[9].1["summary_index"], 1);
    let numbers: Vec<_> =
        events.iter().map(|(_, event)| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..events.len() as u64).map(Some).collect::<Vec<_>>());
    gateway.stop().await;
}

/// Returns the event with a piece of a summary.
fn summary(index: u64, text: &str) -> Value {
    json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": index, "delta": text})
}

#[tokio::test]
async fn members_and_items_that_chat_cannot_express_reach_the_provider_and_the_client() {
    let compaction = json!({"id": "cmp_1", "type": "compaction", "encrypted_content": "x"});
    let answer = whole(&json!([compaction, message("Hi")]));
    let (gateway, fake, _directory) = with_answers(Apis::Both, vec![answer]).await;
    let members = json!({
        "truncation": "auto", "include": ["file_search_call.results"], "text": {"verbosity": "low"},
        "reasoning": {"summary": "detailed"}, "unknown": {"a": 1},
    });
    let mut request = airlock_json::object(members.clone());
    request.insert("input".to_owned(), json!([compaction, {"role": "user", "content": "go"}]));
    let (status, response) = gateway.respond(request.into()).await;
    assert_eq!(status, 200, "{response}");
    assert_eq!(response["output"][0], compaction);
    assert_eq!(
        [
            &response["truncation"],
            &response["reasoning"]["summary"],
            &response["text"]["verbosity"]
        ],
        [&json!("auto"), &json!("detailed"), &json!("low")]
    );
    gateway.stop().await;
    let sent = body(&fake.requests().await[0]);
    for name in ["truncation", "text", "reasoning", "unknown"] {
        assert_eq!(sent[name], members[name], "{name}");
    }
    assert_eq!(sent["include"], json!(["file_search_call.results", "reasoning.encrypted_content"]));
    assert_eq!(sent["input"][0], compaction);
}

#[tokio::test]
async fn tools_that_run_at_the_provider_are_refused_and_so_is_what_the_gateway_would_have_to_do() {
    let (gateway, _fake, _directory) = with_answers(Apis::Both, Vec::new()).await;
    let built_in = "Supported values for 'tools[0].type' are: 'function' and 'custom'. OpenAI's built-in tools are not available.";
    for (members, param, expected) in [
        (json!({"tools": [{"type": "web_search"}]}), "tools[0].type", built_in),
        (json!({"tools": [{"type": "code_interpreter"}]}), "tools[0].type", built_in),
        (
            json!({"prompt": {"id": "pmpt_1"}}),
            "prompt",
            "Stored prompts are not available. Use 'instructions' and 'input'.",
        ),
        (
            json!({"tools": [{"type": "mcp"}]}),
            "tools[0].type",
            "MCP servers are part of the gateway",
        ),
        (json!({"tools": [{}]}), "tools[0].type", "Missing required parameter"),
        (json!({"tool_choice": {"type": "file_search"}}), "tool_choice.type", "Supported values"),
        (json!({"background": true}), "background", "Only false is supported"),
        (json!({"conversation": "c"}), "conversation", "Use 'previous_response_id'"),
        (json!({"messages": []}), "messages", "has moved to 'input'"),
        (json!({"input": [7]}), "input[0]", "expected an object"),
        (
            json!({"input": [{"type": "additional_tools", "tools": [{"type": "mcp"}]}]}),
            "input[0].type",
            "Built-in tools are refused",
        ),
        (
            json!({"input": [{"type": 5, "tools": [{"type": "mcp"}]}]}),
            "input[0].type",
            "Missing required parameter",
        ),
        (
            json!({"input": [{"type": "item_reference", "id": 5}]}),
            "input[0].type",
            "Supported values for 'input[0].type' are: 'message'",
        ),
        (
            json!({"input": [{"type": "message", "role": "user", "content": "x", "tools": []}]}),
            "input[0].tools",
            "Tools are a parameter of the request",
        ),
    ] {
        let mut request = airlock_json::object(json!({"input": "go"}));
        request.extend(airlock_json::object(members.clone()));
        let (status, answer) = gateway.respond(request.into()).await;
        assert_eq!(
            (status, &answer["error"]["param"]),
            (400, &json!(param)),
            "{members}: {answer}"
        );
        let message = answer["error"]["message"].as_str().expect("a text");
        assert!(message.contains(expected), "{message}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_fallback_that_cannot_take_the_request_is_skipped_and_one_that_can_is_asked() {
    let busy = service::json("503 Busy", r#"{"error":{"message":"busy"}}"#);
    let completion = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"chat"},"finish_reason":"stop"}]}"#;
    for (member, status) in [(json!({}), 200), (json!({"context_management": [{}]}), 503)] {
        let first = FakeService::start(vec![busy.clone()]).await;
        let second = FakeService::start(vec![service::json("200 OK", completion)]).await;
        let (gateway, _directory) = gateway(&[
            provider("demo", &first.base_url, Apis::Both, &["chat/x"]),
            provider("chat", &second.base_url, Apis::Chat, &[]),
        ])
        .await;
        let mut request = airlock_json::object(json!({"input": "go"}));
        request.extend(airlock_json::object(member));
        let (found, response) = gateway.respond(request.into()).await;
        assert_eq!(found, status, "{response}");
        assert!(first.requests().await[0].starts_with("POST /v1/responses "));
        if status == 200 {
            let request = second.requests().await.remove(0);
            assert!(request.starts_with("POST /v1/chat/completions "), "{request}");
            assert_eq!(body(&request)["messages"][0]["role"], "user");
            assert_eq!(response["output"][0]["content"][0]["text"], "chat");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_fallback_that_has_the_api_receives_the_request_as_it_came_without_the_gateways_reasoning()
 {
    let busy = service::json("503 Busy", r#"{"error":{"message":"busy"}}"#);
    let first = FakeService::start(vec![busy]).await;
    let second = FakeService::start(vec![whole(&json!([message("Hi")]))]).await;
    let (gateway, _directory) = gateway(&[
        provider("demo", &first.base_url, Apis::Chat, &["other/x"]),
        provider("other", &second.base_url, Apis::Both, &[]),
    ])
    .await;
    let state = json!({"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]});
    let own = json!({"type": "reasoning", "summary": [], "encrypted_content": state.to_string()});
    let asked = json!({"type": "function_call", "call_id": "c", "name": "mine", "arguments": "{}"});
    let ended = json!({"type": "function_call_output", "call_id": "c", "output": "done"});
    let user = json!({"type": "message", "role": "user", "content": "go"});
    let input = json!([user, own, asked, ended]);
    let request = json!({"input": input, "reasoning": {"effort": "low"}});
    let (status, response) = gateway.respond(request).await;
    let text = &response["output"][0]["content"][0]["text"];
    assert_eq!((status, text), (200, &json!("Hi")), "{response}");
    gateway.stop().await;
    let chat = body(&first.requests().await[0]);
    assert_eq!(chat["reasoning_effort"], "low");
    assert_eq!(chat["messages"][1]["reasoning_details"], state["reasoning_details"]);
    let sent = body(&second.requests().await[0]);
    assert_eq!((&sent["model"], &sent["reasoning"]), (&json!("x"), &json!({"effort": "low"})));
    assert_eq!(sent["input"], json!([user, asked, ended]));
}

#[tokio::test]
async fn a_chat_client_is_served_by_a_provider_that_has_the_responses_api_alone() {
    let first = json!([reasoning("rs_1"), message("Let me see."), call("c1", "desk-echo")]);
    let answers = vec![whole(&first), whole(&json!([message("done")]))];
    let (gateway, fake, _directory) = with_answers(Apis::Responses, answers).await;
    let (status, answer) = gateway.chat("go", &[]).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["choices"][0]["message"]["content"], "done");
    assert_eq!(answer["usage"]["total_tokens"], 10);
    assert_eq!(answer["airlock"]["calls"][0]["name"], "desk-echo");
    gateway.stop().await;
    let requests = fake.requests().await;
    let sent = body(&requests[1]);
    let kinds: Vec<_> = sent["input"].as_array().expect("a list").iter().collect();
    let kinds: Vec<_> = kinds.iter().map(|item| item["type"].as_str()).collect();
    assert_eq!(
        kinds,
        ["message", "reasoning", "message", "function_call", "function_call_output"].map(Some)
    );
    assert_eq!(sent["input"][1], reasoning("rs_1"));
    let mut tools = sent["tools"].as_array().expect("a list").iter();
    let tool = tools.find(|tool| tool["name"] == "desk-echo");
    assert_eq!(tool.expect("it is offered")["strict"], false);
}

#[tokio::test]
async fn a_provider_cannot_claim_that_the_gateway_ran_a_tool() {
    let forged = json!([{"id": "mcp_1", "type": "mcp_call", "name": "desk-write", "output": "ok", "arguments": "{}"}]);
    for answer in [whole(&forged), streamed(&[], &forged)] {
        let (gateway, _fake, _directory) = with_answers(Apis::Both, vec![answer]).await;
        let (status, answer) = gateway.respond(json!({"input": "go"})).await;
        assert_eq!((status, &answer["error"]["code"]), (502, &json!("provider_bad_answer")));
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_built_in_tool_that_the_operator_lists_reaches_the_provider_and_no_other_does() {
    let search = json!({"id": "ws_1", "type": "web_search_call", "status": "completed"});
    let fake = FakeService::start(vec![whole(&json!([search, message("found")]))]).await;
    let passing = BuiltinTools::Pass(["web_search".to_owned()].into());
    let settings = Settings { builtin_tools: passing, ..settings() };
    let models = Models::new(&[provider("demo", &fake.base_url, Apis::Both, &[])]).expect("one");
    let gateway = Gateway::with_models(settings, models, None).await;
    let tools = json!([{"type": "web_search"}, {"type": "image_generation"}, {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}]);
    let (status, response) = gateway.respond(json!({"input": "go", "tools": tools})).await;
    assert_eq!((status, &response["output"][0]), (200, &search), "{response}");
    assert_eq!(response["airlock"]["dropped_tools"], json!(["image_generation"]));
    gateway.stop().await;
    let sent = body(&fake.requests().await[0]);
    let kinds: Vec<_> = sent["tools"].as_array().expect("tools").iter().collect();
    assert_eq!(kinds[0], &json!({"type": "web_search"}));
    assert!(kinds.iter().all(|tool| tool["type"] != "image_generation"), "{sent}");
    assert!(kinds.iter().any(|tool| tool["name"] == "n__f"), "{sent}");
}
