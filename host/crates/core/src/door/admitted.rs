//! A call that may run; the traits of the sources that run it, and of the control of calls across
//! requests: limits, which refuse a call that the door has admitted, and the record of each call.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::{
    Arguments, CallGuards, CallId, Chain, Entry, FinishedCall, McpServer, Membership, Origin,
    ProposedCall, View,
    trace::{CallSpan, RunPlace, TracedCall},
};
use crate::{
    run::Position,
    tenant::Tenant,
    tool::{Answers, CallError, Tool, ToolOutput, Trust},
};
use airlock_telemetry::{Span, TraceFuture as _};

/// Runs the tools of one source.
pub trait Provider: Send + Sync + 'static {
    /// Runs an admitted call to its end. Dropping the future cancels the call: a guest is stopped,
    /// an upstream server is notified.
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>>;

    /// Resumes a call that waits for answers. It must have been admitted before, for the same
    /// tenant, tool and arguments: a continuation has no approval of its own.
    fn resume(
        &self,
        call: Admitted,
        answers: Answers,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        drop(answers);
        Box::pin(async move { Err(CallError::not_waiting(call.tool.name.clone())) })
    }

    /// Returns the tool as which guards and sinks decide about a call of one of the gateway's own tools: that of the
    /// client which the call uses. `None` if the call uses no client itself, so that the calls which are made in it are
    /// decided. Must be cheap, and must return the same for the same view and arguments.
    fn decided_tool(&self, _view: &View, _arguments: &Arguments) -> Option<Arc<Tool>> {
        None
    }

    /// Takes note of a result that guards have looked at, as its caller gets it. [`Provider::call`] has returned it
    /// as it was before. Must be cheap.
    fn observe_guarded(&self, _tenant: &Tenant, _tool: &Arc<Tool>, _output: &ToolOutput) {}

    /// Returns the MCP server that the tools belong to; `None` if the source is none.
    fn server(&self) -> Option<&dyn McpServer> {
        None
    }

    /// Returns members for the source's entry in the administrative API, in addition to its state:
    /// an open circuit, for example. Must be cheap and must not hold secrets.
    fn status(&self) -> Map<String, Value> {
        Map::new()
    }

    /// Returns whether calls of some callers at least fail fast because the source kept failing; `None` if it has no
    /// circuit. Must be cheap.
    fn is_circuit_open(&self) -> Option<bool> {
        None
    }
}

/// Accompanies the calls of a gateway, from the decision to the end. It stands behind the door: it can
/// refuse an admitted call, and cannot admit one.
///
/// The controls of a gateway are asked one after the other: first its limits, then those of the embedding
/// program in the order in which they were added, and last its records, which have a call as admitted only if
/// all others permit it. If one refuses a call, or its caller leaves before all permit it, those that have
/// begun it are ended with an error that [has not begun](CallError::has_not_begun), so that they return what
/// they have taken, and those that were not asked are notified by [`Self::call_refused`].
pub trait CallControl: Send + Sync + 'static {
    /// Controls an admitted call that is about to run, whatever made it: a request, a script or a
    /// plugin. The call runs only if this succeeds; otherwise it fails with the error, which is marked as
    /// that of a call that has not begun. Dropping the future means that the call does not run.
    fn begin<'c>(
        &'c self,
        call: &'c Admitted,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledCall>, CallError>>;

    /// Takes note of a call that the door has refused: of the nested calls of one chain that are beyond its
    /// budget, the first. Must neither block nor fail.
    fn refused(&self, refusal: &Refusal<'_>);

    /// Takes note of a call that waits for an approval: it is neither admitted nor refused yet. If its caller
    /// repeats it while it waits, of each repetition. Must neither block nor fail.
    fn asked(&self, _origin: &Origin, _name: &str) {}

    /// Takes note of a call that the door has admitted and that does not run, because of a control before this
    /// one. Must neither block nor fail.
    fn call_refused(&self, _call: &Admitted, _refusal: &CallError) {}
}

/// A call that runs under control. Dropping the value without [`Self::end`] means that the call was
/// cancelled: it may have had its effect.
pub trait ControlledCall: Send {
    /// Takes note of the result, which the caller receives next. Must not block.
    fn end(self: Box<Self>, result: &Result<ToolOutput, CallError>);
}

/// A call that the door has refused.
#[derive(Clone, Copy)]
pub struct Refusal<'r> {
    /// The party that made the request.
    pub tenant: &'r Tenant,
    /// The key that it came with.
    pub membership: &'r Membership,
    /// The origin of the call.
    pub origin: &'r Origin,
    /// The running call that wanted to make it; `None` if it is a request's own.
    pub parent: Option<CallId>,
    /// The name that was called, cut to a bounded length. No such tool may exist.
    pub name: &'r str,
    /// The reason.
    pub error: &'r CallError,
}

airlock_strings::named_enum! {
    /// Reason for which a call was admitted. The names are those in the records.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Permission {
        /// Calls of the tool need no approval.
        Automatic = "automatic",
        /// The request is the approval: its caller names the call, or its client has asked its user.
        Caller = "caller",
        /// A person has approved this call.
        Person = "person",
        /// It is made in a call that was approved with all its calls.
        Enclosing = "enclosing",
        /// It goes on with a call that was admitted before.
        Continuation = "continuation",
    }
}

/// A call that may run. The value is the permission to run the call once: [`Admitted::run`]
/// consumes it.
#[must_use = "an admitted call does nothing until it is run"]
pub struct Admitted {
    tool: Arc<Tool>,
    server: Option<Trust>,
    provider: Arc<dyn Provider>,
    arguments: Arguments,
    /// The arguments as a tree; `None` until one is built of the text.
    members: Option<Box<Value>>,
    chain: Chain,
    is_automatic: bool,
    permission: Permission,
    decided_by: Option<Arc<str>>,
    origin: Origin,
    is_substitute: bool,
    /// The span in which the call was decided. It may run elsewhere.
    parent: Span,
    /// The place of the call in the run of its script, if it has a span.
    place: Option<Box<RunPlace>>,
}

impl Admitted {
    pub(super) fn new(
        entry: &Entry,
        arguments: Arguments,
        origin: &Origin,
        permission: Permission,
        chain: Chain,
    ) -> Self {
        let tool = entry.tool.clone();
        let provider = entry.provider.clone();
        let server = entry.is_server.then_some(entry.trust);
        let origin = origin.clone();
        let is_automatic = entry.auto;
        chain.record_guards(arguments.guard_acts());
        let is_substitute = false;
        let parent = Span::current();
        let place = None;
        Self {
            tool,
            server,
            provider,
            arguments,
            members: None,
            chain,
            is_automatic,
            permission,
            decided_by: None,
            origin,
            is_substitute,
            parent,
            place,
        }
    }

    /// Names the parties that have approved the call.
    pub(super) fn approved_by(self, decided_by: Option<Arc<str>>) -> Self {
        Self { decided_by, ..self }
    }

    /// Marks that the call takes the place of another one.
    pub(super) fn into_substitute(self) -> Self {
        Self { is_substitute: true, ..self }
    }

    /// The tool.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// The operator's trust in the MCP server that runs the tool; `None` if no server does.
    pub fn server(&self) -> Option<Trust> {
        self.server
    }

    /// The arguments.
    pub fn arguments(&self) -> &Arguments {
        &self.arguments
    }

    /// Returns whether calls of the tool need no approval, whatever this call was permitted by.
    pub fn is_automatic(&self) -> bool {
        self.is_automatic
    }

    /// Reason for which the call was admitted.
    pub fn permission(&self) -> Permission {
        self.permission
    }

    /// The parties that have approved the call; `None` if it needed no approval, or if they are not known.
    pub fn decided_by(&self) -> Option<&str> {
        self.decided_by.as_deref()
    }

    /// The origin of the call.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns whether the call takes the place of another one, see [`Chain::admit_in_place`].
    pub fn is_substitute(&self) -> bool {
        self.is_substitute
    }

    /// The call's position in its chain: its identifier, its deadline, and the authority for its
    /// nested calls.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Moves the call's deadline to `limit` from now, if that is earlier. A deadline is never
    /// extended.
    pub fn within(mut self, limit: Duration) -> Self {
        self.chain.shorten(Instant::now() + limit);
        self
    }

    /// Names the place of the call in the run of its script, for its span. `run` is `None` if the run is not
    /// kept.
    pub fn in_run(mut self, run: Option<&str>, position: Position) -> Self {
        if self.parent.is_recorded() {
            self.place = Some(Box::new(RunPlace { run: run.map(str::to_owned), position }));
        }
        self
    }

    /// Returns the arguments as a tree, an object, and keeps it for [`Self::take_members`]: a check and the function that is
    /// called then parse them once. The tree can take 150 times the bytes of the text.
    pub fn members(&mut self) -> &Value {
        let Self { members, arguments, .. } = self;
        members.get_or_insert_with(|| Box::new(arguments.to_object().into()))
    }

    /// Takes the tree of the arguments; `None` if [`Self::members`] has built none, or it was taken.
    pub fn take_members(&mut self) -> Option<Map<String, Value>> {
        match *self.members.take()? {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Leaves out the arguments that are `null`, which stand for absent ones. The record has them.
    pub fn without_nulls(mut self) -> Self {
        let mut members = self.take_members().unwrap_or_else(|| self.arguments.to_object());
        members.retain(|_, value| !value.is_null());
        self.arguments = members.into();
        self
    }

    /// Runs the call under the control of the view, and records it. Dropping the future cancels the
    /// call; a call that had started is recorded as cancelled. A request may make 20,000 calls; further calls fail and are not
    /// recorded.
    pub async fn run(self) -> Result<ToolOutput, CallError> {
        self.recorded(None).await
    }

    async fn recorded(self, answers: Option<Answers>) -> Result<ToolOutput, CallError> {
        let untrusted = (self.server == Some(Trust::Untrusted)).then(|| self.tool.client.clone());
        let name = self.tool.name.clone();
        let arguments = self.arguments.text.clone();
        let is_of_script = matches!(self.origin, Origin::Script);
        let record = self.chain.record(name, untrusted.flatten(), arguments)?;
        // Waits before the provider measures any time, because the wait for siblings is the
        // chain's own cost.
        let _turn = self.chain.wait_for_siblings().await;
        let mut traced = self.begin_span();
        let span = traced.span().clone();
        let result = self.controlled(answers, &mut traced).in_span(&span).await;
        traced.end(&result);
        if is_of_script && let Ok(output) = &result {
            record.count_script_result(output);
        }
        record.close(&result);
        result
    }

    fn begin_span(&self) -> CallSpan {
        let call = TracedCall {
            tool: &self.tool,
            origin: &self.origin,
            membership: self.chain.view().membership(),
            permission: self.permission.name(),
            place: self.place.as_deref(),
        };
        CallSpan::begin(&self.parent, &call, self.chain.report())
    }

    async fn controlled(
        self,
        answers: Option<Answers>,
        traced: &mut CallSpan,
    ) -> Result<ToolOutput, CallError> {
        let controlled = match self.chain.view().control() {
            Some(control) => {
                let begun = control.begin(&self).await;
                Some(begun.map_err(|refusal| traced.refuse(refusal))?)
            }
            None => None,
        };
        if self.server == Some(Trust::Untrusted)
            && let Some(client) = &self.tool.client
        {
            self.chain.receive_of(client);
        }
        let provider = self.provider.clone();
        let guarded = self.to_guarded();
        let mut result = match answers {
            None => provider.call(self).await,
            Some(answers) => provider.resume(self, answers).await,
        };
        if let Some((guards, call)) = guarded {
            result = decided(&*guards, call, &*provider, result).await;
        }
        if let Some(controlled) = controlled {
            controlled.end(&result);
        }
        result
    }

    /// Copies what guards need of a call that is about to run; `None` if no guard looks at its outcome. Parts
    /// that the source sends before its result are then withheld from listeners.
    fn to_guarded(&self) -> Option<(Arc<dyn CallGuards>, FinishedCall)> {
        let view = self.chain.view();
        let guards = view.guards()?;
        let proposed = ProposedCall {
            tool: &self.tool,
            arguments: &self.arguments,
            origin: &self.origin,
            tenant: view.tenant(),
            membership: view.membership(),
        };
        if self.tool.client.is_none() || !guards.looks_after(&proposed) {
            return None;
        }
        let call = FinishedCall {
            tool: self.tool.clone(),
            arguments: self.arguments.clone(),
            origin: self.origin.clone(),
            tenant: view.tenant().clone(),
            membership: view.shared_membership().clone(),
            deadline: self.chain.deadline(),
            report: self.chain.report().clone(),
        };
        self.chain.report().withhold();
        Some((guards.clone(), call))
    }
}

/// Asks the guards about the outcome of a call, and shows the source the result that they leave. Other errors than the
/// tool's own are the gateway's: guards do not look at them, and they name nothing of a result.
async fn decided(
    guards: &dyn CallGuards,
    call: FinishedCall,
    provider: &dyn Provider,
    outcome: Result<ToolOutput, CallError>,
) -> Result<ToolOutput, CallError> {
    let outcome = match outcome {
        Err(error) if error.tool_error().is_none() => return Err(error.without_place()),
        outcome => outcome,
    };
    let tool = call.tool.clone();
    let tenant = call.tenant().clone();
    let outcome = guards.after(call, outcome).await;
    if let Ok(output) = &outcome {
        provider.observe_guarded(&tenant, &tool, output);
    }
    outcome
}

/// The continuation of a call that waits for answers.
#[must_use = "a continuation does nothing until it is run"]
pub struct Resumed {
    call: Admitted,
    answers: Answers,
}

impl Resumed {
    pub(super) fn new(call: Admitted, answers: Answers) -> Self {
        Self { call, answers }
    }

    /// Identifier of the continuation, which is a call of its own in the ledger.
    pub fn id(&self) -> CallId {
        self.call.chain.id()
    }

    /// The continuation as a call.
    pub fn call(&self) -> &Admitted {
        &self.call
    }

    /// Resumes the call. Fails with [`NotWaiting`](crate::tool::HostCode::NotWaiting) if no such call waits. Dropping
    /// the future cancels the call.
    pub async fn run(self) -> Result<ToolOutput, CallError> {
        self.call.recorded(Some(self.answers)).await
    }
}

#[cfg(test)]
mod tests;
