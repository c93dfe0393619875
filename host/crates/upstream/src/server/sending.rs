//! Sends one call to the server, in a task of its own.

use std::{sync::Arc, time::Instant};

use http::{HeaderName, HeaderValue};
use serde_json::Value;
use tracing::warn;

use super::{
    access::{Access, Shared, Unavailable},
    state::CallResponse,
};
use crate::{
    log_messages,
    questions::{ServerResponse, TASK},
    result, tasks,
    users::{NoUserLink, Users},
};
use airlock_core::{
    door::Admitted,
    tenant::Tenant,
    tool::{CallError, Cause, QuestionKinds, Tool, ToolName},
};
use airlock_json::raw;
use airlock_mcp_client::{
    AskError, HeldPermits, Link, Party, Report, Request, SendError, Taker, mirrored_headers,
};
use airlock_wire::method;

/// A call in its own task.
pub(super) struct Sending {
    pub(super) call: Admitted,
    pub(super) permitted: QuestionKinds,
    /// Parameters that resume a call, besides those of the call.
    pub(super) parameters: Vec<(&'static str, String)>,
    /// Takes the questions of a legacy server.
    pub(super) taker: Taker,
}

impl Shared {
    /// Runs a call until it completes, or until a modern server requires input.
    pub(super) async fn send(&self, sending: &Sending) -> CallResponse {
        let tool = sending.call.tool().clone();
        let tenant = sending.call.chain().tenant().clone();
        let waiting = self.metrics.wait();
        let permits = self.permits(&tenant).await.ok_or_else(CallError::busy)?;
        let access = self.access().await;
        let running = waiting.granted();
        if let Some(waited) = running.slow {
            let client = &self.client;
            let tool = &tool.name;
            warn!(%client, %tool, ?waited, "a call waited for its upstream server");
        }
        match access {
            Access::Down | Access::OnDemand => {
                Err(unavailable(&tool.name, Unavailable::NotConnected))
            }
            Access::PerCall(own) => {
                let asking = self.run_alone(&own, permits, async |link| {
                    let asked = ask(&link, sending, None).await;
                    read(&tool, &link, asked)
                });
                let asked = asking
                    .await
                    .map_err(|error| unavailable(&tool.name, Unavailable::NotStarted(error)))?;
                asked.unwrap_or_else(|| {
                    let cause = Cause::from(AskError::Lost);
                    Err(unavailable(&tool.name, Unavailable::ConnectionLost(cause)))
                })
            }
            Access::OfUser(users) => {
                let permits: HeldPermits = Arc::new(permits);
                send_for_user(&users, sending, &permits).await
            }
            // The use ends with the call.
            Access::Up(used) => {
                let link = used.link.clone();
                let permits: HeldPermits = Arc::new(permits);
                match ask(&link, sending, Some(&permits)).await {
                    // A call that has asked is not repeated: the answers belong to its questions.
                    Err(error) if may_repeat(&error, &tool) && !sending.taker.has_asked() => {
                        link.request_check();
                        match self.replacement(&link).await {
                            Some(next) => {
                                let asked = ask(&next.link, sending, Some(&permits)).await;
                                read(&tool, &next.link, asked)
                            }
                            None => read(&tool, &link, Err(error)),
                        }
                    }
                    asked => read(&tool, &link, asked),
                }
            }
        }
    }
}

/// Sends a call over the connection of its caller's user, and once more over another one if the
/// connection is of no use and the call may be repeated.
async fn send_for_user(users: &Users, sending: &Sending, permits: &HeldPermits) -> CallResponse {
    let tool = sending.call.tool();
    let tenant = sending.call.chain().tenant();
    let mut may_retry = true;
    loop {
        let user = match users.link(tenant).await {
            Ok(user) => user,
            Err(reason) => return Err(no_user_link(users, &tool.name, tenant, reason).await),
        };
        let asked = ask(user.link(), sending, Some(permits)).await;
        let error = match asked {
            Err(error) if ends_connection(&error) => error,
            asked => {
                let response = read(tool, user.link(), asked);
                user.done();
                return response;
            }
        };
        users.replace(&user);
        let needs_login = matches!(error, AskError::Send(SendError::LoginNeeded(_)));
        // The user may have logged in again since the connection was opened.
        let is_repeatable =
            if needs_login { users.has_login(tenant).await } else { may_repeat(&error, tool) };
        if may_retry && is_repeatable && !sending.taker.has_asked() {
            may_retry = false;
            continue;
        }
        return if needs_login {
            Err(users.login_required(&tool.name, tenant).await)
        } else {
            read(tool, user.link(), Err(error))
        };
    }
}

/// Returns whether an error means that the connection is of no use for later calls.
fn ends_connection(error: &AskError) -> bool {
    match error {
        AskError::Lost => true,
        AskError::Send(error) => matches!(
            error,
            SendError::LoginNeeded(_)
                | SendError::NotSent(_)
                | SendError::SessionExpired
                | SendError::Closed
        ),
        _ => false,
    }
}

/// Returns the error of a call that has no connection of its user.
async fn no_user_link(
    users: &Users,
    tool: &ToolName,
    tenant: &Tenant,
    reason: NoUserLink,
) -> CallError {
    match reason {
        NoUserLink::Anonymous => CallError::identity_required(tool.clone()),
        NoUserLink::Full => CallError::busy(),
        NoUserLink::LoginNeeded => users.login_required(tool, tenant).await,
        NoUserLink::Failed(error) => unavailable(tool, Unavailable::UserNotConnected(error)),
    }
}

/// Sends a call, and follows the task that the server makes of it. Progress is passed on in the
/// order of its arrival. The request holds `permits`.
async fn ask(
    link: &Link,
    sending: &Sending,
    permits: Option<&HeldPermits>,
) -> Result<Value, AskError> {
    let Sending { call, permitted, parameters, taker } = sending;
    let tool = call.tool();
    let hearing = call.chain().heard();
    let caller = Party { tenant: call.chain().tenant().clone(), session: hearing.session };
    let taker = (!link.is_modern()).then(|| taker.clone());
    let mut request = Request::new(method::TOOLS_CALL)
        .about("name", &tool.original)
        .with("arguments", airlock_json::raw::on_one_line(call.arguments().as_str()))
        .with_headers(headers(link, call))
        .with_caller(caller.clone())
        .holding(permits.cloned())
        .asking(*permitted, taker.clone())
        .taking_tasks()
        .with_progress();
    for (name, json) in parameters {
        request = request.with(name, json.as_str());
    }
    let time_left = call.chain().deadline().saturating_duration_since(Instant::now());
    if let Some(task) = tasks::parameter(link, tool, time_left) {
        request = request.with("task", task);
    }
    let request = log_messages::with_level(link, request, hearing.log_level).await;
    let reporter = call.chain().reporter();
    let conditions = tasks::Conditions { caller, permitted: *permitted, taker };
    if let Some((_, id)) = parameters.iter().find(|(name, _)| *name == TASK) {
        let id = raw::string(id).unwrap_or_default().into_owned();
        return tasks::resume(link, id, parameters, &conditions).await;
    }
    let asking = link.ask(request).reporting(|report| match report {
        Report::Progress(progress) => reporter.progress(progress),
        Report::Log(text) => {
            if let Some(log) = log_messages::read(tool.client.as_ref(), &text) {
                reporter.log(log);
            }
        }
    });
    let result = asking.result().await?;
    if tasks::is_created(link, &result) {
        reporter.defer();
    }
    tasks::settled(link, result, &conditions).await
}

/// Returns the headers of a call: those of the caller that are passed on, and those that mirror
/// arguments.
fn headers(link: &Link, call: &Admitted) -> Vec<(HeaderName, HeaderValue)> {
    let transport = link.transport();
    let mut headers = transport.pass_on(call.chain().view().headers());
    if transport.mirrors_parameters() {
        let schema = call.tool().input_schema.as_str();
        headers.extend(mirrored_headers(schema, call.arguments().as_str()));
    }
    headers
}

/// Returns whether a call may be sent once more over another connection: nothing was sent, or
/// running the tool twice does no more than running it once.
fn may_repeat(error: &AskError, tool: &Tool) -> bool {
    let is_harmless =
        tool.annotations.read_only == Some(true) || tool.annotations.idempotent == Some(true);
    match error {
        AskError::Send(SendError::NotSent(_)) => true,
        AskError::Send(SendError::SessionExpired | SendError::Closed) | AskError::Lost => {
            is_harmless
        }
        _ => false,
    }
}

/// Reads the result of a call.
fn read(tool: &Tool, link: &Link, asked: Result<Value, AskError>) -> CallResponse {
    let name = &tool.name;
    match asked {
        Ok(mut result) => match result::asks(&mut result) {
            Some(asked) => asked.map(ServerResponse::InputRequired).map_err(result::not_asked),
            None => result::read(name, result).map(ServerResponse::Complete),
        },
        Err(AskError::Refused(error)) => Err(result::refusal(error)),
        Err(AskError::TooLarge | AskError::Send(SendError::TooLarge)) => {
            Err(result::too_large(name))
        }
        Err(AskError::Unreadable(reason)) => Err(result::no_result(name, reason)),
        Err(error) if error.is_full() => Err(CallError::busy().not_begun()),
        Err(error) => {
            link.request_check();
            let is_unsent = error.is_unsent();
            let cause = Cause::from(error);
            Err(unavailable(
                name,
                if is_unsent {
                    Unavailable::NotSent(cause)
                } else {
                    Unavailable::ConnectionLost(cause)
                },
            ))
        }
    }
}

/// Returns the error of a call that found no way to the server.
pub(super) fn unavailable(tool: &ToolName, cause: Unavailable) -> CallError {
    let may_have_run = matches!(cause, Unavailable::ConnectionLost(_));
    let error = CallError::unavailable(tool.clone(), cause);
    if may_have_run { error } else { error.not_begun() }
}

/// Returns the error of a call that was not sent.
pub(crate) fn unavailable_before_sent(tool: &ToolName, cause: impl Into<Cause>) -> CallError {
    unavailable(tool, Unavailable::NotSent(cause.into()))
}
