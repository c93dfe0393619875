//! Settings of Bifrost's configuration that this build does not implement. Each is refused with a
//! reason: an operator would rely on a protection that does not exist if the setting were accepted
//! and ignored.

/// Returns the reason that a known key is refused; `None` for other keys. `owner` is the type's
/// name in [`file`](super::file).
pub(super) fn key(owner: &str, key: &str) -> Option<String> {
    if let Some(ours) = in_milliseconds(owner, key) {
        return Some(format!(
            "this build has no times without a unit: use `{ours}` of the client, with a text such as \"30s\" or \"250ms\""
        ));
    }
    let reason = match (owner, key) {
        ("Client", "state" | "oauth_client_id" | "oauth_client_secret") => {
            "the gateway does not read this value; leave it out"
        }
        ("Client", "oauth_config_id") => "the settings are in `oauth_config`",
        ("Client", "token_exchange" | "per_user_header_keys") => {
            "credentials of single users are not built yet; use `headers` or `auth_type` \"oauth\""
        }
        ("Client", "tool_pricing") => "calls have no prices",
        ("Mcp", "health_monitor_config") => {
            "set `heartbeat_interval` and `restart` for each client"
        }
        ("Mcp", "tool_sync_interval") => "set it for each client",
        ("TlsConfig", "insecure_skip_verify") => {
            "certificates are always checked; put the server's own authority into `ca_cert_pem` or `ca_file`"
        }
        ("Client", "endpoint_slug") => {
            "MCP endpoints of the gateway are not built yet; use a virtual key to choose tools"
        }
        ("Client", "tool_mode") => "use `is_code_mode_client`",
        ("Client", "allow_by_default") => "use `allow_on_all_virtual_keys`",
        ("Client", "needs_session_stickiness") => "one session is kept for each server",
        ("Client", "openapi_config") => "OpenAPI documents as tools are not built yet",
        ("Client", "http_config" | "websocket_config") => "use `connection_string`",
        ("Mcp", "tool_groups" | "virtual_mcps") => {
            "groups of tools are not built yet; list tools in a virtual key"
        }
        ("Provider", "custom_provider_config") => "use `kind` and `base_url`",
        (
            "Provider",
            "send_back_raw_request" | "send_back_raw_response" | "store_raw_request_response",
        ) => "raw exchanges with providers are not shown",
        ("Provider", "prompt_cache") => "callers mark what is cached with `cache_control`",
        ("ProviderKey", "aliases") => "requests name models as the provider does",
        ("ProviderKey", "blacklisted_models") => "list the models that it serves in `models`",
        ("ProviderKey", "ollama_key_config" | "sgl_key_config" | "vllm_key_config") => {
            "use `base_url` of the provider"
        }
        (
            "ProviderKey",
            "azure_key_config"
            | "bedrock_key_config"
            | "bedrock_mantle_key_config"
            | "vertex_key_config"
            | "databricks_key_config"
            | "replicate_key_config",
        ) => "this cloud's way to sign requests is not built yet",
        ("NetworkConfig", "retry_backoff_initial_ms") => "use `retry_backoff_initial`",
        ("NetworkConfig", "retry_backoff_max_ms") => "use `retry_backoff_max`",
        ("NetworkConfig", "insecure_skip_verify") => {
            "certificates are always checked; put the service's own authority into `ca` of the provider"
        }
        ("NetworkConfig" | "ProxyConfig", "ca_cert_pem") => {
            "put the certificates into a file and its path into `ca` of the provider"
        }
        ("NetworkConfig", "max_conns_per_host") => "connections to a provider have no limit",
        ("NetworkConfig", "enforce_http2") => "providers are spoken to with HTTP/1.1",
        ("NetworkConfig", "keep_alive_timeout_in_seconds") => {
            "the time that idle connections are kept is not configurable"
        }
        ("NetworkConfig", "beta_header_overrides") => {
            "a request names its beta features in `betas`, and `headers` adds others to all requests"
        }
        ("NetworkConfig", "stream_throughput_guard") => "use `timeouts` of the provider",
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

/// Returns the key of a client for a time that other gateways have as a number of milliseconds.
fn in_milliseconds(owner: &str, key: &str) -> Option<&'static str> {
    let is_restart = owner == "Restart";
    if !is_restart && !matches!(owner, "Client" | "Docker" | "Stdio") {
        return None;
    }
    Some(match key {
        "requestTimeoutMs" => "request_timeout",
        "startupTimeoutMs" => "startup_timeout",
        "heartbeatIntervalMs" => "heartbeat_interval",
        "staleTimeoutMs" => "stale_timeout",
        "idleTimeoutMs" => "idle_timeout",
        "toolSyncIntervalMs" => "tool_sync_interval",
        "backoffMs" if is_restart => "restart.backoff",
        "maxBackoffMs" if is_restart => "restart.max_backoff",
        "stableAfterMs" if is_restart => "restart.stable_after",
        _ => return None,
    })
}

/// Returns the reason that a known value is refused; `None` for other values. `owner` is the type's
/// name in [`file`](super::file).
pub(super) fn value(owner: &str, value: &str) -> Option<String> {
    let reason = match (owner, value) {
        ("ConnectionType", "websocket" | "openapi") => "use \"stdio\", \"http\" or \"wasm\"",
        ("ProxyKind", "environment") => "name the proxy in `url`",
        ("AuthType", "per_user_oauth" | "per_user_headers" | "token_exchange") => {
            "use \"oauth\", with one login for all users, or \"headers\" with a token in `headers`"
        }
        _ => return None,
    };
    Some(format!("{value:?} is not built yet: {reason}"))
}
