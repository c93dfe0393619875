//! The recorded uses of requests by the calls of one build.

use std::collections::BTreeSet;

use airlock_sandbox::ToolUses;

/// Uses by the calls of one build.
#[derive(Debug, Default)]
pub(super) struct BuildUses {
    /// Digest of the component; empty before the first one.
    digest: String,
    /// True if another build was called before, with the same stores.
    pub(super) has_older: bool,
    /// True if the plugin has run.
    pub(super) has_calls: bool,
    pub(super) uses: ToolUses,
    /// Tools with a call that succeeded. A call that failed may have ended before its other uses.
    pub(super) succeeded: BTreeSet<String>,
}

impl BuildUses {
    /// Begins the calls of a build. The uses of another build are dropped: they tell nothing about
    /// this one.
    pub(super) fn load(&mut self, digest: &str) {
        if self.digest != digest {
            let has_older = self.has_older || self.has_calls;
            *self = Self { digest: digest.to_owned(), has_older, ..Self::default() };
        }
    }

    /// Adds the uses of a call of `tool`, and of the calls that it made.
    pub(super) fn add(&mut self, tool: &str, succeeded: bool, uses: ToolUses) {
        self.has_calls = true;
        for (tool, uses) in uses {
            self.uses.entry(tool).or_default().extend(uses);
        }
        if succeeded {
            self.succeeded.insert(tool.to_owned());
        }
    }
}
