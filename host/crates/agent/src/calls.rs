//! Reads the tool calls of a model's response and repairs them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    Failure, MAX_CALLS_READ,
    names::{self, CallOwner, CallableNames},
};
use airlock_model::Object;

/// Maximum length of a call id, in bytes; a longer one is replaced. Ids are kept for the whole
/// conversation, and each of its calls repeats one. Those of OpenAI and Anthropic have some 30.
const MAX_ID_BYTES: usize = 256;

/// One call that a model asks for.
#[derive(Debug, Clone)]
pub(super) struct ToolCall {
    /// Position among all calls of the response.
    pub(super) position: usize,
    /// The choice that it belongs to.
    pub(super) choice: usize,
    /// Call id, unique in the conversation.
    pub(super) id: String,
    /// Name of the tool; empty if the model sent none.
    pub(super) name: String,
    /// Arguments as text; `None` if this is not a function call.
    pub(super) arguments: Option<String>,
    /// Owner of its tool. A call that is not a function call, or that the caller has received in the
    /// stream, is the caller's and never run here.
    pub(super) owner: CallOwner,
    /// The call as it appears in the response.
    pub(super) raw: Value,
}

/// Returns the number of calls in all choices, without copying them. Fails if there are more than
/// [`MAX_CALLS_READ`].
pub(super) fn count(answer: &Object) -> Result<usize, Failure> {
    let choices = answer.get("choices").and_then(Value::as_array).into_iter().flatten();
    let calls = choices.filter_map(|choice| choice.get("message")?.get("tool_calls")?.as_array());
    let found = calls.map(Vec::len).sum();
    let limit = MAX_CALLS_READ as usize;
    if found > limit { Err(Failure::TooManyCalls { found, limit }) } else { Ok(found) }
}

/// Reads the calls of all choices in order and repairs them in the response.
///
/// Results are matched to calls by id only. A call without an id, or with an id that was used
/// before, gets a new one, also in the response that the model and the caller receive. OpenAI's
/// clients require `type`, and `arguments` as a string, so these are repaired too, and so is the name
/// of an unknown tool. `ids` has the ids of earlier calls, and gets the new ones. Elements that are
/// not objects are skipped.
pub(super) fn read(
    answer: &mut Object,
    ids: &mut BTreeSet<String>,
    names: &CallableNames,
) -> Vec<ToolCall> {
    let mut calls = Vec::new();
    let choices = answer.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten();
    for (choice, content) in choices.enumerate() {
        let Some(Value::Array(raw_calls)) = content.pointer_mut("/message/tool_calls") else {
            continue;
        };
        for raw in raw_calls.iter_mut().filter_map(Value::as_object_mut) {
            let id = put_id_right(raw, ids);
            let arguments = put_arguments_right(raw);
            let owner = match arguments {
                Some(_) => names.owner(name(raw)),
                None => CallOwner::Caller,
            };
            if owner == CallOwner::Unknown
                && let Some(repaired) = names::repaired(name(raw))
            {
                raw["function"]["name"] = repaired.into();
            }
            calls.push(ToolCall {
                position: calls.len(),
                choice,
                id,
                name: name(raw).to_owned(),
                arguments,
                owner,
                raw: Value::Object(raw.clone()),
            });
        }
    }
    calls
}

fn put_id_right(raw: &mut Object, ids: &mut BTreeSet<String>) -> String {
    match raw.get("id") {
        Some(Value::String(id))
            if !id.is_empty() && id.len() <= MAX_ID_BYTES && ids.insert(id.clone()) =>
        {
            id.clone()
        }
        _ => {
            let id = format!("call_{}", Uuid::new_v4().simple());
            ids.insert(id.clone());
            raw.insert("id".to_owned(), id.clone().into());
            id
        }
    }
}

fn name(raw: &Object) -> &str {
    let named = raw.get("function").or_else(|| raw.get("custom"));
    named.and_then(|named| named.get("name")).and_then(Value::as_str).unwrap_or_default()
}

fn put_arguments_right(raw: &mut Object) -> Option<String> {
    let function = raw.get_mut("function")?.as_object_mut()?;
    let arguments = match function.get("arguments") {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    };
    function.insert("arguments".to_owned(), arguments.clone().into());
    raw.entry("type").or_insert_with(|| json!("function"));
    Some(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_model::object;

    #[test]
    fn a_missing_or_repeated_call_id_is_replaced_in_the_response() {
        let mut answer = object(json!({"choices": [
            {"message": {"tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "x", "arguments": "{}"}},
                {"id": "a", "function": {"name": "y", "arguments": {"n": 1}}, "kept": true},
            ]}},
            {"message": {"content": "text"}},
            {"message": {"tool_calls": [{"function": {"name": "z"}}, 7]}},
        ]}));
        let mut ids = BTreeSet::new();
        let calls = read(&mut answer, &mut ids, &CallableNames::default());
        let read_back: Vec<_> =
            calls.iter().map(|c| (c.choice, c.name.as_str(), c.arguments.as_deref())).collect();
        assert_eq!(
            read_back,
            [(0, "x", Some("{}")), (0, "y", Some(r#"{"n":1}"#)), (2, "z", Some(""))]
        );
        assert_eq!((calls[0].id.as_str(), ids.len()), ("a", 3));
        assert_eq!(count(&answer).ok(), Some(4), "what is no call counts as well");
        let shown = &answer["choices"][0]["message"]["tool_calls"][1];
        assert_eq!(shown["id"], calls[1].id);
        assert_eq!(
            (&shown["type"], &shown["function"]["arguments"], &shown["kept"]),
            (&json!("function"), &json!(r#"{"n":1}"#), &json!(true))
        );
        assert_eq!(calls[1].raw, *shown);
    }

    #[test]
    fn a_call_that_is_not_a_function_call_has_no_arguments() {
        let raw =
            json!({"id": "c", "type": "custom", "custom": {"name": "x", "input": "free text"}});
        let mut answer = object(json!({"choices": [{"message": {"tool_calls": [raw]}}]}));
        let calls = read(&mut answer, &mut BTreeSet::new(), &CallableNames::default());
        assert_eq!((calls[0].name.as_str(), calls[0].arguments.as_deref()), ("x", None));
        assert_eq!(answer["choices"][0]["message"]["tool_calls"][0], raw);
    }

    #[test]
    fn only_a_function_call_can_be_of_an_unknown_tool_and_its_name_is_repaired() {
        let function = |name| json!({"id": name, "function": {"name": name}});
        let custom = json!({"id": "c", "type": "custom", "custom": {"name": "no.tool"}});
        let list = [function("desk-echo"), function("my.tool"), function("no.tool"), custom];
        let mut answer = object(json!({"choices": [{"message": {"tool_calls": list}}]}));
        let names = CallableNames {
            offered: ["desk-echo".to_owned()].into(),
            own: ["my.tool".to_owned()].into(),
            ..CallableNames::default()
        };
        let calls = read(&mut answer, &mut BTreeSet::new(), &names);
        let found: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.owner)).collect();
        let expected = [
            ("desk-echo", CallOwner::Gateway),
            ("my.tool", CallOwner::Caller),
            ("no_tool", CallOwner::Unknown),
            ("no.tool", CallOwner::Caller),
        ];
        assert_eq!(found, expected);
        let shown = &answer["choices"][0]["message"]["tool_calls"][2];
        assert_eq!((shown, &shown["function"]["name"]), (&calls[2].raw, &json!("no_tool")));
    }

    #[test]
    fn an_id_that_is_too_long_is_replaced() {
        for (length, is_kept) in [(MAX_ID_BYTES, true), (MAX_ID_BYTES + 1, false)] {
            let id = "x".repeat(length);
            let raw = json!({"id": id, "function": {"name": "x"}});
            let mut answer = object(json!({"choices": [{"message": {"tool_calls": [raw]}}]}));
            let calls = read(&mut answer, &mut BTreeSet::new(), &CallableNames::default());
            assert_eq!(calls[0].id == id, is_kept, "{length}");
        }
    }
}
