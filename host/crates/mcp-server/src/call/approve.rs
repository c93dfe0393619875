//! Decides whether a call has the approval of a person.

use std::borrow::Cow;

use serde_json::{Value, json};
use tracing::info;

use super::no_output::NoOutput;
use crate::{
    approval::{ApprovalOutcome, ApprovalQuestion},
    exchange::Outlet,
    meta, questions,
    service::{Requester, Service},
    settings::ApprovalMode,
};
use airlock_agent::{ApprovalVerdict, approvals};
use airlock_core::{
    act::{Act, ActKind},
    door::{Approval, Entry, Origin, Placement},
    tool::QuestionKind,
};
use airlock_wire::{message::Params, method};

/// Returns the approval of a call whose source resumes it, which it does only with a call that was
/// admitted before. Calls of a script are approved by the answer, which counts only where users are
/// asked.
pub(super) fn approved_before(mode: ApprovalMode, entry: &Entry) -> Approval {
    match mode {
        ApprovalMode::Never => Approval::Missing,
        ApprovalMode::Wait if runs_calls(entry, entry.auto) => Approval::Missing,
        ApprovalMode::Wait
        | ApprovalMode::Elicit
        | ApprovalMode::Client
        | ApprovalMode::AlwaysAllow => Approval::Given,
    }
}

/// Returns whether calls that need an approval may be made in a call although the call itself needs none. No
/// approval of the call is one of theirs.
fn runs_calls(entry: &Entry, is_automatic: bool) -> bool {
    is_automatic || entry.placement == Placement::Meta
}

/// Returns the approval of a call, for which a person is asked where the operator wants it. Fails if the
/// call is not approved.
pub(super) async fn approve(
    service: &Service,
    client: &Requester,
    question: &ApprovalQuestion<'_>,
    params: &Params,
    outlet: &Outlet,
) -> Result<Approval, NoOutput> {
    let needs_none = question.is_automatic;
    let can_ask = questions::answerable(client.peer, outlet).has(QuestionKind::Form);
    match service.approval(client) {
        // The door decides each call without an approval.
        ApprovalMode::Never => Ok(Approval::Missing),
        ApprovalMode::Wait if runs_calls(question.entry, needs_none) => Ok(Approval::Missing),
        _ if needs_none => Ok(Approval::Given),
        // Two operators decide, whatever the client's user would say.
        _ if question.entry.needs_two => {
            let outcome = wait(service, client, question, params, outlet).await;
            approval(outcome, question.name)
        }
        ApprovalMode::Elicit if can_ask => {
            let limit = service.settings().approval_timeout;
            let outcome = question.ask(client.peer, params, outlet, service.seal(), limit).await?;
            record(service, question, &outcome);
            approval(outcome, question.name)
        }
        ApprovalMode::Elicit | ApprovalMode::Wait => {
            let outcome = wait(service, client, question, params, outlet).await;
            approval(outcome, question.name)
        }
        ApprovalMode::Client => {
            let tool = question.entry.tool.name.as_str();
            let tenant = &question.tenant;
            let name = client.name.as_deref().unwrap_or_default();
            info!(tool, %tenant, client = name, "a call runs unasked: its client asks its own user");
            Ok(Approval::Given)
        }
        ApprovalMode::AlwaysAllow => Ok(Approval::Given),
    }
}

/// Returns the reason of a call that a person has denied, with the person's own reason.
fn denied(reason: Option<String>) -> Cow<'static, str> {
    match reason {
        Some(reason) => format!("a person denied it: {reason}").into(),
        None => "a person denied it".into(),
    }
}

/// Returns the origin of a call about which nobody was asked.
fn unasked() -> Origin {
    Origin::McpClient(Approval::Missing)
}

/// Records what a user has said whom the client was to ask. The door is not asked about a call that the user
/// refuses.
fn record(service: &Service, question: &ApprovalQuestion<'_>, outcome: &ApprovalOutcome) {
    let kind = match outcome {
        ApprovalOutcome::Decided(Approval::Given | Approval::ByOperators) => {
            ActKind::ApprovalGranted
        }
        ApprovalOutcome::Declined(_) => ActKind::ApprovalDenied,
        ApprovalOutcome::Asked(_) => ActKind::ApprovalAsked,
        ApprovalOutcome::Decided(Approval::Missing) | ApprovalOutcome::Pending(_) => return,
    };
    let Some(approvals) = service.approvals() else { return };
    let tool = question.entry.tool.full_name.as_str();
    approvals
        .acts()
        .record(|| Act::new(kind, &question.tenant, tool).with("tool", tool).with("by", "user"));
}

fn approval(outcome: ApprovalOutcome, name: &str) -> Result<Approval, NoOutput> {
    match outcome {
        ApprovalOutcome::Decided(approval) => Ok(approval),
        ApprovalOutcome::Asked(result) => Err(NoOutput::Asked(result)),
        ApprovalOutcome::Declined(reason) => Err(NoOutput::declined(name, &reason)),
        ApprovalOutcome::Pending(id) => Err(NoOutput::pending(name, &id)),
    }
}

/// Waits until a person decides about the call in the list of pending approvals.
async fn wait(
    service: &Service,
    client: &Requester,
    question: &ApprovalQuestion<'_>,
    params: &Params,
    outlet: &Outlet,
) -> ApprovalOutcome {
    let Some(approvals) = service.approvals() else {
        return ApprovalOutcome::Declined(
            "it needs an approval, and there is no list in which it could wait for one".into(),
        );
    };
    if let Ok(Some(token)) = meta::progress_token(params)
        && let Ok(token) = serde_json::from_str::<Value>(token)
    {
        let message = "waiting for the approval of a person";
        let progress = json!({"progressToken": token, "progress": 0, "message": message});
        outlet.notify(method::PROGRESS, &progress);
    }
    let call = approvals::Call {
        entry: question.entry,
        origin: unasked().name(),
        arguments: question.arguments,
        tenant: &question.tenant,
        client: client.name.as_deref(),
        is_for_operators: service.approval(client) == ApprovalMode::Wait,
    };
    match approvals.decision(&call, service.settings().approval_wait).await {
        ApprovalVerdict::Approved if question.entry.needs_two => {
            ApprovalOutcome::Decided(Approval::ByOperators)
        }
        ApprovalVerdict::Approved => ApprovalOutcome::Decided(Approval::Given),
        ApprovalVerdict::Denied(reason) => ApprovalOutcome::Declined(denied(reason)),
        ApprovalVerdict::Waiting(id) => ApprovalOutcome::Pending(id),
        ApprovalVerdict::Refused(reason) => ApprovalOutcome::Declined(reason.into()),
    }
}
