//! Clients that are added, changed and removed while gateways run.

use airlock_tests::{Client, Gateway, Setup, wait};
use serde_json::{Value, json};

use super::{SharedStore, setup};

const CLIENT: &str = "/api/mcp/client";

/// Returns the body for a server over stdio: the fake server of the tests, with one tool.
fn server(name: &str) -> Value {
    json!({
        "name": name,
        "connection_type": "stdio",
        "stdio_config": {"command": airlock_tests::binary("misbehaving-server"), "args": []},
        "tools_to_execute": ["*"],
    })
}

async fn echo(gateway: &Gateway, client: &str) -> u16 {
    gateway.execute(&format!("{client}-echo"), &json!({"text": "x"})).await.status
}

async fn until_status(gateway: &Gateway, client: &str, status: u16) {
    let awaited = format!("a call of {client} to have the status {status}");
    wait::until(&awaited, async || (echo(gateway, client).await == status).then_some(())).await;
}

#[tokio::test]
async fn a_client_that_one_gateway_adds_is_called_on_all_and_a_removed_one_on_none() {
    for store in SharedStore::all() {
        let first = setup(&store).serve_connected().await;
        let second = setup(&store).serve_connected().await;
        let added = first.post(CLIENT, &server("fresh")).await.ok();
        assert_eq!(added["message"], "MCP client connected successfully");
        assert_eq!(echo(&first, "fresh").await, 200, "it was connected before the response");
        until_status(&second, "fresh", 200).await;
        let again = first.post(CLIENT, &server("fresh")).await;
        assert_eq!(again.status, 409);
        // Only the lists change: the process stays.
        let narrowed = json!({"tools_to_execute": ["other"]});
        let _ = second.put(&format!("{CLIENT}/fresh"), &narrowed).await.ok();
        assert_ne!(echo(&second, "fresh").await, 200);
        let _ =
            second.put(&format!("{CLIENT}/fresh"), &json!({"tools_to_execute": ["*"]})).await.ok();
        until_status(&first, "fresh", 200).await;
        assert_eq!(first.delete(&format!("{CLIENT}/fresh")).await.status, 200);
        assert_ne!(echo(&first, "fresh").await, 200);
        let gone = wait::until("the second gateway to drop the client", async || {
            second.client("fresh").await.is_none().then_some(())
        });
        gone.await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_connect_or_is_not_valid_is_not_kept() {
    let store = &SharedStore::all()[0];
    let gateway = setup(store).serve_connected().await;
    let mut absent = server("absent");
    absent["stdio_config"]["command"] = "/nonexistent/program".into();
    let refused = gateway.post(CLIENT, &absent).await;
    let (status, message) = refused.refusal();
    assert!(status == 500 && message.starts_with("Failed to connect MCP client: "), "{message}");
    let mut unknown = server("other");
    unknown["tool_to_execute"] = json!(["*"]);
    let mut twice = server("text");
    twice["connection_type"] = "http".into();
    let mut secret = server("other");
    secret["connection_type"] = "http".into();
    secret["connection_string"] = "http://127.0.0.1:1/mcp".into();
    secret["headers"] = json!({"authorization": "Bearer hunter2-hunter2"});
    secret.as_object_mut().expect("an object").remove("stdio_config");
    for (body, status, words) in [
        (unknown, 400, "did you mean"),
        (twice, 409, "already"),
        (secret, 400, "store_key"),
        (json!({"connection_type": "stdio"}), 400, "name"),
        (json!([]), 400, "object"),
    ] {
        let refused = gateway.post(CLIENT, &body).await;
        let (found, message) = refused.refusal();
        assert!(found == status && message.contains(words), "{body}: {found} {message}");
        assert!(!refused.text.contains("hunter2"), "{message}");
    }
    assert!(gateway.client("absent").await.is_none());
    assert!(gateway.client("other").await.is_none());
    let fixed = gateway.put(&format!("{CLIENT}/text"), &json!({"connection_type": "http"})).await;
    assert_eq!(fixed.status, 400);
    assert_eq!(gateway.delete(&format!("{CLIENT}/nobody")).await.status, 404);
}

#[tokio::test]
async fn a_client_with_a_secret_is_kept_sealed_if_the_store_has_a_key() {
    const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    let store = &SharedStore::all()[0];
    let setup = setup(store).set("/store_key", "env.STORE_KEY_OF_THE_TEST");
    let gateway = setup.serve_with(&[("STORE_KEY_OF_THE_TEST", KEY)]).await;
    let mut client = server("sealed");
    client["stdio_config"]["envs"] = json!(["TOKEN=hunter2-hunter2"]);
    let _ = gateway.post(CLIENT, &client).await.ok();
    for path in ["/api/settings", "/api/changes", "/api/mcp/clients"] {
        let shown = gateway.get(path).await;
        assert!(!shown.text.contains("hunter2"), "{path}: {}", shown.text);
    }
    let directory = std::path::PathBuf::from(store.location());
    let directory = directory.parent().expect("a directory").to_owned();
    let setup = gateway.kill().await;
    for file in std::fs::read_dir(&directory).expect("a directory") {
        let bytes = std::fs::read(file.expect("a file").path()).expect("it can be read");
        assert!(!bytes.windows(7).any(|window| window == b"hunter2"), "the file has no secret");
    }
    let gateway = setup.serve_with(&[("STORE_KEY_OF_THE_TEST", KEY)]).await;
    gateway.connected("sealed").await;
}

#[tokio::test]
async fn a_client_of_the_file_is_disabled_and_enabled_by_the_api() {
    let store = &SharedStore::all()[0];
    let own =
        Client::stdio("own", airlock_tests::binary("misbehaving-server"), Vec::<String>::new());
    let setup: Setup = setup(store).client(own);
    let gateway = setup.serve_connected().await;
    assert_eq!(echo(&gateway, "own").await, 200);
    let _ = gateway.put(&format!("{CLIENT}/own"), &json!({"disabled": true})).await.ok();
    assert_ne!(echo(&gateway, "own").await, 200);
    let shown = gateway.client("own").await.expect("a disabled client is shown");
    assert_eq!(shown["phase"], "disabled");
    let _ = gateway.put(&format!("{CLIENT}/own"), &json!({"disabled": false})).await.ok();
    until_status(&gateway, "own", 200).await;
}
