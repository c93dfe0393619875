//! Scripts as a library: the example, run as it is, and its page.

use std::{fs, process::Stdio};

use airlock::runner::{Runner, RunnerSettings, ScriptLanguage};
use airlock_tests::{example_binary, root, wait};
use serde_json::{Value, json};
use tokio::process::Command;

#[tokio::test]
async fn a_program_runs_a_script_with_its_functions_and_approves_a_call() {
    let runner = Runner::new(RunnerSettings::default()).expect("a sandbox");
    // Compiling it may take longer than the example should.
    runner.load(ScriptLanguage::Python).await.expect("it is built in");
    let mut example = Command::new(example_binary("scripts"));
    let run = example.stdin(Stdio::null()).kill_on_drop(true).output();
    let ended = tokio::time::timeout(wait::COMPILED, run).await.expect("it ends");
    let output = ended.expect("it can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let value: Value = serde_json::from_slice(&output.stdout).expect("it prints one JSON document");
    assert_eq!(value, json!({"total": 42, "receipt": "paid 42 for rent"}));
    assert_eq!(said.matches("script: they owe 42").count(), 1, "{said}");
}

#[test]
fn the_program_on_the_page_about_scripts_is_the_example() {
    let page = fs::read_to_string(root().join("docs/scripts-library.md")).expect("UTF-8");
    let program = page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next());
    let example = fs::read_to_string(root().join("host/examples/scripts.rs")).expect("UTF-8");
    assert_eq!(program, Some(example.as_str()));
}
