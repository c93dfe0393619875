//! Stream events and the final Response.

use super::*;

#[test]
fn text_is_a_message_with_one_part() {
    let mut recorder = OutputRecorder::new();
    recorder.delta(json!({"role": "assistant", "content": ""}));
    recorder.delta(json!({"content": "Hel"})).delta(json!({"content": "lo"})).stop("stop").finish();
    assert_eq!(
        recorder.story(),
        [
            "created in_progress",
            "in_progress in_progress",
            "output_item.added 0 message in_progress",
            "content_part.added 0 0 output_text",
            r#"output_text.delta 0 0 "Hel""#,
            r#"output_text.delta 0 0 "lo""#,
            r#"output_text.done 0 0 "Hello""#,
            "content_part.done 0 0 output_text",
            "output_item.done 0 message completed",
            "completed completed",
        ]
    );
    let part = json!({"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []});
    assert_eq!(
        recorder.writer.output_items(),
        [
            json!({"id": "msg_10000", "type": "message", "status": "completed", "role": "assistant", "content": [part]})
        ]
    );
}

#[test]
fn reasoning_precedes_the_message_and_is_done_when_text_comes() {
    let mut recorder = OutputRecorder::new();
    recorder.delta(json!({"reasoning_content": "Let "})).delta(json!({"reasoning": "me"}));
    recorder.delta(json!({"content": "4"})).finish();
    assert_eq!(
        recorder.story()[2..],
        [
            "output_item.added 0 reasoning in_progress",
            "content_part.added 0 0 reasoning_text",
            r#"reasoning_text.delta 0 0 "Let ""#,
            r#"reasoning_text.delta 0 0 "me""#,
            r#"reasoning_text.done 0 0 "Let me""#,
            "content_part.done 0 0 reasoning_text",
            "output_item.done 0 reasoning completed",
            "output_item.added 1 message in_progress",
            "content_part.added 1 0 output_text",
            r#"output_text.delta 1 0 "4""#,
            r#"output_text.done 1 0 "4""#,
            "content_part.done 1 0 output_text",
            "output_item.done 1 message completed",
            "completed completed",
        ]
    );
}

#[test]
fn reasoning_after_text_ends_the_message_and_later_text_is_a_new_one() {
    let mut recorder = OutputRecorder::new();
    recorder.delta(json!({"content": "a"})).delta(json!({"reasoning": "b"}));
    recorder.delta(json!({"content": "c"})).finish();
    let kinds = recorder.writer.output_items().iter().map(|item| &item["type"]);
    assert_eq!(kinds.collect::<Vec<_>>(), ["message", "reasoning", "message"]);
    let done =
        recorder.story().iter().position(|line| line == "output_item.done 0 message completed");
    let added = recorder
        .story()
        .iter()
        .position(|line| line == "output_item.added 1 reasoning in_progress");
    assert!(done.is_some() && done < added);
}

#[test]
fn interleaved_calls_of_the_client_are_open_at_the_same_time() {
    let mut recorder = OutputRecorder::new();
    recorder.delta(call(0, "a", &json!({"name": "x", "arguments": ""})));
    recorder.delta(call(1, "b", &json!({"name": "y", "arguments": "{"})));
    recorder.delta(piece(0, "{}")).delta(piece(1, "}")).stop("tool_calls").finish();
    assert_eq!(
        recorder.story()[2..],
        [
            "output_item.added 0 function_call in_progress",
            "output_item.added 1 function_call in_progress",
            r#"function_call_arguments.delta 1 "{""#,
            r#"function_call_arguments.delta 0 "{}""#,
            r#"function_call_arguments.delta 1 "}""#,
            r#"function_call_arguments.done 0 "{}""#,
            "output_item.done 0 function_call completed",
            r#"function_call_arguments.done 1 "{}""#,
            "output_item.done 1 function_call completed",
            "completed completed",
        ]
    );
    assert_eq!(
        recorder.writer.output_items()[1],
        json!({"id": "fc_10001", "type": "function_call", "status": "completed", "call_id": "b", "name": "y", "arguments": "{}"})
    );
}

fn call(index: u64, id: &str, body: &Value) -> Value {
    json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": body}]})
}

fn piece(index: u64, text: &str) -> Value {
    json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
}

#[test]
fn a_custom_call_has_an_input() {
    let mut recorder = OutputRecorder::new();
    for body in [json!({"name": "sh", "input": "l"}), json!({"input": "s"})] {
        recorder.delta(
            json!({"tool_calls": [{"index": 0, "id": "a", "type": "custom", "custom": body}]}),
        );
    }
    recorder.finish();
    assert_eq!(
        recorder.story()[2..],
        [
            "output_item.added 0 custom_tool_call in_progress",
            r#"custom_tool_call_input.delta 0 "l""#,
            r#"custom_tool_call_input.delta 0 "s""#,
            r#"custom_tool_call_input.done 0 "ls""#,
            "output_item.done 0 custom_tool_call completed",
            "completed completed",
        ]
    );
}

#[test]
fn calls_that_the_gateway_runs_are_mcp_calls_between_the_rounds() {
    let mut recorder = OutputRecorder::new();
    recorder.delta(json!({"content": "Look:"})).stop("tool_calls");
    recorder.start("a", "fs-read", "{}").start("b", "fs-list", "[]");
    recorder.end("b", Err("no such directory")).end("a", Ok("data")).end("unknown", Ok(""));
    recorder.round().delta(json!({"content": "Done"})).stop("stop").finish();
    assert_eq!(
        recorder.story()[5..],
        [
            r#"output_text.done 0 0 "Look:""#,
            "content_part.done 0 0 output_text",
            "output_item.done 0 message completed",
            "output_item.added 1 mcp_call in_progress",
            "mcp_call.in_progress 1",
            r#"mcp_call_arguments.delta 1 "{}""#,
            r#"mcp_call_arguments.done 1 "{}""#,
            "output_item.added 2 mcp_call in_progress",
            "mcp_call.in_progress 2",
            r#"mcp_call_arguments.delta 2 "[]""#,
            r#"mcp_call_arguments.done 2 "[]""#,
            "mcp_call.failed 2",
            "output_item.done 2 mcp_call failed",
            "mcp_call.completed 1",
            "output_item.done 1 mcp_call completed",
            "output_item.added 3 message in_progress",
            "content_part.added 3 0 output_text",
            r#"output_text.delta 3 0 "Done""#,
            r#"output_text.done 3 0 "Done""#,
            "content_part.done 3 0 output_text",
            "output_item.done 3 message completed",
            "completed completed",
        ]
    );
    let items = recorder.writer.output_items();
    assert_eq!(
        items[1],
        json!({"id": "mcp_10001", "type": "mcp_call", "status": "completed", "approval_request_id": null,
            "server_label": "fs", "name": "fs-read", "arguments": "{}", "output": "data", "error": null})
    );
    assert_eq!(
        (&items[2]["output"], &items[2]["error"]),
        (
            &Value::Null,
            &json!({"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": "no such directory"}]})
        )
    );
}

#[test]
fn a_refusal_is_a_part_after_the_text() {
    let mut recorder = OutputRecorder::new();
    recorder.delta(json!({"content": "Well"})).delta(json!({"refusal": "No."})).finish();
    assert_eq!(
        recorder.story()[4..],
        [
            r#"output_text.delta 0 0 "Well""#,
            r#"output_text.done 0 0 "Well""#,
            "content_part.done 0 0 output_text",
            "content_part.added 0 1 refusal",
            r#"refusal.delta 0 1 "No.""#,
            r#"refusal.done 0 1 "No.""#,
            "content_part.done 0 1 refusal",
            "output_item.done 0 message completed",
            "completed completed",
        ]
    );
}

#[test]
fn annotations_and_log_probabilities_have_the_form_of_responses() {
    let mut recorder = OutputRecorder::new();
    let top = json!([{"token": "H", "logprob": -0.5, "bytes": [72]}, {"logprob": 1}]);
    let tokens =
        json!([{"token": "H", "logprob": -0.5, "bytes": null, "top_logprobs": top}, {"token": 1}]);
    recorder.chunk(json!({"index": 0, "delta": {"content": "H"}, "logprobs": {"content": tokens}}));
    let citation =
        json!({"start_index": 0, "end_index": 1, "title": "t", "url": "https://example.com"});
    recorder
        .delta(json!({"annotations": [{"type": "url_citation", "url_citation": citation}, 7]}))
        .finish();
    let part = &recorder.writer.output_items()[0]["content"][0];
    assert_eq!(
        part["logprobs"],
        json!([{"token": "H", "bytes": [], "logprob": -0.5, "top_logprobs": [{"token": "H", "bytes": [72], "logprob": -0.5}]}])
    );
    assert_eq!(
        part["annotations"],
        json!([{"type": "url_citation", "start_index": 0, "end_index": 1, "title": "t", "url": "https://example.com"}])
    );
    let added = recorder.events.iter().find(|event| event.contains_key("annotation_index"));
    assert_eq!(added.expect("an event")["annotation"], part["annotations"][0]);
}

#[test]
fn the_reason_of_the_last_round_decides_whether_the_response_is_complete() {
    for (reason, status, details) in [
        ("stop", "completed", Value::Null),
        ("tool_calls", "completed", Value::Null),
        ("length", "incomplete", json!({"reason": "max_output_tokens"})),
        ("content_filter", "incomplete", json!({"reason": "content_filter"})),
    ] {
        let mut recorder = OutputRecorder::new();
        recorder.stop("length").round().delta(json!({"content": "x"})).stop(reason).finish();
        let response = recorder.writer.response();
        assert_eq!(
            (&response["status"], &response["incomplete_details"]),
            (&json!(status), &details)
        );
        assert_eq!(response["output"][0]["status"], status);
        let last = recorder.events.last().expect("an event");
        assert_eq!(last["type"], format!("response.{status}"));
        assert_eq!(last["response"], Value::Object(response));
    }
    let mut recorder = OutputRecorder::new();
    recorder.stop("length").round().finish();
    assert_eq!(
        recorder.writer.response()["status"],
        "completed",
        "no reason counts as the default"
    );
}

#[test]
fn a_failure_ends_every_open_item_and_nothing_follows_it() {
    let mut recorder = OutputRecorder::new();
    recorder.start("a", "fs-read", "{}").delta(json!({"content": "x"}));
    let error = object(json!({"message": "late", "type": "server_error", "code": "agent_timeout"}));
    let usage = json!({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3});
    let airlock = object(json!({"rounds": 1}));
    recorder.writer.fail(&error, Some(&usage), Some(airlock), &mut recorder.events);
    recorder
        .delta(json!({"content": "y"}))
        .start("b", "fs-read", "{}")
        .end("a", Ok(""))
        .round()
        .finish();
    assert_eq!(recorder.story().last().expect("an event"), "failed failed");
    let response = recorder.writer.response();
    assert_eq!(
        (&response["status"], &response["error"]["code"], &response["error"]["native_code"]),
        (&json!("failed"), &json!("server_error"), &json!("agent_timeout"))
    );
    assert_eq!(
        (&response["usage"]["total_tokens"], &response["airlock"]["rounds"]),
        (&json!(3), &json!(1))
    );
    let statuses: Vec<_> =
        recorder.writer.output_items().iter().map(|item| &item["status"]).collect();
    assert_eq!(statuses, ["failed", "incomplete"]);
}

#[test]
fn a_response_has_the_model_and_the_service_tier_of_the_chunks() {
    let mut recorder = OutputRecorder::new();
    assert_eq!(recorder.events[0]["response"]["model"], "m");
    let chunk = json!({"model": "m-2026", "service_tier": "flex", "choices": [{"delta": {}}]});
    recorder.add(object(chunk)).finish();
    let response = recorder.writer.response();
    assert_eq!((&response["model"], &response["service_tier"]), (&json!("m-2026"), &json!("flex")));
}

#[test]
fn a_whole_completion_and_its_chunks_produce_the_same_items() {
    let calls = json!([{"id": "a", "type": "function", "function": {"name": "x", "arguments": "{}"}, "extra_content": {"s": 1}, "status": "odd"}]);
    let mut whole = OutputRecorder::new();
    whole.chunk(json!({"index": 0, "message": {"role": "assistant", "content": "Hi", "refusal": null, "tool_calls": calls}, "finish_reason": "tool_calls"}));
    whole.finish();
    let mut pieces = OutputRecorder::new();
    pieces
        .delta(json!({"content": "H"}))
        .delta(json!({"content": "i", "tool_calls": calls}))
        .finish();
    assert_eq!(whole.writer.output_items(), pieces.writer.output_items());
    let call = &whole.writer.output_items()[1];
    assert_eq!((&call["extra_content"], &call["status"]), (&json!({"s": 1}), &json!("completed")));
}

#[test]
fn other_choices_and_malformed_members_are_ignored() {
    let mut recorder = OutputRecorder::new();
    recorder.chunk(json!({"index": 1, "delta": {"content": "other"}, "finish_reason": "length"}));
    for delta in [
        json!({"content": null, "tool_calls": null, "annotations": null, "reasoning_content": null}),
        json!({"content": [1], "refusal": 7, "tool_calls": {}, "annotations": "x", "reasoning": {}}),
        json!({"tool_calls": [null, 1], "annotations": [{}], "thinking_blocks": []}),
        Value::Null,
    ] {
        recorder.delta(delta);
    }
    recorder.chunk(json!(3)).finish();
    assert_eq!(recorder.story()[2..], ["completed completed"]);
}

#[test]
fn an_identifier_of_a_call_fits_the_limit_of_chat_completions() {
    let echo = prepared(json!({"model": "m", "input": "hi"})).echo;
    let mut writer = Writer::new("resp_0123456789abcdef0123456789abcdef", 7, echo);
    let extra = &Object::new();
    let call = GatewayCall {
        tool_call_id: "a",
        server_label: "fs",
        name: "fs-read",
        arguments: "{}",
        extra,
    };
    let stem = "mcp_0123456789abcdef0123456789abcdef";
    // The digit of a round before the place.
    for (round, digits) in [(0, "0000"), (1, "1001"), (15, "f00f"), (16, "0010")] {
        while writer.items() <= round {
            writer.call_started(call, &mut Vec::new());
            writer.call_ended("a", Ok("data"), &mut Vec::new());
            writer.round_ended(&mut Vec::new());
        }
        let id = writer.output_items()[round]["id"].as_str().expect("an id");
        assert_eq!((id, id.len()), (&*format!("{stem}{digits}"), 40));
    }
}

#[test]
fn a_suspended_call_is_incomplete_and_left_out_of_the_next_turn() {
    let mut recorder = OutputRecorder::new();
    recorder.start("c1", "run", "{}");
    recorder.writer.call_suspended("c1", &mut recorder.events);
    recorder.finish();
    let item = recorder.writer.output_items()[0].clone();
    assert_eq!((&item["type"], &item["status"]), (&json!("mcp_call"), &json!("incomplete")));
    let user = json!({"role": "user", "content": "x"});
    assert_eq!(messages(json!([user, item])), messages(json!([user])));
}
