use std::{fs, path::Path, time::SystemTime};

use tokio::task::spawn_blocking;

use super::*;
use airlock_records::{AuditPlace, OnFailure, RecordSettings};
use airlock_store::{Settings, entries::LimitChange};
use airlock_test_http::{Server, ok, redirect, says};

/// Changes what a limit counts, which is recorded under its name.
async fn change(database: &Database, limit: &str) {
    let change = LimitChange {
        actor: "operator \"ann\"".to_owned(),
        action: "limit.reset".to_owned(),
        limit: limit.to_owned(),
        after: None,
    };
    database.record_limit_change(change).await.expect("written");
}

/// Waits until a line of the log is about an object, and returns the log.
async fn logged(log: &Path, object: &str) -> String {
    loop {
        let text = fs::read_to_string(log).unwrap_or_default();
        if text.contains(&format!("\"object\":\"{object}\"")) {
            return text;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn changes_between_the_start_and_the_first_look_are_recorded() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("airlock.db");
    let long_ago = Settings { clock: Arc::new(|| SystemTime::UNIX_EPOCH), ..Settings::new(&path) };
    change(&Database::open(long_ago).await.expect("it opens"), "before").await;
    let database = LazyDatabase::new(Settings::new(&path));
    let place = AuditPlace {
        directory: directory.path().join("audit"),
        name: "gateway".to_owned(),
        key: None,
        old_key: None,
        publish: Vec::new(),
        checkpoint_interval: Duration::from_mins(1),
    };
    let log = place.directory.join("log.jsonl");
    let settings =
        RecordSettings { call_log: None, audit: Some(place), on_failure: OnFailure::Refuse };
    let price: CallPrice = Arc::new(|_: &str| None);
    let recorder = Recorder::start(settings, database.clone(), post_checkpoint(), price);
    let recorder = recorder.expect("a thread");
    change(database.open().await.expect("it opens"), "between").await;
    let text = tokio::select! {
        never = follow_changes(database.clone(), recorder.clone()) => match never {},
        text = logged(&log, "between") => text,
    };
    assert!(!text.contains("\"object\":\"before\""), "it was made before this gateway");
    recorder.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_is_posted_and_a_redirect_or_an_error_is_a_failure_without_the_url() {
    let server = Server::start(|path| match path.split('?').next() {
        Some("/accepts") => ok(""),
        Some("/moved") => redirect(302, "/accepts"),
        _ => says("500 Broken", "", ""),
    });
    let server = server.await;
    for (path, is_published) in [("/accepts", true), ("/moved", false), ("/fails", false)] {
        let url = server.url("127.0.0.1", &format!("{path}?key=hunter2"));
        // As on a thread of the audit log.
        let posting = spawn_blocking(move || post_checkpoint()(&url, "gateway\n1\nroot\n"));
        let posted = posting.await.expect("no panic");
        assert_eq!(posted.is_ok(), is_published, "{path}: {posted:?}");
        assert!(!format!("{posted:?}").contains("hunter2"), "{posted:?}");
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 3, "the redirect is not followed: {requests:?}");
    assert!(requests[0].starts_with("POST /accepts?key=hunter2 "), "{}", requests[0]);
    assert!(requests[0].ends_with("\r\n\r\ngateway\n1\nroot\n"), "{}", requests[0]);
}
