//! Streamed chat completions between a model server and a client, through the real gateway: nothing
//! is changed on the way, and a client that leaves or stops reading stops the work behind it.

use std::net::SocketAddr;

use airlock_tests::{Client, EventStream, Gateway, Service, Setup, misbehaving, service, wait};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use service::Answer;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

/// A message with every kind of part, written as no serializer would write it.
const MESSAGE: &str = r#"{"role": "user","content":[ {"type":"text","text":"caf\u00e9"},
  {"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo=","detail":"low"}},
  {"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}},
  {"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,JVBERi0="}} ], "x_weight": 1.10}"#;
/// Members with numbers that neither a double nor 64 bits hold, and one whose digits a double drops.
const LARGE: [&str; 2] = [
    r#""x_large":123456789012345678901234567890"#,
    r#""x_nested":{"values":[ -123456789012345678901234567890, 0.10 ]}"#,
];

/// Chunks of two choices, with members that the gateway does not know.
const CHUNKS: [&str; 8] = [
    r#"{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m","service_tier":"flex","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}"#,
    r#"{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":1,"delta":{"role":"assistant","reasoning_content":"h\u006d"},"finish_reason":null}]}"#,
    r#"{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"caf\u00e9"},"logprobs":{"content":[{"token":"caf","logprob":-0.10,"bytes":[99],"top_logprobs":[]}],"refusal":null},"finish_reason":null}]}"#,
    r#"{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":1,"delta":{"refusal":"no"},"finish_reason":null}],"x_seed":123456789012345678901234567890}"#,
    r#"{"id":"c-1", "object":"chat.completion.chunk","created":1,"model":"m","choices":[],"x_timings":{"ms":1.50}}"#,
    r#"{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":1,"delta":{},"finish_reason":"content_filter"}]}"#,
    r#"{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop","x_matched":7}]}"#,
    r#"{"id":"c-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"x_cost":0.10}}"#,
];

/// Returns a chat request as JSON text. `more` are members, with a comma after each.
fn chat(more: &str, message: &str) -> String {
    format!(r#"{{"model":"fake/m",{more}"messages":[{message}]}}"#)
}

/// Returns a streamed chat request for `go`.
fn streamed_chat(more: &str) -> String {
    chat(&format!(r#""stream":true,{more}"#), r#"{"role":"user","content":"go"}"#)
}

/// Returns a chunk with this delta.
fn chunk(delta: &Value, finish_reason: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    json!({"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
        .to_string()
}

/// Returns the chunks of a response that calls these tools.
fn calling(tools: &[&str]) -> Vec<String> {
    let call = |(index, tool): (usize, &&str)| json!({"index": index, "id": format!("call_{index}"), "type": "function", "function": {"name": tool, "arguments": "{}"}});
    let calls: Vec<_> = tools.iter().enumerate().map(call).collect();
    vec![
        chunk(&json!({"role": "assistant", "content": null, "tool_calls": calls}), None),
        chunk(&json!({}), Some("tool_calls")),
    ]
}

/// Returns a streamed response with these chunks and `[DONE]`.
fn whole(chunks: impl IntoIterator<Item = impl AsRef<str>>) -> Answer {
    let events = [service::events(chunks), service::events(["[DONE]"])];
    Answer::stream(stream::iter(events))
}

/// Returns a streamed response that begins and does not go on.
fn begun() -> Answer {
    let first = service::events([chunk(&json!({"role": "assistant", "content": "so"}), None)]);
    Answer::stream(stream::iter([first]).chain(stream::pending()))
}

/// Returns a gateway with a model and one MCP server, whose tools run without approval.
async fn gateway(model: &Service) -> Gateway {
    let setup = Setup::new().openai("fake", model.base_url());
    setup.client(tools()).serve_connected().await
}

fn tools() -> Client {
    misbehaving("server", []).auto(&["*"])
}

#[tokio::test]
async fn parts_of_messages_and_large_numbers_reach_the_model_byte_for_byte_in_every_round() {
    let model = Service::start(|asked| {
        let is_answered = asked.text.contains(r#""role":"tool""#);
        match (asked.body["stream"] == true, is_answered) {
            (true, true) => whole([
                chunk(&json!({"role": "assistant", "content": "done"}), None),
                chunk(&json!({}), Some("stop")),
            ]),
            (true, false) => whole(calling(&["server-echo"])),
            (false, true) => (200, service::completion(&service::text("done"))).into(),
            (false, false) => {
                let asking = service::asking_for(&[("server-echo", json!({}))]);
                (200, service::completion(&asking)).into()
            }
        }
    })
    .await;
    let gateway = gateway(&model).await;
    let large = format!("{},", LARGE.join(","));
    let streamed = gateway.stream(chat(&format!(r#""stream": true,{large}"#), MESSAGE)).await;
    assert!(streamed.data().await.concat().contains("done"));
    let request = gateway.request(reqwest::Method::POST, "/v1/chat/completions");
    let request = request.header("content-type", "application/json");
    let plain = request.body(chat(&large, MESSAGE)).send().await;
    assert!(plain.expect("a reply").text().await.expect("a text").contains("done"));

    let asked = model.asked();
    assert_eq!(asked.len(), 4, "two rounds of each");
    for asked in asked {
        assert!(asked.text.contains(MESSAGE), "{}", asked.text);
        for value in LARGE {
            assert!(asked.text.contains(value), "{}", asked.text);
        }
    }
}

#[tokio::test]
async fn chunks_of_the_model_reach_the_client_as_they_are_with_and_without_tools() {
    let model = Service::start(|_| whole(CHUNKS)).await;
    let without = Setup::new().openai("fake", model.base_url()).serve().await;
    let with = gateway(&model).await;
    let body = streamed_chat(r#""n":2,"logprobs":true,"stream_options":{"include_usage":true},"#);
    let expected: Vec<_> = CHUNKS.into_iter().chain(["[DONE]"]).collect();
    for (gateway, tools) in [(&without, "without"), (&with, "with")] {
        let data = gateway.stream(body.clone()).await.data().await;
        assert_eq!(data, expected, "{tools} tools");
    }
    for asked in model.asked() {
        assert_eq!((&asked.body["n"], &asked.body["logprobs"]), (&json!(2), &json!(true)));
    }
}

#[tokio::test]
async fn a_provider_that_ignores_stream_and_returns_json_is_streamed_to_the_client() {
    let model = Service::start(|asked| {
        let message = if asked.text.contains(r#""role":"tool""#) {
            service::text("done")
        } else {
            service::asking_for(&[("server-echo", json!({"text": "hi"}))])
        };
        (200, service::completion(&message))
    })
    .await;
    let gateway = gateway(&model).await;
    let data = gateway
        .stream(streamed_chat(r#""stream_options":{"include_usage":true},"#))
        .await
        .data()
        .await;
    let (done, chunks) = data.split_last().expect("events");
    assert_eq!(done, "[DONE]");
    let chunks: Vec<Value> =
        chunks.iter().map(|chunk| serde_json::from_str(chunk).expect("JSON")).collect();
    let deltas = chunks.iter().flat_map(|chunk| chunk["choices"].as_array().expect("choices"));
    let deltas: Vec<_> =
        deltas.map(|choice| (&choice["delta"], &choice["finish_reason"])).collect();
    let none = Value::Null;
    let stop = json!("stop");
    let role = json!({"role": "assistant", "content": null});
    let text = json!({"content": "done"});
    let end = json!({});
    assert_eq!(deltas, [(&role, &none), (&text, &none), (&end, &stop)]);
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk"));
    let usages: Vec<_> = chunks.iter().filter_map(|chunk| chunk["usage"].as_object()).collect();
    assert_eq!(usages.len(), 1, "{chunks:?}");
    assert_eq!(usages[0]["total_tokens"], 30, "the sum of both rounds");
    let listed: Vec<_> = chunks.iter().filter(|chunk| chunk.get("airlock").is_some()).collect();
    assert_eq!(listed.len(), 1, "{chunks:?}");
    let result = listed[0]["airlock"]["calls"][0]["result"].as_str().unwrap_or_default();
    assert_eq!(result.lines().nth(1), Some("hi"), "between the marks: {result}");
}

/// A streamed request over HTTP/2. Dropping it resets the stream and closes the connection.
struct Http2 {
    body: hyper::body::Incoming,
    received: String,
    connection: tokio::task::JoinHandle<()>,
}

impl Http2 {
    async fn send(gateway: &Gateway, body: String) -> Self {
        let stream = TcpStream::connect(address(gateway)).await.expect("a connection");
        let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
            .handshake::<_, Full<Bytes>>(TokioIo::new(stream))
            .await
            .expect("a handshake");
        let connection = tokio::spawn(async move { drop(connection.await) });
        let request = Request::post(format!("{}/v1/chat/completions", gateway.address()))
            .header("content-type", "application/json")
            .body(Full::from(body))
            .expect("a request");
        let response = sender.send_request(request).await.expect("a response");
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), received: String::new(), connection }
    }

    /// Reads until the response has this text.
    async fn until(&mut self, text: &str) {
        while !self.received.contains(text) {
            let frame = self.body.frame().await.expect("more").expect("a frame");
            let data = frame.into_data().unwrap_or_default();
            self.received.push_str(std::str::from_utf8(&data).expect("UTF-8"));
        }
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn address(gateway: &Gateway) -> SocketAddr {
    gateway.address().trim_start_matches("http://").parse().expect("an address")
}

async fn is_cut_off(model: &Service, times: usize) {
    let what = "the model's connection to be closed";
    wait::until(what, async || (model.cut_off() == times).then_some(())).await;
}

#[tokio::test]
async fn a_client_that_closes_its_connection_cancels_the_request_to_the_model() {
    let model = Service::start(|_| begun()).await;
    let gateway = gateway(&model).await;
    let mut over_http_1 = gateway.stream(streamed_chat("")).await;
    assert!(over_http_1.next().await.expect("a chunk").contains(r#""content":"so""#));
    assert_eq!(model.cut_off(), 0);
    drop(over_http_1);
    is_cut_off(&model, 1).await;
    let mut over_http_2 = Http2::send(&gateway, streamed_chat("")).await;
    over_http_2.until(r#""content":"so""#).await;
    assert_eq!(model.cut_off(), 1);
    drop(over_http_2);
    is_cut_off(&model, 2).await;
}

#[tokio::test]
async fn a_client_that_closes_its_connection_cancels_the_call_on_the_mcp_server() {
    // The server reads the calls in their order, so it has the first when it responds to the second.
    let model = Service::start(|_| whole(calling(&["server-hang", "server-echo"]))).await;
    let gateway = gateway(&model).await;
    let cancelled = async |times: &str| {
        wait::until("the MCP server to be told", async || {
            let count = gateway.execute("server-cancelled", &json!({})).await.content();
            (count == times).then_some(())
        })
        .await;
    };
    let body = streamed_chat(r#""airlock":{"events":true},"#);
    let mut over_http_1: EventStream = gateway.stream(body.clone()).await;
    over_http_1.until(|chunk| chunk["airlock"]["event"]["type"] == "call_ended").await;
    drop(over_http_1);
    cancelled("1").await;
    let mut over_http_2 = Http2::send(&gateway, body).await;
    over_http_2.until("call_ended").await;
    drop(over_http_2);
    cancelled("2").await;
}

/// Opens a connection whose buffer for received bytes is small, and sends a streamed chat request.
async fn stalled_client(gateway: &Gateway) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4 << 10).expect("a size");
    let mut client = socket.connect(address(gateway)).await.expect("a connection");
    let head =
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
    let body = streamed_chat("");
    let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    client.write_all(request.as_bytes()).await.expect("it is read");
    client
}

#[tokio::test]
async fn a_client_that_stops_reading_is_disconnected_and_its_request_to_the_model_cancelled() {
    let text = chunk(&json!({"content": "x".repeat(16 << 10)}), None);
    let model = Service::start(move |_| {
        Answer::stream(stream::repeat(service::events([&text])).take(10_000))
    })
    .await;
    let setup = Setup::new().openai("fake", model.base_url());
    let gateway = setup.set("/server/write_timeout", "300ms").serve().await;
    let mut client = stalled_client(&gateway).await;
    is_cut_off(&model, 1).await;
    let mut received = Vec::new();
    // A reset counts as an end.
    let _ = tokio::time::timeout(wait::SOON, client.read_to_end(&mut received))
        .await
        .expect("the connection is closed");
    assert!(received.starts_with(b"HTTP/1.1 200 "));
    assert!(!received.ends_with(b"0\r\n\r\n"), "the response is not complete");
}
