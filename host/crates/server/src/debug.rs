//! `GET /api/requests/{id}/debug`: what a model was sent for one request, what it responded, and the calls
//! in between, for operators who see payloads.
//!
//! | file | purpose |
//! |---|---|
//! | `records` | the last requests, in memory, bounded in number and bytes |
//! | `record` | one request, bounded in bytes |
//! | `recorder` | records one request while it runs |
//!
//! Nothing is recorded unless `server.debug_requests` is set. Headers are never recorded, and the credentials
//! of a provider are redacted in what is shown.

mod record;
mod recorder;
mod records;

use std::{sync::Arc, time::SystemTime};

use http::Request;
use tracing::info;
use uuid::Uuid;

pub(super) use self::records::DebugRecords;
pub use self::records::DebugSettings;
use self::{record::RequestHead, recorder::ExchangeRecorder};
use super::App;
use airlock_agent::RequestObserver;
use airlock_core::{operator::Operator, replica::ReplicaId, request_memory::RequestCharge};
use airlock_http::{
    respond::{self, ApiError, Reply, RequestId},
    work,
};
use airlock_ingress::{Ingress, RequestBody};
use airlock_requests::Sender;

const PREFIX: &str = "/api/requests/";
const SUFFIX: &str = "/debug";
/// Memory of a response for each byte of a record: the copy, its text, the text without credentials, the
/// document, and its text, which grows by doubling and in which a byte may be escaped as several.
const COPIES: usize = 8;

/// Returns the identifier of the request that a path names; `None` for other paths.
pub(super) fn parse_path(path: &str) -> Option<&str> {
    let id = path.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

/// Returns what records a request of a model; `None` if none is recorded.
pub(super) fn observe(
    app: &App,
    sender: &Sender,
    request: &Request<RequestBody>,
) -> Option<Arc<dyn RequestObserver>> {
    let records = app.debug.as_ref()?;
    let id = request.extensions().get::<RequestId>()?.uuid();
    let path = request.uri().path().to_owned();
    let head = RequestHead { id, path, tenant: sender.tenant(), begun: SystemTime::now() };
    Some(Arc::new(ExchangeRecorder::new(records.clone(), head)))
}

/// Shows a request. Fails if the operator does not see payloads, or if the request is not recorded.
pub(super) async fn show(
    app: &App,
    operator: &Operator,
    ingress: Ingress,
    id: &str,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let Operator { name, sees_payloads, .. } = operator;
    if !sees_payloads {
        let message = "this operator does not see the content of requests: `sees_payloads` is a right of its own";
        return Err(ApiError::forbidden("payloads_hidden", message));
    }
    let handle = id.strip_prefix("req_").and_then(|digits| Uuid::try_parse(digits).ok());
    let handle = handle.ok_or_else(unknown)?;
    if let Some(elsewhere) =
        app.elsewhere(ReplicaId::from_handle(handle), request.headers()).await?
    {
        if let Ingress::Socket(_) = ingress {
            let message = "another gateway has handled this request: ask with the token of an operator at the address of `listen`";
            return Err(ApiError::conflict("other_gateway", message));
        }
        let reply = elsewhere.pass_on(request, app.settings.bodies(), charge).await?;
        return reply.ok_or_else(unknown);
    }
    let records = app.debug.as_ref().ok_or_else(disabled)?;
    let record = records.find(handle).ok_or_else(unknown)?;
    info!(operator = name, request = id, "an operator reads the content of a request");
    let bytes = record.lock().bytes();
    charge.grow(bytes.saturating_mul(COPIES))?;
    let id = id.to_owned();
    work::on_tree(charge, move |charge| {
        // A copy, so that a request that is running does not wait for the document.
        let record = record.lock().clone();
        let growth = record.bytes().saturating_sub(bytes);
        charge.grow(growth.saturating_mul(COPIES))?;
        if record.is_evicted() {
            return Err(unknown());
        }
        Ok(respond::json(&record.to_json(&id)))
    })
    .await
}

fn unknown() -> ApiError {
    let message = "no request with this identifier is recorded: it was evicted by later ones, its gateway has ended, or it is \
                   not one of a model";
    ApiError::not_found("unknown_request", message)
}

fn disabled() -> ApiError {
    let message =
        "requests are not recorded: set `server.debug_requests` at the gateway that handles them";
    ApiError::not_found("debug_disabled", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_one_request() {
        assert_eq!(parse_path("/api/requests/req_1/debug"), Some("req_1"));
        for other in
            ["/api/requests//debug", "/api/requests/a/b/debug", "/api/requests/a", "/debug"]
        {
            assert_eq!(parse_path(other), None, "{other}");
        }
    }
}
