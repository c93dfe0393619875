//! `instructions` and `input` → items.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
};

use serde_json::{Value, json};

use super::{
    content::{self, InputPlace},
    read_input, reasoning,
};
use crate::{
    CallInput, Conversation, Item, ItemPlace, Message, Part, Role, ToolCall, ToolResult, chat,
    read::{Members, Path, Result, Untranslatable, excerpt},
};

/// Types of items that have a counterpart in chat completions.
const SUPPORTED: &[&str] = &[
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
];
/// Roles of messages.
const ROLES: &[&str] = &["assistant", "system", "developer", "user"];

/// Reads `instructions` and `input`. Every server knows the role `system`; OpenAI's API converts it to
/// `developer` if the model requires that. Fails if an item is invalid, or if a call has no output or
/// an output no call.
pub(super) fn read(
    request: &mut Members<'_>,
    places: &[ItemPlace],
    conversation: &mut Conversation,
) -> Result<()> {
    let input = read_input(request)?;
    if let Some(text) = request.text("instructions")? {
        let message = Message::new(Role::System, vec![Part::text(text)]);
        conversation.push(Item::Message(message), ItemPlace::Instructions);
    }
    let path = request.path("input");
    let mut steps = Vec::with_capacity(input.len());
    for (index, item) in input.into_iter().enumerate() {
        let place = places.get(index).copied().unwrap_or_else(|| ItemPlace::listed(index));
        match place {
            ItemPlace::Listed { index, .. } => {
                read_item(item, &path.element(index as usize), place, &mut steps)?;
            }
            _ => read_item(item, &path, place, &mut steps)
                .map_err(Untranslatable::in_previous_response)?,
        }
    }
    let mut turns =
        TurnReader { conversation, outputs: take_outputs(&mut steps), ended: Vec::new() };
    steps.into_iter().try_for_each(|(item, place)| turns.add(item, place))?;
    turns.finish()
}

/// Reads an item.
fn read_item(
    item: Value,
    path: &Path<'_>,
    place: ItemPlace,
    steps: &mut Vec<(Item, ItemPlace)>,
) -> Result<()> {
    let mut item = Members::read(path, item)?;
    let kind = match item.text("type")? {
        Some(kind) => kind,
        None if item.get("id").is_some() => "item_reference".to_owned(),
        None => return Err(Untranslatable::missing(&item.path("type"))),
    };
    let item = match kind.as_str() {
        "message" => Item::Message(message(item)?),
        "reasoning" => {
            let blocks = reasoning::read(item)?.into_iter();
            steps.extend(blocks.map(|block| (Item::Reasoning(block), place)));
            return Ok(());
        }
        "function_call" => Item::ToolCall(call(item, "arguments", CallInput::Arguments)?),
        "custom_tool_call" => Item::ToolCall(call(item, "input", CallInput::Text)?),
        "function_call_output" | "custom_tool_call_output" => Item::ToolResult(output(item)?),
        "item_reference" => {
            let advice = "References are resolved in the input of a request alone.";
            let kind = kind.into();
            return Err(Untranslatable::unsupported_value(&item.path("type"), &kind, advice));
        }
        other => return Err(Untranslatable::invalid_value(&item.path("type"), other, SUPPORTED)),
    };
    steps.push((item, place));
    Ok(())
}

fn message(mut item: Members<'_>) -> Result<Message> {
    let role = item.required_text("role")?;
    let (role, place) = match role.as_str() {
        "user" => (Role::User, InputPlace::User),
        "system" => (Role::System, InputPlace::Instructions),
        "developer" => (Role::Developer, InputPlace::Instructions),
        "assistant" => (Role::Assistant, InputPlace::Assistant),
        other => return Err(Untranslatable::invalid_value(&item.path("role"), other, ROLES)),
    };
    let content = item.required("content")?;
    let parts = content::read(content, place, &item.path("content"))?;
    Ok(Message { role, parts, extra: rest(item) })
}

/// Reads a call. `member` has its input.
fn call(mut item: Members<'_>, member: &str, input: fn(String) -> CallInput) -> Result<ToolCall> {
    let id = item.required_text("call_id")?;
    check_call(&mut item)?;
    let name = item.required_text("name")?;
    let input = input(item.required_text(member)?);
    // Members that the API does not define are kept, such as `extra_content`, in which Gemini's
    // endpoint sends the signature of a call's thought. It refuses the call without it.
    Ok(ToolCall { id, name, input, cache_control: None, extra: rest(item) })
}

fn output(mut item: Members<'_>) -> Result<ToolResult> {
    let call_id = item.required_text("call_id")?;
    check_call(&mut item)?;
    let output = item.required("output")?;
    let parts = content::read(output, InputPlace::ToolOutput, &item.path("output"))?;
    Ok(ToolResult::new(call_id, parts))
}

/// Refuses calls of tools that cannot be declared.
fn check_call(item: &mut Members<'_>) -> Result<()> {
    let advice = "Only calls by the model itself are supported.";
    item.refuse_unless("caller", &json!({"type": "direct"}), advice)?;
    item.refuse_unless("async", &false.into(), "Calls cannot be asynchronous.")
}

/// Returns the members that the Responses API does not define.
fn rest(mut item: Members<'_>) -> crate::Object {
    item.take("id");
    item.take("status");
    chat::rest(item)
}

/// Outputs of calls by the identifier of the call, in order: some servers use the same identifiers in
/// every response.
type Outputs = BTreeMap<String, VecDeque<(ToolResult, ItemPlace)>>;

/// Takes the outputs, and leaves empty ones in their places.
fn take_outputs(steps: &mut [(Item, ItemPlace)]) -> Outputs {
    let mut outputs = Outputs::new();
    for (item, place) in steps {
        if let Item::ToolResult(output) = item {
            let marker = ToolResult::new(String::new(), Vec::new());
            let output = mem::replace(output, marker);
            outputs.entry(output.call_id.clone()).or_default().push_back((output, *place));
        }
    }
    outputs
}

/// Puts the outputs behind the calls of their turn.
struct TurnReader<'a> {
    conversation: &'a mut Conversation,
    outputs: Outputs,
    /// Outputs of the calls of the turn.
    ended: Vec<(ToolResult, ItemPlace)>,
}

impl TurnReader<'_> {
    /// Adds an item. Text and reasoning between a call and its output belong to the turn of the call.
    fn add(&mut self, item: Item, place: ItemPlace) -> Result<()> {
        match &item {
            Item::Message(message) if message.role != Role::Assistant => self.end_turn(),
            Item::ToolCall(call) => {
                let queue = self.outputs.get_mut(&call.id);
                let output = queue.and_then(VecDeque::pop_front);
                self.ended.push(output.ok_or_else(|| unanswered(&call.id))?);
            }
            // It was taken with its call. A call after it belongs to the next turn.
            Item::ToolResult(_) => {
                self.end_turn();
                return Ok(());
            }
            _ => {}
        }
        self.conversation.push(item, place);
        Ok(())
    }

    fn end_turn(&mut self) {
        for (output, place) in self.ended.drain(..) {
            self.conversation.push(Item::ToolResult(output), place);
        }
    }

    fn finish(mut self) -> Result<()> {
        self.end_turn();
        match self.outputs.iter().find(|(_, outputs)| !outputs.is_empty()) {
            None => Ok(()),
            Some((id, _)) => Err(unmatched(id)),
        }
    }
}

fn unanswered(id: &str) -> Untranslatable {
    no_match(format!("No tool output found for function call {}.", excerpt(id)))
}

fn unmatched(id: &str) -> Untranslatable {
    no_match(format!("No tool call found for function call output with call_id {}.", excerpt(id)))
}

/// Returns the error that OpenAI's API has for calls and outputs that do not match.
fn no_match(message: String) -> Untranslatable {
    Untranslatable { code: "invalid_value", param: "input".to_owned(), message }
}
