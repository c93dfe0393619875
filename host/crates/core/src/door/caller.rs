//! One request's authority to call tools.

mod decision;
mod nested;

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{
    Budget, CallerCapabilities, Entry, Event, Events, Ledger, Origin, ProgramRequest,
    SessionSources, View, author::Author, chain::CallerAuthority, event,
};
use crate::tool::{CallError, SourceSet};

/// One request's authority to call tools. Cheap to clone.
#[derive(Clone)]
pub struct Caller(Arc<CallerAuthority>);

impl Caller {
    /// Creates a caller with a view. Each of its calls gets the whole `budget`.
    pub fn new(view: View, origin: Origin, budget: Budget) -> Self {
        Self::with_capabilities(view, origin, budget, CallerCapabilities::default())
    }

    /// Creates a caller that can answer questions of sources.
    pub fn with_capabilities(
        view: View,
        origin: Origin,
        budget: Budget,
        capabilities: CallerCapabilities,
    ) -> Self {
        Self::build(view, origin, budget, capabilities, None)
    }

    /// Creates a caller, and a receiver for the events of its running calls.
    pub fn with_events(
        view: View,
        origin: Origin,
        budget: Budget,
        capabilities: CallerCapabilities,
    ) -> (Self, Events) {
        let (sender, events) = event::channel();
        (Self::build(view, origin, budget, capabilities, Some(sender)), events)
    }

    fn build(
        view: View,
        origin: Origin,
        budget: Budget,
        capabilities: CallerCapabilities,
        events: Option<mpsc::Sender<Event>>,
    ) -> Self {
        let author = view.follows_sources().then(|| Author::of_request(SourceSet::default(), None));
        Self(Arc::new(CallerAuthority {
            view,
            origin,
            budget,
            ledger: Ledger::default(),
            events,
            capabilities,
            approves_scripts: false,
            author,
            program: None,
        }))
    }

    /// Makes the calls in a session, whose client had read results of the sources `context` when it made the request.
    #[must_use]
    pub fn in_session(self, session: &SessionSources, context: SourceSet) -> Self {
        if self.0.author.is_none() {
            return self;
        }
        let author = Some(Author::of_request(context, Some(session.clone())));
        Self(Arc::new(CallerAuthority { author, ..(*self.0).clone() }))
    }

    /// Returns the sources that the author of the request has read; none if sources are not followed.
    pub fn context(&self) -> SourceSet {
        self.0.author.as_ref().map(|author| author.sources()).unwrap_or_default()
    }

    /// Adds sources that the author of the request has read, before its next call.
    pub fn has_read(&self, sources: &SourceSet) {
        if let Some(author) = &self.0.author {
            author.has_read(sources);
        }
    }

    /// Ends a turn of the author of the request, who then reads the results of its calls. Until then the calls do not
    /// depend on the results of each other.
    pub fn end_turn(&self) {
        if let Some(author) = &self.0.author {
            author.end_turn();
        }
    }

    /// Approves every call of the scripts that the caller runs, ahead of the calls.
    #[must_use]
    pub fn approving_scripts(self) -> Self {
        Self(Arc::new(CallerAuthority { approves_scripts: true, ..(*self.0).clone() }))
    }

    /// Makes the calls for a request of the embedding program, whose own depth counts towards theirs.
    #[must_use]
    pub fn for_program(self, request: ProgramRequest) -> Self {
        Self(Arc::new(CallerAuthority { program: Some(request), ..(*self.0).clone() }))
    }

    /// Returns whether the embedding program has sent the request.
    pub fn is_for_program(&self) -> bool {
        self.0.program.is_some()
    }

    /// Notifies the control of a call that is refused before [`Self::admit`] is asked: there is no such tool, its
    /// arguments cannot be read, or a person has denied it.
    pub fn report_refusal(&self, name: &str, error: &CallError) {
        self.0.view.report_refusal(&self.0.origin, name, error);
    }

    /// Notifies the control of a call that waits for an approval, and is not admitted, and records its span.
    pub fn report_wait(&self, name: &str) {
        self.0.view.report_wait(&self.0.origin, name);
    }

    /// The tools that the caller may see.
    pub fn view(&self) -> &View {
        &self.0.view
    }

    /// Iterates over the tools that are listed for the caller, sorted by name.
    pub fn list(&self) -> impl Iterator<Item = &Entry> {
        self.0.view.list(&self.0.origin)
    }

    /// Records of the calls of the request so far.
    pub fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }
}
