//! Sinks: calls that are refused, or need an approval, once their author has read results of some sources.

use crate::tool::{CallError, ErrorKind, HostCode, SourceSet, Tool, ToolPattern};

/// The rules about sinks of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SinkRules(pub Vec<SinkRule>);

/// A rule about calls of some tools whose author has read results of some sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinkRule {
    /// Full names of the tools.
    pub tools: Vec<ToolPattern>,
    /// The sources.
    pub from: SourceSelection,
    /// Treatment of the calls.
    pub decision: SinkDecision,
}

/// Sources that a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceSelection {
    /// All sources.
    All,
    /// These.
    Named(SourceSet),
}

/// Treatment of calls whose author has read results of the sources of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkDecision {
    /// They are refused.
    Deny,
    /// They need an approval.
    Ask,
}

impl SinkRules {
    /// Returns the sources because of which a call with a context needs an approval; none if it needs none.
    /// Fails if a rule refuses the call.
    pub(super) fn asking(&self, tool: &Tool, context: &SourceSet) -> Result<SourceSet, CallError> {
        let mut asking = SourceSet::default();
        // The gateway's own tools are wrappers: the calls that are made in them are decided.
        if context.is_empty() || tool.client.is_none() {
            return Ok(asking);
        }
        let name = tool.full_name.as_str();
        let mut denying = SourceSet::default();
        for rule in self.0.iter().filter(|rule| rule.covers(name)) {
            let found = rule.from.within(context);
            match rule.decision {
                SinkDecision::Deny => denying.extend(&found),
                SinkDecision::Ask => asking.extend(&found),
            }
        }
        if denying.is_empty() { Ok(asking) } else { Err(untrusted(tool, denying)) }
    }
}

impl SinkRule {
    fn covers(&self, full_name: &str) -> bool {
        self.tools.iter().any(|pattern| pattern.matches(full_name))
    }
}

impl SourceSelection {
    /// Returns those of the sources of a context that are selected.
    fn within(&self, context: &SourceSet) -> SourceSet {
        match self {
            Self::All => context.clone(),
            Self::Named(names) => names.within(context),
        }
    }
}

/// Returns the error of a call that is refused because its author has read results of `sources`.
pub(super) fn untrusted(tool: &Tool, sources: SourceSet) -> CallError {
    let message = (
        "tool '",
        format!(
            "' is not called after untrusted content was read, by a rule of this gateway: from {sources}"
        ),
    );
    CallError::about(tool.name.clone(), ErrorKind::Denied, HostCode::UntrustedContext, message)
        .with_sources(sources)
}

/// Returns the reason for which a call needs an approval because its author has read results of `sources`.
pub(super) fn question(sources: &SourceSet) -> String {
    format!("untrusted content was read before, from {sources}")
}

#[cfg(test)]
mod tests;
