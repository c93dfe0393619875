//! Requests: what the gateway takes and changes.

use super::*;
use airlock_conversation::MAX_NAME_BYTES;

#[test]
fn an_executed_call_becomes_a_call_and_its_result() {
    let failed = json!({"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "no"}, {"type": "text", "text": "never"}]});
    let protocol = json!({"type": "mcp_protocol_error", "code": -1, "message": "closed"});
    let input = json!([
        executed("mcp_1", &json!("data"), &Value::Null),
        executed("mcp_2", &Value::Null, &failed),
        {"role": "assistant", "content": "Done."},
        executed("mcp_3", &Value::Null, &protocol),
        executed("mcp_4", &Value::Null, &json!("text")),
    ]);
    assert_eq!(
        messages(input),
        json!([
            {"role": "assistant", "content": null, "tool_calls": [call("mcp_1", "fs-read", "{}"), call("mcp_2", "fs-read", "{}")]},
            result("mcp_1", "data"),
            result("mcp_2", "no\nnever"),
            {"role": "assistant", "content": "Done.", "tool_calls": [call("mcp_3", "fs-read", "{}"), call("mcp_4", "fs-read", "{}")]},
            result("mcp_3", "closed"),
            result("mcp_4", "text"),
        ])
    );
}

fn executed(id: &str, output: &Value, error: &Value) -> Value {
    json!({"type": "mcp_call", "id": id, "status": "completed", "server_label": "fs", "name": "fs-read",
        "arguments": "{}", "output": output, "error": error, "approval_request_id": null})
}

fn result(id: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

#[test]
fn input_is_copied_only_for_the_store() {
    let item = json!({"role": "user", "content": "hi"});
    let stored = prepared(json!({"model": "m", "input": [item]}));
    assert_eq!(stored.input, [json!({"role": "user", "content": "hi", "type": "message"})]);
    let passing = prepared(json!({"model": "m", "input": [item], "store": false}));
    assert_eq!((passing.store, passing.input.len()), (false, 0));
    assert_eq!(stored.body, passing.body);
}

#[test]
fn functions_of_a_group_are_functions_and_a_call_of_one_is_shown_with_its_group() {
    let group = json!({"type": "namespace", "name": "mcp__fs__", "description": "Files.", "tools": [function("read"), function("write")]});
    let call = json!({"type": "function_call", "call_id": "a", "name": "read", "namespace": "mcp__fs__", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "a", "output": "A"});
    let input = json!([{"role": "user", "content": "x"}, call, output]);
    let prepared =
        prepared(json!({"model": "m", "input": input, "tools": [function("mine"), group]}));
    let sent = sent(&prepared).expect("it can be sent");
    let names: Vec<_> = sent["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| &tool["function"]["name"])
        .collect();
    assert_eq!(names, ["mine", "mcp__fs__read", "mcp__fs__write"]);
    assert_eq!(sent["messages"][1]["tool_calls"][0]["function"]["name"], "mcp__fs__read");
    assert!(prepared.dropped.is_empty());
    let mut recorder = OutputRecorder::new();
    recorder.writer = recorder.writer.with_groups(prepared.groups);
    let called = json!({"name": "mcp__fs__write", "arguments": "{}"});
    recorder.delta(json!({"tool_calls": [{"index": 0, "id": "b", "type": "function", "function": called}]})).finish();
    let item = &recorder.writer.output_items()[0];
    assert_eq!((&item["name"], &item["namespace"]), (&json!("write"), &json!("mcp__fs__")));
}

fn function(name: &str) -> Value {
    json!({"type": "function", "name": name, "parameters": {}, "defer_loading": true})
}

#[test]
fn two_functions_of_groups_with_one_name_are_refused() {
    let groups = ["a", "a__"].map(|name| json!({"type": "namespace", "name": name, "tools": [{"type": "function", "name": "f"}]}));
    let error = refusal(request(json!({"tools": groups})));
    assert_eq!(error.param, "tools[1].tools[0].name");
}

#[test]
fn a_group_with_a_name_of_excessive_length_is_refused() {
    for (length, is_good) in [(MAX_NAME_BYTES, true), (MAX_NAME_BYTES + 1, false)] {
        let group =
            json!({"type": "namespace", "name": "x".repeat(length), "tools": [function("f")]});
        let request = object(request(json!({"tools": [group]})));
        let read = prepare(request, Vec::new(), false, &BuiltinTools::Drop);
        assert_eq!(read.is_ok(), is_good, "{length}");
    }
    let group = json!({"type": "namespace", "name": "x".repeat(MAX_NAME_BYTES + 1)});
    assert_eq!(refusal(request(json!({"tools": [group]}))).param, "tools[0].name");
}

#[test]
fn an_error_of_a_function_names_its_place_in_the_list_of_the_client() {
    let group = json!({"type": "namespace", "name": "n", "tools": [
        {"type": "function", "name": "f"}, {"type": "function", "name": "g", "async": true},
    ]});
    let tools = json!([{"type": "web_search"}, group]);
    let request = object(request(json!({"tools": tools})));
    let refused = prepare(request.clone(), Vec::new(), false, &BuiltinTools::Drop);
    assert_eq!(refused.expect_err("it is asynchronous").param, "tools[1].tools[1].async");
    assert!(
        prepare(request, Vec::new(), true, &BuiltinTools::Drop).is_ok(),
        "the provider judges it"
    );
}

#[test]
fn built_in_tools_and_items_about_them_are_left_out_and_named() {
    let tools = json!([{"type": "web_search"}, {"type": "namespace", "name": "n", "tools": [{"type": "tool_search"}]}]);
    let input = json!([{"type": "web_search_call", "id": "ws_1", "status": "completed"}, {"role": "user", "content": "x"}]);
    let prepared = prepared(json!({"model": "m", "input": input, "tools": tools}));
    let dropped: Vec<_> = prepared.dropped.iter().map(String::as_str).collect();
    assert_eq!(dropped, ["tool_search", "web_search", "web_search_call"]);
    let sent = sent(&prepared).expect("it can be sent");
    assert!(sent.get("tools").is_none());
    assert_eq!(sent["messages"], json!([{"role": "user", "content": "x"}]));
    // A misspelt type of a function is no built-in tool.
    let error = refusal(request(json!({"tools": [{"type": "functoin", "name": "f"}]})));
    assert_eq!(error.param, "tools[0].type");
}

#[test]
fn a_tool_that_is_left_out_is_named_by_the_visible_beginning_of_its_type() {
    let types = ["x".repeat(64), "y".repeat(65), "\u{200b}".repeat(1_000)];
    let tools = types.map(|kind| json!({"type": kind}));
    let prepared = prepared(json!({"model": "m", "input": "x", "tools": tools}));
    let dropped: Vec<_> = prepared.dropped.into_iter().collect();
    let hidden = format!("{}…", "⟨U+200B⟩".repeat(5));
    assert_eq!(dropped, ["x".repeat(64), format!("{}…", "y".repeat(61)), hidden]);
}

#[test]
fn a_note_replaces_the_result_of_a_call_of_the_gateway_that_is_no_longer_kept() {
    let call = json!({"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "f", "arguments": "{}"});
    let messages = messages(json!([{"role": "user", "content": "x"}, call]));
    let told = messages[2]["content"].as_str().expect("a text");
    assert!(told.contains("no longer kept"), "{told}");
}

#[test]
fn the_response_repeats_the_settings_of_the_request() {
    let tools = json!([{"type": "function", "name": "f", "parameters": {}, "strict": true}]);
    let members = json!({
        "instructions": "i", "max_output_tokens": 5, "max_tool_calls": 3, "metadata": {"a": "b"},
        "parallel_tool_calls": false, "previous_response_id": "resp_0", "prompt_cache_key": "k", "prompt_cache_retention": "24h",
        "reasoning": {"effort": "low"}, "safety_identifier": "s", "service_tier": "flex", "store": false,
        "temperature": 0.5, "text": {"verbosity": "high"}, "tool_choice": {"type": "function", "name": "f"},
        "tools": tools, "top_logprobs": 1, "top_p": 0.25, "truncation": "disabled", "user": "u",
    });
    let prepared = prepared(request(members.clone()));
    assert_eq!((prepared.max_tool_calls, prepared.stream), (Some(3), false));
    let mut expected = object(members);
    expected.insert("model".to_owned(), json!("m"));
    expected.insert("background".to_owned(), json!(false));
    expected.insert("reasoning".to_owned(), json!({"effort": "low", "summary": null}));
    expected.insert("text".to_owned(), json!({"format": {"type": "text"}, "verbosity": "high"}));
    assert_eq!(prepared.echo.members(), &expected);
}

#[test]
fn a_request_without_settings_has_the_defaults_of_the_api() {
    let prepared = prepared(request(json!({})));
    assert_eq!((prepared.stream, prepared.store, prepared.max_tool_calls), (false, true, None));
    let echo = prepared.echo.members();
    assert_eq!(
        (&echo["tool_choice"], &echo["tools"], &echo["truncation"], &echo["metadata"]),
        (&json!("auto"), &json!([]), &json!("disabled"), &json!({}))
    );
    let sent = sent(&prepared).expect("it can be sent");
    assert_eq!(sent.keys().collect::<Vec<_>>(), ["model", "messages"]);
}
