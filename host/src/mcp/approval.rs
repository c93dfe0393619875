//! Asks the user of a client whether a call may run.
//!
//! In the legacy era the gateway sends the client a request, `elicitation/create`, and waits. In the
//! modern era the result of the call is the question, and the client repeats the call with the
//! answer of its user. `requestState` has a MAC over the call, so that an answer is valid only for
//! the call that was asked about.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::{error::RpcError, exchange::Outlet, message::Params, meta::Peer};
use crate::{
    door::{Approval, Entry},
    json::raw,
    tenant::Tenant,
    text::{cut, visible},
    tool::ToolName,
};

/// How a call that needs an approval is handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApprovalMode {
    /// It is refused.
    Never,
    /// The client's user is asked, if the client can ask with a form; else the call runs, because
    /// clients ask their users themselves.
    #[default]
    Elicit,
    /// It runs.
    AlwaysAllow,
}

/// Method of the question.
const ELICIT: &str = "elicitation/create";
/// Name of the question in a modern result.
const QUESTION: &str = "approval";
/// Longest part of the arguments in a question, in bytes.
const SHOWN_BYTES: usize = 4 << 10;
/// Most tools that a question about a script names.
const SHOWN_TOOLS: usize = 20;

/// Outcome of a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The call is decided with this approval.
    Decided(Approval),
    /// The user refused, or did not answer in time.
    Declined(&'static str),
    /// The client has to repeat the call with the user's answer. The result that says so.
    Asked(String),
}

/// A call that needs an approval.
pub(super) struct Question<'q> {
    pub(super) entry: &'q Entry,
    /// Name that the client knows the tool by.
    pub(super) name: &'q str,
    pub(super) arguments: &'q str,
    /// For a script: the tools that it may call and that need an approval.
    pub(super) tools: Vec<ToolName>,
    pub(super) tenant: Tenant,
}

impl Question<'_> {
    /// Asks the user. `params` are those of the call: a modern client repeats it with an answer.
    pub(super) async fn ask(
        &self,
        peer: Peer,
        params: &Params,
        outlet: &Outlet,
        seal: &Seal,
        limit: Duration,
    ) -> Result<Outcome, RpcError> {
        if !peer.version.is_modern() {
            let form = self.form();
            let asking = outlet.ask(ELICIT, &form);
            let Ok(answer) = tokio::time::timeout(limit, asking).await else {
                return Ok(Outcome::Declined("the user did not answer in time"));
            };
            return Ok(read(answer.as_deref()).unwrap_or(Outcome::Declined(UNREADABLE)));
        }
        let state = params.get("requestState");
        let Some(state) = state.filter(|state| *state != "null") else {
            return Ok(Outcome::Asked(self.input_required(seal, limit)));
        };
        let state = raw::string(state).unwrap_or_default();
        if !seal.is_of(self, &state) {
            return Err(RpcError::invalid_params(
                "`requestState` is not that of this call, or has expired; repeat the call without it",
            ));
        }
        let answers = params.get("inputResponses");
        let answer = answers.and_then(|answers| raw::member(answers, QUESTION));
        Ok(read(answer).unwrap_or_else(|| Outcome::Asked(self.input_required(seal, limit))))
    }

    fn input_required(&self, seal: &Seal, limit: Duration) -> String {
        let question = json!({"method": ELICIT, "params": self.form()});
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
        let arguments = cut(visible(self.arguments), SHOWN_BYTES);
        let name = visible(self.name);
        if self.tools.is_empty() {
            return format!("Run the tool {name} with these arguments?\n\n{arguments}");
        }
        let shown: Vec<&str> = self.tools.iter().take(SHOWN_TOOLS).map(ToolName::as_str).collect();
        let more = match self.tools.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(
            "Run this script? It may call tools that need an approval: {}{more}.\n\n{arguments}",
            shown.join(", ")
        )
    }

    /// Returns the bytes that the MAC of a state covers. No two questions have the same.
    fn bound_to(&self, expires: u64) -> Vec<u8> {
        let tool = self.entry.tool.name.as_str();
        let arguments = canonical(self.arguments);
        let mut bound = Vec::with_capacity(tool.len() + arguments.len() + 56);
        bound.extend(expires.to_be_bytes());
        bound.extend(self.tenant.scope());
        bound.extend(tool.len().to_be_bytes());
        bound.extend(tool.as_bytes());
        bound.extend(arguments.as_bytes());
        bound
    }
}

const UNREADABLE: &str = "the client could not ask the user";

/// Reads MCP's `ElicitResult`; `None` if it is none.
fn read(answer: Option<&str>) -> Option<Outcome> {
    match raw::string(raw::member(answer?, "action")?)?.as_ref() {
        "accept" => Some(Outcome::Decided(Approval::Given)),
        "decline" => Some(Outcome::Declined("the user declined it")),
        "cancel" => Some(Outcome::Declined("the user dismissed the question")),
        _ => None,
    }
}

/// Returns arguments with their members sorted, because a client may write them anew.
fn canonical(arguments: &str) -> String {
    fn sorted(value: Value) -> Value {
        match value {
            Value::Object(members) => {
                let members: BTreeMap<_, _> =
                    members.into_iter().map(|(name, value)| (name, sorted(value))).collect();
                members.into_iter().collect()
            }
            Value::Array(elements) => elements.into_iter().map(sorted).collect(),
            other => other,
        }
    }
    serde_json::from_str(arguments)
        .map_or_else(|_| arguments.to_owned(), |value| sorted(value).to_string())
}

/// Key of the MACs in the states of this process. A restart makes older states invalid.
pub(super) struct Seal([u8; 32]);

/// Bytes of the time in a state.
const TIME_BYTES: usize = 8;

impl Seal {
    pub(super) fn new() -> Self {
        let (first, second) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
        Self(*blake3::hash(&[*first.as_bytes(), *second.as_bytes()].concat()).as_bytes())
    }

    /// Returns a state for a question that can be answered within `limit`.
    fn state(&self, question: &Question<'_>, limit: Duration) -> String {
        let expires = now().saturating_add(limit.as_secs());
        let mut state = expires.to_be_bytes().to_vec();
        state.extend(blake3::keyed_hash(&self.0, &question.bound_to(expires)).as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(state)
    }

    /// Returns whether `state` was made for this question and has not expired.
    fn is_of(&self, question: &Question<'_>, state: &str) -> bool {
        let Ok(state) = BASE64_URL_SAFE_NO_PAD.decode(state) else { return false };
        let Some((time, mac)) = state.split_first_chunk::<TIME_BYTES>() else { return false };
        let expires = u64::from_be_bytes(*time);
        let Ok(mac) = <[u8; 32]>::try_from(mac) else { return false };
        // Compared in constant time.
        expires >= now() && blake3::keyed_hash(&self.0, &question.bound_to(expires)) == mac
    }
}

/// Returns the seconds since 1970.
fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
