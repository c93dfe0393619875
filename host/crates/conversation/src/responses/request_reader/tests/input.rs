//! Input items.

use super::*;

#[test]
fn a_text_is_a_message_of_the_user_behind_the_instructions() {
    let chat = chat(request(json!({"instructions": "Be brief."})));
    assert_eq!(
        chat["messages"],
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}])
    );
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
