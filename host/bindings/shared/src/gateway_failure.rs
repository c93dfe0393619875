//! Failures of a gateway and of requests to it, as data: one class for each reason that a program can act on.

use std::time::Duration;

use airlock::{
    BadNativeTool, CallToApprove, ChatFailure, GatewayError, PendingApproval, RequestError,
    config::ConfigError,
    tool::{CallError, CallFailure},
};
use airlock_strings::{cut, one_line, with_causes};
use serde_json::{Map, Value, json};

use crate::BindingFailure;

/// Bytes of the message of a provider that the message of a failure repeats at most: programs log it as one line, and the
/// provider chooses its length. The `error` of the details has all of it.
const MAX_REPEATED_BYTES: usize = 500;

/// Failure of a gateway of the program, or of a request to it.
#[derive(Debug)]
pub struct GatewayFailure {
    /// Name of the exception's class in each language.
    pub class: &'static str,
    /// Code for programs, as the HTTP API has it.
    pub code: String,
    /// The failure, for people.
    pub message: String,
    /// Further members of the exception, which depend on its class.
    pub details: Map<String, Value>,
}

impl BindingFailure {
    /// Creates the failure of a call that waits for an approval.
    pub(crate) fn approval_pending(pending: &PendingApproval) -> Self {
        let tools: Vec<&str> = pending.calls.iter().map(|call| call.tool.as_str()).collect();
        let mut details = Map::new();
        details.insert("pending".to_owned(), pending_to_json(pending));
        Self::gateway(
            "ApprovalPending",
            "approval_pending",
            format!("calls of {} wait for an approval: {}", tools.join(", "), pending.id),
            details,
        )
    }

    /// Creates the failure of a gateway that has stopped, or that another process has.
    pub fn stopped(message: &str) -> Self {
        Self::gateway("GatewayStopped", "gateway_stopping", message.to_owned(), Map::new())
    }

    fn gateway(
        class: &'static str,
        code: impl Into<String>,
        message: String,
        details: Map<String, Value>,
    ) -> Self {
        Self::Gateway(Box::new(GatewayFailure { class, code: code.into(), message, details }))
    }
}

impl From<RequestError> for BindingFailure {
    fn from(error: RequestError) -> Self {
        let mut details = Map::new();
        let class = match &error {
            RequestError::UnknownKey => "UnknownKey",
            RequestError::KeyRequired => "KeyRequired",
            RequestError::Name(_) => "BadName",
            RequestError::NotReady => "GatewayNotReady",
            RequestError::Stopped => "GatewayStopped",
            RequestError::Memory(_) => "GatewayOverloaded",
            RequestError::Call(error) => {
                details = call_details(error);
                "CallFailed"
            }
            RequestError::NotWaiting(_) => "NotWaiting",
            RequestError::OperatorRequired => "OperatorRequired",
            RequestError::Run { .. } => "RunChanged",
            RequestError::Store(_) => "StoreUnavailable",
            RequestError::Conversation(_) => "BadConversation",
            RequestError::Chat(failure) => {
                details = chat_details(failure);
                "ChatFailed"
            }
            _ => "GatewayError",
        };
        let message = match &error {
            RequestError::Store(_) => with_causes(&error),
            RequestError::Chat(failure) => chat_message(&error.to_string(), &failure.to_object()),
            _ => error.to_string(),
        };
        Self::gateway(class, error.code(), message, details)
    }
}

impl From<GatewayError> for BindingFailure {
    fn from(error: GatewayError) -> Self {
        let (class, code) = match &error {
            GatewayError::Configuration { .. } => ("ConfigurationError", "bad_configuration"),
            GatewayError::Listen { .. } => ("StartFailed", "listen"),
            GatewayError::Threads(_) => ("StartFailed", "threads"),
            GatewayError::Served => ("StartFailed", "served"),
            GatewayError::Guard(_) => ("StartFailed", "guard"),
            GatewayError::Sandbox(_) => ("StartFailed", "sandbox"),
            _ => ("StartFailed", "gateway"),
        };
        Self::gateway(class, code, with_causes(&error), Map::new())
    }
}

impl From<ConfigError> for BindingFailure {
    fn from(error: ConfigError) -> Self {
        let message = with_causes(&error);
        Self::gateway("ConfigurationError", "bad_configuration", message, Map::new())
    }
}

impl From<BadNativeTool> for BindingFailure {
    fn from(error: BadNativeTool) -> Self {
        Self::BadTool(with_causes(&error))
    }
}

/// Returns the failure of a value that has no JSON form.
pub(crate) fn not_converted(error: &serde_json::Error) -> BindingFailure {
    BindingFailure::Unavailable(format!("a value of the gateway has no JSON form: {error}"))
}

/// Describes calls that wait.
pub(crate) fn pending_to_json(pending: &PendingApproval) -> Value {
    let PendingApproval { id, caller, calls, .. } = pending;
    let calls: Vec<Value> = calls.iter().map(call_to_json).collect();
    json!({"id": id, "caller": caller, "calls": calls})
}

/// Describes a call that waits. Arguments are JSON, or the text if they are none. Other members without contents are left
/// out.
fn call_to_json(call: &CallToApprove) -> Value {
    let CallToApprove { tool, arguments, sources, argument_sources, asked_by, manifest, .. } = call;
    let mut described = json!({"tool": tool, "arguments": arguments_to_json(arguments)});
    if !sources.is_empty() {
        described["sources"] = json!(sources);
    }
    if let Some(argument_sources) = argument_sources {
        described["argument_sources"] = json!(argument_sources);
    }
    if !asked_by.is_empty() {
        described["asked_by"] = json!(asked_by);
    }
    if !manifest.is_empty() {
        described["manifest"] = json!(manifest);
    }
    described
}

fn arguments_to_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn call_details(error: &CallError) -> Map<String, Value> {
    let CallFailure { kind, retry_after_ms, .. } = CallFailure::from(error);
    let mut details = Map::new();
    details.insert("kind".to_owned(), json!(kind));
    details.insert("retry_after".to_owned(), seconds(retry_after_ms).into());
    details
}

fn chat_details(failure: &ChatFailure) -> Map<String, Value> {
    let wait = failure.retry_after().map(|wait| wait.as_secs_f64());
    let mut details = Map::new();
    details.insert("status".to_owned(), failure.status().into());
    details.insert("error".to_owned(), failure.to_object().into());
    details.insert("retry_after".to_owned(), wait.into());
    details
}

/// Returns the message of a chat that has failed: `failure`, with the reason in the `error` object of its provider.
fn chat_message(failure: &str, error: &Map<String, Value>) -> String {
    let reason = error.get("message").and_then(Value::as_str).map(one_line).unwrap_or_default();
    if reason.is_empty() || failure.contains(&reason) {
        failure.to_owned()
    } else if reason.starts_with(failure) {
        cut(reason, MAX_REPEATED_BYTES)
    } else {
        format!("{failure}: {}", cut(reason, MAX_REPEATED_BYTES))
    }
}

fn seconds(milliseconds: Option<u64>) -> Option<f64> {
    milliseconds.map(|milliseconds| Duration::from_millis(milliseconds).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(error: impl Into<BindingFailure>) -> (&'static str, String) {
        match error.into() {
            BindingFailure::Gateway(failure) => (failure.class, failure.code),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn each_kind_of_error_has_a_class_and_the_code_of_the_http_api() {
        for (error, class, code) in [
            (RequestError::UnknownKey, "UnknownKey", "invalid_api_key"),
            (RequestError::KeyRequired, "KeyRequired", "invalid_api_key"),
            (RequestError::Name("a,b".into()), "BadName", "bad_header"),
            (RequestError::NotReady, "GatewayNotReady", "settings_unavailable"),
            (RequestError::Stopped, "GatewayStopped", "gateway_stopping"),
            (CallError::cancelled().into(), "CallFailed", "airlock.cancelled"),
            (RequestError::NotWaiting("call_1".into()), "NotWaiting", "approval_not_found"),
            (RequestError::OperatorRequired, "OperatorRequired", "operator_required"),
        ] {
            assert_eq!(failure(error), (class, code.to_owned()));
        }
    }

    fn message(reason: &str) -> String {
        let error = Map::from_iter([("message".to_owned(), Value::from(reason))]);
        chat_message("status 502", &error)
    }

    #[test]
    fn the_message_of_a_failed_chat_has_the_reason_of_its_provider_once() {
        assert_eq!(message("no\nweights"), "status 502: no weights");
        assert_eq!(message("status 502: no weights"), "status 502: no weights");
        assert_eq!(message("status 502"), "status 502");
        assert_eq!(message(""), "status 502");
        assert_eq!(chat_message("status 502", &Map::new()), "status 502");
        assert!(message(&"a".repeat(2 * MAX_REPEATED_BYTES)).len() < 600);
    }

    #[test]
    fn a_call_that_waits_has_its_arguments_as_data() {
        assert_eq!(arguments_to_json(r#"{"amount": 20}"#), json!({"amount": 20}));
        assert_eq!(arguments_to_json("{"), json!("{"));
    }
}
