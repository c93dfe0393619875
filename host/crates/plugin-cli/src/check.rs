//! `airlock plugin check`.

use std::path::{Path, PathBuf};

use serde_json::json;

use airlock_authoring::{Check, CheckOutcome, Finding};
use airlock_terminal::{outcome::CommandOutcome, output, spinner};

/// Check a plugin or a guard before you publish it
///
/// Prints a line for each check, and for each finding where it is and what to write. The component
/// is compiled and asked for its tools with everything denied; the result must match the descriptors
/// that its build embedded. With the plugin.toml of its sources beside it, findings have the line.
/// A guard has to import nothing and to request nothing. Of a directory, plugin.toml is checked, and the component if it is built. The exit code is 1 if a
/// check fails; a warning is not a failure.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  airlock plugin check\n  airlock plugin check weather.wasm")]
pub(super) struct PluginCheckArgs {
    /// The component, or the directory of a plugin.
    #[arg(default_value = ".")]
    file: PathBuf,
    /// Print a JSON document: `{ok, file, checks: [{check, outcome, details: [{at, found, write}]}]}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &PluginCheckArgs) -> anyhow::Result<CommandOutcome> {
    let checks = airlock_authoring::check(&args.file, &spinner::compiling).await?;
    let ok = checks.iter().all(|check| check.outcome != CheckOutcome::Fail);
    if args.json {
        output::document(&json!({"ok": ok, "file": args.file, "checks": checks}))?;
        return Ok(ok.into());
    }
    for check in &checks {
        output::line(&lines(check).join("\n"))?;
    }
    output::line(&format!(
        "\n{} passed, {} warned, {} failed",
        count(&checks, CheckOutcome::Pass),
        count(&checks, CheckOutcome::Warn),
        count(&checks, CheckOutcome::Fail)
    ))?;
    Ok(ok.into())
}

fn count(checks: &[Check], outcome: CheckOutcome) -> usize {
    checks.iter().filter(|check| check.outcome == outcome).count()
}

/// Runs every check on a component. Returns lines for people about those that did not pass.
pub(super) async fn faults(file: &Path) -> anyhow::Result<Vec<String>> {
    let checks = airlock_authoring::check(file, &spinner::compiling).await?;
    Ok(checks.iter().filter(|check| check.outcome != CheckOutcome::Pass).flat_map(lines).collect())
}

/// Returns a check and its findings as lines for people.
fn lines(Check { name, outcome, details }: &Check) -> Vec<String> {
    let mark = match outcome {
        CheckOutcome::Pass => "pass",
        CheckOutcome::Warn => "warn",
        CheckOutcome::Fail => "FAIL",
    };
    let details = details.iter().flat_map(Finding::lines);
    let details = details.map(|line| format!("      {}", line.replace('\n', "\n      ")));
    std::iter::once(format!("{mark}  {name}")).chain(details).collect()
}
