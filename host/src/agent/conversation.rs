//! The request to the model, extended in every round.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Request, Settings, round::Ended};
use crate::{
    door::Caller,
    json,
    model::{Object, Prompt},
};

/// A request to the model, with the names of the tools that the gateway offers in it.
pub(super) struct Conversation {
    prompt: Prompt,
    offered: BTreeSet<String>,
}

impl Conversation {
    /// Adds the gateway's tools after those of the request. Names of the request's own tools take
    /// precedence: a call of such a name is for the caller.
    pub(super) fn begin(request: Request, caller: &Caller, settings: &Settings) -> Self {
        let mut this = Self { prompt: Prompt::new(request.body), offered: BTreeSet::new() };
        if (!settings.disable_auto_tool_inject || request.names_tools) && this.prompt.takes_tools()
        {
            this.offer(caller);
        }
        this
    }

    pub(super) fn prompt(&mut self) -> &mut Prompt {
        &mut self.prompt
    }

    /// Returns the names of the tools that the gateway offers, without those of the request.
    pub(super) fn offered(&self) -> &BTreeSet<String> {
        &self.offered
    }

    fn offer(&mut self, caller: &Caller) {
        let taken: BTreeSet<String> = self.prompt.own_names().collect();
        let tools = caller
            .list()
            .map(|entry| &entry.tool)
            .filter(|tool| !taken.contains(tool.name.as_str()));
        let tools: Vec<_> = tools.cloned().collect();
        self.offered = tools.iter().map(|tool| tool.name.as_str().to_owned()).collect();
        self.prompt.tools = tools;
    }

    /// Adds a round: each message of the model, followed by the results of its calls, as OpenAI's
    /// API requires. `results` are in the order of the calls. Messages without calls are left out.
    pub(super) fn go_on(&mut self, mut answer: Object, results: &[Ended]) {
        let mut choices = answer.get_mut("choices").and_then(Value::as_array_mut);
        let added = &mut self.prompt.added;
        for round in results.chunk_by(|one, other| one.call.choice == other.call.choice) {
            let choice = choices.as_mut().and_then(|choices| choices.get_mut(round[0].call.choice));
            let message = choice.and_then(|choice| choice.get_mut("message")).map(Value::take);
            added.extend(message.map(|message| message.to_string()));
            added.extend(round.iter().map(result));
        }
        self.stop_forcing();
    }

    /// Resets a forced `tool_choice` after its call. If it stayed forced, the model could never end
    /// with text.
    fn stop_forcing(&mut self) {
        let is_forced = |choice: &str| choice == r#""required""# || choice.starts_with('{');
        if self.prompt.body.get("tool_choice").is_some_and(is_forced) {
            self.prompt.body.set("tool_choice", r#""auto""#);
        }
    }
}

/// Returns the message with the result of a call.
fn result(ended: &Ended) -> String {
    let id = Value::from(ended.call.id.as_str());
    let text = || Value::from(&*ended.text).to_string();
    let content = ended.parts.clone().unwrap_or_else(text);
    format!(r#"{{"role":"tool","tool_call_id":{id},"content":{content}}}"#)
}

/// Returns the bytes that the messages of a response take in a conversation.
pub(super) fn message_bytes(answer: &Object) -> usize {
    let choices = answer.get("choices").and_then(Value::as_array).into_iter().flatten();
    choices.map(|choice| json::text_len(&choice["message"])).sum()
}
