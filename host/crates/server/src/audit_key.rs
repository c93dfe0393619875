//! `GET /.well-known/airlock-audit-key`: the public key of the audit log, for those who check it. Needs no
//! credential.

use http::{HeaderValue, header};

use super::App;
use airlock_http::respond::{self, ApiError, Reply};

pub(super) const PATH: &str = "/.well-known/airlock-audit-key";

/// Returns the key in the form of C2SP `signed-note`, on a line. Fails if the gateway writes no audit log, or has
/// not opened it yet.
pub(super) fn show(app: &App) -> Result<Reply, ApiError> {
    let key = (app.hooks.audit_key)().ok_or_else(|| ApiError::no_such_path(PATH))?;
    let mut reply = respond::json_text(format!("{key}\n"));
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    reply.headers_mut().insert(header::CONTENT_TYPE, content_type);
    Ok(reply)
}
