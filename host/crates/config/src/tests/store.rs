use super::*;
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
