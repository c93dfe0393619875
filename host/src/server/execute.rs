//! `POST /v1/mcp/tool/execute`: runs one tool for a caller. The request itself is the caller's
//! approval.
//!
//! The body is a tool call as a model writes it. The response is the message that a model is sent
//! back: in the form of chat completions, or of responses with `?format=responses`. The response
//! also has an `airlock` object, with `duration_ms`, `fuel` if the tool ran in the sandbox, `calls`
//! with the calls that the tool made in turn, and `error.code` if the tool failed. A tool may ask the user during a call:
//! `input_required` has the questions, and the caller sends the call once more with
//! `request_state` and `input_responses`. A script that stops at a call that needs an approval is
//! described by `run`; executed again with `request_state`, it is resumed, and the calls that were
//! shown are approved.

use std::collections::BTreeMap;

use http::{HeaderValue, Request, StatusCode, header};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    App, Sender,
    memory::Charge,
    options,
    respond::{self, ApiError, Reply},
};
use crate::{
    agent::{self, EXTENSION, INPUT_REQUIRED, RUN, input_required},
    catalog::log_failure,
    door::{CallId, Caller, Hearing, Ledger, Origin},
    model::{Object, object},
    tool::{Answers, CallError, QuestionKinds, ToolError},
};

/// Runs the tool that the body names. An error result of the tool is a normal response with
/// `is_error`. Fails if the call is refused or does not complete.
pub(super) async fn run(
    app: &App,
    sender: &Sender,
    request: Request<Incoming>,
    charge: &Charge,
) -> Result<Reply, ApiError> {
    let format = Format::parse(request.uri().query())?;
    let timeout = options::timeout(request.headers(), app.budget.script.max(app.budget.deadline))?;
    let call = format.read(app.intake.object(request, &app.settings, charge).await?)?;
    let view = app.view(sender);
    let budget = app.budget.within(timeout);
    let hearing = Hearing { questions: QuestionKinds::ELICITATION, ..Hearing::default() };
    let mut caller = Caller::hearing(view, Origin::Caller, budget, hearing);
    if app.hooks.runs.as_ref().is_some_and(|runs| runs.settings().approves_whole_scripts) {
        caller = caller.approving_scripts();
    }
    let (name, arguments) = (&call.name, &call.arguments);
    let (id, result) = match call.answers {
        None => {
            let admitted = caller.admit(name, arguments).map_err(|error| refusal(&error))?;
            (admitted.chain().id(), admitted.run().await)
        }
        Some(answers) => {
            let resumed =
                caller.resume(name, arguments, answers).map_err(|error| refusal(&error))?;
            (resumed.id(), resumed.run().await)
        }
    };
    log_failure(name, result.as_ref().err());
    let mut airlock = extension(caller.ledger(), id);
    let mut reply = match result {
        Ok(output) => format.write(call.id, &output.to_text()),
        // Also a limit of a script: it is the script's failure, and the report says what it has done.
        Err(error @ (CallError::Tool(_) | CallError::ScriptLimit { .. })) => {
            airlock.insert("error".to_owned(), json!({"code": code(&error)}));
            let mut reply = format.write(call.id, &error.to_text());
            reply.insert("is_error".to_owned(), true.into());
            reply
        }
        Err(error @ CallError::InputRequired { .. }) => {
            if let CallError::InputRequired { asked, .. } = &error {
                airlock.insert(INPUT_REQUIRED.to_owned(), input_required(asked));
            }
            let mut reply = format.write(call.id, &error.to_string());
            reply.insert("is_error".to_owned(), true.into());
            reply
        }
        Err(error @ CallError::Suspended(_)) => {
            if let CallError::Suspended(suspension) = &error {
                airlock.insert(RUN.to_owned(), suspension.to_json());
            }
            let mut reply = format.write(call.id, &error.to_string());
            reply.insert("is_error".to_owned(), true.into());
            reply
        }
        Err(error) => return Err(refusal(&error).with_airlock(airlock)),
    };
    reply.insert(EXTENSION.to_owned(), airlock.into());
    Ok(respond::json(&reply.into()))
}

fn refusal(error: &CallError) -> ApiError {
    match error {
        CallError::Busy | CallError::CircuitOpen { .. } => {
            // Whole seconds, rounded up: a client that retries too early is refused again.
            let seconds = error
                .retry_after()
                .map_or(1, |wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
            ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "server_error",
                error.code(),
                error.to_string(),
            )
            .with_header(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)))
        }
        // The status is 400 for compatibility; the type tells client errors from server errors.
        CallError::NotFound { .. }
        | CallError::BadArguments { .. }
        | CallError::InvalidArguments { .. }
        | CallError::NeedsApproval { .. }
        | CallError::NotWaiting { .. } => ApiError::bad_request(error.code(), error.to_string()),
        _ => {
            ApiError::new(StatusCode::BAD_REQUEST, "server_error", error.code(), error.to_string())
        }
    }
}

/// Returns the code of a failure of the tool itself: its own, if it has one.
fn code(error: &CallError) -> &str {
    match error {
        CallError::Tool(ToolError { code: Some(code), .. }) => code,
        error => error.code(),
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

/// OpenAI API whose form a call has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Chat,
    Responses,
}

/// Tool call, from either form.
#[derive(Debug)]
struct Call {
    /// Echoed unchanged, whatever its type.
    id: Option<Value>,
    name: String,
    arguments: String,
    answers: Option<Answers>,
}

/// Members of a body that resume a call that waits for answers.
#[derive(Default, Deserialize)]
struct Answered {
    request_state: Option<String>,
    #[serde(default)]
    input_responses: BTreeMap<String, Object>,
}

#[derive(Deserialize)]
struct ChatCall {
    id: Option<Value>,
    function: Option<Function>,
}

#[derive(Deserialize)]
struct ResponsesCall {
    call_id: Option<Value>,
    #[serde(flatten)]
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<String>,
}

impl Format {
    fn parse(query: Option<&str>) -> Result<Self, ApiError> {
        let mut pairs =
            query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        match pairs.find(|(key, _)| *key == "format").map_or("", |(_, value)| value) {
            "" => Ok(Self::Chat),
            value if value.eq_ignore_ascii_case("chat") => Ok(Self::Chat),
            value if value.eq_ignore_ascii_case("responses") => Ok(Self::Responses),
            _ => Err(ApiError::bad_request(
                "invalid_format",
                "Invalid format value, must be 'chat' or 'responses'",
            )
            .about("format")),
        }
    }

    fn read(self, body: Object) -> Result<Call, ApiError> {
        let body = Value::from(body);
        let bad_json = |error: serde_json::Error| {
            ApiError::bad_request("invalid_json", format!("Invalid request format: {error}"))
        };
        let Answered { request_state, input_responses } =
            Answered::deserialize(&body).map_err(bad_json)?;
        let (id, function) = match self {
            Self::Chat => {
                serde_json::from_value::<ChatCall>(body).map(|call| (call.id, call.function))
            }
            Self::Responses => serde_json::from_value::<ResponsesCall>(body)
                .map(|call| (call.call_id, Some(call.function))),
        }
        .map_err(bad_json)?;
        let function = function.unwrap_or(Function { name: None, arguments: None });
        let name = function.name.filter(|name| !name.is_empty());
        let (place, example) = match self {
            Self::Chat => ("function.name", r#"{"function": {"name": …, "arguments": …}}"#),
            Self::Responses => ("name", r#"{"name": …, "arguments": …} with format=responses"#),
        };
        let missing = || {
            format!("Tool function name is required: no `{place}` in the body, expected {example}")
        };
        let name =
            name.ok_or_else(|| ApiError::bad_request("missing_name", missing()).about(place))?;
        let given = input_responses
            .into_iter()
            .map(|(key, answer)| (key, Some(Value::from(answer).to_string())))
            .collect();
        let answers = request_state.map(|token| Answers { token, given });
        Ok(Call { id, name, arguments: function.arguments.unwrap_or_default(), answers })
    }

    fn write(self, id: Option<Value>, text: &str) -> Object {
        let (mut reply, id_key) = match self {
            Self::Chat => (object(json!({"role": "tool", "content": text})), "tool_call_id"),
            Self::Responses => {
                (object(json!({"type": "function_call_output", "output": text})), "call_id")
            }
        };
        reply.extend(id.map(|id| (id_key.to_owned(), id)));
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_chat_unless_the_query_selects_responses() {
        for (query, format) in [
            (None, Format::Chat),
            (Some(""), Format::Chat),
            (Some("format="), Format::Chat),
            (Some("a=b&format=CHAT"), Format::Chat),
            (Some("format=Responses"), Format::Responses),
        ] {
            assert_eq!(Format::parse(query).expect("a good format"), format, "{query:?}");
        }
        assert!(Format::parse(Some("format=xml")).is_err());
    }

    #[test]
    fn a_call_needs_a_name_and_keeps_its_id() {
        let call = Format::Chat
            .read(object(json!({"id": 7, "function": {"name": "t"}})))
            .expect("a good call");
        assert_eq!(
            (call.id, call.name.as_str(), call.arguments.as_str()),
            (Some(json!(7)), "t", "")
        );
        let call = Format::Responses
            .read(object(json!({"name": "t", "arguments": "{}"})))
            .expect("a good call");
        assert_eq!((call.id, call.arguments.as_str()), (None, "{}"));
        for bad in [
            json!({}),
            json!({"function": {}}),
            json!({"function": {"name": ""}}),
            json!({"function": {"name": 1}}),
        ] {
            assert!(Format::Chat.read(object(bad)).is_err());
        }
    }
}
