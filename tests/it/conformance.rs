//! The official conformance suite of MCP against the gateway, with the server of
//! `tests/fixtures/mcp_conformance` as its only upstream. The suite judges both requirement sets;
//! what it runs without scoring it is judged here by the same rules.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use airlock_tests::{Client, Setup, peers, root};
use serde_json::Value;
use tokio::process::Command;

const FIXTURE: &str = "tests/fixtures/mcp_conformance";
const PAGE: &str = "docs/mcp-conformance.md";

#[tokio::test]
async fn the_official_suite_fails_only_where_expected_and_the_page_states_its_results() {
    let gateway = Setup::new().client(fixture()).serve_connected().await;
    // The suite tests the protection from DNS rebinding at a loopback name only.
    let url = format!("{}/mcp/fixture", gateway.address().replace("127.0.0.1", "localhost"));
    let expected = listed(&root().join(FIXTURE).join("expected-failures.yml"));
    let runs = [Run::of("2025-11-25", &url).await, Run::of("2026-07-28", &url).await];
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
    Client::stdio("fixture", peers::python(), ["-B", server.as_str()]).auto(&["*"])
}

/// Returns the directory of the suite.
fn suite() -> PathBuf {
    root().join(".cache/peers/node_modules/@modelcontextprotocol/conformance")
}

/// A run of the suite with one requirement set.
struct Run {
    set: &'static str,
    required: BTreeSet<String>,
    scenarios: BTreeMap<String, Scenario>,
    said: String,
}

/// Checks of one scenario, without those that were skipped or give information only.
#[derive(Default)]
struct Scenario {
    passed: usize,
    /// Ids of checks that failed, or were a warning.
    failed: Vec<String>,
}

/// An expected failure, of one check or of a whole scenario.
struct Expected {
    scenario: String,
    check: Option<String>,
    reason: String,
}

impl Run {
    /// Runs the suite. Panics with its output if it reports an unexpected failure, or an expected one
    /// that did not occur.
    async fn of(set: &'static str, url: &str) -> Self {
        let results = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new(peers::recent_node());
        command.arg(suite().join("dist/index.js")).args(["server", "--requirements", set]);
        command.args(["--url", url, "--expected-failures"]);
        command.arg(root().join(FIXTURE).join("expected-failures.yml"));
        command.arg("--output-dir").arg(results.path());
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
        let output = output.expect("Node.js can be started; `make peers` installs the suite");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{errors}\n{set}: {}", output.status);
        let requirements = suite().join(format!("requirements/{set}.yaml"));
        let required = listed(&requirements).into_iter().map(|entry| entry.scenario).collect();
        Self { set, required, scenarios: read(results.path()), said }
    }

    /// Returns what the suite does not score: failures that are not expected, and expected ones that
    /// did not occur.
    fn wrong_beyond_the_set(&self, expected: &[Expected]) -> Vec<String> {
        let others = self.scenarios.iter().filter(|(name, _)| !self.required.contains(*name));
        let mut wrong = Vec::new();
        for (name, scenario) in others {
            let entries: Vec<_> = expected.iter().filter(|entry| entry.scenario == *name).collect();
            for check in &scenario.failed {
                if !entries.iter().any(|entry| entry.covers(check)) {
                    wrong.push(format!("{name}:{check} failed"));
                }
            }
            for entry in entries {
                if !scenario.failed.iter().any(|check| entry.covers(check)) {
                    wrong.push(format!("{name} was expected to fail: {}", entry.reason));
                }
            }
        }
        wrong
    }

    /// Returns how many required scenarios have no failure and no warning.
    fn passed(&self) -> usize {
        let required = self.scenarios.iter().filter(|(name, _)| self.required.contains(*name));
        required.filter(|(_, scenario)| scenario.failed.is_empty()).count()
    }

    /// Returns the numbers of checks that the suite prints last.
    fn total(&self) -> &str {
        let total = self.said.lines().find_map(|line| line.strip_prefix("Total: "));
        total.expect("the suite prints a total")
    }

    /// Returns a cell of a table: passed checks of all checks.
    fn cell(&self, name: &str) -> String {
        self.scenarios.get(name).map_or_else(
            || "–".to_owned(),
            |Scenario { passed, failed }| format!("{passed} of {}", passed + failed.len()),
        )
    }
}

impl Expected {
    fn covers(&self, check: &str) -> bool {
        self.check.as_ref().is_none_or(|only| only == check)
    }
}

/// Reads the results of a run: one directory a scenario, named `server-SCENARIO-TIME`.
fn read(results: &Path) -> BTreeMap<String, Scenario> {
    const TIME: usize = "-2026-07-28T00-00-00-000Z".len();
    let mut scenarios = BTreeMap::new();
    for entry in fs::read_dir(results).expect("the suite writes its results") {
        let directory = entry.expect("an entry").path();
        let name = directory.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
        let name = name.strip_prefix("server-").expect("a scenario of servers");
        let name = name[..name.len() - TIME].to_owned();
        let checks = fs::read_to_string(directory.join("checks.json")).expect("UTF-8");
        let checks: Value = serde_json::from_str(&checks).expect("JSON");
        let scenario: &mut Scenario = scenarios.entry(name).or_default();
        for check in checks.as_array().expect("a list of checks") {
            match check["status"].as_str().expect("each check has a status") {
                "SUCCESS" => scenario.passed += 1,
                "FAILURE" | "WARNING" => {
                    scenario.failed.push(check["id"].as_str().expect("it has an id").to_owned());
                }
                _ => {}
            }
        }
    }
    scenarios
}

/// Reads the list `server` of a file in YAML, each entry with the comment after it.
fn listed(file: &Path) -> Vec<Expected> {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let lines = text.lines().skip_while(|line| *line != "server:").skip(1);
    let entries = lines.take_while(|line| line.is_empty() || line.starts_with(' '));
    entries
        .filter_map(|line| line.trim_start().strip_prefix("- "))
        .map(|entry| {
            let (entry, reason) = entry.split_once(" # ").unwrap_or((entry, ""));
            let (scenario, check) =
                entry.split_once(':').map_or((entry, None), |(one, other)| (one, Some(other)));
            let check = check.map(str::to_owned);
            Expected { scenario: scenario.to_owned(), check, reason: reason.to_owned() }
        })
        .collect()
}

/// Returns the table of both runs as the page has it.
fn totals(runs: &[Run; 2]) -> String {
    let mut table =
        "| Requirement set | Required scenarios that pass | All checks |\n|---|---|---|\n"
            .to_owned();
    for run in runs {
        let (passed, required) = (run.passed(), run.required.len());
        writeln!(table, "| {} | {passed} of {required} | {} |", run.set, run.total())
            .expect("a String takes it");
    }
    table
}

/// Returns the table of the scenarios that a revision requires, or of the others, as the page has it.
fn scenarios(runs: &[Run; 2], expected: &[Expected], required: bool) -> String {
    let [one, other] = runs;
    let mut table = format!(
        "| Scenario | {} | {} | Reason of the failures |\n|---|---|---|---|\n",
        one.set, other.set
    );
    let names: BTreeSet<_> = runs.iter().flat_map(|run| run.scenarios.keys()).collect();
    for name in names {
        if runs.iter().any(|run| run.required.contains(name)) != required {
            continue;
        }
        let entries = expected.iter().filter(|entry| entry.scenario == *name);
        let reasons: BTreeSet<_> = entries.map(|entry| entry.reason.as_str()).collect();
        let reasons = reasons.into_iter().collect::<Vec<_>>().join("; ");
        let row = [format!("`{name}`"), one.cell(name), other.cell(name), reasons];
        writeln!(table, "| {} |", row.join(" | ")).expect("a String takes it");
    }
    table
}
