//! One call of a guest: it waits for a slot, runs in a store of its own within its limits, and its
//! end is classified.

pub(crate) mod beside;
pub(crate) mod charge;
pub(crate) mod instance;
pub(crate) mod memory;
pub(crate) mod meter;
pub(crate) mod outcome;
pub(crate) mod state;
pub(crate) mod totals;
