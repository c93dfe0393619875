//! Chat messages → items.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::content::{self, ContentPlace};
use crate::{
    Object,
    translation::{Unsupported, object_of, take, take_text},
};

/// Format of `reasoning_details` that hold reasoning of this API. The name is that of `OpenRouter`,
/// whose clients send such details back.
pub(super) const FORMAT: &str = "openai-responses-v1";
/// Types of reasoning details.
pub(super) const ENCRYPTED: &str = "reasoning.encrypted";
pub(super) const SUMMARY: &str = "reasoning.summary";

/// Items so far.
#[derive(Default)]
struct InputItems {
    items: Vec<Value>,
    /// Identifiers of the calls of custom tools, whose results have a type of their own.
    custom: BTreeSet<String>,
}

/// Translates the `messages` of a chat completion request.
pub(super) fn to_items(messages: Option<Value>) -> Result<Vec<Value>, Unsupported> {
    let Some(Value::Array(messages)) = messages else {
        return Err(Unsupported::new("messages", "must be a list of messages"));
    };
    let mut this = InputItems::default();
    for (index, message) in messages.into_iter().enumerate() {
        this.add(message).map_err(|error| error.within(format_args!("messages[{index}]")))?;
    }
    Ok(this.items)
}

impl InputItems {
    fn add(&mut self, message: Value) -> Result<(), Unsupported> {
        let Value::Object(mut message) = message else {
            return Err(Unsupported::new("", "must be an object"));
        };
        let role = take_text(&mut message, "role")?;
        let advice = "has no counterpart in the Responses API; write it in the text";
        refuse(&mut message, "name", advice)?;
        match role.as_str() {
            "system" | "developer" | "user" => {
                let content = take(&mut message, "content").unwrap_or_else(|| "".into());
                let content = content::translate(content, ContentPlace::Input)?;
                self.message(&role, content);
                Ok(())
            }
            "assistant" => self.assistant(message),
            "tool" => self.result(message),
            _ => {
                let roles =
                    "must be \"system\", \"developer\", \"user\", \"assistant\" or \"tool\"";
                Err(Unsupported::new("role", roles))
            }
        }
    }

    fn message(&mut self, role: &str, content: Value) {
        let item =
            object_of([("type", "message".into()), ("role", role.into()), ("content", content)]);
        self.items.push(item.into());
    }

    /// Adds a message of the model: its reasoning, its text and its calls. Readable reasoning is
    /// left out: the API takes it only together with its encrypted form, which repeats it.
    fn assistant(&mut self, mut message: Object) -> Result<(), Unsupported> {
        refuse(&mut message, "audio", "has no counterpart in the Responses API")?;
        refuse(&mut message, "function_call", "is replaced by `tool_calls`")?;
        self.items.extend(reasoning(take(&mut message, "reasoning_details")));
        let content = take(&mut message, "content");
        let content = content.map(|content| content::translate(content, ContentPlace::Assistant));
        let mut content = content.transpose()?;
        if let Some(refusal) = take(&mut message, "refusal") {
            let refusal = json!({"type": "refusal", "refusal": refusal});
            content = Some(with_part(content, refusal));
        }
        if let Some(content) = content.filter(|content| *content != "") {
            self.message("assistant", content);
        }
        let calls = match take(&mut message, "tool_calls") {
            None => Vec::new(),
            Some(Value::Array(calls)) => calls,
            Some(_) => return Err(Unsupported::new("tool_calls", "must be a list")),
        };
        for (index, call) in calls.into_iter().enumerate() {
            self.call(call).map_err(|error| error.within(format_args!("tool_calls[{index}]")))?;
        }
        Ok(())
    }

    fn call(&mut self, call: Value) -> Result<(), Unsupported> {
        let Value::Object(mut call) = call else {
            return Err(Unsupported::new("", "must be an object"));
        };
        let id = take_text(&mut call, "id")?;
        let (name, kind, input) = match call.get("custom") {
            Some(Value::Object(_)) => ("custom", "custom_tool_call", "input"),
            _ => ("function", "function_call", "arguments"),
        };
        let Some(Value::Object(mut body)) = call.shift_remove(name) else {
            return Err(Unsupported::new("type", "must be \"function\" or \"custom\""));
        };
        let tool = take_text(&mut body, "name").map_err(|error| error.within(name))?;
        let text = take_text(&mut body, input).map_err(|error| error.within(name))?;
        if name == "custom" {
            self.custom.insert(id.clone());
        }
        let item = object_of([
            ("type", kind.into()),
            ("call_id", id.into()),
            ("name", tool.into()),
            (input, text.into()),
        ]);
        self.items.push(item.into());
        Ok(())
    }

    fn result(&mut self, mut message: Object) -> Result<(), Unsupported> {
        let id = take_text(&mut message, "tool_call_id")?;
        let output = take(&mut message, "content").unwrap_or_else(|| "".into());
        let output = content::translate(output, ContentPlace::Input)?;
        let is_custom = self.custom.contains(&id);
        let kind = if is_custom { "custom_tool_call_output" } else { "function_call_output" };
        let item = object_of([("type", kind.into()), ("call_id", id.into()), ("output", output)]);
        self.items.push(item.into());
        Ok(())
    }
}

/// Returns the reasoning items of `reasoning_details`. Details that another provider made are left
/// out, because this one cannot read them.
fn reasoning(details: Option<Value>) -> Vec<Value> {
    let Some(Value::Array(details)) = details else { return Vec::new() };
    let mut items: Vec<Value> = Vec::new();
    for mut detail in details.into_iter().filter(|detail| detail["format"] == FORMAT) {
        let id = detail["id"].take();
        if items.last().is_none_or(|item| item["id"] != id) {
            items.push(json!({"type": "reasoning", "id": id, "summary": []}));
        }
        let Some(Value::Object(item)) = items.last_mut() else { continue };
        match detail["type"].as_str() {
            Some(ENCRYPTED) => {
                item.insert("encrypted_content".to_owned(), detail["data"].take());
            }
            Some(SUMMARY) => {
                if let Some(Value::Array(summary)) = item.get_mut("summary") {
                    let text = detail["summary"].take();
                    summary.push(json!({"type": "summary_text", "text": text}));
                }
            }
            _ => {}
        }
    }
    items.retain(|item| item["encrypted_content"].is_string());
    items
}

fn with_part(content: Option<Value>, part: Value) -> Value {
    let mut parts = match content {
        Some(Value::Array(parts)) => parts,
        Some(Value::String(text)) if !text.is_empty() => {
            vec![json!({"type": "output_text", "text": text, "annotations": []})]
        }
        _ => Vec::new(),
    };
    parts.push(part);
    parts.into()
}

fn refuse(message: &mut Object, name: &str, problem: &str) -> Result<(), Unsupported> {
    take(message, name).map_or(Ok(()), |_| Err(Unsupported::new(name, problem)))
}
