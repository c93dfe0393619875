//! Notifications of changed lists and resources, in both eras.

use airlock_tests::{
    Gateway, Setup,
    mcp::{Endpoint, Messages},
    wait,
};
use serde_json::{Value, json};

use super::{McpClient, call, scripted};

const UPDATED: &str = "notifications/resources/updated";
const CHANGED: &str = "notifications/resources/list_changed";

async fn gateway() -> Gateway {
    let config = json!({"resources": ["memo://a", "memo://b"], "prompts": ["p"]});
    Setup::new().client(scripted("up", &config)).serve_connected().await
}

/// Returns the resources that the gateway has subscribed to at the server.
async fn subscribed(client: &McpClient) -> Value {
    call(client, "up-state", &json!({})).await["subscribed"].clone()
}

async fn until_subscribed(client: &McpClient, expected: &[&str]) {
    wait::until("the server to know of the subscriptions", async || {
        (subscribed(client).await == json!(expected)).then_some(())
    })
    .await;
}

async fn next(stream: &mut Messages, method: &str) -> Value {
    let message = stream.next().await.expect("a notification");
    assert_eq!(message["method"], method, "{message}");
    message["params"].clone()
}

async fn listen(endpoint: &Endpoint, wanted: Value) -> (Messages, Value) {
    let request = endpoint.modern("subscriptions/listen", json!({"notifications": wanted}));
    let mut stream = request.stream().await;
    let accepted = next(&mut stream, "notifications/subscriptions/acknowledged").await;
    (stream, accepted["notifications"].clone())
}

#[tokio::test]
async fn a_change_reaches_those_who_subscribed_in_either_era_and_no_one_else() {
    let gateway = gateway().await;
    let endpoint = Endpoint::new(&gateway);
    let tools = McpClient::Modern(endpoint.clone());
    let session = endpoint.session().await;
    let mut get = session.listen().stream().await;
    let empty = session.request("resources/subscribe", json!({"uri": "airlock://up/memo://a"}));
    assert_eq!(empty.result().await, json!({}));
    let wanted =
        json!({"resourceSubscriptions": ["memo://a", "none://"], "promptsListChanged": true});
    let (mut modern, accepted) = listen(&endpoint, wanted).await;
    assert_eq!(
        accepted,
        json!({"promptsListChanged": true, "resourceSubscriptions": ["memo://a"]})
    );
    until_subscribed(&tools, &["memo://a"]).await;
    call(&tools, "up-touch", &json!({"uri": "memo://b"})).await;
    call(&tools, "up-touch", &json!({"uri": "memo://a"})).await;
    assert_eq!(next(&mut get, UPDATED).await, json!({"uri": "airlock://up/memo://a"}));
    let found = next(&mut modern, UPDATED).await;
    assert_eq!(
        (&found["uri"], &found["_meta"]["io.modelcontextprotocol/subscriptionId"]),
        (&json!("memo://a"), &json!(1))
    );
    let ended = session.request("resources/unsubscribe", json!({"uri": "airlock://up/memo://a"}));
    assert_eq!(ended.result().await, json!({}));
    drop(modern);
    until_subscribed(&tools, &[]).await;
}

#[tokio::test]
async fn a_changed_list_is_announced_in_both_eras() {
    let gateway = gateway().await;
    let endpoint = Endpoint::new(&gateway);
    let tools = McpClient::Modern(endpoint.clone());
    let session = endpoint.session().await;
    session.request("resources/list", json!({})).result().await;
    let mut get = session.listen().stream().await;
    let (mut modern, _) = listen(&endpoint, json!({"resourcesListChanged": true})).await;
    call(&tools, "up-add", &json!({"uri": "memo://c"})).await;
    next(&mut get, CHANGED).await;
    next(&mut modern, CHANGED).await;
    let listed = session.request("resources/list", json!({})).result().await;
    assert_eq!(listed["resources"].as_array().map(Vec::len), Some(3), "{listed}");
}

#[tokio::test]
async fn subscriptions_of_a_session_and_of_a_stream_are_bounded() {
    let gateway = gateway().await;
    let endpoint = Endpoint::new(&gateway);
    let tools = McpClient::Modern(endpoint.clone());
    let session = endpoint.session().await;
    let uri = |n: usize| format!("airlock://up/memo://{n}");
    for n in 0..64 {
        session.request("resources/subscribe", json!({"uri": uri(n)})).result().await;
    }
    session.request("resources/subscribe", json!({"uri": uri(0)})).result().await;
    let beyond = session.request("resources/subscribe", json!({"uri": uri(64)})).error().await;
    assert_eq!(beyond["code"], -32000, "{beyond}");
    let many: Vec<String> = (0..65).map(uri).collect();
    let wanted = json!({"notifications": {"resourceSubscriptions": many}});
    let refused = endpoint.modern("subscriptions/listen", wanted).error().await;
    assert_eq!(refused["code"], -32602, "{refused}");
    // A session that ends takes its subscriptions along.
    session.delete().reply().await;
    until_subscribed(&tools, &[]).await;
}
