//! Tests of copies: complete in both directions, all or nothing, and only to an empty database.

use std::time::Duration;

use super::*;
use crate::{
    Database, SchemaState,
    approvals::CallVerdict,
    entries::{EntryChange, EntryKind, EntryValue},
    kv::Opener,
    login::{LoginId, UpstreamLogin},
    responses::{NewResponse, ResponseBounds, Texts},
    tests::{
        home::{TestHome, on_both},
        sums,
    },
};
use airlock_database::schema::VERSION;

const ANN: [u8; 32] = [1; 32];
const BOUNDS: ResponseBounds = ResponseBounds {
    expire_after: Duration::from_hours(1),
    owner_bytes: 1 << 20,
    total_bytes: 1 << 20,
};

/// Writes something of several subjects, with what the databases treat differently.
async fn fill(database: &Database) {
    let store = database.kv("p", "s", Opener::Own(ANN), 1 << 20);
    for number in 0..200 {
        store.set(&format!("{number}\0é"), vec![0, 255], None, None).await.expect("written");
    }
    let texts = Texts { input: "\0é".into(), output: "[]".into(), body: String::new() };
    let response = NewResponse { id: "r1".into(), previous: None, texts };
    database.responses(ANN, BOUNDS).put(response).await.expect("written");
    database.pin_first_list("c", vec![("t".into(), "{}".into())]).await.expect("written");
    let asked = database.ask_approval(ANN, ANN, "a".into(), "é".into(), Duration::from_hours(1));
    asked.await.expect("written");
    database.put_upstream_login(&LoginId::of_operator("c", "s"), login()).await.expect("written");
    let change = EntryChange {
        actor: "ann".into(),
        action: "client.add".into(),
        kind: EntryKind::Client,
        name: "\0é".into(),
        after: Some(EntryValue { replaces: Some(ANN), document: Some("{}".into()) }),
        components: Vec::new(),
        revision: 0,
    };
    database.change_entry(change).await.expect("written");
}

fn login() -> UpstreamLogin {
    UpstreamLogin {
        holder: None,
        issuer: String::new(),
        client_id: "id".into(),
        client_secret: Some("secret".into()),
        authentication: "none".into(),
        token_endpoint: "e".into(),
        resource: "r".into(),
        scopes: String::new(),
        wanted: String::new(),
        access_token: "token".into(),
        refresh_token: None,
        obtained_ms: 1,
        expires_ms: None,
    }
}

/// Fails if a database does not have what [`fill`] writes, or cannot be used.
async fn check(database: &Database) {
    sums::check(database).await;
    let store = database.kv("p", "s", Opener::Own(ANN), 1 << 20);
    let entry = store.get("199\0é").await.expect("read").expect("an entry");
    assert_eq!((entry.value.as_slice(), entry.version), (&[0, 255][..], 200));
    // New rows get numbers of their own.
    assert_eq!(store.set("new", vec![], None, None).await.expect("written"), 201);
    let texts = Texts { input: "2".into(), output: "2".into(), body: "2".into() };
    let next = NewResponse { id: "r2".into(), previous: Some("r1".into()), texts };
    let responses = database.responses(ANN, BOUNDS);
    responses.put(next).await.expect("written");
    let turns = responses.conversation("r2", |_| Ok::<_, ()>(())).await.expect("read");
    let inputs: Vec<_> = turns.iter().map(|turn| turn.input.as_str()).collect();
    assert_eq!(inputs, ["\0é", "2"]);
    assert_eq!(database.upstream_pins("c").await.expect("read")[0].definition, "{}");
    let again = database.ask_approval(ANN, ANN, "b".into(), "é".into(), Duration::from_hours(1));
    assert_eq!(again.await.expect("written").verdict, CallVerdict::Waiting("a".into()));
    assert_eq!(
        database.upstream_login(&LoginId::of_operator("c", "s")).await.expect("read"),
        Some(login())
    );
    let entries = database.entries().await.expect("read");
    assert_eq!((entries.revision, entries.entries.len()), (1, 1));
    assert_eq!(entries.entries[0].document.as_deref(), Some("{}"));
}

#[tokio::test]
async fn everything_is_copied_from_a_file_to_a_server_and_back() {
    let Some(mut server) = TestHome::postgres() else { return };
    let mut file = TestHome::sqlite();
    // What is sealed is copied as it is. No key is needed for that.
    file.set_keys(1, &[]);
    fill(&file.open().await).await;
    let rows = copy(file.settings(), server.settings()).await.expect("copied");
    server.set_keys(1, &[]);
    check(&server.open().await).await;
    let back = TestHome::sqlite();
    let again = copy(server.settings(), back.settings()).await.expect("copied");
    // The check has written an entry, and a response.
    assert_eq!(again, rows + 2);
    let copied = back.open().await;
    sums::check(&copied).await;
    let store = copied.kv("p", "s", Opener::Own(ANN), 1 << 20);
    assert_eq!(store.set("newer", vec![], None, None).await.expect("written"), 202);
}

on_both! {
    a_database_with_rows_is_no_target_and_stays_as_it_is,
    the_state_of_a_schema_is_read_without_a_change,
}

async fn a_database_with_rows_is_no_target_and_stays_as_it_is(home: TestHome) {
    let source = TestHome::sqlite();
    fill(&source.open().await).await;
    let database = home.open().await;
    database.pin_first_list("own", vec![("t".into(), "{}".into())]).await.expect("written");
    let refused = copy(source.settings(), home.settings()).await;
    assert!(matches!(refused, Err(CopyError::NotEmpty { .. })), "{refused:?}");
    assert_eq!(database.kv_usage().await.expect("read"), []);
    assert_eq!(database.upstream_pins("own").await.expect("read").len(), 1);
}

#[tokio::test]
async fn a_source_that_does_not_exist_is_not_made() {
    let source = TestHome::sqlite();
    let target = TestHome::sqlite();
    let refused = copy(source.settings(), target.settings()).await;
    assert!(matches!(refused, Err(CopyError::Missing { .. })), "{refused:?}");
    assert!(source.settings().location.is_missing_file());
    assert!(target.settings().location.is_missing_file());
}

#[tokio::test]
async fn every_column_of_every_table_is_copied() {
    // But for the gateways that run on the store.
    let home = TestHome::sqlite();
    let database = home.open().await;
    let tables = "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c \
                  WHERE t.type = 'table' AND t.name <> 'replica' ORDER BY t.name, c.name";
    let found = database.read(move |sql| {
        sql.all(tables, &[], |row| Ok((row.get::<String>(0)?, row.get::<String>(1)?)))
    });
    let mut copied: Vec<_> = TABLES
        .iter()
        .flat_map(|table| table.names().into_iter().map(|name| (table.name.into(), name.into())))
        .collect();
    copied.sort_unstable();
    assert_eq!(found.await.expect("read"), copied);
}

async fn the_state_of_a_schema_is_read_without_a_change(home: TestHome) {
    for _ in 0..2 {
        let state = Database::schema_state(home.settings()).await.expect("read");
        assert_eq!(state, SchemaState { found: None, known: VERSION });
        assert!(state.needs_migration());
    }
    home.open().await;
    let state = Database::schema_state(home.settings()).await.expect("read");
    assert_eq!(state, SchemaState { found: Some(VERSION), known: VERSION });
    assert!(!state.needs_migration());
}
