//! Decides whether a call has the approval of a person.

use std::borrow::Cow;

use serde_json::{Value, json};
use tracing::info;

use super::no_output::NoOutput;
use crate::{
    approval::{ApprovalOutcome, ApprovalQuestion},
    exchange::Outlet,
    meta, questions,
    service::{McpService, Requester},
    settings::ApprovalMode,
    toolbox::Toolbox,
};
use airlock_agent::{ApprovalVerdict, approvals};
use airlock_core::{
    act::{Act, ActKind},
    door::{Approval, Approved, Entry, Origin, Placement},
    tool::QuestionKind,
};
use airlock_wire::{message::Params, method};

/// The approval of a call.
pub(super) struct CallApproval {
    /// Authority of the client.
    pub(super) approval: Approval,
    /// The decision about the call in the list of pending approvals; `None` if it did not wait there.
    pub(super) approved: Option<Approved>,
}

impl From<Approval> for CallApproval {
    fn from(approval: Approval) -> Self {
        Self { approval, approved: None }
    }
}

/// Returns the approval of a call that its source resumes. A source resumes only calls that were
/// admitted before. The answer of the user approves the calls of a script, if the settings are to ask
/// users.
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

/// Returns whether a call that needs no approval may make nested calls that need one. An approval of the
/// outer call does not apply to them.
fn runs_calls(entry: &Entry, is_automatic: bool) -> bool {
    is_automatic || entry.placement == Placement::Meta
}

/// Returns the approval of a call. Asks a person if the settings require it. Fails if the
/// call is not approved.
pub(super) async fn approve(
    service: &McpService,
    client: &Requester,
    toolbox: &Toolbox,
    question: &ApprovalQuestion<'_>,
    params: &Params,
    outlet: &Outlet,
) -> Result<CallApproval, NoOutput> {
    let needs_none = question.is_automatic;
    let can_ask = questions::answerable(client.peer, outlet).has(QuestionKind::Form);
    match service.approval(client) {
        // The door decides each call without an approval.
        ApprovalMode::Never => Ok(Approval::Missing.into()),
        ApprovalMode::Wait if runs_calls(question.entry, needs_none) => {
            Ok(Approval::Missing.into())
        }
        // Its user is not asked, so nothing approves the calls that a plugin makes in it. The user is asked about each
        // call of a script.
        ApprovalMode::Elicit if needs_none && question.entry.placement != Placement::Meta => {
            Ok(Approval::Missing.into())
        }
        _ if needs_none => Ok(Approval::Given.into()),
        // Two operators decide, whatever the client's user would say.
        _ if question.entry.needs_two => {
            wait(service, client, toolbox, question, params, outlet).await
        }
        ApprovalMode::Elicit if can_ask => {
            let limit = service.settings().approval_timeout;
            if !has_answer(params) {
                toolbox.view().report_wait(&unasked(), question.name);
            }
            let outcome = question.ask(client.peer, params, outlet, service.seal(), limit).await?;
            record(service, question, &outcome);
            Ok(approval(outcome, question.name)?.into())
        }
        ApprovalMode::Elicit | ApprovalMode::Wait => {
            wait(service, client, toolbox, question, params, outlet).await
        }
        ApprovalMode::Client => {
            let tool = question.entry.tool.name.as_str();
            let tenant = &question.tenant;
            let name = client.name.as_deref().unwrap_or_default();
            info!(tool, %tenant, client = name, "a call runs unasked: its client asks its own user");
            Ok(Approval::Given.into())
        }
        ApprovalMode::AlwaysAllow => Ok(Approval::Given.into()),
    }
}

/// Returns the reason of a call that a person has denied, with the person's own reason.
fn denied(reason: Option<String>) -> Cow<'static, str> {
    match reason {
        Some(reason) => format!("a person denied it: {reason}").into(),
        None => "a person denied it".into(),
    }
}

/// Returns whether a client repeats a call with the answer of its user.
fn has_answer(params: &Params) -> bool {
    params.get("requestState").is_some_and(|state| state != "null")
}

/// Returns the origin of a call whose approval was not asked for.
fn unasked() -> Origin {
    Origin::McpClient(Approval::Missing)
}

/// Records the decision of a user whom the client has asked. A call that the user refuses does not reach the
/// door.
fn record(service: &McpService, question: &ApprovalQuestion<'_>, outcome: &ApprovalOutcome) {
    let kind = match outcome {
        ApprovalOutcome::Decided(Approval::Given | Approval::ByPerson | Approval::ByOperators) => {
            ActKind::ApprovalGranted
        }
        ApprovalOutcome::Declined(_) => ActKind::ApprovalDenied,
        ApprovalOutcome::Asked(_) => ActKind::ApprovalAsked,
        ApprovalOutcome::Decided(Approval::Missing) => return,
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
    }
}

/// Waits until a person decides about the call in the list of pending approvals. Fails if it is not approved.
async fn wait(
    service: &McpService,
    client: &Requester,
    toolbox: &Toolbox,
    question: &ApprovalQuestion<'_>,
    params: &Params,
    outlet: &Outlet,
) -> Result<CallApproval, NoOutput> {
    let ApprovalQuestion { entry, name, arguments, sources, asked_by, .. } = *question;
    let Some(approvals) = service.approvals() else {
        let reason = "it needs an approval, and there is no list in which it could wait for one";
        return Err(NoOutput::declined(name, reason));
    };
    if let Ok(Some(token)) = meta::progress_token(params)
        && let Ok(token) = serde_json::from_str::<Value>(token)
    {
        let message = "waiting for the approval of a person";
        let progress = json!({"progressToken": token, "progress": 0, "message": message});
        outlet.notify(method::PROGRESS, &progress);
    }
    let call = approvals::Call {
        entry,
        origin: unasked().name(),
        arguments,
        tenant: &question.tenant,
        client: client.name.as_deref(),
        is_for_operators: service.approval(client) == ApprovalMode::Wait,
        sources,
        asked_by,
    };
    let limit = service.settings().approval_wait;
    let verdict = approvals
        .decision_reported(&call, limit, &|| toolbox.view().report_wait(&unasked(), name))
        .await;
    match verdict {
        ApprovalVerdict::Approved(decided_by) => Ok(CallApproval {
            approval: if entry.needs_two { Approval::ByOperators } else { Approval::ByPerson },
            approved: Some(
                Approved::new(entry, arguments, decided_by).with_sources(sources.clone()),
            ),
        }),
        ApprovalVerdict::Denied(reason) => Err(NoOutput::declined(name, &denied(reason))),
        ApprovalVerdict::Waiting(id) => Err(NoOutput::pending(name, &id)),
        ApprovalVerdict::Refused(reason) => Err(NoOutput::declined(name, reason)),
    }
}
