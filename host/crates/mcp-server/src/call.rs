//! `tools/call`, from the request to its result.
//!
//! ```text
//! read the request ► find the tool ► parse the arguments ► approve ► find the tool again ► become a
//! task, if asked for ► run the tool ─┬─► output
//!                                    └─► no output: an error, or questions for the client
//! ```
//!
//! | module | purpose |
//! |---|---|
//! | `approve` | decides whether the call has the approval of a person |
//! | `running` | runs the admitted call until it ends or the client has to repeat it |
//! | `reports` | sends the client what the tool reports meanwhile |
//! | `no_output` | the ends of a call without an output |

mod approve;
mod no_output;
mod reports;
mod running;

use std::{borrow::Cow, sync::Arc, time::Instant};

use self::{
    approve::{CallApproval, approve, approved_before},
    no_output::NoOutput,
    reports::ToolReports,
    running::RunningCall,
};
use super::{
    approval::ApprovalQuestion,
    exchange::Outlet,
    meta,
    questions::Dialog,
    result,
    service::{Incoming, McpService, Requester},
    settings::ApprovalMode,
    tasks::Deferral,
    toolbox::{self, Toolbox},
    trace,
};
use airlock_core::door::log_call;
use airlock_core::{
    door::{Approval, Arguments, Budget, Caller, Entry, Events, Origin, View},
    threads,
    tool::{CallError, HostCode, SourceSet, Tool, ToolOutput},
};
use airlock_strings::cut;
use airlock_wire::{
    error::{RpcError, code},
    message::Params,
};

/// Handles `tools/call`. Returns the result as JSON text; a call that fails has one too. With a
/// deferral, the call may become a task. Fails if the request is malformed, or if the tool does not
/// exist or is hidden.
pub(super) async fn run(
    Incoming { service, client, request, outlet }: Incoming,
    deferral: Option<Deferral>,
) -> Result<String, RpcError> {
    let version = client.peer.version;
    let name = name(&request.params)?;
    let call = OfferedCall {
        service: &service,
        client: &client,
        params: &request.params,
        outlet: &outlet,
        name: &name,
    };
    match call.output(deferral).await {
        Ok(output) => Ok(result::complete(output, version)),
        Err(NoOutput::Failed(error)) => Ok(result::failed(&error, version)),
        Err(NoOutput::Asked(result)) => Ok(result),
        Err(NoOutput::Refused(error)) => Err(error),
    }
}

/// One request to call a tool.
struct OfferedCall<'c> {
    service: &'c McpService,
    client: &'c Requester,
    params: &'c Params,
    outlet: &'c Outlet,
    /// Name that the client knows the tool by.
    name: &'c str,
}

impl OfferedCall<'_> {
    /// Runs the call from its arguments to the output of its tool.
    async fn output(&self, mut deferral: Option<Deferral>) -> Result<ToolOutput, NoOutput> {
        let arguments = arguments(self.params)?;
        let token = meta::progress_token(self.params)?;
        let limit = self.service.settings().approval_timeout;
        let mut dialog = Dialog::new(self.client.peer, self.params, self.outlet, limit)?;

        let toolbox = self.service.toolbox_with(self.client, self.name).await;
        if toolbox.view().is_switched_off() {
            return Err(NoOutput::Failed(CallError::tools_disabled()));
        }
        let entry = self.find(&toolbox)?;
        trace::name_tool(self.name);
        if deferral.as_ref().is_some_and(|deferral| deferral.is_requested) {
            self.check_may_be_task(&entry.tool)?;
        }
        let tenant = self.client.selection.tenant();
        // Before a person sees them, and before they are read as a tree.
        let arguments = threads::parse(&tenant, self.name, arguments).await?;

        let unasked = Origin::McpClient(Approval::Missing);
        let deadline = Instant::now() + self.budget().deadline;
        let guarded = threads::guarded(toolbox.view(), &unasked, entry, arguments, deadline).await;
        let arguments = guarded.map_err(|error| self.guard_refusal(&toolbox, entry, error))?;
        let context = self.client.received.sources();
        let approval = self.approval(&toolbox, entry, &arguments, &context, dialog.is_resumed());
        let CallApproval { approval, approved } = approval.await?;

        // A question may have taken minutes.
        let changed = self.service.toolboxes().changed(&self.client.selection, &toolbox);
        let current = changed.as_ref().unwrap_or(&toolbox);
        if current.view().is_switched_off() {
            return Err(NoOutput::Failed(CallError::tools_disabled()));
        }
        let tool = self.find_unchanged(current, entry)?;
        if let Some(deferral) = &mut deferral {
            become_task(deferral)?;
        }
        let Self { name, outlet, .. } = *self;
        let reports = ToolReports { token, name, peer: self.client.peer, outlet, last: None };
        let hears_events = reports.are_wanted() || deferral.is_some();
        let (caller, events) = self.caller(current, approval, &dialog, hears_events);
        let caller = caller.in_session(&self.client.received, context);
        let mut running =
            RunningCall { caller, tool, arguments, approved, events, reports, deferral, id: None };

        let began = Instant::now();
        let ran = running.run(&mut dialog).await;
        log_call(entry.tool.name.as_str(), ran.as_ref().err(), began.elapsed());
        let version = self.client.peer.version;
        ran.map_err(|error| {
            let is_task = running.is_task();
            NoOutput::after_run(error, self.name, &entry.tool.name, version, approval, is_task)
        })
    }

    /// Returns the approval of the call, for which a person is asked where the operator wants it. Fails if the
    /// call is not approved.
    async fn approval(
        &self,
        toolbox: &Toolbox,
        entry: &Entry,
        arguments: &Arguments,
        context: &SourceSet,
        is_resumed: bool,
    ) -> Result<CallApproval, NoOutput> {
        let question = ApprovalQuestion {
            entry,
            is_automatic: is_automatic(toolbox.view(), entry, arguments, context),
            name: self.name,
            arguments: arguments.as_str(),
            tenant: self.client.selection.tenant(),
            sources: context,
            asked_by: arguments.questions(),
        };
        if is_resumed {
            return Ok(approved_before(self.service.approval(self.client), entry).into());
        }
        let asked =
            approve(self.service, self.client, toolbox, &question, self.params, self.outlet);
        asked.await.inspect_err(|end| self.report_declined(toolbox, end))
    }

    /// Reports a call that a person has denied: the door is not asked about it.
    fn report_declined(&self, toolbox: &Toolbox, end: &NoOutput) {
        if let NoOutput::Failed(error) = end
            && error.tool_code() == Some(&*HostCode::Declined.prefixed())
        {
            toolbox.view().report_refusal(&toolbox::ORIGIN, self.name, error);
        }
    }

    /// Reports a call that a guard refuses, of which no person is asked.
    fn guard_refusal(&self, toolbox: &Toolbox, entry: &Entry, error: CallError) -> NoOutput {
        toolbox.view().report_refusal(&toolbox::ORIGIN, entry.tool.name.as_str(), &error);
        NoOutput::Failed(error.as_called(self.name))
    }

    /// Finds the tool. An unknown tool and a hidden one look the same.
    fn find<'t>(&self, toolbox: &'t Toolbox) -> Result<&'t Entry, RpcError> {
        toolbox.find(self.name).ok_or_else(|| {
            let error = toolbox.view().absent(&toolbox::ORIGIN, self.name);
            toolbox.view().report_refusal(&toolbox::ORIGIN, self.name, &error);
            RpcError::invalid_params(error.to_string())
        })
    }

    /// Finds the tool once more. Fails if it is not as it was when the call was approved.
    fn find_unchanged(&self, current: &Toolbox, approved: &Entry) -> Result<Arc<Tool>, NoOutput> {
        match current.find(self.name) {
            // In an unchanged catalog it is the same one: its texts are not compared.
            Some(entry)
                if Arc::ptr_eq(&entry.tool, &approved.tool) || entry.tool == approved.tool =>
            {
                Ok(entry.tool.clone())
            }
            _ => {
                let reason = "it has changed since the user was asked; call it again";
                Err(NoOutput::declined(self.name, reason))
            }
        }
    }

    fn check_may_be_task(&self, tool: &Tool) -> Result<(), RpcError> {
        if toolbox::may_be_task(tool) {
            return Ok(());
        }
        let name = cut(self.name.to_owned(), 128);
        let message = format!("the tool {name:?} cannot be called as a task");
        Err(RpcError::new(code::METHOD_NOT_FOUND, message))
    }

    /// Returns the limits on the call.
    fn budget(&self) -> Budget {
        self.service.budget().within(self.client.timeout)
    }

    /// Returns the caller of the tool, with the authority of the client; and the events of the call, if
    /// they are heard.
    fn caller(
        &self,
        toolbox: &Toolbox,
        approval: Approval,
        dialog: &Dialog<'_>,
        hears_events: bool,
    ) -> (Caller, Option<Events>) {
        let view = toolbox.view_for(&self.client.selection);
        let origin = Origin::McpClient(approval);
        let budget = self.budget();
        let capabilities = dialog.capabilities();
        let (caller, events) = if hears_events {
            let (caller, events) = Caller::with_events(view, origin, budget, capabilities);
            (caller, Some(events))
        } else {
            (Caller::with_capabilities(view, origin, budget, capabilities), None)
        };
        // Without that mode, a script stops at each call that needs an approval.
        let caller = match self.service.approval(self.client) {
            ApprovalMode::AlwaysAllow => caller.approving_scripts(),
            ApprovalMode::Elicit
            | ApprovalMode::Wait
            | ApprovalMode::Client
            | ApprovalMode::Never => caller,
        };
        (caller, events)
    }
}

/// Returns whether a call needs no approval of a person. The door refuses one that a sink or the policy
/// refuses.
fn is_automatic(view: &View, entry: &Entry, arguments: &Arguments, context: &SourceSet) -> bool {
    match view.asking_sources(entry, context, arguments, None) {
        Ok(asking) if !asking.is_empty() => false,
        Ok(_) => {
            let unasked = Origin::McpClient(Approval::Missing);
            view.is_automatic(&unasked, entry, arguments).unwrap_or(true)
        }
        Err(_) => true,
    }
}

/// Returns the name of the called tool.
fn name(params: &Params) -> Result<String, RpcError> {
    let name = params.string("name");
    name.map(Cow::into_owned)
        .ok_or_else(|| RpcError::invalid_params("`name` must be a string: the name of a tool"))
}

/// Returns the arguments as JSON text of an object.
fn arguments(params: &Params) -> Result<&str, RpcError> {
    match params.get("arguments") {
        None | Some("null") => Ok("{}"),
        Some(arguments) if arguments.starts_with('{') => Ok(arguments),
        Some(_) => Err(RpcError::invalid_params("`arguments` must be an object")),
    }
}

/// Makes a task of a call whose client asks for one.
fn become_task(deferral: &mut Deferral) -> Result<(), RpcError> {
    if !deferral.is_requested {
        return Ok(());
    }
    deferral.defer();
    match deferral.task() {
        Some(_) => Ok(()),
        None => Err(RpcError::new(code::REFUSED, "there are too many tasks; try again later")),
    }
}
