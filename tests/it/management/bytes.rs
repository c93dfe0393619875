//! Limits of the bytes of arguments: gateways that share a store, nested calls, clients and tools.

use airlock_tests::{Gateway, Setup, misbehaving};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    SharedStore,
    limits::{RATES, call, key, refused},
    setup, until_status,
};

/// Length of the arguments with which [`call`] calls the tool of the plugin.
const LENGTH: usize = "{\"text\":\"one two\"}".len();

/// Returns limits of so many bytes of arguments a minute.
fn bytes(most: usize) -> Value {
    json!({"argument_byte_max_limit": most, "argument_byte_reset_duration": "1m"})
}

/// Returns the rate limits of an owner with what is used of them.
async fn rates(gateway: &Gateway, owner: &str) -> Value {
    let rates = gateway.get(RATES).await.ok();
    let rates = rates["rate_limits"].as_array().expect("a list");
    rates.iter().find(|rate| rate["owner_name"] == owner).expect("the owner has limits").clone()
}

#[tokio::test]
async fn gateways_on_one_store_share_the_bytes_of_keys_and_teams() {
    for store in SharedStore::all() {
        let first = setup(&store).serve_connected().await;
        let second = setup(&store).serve_connected().await;
        let team = json!({"name": "desk", "rate_limit": bytes(3 * LENGTH)});
        let _ = first.post("/api/governance/teams", &team).await.ok();
        let limited = json!({"rate_limit": bytes(2 * LENGTH), "team_id": "desk"});
        let ann = key(&first, "ann", "text", limited).await;
        let bob = key(&first, "bob", "text", json!({"team_id": "desk"})).await;
        until_status(&second, &bob, 200).await;
        for gateway in [&first, &second] {
            assert_eq!(call(gateway, &ann).await.status, 200);
        }
        for gateway in [&first, &second] {
            assert_eq!(call(gateway, &ann).await.code(), "limit_reached", "of the key");
        }
        assert_eq!(call(&second, &bob).await.status, 200, "the last bytes of the team");
        assert_eq!(call(&first, &bob).await.code(), "limit_reached", "of the team");
        let of_team = rates(&second, "desk").await;
        assert_eq!(of_team["argument_byte_current_usage"], 3 * LENGTH, "{of_team}");
        assert_eq!(of_team["argument_byte_reset_duration"], "1m");
    }
}

#[tokio::test]
async fn a_call_above_a_whole_limit_is_429_without_a_time_to_wait() {
    let gateway = setup(&SharedStore::all()[0]).serve_connected().await;
    let limited = json!({"rate_limit": bytes(2 * LENGTH)});
    let ann = key(&gateway, "ann", "text", limited).await;
    let arguments = json!({"text": "x".repeat(3 * LENGTH)}).to_string();
    let function = json!({"name": "text-word_count", "arguments": arguments});
    let request = gateway.request(Method::POST, "/v1/mcp/tool/execute").header("x-bf-vk", &ann);
    let refused = refused(request.json(&json!({"type": "function", "function": function}))).await;
    assert_eq!((refused.status, refused.retry_after), (429, None), "{}", refused.body);
    assert_eq!(refused.body["error"]["code"], "limit_reached");
    assert_eq!(rates(&gateway, "ann").await["argument_byte_current_usage"], 0);
    assert_eq!(call(&gateway, &ann).await.status, 200);
}

#[tokio::test]
async fn a_script_that_sends_a_little_in_many_calls_is_stopped_and_its_source_does_not_count() {
    let server = misbehaving("server", []).code_mode().auto(&["*"]);
    let gateway = Setup::new().client(server).serve_connected().await;
    let ann = key(&gateway, "ann", "server", json!({"rate_limit": bytes(1_000)})).await;
    let code = "tried = [attempt(server.echo, {\"text\": \"x\" * 90}) for _ in range(12)]\n\
                last = tried[11].error\n\
                made = len([t for t in tried if t.ok])\n\
                result = \" \".join([str(made), last.code, str(last.retry_after_ms > 0)])";
    let headers = [("x-bf-vk", ann.as_str())];
    let ran = gateway.execute_with(&headers, "executeToolCode", &json!({"code": code})).await;
    let ran = ran.content();
    assert!(ran.contains("9 airlock.limit_reached True"), "{ran}");
    let used = rates(&gateway, "ann").await["argument_byte_current_usage"].as_u64();
    assert!(used.is_some_and(|used| used <= 1_000 && used.is_multiple_of(9)), "{used:?}");
}

#[tokio::test]
async fn a_client_and_a_tool_receive_no_more_bytes_than_their_limits() {
    let gateway = setup(&SharedStore::all()[0]).serve_connected().await;
    let ann = key(&gateway, "ann", "text", json!({})).await;
    let bob = key(&gateway, "bob", "text", json!({})).await;
    for limits in [
        json!({"tool_limits": {"word_count": bytes(LENGTH)}}),
        json!({"tool_limits": null, "rate_limit": bytes(LENGTH)}),
    ] {
        let _ = gateway.put("/api/mcp/client/text", &limits).await.ok();
        assert_eq!(call(&gateway, &ann).await.status, 200, "{limits}");
        assert_eq!(call(&gateway, &bob).await.code(), "limit_reached", "{limits}");
    }
}
