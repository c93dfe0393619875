//! Operators, and the settings that they change while gateways run, on real gateways: on one store in a
//! file and on one in PostgreSQL.

mod bytes;
mod clients;
mod command;
mod curl;
mod elements;
mod keys;
mod limits;
mod new_keys;
mod operators;
mod plugins;

use airlock_test_postgres::TestDatabase;
use airlock_tests::{Client, Gateway, Setup, guests, wait};
use serde_json::{Value, json};

/// Path of the keys.
const KEYS: &str = "/api/governance/virtual-keys";

/// Places of a store that gateways share.
pub(crate) enum SharedStore {
    File(tempfile::TempDir),
    Server(TestDatabase),
}

impl SharedStore {
    /// Returns a file, and a database of PostgreSQL if there is a server for tests.
    pub(crate) fn all() -> Vec<Self> {
        let file = Self::File(tempfile::tempdir().expect("a directory"));
        [file].into_iter().chain(TestDatabase::create().map(Self::Server)).collect()
    }

    pub(crate) fn location(&self) -> String {
        match self {
            Self::File(directory) => directory.path().join("airlock.db").display().to_string(),
            Self::Server(database) => database.url(),
        }
    }
}

/// Returns the configuration of a gateway on this store with one plugin, which echoes.
fn setup(store: &SharedStore) -> Setup {
    Setup::new()
        .set("/store", store.location())
        .client(Client::wasm("text", guests::TEXT).auto(&["*"]))
}

/// Makes a virtual key for the plugin. Returns its value.
async fn make_key(gateway: &Gateway, name: &str) -> String {
    let rows = json!([{"mcp_client_name": "text", "tools_to_execute": ["*"]}]);
    let made = gateway.post(KEYS, &json!({"name": name, "mcp_configs": rows})).await.ok();
    made["virtual_key"]["value"].as_str().expect("the value is shown once").to_owned()
}

/// Returns the status of a request with this key.
async fn status_with(gateway: &Gateway, key: &str) -> u16 {
    let request = gateway.request(reqwest::Method::GET, "/v1/models").header("x-bf-vk", key);
    request.send().await.expect("a response").status().as_u16()
}

/// Waits until a request with this key has this status.
async fn until_status(gateway: &Gateway, key: &str, status: u16) {
    let awaited = format!("a request with the key to have the status {status}");
    wait::until(&awaited, async || (status_with(gateway, key).await == status).then_some(())).await;
}

/// Returns the texts of an array of a document.
fn texts<'d>(document: &'d Value, array: &str, member: &str) -> Vec<&'d str> {
    let elements = document[array].as_array().expect("an array");
    elements.iter().filter_map(|element| element[member].as_str()).collect()
}
