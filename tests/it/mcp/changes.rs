//! Notifications of a changed list of tools: each client receives one if its own list has changed.

use airlock_tests::{
    Gateway, Setup,
    mcp::{Endpoint, McpSession, Messages},
};
use serde_json::{Value, json};

use super::{ANN, Changing};

const CHANGED: &str = "notifications/tools/list_changed";

fn subscription(endpoint: &Endpoint, wanted: &Value) -> airlock_tests::mcp::McpRequest {
    endpoint.modern("subscriptions/listen", json!({"notifications": wanted}))
}

/// Opens a modern subscription and reads its acknowledgment.
async fn subscribed(endpoint: &Endpoint) -> Messages {
    let wanted = json!({"toolsListChanged": true});
    let mut stream = subscription(endpoint, &wanted).stream().await;
    let first = stream.next().await.expect("an acknowledgment");
    assert_eq!(first["params"]["notifications"], wanted, "{first}");
    stream
}

/// Opens a session that has listed its tools, and its stream of notifications.
async fn listening(endpoint: &Endpoint) -> (McpSession, Messages) {
    let session = endpoint.session().await;
    session.request("tools/list", json!({})).result().await;
    let stream = session.listen().stream().await;
    (session, stream)
}

/// Waits for the next notification, which must be of a change.
async fn changed(stream: &mut Messages) -> Value {
    let message = stream.next().await.expect("a notification");
    assert_eq!(message["method"], CHANGED, "{message}");
    message
}

/// Returns the number of changes in what is left of a stream.
async fn changes(stream: Messages) -> usize {
    stream.rest().await.iter().filter(|message| message["method"] == CHANGED).count()
}

/// Starts a gateway with one plugin, of which Ann's key has the tool `run`.
async fn with_a_plugin() -> (Changing, Gateway) {
    let setup = Setup::new().set("/server/require_virtual_key", false);
    let (plugin, client) = Changing::new(&setup, "guest");
    let setup = setup.client(client).key("ann", ANN, &[("guest", &["run"])]);
    (plugin, setup.serve_connected().await)
}

/// Returns a client that sees the tool `run` only.
fn narrowed(endpoint: &Endpoint) -> Endpoint {
    endpoint.clone().header("x-bf-mcp-include-tools", "guest-run")
}

/// Makes two changes of tools that only the witness sees. Afterwards all others have been sent what
/// was due before: notifications of one stream wait for each other, but no longer than those two.
async fn settle(plugin: &Changing, gateway: &Gateway, run: &str, witness: &mut Messages) {
    for late in ["One.", "Two."] {
        plugin.reload(gateway, &[("run", run), ("late", late)]).await;
        changed(witness).await;
    }
}

#[tokio::test]
async fn only_clients_whose_own_list_has_changed_are_notified() {
    let (plugin, gateway) = with_a_plugin().await;
    let all = Endpoint::new(&gateway);
    let (_session, mut wide_get) = listening(&all).await;
    let mut wide = subscribed(&all).await;
    let mut narrow = Vec::new();
    for endpoint in [all.clone().key(ANN), narrowed(&all)] {
        let (session, stream) = listening(&endpoint).await;
        narrow.push((Some(session), stream));
        narrow.push((None, subscribed(&endpoint).await));
    }
    // A new tool, which the narrow clients do not see, and its changes.
    settle(&plugin, &gateway, "Misbehaves.", &mut wide).await;
    for _ in 0..2 {
        changed(&mut wide_get).await;
    }
    for client in all.both().await {
        assert_eq!(client.names().await, ["guest-late", "guest-run"], "{client:?}");
    }
    // A new description of a tool that they see.
    plugin.reload(&gateway, &[("run", "Changed."), ("late", "Two.")]).await;
    changed(&mut wide).await;
    for (_, stream) in &mut narrow {
        changed(stream).await;
    }
    settle(&plugin, &gateway, "Changed.", &mut wide).await;
    gateway.terminate();
    for (_, stream) in narrow {
        assert_eq!(changes(stream).await, 0, "a change that the client does not see was notified");
    }
    // Changes in quick succession may count as one.
    let counted = (changes(wide).await, changes(wide_get).await);
    assert!(matches!(counted, (0, 2 | 3)), "{counted:?}");
    gateway.ended().await;
}

#[tokio::test]
async fn a_plugin_whose_file_is_replaced_is_loaded_and_notified_without_a_request() {
    let (plugin, gateway) = with_a_plugin().await;
    let endpoint = Endpoint::new(&gateway).source("guest");
    let (session, mut get) = listening(&endpoint).await;
    let mut modern = subscribed(&endpoint).await;
    plugin.replace(&[("run", "Misbehaves."), ("late", "New.")]);
    changed(&mut get).await;
    let notified = changed(&mut modern).await;
    let id = &notified["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(id, &json!(1), "{notified}");
    let tools = session.request("tools/list", json!({})).result().await;
    assert_eq!(tools["tools"].as_array().map(Vec::len), Some(2), "{tools}");
}

#[tokio::test]
async fn a_change_while_no_stream_was_open_is_notified_on_the_next_one() {
    let (plugin, gateway) = with_a_plugin().await;
    let mut witness = subscribed(&Endpoint::new(&gateway)).await;
    let (session, stream) = listening(&narrowed(&Endpoint::new(&gateway))).await;
    drop(stream);
    // A stream whose end is not noticed yet would be sent the change.
    super::wait_for_streams(&gateway, 1).await;
    plugin.reload(&gateway, &[("run", "Changed.")]).await;
    changed(&mut witness).await;
    let mut stream = session.listen().stream().await;
    changed(&mut stream).await;
    // It knows of the change now, and only another one is news.
    drop(stream);
    let mut stream = session.listen().stream().await;
    plugin.reload(&gateway, &[("run", "Changed again.")]).await;
    changed(&mut witness).await;
    changed(&mut stream).await;
    settle(&plugin, &gateway, "Changed again.", &mut witness).await;
    drop(witness);
    gateway.terminate();
    assert_eq!(changes(stream).await, 0);
    gateway.ended().await;
}

#[tokio::test]
async fn of_two_streams_of_one_session_one_is_notified() {
    let (plugin, gateway) = with_a_plugin().await;
    let mut witness = subscribed(&Endpoint::new(&gateway)).await;
    let (session, mut first) = listening(&narrowed(&Endpoint::new(&gateway))).await;
    let mut second = session.listen().stream().await;
    plugin.reload(&gateway, &[("run", "Changed.")]).await;
    changed(&mut witness).await;
    changed(&mut second).await;
    settle(&plugin, &gateway, "Changed.", &mut witness).await;
    // Once the newest stream is gone, the other one takes its place.
    drop(second);
    super::wait_for_streams(&gateway, 2).await;
    plugin.reload(&gateway, &[("run", "Changed again."), ("late", "Two.")]).await;
    changed(&mut witness).await;
    changed(&mut first).await;
    settle(&plugin, &gateway, "Changed again.", &mut witness).await;
    drop(witness);
    gateway.terminate();
    assert_eq!(changes(first).await, 0);
    gateway.ended().await;
}

#[tokio::test]
async fn a_subscription_to_nothing_is_acknowledged_so_and_receives_nothing() {
    let (plugin, gateway) = with_a_plugin().await;
    let endpoint = Endpoint::new(&gateway);
    let mut witness = subscribed(&endpoint).await;
    let mut streams = Vec::new();
    for wanted in
        [json!({}), json!({"toolsListChanged": false}), json!({"promptsListChanged": true})]
    {
        let mut stream = subscription(&endpoint, &wanted).stream().await;
        let first = stream.next().await.expect("an acknowledgment");
        assert_eq!(first["params"]["notifications"], json!({}), "{first}");
        streams.push(stream);
    }
    plugin.reload(&gateway, &[("run", "Changed.")]).await;
    changed(&mut witness).await;
    gateway.terminate();
    for stream in streams {
        let rest = stream.rest().await;
        assert!(rest.len() == 1 && rest[0]["result"]["resultType"] == "complete", "{rest:?}");
    }
    drop(witness);
    gateway.ended().await;
}

#[tokio::test]
async fn a_subscription_without_notifications_is_refused() {
    let (_plugin, gateway) = with_a_plugin().await;
    let endpoint = Endpoint::new(&gateway);
    for params in [json!({}), json!({"notifications": []}), json!({"notifications": "tools"})] {
        let error = endpoint.modern("subscriptions/listen", params.clone()).error().await;
        assert_eq!(error["code"], -32602, "{params}");
    }
    super::wait_for_streams(&gateway, 0).await;
}
