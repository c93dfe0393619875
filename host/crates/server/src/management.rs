//! The management API: hands requests to the part of the gateway that answers them.

use std::panic;

use http::{HeaderMap, Method, Request, StatusCode};
use hyper::body::{Body as _, Incoming};
use serde_json::Value;

use super::{
    App, ManagementRefusal, ManagementRequest, body,
    ingress::Ingress,
    memory::RequestCharge,
    operator,
    respond::{self, ApiError, Reply},
};
use airlock_core::{operator::Operator, secret::Secret};

/// Headers with the token that makes the first operator; the second one is Bifrost's.
pub(super) const SETUP_TOKEN: [&str; 2] = ["x-airlock-setup-token", "x-bifrost-setup-token"];
/// Paths of the API. Their methods and the rest of them are checked where they are answered.
const PREFIXES: [&str; 6] = [
    "/api/session",
    "/api/operators",
    "/api/governance/virtual-keys",
    "/api/changes",
    "/api/settings",
    "/api/config",
];
/// Path of clients, and the prefix of each of them.
const CLIENT: &str = "/api/mcp/client";

/// Path that makes the first operator.
const SET_UP: &str = "/api/session/setup";
/// Largest body of an operator's request: an element of the configuration, with room for escapes.
const MAX_BODY_BYTES: u64 = 4 << 20;
/// Largest body of the request that makes the first operator, which anyone may send.
const MAX_SET_UP_BYTES: u64 = 4 << 10;

/// Methods that some path of the API takes.
pub(super) const METHODS: &[Method] =
    &[Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE];

/// Returns whether a path is one of the API.
pub(super) fn is_path(path: &str) -> bool {
    PREFIXES.iter().any(|prefix| is_below(prefix, path)) || is_client(path)
}

fn is_below(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_client(path: &str) -> bool {
    let Some(rest) = path.strip_prefix(CLIENT) else { return false };
    rest.is_empty() || rest.strip_prefix('/').is_some_and(|name| !name.contains('/'))
}

/// Fails if a request needs an operator and has none, or if its body is too large.
/// Only the path that makes the first operator needs none.
pub(super) fn check(
    operator: Option<&Operator>,
    request: &Request<Incoming>,
) -> Result<(), ApiError> {
    if operator.is_none() && request.uri().path() != SET_UP {
        return Err(operator::required("use the management API"));
    }
    let limit = if operator.is_some() { MAX_BODY_BYTES } else { MAX_SET_UP_BYTES };
    if request.body().size_hint().upper().is_none_or(|bytes| bytes > limit) {
        let message = format!("the body must have a `Content-Length` of at most {limit} bytes");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        return Err(ApiError::new(status, "invalid_request_error", "body_too_large", message));
    }
    Ok(())
}

/// Answers a request. If the future is dropped, a change that has begun is made all the same.
pub(super) async fn answer(
    app: &App,
    operator: Option<&Operator>,
    ingress: Ingress,
    request: Request<Incoming>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let Some(management) = app.hooks.management.clone() else { return Err(disabled()) };
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let headers = request.headers().clone();
    let setup_token = setup_token(&headers);
    let body = if request.body().is_end_stream() {
        None
    } else {
        Some(Value::from(body::object(request, &app.settings, charge).await?))
    };
    // A token may have been revoked while the body arrived.
    let operator = match operator {
        Some(_) => operator::identify(app, ingress, &headers)?,
        None => None,
    };
    if operator.is_none() && path != SET_UP {
        return Err(operator::required("use the management API"));
    }
    let request = ManagementRequest { method, path, query, body, setup_token };
    // In a task of its own: a client that leaves must not undo half of a change.
    let answering =
        tokio::spawn(async move { management.answer(operator.as_deref(), request).await });
    let answered = answering.await.unwrap_or_else(|lost| panic::resume_unwind(lost.into_panic()));
    answered.map(|body| respond::json(&body)).map_err(refused)
}

fn setup_token(headers: &HeaderMap) -> Option<Secret> {
    let mut sent = SETUP_TOKEN.iter().filter_map(|name| headers.get(*name));
    sent.next().and_then(|token| token.to_str().ok()).map(Secret::new)
}

fn refused(refusal: ManagementRefusal) -> ApiError {
    let kind = match refusal.status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    };
    ApiError::new(refusal.status, kind, refusal.code, refusal.message)
}

fn disabled() -> ApiError {
    let message = "the management API is disabled: `management.disabled` is set, or the gateway is embedded without it";
    ApiError::forbidden("management_disabled", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_of_the_api_are_told_from_those_of_others() {
        for path in [
            "/api/session",
            "/api/session/setup",
            "/api/operators/a%2Fb",
            "/api/governance/virtual-keys/7/rotate",
            "/api/mcp/client",
            "/api/mcp/client/weather",
        ] {
            assert!(is_path(path), "{path}");
        }
        for path in [
            "/api/sessions",
            "/api/mcp/clients",
            "/api/mcp/client/weather/reload",
            "/v1/api/session",
            "/api",
        ] {
            assert!(!is_path(path), "{path}");
        }
    }
}
