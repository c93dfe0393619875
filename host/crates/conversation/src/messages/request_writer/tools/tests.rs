use super::{super::tests, *};

/// Returns `tools` and `tool_choice` of the request for these members of chat; null for one that is absent.
fn translate(members: Value) -> Result<(Value, Value)> {
    let mut body = tests::translate(members)?;
    let tools = body.get_mut("tools").map(Value::take).unwrap_or_default();
    Ok((tools, body.get_mut(TOOL_CHOICE).map(Value::take).unwrap_or_default()))
}

fn function(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name}})
}

/// Returns the names of the offered tools and the choice.
fn choose(choice: Value, parallel: Option<bool>) -> Result<(Vec<String>, Value)> {
    let members = object_of([
        ("tools", json!([function("a"), function("b")])),
        (TOOL_CHOICE, choice),
        ("parallel_tool_calls", parallel.into()),
    ]);
    let (tools, choice) = translate(members.into())?;
    let tools = tools.as_array().into_iter().flatten();
    let names = tools.filter_map(|tool| tool["name"].as_str().map(str::to_owned));
    Ok((names.collect(), choice))
}

#[test]
fn a_function_becomes_a_tool_with_its_schema_and_anthropics_own_members() {
    for (tool, expected) in [
        (
            json!({"type": "function", "cache_control": {"type": "ephemeral"}, "defer_loading": true,
                   "name": "other",
                   "function": {"name": "a", "description": "Does.", "strict": true,
                                "parameters": {"type": "object", "z": 1, "a": [2]}}}),
            json!({"name": "a", "description": "Does.",
                   "input_schema": {"type": "object", "z": 1, "a": [2]}, "strict": true,
                   "cache_control": {"type": "ephemeral"}, "defer_loading": true}),
        ),
        (
            json!({"type": "function", "function": {"name": "a", "parameters": {}, "strict": false,
                   "cache_control": {"type": "ephemeral"}}}),
            json!({"name": "a", "input_schema": {"type": "object"},
                   "cache_control": {"type": "ephemeral"}}),
        ),
        (
            json!({"type": "function", "function": {"name": "a", "description": null,
                   "parameters": null, "strict": null}}),
            json!({"name": "a", "input_schema": {"type": "object", "properties": {}}}),
        ),
    ] {
        let (tools, choice) = translate(json!({"tools": [tool]})).expect("a good tool");
        assert_eq!((tools, choice), (json!([expected]), json!(null)));
    }
}

#[test]
fn each_choice_of_tools_has_its_counterpart() {
    let [auto, required] = ["auto", "required"].map(|mode| json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [function("b")]}}));
    for (choice, parallel, offered, expected) in [
        (json!(null), None, 2, json!(null)),
        (json!(null), Some(true), 2, json!(null)),
        (json!(null), Some(false), 2, json!({"type": "auto", "disable_parallel_tool_use": true})),
        (json!("auto"), None, 2, json!({"type": "auto"})),
        (json!("none"), Some(false), 2, json!({"type": "none"})),
        (json!("required"), None, 2, json!({"type": "any"})),
        (
            json!("required"),
            Some(false),
            2,
            json!({"type": "any", "disable_parallel_tool_use": true}),
        ),
        (function("a"), None, 2, json!({"type": "tool", "name": "a"})),
        (
            function("a"),
            Some(false),
            2,
            json!({"type": "tool", "name": "a", "disable_parallel_tool_use": true}),
        ),
        (auto, None, 1, json!({"type": "auto"})),
        (required, None, 1, json!({"type": "any"})),
        (json!({"type": "any", "x": 1}), None, 2, json!({"type": "any", "x": 1})),
        // Mistral's older name.
        (json!("any"), None, 2, json!({"type": "any"})),
    ] {
        let (names, found) = choose(choice.clone(), parallel).expect("a good choice");
        assert_eq!(found, expected, "{choice}");
        assert_eq!(names, ["a", "b"][2 - offered..], "{choice}");
    }
}

#[test]
fn a_choice_that_asks_for_no_call_is_left_out_without_tools() {
    for (choice, left) in [("auto", false), ("none", false), ("required", true)] {
        let (_, found) = translate(json!({"tool_choice": choice})).expect("a good choice");
        assert_eq!(found.is_object(), left, "{choice}");
    }
    let (tools, choice) =
        translate(json!({"tools": [], "parallel_tool_calls": false})).expect("no tools");
    assert_eq!((tools, choice), (json!(null), json!(null)));
}

#[test]
fn tools_that_cannot_be_expressed_are_refused_by_name() {
    for (tools, param) in [
        (json!({}), "tools"),
        (json!([1]), "tools[0]"),
        (json!([function("a"), {"type": "custom", "custom": {"name": "b"}}]), "tools[1].type"),
        (json!([{"type": "web_search_20250305", "name": "web_search"}]), "tools[0].type"),
        (json!([{"type": "function"}]), "tools[0].function"),
        (json!([{"type": "function", "function": {}}]), "tools[0].function.name"),
        (
            json!([{"type": "function", "function": {"name": "a", "parameters": true}}]),
            "tools[0].function.parameters",
        ),
    ] {
        let refused = translate(json!({"tools": tools})).expect_err("refused");
        assert_eq!(refused.param, param, "{tools}");
    }
}

#[test]
fn choices_that_cannot_be_expressed_are_refused_by_name() {
    for (choice, param) in [
        (json!("some"), "tool_choice"),
        (json!(1), "tool_choice"),
        (json!({}), "tool_choice"),
        (json!({"type": "custom", "custom": {"name": "a"}}), "tool_choice"),
        (json!({"type": "function"}), "tool_choice.function.name"),
        (allowed(&json!({"tools": []})), "tool_choice.allowed_tools.mode"),
        (allowed(&json!({"mode": "auto"})), "tool_choice.allowed_tools.tools"),
        (
            allowed(&json!({"mode": "auto", "tools": [{"type": "custom"}]})),
            "tool_choice.allowed_tools.tools",
        ),
    ] {
        assert_eq!(choose(choice.clone(), None).expect_err("refused").param, param, "{choice}");
    }
    let refused = translate(json!({"parallel_tool_calls": "no"})).expect_err("refused");
    assert_eq!(refused.param, "parallel_tool_calls");
}

fn allowed(allowed: &Value) -> Value {
    json!({"type": "allowed_tools", "allowed_tools": allowed})
}
