//! Tests of the file: how it is made, opened, refused and shared.

pub(crate) mod clock;

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use rusqlite::Connection;

use super::*;

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

#[tokio::test]
async fn an_operation_that_fails_or_panics_is_undone_and_the_next_one_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let database =
        Database::open(settings(&directory.path().join("airlock.db"))).await.expect("it is made");
    let insert = "INSERT INTO kv_store (plugin, name, holder) VALUES ('p', 's', x'')";
    let failed = database.write(move |transaction| {
        transaction.execute(insert, ())?;
        transaction.execute(insert, ())
    });
    assert!(matches!(failed.await, Err(Unavailable::Failed(_))));
    let panicked = database.write(move |transaction| -> rusqlite::Result<()> {
        transaction.execute(insert, ())?;
        panic!("on purpose")
    });
    assert!(matches!(panicked.await, Err(Unavailable::Lost)));
    assert_eq!(database.kv_usage().await.expect("read"), []);
}

#[tokio::test]
async fn a_party_has_half_of_the_places_and_operations_beyond_them_fail_as_busy() {
    let directory = tempfile::tempdir().expect("a directory");
    let database =
        Database::open(settings(&directory.path().join("airlock.db"))).await.expect("it is made");
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let mut waiting: Vec<BoxFuture<'_, _>> =
        vec![Box::pin(database.read(move |_| Ok(wait.recv().is_err())))];
    waiting.extend(
        (1..lane::MAX_PLACES / 2)
            .map(|_| -> BoxFuture<'_, _> { Box::pin(database.read(|_| Ok(true))) }),
    );
    for operation in &mut waiting {
        assert!(futures_util::poll!(operation).is_pending(), "it has a place");
    }
    assert!(matches!(database.read(|_| Ok(())).await, Err(Unavailable::Busy)));
    drop(go);
    for answer in join_all(waiting).await {
        assert!(answer.expect("its turn came"));
    }
    database.read(|_| Ok(())).await.expect("there is room again");
}

#[tokio::test]
async fn parties_take_turns_and_one_without_places_does_not_delay_another() {
    let directory = tempfile::tempdir().expect("a directory");
    let database =
        Database::open(settings(&directory.path().join("airlock.db"))).await.expect("it is made");
    let ann = database.of_party("ann");
    let bob = database.of_party("bob");
    let served = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let mut first = Box::pin(ann.read(move |_| Ok(wait.recv().is_err())));
    assert!(futures_util::poll!(&mut first).is_pending(), "it has the connection");
    let half = (lane::MAX_PLACES - lane::GATEWAY_PLACES) / 2;
    let mut waiting: Vec<_> = (1..half).map(|_| serve(&served, &ann, "ann")).collect();
    for operation in &mut waiting {
        assert!(futures_util::poll!(operation).is_pending(), "it has a place");
    }
    assert!(matches!(ann.read(|_| Ok(())).await, Err(Unavailable::Busy)));
    for _ in 0..2 {
        let mut operation = serve(&served, &bob, "bob");
        assert!(futures_util::poll!(&mut operation).is_pending(), "another party has places");
        waiting.push(operation);
    }
    drop(go);
    first.await.expect("its turn came");
    for answer in join_all(waiting).await {
        answer.expect("its turn came");
    }
    let served = served.lock();
    let bobs: Vec<_> = (0..served.len()).filter(|at| served[*at] == "bob").collect();
    assert_eq!(bobs, [1, 3], "of {} operations", served.len());
}

fn serve(
    served: &Arc<parking_lot::Mutex<Vec<&'static str>>>,
    database: &Database,
    name: &'static str,
) -> BoxFuture<'static, Result<(), Unavailable>> {
    let database = database.clone();
    let served = served.clone();
    Box::pin(async move {
        let read = database.read(move |_| {
            served.lock().push(name);
            Ok(())
        });
        read.await
    })
}

#[tokio::test]
async fn a_new_party_has_places_beside_four_that_take_all_they_can_get() {
    is_served_beside(4, |database| database.of_party("new")).await;
}

#[tokio::test]
async fn the_gateway_has_places_however_many_parties_take_all_they_can_get() {
    is_served_beside(20, Database::clone).await;
}

/// Fails if a lane in which so many parties have taken all the places that they can get has none for
/// another one.
async fn is_served_beside(parties: u32, other: impl Fn(&Database) -> Database) {
    let directory = tempfile::tempdir().expect("a directory");
    let database =
        Database::open(settings(&directory.path().join("airlock.db"))).await.expect("it is made");
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let mut first = Box::pin(database.read(move |_| Ok(wait.recv().is_err())));
    assert!(futures_util::poll!(&mut first).is_pending(), "it has the connection");
    let parties: Vec<_> = (0..parties).map(|party| database.of_party(party)).collect();
    let mut waiting: Vec<BoxFuture<'_, _>> = Vec::new();
    for party in &parties {
        loop {
            let mut operation: BoxFuture<'_, _> = Box::pin(party.read(|_| Ok(())));
            match futures_util::poll!(&mut operation) {
                std::task::Poll::Pending => waiting.push(operation),
                std::task::Poll::Ready(refused) => {
                    assert!(matches!(refused, Err(Unavailable::Busy)));
                    break;
                }
            }
        }
    }
    let new = other(&database);
    let mut last = Box::pin(new.read(|_| Ok(())));
    assert!(futures_util::poll!(&mut last).is_pending(), "it has a place");
    drop((waiting, go));
    first.await.expect("its turn came");
    last.await.expect("its turn came");
    for party in &parties {
        party.read(|_| Ok(())).await.expect("the places of dropped operations are free");
    }
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
