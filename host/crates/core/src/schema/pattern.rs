//! What a `pattern` costs: linear in the text, but by a factor that its author chooses.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{MAX_SHOWN, Problem};
use crate::text::cut;

/// The largest compiled pattern. `^.{1,100}$` takes 64 KiB of it, an e-mail address 4 KiB.
pub(super) const MAX_COMPILED_BYTES: usize = 256 << 10;
/// What one pattern may keep of the states that it has seen, on each thread that matches it.
pub(super) const MAX_STATES_BYTES: usize = 64 << 10;
/// The most different patterns of a document.
pub(super) const MAX_PATTERNS: usize = 64;
/// The most that all of them together may take.
const MAX_TOTAL_BYTES: usize = 1 << 20;
/// What starting to match costs, in bytes of text.
pub(super) const START_BYTES: usize = 4;
/// The sizes that are tried, from here on doubled.
const SMALLEST_BYTES: usize = 1 << 10;

/// What the patterns of a document cost.
#[derive(Default)]
pub(super) struct PatternCosts<'s> {
    known: HashMap<&'s str, u64>,
    total_bytes: usize,
}

impl<'s> PatternCosts<'s> {
    /// What all of them take, in bytes: compiled, and in states that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.total_bytes + self.known.len() * MAX_STATES_BYTES
    }

    /// What matching a pattern costs at most for each byte of text, in the units of
    /// [`super::cost`].
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
        // The worst that was found in patterns made for it: 0.16 ns for each byte of text and of
        // the compiled pattern, which is 1 µs a byte of text at 8 KiB and 40 µs at 256 KiB.
        let cost = (compiled / 30) as u64;
        self.known.insert(pattern, cost);
        Ok(cost)
    }
}

/// How large a pattern is when it is compiled, to a factor of two.
fn compiled_bytes(pattern: &str) -> Option<usize> {
    // In a draft that has nothing to say about the pattern beyond that it is text.
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
