//! Sinks: calls that are refused, or need an approval, once their author has read results of some sources, or if an
//! argument may come from them.

mod arguments;

pub use self::arguments::{ArgumentSources, BadSinkArgument, SinkArgument};
use super::Arguments;
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
    /// Arguments that may come from the sources; if there are none, the rule is about everything that the author has
    /// read.
    pub arguments: Vec<SinkArgument>,
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
    /// Returns the sources because of which a call needs an approval; none if it needs none. Fails if a rule refuses
    /// the call.
    pub(super) fn asking(&self, tool: &Tool, call: &SinkCall<'_>) -> Result<SourceSet, CallError> {
        let mut asking = SourceSet::default();
        let name = tool.full_name.as_str();
        let mut denying = SourceSet::default();
        let mut argument = None;
        for rule in self.0.iter().filter(|rule| rule.covers(name)) {
            for (path, found) in rule.found(call) {
                match rule.decision {
                    SinkDecision::Deny => {
                        argument = if denying.is_empty() { path } else { argument };
                        denying.extend(&found);
                    }
                    SinkDecision::Ask => asking.extend(&found),
                }
            }
        }
        match argument {
            _ if denying.is_empty() => Ok(asking),
            Some(argument) => Err(untrusted_argument(tool, argument, denying)),
            None => Err(untrusted(tool, denying)),
        }
    }

    /// Returns whether a rule is about arguments.
    pub(super) fn have_arguments(&self) -> bool {
        self.0.iter().any(|rule| !rule.arguments.is_empty())
    }
}

/// A call as it is compared with rules.
#[derive(Clone, Copy)]
pub(super) struct SinkCall<'c> {
    /// Sources that its author had read.
    pub(super) context: &'c SourceSet,
    /// The arguments with which it is made.
    pub(super) arguments: &'c Arguments,
    /// Sources that the values in them may have; `None` for those of the context.
    pub(super) values: Option<&'c ArgumentSources>,
}

impl SinkRule {
    fn covers(&self, full_name: &str) -> bool {
        self.tools.iter().any(|pattern| pattern.matches(full_name))
    }

    /// Returns the sources of the rule that a call has, not empty: with the argument that may come from them, or those
    /// that its author has read.
    fn found(&self, call: &SinkCall<'_>) -> Vec<(Option<&SinkArgument>, SourceSet)> {
        if self.arguments.is_empty() {
            let found = self.from.within(call.context);
            return if found.is_empty() { Vec::new() } else { vec![(None, found)] };
        }
        let found = self.arguments.iter().map(|argument| {
            let sources = match call.values {
                Some(values) => self.from.within(&values.at(argument)),
                None => self.from.within(call.context),
            };
            (Some(argument), sources)
        });
        let text = call.arguments.as_str();
        found
            .filter(|(argument, sources)| {
                !sources.is_empty() && argument.is_some_and(|argument| argument.is_given(text))
            })
            .collect()
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

/// Returns the error of a call that is refused because an argument may come from `sources`.
fn untrusted_argument(tool: &Tool, argument: &SinkArgument, sources: SourceSet) -> CallError {
    let message = (
        "tool '",
        format!(
            "' is not called with an argument that may come from untrusted content, by a rule of this gateway: `{argument}`, from {sources}"
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
