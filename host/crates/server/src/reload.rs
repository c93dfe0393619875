//! `POST /api/mcp/client/{name}/reload`: reloads a plugin whose component has changed.
//!
//! Only the operator may reload over HTTP. Elsewhere the operator reloads with a signal or by
//! replacing the file.

use futures_util::future::BoxFuture;
use http::StatusCode;
use serde_json::json;

use super::{
    App,
    respond::{self, ApiError, Reply},
};

const PREFIX: &str = "/api/mcp/client/";
const SUFFIX: &str = "/reload";
/// Reloads plugins. The server does not depend on the way they are loaded.
pub trait Reload: Send + Sync + 'static {
    /// Returns the digest of the component that a client currently runs; `None` if there is no such
    /// plugin or if it is not loaded.
    fn digest(&self, client: &str) -> Option<String>;

    /// Takes the plugin entries of the configuration file, and reloads one client's plugin if its
    /// entry or its component has changed. Returns whether it had changed. If its component cannot be
    /// loaded, the old plugin stays.
    fn reload<'a>(&'a self, client: &'a str) -> BoxFuture<'a, Result<bool, NotReloaded>>;
}

/// Reason that a plugin was not reloaded, as a message for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReloaded {
    /// No plugin has this name.
    #[error("no plugin is named {0:?}")]
    Unknown(String),
    /// The plugin differs from its accepted state or needs rights that are not granted: the
    /// operator must decide.
    #[error("{0}")]
    Undecided(String),
    /// The component is unusable.
    #[error("{0}")]
    Unusable(String),
    /// The configuration file, which is read again first, is invalid. Nothing has changed.
    #[error("the configuration file is invalid, so nothing was reloaded: {0}")]
    Configuration(String),
}

/// Returns the client that a path of this API names; `None` for other paths.
pub(super) fn client_of(path: &str) -> Option<&str> {
    path.strip_prefix(PREFIX)?
        .strip_suffix(SUFFIX)
        .filter(|client| !client.is_empty() && !client.contains('/'))
}

/// Reloads the plugin. The request has passed [`operator::check`](super::operator::check).
pub(super) async fn run(app: &App, client: &str) -> Result<Reply, ApiError> {
    let reloaded = match &app.hooks.plugins {
        Some(plugins) => plugins.reload(client).await,
        None => Err(NotReloaded::Unknown(client.to_owned())),
    };
    match reloaded {
        Ok(changed) => Ok(respond::json(&json!({"status": "success", "changed": changed}))),
        Err(error) => Err(refusal(&error)),
    }
}

fn refusal(error: &NotReloaded) -> ApiError {
    let (status, code) = match error {
        NotReloaded::Unknown(_) => (StatusCode::NOT_FOUND, "unknown_client"),
        NotReloaded::Undecided(_) => (StatusCode::CONFLICT, "plugin_not_accepted"),
        NotReloaded::Unusable(_) => (StatusCode::UNPROCESSABLE_ENTITY, "plugin_unusable"),
        NotReloaded::Configuration(_) => {
            (StatusCode::UNPROCESSABLE_ENTITY, "configuration_invalid")
        }
    };
    ApiError::new(status, "invalid_request_error", code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_one_segment_of_the_path() {
        assert_eq!(client_of("/api/mcp/client/weather/reload"), Some("weather"));
        for path in [
            "/api/mcp/client//reload",
            "/api/mcp/client/reload",
            "/api/mcp/client/a/b/reload",
            "/api/mcp/client/a",
        ] {
            assert_eq!(client_of(path), None, "{path}");
        }
    }
}
