//! Places of a store, each with two gateways on it.

use std::time::Duration;

use airlock_test_postgres::TestServer;
use airlock_tests::{
    Client, Gateway, Setup,
    bench::far,
    guests,
    mcp::{Endpoint, McpSession},
};
use serde_json::{Value, json};

/// A place of a store, and two gateways on it.
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) gateway: Gateway,
    /// A session of an MCP client at `gateway`.
    pub(crate) session: McpSession,
    /// The same session, reached through the other gateway.
    pub(crate) forwarded: McpSession,
    _other: Gateway,
    _directory: tempfile::TempDir,
    _server: Option<TestServer>,
}

impl Place {
    /// Starts gateways on every kind of store: a file, and, where it is installed, `PostgreSQL`, near and
    /// one `round_trip` away.
    pub(crate) async fn all(round_trip: Duration) -> Vec<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("airlock.db").display().to_string();
        let mut places = vec![Self::start("file", directory, file, None).await];
        for (name, distance) in [("PostgreSQL", None), ("PostgreSQL, 1 ms away", Some(round_trip))]
        {
            let Some(server) = TestServer::start_tcp(None) else { continue };
            let port = distance.map_or(server.port(), |time| far::delayed(server.port(), time));
            let url = format!("postgres://airlock@127.0.0.1:{port}/postgres?sslmode=disable");
            let directory = tempfile::tempdir().expect("a directory");
            places.push(Self::start(name, directory, url, Some(server)).await);
        }
        places
    }

    async fn start(
        name: &'static str,
        directory: tempfile::TempDir,
        store: String,
        server: Option<TestServer>,
    ) -> Self {
        let gateway = setup(&store).serve_connected().await;
        let other = setup(&store).serve_connected().await;
        let session = Endpoint::new(&gateway).session().await;
        let forwarded = session.named_by(&Endpoint::new(&other));
        let note = json!({"title": "Milk"});
        let added = gateway.execute("notes-add_note", &note).await.ok();
        assert_ne!(added["is_error"], true, "{added}");
        Self {
            name,
            gateway,
            session,
            forwarded,
            _other: other,
            _directory: directory,
            _server: server,
        }
    }
}

fn setup(store: &str) -> Setup {
    let grants = json!({"kv": {"notes": {"max_bytes": "64MiB"}}, "clocks": true});
    let notes = Client::wasm("notes", guests::NOTES).set("/wasm_config/grants", grants);
    Setup::new()
        .set("/store", store)
        .set("/server/require_virtual_key", false)
        .set("/server/replica_url", "http://127.0.0.1:0")
        .scripted("scripted", &model())
        .client(Client::wasm("text", guests::TEXT).auto(&["*"]).code_mode())
        .client(notes.auto(&["*"]))
}

/// Returns a model that always says the same.
fn model() -> Value {
    json!({"turns": [{"when": {"role": "user"}, "answer": {"content": "ok"}}]})
}
