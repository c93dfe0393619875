//! Guards: components of the operator that decide about calls before they are made, and about their outcomes.
//!
//! ```text
//! arguments → before each call → marked arguments → policy, approval → Admitted → provider → after the call → caller
//! ```
//!
//! [`View::guarded`](super::View::guarded) asks the guards and marks the arguments with their decision. Arguments
//! with the mark of the same guards, tool, origin and party are not looked at again: an approval is about
//! the arguments that are then used. A request asks [them ahead](crate::threads::arguments), in a task that yields while
//! they decide; the door asks them about arguments without a mark, so that no call passes it unguarded. The gateway's
//! own tools are wrappers and have no guards; calls made in them have. One that uses a client itself is guarded before
//! the call [as a tool of that client](super::Provider::decided_tool). This module does not know how guards run.

use std::{sync::Arc, time::Instant};

use futures_util::future::BoxFuture;

use super::{Arguments, Membership, ModelGuards, Origin, ProposedCall, report::Report};
use crate::{
    tenant::Tenant,
    tool::{CallError, GuardAct, GuardQuestions, Tool, ToolOutput},
};

/// The guards of a gateway. They can refuse a call, change its arguments or its outcome, or require an
/// approval for it. They can neither admit a call nor do away with an approval.
pub trait CallGuards: Send + Sync + 'static {
    /// Decides about a call that is about to be decided by the rules, whatever makes it. Computes for a bounded time,
    /// until the deadline at the latest. Fails if a guard denies the call or fails, or if the guards have not decided by
    /// then. The future must wait for nothing: it yields, with its task woken, and may be [polled to its
    /// end](crate::threads::poll_to_end) on one thread.
    fn before<'g>(
        &'g self,
        call: &'g ProposedCall<'g>,
        deadline: Instant,
    ) -> BoxFuture<'g, Result<GuardedCall, CallError>>;

    /// Returns whether a guard looks at a call before it is made.
    fn looks_before(&self, call: &ProposedCall<'_>) -> bool;

    /// Returns whether a guard looks at the outcome of a call.
    fn looks_after(&self, call: &ProposedCall<'_>) -> bool;

    /// Returns the guards of models; `None` if there are none.
    fn models(&self) -> Option<&dyn ModelGuards> {
        None
    }

    /// Decides about the outcome of a call for which [`Self::looks_after`] returns true: a result, or the tool's
    /// own error. Returns what the caller gets: an error if the guards have not decided by the
    /// [deadline](FinishedCall::deadline) of the call.
    fn after(
        &self,
        call: FinishedCall,
        outcome: Result<ToolOutput, CallError>,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>>;
}

/// Decision of the guards about a call that they do not deny. The default changes nothing.
#[derive(Debug, Default)]
pub struct GuardedCall {
    /// The arguments in the place of those that the caller gave; `None` if they stay.
    pub arguments: Option<Arguments>,
    /// The reasons for which the call needs an approval; none if the guards require none.
    pub questions: GuardQuestions,
    /// Decisions that are recorded, in the order of the guards.
    pub acts: Vec<GuardAct>,
}

/// A call that has ended, for the guards that look at its outcome.
pub struct FinishedCall {
    pub(super) tool: Arc<Tool>,
    pub(super) arguments: Arguments,
    pub(super) origin: Origin,
    pub(super) tenant: Tenant,
    pub(super) membership: Arc<Membership>,
    pub(super) deadline: Instant,
    pub(super) report: Arc<Report>,
}

impl FinishedCall {
    /// Returns the call as the guards saw it before.
    pub fn proposed(&self) -> ProposedCall<'_> {
        ProposedCall {
            tool: &self.tool,
            arguments: &self.arguments,
            origin: &self.origin,
            tenant: &self.tenant,
            membership: &self.membership,
        }
    }

    /// The party that the call is accounted to.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Instant by which the call must have ended, the hooks after it included.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Records a decision about the outcome, and drops the parts that were sent before it from the records of
    /// the request.
    pub fn record(&self, act: GuardAct) {
        self.report.guards.record(act);
        self.report.take_emitted();
    }
}

/// Reasons for an approval of arguments without a decision of guards.
static NO_QUESTIONS: GuardQuestions = GuardQuestions::new();

/// Decision of guards that arguments carry. Only the door makes one.
pub(super) struct GuardMark {
    guards: Arc<dyn CallGuards>,
    origin: &'static str,
    tool: Arc<Tool>,
    tenant: Tenant,
    questions: GuardQuestions,
    acts: Vec<GuardAct>,
}

impl GuardMark {
    /// Returns whether these guards have decided about a call of this tool by this party.
    fn is_about(
        &self,
        guards: &Arc<dyn CallGuards>,
        origin: &Origin,
        tool: &Arc<Tool>,
        tenant: &Tenant,
    ) -> bool {
        Arc::ptr_eq(&self.guards, guards)
            && self.origin == origin.name()
            && (Arc::ptr_eq(&self.tool, tool) || self.tool == *tool)
            && self.tenant == *tenant
    }
}

impl Arguments {
    /// Returns whether a guard is to be asked about a call: one looks at it, and the arguments carry no decision about it.
    pub(super) fn need_guards(
        &self,
        guards: &Arc<dyn CallGuards>,
        tool: &Arc<Tool>,
        call: &GuardedParty<'_>,
    ) -> bool {
        let GuardedParty { origin, tenant, membership, .. } = *call;
        let mark = self.guarded.as_ref();
        let proposed = ProposedCall { tool, arguments: self, origin, tenant, membership };
        mark.is_none_or(|mark| !mark.is_about(guards, origin, tool, tenant))
            && guards.looks_before(&proposed)
    }

    /// Asks the guards about a call, unless the arguments carry their decision about it.
    pub(super) async fn guarded_by(
        self,
        guards: &Arc<dyn CallGuards>,
        tool: &Arc<Tool>,
        call: &GuardedParty<'_>,
    ) -> Result<Self, CallError> {
        let GuardedParty { origin, tenant, membership, deadline } = *call;
        let mark = self.guarded.as_ref();
        if mark.is_some_and(|mark| mark.is_about(guards, origin, tool, tenant)) {
            return Ok(self);
        }
        let proposed = ProposedCall { tool, arguments: &self, origin, tenant, membership };
        let decided = guards.before(&proposed, deadline).await?;
        let GuardedCall { arguments, questions, acts } = decided;
        let mark = GuardMark {
            guards: guards.clone(),
            origin: origin.name(),
            tool: tool.clone(),
            tenant: tenant.clone(),
            questions,
            acts,
        };
        let Self { text, .. } = arguments.unwrap_or(self);
        Ok(Self { text, guarded: Some(Arc::new(mark)) })
    }

    /// Reasons for which the guards require an approval of the call with these arguments; none if they require none,
    /// or were not asked.
    pub fn questions(&self) -> &GuardQuestions {
        self.guarded.as_ref().map_or(&NO_QUESTIONS, |mark| &mark.questions)
    }

    /// Decisions of guards about a call with the arguments that are recorded.
    pub(super) fn guard_acts(&self) -> &[GuardAct] {
        match &self.guarded {
            Some(mark) => &mark.acts,
            None => &[],
        }
    }
}

/// The party of a call, for the guards, and the instant by which they have to decide.
pub(super) struct GuardedParty<'c> {
    pub(super) origin: &'c Origin,
    pub(super) tenant: &'c Tenant,
    pub(super) membership: &'c Membership,
    pub(super) deadline: Instant,
}

#[cfg(test)]
mod tests;
