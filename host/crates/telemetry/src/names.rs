//! Every name of a span, an attribute and a metric that the gateway exports.
//!
//! | prefix | convention |
//! |---|---|
//! | `gen_ai.`, `mcp.`, `jsonrpc.`, `rpc.` | OpenTelemetry's GenAI and MCP conventions, v0.1.0 (development: names may change) |
//! | `http.`, `url.`, `server.`, `client.`, `network.`, `error.`, `user_agent.` | OpenTelemetry's semantic conventions v1.45.0, stable |
//! | `airlock.` | the gateway's own |

/// Names of attributes, and the list of them.
macro_rules! attributes {
    ($($(#[$doc:meta])* $constant:ident = $name:literal;)*) => {
        $($(#[$doc])* pub const $constant: &str = $name;)*
        /// All attributes.
        pub const ATTRIBUTES: &[&str] = &[$($name),*];
    };
}

attributes! {
    /// Kind of the error of a failed operation.
    ERROR_TYPE = "error.type";

    /// Method of an HTTP request.
    HTTP_REQUEST_METHOD = "http.request.method";
    /// Template of the path, such as `/v1/responses/{id}`.
    HTTP_ROUTE = "http.route";
    /// Status of an HTTP response.
    HTTP_RESPONSE_STATUS_CODE = "http.response.status_code";
    /// `http` or `https`.
    URL_SCHEME = "url.scheme";
    /// Path of an HTTP request.
    URL_PATH = "url.path";
    /// Program of the client.
    USER_AGENT_ORIGINAL = "user_agent.original";
    /// Host of the server that a request goes to.
    SERVER_ADDRESS = "server.address";
    /// Port of that server.
    SERVER_PORT = "server.port";
    /// Address of the caller.
    CLIENT_ADDRESS = "client.address";
    /// Port of the caller.
    CLIENT_PORT = "client.port";
    /// `tcp`, or `pipe` for a child process.
    NETWORK_TRANSPORT = "network.transport";
    /// Protocol under the API, such as `http`.
    NETWORK_PROTOCOL_NAME = "network.protocol.name";
    /// Its version.
    NETWORK_PROTOCOL_VERSION = "network.protocol.version";

    /// `chat`, `execute_tool`, `invoke_agent`.
    GEN_AI_OPERATION_NAME = "gen_ai.operation.name";
    /// Vendor of the model's API, by the convention's list.
    GEN_AI_PROVIDER_NAME = "gen_ai.provider.name";
    /// Name of the agent.
    GEN_AI_AGENT_NAME = "gen_ai.agent.name";
    /// Model that is asked for.
    GEN_AI_REQUEST_MODEL = "gen_ai.request.model";
    /// `temperature` of a request.
    GEN_AI_REQUEST_TEMPERATURE = "gen_ai.request.temperature";
    /// `top_p` of a request.
    GEN_AI_REQUEST_TOP_P = "gen_ai.request.top_p";
    /// `top_k` of a request.
    GEN_AI_REQUEST_TOP_K = "gen_ai.request.top_k";
    /// Most tokens of a response.
    GEN_AI_REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens";
    /// Seed of a request.
    GEN_AI_REQUEST_SEED = "gen_ai.request.seed";
    /// Number of responses, if it is not one.
    GEN_AI_REQUEST_CHOICE_COUNT = "gen_ai.request.choice.count";
    /// True if the response is streamed.
    GEN_AI_REQUEST_STREAM = "gen_ai.request.stream";
    /// Model that has responded.
    GEN_AI_RESPONSE_MODEL = "gen_ai.response.model";
    /// Identifier of the response.
    GEN_AI_RESPONSE_ID = "gen_ai.response.id";
    /// Reasons for which the model stopped.
    GEN_AI_RESPONSE_FINISH_REASONS = "gen_ai.response.finish_reasons";
    /// Seconds until the first chunk of a stream.
    GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk";
    /// Kind of the output, such as `text` or `json`.
    GEN_AI_OUTPUT_TYPE = "gen_ai.output.type";
    /// Identifier of the conversation.
    GEN_AI_CONVERSATION_ID = "gen_ai.conversation.id";
    /// Tokens of the prompt.
    GEN_AI_USAGE_INPUT_TOKENS = "gen_ai.usage.input_tokens";
    /// Tokens of the response.
    GEN_AI_USAGE_OUTPUT_TOKENS = "gen_ai.usage.output_tokens";
    /// Tokens of the prompt that the provider had in its cache.
    GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS = "gen_ai.usage.cache_read.input_tokens";
    /// Tokens of the prompt that the provider put into its cache.
    GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS = "gen_ai.usage.cache_creation.input_tokens";
    /// Tokens of the response that are reasoning.
    GEN_AI_USAGE_REASONING_OUTPUT_TOKENS = "gen_ai.usage.reasoning.output_tokens";
    /// `input` or `output`, of a metric.
    GEN_AI_TOKEN_TYPE = "gen_ai.token.type";
    /// Name of a tool.
    GEN_AI_TOOL_NAME = "gen_ai.tool.name";
    /// `function`, `extension` or `datastore`.
    GEN_AI_TOOL_TYPE = "gen_ai.tool.type";
    /// Identifier of the call, as the model gave it.
    GEN_AI_TOOL_CALL_ID = "gen_ai.tool.call.id";
    /// Name of a prompt of an MCP server.
    GEN_AI_PROMPT_NAME = "gen_ai.prompt.name";

    /// Method of an MCP message, such as `tools/call`.
    MCP_METHOD_NAME = "mcp.method.name";
    /// Version of the protocol.
    MCP_PROTOCOL_VERSION = "mcp.protocol.version";
    /// Identifier of the session.
    MCP_SESSION_ID = "mcp.session.id";
    /// URI of a resource.
    MCP_RESOURCE_URI = "mcp.resource.uri";
    /// Identifier of a request of JSON-RPC.
    JSONRPC_REQUEST_ID = "jsonrpc.request.id";
    /// Version of JSON-RPC, if it is not 2.0.
    JSONRPC_PROTOCOL_VERSION = "jsonrpc.protocol.version";
    /// Code of an error of JSON-RPC.
    RPC_RESPONSE_STATUS_CODE = "rpc.response.status_code";

    /// Requests to the model that one request took.
    AIRLOCK_ROUNDS = "airlock.rounds";
    /// Origin of a call: `model`, `script`, `client`, `operator`.
    AIRLOCK_ORIGIN = "airlock.origin";
    /// Decision about a call: `allowed`, `refused`, `pending`.
    AIRLOCK_DECISION = "airlock.decision";
    /// Reason of the decision.
    AIRLOCK_DECISION_REASON = "airlock.decision.reason";
    /// Source of a tool, by its name in the configuration.
    AIRLOCK_CLIENT = "airlock.client";
    /// Identifier of the caller's virtual key.
    AIRLOCK_KEY_ID = "airlock.key.id";
    /// Provider, by its name in the configuration.
    AIRLOCK_PROVIDER = "airlock.provider";
    /// Number of the attempt at a request to a model, from 1.
    AIRLOCK_ATTEMPT = "airlock.attempt";
    /// True for a request that another model had failed before.
    AIRLOCK_FALLBACK = "airlock.fallback";
    /// Identifier of a run of a script.
    AIRLOCK_RUN_ID = "airlock.run.id";
    /// Position of a call in its run.
    AIRLOCK_RUN_POSITION = "airlock.run.position";
    /// Identifier of an approval.
    AIRLOCK_APPROVAL_ID = "airlock.approval.id";
    /// Fuel of a call in the sandbox.
    AIRLOCK_FUEL = "airlock.fuel";
    /// Peak memory of a call in the sandbox.
    AIRLOCK_MEMORY_BYTES = "airlock.memory_bytes";
    /// True if the caller left before the end.
    AIRLOCK_CANCELLED = "airlock.cancelled";
}

/// Operation of a request to a model.
pub const CHAT: &str = "chat";
/// Operation of a call of a tool.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// Operation of a request with its rounds.
pub const INVOKE_AGENT: &str = "invoke_agent";
/// `error.type` of a result of a tool that says that it failed.
pub const TOOL_ERROR: &str = "tool_error";
/// `error.type` of an operation whose caller left.
pub const CANCELLED: &str = "cancelled";

/// Metrics that a convention names, with their units. The registry has the name that Prometheus gives them.
pub const METRICS: &[(&str, &str)] = &[
    ("gen_ai.client.operation.duration", "s"),
    ("gen_ai.client.operation.time_to_first_chunk", "s"),
    ("gen_ai.client.operation.time_per_output_chunk", "s"),
    ("gen_ai.client.token.usage", "{token}"),
    ("gen_ai.execute_tool.duration", "s"),
    ("gen_ai.invoke_agent.duration", "s"),
    ("gen_ai.invoke_agent.inference_calls", "{inference_call}"),
    ("gen_ai.invoke_agent.tool_calls", "{tool_call}"),
    ("http.server.active_requests", "{request}"),
    ("http.server.request.duration", "s"),
    ("mcp.client.operation.duration", "s"),
    ("mcp.client.session.duration", "s"),
    ("mcp.server.operation.duration", "s"),
    ("mcp.server.session.duration", "s"),
];

/// Returns the name and the unit of the convention for a metric of the registry; `None` if it is the gateway's own.
pub fn metric(registered: &str) -> Option<(&'static str, &'static str)> {
    METRICS.iter().copied().find(|(name, unit)| {
        let name_of_registry = registered.strip_suffix("_seconds").filter(|_| *unit == "s");
        is_prometheus_form(name_of_registry.unwrap_or(registered), name)
    })
}

/// Returns the name of the convention for a label of the registry, or the label itself.
pub fn attribute(label: &str) -> &str {
    ATTRIBUTES.iter().copied().find(|name| is_prometheus_form(label, name)).unwrap_or(label)
}

/// Returns whether a name is another one with underscores in place of dots.
fn is_prometheus_form(registered: &str, name: &str) -> bool {
    registered.len() == name.len()
        && registered
            .bytes()
            .zip(name.bytes())
            .all(|(found, expected)| found == if expected == b'.' { b'_' } else { expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_registry_are_those_of_the_convention() {
        for (registered, expected) in [
            ("gen_ai_execute_tool_duration_seconds", Some(("gen_ai.execute_tool.duration", "s"))),
            ("gen_ai_client_token_usage", Some(("gen_ai.client.token.usage", "{token}"))),
            ("airlock_tool_calls", None),
            ("gen_ai_execute_tool_duration_bytes", None),
        ] {
            assert_eq!(metric(registered), expected, "{registered}");
        }
        assert_eq!(attribute("gen_ai_tool_name"), GEN_AI_TOOL_NAME);
        assert_eq!(attribute("client"), "client");
    }

    #[test]
    fn every_name_is_there_once() {
        let mut names = ATTRIBUTES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ATTRIBUTES.len());
    }
}
