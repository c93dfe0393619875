//! `POST /api/mcp/clients/dry-run`: connects to a server that is not configured, and keeps nothing.

use std::time::Duration;

use http::{HeaderValue, Request, header};
use serde_json::{Map, Value, json};
use tokio::{sync::Semaphore, time::timeout};
use tracing::info;

use super::{DryRunError, OperatorApi, definitions::RECORDED_BYTES, operator::RequestOperator};
use airlock_core::{
    act::{Act, ActKind, Actor},
    operator::Operator,
    request_memory::RequestCharge,
};
use airlock_http::{
    body,
    memory::AfterWork as _,
    respond::{self, ApiError, Reply},
};
use airlock_ingress::RequestBody;
use airlock_strings::cut;

/// Dry connections of a process at a time. Each may start a program.
const MAX_AT_ONCE: usize = 2;
/// Time after which another attempt is worth it.
const RETRY_SECONDS: u64 = 10;

static PLACES: Semaphore = Semaphore::const_new(MAX_AT_ONCE);

/// Time for a connection.
const LIMIT: Duration = Duration::from_mins(1);
/// Time for all of it: the connection, and the end of what it has started.
const DEADLINE: Duration = Duration::from_secs(75);

/// Handles a request of an operator who may add clients. A server that does not connect is a response.
pub(super) async fn run(
    api: &OperatorApi,
    actor: &RequestOperator,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let Some(dry_runs) = api.hooks.dry_runs.clone() else { return Err(ApiError::internal()) };
    let element = body::object(request, api.settings.bodies, charge).await?;
    actor.confirm(api).await?;
    let Ok(_place) = PLACES.try_acquire() else { return Err(busy()) };
    let operator = &actor.operator.name;
    info!(operator, "a server that is not configured is connected for a moment");
    // A program runs, or the values of variables leave the machine.
    if !api.hooks.approvals.acts().record_before(act(&actor.operator, &element)).await {
        return Err(unrecorded());
    }
    let found = within_deadline(dry_runs.connect(element, LIMIT, charge)).await?;
    Ok(respond::json(&found))
}

/// Waits for a connection until the deadline, at which it is dropped.
async fn within_deadline(
    connecting: impl Future<Output = Result<Value, DryRunError>>,
) -> Result<Value, ApiError> {
    match timeout(DEADLINE, connecting).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(DryRunError::Element(problem))) => {
            let message = format!("the element of a client is not valid: {problem}");
            Err(ApiError::bad_request("invalid_request", message))
        }
        Ok(Err(DryRunError::Memory(refused))) => Err(refused.after_work()),
        Err(_) => Ok(json!({"state": "failed", "reason": "the connection did not end in time"})),
    }
}

/// Returns the record of a connection: whose it is, and where it goes.
fn act(operator: &Operator, element: &Map<String, Value>) -> Act {
    let command = element.get("stdio_config").and_then(|config| config["command"].as_str());
    let url = without_secrets(member(element, "connection_string"));
    let name = short(member(element, "name"));
    Act::new(ActKind::ServerTried, Actor::from(operator), name)
        .with("connection_type", short(member(element, "connection_type")))
        .with("target", short(command.unwrap_or(&url)))
}

/// Returns a URL without its user, its password and its query, which may be secrets. It was not checked yet.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let begin = url.find("://").map_or(0, |at| at + "://".len());
    let (scheme, rest) = url.split_at(begin);
    let end = rest.find(['/', '\\']).unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    format!("{scheme}{host}{}", &rest[end..])
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
    ApiError::unavailable("records_unavailable", message)
}

fn busy() -> ApiError {
    let message = format!("{MAX_AT_ONCE} other servers are being tried; try again in a moment");
    let error = ApiError::unavailable("dry_runs_busy", message);
    error.with_header(header::RETRY_AFTER, HeaderValue::from(RETRY_SECONDS))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use http::StatusCode;

    use super::*;
    use airlock_core::{operator::Role, request_memory::ChargeRefused};

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_never_ends_is_dropped_at_the_deadline() {
        let found = within_deadline(pending()).await.unwrap_or_else(|_| panic!("a description"));
        assert_eq!(found["state"], "failed");
    }

    #[tokio::test]
    async fn a_description_without_room_and_an_invalid_element_are_errors_of_their_own() {
        let refused = ChargeRefused::Share { limit_bytes: 1 };
        for (error, status) in [
            (DryRunError::Memory(refused), StatusCode::TOO_MANY_REQUESTS),
            (DryRunError::Element("no name".to_owned()), StatusCode::BAD_REQUEST),
        ] {
            match within_deadline(async { Err(error) }).await {
                Err(error) => assert_eq!(error.status(), status),
                Ok(found) => panic!("{found}"),
            }
        }
    }

    #[test]
    fn the_record_of_a_connection_has_its_target_and_no_secret() {
        let name = "ann".to_owned();
        let operator = Operator { name, role: Role::Admin, sees_payloads: false };
        for (element, target) in [
            (
                json!({"connection_string": "https://a.example/mcp?token=SECRET"}),
                "https://a.example/mcp",
            ),
            (
                json!({"connection_string": "https://ann:SE@CRET@a.example:8443/mcp/@x"}),
                "https://a.example:8443/mcp/@x",
            ),
            (json!({"connection_string": "ann:SECRET@a.example"}), "a.example"),
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
