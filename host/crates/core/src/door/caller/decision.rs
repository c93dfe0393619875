//! The one decision about each call, of a request and nested.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::Caller;
use crate::{
    door::{
        Admitted, Approved, Arguments, Budget, Chain, Entry, Origin, Permission, Resumed,
        ToArguments, budget::ChainBudget, chain::Start, report::Report, sinks,
    },
    tool::{Answers, CallError, ErrorKind, HostCode, SourceSet, ToolError},
};

impl Caller {
    /// Decides one call. Fails if all tools are switched off, if the tool does not exist or is hidden, if
    /// the arguments cannot be used, if a policy refuses the call, or if it needs an approval.
    pub fn admit(
        &self,
        name: &str,
        arguments: &(impl ToArguments + ?Sized),
    ) -> Result<Admitted, CallError> {
        self.decide(&self.0.origin, name, arguments, None, self.start())
    }

    /// Decides one call as [`Self::admit`], with a person's approval of it.
    pub fn admit_approved(
        &self,
        name: &str,
        arguments: &(impl ToArguments + ?Sized),
        approved: &Approved,
    ) -> Result<Admitted, CallError> {
        self.decide(&self.0.origin, name, arguments, Some(approved), self.start())
    }

    /// Admits the continuation of a call that waits for answers, with a new budget. It needs no
    /// approval: the source resumes only a call that was admitted before, of the same tenant,
    /// the same tool and the same arguments. Fails if the tool does not exist or is hidden by now, if
    /// the arguments cannot be used, or if a policy or a sink refuses the call by now.
    pub fn resume(
        &self,
        name: &str,
        arguments: &(impl ToArguments + ?Sized),
        answers: Answers,
    ) -> Result<Resumed, CallError> {
        let continued = self.continued(name, arguments);
        if let Err(error) = &continued {
            self.0.view.tell_refused(&self.0.origin, None, name, error);
        }
        continued.map(|call| Resumed::new(call, answers))
    }

    fn continued(
        &self,
        name: &str,
        arguments: &(impl ToArguments + ?Sized),
    ) -> Result<Admitted, CallError> {
        self.check_switch()?;
        let origin = &self.0.origin;
        let entry = self.find(origin, name)?;
        let arguments = arguments.to_arguments(name)?;
        let mut start = self.start();
        start.deadline += self.time(entry);
        let arguments = self.0.view.guarded_at_once(origin, entry, arguments, start.deadline)?;
        let context = self.0.author.as_ref().map(|author| author.latest()).unwrap_or_default();
        self.0.view.check_continuation(origin, entry, &arguments, &context)?;
        let chain = Chain::new(self.0.clone(), start, Report::new());
        Ok(Admitted::new(entry, arguments, origin, Permission::Continuation, chain))
    }

    /// Ends a call of a tool that waits for answers under `token`, because no answer will come.
    pub fn forget(&self, name: &str, token: &str) {
        if let Ok(entry) = self.find(&self.0.origin, name)
            && let Some(server) = entry.provider.server()
        {
            server.forget(token);
        }
    }

    fn start(&self) -> Start {
        Start {
            shared: Arc::new(ChainBudget::new(&self.0.budget)),
            parent: None,
            depth: 1,
            deadline: Instant::now(),
            is_approved: self.0.origin.approves(),
            author: self.0.author.clone(),
            context: self.context(),
            values: None,
        }
    }

    /// Returns the time that a call of the request itself has.
    fn time(&self, entry: &Entry) -> Duration {
        let Budget { deadline, script, .. } = self.0.budget;
        if entry.runs_scripts() { script } else { deadline }
    }

    /// Returns whether [`Self::admit`] would refuse a call of the tool because it needs an approval, whatever
    /// its arguments are: neither guards, sinks nor a [policy](crate::door::CallPolicy) are asked. Fails if all tools are switched off, or
    /// if the tool does not exist or is hidden.
    pub fn needs_approval(&self, name: &str) -> Result<bool, CallError> {
        self.check_switch()?;
        let entry = self.find(&self.0.origin, name)?;
        Ok(!entry.auto && (entry.needs_two || !self.0.origin.approves()))
    }

    /// Returns the arguments with which a call is decided and made: as the guards leave them. A list of
    /// approvals shows these, and [`Self::admit`] takes them. Fails as [`Self::needs_approval`], or if a guard
    /// denies the call or fails. Yields while guards decide.
    pub async fn guarded(&self, name: &str, arguments: Arguments) -> Result<Arguments, CallError> {
        let deadline = Instant::now() + self.0.budget.deadline;
        self.guarded_for(&self.0.origin, name, arguments, deadline).await
    }

    /// Does the same for another origin, until a deadline.
    pub(super) async fn guarded_for(
        &self,
        origin: &Origin,
        name: &str,
        arguments: Arguments,
        deadline: Instant,
    ) -> Result<Arguments, CallError> {
        if self.0.view.guards().is_none() {
            return Ok(arguments);
        }
        self.check_switch()?;
        let entry = self.find(origin, name)?;
        self.0.view.guarded(origin, entry, arguments, deadline).await
    }

    /// Returns whether [`Self::admit`] would refuse this call because it needs an approval. A caller uses it
    /// to sort calls before it runs them. Fails as [`Self::needs_approval`], or if a policy or a sink refuses the call.
    pub fn call_needs_approval(
        &self,
        name: &str,
        arguments: &Arguments,
    ) -> Result<bool, CallError> {
        self.check_switch()?;
        let origin = &self.0.origin;
        let entry = self.find(origin, name)?;
        let deadline = Instant::now() + self.time(entry);
        let arguments = arguments.clone();
        let arguments = self.0.view.guarded_at_once(origin, entry, arguments, deadline)?;
        let asking = self.0.view.asking_sources(entry, &self.context(), &arguments, None)?;
        let is_asking = !asking.is_empty();
        let is_automatic = self.0.view.is_automatic(origin, entry, &arguments)? && !is_asking;
        Ok(!is_automatic && (entry.needs_two || !origin.approves()))
    }

    /// Decides one call, for a caller and for a running call alike. All calls are decided here.
    /// `start` tells whether the call is approved already; `approved` approves one call.
    pub(super) fn decide(
        &self,
        origin: &Origin,
        name: &str,
        arguments: &(impl ToArguments + ?Sized),
        approved: Option<&Approved>,
        start: Start,
    ) -> Result<Admitted, CallError> {
        let parent = start.parent;
        let decided = self.apply_rules(origin, name, arguments, approved, start);
        if let Err(error) = &decided {
            self.0.view.tell_refused(origin, parent, name, error);
        }
        decided
    }

    fn apply_rules(
        &self,
        origin: &Origin,
        name: &str,
        arguments: &(impl ToArguments + ?Sized),
        approved: Option<&Approved>,
        mut start: Start,
    ) -> Result<Admitted, CallError> {
        self.check_switch()?;
        let entry = self.find(origin, name)?;
        let arguments = arguments.to_arguments(name)?;
        if start.parent.is_none() {
            start.deadline += self.time(entry);
        }
        let arguments = self.0.view.guarded_at_once(origin, entry, arguments, start.deadline)?;
        let Start { context, values, .. } = &start;
        let asking = self.0.view.asking_sources(entry, context, &arguments, values.as_ref())?;
        let is_automatic =
            self.0.view.is_automatic(origin, entry, &arguments)? && asking.is_empty();
        let approved = approved.filter(|approved| approved.covers(entry, &arguments, &asking));
        if entry.needs_two {
            check_operators(origin, entry, &arguments, approved, &start, &asking)?;
        } else if !is_automatic && !start.covers(&asking) && approved.is_none() {
            return Err(start.unapproved(origin, entry, &arguments, asking));
        }
        let permission = match start.parent {
            _ if is_automatic => Permission::Automatic,
            _ if approved.is_some() => Permission::Person,
            None if origin.has_person() => Permission::Person,
            None => Permission::Caller,
            Some(_) => Permission::Enclosing,
        };
        start.is_approved |= approved.is_some_and(|approved| approved.covers_nested);
        let chain = Chain::new(self.0.clone(), start, Report::new());
        let admitted = Admitted::new(entry, arguments, origin, permission, chain);
        let approved = approved.filter(|_| permission == Permission::Person);
        Ok(admitted.approved_by(approved.and_then(|approved| approved.decided_by.clone())))
    }

    /// Fails if all tools are switched off at this moment, also for a request that began before.
    fn check_switch(&self) -> Result<(), CallError> {
        if self.0.view.is_switched_off() { Err(CallError::tools_disabled()) } else { Ok(()) }
    }

    /// Finds a tool by name. Hidden tools return `NotFound`, exactly like unknown ones; withheld ones the decision of
    /// the guard.
    fn find(&self, origin: &Origin, name: &str) -> Result<&Entry, CallError> {
        let view = &self.0.view;
        view.find(origin, name).ok_or_else(|| view.absent(origin, name))
    }
}

impl Start {
    /// Returns whether the call is approved already, with all sources because of which it needs an approval: those
    /// that the author has read since were shown to no person.
    fn covers(&self, asking: &SourceSet) -> bool {
        self.is_approved && self.has_shown(asking)
    }

    /// Returns whether sources were known before the author made its first call.
    fn has_shown(&self, asking: &SourceSet) -> bool {
        let author = self.author.as_ref().filter(|author| !author.is_of_request());
        author.is_none_or(|author| asking.is_subset(author.before()))
    }

    /// Returns the error of a call without the approval that it needs. A plugin cannot pause, and
    /// no person can be shown what it will read: this is why its call is refused.
    fn unapproved(
        &self,
        origin: &Origin,
        entry: &Entry,
        arguments: &Arguments,
        asking: SourceSet,
    ) -> CallError {
        if matches!(origin, Origin::Plugin(_)) && !self.has_shown(&asking) {
            return sinks::untrusted(&entry.tool, asking);
        }
        needs_approval(entry, arguments, &asking)
    }
}

impl Entry {
    /// Fails if two operators approve each call of the tool: scripts and plugins cannot call it.
    pub fn check_nested(&self) -> Result<(), CallError> {
        if !self.needs_two {
            return Ok(());
        }
        let tool = &self.tool.name;
        let message = format!(
            "tool '{tool}' did not run: two operators approve each of its calls, so scripts and plugins cannot call it"
        );
        let error = ToolError::new(ErrorKind::Denied, message);
        Err(error.with_code(&HostCode::Declined.prefixed()).into())
    }
}

/// Fails unless two operators have approved a call of a tool that needs both. A nested call has no caller that could
/// ask them, so it is refused.
fn check_operators(
    origin: &Origin,
    entry: &Entry,
    arguments: &Arguments,
    approved: Option<&Approved>,
    start: &Start,
    asking: &SourceSet,
) -> Result<(), CallError> {
    if start.parent.is_some() {
        return entry.check_nested();
    }
    if origin.has_operators() || approved.is_some_and(|approved| approved.by_operators) {
        return Ok(());
    }
    Err(needs_approval(entry, arguments, asking))
}

fn needs_approval(entry: &Entry, arguments: &Arguments, asking: &SourceSet) -> CallError {
    let error = CallError::needs_approval(entry.tool.name.clone(), arguments.as_str().to_owned());
    let questions = arguments.questions();
    if !questions.is_empty() {
        error.because(&questions.to_string())
    } else if !asking.is_empty() {
        error.because(&sinks::question(asking))
    } else {
        error
    }
}
