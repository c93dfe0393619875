//! The span of a request to a server, whose context goes with the request in `_meta`
//! (SEP-414). Arguments, results and the texts of errors are no part of it.

use serde_json::Value;

use super::{
    super::{agreed::Agreed, transport::Transport},
    error::AskError,
    observer,
    request::Request,
};
use airlock_telemetry::{Span, names};
use airlock_wire::method;

/// Span of a request. Dropping it before its end means that the request was cancelled.
pub(super) struct AskSpan(Span);

impl AskSpan {
    /// Starts the span of a request that is made for another span. The gateway's own requests, such as pings,
    /// have none.
    pub(super) fn begin(
        request: &Request,
        id: i64,
        agreed: Option<&Agreed>,
        transport: &dyn Transport,
    ) -> Self {
        if Span::current().trace_context().is_none() {
            return Self(Span::none());
        }
        let target = request.name.as_deref().filter(|_| !is_of_resource(request.method));
        let span = Span::client(|| match target {
            Some(target) => format!("{} {target}", request.method),
            None => request.method.to_owned(),
        });
        let span = span.start();
        span.set(names::MCP_METHOD_NAME, request.method);
        span.set(names::JSONRPC_REQUEST_ID, id.to_string());
        match (request.method, target) {
            (method::TOOLS_CALL, Some(tool)) => {
                span.set(names::GEN_AI_OPERATION_NAME, names::EXECUTE_TOOL);
                span.set(names::GEN_AI_TOOL_NAME, tool);
            }
            (method::PROMPTS_GET, Some(prompt)) => span.set(names::GEN_AI_PROMPT_NAME, prompt),
            _ => {}
        }
        if let Some(agreed) = agreed {
            span.set(names::MCP_PROTOCOL_VERSION, agreed.version.as_str());
        }
        match transport.address() {
            Some((host, port)) => {
                span.set(names::NETWORK_TRANSPORT, "tcp");
                span.set(names::NETWORK_PROTOCOL_NAME, "http");
                span.set(names::SERVER_ADDRESS, host);
                span.set(names::SERVER_PORT, i64::from(port));
            }
            None => span.set(names::NETWORK_TRANSPORT, "pipe"),
        }
        Self(span)
    }

    /// Adds the context of the span to a request.
    pub(super) fn inject(&self, request: Request) -> Request {
        let Some(context) = self.0.trace_context() else { return request };
        let parent = Value::from(context.traceparent()).to_string();
        request.with_meta("traceparent", parent)
    }

    /// Ends the span with a result.
    pub(super) fn end(mut self, asked: &Result<Value, AskError>) {
        match asked {
            Ok(result) if observer::is_tool_error(result) => self.0.fail(names::TOOL_ERROR, ""),
            Ok(_) => {}
            Err(error) => self.fail(error),
        }
        self.close();
    }

    /// Ends the span with the text of a response, which may be an error.
    pub(super) fn end_with_text(mut self, asked: &Result<Vec<u8>, AskError>) {
        match asked {
            Ok(text) if self.0.is_recorded() => {
                if let Some(code) = observer::refusal(text) {
                    self.fail_with_code(code);
                }
            }
            Ok(_) => {}
            Err(error) => self.fail(error),
        }
        self.close();
    }

    fn fail(&self, error: &AskError) {
        match error {
            AskError::Refused(error) => self.fail_with_code(error.code),
            error => self.0.fail(observer::error_type(error), ""),
        }
    }

    fn fail_with_code(&self, code: i64) {
        if self.0.is_recorded() {
            let code = code.to_string();
            self.0.set(names::RPC_RESPONSE_STATUS_CODE, code.as_str());
            self.0.fail(&code, "");
        }
    }

    fn close(&mut self) {
        std::mem::replace(&mut self.0, Span::none()).end();
    }
}

impl Drop for AskSpan {
    fn drop(&mut self) {
        if self.0.is_recorded() {
            self.0.fail(names::CANCELLED, "");
            self.close();
        }
    }
}

/// Returns whether requests of a method name a resource by its URI, of which there are too many for names of
/// spans.
fn is_of_resource(method: &str) -> bool {
    !matches!(method, method::TOOLS_CALL | method::PROMPTS_GET)
}
