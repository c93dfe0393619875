//! The sources that the authors of calls in a view have read.

use std::sync::Arc;

use super::{Entry, View};
use crate::{
    door::{ArgumentSources, Arguments, Origin, SinkRules, sinks::SinkCall},
    tool::{CallError, ClientName, SourceSet},
};

impl View {
    /// Sets the rules about sinks.
    #[must_use]
    pub fn with_sinks(mut self, sinks: Option<Arc<SinkRules>>) -> Self {
        self.shared_mut().sinks = sinks;
        self
    }

    /// Returns whether the sources are followed that the authors of calls have read.
    pub fn follows_sources(&self) -> bool {
        self.shared.sinks.is_some()
    }

    /// Returns whether rules ask where single arguments come from.
    pub fn follows_arguments(&self) -> bool {
        self.shared.sinks.as_ref().is_some_and(|sinks| sinks.have_arguments())
    }

    /// Returns the sources because of which a call with a context needs an approval; none if it needs none. `values` has
    /// the sources that its arguments may have; `None` stands for all of the context. Fails if a rule refuses the call.
    pub fn asking_sources(
        &self,
        entry: &Entry,
        context: &SourceSet,
        arguments: &Arguments,
        values: Option<&ArgumentSources>,
    ) -> Result<SourceSet, CallError> {
        let Some(sinks) = self.shared.sinks.as_ref().filter(|_| !context.is_empty()) else {
            return Ok(SourceSet::default());
        };
        match entry.decided_tool(self, arguments) {
            Some(tool) => sinks.asking(&tool, &SinkCall { context, arguments, values }),
            None => Ok(SourceSet::default()),
        }
    }

    /// Decides about the continuation of a call that was admitted before, whose author has read the sources `context` by
    /// now. Whether it needs an approval was decided before. Fails if a policy refuses the call, or a rule does: its
    /// author may have read more since, and the answers may come from that. Rules about arguments were decided before,
    /// too, because the arguments are the same; and what the tool's own client has sent may be its question alone.
    pub(in crate::door) fn check_continuation(
        &self,
        origin: &Origin,
        entry: &Entry,
        arguments: &Arguments,
        context: &SourceSet,
    ) -> Result<(), CallError> {
        self.is_automatic(origin, entry, arguments)?;
        let asker = entry.tool.client.as_ref().map_or("", ClientName::as_str);
        let context = context.clone().without(asker);
        let values = ArgumentSources::default();
        self.asking_sources(entry, &context, arguments, Some(&values)).map(drop)
    }
}
