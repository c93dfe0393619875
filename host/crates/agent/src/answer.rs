//! Builds the response if calls are pending: with the results of others as text in some cases, and
//! with a note if it has no text.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use serde_json::{Value, json};

use super::round::{PendingCall, PendingReason};
use crate::recall::note;
use airlock_model::Object;

/// Result of a call that was run.
pub(super) struct ToolResult<'r> {
    pub(super) tool: &'r str,
    pub(super) tool_call_id: &'r str,
    pub(super) text: &'r str,
}

/// Replaces the choices by one choice with the [`summary`] of the results and the pending calls.
/// `finish_reason` is `tool_calls` and not `stop`, because agents depend on it.
pub(super) fn mix(answer: &mut Object, summary: &str, pending: &[PendingCall]) {
    let calls: Vec<&Value> = pending.iter().map(|pending| &pending.call.raw).collect();
    let message = json!({"role": "assistant", "content": summary, "tool_calls": calls});
    let choice =
        json!({"index": 0, "message": message, "logprobs": null, "finish_reason": "tool_calls"});
    answer.insert("choices".to_owned(), json!([choice]));
}

/// Removes the calls that were run from the choices, whose texts stay as they are. `finish_reason` is
/// `tool_calls` where calls are left.
pub(super) fn remove_ended(answer: &mut Object, pending: &[PendingCall]) {
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
}

/// Returns a text for an answer that has none, because all of its calls wait for an approval, or its
/// one call is a script that does: a chat program that knows no tools would show nothing. `None` for
/// any other answer.
pub(super) fn approval_note(answer: &Object, pending: &[PendingCall]) -> Option<String> {
    let message = answer.get("choices")?.get(0)?.get("message")?;
    let has_text = match &message["content"] {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        // Some providers send parts, such as the reasoning before a call.
        _ => true,
    };
    if has_text || pending.is_empty() {
        return None;
    }
    if let [PendingCall { reason: PendingReason::Suspended(suspension), .. }] = pending {
        return Some(note::suspension(suspension));
    }
    if !pending.iter().all(waits) {
        return None;
    }
    let names: BTreeSet<_> = pending.iter().map(|pending| pending.call.name.as_str()).collect();
    Some(note::approval(names.into_iter()))
}

fn waits(pending: &PendingCall) -> bool {
    matches!(pending.reason, PendingReason::NeedsApproval) && pending.call.choice == 0
}

/// Sets the text of the first choice.
pub(super) fn set_text(answer: &mut Object, text: String) {
    let choice = answer.get_mut("choices").and_then(|choices| choices.get_mut(0));
    let message = choice.and_then(|choice| choice.get_mut("message")?.as_object_mut());
    if let Some(message) = message {
        message.insert("content".to_owned(), text.into());
    }
}

/// Returns the text about the calls that were run, in the format of Bifrost: a JSON object of tool
/// names and results. Further results of the same tool have the key `name#tool_call_id`; in Bifrost
/// they replace the first one.
pub(super) fn summary<'r>(results: impl Iterator<Item = ToolResult<'r>>) -> String {
    let results = Value::from_iter(keyed(results));
    format!(
        "The Output from allowed tools calls is - {results}\n\nNow I shall call these tools next..."
    )
}

fn keyed<'r>(results: impl Iterator<Item = ToolResult<'r>>) -> BTreeMap<String, &'r str> {
    let mut keyed = BTreeMap::new();
    for result in results {
        match keyed.entry(result.tool.to_owned()) {
            Entry::Vacant(first) => first.insert(result.text),
            Entry::Occupied(_) => keyed
                .entry(format!("{}#{}", result.tool, result.tool_call_id))
                .or_insert(result.text),
        };
    }
    keyed
}

#[cfg(test)]
mod tests {
    use super::{
        super::{calls::ToolCall, names::CallOwner},
        *,
    };
    use airlock_core::tool::Suspension;
    use airlock_model::object;

    #[test]
    fn an_answer_whose_calls_need_an_approval_has_a_note_unless_it_has_content() {
        let pending = [PendingCall::new(call(), PendingReason::NeedsApproval)];
        let parts = json!([{"type": "thinking", "thinking": []}]);
        for (content, has_note) in
            [(Value::Null, true), (json!(" "), true), (json!("text"), false), (parts, false)]
        {
            let answer = object(json!({"choices": [{"message": {"content": content}}]}));
            assert_eq!(approval_note(&answer, &pending).is_some(), has_note, "{content}");
        }
    }

    #[test]
    fn an_answer_whose_script_has_stopped_has_a_note_that_names_the_run() {
        let suspension = Suspension {
            run: "run_1".to_owned(),
            token: String::new(),
            completed: Vec::new(),
            pending: Vec::new(),
            in_doubt: Vec::new(),
        };
        let pending =
            || PendingCall::new(call(), PendingReason::Suspended(suspension.clone().into()));
        let answer = object(json!({"choices": [{"message": {"content": null}}]}));
        let note = approval_note(&answer, &[pending()]).expect("a note");
        assert!(note.contains("`airlock runs show run_1`"), "{note}");
        assert_eq!(approval_note(&answer, &[pending(), pending()]), None);
    }

    fn call() -> ToolCall {
        ToolCall {
            position: 0,
            choice: 0,
            id: "c1".to_owned(),
            name: "web-post".to_owned(),
            arguments: Some("{}".to_owned()),
            owner: CallOwner::Gateway,
            raw: json!({}),
        }
    }
}
