//! `/v1/approvals`: calls that wait for the decision of a person.
//!
//! A call belongs to the virtual key of its client; for any other caller it does not exist. An operator
//! decides about the calls of all callers. A decision is stored, and the call that waits finds it
//! there: nothing runs here.

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tracing::info;

use super::{
    App,
    memory::RequestCharge,
    operator,
    respond::{self, ApiError, Reply},
    sender::Sender,
    work,
};
use airlock_agent::approvals::{self, LISTED};
use airlock_core::operator::{Operator, Right};
use airlock_store::{
    Unavailable,
    approvals::{Approvals, WaitingCall},
};

const PATH: &str = "/v1/approvals";
/// Copies of the texts of calls while they are listed: as stored, as the members of their documents,
/// and as the response. The fourth is for escapes.
const LIST_COPIES: usize = 4;

/// Part of the API that a path means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApprovalTarget {
    /// The calls of the caller.
    List,
    Approve,
    Deny,
}

impl ApprovalTarget {
    /// Returns the part that a path means and the call that it names; `None` for other paths.
    pub(super) fn parse(path: &str) -> Option<(Self, &str)> {
        let rest = path.strip_prefix(PATH)?;
        if rest.is_empty() {
            return Some((Self::List, ""));
        }
        let (id, action) = rest.strip_prefix('/')?.split_once('/')?;
        let target = match action {
            "approve" => Self::Approve,
            "deny" => Self::Deny,
            _ => return None,
        };
        (!id.is_empty()).then_some((target, id))
    }

    pub(super) fn methods(self) -> &'static [Method] {
        match self {
            Self::List => &[Method::GET, Method::HEAD],
            Self::Approve | Self::Deny => &[Method::POST],
        }
    }
}

/// Handles a request. Fails if the caller has no such call that waits, or if the list cannot be used.
pub(super) async fn run(
    app: &App,
    sender: &Sender,
    operator: Option<&Operator>,
    target: ApprovalTarget,
    id: &str,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let words = "see calls that wait for an approval, and decide about them";
    operator.map(|own| operator::check_right(own, Right::Approve, words)).transpose()?;
    let sees_payloads = operator.is_none_or(|operator| operator.sees_payloads);
    let database = app.hooks.approvals.database().await.map_err(|error| unavailable(&error))?;
    let calls = match operator {
        Some(_) => database.all_approvals(),
        None => database.approvals(sender.tenant().scope()),
    };
    if target == ApprovalTarget::List {
        let calls = calls.list(LISTED).await.map_err(|error| unavailable(&error))?;
        let bytes: usize = calls.iter().map(|call| call.text.len()).sum();
        charge.grow(bytes.saturating_mul(LIST_COPIES))?;
        let listed = work::on_tree(charge, move |_| {
            let data: Vec<_> = calls.iter().map(|call| shown(call, sees_payloads)).collect();
            Ok(respond::json(&json!({"object": "list", "data": data})))
        });
        return listed.await;
    }
    let is_approved = target == ApprovalTarget::Approve;
    if is_approved && !sees_payloads {
        let message = "this operator does not see the arguments of calls, so it may deny a call and not approve one: `sees_payloads` is a right of its own";
        return Err(ApiError::forbidden("payloads_hidden", message));
    }
    let reply = decide(&calls, id, is_approved).await?;
    if let Some(Operator { name, .. }) = operator {
        info!(operator = name, call = id, is_approved, "an operator has decided about a call");
    }
    Ok(reply)
}

/// Describes a call; without its arguments for operators who may not see them.
fn shown(call: &WaitingCall, sees_payloads: bool) -> Value {
    let mut document = approvals::document(call);
    if let Some(members) = document.as_object_mut().filter(|_| !sees_payloads) {
        members.remove("arguments");
    }
    document
}

async fn decide(calls: &Approvals, id: &str, approves: bool) -> Result<Reply, ApiError> {
    if !calls.decide(id, approves).await.map_err(|error| unavailable(&error))? {
        let message = format!(
            "no call {:?} waits for an approval: it has expired, or was decided about",
            respond::excerpt(id)
        );
        let status = StatusCode::NOT_FOUND;
        let kind = "invalid_request_error";
        return Err(ApiError::new(status, kind, "approval_not_found", message));
    }
    let state = if approves { "approved" } else { "denied" };
    Ok(respond::json(&json!({"id": id, "object": "airlock.approval", "state": state})))
}

fn unavailable(error: &Unavailable) -> ApiError {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let message = format!("the list of pending approvals cannot be used: {error}");
    ApiError::new(status, "server_error", "store_unavailable", message)
}
