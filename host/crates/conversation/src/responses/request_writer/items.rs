//! Items → `input`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    super::object_of,
    content::{self, ContentPlace},
};
use crate::{
    CallInput, Item, Message, Object, Reasoning, Role, Seal, ToolCall, ToolResult, Wire,
    chat::take_mixed_details,
    read::{ItemSite, Result, Untranslatable},
};

/// Members of chat messages without a counterpart.
const WITHOUT_COUNTERPART: [(&str, &str); 3] = [
    ("name", "It has no counterpart in the Responses API; write it in the text."),
    ("audio", "It has no counterpart in the Responses API."),
    ("function_call", "It is replaced by `tool_calls`."),
];
/// Roles of messages and of results in chat.
const ROLES: &[&str] = &["system", "developer", "user", "assistant", "tool"];

/// Items so far.
#[derive(Default)]
struct InputItems {
    items: Vec<Value>,
    /// Identifiers of the calls of custom tools, whose results have a type of their own.
    custom: BTreeSet<String>,
}

/// Writes items.
pub(super) fn write(items: Vec<Item>, sites: Vec<ItemSite>) -> Result<Vec<Value>> {
    let mut input = InputItems::default();
    for (item, site) in items.into_iter().zip(sites) {
        input.add(item, site)?;
    }
    Ok(input.items)
}

impl InputItems {
    fn add(&mut self, item: Item, site: ItemSite) -> Result<()> {
        match item {
            Item::Message(message) => self.add_message(message, site)?,
            Item::Reasoning(mut block) => {
                let mixed = take_mixed_details(&mut block.extra);
                self.items.extend(mixed.into_iter().chain([block]).filter_map(reasoning));
            }
            Item::ToolCall(call) => self.add_call(call),
            Item::ToolResult(result) => self.add_result(result, site)?,
            Item::Native(native) if native.wire == Wire::Responses => {
                self.items.push(native.object.into());
            }
            Item::Native(native) => {
                let path = site.path();
                let path = path.member("role");
                return Err(site.locate(Untranslatable::invalid_value(&path, &native.kind, ROLES)));
            }
        }
        Ok(())
    }

    /// Adds a message. One of the model without content, beside its calls, is left out.
    fn add_message(&mut self, message: Message, site: ItemSite) -> Result<()> {
        let Message { role, parts, extra } = message;
        check_members(&extra, site)?;
        let (role, place) = match role {
            Role::System => ("system", ContentPlace::Input),
            Role::Developer => ("developer", ContentPlace::Input),
            Role::User => ("user", ContentPlace::Input),
            Role::Assistant => ("assistant", ContentPlace::Assistant),
        };
        let content = content::write(parts, place, site)?;
        if place == ContentPlace::Input || content != "" {
            let kind = "message".into();
            self.push([("type", kind), ("role", role.into()), ("content", content)]);
        }
        Ok(())
    }

    fn add_call(&mut self, call: ToolCall) {
        let ToolCall { id, name, input, .. } = call;
        let (kind, member, text) = match input {
            CallInput::Arguments(text) => ("function_call", "arguments", text),
            CallInput::Text(text) => {
                self.custom.insert(id.clone());
                ("custom_tool_call", "input", text)
            }
        };
        self.push([
            ("type", kind.into()),
            ("call_id", id.into()),
            ("name", name.into()),
            (member, text.into()),
        ]);
    }

    fn add_result(&mut self, result: ToolResult, site: ItemSite) -> Result<()> {
        let ToolResult { call_id, parts, extra, .. } = result;
        check_members(&extra, site)?;
        let output = content::write(parts, ContentPlace::Input, site)?;
        let is_custom = self.custom.contains(&call_id);
        let kind = if is_custom { "custom_tool_call_output" } else { "function_call_output" };
        self.push([("type", kind.into()), ("call_id", call_id.into()), ("output", output)]);
        Ok(())
    }

    fn push<const N: usize>(&mut self, members: [(&str, Value); N]) {
        self.items.push(object_of(members).into());
    }
}

fn check_members(extra: &Object, site: ItemSite) -> Result<()> {
    match WITHOUT_COUNTERPART.into_iter().find(|(name, _)| extra.contains_key(*name)) {
        None => Ok(()),
        Some((name, advice)) => Err(site.unsupported_member(name, advice)),
    }
}

/// Returns the item of reasoning; `None` if it is not of this API, or was not sent in its encrypted form.
fn reasoning(reasoning: Reasoning) -> Option<Value> {
    let Some(Seal::Encrypted(data)) = reasoning.seal else { return None };
    let parts = reasoning.summary.into_iter();
    let summary: Vec<Value> =
        parts.map(|text| json!({"type": "summary_text", "text": text})).collect();
    let mut item = object_of([("type", "reasoning".into())]);
    item.extend(reasoning.id.map(|id| ("id".to_owned(), id.into())));
    item.extend(object_of([("summary", summary.into()), ("encrypted_content", data.into())]));
    Some(item.into())
}
