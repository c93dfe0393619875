//! Stored data of a plugin: it outlives the gateway, and other plugins cannot read it.

use std::path::Path;

use airlock_tests::{Airlock, Client, Gateway, Reply, Setup, guests};
use serde_json::{Value, json};

/// Returns a gateway of two plugins that differ only in their names, with this database.
fn setup(database: &Path) -> Setup {
    let client = |name| {
        let grants = json!({"kv": {"notes": {"max_bytes": "64KiB"}}, "clocks": true});
        Client::wasm(name, guests::NOTES).set("/wasm_config/grants", grants)
    };
    Setup::new()
        .set("/store", database.to_str().expect("a path in UTF-8"))
        .client(client("notes"))
        .client(client("others"))
}

fn ids(listed: &Value) -> Vec<u64> {
    let notes = listed["notes"].as_array().expect("a list");
    notes.iter().filter_map(|note| note["id"].as_u64()).collect()
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[tokio::test]
async fn a_note_outlives_the_gateway_and_is_visible_to_every_process_and_to_no_other_plugin() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let database = directory.path().join("kept/airlock.db");

    let gateway = setup(&database).serve_connected().await;
    let arguments =
        json!({"title": "Bergen", "text": "The boat leaves at nine.", "tags": ["Travel"]});
    let added = read(&gateway.execute("notes-add_note", &arguments).await.content());
    assert_eq!((&added["id"], &added["tags"]), (&json!(1), &json!(["travel"])));
    assert!(
        added["created"].as_str().is_some_and(|created| created.ends_with('Z')),
        "there is a clock: {added}"
    );
    gateway.terminate();
    gateway.ended().await;

    let gateway = setup(&database).serve_connected().await;
    let found = read(
        &gateway.execute("notes-search_notes", &json!({"query": "BOAT nine"})).await.content(),
    );
    assert_eq!(found["hits"][0]["excerpt"], "The boat leaves at nine.", "{found}");
    assert_eq!(
        ids(&read(&gateway.execute("others-list_notes", &json!({})).await.content())),
        [0_u64; 0]
    );

    // From another process, while the first one runs.
    let updated = setup(&database)
        .call("notes-update_note", &json!({"id": 1, "append": "From pier two."}))
        .await;
    assert!(updated.to_string().contains("Bergen"), "{updated}");
    let text = gateway.execute("notes-read_note", &json!({"id": 1})).await.content();
    assert!(text.ends_with("The boat leaves at nine.\nFrom pier two."), "{text}");
}

#[tokio::test]
async fn a_full_store_is_reported_and_a_deletion_makes_room() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let gateway = setup(&directory.path().join("airlock.db")).serve_connected().await;
    let note = json!({"title": "large", "text": "x".repeat(30_000)});
    let add = async || gateway.execute("notes-add_note", &note).await;
    assert_eq!(
        (read(&add().await.content())["id"].clone(), read(&add().await.content())["id"].clone()),
        (json!(1), json!(2))
    );
    let refused = add().await;
    assert!(refused.text.contains("the store is full; delete something first"), "{}", refused.text);
    let deleted = gateway.execute("notes-delete_note", &json!({"id": 1})).await.content();
    assert_eq!(read(&deleted), json!({"id": 1, "title": "large"}));
    // The id of the note that did not fit is not used again.
    assert_eq!(read(&add().await.content())["id"], 4);
    assert_eq!(
        ids(&read(&gateway.execute("notes-list_notes", &json!({})).await.content())),
        [4, 2]
    );
}

const ANN: &str = "sk-bf-ann-0123456789abcdef";
const BOB: &str = "sk-bf-bob-0123456789abcdef";

/// Returns a gateway of one plugin with this grant of its store, for two keys.
fn for_two_keys(database: &Path, grant: &Value) -> Setup {
    let rows: &[(&str, &[&str])] = &[("notes", &["*"])];
    let client = Client::wasm("notes", guests::NOTES)
        .set("/wasm_config/grants", json!({"kv": {"notes": grant}}));
    Setup::new()
        .set("/store", database.to_str().expect("a path in UTF-8"))
        .set("/server/require_virtual_key", false)
        .client(client)
        .key("ann", ANN, rows)
        .key("bob", BOB, rows)
}

async fn call(gateway: &Gateway, key: &str, tool: &str, arguments: &Value) -> Reply {
    gateway.execute_with(&[("x-bf-vk", key)], tool, arguments).await
}

async fn list(gateway: &Gateway, key: &str) -> Vec<u64> {
    ids(&read(&call(gateway, key, "notes-list_notes", &json!({})).await.content()))
}

#[tokio::test]
async fn each_key_has_its_own_notes_and_quota_unless_the_grant_shares_the_store() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let database = directory.path().join("airlock.db");
    let note = json!({"title": "large", "text": "x".repeat(30_000)});
    let size = |shared: bool| json!({"max_bytes": "64KiB", "shared": shared});

    let gateway = for_two_keys(&database, &size(false)).serve_connected().await;
    for _ in 0..2 {
        drop(call(&gateway, ANN, "notes-add_note", &note).await.ok());
    }
    let full = call(&gateway, ANN, "notes-add_note", &note).await;
    assert!(full.text.contains("the store is full"), "{}", full.text);
    assert_eq!(list(&gateway, BOB).await, [0_u64; 0]);
    let other = call(&gateway, BOB, "notes-read_note", &json!({"id": 1})).await;
    assert!(!other.text.contains("xxx"), "{}", other.text);
    let deleted = call(&gateway, BOB, "notes-delete_note", &json!({"id": 1})).await;
    assert!(!deleted.text.contains("large"), "{}", deleted.text);
    drop(call(&gateway, BOB, "notes-add_note", &note).await.ok());
    assert_eq!((list(&gateway, ANN).await, list(&gateway, BOB).await), (vec![2, 1], vec![1]));
    gateway.terminate();
    gateway.ended().await;

    let gateway = for_two_keys(&database, &size(true)).serve_connected().await;
    drop(call(&gateway, ANN, "notes-add_note", &note).await.ok());
    assert_eq!((list(&gateway, ANN).await, list(&gateway, BOB).await), (vec![1], vec![1]));
}

#[tokio::test]
async fn the_store_of_a_key_that_an_operator_made_is_listed_with_the_name_of_the_key() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let gateway = setup(&directory.path().join("airlock.db")).serve_connected().await;
    let row = json!({"mcp_client_name": "notes", "tools_to_execute": ["*"]});
    let wanted = json!({"name": "ann", "mcp_configs": [row]});
    let made = gateway.post("/api/governance/virtual-keys", &wanted).await.ok();
    let key = made["virtual_key"]["value"].as_str().expect("a value");
    drop(call(&gateway, key, "notes-add_note", &json!({"title": "of ann"})).await.ok());
    let config = gateway.directory().join("airlock.json");
    let list =
        ["plugin", "store", "--json", "--config"].into_iter().fold(Airlock::new(), Airlock::arg);
    let listed = list.arg(config).run().await.ok().json();
    assert_eq!(listed["stores"][0]["holder"], "key:ann", "{listed}");
}

#[tokio::test]
async fn notes_of_an_older_version_wait_for_the_operators_choice_of_a_holder() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let database = directory.path().join("airlock.db");
    let gateway = for_two_keys(&database, &json!({})).serve_connected().await;
    let note = json!({"title": "old", "text": "of all keys"});
    drop(call(&gateway, ANN, "notes-add_note", &note).await.ok());
    gateway.terminate();
    gateway.ended().await;
    let forget = || {
        let file = rusqlite::Connection::open(&database).expect("a database");
        let changed = file.execute("UPDATE kv_store SET holder = NULL", ()).expect("a store");
        assert_eq!(changed, 1);
    };
    forget();

    let setup = for_two_keys(&database, &json!({}));
    let checked = setup.airlock("check").run().await.failed();
    let command = "airlock plugin store notes notes --to key:NAME";
    assert!(checked.stderr.contains(command), "{checked}");
    let gateway = setup.serve().await;
    let failed = gateway.in_state("notes", "error").await;
    assert!(failed.to_string().contains(command), "{failed}");
    let setup = gateway.kill().await;

    let moved = ["plugin", "store", "notes", "notes", "--to", "key:ann", "--config"];
    let moved = moved.into_iter().fold(Airlock::new(), Airlock::arg).arg(setup.write());
    drop(moved.run().await.ok());
    drop(setup.airlock("check").run().await.ok());
    let gateway = setup.serve_connected().await;
    assert_eq!((list(&gateway, ANN).await, list(&gateway, BOB).await), (vec![1], vec![]));
    gateway.terminate();
    gateway.ended().await;

    // To share the store is a choice too.
    forget();
    let gateway = for_two_keys(&database, &json!({"shared": true})).serve_connected().await;
    assert_eq!((list(&gateway, ANN).await, list(&gateway, BOB).await), (vec![1], vec![1]));
    gateway.terminate();
    gateway.ended().await;

    // So is to delete it, which nothing but the option does.
    let setup = for_two_keys(&database, &json!({}));
    let change = |options: &[&str]| {
        let words =
            ["plugin", "store", "notes", "notes"].into_iter().chain(options.iter().copied());
        words.fold(Airlock::new(), Airlock::arg).arg("--config").arg(setup.write()).run()
    };
    let kept = change(&["--from", "shared", "--to", "unassigned"]).await.failed();
    assert!(kept.stderr.contains("--delete deletes the store"), "{kept}");
    forget();
    drop(change(&["--delete"]).await.ok());
    drop(setup.airlock("check").run().await.ok());
    let gone = change(&["--delete"]).await.failed();
    assert!(gone.stderr.contains("its holders are: none"), "{gone}");
}
