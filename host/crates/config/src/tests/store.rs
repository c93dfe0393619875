//! `store`, and the keys that secrets in it are sealed with.

use super::*;
use airlock_core::secret::Secret;
use airlock_store::Location;

fn location(store: &str) -> Location {
    good(&json!({"store": store})).store
}

#[test]
fn a_path_is_relative_to_the_file_and_a_url_names_a_server() {
    let beside = good(&json!({})).store;
    assert_eq!(beside.path(), Some(Path::new("/etc/airlock/airlock.db")));
    assert_eq!(location("kept/a.db").path(), Some(Path::new("/etc/airlock/kept/a.db")));
    assert_eq!(location("/var/a.db").path(), Some(Path::new("/var/a.db")));
    let server = location("postgres://ann:hunter2@db.test/airlock");
    assert!(server.path().is_none());
    let shown = format!("{server} {server:?}");
    assert!(shown.contains("db.test") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_store_that_cannot_be_used_is_refused_without_its_text() {
    assert_snapshot!(error(&json!({"store": "mysql://ann:hunter2@db.test/airlock"})), @"store: a store is a path or a URL that begins with postgres://, and not mysql://");
    assert_snapshot!(error(&json!({"store": ""})), @"store: is empty");
    assert_snapshot!(error(&json!({"store": "env.MISSING"})), @"store: the environment variable MISSING is not set");
    let plain = "postgres://ann:hunter2@db.test/airlock?sslmode=prefer";
    assert_snapshot!(error(&json!({"store": plain})), @"store: sslmode=prefer is not supported: it uses plain text if an attacker or the server refuses TLS; use verify-full, or disable for plain text");
}

#[test]
fn a_pooler_needs_the_url_of_its_server_and_both_are_urls() {
    let store = "postgres://ann:hunter2@pool.test/airlock";
    let direct = "postgres://ann:hunter2@db.test/airlock";
    let pooled = good(&json!({"store": store, "store_listen_url": direct})).store;
    let shown = format!("{pooled} {pooled:?}");
    assert!(shown.contains("pool.test") && !shown.contains("hunter2"), "{shown}");
    assert_snapshot!(error(&json!({"store_listen_url": direct})), @"store_listen_url: needs a `store` that begins with postgres://");
    let file = json!({"store": store, "store_listen_url": "airlock.db"});
    assert_snapshot!(error(&file), @"store_listen_url: expected a URL that begins with postgres://");
    let unset = json!({"store": store, "store_listen_url": "env.MISSING"});
    assert_snapshot!(error(&unset), @"store_listen_url: the environment variable MISSING is not set");
}

#[test]
fn keys_that_secrets_are_sealed_with_come_from_the_environment_or_a_file() {
    assert_eq!(good(&json!({})).store_seal, None);
    let file =
        json!({"store_key": "env.GOOD", "store_old_keys": [{"file": "old.key"}, "env.GOOD2"]});
    let config = good(&file);
    let old_key = Path::new("/etc/airlock/old.key");
    let old_keys = vec![SealKeySource::File(old_key.to_owned()), text("GOOD2")];
    assert_eq!(config.store_seal, Some(StoreSeal { key: text("GOOD"), old_keys }));
    let unreadable = config.own_files(Path::new("gateway.json")).unreadable;
    assert!(unreadable.iter().any(|path| path == old_key), "{unreadable:?}");
}

fn text(variable: &str) -> SealKeySource {
    SealKeySource::Text(Secret::new(format!("{SECRET}-{variable}")))
}

#[test]
fn a_key_for_secrets_is_not_written_in_the_file_and_has_few_predecessors() {
    let written = json!({"store_key": SECRET, "store_old_keys": [7, {"path": "x"}]});
    assert_snapshot!(error(&written), @r#"
    store_key: expected "env.NAME" or {"file": "PATH"}; the key itself is never written here
    store_old_keys[0]: expected "env.NAME" or {"file": "PATH"}, found 7
    store_old_keys[1].path: unknown key; valid here are file
    store_old_keys[1].file: is required, but missing
    "#);
    let old_keys = json!([{"file": "old.key"}]);
    assert_snapshot!(error(&json!({"store_old_keys": old_keys})), @r#"
    store_old_keys: needs `store_key` beside it
    "#);
    let without_values = json!({"store_key": {"file": ""}, "store_old_keys": ["env.UNSET"]});
    assert_snapshot!(error(&without_values), @r#"
    store_old_keys[0]: the environment variable UNSET is not set
    store_key.file: is empty
    "#);
    let eight = vec!["env.GOOD"; 8];
    let seal = good(&json!({"store_key": "env.GOOD", "store_old_keys": eight})).store_seal;
    assert_eq!(seal.map(|seal| seal.old_keys.len()), Some(8));
    let nine = vec!["env.GOOD"; 9];
    assert_snapshot!(error(&json!({"store_key": "env.GOOD", "store_old_keys": nine})), @r#"
    store_old_keys: has more than 8 entries
    "#);
}
