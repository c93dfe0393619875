//! Cost of a `pattern`. Matching is linear in the text, but the author of the pattern chooses the
//! factor.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{
    limits::{MAX_COMPILED_BYTES, MAX_PATTERN_BYTES, MAX_PATTERNS, MAX_SHOWN, MAX_STATES_BYTES},
    problem::Problem,
    work::DocumentWork,
};
use airlock_strings::cut;

/// Size limits below [`MAX_COMPILED_BYTES`] that a pattern is compiled with, to find its size.
const SIZES: [usize; 8] =
    [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10];

/// Costs of the patterns of a document.
pub(super) struct PatternCosts<'s, 'w> {
    known: HashMap<&'s str, u64>,
    total_bytes: usize,
    work: &'w mut DocumentWork,
}

impl<'s, 'w> PatternCosts<'s, 'w> {
    pub(super) fn new(work: &'w mut DocumentWork) -> Self {
        Self { known: HashMap::new(), total_bytes: 0, work }
    }

    /// Returns the memory of all patterns in bytes: their compiled size and their caches of states.
    pub(super) fn bytes(&self) -> usize {
        self.total_bytes + self.known.len() * MAX_STATES_BYTES
    }

    /// Returns the upper bound on the cost of a match for each byte of text, in the units of
    /// [`super::walk`]. Fails if the pattern is not valid or too large, if the document has too
    /// many patterns, or if too little work is left.
    pub(super) fn cost(&mut self, pattern: &'s str) -> Result<u64, Problem> {
        if let Some(&cost) = self.known.get(pattern) {
            return Ok(cost);
        }
        if self.known.len() == MAX_PATTERNS {
            return Err(Problem::TooManyPatterns);
        }
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(Problem::LongPattern { found: pattern.len() });
        }
        self.work.take(price(pattern))?;
        let compiled = compiled_bytes(pattern)
            .ok_or_else(|| Problem::Pattern(cut(pattern.to_owned(), MAX_SHOWN)))?;
        self.work.take(compiled as u64 / COMPILED_BYTES_PER_UNIT)?;
        self.total_bytes += compiled;
        // The worst case that was measured, with patterns made for it: 0.16 ns for each byte of
        // text and of the compiled pattern. That is 1 µs for a byte of text at 8 KiB and 40 µs at
        // 256 KiB.
        let cost = (compiled / 30) as u64;
        self.known.insert(pattern, cost);
        Ok(cost)
    }
}

/// Bytes of a compiled pattern that take one unit of [`DocumentWork`].
const COMPILED_BYTES_PER_UNIT: u64 = 25;
/// Bytes of a pattern whose parsing takes one unit of [`DocumentWork`].
const PARSED_BYTES_PER_UNIT: usize = 25;
/// Price of a class of Unicode (`\pL`): 50 µs, measured.
const UNICODE_CLASS: usize = 50;
/// Price of a range of characters beyond ASCII that is matched in any case (`(?i)[a-\u{10FFFF}]`):
/// 8 ms, measured.
const FOLDED_RANGE: usize = 8_000;

/// Returns the upper bound on the work of parsing a pattern, by its text alone. A text that only
/// looks like an expensive part counts too.
///
/// The classes of Perl are replaced, because they mean other characters in ECMA-262, and
/// `jsonschema` parses the pattern again after each: 512 times `\s` took 1.2 s.
fn price(pattern: &str) -> u64 {
    let spaces = escapes(pattern, "sS");
    let words = escapes(pattern, "wW");
    let replaced = spaces + words + escapes(pattern, "dDc");
    // The lengths of what stands in their place.
    let parsed = pattern.len() + spaces * 130 + words * 12 + replaced * 5;
    let unicode = escapes(pattern, "pP");
    let folded = if has_case_flag(pattern) {
        unicode + escapes(pattern, "xuU") + pattern.chars().filter(|c| !c.is_ascii()).count()
    } else {
        0
    };
    let parsing = (replaced + 1) * parsed / PARSED_BYTES_PER_UNIT;
    (parsing + unicode * UNICODE_CLASS + folded * FOLDED_RANGE) as u64
}

fn escapes(pattern: &str, letters: &str) -> usize {
    let pairs = pattern.as_bytes().windows(2);
    pairs.filter(|pair| pair[0] == b'\\' && letters.as_bytes().contains(&pair[1])).count()
}

/// Returns whether a pattern may match letters in any case (`(?i)`), in all or in part.
fn has_case_flag(pattern: &str) -> bool {
    pattern.split("(?").skip(1).any(|flags| {
        let mut flags = flags.chars().take_while(|c| c.is_ascii_alphabetic() || *c == '-');
        flags.any(|flag| flag == 'i')
    })
}

/// Returns the compiled size of a pattern, rounded up to a power of two, in bytes. Returns `None`
/// if it is larger than [`MAX_COMPILED_BYTES`] or not valid. Compiles it at most five times, and a
/// pattern that cannot be used once.
fn compiled_bytes(pattern: &str) -> Option<usize> {
    // In the default draft, whose only rule for a pattern is that it is text.
    let schema =
        Value::Object(Map::from_iter([("pattern".to_owned(), Value::String(pattern.to_owned()))]));
    if !fits(&schema, MAX_COMPILED_BYTES) {
        return None;
    }
    let smaller = SIZES.partition_point(|bytes| !fits(&schema, *bytes));
    Some(SIZES.get(smaller).copied().unwrap_or(MAX_COMPILED_BYTES))
}

fn fits(schema: &Value, bytes: usize) -> bool {
    let engine =
        jsonschema::PatternOptions::regex().size_limit(bytes).dfa_size_limit(MAX_STATES_BYTES);
    jsonschema::options().with_pattern_options(engine).build(schema).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{super::limits::MAX_COMPILE_WORK, *};

    #[test]
    fn a_pattern_has_the_price_of_its_most_expensive_parts() {
        let ordinary =
            [r"^[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}$", r"(?i)^(yes|no)$", r"^\d{4}-\d\d$"];
        for pattern in ordinary {
            assert!(price(pattern) < 30, "{pattern}: {}", price(pattern));
        }
        assert!(
            price_of_spaces(64) > 12 * price_of_spaces(16),
            "each is replaced in the whole pattern"
        );
        assert!(price_of_spaces(512) > MAX_COMPILE_WORK && price_of_spaces(100) < MAX_COMPILE_WORK);
        assert_eq!(price(r"\pL\PL") / UNICODE_CLASS as u64, 2);
        for folded in
            [r"(?i)[a-\u{10FFFF}]", "(?i)[a-\u{10FFFF}]", r"(?s-i:[a-\x{10FFFF}])", r"(?i)\pL"]
        {
            assert_eq!(price(folded) / FOLDED_RANGE as u64, 1, "{folded}");
        }
        assert!(price(r"(?<i>[a-\u{10FFFF}])") < 30, "a name is no flag");
    }

    fn price_of_spaces(count: usize) -> u64 {
        price(&r"\s".repeat(count))
    }

    #[test]
    fn the_size_of_a_pattern_is_found_in_few_attempts() {
        for (pattern, expected) in
            [("^a", 1 << 10), (".{1,100}", 64 << 10), ("[01]*1[01]{400}[a-y]", 128 << 10)]
        {
            let bytes = compiled_bytes(pattern).expect("it can be used");
            assert!(bytes <= expected * 2 && bytes.is_power_of_two(), "{pattern}: {bytes}");
        }
        for pattern in ["(", ".{5000}", "(?=a)"] {
            assert_eq!(compiled_bytes(pattern), None, "{pattern}");
        }
    }
}
