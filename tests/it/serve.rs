//! The HTTP side: start, refusals, forwarding to providers, and stop.

use std::fs;

use airlock_tests::{
    Client, Gateway, Reply, Service, Setup, guests,
    mcp::{Endpoint, McpClient},
    misbehaving, service, wait,
};
use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

#[tokio::test]
async fn a_request_in_flight_is_answered_before_the_gateway_ends() {
    let gateway = Setup::new().client(misbehaving("server", [])).serve_connected().await;
    let gate = gateway.directory().join("gate");
    let arguments = json!({"file": gate});
    let mut call = Box::pin(gateway.execute("server-wait_for", &arguments));
    let waiting = gate.with_extension("waiting");
    let begun = wait::until("the call to begin", async || waiting.exists().then_some(()));
    tokio::select! {
        () = begun => {}
        reply = &mut call => panic!("it did not wait: {reply:?}"),
    }
    gateway.terminate();
    let address = gateway.address().trim_start_matches("http://").to_owned();
    wait::until("new connections to be refused", async || {
        TcpStream::connect(&address).await.is_err().then_some(())
    })
    .await;
    fs::write(&gate, "").expect("a file");
    assert_eq!(call.await.content(), "it is there");
    gateway.ended().await;
}

#[tokio::test]
async fn at_the_first_start_clients_are_answered_at_once_and_calls_wait_for_the_compiler() {
    let cache = tempfile::tempdir().expect("a temporary directory");
    let cache = cache.path().to_str().expect("UTF-8");
    let setup = Setup::new().client(Client::wasm("text", guests::TEXT).auto(&["*"]));
    let gateway = setup.listen_with(&[("AIRLOCK_CACHE_DIR", cache), ("HOME", cache)]).await;
    let session = Endpoint::new(&gateway).session().await;
    let state = gateway.client("text").await.expect("the plugin")["state"].clone();
    assert_eq!(state, "connecting", "it is being compiled");
    let text = json!({"text": "one two"});
    let unknown = json!({"name": "text-no_such_tool", "arguments": {}});
    let (counted, unknown) = tokio::join!(
        McpClient::Modern(Endpoint::new(&gateway)).call("text-word_count", &text).result(),
        session.request("tools/call", unknown).error(),
    );
    assert_eq!(counted["isError"], serde_json::Value::Null, "{counted}");
    assert_eq!(unknown["code"], -32602, "{unknown}");
    assert!(gateway.said().contains("compiling to native code, once"), "{}", gateway.said());
}

#[tokio::test]
async fn a_hanging_call_does_not_keep_the_gateway_from_ending() {
    let gateway = Setup::new()
        .set("/server/drain_timeout", "300ms")
        .client(misbehaving("server", []))
        .serve_connected()
        .await;
    let idle = TcpStream::connect(gateway.address().trim_start_matches("http://"))
        .await
        .expect("a connection");
    let hang = gateway.request(Method::POST, "/v1/mcp/tool/execute");
    let hang = tokio::spawn(
        hang.json(&json!({"function": {"name": "server-hang", "arguments": "{}"}})).send(),
    );
    gateway.terminate();
    gateway.ended().await;
    drop(idle);
    // The request either breaks off or gets an error; both end it.
    let _ = hang.await.expect("no panic in it");
}

#[tokio::test]
async fn a_call_that_succeeds_has_a_line_in_the_log_and_curl_needs_no_content_type() {
    let gateway = Setup::new().client(misbehaving("server", [])).serve_connected().await;
    let call = json!({"function": {"name": "server-echo", "arguments": "{}"}}).to_string();
    let send = async |headers: &[(&str, &str)]| {
        let mut request = gateway.request(Method::POST, "/v1/mcp/tool/execute").body(call.clone());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Reply::fetch(request).await.status
    };
    let form = ("content-type", "application/x-www-form-urlencoded");
    assert_eq!((send(&[]).await, send(&[form]).await), (200, 200));
    assert_eq!(send(&[form, ("sec-fetch-site", "same-origin")]).await, 415);
    wait::until("lines in the log", async || {
        let said = gateway.said();
        let has =
            |text: &str| said.lines().any(|line| line.contains("INFO") && line.contains(text));
        (has("tool call tool=\"server-echo\"") && has("request method=POST")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_invalid_request_gets_an_error_in_the_openai_format() {
    let gateway = Setup::new().set("/server/max_body", "64KiB").serve().await;
    let send = async |method: Method, path: &str, body: String| {
        Reply::fetch(
            gateway.request(method, path).header("content-type", "application/json").body(body),
        )
        .await
    };
    let table = [
        (Method::GET, "/nothing", String::new(), 404, "unknown_url"),
        (Method::GET, "/v1/chat/completions", String::new(), 405, "method_not_allowed"),
        (Method::POST, "/health", String::new(), 405, "method_not_allowed"),
        (Method::POST, "/v1/chat/completions", "{".into(), 400, "invalid_json"),
        (Method::POST, "/v1/chat/completions", "{}".into(), 400, "invalid_type"),
        (Method::POST, "/v1/mcp/tool/execute", "{}".into(), 400, "missing_name"),
        (Method::POST, "/v1/mcp/tool/execute?format=xml", "{}".into(), 400, "invalid_format"),
        (
            Method::POST,
            "/v1/chat/completions",
            r#"{"messages": [], "stream": "yes"}"#.into(),
            400,
            "invalid_type",
        ),
    ];
    for (method, path, body, status, code) in table {
        let what = format!("{method} {path} {}", &body[..body.len().min(40)]);
        let reply = send(method, path, body).await;
        assert_eq!((reply.status, reply.code()), (status, code), "{what}: {}", reply.text);
        assert!(
            reply.body["error"]["type"].is_string() && reply.body["error"]["message"].is_string(),
            "{what}"
        );
    }
}

#[tokio::test]
async fn a_body_beyond_the_largest_size_is_refused_before_it_is_sent_whole() {
    let gateway = Setup::new().set("/server/max_body", "64KiB").serve().await;
    for path in ["/v1/chat/completions", "/v1/mcp/tool/execute"] {
        let mut stream = TcpStream::connect(gateway.address().trim_start_matches("http://"))
            .await
            .expect("a connection");
        let length = (64 << 10) + 1;
        let head = "host: localhost\r\ncontent-type: application/json";
        let head = format!("POST {path} HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("it is read");
        let mut answer = String::new();
        let read = tokio::time::timeout(wait::SOON, stream.read_to_string(&mut answer)).await;
        read.expect("it does not wait for the body").expect("UTF-8");
        assert!(
            answer.starts_with("HTTP/1.1 413 ")
                && answer.contains("\"code\":\"request_too_large\""),
            "{path}: {answer}"
        );
    }
}

#[tokio::test]
async fn a_page_of_another_local_origin_cannot_call_a_tool() {
    let gateway = Setup::new().client(misbehaving("server", [])).serve_connected().await;
    let call =
        json!({"function": {"name": "server-echo", "arguments": "{\"text\":\"hi\"}"}}).to_string();
    let send = async |headers: &[(&str, &str)]| {
        let request =
            gateway.request(Method::POST, "/v1/mcp/tool/execute?present=raw").body(call.clone());
        Reply::fetch(
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)),
        )
        .await
    };
    // As `fetch(…, {mode: "no-cors"})` sends it: text, and the origin of the page.
    let page = ("origin", "http://localhost:3000");
    assert_eq!(send(&[page, ("content-type", "text/plain")]).await.status, 403);
    assert_eq!(send(&[page, ("content-type", "application/json")]).await.status, 403);
    let text = send(&[("content-type", "text/plain")]).await;
    assert_eq!((text.status, text.code()), (415, "unsupported_media_type"));
    assert_eq!(send(&[("content-type", "application/json")]).await.content(), "hi");
    assert_eq!(
        send(&[("content-type", "application/json"), ("origin", gateway.address())])
            .await
            .content(),
        "hi"
    );
}

#[tokio::test]
async fn a_body_that_would_parse_to_a_gigabyte_is_refused_before_it_is_parsed() {
    let gateway = Setup::new().serve().await;
    let before = peak_memory_bytes(&gateway);
    let body = format!(r#"{{"messages":[{}0]}}"#, r#"{"":0},"#.repeat((16 << 20) / 7 - 10));
    let request = gateway
        .request(Method::POST, "/v1/chat/completions")
        .header("content-type", "application/json");
    let reply = Reply::fetch(request.body(body)).await;
    assert_eq!((reply.status, reply.code()), (413, "request_too_large"), "{}", reply.text);
    let taken = peak_memory_bytes(&gateway) - before;
    assert!(taken < 100 << 20, "it took {taken} bytes");
}

#[tokio::test]
async fn the_memory_of_a_large_request_is_returned_while_the_gateway_is_idle() {
    const BODY_BYTES: usize = 12 << 20;
    let gateway = Setup::new().serve().await;
    let before = gateway.own_memory();
    let messages = json!([{"role": "user", "content": "x".repeat(BODY_BYTES)}]);
    let body = json!({"model": "no/model", "messages": messages});
    assert_eq!(gateway.post("/v1/chat/completions", &body).await.status, 404);
    wait::until("the memory to be returned", async || {
        let kept = gateway.own_memory().saturating_sub(before);
        (kept < BODY_BYTES as u64).then_some(())
    })
    .await;
}

/// Returns the peak resident memory of a gateway.
fn peak_memory_bytes(gateway: &Gateway) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.pid().as_raw_nonzero()))
        .expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells it");
    peak.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

#[tokio::test]
async fn unknown_fields_pass_through_to_the_provider_and_back() {
    let service = Service::start(|_| {
        let mut answer = service::completion(&service::text("hello"));
        answer["x_new_field"] = json!({"deep": [1.5, null]});
        answer["choices"][0]["x_more"] = json!(true);
        (200, answer)
    })
    .await;
    let gateway = Setup::new().openai("fake", service.base_url()).serve().await;
    let body = json!({
        "model": "fake/some/model",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}], "x_in": 1}],
        "temperature": 0.25,
        "seed": 9_007_199_254_740_993_u64,
        "x_unknown": {"z": 1, "a": 2},
    });
    let answer = gateway.post("/v1/chat/completions", &body).await.ok();
    assert_eq!(
        (&answer["x_new_field"], &answer["choices"][0]["x_more"]),
        (&json!({"deep": [1.5, null]}), &json!(true))
    );
    let asked = service.asked().pop().expect("it was asked");
    assert_eq!(
        (asked.path.as_str(), asked.authorization.as_str()),
        ("/v1/chat/completions", "Bearer sk-test")
    );
    let mut expected = body;
    expected["model"] = json!("some/model");
    assert_eq!(asked.body, expected);
}

#[tokio::test]
async fn no_call_runs_if_a_model_asks_for_thousands_at_once() {
    let by_count = "the model's response has 10000 tool calls, more than the limit of 1024; none of them was made";
    let by_memory =
        "provider 'fake' responded with JSON that needs more memory than the gateway permits";
    for (count, told) in [(10_000, by_count), (100_000, by_memory)] {
        let calls = vec![("server-echo", json!({})); count];
        let service = Service::saying([service::asking_for(&calls), service::text("end")]).await;
        let setup = Setup::new()
            .openai("fake", service.base_url())
            .client(misbehaving("server", []).auto(&["*"]));
        let gateway = setup.serve_connected().await;
        let reply = gateway.chat("fake/model", "go").await;
        assert_eq!(reply.refusal(), (502, told));
        assert_eq!(service.asked().len(), 1);
    }
}

#[tokio::test]
async fn the_limits_of_one_request_can_be_configured() {
    let calls = vec![("server-echo", json!({"text": "x".repeat(1_000)})); 3];
    let service = Service::saying([service::asking_for(&calls), service::text("end")]).await;
    let setup = Setup::new()
        .openai("fake", service.base_url())
        .client(misbehaving("server", []).auto(&["*"]));
    let gateway =
        setup.set("/mcp/tool_manager_config/max_tool_calls_per_answer", 2).serve_connected().await;
    let answer = gateway.chat("fake/model", "go").await.ok();
    let codes: Vec<_> = answer["airlock"]["calls"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|call| &call["error"]["code"])
        .collect();
    assert_eq!(codes, [&json!(null), &json!(null), &json!("airlock.too_many_calls")]);
    let told = &service.asked()[1].body["messages"];
    assert!(
        told[4]["content"]
            .as_str()
            .is_some_and(|text| text.contains("3 tool calls, more than the limit of 2")),
        "{told:#}"
    );

    let hanging = Service::saying([service::asking_for(&[("server-hang", json!({}))])]).await;
    let setup = Setup::new()
        .openai("fake", hanging.base_url())
        .client(misbehaving("server", []).auto(&["*"]));
    let gateway = setup.set("/mcp/tool_manager_config/agent_timeout", "3s").serve_connected().await;
    let reply = gateway.chat("fake/model", "go").await;
    assert_eq!((reply.status, reply.code()), (504, "agent_timeout"));
    assert_eq!(reply.body["airlock"]["calls"][0]["status"], "cancelled", "{}", reply.text);
}

#[tokio::test]
async fn an_error_of_the_provider_reaches_the_client_unchanged() {
    let service = Service::start(|_| {
        (429, json!({"error": {"message": "slow down", "type": "rate_limit", "param": null, "code": "rate"}}))
    })
    .await;
    let gateway = Setup::new().openai("fake", service.base_url()).serve().await;
    let reply = gateway.chat("fake/model", "hi").await;
    assert_eq!((reply.refusal(), reply.code()), ((429, "slow down"), "rate"));
    let reply = gateway.chat("nobody/model", "hi").await;
    assert!(matches!(reply.status, 200 | 400 | 404 | 429), "{}", reply.text);
}

#[tokio::test]
async fn models_are_listed_under_the_names_that_requests_use() {
    let service = Service::start(|_| {
        (200, json!({"object": "list", "data": [{"id": "m1", "object": "model", "created": 1, "owned_by": "x"}]}))
    })
    .await;
    let gateway = Setup::new().openai("fake", service.base_url()).serve().await;
    let models = gateway.get("/v1/models").await.ok();
    assert_eq!(models["data"][0]["id"], "fake/m1", "{models:#}");
}

#[tokio::test]
async fn a_second_gateway_on_a_taken_port_fails_and_a_stopped_one_frees_its_port() {
    let first = Setup::new().serve().await;
    let second = Setup::new().serve().await;
    assert_ne!(first.address(), second.address());
    let address = second.address().trim_start_matches("http://").to_owned();
    drop(second);
    let taken = Setup::new().set("/server/listen", first.address().trim_start_matches("http://"));
    let failed = taken.airlock("serve").run().await.failed();
    assert!(failed.stderr.contains("cannot listen on"), "{failed}");
    assert!(TcpStream::connect(address).await.is_err(), "it still listens");
}
