//! The numbers and hashes of the lines: each follows the one before it.
//!
//! If the bytes of one line are changed, the hash in the next line is wrong and the numbers are right. If the
//! wrong byte is in the hash that a line has, two hashes in a row are wrong: its own, and the one that the
//! next line has of it. If a line is removed or moved, the numbers are wrong.

use std::{collections::BTreeSet, path::Path};

use airlock_strings::{MAX_LISTED, hex};

use super::Finding;
use crate::{
    event::{EventLine, GENESIS},
    tree::Hash,
};

/// Most numbers of missing lines that are remembered, in case the lines are somewhere else. One
/// forged number may skip 2^64 lines; missing lines beyond this bound are only counted.
const MAX_MISSING: usize = 100_000;

/// The state after some lines.
pub(super) struct HashChain {
    expected: u64,
    last: Hash,
    link: HashLink,
    missing: BTreeSet<u64>,
    /// Lines that are missing and not remembered.
    forgotten: u64,
    findings: Vec<Finding>,
}

/// State of the hash that the last line has of the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HashLink {
    Good,
    Bad,
    /// The last line is known to be wrong, so that the next hash says nothing more.
    Unknown,
}

impl Default for HashChain {
    fn default() -> Self {
        Self {
            expected: 0,
            last: GENESIS,
            link: HashLink::Good,
            missing: BTreeSet::new(),
            forgotten: 0,
            findings: Vec::new(),
        }
    }
}

impl HashChain {
    /// Begins at this line. The hash of the line before it is not known, unless there is none.
    pub(super) fn at(first: u64) -> Self {
        let link = if first == 0 { HashLink::Good } else { HashLink::Unknown };
        Self { expected: first, link, ..Self::default() }
    }

    /// Takes the next line of the file, with the hash of its leaf.
    pub(super) fn take(&mut self, line: &EventLine<'_>, leaf: Hash) {
        let follows = line.previous == hex(&self.last);
        if line.number == self.expected {
            self.follow(line.number, follows);
            self.expected = self.expected.saturating_add(1);
        } else if follows && self.link != HashLink::Unknown {
            self.find(Finding::Changed { line: self.expected });
            self.expected = self.expected.saturating_add(1);
            self.link = HashLink::Unknown;
        } else {
            self.jump(line.number);
        }
        self.last = leaf;
    }

    /// Takes a line that has not the form of one, with the hash of its leaf.
    pub(super) fn take_malformed(&mut self, leaf: Hash, file: &Path, row: u64) {
        let file = file.display().to_string();
        self.find(Finding::Malformed { line: self.expected, file, row });
        self.expected = self.expected.saturating_add(1);
        self.link = HashLink::Unknown;
        self.last = leaf;
    }

    fn follow(&mut self, number: u64, follows: bool) {
        self.link = match (self.link, follows) {
            (HashLink::Unknown | HashLink::Good, true) | (HashLink::Unknown, false) => {
                HashLink::Good
            }
            (HashLink::Good, false) => HashLink::Bad,
            (HashLink::Bad, true) => {
                self.find(Finding::Changed { line: number.saturating_sub(2) });
                HashLink::Good
            }
            (HashLink::Bad, false) => {
                self.find(Finding::Changed { line: number.saturating_sub(1) });
                HashLink::Good
            }
        };
    }

    /// Takes a line with a number that is not the next.
    fn jump(&mut self, number: u64) {
        self.end_link();
        // After a malformed line it is unknown how many lines that one was.
        if self.link != HashLink::Unknown || number < self.expected {
            if number > self.expected {
                self.miss(number);
            } else if self.missing.remove(&number) {
                self.find(Finding::Reordered { line: number });
            } else if self.link != HashLink::Unknown {
                self.find(Finding::Repeated { line: number });
            }
        }
        self.expected = self.expected.max(number.saturating_add(1));
        self.link = HashLink::Unknown;
    }

    fn miss(&mut self, number: u64) {
        let count = number - self.expected;
        let room = (MAX_MISSING - self.missing.len()) as u64;
        self.missing.extend(self.expected..self.expected + count.min(room));
        self.forgotten = self.forgotten.saturating_add(count.saturating_sub(room));
    }

    /// Reports a wrong hash that no further line explains.
    fn end_link(&mut self) {
        if self.link == HashLink::Bad {
            self.find(Finding::Changed { line: self.expected.saturating_sub(2) });
            self.link = HashLink::Good;
        }
    }

    fn find(&mut self, finding: Finding) {
        if self.findings.len() < MAX_LISTED {
            self.findings.push(finding);
        }
    }

    /// Returns the findings, and the number of lines that are missing between others.
    pub(super) fn finish(mut self) -> (Vec<Finding>, u64) {
        self.end_link();
        let removed = self.missing.len() as u64 + self.forgotten;
        let missing = std::mem::take(&mut self.missing);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in missing {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        for (first, last) in ranges {
            self.find(Finding::Removed { first, last });
        }
        (self.findings, removed)
    }
}
