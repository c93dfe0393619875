//! `airlock audit verify`.

use std::path::PathBuf;

use serde_json::json;

use super::public_key;
use airlock_audit::verify::{Evidence, Finding, Report, verify};
use airlock_strings::visible_line;
use airlock_terminal::{outcome::CommandOutcome, output};

/// Check that a log is as it was signed
///
/// Says which line was changed, removed, moved or added, whether lines are missing at the end, and whether a
/// checkpoint is forged. The exit code is 1 if anything is found.
///
/// The key and the newest checkpoint must come from somewhere else than the log: with another key the whole log can be
/// written anew, and its end can be cut off together with its checkpoints.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock audit verify /var/lib/airlock/audit\n  airlock audit verify audit --key gateway.key --checkpoint published --json"
)]
pub(super) struct VerifyArgs {
    /// Directory of the log, or one file of it.
    #[arg(value_name = "DIR|FILE")]
    log: PathBuf,
    /// Public key of the log, or a file that has it: what `airlock audit key` prints and the gateway serves at
    /// /.well-known/airlock-audit-key.
    #[arg(long, value_name = "KEY|FILE")]
    key: Option<String>,
    /// File with checkpoints that were published. It may have those of other logs too. May be given several times.
    #[arg(long = "checkpoint", value_name = "FILE")]
    checkpoints: Vec<PathBuf>,
    /// Print a JSON document: `{ok, origin, first, size, signed, unsigned_since, keys, checkpoints, incomplete_bytes,
    /// findings: [{code, line, message}]}`.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &VerifyArgs) -> anyhow::Result<CommandOutcome> {
    let key = args.key.as_deref().map(public_key).transpose()?;
    let evidence = Evidence { key, checkpoints: args.checkpoints.clone() };
    let report = verify(&args.log, &evidence)?;
    let is_valid = report.findings.is_empty();
    if args.json {
        output::document(&document(&report))?;
        return Ok(is_valid.into());
    }
    for finding in &report.findings {
        output::line(&visible_line(&finding.to_string()))?;
    }
    output::line(&visible_line(&summary(&report)))?;
    if is_valid {
        hints(&report, &evidence);
    }
    Ok(is_valid.into())
}

fn document(report: &Report) -> serde_json::Value {
    let keys: Vec<_> = report.keys.iter().map(ToString::to_string).collect();
    let findings: Vec<_> = report.findings.iter().map(Finding::to_json).collect();
    json!({
        "ok": report.findings.is_empty(),
        "origin": report.origin,
        "first": report.first,
        "size": report.size,
        "signed": report.signed,
        "unsigned_since": report.unsigned_since,
        "keys": keys,
        "checkpoints": report.checkpoints,
        "incomplete_bytes": report.incomplete_bytes,
        "findings": findings,
    })
}

fn summary(report: &Report) -> String {
    let origin = report.origin.as_deref().unwrap_or("without a name");
    if !report.findings.is_empty() {
        return format!("the log {origin} is not as it was signed");
    }
    let Report { first, size, signed, checkpoints, .. } = report;
    let last = size.saturating_sub(1);
    let unsigned = match (size.saturating_sub(*signed), &report.unsigned_since) {
        (count @ 1.., Some(since)) => {
            format!("; lines at the end that are not signed yet: {count}, since {since}")
        }
        _ => String::new(),
    };
    format!(
        "the log {origin} is as it was signed: lines {first} to {last}, valid checkpoints: {checkpoints}{unsigned}"
    )
}

/// Prints hints about the checks that were not made.
fn hints(report: &Report, evidence: &Evidence) {
    if let (None, Some(key)) = (&evidence.key, report.keys.last()) {
        output::hint(&visible_line(&format!(
            "the key is the one that the log names; compare it with one from elsewhere, or use --key: {key}"
        )));
    }
    if evidence.checkpoints.is_empty() {
        output::hint(
            "without --checkpoint, lines that were cut off together with their checkpoints are not missed",
        );
    }
    if report.incomplete_bytes > 0 {
        output::hint(
            "the last line is incomplete: the gateway was stopped while it wrote, or writes at the moment",
        );
    }
}
