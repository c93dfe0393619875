//! Bounds the cost of rendering stubs.
//!
//! The source decides the size of its schemas and the number of references between them, so their
//! work is counted and not timed. A unit is one schema, one property, one name in a list of required
//! properties, two segments of a reference, or 64 bytes of texts or values that are read besides: about
//! 0.1 µs to 0.5 µs.

use std::cell::Cell;

/// Bytes of texts, or values of lists, that are read for one unit.
const READ_OF_UNIT: usize = 64;
/// Units for one tool: several times the need of the largest tools of public servers.
const TOOL_UNITS: usize = 16 << 10;
/// Units for the tools that are rendered together, those of one source: about 0.5 s.
const BATCH_UNITS: usize = 2 << 20;
/// Maximum total size of stubs that are rendered together, in bytes.
pub(super) const BATCH_BYTES: usize = 8 << 20;

/// Remaining units of one tool.
pub(super) struct RenderBudget {
    granted: usize,
    left: Cell<usize>,
}

/// Remaining units and bytes of one source's tools.
pub(super) struct Batch {
    units: usize,
    bytes: usize,
}

impl RenderBudget {
    /// Returns the full budget of one tool.
    pub(super) fn whole() -> Self {
        Self::with_units(TOOL_UNITS)
    }

    fn with_units(units: usize) -> Self {
        Self { granted: units, left: Cell::new(units) }
    }

    /// Takes `units`. Returns false and takes nothing if fewer are left.
    pub(super) fn pay(&self, units: usize) -> bool {
        let left = self.left.get().checked_sub(units);
        self.left.set(left.unwrap_or(self.left.get()));
        left.is_some()
    }

    /// Takes the units for reading so many bytes of texts or values of lists. Returns false and takes
    /// nothing if fewer are left.
    pub(super) fn pay_read(&self, read: usize) -> bool {
        self.pay(read / READ_OF_UNIT)
    }

    /// Returns the number of units taken so far.
    pub(super) fn spent(&self) -> usize {
        self.granted - self.left.get()
    }
}

impl Batch {
    /// Returns the full budget of one source's tools.
    pub(super) fn whole() -> Self {
        Self { units: BATCH_UNITS, bytes: BATCH_BYTES }
    }

    /// Returns the budget of the next tool.
    pub(super) fn next(&self) -> RenderBudget {
        RenderBudget::with_units(self.units.min(TOOL_UNITS))
    }

    /// Takes the units that a tool has spent, and its `bytes`. Returns false without taking the
    /// bytes if they do not fit.
    pub(super) fn settle(&mut self, spent: &RenderBudget, bytes: usize) -> bool {
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
    fn a_budget_refuses_more_units_than_are_left() {
        let budget = RenderBudget::whole();
        assert!(budget.pay(TOOL_UNITS - 1));
        assert!(!budget.pay(2), "more than is left");
        assert_eq!(budget.spent(), TOOL_UNITS - 1, "what was refused is not taken");
        assert!(budget.pay(1) && !budget.pay(1));
    }

    #[test]
    fn the_tools_of_a_source_share_units_and_bytes() {
        let mut batch = Batch::whole();
        for _ in 0..BATCH_UNITS / TOOL_UNITS {
            let budget = batch.next();
            assert!(budget.pay(TOOL_UNITS));
            assert!(batch.settle(&budget, 1));
        }
        assert!(!batch.next().pay(1), "all units are spent");
        let nothing = batch.next();
        let left = batch.bytes;
        assert!(!batch.settle(&nothing, left + 1), "more bytes than are left");
        assert!(batch.settle(&nothing, left), "what was refused is not taken");
        assert!(!batch.settle(&nothing, 1), "all bytes are spent");
    }
}
