//! Asks the user of a client whether a call may run.
//!
//! In the legacy era the gateway sends the client a request, `elicitation/create`, and waits. In the
//! modern era the result of the call is the question, and the client repeats the call with the
//! answer of its user. `requestState` has a MAC over the call, so that an answer is valid only for
//! the call that was asked about.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    fmt::Write as _,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{exchange::Outlet, meta::Peer};
use airlock_core::{
    door::{Approval, Entry},
    replica::ReplicaId,
    tenant::Tenant,
    tool::{GuardQuestion, GuardQuestions, QuestionKind, SourceSet, argument_lines},
};
use airlock_json::raw;
use airlock_strings::visible_line;
use airlock_wire::{
    error::{RpcError, code},
    message::Params,
};

/// Name of the question in a modern result.
const QUESTION: &str = "approval";

/// Outcome of a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ApprovalOutcome {
    /// The call is decided with this approval.
    Decided(Approval),
    /// The user refused, or did not answer in time.
    Declined(Cow<'static, str>),
    /// The client has to repeat the call with the user's answer. The result that says so.
    Asked(String),
}

/// A call that needs an approval.
pub(super) struct ApprovalQuestion<'q> {
    pub(super) entry: &'q Entry,
    /// True if the call needs no approval.
    pub(super) is_automatic: bool,
    /// Name that the client knows the tool by.
    pub(super) name: &'q str,
    pub(super) arguments: &'q str,
    pub(super) tenant: Tenant,
    /// Sources of untrusted content that the client had received before.
    pub(super) sources: &'q SourceSet,
    /// Reasons for which guards require an approval.
    pub(super) asked_by: &'q GuardQuestions,
}

impl ApprovalQuestion<'_> {
    /// Asks the user. `params` are those of the call: a modern client repeats it with an answer.
    pub(super) async fn ask(
        &self,
        peer: Peer,
        params: &Params,
        outlet: &Outlet,
        seal: &Seal,
        limit: Duration,
    ) -> Result<ApprovalOutcome, RpcError> {
        if !peer.version.is_modern() {
            let form = self.form();
            let asking = outlet.ask(QuestionKind::Form.method(), &form);
            let Ok(answer) = tokio::time::timeout(limit, asking).await else {
                return Ok(ApprovalOutcome::Declined("the user did not answer in time".into()));
            };
            return Ok(
                read(answer.as_deref()).unwrap_or(ApprovalOutcome::Declined(UNREADABLE.into()))
            );
        }
        let state = params.get("requestState");
        let Some(state) = state.filter(|state| *state != "null") else {
            return Ok(ApprovalOutcome::Asked(self.input_required(seal, limit)));
        };
        let state = raw::string(state).unwrap_or_default();
        let Some(state) = seal.open(self, &state) else { return Err(not_of_this_call()) };
        let answers = params.get("inputResponses");
        let answer = answers.and_then(|answers| raw::member(answers, QUESTION));
        match read(answer) {
            Some(outcome @ ApprovalOutcome::Decided(_)) => {
                seal.spend(&self.tenant, state).map(|()| outcome)
            }
            Some(outcome) => Ok(outcome),
            None => Ok(ApprovalOutcome::Asked(self.input_required(seal, limit))),
        }
    }

    fn input_required(&self, seal: &Seal, limit: Duration) -> String {
        let question = json!({"method": QuestionKind::Form.method(), "params": self.form()});
        let result = json!({
            "resultType": "input_required",
            "inputRequests": {QUESTION: question},
            "requestState": seal.state(self, limit),
        });
        result.to_string()
    }

    /// Returns the form: a message and no fields. To accept it is to approve.
    fn form(&self) -> Value {
        json!({
            "mode": "form",
            "message": self.message(),
            "requestedSchema": {"type": "object", "properties": {}},
        })
    }

    fn message(&self) -> String {
        let name = visible_line(self.name);
        let lines = argument_lines(self.arguments);
        let arguments = if lines.is_empty() { "{}".to_owned() } else { lines.join("\n") };
        let mut message = format!("Run the tool {name} with these arguments?\n\n{arguments}");
        if !self.sources.is_empty() {
            // Writing to a String cannot fail.
            let _ =
                write!(message, "\n\nUntrusted content was read before, from {}.", self.sources);
        }
        for GuardQuestion { guard, reason } in self.asked_by.as_slice() {
            let _ = write!(message, "\n\nThe guard {guard:?} asks: {reason}");
        }
        message
    }

    /// Returns the bytes that the MAC of a state covers. No two questions have the same.
    fn bound_to(&self, head: &Head) -> Vec<u8> {
        let tool = self.entry.tool.name.as_str();
        // Of a fixed length. Between the question and its answer, the source may have changed the tool.
        let definition = self.entry.tool.digest();
        let fixed = head.len() + definition.len() + 64;
        let mut bound = Vec::with_capacity(tool.len() + self.arguments.len() + fixed);
        bound.extend(head);
        bound.extend(self.tenant.scope());
        bound.extend(definition.as_bytes());
        bound.extend(tool.len().to_be_bytes());
        bound.extend(tool.as_bytes());
        for source in self.sources.names() {
            bound.extend(source.len().to_be_bytes());
            bound.extend(source.as_bytes());
        }
        let asked_by = self.asked_by.to_json().unwrap_or_default();
        bound.extend(asked_by.len().to_be_bytes());
        bound.extend(asked_by.as_bytes());
        // As they were sent: a number that was read would not be exact.
        bound.extend(self.arguments.as_bytes());
        bound
    }
}

const UNREADABLE: &str = "the client could not ask the user";

fn not_of_this_call() -> RpcError {
    RpcError::invalid_params(
        "`requestState` is not that of this call, has expired or was used; repeat the call without it",
    )
}

/// Reads MCP's `ElicitResult`; `None` if it is none.
fn read(answer: Option<&str>) -> Option<ApprovalOutcome> {
    match raw::string(raw::member(answer?, "action")?)?.as_ref() {
        "accept" => Some(ApprovalOutcome::Decided(Approval::Given)),
        "decline" => Some(ApprovalOutcome::Declined("the user declined it".into())),
        "cancel" => Some(ApprovalOutcome::Declined("the user dismissed the question".into())),
        _ => None,
    }
}

/// Key of the MACs in the states of this process. A restart makes older states invalid.
pub(super) struct Seal {
    key: [u8; 32],
    /// States whose call was approved, by their tenants. Each counts once.
    used: Mutex<HashMap<Tenant, BTreeSet<UsedApproval>>>,
}

/// A state that was used: its expiry and code.
type UsedApproval = (u64, [u8; 32]);

/// Maximum approved states of one tenant that are remembered until they expire, after five
/// minutes by default. None is forgotten earlier, because its call could then run again. A tenant
/// that approves thirty calls a second, which no person does, reaches it, with states of 400 KB.
const MAX_USED: usize = 10_000;

/// Maximum approved states of all tenants that are remembered, 4 MB: as many as ten tenants may have. One tenant may
/// have no more than are free, so that those which take all that they may leave some to the next ones.
const MAX_ALL_USED: usize = 100_000;

/// Beginning of a state: the time at which it expires, and random bytes, so that two questions about
/// equal calls have different states.
type Head = [u8; 24];

impl Seal {
    pub(super) fn new() -> Self {
        let first = Uuid::new_v4();
        let second = Uuid::new_v4();
        let key = *blake3::hash(&[*first.as_bytes(), *second.as_bytes()].concat()).as_bytes();
        Self { key, used: Mutex::default() }
    }

    /// Returns a state for a question that can be answered within `limit`.
    fn state(&self, question: &ApprovalQuestion<'_>, limit: Duration) -> String {
        let expires = now().saturating_add(limit.as_secs());
        let mut head: Head = [0; 24];
        head[..8].copy_from_slice(&expires.to_be_bytes());
        head[8..].copy_from_slice(ReplicaId::handle().as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(self.sealed(question, &head))
    }

    /// Returns a beginning with its code.
    fn sealed(&self, question: &ApprovalQuestion<'_>, head: &Head) -> Vec<u8> {
        let mac = blake3::keyed_hash(&self.key, &question.bound_to(head));
        [head.as_slice(), mac.as_bytes()].concat()
    }

    /// Reads a state; `None` if it was not made for this question, or has expired.
    fn open(&self, question: &ApprovalQuestion<'_>, state: &str) -> Option<UsedApproval> {
        let state = BASE64_URL_SAFE_NO_PAD.decode(state).ok()?;
        let (head, mac) = state.split_first_chunk::<24>()?;
        let expires = u64::from_be_bytes(*head.first_chunk()?);
        let mac = <[u8; 32]>::try_from(mac).ok()?;
        // Compared in constant time.
        let is_valid = blake3::keyed_hash(&self.key, &question.bound_to(head)) == mac;
        (is_valid && expires >= now()).then_some((expires, mac))
    }

    /// Uses a state for the call that was approved. Fails if it was used before, or if too many of the
    /// tenant, or of all, are remembered.
    fn spend(&self, tenant: &Tenant, state: UsedApproval) -> Result<(), RpcError> {
        let mut used = self.used.lock();
        let expired = (now(), [0; 32]);
        used.retain(|_, own| {
            *own = own.split_off(&expired);
            !own.is_empty()
        });
        let free = MAX_ALL_USED.saturating_sub(used.values().map(BTreeSet::len).sum());
        let own = used.entry(tenant.clone()).or_default();
        if own.contains(&state) {
            return Err(not_of_this_call());
        }
        if own.len() >= MAX_USED.min(free) {
            let message = match own.len() {
                0 => "too many calls of all callers were approved in a short time; repeat the call later"
                    .to_owned(),
                count => format!(
                    "{count} calls of this caller were approved in a short time; repeat the call later"
                ),
            };
            return Err(RpcError::new(code::REFUSED, message));
        }
        own.insert(state);
        Ok(())
    }
}

/// Returns the process that made the state of an approval; `None` if the text is no such state.
pub(super) fn state_owner(state: &str) -> Option<ReplicaId> {
    let state = BASE64_URL_SAFE_NO_PAD.decode(state).ok()?;
    let (_, rest) = state.split_first_chunk::<8>()?;
    let (handle, mac) = rest.split_first_chunk::<16>()?;
    (mac.len() == 32).then(|| ReplicaId::from_handle(Uuid::from_bytes(*handle))).flatten()
}

/// Returns the seconds since 1970.
fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
