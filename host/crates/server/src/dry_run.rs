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
use airlock_core::{
    act::{Act, ActKind, Actor},
    operator::Operator,
};
use airlock_json::text_len;
use airlock_strings::cut;

/// Dry connections of a process at a time. Each may start a program.
const MAX_AT_ONCE: usize = 2;
/// Time after which another attempt is worth it.
const RETRY_SECONDS: u64 = 10;

/// Maximum bytes of a part of the record of a connection.
const RECORDED_BYTES: usize = 200;

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
    let element = body::object(request, &app.settings, charge).await?;
    let Ok(_place) = PLACES.try_acquire() else { return Err(busy()) };
    let operator = &actor.operator.name;
    info!(operator, "a server that is not configured is connected for a moment");
    // A program runs, or the values of variables leave the machine.
    if !app.hooks.approvals.acts().record_before(act(&actor.operator, &element)).await {
        return Err(unrecorded());
    }
    let found = dry_runs.connect(element, LIMIT).await.map_err(|problem| {
        let message = format!("the element of a client is not valid: {problem}");
        ApiError::bad_request("invalid_request", message)
    })?;
    charge.grow(text_len(&found).saturating_mul(3)).map_err(ChargeRefused::after_work)?;
    Ok(respond::json(&found))
}

/// Returns the record of a connection: whose it is, and where it goes.
fn act(operator: &Operator, element: &Map<String, Value>) -> Act {
    let command = element.get("stdio_config").and_then(|config| config["command"].as_str());
    // Queries of URLs may have secrets.
    let url = member(element, "connection_string").split(['?', '#']).next().unwrap_or_default();
    let name = short(member(element, "name"));
    Act::new(ActKind::ServerTried, Actor::from(operator), name)
        .with("connection_type", short(member(element, "connection_type")))
        .with("target", short(command.unwrap_or(url)))
}

fn member<'e>(element: &'e Map<String, Value>, name: &str) -> &'e str {
    element.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn short(text: &str) -> String {
    cut(text.to_owned(), RECORDED_BYTES)
}

fn unrecorded() -> ApiError {
    let message =
        "the connection cannot be recorded in the audit log, so it is not made; try again later";
    let status = StatusCode::SERVICE_UNAVAILABLE;
    ApiError::new(status, "server_error", "records_unavailable", message)
}

fn busy() -> ApiError {
    let message = format!("{MAX_AT_ONCE} other servers are being tried; try again in a moment");
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let error = ApiError::new(status, "server_error", "dry_runs_busy", message);
    error.with_header(header::RETRY_AFTER, HeaderValue::from(RETRY_SECONDS))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_core::operator::Role;

    #[test]
    fn the_record_of_a_connection_has_its_target_and_no_secret() {
        let name = "ann".to_owned();
        let operator = Operator { name, role: Role::Admin, sees_payloads: false };
        for (element, target) in [
            (
                json!({"connection_string": "https://a.example/mcp?token=SECRET"}),
                "https://a.example/mcp",
            ),
            (json!({"stdio_config": {"command": "run", "args": ["SECRET"]}}), "run"),
            (json!({"connection_string": 1}), ""),
        ] {
            let Value::Object(element) = element else { panic!("an object") };
            let act = act(&operator, &element);
            let found = act.details.iter().find(|(name, _)| *name == "target");
            assert_eq!(found.map(|(_, value)| value.as_str()), Some(target));
        }
        let Value::Object(long) = json!({"name": "x".repeat(1_000)}) else { panic!("an object") };
        assert!(act(&operator, &long).object.len() <= RECORDED_BYTES + 3);
    }
}
