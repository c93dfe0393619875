//! Approvals and denials, of one call and of several.

use http::Request;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ApprovalQueue, item::WaitingItem, not_waiting, unavailable};
use crate::operator;
use airlock_agent::approvals::{self, Decision};
use airlock_core::{
    act::Actor,
    request_memory::RequestCharge,
    run::{MAX_REASON_BYTES, Refused, denial_reason},
};
use airlock_http::{
    body,
    respond::{self, ApiError, Reply},
};
use airlock_ingress::RequestBody;
use airlock_scripts::runs::Decisions;
use airlock_store::{
    approvals::{DecisionOutcome, MAX_CALLS, WaitingCall},
    runs::{PendingRunCall, RunError},
};

/// Body of `approve` and `deny`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionBody {
    /// Digest of what was shown.
    #[serde(default)]
    shown: Option<String>,
    /// Reason of a denial, for the model.
    #[serde(default)]
    reason: Option<String>,
}

/// Body of the approval of several calls.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeveralBody {
    calls: Vec<NamedCall>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedCall {
    id: String,
    shown: String,
}

/// Decides about one call. Fails if it does not wait, or is not the one that was shown.
pub(super) async fn decide_one(
    queue: &ApprovalQueue<'_>,
    id: &str,
    approves: bool,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    check_payloads(queue, approves)?;
    let body: DecisionBody = if request.body().is_empty() {
        DecisionBody::default()
    } else {
        body::parsed(body::object(request, queue.api.settings.bodies, charge).await?.into())?
    };
    let reason = reason(body.reason, approves)?;
    queue.confirm().await?;
    let item = queue.find(id).await?;
    check_shown(&item, body.shown.as_deref(), approves && queue.operator.is_some())?;
    let decided = queue.decide(&item, approves, reason.as_deref()).await?;
    Ok(respond::json(&decided))
}

/// Approves calls of one tool, each by itself. Fails if they are of several tools, as those of a manifest are.
pub(super) async fn decide_several(
    queue: &ApprovalQueue<'_>,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    check_payloads(queue, true)?;
    let body = body::object(request, queue.api.settings.bodies, charge).await?;
    queue.confirm().await?;
    let SeveralBody { calls } = body::parsed(body.into())?;
    if !(1..=MAX_CALLS as usize).contains(&calls.len()) {
        let message = format!("`calls` has {} elements; expected 1 to {MAX_CALLS}", calls.len());
        return Err(ApiError::bad_request("invalid_value", message).about("calls"));
    }
    let mut items = Vec::with_capacity(calls.len());
    for call in &calls {
        let item = queue.find(&call.id).await;
        charge.grow(item.as_ref().map_or(0, WaitingItem::bytes))?;
        items.push(item);
    }
    let mut tools: Vec<_> = items.iter().flatten().map(WaitingItem::tool).collect();
    tools.dedup();
    if tools.len() > 1 {
        let message = "the calls are of several tools; one request approves calls of one tool";
        return Err(ApiError::bad_request("several_tools", message).about("calls"));
    }
    if calls.len() > 1 && items.iter().flatten().any(WaitingItem::is_manifest) {
        let message = "a manifest has the calls of a script, of several tools; one request approves one manifest and nothing else";
        return Err(ApiError::bad_request("several_tools", message).about("calls"));
    }
    let mut data = Vec::with_capacity(calls.len());
    for (call, item) in calls.iter().zip(items) {
        let decided = match item
            .and_then(|item| check_shown(&item, Some(&call.shown), true).map(|()| item))
        {
            Ok(item) => queue.decide(&item, true, None).await,
            Err(error) => Err(error),
        };
        data.push(decided.unwrap_or_else(|error| refused(&call.id, error)));
    }
    Ok(respond::json(&json!({"object": "list", "data": data})))
}

/// Describes a call that was not approved.
fn refused(id: &str, error: ApiError) -> Value {
    let body = Value::from(error.into_body());
    let error = json!({"code": body["error"]["code"], "message": body["error"]["message"]});
    json!({"id": id, "object": "airlock.approval", "error": error})
}

impl ApprovalQueue<'_> {
    /// Stores a decision about a call, and returns its state.
    async fn decide(
        &self,
        item: &WaitingItem,
        approves: bool,
        reason: Option<&str>,
    ) -> Result<Value, ApiError> {
        let tenant = self.sender.tenant();
        let actor = self.operator.map_or_else(|| Actor::from(&tenant), Actor::from);
        let decision = Decision { approves, actor: &actor, reason };
        let outcome = match item {
            WaitingItem::Call(call) => self.decide_call(call, &decision).await?,
            WaitingItem::Script(call) => self.decide_script(call, &decision).await?,
        };
        let state = match outcome {
            DecisionOutcome::Decided if approves => "approved",
            DecisionOutcome::Decided => "denied",
            DecisionOutcome::First => "pending",
            DecisionOutcome::SameActor => return Err(same_actor()),
            DecisionOutcome::NotWaiting => return Err(not_waiting(&item.id())),
        };
        let mut decided = json!({"id": item.id(), "object": "airlock.approval", "state": state});
        if outcome == DecisionOutcome::First {
            decided["approved_by"] = json!([actor.to_string()]);
        }
        Ok(decided)
    }

    async fn decide_call(
        &self,
        call: &WaitingCall,
        decision: &Decision<'_>,
    ) -> Result<DecisionOutcome, ApiError> {
        if self.operator.is_none() && approvals::is_for_operators(call) {
            let message = "only an operator decides about this call: `mcp_server.approval` of its client is \"wait\", or `tools_to_approve_twice` lists its tool";
            return Err(ApiError::forbidden("operator_required", message));
        }
        if decision.approves
            && approvals::required(call) > 1
            && self.operator.is_some_and(operator::is_of_socket)
        {
            let message = "two operators approve this call, each with a token or a login of its own: the token of the socket is that of no person";
            return Err(ApiError::forbidden("operator_required", message));
        }
        let list = &self.api.hooks.approvals;
        let decided = list.decide_and_record(&self.calls, call, decision).await;
        decided.map_err(|error| unavailable(&error))
    }

    /// Stores a decision about a call of a script, whose caller resumes the run.
    async fn decide_script(
        &self,
        call: &PendingRunCall,
        Decision { approves, actor, reason }: &Decision<'_>,
    ) -> Result<DecisionOutcome, ApiError> {
        let Some(runs) = &self.api.parts.runs else { return Ok(DecisionOutcome::NotWaiting) };
        let decisions = Decisions::default();
        let decisions = if *approves {
            decisions.approve(call.position)
        } else {
            decisions.deny(call.position, *reason)
        };
        let own = runs.of_owner(call.owner);
        match own.decide(&call.run, decisions.shown_at(call.epoch), actor).await {
            Ok(()) => Ok(DecisionOutcome::Decided),
            Err(RunError::Refused { refused: Refused::Changed, .. }) => Err(changed()),
            Err(RunError::Unavailable(error)) => Err(unavailable(&error)),
            Err(RunError::Unknown | RunError::NoCall(_) | RunError::Refused { .. }) => {
                Ok(DecisionOutcome::NotWaiting)
            }
        }
    }
}

/// Fails if an operator approves a call whose arguments it may not see.
fn check_payloads(queue: &ApprovalQueue<'_>, approves: bool) -> Result<(), ApiError> {
    if !approves || queue.sees_payloads() {
        return Ok(());
    }
    let message = "this operator does not see the arguments of calls, so it may deny a call but not approve one: that needs `sees_payloads`; `airlock operator add NAME --role approver --sees-payloads` on the machine of the gateway adds an operator that has it";
    Err(ApiError::forbidden("payloads_hidden", message))
}

/// Fails if a call is not the one that was shown, or if an approval that has to name it does not. That of an operator
/// has to: it is for what a person has read.
fn check_shown(item: &WaitingItem, shown: Option<&str>, is_required: bool) -> Result<(), ApiError> {
    match shown {
        Some(shown) if shown != item.shown() => Err(changed()),
        None if is_required => {
            let message = "the approval of an operator names what was shown: expected the member `shown` of the call";
            Err(ApiError::bad_request("missing_field", message).about("shown"))
        }
        _ => Ok(()),
    }
}

fn changed() -> ApiError {
    let message =
        "the call that waits is not the one that was shown; nothing was decided. Look at it again";
    ApiError::conflict("run_changed", message)
}

fn same_actor() -> ApiError {
    let message = "this operator has approved the call already, and another one has to approve it too: `tools_to_approve_twice` lists its tool";
    ApiError::conflict("second_operator_required", message)
}

/// Returns the reason of a denial, on one line and without hidden characters. Fails if it is too long, or if it is
/// one of an approval.
pub fn reason(reason: Option<String>, approves: bool) -> Result<Option<String>, ApiError> {
    let Some(reason) = reason.filter(|reason| !reason.trim().is_empty()) else { return Ok(None) };
    if approves {
        let message = "`reason` is that of a denial; an approval has none";
        return Err(ApiError::bad_request("invalid_value", message).about("reason"));
    }
    if reason.len() > MAX_REASON_BYTES {
        let message =
            format!("`reason` has {} bytes; expected at most {MAX_REASON_BYTES}", reason.len());
        return Err(ApiError::bad_request("invalid_value", message).about("reason"));
    }
    Ok(Some(denial_reason(&reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_bounded_visible_and_that_of_a_denial() {
        assert_eq!(reason(None, true).expect("none"), None);
        assert_eq!(reason(Some(" \n".to_owned()), true).expect("none"), None);
        let shown = reason(Some("no\u{202e}\nway".to_owned()), false).expect("a reason");
        assert!(shown.is_some_and(|shown| !shown.contains(['\u{202e}', '\n'])));
        assert!(reason(Some("yes".to_owned()), true).is_err());
        assert!(reason(Some("x".repeat(MAX_REASON_BYTES)), false).is_ok());
        assert!(reason(Some("x".repeat(MAX_REASON_BYTES + 1)), false).is_err());
    }
}
