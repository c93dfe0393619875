//! One run of the command line.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::Value;
use tokio::process::Command;

use crate::wait;

/// Returns the path of a binary. It lies in the directory above that of the running test, because
/// cargo builds both.
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    let directory = test.ancestors().nth(2).expect("tests lie in target/<profile>/deps");
    let path = directory.join(name);
    assert!(
        path.is_file(),
        "cargo did not build {}: run the tests with `make test`",
        path.display()
    );
    path
}

/// Returns the path of an example of the gateway. Cargo builds the examples with the tests of the workspace, and not
/// with those of this package alone: `cargo build --workspace --examples` does.
pub fn example_binary(name: &str) -> PathBuf {
    binary(&format!("examples/{name}"))
}

/// A run of the command line that is not started yet.
#[must_use = "it does nothing until it is run"]
pub struct Airlock {
    command: Command,
    limit: Duration,
}

impl Default for Airlock {
    fn default() -> Self {
        Self::new()
    }
}

impl Airlock {
    /// Creates a run without arguments.
    pub fn new() -> Self {
        let mut command = Command::new(binary("airlock-under-test"));
        command.stdin(Stdio::null()).kill_on_drop(true);
        command.env("AIRLOCK_OPERATOR_TOKEN", crate::OPERATOR);
        Self { command, limit: wait::COMPILED }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the directory that it runs in.
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Sets another time limit than [`wait::COMPILED`].
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs the command to its end. Panics if it cannot be started or exceeds its time limit.
    pub async fn run(mut self) -> Finished {
        let Self { command, limit } = &mut self;
        let what = format!("{:?}", command.as_std());
        let output = tokio::time::timeout(*limit, command.output()).await;
        let output = output
            .unwrap_or_else(|_| panic!("{what} did not end in {limit:?}"))
            .expect("it can be started");
        Finished {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            what,
        }
    }
}

/// A run that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Text that it wrote to stdout.
    pub stdout: String,
    /// Text that it wrote to stderr.
    pub stderr: String,
    what: String,
}

impl Finished {
    /// Returns the run. Panics unless the exit code is 0.
    #[must_use]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self}");
        self
    }

    /// Returns the run. Panics if the exit code is 0 or that of a panic.
    #[must_use]
    pub fn failed(self) -> Self {
        assert!(matches!(self.code, Some(1..=100)), "{self}");
        self
    }

    /// Parses stdout as one JSON document. Panics if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is no JSON document: {error}\n{self}"))
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, stdout, stderr, what } = self;
        write!(f, "{what}\nexit code {code:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}
