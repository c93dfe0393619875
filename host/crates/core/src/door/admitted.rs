//! A call that may run, and the traits of the sources that run it.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    Arguments, Chain, Entry, Mailbox, Origin, Relay, RelayError, Subscription, trace::CallSpan,
};
use crate::{
    run::Position,
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

/// Serves requests that only an MCP server has: those for resources and prompts, and the end of
/// those that wait for answers.
pub trait McpServer: Send + Sync {
    /// Runs an admitted request for a resource, a prompt or a completion. Returns the result of the
    /// server as the text of a JSON object. Dropping the future cancels the request.
    fn relay(&self, relay: Relay) -> BoxFuture<'_, Result<String, RelayError>>;

    /// Begins to put `label` into `mailbox` for each change of the resource that an admitted request
    /// names, until the returned value is dropped.
    fn subscribe(
        &self,
        relay: Relay,
        mailbox: &Arc<Mailbox>,
        label: &str,
    ) -> Result<Subscription, RelayError>;

    /// Ends a request that waits for answers under `token`, because its caller has left.
    fn forget(&self, token: &str);
}

/// Identifier of one call: a UUID of version 7, which sorts by time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct CallId(Uuid);

impl CallId {
    pub(super) fn next() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Reason for which a call was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Calls of the tool need no approval.
    Automatic,
    /// The request is the approval: its caller names the call, or its client has asked its user.
    Caller,
    /// A person has approved this call.
    Person,
    /// It is made in a call that was approved with all its calls.
    Enclosing,
    /// It goes on with a call that was admitted before.
    Continuation,
}

impl Permission {
    /// Name in the records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Automatic => "automatic",
            Self::Caller => "caller",
            Self::Person => "person",
            Self::Enclosing => "enclosing",
            Self::Continuation => "continuation",
        }
    }
}

/// A call that may run. The value is the permission to run the call once: [`Admitted::run`]
/// consumes it.
#[must_use = "an admitted call does nothing until it is run"]
pub struct Admitted {
    pub(super) tool: Arc<Tool>,
    server: Option<Trust>,
    provider: Arc<dyn Provider>,
    arguments: Arguments,
    pub(super) chain: Chain,
    is_automatic: bool,
    pub(super) permission: Permission,
    decided_by: Option<Arc<str>>,
    pub(super) origin: Origin,
    is_substitute: bool,
    /// The span in which the call was decided. It may run elsewhere.
    pub(super) parent: Span,
    /// The place of the call in the run of its script, if it has a span.
    pub(super) place: Option<Box<RunPlace>>,
}

/// Place of a call in the run of its script.
pub(super) struct RunPlace {
    /// Identifier of the run; `None` if it is not kept.
    pub(super) run: Option<String>,
    pub(super) position: Position,
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
        let is_substitute = false;
        let parent = Span::current();
        let place = None;
        Self {
            tool,
            server,
            provider,
            arguments,
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

    /// Leaves out the arguments that are `null`, which stand for absent ones. The record has them.
    pub fn without_nulls(mut self) -> Self {
        let mut members = self.arguments.to_object();
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
        let untrusted = self.tool.client.clone().filter(|_| self.server == Some(Trust::Untrusted));
        let name = self.tool.name.clone();
        let arguments = self.arguments.0.clone();
        let record = self.chain.record(name, untrusted, arguments)?;
        // Waits before the provider measures any time, because the wait for siblings is the
        // chain's own cost.
        let _turn = self.chain.wait_for_siblings().await;
        let mut traced = CallSpan::begin(&self);
        let span = traced.span().clone();
        let result = self.controlled(answers, &mut traced).in_span(&span).await;
        traced.end(&result);
        record.close(&result);
        result
    }

    async fn controlled(
        self,
        answers: Option<Answers>,
        traced: &mut CallSpan,
    ) -> Result<ToolOutput, CallError> {
        let control = self.chain.view().control().cloned();
        let controlled = match control {
            Some(control) => {
                let begun = control.begin(&self).await;
                Some(begun.map_err(|refusal| traced.refuse(refusal))?)
            }
            None => None,
        };
        let provider = self.provider.clone();
        let result = match answers {
            None => provider.call(self).await,
            Some(answers) => provider.resume(self, answers).await,
        };
        if let Some(controlled) = controlled {
            controlled.end(&result);
        }
        result
    }
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
