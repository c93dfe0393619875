//! From the text of a message, once it has passed the inbox, to what `rmcp` is handed.

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

/// Stands in for an answer that is over a bound. A server that sends it itself says of its own
/// answer that it is too large.
const TOO_LARGE: ErrorCode = ErrorCode(-32_099);

/// Kind of one of our requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// A tool's result: read once, and as it came.
    Call,
    /// Anything else; `rmcp` knows its shape.
    Other,
}

/// Whether a text is JSON that may be parsed into a tree.
pub(super) fn fits(text: &[u8]) -> bool {
    text.len() <= MAX_MESSAGE_BYTES
        && json::check(text, &json::Caps::memory(MAX_TREE_BYTES)).is_ok()
}

/// Whether an error stands for an answer over a bound.
pub(super) fn is_too_large(error: &ServiceError) -> bool {
    matches!(error, ServiceError::McpError(error) if error.code == TOO_LARGE)
}

/// The error in place of an answer that is over a bound.
fn too_large(id: RequestId) -> ServerJsonRpcMessage {
    let message = format!("the answer takes more than {MAX_TREE_BYTES} bytes of memory");
    ServerJsonRpcMessage::error(ErrorData::new(TOO_LARGE, message, None), Some(id))
}

/// The error in place of an answer that did not pass.
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

/// A request by its name alone. `rmcp` refuses every one but `ping`.
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

/// Parses what has passed. An answer that is of no known shape is answered for, so that its call
/// need not wait.
pub(super) fn message(
    text: &[u8],
    answers: Option<(RequestId, Asked)>,
) -> Option<ServerJsonRpcMessage> {
    if let Some((id, Asked::Call)) = &answers
        && let Ok(Raw { result: Some(result) }) = serde_json::from_slice(text)
    {
        return Some(ServerJsonRpcMessage::response(
            ServerResult::CustomResult(CustomResult(result)),
            id.clone(),
        ));
    }
    serde_json::from_slice(text).ok().or_else(|| answers.map(|(id, _)| malformed(id)))
}

/// A result as it came. `rmcp` decodes a result into the first of twenty shapes that fits, which
/// takes several trees.
#[derive(Deserialize)]
struct Raw {
    result: Option<Value>,
}

/// The error in a message, for whichever request.
pub(super) fn refusal(text: &[u8]) -> Option<ErrorData> {
    #[derive(Deserialize)]
    struct Refusal {
        error: ErrorData,
    }
    serde_json::from_slice(text).ok().map(|Refusal { error }| error)
}
