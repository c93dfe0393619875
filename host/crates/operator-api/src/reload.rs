//! `POST /api/config/reload`: takes the whole configuration file. `POST /api/mcp/client/{name}/reload`:
//! reloads a plugin whose component has changed.
//!
//! Only the operator may reload over HTTP, and only an administrator everything. Elsewhere the operator
//! reloads with a signal or by replacing the file.

use http::StatusCode;
use serde_json::json;

use super::{NotReloaded, OperatorApi};
use airlock_http::respond::{self, ApiError, Reply};

/// Path of the reload of everything.
pub const CONFIGURATION: &str = "/api/config/reload";
const PREFIX: &str = "/api/mcp/client/";
const SUFFIX: &str = "/reload";

/// Returns the client that a path of this API names; `None` for other paths.
pub fn parse_path(path: &str) -> Option<&str> {
    path.strip_prefix(PREFIX)?
        .strip_suffix(SUFFIX)
        .filter(|client| !client.is_empty() && !client.contains('/'))
}

/// Reloads the plugin. The request has passed [`operator::check`](super::operator::check).
pub async fn run(api: &OperatorApi, client: &str) -> Result<Reply, ApiError> {
    match api.hooks.plugins.reload(client).await {
        Ok(changed) => Ok(respond::json(&json!({"status": "success", "changed": changed}))),
        Err(error) => Err(refusal(&error)),
    }
}

/// Takes the configuration file and reloads every plugin. The request has passed
/// [`operator::check`](super::operator::check).
pub async fn run_all(api: &OperatorApi) -> Result<Reply, ApiError> {
    let changes = api.hooks.plugins.reload_all().await.map_err(|error| match error {
        // The text alone, which is that of `airlock check`.
        NotReloaded::Configuration(reason) => {
            ApiError::bad_request("configuration_invalid", reason)
        }
        other => refusal(&other),
    })?;
    Ok(respond::json(&changes))
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
    ApiError::from_status(status, code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_one_segment_of_the_path() {
        assert_eq!(parse_path("/api/mcp/client/weather/reload"), Some("weather"));
        for path in [
            "/api/mcp/client//reload",
            "/api/mcp/client/reload",
            "/api/mcp/client/a/b/reload",
            "/api/mcp/client/a",
        ] {
            assert_eq!(parse_path(path), None, "{path}");
        }
    }
}
