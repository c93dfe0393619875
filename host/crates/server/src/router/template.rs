//! Templates of the paths of routes, for metrics: a closed set, whatever a caller sends.

use super::{Route, StatusRoute, messages, quota, responses};
use airlock_operator_api::{console::ConsoleTarget, operator_login, reload};

/// Template of a path that is no route.
pub(super) const NO_ROUTE: &str = "other";

/// All templates.
pub(in super::super) const TEMPLATES: [&str; 30] = [
    "/v1/chat/completions",
    "/v1/responses",
    responses::INPUT_TOKENS,
    "/v1/responses/{id}",
    messages::PATH,
    messages::COUNT_TOKENS,
    "/v1/runs/{id}",
    "/v1/approvals/{id}",
    "/v1/models",
    "/v1/mcp/tool/execute",
    "/v1/mcp/results/{id}",
    "/api/mcp/clients",
    "/api/mcp/client/{name}/{operation}",
    "/api/mcp/explain",
    "/api/mcp/sessions",
    "/api/requests/{id}/debug",
    "/api",
    quota::PATH,
    reload::CONFIGURATION,
    operator_login::LOGIN,
    "/mcp",
    "/sse",
    "/oauth",
    "/api/events",
    "/admin",
    "/health",
    "/ready",
    "/metrics",
    "/.well-known",
    NO_ROUTE,
];

impl Route<'_> {
    /// Returns the template of the paths of the route.
    pub(super) fn template(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::InputTokens => responses::INPUT_TOKENS,
            Self::StoredResponse(..) => "/v1/responses/{id}",
            Self::Messages => messages::PATH,
            Self::MessageTokens => messages::COUNT_TOKENS,
            Self::Runs(..) => "/v1/runs/{id}",
            Self::Approvals(..) => "/v1/approvals/{id}",
            Self::Models | Self::Model(_) => "/v1/models",
            Self::Execute => "/v1/mcp/tool/execute",
            Self::Result(_) => "/v1/mcp/results/{id}",
            Self::Clients => "/api/mcp/clients",
            Self::Explain => "/api/mcp/explain",
            Self::Debug(_) => "/api/requests/{id}/debug",
            // A stream of minutes, which is not counted among the short requests.
            Self::Console(ConsoleTarget::Events) => "/api/events",
            Self::Reload(_) | Self::Upstream(..) | Self::Console(ConsoleTarget::Definitions(_)) => {
                "/api/mcp/client/{name}/{operation}"
            }
            Self::Management | Self::Console(_) => "/api",
            Self::Quota => quota::PATH,
            Self::Mcp(_) => "/mcp",
            Self::Sse(_) => "/sse",
            Self::ReloadConfiguration => reload::CONFIGURATION,
            Self::OperatorLogin(_) => operator_login::LOGIN,
            Self::Login(_) => "/oauth",
            Self::LoginSessions(_) => "/api/mcp/sessions",
            Self::Status(StatusRoute::Page(_)) => "/admin",
            Self::Status(StatusRoute::Health) => "/health",
            Self::Status(StatusRoute::Readiness) => "/ready",
            Self::Status(StatusRoute::Metrics) => "/metrics",
            Self::Status(StatusRoute::ResourceMetadata(_) | StatusRoute::AuditKey) => {
                "/.well-known"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit_key;

    #[test]
    fn the_template_of_a_path_is_one_of_the_list_and_has_no_part_that_a_caller_chose() {
        for (path, template) in [
            ("/v1/chat/completions", "/v1/chat/completions"),
            ("/v1/responses/resp_1", "/v1/responses/{id}"),
            ("/v1/models/secret", "/v1/models"),
            ("/v1/runs/secret/resume", "/v1/runs/{id}"),
            ("/v1/approvals/secret", "/v1/approvals/{id}"),
            ("/v1/mcp/results/secret", "/v1/mcp/results/{id}"),
            ("/api/mcp/client/secret/reload", "/api/mcp/client/{name}/{operation}"),
            ("/api/mcp/client/secret/logs", "/api/mcp/client/{name}/{operation}"),
            ("/api/mcp/client/secret/definitions", "/api/mcp/client/{name}/{operation}"),
            ("/api/governance/virtual-keys", "/api"),
            ("/api/events", "/api/events"),
            ("/api/runs/secret", "/api"),
            ("/admin/secret", "/admin"),
            ("/mcp/secret", "/mcp"),
            ("/sse", "/sse"),
            ("/metrics", "/metrics"),
            (audit_key::PATH, "/.well-known"),
            ("/secret", NO_ROUTE),
        ] {
            let found = Route::parse(path).map_or(NO_ROUTE, Route::template);
            assert_eq!(found, template, "{path}");
            assert!(TEMPLATES.contains(&found), "{path}");
        }
    }
}
