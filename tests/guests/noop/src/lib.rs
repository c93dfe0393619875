//! A plugin whose only tool does nothing, to measure what a call costs.

use airlock_guest::{plugin, tool};

plugin!(ok);

/// Answers at once.
#[tool(read_only, idempotent, open_world = false)]
pub fn ok() -> &'static str {
    "ok"
}
