//! A running call and its authority to make nested calls.

use std::{sync::Arc, time::Instant};

use tokio::sync::OwnedSemaphorePermit;

use super::{
    Admitted, Approved, Arguments, CallId, Caller, Hearing, Ledger, Origin, View,
    budget::ChainBudget,
    caller::Start,
    ledger::OpenRecord,
    meter::Meter,
    report::{Report, Reporter},
};
use crate::{
    tenant::Tenant,
    tool::{CallError, ClientName, ToolName},
};

/// A running call's authority to make further calls. Cheap to clone.
///
/// Its [`Meter`] counts fuel and host calls, its [`Reporter`] accepts progress and partial results.
#[derive(Clone)]
pub struct Chain {
    caller: Caller,
    shared: Arc<ChainBudget>,
    id: CallId,
    parent: Option<CallId>,
    depth: u32,
    deadline: Instant,
    is_approved: bool,
    report: Arc<Report>,
}

impl Chain {
    pub(super) fn new(caller: Caller, start: Start, report: Arc<Report>) -> Self {
        let Start { shared, parent, depth, deadline, is_approved } = start;
        Self { caller, shared, id: CallId::next(), parent, depth, deadline, is_approved, report }
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
        self.caller.budget().deadline
    }

    /// Depth of the running call in its chain. The first call has depth 1.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Number of nested calls that may run at the same time, at each depth of the chain.
    pub fn in_flight(&self) -> usize {
        self.caller.budget().in_flight
    }

    /// The tools that the caller that started the chain may see.
    pub fn view(&self) -> &View {
        self.caller.view()
    }

    /// The tenant that the running call and its nested calls are accounted to.
    pub fn tenant(&self) -> &Tenant {
        self.view().tenant()
    }

    /// Records of the calls of the request so far.
    pub fn ledger(&self) -> &Ledger {
        self.caller.ledger()
    }

    /// Returns the meter for the fuel and the host calls of the running call's guest.
    pub fn meter(&self) -> Meter<'_> {
        Meter::new(&self.shared, self.depth, &self.report)
    }

    /// Messages of the source that the caller takes; none for nested calls.
    pub fn heard(&self) -> Hearing {
        if self.depth == 1 { self.caller.heard() } else { Hearing::default() }
    }

    /// Returns the reporter for the running call's progress and partial results.
    pub fn reporter(&self) -> Reporter<'_> {
        // Nested calls send no events; their reports are only in the ledger.
        let events = self.caller.events().filter(|_| self.depth == 1);
        Reporter::new(self.id, &self.report, events)
    }

    /// The origin of the request that started the chain.
    pub fn starter(&self) -> &Origin {
        self.caller.origin()
    }

    /// Decides a nested call of the running call, which uses the same budget. A call of a script
    /// needs an approval of its own. A call of a plugin needs the same approvals as the call that the
    /// plugin runs for. A refused call counts too, so that a guest cannot use up the gateway's time
    /// with calls that are refused.
    pub fn admit(
        &self,
        origin: &Origin,
        name: &str,
        arguments: &str,
    ) -> Result<Admitted, CallError> {
        self.admit_approved(origin, name, arguments, None)
    }

    /// Decides a nested call as [`Self::admit`], with a person's approval of that call.
    pub fn admit_approved(
        &self,
        origin: &Origin,
        name: &str,
        arguments: &str,
        approved: Option<&Approved>,
    ) -> Result<Admitted, CallError> {
        self.count_nested(origin, name)?;
        let is_approved = match origin {
            Origin::Script => self.caller.approves_scripts(),
            _ => self.is_approved,
        };
        let start = Start {
            shared: self.shared.clone(),
            parent: Some(self.id),
            depth: self.depth + 1,
            deadline: self.deadline,
            is_approved,
        };
        self.caller.decide(origin, name, arguments, approved, start)
    }

    /// Decides a call of another tool in the place of the running one, whose source is away: as a nested
    /// call of the same origin. None of the approvals of the running call counts for it.
    pub fn admit_in_place(
        &self,
        origin: &Origin,
        name: &str,
        arguments: &Arguments,
    ) -> Result<Admitted, CallError> {
        self.count_nested(origin, name)?;
        let start = Start {
            shared: self.shared.clone(),
            parent: Some(self.id),
            depth: self.depth + 1,
            deadline: self.deadline,
            is_approved: false,
        };
        self.caller.decide(origin, name, arguments, None, start).map(Admitted::into_substitute)
    }

    /// Counts a nested call that is not made, because its answer is known from an earlier run of the
    /// same script. Fails if no call is left.
    pub fn count_call(&self) -> Result<(), CallError> {
        self.shared.take_nested(self.depth)
    }

    /// Counts a nested call. The control is told of the first one of the chain that is beyond the budget: of all,
    /// a guest could fill the records with them.
    fn count_nested(&self, origin: &Origin, name: &str) -> Result<(), CallError> {
        let counted = self.count_call();
        if let Err(error) = &counted
            && self.shared.is_first_beyond()
        {
            self.view().tell_refused(origin, Some(self.id), name, error);
        }
        counted
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
