//! Versions of the contract, in the names of exports and imports.

/// Name of the interface that every tool plugin exports, without its version.
const TOOLS: &str = "airlock:plugin/tools";

/// Returns the version in the name of a plugin's `tools` export; `None` for any other export.
pub(crate) fn version_of(export: &str) -> Option<&str> {
    export.strip_prefix(TOOLS)?.strip_prefix('@')
}

/// Returns whether `version` is a patch release of `range`. While the major number is 0, a new
/// minor number is a breaking change.
pub(crate) fn is_of(range: &str, version: &str) -> bool {
    version.strip_prefix(range).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_release_is_of_its_range_and_a_longer_number_is_not() {
        assert!(is_of("0.1", "0.1.0") && is_of("0.1", "0.1.17") && is_of("0.1", "0.1.0-rc.1"));
        assert!(!is_of("0.1", "0.10.0") && !is_of("0.1", "0.2.0") && !is_of("0.1", "1.0.1"));
    }
}
