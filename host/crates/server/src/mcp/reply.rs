//! Responses of the endpoint.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderValue, Response, StatusCode, header};

use airlock_http::respond::{self, ApiError, Reply};
use airlock_ingress::Payload;
use airlock_wire::{
    error::{RpcError, code},
    headers::SESSION,
    id::RpcId,
    message,
};

/// Returns a JSON-RPC response.
pub(super) fn answered(status: StatusCode, text: String) -> Reply {
    let mut reply = respond::json_text(text);
    *reply.status_mut() = status;
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

/// Returns a JSON-RPC response whose text the events of its request may share.
pub(super) fn shared(text: Arc<String>) -> Reply {
    respond::json_text(Arc::unwrap_or_clone(text))
}

/// Returns a JSON-RPC error.
pub(super) fn failed(id: Option<&RpcId>, error: &RpcError, status: StatusCode) -> Reply {
    answered(status, message::failure(id, error))
}

/// Returns a JSON-RPC error that belongs to no request.
pub(super) fn refused(status: StatusCode, error: &RpcError) -> Reply {
    failed(None, error, status)
}

/// Returns an error of the server in the form of JSON-RPC, with its status and headers.
pub(super) fn of_api_error(error: ApiError) -> Reply {
    let status = error.status();
    let headers = error.headers().clone();
    let body = error.into_body();
    let own_code = body["error"]["code"].as_str().unwrap_or_default();
    let message = body["error"]["message"].as_str().unwrap_or_default();
    let rpc_code = match own_code {
        "no_session" => code::NO_SESSION,
        _ if status.is_server_error() => code::INTERNAL,
        _ => code::REFUSED,
    };
    let error = RpcError {
        data: Some(serde_json::json!({"code": own_code})),
        ..RpcError::new(rpc_code, message)
    };
    let mut reply = refused(status, &error);
    reply.headers_mut().extend(headers);
    reply
}

/// Adds the identifier of the session that was opened.
pub(super) fn with_session(mut reply: Reply, id: &str) -> Reply {
    if let Ok(id) = HeaderValue::try_from(id) {
        reply.headers_mut().insert(SESSION, id);
    }
    reply
}

/// Returns the response to a notification.
pub(super) fn accepted() -> Reply {
    empty(StatusCode::ACCEPTED)
}

/// Returns the response to a request without a result.
pub(super) fn no_content() -> Reply {
    empty(StatusCode::NO_CONTENT)
}

/// Returns a stream without events.
pub(super) fn ended() -> Reply {
    respond::events(stream::empty().boxed())
}

fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Payload::Whole(Bytes::new()));
    *reply.status_mut() = status;
    reply
}
