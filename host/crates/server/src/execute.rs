//! `POST /v1/mcp/tool/execute`: runs one tool for a caller. The request itself is the caller's
//! approval.
//!
//! The body is a tool call as a model writes it. The response is the message that a model is sent
//! back: in the form of chat completions, or of responses with `?format=responses`. Its text is
//! what the agent loop would send to the model: marked, without hidden characters, with a preview
//! of a large result. With `?present=raw`, the text is as its source sent it. The response also has
//! an `airlock` object, with `result` as MCP's `CallToolResult`, unchanged, unless the text is all
//! of it; `duration_ms`, `fuel` if the tool ran in the sandbox, `calls` with the calls that the
//! tool made in turn, and `error.code` if the tool failed. A tool may ask the user during a call:
//! `input_required` has the questions, and the caller sends the call once more with `request_state`
//! and `input_responses`. A script that stops at a call that needs an approval is described by
//! `run`; executed again with `request_state`, it is resumed, and the calls that were shown are
//! approved.

mod form;

use std::{
    mem,
    time::{Duration, Instant},
};

use http::{HeaderValue, Request, StatusCode, header};
use serde_json::{Value, json};

use self::form::{ExecuteCall, ExecuteOptions, ResultForm};
use super::App;
use airlock_agent::{
    self as agent, AUTH_REQUIRED, EXTENSION, INPUT_REQUIRED, Presenter, RUN, ResultMessage,
    ResultSource, input_required,
};
use airlock_conversation::Object;
use airlock_core::door::log_call;
use airlock_core::{
    door::{CallId, Caller, CallerCapabilities, Ledger, Origin},
    replica::ReplicaId,
    request_memory::RequestCharge,
    threads,
    tool::{CallError, CallFailure, Details, HostCode, QuestionKinds, ToolOutput},
};
use airlock_http::{
    body,
    memory::AfterWork as _,
    respond::{self, ApiError, Reply},
    work,
};
use airlock_ingress::RequestBody;
use airlock_json::{self as json, object, weight::weight};
use airlock_replicas::ForwardedHead;
use airlock_requests::Sender;
use airlock_scripts::runs;

/// Member of `airlock` with the result as MCP's `CallToolResult`.
const RESULT: &str = "result";

/// Runs the tool that the body names. An error result of the tool is a normal response with
/// `is_error`. Fails if the call is refused or does not complete.
pub(super) async fn run(
    app: &App,
    sender: &Sender,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let options = ExecuteOptions::parse(request.uri().query())?;
    let most = app.parts.budget.script.max(app.parts.budget.deadline);
    let timeout = super::options::timeout(request.headers(), most)?;
    let head = app.replicas().map(|_| ForwardedHead::from_request(&request));
    let mut body = body::object(request, app.settings.bodies(), charge).await?;
    if let Some(head) = head
        && let Some(reply) = forwarded(app, head, &mut body, charge).await?
    {
        return Ok(reply);
    }
    let call = options.format.read(body)?;
    if call.answers.as_ref().is_some_and(runs::decides_what_was_shown) {
        super::runs::check_approver(app, sender)?;
    }
    app.parts.wait_for_tool(sender, &call.name).await;
    let caller = caller(app, sender, timeout);
    let begun = Instant::now();
    let (source, result) = make(&caller, &call).await?;
    log_call(&call.name, result.as_ref().err(), begun.elapsed());
    let mut airlock = extension(caller.ledger(), source.id());
    if let Ok(output) = &result
        && let Err(spent) = charge.grow(result_bytes(output))
    {
        return Err(spent.after_work().with_airlock(airlock));
    }
    let presenter = (options.reader == ResultForm::Model).then(|| {
        let reads_images = app.parts.models.reads_images(options.model.as_deref());
        source.presenter(&caller, Some(&app.parts.results), reads_images)
    });
    let is_error = result.is_err();
    let message = match result {
        Ok(output) => Ok(success(output, presenter.as_ref(), &mut airlock)),
        Err(error) => failure(&call.name, &error, presenter.as_ref(), &mut airlock),
    };
    let message = match message {
        Ok(message) => message,
        Err(refusal) => return Err(refusal.with_airlock(airlock)),
    };
    let mut reply = options.format.write(call.id, message);
    if is_error {
        reply.insert("is_error".to_owned(), true.into());
    }
    let bytes = json::text_len(&reply).saturating_add(json::text_len(&airlock));
    if let Err(spent) = charge.grow(bytes) {
        airlock.remove(RESULT);
        return Err(spent.after_work().with_airlock(airlock));
    }
    reply.insert(EXTENSION.to_owned(), airlock.into());
    Ok(respond::json(&reply.into()))
}

/// Sends a call that waits for answers, or that reads a kept result, to the gateway that has it. `None` if
/// that is this one, or has ended; the body is unchanged then.
async fn forwarded(
    app: &App,
    head: ForwardedHead,
    body: &mut Object,
    charge: &RequestCharge,
) -> Result<Option<Reply>, ApiError> {
    let waits_at = body.get("request_state").and_then(Value::as_str).and_then(ReplicaId::of_text);
    let owner = waits_at.or_else(|| content_owner(body));
    let Some(elsewhere) = app.elsewhere(owner, head.headers()).await? else { return Ok(None) };
    let sent = mem::take(body);
    let (text, sent) = work::on_tree(charge, move |charge| {
        charge.grow(json::text_len(&sent))?;
        let text = serde_json::to_vec(&sent).map_err(|_| ApiError::internal())?;
        Ok((text, sent))
    })
    .await?;
    *body = sent;
    elsewhere.send(head, text, charge).await
}

/// Returns the gateway that has the kept result which a call reads, in either form of a call.
fn content_owner(body: &Object) -> Option<ReplicaId> {
    let function = body.get("function").map_or(Some(body), Value::as_object)?;
    let name = function.get("name")?.as_str()?;
    agent::content_owner(name, function.get("arguments")?.as_str()?)
}

/// Returns the bytes that a result takes, as it is and in the response.
fn result_bytes(output: &ToolOutput) -> usize {
    let tree = output.structured.as_ref().map_or(0, weight);
    json::text_len(output).saturating_add(tree).saturating_mul(2)
}

/// Returns the caller of a request. The request approves its call.
fn caller(app: &App, sender: &Sender, timeout: Duration) -> Caller {
    let capabilities = CallerCapabilities {
        questions: QuestionKinds::ELICITATION,
        ..CallerCapabilities::default()
    };
    let budget = app.parts.budget.within(timeout);
    let caller =
        Caller::with_capabilities(app.parts.view(sender), Origin::Caller, budget, capabilities);
    match &app.parts.runs {
        Some(runs) if runs.settings().approves_whole_scripts => caller.approving_scripts(),
        _ => caller,
    }
}

/// Makes a call, or resumes one that waits. Fails if the door refuses it.
async fn make(
    caller: &Caller,
    call: &ExecuteCall,
) -> Result<(ResultSource, Result<ToolOutput, CallError>), ApiError> {
    let ExecuteCall { name, arguments, answers, .. } = call;
    let checked = threads::arguments(caller, name, arguments).await;
    let arguments = checked.map_err(|error| {
        caller.report_refusal(name, &error);
        refusal(&error)
    })?;
    Ok(match answers {
        None => {
            let admitted = caller.admit(name, &arguments).map_err(|error| refusal(&error))?;
            (ResultSource::new(&admitted), admitted.run().await)
        }
        Some(answers) => {
            let resumed = caller.resume(name, &arguments, answers.clone());
            let resumed = resumed.map_err(|error| refusal(&error))?;
            (ResultSource::new(resumed.call()), resumed.run().await)
        }
    })
}

/// Returns the message with the result of a call, for a model if there is a presenter.
fn success(
    output: ToolOutput,
    presenter: Option<&Presenter>,
    airlock: &mut Object,
) -> ResultMessage {
    if presenter.is_some() || output.has_more_than_text() {
        airlock.insert(RESULT.to_owned(), json!(output));
    }
    match presenter {
        Some(presenter) => presenter.output(output),
        None => ResultMessage::plain(output.to_text()),
    }
}

/// Returns the message of a failed call. A limit of a script is a message too: it is the script's
/// failure, and the report says what it has done. Fails if the call did not complete otherwise.
fn failure(
    name: &str,
    error: &CallError,
    presenter: Option<&Presenter>,
    airlock: &mut Object,
) -> Result<ResultMessage, ApiError> {
    match error.details() {
        Details::InputRequired(asked) => {
            airlock.insert(INPUT_REQUIRED.to_owned(), input_required(asked));
            return Ok(ResultMessage::plain(error.to_string()));
        }
        Details::Suspended(suspension) => {
            airlock.insert(RUN.to_owned(), suspension.to_json());
            return Ok(ResultMessage::plain(error.to_string()));
        }
        Details::Tool(own) => {
            airlock.insert(RESULT.to_owned(), agent::raw_error(own));
        }
        Details::Report { .. } => {}
        _ => return Err(refusal(error)),
    }
    airlock.insert("error".to_owned(), json!(CallFailure::from(error)));
    Ok(match presenter {
        Some(presenter) => presenter.error(name, error),
        None => ResultMessage::plain(error.to_text()),
    })
}

fn refusal(error: &CallError) -> ApiError {
    let code = error.code();
    let message = error.to_string();
    match code {
        HostCode::Busy | HostCode::CircuitOpen | HostCode::RecordsUnavailable => {
            unavailable(error, message)
        }
        // Not the source of a tool is away, which the error would name: a limit cannot be checked.
        HostCode::Unavailable if error.tool().is_none() => unavailable(error, message),
        HostCode::LimitReached => {
            let status = StatusCode::TOO_MANY_REQUESTS;
            let refused = ApiError::from_status(status, code.as_str(), message);
            later(refused, error.retry_after())
        }
        HostCode::BudgetExceeded => {
            let status = StatusCode::PAYMENT_REQUIRED;
            let refused = ApiError::new(status, "budget_exceeded", code.as_str(), message);
            later(refused, error.retry_after())
        }
        HostCode::ToolsDisabled
        | HostCode::TokenRefused
        | HostCode::PolicyRefused
        | HostCode::GuardDenied
        | HostCode::GuardFailed
        | HostCode::UntrustedContext => ApiError::forbidden(code.as_str(), message),
        HostCode::LoginRequired => login_required(error, message),
        // The status is 400 for compatibility; the type tells client errors from server errors.
        HostCode::NotFound
        | HostCode::BadArguments
        | HostCode::NeedsApproval
        | HostCode::NotWaiting => ApiError::bad_request(code.as_str(), message),
        _ => ApiError::new(StatusCode::BAD_REQUEST, "server_error", code.as_str(), message),
    }
}

fn unavailable(error: &CallError, message: String) -> ApiError {
    let wait = error.retry_after().unwrap_or(Duration::from_secs(1));
    later(ApiError::unavailable(error.code().as_str(), message), Some(wait))
}

/// Sets the time after which the client may try again, if that is known: whole seconds, rounded up, because a client that
/// retries too early is refused again.
fn later(refused: ApiError, wait: Option<Duration>) -> ApiError {
    let Some(wait) = wait else { return refused };
    let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
    refused.with_header(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)))
}

/// Returns the error of a call whose user has to log in first, as Bifrost has it.
fn login_required(error: &CallError, message: String) -> ApiError {
    let code = error.code().as_str();
    let refused = ApiError::new(StatusCode::UNAUTHORIZED, AUTH_REQUIRED, code, message);
    match error.needed_login() {
        Some(login) => refused.with_extra_fields(object(json!({AUTH_REQUIRED: login.to_json()}))),
        None => refused,
    }
}

fn extension(ledger: &Ledger, id: CallId) -> Object {
    let records = ledger.records();
    let mut extension = Object::new();
    if let Some(record) = records.iter().find(|record| record.id == id) {
        extension.insert("duration_ms".to_owned(), agent::milliseconds(record.duration).into());
        extension.extend(record.fuel.map(|fuel| ("fuel".to_owned(), fuel.into())));
    }
    extension.insert("calls".to_owned(), agent::describe(&records, id).into());
    extension
}
