//! Protects the memory and the environment of the gateway from its children.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

pub(crate) fn protect_self() {
    // It fails for no process and no kernel that is supported.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}
