//! Verification of a log: that its lines are those that were signed, each once, in their order.
//!
//! Three things are compared. Each line has its number and the hash of the line before, which shows where
//! the log was changed. The checkpoints have the root of the tree of the lines, which shows that it was,
//! whatever was written anew. Checkpoints from outside show that all of it is there.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    event::{EventLine, KEY_ROTATED, time},
    files::{self, LineFile},
    key::PublicKey,
    read::ReadError,
    rotation::KeyHistory,
    start::LogStart,
    tree::{Hash, Tree, leaf_hash},
};

pub use self::finding::Finding;
use self::{
    chain::HashChain,
    claims::{CheckpointClaim, CheckpointClaims},
};

mod chain;
mod claims;
mod finding;

/// The things that a log is compared with.
#[derive(Debug, Default)]
pub struct Evidence {
    /// A key of the log, from somewhere else than the log.
    pub key: Option<PublicKey>,
    /// Files with checkpoints of the log, which may have those of other logs too.
    pub checkpoints: Vec<PathBuf>,
}

/// Result of a verification.
#[derive(Debug)]
pub struct Report {
    /// Name of the log; `None` if its first line has none.
    pub origin: Option<String>,
    /// Number of the first line. It is not 0 if older files are somewhere else.
    pub first: u64,
    /// Number of lines, with those before the first.
    pub size: u64,
    /// Number of lines that the newest valid checkpoint signs.
    pub signed: u64,
    /// Time of the first line after these, as RFC 3339 has it; `None` if there is none.
    pub unsigned_since: Option<String>,
    /// Keys of the log, oldest first.
    pub keys: Vec<PublicKey>,
    /// Number of valid checkpoints.
    pub checkpoints: usize,
    /// Length of an incomplete line at the end, which a gateway removes when it opens the log.
    pub incomplete_bytes: u64,
    /// Everything that is wrong, in the order of the lines. Empty for a valid log.
    pub findings: Vec<Finding>,
}

/// Verifies the log in a directory or a file. Fails if it cannot be read; what is wrong with it is in the
/// report.
pub fn verify(path: &Path, evidence: &Evidence) -> Result<Report, ReadError> {
    let mut findings = Vec::new();
    // Before the lines: a gateway that writes meanwhile adds lines first.
    let claims = CheckpointClaims::read(path, evidence, &mut findings)?;
    let mut pass = LogCheck { claims, ..LogCheck::default() };
    for mut file in files::line_files(path).map_err(ReadError::file(path))? {
        pass.read(&mut file).map_err(ReadError::file(&file.path))?;
    }
    pass.report(evidence, findings)
}

/// One pass over the lines.
#[derive(Default)]
struct LogCheck {
    chain: HashChain,
    first: u64,
    tree: Tree,
    keys: Option<KeyHistory>,
    claims: CheckpointClaims,
    unsigned_since: Option<String>,
    incomplete_bytes: u64,
    findings: Vec<Finding>,
}

impl LogCheck {
    fn read(&mut self, file: &mut LineFile) -> io::Result<()> {
        let mut reader = file.open()?;
        let mut row = 0;
        while let Some(raw) = reader.next_line()? {
            row += 1;
            if !raw.is_whole && file.is_newest {
                self.incomplete_bytes = raw.file_bytes();
                break;
            }
            if !raw.is_whole {
                // No gateway sets a file aside that ends with an incomplete line.
                let file = file.path.display().to_string();
                self.find(Finding::Malformed { line: self.tree.size(), file, row });
                break;
            }
            let leaf = leaf_hash(raw.bytes);
            let line = EventLine::parse(raw.bytes).filter(EventLine::is_canonical);
            match &line {
                Some(line) => self.take(line, leaf),
                None => self.chain.take_malformed(leaf, &file.path, row),
            }
            self.tree.push(leaf);
            if self.claims.compare(&self.tree) {
                self.unsigned_since = None;
            } else if self.unsigned_since.is_none() {
                self.unsigned_since =
                    line.and_then(|line| line.members()).map(|event| time(&event));
            }
        }
        Ok(())
    }

    fn take(&mut self, line: &EventLine<'_>, leaf: Hash) {
        if self.tree.size() == self.first && self.keys.is_none() {
            match LogStart::read(line) {
                Ok(start) => self.begin(start),
                Err(reason) => self.find(Finding::Start { line: line.number, reason }),
            }
        }
        self.chain.take(line, leaf);
        if let Some(keys) = &mut self.keys
            && let Some(members) = line.members_of_kind(KEY_ROTATED)
            && !keys.rotate(&members, line.number)
        {
            self.find(Finding::Rotation { line: line.number });
        }
    }

    fn begin(&mut self, start: LogStart) {
        self.first = start.tree.size();
        self.tree = start.tree;
        self.keys = Some(KeyHistory::new(start.key));
        self.chain = HashChain::at(self.first);
        self.claims.compare(&self.tree);
    }

    fn find(&mut self, finding: Finding) {
        if self.findings.len() < airlock_strings::MAX_LISTED {
            self.findings.push(finding);
        }
    }

    fn report(
        mut self,
        evidence: &Evidence,
        mut findings: Vec<Finding>,
    ) -> Result<Report, ReadError> {
        findings.append(&mut self.findings);
        let (broken, removed) = self.chain.finish();
        let is_broken = !broken.is_empty();
        findings.extend(broken);
        let keys: Vec<_> = self.keys.iter().flat_map(KeyHistory::keys).cloned().collect();
        if let Some(trusted) = &evidence.key
            && !keys.contains(trusted)
        {
            findings.push(Finding::OtherKey { expected: trusted.clone(), found: keys.clone() });
        }
        let valid = match &self.keys {
            Some(keys) => self.claims.signed(keys, self.first, &mut findings)?,
            None => Vec::new(),
        };
        let size = self.tree.size();
        let signed = matched(&valid);
        judge(&valid, &LineRange { first: self.first, size, removed, is_broken }, &mut findings);
        findings.sort_by_key(Finding::line);
        Ok(Report {
            origin: keys.first().map(|key| key.name().to_owned()),
            first: self.first,
            size,
            signed,
            unsigned_since: self.unsigned_since,
            keys,
            checkpoints: valid.len(),
            incomplete_bytes: self.incomplete_bytes,
            findings,
        })
    }
}

/// The lines that there are.
struct LineRange {
    first: u64,
    size: u64,
    /// Number of lines that are known to be missing between others.
    removed: u64,
    /// True if a line was found that is not at its place, or not as it was.
    is_broken: bool,
}

/// Returns the number of lines of the largest checkpoint that the log matches.
fn matched(valid: &[CheckpointClaim]) -> u64 {
    let matching = valid.iter().filter(|claim| claim.matches == Some(true));
    matching.map(|claim| claim.size).max().unwrap_or(0)
}

/// Compares the lines with what valid checkpoints claim.
fn judge(valid: &[CheckpointClaim], lines: &LineRange, findings: &mut Vec<Finding>) {
    let signed = matched(valid);
    let mismatch = valid.iter().find(|claim| claim.matches == Some(false));
    if let Some(CheckpointClaim { file, size, .. }) = mismatch {
        let before = valid.iter().filter(|claim| claim.matches == Some(true) && claim.size < *size);
        let from = before.map(|claim| claim.size).max().unwrap_or(lines.first);
        if signed >= *size {
            findings.push(Finding::Fork { file: file.to_string(), size: *size });
        } else if !lines.is_broken {
            findings.push(Finding::ChangedBetween { from, to: size.saturating_sub(1) });
        }
    }
    if let Some(CheckpointClaim { file, size, .. }) =
        valid.last().filter(|claim| claim.size > lines.size.saturating_add(lines.removed))
    {
        findings.push(Finding::Cut {
            file: file.to_string(),
            size: lines.size.saturating_add(lines.removed),
            signed: *size,
        });
    }
    let is_anchored = lines.first == 0
        || valid.iter().any(|claim| claim.size == lines.first && claim.matches == Some(true));
    if !is_anchored {
        findings.push(Finding::Unanchored { first: lines.first });
    }
    if valid.is_empty() {
        findings.push(Finding::Unsigned);
    }
}

#[cfg(test)]
mod tests;
