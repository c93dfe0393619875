//! Life cycles, framing and restarts of servers, and what their operator does.

use super::*;

#[tokio::test]
async fn a_server_in_use_by_calls_alone_is_stopped_when_idle_and_started_by_the_next_call() {
    let mut settings = settings(fake("well"));
    settings.lifecycle = Lifecycle::Idle(Duration::from_millis(50));
    let server = Supervised::start(settings);
    server.until(|client| phase(client) == "stopped").await;
    assert_eq!(server.client().state, SourceState::Connected, "its tools can be called");
    let first = server.answer("pid").await;
    server.until(|client| phase(client) == "stopped").await;
    assert!(is_gone(&first).await);
    assert_ne!(server.answer("pid").await, first);
    server.stop().await;
}

/// A server that reads messages with a header alone, and takes a line for an unfinished header.
const FRAMED: &str = r#"
import json, sys
while True:
    length = 0
    while line := sys.stdin.buffer.readline().strip():
        name, _, value = line.partition(b":")
        if name == b"Content-Length":
            length = int(value)
    if not length:
        break
    message = json.loads(sys.stdin.buffer.read(length))
    results = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "framed", "version": "1"}},
        "tools/list": {"tools": [{"name": "say", "inputSchema": {}}]},
        "tools/call": {"content": [{"type": "text", "text": "said"}]},
    }
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        result = results.get(message["method"])
        answer |= {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
        text = json.dumps(answer).encode()
        sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        sys.stdout.buffer.flush()
"#;

#[tokio::test]
async fn a_server_that_reads_headers_alone_is_served_with_the_setting_or_after_two_silent_starts() {
    for (framing, startup) in
        [(Framing::ContentLength, PATIENCE), (Framing::Auto, Duration::from_millis(1_500))]
    {
        let mut settings = settings(python(&[FRAMED]));
        settings.framing = framing;
        settings.timeouts.startup = startup;
        settings.restart.backoff = Duration::from_millis(1);
        let server = Supervised::start(settings);
        server.until(|client| client.state == SourceState::Connected).await;
        assert_eq!(server.answer("say").await, "said");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_server_per_call_that_does_not_end_keeps_its_caller_not_waiting() {
    let mut settings = settings(fake("stubborn"));
    settings.lifecycle = Lifecycle::PerCall;
    let server = Supervised::start(settings);
    server.until(|client| client.state == SourceState::Connected).await;
    let pid = server.answer("pid").await;
    let process = Path::new("/proc").join(&pid);
    // It has ignored the end of its input, and would be killed only seconds later.
    assert!(process.exists(), "the caller waited for the end of {pid}");
    eventually(|| (!process.exists()).then_some(())).await.expect("it is killed");
    server.stop().await;
}

#[tokio::test]
async fn a_server_per_call_is_a_process_of_its_own_that_ends_with_the_call() {
    let mut settings = settings(fake("well"));
    settings.lifecycle = Lifecycle::PerCall;
    let server = Supervised::start(settings);
    server.until(|client| client.state == SourceState::Connected).await;
    let [first, second] = [(); 2].map(|()| server.call("pid"));
    let (first, second) = tokio::join!(first, second);
    let first = first.expect("an answer");
    let second = second.expect("an answer");
    assert_ne!(first, second);
    assert!(is_gone(&first).await && is_gone(&second).await);
    let mut dropped = Box::pin(server.admit("hang", "{}", PATIENCE).run());
    assert!((&mut dropped).now_or_never().is_none());
    drop(dropped);
    server.answer("pid").await;
    server.stop().await;
}

#[tokio::test]
async fn the_operator_reconnects_a_server_and_reads_its_list_again() {
    let server = Supervised::connected("well").await;
    let first = server.answer("pid").await;
    assert_eq!(server.control.reconnect(None).await, Ok(Vec::new()));
    assert_ne!(server.answer("pid").await, first);
    assert_eq!(server.control.refresh().await, Ok(12));
    server.stop().await;
}

#[tokio::test]
async fn attempts_end_in_a_terminal_failure_until_the_operator_reconnects() {
    let mut settings = settings(python(&["raise SystemExit(1)"]));
    settings.restart.max_attempts = Some(2);
    let server = Supervised::start(settings);
    server.until(|client| matches!(client.state, SourceState::Failed { .. })).await;
    let refused = server.control.refresh().await;
    assert_eq!(refused, Err(ControlError::Failed("it is not connected".to_owned())));
    let failed = server.control.reconnect(None).await.expect_err("it fails again");
    assert!(failed.to_string().contains("exit status: 1"), "{failed}");
    server.stop().await;
}

#[tokio::test]
async fn an_empty_list_after_a_full_one_is_doubted() {
    let server = Supervised::connected("well").await;
    server.answer("empty").await;
    assert_eq!(server.control.refresh().await, Ok(12));
    let client = server.client();
    assert_eq!((phase(&client).as_str(), client.tools.len()), ("degraded", 12));
    server.answer("pid").await;
    server.stop().await;
}

#[tokio::test]
async fn a_silent_server_is_restarted_even_while_a_call_runs() {
    let mut settings = settings(fake("well"));
    settings.timeouts.stale = Some(Duration::from_millis(300));
    let server = Supervised::start(settings);
    server.until(|client| client.state == SourceState::Connected).await;
    let lost = server.call("hang").await.expect_err("the connection is cut");
    assert_eq!(lost.code(), HostCode::Unavailable);
    let restarted = server.until(|client| {
        let status = client.provider().map(|provider| provider.status()).unwrap_or_default();
        status["restarts"].as_u64() >= Some(1) && status["phase"] == "ready"
    });
    restarted.await;
    server.stop().await;
}

#[tokio::test]
async fn a_request_timeout_ends_a_call_before_its_deadline_and_keeps_the_connection() {
    let mut settings = settings(fake("well"));
    // It applies to the calls that ask what was cancelled as well.
    settings.timeouts.request = Some(Duration::from_millis(500));
    let server = Supervised::start(settings);
    server.until(|client| client.state == SourceState::Connected).await;
    let late = server.call("hang").await.expect_err("it hangs");
    insta::assert_snapshot!(late, @"tool up-hang ran past its 500ms deadline");
    let told = async {
        while server.answer("cancelled").await != "1" {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, told).await.expect("the server is told");
    server.stop().await;
}
