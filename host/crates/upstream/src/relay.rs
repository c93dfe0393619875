//! Relays the requests of MCP clients for resources, prompts and completions to one server, and the
//! server's notifications about them back.
//!
//! The server is asked only with a [`Relay`], which the door has made. A request uses the same places
//! and permits as a tool call, and is bounded in the same way.
//!
//! | module | purpose |
//! |---|---|
//! | `lists` | reads the lists of resources, templates and prompts |
//! | `follow` | keeps lists and subscriptions up to date over one connection |
//! | `turns` | the order of requests about subscriptions to a legacy server, one at a time for each tenant |

mod follow;
mod lists;
mod turns;

use std::sync::Arc;

use serde_json::{Map, Value};

pub(super) use self::follow::{
    follow_events, follow_lists, follow_tools, publish_lists, subscribe,
};
use super::{
    questions::{self, Bound, Refused, ServerResponse},
    server::{Attempted, Linked, NoLink, Retry, Server},
};
use crate::limits::{MAX_FAILURE_BYTES, MAX_RESULT_BYTES};
use airlock_core::{
    door::{Mailbox, Relay, RelayError, RelayRequest, Subject, Subscription},
    tool::Cause,
};
use airlock_json::raw;
use airlock_mcp_client::{AskError, Link, LogMessages, Party, Request, SendError, read_response};
use airlock_strings::{cut, one_line};
use airlock_wire::error::{RpcError, code};
use airlock_wire::method;

/// Sends an admitted request. Returns the result as the text of a JSON object.
pub(super) async fn run(server: &Server, mut relay: Relay) -> Result<String, RelayError> {
    let deadline = relay.deadline();
    let limit = relay.limit();
    let tenant = relay.tenant().clone();
    let permitted = server.permitted(relay.questions());
    let bound = Bound::new(&tenant, &[&to_request(relay.request()).to_text(0, None)]);
    let Retry { parameters, rounds, asker } = match relay.take_answers() {
        None => Retry::default(),
        Some(answers) => {
            server.take_retry(answers, &bound).ok_or(RelayError::NotWaiting)?.map_err(not_asked)?
        }
    };
    let party = Party { tenant: tenant.clone(), session: relay.session() };
    let answered = server.with_link(&tenant, deadline, asker, move |link: Arc<Link>, permits| {
        let mut request = to_request(relay.request())
            .with_caller(party.clone())
            .holding(permits)
            .asking(permitted, None);
        for (name, json) in &parameters {
            request = request.with(name, json.as_str());
        }
        let expected = expected(relay.request());
        async move { ask(&link, request, expected).await }
    });
    match answered.await {
        Ok(Linked { worked, asker }) => match worked? {
            ServerResponse::Complete(result) => Ok(result),
            ServerResponse::InputRequired(asked) => {
                let parked = server.park_retry(asked, Some(asker), bound, permitted, rounds);
                Err(parked.map_or_else(not_asked, RelayError::InputRequired))
            }
        },
        Err(NoLink::Busy) => Err(RelayError::Busy),
        Err(NoLink::Late) => Err(RelayError::Deadline { limit }),
        Err(NoLink::Unavailable(cause)) => Err(RelayError::Unavailable(cause)),
    }
}

fn not_asked(refused: Refused) -> RelayError {
    match refused {
        Refused::Full => RelayError::Busy,
        _ => RelayError::Invalid { reason: "it asks for input, and the caller cannot be asked" },
    }
}

/// Subscribes to the changes of the resource that an admitted request names.
pub(super) fn watch(
    server: &Server,
    relay: &Relay,
    mailbox: &Arc<Mailbox>,
    label: &str,
) -> Result<Subscription, RelayError> {
    match relay.request() {
        RelayRequest::Subscribe { uri } => {
            server.relaying().hub.subscribe(uri, relay.tenant(), mailbox, label)
        }
        _ => Err(RelayError::Unsupported),
    }
}

/// Member that the result of a request must have, and how its JSON text begins.
fn expected(request: &RelayRequest) -> (&'static str, char) {
    match request {
        RelayRequest::Read { .. } => ("contents", '['),
        RelayRequest::Prompt { .. } => ("messages", '['),
        RelayRequest::Complete { .. } => ("completion", '{'),
        RelayRequest::Subscribe { .. } => ("_meta", '{'),
    }
}

fn to_request(request: &RelayRequest) -> Request {
    match request {
        RelayRequest::Read { uri } => Request::new(method::RESOURCES_READ).about("uri", uri),
        RelayRequest::Subscribe { uri } => {
            Request::new(method::RESOURCES_SUBSCRIBE).with("uri", string(uri))
        }
        RelayRequest::Prompt { name, arguments } => {
            let request = Request::new(method::PROMPTS_GET).about("name", name);
            match arguments {
                Some(arguments) => {
                    request.with("arguments", airlock_json::raw::on_one_line(arguments))
                }
                None => request,
            }
        }
        RelayRequest::Complete { subject, argument, context } => {
            let subject = match subject {
                Subject::Prompt(name) => {
                    format!(r#"{{"type":"ref/prompt","name":{}}}"#, string(name))
                }
                Subject::Template(uri) => {
                    format!(r#"{{"type":"ref/resource","uri":{}}}"#, string(uri))
                }
            };
            let request = Request::new(method::COMPLETE)
                .with("ref", subject)
                .with("argument", airlock_json::raw::on_one_line(argument));
            match context {
                Some(context) => request.with("context", airlock_json::raw::on_one_line(context)),
                None => request,
            }
        }
    }
}

fn string(text: &str) -> String {
    Value::from(text).to_string()
}

async fn ask(
    link: &Link,
    request: Request,
    expected: (&str, char),
) -> Attempted<Result<ServerResponse<String>, RelayError>> {
    let error = match link.ask(request.with_logs(LogMessages::Dropped)).text().await {
        Ok(text) => return Attempted::Sent(read(&text, expected)),
        Err(error) => error,
    };
    if matches!(error, AskError::Lost | AskError::Send(_)) && !error.is_full() {
        link.request_check();
    }
    if error.is_unsent() {
        Attempted::Unsent(Err(failed(error)))
    } else {
        Attempted::Sent(Err(failed(error)))
    }
}

fn failed(error: AskError) -> RelayError {
    match error {
        AskError::Refused(error) => refused(&error),
        AskError::TooLarge | AskError::Send(SendError::TooLarge) => too_large(),
        AskError::Unreadable(reason) => RelayError::Invalid { reason },
        error if error.is_full() => RelayError::Busy,
        error => RelayError::Unavailable(Cause::from(error)),
    }
}

fn too_large() -> RelayError {
    RelayError::TooLarge { limit_bytes: MAX_RESULT_BYTES }
}

fn refused(error: &RpcError) -> RelayError {
    if error.code == code::METHOD_NOT_FOUND {
        return RelayError::Unsupported;
    }
    let message = cut(one_line(&error.message), MAX_FAILURE_BYTES);
    let message = if message.is_empty() { "its server refused it".to_owned() } else { message };
    RelayError::Refused { code: error.code, message }
}

/// Reads the result out of a response, as text: its members stay as the server wrote them.
fn read(text: &[u8], (member, begins): (&str, char)) -> Result<ServerResponse<String>, RelayError> {
    let text = std::str::from_utf8(text).map_err(|_| invalid("it is not UTF-8"))?;
    let is_error = raw::member(text, "error").is_some_and(|error| error != "null");
    let result = raw::member(text, "result").filter(|_| !is_error);
    let Some(result) = result.filter(|result| result.starts_with('{')) else {
        return match read_response(text.as_bytes()) {
            Ok(Err(error)) => Err(refused(&error)),
            Ok(Ok(_)) => Err(invalid("its result is not an object")),
            Err(reason) => Err(invalid(reason)),
        };
    };
    if result.len() > MAX_RESULT_BYTES {
        return Err(too_large());
    }
    match raw::member(result, "resultType").map(raw::string) {
        None => {}
        Some(Some(kind)) if kind == "complete" => {}
        Some(Some(kind)) if kind == "input_required" => {
            let mut result: Map<String, Value> =
                serde_json::from_str(result).map_err(|_| invalid("its result is not an object"))?;
            return questions::read_required_input(&mut result)
                .map(ServerResponse::InputRequired)
                .map_err(not_asked);
        }
        Some(_) => return Err(invalid("its result is of an unknown type")),
    }
    match raw::member(result, member) {
        Some(value) if value.starts_with(begins) => Ok(ServerResponse::Complete(result.to_owned())),
        _ => Err(invalid("a member of its result is missing")),
    }
}

fn invalid(reason: &'static str) -> RelayError {
    RelayError::Invalid { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: (&str, char) = ("contents", '[');

    fn read(text: &[u8], expected: (&str, char)) -> Result<String, RelayError> {
        match super::read(text, expected) {
            Ok(ServerResponse::Complete(text)) => Ok(text),
            Ok(ServerResponse::InputRequired(_)) => panic!("it asks"),
            Err(error) => Err(error),
        }
    }

    #[test]
    fn a_result_is_passed_on_as_it_was_written() {
        let text = br#"{"jsonrpc":"2.0","id":1,"result":{"contents":[{"n":1.10}],"x":null}}"#;
        assert_eq!(read(text, READ).expect("a result"), r#"{"contents":[{"n":1.10}],"x":null}"#);
        let complete = br#"{"result":{"resultType":"complete","contents":[]}}"#;
        assert!(read(complete, READ).is_ok());
    }

    #[test]
    fn what_is_no_result_fails_with_a_reason() {
        for text in [
            r#"{"result":{}}"#,
            r#"{"result":{"contents":{}}}"#,
            r#"{"result":[]}"#,
            r#"{"result":null}"#,
            r#"{"result":{"contents":[],"resultType":"task"}}"#,
            r#"{"result":{"contents":[],"resultType":7}}"#,
            r#"{"result":{"contents":[],"resultType":"input_required"}}"#,
            r#"{"id":1}"#,
        ] {
            let found = read(text.as_bytes(), READ);
            assert!(matches!(found, Err(RelayError::Invalid { .. })), "{text} {found:?}");
        }
        let refused = read(br#"{"error":{"code":-32002,"message":"no\nsuch"}}"#, READ);
        assert!(
            matches!(&refused, Err(RelayError::Refused { code: -32_002, message }) if message == "no such"),
            "{refused:?}"
        );
        let unknown = read(br#"{"error":{"code":-32601,"message":"?"}}"#, READ);
        assert!(matches!(unknown, Err(RelayError::Unsupported)), "{unknown:?}");
    }

    #[test]
    fn a_result_is_bounded_to_the_byte() {
        assert!(read(response(MAX_RESULT_BYTES).as_bytes(), READ).is_ok());
        let beyond = read(response(MAX_RESULT_BYTES + 1).as_bytes(), READ);
        assert!(matches!(beyond, Err(RelayError::TooLarge { .. })));
    }

    /// Returns a response with a result of so many bytes.
    fn response(bytes: usize) -> String {
        let frame = r#"{"contents":[],"x":""}"#.len();
        format!(r#"{{"result":{{"contents":[],"x":"{}"}}}}"#, "x".repeat(bytes - frame))
    }
}
