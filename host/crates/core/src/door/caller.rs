//! One request's authority to call tools, and the one decision about each call.

use std::{sync::Arc, time::Instant};

use tokio::sync::mpsc;

use super::{
    Admitted, Approved, ArgumentSources, Budget, Chain, Entry, Event, Events, Hearing, Ledger,
    Origin, Permission, ProgramRequest, Resumed, SessionSources, View,
    arguments::{Arguments, ToArguments},
    author::Author,
    budget::ChainBudget,
    chain::{CallerAuthority, Start},
    event,
    report::Report,
    sinks,
};
use crate::tool::{Answers, CallError, ErrorKind, HostCode, SourceSet, ToolError};

/// One request's authority to call tools. Cheap to clone.
#[derive(Clone)]
pub struct Caller(Arc<CallerAuthority>);

impl Caller {
    /// Creates a caller with a view. Each of its calls gets the whole `budget`.
    pub fn new(view: View, origin: Origin, budget: Budget) -> Self {
        Self::hearing(view, origin, budget, Hearing::default())
    }

    /// Creates a caller that can answer questions of sources.
    pub fn hearing(view: View, origin: Origin, budget: Budget, hearing: Hearing) -> Self {
        Self::build(view, origin, budget, hearing, None)
    }

    /// Creates a caller, and a receiver for the events of its running calls.
    pub fn with_events(
        view: View,
        origin: Origin,
        budget: Budget,
        hearing: Hearing,
    ) -> (Self, Events) {
        let (sender, events) = event::channel();
        (Self::build(view, origin, budget, hearing, Some(sender)), events)
    }

    fn build(
        view: View,
        origin: Origin,
        budget: Budget,
        hearing: Hearing,
        events: Option<mpsc::Sender<Event>>,
    ) -> Self {
        let author = view.follows_sources().then(|| Author::of_request(SourceSet::default(), None));
        Self(Arc::new(CallerAuthority {
            view,
            origin,
            budget,
            ledger: Ledger::default(),
            events,
            hearing,
            approves_scripts: false,
            author,
            program: None,
        }))
    }

    /// Makes the calls in a session, whose client had read results of the sources `context` when it made the request.
    #[must_use]
    pub fn in_session(self, session: &SessionSources, context: SourceSet) -> Self {
        if self.0.author.is_none() {
            return self;
        }
        let author = Some(Author::of_request(context, Some(session.clone())));
        Self(Arc::new(CallerAuthority { author, ..(*self.0).clone() }))
    }

    /// Returns the sources that the author of the request has read; none if sources are not followed.
    pub fn context(&self) -> SourceSet {
        self.0.author.as_ref().map(|author| author.sources()).unwrap_or_default()
    }

    /// Adds sources that the author of the request has read, before its next call.
    pub fn has_read(&self, sources: &SourceSet) {
        if let Some(author) = &self.0.author {
            author.has_read(sources);
        }
    }

    /// Ends a turn of the author of the request, who then reads the results of its calls. Until then the calls do not
    /// depend on the results of each other.
    pub fn end_turn(&self) {
        if let Some(author) = &self.0.author {
            author.end_turn();
        }
    }

    /// Approves every call of the scripts that the caller runs, ahead of the calls.
    #[must_use]
    pub fn approving_scripts(self) -> Self {
        Self(Arc::new(CallerAuthority { approves_scripts: true, ..(*self.0).clone() }))
    }

    /// Makes the calls for a request of the embedding program, whose own depth counts towards theirs.
    #[must_use]
    pub fn for_program(self, request: ProgramRequest) -> Self {
        Self(Arc::new(CallerAuthority { program: Some(request), ..(*self.0).clone() }))
    }

    /// Returns whether the embedding program has sent the request.
    pub fn is_for_program(&self) -> bool {
        self.0.program.is_some()
    }

    /// Notifies the control of a call that is refused before [`Self::admit`] is asked: there is no such tool, its
    /// arguments cannot be read, or a person has denied it.
    pub fn report_refusal(&self, name: &str, error: &CallError) {
        self.0.view.report_refusal(&self.0.origin, name, error);
    }

    /// Notifies the control of a call that waits for an approval, and is not admitted, and records its span.
    pub fn report_wait(&self, name: &str) {
        self.0.view.report_wait(&self.0.origin, name);
    }

    /// The tools that the caller may see.
    pub fn view(&self) -> &View {
        &self.0.view
    }

    /// Iterates over the tools that are listed for the caller, sorted by name.
    pub fn list(&self) -> impl Iterator<Item = &Entry> {
        self.0.view.list(&self.0.origin)
    }

    /// Records of the calls of the request so far.
    pub fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

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
        let start = Start { deadline: self.deadline(entry), ..self.start() };
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

    /// Returns the deadline of a call of the request itself, which begins now.
    fn deadline(&self, entry: &Entry) -> Instant {
        let Budget { deadline, script, .. } = self.0.budget;
        Instant::now() + if entry.runs_scripts() { script } else { deadline }
    }

    /// Returns whether [`Self::admit`] would refuse a call of the tool because it needs an approval, whatever
    /// its arguments are: neither guards, sinks nor a [policy](super::CallPolicy) are asked. Fails if all tools are switched off, or
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
        let deadline = self.deadline(entry);
        let arguments = arguments.clone();
        let arguments = self.0.view.guarded_at_once(origin, entry, arguments, deadline)?;
        let asking = self.0.view.asking_sources(entry, &self.context(), &arguments, None)?;
        let is_asking = !asking.is_empty();
        let is_automatic = self.0.view.is_automatic(origin, entry, &arguments)? && !is_asking;
        Ok(!is_automatic && (entry.needs_two || !origin.approves()))
    }

    /// Decides one call, for a caller and for a running call alike. All calls are decided here.
    /// `start` tells whether the call is approved already; `approved` approves one call.
    fn decide(
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
            start.deadline = self.deadline(entry);
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

impl Start {
    /// Returns whether the call is approved already, with all sources because of which it needs an approval: those
    /// that the author has read since were shown to nobody.
    fn covers(&self, asking: &SourceSet) -> bool {
        self.is_approved && self.has_shown(asking)
    }

    /// Returns whether sources were known before the author made its first call.
    fn has_shown(&self, asking: &SourceSet) -> bool {
        let author = self.author.as_ref().filter(|author| !author.is_of_request());
        author.is_none_or(|author| asking.is_subset(author.before()))
    }

    /// Returns the error of a call without the approval that it needs. A plugin cannot stop in its middle, and nobody
    /// can be shown before what it reads: its call is refused because of that.
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
