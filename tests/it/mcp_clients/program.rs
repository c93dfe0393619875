//! The programs of `tests/fixtures/mcp_clients`.

use std::{process::Stdio, time::Duration};

use airlock_tests::{peers, root};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use super::{LEGACY, MODERN};

/// Time limit of one program; one that hangs fails its test.
const LIMIT: Duration = Duration::from_mins(1);

/// A program that connects with one real client.
#[derive(Clone, Copy)]
pub(super) enum Program {
    /// `mcp` for Python.
    Python,
    /// `@modelcontextprotocol/client`.
    Node,
    /// `@modelcontextprotocol/sdk`.
    Sdk,
}

impl Program {
    pub(super) const ALL: [Self; 3] = [Self::Python, Self::Node, Self::Sdk];

    /// Returns the eras that its client can be told to use, with the revision that it then
    /// negotiates.
    pub(super) fn eras(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Python | Self::Node => &[LEGACY, MODERN],
            Self::Sdk => &[LEGACY],
        }
    }

    /// Returns the era that it uses by itself.
    pub(super) fn automatic(self) -> (&'static str, &'static str) {
        ("auto", self.eras().last().expect("it speaks one").1)
    }

    fn command(self, scenario: &str, era: &str, options: &[&str], target: &[String]) -> Command {
        let (interpreter, file) = match self {
            Self::Python => (peers::python(), "client.py"),
            Self::Node => (peers::node().into(), "client.mjs"),
            Self::Sdk => (peers::node().into(), "sdk.mjs"),
        };
        let mut command = Command::new(interpreter);
        command.arg(root().join("tests/fixtures/mcp_clients").join(file)).arg(scenario);
        command.args(["--era", era]).args(options).arg("--").args(target);
        // A proxy of this machine must not come between two local processes.
        command.env("NO_PROXY", "*").env("PYTHONDONTWRITEBYTECODE", "1").kill_on_drop(true);
        command
    }

    /// Runs a scenario. Returns the printed document.
    pub(super) async fn run(
        self,
        scenario: &str,
        era: &str,
        options: &[&str],
        target: &[String],
    ) -> Value {
        let mut command = self.command(scenario, era, options, target);
        let (code, document, said) = finished(command.stdin(Stdio::null())).await;
        assert_eq!(code, Some(0), "{scenario} {era}: {document}\n{said}");
        document
    }

    /// Runs a scenario up to the line that announces `step`.
    pub(super) async fn begin(
        self,
        scenario: &str,
        era: &str,
        options: &[&str],
        target: &[String],
        step: &str,
    ) -> Begun {
        let mut command = self.command(scenario, era, options, target);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the interpreter can be started");
        let stdout = child.stdout.take().expect("piped above");
        let mut begun = Begun { child, stdout: BufReader::new(stdout).lines() };
        assert_eq!(begun.line().await, json!({step: true}), "{scenario} {era}");
        begun
    }
}

/// A program that waits in the middle of its scenario.
pub(super) struct Begun {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Begun {
    /// Returns the next line, a JSON document.
    async fn line(&mut self) -> Value {
        let line = tokio::time::timeout(LIMIT, self.stdout.next_line()).await;
        let line =
            line.expect("it does not hang").expect("UTF-8").expect("it prints one line more");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Closes the program's standard input. Returns the document that it then prints.
    pub(super) async fn finish(mut self) -> Value {
        drop(self.child.stdin.take());
        let document = self.line().await;
        let ended = tokio::time::timeout(LIMIT, self.child.wait()).await;
        assert!(ended.expect("it ends").expect("it can be awaited").success(), "{document}");
        document
    }
}

/// Runs a command to its end. Returns its exit code, the document that it printed (null if it is
/// none), and what it wrote to standard error.
pub(super) async fn finished(command: &mut Command) -> (Option<i32>, Value, String) {
    let output = tokio::time::timeout(LIMIT, command.output()).await;
    let output = output.expect("it does not hang").expect("it can be started");
    let document = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), document, String::from_utf8_lossy(&output.stderr).into_owned())
}
