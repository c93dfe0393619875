//! The items of a conversation, as providers know them.

use serde_json::{Value, json};

use crate::translate::{
    builtin::{self, ClientTools},
    output::Round,
};
use airlock_agent::recall::note;
use airlock_conversation::{
    ItemPlace, Object,
    read::{Members, Path, Untranslatable},
};
use airlock_json::object;

/// Types of items that are sent as they came. Others may bring tools that run at the provider; those
/// of the last four are records of what ran there.
const SENT: [&str; 11] = [
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "compaction",
    "code_interpreter_call",
    "file_search_call",
    "image_generation_call",
    "web_search_call",
];
/// Result of a call that the gateway ran, if the client leaves it out and it is no longer kept. It is
/// optional in OpenAI's schema.
const UNSENT: &str = "[Note of the gateway: this call ran, and its result is no longer kept. Do not repeat a call that changes \
                      something before you know its effect.]";

/// Prepares the items of the previous Responses and those of a request. Returns them with their places.
pub(super) fn prepare(
    earlier: Vec<Value>,
    input: Vec<Value>,
    client_tools: &mut ClientTools<'_>,
) -> Result<(Vec<Value>, Vec<ItemPlace>), Untranslatable> {
    let mut items = InputItems {
        items: Vec::with_capacity(earlier.len() + input.len()),
        places: Vec::with_capacity(earlier.len() + input.len()),
        turn: CallTurn::default(),
        client_tools,
    };
    let path = Path::Member(&Path::Root, "input");
    for value in earlier {
        let added = items.add(value, &path, ItemPlace::Stored);
        added.map_err(Untranslatable::in_previous_response)?;
    }
    for (index, value) in input.into_iter().enumerate() {
        items.add(value, &path.element(index), ItemPlace::listed(index))?;
    }
    items.end_turn();
    Ok((items.items, items.places))
}

/// Items so far.
struct InputItems<'a, 'p> {
    items: Vec<Value>,
    places: Vec<ItemPlace>,
    turn: CallTurn,
    client_tools: &'a mut ClientTools<'p>,
}

/// Calls that follow one another: the parallel calls of one turn of the model.
#[derive(Default)]
struct CallTurn {
    /// Round of the calls; `None` if it is not known.
    round: Option<Round>,
    /// True if a call is of a client's tool, so that its output is a later item.
    awaits_output: bool,
    /// Outputs of the calls that the gateway ran. They follow the last call.
    outputs: Vec<(Value, ItemPlace)>,
}

impl InputItems<'_, '_> {
    fn add(
        &mut self,
        mut value: Value,
        path: &Path<'_>,
        place: ItemPlace,
    ) -> Result<(), Untranslatable> {
        let Value::Object(item) = &mut value else {
            return Err(Untranslatable::invalid_type(path, "an object", &value));
        };
        flatten(item);
        if !self.client_tools.is_native() {
            // A fallback may have the Responses API.
            item.shift_remove("tools");
        }
        match item.get("type").and_then(Value::as_str) {
            // Their reader has an error for both. A provider of the API is sent items that are not read, and
            // could find tools in one of a type that the gateway does not know.
            kind @ (Some("item_reference") | None) if self.client_tools.is_native() => {
                let found = kind.unwrap_or_default();
                return Err(Untranslatable::not_among(&path.member("type"), found, &SENT));
            }
            Some("item_reference") | None => self.push(value, place),
            Some("mcp_call") => {
                let item = std::mem::take(item);
                self.add_executed(Members::new(path, item), place)?;
            }
            Some(kind) if self.leaves_out(kind) => {
                let kind = kind.to_owned();
                self.client_tools.drop_item(&kind, path)?;
            }
            Some(kind) if !SENT.contains(&kind) => {
                return Err(Untranslatable::invalid_value(&path.member("type"), kind, &SENT));
            }
            // A tool beside those of the request would run at the provider, without a decision of the
            // gateway.
            Some(_) if item.contains_key("tools") => {
                let advice = "Tools are a parameter of the request.";
                return Err(Untranslatable::invalid(&path.member("tools"), advice));
            }
            Some("function_call" | "custom_tool_call") => {
                let id = item.get("id").and_then(Value::as_str);
                self.begin_call(id.and_then(Round::of_item));
                self.turn.awaits_output = true;
                self.push(value, place);
            }
            Some(_) => {
                let is_of_model = item.get("type").is_some_and(|kind| kind == "reasoning")
                    || item.get("role").is_some_and(|role| role == "assistant");
                // Between a call and its output it belongs to the turn of the call.
                if !(is_of_model && self.turn.awaits_output) {
                    self.end_turn();
                }
                self.push(value, place);
            }
        }
        Ok(())
    }

    /// Returns whether items of this type are left out.
    fn leaves_out(&self, kind: &str) -> bool {
        builtin::is_item(kind) && !(self.client_tools.is_native() && SENT.contains(&kind))
    }

    fn push(&mut self, item: Value, place: ItemPlace) {
        self.items.push(item);
        self.places.push(place);
    }

    /// Adds a call that the gateway ran, which the provider knows as a function. Its identifier is that of
    /// the item.
    fn add_executed(
        &mut self,
        mut item: Members<'_>,
        place: ItemPlace,
    ) -> Result<(), Untranslatable> {
        let id = item.required_text("id")?;
        // The same call follows as one of a client's tool.
        let has_result = ["output", "error"].iter().any(|name| item.get(name).is_some());
        if item.get("status").is_some_and(|status| status == "incomplete") && !has_result {
            return Ok(());
        }
        let output = match (item.text("output")?, item.take("error")) {
            (Some(output), _) => output,
            (None, Some(error)) => error_text(&error),
            (None, None) => UNSENT.to_owned(),
        };
        for name in ["type", "status", "server_label", "approval_request_id"] {
            item.take(name);
        }
        let name = item.required_text("name")?;
        let arguments = item.required_text("arguments")?;
        self.begin_call(Round::of_item(&id));
        let mut call = object(json!({
            "type": "function_call", "call_id": id, "name": name, "arguments": arguments
        }));
        // Such as the signature of the thought before the call.
        call.extend(item.into_rest());
        self.push(call.into(), place);
        let output = json!({"type": "function_call_output", "call_id": id, "output": output});
        self.turn.outputs.push((output, place));
        Ok(())
    }

    /// Begins a call. One of another round begins another turn; one whose round is not known belongs to the
    /// turn of the call before it. Removes the note about an approval from a message of the model before it.
    fn begin_call(&mut self, round: Option<Round>) {
        if let Some(round) = round {
            if self.turn.round.as_ref().is_some_and(|earlier| round.differs_from(earlier)) {
                self.end_turn();
            }
            self.turn.round = Some(round);
        }
        if let Some(last) = self.items.last_mut()
            && last["type"] == "message"
            && last["role"] == "assistant"
            && let Some(content) = last.get_mut("content")
        {
            if let Some(rest) = note::without_approval(content.take()) {
                *content = rest;
            } else {
                self.items.pop();
                self.places.pop();
            }
        }
    }

    /// Ends the calls of a turn with the outputs of those that the gateway ran.
    fn end_turn(&mut self) {
        for (output, place) in std::mem::take(&mut self.turn).outputs {
            self.push(output, place);
        }
    }
}

/// Gives a call of a function of a group the name that the provider knows.
fn flatten(call: &mut Object) {
    let group = call.get("namespace").and_then(Value::as_str);
    let name = call.get("name").and_then(Value::as_str);
    if let (Some(group), Some(name)) = (group, name) {
        let name = builtin::flat_name(group, name);
        call.insert("name".to_owned(), name.into());
        call.shift_remove("namespace");
    }
}

/// Returns the text of the `error` of a call, which is what the model was sent.
fn error_text(error: &Value) -> String {
    let content = error.get("content").unwrap_or(error);
    let parts = content.as_array().map(|parts| {
        let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
        texts.collect::<Vec<_>>().join("\n")
    });
    let text = parts
        .filter(|text| !text.is_empty())
        .or_else(|| content.as_str().or_else(|| error.get("message")?.as_str()).map(str::to_owned));
    text.unwrap_or_else(|| error.to_string())
}
