//! The management API: hands requests to the part of the gateway that answers them.

use std::{panic, time::Duration};

use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use serde_json::{Map, Value, json};

use super::{
    ManagementRefusal, ManagementRequest, OperatorApi, OperatorSession,
    operator::{self, RequestOperator},
    operator_login::{self, BrowserSession},
};
use airlock_core::{
    operator::{Operator, Right},
    request_memory::RequestCharge,
    secret::Secret,
    threads,
};
use airlock_http::{
    auth::SETUP_TOKEN,
    body,
    respond::{self, ApiError, Reply},
};
use airlock_ingress::{Ingress, RequestBody};
use airlock_store::components::MAX_COMPONENT_BYTES;

/// Paths of the API. Their methods and the rest of them are checked where they are answered: each kind of elements has
/// its path there.
const PREFIXES: [&str; 11] = [
    "/api/plugins",
    "/api/session",
    "/api/sessions",
    "/api/operators",
    "/api/governance",
    "/api/mcp/virtual-mcps",
    "/api/changes",
    "/api/settings",
    "/api/config",
    "/api/mcp-logs",
    "/api/logs",
];
/// Path of clients, and the prefix of each of them.
const CLIENT: &str = "/api/mcp/client";

/// Path of the operator of a request, and of its session.
const SESSION: &str = "/api/session";
/// Path that ends a session.
const LOGOUT: &str = "/api/session/logout";
/// Path that makes the first operator.
const SET_UP: &str = "/api/session/setup";
/// Path of plugins, to which components are uploaded.
const PLUGINS: &str = "/api/plugins";
/// Largest body of an operator's request: an element of the configuration, with room for escapes.
const MAX_BODY_BYTES: u64 = 4 << 20;
/// Largest body of the request that makes the first operator, which anyone may send.
const MAX_SET_UP_BYTES: u64 = 4 << 10;
/// Time after which an upload is worth another attempt, if there was another one.
const NEXT_UPLOAD: Duration = Duration::from_secs(10);

/// Methods that some path of the API takes.
pub const METHODS: &[Method] =
    &[Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::DELETE];

/// Returns whether a path is one of the API.
pub fn is_path(path: &str) -> bool {
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
pub fn check(operator: Option<&Operator>, request: &Request<RequestBody>) -> Result<(), ApiError> {
    if operator.is_none() && request.uri().path() != SET_UP {
        return Err(operator::required("use the management API"));
    }
    let limit = match operator {
        // Its right is checked before a body of this size is read.
        Some(operator) if is_upload(request) => {
            operator::check_right(operator, Right::Administer, "install plugins")?;
            MAX_COMPONENT_BYTES as u64
        }
        Some(_) => MAX_BODY_BYTES,
        None => MAX_SET_UP_BYTES,
    };
    if request.body().most_bytes().is_none_or(|bytes| bytes > limit) {
        let message = format!("the body must have a `Content-Length` of at most {limit} bytes");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        return Err(ApiError::from_status(status, "body_too_large", message));
    }
    Ok(())
}

/// Returns whether the body of a request is a component.
fn is_upload(request: &Request<RequestBody>) -> bool {
    request.method() == Method::POST && request.uri().path() == PLUGINS
}

/// Answers a request. If the future is dropped, a change that has begun is made all the same. A component
/// is uploaded alone, and is charged until it is stored: several of them would take more memory than
/// all other requests.
pub async fn answer(
    api: &OperatorApi,
    actor: Option<&RequestOperator>,
    ingress: Ingress,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let Some(management) = api.hooks.management.clone() else { return Err(disabled()) };
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let headers = request.headers().clone();
    let seat = request.body().seat().cloned();
    let setup_token = setup_token(&headers);
    let mut actor = actor.cloned();
    let mut body = None;
    let mut component = None;
    let mut upload = None;
    let is_empty = request.body().is_empty();
    if is_upload(&request) {
        let Ok(place) = api.uploads.clone().try_acquire_owned() else {
            body::discard(request).await;
            return Err(upload_in_progress());
        };
        upload = Some(place);
        let received =
            body::component(request, MAX_COMPONENT_BYTES, api.settings.bodies, charge).await?;
        component = Some(received);
    } else if !is_empty {
        body = Some(Value::from(body::object(request, api.settings.bodies, charge).await?));
    }
    // A credential may have been revoked while the body arrived.
    if actor.is_some() && !is_empty {
        actor = operator::identify(api, ingress, &method, &headers, seat.as_ref()).await?;
    }
    if actor.is_none() && path != SET_UP {
        return Err(operator::required("use the management API"));
    }
    let session = actor.as_ref().and_then(|actor| actor.session.clone());
    let shown = session.as_ref().filter(|_| path == SESSION && method != Method::DELETE).map(shown);
    let ends = path == LOGOUT || (path == SESSION && method == Method::DELETE);
    let session = session.map(|session| session.credential);
    let is_change = !matches!(method, Method::GET | Method::HEAD);
    let request = ManagementRequest { method, path, query, body, component, setup_token, session };
    let tenant = charge.tenant().clone();
    let charge = charge.clone();
    let answering = async move {
        let _upload = upload;
        let _charge = charge;
        let operator = actor.as_ref().map(|actor| &*actor.operator);
        management.answer(operator, request).await
    };
    let answered = if is_change {
        // In a task of its own: a client that leaves must not undo half of a change.
        let answering = tokio::spawn(answering);
        answering.await.unwrap_or_else(|lost| panic::resume_unwind(lost.into_panic()))
    } else {
        answering.await
    };
    let body = answered.map_err(refused)?;
    // A list of all settings would keep a worker from other requests for too long.
    let mut reply = threads::run(&tenant, move || reply(body, shown)).await;
    if let Some(cookie) = operator_login::forget(api).filter(|_| ends) {
        reply.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(reply)
}

/// Returns the response, with the members of a session that is shown.
fn reply(mut body: Value, session: Option<Map<String, Value>>) -> Reply {
    let is_secret = session.is_some();
    if let Some(members) = body.as_object_mut() {
        members.extend(session.into_iter().flatten());
    }
    let mut reply = respond::json(&body);
    if is_secret {
        let never = HeaderValue::from_static("no-store");
        reply.headers_mut().insert(header::CACHE_CONTROL, never);
    }
    reply
}

/// Describes the session of a browser, with the token by which it changes something.
fn shown(session: &BrowserSession) -> Map<String, Value> {
    let OperatorSession { id, expires, .. } = &session.session;
    let expires = humantime::format_rfc3339_seconds(*expires).to_string();
    Map::from_iter([
        ("session".to_owned(), json!({"id": id, "expires_at": expires})),
        ("csrf_token".to_owned(), session.csrf_token().into()),
    ])
}

fn setup_token(headers: &HeaderMap) -> Option<Secret> {
    let mut sent = SETUP_TOKEN.iter().filter_map(|name| headers.get(*name));
    sent.next().and_then(|token| token.to_str().ok()).map(Secret::new)
}

/// Returns the response to a request that was refused.
pub fn refused(refusal: ManagementRefusal) -> ApiError {
    let error = ApiError::from_status(refusal.status, refusal.code, refusal.message);
    match refusal.retry_after {
        Some(time) => error.with_header(header::RETRY_AFTER, time.as_secs().into()),
        None => error,
    }
}

fn upload_in_progress() -> ApiError {
    let message = "another component is being uploaded; try again when its response has arrived";
    let error = ApiError::unavailable("upload_in_progress", message);
    error.with_header(header::RETRY_AFTER, NEXT_UPLOAD.as_secs().into())
}

/// Returns the refusal of all requests of a gateway without the management API.
pub fn disabled() -> ApiError {
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
            "/api/sessions/7",
            "/api/operators/a%2Fb",
            "/api/governance/virtual-keys/7/rotate",
            "/api/governance/teams/7/budgets/8/override",
            "/api/governance/unknown",
            "/api/mcp/client",
            "/api/mcp/client/weather",
            "/api/plugins",
            "/api/plugins/weather/accept",
        ] {
            assert!(is_path(path), "{path}");
        }
        for path in [
            "/api/sessionsx",
            "/api/governancex",
            "/api/mcp/clients",
            "/api/mcp/client/weather/reload",
            "/v1/api/session",
            "/api",
        ] {
            assert!(!is_path(path), "{path}");
        }
    }
}
