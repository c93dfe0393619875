//! Templates of the paths of routes, for metrics: a closed set, whatever a caller sends.

use airlock_operator_api::{operator_login, reload};

/// Path of the number of tokens of a request for a Response.
pub(super) const INPUT_TOKENS: &str = "/v1/responses/input_tokens";
/// Path of the Messages API.
pub(super) const MESSAGES: &str = "/v1/messages";
/// Path of the number of tokens of a request for a message.
pub(super) const MESSAGE_TOKENS: &str = "/v1/messages/count_tokens";
/// Path of the limits of a key.
pub(super) const QUOTA: &str = "/api/governance/virtual-keys/quota";

/// Template of a path that is no route.
pub(super) const NO_ROUTE: &str = "other";

/// All templates.
pub(super) const TEMPLATES: [&str; 30] = [
    "/v1/chat/completions",
    "/v1/responses",
    INPUT_TOKENS,
    "/v1/responses/{id}",
    MESSAGES,
    MESSAGE_TOKENS,
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
    QUOTA,
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
