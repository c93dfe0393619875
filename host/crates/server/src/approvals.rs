//! `/v1/approvals`: calls that wait for the decision of a person.
//!
//! A call belongs to the virtual key of its client; for any other caller it does not exist. An operator
//! decides about the calls of all callers, and alone about those of clients whose approval is `wait`. A
//! decision is stored, and the call that waits finds it there: nothing runs here.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{
    App,
    admin::Page,
    memory::RequestCharge,
    operator,
    respond::{self, ApiError, Reply},
    sender::Sender,
    work,
};
use airlock_agent::approvals;
use airlock_core::{
    act::Actor,
    operator::{Operator, Right},
};
use airlock_store::{
    Unavailable,
    approvals::{Approvals, CallPage, WaitingCall},
};

const PATH: &str = "/v1/approvals";
/// The act of an operator here, as a verb with its object.
pub(super) const WORDS: &str = "see calls that wait for an approval, and decide about them";
/// Copies of the texts of calls while they are listed: as stored, as the members of their documents,
/// and as the response. The fourth is for escapes.
const LIST_COPIES: usize = 4;

/// Part of the API that a path means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApprovalTarget {
    /// The calls of the caller.
    List,
    /// One call.
    Show,
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
        let rest = rest.strip_prefix('/')?;
        let (id, action) = rest.split_once('/').unwrap_or((rest, ""));
        let target = match action {
            "" if !rest.ends_with('/') => Self::Show,
            "approve" => Self::Approve,
            "deny" => Self::Deny,
            _ => return None,
        };
        (!id.is_empty()).then_some((target, id))
    }

    pub(super) fn methods(self) -> &'static [Method] {
        match self {
            Self::List | Self::Show => &[Method::GET, Method::HEAD],
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
    query: &str,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    operator.map(|own| operator::check_right(own, Right::Approve, WORDS)).transpose()?;
    let sees_payloads = operator.is_none_or(|operator| operator.sees_payloads);
    let database = app.hooks.approvals.database().await.map_err(|error| unavailable(&error))?;
    let calls = match operator {
        Some(_) => database.all_approvals(),
        None => database.approvals(sender.tenant().scope()),
    };
    let is_approved = match target {
        ApprovalTarget::List => return list(&calls, query, sees_payloads, charge).await,
        ApprovalTarget::Show => return show(&calls, id, sees_payloads, charge).await,
        ApprovalTarget::Approve => true,
        ApprovalTarget::Deny => false,
    };
    if is_approved && !sees_payloads {
        let message = "this operator does not see the arguments of calls, so it may deny a call and not approve one: `sees_payloads` is a right of its own";
        return Err(ApiError::forbidden("payloads_hidden", message));
    }
    let found = calls.find(id).await.map_err(|error| unavailable(&error))?;
    let call = found.ok_or_else(|| not_waiting(id))?;
    if operator.is_none() && approvals::is_for_operators(&call) {
        let message = "only an operator decides about this call: `mcp_server.approval` of its client is \"wait\"";
        return Err(ApiError::forbidden("operator_required", message));
    }
    let actor = operator.map_or_else(|| Actor::from(&sender.tenant()), Actor::from);
    let by = actor.to_string();
    if !calls.decide(id, is_approved, &by).await.map_err(|error| unavailable(&error))? {
        return Err(not_waiting(id));
    }
    app.hooks.approvals.record_decision(&call, &actor, is_approved, None);
    let state = if is_approved { "approved" } else { "denied" };
    Ok(respond::json(&json!({"id": id, "object": "airlock.approval", "state": state})))
}

/// Lists a part of the calls. Its texts have a bounded size, so a list has room in the share of one caller.
async fn list(
    calls: &Approvals,
    query: &str,
    sees_payloads: bool,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let Page { limit, offset, .. } = Page::parse(query)?;
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let offset = u32::try_from(offset).unwrap_or(u32::MAX);
    let page = calls.list(limit, offset).await.map_err(|error| unavailable(&error))?;
    let bytes: usize = page.calls.iter().map(|call| call.text.len()).sum();
    charge.grow(bytes.saturating_mul(LIST_COPIES))?;
    let listed = work::on_tree(charge, move |_| {
        let CallPage { calls, has_more } = page;
        let data: Vec<_> = calls.iter().map(|call| shown(call, sees_payloads)).collect();
        Ok(respond::json(&json!({"object": "list", "data": data, "has_more": has_more})))
    });
    listed.await
}

/// Shows one call, decided or not.
async fn show(
    calls: &Approvals,
    id: &str,
    sees_payloads: bool,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let found = calls.find(id).await.map_err(|error| unavailable(&error))?;
    let call = found.ok_or_else(|| not_waiting(id))?;
    charge.grow(call.text.len().saturating_mul(LIST_COPIES))?;
    Ok(respond::json(&shown(&call, sees_payloads)))
}

/// Describes a call; without its arguments for operators who may not see them.
fn shown(call: &WaitingCall, sees_payloads: bool) -> Value {
    let mut document = approvals::document(call);
    if let Some(members) = document.as_object_mut().filter(|_| !sees_payloads) {
        members.remove("arguments");
    }
    document
}

fn not_waiting(id: &str) -> ApiError {
    let message = format!(
        "no call {:?} waits for an approval: it has expired, or was decided about",
        respond::excerpt(id)
    );
    let kind = "invalid_request_error";
    ApiError::new(StatusCode::NOT_FOUND, kind, "approval_not_found", message)
}

fn unavailable(error: &Unavailable) -> ApiError {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let message = format!("the list of pending approvals cannot be used: {error}");
    ApiError::new(status, "server_error", "store_unavailable", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_call_and_an_action() {
        for (path, found) in [
            ("/v1/approvals", Some((ApprovalTarget::List, ""))),
            ("/v1/approvals/call_1", Some((ApprovalTarget::Show, "call_1"))),
            ("/v1/approvals/call_1/approve", Some((ApprovalTarget::Approve, "call_1"))),
            ("/v1/approvals/call_1/deny", Some((ApprovalTarget::Deny, "call_1"))),
            ("/v1/approvals/", None),
            ("/v1/approvals/call_1/", None),
            ("/v1/approvals//approve", None),
            ("/v1/approvals/call_1/approve/x", None),
            ("/v1/approvalsx", None),
        ] {
            assert_eq!(ApprovalTarget::parse(path), found, "{path}");
        }
    }
}
