//! Converts the text of a message that has passed the inbox to the type that `rmcp` receives.

use std::borrow::Cow;

use rmcp::{
    model::{
        CustomRequest, CustomResult, ErrorCode, ErrorData, Extensions, PingRequest,
        PingRequestMethod, RequestId, ServerJsonRpcMessage, ServerRequest, ServerResult,
    },
    service::ServiceError,
};
use serde::Deserialize;
use serde_json::Value;

use super::limits::{MAX_MESSAGE_BYTES, MAX_METHOD_BYTES, MAX_TREE_BYTES};
use crate::{json, text::cut};

/// Error code of the error that replaces a response over a bound. A server that sends this code
/// itself reports its own response as too large.
const TOO_LARGE: ErrorCode = ErrorCode(-32_099);

/// Kind of a request that the gateway has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// A tool call, whose result is parsed once and kept as received.
    ToolCall,
    /// Any other request, whose result `rmcp` decodes.
    Other,
}

/// Returns whether a text is JSON that may be parsed into a tree.
pub(super) fn fits(text: &[u8]) -> bool {
    text.len() <= MAX_MESSAGE_BYTES
        && json::check(text, &json::Caps::memory(MAX_TREE_BYTES)).is_ok()
}

/// Returns whether an error stands for a response over a bound.
pub(super) fn is_too_large(error: &ServiceError) -> bool {
    matches!(error, ServiceError::McpError(error) if error.code == TOO_LARGE)
}

/// Returns the error that replaces a response over a bound.
fn too_large(id: RequestId) -> ServerJsonRpcMessage {
    let message = format!("the answer takes more than {MAX_TREE_BYTES} bytes of memory");
    ServerJsonRpcMessage::error(ErrorData::new(TOO_LARGE, message, None), Some(id))
}

/// Returns the error that replaces a response that was not passed on: over a bound, or malformed.
pub(super) fn unusable(text: &[u8], id: RequestId) -> ServerJsonRpcMessage {
    let is_over_a_bound = text.len() > MAX_MESSAGE_BYTES
        || matches!(json::check(text, &json::Caps::memory(MAX_TREE_BYTES)), Err(error) if error.is_cap());
    if is_over_a_bound { too_large(id) } else { malformed(id) }
}

fn malformed(id: RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(
        ErrorData::internal_error("the answer is not JSON-RPC", None),
        Some(id),
    )
}

/// Builds a request that has only a method name. `rmcp` refuses every method but `ping`.
pub(super) fn bare_request(method: Cow<'_, str>, id: RequestId) -> ServerJsonRpcMessage {
    let request = if method == "ping" {
        ServerRequest::PingRequest(PingRequest {
            method: PingRequestMethod,
            extensions: Extensions::default(),
        })
    } else {
        ServerRequest::CustomRequest(CustomRequest::new(
            cut(method.into_owned(), MAX_METHOD_BYTES),
            None,
        ))
    };
    ServerJsonRpcMessage::request(request, id)
}

/// Parses a message that has passed. A response of no known shape is replaced by an error, so that
/// its call does not have to wait.
pub(super) fn message(
    text: &[u8],
    answers: Option<(RequestId, RequestKind)>,
) -> Option<ServerJsonRpcMessage> {
    if let Some((id, RequestKind::ToolCall)) = &answers
        && let Ok(Raw { result: Some(result) }) = serde_json::from_slice(text)
    {
        return Some(ServerJsonRpcMessage::response(
            ServerResult::CustomResult(CustomResult(result)),
            id.clone(),
        ));
    }
    serde_json::from_slice(text).ok().or_else(|| answers.map(|(id, _)| malformed(id)))
}

/// A result as received. `rmcp` decodes a result into the first of twenty shapes that fits, which
/// takes several trees.
#[derive(Deserialize)]
struct Raw {
    result: Option<Value>,
}

/// Returns the error in a message, whatever request it names; `None` if there is none.
pub(super) fn refusal(text: &[u8]) -> Option<ErrorData> {
    #[derive(Deserialize)]
    struct Refusal {
        error: ErrorData,
    }
    serde_json::from_slice(text).ok().map(|Refusal { error }| error)
}
