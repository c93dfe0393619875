//! The Responses API: both forms of a response, its store, and its errors.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

use tempfile::TempDir;

use super::*;

const PATH: &str = "/v1/responses";
const DAY: Duration = Duration::from_hours(24);

/// A gateway with a store, whose clock moves only when a test moves it.
struct Bench {
    gateway: Gateway,
    clock: Arc<AtomicU64>,
    _directory: TempDir,
}

/// Returns the turns of a model for most of these tests.
fn turns() -> Value {
    json!([
        {"when": {"role": "user", "contains": "echo"}, "answer": {"content": "Let me see.", "tool_calls": call("desk-echo")}},
        {"when": {"role": "user", "contains": "write"}, "answer": {"tool_calls": call("desk-write")}},
        {"when": {"role": "user", "contains": "hang"}, "answer": {"tool_calls": call("desk-hang")}},
        {"when": {"role": "user", "contains": "late"}, "answer": {"content": "one two three", "error": {"status": 500, "message": "broken", "after": 2}}},
        {"when": {"role": "user", "contains": "slow down"}, "answer": {"error": {"status": 429, "message": "slow down", "retry_after": 2}}},
        {"when": {"role": "user"}, "answer": {"content": "You say {{last_user_message}}"}},
        {"when": {"role": "tool"}, "answer": {"content": "done: {{last_tool_result}}"}},
    ])
}

fn call(name: &str) -> Value {
    json!([{"id": "c1", "name": name, "arguments": {"a": 1}}])
}

fn bounds() -> ResponseBounds {
    ResponseBounds { expire_after: 30 * DAY, owner_bytes: 1 << 20, total_bytes: 1 << 20 }
}

impl Bench {
    async fn new(bounds: ResponseBounds) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let clock = Arc::new(AtomicU64::new(1));
        let seen = clock.clone();
        let store = store::Settings {
            clock: Arc::new(move || {
                SystemTime::UNIX_EPOCH + Duration::from_secs(seen.load(Ordering::Relaxed))
            }),
            ..store::Settings::new(directory.path().join("airlock.db"))
        };
        let settings = Settings { responses: Some(bounds), ..settings() };
        let gateway = Gateway::with(settings, &turns(), Some(store)).await;
        Self { gateway, clock, _directory: directory }
    }

    fn pass(&self, time: Duration) {
        self.clock.fetch_add(time.as_secs(), Ordering::Relaxed);
    }
}

impl Gateway {
    pub(super) async fn respond(&self, members: Value) -> (u16, Value) {
        self.respond_as(members, &[]).await
    }

    async fn respond_as(&self, members: Value, head: &[(&'static str, &str)]) -> (u16, Value) {
        self.ask(Method::POST, PATH, head, &body(members)).await
    }

    /// Returns the events of a streamed response: type and data of each.
    pub(super) async fn stream(&self, members: Value) -> Vec<(String, Value)> {
        let mut members = airlock_json::object(members);
        members.insert("stream".to_owned(), true.into());
        let reply = self.send(Method::POST, PATH, &[], &body(members.into())).await;
        assert_eq!(reply.headers()["content-type"], "text/event-stream");
        let text = reply.text().await.expect("the whole stream");
        text.split_terminator("\n\n").map(parsed).collect()
    }

    async fn delete(&self, id: &Value, head: &[(&'static str, &str)]) -> (u16, Value) {
        self.ask(Method::DELETE, &path_of(id), head, "").await
    }
}

fn path_of(id: &Value) -> String {
    format!("{PATH}/{}", id.as_str().expect("an id"))
}

fn parsed(event: &str) -> (String, Value) {
    let (kind, data) = event.split_once('\n').expect("two lines");
    let kind = kind.strip_prefix("event: ").expect("a type");
    let data = data.strip_prefix("data: ").expect("data on one line");
    (kind.to_owned(), serde_json::from_str(data).expect("JSON"))
}

fn body(members: Value) -> String {
    let mut body = airlock_json::object(json!({"model": "demo/m"}));
    body.extend(airlock_json::object(members));
    Value::from(body).to_string()
}

/// Returns the text of the last message of a Response.
fn text(response: &Value) -> &str {
    let items = response["output"].as_array().map_or(&[][..], Vec::as_slice);
    let message = items.iter().rfind(|item| item["type"] == "message");
    message.and_then(|message| message["content"][0]["text"].as_str()).unwrap_or_default()
}

fn kinds(response: &Value) -> Vec<&str> {
    let items = response["output"].as_array().map_or(&[][..], Vec::as_slice);
    items.iter().filter_map(|item| item["type"].as_str()).collect()
}

#[tokio::test]
async fn a_response_has_the_calls_that_ran_here_as_items_before_the_text() {
    let bench = Bench::new(bounds()).await;
    let (status, response) =
        bench.gateway.respond(json!({"input": "echo", "metadata": {"k": "v"}})).await;
    assert_eq!((status, &response["status"]), (200, &json!("completed")), "{response}");
    assert_eq!(kinds(&response), ["message", "mcp_call", "message"]);
    let call = &response["output"][1];
    assert_eq!(
        [&call["server_label"], &call["name"], &call["arguments"], &call["output"], &call["error"]],
        [
            &json!("desk"),
            &json!("desk-echo"),
            &json!(r#"{"a":1}"#),
            &json!(r#"echo {"a":1}"#),
            &json!(null)
        ]
    );
    assert_eq!(text(&response), r#"done: echo {"a":1}"#);
    assert_eq!(response["output"][0]["content"][0]["text"], "Let me see.");
    assert_eq!(response["airlock"]["rounds"], 1);
    assert_eq!((&response["metadata"]["k"], &response["store"]), (&json!("v"), &json!(true)));
    assert!(response["usage"]["total_tokens"].as_u64() > Some(0), "{response}");
    bench.gateway.stop().await;
}

#[tokio::test]
async fn stream_events_come_in_order_and_end_with_the_response_that_is_stored() {
    let bench = Bench::new(bounds()).await;
    let events = bench.gateway.stream(json!({"input": "echo"})).await;
    for (number, (kind, data)) in events.iter().enumerate() {
        assert_eq!((&data["type"], &data["sequence_number"]), (&json!(kind), &json!(number)));
    }
    let mut names: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    names.dedup();
    let message = [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ];
    let call = [
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
        "response.output_item.done",
    ];
    let begin = ["response.created", "response.in_progress"];
    assert_eq!(names, [&begin[..], &message, &call, &message, &["response.completed"]].concat());
    let last = &events.last().expect("events").1["response"];
    let (status, stored) = bench.gateway.get(&path_of(&last["id"]), &[]).await;
    assert_eq!((status, &stored), (200, last));
    assert!(last["usage"]["total_tokens"].as_u64() > Some(0), "{last}");
    bench.gateway.stop().await;
}

#[tokio::test]
async fn a_pending_call_is_answered_in_a_response_that_continues_the_first() {
    let bench = Bench::new(bounds()).await;
    for is_streamed in [false, true] {
        let (_, first) =
            bench.gateway.respond(json!({"input": "write", "instructions": "Be brief."})).await;
        assert_eq!(kinds(&first), ["message", "function_call"]);
        assert!(text(&first).starts_with("[Note of the gateway: `desk-write` needs"), "{first}");
        let call = &first["output"][1];
        assert_eq!((&call["name"], &call["call_id"]), (&json!("desk-write"), &json!("c1")));
        assert_eq!(first["airlock"]["pending"][0]["reason"], "needs_approval");
        let answer =
            json!([{"type": "function_call_output", "call_id": "c1", "output": "written"}]);
        let members = json!({"input": answer, "previous_response_id": first["id"]});
        let second = if is_streamed {
            bench.gateway.stream(members).await.pop().expect("events").1["response"].take()
        } else {
            bench.gateway.respond(members).await.1
        };
        assert_eq!(text(&second), "done: written", "{second}");
        assert_eq!(second["previous_response_id"], first["id"]);
        let third =
            json!({"input": "and now?", "previous_response_id": second["id"], "store": false});
        let (_, third) = bench.gateway.respond(third).await;
        assert_eq!(text(&third), "You say and now?");
        assert_eq!(bench.gateway.get(&path_of(&third["id"]), &[]).await.0, 404, "it is not stored");
    }
    bench.gateway.stop().await;
}

#[tokio::test]
async fn a_stored_response_is_read_and_deleted_by_its_own_key_alone() {
    let bench = Bench::new(bounds()).await;
    let ann = [("x-bf-vk", "sk-bf-ann")];
    let cid = [("x-bf-vk", "sk-bf-cid")];
    let (_, response) = bench.gateway.respond_as(json!({"input": "hello"}), &ann).await;
    let path = path_of(&response["id"]);
    let id = response["id"].as_str().expect("an id");
    assert_eq!(bench.gateway.get(&path, &ann).await, (200, response.clone()));
    let (status, items) = bench.gateway.get(&format!("{path}/input_items"), &ann).await;
    assert_eq!((status, &items["data"][0]["content"][0]["text"]), (200, &json!("hello")));
    for others in [&cid[..], &[]] {
        let (status, error) = bench.gateway.get(&path, others).await;
        assert_eq!((status, &error["error"]["code"]), (404, &json!("response_not_found")));
        let unknown = bench.gateway.get(&format!("{PATH}/resp_{}", "0".repeat(32)), others).await;
        let same = error.to_string().replace(id, "X");
        assert_eq!(same, unknown.1.to_string().replace(&format!("resp_{}", "0".repeat(32)), "X"));
        assert_eq!(bench.gateway.get(&format!("{path}/input_items"), others).await.0, 404);
        assert_eq!(bench.gateway.delete(&response["id"], others).await.0, 404);
        let members = json!({"input": "more", "previous_response_id": id});
        let (status, error) = bench.gateway.respond_as(members, others).await;
        assert_eq!(
            (status, &error["error"]["code"], &error["error"]["param"]),
            (400, &json!("previous_response_not_found"), &json!("previous_response_id"))
        );
    }
    let deleted = bench.gateway.delete(&response["id"], &ann).await;
    assert_eq!(deleted, (200, json!({"id": id, "object": "response", "deleted": true})));
    assert_eq!(bench.gateway.delete(&response["id"], &ann).await.0, 404);
    assert_eq!(bench.gateway.get(&path, &ann).await.0, 404);
    for odd in ["resp_", "x", "resp_%27", "resp_zz"] {
        assert_eq!(bench.gateway.get(&format!("{PATH}/{odd}"), &ann).await.0, 404, "{odd}");
    }
    bench.gateway.stop().await;
}

#[tokio::test]
async fn a_response_expires_and_a_full_store_evicts_or_says_that_it_did_not_store() {
    let bench = Bench::new(ResponseBounds { owner_bytes: 6_000, ..bounds() }).await;
    let (_, first) = bench.gateway.respond(json!({"input": "x".repeat(1_000)})).await;
    bench.pass(30 * DAY);
    assert_eq!(bench.gateway.get(&path_of(&first["id"]), &[]).await.0, 404, "it has expired");
    let (_, second) = bench.gateway.respond(json!({"input": "y".repeat(1_000)})).await;
    bench.pass(DAY);
    let (_, third) = bench.gateway.respond(json!({"input": "z".repeat(1_000)})).await;
    assert_eq!(third["store"], true);
    assert_eq!(bench.gateway.get(&path_of(&second["id"]), &[]).await.0, 404, "it was evicted");
    assert_eq!(bench.gateway.get(&path_of(&third["id"]), &[]).await.0, 200);
    let large = json!({"input": "w".repeat(4_000), "previous_response_id": third["id"]});
    let (status, large) = bench.gateway.respond(large).await;
    assert_eq!((status, &large["store"]), (200, &json!(false)));
    assert_eq!(large["airlock"]["not_stored"]["code"], "conversation_too_large");
    let message = large["airlock"]["not_stored"]["message"].as_str().expect("a text");
    assert!(message.ends_with("one caller may store at most 6000 bytes"), "{message}");
    assert_eq!(bench.gateway.get(&path_of(&large["id"]), &[]).await.0, 404);
    bench.gateway.stop().await;
}

#[tokio::test]
async fn without_a_store_a_response_has_store_false() {
    let gateway = Gateway::with(settings(), &turns(), None).await;
    let (status, response) = gateway.respond(json!({"input": "hello", "store": true})).await;
    assert_eq!(
        (status, &response["store"], text(&response)),
        (200, &json!(false), "You say hello")
    );
    assert_eq!(gateway.get(&path_of(&response["id"]), &[]).await.0, 404);
    let members = json!({"input": "more", "previous_response_id": response["id"]});
    assert_eq!(gateway.respond(members).await.1["error"]["code"], "previous_response_not_found");
    gateway.stop().await;
}

#[tokio::test]
async fn an_error_before_the_first_byte_has_its_status_in_both_forms() {
    let bench = Bench::new(bounds()).await;
    for (members, status, code, param) in [
        (json!({}), 400, json!("missing_required_parameter"), json!("input")),
        (json!({"input": 1}), 400, json!("invalid_type"), json!("input")),
        (
            json!({"input": "x", "messages": []}),
            400,
            json!("unsupported_parameter"),
            json!("messages"),
        ),
        (
            json!({"input": "x", "background": true}),
            400,
            json!("unsupported_value"),
            json!("background"),
        ),
        (
            json!({"input": "x", "previous_response_id": 1}),
            400,
            json!("invalid_type"),
            json!("previous_response_id"),
        ),
        (json!({"input": "x", "airlock": {"x": 1}}), 400, json!("invalid_value"), json!("airlock")),
        (json!({"input": "x", "model": null}), 400, json!("missing_model"), json!("model")),
        (json!({"input": "slow down"}), 429, json!("scripted"), json!(null)),
    ] {
        for is_streamed in [false, true] {
            let mut members = members.clone();
            members["stream"] = is_streamed.into();
            let (found, answer) = bench.gateway.respond(members.clone()).await;
            assert_eq!(
                (found, &answer["error"]["code"], &answer["error"]["param"]),
                (status, &code, &param),
                "{members}: {answer}"
            );
        }
    }
    let reply =
        bench.gateway.send(Method::POST, PATH, &[], &body(json!({"input": "slow down"}))).await;
    assert_eq!(reply.headers()["retry-after"], "2");
    assert_eq!(bench.gateway.get(PATH, &[]).await.0, 405);
    bench.gateway.stop().await;
}

#[tokio::test]
async fn an_error_after_the_first_byte_fails_the_response_which_is_not_stored() {
    let bench = Bench::new(bounds()).await;
    let events = bench.gateway.stream(json!({"input": "late"})).await;
    let (kind, last) = events.last().expect("events");
    let response = &last["response"];
    assert_eq!((kind.as_str(), &response["status"]), ("response.failed", &json!("failed")));
    assert_eq!(
        (&response["error"]["code"], &response["error"]["message"], &response["store"]),
        (&json!("server_error"), &json!("broken"), &json!(false))
    );
    assert!(events.iter().any(|(kind, _)| kind == "response.output_text.delta"));
    assert_eq!(bench.gateway.get(&path_of(&response["id"]), &[]).await.0, 404);
    let (status, answer) = bench.gateway.respond(json!({"input": "late"})).await;
    assert_eq!((status, &answer["error"]["message"]), (500, &json!("broken")));
    bench.gateway.stop().await;
}

#[tokio::test]
async fn a_client_that_disconnects_stops_the_tool_and_nothing_is_stored() {
    let mut bench = Bench::new(bounds()).await;
    let request = body(json!({"input": "hang", "stream": true}));
    let mut reply = bench.gateway.send(Method::POST, PATH, &[], &request).await;
    let first = soon(reply.chunk()).await.expect("a stream").expect("an event");
    let first = String::from_utf8_lossy(&first).into_owned();
    let (_, created) = parsed(first.split("\n\n").next().expect("an event"));
    assert_eq!(bench.gateway.next_event().await, "started");
    drop(reply);
    assert_eq!(bench.gateway.next_event().await, "dropped");
    let path = path_of(&created["response"]["id"]);
    assert_eq!(bench.gateway.get(&path, &[]).await.0, 404);
    bench.gateway.stop().await;
}

#[tokio::test]
async fn calls_beyond_max_tool_calls_are_refused_and_the_model_answers_without_them() {
    let bench = Bench::new(bounds()).await;
    let (_, response) = bench.gateway.respond(json!({"input": "echo", "max_tool_calls": 0})).await;
    let call = &response["output"][1];
    assert_eq!((&call["type"], &call["status"]), (&json!("mcp_call"), &json!("failed")));
    assert_eq!(response["airlock"]["calls"][0]["error"]["code"], "airlock.max_tool_calls");
    assert_eq!(
        text(&response),
        "done: Error executing tool desk-echo: this request may make 0 tool calls in all, and they \
         were made; this call was not made: answer without it"
    );
    assert_eq!(response["max_tool_calls"], 0);
    bench.gateway.stop().await;
}

#[tokio::test]
async fn filters_and_timeouts_are_those_of_chat() {
    let bench = Bench::new(bounds()).await;
    let narrowed = [("x-bf-mcp-include-tools", "desk-fail")];
    let (_, response) = bench.gateway.respond_as(json!({"input": "echo"}), &narrowed).await;
    assert_eq!(response["airlock"]["calls"][0]["error"]["code"], "airlock.not_found");
    let hurried = [("x-airlock-timeout", "1s")];
    let (status, error) = bench.gateway.respond_as(json!({"input": "hang"}), &hurried).await;
    assert_eq!((status, &error["error"]["code"]), (504, &json!("agent_timeout")));
    assert_eq!(error["airlock"]["calls"][0]["name"], "desk-hang");
    bench.gateway.stop().await;
}

/// Returns references to the items of a Response.
fn references(response: &Value) -> Vec<Value> {
    let items = response["output"].as_array().expect("items").iter();
    items.map(|item| json!({"type": "item_reference", "id": item["id"]})).collect()
}

#[tokio::test]
async fn references_to_stored_items_are_resolved_for_their_own_key_until_they_expire() {
    let bench = Bench::new(bounds()).await;
    let ann = [("x-bf-vk", "sk-bf-ann")];
    let cid = [("x-bf-vk", "sk-bf-cid")];
    let (_, first) = bench.gateway.respond_as(json!({"input": "echo"}), &ann).await;
    let mut input = vec![user("echo")];
    input.extend(references(&first));
    input.push(user("more"));
    let (status, second) = bench.gateway.respond_as(json!({"input": input.clone()}), &ann).await;
    assert_eq!((status, text(&second)), (200, "You say more"), "{second}");
    // What the second Response was asked has the items themselves.
    let path = format!("{}/input_items?order=asc", path_of(&second["id"]));
    let (_, items) = bench.gateway.get(&path, &ann).await;
    assert_eq!(items["data"][2]["type"], "mcp_call", "{items}");
    assert_eq!(items["data"][2]["output"], first["output"][1]["output"]);
    // An input item can be referred to as well.
    let named = json!({"input": [{"id": items["data"][0]["id"]}, user("again")]});
    assert_eq!(bench.gateway.respond_as(named, &ann).await.0, 200);
    let id = first["output"][0]["id"].as_str().expect("an id");
    let refused = async |head: &[(&'static str, &str)]| {
        let (status, error) = bench.gateway.respond_as(json!({"input": input.clone()}), head).await;
        let message = error["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.starts_with(&format!("Item with id '{id}' not found.")), "{message}");
        assert_eq!((status, &error["error"]["param"]), (404, &json!("input[1].id")));
    };
    refused(&cid).await;
    refused(&[]).await;
    bench.pass(31 * DAY);
    refused(&ann).await;
    bench.gateway.stop().await;
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

#[tokio::test]
async fn a_reference_where_nothing_is_stored_names_the_item_and_the_setting() {
    let gateway = Gateway::with(settings(), &turns(), None).await;
    let (_, first) = gateway.respond(json!({"input": "hello"})).await;
    let (status, error) = gateway.respond(json!({"input": references(&first)})).await;
    let message = error["error"]["message"].as_str().expect("a text");
    assert_eq!((status, &error["error"]["code"]), (404, &json!("item_not_found")));
    let id = first["output"][0]["id"].as_str().expect("an id");
    assert!(message.contains(id) && message.contains("server.responses.store"), "{message}");
    gateway.stop().await;
}

#[tokio::test]
async fn built_in_tools_are_left_out_and_named_in_the_response() {
    let bench = Bench::new(bounds()).await;
    let tools =
        json!([{"type": "web_search", "external_web_access": true}, {"type": "image_generation"}]);
    for is_streamed in [false, true] {
        let members = json!({"input": "hello", "tools": tools, "stream": is_streamed});
        let reply = bench.gateway.send(Method::POST, PATH, &[], &body(members)).await;
        assert_eq!(reply.headers()["x-airlock-dropped-tools"], "image_generation, web_search");
        let reply = reply.text().await.expect("a body");
        let dropped = r#""dropped_tools":["image_generation","web_search"]"#;
        assert!(reply.contains(dropped), "{reply}");
    }
    bench.gateway.stop().await;
    let refusing = Settings { builtin_tools: BuiltinTools::Refuse, ..settings() };
    let gateway = Gateway::with(refusing, &turns(), None).await;
    let (status, error) = gateway.respond(json!({"input": "hello", "tools": tools})).await;
    assert_eq!((status, &error["error"]["param"]), (400, &json!("tools[0].type")));
    gateway.stop().await;
}

#[tokio::test]
async fn a_stored_response_cannot_be_cancelled_and_its_tokens_can_be_counted() {
    let bench = Bench::new(bounds()).await;
    let (_, response) = bench.gateway.respond(json!({"input": "hello"})).await;
    let (status, error) = cancel(&bench, &response["id"]).await;
    assert_eq!((status, &error["error"]["code"]), (400, &json!("invalid_value")));
    assert_eq!(cancel(&bench, &json!(format!("resp_{}", "0".repeat(32)))).await.0, 404);
    let short = count_tokens(&bench, "hello").await;
    let long = count_tokens(&bench, &"hello ".repeat(100)).await;
    assert!(short > 0 && (100..200).contains(&(long - short)), "{short}, {long}");
    bench.gateway.stop().await;
}

async fn cancel(bench: &Bench, id: &Value) -> (u16, Value) {
    bench.gateway.ask(Method::POST, &format!("{}/cancel", path_of(id)), &[], "").await
}

async fn count_tokens(bench: &Bench, text: &str) -> u64 {
    let path = format!("{PATH}/input_tokens");
    let members = body(json!({"input": text}));
    let (status, counted) = bench.gateway.ask(Method::POST, &path, &[], &members).await;
    assert_eq!((status, &counted["object"]), (200, &json!("response.input_tokens")));
    assert_eq!(counted["airlock"]["is_estimate"], true);
    counted["input_tokens"].as_u64().expect("a number")
}
