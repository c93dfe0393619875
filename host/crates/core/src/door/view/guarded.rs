//! The guards of a view.

use std::{sync::Arc, time::Instant};

use super::{Entry, View};
use crate::{
    door::{Arguments, CallGuards, ModelGuards, Origin, ProposedCall, guard::GuardedParty},
    threads::{poll_to_end, turn},
    tool::{CallError, GuardHook, Tool},
};

impl View {
    /// Sets the guards.
    #[must_use]
    pub fn with_guards(mut self, guards: Option<Arc<dyn CallGuards>>) -> Self {
        self.shared_mut().guards = guards;
        self
    }

    /// Returns whether guards look at calls.
    pub fn has_guards(&self) -> bool {
        self.shared.guards.is_some()
    }

    /// Returns the guards that look at the requests to models, or at the responses; `None` if none does.
    pub fn model_guards(&self, hook: GuardHook) -> Option<&dyn ModelGuards> {
        let guards = self.shared.guards.as_ref()?.models()?;
        guards.looks(hook, &self.membership).then_some(guards)
    }

    /// The guards; `None` if there are none.
    pub(in crate::door) fn guards(&self) -> Option<&Arc<dyn CallGuards>> {
        self.shared.guards.as_ref()
    }

    /// Does the same as [`Self::guarded`] on this thread, without a turn.
    pub(in crate::door) fn guarded_at_once(
        &self,
        origin: &Origin,
        entry: &Entry,
        arguments: Arguments,
        deadline: Instant,
    ) -> Result<Arguments, CallError> {
        match self.guards_of(entry, &arguments) {
            Some((guards, tool)) => {
                let party = self.guarded_party(origin, deadline);
                poll_to_end(arguments.guarded_by(guards, &tool, &party))
            }
            None => Ok(arguments),
        }
    }

    /// Returns the arguments with which a call of this origin is decided and made: as the guards leave them, with
    /// their decision. Fails if a guard denies the call or fails, or if they have not decided by the deadline. Waits for
    /// a [`turn`] if a guard is asked, and yields while it decides.
    pub async fn guarded(
        &self,
        origin: &Origin,
        entry: &Entry,
        arguments: Arguments,
        deadline: Instant,
    ) -> Result<Arguments, CallError> {
        let Some((guards, tool)) = self.guards_of(entry, &arguments) else {
            return Ok(arguments);
        };
        let party = self.guarded_party(origin, deadline);
        let _turn = if arguments.need_guards(guards, &tool, &party) {
            Some(turn(&self.tenant).await)
        } else {
            None
        };
        arguments.guarded_by(guards, &tool, &party).await
    }

    /// Returns the guards, and the tool as which they decide about a call; `None` if there are none, or if they decide
    /// about the calls that are made in this one.
    fn guards_of(
        &self,
        entry: &Entry,
        arguments: &Arguments,
    ) -> Option<(&Arc<dyn CallGuards>, Arc<Tool>)> {
        let guards = self.shared.guards.as_ref()?;
        Some((guards, entry.decided_tool(self, arguments)?))
    }

    /// Returns what guards know of the party of a call.
    fn guarded_party<'v>(&'v self, origin: &'v Origin, deadline: Instant) -> GuardedParty<'v> {
        GuardedParty { origin, tenant: &self.tenant, membership: &self.membership, deadline }
    }

    /// Returns whether guards may change the arguments or the outcome of calls of a tool.
    pub fn is_guarded(&self, origin: &Origin, entry: &Entry) -> bool {
        let Some(guards) = self.guards().filter(|_| entry.tool.client.is_some()) else {
            return false;
        };
        let arguments = Arguments::unguarded("{}".into());
        let call = ProposedCall {
            tool: &entry.tool,
            arguments: &arguments,
            origin,
            tenant: self.tenant(),
            membership: self.membership(),
        };
        guards.looks_before(&call) || guards.looks_after(&call)
    }
}
