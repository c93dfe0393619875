//! Servers that speak the transport HTTP+SSE of the revision 2024-11-05.

use std::{
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use airlock_tests::{peers, wait};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{
    npm::{everything, one_file},
    server::Server,
};

#[tokio::test]
async fn everything_over_sse_is_the_same_through_the_gateway() {
    let listening = peers::everything_over("sse").await;
    let server = Server::sse(format!("{}/sse", listening.address()));
    let seen = everything(server).compared(|| ()).await;
    assert_eq!(seen.names().len(), 13, "{:?}", seen.names());
    assert_eq!(seen.text(0), "Echo: hello");
}

#[tokio::test]
async fn a_hub_of_another_author_is_the_same_through_the_gateway() {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let home = temporary.path().canonicalize().expect("it exists");
    let files = home.join("files");
    one_file(&files);
    write_settings(&home, &files);
    let hub = peers::Listening::start(|port| hub(&home, port), "/api/health").await;
    let health = format!("{}/api/health", hub.address());
    let http = airlock::tls::client().no_proxy().build().expect("a client");
    wait::until("the hub to be connected to its own server", async || {
        let health: Value = http.get(&health).send().await.ok()?.json().await.ok()?;
        (health["servers"][0]["status"] == "connected").then_some(())
    })
    .await;
    // Its endpoint for clients has the path of streamable HTTP, and speaks HTTP+SSE alone.
    let note = files.join("note.txt");
    let server = Server::sse(format!("{}/mcp", hub.address()))
        .call("fs__read_text_file", json!({"path": note}))
        .call("fs__list_directory", json!({"path": files}));
    let seen = server.compared(|| ()).await;
    assert_eq!(seen.names().len(), 14, "{:?}", seen.names());
    assert_eq!(seen.text(0), "remember the milk\n");
}

/// Writes the configuration of a hub with one server, and a catalog, so that it asks nobody for one.
fn write_settings(home: &Path, files: &Path) {
    let server = json!({"command": peers::node_server("filesystem"), "args": [files]});
    fs::write(home.join("hub.json"), json!({"mcpServers": {"fs": server}}).to_string())
        .expect("it is a directory");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    let now = u64::try_from(now).expect("it has 64 bits for a while");
    let catalog = json!({"registry": {"servers": [{"id": "none"}]}, "lastFetchedAt": now, "serverDocumentation": {}});
    let cache = home.join("data/mcp-hub/cache");
    fs::create_dir_all(&cache).expect("it is a directory");
    fs::write(cache.join("registry.json"), catalog.to_string()).expect("it was created");
}

fn hub(home: &Path, port: u16) -> Command {
    let mut command = Command::new(peers::hub());
    command.args(["--port", &port.to_string(), "--config"]).arg(home.join("hub.json"));
    command.env("HOME", home).env("XDG_DATA_HOME", home.join("data"));
    command.env("XDG_STATE_HOME", home.join("state")).env("XDG_CONFIG_HOME", home.join("config"));
    command
}
