//! Responses that continue a stored one.

use super::*;

/// Prepares a request behind the items of an earlier one.
fn continued(earlier: &OutputRecorder, input: Value) -> (Prepared, Object) {
    let mut items = vec![json!({"type": "message", "role": "user", "content": "first"})];
    items.extend_from_slice(earlier.writer.output_items());
    let mut request =
        object(json!({"model": "m", "instructions": "new", "previous_response_id": "resp_1"}));
    request.insert("input".to_owned(), input);
    let prepared = prepare(request, items, false, &BuiltinTools::Drop).expect("a good request");
    let sent = sent(&prepared).expect("it can be sent");
    (prepared, sent)
}

#[test]
fn the_model_sees_the_calls_and_results_of_the_earlier_response() {
    let mut recorder = OutputRecorder::new();
    recorder.delta(json!({"reasoning_content": "Look."})).start("x", "fs-read", "{}");
    recorder.end("x", Ok("data")).round().delta(json!({"content": "Ask:"}));
    let call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "own", "arguments": "{}"}});
    recorder.delta(json!({"tool_calls": [call]})).finish();
    let output = json!([{"type": "function_call_output", "call_id": "call_1", "output": "B"}]);
    let (prepared, sent) = continued(&recorder, output.clone());
    assert_eq!(
        sent["messages"],
        json!([
            {"role": "system", "content": "new"},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": null, "reasoning_content": "Look.", "tool_calls": asked("mcp_10001", "fs-read")},
            {"role": "tool", "tool_call_id": "mcp_10001", "content": "data"},
            {"role": "assistant", "content": "Ask:", "tool_calls": asked("call_1", "own")},
            {"role": "tool", "tool_call_id": "call_1", "content": "B"},
        ])
    );
    assert_eq!(json!(prepared.input), output, "earlier items are stored already");
    assert_eq!(prepared.echo.members()["previous_response_id"], "resp_1");
}

fn asked(id: &str, name: &str) -> Value {
    json!([{"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}])
}

#[test]
fn calls_of_two_rounds_are_two_messages_and_those_of_one_round_are_one() {
    let echo = prepared(json!({"model": "m", "input": "hi"})).echo;
    let writer = Writer::new("resp_0123456789abcdef0123456789abcdef", 7, echo);
    let mut recorder = OutputRecorder::with_writer(writer);
    recorder.start("a", "fs-read", "{}").start("b", "fs-read", "{}");
    recorder.end("a", Ok("A")).end("b", Ok("B")).round();
    recorder.start("c", "fs-read", "{}").end("c", Ok("C"));
    let call = json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "own", "arguments": "{}"}});
    recorder.delta(json!({"tool_calls": [call]})).finish();
    let output = json!([{"type": "function_call_output", "call_id": "call_1", "output": "D"}]);
    let (_, sent) = continued(&recorder, output);
    let messages = sent["messages"].as_array().expect("messages").iter().skip(2);
    let seen: Vec<_> = messages
        .map(|message| {
            let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
            (message["role"].as_str(), calls)
        })
        .collect();
    let [model, tool] = ["assistant", "tool"].map(Some);
    assert_eq!(seen, [(model, 2), (tool, 0), (tool, 0), (model, 2), (tool, 0), (tool, 0)]);
}

#[test]
fn a_call_whose_round_is_not_known_belongs_to_the_message_of_the_call_before_it() {
    let foreign = "mcp_68a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f607".to_owned();
    let other_response = "mcp_fedcba9876543210fedcba98765432101001".to_owned();
    for (ids, counts) in [
        ([own("0000"), own("1001")], vec![1, 1]),
        ([own("1000"), own("1001")], vec![2]),
        ([own("0000"), "mcp_1".to_owned()], vec![2]),
        (["mcp_1".to_owned(), own("1001")], vec![2]),
        ([own("0000"), other_response], vec![2]),
        ([own("0000"), foreign], vec![2]),
    ] {
        let calls = ids.each_ref().map(|id| json!({"type": "mcp_call", "id": id, "name": "f", "arguments": "{}", "output": "x"}));
        let messages = messages(json!(calls));
        let lists = messages.as_array().expect("messages").iter();
        let lists = lists.filter_map(|message| message["tool_calls"].as_array().map(Vec::len));
        assert_eq!(lists.collect::<Vec<_>>(), counts, "{ids:?}");
    }
}

fn own(digits: &str) -> String {
    format!("mcp_0123456789abcdef0123456789abcdef{digits}")
}

#[test]
fn a_failed_call_is_shown_to_the_model_as_it_was_the_first_time() {
    let mut recorder = OutputRecorder::new();
    recorder
        .start("x", "fs-read", "{}")
        .end("x", Err("Error executing tool fs-read: gone"))
        .finish();
    let (_, sent) = continued(&recorder, json!("and?"));
    assert_eq!(sent["messages"][3]["content"], "Error executing tool fs-read: gone");
}

#[test]
fn signed_reasoning_returns_to_the_model_unchanged() {
    let block = json!({"type": "thinking", "thinking": "t", "signature": "s"});
    let mut recorder = OutputRecorder::new();
    recorder.delta(json!({"reasoning_content": "t"})).delta(json!({"thinking_blocks": [block]}));
    recorder.delta(json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "d"}]}));
    recorder.start("x", "fs-read", "{}").end("x", Ok("data")).finish();
    let (_, sent) = continued(&recorder, json!("and?"));
    let message = &sent["messages"][2];
    assert_eq!(
        (&message["reasoning_content"], &message["thinking_blocks"], &message["reasoning_details"]),
        (&json!("t"), &json!([block]), &json!([{"type": "reasoning.encrypted", "data": "d"}]))
    );
}

#[test]
fn an_error_in_a_stored_item_names_the_previous_response() {
    let request = object(json!({"model": "m", "input": "hi", "previous_response_id": "resp_1"}));
    for kind in ["compaction", "mcp_approval_response"] {
        let earlier = vec![json!({"type": kind, "id": "cmp_1", "encrypted_content": "x"})];
        let prepared = prepare(request.clone(), earlier, false, &BuiltinTools::Drop);
        let error = prepared.and_then(|prepared| sent(&prepared));
        let error = error.expect_err("the item has no counterpart");
        assert_eq!((error.param.as_str(), error.code), ("previous_response_id", "invalid_value"));
        assert!(error.message.contains(&format!("'{kind}'")), "{error}");
    }
}
