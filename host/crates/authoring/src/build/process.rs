//! Runs external tools: compilers and installers.

use std::{
    ffi::OsStr,
    path::Path,
    process::{Output, Stdio},
};

use tokio::process::Command;

use super::{error::BuildError, reporter::Reporter};

/// Prepares a command in a directory. Dropping the future that waits for it kills the process.
pub(super) fn command(program: impl AsRef<OsStr>, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs a command to its end. Its warnings, on standard error, go to the reporter; if it fails,
/// its whole output does.
pub(super) async fn run(
    command: &mut Command,
    tool: &str,
    reporter: &mut dyn Reporter,
) -> Result<(), BuildError> {
    run_explained(command, tool, reporter, |_| None).await
}

/// Runs a command as [`run`] does. If it fails, the error begins with what `explain` finds in its
/// output.
pub(super) async fn run_explained(
    command: &mut Command,
    tool: &str,
    reporter: &mut dyn Reporter,
    explain: impl Fn(&str) -> Option<String>,
) -> Result<(), BuildError> {
    if reporter.is_colourful() {
        // A tool that writes to a pipe uses no colours of its own accord.
        command.env("FORCE_COLOR", "1");
    }
    let output =
        command.output().await.map_err(BuildError::io(format!("{tool} cannot be started")))?;
    let is_done = output.status.success();
    let streams = if is_done { vec![&output.stderr] } else { vec![&output.stdout, &output.stderr] };
    let mut explained = None;
    for stream in streams {
        let text = String::from_utf8_lossy(stream);
        explained = explained.or_else(|| explain(&text));
        reporter.output(tool, &text);
    }
    if is_done {
        return Ok(());
    }
    let failed = format!("{tool} failed; {}", reporter.place());
    Err(BuildError::Failed(match explained {
        Some(reason) => format!("{reason} ({failed})"),
        None => failed,
    }))
}

/// Returns the trimmed output of a command; `None` if it cannot be started or fails.
pub(super) async fn output_of(command: &mut Command) -> Option<String> {
    let Output { status, stdout, .. } = command.output().await.ok()?;
    let output = String::from_utf8_lossy(&stdout).trim().to_owned();
    status.success().then_some(output)
}

/// Parses the first two numbers of a version at the end of a program's output, such as `v20.1.0` or
/// `Python 3.11.7`.
pub(super) fn version(output: &str) -> Option<(u32, u32)> {
    let number = output.split_whitespace().last()?.trim_start_matches('v');
    let mut parts = number.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::reporter::CollectedOutput;

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
        let mut reporter = CollectedOutput::default();
        let mut run =
            async |program: &str| run(&mut command(program, &here), program, &mut reporter).await;
        assert!(run("true").await.is_ok());
        let failed = run("false").await.expect_err("it fails");
        assert_eq!(failed.to_string(), "false failed; its output is collected");
        let missing = run("/no/such/program").await.expect_err("it is not there");
        assert_eq!(missing.to_string(), "/no/such/program cannot be started");
        assert_eq!(
            output_of(command("echo", &here).arg("v1.2.3")).await.as_deref(),
            Some("v1.2.3")
        );
        assert_eq!(output_of(&mut command("false", &here)).await, None);
    }

    #[tokio::test]
    async fn warnings_of_a_tool_that_succeeds_are_kept_and_its_other_output_is_not() {
        let script = "echo done; echo beware >&2";
        assert_eq!(run_script(script).await, (true, "beware\n".to_owned()));
        assert_eq!(
            run_script(&format!("{script}; exit 1")).await,
            (false, "done\nbeware\n".to_owned())
        );
    }

    /// Returns whether a script succeeds, and the output that the reporter gets.
    async fn run_script(script: &str) -> (bool, String) {
        let mut reporter = CollectedOutput::default();
        let mut shell = command("sh", &std::env::temp_dir());
        let is_done = run(shell.args(["-c", script]), "sh", &mut reporter).await.is_ok();
        (is_done, reporter.0)
    }
}
