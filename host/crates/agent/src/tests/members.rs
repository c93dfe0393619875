//! Members of chunks and choices that OpenAI's API does not define, and usage that was not asked for.

use super::{
    hostile::{events_of, received, sse},
    streams::streamed,
    *,
};
use airlock_test_http::model as service;

/// A round that calls a tool of the gateway, with a member beside its end.
fn round() -> String {
    let end = json!({"of_end": 1, "choice": {"finish_reason": "tool_calls"}});
    sse(&[chunk(&json!({"tool_calls": [echo()]}), &json!({})), chunk(&json!({}), &end)])
}

fn echo() -> Value {
    let function = json!({"name": "desk-echo", "arguments": "{}"});
    json!({"index": 0, "id": "c1", "type": "function", "function": function})
}

fn mine() -> Value {
    let function = json!({"name": "mine", "arguments": "{}"});
    json!({"index": 1, "id": "m1", "type": "function", "function": function})
}

/// Returns a chunk with a delta of the first choice. `members` are those of the chunk; its `choice` has those
/// of the choice.
fn chunk(delta: &Value, members: &Value) -> Value {
    let mut chunk = json!({"id": "x", "choices": [{"index": 0, "delta": delta}]});
    for (name, value) in members.as_object().expect("members") {
        match name.as_str() {
            "choice" => {
                let choice = chunk["choices"][0].as_object_mut().expect("a choice");
                choice.extend(object(value.clone()));
            }
            _ => chunk[name] = value.clone(),
        }
    }
    chunk
}

fn end(reason: &str) -> Value {
    chunk(&json!({}), &json!({"choice": {"finish_reason": reason}}))
}

/// Returns each chunk that a caller receives as its delta and its other members, without those that every
/// chunk has.
async fn shown(answers: Vec<String>, request: Request) -> Vec<String> {
    let asked = Request { prompt: request.prompt.clone(), ..streamed() };
    let chunks = received(events_of(answers, request).await, &asked);
    let lines = chunks.into_iter().map(|chunk| {
        let mut chunk = object(chunk);
        let known = ["id", "object", "created", "model", EXTENSION];
        chunk.retain(|name, _| !known.contains(&name.as_str()));
        let mut choices = chunk.shift_remove("choices").expect("choices");
        let Some(choice) = choices.get_mut(0).and_then(Value::as_object_mut) else {
            return format!("none {}", Value::from(chunk));
        };
        let delta = choice.shift_remove("delta").expect("a delta");
        choice.shift_remove("index");
        choice.retain(|_, value| !value.is_null());
        let members =
            [Value::from(choice.clone()), chunk.into()].map(|members| members.to_string());
        format!("{delta} {}", members.join(" "))
    });
    lines.collect()
}

#[tokio::test]
async fn usage_that_was_not_asked_for_is_sent_after_a_round_where_it_came() {
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5});
    let text = chunk(&json!({"content": "hi"}), &json!({}));
    let own = json!({"id": "x", "choices": [], "usage": usage});
    let mut with_choice = end("stop");
    with_choice["usage"] = usage.clone();
    for (last, expected) in [
        (
            vec![end("stop"), own],
            [
                r#"{} {"finish_reason":"stop"} {}"#.to_owned(),
                format!(r#"none {{"usage":{usage}}}"#),
            ],
        ),
        (
            vec![with_choice],
            [
                r#"{"content":"hi"} {} {}"#.to_owned(),
                format!(r#"{{}} {{"finish_reason":"stop"}} {{"usage":{usage}}}"#),
            ],
        ),
    ] {
        let answer = [vec![text.clone()], last].concat();
        let shown = shown(vec![round(), sse(&answer)], streamed()).await;
        assert!(shown.ends_with(&expected), "{shown:#?}");
    }
}

#[tokio::test]
async fn unknown_members_of_chunks_and_choices_leave_where_they_came() {
    let filter = json!({"content_filter_results": {"hate": {"filtered": false}}});
    let answer = [
        json!({"id": "", "choices": [], "prompt_filter_results": [1]}),
        chunk(
            &json!({"role": "assistant", "content": ""}),
            &json!({"system_fingerprint": "f", "x_groq": {"id": "r"}}),
        ),
        chunk(&json!({"content": "a"}), &json!({"system_fingerprint": "f", "choice": filter})),
        chunk(&json!({"content": "b"}), &json!({"provider": "P", "service_tier": "default"})),
        chunk(&json!({}), &json!({"choice": {"content_filter_offsets": {"start_offset": 1}}})),
        chunk(
            &json!({}),
            &json!({"x_groq": {"usage": 1}, "choice": {"finish_reason": "stop", "native_finish_reason": "STOP"}}),
        ),
        json!({"id": "x", "choices": [], "usage": {"prompt_tokens": 1}, "provider": "P"}),
    ];
    let mut request = streamed();
    request.prompt.body.set("stream_options", r#"{"include_usage":true}"#);
    let shown = shown(vec![round(), sse(&answer)], request).await;
    assert_eq!(shown[0], r#"{"role":"assistant","content":null} {} {"usage":null}"#);
    assert_eq!(
        shown[1..],
        [
            r#"{} {} {"usage":null,"prompt_filter_results":[1]}"#,
            r#"{} {} {"usage":null,"system_fingerprint":"f","x_groq":{"id":"r"}}"#,
            r#"{"content":"a"} {"content_filter_results":{"hate":{"filtered":false}}} {"usage":null,"system_fingerprint":"f"}"#,
            r#"{"content":"b"} {} {"usage":null,"provider":"P","service_tier":"default"}"#,
            r#"{} {"content_filter_offsets":{"start_offset":1}} {"usage":null}"#,
            r#"{} {"finish_reason":"stop","native_finish_reason":"STOP"} {"usage":null,"x_groq":{"usage":1}}"#,
            r#"none {"usage":{"prompt_tokens":1,"completion_tokens":0,"total_tokens":1},"provider":"P"}"#,
        ]
    );
}

#[tokio::test]
async fn members_beside_a_call_are_shown_with_it_and_not_with_one_that_is_run_here() {
    let text = sse(&[chunk(&json!({"content": "hi"}), &json!({})), end("stop")]);
    let role = r#"{"role":"assistant","content":null} {} {"x":0}"#;
    for (name, expected) in [
        ("desk-echo", vec![]),
        (
            "desk-write",
            vec![r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]} {"y":2} {"x":2}"#],
        ),
        (
            "mine",
            vec![
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]} {"y":1} {"x":1}"#,
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]} {"y":2} {"x":2}"#,
            ],
        ),
    ] {
        let begin = json!({"index": 0, "id": "m1", "function": {"name": name, "arguments": "{"}});
        let rest = json!({"index": 0, "function": {"arguments": "}"}});
        let calling = [
            chunk(&json!({"role": "assistant", "content": null}), &json!({"x": 0})),
            chunk(&json!({"tool_calls": [begin]}), &json!({"x": 1, "choice": {"y": 1}})),
            chunk(&json!({"tool_calls": [rest]}), &json!({"x": 2, "choice": {"y": 2}})),
            end("tool_calls"),
        ];
        let answers = vec![sse(&calling), text.clone()];
        let mut shown = shown(answers, with_own_tool(streamed())).await;
        shown.retain(|line| line.contains("\"x\""));
        assert_eq!(shown, [vec![role], expected].concat(), "{name}");
    }
}

#[tokio::test]
async fn no_unknown_member_repeats_a_call_of_the_gateway() {
    let calls = json!([{"name": "mine"}]);
    let repeated = [
        json!({"choice": {"calls": [{"name": "desk-echo"}]}}),
        json!({"choice": {"native": {"tool_calls": calls}}}),
        json!({"raw": {"desk-echo": {}}}),
        json!({"raw": {"function_call": {}}}),
        json!({"choice": {"tool_calls": [{"name": "desk-eccho"}]}}),
    ];
    for members in repeated {
        for call in [json!([]), json!([echo()])] {
            let answer = chunk(&json!({"content": "hm", "tool_calls": call}), &members);
            let early = json!({"id": "x", "choices": [], "raw": {"name": "desk-echo"}, "early": 1});
            let last = sse(&[chunk(&json!({"content": "hi"}), &json!({})), end("stop")]);
            let answers = vec![sse(&[early, answer, end("tool_calls")]), last];
            let shown = shown(answers, streamed()).await;
            assert!(shown.iter().any(|line| line.contains("hm")), "{shown:?}");
            let text = shown.concat();
            assert_eq!(text.matches("early").count(), 1, "{text}");
            assert!(!["desk-e", "native", "raw"].iter().any(|name| text.contains(name)), "{text}");
        }
    }
}

#[tokio::test]
async fn a_call_in_the_old_form_does_not_reach_the_caller_in_pieces() {
    let pieces = [json!({"name": "desk-"}), json!({"name": "echo"}), json!({"arguments": "{}"})];
    let chunks = pieces.map(|piece| chunk(&json!({"function_call": piece}), &json!({})));
    let text = chunk(&json!({"content": "hm"}), &json!({}));
    let answer = sse(&[chunks.as_slice(), &[text, end("stop")]].concat());
    let shown = shown(vec![answer], streamed()).await.concat();
    assert!(shown.contains("hm") && !shown.contains("function_call"), "{shown}");
}

#[tokio::test]
async fn a_member_of_a_message_that_repeats_a_call_is_left_out_of_both_forms() {
    let fields = json!({"tool_calls": [{"name": "desk-echo"}]});
    let message = json!({"role": "assistant", "content": "hm", "fields": fields, "other": 1});
    let streamed_answer = sse(&[chunk(&message, &json!({})), end("stop")]);
    let streamed = shown(vec![streamed_answer], streamed()).await.concat();
    let choice =
        json!({"index": 0, "message": message, "finish_reason": "stop", "calls": "desk-echo"});
    let whole_answer =
        service::json("200 OK", &json!({"id": "x", "choices": [choice], "y": 1}).to_string());
    let Some(Event::Done(completion)) = events_of(vec![whole_answer], request()).await.pop() else {
        panic!("it is complete")
    };
    let whole = Value::from(whole(*completion));
    assert_eq!(whole["y"], 1);
    for text in [streamed, whole.to_string()] {
        assert!(text.contains(r#""other":1"#) && !text.contains("desk-echo"), "{text}");
    }
}

#[tokio::test]
async fn a_whole_response_after_a_round_has_its_unknown_members() {
    let filter = json!({"hate": {"filtered": false}});
    let last = json!({"id": "x", "provider": "P", "choices": [{"index": 0, "finish_reason": "stop",
        "native_finish_reason": "STOP", "content_filter_results": filter, "message": {"content": "hi"}}]});
    let calls = json!([echo()]);
    let first = json!({"id": "x", "choices": [{"index": 0, "finish_reason": "tool_calls", "native_finish_reason": "TOOL",
        "message": {"content": null, "tool_calls": calls}}]});
    let answers = [first, last].map(|answer| service::json("200 OK", &answer.to_string()));
    let Some(Event::Done(completion)) = events_of(answers.into(), request()).await.pop() else {
        panic!("it is complete")
    };
    let whole = Value::from(whole(*completion));
    let choice = &whole["choices"][0];
    assert_eq!(
        (&choice["native_finish_reason"], &whole["provider"]),
        (&json!("STOP"), &json!("P"))
    );
    assert_eq!(choice["content_filter_results"], filter);
}

#[tokio::test]
async fn a_mixed_response_has_the_members_of_its_choice_without_calls_that_ran() {
    let function = json!({"name": "desk-write", "arguments": "{}"});
    let calls = json!([echo(), {"id": "w", "type": "function", "function": function}]);
    let choice = json!({"index": 0, "finish_reason": "tool_calls", "y": 1, "raw": [{"name": "desk-echo"}],
        "message": {"content": null, "tool_calls": calls}});
    let answer = service::json("200 OK", &json!({"id": "x", "choices": [choice]}).to_string());
    let Some(Event::Done(completion)) = events_of(vec![answer], request()).await.pop() else {
        panic!("it is complete")
    };
    let whole = Value::from(whole(*completion));
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["tool_calls"].as_array().map(Vec::len), Some(1), "{whole}");
    assert_eq!((&choice["y"], choice.get("raw")), (&json!(1), None));
}

#[tokio::test]
async fn members_of_a_text_that_is_held_back_follow_it_once() {
    let mut request = streamed();
    request.prompt.body.set("response_format", r#"{"type":"json_object"}"#);
    let chunks: Vec<_> = (0..3)
        .map(|place| chunk(&json!({"content": "1"}), &json!({"x": place, "choice": {"y": place}})))
        .chain([end("stop")])
        .collect();
    let shown = shown(vec![sse(&chunks)], request).await;
    assert_eq!(
        shown,
        [
            r#"{"role":"assistant","content":null} {"y":0} {"x":0}"#,
            r#"{"content":"111"} {"y":2} {"x":2}"#,
            r#"{} {"finish_reason":"stop"} {}"#,
        ]
    );
}

#[tokio::test]
async fn members_of_a_text_that_is_held_back_are_charged_by_their_names() {
    for (names, is_good) in [(1, true), (1_000, false)] {
        let memory = Limited::new(100_000);
        let mut request = Request { budget: MemoryBudget::new(memory.clone()), ..streamed() };
        request.prompt.body.set("response_format", r#"{"type":"json_object"}"#);
        let chunks = (0..1_000).map(|place| {
            let name = format!("x{}", place % names);
            chunk(&json!({"content": "1"}), &json!({name: "y".repeat(50)}))
        });
        let chunks: Vec<_> = chunks.chain([end("stop")]).collect();
        let events = events_of(vec![sse(&chunks)], request).await;
        assert_eq!(matches!(events.last(), Some(Event::Done(_))), is_good, "{names} names");
        drop(events);
        assert_eq!(memory.taken(), 0);
    }
}

#[tokio::test]
async fn texts_that_are_held_back_are_shown_in_pieces_before_a_call_of_the_caller() {
    let mut request = with_own_tool(streamed());
    request.prompt.body.set("response_format", r#"{"type":"json_object"}"#);
    let logprobs = json!({"choice": {"logprobs": {"content": [{"token": "y"}]}}});
    let mut chunks: Vec<_> = (0..100).map(|_| chunk(&json!({"content": "y"}), &logprobs)).collect();
    chunks.push(chunk(&json!({"reasoning_content": "so", "tool_calls": [mine()]}), &json!({})));
    chunks.push(end("tool_calls"));
    let events = events_of(vec![sse(&chunks)], request).await;
    let deltas = events.iter().filter_map(|event| match event {
        Event::Chunk(chunk) => Some(chunk.deltas().len()),
        _ => None,
    });
    let deltas: Vec<_> = deltas.collect();
    assert!(deltas.iter().all(|deltas| *deltas <= 3), "{deltas:?}");
    assert!(
        deltas.iter().filter(|deltas| **deltas == 2).count() >= 100,
        "each text with its probabilities"
    );
}
