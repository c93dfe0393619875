//! Bounds the cost of rendering stubs.
//!
//! A source decides how large its schemas are and how often they refer to each other, so the work
//! that they cause is counted and not timed. A unit is one schema, one property, or one name in a
//! list of required properties: some 0.1 µs to 0.5 µs.

use std::cell::Cell;

/// Units for one tool: several times what the largest tools of public servers need.
const TOOL_UNITS: usize = 16 << 10;
/// Units for the tools that are rendered together, those of one source: some 0.5 s.
const BATCH_UNITS: usize = 2 << 20;
/// Bytes of the stubs that are rendered together.
const BATCH_BYTES: usize = 8 << 20;

/// Units that may still be read for one tool.
pub(super) struct Budget {
    granted: usize,
    left: Cell<usize>,
}

/// Units and bytes that may still be rendered of one source's tools.
pub(super) struct Batch {
    units: usize,
    bytes: usize,
}

impl Budget {
    /// All that one tool may cost.
    #[cfg(test)]
    pub(super) fn whole() -> Self {
        Self::of(TOOL_UNITS)
    }

    fn of(units: usize) -> Self {
        Self { granted: units, left: Cell::new(units) }
    }

    /// Takes `units`, or nothing and returns false if there are fewer.
    pub(super) fn pay(&self, units: usize) -> bool {
        let left = self.left.get().checked_sub(units);
        self.left.set(left.unwrap_or(self.left.get()));
        left.is_some()
    }

    /// Units taken so far.
    pub(super) fn spent(&self) -> usize {
        self.granted - self.left.get()
    }
}

impl Batch {
    /// All that the tools of one source may cost together.
    pub(super) fn whole() -> Self {
        Self { units: BATCH_UNITS, bytes: BATCH_BYTES }
    }

    /// The budget of the next tool.
    pub(super) fn next(&self) -> Budget {
        Budget::of(self.units.min(TOOL_UNITS))
    }

    /// Takes what a tool has cost. Returns false if its `bytes` do not fit any more; they are not
    /// taken then.
    pub(super) fn settle(&mut self, spent: &Budget, bytes: usize) -> bool {
        self.units -= spent.spent();
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_pays_to_its_end_and_not_beyond() {
        let budget = Budget::whole();
        assert!(budget.pay(TOOL_UNITS - 1));
        assert!(!budget.pay(2), "more than is left");
        assert_eq!(budget.spent(), TOOL_UNITS - 1, "what was refused is not taken");
        assert!(budget.pay(1) && !budget.pay(1));
    }

    #[test]
    fn the_tools_of_a_source_share_what_they_may_cost() {
        let mut batch = Batch::whole();
        for _ in 0..BATCH_UNITS / TOOL_UNITS {
            let budget = batch.next();
            assert!(budget.pay(TOOL_UNITS));
            assert!(batch.settle(&budget, 1));
        }
        assert!(!batch.next().pay(1), "all units are spent");
        let nothing = batch.next();
        assert!(batch.settle(&nothing, batch.bytes));
        assert!(!batch.settle(&nothing, 1), "all bytes are spent");
    }
}
