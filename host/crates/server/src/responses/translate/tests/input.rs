//! Input items.

use super::*;

#[test]
fn a_text_is_a_message_of_the_user_behind_the_instructions() {
    let chat = chat(request(json!({"instructions": "Be brief."})));
    assert_eq!(
        chat.body["messages"],
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}])
    );
    let content = json!([{"type": "input_text", "text": "hi"}]);
    assert_eq!(chat.input, [json!({"type": "message", "role": "user", "content": content})]);
    assert_eq!(chat.echo.members()["instructions"], "Be brief.");
}

#[test]
fn messages_keep_their_role_and_lose_the_members_of_items() {
    for (item, message) in [
        (json!({"role": "user", "content": "x"}), json!({"role": "user", "content": "x"})),
        (
            json!({"type": "message", "role": "developer", "content": text("input_text"), "status": "completed"}),
            json!({"role": "developer", "content": "x"}),
        ),
        (
            json!({"role": "system", "content": [{"type": "input_text", "text": "x", "cache_control": {"type": "ephemeral"}}]}),
            json!({"role": "system", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}),
        ),
        (
            json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "x", "annotations": [1], "logprobs": []}]}),
            json!({"role": "assistant", "content": "x"}),
        ),
        (
            json!({"role": "assistant", "phase": "commentary", "content": text("input_text")}),
            json!({"role": "assistant", "content": "x", "phase": "commentary"}),
        ),
        (
            json!({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}),
            json!({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}),
        ),
        (json!({"role": "user", "content": []}), json!({"role": "user", "content": ""})),
    ] {
        assert_eq!(messages(json!([item])), json!([message]), "{item}");
    }
}

fn text(kind: &str) -> Value {
    json!([{"type": kind, "text": "x"}])
}

#[test]
fn parts_of_a_user_message_become_parts_of_chat_completions() {
    for (part, expected) in [
        (json!({"type": "input_text", "text": "x"}), json!({"type": "text", "text": "x"})),
        (
            json!({"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low", "file_id": null}),
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}),
        ),
        (
            json!({"type": "input_image", "image_url": "https://example.com/a.png"}),
            json!({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}),
        ),
        (
            json!({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}),
            json!({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}}),
        ),
        (
            json!({"type": "input_file", "file_id": "file-1", "detail": "auto"}),
            json!({"type": "file", "file": {"file_id": "file-1"}}),
        ),
        (
            json!({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}),
            json!({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}),
        ),
    ] {
        let before = json!({"type": "input_text", "text": "see"});
        let input = json!([{"role": "user", "content": [before, part]}]);
        let parts = json!([{"type": "text", "text": "see"}, expected]);
        assert_eq!(messages(input), json!([{"role": "user", "content": parts}]), "{part}");
    }
}

#[test]
fn parallel_calls_are_one_message_and_their_outputs_follow_in_the_order_of_the_calls() {
    let input = json!([
        {"role": "user", "content": "go"},
        {"type": "message", "role": "assistant", "content": "Wait."},
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "x", "arguments": "{}", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "b", "name": "y", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "B"}]},
        {"type": "function_call_output", "call_id": "a", "output": "A"},
        {"type": "function_call", "call_id": "c", "name": "x", "arguments": "", "extra_content": {"google": {"thought_signature": "s"}}},
        {"type": "function_call_output", "call_id": "c", "output": [
            {"type": "input_text", "text": "C"}, {"type": "input_image", "image_url": "data:image/png;base64,AA=="}]},
    ]);
    let mut signed = call("c", "x", "");
    signed["extra_content"] = json!({"google": {"thought_signature": "s"}});
    assert_eq!(
        messages(input),
        json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "Wait.", "tool_calls": [
                call("a", "x", "{}"), {"id": "b", "type": "custom", "custom": {"name": "y", "input": "ls"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "A"},
            {"role": "tool", "tool_call_id": "b", "content": "B"},
            {"role": "assistant", "content": null, "tool_calls": [signed]},
            {"role": "tool", "tool_call_id": "c", "content": [
                {"type": "text", "text": "C"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]},
        ])
    );
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

#[test]
fn outputs_of_repeated_call_ids_belong_to_the_calls_in_order() {
    let call =
        json!({"type": "function_call", "call_id": "call_0", "name": "x", "arguments": "{}"});
    let [first, second] = ["first", "second"]
        .map(|text| json!({"type": "function_call_output", "call_id": "call_0", "output": text}));
    let messages = messages(json!([call, first, call, second]));
    assert_eq!(
        (&messages[1]["content"], &messages[3]["content"]),
        (&json!("first"), &json!("second"))
    );
}

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

#[test]
fn text_between_a_call_and_its_output_joins_the_message_of_the_call() {
    let input = json!([
        {"role": "assistant", "content": "One."},
        {"type": "function_call", "call_id": "a", "name": "x", "arguments": "{}"},
        {"role": "assistant", "content": "Two."},
        {"type": "function_call_output", "call_id": "a", "output": "A"},
    ]);
    let call = json!({"id": "a", "type": "function", "function": {"name": "x", "arguments": "{}"}});
    let parts = json!([{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]);
    assert_eq!(
        messages(input),
        json!([
            {"role": "assistant", "content": parts, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "A"},
        ])
    );
}

#[test]
fn reasoning_is_sent_back_only_with_tool_calls() {
    let blocks = json!([{"type": "thinking", "thinking": "t", "signature": "s"}]);
    let state = json!({"thinking_blocks": blocks}).to_string();
    let input = json!([
        reasoning("dropped"),
        {"role": "assistant", "content": "Hm."},
        reasoning("kept"),
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "too"}], "encrypted_content": state},
        {"type": "function_call", "call_id": "a", "name": "x", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "A"},
        reasoning("last"),
    ]);
    let call = json!({"id": "a", "type": "function", "function": {"name": "x", "arguments": "{}"}});
    assert_eq!(
        messages(input),
        json!([
            {"role": "assistant", "content": "Hm."},
            {"role": "assistant", "content": null, "reasoning_content": "kept\n\ntoo", "thinking_blocks": blocks, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "A"},
        ])
    );
}

fn reasoning(text: &str) -> Value {
    json!({"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": text}]})
}

#[test]
fn input_is_copied_only_for_the_store() {
    let item = json!({"role": "user", "content": "hi"});
    let stored = chat(json!({"model": "m", "input": [item]}));
    assert_eq!(stored.input, [json!({"role": "user", "content": "hi", "type": "message"})]);
    let passing = chat(json!({"model": "m", "input": [item], "store": false}));
    assert_eq!((passing.store, passing.input.len()), (false, 0));
    assert_eq!(stored.body, passing.body);
}

#[test]
fn functions_of_a_group_are_functions_and_a_call_of_one_is_shown_with_its_group() {
    let group = json!({"type": "namespace", "name": "mcp__fs__", "description": "Files.", "tools": [function("read"), function("write")]});
    let call = json!({"type": "function_call", "call_id": "a", "name": "read", "namespace": "mcp__fs__", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "a", "output": "A"});
    let input = json!([{"role": "user", "content": "x"}, call, output]);
    let chat = chat(json!({"model": "m", "input": input, "tools": [function("mine"), group]}));
    let names: Vec<_> = chat.body["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| &tool["function"]["name"])
        .collect();
    assert_eq!(names, ["mine", "mcp__fs__read", "mcp__fs__write"]);
    assert_eq!(chat.body["messages"][1]["tool_calls"][0]["function"]["name"], "mcp__fs__read");
    assert!(chat.dropped.is_empty());
    let mut recorder = Recorder::new();
    recorder.writer = recorder.writer.with_groups(chat.groups);
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
fn built_in_tools_and_items_about_them_are_left_out_and_named() {
    let tools = json!([{"type": "web_search"}, {"type": "namespace", "name": "n", "tools": [{"type": "tool_search"}]}]);
    let input = json!([{"type": "web_search_call", "id": "ws_1", "status": "completed"}, {"role": "user", "content": "x"}]);
    let chat = chat(json!({"model": "m", "input": input, "tools": tools}));
    let dropped: Vec<_> = chat.dropped.iter().map(String::as_str).collect();
    assert_eq!(dropped, ["tool_search", "web_search", "web_search_call"]);
    assert!(chat.body.get("tools").is_none());
    assert_eq!(chat.body["messages"], json!([{"role": "user", "content": "x"}]));
    // A misspelt type of a function is no built-in tool.
    let error = refusal(request(json!({"tools": [{"type": "functoin", "name": "f"}]})));
    assert_eq!(error.param, "tools[0].type");
}

#[test]
fn a_tool_that_is_left_out_is_named_by_the_visible_beginning_of_its_type() {
    let types = ["x".repeat(64), "y".repeat(65), "\u{200b}".repeat(1_000)];
    let tools = types.map(|kind| json!({"type": kind}));
    let chat = chat(json!({"model": "m", "input": "x", "tools": tools}));
    let dropped: Vec<_> = chat.dropped.into_iter().collect();
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
