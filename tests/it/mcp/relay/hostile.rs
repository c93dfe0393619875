//! Servers that lie about their resources, and what they cost.

use airlock_tests::{Setup, mcp::Endpoint, wait};
use serde_json::json;

use super::{McpClient, call, read, refusal, scripted, uris};

#[tokio::test]
async fn a_list_that_is_too_long_is_cut_and_the_others_stay_whole() {
    let gateway = Setup::new()
        .client(scripted("many", &json!({"count": 100_000})))
        .client(scripted("endless", &json!({"resources": ["end://1"], "endless": true})))
        .client(scripted("good", &json!({"resources": ["good://1", "good://1", "", "good://2"]})))
        .serve_connected()
        .await;
    let of = |name: &str| McpClient::Modern(Endpoint::new(&gateway).source(name));
    assert_eq!(uris(&of("many")).await.len(), 1_000);
    assert_eq!(uris(&of("good")).await, ["good://1", "good://2"]);
    wait::until("the endless list to be cut", async || {
        (uris(&of("endless")).await == ["end://1"]).then_some(())
    })
    .await;
    let counts = call(&of("endless"), "state", &json!({})).await["counts"].clone();
    assert!(counts["resources/list"].as_u64() <= Some(200), "{counts}");
    gateway.until_said("upstream list is not complete").await;
}

#[tokio::test]
async fn a_resource_over_the_limit_fails_and_its_server_stays_usable() {
    let gateway = Setup::new()
        .client(scripted("up", &json!({"resources": ["big://10", "small://"]})))
        .serve_connected()
        .await;
    for client in Endpoint::new(&gateway).both().await {
        let error = refusal(&client, "resources/read", json!({"uri": "big://10"})).await;
        assert_eq!(error["code"], -32603, "{error}");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("larger than 1048576 bytes"), "{message}");
        assert!(read(&client, "small://").await["contents"].is_array());
    }
}

#[tokio::test]
async fn a_resource_of_100_megabytes_fails_and_disturbs_no_other_server() {
    let gateway = Setup::new()
        .client(scripted("up", &json!({"resources": ["big://100"]})))
        .client(scripted("good", &json!({"resources": ["small://"]})))
        .serve_connected()
        .await;
    let client = McpClient::Modern(Endpoint::new(&gateway));
    let error = refusal(&client, "resources/read", json!({"uri": "big://100"})).await;
    assert_eq!(error["code"], -32603, "{error}");
    assert!(read(&client, "small://").await["contents"].is_array());
}

#[tokio::test]
async fn a_resource_that_never_comes_ends_with_the_deadline() {
    let gateway = Setup::new()
        .client(scripted("up", &json!({"resources": ["hang://"]})))
        .serve_connected()
        .await;
    for client in Endpoint::new(&gateway).both().await {
        let hanging = client.request("resources/read", json!({"uri": "hang://"}));
        let error = hanging.set("x-airlock-timeout", "1s").error().await;
        assert_eq!(error["code"], -32603, "{error}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains("within")), "{error}");
    }
}

#[tokio::test]
async fn a_storm_of_changes_costs_few_readings_of_the_list() {
    let gateway = Setup::new()
        .client(scripted("up", &json!({"resources": ["a://"]})))
        .serve_connected()
        .await;
    let client = McpClient::Modern(Endpoint::new(&gateway).source("up"));
    call(&client, "storm", &json!({"times": 3_000})).await;
    call(&client, "add", &json!({"uri": "b://"})).await;
    wait::until("the new resource", async || (uris(&client).await.len() == 2).then_some(())).await;
    let counts = call(&client, "state", &json!({})).await["counts"].clone();
    assert!(counts["resources/list"].as_u64() <= Some(5), "{counts}");
}
