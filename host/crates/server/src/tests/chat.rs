//! Chat completions: their tools, their providers, their errors.

use super::*;

#[tokio::test]
async fn a_chat_runs_tools_and_reports_them() {
    let gateway = Gateway::standard().await;
    let (status, answer) = gateway.chat("echo", &[]).await;
    assert_eq!(
        (status, &answer["choices"][0]["message"]["content"]),
        (200, &json!("done: echo {}"))
    );
    assert_eq!(answer["airlock"]["rounds"], 1);
    let (_, narrowed) = gateway.chat("echo", &[("x-bf-mcp-include-tools", "desk-fail")]).await;
    assert_eq!(narrowed["airlock"]["calls"][0]["error"]["code"], "airlock.not_found");
    gateway.stop().await;
}

#[tokio::test]
async fn a_chat_response_names_the_provider_that_answered() {
    let gateway = Gateway::standard().await;
    for is_streamed in [false, true] {
        let body = json!({
            "model": "demo/m", "messages": [{"role": "user", "content": "echo"}],
            "stream": is_streamed, "fallbacks": ["demo/other"],
        });
        let body = body.to_string();
        let reply = gateway.send(Method::POST, "/v1/chat/completions", &[], &body).await;
        assert_eq!(reply.headers()["x-airlock-provider"], "demo");
        reply.text().await.expect("a whole response");
    }
    let body = r#"{"model": "demo/m", "messages": [], "fallbacks": ["demo/x", "nowhere/x"]}"#;
    let (status, answer) = gateway.ask(Method::POST, "/v1/chat/completions", &[], body).await;
    assert_eq!((status, &answer["error"]["param"]), (400, &json!("fallbacks[1]")));
    gateway.stop().await;
}

#[tokio::test]
async fn an_invalid_chat_request_is_an_openai_error() {
    let gateway = Gateway::standard().await;
    for (body, status, code, param) in [
        ("{", 400, "invalid_json", Value::Null),
        ("[]", 400, "invalid_json", Value::Null),
        ("{}", 400, "invalid_type", "messages".into()),
        (r#"{"messages": [], "stream": "yes"}"#, 400, "invalid_type", "stream".into()),
        (r#"{"messages": [], "airlock": {"x": 1}}"#, 400, "invalid_value", "airlock".into()),
        (r#"{"messages": [], "stream": true}"#, 400, "missing_model", "model".into()),
        (r#"{"messages": []}"#, 400, "missing_model", "model".into()),
        (r#"{"messages": [], "model": "m"}"#, 400, "no_matching_turn", "messages".into()),
    ] {
        let (found, answer) = gateway.ask(Method::POST, "/v1/chat/completions", &[], body).await;
        assert_eq!(
            (found, &answer["error"]["code"], &answer["error"]["param"]),
            (status, &code.into(), &param),
            "{body}"
        );
    }
    let (_, answer) = gateway.ask(Method::POST, "/v1/chat/completions", &[], "{\n  x").await;
    insta::assert_snapshot!(
        answer["error"]["message"].as_str().expect("a text"),
        @"the request body is not a JSON object: key must be a string at line 2 column 3"
    );
    gateway.stop().await;
}
