//! The client half of the official conformance suite: the suite is the gateway's only upstream, and
//! `tests/fixtures/conformance_client` calls it through the gateway.
//!
//! With the environment variable `UPDATE_CONFORMANCE` the test writes the tables of the page anew and
//! prints what fails without an entry in the list of expected failures, and which entries are stale.

use std::{collections::BTreeSet, ffi::OsString, fs};

use airlock_tests::{binary, peers, root};

use crate::conformance::{
    PAGE,
    suite::{Expected, Half, Run, expected, required_totals, scenarios},
};

const FIXTURE: &str = "tests/fixtures/conformance_client";
/// Clients that run at once. The suite starts all at the same time, and some scenarios measure time.
const AT_ONCE: usize = 4;
/// Time limit of one scenario, in milliseconds, most of which is waiting for the others.
const TIMEOUT: &str = "200000";
/// Lines of the page between which the tables are.
const BEGIN: &str = "<!-- client: begin -->";
const END: &str = "<!-- client: end -->";

#[tokio::test]
async fn the_official_suite_as_an_upstream_fails_only_where_expected_and_the_page_states_it() {
    let file = root().join(FIXTURE).join("expected-failures.yml");
    let expected = expected(&file, Half::Client);
    let slots = tempfile::tempdir().expect("a temporary directory");
    for slot in 0..AT_ONCE {
        fs::write(slots.path().join(slot.to_string()), "").expect("it was created");
    }
    // The suite splits the command at blanks, and adds the URL of its server.
    let command = format!(
        "env AIRLOCK={} SLOTS={} NO_PROXY=* {} -B {}",
        binary("airlock-under-test").display(),
        slots.path().display(),
        peers::python().display(),
        root().join(FIXTURE).join("client.py").display()
    );
    let options: Vec<OsString> =
        ["--command", command.as_str(), "--timeout", TIMEOUT].map(OsString::from).into();
    let runs = [
        Run::start(Half::Client, "2025-11-25", &options, &file).await,
        Run::start(Half::Client, "2026-07-28", &options, &file).await,
    ];
    let text = fs::read_to_string(root().join(PAGE)).expect("UTF-8");
    let page = page(&text, &runs, &expected);
    if std::env::var_os("UPDATE_CONFORMANCE").is_some() {
        fs::write(root().join(PAGE), page).expect("the page can be written");
        print_changes(&runs, &expected);
        return;
    }
    for run in runs {
        let run = run.passed_as_expected();
        let wrong = run.wrong_beyond_the_set(&expected);
        assert!(wrong.is_empty(), "{}\n{}: {wrong:#?}", run.said, run.set);
    }
    assert_eq!(text, page, "{PAGE} is out of date: run this test with UPDATE_CONFORMANCE=1");
}

/// Returns the page with the tables of these runs.
fn page(text: &str, runs: &[Run; 2], expected: &[Expected]) -> String {
    let (before, rest) = text.split_once(BEGIN).unwrap_or_else(|| panic!("no {BEGIN} in {PAGE}"));
    let (_, after) = rest.split_once(END).unwrap_or_else(|| panic!("no {END} in {PAGE}"));
    let tables =
        [required_totals(runs), scenarios(runs, expected, true), scenarios(runs, expected, false)];
    let [totals, required, others] = tables;
    format!(
        "{before}{BEGIN}\n\n{totals}\nRequired scenarios:\n\n{required}\nScenarios that are not required:\n\n{others}\n{END}{after}"
    )
}

/// Prints how the list of expected failures has to change.
fn print_changes(runs: &[Run; 2], expected: &[Expected]) {
    let failures: BTreeSet<_> = runs.iter().flat_map(Run::failures).collect();
    for failure in &failures {
        if !expected.iter().any(|entry| entry.covers_entry(failure)) {
            println!("  - {failure} # REASON");
        }
    }
    for entry in expected {
        if !failures.iter().any(|failure| entry.covers_entry(failure)) {
            println!("stale: {entry}");
        }
    }
}
