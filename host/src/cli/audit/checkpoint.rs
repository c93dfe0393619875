//! `airlock audit checkpoint` and `airlock audit key`.

use std::{ops::ControlFlow, path::PathBuf};

use serde_json::{Value, json};

use airlock_audit::{
    Checkpoint,
    read::{checkpoints_path, each_checkpoint},
    verify::{Evidence, verify},
};
use airlock_strings::visible_line;
use airlock_terminal::{outcome::CommandOutcome, output};

/// Print the newest checkpoint of a log
///
/// Keep it where the operator of the gateway cannot change it. `airlock audit verify --checkpoint` finds from it
/// whether lines were cut off or written anew. It is a signed note (C2SP tlog-checkpoint).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock audit checkpoint /var/lib/airlock/audit >> published")]
pub(super) struct CheckpointArgs {
    /// Directory of the log.
    #[arg(value_name = "DIR")]
    log: PathBuf,
    /// Print all checkpoints, oldest first.
    #[arg(long)]
    all: bool,
    /// Print a JSON document: `{checkpoints: [{origin, size, checkpoint}]}`.
    #[arg(long)]
    json: bool,
}

/// Print the public keys of a log, newest last
///
/// Give the newest to those who check the log. If the key was rotated, the log has the change, signed by both keys, and
/// each of them can be used to check it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock audit key /var/lib/airlock/audit")]
pub(super) struct PublicKeyArgs {
    /// Directory of the log, or one file of it.
    #[arg(value_name = "DIR|FILE")]
    log: PathBuf,
    /// Print a JSON document: `{origin, keys}`.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CheckpointArgs) -> anyhow::Result<CommandOutcome> {
    let path = checkpoints_path(&args.log);
    let mut checkpoints = Vec::new();
    each_checkpoint(&path, |checkpoint| {
        if let Ok(checkpoint) = checkpoint {
            if !args.all {
                checkpoints.clear();
            }
            checkpoints.push(checkpoint);
        }
        ControlFlow::Continue(())
    })?;
    if args.json {
        let listed: Vec<_> = checkpoints.iter().map(to_json).collect();
        output::document(&json!({"checkpoints": listed}))?;
    } else {
        // As in a file: each ends with an empty line.
        checkpoints.iter().try_for_each(|checkpoint| output::line(&checkpoint.to_string()))?;
    }
    if checkpoints.is_empty() && !args.json {
        output::hint("the log has no checkpoint");
    }
    Ok((!checkpoints.is_empty()).into())
}

fn to_json(checkpoint: &Checkpoint) -> Value {
    let Checkpoint { origin, size, .. } = checkpoint;
    json!({"origin": origin, "size": size, "checkpoint": checkpoint.to_string()})
}

pub(super) fn keys(args: &PublicKeyArgs) -> anyhow::Result<CommandOutcome> {
    let report = verify(&args.log, &Evidence::default())?;
    let keys: Vec<_> = report.keys.iter().map(ToString::to_string).collect();
    if args.json {
        output::document(&json!({"origin": report.origin, "keys": keys}))?;
    } else {
        keys.iter().try_for_each(|key| output::line(&visible_line(key)))?;
    }
    if keys.is_empty() && !args.json {
        output::hint("the first line of the log has no key");
    }
    Ok((!keys.is_empty()).into())
}
