use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientResult, ListToolsRequest,
};
use rmcp::service::ServiceError;
use serde_json::{Value, json};

use super::*;
use crate::{
    secret::Secret,
    upstream::limits::{BURST_TOKENS, MAX_MESSAGE_BYTES, MAX_METHOD_BYTES, TOKEN_TIME},
};

fn inbox() -> Arc<Inbox> {
    let token = Secret::new("hunter2hunter2");
    Inbox::new(Arc::new(Scrubber::new([("TOKEN", &token)]).expect("a good secret")))
}

fn call(id: i64) -> ClientJsonRpcMessage {
    let params = CallToolRequestParams::new("t");
    ClientJsonRpcMessage::request(
        ClientRequest::CallToolRequest(CallToolRequest::new(params)),
        RequestId::Number(id),
    )
}

fn list(id: i64) -> ClientJsonRpcMessage {
    ClientJsonRpcMessage::request(
        ClientRequest::ListToolsRequest(ListToolsRequest::default()),
        RequestId::Number(id),
    )
}

fn cancel(id: i64) -> ClientJsonRpcMessage {
    let params = CancelledNotificationParam::new(Some(RequestId::Number(id)), None);
    ClientJsonRpcMessage::notification(ClientNotification::CancelledNotification(
        CancelledNotification::new(params),
    ))
}

fn taken(inbox: &Inbox, message: &Value) -> Value {
    inbox
        .receive(message.to_string().as_bytes())
        .map_or(Value::Null, |message| serde_json::to_value(message).expect("JSON"))
}

#[tokio::test]
async fn a_response_is_accepted_once_and_only_if_it_was_requested() {
    let inbox = inbox();
    let answer = |id: Value| json!({"jsonrpc": "2.0", "id": id, "result": {"content": "odd"}});
    assert_eq!(taken(&inbox, &answer(json!(1))), Value::Null, "before it was asked for");
    inbox.record_sent(&call(1));
    inbox.record_sent(&call(2));
    assert_eq!(taken(&inbox, &answer(json!(1))), answer(json!(1)));
    assert_eq!(taken(&inbox, &answer(json!(1))), Value::Null, "a second time");
    assert_eq!(
        taken(&inbox, &answer(json!("2"))),
        answer(json!("2")),
        "a number may come back as a string"
    );
    inbox.record_sent(&call(3));
    inbox.record_sent(&cancel(3));
    assert_eq!(taken(&inbox, &answer(json!(3))), Value::Null, "after it was given up");
    inbox.record_sent(&list(4));
    let tools =
        json!({"jsonrpc": "2.0", "id": 4, "result": {"tools": [{"name": "t", "inputSchema": {}}]}});
    assert_eq!(taken(&inbox, &tools), tools);
    assert!(lock(&inbox.in_flight).awaited.is_empty());
}

#[tokio::test]
async fn a_response_that_cannot_be_read_fails_its_request_at_once() {
    let inbox = inbox();
    let code = |message: Value| message["error"]["code"].clone();
    inbox.record_sent(&call(1));
    assert_eq!(
        code(taken(&inbox, &json!({"jsonrpc": "2.0", "id": 1, "error": "no"}))),
        json!(-32603)
    );
    inbox.record_sent(&call(2));
    let dense =
        format!(r#"{{"jsonrpc":"2.0","id":2,"result":[{}0]}}"#, r#"{"":0},"#.repeat(400_000));
    assert!(dense.len() < MAX_MESSAGE_BYTES);
    let refused = inbox.receive(dense.as_bytes()).expect("an answer");
    assert!(
        matches!(refused, JsonRpcMessage::Error(error) if decode::is_too_large(&ServiceError::McpError(error.error.clone())))
    );
    inbox.record_sent(&call(3));
    let event = inbox
        .receive_event(&dense.replacen(":2,", ":3,", 1).replacen("\"2.0\"", "\"2.0\" ", 1))
        .expect("an answer");
    assert!(event.contains("-32099") && event.len() < 1_000, "{event}");
}

#[tokio::test]
async fn secrets_are_redacted_from_every_accepted_message() {
    let inbox = inbox();
    inbox.record_sent(&call(1));
    let echo = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "bad token hunter2hunter2"}});
    assert_eq!(taken(&inbox, &echo)["error"]["message"], "bad token [secret TOKEN]");
    inbox.record_sent(&call(2));
    let echo = json!({"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "hunter2hunter2"}]}});
    assert_eq!(
        inbox.receive_event(&echo.to_string()),
        Some(echo.to_string().replace("hunter2hunter2", "[secret TOKEN]"))
    );
    let refusal = json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "hunter2hunter2"}});
    assert_eq!(taken(&inbox, &refusal)["error"]["message"], "[secret TOKEN]");
}

#[tokio::test]
async fn unused_notifications_are_dropped_and_a_list_change_is_recorded() {
    let inbox = inbox();
    for method in [
        "message",
        "progress",
        "resources/updated",
        "resources/list_changed",
        "prompts/list_changed",
        "novel",
    ] {
        let notification = json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": {"level": "info"}});
        assert_eq!(taken(&inbox, &notification), Value::Null, "{method}");
    }
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    for _ in 0..3 {
        assert_eq!(taken(&inbox, &changed), Value::Null);
    }
    inbox.changed().await;
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}});
    assert_eq!(taken(&inbox, &cancelled), cancelled);
    let large = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9, "reason": "x".repeat(MAX_NOTIFICATION_BYTES)}});
    assert_eq!(taken(&inbox, &large), Value::Null);
}

#[tokio::test]
async fn a_request_is_passed_on_by_method_and_one_too_many_is_a_flood() {
    let inbox = inbox();
    let request = |id: usize, method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"messages": ["x"]}});
    assert_eq!(
        taken(&inbox, &request(0, "ping")),
        json!({"jsonrpc": "2.0", "id": 0, "method": "ping"})
    );
    assert_eq!(taken(&inbox, &request(0, "ping")), Value::Null, "the same identifier again");
    let sampling = taken(&inbox, &request(1, "sampling/createMessage"));
    assert_eq!(
        (&sampling["method"], &sampling["params"]),
        (&json!("sampling/createMessage"), &Value::Null)
    );
    let own =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(taken(&inbox, &own), Value::Null, "it is answered all the same");
    for id in 2..MAX_UNANSWERED {
        assert_ne!(taken(&inbox, &request(id, "roots/list")), Value::Null);
    }
    inbox.record_answered(&RequestId::Number(0));
    assert_ne!(taken(&inbox, &request(1_000, "ping")), Value::Null);
    assert!(inbox.flood().is_none() && inbox.ready().await.is_ok());
    assert_eq!(taken(&inbox, &request(1_001, "ping")), Value::Null);
    assert_eq!(
        (inbox.flood(), inbox.ready().await),
        (Some(Flood::Unanswered), Err(Flood::Unanswered))
    );
}

#[tokio::test(start_paused = true)]
async fn unsolicited_messages_are_delayed_and_then_refused_as_a_flood() {
    let inbox = inbox();
    let mut read = 0_u32;
    while inbox.ready().await.is_ok() {
        assert!(inbox.receive(b"this is no message").is_none());
        read += 1;
    }
    // A burst, then the allowed rate until `FLOOD_TOLERANCE` ends; the clock counts whole
    // milliseconds.
    assert!((35_000..50_000).contains(&read), "{read}");
    let waited = tokio::time::timeout(std::time::Duration::from_secs(1), inbox.flooded()).await;
    assert_eq!(waited, Ok(Flood::Rate));
}

#[test]
fn responses_of_the_gateway_are_not_recorded_as_requests() {
    let inbox = inbox();
    inbox.record_sent(&ClientJsonRpcMessage::response(
        ClientResult::empty(()),
        RequestId::Number(1),
    ));
    assert!(lock(&inbox.in_flight).awaited.is_empty());
}

/// Returns the tokens that the server is charged for what `act` receives.
fn cost(act: impl Fn(&Inbox)) -> u128 {
    let inbox = inbox();
    inbox.spend(BURST_TOKENS);
    act(&inbox);
    let wait = lock(&inbox.bucket).wait(Instant::now()).expect("no flood");
    wait.as_nanos() / TOKEN_TIME.as_nanos()
}

#[tokio::test(start_paused = true)]
async fn every_unsolicited_message_is_charged_by_its_kind_and_size() {
    let cost_of = |text: &str| cost(|inbox| drop(inbox.receive(text.as_bytes())));
    let notification = |method: &str| {
        json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": {"requestId": 9}}).to_string()
    };
    let with_task = 1 + u128::from(REQUEST_TOKENS);
    assert_eq!(cost_of("no message"), 1);
    assert_eq!(cost_of(&"x".repeat(3 * BYTES_PER_TOKEN)), 4);
    assert_eq!(cost_of(&notification("message")), 1);
    assert_eq!(cost_of(&notification("tools/list_changed")), 1);
    assert_eq!(cost_of(&notification("cancelled")), with_task);
    assert_eq!(cost_of(&notification("subscriptions/acknowledged")), with_task);
    assert_eq!(cost_of(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), with_task);
    assert_eq!(cost_of(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), 1, "it was not requested");
    assert_eq!(cost_of(r#"{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}"#), 1);
    assert_eq!(cost(Inbox::charge_stream), u128::from(STREAM_TOKENS));
    let large = json!({"jsonrpc": "2.0", "id": 1, "result": {"x": "x".repeat(1 << 20)}});
    let requested = cost(|inbox| {
        inbox.record_sent(&call(1));
        drop(inbox.receive(large.to_string().as_bytes()));
    });
    assert_eq!(requested, 0);
}

#[test]
fn a_response_is_bounded_to_the_byte() {
    let inbox = inbox();
    let received = |bytes: usize| {
        inbox.record_sent(&call(1));
        let empty = r#"{"jsonrpc":"2.0","id":1,"result":""}"#.len();
        let text = "x".repeat(bytes - empty);
        inbox.receive(json!({"jsonrpc": "2.0", "id": 1, "result": text}).to_string().as_bytes())
    };
    assert!(matches!(received(MAX_MESSAGE_BYTES), Some(JsonRpcMessage::Response(_))));
    let Some(JsonRpcMessage::Error(refused)) = received(MAX_MESSAGE_BYTES + 1) else {
        panic!("a message of more than {MAX_MESSAGE_BYTES} bytes was accepted")
    };
    assert!(decode::is_too_large(&ServiceError::McpError(refused.error)));
}

#[test]
fn an_error_without_a_request_is_bounded_to_the_byte_and_a_method_is_cut() {
    let error = |bytes: usize| {
        let empty = r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#.len();
        json!({"jsonrpc": "2.0", "error": {"code": 1, "message": "x".repeat(bytes - empty)}})
    };
    assert_ne!(taken(&inbox(), &error(MAX_NOTIFICATION_BYTES)), Value::Null);
    assert_eq!(taken(&inbox(), &error(MAX_NOTIFICATION_BYTES + 1)), Value::Null);
    let long = json!({"jsonrpc": "2.0", "id": 1, "method": "m".repeat(MAX_METHOD_BYTES + 1)});
    let method = taken(&inbox(), &long)["method"].as_str().map(str::len);
    assert_eq!(method, Some(MAX_METHOD_BYTES));
}
