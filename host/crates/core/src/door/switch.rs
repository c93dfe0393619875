//! The switch of all tools.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Switches all tools of a gateway off and on. Cheap to clone; clones are one switch. A new one is on.
///
/// A request keeps the view that it began with, so its later calls, and those of its scripts and
/// plugins, ask the switch once more: a call that runs already ends, and no other begins.
#[derive(Clone, Default)]
pub struct ToolSwitch(Arc<AtomicBool>);

impl ToolSwitch {
    /// Switches all tools off, or on. Returns whether that has changed anything.
    pub fn set_off(&self, is_off: bool) -> bool {
        self.0.swap(is_off, Ordering::AcqRel) != is_off
    }

    /// Returns whether all tools are off at this moment.
    pub fn is_off(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl fmt::Debug for ToolSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_off() { "off" } else { "on" })
    }
}
