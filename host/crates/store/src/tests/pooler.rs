//! A database behind a pooler that gives each transaction another connection.

use std::{
    fs,
    future::pending,
    time::{Duration, Instant},
};

use airlock_test_postgres::{TestDatabase, TestPooler};
use futures_util::future::join_all;
use rcgen::{CertificateParams, KeyPair};

use crate::{Database, Location, OpenError, ServerUrl, Settings, changes::ChangeKind, kv::Opener};
use airlock_database::{
    open, revision,
    sql::{Subject, first, params},
};

const OWNER: [u8; 32] = [1; 32];
/// Time for which a test waits for a notification.
const PATIENCE: Duration = Duration::from_secs(30);

fn server(url: &str) -> ServerUrl {
    match url.parse().expect("a URL") {
        Location::Server(url) => url,
        Location::File(path) => panic!("{path:?}"),
    }
}

/// Returns the settings of a database through a pooler, with notifications from `direct`.
fn settings(pooler: &TestPooler, direct: &str) -> Settings {
    let location = Location::Server(server(&pooler.url()).pooled(server(direct)));
    Settings { busy_timeout: Duration::from_millis(1_234), ..Settings::at(location) }
}

async fn opened(pooler: &TestPooler, direct: &str) -> Database {
    Database::open(settings(pooler, direct)).await.expect("it is opened")
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_and_limits_hold_whichever_connection_a_transaction_gets() {
    let Some(server) = TestDatabase::create() else { return };
    let Some(pooler) = TestPooler::start(&server) else { return };
    let database = opened(&pooler, &server.url()).await;
    let other = opened(&pooler, &server.url()).await;
    // Eight connections of each gateway share three to the server.
    let stores =
        [&database, &other].map(|database| database.kv("p", "s", Opener::Own(OWNER), 1 << 20));
    let changes = (0..24).map(|number| {
        let store = &stores[number % 2];
        async move { store.set(&number.to_string(), vec![1], None, None).await }
    });
    for changed in join_all(changes).await {
        changed.expect("set");
    }
    for number in 0..24 {
        let read = stores[number % 2].get(&number.to_string()).await.expect("read");
        assert!(read.is_some(), "{number}");
    }
    for (name, of_change) in [
        ("lock_timeout", "1234ms"),
        ("statement_timeout", "5s"),
        ("idle_in_transaction_session_timeout", "10s"),
        // The test server has it off.
        ("synchronous_commit", "on"),
    ] {
        let select = "SELECT current_setting(?1)";
        let changing = database
            .write(Subject::APPROVALS, move |sql| sql.one(select, params![name], first::<String>));
        assert_eq!(changing.await.expect("read"), of_change, "{name}");
        let reading = database.read(move |sql| sql.one(select, params![name], first::<String>));
        assert_ne!(reading.await.expect("read"), of_change, "{name} is not left to others");
    }
}

#[test]
fn notifications_come_from_the_server_itself() {
    let Some(server) = TestDatabase::create() else { return };
    let Some(pooler) = TestPooler::start(&server) else { return };
    let settings = settings(&pooler, &server.url());
    open::open(&settings).expect("it is opened");
    let mut source = open::revisions(&settings).expect("it is opened");
    source.read(revision::read).expect("read");
    server.execute("NOTIFY airlock, 'x'");
    let begun = Instant::now();
    assert!(matches!(source.wait(pending::<()>(), PATIENCE), Ok(false)));
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn changes_are_noticed_while_the_server_that_sends_notifications_is_away() {
    let Some(server) = TestDatabase::create() else { return };
    let Some(pooler) = TestPooler::start(&server) else { return };
    let database = opened(&pooler, "postgres://airlock@127.0.0.1:1/x?sslmode=disable").await;
    let mut changes = database.changes();
    for kind in [ChangeKind::Keys, ChangeKind::Operators] {
        database.announce(kind).await.expect("written");
        let noticed = changes.next().await.expect("the change");
        assert!(noticed.contains(&kind), "{noticed:?}");
    }
}

#[tokio::test]
async fn changes_are_noticed_although_the_authorities_of_the_server_itself_are_gone() {
    let Some(server) = TestDatabase::create() else { return };
    let Some(pooler) = TestPooler::start(&server) else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let authorities = directory.path().join("ca.pem");
    let query = format!("sslmode=require&sslrootcert={}", authorities.display());
    let direct = format!("postgres://airlock@127.0.0.1:1/x?{query}");
    // A gateway does not start without them, and `airlock check` reports it.
    let refused = Database::open(settings(&pooler, &direct)).await;
    assert!(matches!(refused, Err(OpenError::Unusable { .. })), "{refused:?}");
    let unchecked = Database::schema_state(settings(&pooler, &direct)).await;
    assert!(matches!(unchecked, Err(OpenError::Unusable { .. })), "{unchecked:?}");

    let key = KeyPair::generate().expect("a key");
    let authority = CertificateParams::new([]).and_then(|params| params.self_signed(&key));
    fs::write(&authorities, authority.expect("a certificate").pem()).expect("written");
    let database = opened(&pooler, &direct).await;
    fs::remove_file(&authorities).expect("removed");
    let mut changes = database.changes();
    for kind in [ChangeKind::Keys, ChangeKind::Operators] {
        database.announce(kind).await.expect("written");
        let noticed = changes.next().await.expect("the change");
        assert!(noticed.contains(&kind), "{noticed:?}");
    }
}
