//! Choices of tools in a request: whether they force a call, and the tools to which they restrict the model.

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::Value;

use super::{TOOLS, name_of};
use airlock_conversation::Object;
use airlock_json::raw;

/// Type of a choice that restricts the model to some tools, and the member that lists them.
const ALLOWED_TOOLS: &str = "allowed_tools";

/// Returns the names of the tools to which a `tool_choice` restricts the model; `None` if it may call
/// all.
pub(super) fn allowed_by(choice: &str) -> Option<BTreeSet<String>> {
    if kind_of(choice)? != ALLOWED_TOOLS {
        return None;
    }
    // In an object of its own in chat completions, and not in the Responses API.
    let allowed = raw::member(choice, ALLOWED_TOOLS).unwrap_or(choice);
    let tools = raw::member(allowed, TOOLS).and_then(raw::elements).into_iter().flatten();
    let names = tools.filter_map(|tool| {
        name_of(tool).or_else(|| raw::string(raw::member(tool, "name")?).map(Cow::into_owned))
    });
    Some(names.collect())
}

/// Returns whether a call of one of these tools satisfies a `tool_choice` that forces a call.
pub(super) fn is_for_any(choice: &str, names: &BTreeSet<String>) -> bool {
    if choice == r#""required""# || kind_of(choice).is_some_and(|kind| kind == "any") {
        return !names.is_empty();
    }
    match allowed_by(choice) {
        Some(allowed) => !allowed.is_disjoint(names),
        None => name_of(choice).is_some_and(|name| names.contains(&name)),
    }
}

/// Returns a `tool_choice` that forces no call; `None` if this one forces none. A restriction to
/// some tools stays.
pub(super) fn unforced(choice: &str) -> Option<String> {
    if choice != r#""required""# && !choice.starts_with('{') {
        return None;
    }
    let mut object = serde_json::from_str::<Object>(choice).unwrap_or_default();
    match kind_of(choice).as_deref() {
        // Those of the Messages API.
        Some("auto" | "none") => return None,
        Some("any" | "tool") => {
            object.shift_remove("name");
            object.insert("type".to_owned(), "auto".into());
            return Some(Value::from(object).to_string());
        }
        _ => {}
    }
    if object.get("type").is_none_or(|kind| kind != ALLOWED_TOOLS) {
        return Some(r#""auto""#.to_owned());
    }
    let allowed = match object.get_mut(ALLOWED_TOOLS).and_then(Value::as_object_mut) {
        Some(allowed) => allowed,
        None => &mut object,
    };
    allowed.insert("mode".to_owned(), "auto".into());
    Some(Value::from(object).to_string())
}

/// Returns the type of a choice that is an object.
fn kind_of(choice: &str) -> Option<Cow<'_, str>> {
    raw::member(choice, "type").and_then(raw::string)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::prompt::{Prompt, TOOL_CHOICE, tests::function};
    use airlock_json::RawObject;

    #[test]
    fn a_forced_choice_becomes_auto_and_a_restriction_stays() {
        for (choice, expected) in [
            (r#""required""#, r#""auto""#),
            (r#"{"type":"function","function":{"name":"x"}}"#, r#""auto""#),
            (r#""none""#, r#""none""#),
            (
                r#"{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[]}}"#,
                r#"{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}"#,
            ),
            (
                r#"{"type":"allowed_tools","mode":"required","tools":[]}"#,
                r#"{"type":"allowed_tools","mode":"auto","tools":[]}"#,
            ),
            (
                r#"{"type":"any","disable_parallel_tool_use":true}"#,
                r#"{"type":"auto","disable_parallel_tool_use":true}"#,
            ),
            (r#"{"type":"tool","name":"x"}"#, r#"{"type":"auto"}"#),
            (r#"{"type":"none"}"#, r#"{"type":"none"}"#),
        ] {
            let mut prompt = Prompt::new(RawObject::default());
            prompt.body.set(TOOL_CHOICE, choice);
            prompt.stop_forcing(prompt.unforced());
            assert_eq!(prompt.body.get(TOOL_CHOICE), Some(expected));
        }
    }

    fn flat(name: &str) -> Value {
        json!({"type": "function", "name": name})
    }

    fn allowed(names: &[&str]) -> Value {
        let tools: Vec<_> = names.iter().map(|name| function(name)).collect();
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": tools}})
    }

    #[test]
    fn a_forced_choice_stays_while_a_tool_of_the_caller_can_satisfy_it() {
        let own = r#"[{"type":"function","function":{"name":"mine"}}]"#;
        for (choice, stays) in [
            (json!("required"), true),
            (function("mine"), true),
            (flat("mine"), true),
            (json!({"type": "any"}), true),
            (json!({"type": "tool", "name": "mine"}), true),
            (json!({"type": "tool", "name": "web-t"}), false),
            (allowed(&["web-t", "mine"]), true),
            (function("web-t"), false),
            (flat("web-t"), false),
            (allowed(&["web-t"]), false),
        ] {
            let choice = choice.to_string();
            let mut prompt = Prompt::new(RawObject::default());
            prompt.body.set(TOOLS, own);
            prompt.body.set(TOOL_CHOICE, choice.as_str());
            prompt.stop_forcing(prompt.unforced());
            assert_eq!(prompt.body.get(TOOL_CHOICE) == Some(choice.as_str()), stays, "{choice}");
        }
    }

    #[test]
    fn the_names_of_allowed_tools_are_read_in_both_forms() {
        for (choice, expected) in [
            (r#""auto""#, None),
            (r#"{"type":"function","function":{"name":"x"}}"#, None),
            (
                r#"{"type":"allowed_tools","allowed_tools":{"tools":[{"type":"function","function":{"name":"x"}}]}}"#,
                Some("x"),
            ),
            (r#"{"type":"allowed_tools","tools":[{"type":"function","name":"x"}]}"#, Some("x")),
        ] {
            let mut prompt = Prompt::new(RawObject::default());
            prompt.body.set(TOOL_CHOICE, choice);
            let names = expected.map(|name| BTreeSet::from([name.to_owned()]));
            assert_eq!(prompt.allowed_names(), names, "{choice}");
        }
    }
}
