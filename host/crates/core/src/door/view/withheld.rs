//! The tools that a view would have if guards did not withhold their definitions.

use std::sync::Arc;

use super::View;
use crate::{
    door::{Origin, WithheldTool},
    tool::{CallError, ToolName},
};
use airlock_strings::{MAX_NAME_BYTES, cut};

impl View {
    /// Adds tools that guards withhold, each under its names. The rules of the request permit them.
    #[must_use]
    pub fn with_withheld(
        mut self,
        tools: impl IntoIterator<Item = (ToolName, Arc<WithheldTool>)>,
    ) -> Self {
        self.shared_mut().withheld = Arc::new(tools.into_iter().collect());
        self
    }

    /// Returns the error of a call of a tool that is not listed for `origin`: the decision of the guards that withhold
    /// its definition. A hidden tool has the same error as an unknown one.
    pub fn absent(&self, origin: &Origin, name: &str) -> CallError {
        let withheld = self.shared.withheld.get(name).filter(|withheld| match origin {
            Origin::Plugin(granted) => granted.contains(withheld.tool.full_name.as_str()),
            _ => true,
        });
        match withheld {
            Some(withheld) => withheld.error(),
            None => CallError::not_found(&cut(name.to_owned(), MAX_NAME_BYTES)),
        }
    }
}
