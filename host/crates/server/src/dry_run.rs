//! `POST /api/mcp/clients/dry-run`: connects to a server that is not configured, and keeps nothing.

use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{HeaderValue, Request, StatusCode, header};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tracing::info;

use super::{
    App, body,
    memory::{AfterWork as _, ChargeRefused, RequestCharge},
    operator::RequestOperator,
    request_body::RequestBody,
    respond::{self, ApiError, Reply},
};
use airlock_json::text_len;

/// Dry connections of a process at a time. Each may start a program.
const MAX_AT_ONCE: usize = 2;
/// Time after which another attempt is worth it.
const RETRY_SECONDS: u64 = 10;

static PLACES: Semaphore = Semaphore::const_new(MAX_AT_ONCE);

/// Connects to servers that are not configured. The server does not depend on the way they are connected.
pub trait DryRuns: Send + Sync + 'static {
    /// Connects to the server of an element of `mcp.client_configs` for at most `limit`, and describes what was found:
    /// `state`, `tools`, `status`, `stderr` and `reason`. Nothing is kept, also if the future is dropped. Fails with
    /// the problem of an element that is not valid.
    fn connect(
        &self,
        element: Map<String, Value>,
        limit: Duration,
    ) -> BoxFuture<'_, Result<Value, String>>;
}

/// Time for a connection.
const LIMIT: Duration = Duration::from_mins(1);

/// Handles a request of an operator who may add clients. A server that does not connect is a response.
pub(super) async fn run(
    app: &App,
    actor: &RequestOperator,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let Some(dry_runs) = app.hooks.dry_runs.clone() else { return Err(ApiError::internal()) };
    let Ok(_place) = PLACES.try_acquire() else {
        body::discard(request).await;
        return Err(busy());
    };
    let element = body::object(request, &app.settings, charge).await?;
    let operator = &actor.operator.name;
    info!(operator, "a server that is not configured is connected for a moment");
    let found = dry_runs.connect(element, LIMIT).await.map_err(|problem| {
        let message = format!("the element of a client is not valid: {problem}");
        ApiError::bad_request("invalid_request", message)
    })?;
    charge.grow(text_len(&found).saturating_mul(3)).map_err(ChargeRefused::after_work)?;
    Ok(respond::json(&found))
}

fn busy() -> ApiError {
    let message = format!("{MAX_AT_ONCE} other servers are being tried; try again in a moment");
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let error = ApiError::new(status, "server_error", "dry_runs_busy", message);
    error.with_header(header::RETRY_AFTER, HeaderValue::from(RETRY_SECONDS))
}
