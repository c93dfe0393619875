//! Events as plain data: what the call path hands over without formatting it.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use crate::commitment::Salts;
use airlock_core::{
    act::Act,
    door::{Admitted, Arguments, CallId, Membership, Permission, Refusal},
    model_control::{TokenUsage, ToolTokens},
    tenant::Tenant,
    tool::{CallError, GuardAct, HostCode, SourceSet, Tool, ToolOutput, Trust},
};
use airlock_store::call_log::{CallStatus, LoggedParty, MAX_TEXT_BYTES};
use airlock_strings::cut;
use serde_json::json;
use uuid::Uuid;

/// Approximate memory of an event without its contents, in bytes.
const EVENT_BYTES: usize = 1_024;
/// Most sources in a record: a script may have read from all servers. Their names take less than
/// 7 KB of the 64 KiB that an event may have. The number of further ones stands beside them.
const MAX_SOURCES: usize = 100;

/// An event. Everything that is recorded is one.
pub(crate) enum RecordEvent {
    /// A call was admitted, and is about to run.
    Admitted(Arc<CallFacts>),
    /// A call that was admitted has ended, or was not made after all.
    Ended(Box<CallEnd>),
    /// The door or a control has refused a call, or its record could not be written.
    Refused(Box<RefusedCall>),
    /// A request to a model has ended.
    Model(Box<ModelEnd>),
    /// An act of a person.
    Act(Box<TimedAct>),
    /// Number of refusals of a caller, or of questions to its user, beyond those with records of their own.
    Counted(Box<CountedEvents>),
    /// Events were lost, because they had no room while a log could not be written.
    Lost(LostEvents),
}

/// A text of a caller, a tool or a provider, cut to a bounded length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShortText(Box<str>);

/// Facts about a call at its admission.
pub(crate) struct CallFacts {
    pub(crate) id: CallId,
    pub(crate) parent: Option<CallId>,
    pub(crate) at: SystemTime,
    pub(crate) tenant: Tenant,
    pub(crate) membership: Arc<Membership>,
    /// Name of the [`Origin`](airlock_core::door::Origin).
    pub(crate) origin: &'static str,
    pub(crate) tool: Arc<Tool>,
    pub(crate) arguments: Arguments,
    pub(crate) permission: Permission,
    /// The operators or the key that have approved it; `None` if it needed no approval, or if its run has it.
    pub(crate) decided_by: Option<ShortText>,
    /// Decisions of guards before the call that have changed something.
    pub(crate) guards: Vec<GuardAct>,
    /// Sources of untrusted content that the author of the call had read before.
    pub(crate) sources: SourceSet,
    pub(crate) has_effects: bool,
    /// Set by the first writer. `None` inside if there were no random numbers.
    committed: OnceLock<Option<CallCommitment>>,
}

/// The salts of a call, and the commitment to its arguments.
pub(crate) struct CallCommitment {
    pub(crate) salts: Salts,
    pub(crate) arguments: [u8; 32],
}

/// End of a call.
#[derive(Clone)]
pub(crate) struct CallEnd {
    pub(crate) facts: Arc<CallFacts>,
    pub(crate) at: SystemTime,
    pub(crate) status: CallStatus,
    pub(crate) code: Option<CallCode>,
    pub(crate) duration: Duration,
    /// Cost in millionths of a US dollar.
    pub(crate) cost: Option<u64>,
    pub(crate) fuel: Option<u64>,
    /// Memory that the guest had, in bytes.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) run: Option<ShortText>,
    /// All decisions of guards that have changed something.
    pub(crate) guards: Vec<GuardAct>,
    /// `None` if there is none, or if it has no room.
    pub(crate) result: Option<Arc<CallResult>>,
}

/// Result of a call, not rendered yet.
pub(crate) struct CallResult {
    content: ResultContent,
    /// Set by the first writer. `None` inside if there is no text or no salt.
    committed: OnceLock<Option<CommittedResult>>,
}

/// Content of the result of a call.
pub(crate) enum ResultContent {
    Output(Box<ToolOutput>),
    /// Text of the error of a tool.
    Error(Box<str>),
}

/// The commitment to the result of a call.
#[derive(Clone, Copy)]
pub(crate) struct CommittedResult {
    pub(crate) digest: [u8; 32],
    /// Length of the text.
    pub(crate) bytes: usize,
}

/// Code of the error of a call.
#[derive(Clone)]
pub(crate) enum CallCode {
    Host(HostCode),
    /// Code of the tool's own. Untrusted.
    Tool(ShortText),
}

/// A call that was not admitted.
pub(crate) struct RefusedCall {
    pub(crate) id: Uuid,
    pub(crate) at: SystemTime,
    pub(crate) tenant: Tenant,
    pub(crate) membership: Arc<Membership>,
    /// Name of the [`Origin`](airlock_core::door::Origin).
    pub(crate) origin: &'static str,
    pub(crate) parent: Option<CallId>,
    /// Untrusted: no such tool may exist.
    pub(crate) name: ShortText,
    pub(crate) client: Option<ShortText>,
    pub(crate) code: CallCode,
    /// Decisions of guards that have changed something: at the end, the one that refused the call.
    pub(crate) guards: Vec<GuardAct>,
    /// Sources because of which it was refused, or which its author had read before.
    pub(crate) sources: SourceSet,
    /// Error that the caller receives in place of a result, such as the reason of a denial; `None` if the code says all.
    pub(crate) error: Option<Box<str>>,
}

/// A request to a model that has ended.
pub(crate) struct ModelEnd {
    pub(crate) id: Uuid,
    pub(crate) begun: SystemTime,
    /// Time of its end.
    pub(crate) at: SystemTime,
    pub(crate) tenant: Tenant,
    pub(crate) membership: Membership,
    pub(crate) model: ShortText,
    pub(crate) is_streamed: bool,
    pub(crate) status: CallStatus,
    pub(crate) provider: Option<ShortText>,
    pub(crate) served_model: Option<ShortText>,
    /// Tokens; `None` if they are not known.
    pub(crate) usage: Option<TokenUsage>,
    /// Estimated tokens of the gateway's tools; `None` if it offers none.
    pub(crate) tool_tokens: Option<ToolTokens>,
    /// Cost in millionths of a US dollar.
    pub(crate) cost: Option<u64>,
    pub(crate) code: Option<ShortText>,
    /// Decisions of guards that have changed something.
    pub(crate) guards: Vec<GuardAct>,
    pub(crate) duration: Duration,
}

/// An act with its time.
pub(crate) struct TimedAct {
    pub(crate) at: SystemTime,
    pub(crate) act: Act,
}

/// Kind of counted events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedKind {
    /// Calls and requests to models that were refused.
    Refusals,
    /// Questions to users about calls, and their denials.
    Approvals,
}

/// Number of the events of a caller, until a time, that have no records of their own.
pub(crate) struct CountedEvents {
    pub(crate) until: SystemTime,
    /// `None` for several callers, whose events may be of both kinds.
    pub(crate) kind: Option<CountedKind>,
    pub(crate) count: u64,
    /// `None` for several callers.
    pub(crate) party: Option<LoggedParty>,
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
            origin: call.origin().name(),
            has_effects: may_have_effects(call),
            tool: tool.clone(),
            arguments: call.arguments().clone(),
            permission: call.permission(),
            decided_by: call.decided_by().map(ShortText::new),
            guards: chain.reporter().guard_acts(),
            sources: recorded(&chain.context()),
            committed: OnceLock::new(),
        }
    }

    /// The salts of the call and the commitment. The first call makes them, on the thread of a writer; `None`
    /// if the system has no random numbers.
    pub(crate) fn committed(&self) -> Option<&CallCommitment> {
        let committed = self.committed.get_or_init(|| {
            let salts = Salts::random()?;
            Some(CallCommitment { salts, arguments: salts.of_arguments(self.arguments.as_str()) })
        });
        committed.as_ref()
    }
}

impl CountedKind {
    /// Name in the records.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Refusals => "refusals",
            Self::Approvals => "approvals",
        }
    }
}

impl ShortText {
    pub(crate) fn new(text: &str) -> Self {
        Self(short(text).into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Cuts a text to a bounded length.
pub(crate) fn short(text: &str) -> String {
    cut(text.to_owned(), MAX_TEXT_BYTES)
}

/// Returns the party of a record: the names and identifiers of its caller, cut to a bounded length.
pub(crate) fn logged_party(tenant: &Tenant, membership: &Membership) -> LoggedParty {
    let Membership { key, key_name, team, customer, .. } = membership;
    let identity = tenant.identity();
    let user = identity.and_then(|identity| identity.user);
    // A key that no element of the configuration describes has its name alone.
    let own_name = identity.map(|identity| identity.key_name);
    LoggedParty {
        key_id: key.as_deref().or(own_name).map(short),
        key_name: key_name.as_deref().or(own_name).map(short),
        team: team.as_deref().map(short),
        customer: customer.as_deref().map(short),
        user_issuer: user.map(|user| short(&user.issuer)),
        user_subject: user.map(|user| short(&user.subject)),
    }
}

impl CallEnd {
    /// Returns the end without its result.
    pub(crate) fn without_result(&self) -> Self {
        Self { result: None, ..self.clone() }
    }

    /// Approximate memory of the result, in bytes.
    pub(crate) fn result_bytes(&self) -> usize {
        self.result.as_ref().map_or(0, |result| result.content.bytes())
    }

    /// The commitment to the result. The first call makes it, on the thread of a writer; `None` if there is no
    /// result, or if the system has no random numbers.
    pub(crate) fn committed_result(&self) -> Option<CommittedResult> {
        let result = self.result.as_ref()?;
        *result.committed.get_or_init(|| {
            let text = result.text()?;
            let digest = self.facts.committed()?.salts.of_result(&text);
            Some(CommittedResult { digest, bytes: text.len() })
        })
    }
}

impl CallResult {
    pub(crate) fn new(content: ResultContent) -> Self {
        Self { content, committed: OnceLock::new() }
    }

    /// Returns the text that is committed to and kept: the JSON of MCP's `CallToolResult`.
    pub(crate) fn text(&self) -> Option<String> {
        match &self.content {
            ResultContent::Output(output) => serde_json::to_string(output).ok(),
            ResultContent::Error(text) => {
                let content = json!({"content": [{"type": "text", "text": text}], "isError": true});
                Some(content.to_string())
            }
        }
    }
}

impl ResultContent {
    /// Approximate memory, in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Output(output) => output.size(),
            Self::Error(text) => text.len(),
        }
    }
}

/// Returns the sources that a record has: the first ones, and `2 more` if there are two further ones. No
/// client has such a name.
fn recorded(sources: &SourceSet) -> SourceSet {
    let mut names = sources.names();
    let mut recorded: SourceSet = names.by_ref().take(MAX_SOURCES).collect();
    let further = names.count();
    if further > 0 {
        recorded.insert(&format!("{further} more"));
    }
    recorded
}

/// Returns whether a call may change something. A source that the operator does not trust may say of a tool
/// what it likes.
fn may_have_effects(call: &Admitted) -> bool {
    let tool = call.tool();
    let is_trusted = tool.trust == Trust::Trusted && call.server() != Some(Trust::Untrusted);
    tool.annotations.read_only != Some(true) || !is_trusted
}

/// Returns whether an error has a reason that its code does not say: of a person, or of a guard.
fn has_reason(error: &CallError) -> bool {
    error.tool_error().is_some() || error.guard_act().is_some()
}

impl RefusedCall {
    /// Copies what is recorded of a refusal of the door.
    pub(crate) fn new(refusal: &Refusal<'_>) -> Self {
        Self {
            id: Uuid::now_v7(),
            at: SystemTime::now(),
            tenant: refusal.tenant.clone(),
            membership: Arc::new(refusal.membership.clone()),
            origin: refusal.origin.name(),
            parent: refusal.parent,
            name: ShortText::new(refusal.name),
            client: None,
            code: CallCode::from(refusal.error),
            guards: refusal.error.guard_act().cloned().into_iter().collect(),
            sources: refusal.error.untrusted_sources().map(recorded).unwrap_or_default(),
            error: has_reason(refusal.error).then(|| refusal.error.to_text().into()),
        }
    }

    /// Copies what is recorded of a call that the door has admitted and that is not made: a control has refused
    /// it, or its admission cannot be recorded.
    pub(crate) fn not_made(facts: &CallFacts, error: &CallError) -> Self {
        Self {
            id: Uuid::now_v7(),
            at: SystemTime::now(),
            tenant: facts.tenant.clone(),
            membership: facts.membership.clone(),
            origin: facts.origin,
            parent: facts.parent,
            name: ShortText::new(facts.tool.full_name.as_str()),
            client: facts.tool.client.as_ref().map(|client| ShortText::new(client.as_str())),
            code: CallCode::from(error),
            guards: facts.guards.clone(),
            sources: facts.sources.clone(),
            error: None,
        }
    }

    /// Returns the error in the form of a result, for the contents of the call.
    pub(crate) fn result_text(&self) -> Option<String> {
        CallResult::new(ResultContent::Error(self.error.clone()?)).text()
    }
}

impl CallCode {
    /// Name in the records.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Host(code) => code.prefixed(),
            Self::Tool(code) => code.as_str().to_owned(),
        }
    }
}

impl From<&CallError> for CallCode {
    fn from(error: &CallError) -> Self {
        match error.tool_code() {
            Some(code) => Self::Tool(ShortText::new(code)),
            None => Self::Host(error.code()),
        }
    }
}

impl RecordEvent {
    /// Returns whether it is of a call that may change something.
    pub(crate) fn has_effects(&self) -> bool {
        match self {
            Self::Admitted(facts) => facts.has_effects,
            Self::Ended(end) => end.facts.has_effects,
            Self::Refused(_) | Self::Model(_) | Self::Act(_) | Self::Counted(_) | Self::Lost(_) => {
                false
            }
        }
    }

    /// Approximate memory of the event, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let contents = match self {
            Self::Admitted(facts) => facts.arguments.as_str().len(),
            Self::Ended(end) => end.facts.arguments.as_str().len() + end.result_bytes(),
            Self::Act(timed) => {
                timed.act.details.iter().map(|(_, value)| value.len()).sum::<usize>()
                    + timed.act.object.len()
                    + timed.act.actor.to_string().len()
            }
            Self::Refused(refused) => refused.error.as_deref().map_or(0, str::len),
            Self::Model(_) | Self::Counted(_) | Self::Lost(_) => 0,
        };
        EVENT_BYTES + contents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_a_hundred_sources_and_the_number_of_further_ones() {
        let names: Vec<_> = (0..MAX_SOURCES + 2).map(|number| format!("s{number:03}")).collect();
        let all: SourceSet = names.iter().map(String::as_str).collect();
        let marked = recorded(&all);
        assert_eq!(marked.names().count(), MAX_SOURCES + 1);
        assert!(marked.contains("2 more") && marked.contains("s099") && !marked.contains("s100"));
        let fits: SourceSet = names[..MAX_SOURCES].iter().map(String::as_str).collect();
        assert_eq!(recorded(&fits), fits);
    }
}
