//! `tools/call`: approval, the door, what the tool reports meanwhile, and its result.

use std::{borrow::Cow, pin::pin, sync::Arc, time::Instant};

use serde_json::{Map, Value, json, value::Number};
use tracing::info;

use super::{
    approval::{ApprovalMode, Outcome, Question},
    exchange::Outlet,
    meta::{self, LogLevel, Peer},
    questions::{self, Dialog},
    result,
    service::{Client, Service},
    tasks::Deferral,
    toolbox,
};
use airlock_agent::{ApprovalVerdict, approvals};
use airlock_core::door::log_call;
use airlock_core::{
    door::{Approval, Arguments, CallId, Caller, Event, Events, Log, Origin, Progress},
    threads,
    tool::{Answers, CallError, Content, ErrorKind, QuestionKind, Tool, ToolError, ToolOutput},
};
use airlock_strings::cut;
use airlock_wire::{
    error::{RpcError, code},
    message::{Params, Request},
};

/// Level of the messages with partial results.
const PARTIAL: LogLevel = LogLevel::Info;

/// Handles `tools/call`. Returns the result as JSON text; a call that fails has one too. With a
/// deferral, the call may become a task. Fails if the request is malformed, or if the tool does not
/// exist or is hidden.
pub(super) async fn run(
    service: Arc<Service>,
    client: Client,
    request: Request,
    outlet: Outlet,
    mut deferral: Option<Deferral>,
) -> Result<String, RpcError> {
    let params = &request.params;
    let name = name(params)?;
    let arguments = arguments(params)?;
    let token = meta::progress_token(params)?;
    let mut dialog =
        Dialog::new(client.peer, params, &outlet, service.settings().approval_timeout)?;
    let toolbox = service.toolbox_with(&client, &name).await;
    let entry = toolbox.find(&name).ok_or_else(|| unknown(&name))?;
    let version = client.peer.version;
    if deferral.as_ref().is_some_and(|deferral| deferral.is_requested)
        && !toolbox::may_be_task(&entry.tool)
    {
        let message = format!("the tool {:?} cannot be called as a task", cut(name, 128));
        return Err(RpcError::new(code::METHOD_NOT_FOUND, message));
    }
    let tenant = client.selection.tenant();
    // Before a person sees them, and before they are read as a tree.
    let arguments = match threads::parse(&tenant, &name, arguments).await {
        Ok(arguments) => arguments,
        Err(error) => return Ok(result::failed(&error, version)),
    };
    let question = Question { entry, name: &name, arguments: arguments.as_str(), tenant };
    let decided = if dialog.goes_on() {
        resumed(service.approval(&client))
    } else {
        decide(&service, &client, &question, params, &outlet).await?
    };
    let approval = match decided {
        Outcome::Decided(approval) => approval,
        Outcome::Asked(result) => return Ok(result),
        Outcome::Declined(reason) => return Ok(result::failed(&declined(&name, reason), version)),
        Outcome::Pending(id) => return Ok(result::failed(&pending(&name, &id), version)),
    };
    // A question may have taken minutes.
    let current = service.toolboxes().open(&client.selection);
    if current.find(&name).is_none_or(|current| current.tool != entry.tool) {
        let reason = "it has changed since the user was asked; call it again";
        return Ok(result::failed(&declined(&name, reason), version));
    }
    let toolbox = &current;
    let entry = current.find(&name).ok_or_else(|| unknown(&name))?;
    let origin = Origin::McpClient(approval);
    let budget = service.budget().within(client.timeout);
    if let Some(deferral) = deferral.as_mut().filter(|deferral| deferral.is_requested) {
        deferral.defer();
        if deferral.task().is_none() {
            return Err(RpcError::new(code::REFUSED, "there are too many tasks; try again later"));
        }
    }
    let reports = Reports { token, name: &name, peer: client.peer, outlet: &outlet, last: None };
    let view = toolbox.view().clone();
    let hearing = dialog.hearing();
    let (caller, events) = if reports.are_wanted() || deferral.is_some() {
        let (caller, events) = Caller::with_events(view, origin, budget, hearing);
        (caller, Some(events))
    } else {
        (Caller::hearing(view, origin, budget, hearing), None)
    };
    // Without that mode, a script stops at each call that needs an approval.
    let caller = match service.approval(&client) {
        ApprovalMode::AlwaysAllow => caller.approving_scripts(),
        ApprovalMode::Elicit | ApprovalMode::Client | ApprovalMode::Never => caller,
    };
    let mut running = Running {
        caller,
        tool: entry.tool.clone(),
        arguments,
        events,
        reports,
        deferral,
        id: None,
    };
    let begun = Instant::now();
    let ran = running.run(&mut dialog).await;
    log_call(running.tool.name.as_str(), ran.as_ref().err(), begun.elapsed());
    let is_task = running.deferral.as_ref().is_some_and(|deferral| deferral.task().is_some());
    let error = match ran {
        Ok(output) => return Ok(result::complete(output, version)),
        Err(error) => error,
    };
    if let Some(asked) = error.input_required() {
        return Ok(questions::input_required(asked));
    }
    // The error is about the client, which lacks a capability, or about the task: it is no result of
    // the tool.
    if let Some(own) = error.tool_error()
        && let Some(code) = rpc_code(own)
        && (is_task || (version.is_modern() && code == code::MISSING_CAPABILITY))
    {
        return Err(RpcError { data: own.details.clone(), ..RpcError::new(code, &*own.message) });
    }
    if error.code() == CallError::NOT_WAITING {
        return Err(RpcError::invalid_params(error.as_called(&name).to_string()));
    }
    if error.is_unapproved() && approval == Approval::Missing {
        let reason = "it needs an approval, and the operator has it refused to MCP clients";
        return Ok(result::failed(&declined(&name, reason), version));
    }
    Ok(result::failed(&error.as_called(&name), version))
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

/// Returns the code of the JSON-RPC error with which a server refused a call; `None` for other errors.
fn rpc_code(error: &ToolError) -> Option<i64> {
    error.code.as_deref().and_then(|code| code.parse().ok())
}

/// An unknown tool and a hidden one look the same.
fn unknown(name: &str) -> RpcError {
    let name = cut(name.to_owned(), 128);
    RpcError::invalid_params(CallError::not_found(&name).to_string())
}

fn declined(name: &str, reason: &str) -> CallError {
    let name = cut(name.to_owned(), 128);
    let message = format!("tool '{name}' did not run: {reason}");
    ToolError::new(ErrorKind::Denied, message).with_code("airlock.declined").into()
}

/// Key of the metadata with the identifier of a call in the list of pending approvals.
const PENDING: &str = "airlock/approval";

/// Error of a call without a decision at the limit.
fn pending(name: &str, id: &str) -> CallError {
    let message = format!(
        "tool '{}' did not run: it needs the approval of a person, and waits for it as {id}. A person approves it with \
         `airlock approvals approve {id}` or `POST /v1/approvals/{id}/approve`; then repeat the same call with the same \
         arguments, within an hour",
        cut(name.to_owned(), 128)
    );
    CallError::from(ToolError {
        code: Some("airlock.approval_pending".to_owned()),
        meta: Some(Map::from_iter([(PENDING.to_owned(), json!({"id": id}))])),
        ..ToolError::new(ErrorKind::Denied, message)
    })
}

/// Decides about a call whose source resumes it, which it does only with a call that was admitted
/// before. Calls of a script are approved by the answer, which counts only where users are asked.
fn resumed(mode: ApprovalMode) -> Outcome {
    Outcome::Decided(match mode {
        ApprovalMode::Never => Approval::Missing,
        ApprovalMode::Elicit | ApprovalMode::Client | ApprovalMode::AlwaysAllow => Approval::Given,
    })
}

/// Decides whether the call has the user's approval, and asks where the operator wants it.
async fn decide(
    service: &Service,
    client: &Client,
    question: &Question<'_>,
    params: &Params,
    outlet: &Outlet,
) -> Result<Outcome, RpcError> {
    let needs_none = question.entry.auto;
    let can_ask = questions::answerable(client.peer, outlet).has(QuestionKind::Form);
    match service.approval(client) {
        // The door decides each call without an approval.
        ApprovalMode::Never => Ok(Outcome::Decided(Approval::Missing)),
        _ if needs_none => Ok(Outcome::Decided(Approval::Given)),
        ApprovalMode::Elicit if can_ask => {
            let limit = service.settings().approval_timeout;
            question.ask(client.peer, params, outlet, service.seal(), limit).await
        }
        ApprovalMode::Elicit => Ok(wait(service, client, question, params, outlet).await),
        ApprovalMode::Client => {
            let tool = question.entry.tool.name.as_str();
            let tenant = &question.tenant;
            let name = client.name.as_deref().unwrap_or_default();
            info!(tool, %tenant, client = name, "a call runs unasked: its client asks its own user");
            Ok(Outcome::Decided(Approval::Given))
        }
        ApprovalMode::AlwaysAllow => Ok(Outcome::Decided(Approval::Given)),
    }
}

/// Waits until a person decides about the call in the list of pending approvals.
async fn wait(
    service: &Service,
    client: &Client,
    question: &Question<'_>,
    params: &Params,
    outlet: &Outlet,
) -> Outcome {
    let Some(approvals) = service.approvals() else {
        return Outcome::Declined("it needs an approval, and the client cannot ask its user");
    };
    if let Ok(Some(token)) = meta::progress_token(params)
        && let Ok(token) = serde_json::from_str::<Value>(token)
    {
        let message = "waiting for the approval of a person";
        let progress = json!({"progressToken": token, "progress": 0, "message": message});
        outlet.notify("notifications/progress", &progress);
    }
    let call = approvals::Call {
        tool: &question.entry.tool,
        arguments: question.arguments,
        tenant: &question.tenant,
        client: client.name.as_deref(),
    };
    match approvals.decision(&call, service.settings().approval_wait).await {
        ApprovalVerdict::Approved => Outcome::Decided(Approval::Given),
        ApprovalVerdict::Denied => Outcome::Declined("a person denied it"),
        ApprovalVerdict::Waiting(id) => Outcome::Pending(id),
        ApprovalVerdict::Refused(reason) => Outcome::Declined(reason),
    }
}

/// A call that is decided.
struct Running<'r> {
    caller: Caller,
    tool: Arc<Tool>,
    arguments: Arguments,
    events: Option<Events>,
    reports: Reports<'r>,
    /// Makes a task of the call; `None` if it cannot become one.
    deferral: Option<Deferral>,
    /// The call that was admitted, which the source reports about.
    id: Option<CallId>,
}

impl Running<'_> {
    /// Runs the call, or goes on with it, until it ends or the client has to repeat it with answers.
    async fn run(&mut self, dialog: &mut Dialog<'_>) -> Result<ToolOutput, CallError> {
        loop {
            let error = match self.step(dialog.take()).await {
                Ok(output) => return Ok(output),
                Err(error) => error,
            };
            // A source asks a bounded number of times.
            let Some(asked) = error.input_required() else { return Err(error) };
            let task = self.deferral.as_ref().and_then(Deferral::task);
            let asked = Box::new(asked.clone());
            let answered = dialog.answer(asked, task.map(|task| &**task), |token| {
                self.caller.forget(self.tool.name.as_str(), token);
            });
            if answered.await.is_err() {
                return Err(error);
            }
        }
    }

    async fn step(&mut self, answers: Option<Answers>) -> Result<ToolOutput, CallError> {
        let name = self.tool.name.as_str();
        match answers {
            None => {
                let admitted = self.caller.admit(name, &self.arguments)?;
                // What a source reports belongs to this call, also after it has asked.
                let id = *self.id.insert(admitted.chain().id());
                self.report(id, admitted.run()).await
            }
            Some(answers) => {
                let resumed = self.caller.resume(name, &self.arguments, answers)?;
                self.report(self.id.unwrap_or(resumed.id()), resumed.run()).await
            }
        }
    }

    /// Waits for a call, and sends what its tool reports meanwhile.
    async fn report(
        &mut self,
        id: CallId,
        work: impl Future<Output = Result<ToolOutput, CallError>>,
    ) -> Result<ToolOutput, CallError> {
        let Some(events) = &mut self.events else { return work.await };
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                event = events.recv() => {
                    // The caller holds a sender, so the channel is open.
                    if let Some(event) = event {
                        handle(event, id, &mut self.reports, self.deferral.as_mut());
                    }
                }
                ran = &mut work => {
                    while let Ok(event) = events.try_recv() {
                        handle(event, id, &mut self.reports, self.deferral.as_mut());
                    }
                    return ran;
                }
            }
        }
    }
}

/// Handles an event of a running call.
fn handle(event: Event, id: CallId, reports: &mut Reports<'_>, deferral: Option<&mut Deferral>) {
    match (event, deferral) {
        (Event::Deferred { call }, Some(deferral)) if call == id => deferral.defer(),
        (event, _) => reports.send(id, event),
    }
}

/// Sends what a running tool reports.
struct Reports<'r> {
    /// Token by which the client wants progress, as JSON text.
    token: Option<&'r str>,
    /// Name that the client knows the tool by.
    name: &'r str,
    peer: Peer,
    outlet: &'r Outlet,
    /// The last progress that was sent.
    last: Option<f64>,
}

impl Reports<'_> {
    fn are_wanted(&self) -> bool {
        self.token.is_some() || self.peer.log_level.is_some()
    }

    fn wants_partial_results(&self) -> bool {
        self.peer.log_level.is_some_and(|level| level <= PARTIAL)
    }

    fn send(&mut self, running: CallId, event: Event) {
        match event {
            Event::Progress { call, progress } if call == running => self.progress(&progress),
            Event::Partial { call, part } if call == running => self.partial(&part),
            Event::Log { call, log } if call == running => self.log(*log),
            _ => {}
        }
    }

    /// Sends progress. It must increase with each notification (section "Progress").
    fn progress(&mut self, progress: &Progress) {
        let Some(token) = self.token else { return };
        if self.last.is_some_and(|last| progress.done <= last) {
            return;
        }
        self.last = Some(progress.done);
        let mut params = Map::new();
        let token = serde_json::from_str(token).unwrap_or_default();
        params.insert("progressToken".to_owned(), token);
        params.insert("progress".to_owned(), number(progress.done));
        params.extend(progress.total.map(|total| ("total".to_owned(), number(total))));
        params.extend(progress.message.clone().map(|text| ("message".to_owned(), text.into())));
        self.outlet.notify("notifications/progress", &params.into());
    }

    /// Sends a log message of the source.
    fn log(&self, log: Log) {
        if self.peer.log_level.is_some_and(|level| level <= log.level) {
            let Log { level, logger, data } = log;
            let params = json!({"level": level.as_str(), "logger": logger, "data": data});
            self.outlet.notify("notifications/message", &params);
        }
    }

    /// Sends a partial result as a log message: MCP has no other form for it.
    fn partial(&self, part: &Content) {
        if self.wants_partial_results() {
            let data = part.as_text().map_or_else(|| json!(part), Value::from);
            let params = json!({"level": PARTIAL.as_str(), "logger": self.name, "data": data});
            self.outlet.notify("notifications/message", &params);
        }
    }
}

/// Returns a number, without a fraction where it has none.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "it is a whole number of 54 bits")]
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::from)
}
