//! The crates whose unit tests `make check` runs, by the paths that changed.

use std::process::{Command, Output};

use airlock_tests::root;

/// Lists the packages that `tests/unit` selects for changed paths.
fn list(paths: &[&str]) -> Output {
    let listed = Command::new("python3")
        .arg(root().join("tests/unit"))
        .arg("--list")
        .args(paths)
        .output()
        .expect("python3 runs");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    listed
}

fn selected(paths: &[&str]) -> Vec<String> {
    String::from_utf8_lossy(&list(paths).stdout).split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_source_selects_its_own_crate_alone() {
    assert_eq!(selected(&["host/crates/core/src/door.rs"]), ["airlock-core"]);
    assert_eq!(
        selected(&["plugins/digits/src/lib.rs", "tests/src/lib.rs"]),
        ["airlock-digits", "airlock-tests"]
    );
}

#[test]
fn a_file_that_another_crate_reads_selects_that_crate() {
    assert_eq!(selected(&["host/config.schema.json"]), ["airlock-config"]);
    // A new plugin gets a copy of the SDK.
    let sdk = selected(&["guest-sdk/macros/src/lib.rs"]);
    assert_eq!(sdk, ["airlock-authoring", "airlock-guest-macros"]);
    let fixture = selected(&["tests/fixtures/chat_streams/anthropic/error.sse"]);
    assert!(fixture.contains(&"airlock-model".to_owned()), "{fixture:?}");
    assert!(!fixture.contains(&"airlock-core".to_owned()), "{fixture:?}");
}

#[test]
fn what_every_crate_is_compiled_with_selects_every_crate() {
    let all = selected(&["Cargo.lock"]);
    for name in ["airlock-agent", "airlock-core", "airlock-wire"] {
        assert!(all.contains(&name.to_owned()), "{name} is not in {all:?}");
    }
    // Its unit tests are compiled after all crates.
    assert!(!all.contains(&"airlock".to_owned()), "{all:?}");
    let reason = list(&["Cargo.lock", "README.md"]).stderr;
    assert_eq!(String::from_utf8_lossy(&reason), "unit: every crate: Cargo.lock differs\n");
}

#[test]
fn tests_across_processes_and_pages_select_no_crate() {
    let none = selected(&["tests/it/main.rs", "README.md", "host/src/cli.rs"]);
    assert!(none.is_empty(), "{none:?}");
}
