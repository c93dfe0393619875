//! Tests of processes that are replaced while they serve.

use std::collections::BTreeSet;

use super::*;

const MOMENT: Duration = Duration::from_millis(10);

/// Starts a server whose process is replaced as `renewal` says.
async fn renewed(how: &str, renewal: Renewal) -> Supervised {
    let mut settings = settings(fake(how));
    settings.renewal = Renewal { memory_check: MOMENT, ..renewal };
    settings.restart.backoff = MOMENT;
    settings.restart.max_backoff = MOMENT;
    let server = Supervised::start(settings);
    server.until(|client| client.state == SourceState::Connected).await;
    server
}

/// Waits until another process than `before` answers. Every call until then must succeed.
async fn other_process(server: &Supervised, before: &str) -> String {
    let other = async {
        loop {
            let pid = server.answer("pid").await;
            if pid != before {
                return pid;
            }
        }
    };
    timeout(PATIENCE, other).await.expect("it is replaced")
}

#[tokio::test]
async fn a_process_that_grows_is_replaced_and_its_calls_end_on_it() {
    let max_memory_bytes = Some(90 << 20);
    let server = renewed("well", Renewal { max_memory_bytes, ..Renewal::default() }).await;
    let process = server.answer("pid").await;
    let arguments = json!({"text": "late", "after_a_cancellation": true}).to_string();
    let running = tokio::spawn(server.admit("echo", &arguments, PATIENCE).run());
    let hanging = tokio::spawn(server.admit("hang", "{}", PATIENCE).run());
    let running_calls = eventually(|| {
        let calls = server.control.status()["in_flight"].as_u64();
        calls.filter(|calls| *calls == 2)
    });
    running_calls.await.expect("they run");
    assert_eq!(server.control.status().get("replacements"), None);
    server.answer("eat").await;
    let next = other_process(&server, &process).await;
    let status = server.control.status();
    assert_eq!((&status["replacements"], &status["restarts"]), (&json!(1), &json!(0)));
    let reason = status["last_replacement"]["reason"].as_str().expect("a reason");
    assert!(reason.ends_with("MiB, and its `max_memory` is 90 MiB"), "{reason}");
    assert!(!running.is_finished(), "the old process still has it");
    // The old process answers the one when the other is cancelled there.
    hanging.abort();
    let ended = timeout(PATIENCE, running).await.expect("it ends").expect("no panic");
    assert_eq!(ended.expect("it ends well").to_text(), "late");
    assert!(is_gone(&process).await, "no call needs it");
    assert_eq!(server.answer("pid").await, next);
    server.stop().await;
    assert!(is_gone(&next).await);
}

#[tokio::test]
async fn a_process_that_is_old_is_replaced_again_and_again_and_no_call_fails() {
    let server = renewed("well", Renewal { max_age: Some(MOMENT), ..Renewal::default() }).await;
    let mut seen = BTreeSet::from([server.answer("pid").await]);
    for _ in 0..3 {
        let last = server.answer("pid").await;
        seen.insert(other_process(&server, &last).await);
    }
    assert!(seen.len() >= 4, "{seen:?}");
    assert_eq!(server.control.status()["restarts"], 0);
    server.stop().await;
    for process in seen {
        assert!(is_gone(&process).await);
    }
}

#[tokio::test]
async fn no_third_process_starts_after_a_reconnect_while_a_replaced_one_has_calls() {
    let max_memory_bytes = Some(90 << 20);
    let server = renewed("well", Renewal { max_memory_bytes, ..Renewal::default() }).await;
    let process = server.answer("pid").await;
    let hanging = tokio::spawn(server.admit("hang", "{}", PATIENCE).run());
    let runs = || (server.control.status()["in_flight"] == 1).then_some(());
    eventually(runs).await.expect("it runs");
    server.answer("eat").await;
    let next = other_process(&server, &process).await;
    server.control.reconnect(None).await.expect("it connects");
    let reconnected = other_process(&server, &next).await;
    assert!(is_gone(&next).await);
    server.answer("eat").await;
    let third = timeout(MOMENT * 50, other_process(&server, &reconnected));
    assert!(third.await.is_err(), "the call still runs on the first process");
    assert!(!hanging.is_finished());
    hanging.abort();
    other_process(&server, &reconnected).await;
    assert!(is_gone(&process).await);
    server.stop().await;
}

#[tokio::test]
async fn a_process_goes_on_until_another_one_starts_and_lists_its_tools() {
    for (how, reason) in [
        ("alone", "the connection ended; it ended with exit status: 4"),
        ("empty", "it listed 0 tools, of 12 before"),
    ] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mark = directory.path().join("mark");
        let how = format!("{how}:{}", mark.display());
        let max_age = Some(MOMENT);
        let server = renewed(&how, Renewal { max_age, ..Renewal::default() }).await;
        let process = server.answer("pid").await;
        let failed = eventually(|| {
            let status = server.control.status();
            status.get("last_replacement")?["failure"].as_str().map(str::to_owned)
        });
        assert_eq!(failed.await.as_deref(), Some(reason));
        assert_eq!(server.answer("pid").await, process);
        let status = server.control.status();
        assert_eq!((&status["replacements"], &status["phase"]), (&json!(0), &json!("ready")));
        assert_eq!(server.client().tools.len(), 12);
        std::fs::remove_file(&mark).expect("it is there");
        other_process(&server, &process).await;
        server.stop().await;
    }
}
