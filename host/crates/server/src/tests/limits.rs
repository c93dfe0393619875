//! Limits on the resources that clients make the gateway hold: bodies, responses, connections.

use std::net::Ipv4Addr;

use tokio::net::TcpSocket;

use super::*;

const HEALTH: &str = "GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Reads the start of one response and returns its status. The body is ignored.
async fn status_of(stream: &mut TcpStream) -> String {
    let mut answer = vec![0; 12];
    soon(stream.read_exact(&mut answer)).await.expect("an answer");
    String::from_utf8_lossy(&answer[9..]).into_owned()
}

/// Returns a chat request that hangs, with a body of `bytes`.
fn hanging_chat_of(bytes: usize) -> String {
    let padding = "x".repeat(bytes - padded("").len());
    post("/v1/chat/completions", &padded(&padding))
}

fn padded(padding: &str) -> String {
    json!({"model": "demo/m", "messages": [{"role": "user", "content": "hang"}], "x": padding})
        .to_string()
}

#[tokio::test]
async fn a_body_that_is_not_sent_as_json_is_refused() {
    let gateway = Gateway::standard().await;
    for path in ["/v1/chat/completions", "/v1/mcp/tool/execute"] {
        for sent_as in ["text/plain", "multipart/form-data; boundary=x", ""] {
            let (status, answer) =
                gateway.ask(Method::POST, path, &[("content-type", sent_as)], "{}").await;
            assert_eq!(
                (status, &answer["error"]["code"]),
                (415, &json!("unsupported_media_type")),
                "{path} {sent_as}"
            );
        }
    }
    let (_, answer) = gateway
        .ask(Method::POST, "/v1/chat/completions", &[("content-type", "text/plain")], "{}")
        .await;
    insta::assert_snapshot!(
        answer["error"]["message"].as_str().expect("a text"),
        @r#"found content type "text/plain", expected "application/json" in the header `Content-Type`"#
    );
    let charset = [("content-type", "application/json; charset=utf-8")];
    assert_eq!(gateway.execute("desk-echo", &charset).await.0, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn the_small_body_of_a_refused_request_is_read_and_its_connection_serves_the_next_one() {
    let gateway = Gateway::standard().await;
    let mut stream = gateway
        .connect("POST /v1/nothing HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n")
        .await;
    // The head is handled before the body is sent.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let next = "{}GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(next.as_bytes()).await.expect("it is read");
    let mut answers = String::new();
    soon(stream.read_to_string(&mut answers)).await.expect("the connection is not reset");
    assert!(answers.starts_with("HTTP/1.1 404 "), "{answers}");
    assert!(answers.contains("HTTP/1.1 200 "), "{answers}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_body_that_takes_too_much_memory_when_parsed_is_refused() {
    let gateway = Gateway::start(Settings { max_body_bytes: 1 << 20, ..settings() }).await;
    // The second body is parsed on a blocking thread.
    for objects in [3_000, 100_000] {
        let body = format!(r#"{{"messages":[{}0]}}"#, r#"{"":0},"#.repeat(objects));
        let (status, answer) = gateway.ask(Method::POST, "/v1/chat/completions", &[], &body).await;
        let expected =
            if objects == 3_000 { (400, "missing_model") } else { (413, "request_too_large") };
        assert_eq!(
            (status, answer["error"]["code"].as_str()),
            (expected.0, Some(expected.1)),
            "{answer}"
        );
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_large_body_is_parsed_like_a_small_one() {
    let gateway = Gateway::start(Settings { max_body_bytes: 1 << 20, ..settings() }).await;
    for padding in [0, 100_000] {
        let wrong = format!("{}[1 2]", " ".repeat(padding));
        let (status, answer) = gateway.ask(Method::POST, "/v1/chat/completions", &[], &wrong).await;
        assert_eq!((status, &answer["error"]["code"]), (400, &json!("invalid_json")));
        let fits = format!("{}{}", " ".repeat(padding), r#"{"function":{"name":"desk-echo"}}"#);
        assert_eq!(gateway.ask(Method::POST, "/v1/mcp/tool/execute", &[], &fits).await.0, 200);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn requests_in_flight_share_one_budget_of_which_a_caller_gets_half() {
    const BODY: usize = 300_000;
    let limited = Settings { max_body_bytes: BODY, ..settings() };
    let mut gateway = Gateway::start(Settings {
        max_request_memory_bytes: limited.least_request_memory(),
        ..limited
    })
    .await;
    let chat = hanging_chat_of(BODY);
    let [anns, dans, eves, cids] = ["sk-bf-ann", "sk-bf-dan", "sk-bf-eve", "sk-bf-cid"]
        .map(|key| chat.replacen("host:", &format!("x-bf-vk: {key}\r\nhost:"), 1));
    let mut hanging = Vec::new();
    for text in [&chat, &anns, &dans] {
        for _ in 0..2 {
            hanging.push(gateway.connect(text).await);
            assert_eq!(gateway.next_event().await, "started");
        }
        // Its body has room; the model reads the whole conversation, which has not.
        assert_eq!(
            status_of(&mut gateway.connect(text).await).await,
            "503",
            "the caller has half of the budget"
        );
    }
    hanging.push(gateway.connect(&eves).await);
    assert_eq!(gateway.next_event().await, "started");
    // Another key has its share, but the budget is spent.
    let mut other = gateway.connect(&cids).await;
    let mut answer = vec![0; 2_000];
    let read = soon(other.read(&mut answer)).await.expect("an answer");
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(
        answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after: 1\r\n"),
        "{answer}"
    );
    assert!(answer.contains("gateway_overloaded"), "{answer}");
    assert_eq!(gateway.get("/health", &[]).await.0, 200);
    // Requests that end release their charges.
    hanging.clear();
    for _ in 0..7 {
        assert_eq!(gateway.next_event().await, "dropped");
    }
    let _again = gateway.connect(&chat).await;
    assert_eq!(gateway.next_event().await, "started");
    gateway.running.abort();
}

#[tokio::test]
async fn a_response_without_room_is_an_error_that_tells_that_the_call_has_run() {
    const BODY: usize = 300_000;
    let limited = Settings { max_body_bytes: BODY, ..settings() };
    let mut gateway = Gateway::start(Settings {
        max_request_memory_bytes: limited.least_request_memory(),
        ..limited
    })
    .await;
    let mut hanging = Vec::new();
    for _ in 0..8 {
        hanging.push(gateway.connect(&hanging_chat()).await);
        assert_eq!(gateway.next_event().await, "started");
    }
    // The body has room. The result, and the response that has it twice, have none.
    let path = "/v1/mcp/tool/execute";
    let reply = gateway.send(Method::POST, path, &[], &echo_of(BODY - 1_000)).await;
    assert_eq!(reply.status(), 429);
    assert_eq!(reply.headers()["x-should-retry"], "false");
    assert!(!reply.headers().contains_key("retry-after"));
    let answer: Value = reply.json().await.expect("JSON");
    assert_eq!(answer["error"]["code"], "caller_overloaded");
    assert!(
        answer["error"]["message"].as_str().is_some_and(|message| message.contains("carried out"))
    );
    assert!(answer["airlock"]["duration_ms"].is_number(), "{answer}");
    assert_eq!(gateway.ask(Method::POST, path, &[], &echo_of(1_000)).await.0, 200);
    gateway.running.abort();
}

fn echo_of(length: usize) -> String {
    let arguments = json!({"text": "x".repeat(length)}).to_string();
    json!({"function": {"name": "desk-echo", "arguments": arguments}}).to_string()
}

#[tokio::test]
async fn calls_of_a_model_are_charged_to_its_request() {
    let limited = settings();
    let gateway = Gateway::start(Settings {
        max_request_memory_bytes: limited.least_request_memory(),
        ..limited
    })
    .await;
    for (message, status, code) in
        [("flood", 503, json!("gateway_overloaded")), ("echo", 200, Value::Null)]
    {
        let (found, answer) = gateway.chat(message, &[]).await;
        assert_eq!((found, &answer["error"]["code"]), (status, &code), "{message}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let gateway = Gateway::start(Settings { idle_timeout: SHORT, ..settings() }).await;
    let answer = rest_of(gateway.connect(HEALTH).await).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_connection_with_a_long_request_is_not_idle() {
    let mut gateway =
        Gateway::start(Settings { idle_timeout: SHORT, write_timeout: SHORT, ..settings() }).await;
    let mut stream = gateway.connect(&hanging_chat()).await;
    assert_eq!(gateway.next_event().await, "started");
    assert!(
        tokio::time::timeout(SHORT * 4, stream.read(&mut [0])).await.is_err(),
        "it is still answered"
    );
    gateway.running.abort();
}

#[tokio::test]
async fn a_client_that_does_not_read_responses_is_disconnected() {
    // A new connection fits only after the client that does not read has lost the only place.
    let limits = Settings {
        max_body_bytes: 1 << 20,
        write_timeout: SHORT,
        max_connections: 1,
        ..settings()
    };
    let gateway = Gateway::start(limits).await;
    let text = "x".repeat(500_000);
    let call =
        json!({"function": {"name": "desk-echo", "arguments": json!({"text": text}).to_string()}})
            .to_string();
    let mut stream = gateway.connect("").await;
    let unread = tokio::spawn(async move {
        let call = post("/v1/mcp/tool/execute", &call);
        // Ends when the gateway closes the connection, long after the system's buffers are full.
        while stream.write_all(call.as_bytes()).await.is_ok() {}
    });
    soon(unread).await.expect("no panic");
    assert_eq!(status_of(&mut gateway.connect(HEALTH).await).await, "200");
    gateway.stop().await;
}

#[tokio::test]
async fn idle_connections_are_evicted_for_new_ones() {
    let gateway = Gateway::start(Settings { max_connections: 3, ..settings() }).await;
    let mut idle = Vec::new();
    for _ in 0..3 {
        let mut stream = gateway.connect(HEALTH).await;
        assert_eq!(status_of(&mut stream).await, "200");
        idle.push(stream);
    }
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(gateway.connect("").await);
    }
    let mut fourth = gateway.connect(HEALTH).await;
    assert_eq!(status_of(&mut fourth).await, "200");
    rest_of(idle.remove(0)).await;
    gateway.stop().await;
}

#[tokio::test]
async fn connections_whose_bodies_still_arrive_are_evicted_for_new_ones() {
    let mut gateway = Gateway::start(Settings { max_connections: 2, ..settings() }).await;
    let chat = hanging_chat();
    let mut slow = Vec::new();
    for _ in 0..2 {
        let stream = gateway.connect(&chat[..chat.len() - 1]).await;
        slow.push(Box::pin(rest_of(stream)));
    }
    // Their requests continue, so that the next connection cannot have their places.
    let mut served = Vec::new();
    while !slow.is_empty() {
        served.push(gateway.connect(&chat).await);
        assert_eq!(gateway.next_event().await, "started");
        let (rest, _, others) = soon(futures_util::future::select_all(slow)).await;
        assert_eq!(rest, "", "it is closed without a response");
        slow = others;
    }
    gateway.running.abort();
}

#[tokio::test]
async fn all_loopback_addresses_share_the_connections_of_one_peer() {
    let mut gateway =
        Gateway::start(Settings { max_connections: 4, max_connections_per_peer: 2, ..settings() })
            .await;
    let mut in_use = Vec::new();
    for _ in 0..2 {
        in_use.push(gateway.connect(&hanging_chat()).await);
        assert_eq!(gateway.next_event().await, "started");
    }
    let models = "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let refused = rest_of(gateway.connect(models).await).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "both of its connections are in use: {refused}");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into()).expect("a loopback address");
    let mut other = socket.connect(gateway.address).await.expect("a connection");
    other.write_all(models.as_bytes()).await.expect("it is read");
    let refused = rest_of(other).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "another loopback address is the same peer");
    drop(in_use.pop());
    assert_eq!(gateway.next_event().await, "dropped");
    assert_eq!(status_of(&mut gateway.connect(models).await).await, "200");
    gateway.running.abort();
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let gateway = Gateway::standard().await;
    let fits = format!("{:<10000}", r#"{"function":{"name":"desk-echo"}}"#);
    assert_eq!(gateway.ask(Method::POST, "/v1/mcp/tool/execute", &[], &fits).await.0, 200);
    assert_eq!(
        gateway.ask(Method::POST, "/v1/mcp/tool/execute", &[], &format!("{fits} ")).await.0,
        413
    );
    let chunked = "POST /v1/mcp/tool/execute HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n2711\r\n";
    let stream = gateway.connect(&format!("{chunked}{fits} \r\n0\r\n\r\n")).await;
    assert!(rest_of(stream).await.starts_with("HTTP/1.1 413 "));
    gateway.stop().await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let gateway = Gateway::standard().await;
    let head = format!(
        "GET /health HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n",
        "x".repeat(MIN_HEADER_BYTES)
    );
    let answer = rest_of(gateway.connect(&head).await).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_request_that_arrives_too_slowly_is_ended() {
    let gateway = Gateway::start(Settings { read_timeout: SHORT, ..settings() }).await;
    let body = "POST /v1/mcp/tool/execute HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
    assert!(rest_of(gateway.connect(body).await).await.starts_with("HTTP/1.1 408 "));
    for head in ["", "P", "GET /health HTTP/1.1\r\nhost:", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let answer = rest_of(gateway.connect(head).await).await;
        assert!(!answer.contains(" 200 "), "{head:?}: {answer}");
    }
    for next in ["", "GET /health HTTP/1.1\r\nhost:"] {
        let sent = format!("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n{next}");
        let answer = rest_of(gateway.connect(&sent).await).await;
        assert_eq!(answer.matches(" 200 ").count(), 1, "{next:?}: {answer}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_connection_beyond_the_cap_gets_the_state_of_the_gateway_and_nothing_else() {
    let mut gateway = Gateway::start(Settings { max_connections: 1, ..settings() }).await;
    let first = gateway.connect(&hanging_chat()).await;
    assert_eq!(gateway.next_event().await, "started");
    let head = " HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let health = gateway.connect(&format!("GET /health{head}")).await;
    assert!(rest_of(health).await.starts_with("HTTP/1.1 200 "));
    // The connection is closed, although the client would keep it.
    let models = gateway.connect("GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let refused = rest_of(models).await;
    assert!(
        refused.starts_with("HTTP/1.1 503 ") && refused.contains("gateway_overloaded"),
        "{refused}"
    );
    drop(first);
    assert_eq!(gateway.next_event().await, "dropped");
    let models = gateway.connect(&format!("GET /v1/models{head}")).await;
    assert!(rest_of(models).await.starts_with("HTTP/1.1 200 "));
    gateway.stop().await;
}

#[tokio::test]
async fn references_to_items_of_too_many_responses_are_not_looked_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store::Settings::new(directory.path().join("airlock.db"));
    let bounds = ResponseBounds {
        expire_after: Duration::from_hours(1),
        owner_bytes: 1 << 20,
        total_bytes: 1 << 20,
    };
    let stored = Settings { max_body_bytes: 1 << 20, responses: Some(bounds), ..settings() };
    let gateway = Gateway::with(stored, &turns(), Some(store)).await;
    for (count, status, code) in
        [(4_096, 404, "item_not_found"), (4_097, 400, "context_length_exceeded")]
    {
        let ids = (0..count).map(|number| format!("msg_{number:032x}0000"));
        let input: Vec<_> = ids.map(|id| json!({"type": "item_reference", "id": id})).collect();
        let (found, error) = gateway.respond(json!({"input": input})).await;
        assert_eq!((found, &error["error"]["code"]), (status, &json!(code)), "{count}");
    }
    gateway.stop().await;
}
