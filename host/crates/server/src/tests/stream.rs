//! Streamed chat completions: their events, their errors, and clients that leave or do not read.

use std::collections::BTreeMap;

use super::{
    http2::{
        CANCEL, DATA, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, RST_STREAM, WINDOW_UPDATE, frame,
        next, post as post_2, read_frame,
    },
    *,
};
use airlock_model::{self as model, Api, Kind, Service};
use airlock_test_http::model::{self as service, FakeService};

const PATH: &str = "/v1/chat/completions";

fn turns() -> Value {
    json!([
        {"when": {"role": "user", "contains": "count"}, "answer": {"content": "one two three"}},
        {"when": {"role": "user", "contains": "slowly"}, "answer": {"content": "one two three", "pace": "5ms"}},
        {"when": {"role": "user", "contains": "echo"},
         "answer": {"content": "let me see", "tool_calls": [{"id": "c1", "name": "desk-echo"}]}},
        {"when": {"role": "user", "contains": "hang"}, "answer": {"tool_calls": [{"id": "c1", "name": "desk-hang"}]}},
        {"when": {"role": "user", "contains": "panic"}, "answer": {"tool_calls": [{"name": "desk-panic"}]}},
        {"when": {"role": "user", "contains": "too fast"},
         "answer": {"error": {"status": 429, "message": "slow down", "retry_after": 7}}},
        {"when": {"role": "user", "contains": "midway"},
         "answer": {"content": "once upon a", "error": {"status": 500, "message": "died", "after": 3}}},
        {"when": {"role": "tool"}, "answer": {"content": "done", "error": {"status": 500, "message": "died", "after": 9}}},
    ])
}

/// Returns a streamed chat request with these members more.
fn body(message: &str, more: &Value) -> String {
    let mut body = json!({"model": "demo/m", "stream": true, "messages": [{"role": "user", "content": message}]});
    let more = more.as_object().expect("members").clone();
    body.as_object_mut().expect("an object").extend(more);
    body.to_string()
}

fn plain(message: &str) -> String {
    body(message, &json!({}))
}

impl Gateway {
    async fn streaming(settings: Settings) -> Self {
        Self::with_turns(settings, &turns()).await
    }

    /// Sends a streamed chat request and returns its events.
    async fn events(&self, body: &str, headers: &[(&'static str, &str)]) -> Vec<String> {
        let reply = self.send(Method::POST, PATH, headers, body).await;
        assert_eq!(reply.status().as_u16(), 200);
        events_of(&soon(reply.text()).await.expect("a whole response"))
    }
}

fn events_of(text: &str) -> Vec<String> {
    assert!(text.ends_with("\n\n"), "it ends within an event: {text}");
    text.split_terminator("\n\n").map(str::to_owned).collect()
}

/// Returns the data of the events that are chunks.
fn chunks(events: &[String]) -> Vec<Value> {
    let data = events.iter().filter_map(|event| event.strip_prefix("data: {"));
    data.map(|data| serde_json::from_str(&format!("{{{data}")).expect("JSON")).collect()
}

/// Returns the text of all deltas.
fn text(events: &[String]) -> String {
    let chunks = chunks(events);
    let texts = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    texts.collect()
}

/// Returns the error that ends a stream.
fn error(events: &[String]) -> Value {
    let last = events.last().expect("an event");
    let data = last.strip_prefix("event: error\ndata: ").expect("an error");
    serde_json::from_str::<Value>(data).expect("JSON")["error"].take()
}

#[tokio::test]
async fn a_stream_has_the_headers_of_events_and_ends_with_done() {
    let gateway = Gateway::streaming(settings()).await;
    let reply = gateway.send(Method::POST, PATH, &[], &plain("count")).await;
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-cache"),
        ("x-accel-buffering", "no"),
    ] {
        assert_eq!(reply.headers()[name], value);
    }
    let events = events_of(&reply.text().await.expect("a text"));
    assert_eq!((text(&events).as_str(), events.len()), ("one two three", 6));
    assert_eq!(events.last().map(String::as_str), Some("data: [DONE]"));
    gateway.stop().await;
}

#[tokio::test]
async fn events_of_tools_are_sent_if_a_member_or_a_header_asks_for_them() {
    let gateway = Gateway::streaming(settings()).await;
    let asked = json!({"airlock": {"events": true}});
    let header = [("x-airlock-events", "true")];
    let refused = json!({"airlock": {"events": false}});
    for (more, headers, expected) in [
        (&json!({}), &[][..], false),
        (&asked, &[], true),
        (&json!({}), &header, true),
        (&refused, &header, false),
    ] {
        let events = gateway.events(&body("echo", more), headers).await;
        let chunks = chunks(&events);
        let id = &chunks[0]["id"];
        assert!(chunks.iter().all(|chunk| chunk["id"] == *id && chunk["choices"].is_array()));
        let told: Vec<_> =
            chunks.iter().filter(|chunk| chunk["airlock"]["event"].is_object()).collect();
        let types: Vec<_> = told.iter().map(|chunk| &chunk["airlock"]["event"]["type"]).collect();
        let all = ["call_started", "call_ended", "round"];
        assert_eq!(types, if expected { &all[..] } else { &[] }, "{more} {headers:?}");
        for chunk in told {
            let choice = json!([{"index": 0, "delta": {}, "finish_reason": null}]);
            assert_eq!((&chunk["choices"], &chunk["object"]), (&choice, &chunks[0]["object"]));
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_error_before_the_first_byte_has_its_own_status_and_one_after_it_is_an_event() {
    let gateway = Gateway::streaming(settings()).await;
    let early = gateway.send(Method::POST, PATH, &[], &plain("too fast")).await;
    assert_eq!(
        (early.status().as_u16(), &early.headers()["retry-after"]),
        (429, &"7".parse().expect("a value"))
    );
    assert_eq!(early.headers()["content-type"], "application/json");
    assert_eq!(early.json::<Value>().await.expect("JSON")["error"]["message"], "slow down");

    let late = gateway.events(&plain("midway"), &[]).await;
    assert_eq!(
        (text(&late).as_str(), error(&late)["message"].as_str()),
        ("once upon ", Some("died"))
    );
    assert!(error(&late).get("airlock").is_none(), "nothing was executed");
    gateway.stop().await;
}

#[tokio::test]
async fn a_panic_ends_the_stream_with_an_error_and_the_next_request_is_answered() {
    let gateway = Gateway::streaming(settings()).await;
    let events = gateway.events(&plain("panic"), &[]).await;
    assert_eq!(error(&events)["code"], "internal_error");
    assert_eq!(text(&gateway.events(&plain("count"), &[]).await), "one two three");
    gateway.stop().await;
}

#[tokio::test]
async fn the_timeout_header_ends_a_stream_and_cancels_its_tool() {
    let mut gateway = Gateway::streaming(settings()).await;
    let events = gateway.events(&plain("hang"), &[("x-airlock-timeout", "1s")]).await;
    let error = error(&events);
    assert_eq!(error["code"], "agent_timeout");
    assert_eq!(error["airlock"]["calls"][0]["status"], "cancelled", "{error}");
    assert_eq!([gateway.next_event().await, gateway.next_event().await], ["started", "dropped"]);
    let (status, answer) = gateway.chat("hang", &[("x-airlock-timeout", "50ms")]).await;
    assert_eq!((status, &answer["error"]["code"]), (504, &json!("agent_timeout")));
    let (status, answer) = gateway.chat("count", &[("x-airlock-timeout", "soon")]).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!("bad_header")));
    gateway.stop().await;
}

#[tokio::test]
async fn closing_the_connection_of_a_stream_stops_the_tool() {
    let mut gateway = Gateway::streaming(settings()).await;
    let over_http_1 = gateway.connect(&post(PATH, &plain("hang"))).await;
    assert_eq!(gateway.next_event().await, "started");
    drop(over_http_1);
    assert_eq!(gateway.next_event().await, "dropped");
    let mut over_http_2 = gateway.connect_2(&[]).await;
    for id in [1, 3] {
        over_http_2.write_all(&post_2(id, PATH, &plain("hang"))).await.expect("it is read");
        assert_eq!(gateway.next_event().await, "started");
    }
    over_http_2.write_all(&frame(RST_STREAM, 0, 1, &CANCEL)).await.expect("it is read");
    assert_eq!(gateway.next_event().await, "dropped", "the first stream was reset");
    drop(over_http_2);
    assert_eq!(gateway.next_event().await, "dropped", "the connection was closed");
    gateway.stop().await;
}

#[tokio::test]
async fn a_stream_whose_tool_runs_is_neither_idle_nor_unread() {
    let limits = Settings { idle_timeout: SHORT, write_timeout: SHORT, ..settings() };
    let mut gateway = Gateway::streaming(limits).await;
    let mut stream = gateway.connect(&post(PATH, &plain("hang"))).await;
    assert_eq!(gateway.next_event().await, "started");
    let ended = async { while stream.read(&mut [0; 1_024]).await.is_ok_and(|read| read > 0) {} };
    assert!(tokio::time::timeout(SHORT * 4, ended).await.is_err(), "it is still open");
    gateway.running.abort();
}

#[tokio::test]
async fn a_client_that_does_not_read_its_stream_is_disconnected() {
    // More than the buffers of both sockets hold.
    let text = "x".repeat(16 << 10) + " ";
    let turns = json!([{"answer": {"content": text.repeat(512)}}]);
    // Nothing but the write timeout ends the first connection, which has the only place.
    let limits = Settings { write_timeout: SHORT, max_connections: 1, ..settings() };
    let gateway = Gateway::with_turns(limits, &turns).await;
    // Without tools of the gateway the response is not kept for another round.
    let request = post(PATH, &plain("go"));
    let request = request.replacen("host:", "x-bf-mcp-include-tools: none\r\nhost:", 1);
    let mut unread = gateway.connect(&request).await;
    let mut start = [0; 12];
    soon(unread.read_exact(&mut start)).await.expect("a response");
    assert_eq!(&start, b"HTTP/1.1 200");
    let is_closed = async { while gateway.get("/v1/models", &[]).await.0 == 503 {} };
    soon(is_closed).await;
    assert!(!rest_of(unread).await.contains("[DONE]"), "the response is not complete");
    gateway.stop().await;
}

#[tokio::test]
async fn an_http_2_client_that_grants_no_window_to_its_stream_is_disconnected() {
    let gateway = Gateway::streaming(Settings { write_timeout: SHORT, ..settings() }).await;
    // The window is closed from the start, or by the first chunk.
    for window in [0, 1] {
        let mut stream = gateway.connect_2(&[0, INITIAL_WINDOW_SIZE, 0, 0, 0, window]).await;
        stream.write_all(&post_2(1, PATH, &plain("hang"))).await.expect("it is read");
        assert_eq!(next(&mut stream, HEADERS).await[0], 0x88, "status 200");
        rest_of(stream).await;
    }
    gateway.stop().await;
}

#[tokio::test]
async fn streams_of_one_http_2_connection_run_side_by_side() {
    const STREAMS: u32 = 64;
    let gateway = Gateway::streaming(settings()).await;
    let mut connection = gateway.connect_2(&[]).await;
    let window = frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 24).to_be_bytes());
    connection.write_all(&window).await.expect("it is read");
    for number in 0..STREAMS {
        let request = post_2(number * 2 + 1, PATH, &plain("slowly"));
        connection.write_all(&request).await.expect("it is read");
    }
    let mut received = BTreeMap::<u32, String>::new();
    let mut ended = Vec::new();
    while ended.len() < STREAMS as usize {
        let (kind, flags, id, payload) = soon(read_frame(&mut connection)).await.expect("a frame");
        if kind == DATA {
            received.entry(id).or_default().push_str(std::str::from_utf8(&payload).expect("UTF-8"));
            ended.extend((flags & END_STREAM != 0).then_some(id));
        }
    }
    assert_eq!(received.len(), STREAMS as usize);
    for (id, received) in received {
        let events = events_of(&received);
        assert_eq!(text(&events), "one two three", "stream {id}");
        assert_eq!(events.last().map(String::as_str), Some("data: [DONE]"), "stream {id}");
    }
    drop(connection);
    gateway.stop().await;
}

#[tokio::test]
async fn a_drain_lets_a_stream_end() {
    let gateway = Gateway::streaming(settings()).await;
    let mut reply = gateway.send(Method::POST, PATH, &[], &plain("slowly")).await;
    let first = reply.chunk().await.expect("a chunk").expect("a chunk");
    gateway.stop().await;
    let rest = reply.text().await.expect("a whole response");
    let events = events_of(&format!("{}{rest}", String::from_utf8_lossy(&first)));
    assert_eq!(text(&events), "one two three");
    assert_eq!(events.last().map(String::as_str), Some("data: [DONE]"));
}

#[tokio::test]
async fn the_request_of_a_stream_is_charged_until_the_stream_ends() {
    let limited = Settings { max_body_bytes: 300_000, ..settings() };
    let max_request_memory_bytes = limited.least_request_memory();
    let mut gateway = Gateway::streaming(Settings { max_request_memory_bytes, ..limited }).await;
    let body = body("hang", &json!({"x": "x".repeat(200_000)}));
    let mut open = Vec::new();
    let refused = loop {
        let reply = gateway.send(Method::POST, PATH, &[], &body).await;
        if reply.status() != 200 {
            break reply.status().as_u16();
        }
        assert_eq!(gateway.next_event().await, "started");
        open.push(reply);
        let held = open.len() * body.len();
        assert!(held <= max_request_memory_bytes / 2, "{} streams are open", open.len());
    };
    assert!(matches!(refused, 429 | 503) && !open.is_empty(), "{refused}");
    for reply in open.drain(..) {
        drop(reply);
        assert_eq!(gateway.next_event().await, "dropped");
    }
    let _again = gateway.send(Method::POST, PATH, &[], &body).await;
    assert_eq!(gateway.next_event().await, "started");
    gateway.running.abort();
}

/// Returns a stream of a provider with these chunks.
fn provided(chunks: &[Value]) -> String {
    let events: Vec<_> = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    service::events(&format!("{}data: [DONE]\n\n", events.concat()))
}

#[tokio::test]
async fn usage_that_was_not_asked_for_and_unknown_members_reach_the_caller_after_a_round() {
    let function = json!({"name": "desk-echo", "arguments": "{}"});
    let call = json!({"index": 0, "id": "c1", "type": "function", "function": function});
    let first = provided(&[
        json!({"id": "x", "x_groq": {"id": "r1"}, "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}),
        json!({"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls", "native_finish_reason": "TOOL"}]}),
        json!({"id": "x", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}),
    ]);
    let filter = json!({"hate": {"filtered": false}});
    let second = provided(&[
        json!({"id": "y", "provider": "P", "choices": [{"index": 0, "delta": {"content": "hi"}, "content_filter_results": filter}]}),
        json!({"id": "y", "provider": "P", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "native_finish_reason": "STOP"}]}),
        json!({"id": "y", "provider": "P", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}}),
    ]);
    let fake = FakeService::start(vec![first, second]).await;
    let kind = Kind::Service(Box::new(Service::new(Api::OpenAi, &fake.base_url)));
    let provider = model::Settings { name: "demo".to_owned(), kind, fallbacks: Vec::new() };
    let models = Models::new(&[provider]).expect("a good provider");
    let gateway = Gateway::with_models(settings(), models, None).await;
    let events = gateway.events(&plain("go"), &[]).await;
    assert_eq!(events.last().map(String::as_str), Some("data: [DONE]"));
    let chunks = chunks(&events);
    let [.., text, end, usage] = &chunks[..] else { panic!("{chunks:#?}") };
    assert_eq!(text["choices"][0]["delta"]["content"], "hi");
    assert_eq!(text["choices"][0]["content_filter_results"], filter);
    assert_eq!(end["choices"][0]["native_finish_reason"], "STOP");
    assert_eq!([text, end, usage].map(|chunk| &chunk["provider"]), ["P"; 3]);
    let total = (&usage["choices"], &usage["usage"]["total_tokens"]);
    assert_eq!(total, (&json!([]), &json!(33)));
    let shown = chunks.iter().map(Value::to_string).collect::<String>();
    assert!(shown.contains(r#""x_groq":{"id":"r1"}"#) && !shown.contains("TOOL"), "{shown}");
    assert!(!shown.contains(r#""tool_calls""#), "{shown}");
    gateway.stop().await;
}
