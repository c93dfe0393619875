//! Requirements of clients of the OpenAI API beside the APIs themselves.

use super::*;

#[tokio::test]
async fn a_model_is_shown_by_its_id_with_a_slash_or_an_encoded_one() {
    let gateway = Gateway::standard().await;
    let (_, list) = gateway.get("/v1/models", &[]).await;
    let model = &list["data"][0];
    let id = model["id"].as_str().expect("an id");
    for path in [id.to_owned(), id.replace('/', "%2F")] {
        for base in ["/v1/models/", "/openai/v1/models/"] {
            let shown = gateway.get(&format!("{base}{path}"), &[]).await;
            assert_eq!(shown, (200, model.clone()));
        }
    }
    let (status, error) = gateway.get("/v1/models/demo/none", &[]).await;
    assert_eq!((status, &error["error"]["code"]), (404, &json!("model_not_found")));
    gateway.stop().await;
}

#[tokio::test]
async fn pages_of_listed_origins_get_cors_headers_and_others_do_not() {
    let page = "https://chat.example";
    let settings = Settings { allowed_origins: vec![page.to_owned()], ..settings() };
    let gateway = Gateway::start(settings).await;
    let asks = ("access-control-request-method", "POST");
    let wants = ("access-control-request-headers", "content-type, authorization");
    let preflight = async |path: &str, origin: &str| {
        let headers = [("origin", origin), asks, wants];
        gateway.send(Method::OPTIONS, path, &headers, "").await
    };
    let reply = preflight("/v1/chat/completions", page).await;
    assert_eq!(reply.status(), 204);
    assert_eq!(header(&reply, "access-control-allow-origin").as_deref(), Some(page));
    assert_eq!(header(&reply, "access-control-allow-methods").as_deref(), Some("POST"));
    assert_eq!(header(&reply, "access-control-allow-headers").as_deref(), Some(wants.1));
    let refused = preflight("/v1/chat/completions", "https://evil.example").await;
    assert_eq!(
        (refused.status().as_u16(), header(&refused, "access-control-allow-origin")),
        (403, None)
    );
    // An order of the operator is none for pages.
    let order = preflight("/api/mcp/client/desk/reload", page).await;
    assert!(order.status() != 204, "{order:?}");
    // Also an error can be read by the page.
    for path in ["/v1/models", "/v1/nothing"] {
        let reply = gateway.send(Method::GET, path, &[("origin", page)], "").await;
        assert_eq!(header(&reply, "access-control-allow-origin").as_deref(), Some(page), "{path}");
    }
    let plain = gateway.send(Method::GET, "/v1/models", &[], "").await;
    assert_eq!(header(&plain, "access-control-allow-origin"), None);
    gateway.stop().await;
}

fn header(reply: &reqwest::Response, name: &str) -> Option<String> {
    reply.headers().get(name).map(|value| value.to_str().expect("text").to_owned())
}

#[tokio::test]
async fn a_header_chooses_what_happens_to_calls_that_need_an_approval() {
    let turns = json!([
        {"when": {"role": "user"}, "answer": {"tool_calls": [{"id": "c1", "name": "desk-write", "arguments": {}}]}},
        {"when": {"role": "tool"}, "answer": {"content": "done: {{last_tool_result}}"}},
    ]);
    let gateway = Gateway::with_turns(settings(), &turns).await;
    let (_, returned) = gateway.chat("go", &[("x-airlock-approval", "return")]).await;
    assert_eq!(returned["airlock"]["pending"][0]["reason"], "needs_approval");
    let (_, omitted) = gateway.chat("go", &[("x-airlock-approval", "omit")]).await;
    let code = &omitted["airlock"]["calls"][0]["error"]["code"];
    assert_eq!(code, "airlock.not_found", "{omitted}");
    let (_, waited) = gateway.chat("go", &[("x-airlock-approval", "wait")]).await;
    let text = waited["choices"][0]["message"]["content"].as_str().expect("a text");
    assert!(text.contains("the person who was asked refused it"), "{text}");
    let (status, error) = gateway.chat("go", &[("x-airlock-approval", "never")]).await;
    assert_eq!((status, &error["error"]["code"]), (400, &json!("bad_header")));
    gateway.stop().await;
}

#[tokio::test]
async fn a_request_waits_after_the_start_and_its_response_names_the_missing_servers() {
    let wait = Duration::from_secs(2);
    let gateway = Gateway::start(Settings { startup_wait: wait, ..settings() }).await;
    let started = Instant::now();
    let (_, answer) = gateway.chat("echo", &[]).await;
    assert!(started.elapsed() >= wait / 2, "the server `away` is connecting");
    let missing = json!([{"client": "away", "state": "connecting"}]);
    assert_eq!(answer["airlock"]["unavailable"], missing, "{answer}");
    let begun = Instant::now();
    let (_, answer) = gateway.chat("echo", &[]).await;
    assert!(begun.elapsed() < wait, "the time after the start is over");
    assert_eq!(answer["airlock"]["unavailable"], missing);
    let (_, narrowed) = gateway.chat("echo", &[("x-bf-mcp-include-clients", "desk")]).await;
    assert_eq!(narrowed["airlock"].get("unavailable"), None, "the request does not want it");
    let (_, with_key) = gateway.chat("echo", &[("x-bf-vk", "sk-bf-ann")]).await;
    assert_eq!(with_key["airlock"].get("unavailable"), None, "the key may not know it");
    let (_, health) = gateway.get("/health", &[]).await;
    assert_eq!(health["clients"]["starting"], 1, "{health}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_call_of_a_listed_tool_waits_for_no_other_server() {
    let wait = Duration::from_hours(1);
    let gateway = Gateway::start(Settings { startup_wait: wait, ..settings() }).await;
    let (status, answer) = gateway.execute("desk-echo", &[]).await;
    assert_eq!(status, 200, "{answer}");
    gateway.stop().await;
}

#[tokio::test]
async fn models_clients_and_health_are_listed() {
    let gateway = Gateway::standard().await;
    let (_, models) = gateway.get("/v1/models", &[]).await;
    assert_eq!(
        (&models["object"], &models["data"][0]["id"]),
        (&json!("list"), &json!("demo/script"))
    );
    let as_viewer = [("authorization", "Bearer alop_viewer")];
    let (_, clients) = gateway.get("/api/mcp/clients", &as_viewer).await;
    assert_eq!(
        (&clients["count"], &clients["total_count"], &clients["offset"]),
        (&json!(3), &json!(3), &json!(0))
    );
    assert_eq!(
        (&clients["clients"][0]["state"], &clients["clients"][0]["tools"]),
        (&json!("connecting"), &json!([]))
    );
    let files = &clients["clients"][2];
    let config = json!({"name": "files", "client_id": "files", "connection_type": "internal", "is_code_mode_client": true,
                        "tools_to_execute": ["*"], "tools_to_exclude": [], "tools_to_auto_execute": ["read"], "tools_to_approve_twice": []});
    assert_eq!((&files["config"], &files["tools"][0]["name"]), (&config, &json!("read")));
    let (_, health) = gateway.get("/health", &[]).await;
    assert_eq!(
        (&health["status"], &health["clients"]),
        (&json!("ok"), &json!({"connected": 2, "starting": 1, "total": 3}))
    );
    gateway.stop().await;
}
