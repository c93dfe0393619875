//! Builds the mixed response, if calls were run and others are pending: the pending calls, and in
//! some cases the results as text.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use serde_json::{Value, json};

use super::round::Pending;
use crate::model::Object;

/// Result of a call that was run.
pub(super) struct Result {
    pub(super) tool: String,
    pub(super) tool_call_id: String,
    pub(super) text: Arc<str>,
}

/// Replaces the choices by one choice that contains the results as text and the pending calls.
///
/// The text has the format of Bifrost: a JSON object of tool names and results. Further results of
/// the same tool have the key `name#tool_call_id`; in Bifrost they replace the first one.
/// `finish_reason` is `tool_calls` and not `stop`, because agents depend on it.
pub(super) fn mixed(mut answer: Object, results: &[Result], pending: &[Pending]) -> Object {
    let content = summary(results);
    let calls: Vec<&Value> = pending.iter().map(|pending| &pending.call.raw).collect();
    let message = json!({"role": "assistant", "content": content, "tool_calls": calls});
    let choice =
        json!({"index": 0, "message": message, "logprobs": null, "finish_reason": "tool_calls"});
    answer.insert("choices".to_owned(), json!([choice]));
    answer
}

/// Removes the calls that were run from the choices, whose texts stay as they are. `finish_reason` is
/// `tool_calls` where calls are left.
pub(super) fn pending_alone(mut answer: Object, pending: &[Pending]) -> Object {
    let choices = answer.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten();
    for (position, choice) in choices.enumerate() {
        let left = pending.iter().filter(|pending| pending.call.choice == position);
        let left: Vec<&Value> = left.map(|pending| &pending.call.raw).collect();
        let Some(message) = choice.get_mut("message").and_then(Value::as_object_mut) else {
            continue;
        };
        if message.shift_remove("tool_calls").is_none() {
            continue;
        }
        let reason = if left.is_empty() { "stop" } else { "tool_calls" };
        if !left.is_empty() {
            message.insert("tool_calls".to_owned(), json!(left));
        }
        choice["finish_reason"] = reason.into();
    }
    answer
}

/// Returns the text about the calls that were run.
pub(super) fn summary(results: &[Result]) -> String {
    let results = Value::from_iter(keyed(results));
    format!(
        "The Output from allowed tools calls is - {results}\n\nNow I shall call these tools next..."
    )
}

fn keyed(results: &[Result]) -> BTreeMap<String, &str> {
    let mut keyed = BTreeMap::new();
    for result in results {
        match keyed.entry(result.tool.clone()) {
            Entry::Vacant(first) => first.insert(&*result.text),
            Entry::Occupied(_) => keyed
                .entry(format!("{}#{}", result.tool, result.tool_call_id))
                .or_insert(&*result.text),
        };
    }
    keyed
}
