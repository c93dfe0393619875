//! Cost of a `pattern`. Matching is linear in the text, but the author of the pattern chooses the
//! factor.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{MAX_SHOWN, Problem};
use crate::text::cut;

/// The largest compiled pattern. `^.{1,100}$` takes 64 KiB, an e-mail address 4 KiB.
pub(super) const MAX_COMPILED_BYTES: usize = 256 << 10;
/// Limit on the cache of DFA states of one pattern, for each thread that matches it.
pub(super) const MAX_STATES_BYTES: usize = 64 << 10;
/// The most different patterns of a document.
pub(super) const MAX_PATTERNS: usize = 64;
/// Limit on the compiled size of all patterns of a document together.
const MAX_TOTAL_BYTES: usize = 1 << 20;
/// Cost of the start of a match, in bytes of text.
pub(super) const START_BYTES: usize = 4;
/// Smallest size limit that a pattern is compiled with. It is doubled until the pattern fits.
const SMALLEST_BYTES: usize = 1 << 10;

/// Costs of the patterns of a document.
#[derive(Default)]
pub(super) struct PatternCosts<'s> {
    known: HashMap<&'s str, u64>,
    total_bytes: usize,
}

impl<'s> PatternCosts<'s> {
    /// Returns the memory of all patterns in bytes: their compiled size and their caches of states.
    pub(super) fn bytes(&self) -> usize {
        self.total_bytes + self.known.len() * MAX_STATES_BYTES
    }

    /// Returns the upper bound on the cost of a match for each byte of text, in the units of
    /// [`super::walk`]. Fails if the pattern is not valid or too large, or if the document has too
    /// many patterns.
    pub(super) fn of(&mut self, pattern: &'s str) -> Result<u64, Problem> {
        if let Some(&cost) = self.known.get(pattern) {
            return Ok(cost);
        }
        if self.known.len() == MAX_PATTERNS {
            return Err(Problem::TooManyPatterns);
        }
        let compiled = compiled_bytes(pattern)
            .ok_or_else(|| Problem::Pattern(cut(pattern.to_owned(), MAX_SHOWN)))?;
        self.total_bytes += compiled;
        if self.total_bytes > MAX_TOTAL_BYTES {
            return Err(Problem::TooManyPatterns);
        }
        // The worst case that was measured, with patterns made for it: 0.16 ns for each byte of
        // text and of the compiled pattern. That is 1 µs for a byte of text at 8 KiB and 40 µs at
        // 256 KiB.
        let cost = (compiled / 30) as u64;
        self.known.insert(pattern, cost);
        Ok(cost)
    }
}

/// Returns the compiled size of a pattern, rounded up to a power of two, in bytes. Returns `None`
/// if it is larger than [`MAX_COMPILED_BYTES`] or not valid.
fn compiled_bytes(pattern: &str) -> Option<usize> {
    // In the default draft, whose only rule for a pattern is that it is text.
    let schema =
        Value::Object(Map::from_iter([("pattern".to_owned(), Value::String(pattern.to_owned()))]));
    let fits = |bytes: &usize| {
        let engine =
            jsonschema::PatternOptions::regex().size_limit(*bytes).dfa_size_limit(MAX_STATES_BYTES);
        jsonschema::options().with_pattern_options(engine).build(&schema).is_ok()
    };
    std::iter::successors(Some(SMALLEST_BYTES), |bytes| Some(bytes * 2))
        .take_while(|bytes| *bytes <= MAX_COMPILED_BYTES)
        .find(fits)
}
