//! Log messages for the operator: tools that were left out, and schemas that are not checked.

use tracing::warn;

use airlock_core::tool::{ClientName, ToolName};

/// The most problems of one source that are logged, of each kind.
const TOLD: usize = 10;

/// Logs the tools that were left out, with the reasons.
pub fn report_dropped(client: &ClientName, dropped: &[String]) {
    for reason in dropped.iter().take(TOLD) {
        warn!(%client, reason, "tool left out");
    }
    if dropped.len() > TOLD {
        warn!(%client, more = dropped.len() - TOLD, "more tools left out");
    }
}

/// Logs where the operator's lists and the tools of a source do not agree.
pub(super) fn report_mismatches(client: &ClientName, mismatches: &[String]) {
    for problem in mismatches.iter().take(TOLD) {
        warn!(%client, problem, "tools of the configuration are not offered");
    }
    if mismatches.len() > TOLD {
        warn!(%client, more = mismatches.len() - TOLD, "more names in the configuration that no tool has");
    }
}

/// Logs the schemas that values are not checked against, with the tools and the reasons.
pub fn report_unchecked(client: &ClientName, unchecked: &[String]) {
    for reason in unchecked.iter().take(TOLD) {
        warn!(%client, reason, "schema not checked");
    }
    if unchecked.len() > TOLD {
        warn!(%client, more = unchecked.len() - TOLD, "more schemas not checked");
    }
}

/// Logs a tool that has its prefix although its client has none.
pub(super) fn log_prefixed(client: &ClientName, tool: &ToolName, reason: &str) {
    warn!(%client, %tool, reason, "tool keeps its prefix");
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use super::*;

    #[test]
    fn the_first_unchecked_schemas_are_logged_and_the_others_are_counted() {
        let log = tempfile::NamedTempFile::new().expect("a file");
        let writer = Arc::new(log.reopen().expect("a file"));
        let subscriber = tracing_subscriber::fmt().with_writer(writer).with_ansi(false).finish();
        let unchecked: Vec<_> = (0..12).map(|n| format!("tool \"t{n}\": too large")).collect();
        tracing::subscriber::with_default(subscriber, || {
            report_unchecked(&ClientName::parse("plugin").expect("a name"), &unchecked);
        });
        let log = fs::read_to_string(log.path()).expect("text");
        assert_eq!(log.matches(" WARN ").count(), TOLD + 1, "{log}");
        assert!(log.contains("schema not checked client=plugin reason="), "{log}");
        assert!(log.contains("t9") && !log.contains("t10") && log.contains("more=2"), "{log}");
    }
}
