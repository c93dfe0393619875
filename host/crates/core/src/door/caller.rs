//! One request's authority to call tools, and the one decision about each call.

use std::{sync::Arc, time::Instant};

use tokio::sync::mpsc;

use super::{
    Admitted, Budget, CallId, Chain, Entry, Event, Events, Ledger, Origin, View,
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
}

/// Position of a call in its chain.
pub(super) struct Start {
    pub(super) shared: Arc<Shared>,
    pub(super) parent: Option<CallId>,
    pub(super) depth: u32,
    pub(super) deadline: Instant,
}

impl Caller {
    /// A caller with a view; each of its calls gets the whole `budget`.
    pub fn new(view: View, origin: Origin, budget: Budget) -> Self {
        Self(Arc::new(Inner { view, origin, budget, ledger: Ledger::default(), events: None }))
    }

    /// A caller, and the events of its calls while they run.
    pub fn with_events(view: View, origin: Origin, budget: Budget) -> (Self, Events) {
        let (sender, events) = event::channel();
        (
            Self(Arc::new(Inner {
                view,
                origin,
                budget,
                ledger: Ledger::default(),
                events: Some(sender),
            })),
            events,
        )
    }

    /// The tools that the caller may see.
    pub fn view(&self) -> &View {
        &self.0.view
    }

    /// The tools that the caller is offered, sorted by name.
    pub fn list(&self) -> impl Iterator<Item = &Entry> {
        self.0.view.list(&self.0.origin)
    }

    /// The calls so far.
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

    /// Returns the decision that [`Self::admit`] would make, without a call: for a caller that
    /// sorts calls before it runs them. Arguments are looked at only if the call needs an approval,
    /// since [`Self::admit`] checks those of all others.
    pub fn check(&self, name: &str, arguments: &str) -> Result<(), CallError> {
        let entry = self.find(&self.0.origin, name)?;
        if self.may_run(entry) {
            Ok(())
        } else {
            Err(needs_approval(entry, &Arguments::parse(name, arguments)?))
        }
    }

    /// The one decision.
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

    /// Hidden tools return `NotFound`, exactly like unknown ones.
    fn find(&self, origin: &Origin, name: &str) -> Result<&Entry, CallError> {
        let entry = self.0.view.find(origin, name);
        entry.ok_or_else(|| CallError::NotFound { name: cut(name.to_owned(), MAX_NAME_BYTES) })
    }

    /// Whether a call runs without an approval. A nested call needs what the caller needs who
    /// started the chain.
    fn may_run(&self, entry: &Entry) -> bool {
        entry.auto || self.0.origin.approves()
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// The queue of a caller that listens.
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
