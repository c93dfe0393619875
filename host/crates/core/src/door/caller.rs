//! One request's authority to call tools, and the one decision about each call.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use tokio::sync::mpsc;

use super::{
    Admitted, Approved, Budget, CallId, Chain, Entry, Event, Events, Ledger, LogLevel, Origin,
    Permission, Resumed, View,
    arguments::{Arguments, MAX_NAME_BYTES, ToArguments},
    budget::ChainBudget,
    event,
    report::Report,
};
use crate::tool::{Answers, CallError, ErrorKind, HostCode, QuestionKinds, ToolError};
use airlock_strings::cut;

/// One request's authority to call tools. Cheap to clone.
#[derive(Clone)]
pub struct Caller(Arc<CallerData>);

#[derive(Clone)]
struct CallerData {
    view: View,
    origin: Origin,
    budget: Budget,
    ledger: Ledger,
    events: Option<mpsc::Sender<Event>>,
    hearing: Hearing,
    approves_scripts: bool,
}

/// Messages of running calls, besides events, that a caller takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hearing {
    /// Least severe log messages of sources that are sent as events; `None` for no messages.
    pub log_level: Option<LogLevel>,
    /// Questions of sources that the caller can answer.
    pub questions: QuestionKinds,
    /// Session of the client that calls; `None` if its calls belong to none.
    pub session: Option<SessionId>,
}

/// Identifier of one session of a client, unique in this process. All calls of a session have the
/// same user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionId(u64);

impl SessionId {
    /// Returns an identifier that no other session has.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Position of a call in its chain.
pub(super) struct Start {
    pub(super) shared: Arc<ChainBudget>,
    pub(super) parent: Option<CallId>,
    pub(super) depth: u32,
    pub(super) deadline: Instant,
    /// True if the call is approved, and so are the calls that a plugin makes in it.
    pub(super) is_approved: bool,
}

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
        let ledger = Ledger::default();
        let data =
            CallerData { view, origin, budget, ledger, events, hearing, approves_scripts: false };
        Self(Arc::new(data))
    }

    /// Approves every call of the scripts that the caller runs, ahead of the calls.
    #[must_use]
    pub fn approving_scripts(self) -> Self {
        Self(Arc::new(CallerData { approves_scripts: true, ..(*self.0).clone() }))
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
    /// the same tool and the same arguments. Fails if the tool does not exist or is hidden by now, or
    /// if the arguments cannot be used.
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
        // Whether it needed an approval was decided before.
        self.0.view.is_automatic(origin, entry, &arguments)?;
        let start = Start { deadline: self.deadline(entry), ..self.start() };
        let chain = Chain::new(self.clone(), start, Report::new());
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
        }
    }

    /// Returns the deadline of a call of the request itself, which begins now.
    fn deadline(&self, entry: &Entry) -> Instant {
        let Budget { deadline, script, .. } = self.0.budget;
        Instant::now() + if entry.runs_scripts() { script } else { deadline }
    }

    /// Returns whether [`Self::admit`] would refuse a call of the tool because it needs an approval, whatever
    /// its arguments are: a [policy](super::CallPolicy) is not asked. Fails if all tools are switched off, or
    /// if the tool does not exist or is hidden.
    pub fn needs_approval(&self, name: &str) -> Result<bool, CallError> {
        self.check_switch()?;
        let entry = self.find(&self.0.origin, name)?;
        Ok(!entry.auto && (entry.needs_two || !self.0.origin.approves()))
    }

    /// Returns whether [`Self::admit`] would refuse this call because it needs an approval. A caller uses it
    /// to sort calls before it runs them. Fails as [`Self::needs_approval`], or if a policy refuses the call.
    pub fn call_needs_approval(
        &self,
        name: &str,
        arguments: &Arguments,
    ) -> Result<bool, CallError> {
        self.check_switch()?;
        let origin = &self.0.origin;
        let entry = self.find(origin, name)?;
        let is_automatic = self.0.view.is_automatic(origin, entry, arguments)?;
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
            start.deadline = self.deadline(entry);
        }
        let is_automatic = self.0.view.is_automatic(origin, entry, &arguments)?;
        let approved = approved.filter(|approved| approved.covers(entry, &arguments));
        if entry.needs_two {
            check_operators(origin, entry, &arguments, approved, &start)?;
        } else if !is_automatic && !start.is_approved && approved.is_none() {
            return Err(needs_approval(entry, &arguments));
        }
        let permission = match start.parent {
            _ if is_automatic => Permission::Automatic,
            _ if approved.is_some() => Permission::Person,
            None if origin.has_person() => Permission::Person,
            None => Permission::Caller,
            Some(_) => Permission::Enclosing,
        };
        start.is_approved |= approved.is_some_and(|approved| approved.covers_nested);
        let chain = Chain::new(self.clone(), start, Report::new());
        let admitted = Admitted::new(entry, arguments, origin, permission, chain);
        let approved = approved.filter(|_| permission == Permission::Person);
        Ok(admitted.approved_by(approved.and_then(|approved| approved.decided_by.clone())))
    }

    /// Fails if all tools are switched off at this moment, also for a request that began before.
    fn check_switch(&self) -> Result<(), CallError> {
        if self.0.view.is_switched_off() { Err(CallError::tools_disabled()) } else { Ok(()) }
    }

    /// Finds a tool by name. Hidden tools return `NotFound`, exactly like unknown ones.
    fn find(&self, origin: &Origin, name: &str) -> Result<&Entry, CallError> {
        let entry = self.0.view.find(origin, name);
        entry.ok_or_else(|| CallError::not_found(&cut(name.to_owned(), MAX_NAME_BYTES)))
    }

    /// The origin of the request.
    pub(super) fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// Returns whether the calls of scripts are approved ahead.
    pub(super) fn approves_scripts(&self) -> bool {
        self.0.approves_scripts
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// Messages that the caller takes.
    pub(super) fn heard(&self) -> Hearing {
        self.0.hearing
    }

    /// Sender of events; `None` if the caller does not receive them.
    pub(super) fn events(&self) -> Option<&mpsc::Sender<Event>> {
        self.0.events.as_ref()
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
) -> Result<(), CallError> {
    if start.parent.is_some() {
        return Err(needs_operators(entry));
    }
    if origin.has_operators() || approved.is_some_and(|approved| approved.by_operators) {
        return Ok(());
    }
    Err(needs_approval(entry, arguments))
}

/// Returns the error of a nested call that two operators would have to approve.
fn needs_operators(entry: &Entry) -> CallError {
    let tool = &entry.tool.name;
    let message = format!(
        "tool '{tool}' did not run: two operators approve each of its calls, so scripts and plugins cannot call it"
    );
    ToolError::new(ErrorKind::Denied, message).with_code(&HostCode::Declined.prefixed()).into()
}

fn needs_approval(entry: &Entry, arguments: &Arguments) -> CallError {
    CallError::needs_approval(entry.tool.name.clone(), arguments.as_str().to_owned())
}
