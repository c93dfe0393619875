//! `airlock audit`: checks the log of what a gateway did, and makes proofs and exports of it.
//!
//! These commands read files alone, so they work on a copy, and on a machine without a gateway.

mod checkpoint;
mod export;
mod prove;
mod verify;

use std::{fs, ops::ControlFlow, path::Path};

use anyhow::Context as _;

use airlock_audit::{Checkpoint, PublicKey, read::each_checkpoint};
use airlock_terminal::outcome::CommandOutcome;

/// Check the audit log of a gateway, and make proofs and exports of it
///
/// The log has a line for each decision of the gateway. The gateway signs the state of the log from time to time,
/// as a checkpoint. `verify` finds lines that were changed, removed, moved or cut off since. These commands read
/// files alone: a directory that was copied is enough, and no gateway has to run. docs/audit.md describes the format.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  airlock audit verify audit --key gateway.key --checkpoint published\n  airlock audit prove audit --call 0190a8c2-…\n  airlock audit export audit --format pipelock > receipts.jsonl\n  airlock audit checkpoint audit\n  airlock audit key audit"
)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, clap::Subcommand)]
enum AuditCommand {
    Verify(verify::VerifyArgs),
    Prove(prove::ProveArgs),
    Export(export::ExportArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Key(checkpoint::PublicKeyArgs),
}

pub(super) fn run(args: &AuditArgs) -> anyhow::Result<CommandOutcome> {
    match &args.command {
        AuditCommand::Verify(args) => verify::run(args),
        AuditCommand::Prove(args) => prove::run(args),
        AuditCommand::Export(args) => export::run(args),
        AuditCommand::Checkpoint(args) => checkpoint::run(args),
        AuditCommand::Key(args) => checkpoint::keys(args),
    }
}

/// Reads a public key: the key itself, or the path of a file whose last line has it.
fn public_key(text: &str) -> anyhow::Result<PublicKey> {
    let bad = match text.parse::<PublicKey>() {
        Ok(key) => return Ok(key),
        Err(bad) => anyhow::Error::from(bad),
    };
    let Ok(contents) = fs::read_to_string(text) else {
        return Err(bad.context("--key is neither a key nor a file that can be read"));
    };
    let last = contents.lines().next_back().unwrap_or_default();
    last.parse().with_context(|| format!("{text} has no public key"))
}

/// Reads the newest checkpoint of a file.
fn newest_of_file(path: &Path) -> anyhow::Result<Checkpoint> {
    let mut newest = None;
    each_checkpoint(path, |checkpoint| {
        newest = Some(checkpoint);
        ControlFlow::Continue(())
    })?;
    let newest = newest.with_context(|| format!("{} has no checkpoint", path.display()))?;
    newest.with_context(|| format!("the last checkpoint of {} cannot be used", path.display()))
}
