//! Requests of the embedding program, through the same door as those over HTTP.
//!
//! | module | purpose |
//! |---|---|
//! | `call` | lists tools, makes calls and runs scripts |
//! | `approvals` | calls that wait for a person: list, approve, deny, resume |
//! | `chat` | chats with a model, whole and streamed |
//! | `error` | reasons that a request fails |

mod approvals;
mod call;
mod chat;
mod error;

pub use self::{
    call::{CallReply, CallToApprove, PendingApproval},
    chat::{ChatEvent, ChatEvents, ChatReply},
    error::{ChatFailure, RequestError},
};

use std::{any::Any, sync::Arc, time::Duration};

use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::Gateway;
use airlock_core::{
    act::Actor,
    door::{
        ApprovalChoice, Budget, CALL_LEVELS, Caller, Filter, Origin, ProgramRequest,
        ScriptLanguage, VirtualKey, call_depth,
    },
    request_memory::RequestCharge,
    secret::Secret,
    tenant::Tenant,
    tool::CallError,
};
use airlock_requests::{RequestParts, Sender};

/// Collects what a request of the program is: its sender, and the tools that it selects. See
/// [`Gateway::request`]. Without a sender, it is one of a caller without a key.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `open`"]
pub struct RequestBuilder {
    gateway: Gateway,
    choices: Choices,
}

/// Choices of a request.
#[derive(Clone, Debug, Default)]
struct Choices {
    sender: SenderChoice,
    clients: Option<Vec<String>>,
    tools: Option<Vec<String>>,
    excluded: Option<Vec<String>>,
    language: Option<ScriptLanguage>,
    approval: Option<ApprovalChoice>,
    timeout: Option<Duration>,
    is_approving: bool,
    depth: u32,
    context: Option<Arc<dyn Any + Send + Sync>>,
}

#[derive(Clone, Debug, Default)]
enum SenderChoice {
    #[default]
    WithoutKey,
    Key(Secret),
    Operator,
}

impl Gateway {
    /// Begins a request of the program: to list tools, to call one, to run a script or to chat, with the same
    /// rules as a request over HTTP.
    pub fn request(&self) -> RequestBuilder {
        RequestBuilder::new(self.clone())
    }
}

impl RequestBuilder {
    fn new(gateway: Gateway) -> Self {
        Self { gateway, choices: Choices::default() }
    }

    /// Sends the requests with this virtual key. It replaces [`Self::as_operator`].
    pub fn key(mut self, credential: &str) -> Self {
        self.choices.sender = SenderChoice::Key(Secret::new(credential));
        self
    }

    /// Sends the requests as the operator: without a key, with the clients of all owners, and with the right
    /// to decide about the calls of all callers. It replaces [`Self::key`].
    pub fn as_operator(mut self) -> Self {
        self.choices.sender = SenderChoice::Operator;
        self
    }

    /// Selects clients, by name; `*` stands for all. An empty list selects none, and so does a name that no
    /// client has.
    pub fn clients(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.choices.clients = Some(collected(names));
        self
    }

    /// Selects tools, as `client-tool`, as models see them, or all of a client as `client-*`. An empty list
    /// selects none, and so does a name that no tool has.
    pub fn tools(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.choices.tools = Some(collected(names));
        self
    }

    /// Takes tools away, named as in [`Self::tools`]; `*` stands for all.
    pub fn exclude_tools(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.choices.excluded = Some(collected(names));
        self
    }

    /// Selects the language of scripts. Without it, that of the configuration is used.
    pub fn language(mut self, language: ScriptLanguage) -> Self {
        self.choices.language = Some(language);
        self
    }

    /// Selects what becomes of the calls of a model that need an approval. Without it, the key or the
    /// configuration decides.
    pub fn approval(mut self, choice: ApprovalChoice) -> Self {
        self.choices.approval = Some(choice);
        self
    }

    /// Bounds the time of each call and of each chat. The limits of the configuration apply too.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.choices.timeout = Some(limit);
        self
    }

    /// Makes each call of the program its own approval, as a call over HTTP is: for a program whose user has
    /// asked for the call. Calls of models and scripts still need theirs.
    pub fn approving(mut self) -> Self {
        self.choices.is_approving = true;
        self
    }

    /// Sets a value for the tools of the program that the calls of the requests reach: each of them receives it as
    /// [`ToolContext::request_context`](crate::ToolContext::request_context).
    pub fn context(mut self, context: Arc<dyn Any + Send + Sync>) -> Self {
        self.choices.context = Some(context);
        self
    }

    /// Sends the requests from a function of the program whose call has this [depth](crate::ToolContext::depth). A function
    /// that sends them in its own task needs no call of this: the greater depth counts.
    pub fn call_depth(mut self, depth: u32) -> Self {
        self.choices.depth = depth;
        self
    }

    /// Authenticates the sender. Fails if its key is not accepted, if a key is required, if a name cannot be
    /// one, or if the gateway is not ready for requests.
    pub fn open(self) -> Result<GatewayRequest, RequestError> {
        let Self { gateway, choices } = self;
        let request = GatewayRequest { gateway, filter: choices.filter()?, choices };
        request.begin()?;
        Ok(request)
    }
}

impl Choices {
    fn filter(&self) -> Result<Filter, RequestError> {
        let clients = list(self.clients.as_deref())?;
        let tools = list(self.tools.as_deref())?;
        let excluded = list(self.excluded.as_deref())?;
        let filter = Filter::parse(clients.as_deref(), tools.as_deref())
            .excluding(excluded.as_deref())
            .with_language(self.language);
        Ok(if matches!(self.sender, SenderChoice::Operator) {
            filter.for_operator()
        } else {
            filter
        })
    }
}

fn collected(names: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    names.into_iter().map(Into::into).collect()
}

/// Returns names as a filter reads them. Fails if one of them would be several.
fn list(names: Option<&[String]>) -> Result<Option<String>, RequestError> {
    let Some(names) = names else { return Ok(None) };
    match names.iter().find(|name| name.contains(',')) {
        Some(bad) => Err(RequestError::Name(bad.clone())),
        None => Ok(Some(names.join(","))),
    }
}

/// Requests of the program, with one sender and one selection of tools. Cheap to clone. It keeps the gateway
/// running.
///
/// Each operation is a request of its own, with the settings of its moment: a key that is revoked is refused
/// from then on. Dropping the future of one cancels it.
#[derive(Clone)]
pub struct GatewayRequest {
    gateway: Gateway,
    filter: Filter,
    choices: Choices,
}

impl GatewayRequest {
    /// Begins an operation. Fails if the sender is not accepted now, or if the gateway takes no requests.
    fn begin(&self) -> Result<Operation, RequestError> {
        let entered = self.gateway.enter().ok_or(RequestError::Stopped)?;
        if !self.gateway.has_settings() {
            return Err(RequestError::NotReady);
        }
        let key = self.authenticate()?;
        let depth = call_depth().max(self.choices.depth);
        let request = ProgramRequest { depth, context: self.choices.context.clone() };
        let sender = Sender::new(key, self.filter.clone(), self.choices.approval);
        let sender = sender.for_program(request.clone());
        Ok(Operation {
            request,
            parts: self.gateway.live().parts(),
            gateway: self.gateway.clone(),
            sender,
            is_operator: matches!(self.choices.sender, SenderChoice::Operator),
            is_approving: self.choices.is_approving,
            timeout: self.choices.timeout,
            _entered: entered,
        })
    }

    /// Finds the key of the sender; `None` without one.
    fn authenticate(&self) -> Result<Option<Arc<VirtualKey>>, RequestError> {
        match &self.choices.sender {
            SenderChoice::Key(credential) => {
                let found = self.gateway.find_key(credential.expose());
                found.map(Some).ok_or(RequestError::UnknownKey)
            }
            SenderChoice::WithoutKey if self.gateway.live().requires_key() => {
                Err(RequestError::KeyRequired)
            }
            SenderChoice::WithoutKey | SenderChoice::Operator => Ok(None),
        }
    }
}

airlock_strings::debug_fields!(GatewayRequest { filter });

/// One operation, which the gateway waits for when it stops.
struct Operation {
    gateway: Gateway,
    parts: Arc<RequestParts>,
    sender: Sender,
    request: ProgramRequest,
    is_operator: bool,
    is_approving: bool,
    timeout: Option<Duration>,
    _entered: TaskTrackerToken,
}

impl Operation {
    fn tenant(&self) -> Tenant {
        self.sender.tenant()
    }

    /// The origin of the calls of the program itself.
    fn origin(&self) -> Origin {
        if self.is_approving { Origin::Caller } else { Origin::Program }
    }

    fn budget(&self) -> Budget {
        match self.timeout {
            Some(limit) => self.parts.budget.within(limit),
            None => self.parts.budget,
        }
    }

    /// Returns the caller of the calls of the program itself.
    fn caller(&self) -> Caller {
        let view = self.parts.view(&self.sender);
        let caller = Caller::new(view, self.origin(), self.budget());
        let caller = caller.for_program(self.request.clone());
        let approves_scripts = self.is_approving
            && self.parts.runs.as_ref().is_some_and(|runs| runs.settings().approves_whole_scripts);
        if approves_scripts { caller.approving_scripts() } else { caller }
    }

    /// Fails if a function of the program sends the request whose call has the greatest depth.
    fn check_depth(&self) -> Result<(), CallError> {
        let most = self.parts.budget.depth;
        if self.request.depth < most.max(1) {
            Ok(())
        } else {
            Err(CallError::budget(CALL_LEVELS, most.into()))
        }
    }

    /// Charges a request of so many bytes. Fails if there is no memory for it.
    fn charge(&self, bytes: usize) -> Result<RequestCharge, RequestError> {
        let charge = self.parts.memory.open(self.tenant(), 0)?;
        charge.grow(bytes)?;
        Ok(charge)
    }

    /// Returns whether calls of the sender wait for operators, who alone approve them.
    fn waits_for_operators(&self) -> bool {
        let key = self.sender.key.as_deref().map(|key| key.name.as_str());
        self.gateway.live().waits_for_operators(key)
    }

    /// Returns the party that makes the decisions of the sender, for logs and records.
    fn actor(&self) -> Actor {
        if self.is_operator { Actor::Program } else { Actor::from(&self.tenant()) }
    }
}

#[cfg(test)]
mod tests;
