//! The sources that the authors of calls in a view have read.

use std::sync::Arc;

use super::{Entry, View};
use crate::{
    door::{ArgumentSources, Arguments, SinkRules, sinks::SinkCall},
    tool::{CallError, SourceSet},
};

impl View {
    /// Sets the rules about sinks.
    #[must_use]
    pub fn with_sinks(self, sinks: Option<Arc<SinkRules>>) -> Self {
        Self { sinks, ..self }
    }

    /// Returns whether the sources are followed that the authors of calls have read.
    pub fn follows_sources(&self) -> bool {
        self.sinks.is_some()
    }

    /// Returns whether rules ask where single arguments come from.
    pub fn follows_arguments(&self) -> bool {
        self.sinks.as_ref().is_some_and(|sinks| sinks.have_arguments())
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
        match &self.sinks {
            Some(sinks) => sinks.asking(&entry.tool, &SinkCall { context, arguments, values }),
            None => Ok(SourceSet::default()),
        }
    }
}
