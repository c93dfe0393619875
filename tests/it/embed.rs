//! The gateway as a library: the example that embeds it, run as it is.

use std::process::Stdio;

use airlock_tests::{binary, wait};
use serde_json::Value;
use tokio::process::Command;

#[tokio::test]
async fn a_program_that_embeds_the_gateway_adds_a_tool_of_its_own() {
    let run = Command::new(binary("embedding-example"))
        .env("NO_PROXY", "*")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output =
        tokio::time::timeout(wait::SOON, run).await.expect("it ends").expect("it can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let answer: Value =
        serde_json::from_slice(&output.stdout).expect("it prints one JSON document");
    assert_eq!(answer["content"], "Hello, Ada!", "{answer:#}\n{said}");
}
