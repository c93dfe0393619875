//! Runs of the official conformance suite, and tables of their results.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fmt::{self, Write as _},
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use airlock_tests::{peers, root};
use serde_json::Value;
use tokio::process::Command;

/// Returns the directory of the suite.
fn suite() -> PathBuf {
    root().join(".cache/peers/node_modules/@modelcontextprotocol/conformance")
}

/// Half of the protocol that the suite tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    /// The suite is a client of the gateway.
    Server,
    /// The suite is a server behind the gateway.
    Client,
}

impl Half {
    /// Returns the name of the suite's subcommand, and of the lists in its files.
    fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// A run of the suite with one requirement set.
pub(crate) struct Run {
    pub(crate) set: &'static str,
    required: BTreeSet<String>,
    scenarios: BTreeMap<String, Scenario>,
    pub(crate) said: String,
    is_as_expected: bool,
}

/// Checks of one scenario, without those that were skipped or give information only.
#[derive(Debug, Default)]
struct Scenario {
    passed: usize,
    /// Ids of checks that failed, or were a warning.
    failed: Vec<String>,
}

/// An expected failure, of one check or of a whole scenario.
pub(crate) struct Expected {
    scenario: String,
    check: Option<String>,
    reason: String,
}

impl Run {
    /// Runs one half of the suite with these options, which say how to reach the gateway, and a file of
    /// expected failures.
    pub(crate) async fn start(
        half: Half,
        set: &'static str,
        options: &[OsString],
        expected: &Path,
    ) -> Self {
        let results = tempfile::tempdir().expect("a temporary directory");
        let mut command = Command::new(peers::recent_node());
        command.arg(suite().join("dist/index.js")).args([half.name(), "--requirements", set]);
        command.args(options).arg("--expected-failures").arg(expected);
        command.arg("--output-dir").arg(results.path());
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
        let output = output.expect("Node.js can be started; `make peers` installs the suite");
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        let requirements = suite().join(format!("requirements/{set}.yaml"));
        let required =
            self::expected(&requirements, half).into_iter().map(|entry| entry.scenario).collect();
        let scenarios = read(results.path(), half);
        Self { set, required, scenarios, said, is_as_expected: output.status.success() }
    }

    /// Returns the run. Panics with the suite's output if it reports an unexpected failure, or an
    /// expected one that did not occur.
    #[must_use]
    pub(crate) fn passed_as_expected(self) -> Self {
        assert!(self.is_as_expected, "{}\n{}: not as expected", self.said, self.set);
        self
    }

    /// Returns the checks that failed, each as an entry of a list of expected failures.
    pub(crate) fn failures(&self) -> BTreeSet<String> {
        let failed = |(name, scenario): (&String, &Scenario)| -> Vec<String> {
            scenario.failed.iter().map(|check| format!("{name}:{check}")).collect()
        };
        self.scenarios.iter().flat_map(failed).collect()
    }

    /// Returns what the suite does not score: failures that are not expected, and expected ones that
    /// did not occur.
    pub(crate) fn wrong_beyond_the_set(&self, expected: &[Expected]) -> Vec<String> {
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

    /// Returns a cell of a table: passed checks of all checks. A scenario of authorization checks each
    /// request, whose number depends on time, so that it only passes or fails.
    fn cell(&self, name: &str) -> String {
        match self.scenarios.get(name) {
            None => "–".to_owned(),
            Some(Scenario { failed, .. }) if name.starts_with("auth/") => {
                if failed.is_empty() { "passes" } else { "fails" }.to_owned()
            }
            Some(Scenario { passed, failed }) => format!("{passed} of {}", passed + failed.len()),
        }
    }
}

impl Expected {
    fn covers(&self, check: &str) -> bool {
        self.check.as_ref().is_none_or(|only| only == check)
    }

    /// Returns whether it covers a failure, written `SCENARIO:CHECK`.
    pub(crate) fn covers_entry(&self, failure: &str) -> bool {
        let (scenario, check) = failure.split_once(':').unwrap_or((failure, ""));
        self.scenario == scenario && self.covers(check)
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let check = self.check.as_ref().map(|check| format!(":{check}")).unwrap_or_default();
        write!(f, "{}{check} # {}", self.scenario, self.reason)
    }
}

/// Reads the results of a run: one directory a scenario, named `server-SCENARIO-TIME` or
/// `SCENARIO-TIME`. A scenario with a slash in its name is in a directory of its group.
fn read(results: &Path, half: Half) -> BTreeMap<String, Scenario> {
    const TIME: usize = "-2026-07-28T00-00-00-000Z".len();
    let mut scenarios = BTreeMap::<_, Scenario>::new();
    for directory in directories(results) {
        let name = directory.strip_prefix(results).expect("it is below").display().to_string();
        let prefix = if half == Half::Server { "server-" } else { "" };
        let name = name.strip_prefix(prefix).expect("a scenario of servers");
        let scenario = scenarios.entry(name[..name.len() - TIME].to_owned()).or_default();
        let checks = fs::read_to_string(directory.join("checks.json")).expect("UTF-8");
        let checks: Value = serde_json::from_str(&checks).expect("JSON");
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

/// Returns the directories of results, at any depth.
fn directories(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).expect("the suite writes its results");
    let children = entries.map(|entry| entry.expect("an entry").path());
    let children = children.filter(|child| child.is_dir());
    children
        .flat_map(|child| {
            if child.join("checks.json").exists() { vec![child] } else { directories(&child) }
        })
        .collect()
}

/// Reads the list of one half of a file in YAML, each entry with the comment after it.
pub(crate) fn expected(file: &Path, half: Half) -> Vec<Expected> {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let begins = format!("{}:", half.name());
    let lines = text.lines().skip_while(|line| *line != begins).skip(1);
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
pub(crate) fn totals(runs: &[Run; 2]) -> String {
    let mut table =
        "| Requirement set | Required scenarios that pass | All checks |\n|---|---|---|\n"
            .to_owned();
    for run in runs {
        let passed = run.passed();
        let required = run.required.len();
        writeln!(table, "| {} | {passed} of {required} | {} |", run.set, run.total())
            .expect("a String takes it");
    }
    table
}

/// Returns the table of totals without the number of checks, which depends on time.
pub(crate) fn required_totals(runs: &[Run; 2]) -> String {
    let mut table = "| Requirement set | Required scenarios that pass |\n|---|---|\n".to_owned();
    for run in runs {
        let passed = run.passed();
        let required = run.required.len();
        writeln!(table, "| {} | {passed} of {required} |", run.set).expect("a String takes it");
    }
    table
}

/// Returns the table of the scenarios that a revision requires, or of the others, as the page has it.
pub(crate) fn scenarios(runs: &[Run; 2], expected: &[Expected], required: bool) -> String {
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
