//! Nested calls: what a running call may call, which is decided as the calls of its request are.

use super::Caller;
use crate::{
    door::{
        Admitted, Approved, ArgumentSources, Arguments, Chain, Origin, ToArguments, chain::Start,
    },
    tool::CallError,
};

impl Chain {
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

    /// Returns the arguments with which a nested call is decided and made, see [`Caller::guarded`]; `None` if there
    /// are no guards. Fails if the arguments cannot be used, if the tool does not exist or is hidden, or if a guard denies
    /// the call or fails. Yields while guards decide.
    pub async fn guarded(
        &self,
        origin: &Origin,
        name: &str,
        arguments: &str,
    ) -> Result<Option<Arguments>, CallError> {
        if self.view().guards().is_none() {
            return Ok(None);
        }
        let arguments = Arguments::parse(name, arguments)?;
        let caller = Caller(self.authority().clone());
        caller.guarded_for(origin, name, arguments, self.deadline()).await.map(Some)
    }

    /// Refuses a nested call for which [`Self::guarded`] has failed, as [`Self::admit`] would: counts it, and notifies the
    /// control. Returns the error of the call: another one if no call is left.
    pub fn refuse(&self, origin: &Origin, name: &str, error: CallError) -> CallError {
        if let Err(beyond) = self.count_nested(origin, name) {
            return beyond;
        }
        self.view().tell_refused(origin, Some(self.id()), name, &error);
        error
    }

    /// Decides a nested call as [`Self::admit`], with a person's approval of that call.
    pub fn admit_approved(
        &self,
        origin: &Origin,
        name: &str,
        arguments: &(impl ToArguments + ?Sized),
        approved: Option<&Approved>,
    ) -> Result<Admitted, CallError> {
        self.count_nested(origin, name)?;
        let start = self.nested(self.approves(origin));
        Caller(self.authority().clone()).decide(origin, name, arguments, approved, start)
    }

    /// Decides a call of a script as [`Self::admit_approved`]. `values` has the sources that its arguments may have; `None`
    /// stands for all that the script has read.
    pub fn admit_of_script(
        &self,
        name: &str,
        arguments: &(impl ToArguments + ?Sized),
        approved: Option<&Approved>,
        values: Option<ArgumentSources>,
    ) -> Result<Admitted, CallError> {
        let origin = &Origin::Script;
        self.count_nested(origin, name)?;
        let start = Start { values, ..self.nested(self.approves(origin)) };
        Caller(self.authority().clone()).decide(origin, name, arguments, approved, start)
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
        // The arguments are those of the running call: nothing that it has received is in them.
        let start = Start { context: self.context(), ..self.nested(false) };
        let decided = Caller(self.authority().clone()).decide(origin, name, arguments, None, start);
        decided.map(Admitted::into_substitute)
    }
}
