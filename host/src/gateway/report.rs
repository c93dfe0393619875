//! What the operator reads of sources that are not as they should be.

use tracing::warn;

use crate::catalog::ClientName;

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

/// An error with its causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
