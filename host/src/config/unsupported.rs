//! Settings of Bifrost's configuration that this build does not implement. Each is refused with a
//! reason: an operator would rely on a protection that does not exist if the setting were accepted
//! and ignored.

/// Returns the reason that a known key is refused; `None` for other keys. `owner` is the type's
/// name in [`file`](super::file).
pub(super) fn key(owner: &str, key: &str) -> Option<String> {
    let reason = match (owner, key) {
        ("Client", "state" | "oauth_client_id" | "oauth_client_secret") => {
            "the gateway does not read this value; leave it out"
        }
        (
            "Client",
            "oauth_config" | "oauth_config_id" | "token_exchange" | "per_user_header_keys",
        ) => "signing in to servers is not built yet; use `headers`",
        ("Client", "allowed_extra_headers") => "headers of callers are never forwarded",
        ("Client", "tool_pricing") => "calls have no prices",
        ("Client", "is_ping_available") | ("Mcp", "health_monitor_config") => {
            "health checks of servers are not configurable"
        }
        ("Client" | "Mcp", "tool_sync_interval") => {
            "the gateway lists a server's tools again when the server reports a change"
        }
        ("Client", "tls_config") => "the system's certificates are used",
        ("Client", "endpoint_slug") => {
            "MCP endpoints of the gateway are not built yet; use a virtual key to choose tools"
        }
        ("Client", "tool_mode") => "use `is_code_mode_client`",
        ("Client", "allow_by_default") => "use `allow_on_all_virtual_keys`",
        ("Client", "needs_session_stickiness") => "one session is kept for each server",
        ("Client", "tool_execution_timeout") => {
            "set it for all clients in `mcp.tool_manager_config`, or a plugin's `deadline`"
        }
        ("Client", "openapi_config") => "OpenAPI documents as tools are not built yet",
        ("Client", "http_config" | "websocket_config") => "use `connection_string`",
        ("Mcp", "tool_groups" | "virtual_mcps") => {
            "groups of tools are not built yet; list tools in a virtual key"
        }
        ("Provider", "keys") => "a provider has one `api_key`",
        (
            "Provider",
            "network_config"
            | "concurrency_and_buffer_size"
            | "proxy_config"
            | "custom_provider_config",
        ) => "use `base_url`; connections are not configurable",
        ("VirtualKey", "provider_configs") => "every key may use every provider",
        ("VirtualKey", "budget" | "budget_id" | "budgets" | "rate_limit" | "rate_limit_id") => {
            "budgets and rates are not built yet"
        }
        ("VirtualKey", "team_id" | "customer_id") => "teams and customers are not built yet",
        ("KeyRow", "id" | "virtual_key_id") => "rows have no identifiers; leave it out",
        ("KeyRow", "mcp_client_id") => "use `mcp_client_name`",
        (
            "Governance",
            "budgets" | "rate_limits" | "teams" | "customers" | "routing_rules" | "auth_config",
        ) => "only `virtual_keys` is built",
        ("File", "client") => {
            "its `mcp_…` settings are in `mcp.tool_manager_config`, the rest in `server`"
        }
        ("File", "config_store" | "logs_store" | "vector_store" | "encryption_key") => {
            "the configuration is this file alone"
        }
        ("File", "plugins") => "a plugin is a client with `connection_type` \"wasm\"",
        ("File", "framework" | "version" | "auth_config") => "leave it out",
        _ => return None,
    };
    Some(format!("this build does not act on it: {reason}"))
}

/// Returns the reason that a known value is refused; `None` for other values. `owner` is the type's
/// name in [`file`](super::file).
pub(super) fn value(owner: &str, value: &str) -> Option<String> {
    let reason = match (owner, value) {
        ("ConnectionType", "sse") => "most servers speak \"http\" as well",
        ("ConnectionType", "docker") => "use \"stdio\" with `docker` as the command until it is",
        ("ConnectionType", "websocket" | "openapi") => "use \"stdio\", \"http\" or \"wasm\"",
        ("AuthType", "oauth" | "per_user_oauth" | "per_user_headers" | "token_exchange") => {
            "use \"headers\" with a token in `headers`"
        }
        _ => return None,
    };
    Some(format!("{value:?} is not built yet: {reason}"))
}
