//! The store on a server of PostgreSQL: several gateways share it, and a file moves there.

use std::fs;

use airlock_test_postgres::TestDatabase;
use airlock_tests::{Client, Gateway, Setup, guests, wait};
use serde_json::{Value, json};

/// Variable with the URL of the database.
const VARIABLE: &str = "STORE_OF_THE_TEST";

/// Returns a gateway with a plugin that stores notes in this database.
fn setup(store: &str) -> Setup {
    let grants = json!({"kv": {"notes": {"max_bytes": "64KiB"}}, "clocks": true});
    let notes = Client::wasm("notes", guests::NOTES).set("/wasm_config/grants", grants);
    Setup::new().set("/store", store).client(notes)
}

/// Adds a note.
async fn add(gateway: &Gateway, title: &str) {
    let note = json!({"title": title, "text": "x", "tags": []});
    let added = gateway.execute("notes-add_note", &note).await.content();
    assert!(added.contains(title), "{added}");
}

/// Returns the titles in a list of notes, sorted.
fn titles(listed: &str) -> Vec<String> {
    let listed: Value = serde_json::from_str(listed).expect("JSON");
    let notes = listed["notes"].as_array().expect("a list");
    let titles = notes.iter().filter_map(|note| note["title"].as_str());
    let mut titles: Vec<_> = titles.map(ToOwned::to_owned).collect();
    titles.sort();
    titles
}

#[tokio::test]
async fn gateways_on_one_server_share_what_is_stored_and_a_killed_one_loses_nothing() {
    let Some(database) = TestDatabase::create() else { return };
    let url = database.url();
    let variables = [(VARIABLE, url.as_str())];
    let shared = format!("env.{VARIABLE}");
    let first = setup(&shared).serve_with(&variables).await;
    let second = setup(&shared).serve_with(&variables).await;
    first.connected("notes").await;
    second.connected("notes").await;
    add(&first, "from the first").await;
    add(&second, "from the second").await;
    first.kill().await;
    let listed = second.execute("notes-list_notes", &json!({})).await.content();
    assert_eq!(titles(&listed), ["from the first", "from the second"]);
}

#[tokio::test]
async fn a_file_is_copied_to_a_server_that_is_empty_and_the_gateway_goes_on_there() {
    let Some(database) = TestDatabase::create() else { return };
    let gateway = setup("own.db").serve_connected().await;
    add(&gateway, "moved").await;
    let setup = gateway.kill().await;

    let copy = setup.airlock("store").arg("copy").arg(format!("env.{VARIABLE}")).arg("--json");
    let copied = copy.env(VARIABLE, database.url()).run().await.ok().json();
    assert!(copied["rows"].as_u64().is_some_and(|rows| rows > 0), "{copied}");
    let again = setup.airlock("store").arg("copy").arg(database.url()).run().await.failed();
    assert!(again.stderr.contains("is not empty"), "{again}");

    let moved = setup.set("/store", database.url()).serve_connected().await;
    let listed = moved.execute("notes-list_notes", &json!({})).await.content();
    assert_eq!(titles(&listed), ["moved"]);
}

#[tokio::test]
async fn a_migration_is_shown_before_it_is_made() {
    let Some(database) = TestDatabase::create() else { return };
    for store in [database.url(), "own.db".to_owned()] {
        let setup = Setup::new().set("/store", store);
        let check = async || setup.airlock("store").arg("migrate").arg("--check").run().await;
        let due = check().await;
        assert_eq!(due.code, Some(1), "{due}");
        assert!(due.stdout.contains("has no tables, and has to be migrated"), "{due}");
        let migrate = setup.airlock("store").arg("migrate").arg("--json");
        let migrated = migrate.run().await.ok().json();
        assert_eq!((&migrated["found"], &migrated["migrated"]), (&Value::Null, &json!(true)));
        let done = check().await.ok();
        assert!(done.stdout.contains("which this version uses"), "{done}");
    }
}

/// Waits until the log of a gateway has a text.
async fn logged(gateway: &Gateway, text: &str) {
    wait::until(text, async || gateway.said().contains(text).then_some(())).await;
}

#[tokio::test]
async fn an_outage_of_the_store_is_logged_when_it_begins_and_when_it_is_over() {
    let setup = Setup::new();
    let store = setup.directory().join("own.db");
    fs::create_dir(&store).expect("a directory in the place of the file");
    let setup = setup.set("/store", store.display().to_string());
    let gateway = setup.listen_with(&[]).await;
    logged(&gateway, "the operators of the store cannot be read").await;
    logged(&gateway, "the store cannot be read, so none").await;
    fs::remove_dir(&store).expect("removed");
    logged(&gateway, "the operators of the store are read again").await;
    logged(&gateway, "the configuration file and the store are read again").await;
    let said = gateway.said();
    assert_eq!(said.matches("the operators of the store cannot be read").count(), 1, "{said}");
}

#[tokio::test]
async fn a_server_that_is_away_is_named_without_its_password() {
    let away = "postgres://ann:hunter2@127.0.0.1:1/airlock";
    for arguments in [["store", "migrate"].as_slice(), &["check"]] {
        let setup = Setup::new().set("/store", away);
        let (subcommand, rest) = arguments.split_first().expect("one at least");
        let mut run = setup.airlock(subcommand);
        for argument in rest {
            run = run.arg(argument);
        }
        let failed = run.run().await.failed();
        assert!(failed.stderr.contains("127.0.0.1:1"), "{failed}");
        assert!(!failed.to_string().contains("hunter2"), "{failed}");
    }
}

#[tokio::test]
async fn secrets_are_sealed_anew_only_with_a_key_of_the_configuration() {
    let setup = Setup::new();
    let failed = setup.airlock("store").arg("rekey").run().await.failed();
    assert!(failed.stderr.contains("has no `store_key`"), "{failed}");
}
