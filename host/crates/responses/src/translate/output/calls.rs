//! Items of tool calls: those that the client runs, and those that the gateway runs.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    events::ResponseEvents,
    item::{ItemSlot, ItemStatus, Items},
};
use crate::translate::builtin::Groups;
use airlock_conversation::Object;
use airlock_json::object;

/// Members of a tool call and of call items. A provider cannot set them by other means.
const DEFINED: &[&str] = &[
    "index",
    "id",
    "type",
    "function",
    "custom",
    "call_id",
    "name",
    "arguments",
    "input",
    "status",
    "output",
    "error",
    "server_label",
    "approval_request_id",
    "caller",
    "namespace",
    "async",
];

/// A call that the gateway runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GatewayCall<'a> {
    /// Identifier in the model's request for the call.
    pub(crate) tool_call_id: &'a str,
    /// Name of the tool's source, which groups tools for people.
    pub(crate) server_label: &'a str,
    /// Name of the tool as the model calls it. The next turn shows the call to the model by it.
    pub(crate) name: &'a str,
    /// Arguments as JSON text.
    pub(crate) arguments: &'a str,
    /// Members of the call that chat completions do not define. They are kept for the next turn.
    pub(crate) extra: &'a Object,
}

/// Beginning of a call of a client's tool.
#[derive(Debug)]
pub(super) struct CallBegin {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) is_custom: bool,
    /// Members that chat completions do not define.
    pub(super) extra: Object,
}

/// An open call of a client's tool.
#[derive(Debug)]
pub(super) struct ClientCall {
    slot: ItemSlot,
    call_id: String,
    name: String,
    /// Name of the group of the tool; `None` if it is in no group.
    group: Option<Arc<str>>,
    kind: CallKind,
    text: String,
    rest: Object,
}

#[derive(Debug, Clone, Copy)]
enum CallKind {
    Function,
    Custom,
}

impl ClientCall {
    /// Opens a call.
    pub(super) fn open(
        call: CallBegin,
        groups: &Groups,
        items: &mut Items,
        events: &mut ResponseEvents<'_>,
    ) -> Self {
        let CallBegin { id: call_id, name, is_custom, extra } = call;
        let kind = if is_custom { CallKind::Custom } else { CallKind::Function };
        let (group, name) = match groups.find(&name) {
            Some((group, name)) => (Some(group.clone()), name.clone()),
            None => (None, name),
        };
        let slot = ItemSlot::default();
        let text = String::new();
        let rest = rest(&extra).collect();
        let mut call = Self { slot, call_id, name, group, kind, text, rest };
        call.slot = items.open(kind.prefix(), call.members("in_progress"), events);
        call
    }

    /// Adds members that came after the beginning.
    pub(super) fn add_members(&mut self, piece: &Object) {
        self.rest.extend(rest(piece));
    }

    /// Adds a piece of the input.
    pub(super) fn add(&mut self, text: &str, events: &mut ResponseEvents<'_>) {
        self.text.push_str(text);
        let kind = match self.kind {
            CallKind::Function => "response.function_call_arguments.delta",
            CallKind::Custom => "response.custom_tool_call_input.delta",
        };
        events.write_item(kind, &self.slot, [("delta", text.into())]);
    }

    /// Adds the members of the item that a provider of the Responses API sent for this call.
    pub(super) fn add_item(&mut self, item: &Object) {
        if item.get("call_id").is_some_and(|id| *id == *self.call_id) {
            self.rest.extend(rest(item));
        }
    }

    fn members(&self, status: &str) -> Object {
        let mut members = object(json!({
            "type": self.kind.item(),
            "status": status,
            "call_id": self.call_id,
            "name": self.name,
        }));
        members.extend(self.group.as_deref().map(|group| ("namespace".to_owned(), group.into())));
        members.insert(self.kind.input().to_owned(), self.text.as_str().into());
        members
    }

    /// Ends the call.
    pub(super) fn close(
        self,
        status: ItemStatus,
        items: &mut Items,
        events: &mut ResponseEvents<'_>,
    ) {
        let kind = match self.kind {
            CallKind::Function => "response.function_call_arguments.done",
            CallKind::Custom => "response.custom_tool_call_input.done",
        };
        let done = [(self.kind.input(), self.text.clone().into())];
        events.write_item(kind, &self.slot, done);
        let mut members = self.members(status.as_str());
        members.extend(self.rest);
        items.close(&self.slot, members, events);
    }
}

impl CallKind {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Function => "fc",
            Self::Custom => "ctc",
        }
    }

    const fn input(self) -> &'static str {
        match self {
            Self::Function => "arguments",
            Self::Custom => "input",
        }
    }

    const fn item(self) -> &'static str {
        match self {
            Self::Function => "function_call",
            Self::Custom => "custom_tool_call",
        }
    }
}

/// An open call that the gateway runs.
#[derive(Debug)]
pub(super) struct ExecutedCall {
    slot: ItemSlot,
    members: Object,
}

impl ExecutedCall {
    /// Opens a call. Its arguments are complete.
    pub(super) fn open(
        call: GatewayCall<'_>,
        items: &mut Items,
        events: &mut ResponseEvents<'_>,
    ) -> Self {
        let mut members = object(json!({
            "type": "mcp_call",
            "status": "in_progress",
            "approval_request_id": null,
            "server_label": call.server_label,
            "name": call.name,
            "arguments": "",
            "output": null,
            "error": null,
        }));
        let slot = items.open("mcp", members.clone(), events);
        events.write_item("response.mcp_call.in_progress", &slot, []);
        let arguments: Value = call.arguments.into();
        let delta = [("delta", arguments.clone())];
        events.write_item("response.mcp_call_arguments.delta", &slot, delta);
        let done = [("arguments", arguments.clone())];
        events.write_item("response.mcp_call_arguments.done", &slot, done);
        members.insert("arguments".to_owned(), arguments);
        members.extend(rest(call.extra));
        Self { slot, members }
    }

    /// Ends the call.
    pub(super) fn close(
        mut self,
        result: Result<&str, &str>,
        items: &mut Items,
        events: &mut ResponseEvents<'_>,
    ) {
        let (kind, status, name, value) = match result {
            Ok(text) => ("response.mcp_call.completed", "completed", "output", text.into()),
            Err(text) => ("response.mcp_call.failed", "failed", "error", error(text)),
        };
        self.members.insert("status".to_owned(), status.into());
        self.members.insert(name.to_owned(), value);
        events.write_item(kind, &self.slot, []);
        items.close(&self.slot, self.members, events);
    }

    /// Ends the call without a result. There is no event for it but that of the item.
    pub(super) fn suspend(mut self, items: &mut Items, events: &mut ResponseEvents<'_>) {
        self.members.insert("status".to_owned(), ItemStatus::Incomplete.as_str().into());
        items.close(&self.slot, self.members, events);
    }
}

/// Returns the `error` of a failed call, with the text as MCP content.
fn error(text: &str) -> Value {
    let content = json!([{"type": "text", "text": text}]);
    json!({"type": "mcp_tool_execution_error", "content": content})
}

/// Returns the members of a tool call that chat completions do not define.
fn rest(call: &Object) -> impl Iterator<Item = (String, Value)> {
    let rest =
        call.iter().filter(|(name, value)| !value.is_null() && !DEFINED.contains(&name.as_str()));
    rest.map(|(name, value)| (name.clone(), value.clone()))
}
