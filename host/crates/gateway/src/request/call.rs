//! Lists tools, makes calls and runs scripts.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::json;

use super::{GatewayRequest, Operation, RequestError};
use airlock_agent::{
    ApprovalVerdict,
    approvals::{self, Call},
    declined, denied,
};
use airlock_core::{
    door::{Approved, Arguments, Caller, log_call},
    threads,
    tool::{
        CallError, GuardQuestions, RunCall, SourceSet, SourcesByPath, Suspension, Tool, ToolOutput,
    },
};
use airlock_scripts::runs::EXECUTE;
use airlock_store::approvals::WaitingCall;

/// Outcome of a call that was not refused and has not failed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[must_use = "the call may wait for an approval"]
pub enum CallReply {
    /// The result.
    Done(ToolOutput),
    /// Calls need an approval, and none of them was made: the call itself, or calls of its script.
    NeedsApproval(PendingApproval),
}

/// Calls that wait for the approval of a person. One decision is about all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingApproval {
    /// Identifier, for [`GatewayRequest::approve`], [`GatewayRequest::deny`] and [`GatewayRequest::resume`]:
    /// that of a call, or that of the run of a script as it is now.
    pub id: String,
    /// The party whose calls they are, for people.
    pub caller: String,
    /// The calls.
    pub calls: Vec<CallToApprove>,
}

/// A call that waits for an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallToApprove {
    /// Full name of the tool.
    pub tool: String,
    /// Arguments, as JSON text. Untrusted: a model may have written them, so show them whole.
    pub arguments: String,
    /// Sources of untrusted content that its author had read before; none if they are not followed.
    pub sources: SourceSet,
    /// Sources that each of its arguments may have, of a call of a script; `None` if they are not known.
    pub argument_sources: Option<SourcesByPath>,
    /// Reasons for which guards require an approval of it; none if it needs one for other reasons alone.
    pub asked_by: GuardQuestions,
    /// Lines of the calls of a script that are approved as one, if this is their manifest; none for a call of a tool.
    /// They have all that the arguments have, so show them in place of these.
    pub manifest: Vec<String>,
}

impl CallReply {
    /// Returns the result; `None` if there is none yet.
    pub fn into_output(self) -> Option<ToolOutput> {
        if let Self::Done(output) = self { Some(output) } else { None }
    }

    /// Returns the calls that wait; `None` if there is a result.
    pub fn pending(&self) -> Option<&PendingApproval> {
        if let Self::NeedsApproval(pending) = self { Some(pending) } else { None }
    }
}

impl PendingApproval {
    pub(super) fn of_call(call: &WaitingCall) -> Self {
        let waiting = CallToApprove {
            tool: approvals::tool_of(call),
            arguments: approvals::arguments_of(call).to_owned(),
            sources: approvals::sources_of(call),
            argument_sources: None,
            asked_by: approvals::asked_by(call),
            manifest: Vec::new(),
        };
        Self { id: call.id.clone(), caller: approvals::caller_of(call), calls: vec![waiting] }
    }

    fn of_script(suspension: &Suspension, caller: String) -> Self {
        let calls = suspension.pending.iter().cloned().map(CallToApprove::of_script);
        Self { id: suspension.token.clone(), caller, calls: calls.collect() }
    }
}

impl CallToApprove {
    pub(super) fn of_script(call: RunCall) -> Self {
        let RunCall { tool, arguments, sources, argument_sources, asked_by, manifest, .. } = call;
        Self { tool, arguments, sources, argument_sources, asked_by, manifest }
    }
}

/// Approval of a call.
enum CallApproval {
    /// A person has given it.
    Given(Approved),
    /// The call waits for it.
    Waiting(PendingApproval),
}

impl GatewayRequest {
    /// Returns the definitions of the tools that the sender sees, those for scripts included, sorted by name.
    /// Waits for sources that connect for the first time, for at most `server.startup_wait` since the gateway
    /// was started.
    pub async fn tools(&self) -> Result<Vec<Arc<Tool>>, RequestError> {
        let operation = self.begin()?;
        operation.parts.wait_for_sources(&operation.sender).await;
        let caller = operation.caller();
        Ok(caller.list().map(|entry| entry.tool.clone()).collect())
    }

    /// Calls a tool. Its arguments are an object, as JSON or as a type. A call that needs an approval is not
    /// made and waits for one, unless the request is [approving](super::RequestBuilder::approving); the
    /// approval of an equal call is used, once.
    ///
    /// Fails with [`RequestError::Call`] if the call is refused or fails, also if the tool itself returns an
    /// error.
    pub async fn call(
        &self,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<CallReply, RequestError> {
        let operation = self.begin()?;
        let text = serde_json::to_string(&arguments)
            .map_err(|error| CallError::bad_arguments(name, error))?;
        operation.call(name, &text).await
    }

    /// Runs a script, as a call of `executeToolCode`. Fails with [`RequestError::Call`] if no client is in
    /// code mode, or if the script fails.
    pub async fn run_script(&self, code: &str) -> Result<CallReply, RequestError> {
        self.call(EXECUTE, json!({"code": code})).await
    }
}

impl Operation {
    /// Makes a call with arguments as JSON text.
    pub(super) async fn call(
        &self,
        name: &str,
        arguments: &str,
    ) -> Result<CallReply, RequestError> {
        let _charge = self.charge(arguments.len())?;
        self.parts.wait_for_tool(&self.sender, name).await;
        let caller = self.caller();
        self.check_depth().inspect_err(|error| caller.report_refusal(name, error))?;
        let begun = Instant::now();
        let checked = threads::arguments(&caller, name, arguments).await;
        let arguments = checked.inspect_err(|error| caller.report_refusal(name, error))?;
        // If this fails, so does the admission, which tells the records.
        let needs_approval = caller.call_needs_approval(name, &arguments).unwrap_or(false);
        let admitted = if needs_approval {
            match self.approval(&caller, name, &arguments).await? {
                CallApproval::Given(approved) => {
                    caller.admit_approved(name, &arguments, &approved)?
                }
                CallApproval::Waiting(pending) => {
                    caller.report_wait(name);
                    return Ok(CallReply::NeedsApproval(pending));
                }
            }
        } else {
            caller.admit(name, &arguments)?
        };
        let ran = admitted.run().await;
        log_call(name, ran.as_ref().err(), begun.elapsed());
        self.reply(ran)
    }

    /// Returns the outcome of a call that has ended.
    pub(super) fn reply(
        &self,
        ran: Result<ToolOutput, CallError>,
    ) -> Result<CallReply, RequestError> {
        let error = match ran {
            Ok(output) => return Ok(CallReply::Done(output)),
            Err(error) => error,
        };
        match error.suspension().filter(|suspension| !suspension.pending.is_empty()) {
            Some(suspension) => {
                let pending = PendingApproval::of_script(suspension, self.tenant().to_string());
                Ok(CallReply::NeedsApproval(pending))
            }
            None => Err(error.into()),
        }
    }

    /// Returns the approval of a call, or lets the call wait for it. Fails if a person has denied the call, or
    /// if it cannot wait.
    async fn approval(
        &self,
        caller: &Caller,
        name: &str,
        arguments: &Arguments,
    ) -> Result<CallApproval, CallError> {
        let found = caller.view().find(&self.origin(), name);
        let entry = found.ok_or_else(|| CallError::not_found(name))?;
        let tool = &entry.tool;
        let origin = self.origin();
        let tenant = caller.view().tenant();
        let sources = caller.context();
        let call = Call {
            entry,
            arguments: arguments.as_str(),
            tenant,
            client: None,
            origin: origin.name(),
            is_for_operators: self.waits_for_operators(),
            sources: &sources,
            asked_by: arguments.questions(),
        };
        match self.gateway.approvals().decision(&call, Duration::ZERO).await {
            ApprovalVerdict::Approved(decided_by) => {
                let approved = Approved::new(entry, arguments.as_str(), decided_by);
                Ok(CallApproval::Given(approved.with_sources(sources)))
            }
            ApprovalVerdict::Denied(reason) => Err(declined(name, &denied(reason.as_deref()))),
            ApprovalVerdict::Refused(reason) => Err(declined(name, reason)),
            ApprovalVerdict::Waiting(id) => Ok(CallApproval::Waiting(PendingApproval {
                id,
                caller: tenant.to_string(),
                calls: vec![CallToApprove {
                    tool: tool.full_name.as_str().to_owned(),
                    arguments: arguments.as_str().to_owned(),
                    sources,
                    argument_sources: None,
                    asked_by: arguments.questions().clone(),
                    manifest: Vec::new(),
                }],
            })),
        }
    }
}
