//! One request's authority to call tools, and the one decision about each call.

use std::{sync::Arc, time::Instant};

use tokio::sync::mpsc;

use super::{
    Admitted, Budget, CallId, Chain, Entry, Event, Events, Ledger, LogLevel, Origin, View,
    arguments::{Arguments, MAX_NAME_BYTES},
    budget::Shared,
    event,
    report::Report,
};
use crate::{text::cut, tool::CallError};

/// One request's authority to call tools. Cheap to clone.
#[derive(Clone)]
pub struct Caller(Arc<Inner>);

struct Inner {
    view: View,
    origin: Origin,
    budget: Budget,
    ledger: Ledger,
    events: Option<mpsc::Sender<Event>>,
    log_level: Option<LogLevel>,
}

/// Position of a call in its chain.
pub(super) struct Start {
    pub(super) shared: Arc<Shared>,
    pub(super) parent: Option<CallId>,
    pub(super) depth: u32,
    pub(super) deadline: Instant,
}

impl Caller {
    /// Creates a caller with a view. Each of its calls gets the whole `budget`.
    pub fn new(view: View, origin: Origin, budget: Budget) -> Self {
        let ledger = Ledger::default();
        Self(Arc::new(Inner { view, origin, budget, ledger, events: None, log_level: None }))
    }

    /// Creates a caller, and a receiver for the events of its running calls.
    pub fn with_events(view: View, origin: Origin, budget: Budget) -> (Self, Events) {
        Self::with_logs(view, origin, budget, None)
    }

    /// Does the same as [`Self::with_events`]. The events have the log messages of sources that are
    /// at least as severe as `log_level`; none for `None`.
    pub fn with_logs(
        view: View,
        origin: Origin,
        budget: Budget,
        log_level: Option<LogLevel>,
    ) -> (Self, Events) {
        let (sender, events) = event::channel();
        (
            Self(Arc::new(Inner {
                view,
                origin,
                budget,
                ledger: Ledger::default(),
                events: Some(sender),
                log_level,
            })),
            events,
        )
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

    /// Decides one call. Fails if the tool does not exist or is hidden, if the arguments cannot be
    /// used, or if the call needs an approval.
    pub fn admit(&self, name: &str, arguments: &str) -> Result<Admitted, CallError> {
        let start = Start {
            shared: Arc::new(Shared::new(&self.0.budget)),
            parent: None,
            depth: 1,
            deadline: Instant::now() + self.0.budget.deadline,
        };
        self.decide(&self.0.origin, name, arguments, start)
    }

    /// Returns the decision that [`Self::admit`] would make, but creates no call. A caller uses it
    /// to sort calls before it runs them. Arguments are checked only if the call needs an approval,
    /// because [`Self::admit`] checks the arguments of all other calls.
    pub fn check(&self, name: &str, arguments: &str) -> Result<(), CallError> {
        let entry = self.find(&self.0.origin, name)?;
        if self.may_run(entry) {
            Ok(())
        } else {
            Err(needs_approval(entry, &Arguments::parse(name, arguments)?))
        }
    }

    /// Decides one call, for a caller and for a running call alike. All calls are decided here.
    pub(super) fn decide(
        &self,
        origin: &Origin,
        name: &str,
        arguments: &str,
        start: Start,
    ) -> Result<Admitted, CallError> {
        let entry = self.find(origin, name)?;
        let arguments = Arguments::parse(name, arguments)?;
        if !self.may_run(entry) {
            return Err(needs_approval(entry, &arguments));
        }
        let chain = Chain::new(self.clone(), start, Report::new());
        Ok(Admitted::new(entry, arguments, chain))
    }

    /// Finds a tool by name. Hidden tools return `NotFound`, exactly like unknown ones.
    fn find(&self, origin: &Origin, name: &str) -> Result<&Entry, CallError> {
        let entry = self.0.view.find(origin, name);
        entry.ok_or_else(|| CallError::NotFound { name: cut(name.to_owned(), MAX_NAME_BYTES) })
    }

    /// Returns whether a call may run without an approval. A nested call needs the same approvals
    /// as a call of the caller that started the chain.
    fn may_run(&self, entry: &Entry) -> bool {
        entry.auto || self.0.origin.approves()
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// Least severe log messages that the caller receives; `None` for no messages.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        self.0.log_level
    }

    /// Sender of events; `None` if the caller does not receive them.
    pub(super) fn events(&self) -> Option<&mpsc::Sender<Event>> {
        self.0.events.as_ref()
    }
}

fn needs_approval(entry: &Entry, arguments: &Arguments) -> CallError {
    CallError::NeedsApproval {
        name: entry.tool.name.clone(),
        arguments: arguments.as_str().to_owned(),
    }
}
