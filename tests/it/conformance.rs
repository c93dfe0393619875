//! The official conformance suite of MCP against the gateway, with the server of
//! `tests/fixtures/mcp_conformance` as its only upstream. The suite judges both requirement sets;
//! what it runs without scoring it is judged here by the same rules.

pub(crate) mod suite;

use std::{ffi::OsString, fs};

use airlock_tests::{Client, Setup, peers, root};

use self::suite::{Half, Run, expected, scenarios, totals};

const FIXTURE: &str = "tests/fixtures/mcp_conformance";
pub(crate) const PAGE: &str = "docs/mcp-conformance.md";

#[tokio::test]
async fn the_official_suite_fails_only_where_expected_and_the_page_states_its_results() {
    let gateway = Setup::new().client(fixture()).serve_connected().await;
    // The suite tests the protection from DNS rebinding at a loopback name only.
    let url = format!("{}/mcp/fixture", gateway.address().replace("127.0.0.1", "localhost"));
    let file = root().join(FIXTURE).join("expected-failures.yml");
    let expected = expected(&file, Half::Server);
    let options = [OsString::from("--url"), url.into()];
    let runs = [
        Run::start(Half::Server, "2025-11-25", &options, &file).await.passed_as_expected(),
        Run::start(Half::Server, "2026-07-28", &options, &file).await.passed_as_expected(),
    ];
    for run in &runs {
        let wrong = run.wrong_beyond_the_set(&expected);
        assert!(wrong.is_empty(), "{}\n{}: {wrong:#?}", run.said, run.set);
    }
    let page = fs::read_to_string(root().join(PAGE)).expect("UTF-8");
    let tables =
        [totals(&runs), scenarios(&runs, &expected, true), scenarios(&runs, &expected, false)];
    assert!(
        tables.iter().all(|table| page.contains(table)),
        "{PAGE} must contain these tables:\n\n{}",
        tables.join("\n")
    );
}

fn fixture() -> Client {
    let server = root().join(FIXTURE).join("server.py").display().to_string();
    // With -B, no compiled files are left beside the sources.
    let client = Client::stdio("fixture", peers::python(), ["-B", server.as_str()]).auto(&["*"]);
    let client =
        client.set("/resources_to_read", ["*"].as_slice()).set("/prompts_to_get", ["*"].as_slice());
    // Its tools ask in both eras, and run as tasks in the modern one.
    client.set("/allow", ["elicitation", "sampling", "roots"].as_slice()).set("/protocol", "modern")
}
