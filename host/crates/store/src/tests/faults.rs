//! Servers that end connections, stop, crash, or are full: an operation fails in time with a reason,
//! and the next one after that works.

use std::time::{Duration, Instant};

use airlock_test_postgres::TestServer;
use futures_util::future::join_all;

use crate::{
    Database, Location, OpenError, Settings, Unavailable,
    kv::{KvError, Opener, PluginStore},
    tests::home::TestHome,
};
use airlock_database::sql::{OPERATION, SqlError, Subject, first, params};

fn location(server: &TestServer) -> Location {
    server.url().parse().expect("a URL")
}

async fn open(server: &TestServer) -> Database {
    Database::open(Settings::at(location(server))).await.expect("it is opened")
}

fn store(database: &Database) -> PluginStore {
    database.kv("p", "s", Opener::Own([1; 32]), 1 << 20)
}

/// Sets an entry until that succeeds, as a client would. Fails if it takes too long.
async fn set_again(store: &PluginStore) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Err(error) = store.set("k", vec![2], None, None).await {
        assert!(Instant::now() < deadline, "{error:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_connection_that_the_server_ended_while_it_was_idle_is_replaced_without_an_error() {
    let Some(home) = TestHome::postgres() else { return };
    let database = home.open().await;
    let store = store(&database);
    for value in 0..10_u8 {
        store.set("k", vec![value], None, None).await.expect("written");
        assert!(store.get("k").await.expect("read").is_some());
        end_connections(&home);
    }
}

/// Ends all connections to the database but the one that does it, and waits until they have ended.
fn end_connections(home: &TestHome) {
    let server = home.server.as_ref().expect("a server");
    server.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_connection_ends_fails_and_is_undone() {
    let Some(home) = TestHome::postgres() else { return };
    let database = home.open().await;
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let changing = database.write(Subject::APPROVALS, move |sql| {
        let insert = "INSERT INTO approval (id, scope, call, asked, expires, text) \
                      VALUES (?1, ?1, ?1, 1, 9, ?1)";
        sql.run(insert, params!["x"])?;
        let _ = begun.send(());
        let _ = wait.recv();
        sql.run(insert, params!["y"])
    });
    let ending = async {
        has_begun.await.expect("it has begun");
        tokio::task::block_in_place(|| end_connections(&home));
        drop(go);
    };
    let (changed, ()) = tokio::join!(changing, ending);
    assert!(matches!(changed, Err(Unavailable::Unreachable)), "{changed:?}");
    let count = database.read(|sql| sql.one("SELECT count(*) FROM approval", &[], first::<i64>));
    assert_eq!(count.await.expect("read"), 0);
}

#[tokio::test]
async fn a_server_that_is_frozen_delays_an_operation_until_its_deadline_and_no_longer() {
    let Some(server) = TestServer::start() else { return };
    let database = open(&server).await;
    let store = store(&database);
    store.set("k", vec![1], None, None).await.expect("written");
    server.freeze();
    let begun = Instant::now();
    let refused = store.set("k", vec![2], None, None).await.expect_err("it is frozen");
    assert!(begun.elapsed() < 2 * OPERATION, "{:?}", begun.elapsed());
    assert!(refused.to_string().contains("cannot be reached"), "{refused:?}");
    let opened = Database::open(Settings::at(location(&server))).await;
    assert!(matches!(opened, Err(OpenError::Unusable { .. })), "{opened:?}");
    server.thaw();
    set_again(&store).await;
    assert_eq!(store.get("k").await.expect("read").map(|entry| entry.value), Some(vec![2]));
}

#[tokio::test]
async fn a_server_that_has_crashed_is_used_again_once_it_is_back_and_has_every_change() {
    // The server itself does not wait for the log to be written.
    let Some(mut server) = TestServer::start() else { return };
    let database = open(&server).await;
    let store = store(&database);
    store.set("before", vec![1], None, None).await.expect("written");
    server.crash();
    let begun = Instant::now();
    for _ in 0..50 {
        let refused = store.get("before").await.expect_err("there is no server");
        assert!(refused.to_string().contains("cannot be reached"), "{refused:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "they fail at once: {:?}", begun.elapsed());
    let opened = Database::open(Settings::at(location(&server))).await;
    assert!(matches!(opened, Err(OpenError::Unusable { .. })), "{opened:?}");
    server.resume();
    set_again(&store).await;
    assert!(store.get("before").await.expect("read").is_some());
}

#[tokio::test]
async fn a_full_disk_is_reported_and_what_was_stored_stays() {
    let Some(mut server) = TestServer::start() else { return };
    if !server.use_small_disk(4) {
        return;
    }
    let database = open(&server).await;
    let store = database.kv("p", "s", Opener::Own([1; 32]), 1 << 30);
    let mut stored = 0_u32;
    let refused = loop {
        // Not compressible, so that it takes the room that it has.
        let value: Vec<u8> = std::iter::repeat_with(|| *uuid::Uuid::new_v4().as_bytes())
            .take(6_000)
            .flatten()
            .collect();
        match store.set(&stored.to_string(), value, None, None).await {
            Ok(_) => stored += 1,
            Err(refused) => break refused,
        }
        assert!(stored < 1_000, "the disk is larger than it should be");
    };
    assert!(
        matches!(refused, KvError::Unavailable(Unavailable::DiskFull)),
        "after {stored}: {refused:?}"
    );
    for number in 0..stored {
        assert!(store.get(&number.to_string()).await.expect("read").is_some(), "{number}");
    }
    server.grow_disk(64);
    store.set("more", vec![1], None, None).await.expect("there is room again");
}

#[tokio::test]
async fn a_refusal_of_the_server_is_reported_by_its_kind() {
    let Some(home) = TestHome::postgres() else { return };
    let database = home.open().await;
    for (state, expected) in [
        ("53100", "the disk is full"),
        ("55P03", "another process is writing"),
        ("40001", "another process is writing"),
        ("40P01", "another process is writing"),
        ("57014", "cannot be reached"),
        ("57P01", "cannot be reached"),
        ("08006", "cannot be reached"),
        ("53300", "cannot be reached"),
        ("25006", "cannot be reached"),
        ("0A000", "cannot be reached"),
        ("42P01", "the database failed"),
    ] {
        let raise = format!("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{state}'; END $$");
        let refused = database.write(Subject::APPROVALS, move |sql| sql.script(&raise)).await;
        let refused = refused.expect_err("refused").to_string();
        assert!(refused.contains(expected), "{state}: {refused}");
        let read = database.read(|sql| sql.one("SELECT 1", &[], first::<i64>)).await;
        assert_eq!(read.expect("the next one works"), 1);
    }
}

#[tokio::test]
async fn a_statement_is_prepared_again_once_the_tables_have_changed_under_it() {
    let Some(home) = TestHome::postgres() else { return };
    let database = home.open().await;
    let server = home.server.as_ref().expect("a server");
    server.execute("CREATE TABLE changing (x BIGINT); INSERT INTO changing VALUES (7)");
    let select = "SELECT * FROM changing";
    let before = database.read(move |sql| sql.one(select, &[], first::<i64>)).await;
    assert_eq!(before.expect("read"), 7);
    server.execute("ALTER TABLE changing ADD COLUMN y BIGINT");
    let refused = database.read(move |sql| sql.one(select, &[], first::<i64>)).await;
    assert!(matches!(refused, Err(Unavailable::Unreachable)), "{refused:?}");
    let after = database.read(move |sql| sql.one(select, &[], first::<i64>)).await;
    assert_eq!(after.expect("read"), 7);
}

#[tokio::test]
async fn a_change_that_hides_the_failure_of_a_statement_fails() {
    let Some(home) = TestHome::postgres() else { return };
    let database = home.open().await;
    let hidden = database.write(Subject::APPROVALS, |sql| {
        let failed: Result<i64, SqlError> = sql.one("SELECT 1 / 0", &[], first);
        assert!(failed.is_err());
        Ok(())
    });
    let hidden = hidden.await;
    assert!(matches!(hidden, Err(Unavailable::Failed(_))), "{hidden:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_waits_for_one_of_the_same_subject_only_for_the_busy_timeout() {
    let Some(home) = TestHome::postgres() else { return };
    let first = home.open().await;
    let settings = Settings { busy_timeout: Duration::from_millis(50), ..home.settings() };
    let second = Database::open(settings).await.expect("it is opened");
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let holding = first.write(Subject::APPROVALS, move |_| {
        let _ = begun.send(());
        Ok(wait.recv().is_err())
    });
    let trying = async {
        has_begun.await.expect("it has begun");
        let same = second.write(Subject::APPROVALS, |_| Ok(())).await;
        let other = second.write(Subject::pins("c"), |_| Ok(())).await;
        drop(go);
        (same, other)
    };
    let (held, (same, other)) = tokio::join!(holding, trying);
    assert!(held.expect("it is made"));
    assert!(matches!(same, Err(Unavailable::Locked)), "{same:?}");
    other.expect("another subject does not wait");
    second.write(Subject::APPROVALS, |_| Ok(())).await.expect("it is free");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_party_whose_changes_wait_for_a_lock_leaves_connections_to_others() {
    let Some(home) = TestHome::postgres() else { return };
    let first = home.open().await;
    let second = home.open().await;
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let holding = first.write(Subject::pins("held"), move |_| {
        let _ = begun.send(());
        Ok(wait.recv().is_err())
    });
    let ann = second.of_party("ann");
    let bob = second.of_party("bob");
    let others = async {
        has_begun.await.expect("it has begun");
        let waiting = join_all((0..9).map(|_| ann.write(Subject::pins("held"), |_| Ok(()))));
        let served = async {
            for _ in 0..9 {
                bob.write(Subject::pins("free"), |_| Ok(())).await.expect("it does not wait");
            }
            drop(go);
        };
        let (waited, ()) = tokio::join!(biased; waiting, served);
        waited
    };
    let (held, waited) = tokio::join!(holding, others);
    assert!(held.expect("it is made"));
    assert!(waited.iter().all(Result::is_ok), "the lock was free in time: {waited:?}");
}
