//! The ends of a call without an output.

use std::borrow::Cow;

use serde_json::{Map, json};

use crate::questions;
use airlock_core::{
    door::Approval,
    tool::{CallError, ErrorKind, HostCode, ToolError, ToolName},
};
use airlock_strings::cut;
use airlock_wire::{
    error::{RpcError, code},
    version::Version,
};

/// Key of the metadata with the identifier of a call in the list of pending approvals.
const PENDING: &str = "airlock/approval";

/// Reason that a call has no output.
pub(super) enum NoOutput {
    /// The request cannot be handled. The response is an error.
    Refused(RpcError),
    /// The tool did not run, or it failed. The result has the error.
    Failed(CallError),
    /// The client has to repeat the call with answers. The result has the questions, as JSON text.
    Asked(String),
}

impl From<RpcError> for NoOutput {
    fn from(error: RpcError) -> Self {
        Self::Refused(error)
    }
}

impl From<CallError> for NoOutput {
    fn from(error: CallError) -> Self {
        Self::Failed(error)
    }
}

impl NoOutput {
    /// The call was not approved.
    pub(super) fn declined(name: &str, reason: &str) -> Self {
        let name = cut(name.to_owned(), 128);
        let message = format!("tool '{name}' did not run: {reason}");
        let error =
            ToolError::new(ErrorKind::Denied, message).with_code(&HostCode::Declined.prefixed());
        Self::Failed(error.into())
    }

    /// No person decided in time about the call, which waits as `id`.
    pub(super) fn pending(name: &str, id: &str) -> Self {
        let message = format!(
            "tool '{}' did not run: it needs the approval of a person, and waits for it as {id}. A person approves it with \
             `airlock approvals approve {id}` or `POST /v1/approvals/{id}/approve`; then repeat the same call with the same \
             arguments, within an hour",
            cut(name.to_owned(), 128)
        );
        Self::Failed(CallError::from(ToolError {
            code: Some(HostCode::ApprovalPending.prefixed()),
            meta: Some(Map::from_iter([(PENDING.to_owned(), json!({"id": id}))])),
            ..ToolError::new(ErrorKind::Denied, message)
        }))
    }

    /// The door or the tool failed, or the tool asked. `name` is that by which the client knows the tool.
    pub(super) fn after_run(
        error: CallError,
        name: &str,
        tool: &ToolName,
        version: Version,
        approval: Approval,
        is_task: bool,
    ) -> Self {
        if let Some(asked) = error.input_required() {
            return Self::Asked(questions::input_required(asked));
        }
        // The error is about the client, which lacks a capability, or about the task: it is no result of
        // the tool.
        if let Some(own) = error.tool_error()
            && let Some(code) = rpc_code(own)
            && (is_task || (version.is_modern() && code == code::MISSING_CAPABILITY))
        {
            let refused = RpcError::new(code, &*own.message);
            return Self::Refused(RpcError { data: own.details.clone(), ..refused });
        }
        if error.code() == HostCode::NotWaiting {
            return Self::Refused(RpcError::invalid_params(error.as_called(name).to_string()));
        }
        if error.is_unapproved() && approval == Approval::Missing {
            return Self::declined(name, &unapproved(&error, tool));
        }
        Self::Failed(error.as_called(name))
    }
}

/// Returns the reason of a call of `tool` that needs an approval, or that has made one which does.
fn unapproved(error: &CallError, tool: &ToolName) -> Cow<'static, str> {
    match error.tool().filter(|nested| *nested != tool) {
        Some(nested) => format!(
            "it calls '{nested}', which needs an approval, and a user is asked only about a tool that is not in \
             `tools_to_auto_execute`"
        )
        .into(),
        None => "it needs an approval, and the operator has it refused to MCP clients".into(),
    }
}

/// Returns the code of the JSON-RPC error with which a server refused a call; `None` for other errors.
fn rpc_code(error: &ToolError) -> Option<i64> {
    error.code.as_deref().and_then(|code| code.parse().ok())
}
