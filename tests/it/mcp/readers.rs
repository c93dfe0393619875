//! Clients that read slowly or not at all.

use airlock_tests::{
    Client, Gateway, Setup,
    mcp::{Endpoint, McpClient},
    wait,
    wat::{Text, WELL_BEHAVED},
};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpSocket, TcpStream},
};

use super::{STEPS, begun, endless, http2::Http2, is_done, plain, text, upstream::Upstream};

/// Opens a connection whose buffer for received bytes is small, and sends a POST request.
async fn stalled(gateway: &Gateway, headers: &str, body: &Value) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4 << 10).expect("a size");
    let address = gateway.address().trim_start_matches("http://").parse().expect("an address");
    let mut client = socket.connect(address).await.expect("a connection");
    let body = body.to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    client.write_all(request.as_bytes()).await.expect("it is read");
    client
}

#[tokio::test]
async fn clients_that_read_nothing_delay_no_call_of_another_or_of_their_own_session() {
    let upstream = Upstream::start().await;
    let setup = Setup::new();
    let guest = plain(&setup, "guest");
    let gateway = setup.client(upstream.client("up")).client(guest).serve_connected().await;
    let endpoint = Endpoint::new(&gateway);
    let session = endpoint.session().await;
    let headers = format!("mcp-session-id: {}\r\n", session.id());
    let mut unread = Vec::new();
    for id in 100..110 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "up-big"}});
        unread.push(stalled(&gateway, &headers, &call).await);
    }
    wait::until("the calls to have run", async || {
        (upstream.calls("big").len() == 10).then_some(())
    })
    .await;
    let clients = [
        McpClient::Modern(endpoint.clone()),
        McpClient::Legacy(endpoint.session().await),
        McpClient::Legacy(session),
    ];
    for client in clients {
        for _ in 0..10 {
            let call = client.call("guest-run", &json!({})).with_progress().result();
            let result = tokio::time::timeout(wait::SOON, call).await.expect("it waits for nobody");
            assert_eq!(result["content"], text("ok"));
        }
        let slow = begun(client.call(STEPS, &json!({}))).await;
        upstream.proceed_to(3);
        assert!(slow.rest().await.iter().any(is_done), "{client:?}");
        upstream.proceed_to(1);
    }
    drop(unread);
}

/// A plugin that reports progress, with a message of 1,000 bytes, without an end.
const FLOOD: Text = Text {
    run: "(memory.fill (i32.const 4096) (i32.const 120) (i32.const 1000))
          (loop $again
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (call $progress (local.get $context) (f64.convert_i32_s (local.get $i)) (i32.const 0)
              (f64.const 0) (i32.const 1) (i32.const 4096) (i32.const 1000))
            (br $again))
          unreachable",
    ..WELL_BEHAVED
};

#[tokio::test]
async fn a_modern_client_that_stops_reading_is_disconnected_and_its_call_stopped() {
    // Long enough to see meanwhile that the call runs.
    let setup = Setup::new().set("/server/write_timeout", "3s");
    let flood = endless(Client::text(&setup, "flood", &FLOOD));
    let setup = setup.client(flood).set("/server/drain_timeout", "300ms");
    let gateway = setup.serve_connected().await;
    let before = gateway.peak_memory();
    // Over HTTP/2 no more is sent than what the client permits: 64 KiB.
    let mut client = Http2::connect(&gateway).await;
    let call = Endpoint::new(&gateway).modern("tools/call", json!({"name": "flood-run"}));
    let mut unread = client.send(&call.with_progress()).await.into_body();
    let first = unread.frame().await.expect("an event").expect("a frame");
    assert!(first.data_ref().is_some_and(|data| data.starts_with(b"data: ")), "{first:?}");
    let health = gateway.get("/health").await.ok();
    assert_eq!(health["sandbox"]["instances"], 1, "it runs: {health}");
    gateway.sandbox_is_empty().await;
    assert!(unread.collect().await.is_err(), "the response is not complete");
    client.close().await;
    let taken = gateway.peak_memory() - before;
    assert!(taken < 64 << 20, "it took {taken} bytes");
}

#[tokio::test]
async fn of_the_events_that_a_legacy_client_missed_the_last_are_kept_and_the_response() {
    const PARTS: Text = Text {
        run: "(memory.fill (i32.const 4096) (i32.const 120) (i32.const 8192))
              (loop $again
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (call $emit (local.get $context) (i32.const 4096) (i32.const 8192))
                (br_if $again (i32.lt_s (local.get $i) (i32.const 100))))
              (call $ok)",
        ..WELL_BEHAVED
    };
    let setup = Setup::new();
    let parts = endless(Client::text(&setup, "parts", &PARTS));
    let gateway = setup.client(parts).serve_connected().await;
    let session = Endpoint::new(&gateway).session().await;
    let level = session.request("logging/setLevel", json!({"level": "debug"}));
    assert_eq!(level.result().await, json!({}));
    // Cut at a time that differs between the runs.
    for _ in 0..20 {
        let call = session.request("tools/call", json!({"name": "parts-run"}));
        let mut stream = call.stream().await;
        let primer = stream.next_event().await.and_then(|event| event.id).expect("an id");
        drop(stream);
        let kept = session.resume(&primer).stream().await.rest().await;
        let (response, parts) = kept.split_last().expect("the response");
        let content = response["result"]["content"].as_array().expect("a list");
        assert_eq!((content.len(), &content[100]["text"]), (101, &json!("ok")));
        assert!(!parts.is_empty() && parts.len() <= 100, "{} parts", parts.len());
        assert!(parts.iter().all(|part| part["method"] == "notifications/message"));
    }
}
