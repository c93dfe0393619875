//! Runs external tools: compilers and installers.

use std::{
    ffi::OsStr,
    io::{self, Write as _},
    path::Path,
    process::{Output, Stdio},
};

use anyhow::{Context as _, bail};
use tokio::process::Command;

/// Prepares a command in a directory. Dropping the future that waits for it kills the process.
pub(super) fn command(program: impl AsRef<OsStr>, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs a command to its end. Its output is shown, unchanged, only if it fails.
pub(super) async fn run(command: &mut Command, what: &str) -> anyhow::Result<()> {
    let output = command.output().await.with_context(|| format!("{what} cannot be started"))?;
    if output.status.success() {
        return Ok(());
    }
    for said in [&output.stdout, &output.stderr] {
        // A failure to write is ignored: no other stream is left to report it on.
        let _ = io::stderr().write_all(said);
    }
    bail!("{what} failed; its output is above")
}

/// Returns the trimmed output of a command; `None` if it cannot be started or fails.
pub(super) async fn asked(command: &mut Command) -> Option<String> {
    let output: Output = command.output().await.ok()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(said)
}

/// Parses the first two numbers of a version at the end of a program's output, such as `v20.1.0` or
/// `Python 3.11.7`.
pub(super) fn version(said: &str) -> Option<(u32, u32)> {
    let number = said.split_whitespace().last()?.trim_start_matches('v');
    let mut parts = number.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_parse_from_the_output_of_programs() {
        assert_eq!(version("v20.20.2"), Some((20, 20)));
        assert_eq!(version("Python 3.11.7"), Some((3, 11)));
        assert_eq!(version("11.19.1"), Some((11, 19)));
        assert!(
            version("").is_none() && version("v20").is_none() && version("Python 3.x").is_none()
        );
    }

    #[tokio::test]
    async fn a_command_that_fails_or_is_missing_is_an_error() {
        let here = std::env::temp_dir();
        assert!(run(&mut command("true", &here), "true").await.is_ok());
        let failed = run(&mut command("false", &here), "false").await.expect_err("it fails");
        assert_eq!(failed.to_string(), "false failed; its output is above");
        let missing =
            run(&mut command("/no/such/program", &here), "it").await.expect_err("it is not there");
        assert_eq!(missing.to_string(), "it cannot be started");
        assert_eq!(asked(command("echo", &here).arg("v1.2.3")).await.as_deref(), Some("v1.2.3"));
        assert_eq!(asked(&mut command("false", &here)).await, None);
    }
}
