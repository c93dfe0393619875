//! `tools/call`: approval, the door, what the tool reports meanwhile, and its result.

use std::{borrow::Cow, pin::pin, sync::Arc};

use serde_json::{Map, Value, json, value::Number};

use super::{
    approval::{ApprovalMode, Outcome, Question},
    error::{RpcError, code},
    exchange::Outlet,
    message::{Params, Request},
    meta::{self, LogLevel, Peer},
    questions::{self, Dialog},
    result,
    service::{Client, Service},
    version::Version,
};
use crate::{
    catalog::log_failure,
    door::{Approval, Arguments, CallId, Caller, Event, Events, Hearing, Log, Origin, Progress},
    text::cut,
    tool::{Answers, CallError, Content, ErrorKind, QuestionKind, Tool, ToolError, ToolOutput},
};

/// Level of the messages with partial results.
const PARTIAL: LogLevel = LogLevel::Info;

/// Handles `tools/call`. Returns the result as JSON text; a call that fails has one too. Fails if
/// the request is malformed, or if the tool does not exist or is hidden.
pub(super) async fn run(
    service: Arc<Service>,
    client: Client,
    request: Request,
    outlet: Outlet,
) -> Result<String, RpcError> {
    let params = &request.params;
    let (name, arguments) = (name(params)?, arguments(params)?);
    let token = meta::progress_token(params)?;
    let limit = service.settings().approval_timeout;
    let mut dialog = Dialog::new(client.peer, params, &outlet, limit)?;
    let toolbox = service.toolboxes().open(&client.selection);
    let entry = toolbox.find(&name).ok_or_else(|| unknown(&name))?;
    let version = client.peer.version;
    // Before they are shown to anyone or read as a tree.
    if let Err(error) = Arguments::parse(&name, arguments) {
        return Ok(result::failed(&error, version));
    }
    let question = Question { entry, name: &name, arguments, tenant: client.selection.tenant() };
    let decided = if dialog.goes_on() {
        // Its source goes on only with a call that was admitted before. Calls of a script are approved
        // by the answer, which counts only where users are asked.
        Outcome::Decided(match service.approval() {
            ApprovalMode::Never => Approval::Missing,
            ApprovalMode::Elicit | ApprovalMode::AlwaysAllow => Approval::Given,
        })
    } else {
        decide(&service, &client, &question, params, &outlet).await?
    };
    let approval = match decided {
        Outcome::Decided(approval) => approval,
        Outcome::Asked(result) => return Ok(result),
        Outcome::Declined(reason) => return Ok(result::failed(&declined(&name, reason), version)),
    };
    // A question may have taken minutes.
    let current = service.toolboxes().open(&client.selection);
    if current.find(&name).is_none_or(|current| current.tool != entry.tool) {
        let reason = "it has changed since the user was asked; call it again";
        return Ok(result::failed(&declined(&name, reason), version));
    }
    let (toolbox, entry) = (&current, current.find(&name).ok_or_else(|| unknown(&name))?);
    let origin = Origin::McpClient(approval);
    let budget = service.budget().within(client.timeout);
    let reports = Reports { token, name: &name, peer: client.peer, outlet: &outlet, last: None };
    let view = toolbox.view().clone();
    let hearing = Hearing { log_level: client.peer.log_level, questions: dialog.answerable() };
    let (caller, events) = if reports.are_wanted() {
        let (caller, events) = Caller::with_events(view, origin, budget, hearing);
        (caller, Some(events))
    } else {
        (Caller::hearing(view, origin, budget, hearing), None)
    };
    // Without that mode, a script stops at each call that needs an approval.
    let caller = match service.approval() {
        ApprovalMode::AlwaysAllow => caller.approving_scripts(),
        ApprovalMode::Elicit | ApprovalMode::Never => caller,
    };
    let mut running =
        Running { caller, tool: entry.tool.clone(), arguments, events, reports, id: None };
    let ran = running.run(&mut dialog).await;
    log_failure(running.tool.name.as_str(), ran.as_ref().err());
    Ok(match ran {
        Err(CallError::NeedsApproval { .. }) if approval == Approval::Missing => {
            let reason = "it needs an approval, and the operator has it refused to MCP clients";
            result::failed(&declined(&name, reason), version)
        }
        Err(CallError::InputRequired { asked, .. }) => questions::input_required(&asked),
        Err(CallError::Tool(error)) if is_missing_capability(&error, version) => {
            let code = code::MISSING_CAPABILITY;
            return Err(RpcError { data: error.details, ..RpcError::new(code, error.message) });
        }
        Err(error @ CallError::NotWaiting { .. }) => {
            return Err(RpcError::invalid_params(error.as_called(&name).to_string()));
        }
        Ok(output) => result::complete(output, version),
        Err(error) => result::failed(&error.as_called(&name), version),
    })
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

/// Returns whether a source refuses a call because its client lacks a capability. The error is about
/// the client, so it is no result of the tool.
fn is_missing_capability(error: &ToolError, version: Version) -> bool {
    let code = error.code.as_deref().and_then(|code| code.parse().ok());
    version.is_modern() && code == Some(code::MISSING_CAPABILITY)
}

/// An unknown tool and a hidden one look the same.
fn unknown(name: &str) -> RpcError {
    let name = cut(name.to_owned(), 128);
    RpcError::invalid_params(CallError::NotFound { name }.to_string())
}

fn declined(name: &str, reason: &str) -> CallError {
    let name = cut(name.to_owned(), 128);
    let message = format!("tool '{name}' did not run: {reason}");
    CallError::Tool(ToolError {
        code: Some("airlock.declined".to_owned()),
        ..ToolError::new(ErrorKind::Denied, message)
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
    match service.approval() {
        // The door decides each call without an approval.
        ApprovalMode::Never => Ok(Outcome::Decided(Approval::Missing)),
        ApprovalMode::Elicit if !needs_none && can_ask => {
            let limit = service.settings().approval_timeout;
            question.ask(client.peer, params, outlet, service.seal(), limit).await
        }
        ApprovalMode::Elicit | ApprovalMode::AlwaysAllow => Ok(Outcome::Decided(Approval::Given)),
    }
}

/// A call that is decided.
struct Running<'r> {
    caller: Caller,
    tool: Arc<Tool>,
    arguments: &'r str,
    events: Option<Events>,
    reports: Reports<'r>,
    /// The call that was admitted, which the source reports about.
    id: Option<CallId>,
}

impl Running<'_> {
    /// Runs the call, or goes on with it, until it ends or the client has to repeat it with answers.
    async fn run(&mut self, dialog: &mut Dialog<'_>) -> Result<ToolOutput, CallError> {
        loop {
            match self.step(dialog.take()).await {
                // A source asks a bounded number of times.
                Err(CallError::InputRequired { name, asked }) => {
                    let forget = |token: &str| self.caller.forget(self.tool.name.as_str(), token);
                    let answered = dialog.answer(asked, forget).await;
                    answered.map_err(|asked| CallError::InputRequired { name, asked })?;
                }
                ran => return ran,
            }
        }
    }

    async fn step(&mut self, answers: Option<Answers>) -> Result<ToolOutput, CallError> {
        let name = self.tool.name.as_str();
        match answers {
            None => {
                let admitted = self.caller.admit(name, self.arguments)?;
                // What a source reports belongs to this call, also after it has asked.
                let id = *self.id.insert(admitted.chain().id());
                self.report(id, admitted.run()).await
            }
            Some(answers) => {
                let resumed = self.caller.resume(name, self.arguments, answers)?;
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
                        self.reports.send(id, event);
                    }
                }
                ran = &mut work => {
                    while let Ok(event) = events.try_recv() {
                        self.reports.send(id, event);
                    }
                    return ran;
                }
            }
        }
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
