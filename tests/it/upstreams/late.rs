//! A server that takes its time before it reads anything, as a package runner that first downloads
//! the server does.

use std::fs;

use airlock_tests::{Setup, misbehaving};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

/// The gateway's patience itself is tested where its clock can be moved; here, what it sends to a
/// server that does not read must not harm the handshake that follows.
#[tokio::test]
async fn a_server_that_reads_late_is_waited_for() {
    let setup = Setup::new();
    let pipe = setup.directory().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a named pipe");
    let late = format!("late={}", pipe.display());
    let gateway = setup.client(misbehaving("late", [late.as_str()])).serve().await;
    assert_eq!(gateway.client("late").await.expect("it is listed")["state"], "connecting");
    // Opening it waits until the server has opened it as well.
    tokio::task::spawn_blocking(move || fs::write(pipe, "go"))
        .await
        .expect("no panic in it")
        .expect("the server reads it");
    let client = gateway.connected("late").await;
    assert!(client["last_failure"].is_null(), "{client:#}");
    let echo = gateway.execute("late-echo", &json!({"text": "here"})).await;
    assert_eq!(echo.content(), "here");
}
