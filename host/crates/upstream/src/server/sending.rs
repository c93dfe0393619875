//! Sends one call to the server, in a task of its own.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use http::{HeaderName, HeaderValue};
use serde_json::Value;
use tracing::warn;

use super::{
    access::{ServerAccess, UsedLink},
    choice::{Asker, ChosenInstance},
    instance::Instance,
    permits::{Permits, Shared, held},
    state::{CallResponse, Responded},
    unavailable::{Unavailable, unavailable, unavailable_before_sent},
};
use crate::{
    log_messages,
    questions::{ServerResponse, TASK},
    result, tasks,
    users::{NoUserLink, UserCaller, Users},
};
use airlock_core::{
    door::Admitted,
    tool::{CallError, Cause, QuestionKinds, Tool, ToolName, ToolOutput},
};
use airlock_json::raw;
use airlock_mcp_client::{
    AskError, HeldPermits, Link, Party, Request, RequestReport, SendError, Taker, mirrored_headers,
};
use airlock_mcp_oauth::ExchangeError;
use airlock_strings::with_causes;
use airlock_wire::method;

/// A call in its own task.
pub(super) struct Sending {
    pub(super) call: Admitted,
    pub(super) permitted: QuestionKinds,
    /// Time at which its caller abandons it, unless it is parked by then.
    pub(super) deadline: Instant,
    /// Parameters that resume a call, besides those of the call.
    pub(super) parameters: Vec<(&'static str, String)>,
    /// The instance that has asked, if the call resumes another one.
    pub(super) asker: Option<Asker>,
    /// Takes the questions of a legacy server; `None` if none is permitted.
    pub(super) taker: Option<Taker>,
    /// True while the call waits for answers of its caller.
    pub(super) is_parked: Arc<AtomicBool>,
}

impl Sending {
    /// Returns whether the server has asked something.
    fn has_asked(&self) -> bool {
        self.taker.as_ref().is_some_and(Taker::has_asked)
    }
}

/// End of one attempt to send a call.
enum AttemptEnd {
    /// The call has ended.
    Ended(CallResponse),
    /// The call may be sent to another instance. The error counts if there is none.
    Repeatable {
        error: CallError,
        /// True if the server may have run the tool, which does no more if it runs twice.
        may_have_run: bool,
    },
}

impl Shared {
    /// Runs a call until it completes, or until a modern server requires input. If it was surely not sent
    /// to an instance, another one gets it, each at most once. A call that may have run is repeated once,
    /// and only if its tool says that this does no harm.
    pub(super) async fn send(&self, sending: &Sending) -> CallResponse {
        let tool = sending.call.tool();
        let tenant = sending.call.chain().tenant();
        let waiting = self.metrics.wait();
        let permits = Arc::new(self.permits(tenant).await.ok_or_else(CallError::busy)?);
        let mut next = match &self.users {
            Some(_) => None,
            None => self.way(sending.asker.as_ref(), &[]).await,
        };
        let running = waiting.granted();
        if let Some(waited) = running.slow {
            let client = &self.client;
            let tool = &tool.name;
            warn!(%client, %tool, ?waited, "a call waited for its upstream server");
        }
        if let Some(users) = &self.users {
            let permits: HeldPermits = permits;
            return self.send_for_user(users, sending, &permits).await;
        }
        let mut tried = Vec::new();
        let mut failed: Option<CallError> = None;
        let mut has_repeated = false;
        while let Some(way) = next {
            tried.push(way.occupied.instance().number());
            match self.attempt(way, &tried, has_repeated, sending, &permits).await {
                // An earlier attempt may have run.
                AttemptEnd::Ended(Err(error)) if error.has_not_begun() => {
                    return Err(failed.filter(|failed| !failed.has_not_begun()).unwrap_or(error));
                }
                AttemptEnd::Ended(response) => return response,
                AttemptEnd::Repeatable { error, may_have_run } => {
                    has_repeated |= may_have_run;
                    // The caller must know that the call may have run, whatever comes later.
                    if failed.as_ref().is_none_or(CallError::has_not_begun) {
                        failed = Some(error);
                    }
                }
            }
            next = self.way(sending.asker.as_ref(), &tried).await;
        }
        Err(failed.unwrap_or_else(|| unavailable(&tool.name, Unavailable::NotConnected)))
    }

    /// Sends a call to one instance. `tried` are the numbers of those that have got it, this one included.
    async fn attempt(
        &self,
        way: ChosenInstance,
        tried: &[usize],
        has_repeated: bool,
        sending: &Sending,
        permits: &Arc<Permits>,
    ) -> AttemptEnd {
        let tool = sending.call.tool();
        let ChosenInstance { occupied, access } = way;
        let instance = occupied.instance().clone();
        let held = held(permits.clone(), occupied);
        let awaited = instance.awaited(sending.deadline.into(), Some(sending.is_parked.clone()));
        let attempt = match access {
            ServerAccess::Down | ServerAccess::OnDemand => {
                AttemptEnd::unsent(unavailable(&tool.name, Unavailable::NotConnected))
            }
            ServerAccess::PerCall(own) => {
                let asking = instance.run_alone(&own, &held, async |link| {
                    link.observe(self.metrics.clone());
                    let asked = ask(&link, sending, None).await;
                    instance.record(&asked);
                    read(tool, &link, asked)
                });
                let asked = asking.await;
                match asked {
                    Err(error) => {
                        AttemptEnd::unsent(unavailable(&tool.name, Unavailable::NotStarted(error)))
                    }
                    Ok(Some(Err(error))) if error.has_not_begun() && !sending.has_asked() => {
                        AttemptEnd::unsent(error)
                    }
                    Ok(Some(response)) => {
                        AttemptEnd::Ended(responded(response, Some(Asker { instance, used: None })))
                    }
                    Ok(None) => {
                        let cause = Unavailable::ConnectionLost(Cause::from(AskError::Lost));
                        AttemptEnd::Ended(Err(unavailable(&tool.name, cause)))
                    }
                }
            }
            // The use ends with the call.
            ServerAccess::Up(used) => {
                self.attempt_over(used, &instance, &held, tried, has_repeated, sending).await
            }
        };
        awaited.end();
        attempt
    }

    /// Sends a call over the present connection of an instance, or over the next one if there is no other
    /// instance for it.
    async fn attempt_over(
        &self,
        used: UsedLink,
        instance: &Arc<Instance>,
        held: &HeldPermits,
        tried: &[usize],
        has_repeated: bool,
        sending: &Sending,
    ) -> AttemptEnd {
        let tool = sending.call.tool();
        let asked = ask(&used.link, sending, Some(held)).await;
        instance.record(&asked);
        let error = match asked {
            // A call that has asked is not repeated: the answers belong to its questions.
            Err(error) if (error.is_full() || may_repeat(&error, tool)) && !sending.has_asked() => {
                error
            }
            asked => {
                let response = read(tool, &used.link, asked);
                return AttemptEnd::Ended(responded(
                    response,
                    Some(Asker { instance: instance.clone(), used: Some(used) }),
                ));
            }
        };
        let may_have_run = !error.is_unsent();
        if may_have_run && has_repeated {
            return AttemptEnd::Ended(responded(read(tool, &used.link, Err(error)), None));
        }
        let is_full = error.is_full();
        let has_other = sending.asker.is_none() && self.has_choice(tried);
        if is_full || has_other {
            return match read(tool, &used.link, Err(error)) {
                Err(error) if has_other => AttemptEnd::Repeatable { error, may_have_run },
                response => AttemptEnd::Ended(responded(response, None)),
            };
        }
        used.link.request_check();
        let Some(next) = instance.replacement(&used.link).await else {
            return AttemptEnd::Ended(responded(read(tool, &used.link, Err(error)), None));
        };
        let asked = ask(&next.link, sending, Some(held)).await;
        instance.record(&asked);
        let mut response = read(tool, &next.link, asked);
        if may_have_run {
            response = repeated(read(tool, &used.link, Err(error)), response);
        }
        AttemptEnd::Ended(responded(
            response,
            Some(Asker { instance: instance.clone(), used: Some(next) }),
        ))
    }

    /// Sends a call over the connection of its caller's user, and once more over another one if the
    /// connection is of no use and the call may be repeated.
    async fn send_for_user(
        &self,
        users: &Users,
        sending: &Sending,
        permits: &HeldPermits,
    ) -> CallResponse {
        let tool = sending.call.tool();
        let chain = sending.call.chain();
        let caller = UserCaller { tenant: chain.tenant(), token: chain.view().token() };
        let mut may_retry = true;
        loop {
            let user = match users.link(caller).await {
                Ok(user) => user,
                // A kept token may have been revoked. A stored login was read just now.
                Err(NoUserLink::LoginNeeded(Some(refused)))
                    if may_retry && users.has_other(caller, Some(&refused)).await =>
                {
                    may_retry = false;
                    continue;
                }
                Err(reason) => return Err(no_user_link(users, &tool.name, caller, reason).await),
            };
            user.link().observe(self.metrics.clone());
            let asked = ask(user.link(), sending, Some(permits)).await;
            let error = match asked {
                Err(error) if ends_connection(&error) => error,
                asked => {
                    users.report(None);
                    let response = read(tool, user.link(), asked);
                    user.done();
                    return responded(response, None);
                }
            };
            users.replace(&user);
            let needs_login = matches!(error, AskError::Send(SendError::LoginNeeded(_)));
            // The user may have logged in again since the connection was opened.
            let is_repeatable = if needs_login {
                users.has_other(caller, user.token()).await
            } else {
                may_repeat(&error, tool)
            };
            if may_retry && is_repeatable && !sending.has_asked() {
                may_retry = false;
                continue;
            }
            return if needs_login {
                Err(users.login_required(&tool.name, caller.tenant).await)
            } else {
                users.report(Some(with_causes(&error)));
                responded(read(tool, user.link(), Err(error)), None)
            };
        }
    }
}

impl AttemptEnd {
    fn unsent(error: CallError) -> Self {
        Self::Repeatable { error, may_have_run: false }
    }
}

/// Returns the response to a call that was repeated and may have run before: that of the first attempt if
/// the repetition has surely not run.
fn repeated<T>(first: Result<T, CallError>, again: Result<T, CallError>) -> Result<T, CallError> {
    match again {
        Err(error) if error.has_not_begun() => first,
        response => response,
    }
}

fn responded(
    response: Result<ServerResponse<ToolOutput>, CallError>,
    asker: Option<Asker>,
) -> CallResponse {
    response.map(|response| Responded { response, asker })
}

/// Returns whether an error means that the connection is of no use for later calls.
fn ends_connection(error: &AskError) -> bool {
    match error {
        AskError::Lost => true,
        AskError::Send(error) => matches!(
            error,
            SendError::LoginNeeded(_)
                | SendError::NotSent(_)
                | SendError::Declined(_)
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
    caller: UserCaller<'_>,
    reason: NoUserLink,
) -> CallError {
    match reason {
        NoUserLink::Anonymous => CallError::identity_required(tool.clone()),
        NoUserLink::Full | NoUserLink::NotExchanged(ExchangeError::Busy) => CallError::busy(),
        NoUserLink::LoginNeeded(_) => users.login_required(tool, caller.tenant).await,
        NoUserLink::NoToken => CallError::token_required(tool.clone()),
        NoUserLink::NotExchanged(error @ ExchangeError::Refused(_)) => {
            CallError::token_refused(tool.clone(), &error.to_string())
        }
        NoUserLink::NotExchanged(error) => {
            users.report(Some(with_causes(&error)));
            unavailable_before_sent(tool, error)
        }
        NoUserLink::Failed(error) => {
            users.report(Some(with_causes(&error)));
            unavailable(tool, Unavailable::UserNotConnected(error))
        }
    }
}

/// Sends a call, and follows the task that the server makes of it. Progress is passed on in the
/// order of its arrival. The request holds `permits`.
async fn ask(
    link: &Link,
    sending: &Sending,
    permits: Option<&HeldPermits>,
) -> Result<Value, AskError> {
    let Sending { call, permitted, parameters, taker, .. } = sending;
    let tool = call.tool();
    let capabilities = call.chain().capabilities();
    let caller = Party { tenant: call.chain().tenant().clone(), session: capabilities.session };
    let taker = taker.as_ref().filter(|_| !link.is_modern()).cloned();
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
    let request = log_messages::with_level(link, request, capabilities.log_level).await;
    let reporter = call.chain().reporter();
    let conditions = tasks::Conditions { caller, permitted: *permitted, taker };
    if let Some((_, id)) = parameters.iter().find(|(name, _)| *name == TASK) {
        let id = raw::string(id).unwrap_or_default().into_owned();
        return tasks::resume(link, id, parameters, &conditions).await;
    }
    let asking = link.ask(request).reporting(|report| match report {
        RequestReport::Progress(progress) => reporter.progress(progress),
        RequestReport::Log(text) => {
            if let Some(log) = log_messages::read(tool.client.as_ref(), &text) {
                reporter.log(log);
            }
        }
    });
    let asked = asking.result().await;
    if asked.as_ref().err().is_none_or(|error| !error.is_undelivered()) {
        reporter.deliver();
    }
    let result = asked?;
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

/// Returns whether a call may be sent once more over another connection: nothing was executed, or
/// running the tool twice does no more than running it once.
fn may_repeat(error: &AskError, tool: &Tool) -> bool {
    let is_harmless =
        tool.annotations.read_only == Some(true) || tool.annotations.idempotent == Some(true);
    match error {
        AskError::Send(SendError::NotSent(_) | SendError::Declined(_)) => true,
        AskError::Send(SendError::SessionExpired | SendError::Closed) | AskError::Lost => {
            is_harmless
        }
        _ => false,
    }
}

/// Reads the result of a call.
fn read(
    tool: &Tool,
    link: &Link,
    asked: Result<Value, AskError>,
) -> Result<ServerResponse<ToolOutput>, CallError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::tool::ClientName;

    #[test]
    fn a_repeated_call_that_was_not_sent_again_fails_as_one_that_may_have_run() {
        let client = ClientName::parse("up").expect("a good name");
        let tool = ToolName::new(&client, "work");
        for again in [
            unavailable(&tool, Unavailable::NotConnected),
            CallError::busy().not_begun(),
            lost(&tool),
        ] {
            let error = repeated::<()>(Err(lost(&tool)), Err(again)).expect_err("both failed");
            assert!(!error.has_not_begun(), "{error:?}");
        }
        assert!(repeated(Err(lost(&tool)), Ok(())).is_ok());
    }

    /// Returns the error of a call that may have run.
    fn lost(tool: &ToolName) -> CallError {
        unavailable(tool, Unavailable::ConnectionLost(Cause::from(AskError::Lost)))
    }
}
