//! Price of the check of one value, computed before the check.

use serde_json::Value;

use super::{
    MAX_DEPTH,
    cost::{Costs, MAX_NESTING},
    pattern,
};

/// The most that a check may cost, in units of about 5 ns: 50 ms. For comparison, a guest may
/// compute for two seconds.
const MAX_WORK: u64 = 10_000_000;
/// The most evaluations for which all errors are collected. Each evaluation may produce an error of
/// about half a kilobyte.
const MAX_EXPLAINED_EVALUATIONS: u64 = 20_000;
/// The most copied bytes for which all errors are collected. Errors inside `anyOf` and `oneOf` hold
/// a copy of the value that they describe.
const MAX_EXPLAINED_BYTES: u64 = 16 << 20;
/// The largest integer that has a hash of its own in `jsonschema`, which hashes integers as floats.
const EXACT: u64 = 1 << 53;

/// Price of a value that may be checked.
pub(super) struct Price {
    /// True if all of its errors may be collected.
    pub(super) affords_errors: bool,
}

/// Reason why a value is not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unaffordable {
    /// The value is nested deeper than [`MAX_DEPTH`].
    Depth,
    /// The check would cost more than [`MAX_WORK`], or would nest deeper than [`MAX_NESTING`].
    Work,
}

impl Costs {
    /// Computes the price of a value. Fails if the value is too deep or its check too expensive.
    pub(super) fn price(&self, value: &Value) -> Result<Price, Unaffordable> {
        let mut sum = Sum { costs: self, work: 0, evaluations: 0, copied: 0 };
        sum.add(value, 0, 0, 0)?;
        let affords_errors =
            sum.evaluations <= MAX_EXPLAINED_EVALUATIONS && sum.copied <= MAX_EXPLAINED_BYTES;
        Ok(Price { affords_errors })
    }
}

struct Sum<'c> {
    costs: &'c Costs,
    work: u64,
    evaluations: u64,
    /// Bytes that would be copied if each subschema that looks at a value, or at a value that
    /// contains it, kept a copy.
    copied: u64,
}

impl Sum<'_> {
    /// Adds the price of a value and of all values in it. Returns the number of these values.
    /// `above` is the number of evaluations of all values that contain it.
    fn add(
        &mut self,
        value: &Value,
        depth: usize,
        key_bytes: usize,
        above: u64,
    ) -> Result<u64, Unaffordable> {
        if depth > MAX_DEPTH {
            return Err(Unaffordable::Depth);
        }
        let cost = self.costs.at(depth);
        let looks = above.saturating_add(cost.evaluations);
        let bytes = key_bytes + value.as_str().map_or(0, str::len);
        // One unit for the value itself, so that values without a subschema are limited too.
        self.work = self.work.saturating_add(cost.work).saturating_add(1);
        self.work = self
            .work
            .saturating_add(cost.patterns.saturating_mul((bytes + pattern::START_BYTES) as u64));
        self.evaluations = self.evaluations.saturating_add(cost.evaluations);
        self.copied =
            self.copied.saturating_add(looks.saturating_mul((bytes + size_of::<Value>()) as u64));
        if self.work > MAX_WORK || cost.nesting > MAX_NESTING {
            return Err(Unaffordable::Work);
        }
        let mut count = 1;
        match value {
            Value::Array(items) => {
                for item in items {
                    count += self.add(item, depth + 1, 0, looks)?;
                }
                let compared = if items.iter().all(has_own_hash) {
                    count
                } else {
                    (items.len() as u64).saturating_mul(count)
                };
                self.work = self.work.saturating_add(cost.unique.saturating_mul(compared));
            }
            Value::Object(members) => {
                for (key, member) in members {
                    count += self.add(member, depth + 1, key.len(), looks)?;
                }
            }
            _ => {}
        }
        if self.work > MAX_WORK { Err(Unaffordable::Work) } else { Ok(count) }
    }
}

/// Returns whether an attacker cannot easily choose the hash of a value. The hashes of arrays,
/// objects and integers above 2⁵³ can be made equal.
fn has_own_hash(value: &Value) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) => false,
        Value::Number(number) if number.is_f64() => true,
        Value::Number(number) => number
            .as_i64()
            .map(i64::unsigned_abs)
            .or(number.as_u64())
            .is_some_and(|size| size <= EXACT),
        _ => true,
    }
}
