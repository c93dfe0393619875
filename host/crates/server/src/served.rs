//! The paths that are served to requests, by the way that they came in.

use airlock_http::respond::ApiError;
use airlock_ingress::Ingress;
use airlock_operator_api::approvals::ApprovalTarget;

/// Fails if a path is not served to requests that came in this way.
pub(super) fn check(ingress: Ingress, path: &str) -> Result<(), ApiError> {
    if is_served(ingress, path) {
        return Ok(());
    }
    let message = "the Unix socket serves only /api/…, /v1/approvals, /health, /ready and /metrics; send requests to \
                   other paths to the address of `listen`";
    Err(ApiError::not_found("unknown_url", message))
}

/// Returns whether a path is served to requests that came in this way. The Unix socket serves
/// the management API, the calls that wait for an operator's decision and the state of the gateway.
/// Models, tools and MCP are served only where callers have credentials and views of their own, so that
/// no caller of them can have the rights of an administrator.
fn is_served(ingress: Ingress, path: &str) -> bool {
    match ingress {
        Ingress::Remote { .. } => true,
        Ingress::Socket(_) => {
            path.starts_with("/api/")
                || ApprovalTarget::parse(path).is_some()
                || matches!(path, "/health" | "/ready" | "/metrics")
        }
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use airlock_ingress::socket::SocketToken;

    fn socket() -> Ingress {
        Ingress::Socket(SocketToken::new("t"))
    }

    #[test]
    fn the_unix_socket_serves_the_management_api_and_the_state_of_the_gateway() {
        let address = Some([127, 0, 0, 1].into());
        let remote = Ingress::Remote { address, certificate: None };
        for path in [
            "/api/mcp/clients",
            "/api/",
            "/v1/approvals",
            "/v1/approvals/call_1/deny",
            "/health",
            "/ready",
            "/metrics",
        ] {
            assert!(is_served(socket(), path) && is_served(remote, path), "{path}");
        }
        for path in [
            "",
            "/",
            "/api",
            "/apiv1/chat/completions",
            "//api/mcp/clients",
            "/API/mcp/clients",
            "/health/",
            "/metrics/x",
            "/mcp",
            "/mcp/api/",
            "/sse",
            "/v1/chat/completions",
            "/v1/mcp/tool/execute",
            "/v1/models",
            "/v1/responses",
            "/v1/runs",
        ] {
            assert!(!is_served(socket(), path), "{path}");
            assert!(is_served(remote, path), "{path}");
        }
    }

    #[test]
    fn the_error_for_another_path_names_the_paths_that_are_served() {
        let refused = check(socket(), "/v1/models").expect_err("it is refused");
        assert_eq!(refused.status(), StatusCode::NOT_FOUND);
        insta::assert_snapshot!(
            refused.into_body()["error"]["message"].as_str().expect("a text"),
            @"the Unix socket serves only /api/…, /v1/approvals, /health, /ready and /metrics; send requests to other paths to the address of `listen`"
        );
    }
}
