//! Log messages about tools that were left out, for the operator.

use tracing::warn;

use crate::tool::ClientName;

/// Logs the tools that were left out, with the reasons.
pub(crate) fn report_dropped(client: &ClientName, dropped: &[String]) {
    const TOLD: usize = 10;
    for reason in dropped.iter().take(TOLD) {
        warn!(%client, reason, "tool left out");
    }
    if dropped.len() > TOLD {
        warn!(%client, more = dropped.len() - TOLD, "more tools left out");
    }
}
