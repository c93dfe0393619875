//! A running call and its authority to make nested calls.

use std::{sync::Arc, time::Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{
    ArgumentSources, Budget, CallId, CallerCapabilities, Event, Ledger, Origin, ProgramRequest,
    View,
    author::Author,
    budget::ChainBudget,
    ledger::OpenRecord,
    meter::Meter,
    report::{Report, Reporter},
};
use crate::{
    tenant::Tenant,
    tool::{CallError, ClientName, GuardAct, SourceSet, ToolName},
};

/// A running call's authority to make further calls. Cheap to clone.
///
/// Its [`Meter`] counts fuel and host calls, its [`Reporter`] accepts progress and partial results.
#[derive(Clone)]
pub struct Chain {
    authority: Arc<CallerAuthority>,
    shared: Arc<ChainBudget>,
    id: CallId,
    parent: Option<CallId>,
    depth: u32,
    deadline: Instant,
    is_approved: bool,
    report: Arc<Report>,
    /// The author of the nested calls; `None` if sources are not followed.
    author: Option<Arc<Author>>,
}

/// One request's authority to call tools, which its calls carry along.
#[derive(Clone)]
pub(super) struct CallerAuthority {
    /// The tools that the request may see.
    pub(super) view: View,
    pub(super) origin: Origin,
    pub(super) budget: Budget,
    pub(super) ledger: Ledger,
    /// Sender of events; `None` if the caller does not receive them.
    pub(super) events: Option<mpsc::Sender<Event>>,
    /// Messages that the caller takes.
    pub(super) capabilities: CallerCapabilities,
    /// True if the calls of scripts are approved ahead.
    pub(super) approves_scripts: bool,
    /// The author of the calls of the request; `None` if sources are not followed.
    pub(super) author: Option<Arc<Author>>,
    /// The request of the embedding program; `None` if another party has sent it.
    pub(super) program: Option<ProgramRequest>,
}

/// Position of a call in its chain.
pub(super) struct Start {
    pub(super) shared: Arc<ChainBudget>,
    pub(super) parent: Option<CallId>,
    pub(super) depth: u32,
    pub(super) deadline: Instant,
    /// True if the call is approved, and so are the calls that a plugin makes in it.
    pub(super) is_approved: bool,
    /// The author of the call; `None` if sources are not followed.
    pub(super) author: Option<Arc<Author>>,
    /// Sources that the author had read when it made the call.
    pub(super) context: SourceSet,
    /// Sources that the values in its arguments may have; `None` for those of the context.
    pub(super) values: Option<ArgumentSources>,
}

impl Chain {
    pub(super) fn new(authority: Arc<CallerAuthority>, start: Start, report: Arc<Report>) -> Self {
        let Start { shared, parent, depth, deadline, is_approved, author, context, .. } = start;
        let id = CallId::next();
        let author = author.map(|outer| Author::of_call(context, outer));
        Self { authority, shared, id, parent, depth, deadline, is_approved, report, author }
    }

    /// Returns the sources that the author of the running call had read when it made the call; none if sources are
    /// not followed.
    pub fn context(&self) -> SourceSet {
        self.author.as_ref().map(|author| author.before().clone()).unwrap_or_default()
    }

    /// Returns the sources that the running call has read, of which a nested call would be made now.
    pub fn nested_context(&self) -> SourceSet {
        self.author.as_ref().map(|author| author.sources()).unwrap_or_default()
    }

    /// Returns the sources of the result of the running call: its own, and those of its nested calls.
    pub fn received(&self) -> SourceSet {
        self.author.as_ref().map(|author| author.read()).unwrap_or_default()
    }

    /// Adds the client of the running call to its sources.
    pub(super) fn receive_of(&self, client: &ClientName) {
        if self.author.is_some() {
            self.receive(&client.into());
        }
    }

    /// Adds sources of content that the running call has received, and its result may have.
    pub fn receive(&self, sources: &SourceSet) {
        if let Some(author) = &self.author {
            author.receive(sources);
        }
    }

    /// Identifier of the running call.
    pub fn id(&self) -> CallId {
        self.id
    }

    /// The call that made the running one; `None` if it is a request's own.
    pub fn parent(&self) -> Option<CallId> {
        self.parent
    }

    /// Instant by which the running call must have ended.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Time for one nested call.
    pub fn call_timeout(&self) -> std::time::Duration {
        self.authority.budget.deadline
    }

    /// Depth of the running call in its chain. The first call has depth 1.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Depth of the running call, with the calls around it whose functions of the embedding program sent the request.
    pub fn whole_depth(&self) -> u32 {
        let around = self.program().map_or(0, |request| request.depth);
        around.saturating_add(self.depth)
    }

    /// The request of the embedding program that started the chain; `None` if another party has sent it.
    pub fn program(&self) -> Option<&ProgramRequest> {
        self.authority.program.as_ref()
    }

    /// Number of nested calls that may run at the same time, at each depth of the chain.
    pub fn in_flight(&self) -> usize {
        self.authority.budget.in_flight
    }

    /// The tools that the caller that started the chain may see.
    pub fn view(&self) -> &View {
        &self.authority.view
    }

    /// The tenant that the running call and its nested calls are accounted to.
    pub fn tenant(&self) -> &Tenant {
        self.view().tenant()
    }

    /// Records of the calls of the request so far.
    pub fn ledger(&self) -> &Ledger {
        &self.authority.ledger
    }

    /// Returns the meter for the fuel and the host calls of the running call's guest.
    pub fn meter(&self) -> Meter<'_> {
        Meter::new(&self.shared, self.depth, &self.report)
    }

    /// Messages of the source that the caller takes; none for nested calls.
    pub fn capabilities(&self) -> CallerCapabilities {
        if self.depth == 1 { self.authority.capabilities } else { CallerCapabilities::default() }
    }

    /// Returns the reporter for the running call's progress and partial results.
    pub fn reporter(&self) -> Reporter<'_> {
        // Nested calls send no events; their reports are only in the ledger.
        let events = self.authority.events.as_ref().filter(|_| self.depth == 1);
        Reporter::new(self.id, &self.report, events)
    }

    /// Returns a chain for a rehearsal of the running call: with a budget, a report and sources of its own, and without
    /// events. Nothing that is counted, reported or read in it reaches the running call.
    #[must_use]
    pub fn rehearsal(&self) -> Self {
        let authority = CallerAuthority { events: None, ..(*self.authority).clone() };
        let shared = Arc::new(ChainBudget::new(&authority.budget));
        let author = self.author.as_ref().map(|author| {
            Author::of_call(author.sources(), Author::of_request(SourceSet::default(), None))
        });
        let authority = Arc::new(authority);
        Self { authority, shared, report: Report::new(), author, ..self.clone() }
    }

    /// Returns whether the calls of a script that runs in the chain are approved ahead.
    pub fn approves_script(&self) -> bool {
        self.approves(&Origin::Script)
    }

    /// The origin of the request that started the chain.
    pub fn starter(&self) -> &Origin {
        &self.authority.origin
    }

    /// Counts a nested call that is not made, because its answer is known from an earlier run of the
    /// same script. Fails if no call is left.
    pub fn count_call(&self) -> Result<(), CallError> {
        self.shared.take_nested(self.whole_depth())
    }

    /// Counts a nested call. The control is told of the first one of the chain that is beyond the budget: of all,
    /// a guest could fill the records with them.
    pub(super) fn count_nested(&self, origin: &Origin, name: &str) -> Result<(), CallError> {
        let counted = self.count_call();
        if let Err(error) = &counted
            && self.shared.is_first_beyond()
        {
            self.view().tell_refused(origin, Some(self.id), name, error);
        }
        counted
    }

    /// Records decisions of guards about the running call.
    pub(super) fn record_guards(&self, acts: &[GuardAct]) {
        for act in acts {
            self.report.guards.record(act.clone());
        }
    }

    /// Returns whether a nested call of this origin needs no approval of its own: scripts are approved ahead,
    /// plugins with the running call.
    pub(super) fn approves(&self, origin: &Origin) -> bool {
        match origin {
            Origin::Script => self.authority.approves_scripts,
            _ => self.is_approved,
        }
    }

    /// Returns the position of a nested call of the running one.
    pub(super) fn nested(&self, is_approved: bool) -> Start {
        Start {
            shared: self.shared.clone(),
            parent: Some(self.id),
            depth: self.depth + 1,
            deadline: self.deadline,
            is_approved,
            author: self.author.clone(),
            context: self.nested_context(),
            values: None,
        }
    }

    /// The authority of the request that started the chain.
    pub(super) fn authority(&self) -> &Arc<CallerAuthority> {
        &self.authority
    }

    /// Reports of the running call so far.
    pub(super) fn report(&self) -> &Arc<Report> {
        &self.report
    }

    pub(super) fn shorten(&mut self, deadline: Instant) {
        self.deadline = self.deadline.min(deadline);
    }

    /// Opens the record of the running call. Fails if the request may make no more calls.
    pub(super) fn record(
        &self,
        tool: ToolName,
        untrusted: Option<ClientName>,
        arguments: Arc<str>,
    ) -> Result<OpenRecord, CallError> {
        let ids = (self.id, self.parent);
        self.ledger().open(ids, tool, untrusted, arguments, self.report.clone())
    }

    /// Waits until fewer than [`Self::in_flight`] calls of the chain run at this depth.
    pub(super) async fn wait_for_siblings(&self) -> Option<OwnedSemaphorePermit> {
        self.shared.wait_for_siblings(self.depth).await
    }
}
