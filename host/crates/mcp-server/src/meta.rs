//! Reads the client of a request: from `_meta`, or from the parameters of `initialize`.

use std::sync::Arc;

pub(crate) use airlock_core::door::LogLevel;
use airlock_core::tool::{QuestionKind, QuestionKinds};
use airlock_json::raw;
use airlock_strings::{MAX_NAME_BYTES, cut, visible_line};
use airlock_wire::{
    error::RpcError,
    message::{MAX_REQUEST_ID_BYTES, META_VERSION, Params},
    version::Version,
};

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Name of the extension for tasks.
pub(super) const TASKS: &str = "io.modelcontextprotocol/tasks";
const PROGRESS_TOKEN: &str = "progressToken";

/// The client of a request, as far as the gateway knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Revision of the request.
    pub version: Version,
    /// Questions that the client can answer: a form is for its user.
    pub questions: QuestionKinds,
    /// The least severe log messages that the client receives; `None` for no messages.
    pub log_level: Option<LogLevel>,
    /// True if it takes a task for the result of a call: a modern client declares the extension, and a
    /// legacy one may ask for a task.
    pub takes_tasks: bool,
}

impl Peer {
    /// Reads the client of a modern request. Fails if a required member of `_meta` is missing or is of a
    /// wrong type, or if the gateway does not speak the revision.
    pub fn modern(params: &Params) -> Result<Self, RpcError> {
        let named = params.version().ok_or_else(|| missing(META_VERSION, "a string"))?;
        let capabilities = params
            .meta(CAPABILITIES)
            .filter(|capabilities| capabilities.starts_with('{'))
            .ok_or_else(|| missing(CAPABILITIES, "an object"))?;
        let version = Version::find(&named)
            .filter(|version| version.is_modern())
            .ok_or_else(|| RpcError::unsupported_version(&named))?;
        let level = params.meta(LOG_LEVEL).map(|level| log_level(LOG_LEVEL, Some(level)));
        let log_level = level.transpose()?;
        let extensions = raw::member(capabilities, "extensions");
        let tasks = extensions.and_then(|extensions| raw::member(extensions, TASKS));
        let takes_tasks = tasks.is_some_and(|tasks| tasks.starts_with('{'));
        Ok(Self { version, questions: questions(capabilities), log_level, takes_tasks })
    }

    /// Reads the client of an `initialize` request, with the revision that answers it. It receives no
    /// log messages until it sets a level.
    pub fn initializing(params: &Params) -> Result<Self, RpcError> {
        let requested = params.string("protocolVersion");
        let requested = requested
            .ok_or_else(|| RpcError::invalid_params("`protocolVersion` must be a string"))?;
        let capabilities = params.get("capabilities").unwrap_or("{}");
        let version = Version::negotiate(&requested);
        Ok(Self {
            version,
            questions: questions(capabilities),
            log_level: None,
            takes_tasks: version == Version::V2025_11_25,
        })
    }
}

/// Reads a member that names a level of log messages. Fails if it is missing or names none.
pub(crate) fn log_level(member: &str, text: Option<&str>) -> Result<LogLevel, RpcError> {
    let name = text.and_then(raw::string).unwrap_or_default();
    LogLevel::find(&name).ok_or_else(|| {
        let levels = LogLevel::ALL.map(LogLevel::as_str).join(", ");
        RpcError::invalid_params(format!("`{member}` must be one of {levels}"))
    })
}

fn missing(name: &str, expected: &str) -> RpcError {
    RpcError::invalid_params(format!("`_meta` must have \"{name}\", {expected}"))
}

/// Returns the name that the client of a modern request has sent (`clientInfo`), if any.
pub fn client_name(params: &Params) -> Option<Arc<str>> {
    name(params.meta(CLIENT_INFO)?)
}

/// Returns the name that the client of an `initialize` request has sent (`clientInfo`), if any.
pub fn initialized_name(params: &Params) -> Option<Arc<str>> {
    name(params.get("clientInfo")?)
}

/// Reads the name of MCP's `Implementation` object, without hidden characters.
fn name(implementation: &str) -> Option<Arc<str>> {
    let name = raw::member(implementation, "name").and_then(raw::string)?;
    let name = cut(visible_line(&name), MAX_NAME_BYTES);
    (!name.is_empty()).then(|| name.into())
}

/// Reads the questions that a client can answer from its capabilities. An empty `elicitation` means
/// forms (2025-11-25, section "Elicitation").
fn questions(capabilities: &str) -> QuestionKinds {
    let modes = capability(capabilities, "elicitation");
    let has_urls = modes.is_some_and(|modes| raw::member(modes, "url").is_some());
    let has_forms = modes.is_some_and(|modes| !has_urls || raw::member(modes, "form").is_some());
    QuestionKinds::NONE
        .with(QuestionKind::Form, has_forms)
        .with(QuestionKind::Url, has_urls)
        .with(QuestionKind::Sampling, capability(capabilities, "sampling").is_some())
        .with(QuestionKind::Roots, capability(capabilities, "roots").is_some())
}

/// Returns a capability, as JSON text; `None` if it is not an object.
fn capability<'a>(capabilities: &'a str, name: &str) -> Option<&'a str> {
    raw::member(capabilities, name).filter(|capability| capability.starts_with('{'))
}

/// Returns the token by which the client wants progress, as JSON text; `None` if it wants none.
/// Fails if the token is neither a string nor a number, or is too long.
pub(crate) fn progress_token(params: &Params) -> Result<Option<&str>, RpcError> {
    let Some(token) = params.meta(PROGRESS_TOKEN) else { return Ok(None) };
    let is_token = token.starts_with(|c: char| matches!(c, '"' | '-' | '0'..='9'));
    if is_token && token.len() <= MAX_REQUEST_ID_BYTES {
        Ok(Some(token))
    } else {
        Err(RpcError::invalid_params(
            "`_meta.progressToken` must be a string or a number, of at most 256 bytes",
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::tests::params as read;

    fn params(version: &Value, capabilities: &Value) -> Params {
        read(&json!({"_meta": {META_VERSION: version, CAPABILITIES: capabilities}}).to_string())
    }

    #[test]
    fn a_modern_request_names_its_revision_and_what_the_client_can_do() {
        let peer = Peer::modern(&params(&json!("2026-07-28"), &json!({"elicitation": {}})));
        let questions = QuestionKinds::NONE.with(QuestionKind::Form, true);
        let version = Version::V2026_07_28;
        let expected = Peer { version, questions, log_level: None, takes_tasks: false };
        assert_eq!(peer, Ok(expected));
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let peer = Peer::modern(&params(&json!("2026-07-28"), &tasks));
        assert!(peer.is_ok_and(|peer| peer.takes_tasks));
        assert_eq!(code(&read("{}")), -32602);
        assert_eq!(code(&params(&json!(7), &json!({}))), -32602);
        assert_eq!(code(&params(&json!("2026-07-28"), &json!([]))), -32602);
        assert_eq!(code(&params(&json!("2025-11-25"), &json!({}))), -32022);
        let error = Peer::modern(&params(&json!("v9"), &json!({}))).expect_err("refused");
        assert_eq!(error.data, Some(json!({"supported": ["2026-07-28"], "requested": "v9"})));
    }

    fn code(params: &Params) -> i64 {
        Peer::modern(params).expect_err("refused").code
    }

    #[test]
    fn a_client_can_answer_what_its_capabilities_name() {
        use QuestionKind::{Form, Roots, Sampling, Url};
        for (capabilities, expected) in [
            (json!({}), &[][..]),
            (json!({"elicitation": {}}), &[Form]),
            (json!({"elicitation": {"form": {}}}), &[Form]),
            (json!({"elicitation": {"form": {}, "url": {}}}), &[Form, Url]),
            (json!({"elicitation": {"url": {}}}), &[Url]),
            (json!({"elicitation": true, "roots": []}), &[]),
            (json!({"sampling": {}, "roots": {"listChanged": true}}), &[Sampling, Roots]),
        ] {
            let expected =
                expected.iter().fold(QuestionKinds::NONE, |kinds, kind| kinds.with(*kind, true));
            assert_eq!(questions(&capabilities.to_string()), expected, "{capabilities}");
        }
    }

    #[test]
    fn a_progress_token_is_a_string_or_a_number() {
        for (token, expected) in
            [("7", Some("7")), ("\"a\"", Some("\"a\"")), ("-1.5", Some("-1.5"))]
        {
            let params = format!(r#"{{"_meta":{{"progressToken":{token}}}}}"#);
            assert_eq!(progress_token(&read(&params)), Ok(expected), "{token}");
        }
        assert_eq!(progress_token(&read("{}")), Ok(None));
        for (length, is_taken) in
            [(MAX_REQUEST_ID_BYTES - 2, true), (MAX_REQUEST_ID_BYTES - 1, false)]
        {
            let token = "x".repeat(length);
            let params = read(&format!(r#"{{"_meta":{{"progressToken":"{token}"}}}}"#));
            assert_eq!(progress_token(&params).is_ok(), is_taken, "{length}");
        }
        assert!(progress_token(&read(r#"{"_meta":{"progressToken":null}}"#)).is_err());
        assert!(progress_token(&read(r#"{"_meta":{"progressToken":{}}}"#)).is_err());
    }

    #[test]
    fn a_log_level_is_one_of_eight() {
        assert_eq!(log_level("level", Some("\"warning\"")), Ok(LogLevel::Warning));
        assert!(LogLevel::Debug < LogLevel::Info && LogLevel::Info < LogLevel::Emergency);
        for bad in [None, Some("\"warn\""), Some("7")] {
            assert!(log_level("level", bad).is_err());
        }
    }
}
