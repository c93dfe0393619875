//! Tests of the file: how it is made, opened, refused and shared. The other modules test what files
//! and servers have in common.

pub(crate) mod clock;
mod faults;
pub(crate) mod home;
mod killed;
mod lane;
mod pooler;
mod requests;
mod server;
mod steps;
pub(crate) mod sums;
mod tls;

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use futures_util::future::join_all;
use rusqlite::Connection;

use super::*;
use crate::tests::home::{TestHome, on_both};
use airlock_database::{
    schema,
    sql::{self, SqlError, Subject},
};

fn settings(path: &Path) -> Settings {
    Settings { busy_timeout: Duration::from_millis(20), ..Settings::new(path) }
}

async fn refused(path: &Path) -> OpenError {
    Database::open(settings(path)).await.expect_err("it is refused")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[tokio::test]
async fn an_entry_survives_closing_and_opening_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("deep/down/airlock.db");
    let first =
        Database::open(settings(&path)).await.expect("it is made, with the directories above");
    let version = first
        .kv("p", "s", kv::Opener::Own([1; 32]), 1 << 20)
        .set("key", b"value".to_vec(), None, None)
        .await
        .expect("written");
    drop(first);
    let again = Database::open(settings(&path)).await.expect("it is opened");
    let entry =
        again.kv("p", "s", kv::Opener::Own([1; 32]), 1 << 20).get("key").await.expect("read");
    assert_eq!(entry, Some(kv::Entry { value: b"value".to_vec(), version }));
}

#[tokio::test]
async fn the_file_and_its_side_files_are_private_to_this_user() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("airlock.db");
    let database = Database::open(settings(&path)).await.expect("it is made");
    database
        .kv("p", "s", kv::Opener::Own([1; 32]), 1 << 20)
        .set("key", vec![1], None, None)
        .await
        .expect("written");
    for ending in ["airlock.db", "airlock.db-wal", "airlock.db-shm"] {
        assert_eq!(mode(&directory.path().join(ending)), 0o600, "{ending}");
    }
    drop(database);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).expect("changed");
    let _again = Database::open(settings(&path)).await.expect("it is opened");
    assert_eq!(mode(&path), 0o600, "what others could do is taken from them");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_named_in_the_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    fs::write(&file, "").expect("written");
    for path in [file.join("airlock.db"), directory.path().to_owned()] {
        let error = refused(&path).await;
        assert!(matches!(error, OpenError::Unusable { .. }), "{error:?}");
        assert!(error.to_string().contains(path.to_str().expect("text")), "{error}");
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_named_in_the_error_and_left_unchanged() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("airlock.db");
    let garbage = b"not a database, but somebody's diary\n".repeat(300);
    fs::write(&path, &garbage).expect("written");
    let error = refused(&path).await;
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    assert!(error.to_string().contains(path.to_str().expect("text")), "{error}");
    assert_eq!(fs::read(&path).expect("read"), garbage);
}

#[tokio::test]
async fn damage_inside_a_database_is_an_error_and_no_panic() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("airlock.db");
    let database = Database::open(settings(&path)).await.expect("it is made");
    database
        .kv("p", "s", kv::Opener::Own([1; 32]), 1 << 20)
        .set("key", vec![7; 50_000], None, None)
        .await
        .expect("written");
    drop(database);
    let mut bytes = fs::read(&path).expect("read");
    assert!(bytes.len() > 8192, "the log was taken over when the file was closed");
    bytes[4096..].fill(0xaa);
    fs::write(&path, bytes).expect("written");
    let lost = match Database::open(settings(&path)).await {
        Err(error) => matches!(error, OpenError::Damaged { .. }),
        Ok(database) => {
            let failed = database.kv("p", "s", kv::Opener::Own([1; 32]), 1 << 20).get("key").await;
            matches!(failed, Err(kv::KvError::Unavailable(Unavailable::Failed(_))))
        }
    };
    assert!(lost);
}

#[tokio::test]
async fn a_database_of_a_newer_airlock_or_of_another_program_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let newer = directory.path().join("newer.db");
    drop(Database::open(settings(&newer)).await.expect("it is made"));
    Connection::open(&newer)
        .and_then(|file| file.pragma_update(None, "user_version", 99))
        .expect("changed");
    let error = refused(&newer).await;
    assert!(
        matches!(error, OpenError::Newer { found: 99, known: schema::VERSION, .. }),
        "{error:?}"
    );

    let foreign = directory.path().join("foreign.db");
    Connection::open(&foreign)
        .and_then(|file| file.execute_batch("CREATE TABLE cookies (jar)"))
        .expect("made");
    let error = refused(&foreign).await;
    assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
    let tables = Connection::open(&foreign).and_then(|file| {
        file.query_row(
            "SELECT group_concat(name), (SELECT * FROM pragma_journal_mode) FROM sqlite_schema",
            (),
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
        )
    });
    assert_eq!(tables.expect("read"), ("cookies".into(), "delete".into()), "it is as it was");
}

#[tokio::test]
async fn many_tasks_can_open_a_new_file_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("airlock.db");
    let opened = join_all((0..8).map(|_| Database::open(Settings::new(&path)))).await;
    for (number, database) in opened.iter().enumerate() {
        let database = database.as_ref().expect("it is opened");
        database
            .kv("p", "s", kv::Opener::Own([1; 32]), 1 << 20)
            .set(&number.to_string(), vec![], None, None)
            .await
            .expect("written");
    }
    let last = opened.last().and_then(|opened| opened.as_ref().ok()).expect("there are eight");
    assert_eq!(last.kv_usage().await.expect("read")[0].entries, 8);
}

#[tokio::test]
async fn while_another_process_writes_reads_succeed_and_writes_fail_as_locked() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("airlock.db");
    let database = Database::open(settings(&path)).await.expect("it is made");
    let store = database.kv("p", "s", kv::Opener::Own([1; 32]), 1 << 20);
    store.set("key", vec![1], None, None).await.expect("written");

    let other = Connection::open(&path).expect("opened");
    other.execute_batch("BEGIN IMMEDIATE; DELETE FROM kv_entry").expect("begun");
    let refused = store.set("key", vec![2], None, None).await;
    assert!(matches!(refused, Err(kv::KvError::Unavailable(Unavailable::Locked))), "{refused:?}");
    assert_eq!(store.get("key").await.expect("read").map(|entry| entry.value), Some(vec![1]));

    other.execute_batch("ROLLBACK").expect("ended");
    store.set("key", vec![2], None, None).await.expect("written");
}

on_both! {
    an_operation_that_fails_or_panics_is_undone_and_the_next_one_works,
}

async fn an_operation_that_fails_or_panics_is_undone_and_the_next_one_works(home: TestHome) {
    let database = home.open().await;
    let insert = "INSERT INTO approval (id, scope, call, asked, expires, text) \
                  VALUES (?1, ?2, ?2, 1, 9, ?1)";
    let values = [sql::Param::Text("x"), sql::Param::Bytes(b"x")];
    let failed = database.write(Subject::APPROVALS, move |sql| {
        sql.run(insert, &values)?;
        sql.run(insert, &values)
    });
    assert!(matches!(failed.await, Err(Unavailable::Failed(_))));
    let panicked = database.write(Subject::APPROVALS, move |sql| -> Result<(), SqlError> {
        sql.run(insert, &values)?;
        panic!("on purpose")
    });
    assert!(matches!(panicked.await, Err(Unavailable::Lost)));
    let rows =
        database.read(|sql| sql.one("SELECT count(*) FROM approval", &[], sql::first::<i64>));
    assert_eq!(rows.await.expect("read"), 0);
}

#[tokio::test]
async fn a_database_that_was_deleted_or_replaced_is_noticed_by_the_next_operation() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("airlock.db");
    let database = Database::open(settings(&path)).await.expect("it is made");
    let store = database.kv("p", "s", kv::Opener::Own([1; 32]), 1 << 20);
    store.set("key", vec![1], None, None).await.expect("written");
    fs::remove_file(&path).expect("deleted");
    assert!(is_gone(&store.set("key", vec![2], None, None).await.expect_err("it is gone")));
    assert!(is_gone(&store.get("key").await.expect_err("it is gone")));
    fs::write(&path, "another file").expect("written");
    assert!(is_gone(&store.get("key").await.expect_err("it is another file")));
}

fn is_gone(error: &kv::KvError) -> bool {
    matches!(error, kv::KvError::Unavailable(Unavailable::Gone))
}
