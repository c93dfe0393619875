//! What the operator reads of sources that are not as they should be.

use tracing::warn;

use crate::tool::ClientName;

/// Says which tools were left out, and why.
pub(super) fn report_dropped(client: &ClientName, dropped: &[String]) {
    const TOLD: usize = 10;
    for reason in dropped.iter().take(TOLD) {
        warn!(%client, reason, "tool left out");
    }
    if dropped.len() > TOLD {
        warn!(%client, more = dropped.len() - TOLD, "more tools left out");
    }
}
