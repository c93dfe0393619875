//! Calls of one tool at `/v1/mcp/tool/execute`.

use super::*;

#[tokio::test]
async fn a_tool_is_executed_in_both_formats_and_its_failure_is_a_result() {
    let gateway = Gateway::standard().await;
    let (status, mut answer) = gateway.execute("desk-write", &[]).await;
    assert!(answer["airlock"]["duration_ms"].take().is_number());
    let content = r#"write {"code":"files-write"}"#;
    let result = json!({"content": [{"type": "text", "text": content}]});
    let airlock = json!({"duration_ms": null, "fuel": 7, "calls": [], "result": result});
    assert_eq!(
        answer,
        json!({"role": "tool", "content": content, "tool_call_id": "c1", "airlock": airlock})
    );
    assert_eq!(status, 200);

    let (status, answer) = gateway.execute("desk-fail", &[]).await;
    assert_eq!(
        (status, &answer["content"], &answer["is_error"]),
        (200, &json!("Error executing tool desk-fail: no luck"), &json!(true))
    );
    let (_, answer) = gateway.execute("executeToolCode", &[]).await;
    let names: Vec<_> = answer["airlock"]["calls"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|call| &call["name"])
        .collect();
    // The second call of the script needs an approval of its own.
    assert_eq!(names, ["files-read"]);

    let call = r#"{"type":"function_call","call_id":"c2","name":"desk-echo","arguments":""}"#;
    let (_, answer) =
        gateway.ask(Method::POST, "/v1/mcp/tool/execute?format=responses", &[], call).await;
    assert_eq!(
        (&answer["type"], &answer["output"], &answer["call_id"]),
        (&json!("function_call_output"), &json!("echo {}"), &json!("c2"))
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_header_shortens_the_time_of_a_call_and_of_a_chat() {
    let gateway = Gateway::standard().await;
    let short = [("x-airlock-timeout", "50ms")];
    let (status, answer) = gateway.execute("desk-hang", &short).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!("deadline")), "{answer}");
    let message = answer["error"]["message"].as_str().expect("a text");
    assert!(message.contains("ms deadline"), "{message}");
    let (status, answer) = gateway.chat("hang", &short).await;
    assert_eq!((status, &answer["error"]["code"]), (504, &json!("agent_timeout")), "{answer}");
    let (status, answer) = gateway.chat("echo", &[("x-airlock-timeout", "soon")]).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!("bad_header")), "{answer}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_call_that_cannot_be_executed_is_an_openai_error() {
    let gateway = Gateway::standard().await;
    let (status, answer) = gateway.execute("desk-nothing", &[]).await;
    assert_eq!(
        (status, &answer["error"]["message"]),
        (400, &json!("tool 'desk-nothing' is not available or not permitted"))
    );
    let busy = gateway
        .send(Method::POST, "/v1/mcp/tool/execute", &[], r#"{"function":{"name":"desk-busy"}}"#)
        .await;
    assert_eq!(
        (busy.status().as_u16(), busy.headers()["retry-after"].as_bytes()),
        (503, &b"1"[..])
    );
    let (status, answer) =
        gateway.ask(Method::POST, "/v1/mcp/tool/execute?format=xml", &[], "{}").await;
    assert_eq!(
        (status, &answer["error"]["message"]),
        (400, &json!("Invalid format value, must be 'chat' or 'responses'"))
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_panic_is_an_error_and_the_next_request_is_answered() {
    let gateway = Gateway::standard().await;
    let (status, answer) = gateway.execute("desk-panic", &[]).await;
    assert_eq!((status, &answer["error"]["code"]), (500, &json!("internal_error")));
    assert_eq!(gateway.execute("desk-echo", &[]).await.0, 200);
    gateway.stop().await;
}
