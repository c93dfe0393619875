//! `airlock audit prove`.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::newest_of_file;
use airlock_audit::prove::{Inclusion, ProofTarget, consistency, inclusion};
use airlock_terminal::{outcome::CommandOutcome, output};

/// Prove that a line is in a log, or that a log only grew
///
/// Prints a JSON document that a holder of a checkpoint can check without the log: `{proofs: [{line, text,
/// leaf_hash, size, root, proof, checkpoint}]}` for lines, and `{old, new, proof}` for two checkpoints. Hashes are in
/// Base64. The proofs are those of RFC 9162.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("target").required(true).args(["line", "call", "from"]),
    after_help = "Examples:\n  airlock audit prove audit --line 17\n  airlock audit prove audit --call 0190a8c2-…\n  airlock audit prove audit --from 100 --to 250"
)]
pub(super) struct ProveArgs {
    /// Directory of the log, or one file of it.
    #[arg(value_name = "DIR|FILE")]
    log: PathBuf,
    /// Number of the line, from 0.
    #[arg(long, value_name = "NUMBER")]
    line: Option<u64>,
    /// Identifier of a call: each of its lines.
    #[arg(long, value_name = "ID")]
    call: Option<String>,
    /// Number of lines of an older checkpoint: the log of the newer one begins with its lines.
    #[arg(long, value_name = "SIZE")]
    from: Option<u64>,
    /// Number of lines of the newer checkpoint. By default it is the newest.
    #[arg(long, value_name = "SIZE", requires = "from", conflicts_with_all = ["line", "call"])]
    to: Option<u64>,
    /// File with the checkpoint that the lines are in, which is its last one. By default it is the newest of the
    /// directory.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    checkpoint: Option<PathBuf>,
}

pub(super) fn run(args: &ProveArgs) -> anyhow::Result<CommandOutcome> {
    output::document(&proof(args)?)?;
    Ok(CommandOutcome::Success)
}

fn proof(args: &ProveArgs) -> anyhow::Result<Value> {
    if let Some(from) = args.from {
        return Ok(consistency(&args.log, from, args.to)?.to_json());
    }
    let target = match (args.line, &args.call) {
        (Some(line), _) => ProofTarget::Line(line),
        (None, call) => ProofTarget::Call(call.clone().unwrap_or_default()),
    };
    let checkpoint = args.checkpoint.as_deref().map(newest_of_file).transpose()?;
    let proofs = inclusion(&args.log, &target, checkpoint)?;
    Ok(json!({"proofs": proofs.iter().map(Inclusion::to_json).collect::<Vec<_>>()}))
}
