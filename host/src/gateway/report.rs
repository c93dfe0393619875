//! Log messages about problems of sources, for the operator.

use tracing::warn;

use crate::{config::Config, tool::ClientName};

/// Logs the plugins that are not pinned. A gateway that serves loads changed components by itself,
/// so the operator must know which of them are loaded without a check.
pub(super) fn report_unpinned(config: &Config) {
    let clients = config.unpinned();
    if !clients.is_empty() {
        let clients = clients.iter().map(ClientName::as_str).collect::<Vec<_>>().join(", ");
        warn!(
            clients,
            "plugins are not pinned: a replaced component is loaded unchecked; \
             `airlock plugin accept --all` pins them"
        );
    }
}

/// Logs the tools that were left out, with the reasons.
pub(super) fn report_dropped(client: &ClientName, dropped: &[String]) {
    const TOLD: usize = 10;
    for reason in dropped.iter().take(TOLD) {
        warn!(%client, reason, "tool left out");
    }
    if dropped.len() > TOLD {
        warn!(%client, more = dropped.len() - TOLD, "more tools left out");
    }
}
