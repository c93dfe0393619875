//! A running call, seen from the calls that it makes in turn.

use std::{sync::Arc, time::Instant};

use tokio::sync::OwnedSemaphorePermit;

use super::{
    Admitted, CallId, Caller, Ledger, Origin, View,
    budget::Shared,
    caller::Start,
    ledger::Open,
    meter::Meter,
    report::{Report, Reporter},
};
use crate::{
    tenant::Tenant,
    tool::{CallError, ToolName},
};

/// A running call's authority to make further calls. Cheap to clone.
///
/// Its [`Meter`] counts what guests spend, its [`Reporter`] takes progress and partial results.
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

    /// The instant by which the running call must have ended.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Number of calls that are nested in each other here, from 1.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Number of calls that the running call may make at the same time.
    pub fn in_flight(&self) -> usize {
        self.caller.budget().in_flight
    }

    /// The tools that the caller who started the chain may see.
    pub fn view(&self) -> &View {
        self.caller.view()
    }

    /// The tenant that the running call and its nested calls are accounted to.
    pub fn tenant(&self) -> &Tenant {
        self.view().tenant()
    }

    /// Every call of the request so far.
    pub fn ledger(&self) -> &Ledger {
        self.caller.ledger()
    }

    /// Counts the fuel and the host calls of the running call's guest.
    pub fn meter(&self) -> Meter<'_> {
        Meter::new(&self.shared, self.depth, &self.report)
    }

    /// Takes the running call's progress and partial results.
    pub fn reporter(&self) -> Reporter<'_> {
        // Events of nested calls are in the ledger alone.
        let events = self.caller.events().filter(|_| self.depth == 1);
        Reporter::new(self.id, &self.report, events)
    }

    /// Decides a call that the running one makes. It needs what the caller needs who started the
    /// chain, and takes from the same budget. A refused call counts too, so that asking cannot be
    /// used to burn the gateway's time.
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

    /// Opens the record of the running call.
    pub(super) fn record(&self, tool: ToolName, arguments: Arc<str>) -> Open {
        self.ledger().open((self.id, self.parent), tool, arguments, self.report.clone())
    }

    /// Waits until fewer calls of the chain than [`Self::in_flight`] run at this depth.
    pub(super) async fn wait_for_siblings(&self) -> Option<OwnedSemaphorePermit> {
        self.shared.wait_for_siblings(self.depth).await
    }
}
