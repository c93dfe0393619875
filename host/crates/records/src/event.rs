//! Events as plain data: what the call path hands over without formatting it.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use crate::commitment::Salts;
use airlock_core::{
    act::Act,
    door::{Admitted, Approval, Arguments, CallId, Membership, Origin, Permission, Refusal},
    model_control::TokenUsage,
    tenant::Tenant,
    tool::{CallError, HostCode, Tool, ToolOutput, Trust},
};
use airlock_store::call_log::CallStatus;
use airlock_strings::cut;
use uuid::Uuid;

/// Approximate memory of an event without its contents, in bytes.
const EVENT_BYTES: usize = 1_024;
/// Longest text of a caller, a tool or a provider in a record, in bytes.
pub(crate) const MAX_TEXT_BYTES: usize = 256;

/// An event. Everything that is recorded is one.
#[derive(Clone)]
pub(crate) enum Event {
    /// A call was admitted, and is about to run.
    Admitted(Arc<CallFacts>),
    /// A call that was admitted has ended, or was not made after all.
    Ended(Box<CallEnd>),
    /// The door has refused a call, or its record could not be written.
    Refused(Box<RefusedCall>),
    /// A request to a model has ended.
    Model(Box<ModelEnd>),
    /// An act of a person.
    Act(Box<TimedAct>),
    /// Events were lost, because they had no room while a log could not be written.
    Lost(LostEvents),
}

/// Facts about a call at its admission.
pub(crate) struct CallFacts {
    pub(crate) id: CallId,
    pub(crate) parent: Option<CallId>,
    pub(crate) at: SystemTime,
    pub(crate) tenant: Tenant,
    pub(crate) membership: Arc<Membership>,
    pub(crate) origin: CallOrigin,
    pub(crate) tool: Arc<Tool>,
    pub(crate) arguments: Arguments,
    pub(crate) permission: Permission,
    pub(crate) has_effects: bool,
    /// Set by the writer. `None` inside if there were no random numbers.
    committed: OnceLock<Option<Committed>>,
}

/// The salts of a call, and the commitment to its arguments.
pub(crate) struct Committed {
    pub(crate) salts: Salts,
    pub(crate) arguments: [u8; 32],
}

/// Origin of a call, without the grants of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallOrigin {
    Model,
    Script,
    Plugin,
    Caller,
    McpClient,
    /// A client whose user was asked.
    AskedMcpClient,
}

impl CallOrigin {
    /// Name in the records.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Script => "script",
            Self::Plugin => "plugin",
            Self::Caller => "caller",
            Self::McpClient | Self::AskedMcpClient => "mcp_client",
        }
    }
}

impl From<&Origin> for CallOrigin {
    fn from(origin: &Origin) -> Self {
        match origin {
            Origin::Model => Self::Model,
            Origin::Script => Self::Script,
            Origin::Plugin(_) => Self::Plugin,
            Origin::Caller => Self::Caller,
            Origin::McpClient(Approval::Missing) => Self::McpClient,
            Origin::McpClient(Approval::Given) => Self::AskedMcpClient,
        }
    }
}

/// End of a call.
#[derive(Clone)]
pub(crate) struct CallEnd {
    pub(crate) facts: Arc<CallFacts>,
    pub(crate) at: SystemTime,
    pub(crate) status: CallStatus,
    /// True if it ran, so that it costs its price whatever its result.
    pub(crate) has_begun: bool,
    pub(crate) code: Option<CallCode>,
    pub(crate) duration: Duration,
    pub(crate) fuel: Option<u64>,
    pub(crate) run: Option<Arc<str>>,
    pub(crate) result: Option<CallResult>,
}

/// Result of a call, not rendered yet.
#[derive(Clone)]
pub(crate) enum CallResult {
    Output(Box<ToolOutput>),
    /// Text of the error of a tool.
    Error(Box<str>),
}

/// Code of the error of a call.
#[derive(Clone)]
pub(crate) enum CallCode {
    Host(HostCode),
    /// Code of the tool's own. Untrusted.
    Tool(Box<str>),
}

/// A call that was not admitted.
#[derive(Clone)]
pub(crate) struct RefusedCall {
    pub(crate) id: Uuid,
    pub(crate) at: SystemTime,
    pub(crate) tenant: Tenant,
    pub(crate) membership: Arc<Membership>,
    pub(crate) origin: CallOrigin,
    pub(crate) parent: Option<CallId>,
    /// Untrusted: no such tool may exist.
    pub(crate) name: Box<str>,
    pub(crate) client: Option<Box<str>>,
    pub(crate) code: CallCode,
}

/// A request to a model that has ended.
#[derive(Clone)]
pub(crate) struct ModelEnd {
    pub(crate) id: Uuid,
    pub(crate) begun: SystemTime,
    pub(crate) tenant: Tenant,
    pub(crate) membership: Membership,
    pub(crate) model: String,
    pub(crate) is_streamed: bool,
    pub(crate) status: CallStatus,
    pub(crate) provider: Option<String>,
    pub(crate) served_model: Option<String>,
    pub(crate) usage: Option<TokenUsage>,
    /// Cost in millionths of a US dollar.
    pub(crate) cost: Option<u64>,
    pub(crate) code: Option<String>,
    pub(crate) duration: Duration,
}

/// An act with its time.
#[derive(Clone)]
pub(crate) struct TimedAct {
    pub(crate) at: SystemTime,
    pub(crate) act: Act,
}

/// Number of events that were lost until a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LostEvents {
    pub(crate) until: SystemTime,
    pub(crate) count: u64,
}

impl CallFacts {
    /// Copies what is recorded of a call.
    pub(crate) fn new(call: &Admitted) -> Self {
        let chain = call.chain();
        let tool = call.tool();
        Self {
            id: chain.id(),
            parent: chain.parent(),
            at: SystemTime::now(),
            tenant: chain.tenant().clone(),
            membership: chain.view().shared_membership().clone(),
            origin: call.origin().into(),
            has_effects: may_have_effects(call),
            tool: tool.clone(),
            arguments: call.arguments().clone(),
            permission: call.permission(),
            committed: OnceLock::new(),
        }
    }

    /// The salts of the call and the commitment. The first call makes them, on the thread of the writer; `None`
    /// if the system has no random numbers.
    pub(crate) fn committed(&self) -> Option<&Committed> {
        let committed = self.committed.get_or_init(|| {
            let salts = Salts::random()?;
            Some(Committed { salts, arguments: salts.of_arguments(self.arguments.as_str()) })
        });
        committed.as_ref()
    }
}

/// Returns whether a call may change something. A source that the operator does not trust may say of a tool
/// what it likes.
fn may_have_effects(call: &Admitted) -> bool {
    let tool = call.tool();
    let is_trusted = tool.trust == Trust::Trusted && call.server() != Some(Trust::Untrusted);
    tool.annotations.read_only != Some(true) || !is_trusted
}

impl RefusedCall {
    /// Copies what is recorded of a refusal of the door.
    pub(crate) fn new(refusal: &Refusal<'_>) -> Self {
        Self {
            id: Uuid::now_v7(),
            at: SystemTime::now(),
            tenant: refusal.tenant.clone(),
            membership: Arc::new(refusal.membership.clone()),
            origin: refusal.origin.into(),
            parent: refusal.parent,
            name: refusal.name.into(),
            client: None,
            code: CallCode::from(refusal.error),
        }
    }

    /// Copies what is recorded of a call that was admitted and is not made, because its admission cannot be
    /// recorded.
    pub(crate) fn unrecorded(facts: &CallFacts, error: &CallError) -> Self {
        Self {
            id: Uuid::now_v7(),
            at: SystemTime::now(),
            tenant: facts.tenant.clone(),
            membership: facts.membership.clone(),
            origin: facts.origin,
            parent: facts.parent,
            name: facts.tool.full_name.as_str().into(),
            client: facts.tool.client.as_ref().map(|client| client.as_str().into()),
            code: CallCode::from(error),
        }
    }
}

impl From<&CallError> for CallCode {
    fn from(error: &CallError) -> Self {
        match error.tool_code() {
            Some(code) => Self::Tool(cut(code.to_owned(), MAX_TEXT_BYTES).into()),
            None => Self::Host(error.code()),
        }
    }
}

impl Event {
    /// Approximate memory of the event, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let contents = match self {
            Self::Admitted(facts) => facts.arguments.as_str().len(),
            Self::Ended(end) => {
                let result = match &end.result {
                    Some(CallResult::Output(output)) => output.size(),
                    Some(CallResult::Error(text)) => text.len(),
                    None => 0,
                };
                end.facts.arguments.as_str().len() + result
            }
            Self::Act(timed) => {
                timed.act.details.iter().map(|(_, value)| value.len()).sum::<usize>()
                    + timed.act.object.len()
                    + timed.act.actor.len()
            }
            Self::Refused(_) | Self::Model(_) | Self::Lost(_) => 0,
        };
        EVENT_BYTES + contents
    }
}
