//! The guards of a view.

use std::{sync::Arc, time::Instant};

use super::{Entry, View};
use crate::{
    door::{Arguments, CallGuards, ModelGuards, Origin, ProposedCall, guard::GuardedParty},
    threads::{poll_to_end, turn},
    tool::{CallError, GuardHook},
};

impl View {
    /// Sets the guards.
    #[must_use]
    pub fn with_guards(self, guards: Option<Arc<dyn CallGuards>>) -> Self {
        Self { guards, ..self }
    }

    /// Returns whether guards look at calls.
    pub fn has_guards(&self) -> bool {
        self.guards.is_some()
    }

    /// Returns the guards that look at the requests to models, or at the responses; `None` if none does.
    pub fn model_guards(&self, hook: GuardHook) -> Option<&dyn ModelGuards> {
        let guards = self.guards.as_ref()?.models()?;
        guards.looks(hook, &self.membership).then_some(guards)
    }

    /// The guards; `None` if there are none.
    pub(in crate::door) fn guards(&self) -> Option<&Arc<dyn CallGuards>> {
        self.guards.as_ref()
    }

    /// Does the same as [`Self::guarded`] on this thread, without a turn.
    pub(in crate::door) fn guarded_at_once(
        &self,
        origin: &Origin,
        entry: &Entry,
        arguments: Arguments,
        deadline: Instant,
    ) -> Result<Arguments, CallError> {
        match self.guards_of(origin, entry, deadline) {
            Some((guards, party)) => poll_to_end(arguments.guarded_by(guards, &entry.tool, &party)),
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
        let Some((guards, party)) = self.guards_of(origin, entry, deadline) else {
            return Ok(arguments);
        };
        let _turn = if arguments.need_guards(guards, &entry.tool, &party) {
            Some(turn(&self.tenant).await)
        } else {
            None
        };
        arguments.guarded_by(guards, &entry.tool, &party).await
    }

    /// Returns the guards of a tool, and what they know of the party of a call; `None` if there are none.
    fn guards_of<'v>(
        &'v self,
        origin: &'v Origin,
        entry: &Entry,
        deadline: Instant,
    ) -> Option<(&'v Arc<dyn CallGuards>, GuardedParty<'v>)> {
        // The gateway's own tools are wrappers: the calls that are made in them are guarded.
        let guards = self.guards.as_ref().filter(|_| entry.tool.client.is_some())?;
        let tenant = &self.tenant;
        let party = GuardedParty { origin, tenant, membership: &self.membership, deadline };
        Some((guards, party))
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
