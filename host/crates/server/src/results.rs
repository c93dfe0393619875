//! `GET /v1/mcp/results/{handle}`: the result of a call, unchanged, as MCP's `CallToolResult`.
//!
//! The agent loop keeps a result that has more than texts, such as images, structured data or links,
//! because a model receives it as text. A handle is in `raw_result` of the call in `airlock`, and is
//! valid for the tenant of the request alone, for some time.

use http::Request;

use super::App;
use airlock_core::{replica::ReplicaId, request_memory::RequestCharge};
use airlock_http::respond::{self, ApiError, Reply};
use airlock_ingress::RequestBody;
use airlock_requests::Sender;

const PATH: &str = "/v1/mcp/results/";

/// Returns the handle that a path names; `None` for other paths.
pub(super) fn parse_path(path: &str) -> Option<&str> {
    path.strip_prefix(PATH).filter(|handle| !handle.is_empty())
}

/// Returns the result of a handle. Fails if there is no memory for a copy, or if there is none; one
/// that expired and one of another tenant look the same.
pub(super) async fn raw(
    app: &App,
    sender: &Sender,
    handle: &str,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    if let Some(elsewhere) = app.elsewhere(ReplicaId::of_text(handle), request.headers()).await? {
        let reply = elsewhere.pass_on(request, app.settings.bodies(), charge).await?;
        return reply.ok_or_else(unknown);
    }
    let json = app.parts.results.raw(&sender.tenant(), handle).ok_or_else(unknown)?;
    charge.grow(json.len())?;
    Ok(respond::json_text(json.to_string()))
}

fn unknown() -> ApiError {
    let message = "no result has this handle; it may have expired, or belongs to another key";
    ApiError::not_found("unknown_result", message)
}
