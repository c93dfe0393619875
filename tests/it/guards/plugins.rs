//! A guard has no tools, so no command and no client takes one for a plugin.

use airlock_tests::{Airlock, Client, Setup, guests};

/// Part of the error that says where guards are configured.
const REFUSED: &str = "the component is a guard: it has no tools, and is configured in `guards`";

#[tokio::test]
async fn a_guard_can_neither_be_inspected_nor_installed_as_a_plugin() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for command in [["plugin", "inspect"], ["plugin", "install"]] {
        let run = command.iter().fold(Airlock::new(), Airlock::arg).arg(guests::WARDEN);
        let run = run.current_dir(directory.path());
        let refused = run.run().await.failed();
        assert!(refused.stderr.contains(REFUSED), "{refused}");
    }
    assert!(!directory.path().join("airlock.json").exists(), "nothing was changed");
}

#[tokio::test]
async fn a_client_whose_component_is_a_guard_is_an_error_and_has_no_tools() {
    let setup = Setup::new().client(Client::wasm("warden", guests::WARDEN));
    let checked = setup.airlock("check").arg("--json").run().await.failed().json();
    let error = &checked["errors"][0];
    let key = r#"mcp.client_configs[name = "warden"].wasm_config.component"#;
    assert_eq!(error["key"], key, "{checked:#}");
    assert!(error["message"].as_str().expect("a message").starts_with(REFUSED), "{checked:#}");
    let tools = setup.airlock("tools").run().await;
    assert!(!tools.stdout.contains("warden-"), "{tools}");
}

#[tokio::test]
async fn a_guard_is_compiled_before_the_start() {
    let compile = Airlock::new().arg("precompile").arg(guests::WARDEN);
    let compiled = compile.run().await.ok();
    assert!(compiled.stdout.contains("warden.wasm"), "{compiled}");
}
