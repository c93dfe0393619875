//! Proofs for those who have a checkpoint and not the log: that a line is in it (RFC 9162, section 2.1.3),
//! and that it begins with the lines of an older checkpoint (section 2.1.4).

use std::{
    ops::{ControlFlow, Range},
    path::Path,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{
    checkpoint::Checkpoint,
    read::{ReadError, checkpoint_of_size, each_line, newest_checkpoint},
    tree::{
        Hash, ProofBuilder, consistency_ranges, inclusion_ranges, is_consistent, is_included,
        leaf_hash,
    },
};

/// Most lines of one call that are proven. A gateway writes a few; a forged log may have more. Each
/// is held in memory, and every line of the log is added to the proof of each.
const MAX_LINES: usize = 100;

/// The lines that a proof is wanted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProofTarget {
    /// The line with this number.
    Line(u64),
    /// Each line about the call with this identifier.
    Call(String),
}

/// Reason why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// There is no such line.
    #[error("the log has no line {0}")]
    NoLine(u64),
    /// No line is about the call.
    #[error("no line of the log is about the call {0:?}")]
    NoCall(String),
    /// More lines are about the call than are proven at once.
    #[error("more than {MAX_LINES} lines are about the call; prove them by number")]
    TooMany,
    /// There is no checkpoint.
    #[error("the log has no checkpoint; name one by --checkpoint")]
    NoCheckpoint,
    /// There is no checkpoint of this size.
    #[error("the log has no checkpoint of {0} lines; `airlock audit checkpoint --all` lists them")]
    NoSuchCheckpoint(u64),
    /// The line is newer than the checkpoint.
    #[error("line {line} is not signed yet: the checkpoint has {size} lines")]
    NotSigned {
        /// Number of the line.
        line: u64,
        /// Lines of the checkpoint.
        size: u64,
    },
    /// The first checkpoint is not older than the second.
    #[error("a checkpoint of {old} lines is not older than one of {new}")]
    NotOlder {
        /// Lines of the first.
        old: u64,
        /// Lines of the second.
        new: u64,
    },
    /// Lines that the proof needs are not there.
    #[error("the proof needs lines that are not here; put the older files of the log back")]
    Missing,
    /// The lines do not have the root of the checkpoint.
    #[error(
        "the lines are not those that were signed; find the change with `airlock audit verify`"
    )]
    Changed,
}

/// Proof that a line is in a log.
#[derive(Debug)]
pub struct Inclusion {
    /// Number of the line.
    pub line: u64,
    /// The line, without its line end.
    pub text: String,
    /// The hashes of the proof.
    pub proof: Vec<Hash>,
    /// The checkpoint that the line is in.
    pub checkpoint: Checkpoint,
}

impl Inclusion {
    /// Returns the proof for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "line": self.line,
            "text": self.text,
            "leaf_hash": BASE64_STANDARD.encode(leaf_hash(self.text.as_bytes())),
            "size": self.checkpoint.size,
            "root": BASE64_STANDARD.encode(self.checkpoint.root),
            "proof": encoded(&self.proof),
            "checkpoint": self.checkpoint.to_string(),
        })
    }
}

/// Proof that a log begins with the lines of an older checkpoint.
#[derive(Debug)]
pub struct Consistency {
    /// The older checkpoint.
    pub old: Checkpoint,
    /// The newer checkpoint.
    pub new: Checkpoint,
    /// The hashes of the proof.
    pub proof: Vec<Hash>,
}

impl Consistency {
    /// Returns the proof for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "old": checkpoint_json(&self.old),
            "new": checkpoint_json(&self.new),
            "proof": encoded(&self.proof),
        })
    }
}

fn checkpoint_json(checkpoint: &Checkpoint) -> Value {
    json!({
        "size": checkpoint.size,
        "root": BASE64_STANDARD.encode(checkpoint.root),
        "checkpoint": checkpoint.to_string(),
    })
}

fn encoded(proof: &[Hash]) -> Vec<String> {
    proof.iter().map(|hash| BASE64_STANDARD.encode(hash)).collect()
}

/// Proves that lines are in the log, as the checkpoint has signed it: the newest one of the directory, if
/// none is given.
pub fn inclusion(
    path: &Path,
    target: &ProofTarget,
    checkpoint: Option<Checkpoint>,
) -> Result<Vec<Inclusion>, ProveError> {
    let checkpoint = match checkpoint {
        Some(checkpoint) => checkpoint,
        None => newest_checkpoint(path)?.ok_or(ProveError::NoCheckpoint)?,
    };
    let found = find(path, target)?;
    let size = checkpoint.size;
    if let Some((line, _)) = found.iter().find(|(line, _)| *line >= size) {
        return Err(ProveError::NotSigned { line: *line, size });
    }
    let ranges: Vec<_> = found.iter().map(|(line, _)| inclusion_ranges(*line, size)).collect();
    let proofs = build(path, &ranges)?;
    let proven = found.into_iter().zip(proofs).map(|((line, text), proof)| {
        let leaf = leaf_hash(text.as_bytes());
        if !is_included(&leaf, line, size, &proof, &checkpoint.root) {
            return Err(ProveError::Changed);
        }
        Ok(Inclusion { line, text, proof, checkpoint: checkpoint.clone() })
    });
    proven.collect()
}

/// Proves that the log of one checkpoint of a directory begins with that of an older one. Both are named by
/// their number of lines; without a second one it is the newest.
pub fn consistency(path: &Path, old: u64, new: Option<u64>) -> Result<Consistency, ProveError> {
    let old = checkpoint_of_size(path, old)?.ok_or(ProveError::NoSuchCheckpoint(old))?;
    let new = match new {
        Some(new) => checkpoint_of_size(path, new)?.ok_or(ProveError::NoSuchCheckpoint(new))?,
        None => newest_checkpoint(path)?.ok_or(ProveError::NoCheckpoint)?,
    };
    if old.size > new.size {
        return Err(ProveError::NotOlder { old: old.size, new: new.size });
    }
    let ranges = consistency_ranges(old.size, new.size);
    let proof = build(path, &[ranges])?.pop().unwrap_or_default();
    if !is_consistent((old.size, &old.root), (new.size, &new.root), &proof) {
        return Err(ProveError::Changed);
    }
    Ok(Consistency { old, new, proof })
}

/// Finds the lines, with their texts.
fn find(path: &Path, target: &ProofTarget) -> Result<Vec<(u64, String)>, ProveError> {
    let mut found = Vec::new();
    each_line(path, |line| {
        let is_wanted = match target {
            ProofTarget::Line(number) => line.number == *number,
            ProofTarget::Call(call) => line.is_about("call", call),
        };
        if is_wanted {
            found.push((line.number, String::from_utf8_lossy(line.bytes).into_owned()));
        }
        let is_last = match target {
            ProofTarget::Line(_) => is_wanted,
            ProofTarget::Call(_) => found.len() > MAX_LINES,
        };
        if is_last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    match target {
        ProofTarget::Line(number) if found.is_empty() => Err(ProveError::NoLine(*number)),
        ProofTarget::Call(call) if found.is_empty() => Err(ProveError::NoCall(call.clone())),
        _ if found.len() > MAX_LINES => Err(ProveError::TooMany),
        _ => Ok(found),
    }
}

/// Computes proofs in one pass over the lines.
fn build(path: &Path, ranges: &[Vec<Range<u64>>]) -> Result<Vec<Vec<Hash>>, ProveError> {
    let mut builders: Vec<_> = Vec::new();
    each_line(path, |line| {
        if builders.is_empty() {
            builders = ranges
                .iter()
                .map(|ranges| ProofBuilder::new(ranges.clone(), line.number))
                .collect();
        }
        let leaf = line.hash();
        for builder in &mut builders {
            builder.push(leaf);
        }
        ControlFlow::Continue(())
    })?;
    builders.into_iter().map(|builder| builder.finish().ok_or(ProveError::Missing)).collect()
}
