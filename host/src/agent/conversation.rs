//! The request as it grows from round to round.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Request, Settings, round::Ended};
use crate::{catalog::Tool, door::Caller, model::Object};

/// A request to the model, with the tools that were offered in it.
pub(super) struct Conversation {
    request: Object,
    offered: BTreeSet<String>,
}

impl Conversation {
    /// Offers the caller's tools after those that the request brings along, whose names win: a call of such a name is for
    /// whoever sent the request.
    pub(super) fn begin(request: Request, caller: &Caller, settings: &Settings) -> Self {
        let mut this = Self { request: request.body, offered: BTreeSet::new() };
        if !settings.disable_auto_tool_inject || request.names_tools {
            this.offer(caller);
        }
        this
    }

    pub(super) fn request(&self) -> &Object {
        &self.request
    }

    /// Names of the tools that were offered here, and not by the caller.
    pub(super) fn offered(&self) -> &BTreeSet<String> {
        &self.offered
    }

    fn offer(&mut self, caller: &Caller) {
        let mut tools = match self.request.get("tools") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(tools)) => tools.clone(),
            // Not a list: the provider will say so.
            Some(_) => return,
        };
        let taken: BTreeSet<String> = tools.iter().filter_map(name_of).map(str::to_owned).collect();
        for tool in caller.list().map(|entry| &entry.tool).filter(|tool| !taken.contains(tool.name.as_str())) {
            self.offered.insert(tool.name.as_str().to_owned());
            tools.push(definition(tool));
        }
        if !self.offered.is_empty() {
            self.request.insert("tools".to_owned(), tools.into());
        }
    }

    /// Adds a round: what the model said, each message followed by the results of its calls, as OpenAI's API wants it.
    pub(super) fn go_on(&mut self, answer: &Object, results: &[Ended]) {
        let choices = answer.get("choices").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut added = Vec::new();
        for (index, choice) in choices.iter().enumerate() {
            let mut results = results.iter().filter(|ended| ended.call.choice == index).peekable();
            if results.peek().is_some() {
                added.push(choice["message"].clone());
                added
                    .extend(results.map(|ended| json!({"role": "tool", "tool_call_id": ended.call.id, "content": ended.text()})));
            }
        }
        if let Some(Value::Array(messages)) = self.request.get_mut("messages") {
            messages.extend(added);
        }
        self.stop_forcing();
    }

    /// A forced call was made. Forced again each round, the model could never end with an answer.
    fn stop_forcing(&mut self) {
        if let Some(choice) = self.request.get_mut("tool_choice")
            && (choice == "required" || choice.is_object())
        {
            *choice = "auto".into();
        }
    }
}

fn name_of(tool: &Value) -> Option<&str> {
    tool.get("function").or_else(|| tool.get("custom"))?.get("name")?.as_str()
}

fn definition(tool: &Tool) -> Value {
    let function = json!({"name": tool.name.as_str(), "description": tool.description, "parameters": tool.input_schema});
    json!({"type": "function", "function": function})
}
