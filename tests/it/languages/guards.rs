//! Guards in Rust, JavaScript and Python: written from the templates, built by the command line, asked by a gateway.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use airlock_tests::{Airlock, Client, Setup, guests, languages, peers};
use serde_json::{Value, json};

use super::error_of;

/// Writes a new guard with these further options, which says that these commands are next. Returns its directory.
async fn new(place: &Path, options: &[&str], next: &str) -> PathBuf {
    let new = Airlock::new().arg("plugin").arg("new").arg("my-guard").arg("--guard");
    let new = options.iter().fold(new, airlock_tests::Airlock::arg);
    let new = new.current_dir(place).run().await.ok();
    let next = format!("  cd my-guard\n  {next}\n  airlock plugin build\n  airlock plugin check\n");
    assert!(new.stdout.contains(&next), "{new}");
    place.join("my-guard")
}

/// Writes a new guard whose compiler is the one of the tests. Returns its directory.
async fn new_javascript(place: &Path) -> PathBuf {
    let directory = new(place, &["--lang", "javascript"], "npm test").await;
    symlink(peers::installed("node_modules"), directory.join("node_modules")).expect("a link");
    directory
}

/// Writes a new guard as [`new_javascript`] does.
async fn new_python(place: &Path) -> PathBuf {
    let directory = new(place, &["--lang", "python"], "python3 -m unittest").await;
    symlink(peers::installed("componentize"), directory.join(".venv")).expect("a link");
    directory
}

/// Returns a gateway with the plugin `text` and this guard.
fn setup(component: &Path, more: &Value) -> Setup {
    // Interpreters on busy cores take longer than the default time.
    let mut guard = json!({"name": "mine", "component": component, "limits": {"time": "1s"}});
    let members = guard.as_object_mut().expect("an object");
    members.extend(more.as_object().expect("an object").clone());
    Setup::new().client(Client::wasm("text", guests::TEXT)).set("/guards", json!([guard]))
}

/// Builds and checks the guard of a template, and lets a gateway ask it.
async fn is_the_example(directory: &Path) {
    let built = languages::build(directory).await.ok().json();
    assert_eq!((&built["ok"], &built["tools"]), (&json!(true), &json!([])), "{built:#}");
    let component = directory.join("my-guard.wasm");
    let check = Airlock::new().arg("plugin").arg("check").arg(&component).arg("--json");
    let checked = check.run().await.ok().json();
    let checks = checked["checks"].as_array().expect("a list");
    assert!(checks.iter().all(|check| check["outcome"] == "pass"), "{checked:#}");

    let before = setup(&component, &json!({"settings": {"domain": "example.org"}}));
    let denied = before.call("text-word_count", &json!({"text": "a b"})).await;
    let reason = "mail goes to example.org alone (foreign_domain)";
    let message = denied["error"]["message"].as_str().expect("a message");
    assert!(message.contains(reason), "{denied:#}");

    let after = setup(&component, &json!({"hooks": ["after"]}));
    let arguments = json!({"text": "by robot@example.com", "pattern": "r[^ ]*com"});
    let hidden = after.call("text-regex_find", &arguments).await;
    assert_eq!(hidden["ok"], true, "{hidden:#}");
    let text = hidden.to_string();
    assert!(text.contains("[sender]") && !text.contains("robot@"), "{hidden:#}");

    let refused = setup(&component, &json!({"settings": {"domains": []}}));
    let refused = refused.airlock("check").run().await.failed();
    assert!(refused.stderr.contains("guards[0].settings: the guard refuses them: "), "{refused}");
    assert!(refused.stderr.contains("`domains`"), "{refused}");
}

#[tokio::test]
async fn a_new_guard_in_rust_can_be_built_checked_and_configured() {
    let place = tempfile::tempdir().expect("a temporary directory");
    is_the_example(&new(place.path(), &[], "cargo test").await).await;
}

#[tokio::test]
async fn a_new_guard_in_javascript_can_be_built_checked_and_configured() {
    let place = tempfile::tempdir().expect("a temporary directory");
    is_the_example(&new_javascript(place.path()).await).await;
}

#[tokio::test]
async fn a_new_guard_in_python_can_be_built_checked_and_configured() {
    let place = tempfile::tempdir().expect("a temporary directory");
    is_the_example(&new_python(place.path()).await).await;
}

#[tokio::test]
async fn a_guard_in_typescript_has_no_template() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let new = Airlock::new().arg("plugin").arg("new").arg("my-guard").arg("--guard");
    let new = new.arg("--lang").arg("typescript").current_dir(place.path()).run().await.failed();
    assert!(new.stderr.contains("use `--lang javascript`"), "{new}");
    assert!(!place.path().join("my-guard").exists(), "nothing was written");
}

#[tokio::test]
async fn a_guard_in_javascript_that_imports_the_host_is_refused_with_the_import() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let directory = new_javascript(place.path()).await;
    let file = directory.join("guard.js");
    let good = fs::read_to_string(&file).expect("it is there");
    let import = "import { log } from './airlock-plugin/index.js';\n";
    fs::write(&file, format!("{import}{good}")).expect("a file");
    let message = error_of(&directory).await;
    let expected = "the guard imports airlock:host/log@0.1.0, and a guard imports nothing";
    assert!(message.starts_with(expected), "{message}");
}

#[tokio::test]
async fn a_guard_in_python_that_exports_no_hooks_is_named_before_it_is_compiled() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let directory = new_python(place.path()).await;
    let file = directory.join("guard.py");
    let good = fs::read_to_string(&file).expect("it is there");
    let export = "Hooks = guard(before=before, after=after, settings=Settings)";
    for (source, expected) in [
        (
            good.replace(export, ""),
            "guard.py has no `Hooks`: its last line is `Hooks = guard(before=FUNCTION, …)`",
        ),
        (
            good.replace(export, "Hooks = guard()"),
            "guard.py cannot be imported: TypeError: a guard has one or more of the hooks",
        ),
    ] {
        fs::write(&file, source).expect("a file");
        let message = error_of(&directory).await;
        assert!(message.starts_with(expected), "{message}");
    }
}
