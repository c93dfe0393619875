//! The means of this machine to confine a child.

use std::path::PathBuf;

use crate::{command::NetworkIsolation, platform};

impl NetworkIsolation {
    /// Returns the coverage on this machine.
    pub fn detect() -> Self {
        platform::network_isolation()
    }
}

/// Returns whether this machine can confine a child to paths: Linux 5.13 or later, with Landlock turned on.
pub fn can_confine_paths() -> bool {
    platform::can_confine_paths()
}

/// Returns the directory of this process's own cgroup of version 2; `None` if the system has none.
pub fn own_cgroup() -> Option<PathBuf> {
    platform::own_cgroup()
}
