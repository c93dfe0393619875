//! Keys and values of other programs' configurations that this build does not implement, in one table.
//! Each is refused with a reason: an operator would rely on a protection that does not exist if the
//! setting were accepted and ignored. A setting that asks for what the gateway does anyway is
//! accepted.

use serde_json::Value;

use self::ForeignKey::{Elsewhere, Milliseconds, NoMeaning, NotBuilt};

/// A key of other programs that is none of this file.
enum ForeignKey {
    /// Another key has its meaning: an instruction.
    Elsewhere(&'static str),
    /// A time as a number of milliseconds: the key of a client that has its meaning.
    Milliseconds(&'static str),
    /// The gateway does not do what it asks for: a reason, or the nearest setting.
    NotBuilt(&'static str),
    /// The gateway behaves the same without it: a reason. A translation leaves it out.
    NoMeaning(&'static str),
}

/// Returns the reason that a known key is refused; `None` for other keys. `owner` is the type's
/// name in [`file`](super::file).
pub fn key(owner: &str, key: &str) -> Option<String> {
    Some(match find(owner, key)? {
        Elsewhere(instruction) => instruction.to_owned(),
        Milliseconds(ours) => format!(
            "this build has no times without a unit: use `{ours}` of the client, with a text such as \"30s\" or \"250ms\""
        ),
        NotBuilt(reason) | NoMeaning(reason) => {
            format!("this build does not act on it: {reason}")
        }
    })
}

/// Returns the reason that the gateway behaves the same without a key; `None` for other keys.
pub fn without_meaning(owner: &str, key: &str) -> Option<&'static str> {
    match find(owner, key)? {
        NoMeaning(reason) => Some(reason),
        _ => None,
    }
}

/// Returns whether a key that is not implemented has a value that asks for what the gateway does
/// anyway, such as a feature that is turned off.
pub(crate) fn is_moot(owner: &str, key: &str, value: &Value) -> bool {
    if !matches!(find(owner, key), Some(NotBuilt(_) | NoMeaning(_))) {
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

/// Returns the entry of a key. `owner` is the type's name in [`file`](super::file).
fn find(owner: &str, key: &str) -> Option<ForeignKey> {
    of_a_client(owner, key)
        .or_else(|| of_a_provider(owner, key))
        .or_else(|| of_the_rest(owner, key))
}

/// Entries of the keys of an MCP client and of the objects in it.
fn of_a_client(owner: &str, key: &str) -> Option<ForeignKey> {
    Some(match (owner, key) {
        ("Client", "id") => Elsewhere("use `client_id`, or leave it out"),
        ("Client", "type" | "transport") => {
            Elsewhere("use `connection_type`: \"stdio\", \"docker\", \"http\", \"sse\" or \"wasm\"")
        }
        ("Client", "url" | "serverUrl" | "httpUrl" | "endpoint") => {
            Elsewhere("use `connection_string`, with the `connection_type` \"http\" or \"sse\"")
        }
        ("Client", "command" | "args" | "cwd") => {
            Elsewhere("belongs in `stdio_config`, with the `connection_type` \"stdio\"")
        }
        ("Client", "env" | "envs") => Elsewhere(
            "use `stdio_config.envs`, a list: [\"NAME\"] passes a variable on, [\"NAME=value\"] sets one",
        ),
        ("Client", "component" | "grants" | "config") => {
            Elsewhere("belongs in `wasm_config`, with the `connection_type` \"wasm\"")
        }
        ("Stdio" | "Docker", "env" | "environment") => Elsewhere(
            "use `envs`, a list: [\"NAME\"] passes a variable on, [\"NAME=value\"] sets one",
        ),
        ("Stdio" | "Docker", "restart") => Elsewhere("is a key of the client, beside this object"),
        ("Client", "autoApprove" | "alwaysAllow") => Elsewhere("use `tools_to_auto_execute`"),
        ("Client", "state") => NoMeaning("it is the state of the other gateway"),
        ("Client", "oauth_client_id" | "oauth_client_secret") => {
            NoMeaning("it is written by the other gateway; `airlock upstream login` logs in")
        }
        ("Client", "oauth_config_id") => NotBuilt("the settings are in `oauth_config`"),
        ("TokenExchangeConfig", "authorization_server_url") => {
            Elsewhere("use `token_url`, the URL of its token endpoint")
        }
        ("TokenExchangeConfig", "use_idp_credentials") => {
            NotBuilt("the client that exchanges tokens is that of `client_id` and `client_secret`")
        }
        ("TlsConfig", "insecure_skip_verify") => NotBuilt(
            "certificates are always checked; put the server's own authority into `ca_cert_pem` or `ca_file`",
        ),
        ("Client", "endpoint_slug") => NotBuilt(
            "one client alone is not served at a path of its own; give its tools to a virtual key, and MCP clients that key",
        ),
        ("Client", "tool_mode") => NotBuilt("use `is_code_mode_client`"),
        ("Client", "allow_by_default") => NotBuilt("use `allow_on_all_virtual_keys`"),
        ("Client", "needs_session_stickiness") => NoMeaning("one session is kept for each server"),
        ("Client", "openapi_config") => NotBuilt("OpenAPI documents as tools are not built yet"),
        ("Client", "http_config" | "websocket_config") => NotBuilt("use `connection_string`"),
        _ => return None,
    })
}

/// Entries of the keys of a provider and of the objects in it.
fn of_a_provider(owner: &str, key: &str) -> Option<ForeignKey> {
    Some(match (owner, key) {
        ("Provider", "url" | "api_base" | "baseUrl" | "baseURL") => Elsewhere("use `base_url`"),
        ("Provider", "key" | "apiKey") => Elsewhere("use `api_key`"),
        ("Provider", "type") => Elsewhere(
            "use `kind`: \"openai\", \"anthropic\", \"gemini\", \"azure\" or \"scripted\"",
        ),
        ("Provider", "custom_provider_config") => NotBuilt("use `kind` and `base_url`"),
        (
            "Provider",
            "send_back_raw_request" | "send_back_raw_response" | "store_raw_request_response",
        ) => NotBuilt("raw exchanges with providers are not shown"),
        ("Provider", "prompt_cache") => {
            NotBuilt("callers mark what is cached with `cache_control`")
        }
        ("ProviderKey", "aliases") => NotBuilt("requests name models as the provider does"),
        ("ProviderKey", "blacklisted_models") => {
            NotBuilt("list the models that it serves in `models`")
        }
        ("ProviderKey", "ollama_key_config" | "sgl_key_config" | "vllm_key_config") => {
            NotBuilt("use `base_url` of the provider")
        }
        ("ProviderKey", "azure_key_config") => NotBuilt(
            "use `base_url`, `deployments` and `api_version` of a provider of kind \"azure\"; `airlock import FILE` moves them there",
        ),
        ("ProviderKey", "vertex_key_config") => NotBuilt(
            "use `project` and `location` of a provider of kind \"vertex\", and `service_account` of the key; `airlock import FILE` moves them there",
        ),
        ("ProviderKey", "bedrock_key_config") => NotBuilt(
            "use `region` of a provider of kind \"bedrock\", and `access_key` and `secret_key` of the key; `airlock import FILE` moves them there",
        ),
        (
            "ProviderKey",
            "bedrock_mantle_key_config" | "databricks_key_config" | "replicate_key_config",
        ) => NotBuilt("this cloud's way to sign requests is not built yet"),
        ("NetworkConfig", "retry_backoff_initial_ms") => NotBuilt("use `retry_backoff_initial`"),
        ("NetworkConfig", "retry_backoff_max_ms") => NotBuilt("use `retry_backoff_max`"),
        ("NetworkConfig", "insecure_skip_verify") => NotBuilt(
            "certificates are always checked; put the service's own authority into `ca` of the provider",
        ),
        ("NetworkConfig" | "ProxyConfig", "ca_cert_pem") => {
            NotBuilt("put the certificates into a file and its path into `ca` of the provider")
        }
        ("NetworkConfig", "max_conns_per_host") => {
            NotBuilt("connections to a provider have no limit")
        }
        ("NetworkConfig", "enforce_http2") => NotBuilt("providers are spoken to with HTTP/1.1"),
        ("NetworkConfig", "keep_alive_timeout_in_seconds") => {
            NotBuilt("the time that idle connections are kept is not configurable")
        }
        ("NetworkConfig", "beta_header_overrides") => NotBuilt(
            "a request names its beta features in `betas`, and `headers` adds others to all requests",
        ),
        ("NetworkConfig", "stream_throughput_guard") => NotBuilt("use `timeouts` of the provider"),
        _ => return None,
    })
}

/// Entries of all other keys.
fn of_the_rest(owner: &str, key: &str) -> Option<ForeignKey> {
    Some(match (owner, key) {
        ("File", "mcpServers" | "servers" | "context_servers") => Elsewhere(
            "is the list of servers of a desktop agent; `airlock import FILE` translates it to `mcp.client_configs`",
        ),
        ("File" | "Mcp", "clients" | "tools") | ("File", "client_configs") => {
            Elsewhere("sources of tools are in `mcp.client_configs`")
        }
        ("Mcp", "health_monitor_config") => {
            NoMeaning("`heartbeat_interval` and `restart` of each client do the same")
        }
        ("Mcp", "tool_sync_interval") => NotBuilt("set it for each client"),
        ("Mcp", "tool_groups") => NotBuilt(
            "use `virtual_mcps`, whose groups open nothing: give a virtual key the tools in its rows, or by `roles`",
        ),
        ("VirtualMcp", "id") => Elsewhere("groups have no identifiers; leave it out"),
        ("VirtualMcp", "virtual_key_ids") => {
            Elsewhere("use `virtual_keys`, with the names of keys")
        }
        ("VirtualMcpTools", "mcp_client_id") => Elsewhere("use `mcp_client_name`"),
        ("VirtualKey", "provider_configs") => NotBuilt("every key may use every provider"),
        ("VirtualKey" | "Team" | "Customer", "budget_id") => {
            NotBuilt("write the budget itself into `budgets`")
        }
        ("VirtualKey" | "Team" | "Customer", "rate_limit_id") => {
            NotBuilt("write the limits themselves into `rate_limit`")
        }
        ("VirtualKey", "business_unit_id") => NotBuilt("use `team_id` or `customer_id`"),
        ("Team", "profile" | "config" | "claims") => NotBuilt(
            "it belongs to the other gateway's logins; `mcp_server.oauth` gives roles by claims",
        ),
        ("KeyRow", "id" | "virtual_key_id") => NotBuilt("rows have no identifiers; leave it out"),
        ("KeyRow", "mcp_client_id") => NotBuilt("use `mcp_client_name`"),
        ("Governance", "budgets" | "rate_limits") => NotBuilt(
            "write them at their owners, into `budgets` and `rate_limit` of a key, team or customer",
        ),
        ("Governance", "providers") => {
            NotBuilt("use `model_configs`, with the name in `provider` and the `model_name` \"*\"")
        }
        ("Governance", "routing_rules") => NotBuilt("rules of routing are not built yet"),
        ("ModelConfig", "name") => NotBuilt("it is named by its `id`"),
        ("PricingOverride", "virtual_key_id" | "provider_key_id") => {
            NotBuilt("prices are the same for all virtual keys and for all keys of a provider")
        }
        ("PricingOverride", "pricing_patch") => Elsewhere("use `patch`, an object"),
        ("Governance", "auth_config") => {
            NotBuilt("operators and their roles are in `management.operators`")
        }
        ("File", "client") => NotBuilt(
            "its `mcp_…` settings are in `mcp.tool_manager_config`, those of logging in `records.call_log`, the rest in `server`",
        ),
        // Known here too; a translation replaces it.
        ("File", "$schema") => NoMeaning("`airlock schema` prints the schema of the gateway"),
        ("File", "config_store") => {
            NoMeaning("the gateway reads its configuration from the file alone")
        }
        ("File", "logs_store") => {
            NoMeaning("the call log is in `store`; `records.call_log` switches it on")
        }
        ("File", "vector_store") => NoMeaning("responses are not cached"),
        ("File", "websocket") => NoMeaning("no WebSocket is served"),
        ("File", "cluster_config") => NoMeaning("a gateway is one process"),
        ("File", "version") => {
            NoMeaning("the gateway's file has no versions; an empty list permits nothing")
        }
        ("File", "framework") => NoMeaning("it concerns downloads of prices"),
        ("File", "encryption_key") => NotBuilt(
            "use `store_key`, which names a variable of the environment or a file that has the key",
        ),
        ("File", "auth_config") => NotBuilt("leave it out"),
        ("Client" | "Docker" | "Stdio" | "Restart", _) => Milliseconds(match key {
            "requestTimeoutMs" => "request_timeout",
            "startupTimeoutMs" => "startup_timeout",
            "heartbeatIntervalMs" => "heartbeat_interval",
            "staleTimeoutMs" => "stale_timeout",
            "idleTimeoutMs" => "idle_timeout",
            "toolSyncIntervalMs" => "tool_sync_interval",
            "backoffMs" if owner == "Restart" => "restart.backoff",
            "maxBackoffMs" if owner == "Restart" => "restart.max_backoff",
            "stableAfterMs" if owner == "Restart" => "restart.stable_after",
            _ => return None,
        }),
        _ => return None,
    })
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

/// Returns the reason that a known value is refused; `None` for other values. `owner` is the type's
/// name in [`file`](super::file).
pub(crate) fn value(owner: &str, value: &str) -> Option<String> {
    let reason = match (owner, value) {
        ("ConnectionType", "websocket" | "openapi") => {
            "use \"stdio\", \"docker\", \"http\", \"sse\" or \"wasm\""
        }
        ("ProxyKind", "environment") => "name the proxy in `url`",
        _ => return None,
    };
    Some(format!("{value:?} is not built yet: {reason}"))
}
