//! The span of a request of an MCP client, from its method to its response.

use airlock_core::door::VirtualKey;
use airlock_json::raw;
use airlock_telemetry::{Span, TraceContext, names};
use airlock_wire::{
    error::{RpcError, code},
    message::{Params, Request},
    method,
    version::Version,
};

/// Errors of the protocol that are the client's fault, and none of the gateway.
pub(super) const OF_CLIENT: [i64; 5] = [
    code::PARSE,
    code::INVALID_REQUEST,
    code::METHOD_NOT_FOUND,
    code::INVALID_PARAMS,
    code::RESOURCE_NOT_FOUND,
];

/// Name of the span of a request with another method.
const UNKNOWN_METHOD: &str = "mcp.request";
/// Value of an attribute for all that is not known.
const OTHER: &str = "_OTHER";

/// Span of a request. Dropping it before its end means that the client has cancelled the request.
pub(super) struct RequestSpan(Span);

impl RequestSpan {
    /// Starts the span of a request in this revision, in the trace that its `_meta` names if the operator trusts its
    /// client. `key` is the virtual key of the client.
    pub(super) fn begin(request: &Request, version: Version, key: Option<&VirtualKey>) -> Self {
        let method = request.method.as_str();
        if method == method::PING || !airlock_telemetry::is_on() {
            return Self(Span::none());
        }
        let known = method::known(method);
        let span = Span::server(|| known.unwrap_or(UNKNOWN_METHOD).to_owned());
        let span = span.of_caller(sent(&request.params), key.is_some()).start();
        if !span.is_recorded() {
            return Self(span);
        }
        span.set(names::MCP_METHOD_NAME, known.unwrap_or(OTHER));
        span.set(names::MCP_PROTOCOL_VERSION, version.as_str());
        span.set(names::JSONRPC_REQUEST_ID, request.id.as_json().trim_matches('"'));
        if method == method::TOOLS_CALL {
            span.set(names::GEN_AI_OPERATION_NAME, names::EXECUTE_TOOL);
        }
        if let Some(key) = key.and_then(|key| key.membership().key.as_deref()) {
            span.set(names::AIRLOCK_KEY_ID, key);
        }
        Self(span)
    }

    /// The span, under which the request is handled.
    pub(super) fn span(&self) -> &Span {
        &self.0
    }

    /// Ends the span with the result of the request.
    pub(super) fn end(self, result: &Result<String, RpcError>) {
        if self.0.is_recorded() {
            match result {
                Ok(text) if is_tool_error(text) => self.0.fail(names::TOOL_ERROR, ""),
                Ok(_) => {}
                Err(error) => {
                    let code = error.code.to_string();
                    self.0.set(names::RPC_RESPONSE_STATUS_CODE, code.as_str());
                    if !OF_CLIENT.contains(&error.code) {
                        self.0.fail(&code, "");
                    }
                }
            }
        }
        self.0.end();
    }
}

impl Drop for RequestSpan {
    fn drop(&mut self) {
        // It has ended otherwise, and drops what is set.
        self.0.set(names::AIRLOCK_CANCELLED, true);
        self.0.end();
    }
}

/// Names the span of the request that calls a tool, which the client is offered: clients invent other names.
pub(super) fn name_tool(tool: &str) {
    let span = Span::current();
    span.rename(|| format!("{} {tool}", method::TOOLS_CALL));
    span.set(names::GEN_AI_TOOL_NAME, tool);
}

/// Names the span of the request for a prompt, which the client is offered.
pub(super) fn name_prompt(prompt: &str) {
    let span = Span::current();
    span.rename(|| format!("{} {prompt}", method::PROMPTS_GET));
    span.set(names::GEN_AI_PROMPT_NAME, prompt);
}

/// Returns whether a result is that of a tool that has failed.
pub(super) fn is_tool_error(result: &str) -> bool {
    // Most results are long and have not failed.
    result.contains("\"isError\"") && raw::member(result, "isError") == Some("true")
}

/// Returns the position in its trace that a client sends in `_meta` (SEP-414); `None` if it sends none that is
/// valid.
fn sent(params: &Params) -> Option<TraceContext> {
    TraceContext::parse(&params.meta("traceparent").and_then(raw::string)?)
}
