//! Responses that continue a stored one.

use super::*;

/// Translates a request behind the items of an earlier one.
fn continued(earlier: &Recorder, input: Value) -> Result<Chat, Untranslatable> {
    let mut items = vec![json!({"type": "message", "role": "user", "content": "first"})];
    items.extend_from_slice(earlier.writer.output_items());
    let mut request =
        object(json!({"model": "m", "instructions": "new", "previous_response_id": "resp_1"}));
    request.insert("input".to_owned(), input);
    to_chat(request, items, &BuiltinTools::Drop)
}

#[test]
fn the_model_sees_the_calls_and_results_of_the_earlier_response() {
    let mut recorder = Recorder::new();
    recorder.delta(json!({"reasoning_content": "Look."})).start("x", "fs-read", "{}");
    recorder.end("x", Ok("data")).round().delta(json!({"content": "Ask:"}));
    let call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "own", "arguments": "{}"}});
    recorder.delta(json!({"tool_calls": [call]})).finish();
    let output = json!([{"type": "function_call_output", "call_id": "call_1", "output": "B"}]);
    let chat = continued(&recorder, output.clone()).expect("a good request");
    let asked = |id, name| json!([{"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}]);
    assert_eq!(
        chat.body["messages"],
        json!([
            {"role": "system", "content": "new"},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": null, "reasoning_content": "Look.", "tool_calls": asked("mcp_10001", "fs-read")},
            {"role": "tool", "tool_call_id": "mcp_10001", "content": "data"},
            {"role": "assistant", "content": "Ask:", "tool_calls": asked("call_1", "own")},
            {"role": "tool", "tool_call_id": "call_1", "content": "B"},
        ])
    );
    assert_eq!(json!(chat.input), output, "earlier items are stored already");
    assert_eq!(chat.echo.members()["previous_response_id"], "resp_1");
}

#[test]
fn a_failed_call_is_shown_to_the_model_as_it_was_the_first_time() {
    let mut recorder = Recorder::new();
    recorder
        .start("x", "fs-read", "{}")
        .end("x", Err("Error executing tool fs-read: gone"))
        .finish();
    let chat = continued(&recorder, json!("and?")).expect("a good request");
    assert_eq!(chat.body["messages"][3]["content"], "Error executing tool fs-read: gone");
}

#[test]
fn signed_reasoning_returns_to_the_model_unchanged() {
    let block = json!({"type": "thinking", "thinking": "t", "signature": "s"});
    let mut recorder = Recorder::new();
    recorder.delta(json!({"reasoning_content": "t"})).delta(json!({"thinking_blocks": [block]}));
    recorder.delta(json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "d"}]}));
    recorder.start("x", "fs-read", "{}").end("x", Ok("data")).finish();
    let chat = continued(&recorder, json!("and?")).expect("a good request");
    let message = &chat.body["messages"][2];
    assert_eq!(
        (&message["reasoning_content"], &message["thinking_blocks"], &message["reasoning_details"]),
        (&json!("t"), &json!([block]), &json!([{"type": "reasoning.encrypted", "data": "d"}]))
    );
}

#[test]
fn an_error_in_a_stored_item_names_the_previous_response() {
    let earlier = vec![json!({"type": "compaction", "id": "cmp_1", "encrypted_content": "x"})];
    let request = object(json!({"model": "m", "input": "hi", "previous_response_id": "resp_1"}));
    let error =
        to_chat(request, earlier, &BuiltinTools::Drop).expect_err("the item has no counterpart");
    assert_eq!((error.param.as_str(), error.code), ("previous_response_id", "invalid_value"));
    assert!(error.message.contains("'compaction'"), "{error}");
}
