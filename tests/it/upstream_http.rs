//! MCP servers over streamable HTTP and HTTP+SSE.

use airlock_tests::{MisbehavingHttp, Setup, wait};
use serde_json::json;

#[tokio::test]
async fn an_event_that_is_too_long_fails_its_call_at_once_with_the_reason() {
    let server = MisbehavingHttp::start([]);
    let gateway = Setup::new().client(server.client("server")).serve_connected().await;
    let reply = gateway.execute("server-huge_event", &json!({})).await;
    assert_eq!((reply.status, reply.code()), (400, "result_too_large"), "{}", reply.text);
    assert!(gateway.execute("server-echo", &json!({})).await.status == 200);
}

#[tokio::test]
async fn a_forgotten_session_costs_one_call_and_is_opened_anew_without_a_repetition() {
    let server = MisbehavingHttp::start([]);
    let gateway = Setup::new().client(server.client("server")).serve_connected().await;
    let none = json!({});
    assert_eq!(gateway.execute("server-expire", &none).await.content(), "forgotten");
    let lost = gateway.execute("server-echo", &none).await;
    assert_eq!((lost.status, lost.code()), (400, "unavailable"), "{}", lost.text);
    let calls = wait::until("the server to be back", async || {
        let reply = gateway.execute("server-calls", &none).await;
        (reply.status == 200).then(|| reply.content())
    })
    .await;
    // `expire` and `calls` alone reached a tool.
    assert_eq!(calls, "2");
}

#[tokio::test]
async fn only_permitted_headers_of_a_caller_reach_a_server() {
    let key = "sk-bf-0123456789abcdef";
    let sent = [
        ("x-tenant", "ann"),
        ("x-other", "o"),
        ("cookie", "c=1"),
        ("authorization", "Bearer own"),
        ("x-bf-vk", key),
        ("mcp-session-id", "s"),
    ];
    for (allowed, passed) in [
        (json!([]), [false, false, false, false]),
        (json!(["*"]), [true, true, false, false]),
        (json!(["X-Tenant", "authorization"]), [true, false, false, true]),
    ] {
        let server = MisbehavingHttp::start([]);
        let client = server
            .client("server")
            .set("/headers/x-tenant", "everyone")
            .set("/allowed_extra_headers", allowed.clone());
        let setup = Setup::new().client(client).key("ann", key, &[("server", &["*"])]);
        let setup = setup.set("/server/require_virtual_key", false);
        let gateway = setup.serve_connected().await;
        let reply = gateway.execute_with(&sent, "server-echo", &json!({})).await;
        let said = reply.content();
        let found = [r#""ann""#, r#""x-other""#, r#""cookie""#, "Bearer own"];
        assert_eq!(found.map(|text| said.contains(text)), passed, "{allowed}: {said}");
        assert!(!said.contains(key) && !said.contains(r#""s""#), "{said}");
        assert!(passed[0] || said.contains("x-tenant"), "{said}");
    }
}
