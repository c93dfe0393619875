//! Processes of gateways that were killed before they could stop them.

use std::sync::OnceLock;

use super::{cgroup, reach};

/// Kills the processes that gateways of this user have left behind, if those have ended. Only the
/// first call in a process does anything; the others wait for it.
pub(crate) fn kill_strays() {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        cgroup::kill_abandoned();
        reach::kill_tagged(|tag| tag.gateway.has_ended());
    });
}
