//! Views that offer the tools for scripts in another way.

use super::{OwnTools, Placement, View};

impl View {
    /// Offers the tools for scripts one by one, without the meta-tools.
    #[must_use]
    pub fn without_code_mode(mut self) -> Self {
        let entries = self.entries_mut();
        entries.retain(|_, entry| entry.placement != Placement::Meta);
        for entry in entries.values_mut() {
            if entry.placement == Placement::Script {
                entry.placement = Placement::Direct;
            }
        }
        self
    }

    /// Leaves out some of the gateway's own tools, such as the search.
    #[must_use]
    pub fn without(mut self, own: &OwnTools) -> Self {
        if own.tools.iter().any(|tool| self.shared.entries.contains_key(&tool.name)) {
            let entries = self.entries_mut();
            for tool in &own.tools {
                entries.remove(&tool.name);
            }
        }
        self
    }
}
