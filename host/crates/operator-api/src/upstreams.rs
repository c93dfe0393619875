//! `/api/mcp/client/{name}/reconnect`, `/refresh-tools` and `/logs`: operations of the
//! operator on one MCP server, in the form of Bifrost's admin API.

use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Method, StatusCode};
use serde_json::json;
use url::form_urlencoded;

use super::{NotDone, OperatorApi, operator::OperatorAct};
use airlock_http::respond::{self, ApiError, Reply};

const PREFIX: &str = "/api/mcp/client/";
/// Time for an operation to be completed. Starting a server may take two minutes by default, and
/// stopping the old one some seconds.
const PATIENCE: Duration = Duration::from_mins(3);

/// Operation or question to one MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamOperation {
    /// Opens a new connection.
    Reconnect,
    /// Reads the list of tools again.
    Refresh,
    /// Returns the stored stderr.
    Logs,
}

impl UpstreamOperation {
    /// Returns the operation that a path of this API means, and the client that it names; `None` for
    /// other paths.
    pub fn parse(path: &str) -> Option<(Self, &str)> {
        let (client, operation) = path.strip_prefix(PREFIX)?.split_once('/')?;
        let operation = match operation {
            "reconnect" => Self::Reconnect,
            "refresh-tools" => Self::Refresh,
            "logs" => Self::Logs,
            _ => return None,
        };
        (!client.is_empty()).then_some((operation, client))
    }

    /// Returns the instance of the server that the parameter `instance` of a query names; `None` for all.
    fn instance(self, query: &str) -> Result<Option<usize>, ApiError> {
        let mut parameters = form_urlencoded::parse(query.as_bytes());
        let found = parameters.find(|(name, _)| name == "instance");
        let Some((_, value)) = found.filter(|_| self != Self::Refresh) else { return Ok(None) };
        value.parse::<usize>().map(Some).map_err(|_| {
            let message = "the parameter `instance` must be the number of an instance, from 1";
            ApiError::bad_request("unknown_instance", message)
        })
    }

    /// Returns the methods that the path takes.
    pub fn methods(self) -> &'static [Method] {
        match self {
            Self::Reconnect | Self::Refresh => &[Method::POST],
            Self::Logs => &[Method::GET, Method::HEAD],
        }
    }

    /// Returns the act of an operator that the request is.
    pub fn act(self) -> OperatorAct {
        match self {
            Self::Reconnect | Self::Refresh => OperatorAct::Operate,
            Self::Logs => OperatorAct::ReadLogs,
        }
    }
}

/// Performs an operation. The request has passed [`operator::check`](super::operator::check).
pub async fn run(
    api: &OperatorApi,
    operation: UpstreamOperation,
    client: &str,
    query: Option<&str>,
) -> Result<Reply, ApiError> {
    let upstreams = &api.hooks.upstreams;
    let instance = operation.instance(query.unwrap_or_default())?;
    let body = match operation {
        UpstreamOperation::Reconnect => {
            in_time(upstreams.reconnect(client, instance)).await?.map(|failures| {
                json!({"status": "success", "message": "MCP client reconnected successfully", "warnings": failures})
            })
        }
        UpstreamOperation::Refresh => in_time(upstreams.refresh(client)).await?.map(|tools| {
            json!({"status": "success", "message": "MCP client tools refreshed successfully", "tools_count": tools})
        }),
        UpstreamOperation::Logs => upstreams
            .logs(client, instance)
            .map(|lines| json!({"client": client, "lines": lines})),
    };
    body.map(|body| respond::json(&body)).map_err(|error| refusal(operation, &error))
}

/// Waits for an operation for at most [`PATIENCE`].
async fn in_time<T>(
    operation: BoxFuture<'_, Result<T, NotDone>>,
) -> Result<Result<T, NotDone>, ApiError> {
    tokio::time::timeout(PATIENCE, operation).await.map_err(|_| {
        let message = format!(
            "the operation was not completed within {PATIENCE:?}, and continues; GET /api/mcp/clients shows the state"
        );
        ApiError::from_status(StatusCode::GATEWAY_TIMEOUT, "operation_pending", message)
    })
}

fn refusal(operation: UpstreamOperation, error: &NotDone) -> ApiError {
    let (status, code) = match error {
        NotDone::Unknown(_) if operation == UpstreamOperation::Logs => {
            (StatusCode::NOT_FOUND, "unknown_client")
        }
        NotDone::Unknown(_) => (StatusCode::BAD_REQUEST, "unknown_client"),
        NotDone::NoInstance(_) => (StatusCode::BAD_REQUEST, "unknown_instance"),
        NotDone::InProgress => (StatusCode::INTERNAL_SERVER_ERROR, "reconnect_in_progress"),
        NotDone::Failed(_) => (StatusCode::BAD_GATEWAY, "upstream_failed"),
        NotDone::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
    };
    ApiError::from_status(status, code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_one_segment_of_the_path() {
        for (path, expected) in [
            ("/api/mcp/client/fs/reconnect", Some((UpstreamOperation::Reconnect, "fs"))),
            ("/api/mcp/client/fs/refresh-tools", Some((UpstreamOperation::Refresh, "fs"))),
            ("/api/mcp/client/fs/logs", Some((UpstreamOperation::Logs, "fs"))),
            ("/api/mcp/client//logs", None),
            ("/api/mcp/client/logs", None),
            ("/api/mcp/client/a/b/logs", None),
            ("/api/mcp/client/fs/logs/", None),
            ("/api/mcp/client/fs/reload", None),
            ("/api/mcp/clients", None),
        ] {
            assert_eq!(UpstreamOperation::parse(path), expected, "{path}");
        }
    }

    #[test]
    fn an_instance_is_named_by_a_number_in_the_query() {
        for (query, expected) in [
            ("", Some(None)),
            ("x=1", Some(None)),
            ("instance=2", Some(Some(2))),
            ("instance=", None),
            ("instance=-1", None),
            ("instance=a", None),
        ] {
            let found = UpstreamOperation::Reconnect.instance(query).ok();
            assert_eq!(found, expected, "{query}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_order_is_waited_for_only_so_long() {
        let never: BoxFuture<'_, Result<(), NotDone>> = Box::pin(std::future::pending());
        let error = in_time(never).await.expect_err("it never ends");
        assert_eq!(error.status(), StatusCode::GATEWAY_TIMEOUT);
        let late: BoxFuture<'_, Result<(), NotDone>> = Box::pin(async {
            tokio::time::sleep(PATIENCE.saturating_sub(Duration::from_millis(1))).await;
            Ok(())
        });
        assert_eq!(in_time(late).await.expect("in time"), Ok(()));
    }
}
