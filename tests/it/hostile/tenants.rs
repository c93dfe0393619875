//! Keys that send as much as they can, next to other keys: what the process takes for them is bounded
//! and given back, and the others are served meanwhile.

use std::time::Duration;

use airlock_tests::{Gateway, Setup, wait};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;

const ANN: &str = "sk-bf-ann-0123456789abcdef";
const BOB: &str = "sk-bf-bob-0123456789abcdef";

/// Memory of all requests in flight, in bytes. One key gets half of it.
const BUDGET: u64 = 128 << 20;
/// Largest body, in bytes.
const BODY: usize = 8 << 20;
/// Requests of one key at the same time.
const AT_ONCE: usize = 24;

async fn gateway() -> Gateway {
    let setup = Setup::new().scripted("script", &json!({"turns": [{"answer": {"content": "ok"}}]}));
    setup
        .set("/server/max_request_memory", "128MiB")
        .set("/server/max_body", "8MiB")
        .key("ann", ANN, &[])
        .key("bob", BOB, &[])
        .serve()
        .await
}

/// Sends a body as a key. Returns the status; 0 if the gateway has closed the connection before it read
/// the body.
async fn post(gateway: &Gateway, key: &str, path: &str, body: &str) -> u16 {
    let request = gateway.request(Method::POST, path).header("x-bf-vk", key);
    let request = request.header("content-type", "application/json").body(body.to_owned());
    let Ok(response) = request.send().await else { return 0 };
    let status = response.status().as_u16();
    let _ = response.bytes().await;
    status
}

/// Returns a body in which `unit` is repeated as often as fits.
fn filled(begin: &str, unit: &str, end: &str, bytes: usize) -> String {
    let most = (bytes - begin.len() - end.len()) / (unit.len() + 1);
    format!("{begin}{}{end}", vec![unit; most].join(","))
}

/// Returns bodies that take much more memory than their length.
fn dense(bytes: usize) -> Vec<(&'static str, String)> {
    let message = r#"{"role":"user","content":"x"}"#;
    let tool = r#"{"type":"function","function":{"name":"f","parameters":{}}}"#;
    let call = r#"{"role":"assistant","tool_calls":[{"id":"call_0123456789abcdef","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let own = r#"{"type":"function","name":"f","parameters":{}}"#;
    vec![
        ("/v1/responses", filled(r#"{"model":"script/m","input":["#, message, "]}", bytes)),
        (
            "/v1/responses",
            filled(r#"{"model":"script/m","store":false,"input":["#, message, "]}", bytes),
        ),
        ("/v1/responses", filled(r#"{"model":"script/m","input":"x","tools":["#, own, "]}", bytes)),
        (
            "/v1/chat/completions",
            filled(r#"{"model":"script/m","messages":["#, message, "]}", bytes),
        ),
        ("/v1/chat/completions", filled(r#"{"model":"script/m","messages":["#, call, "]}", bytes)),
        (
            "/v1/chat/completions",
            filled(
                r#"{"model":"script/m","messages":[{"role":"user","content":"x"}],"tools":["#,
                tool,
                "]}",
                bytes,
            ),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_one_key_take_at_most_one_and_a_half_times_the_budget_and_give_it_back() {
    let gateway = gateway().await;
    assert_eq!(
        post(&gateway, BOB, "/v1/responses", r#"{"model":"script/m","input":"x"}"#).await,
        200
    );
    let before = gateway.resident_memory();
    // The largest that one request may be, and many that are smaller.
    for bytes in [BODY, BODY / 8] {
        for (path, body) in dense(bytes) {
            let sent = (0..AT_ONCE).map(|_| post(&gateway, ANN, path, &body));
            let statuses = join_all(sent).await;
            let peak = gateway.peak_memory().saturating_sub(before);
            println!("{path} {} bytes: {peak} {statuses:?}", body.len());
            assert!(peak <= BUDGET * 3 / 2, "{path}, {} bytes each: {peak}", body.len());
        }
    }
    wait::until_within(Duration::from_secs(80), "the memory to be given back", async || {
        let kept = gateway.resident_memory().saturating_sub(before);
        // The rest is of threads that live on, and does not grow with the next burst.
        (kept < BUDGET / 2).then_some(())
    })
    .await;
}
