//! A running call and its authority to make nested calls.

use std::{sync::Arc, time::Instant};

use tokio::sync::OwnedSemaphorePermit;

use super::{
    Admitted, CallId, Caller, Hearing, Ledger, Origin, View,
    budget::Shared,
    caller::Start,
    ledger::Open,
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
    shared: Arc<Shared>,
    id: CallId,
    parent: Option<CallId>,
    depth: u32,
    deadline: Instant,
    report: Arc<Report>,
}

impl Chain {
    pub(super) fn new(caller: Caller, start: Start, report: Arc<Report>) -> Self {
        let Start { shared, parent, depth, deadline } = start;
        Self { caller, shared, id: CallId::next(), parent, depth, deadline, report }
    }

    /// Identifier of the running call.
    pub fn id(&self) -> CallId {
        self.id
    }

    /// Instant by which the running call must have ended.
    pub fn deadline(&self) -> Instant {
        self.deadline
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

    /// Decides a nested call of the running call. The nested call needs the same approvals as a
    /// call of the caller that started the chain, and uses the same budget. A refused call counts
    /// too, so that a guest cannot use up the gateway's time with calls that are refused.
    pub fn admit(
        &self,
        origin: &Origin,
        name: &str,
        arguments: &str,
    ) -> Result<Admitted, CallError> {
        self.shared.take_nested(self.depth)?;
        let start = Start {
            shared: self.shared.clone(),
            parent: Some(self.id),
            depth: self.depth + 1,
            deadline: self.deadline,
        };
        self.caller.decide(origin, name, arguments, start)
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
    ) -> Result<Open, CallError> {
        let ids = (self.id, self.parent);
        self.ledger().open(ids, tool, untrusted, arguments, self.report.clone())
    }

    /// Waits until fewer than [`Self::in_flight`] calls of the chain run at this depth.
    pub(super) async fn wait_for_siblings(&self) -> Option<OwnedSemaphorePermit> {
        self.shared.wait_for_siblings(self.depth).await
    }
}
