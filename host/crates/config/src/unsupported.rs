//! Settings of other programs' configurations that this build does not implement. Each is refused
//! with a reason: an operator would rely on a protection that does not exist if the setting were
//! accepted and ignored. A setting that asks for what the gateway does anyway is accepted.

use serde_json::Value;

/// Returns the reason that a known key is refused; `None` for other keys. `owner` is the type's
/// name in [`file`](super::file).
pub(super) fn key(owner: &str, key: &str) -> Option<String> {
    if let Some(ours) = in_milliseconds(owner, key) {
        return Some(format!(
            "this build has no times without a unit: use `{ours}` of the client, with a text such as \"30s\" or \"250ms\""
        ));
    }
    if let Some(spelling) = other_spelling(owner, key) {
        return Some(spelling.to_owned());
    }
    Some(format!("this build does not act on it: {}", key_not_built(owner, key)?))
}

/// Returns whether a key that is not implemented has a value that asks for what the gateway does
/// anyway, such as a feature that is turned off.
pub(super) fn is_moot(owner: &str, key: &str, value: &Value) -> bool {
    if key_not_built(owner, key).is_none() {
        return false;
    }
    match (owner, key) {
        // An empty list of providers forbids all of them.
        ("VirtualKey", "provider_configs") => false,
        ("Client", "needs_session_stickiness") => *value == true,
        ("Client", "tool_mode") => value == "direct",
        ("File", "version") => *value == 2,
        _ => is_off(value),
    }
}

/// Returns whether a value turns a feature off.
fn is_off(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => {
            members.is_empty() || members.get("enabled") == Some(&Value::Bool(false))
        }
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Returns the key of this file that means the same as a key of another program's file.
fn other_spelling(owner: &str, key: &str) -> Option<&'static str> {
    Some(match (owner, key) {
        ("File", "mcpServers" | "servers" | "context_servers") => {
            "is the list of servers of a desktop agent; `airlock import FILE` translates it to `mcp.client_configs`"
        }
        ("File" | "Mcp", "clients" | "tools") | ("File", "client_configs") => {
            "sources of tools are in `mcp.client_configs`"
        }
        ("Client", "id") => "use `client_id`, or leave it out",
        ("Client", "type" | "transport") => {
            "use `connection_type`: \"stdio\", \"docker\", \"http\", \"sse\" or \"wasm\""
        }
        ("Client", "url" | "serverUrl" | "httpUrl" | "endpoint") => {
            "use `connection_string`, with the `connection_type` \"http\" or \"sse\""
        }
        ("Client", "command" | "args" | "cwd") => {
            "belongs in `stdio_config`, with the `connection_type` \"stdio\""
        }
        ("Client", "env" | "envs") => {
            "use `stdio_config.envs`, a list: [\"NAME\"] passes a variable on, [\"NAME=value\"] sets one"
        }
        ("Client", "component" | "grants" | "config") => {
            "belongs in `wasm_config`, with the `connection_type` \"wasm\""
        }
        ("Stdio" | "Docker", "env" | "environment") => {
            "use `envs`, a list: [\"NAME\"] passes a variable on, [\"NAME=value\"] sets one"
        }
        ("Stdio" | "Docker", "restart") => "is a key of the client, beside this object",
        ("Client", "autoApprove" | "alwaysAllow") => "use `tools_to_auto_execute`",
        ("Provider", "url" | "api_base" | "baseUrl" | "baseURL") => "use `base_url`",
        ("Provider", "key" | "apiKey") => "use `api_key`",
        ("Provider", "type") => "use `kind`: \"openai\", \"anthropic\", \"gemini\" or \"scripted\"",
        _ => return None,
    })
}

fn key_not_built(owner: &str, key: &str) -> Option<&'static str> {
    Some(match (owner, key) {
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
            "one client alone is not served at a path of its own; give its tools to a virtual key, and MCP clients that key"
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
        ("File", "config_store" | "logs_store" | "vector_store") => {
            "the configuration is this file alone"
        }
        ("File", "encryption_key") => {
            "what is stored is not encrypted; protect the file of `store` by the rights of its directory"
        }
        ("File", "plugins") => "a plugin is a client with `connection_type` \"wasm\"",
        ("File", "framework" | "version" | "auth_config") => "leave it out",
        _ => return None,
    })
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
        ("ConnectionType", "websocket" | "openapi") => {
            "use \"stdio\", \"docker\", \"http\", \"sse\" or \"wasm\""
        }
        ("ProxyKind", "environment") => "name the proxy in `url`",
        ("AuthType", "per_user_oauth" | "per_user_headers" | "token_exchange") => {
            "use \"oauth\", with one login for all users, or \"headers\" with a token in `headers`"
        }
        _ => return None,
    };
    Some(format!("{value:?} is not built yet: {reason}"))
}
