//! Builds the mixed response: results of the calls that were run, and the pending calls.

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
