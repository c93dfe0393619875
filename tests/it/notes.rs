//! Stored data of a plugin: it outlives the gateway, and other plugins cannot read it.

use std::path::Path;

use airlock_tests::{Client, Setup, guests};
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
