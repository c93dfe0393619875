use proptest::prelude::*;

use super::*;
use crate::{Begin, Reply};

fn text(text: &str) -> Delta {
    Delta::Text { choice: 0, text: text.to_owned() }
}

fn think(text: &str) -> Delta {
    Delta::Reasoning { choice: 0, text: text.to_owned() }
}

fn call(index: u64, name: &str) -> Delta {
    Delta::Call {
        choice: 0,
        index,
        id: format!("id_{index}"),
        name: name.to_owned(),
        is_custom: false,
        extra: Object::new(),
    }
}

/// Returns a call of `f` with a signature of Gemini's.
fn signed_call(index: u64, signature: &str) -> Delta {
    let members = json!({"extra_content": {"google": {"thought_signature": signature}}, "x": 1});
    let mut call = call(index, "f");
    if let Delta::Call { extra, .. } = &mut call {
        *extra = airlock_json::object(members);
    }
    call
}

fn carrier(id: &str, signature: &str) -> String {
    format!("airlock:{}", json!({"call": id, "thought_signature": signature}))
}

fn arguments(index: u64, text: &str) -> Delta {
    Delta::Arguments { choice: 0, index, text: text.to_owned() }
}

fn end(reason: FinishReason) -> Delta {
    Delta::End { choice: 0, reason }
}

fn sealed(text: &str, seal: Seal) -> Delta {
    let reasoning = Reasoning { text: text.to_owned(), seal: Some(seal), ..Reasoning::default() };
    Delta::ReasoningEnd { choice: 0, reasoning }
}

fn signature() -> Seal {
    Seal::Signature("sig".to_owned())
}

/// Returns the events of a reply.
fn streamed(deltas: impl IntoIterator<Item = Delta>) -> Vec<Value> {
    let mut writer = EventWriter::new("msg_1", "m");
    let mut out = Vec::new();
    deltas.into_iter().for_each(|delta| writer.delta(delta, &mut out));
    writer.finish(None, &mut out);
    out.into_iter().map(Value::from).collect()
}

/// Collects a message as Anthropic's clients do. Fails if the events have another order than the API's.
fn collected(events: &[Value]) -> Value {
    let mut message = events[0]["message"].clone();
    assert_eq!(events[0]["type"], "message_start");
    let mut inputs: Vec<String> = Vec::new();
    let mut open = None;
    for event in &events[1..] {
        let index = event["index"].as_u64();
        match event["type"].as_str().expect("a type") {
            "content_block_start" => {
                assert_eq!(open, None, "a block begins inside another one");
                assert_eq!(index, Some(inputs.len() as u64));
                open = index;
                inputs.push(String::new());
                let blocks = message["content"].as_array_mut().expect("a list");
                blocks.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                assert!(index.is_some() && index == open, "{event}");
                let place = inputs.len() - 1;
                let block = &mut message["content"][place];
                let delta = &event["delta"];
                let piece = |name: &str| delta[name].as_str().expect("a text").to_owned();
                let mut append = |name: &str, piece: String| {
                    let before = block[name].as_str().expect("a text");
                    block[name] = format!("{before}{piece}").into();
                };
                match delta["type"].as_str().expect("a type") {
                    "text_delta" => append("text", piece("text")),
                    "thinking_delta" => append("thinking", piece("thinking")),
                    "signature_delta" => block["signature"] = delta["signature"].clone(),
                    "input_json_delta" => inputs[place].push_str(&piece("partial_json")),
                    "citations_delta" => {
                        if block["citations"].is_null() {
                            block["citations"] = json!([]);
                        }
                        let citations = block["citations"].as_array_mut().expect("a list");
                        citations.push(delta["citation"].clone());
                    }
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" => {
                assert!(index.is_some() && index == open, "{event}");
                open = None;
                let place = inputs.len() - 1;
                if message["content"][place]["type"] == "tool_use" {
                    let input = serde_json::from_str(&inputs[place]);
                    message["content"][place]["input"] =
                        input.unwrap_or_else(|_| json!(inputs[place]));
                }
            }
            "message_delta" => {
                assert_eq!(open, None);
                let delta = event["delta"].as_object().expect("an object").clone();
                message.as_object_mut().expect("an object").extend(delta);
                message["usage"] = event["usage"].clone();
            }
            "message_stop" => assert_eq!(event, events.last().expect("an event")),
            other => panic!("{other}"),
        }
    }
    message
}

fn whole(deltas: Vec<Delta>) -> Value {
    let begin = Begin { id: "msg_1".to_owned(), model: "m".to_owned(), ..Begin::default() };
    let mut reply = Reply { begin, ..Reply::default() };
    reply.extend(deltas);
    write_reply(reply).into()
}

#[test]
fn parts_of_reasoning_are_separated() {
    let part = |index| Delta::ReasoningPart {
        choice: 0,
        item_id: "rs_1".to_owned(),
        is_summary: true,
        index,
    };
    let events =
        streamed([part(0), think("a"), part(1), think("b"), text("c"), end(FinishReason::Stop)]);
    assert_eq!(collected(&events)["content"][0]["thinking"], "a\n\nb");
}

#[test]
fn a_streamed_message_has_the_events_of_the_api() {
    let begin = Begin { id: "msg_9".to_owned(), model: "claude".to_owned(), ..Begin::default() };
    let usage = Usage {
        input: 10,
        cache_reads: Some(4),
        cache_writes: Some(1),
        output: 2,
        ..Usage::default()
    };
    let events = streamed([
        Delta::Begin(begin),
        text("Hel"),
        text("lo"),
        end(FinishReason::Stop),
        Delta::Usage(usage),
    ]);
    assert_eq!(
        json!(events),
        json!([
            {"type": "message_start", "message": {
                "id": "msg_9", "type": "message", "role": "assistant", "model": "claude", "content": [],
                "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 0, "output_tokens": 0},
            }},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {
                "input_tokens": 5, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 4, "output_tokens": 2,
            }},
            {"type": "message_stop"},
        ])
    );
}

#[test]
fn both_forms_of_a_reply_have_the_same_blocks() {
    let citation = airlock_json::object(json!({"type": "char_location", "cited_text": "x"}));
    let cite = |wire| Delta::Citation { choice: 0, wire, citation: citation.clone() };
    for (deltas, content, reason) in [
        (vec![], json!([]), "end_turn"),
        (vec![text("a"), text("b")], json!([{"type": "text", "text": "ab"}]), "end_turn"),
        (
            vec![think("h"), think("m"), sealed("hm", signature()), text("a")],
            json!([
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "text", "text": "a"},
            ]),
            "end_turn",
        ),
        (
            vec![think("hm"), text("a")],
            json!([
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "text", "text": "a"},
            ]),
            "end_turn",
        ),
        (
            vec![sealed("", Seal::Redacted("x".to_owned())), sealed("", signature())],
            json!([
                {"type": "redacted_thinking", "data": "x"},
                {"type": "thinking", "thinking": "", "signature": "sig"},
            ]),
            "end_turn",
        ),
        (
            vec![text("a"), cite(Wire::Messages), cite(Wire::Chat)],
            json!([{"type": "text", "text": "a", "citations": [citation.clone()]}]),
            "end_turn",
        ),
        (
            vec![
                text("a"),
                call(0, "f"),
                arguments(0, "{\"a\""),
                arguments(0, ":1}"),
                call(1, "g"),
            ],
            json!([
                {"type": "text", "text": "a"},
                {"type": "tool_use", "id": "id_0", "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "id_1", "name": "g", "input": {}},
            ]),
            "tool_use",
        ),
        (
            // The second one waits for the end of the first one.
            vec![signed_call(0, "s"), signed_call(1, "t"), arguments(1, "{}"), arguments(0, "{}")],
            json!([
                {"type": "thinking", "thinking": "", "signature": carrier("id_0", "s")},
                {"type": "tool_use", "id": "id_0", "name": "f", "input": {}},
                {"type": "thinking", "thinking": "", "signature": carrier("id_1", "t")},
                {"type": "tool_use", "id": "id_1", "name": "f", "input": {}},
            ]),
            "tool_use",
        ),
        (
            vec![call(0, "f"), arguments(0, "not JSON")],
            json!([{"type": "tool_use", "id": "id_0", "name": "f", "input": {"INVALID_JSON": "not JSON"}}]),
            "tool_use",
        ),
        (
            vec![call(0, "f"), call(1, "g"), arguments(1, "{\"b\":2}"), arguments(0, "{\"a\":1}")],
            json!([
                {"type": "tool_use", "id": "id_0", "name": "f", "input": {"a": 1}},
                {"type": "tool_use", "id": "id_1", "name": "g", "input": {"b": 2}},
            ]),
            "tool_use",
        ),
        (
            vec![Delta::Refusal { choice: 0, text: "I won't".to_owned() }],
            json!([{"type": "text", "text": "I won't"}]),
            "refusal",
        ),
        (vec![Delta::Text { choice: 1, text: "another choice".to_owned() }], json!([]), "end_turn"),
    ] {
        for message in [collected(&streamed(deltas.clone())), whole(deltas.clone())] {
            assert_eq!(message["content"], content, "{deltas:?}");
            assert_eq!(message["stop_reason"], reason, "{deltas:?}");
        }
    }
}

#[test]
fn each_reason_of_an_end_has_its_stop_reason() {
    let refusal = || Delta::Refusal { choice: 0, text: "harm".to_owned() };
    let call = || self::call(0, "f");
    for (deltas, expected) in [
        (vec![end(FinishReason::Stop)], json!(["end_turn", null, null])),
        (vec![end(FinishReason::Length)], json!(["max_tokens", null, null])),
        (vec![call(), end(FinishReason::Length)], json!(["max_tokens", null, null])),
        (vec![call(), end(FinishReason::Stop)], json!(["tool_use", null, null])),
        (vec![end(FinishReason::ToolCalls)], json!(["end_turn", null, null])),
        (vec![end(FinishReason::Other("x".to_owned()))], json!(["end_turn", null, null])),
        (
            vec![end(FinishReason::StopSequence("END".to_owned()))],
            json!(["stop_sequence", "END", null]),
        ),
        (
            vec![refusal(), end(FinishReason::ContentFilter)],
            json!(["refusal", null, {"type": "refusal", "category": null, "explanation": "harm"}]),
        ),
    ] {
        for message in [collected(&streamed(deltas.clone())), whole(deltas.clone())] {
            let found =
                ["stop_reason", "stop_sequence", "stop_details"].map(|name| message[name].clone());
            assert_eq!(json!(found), expected, "{deltas:?}");
        }
    }
}

#[test]
fn pieces_that_wait_are_held_until_the_open_call_is_complete() {
    let mut writer = EventWriter::new("msg_1", "m");
    let mut out = Vec::new();
    for delta in
        [call(0, "f"), arguments(0, "{\"a\":"), call(1, "g"), arguments(1, "{}"), text("then")]
    {
        writer.delta(delta, &mut out);
    }
    let before = out.len();
    assert_eq!(before, 3, "message, block and one piece: {out:?}");
    assert!(writer.held_bytes() >= 2 + "then".len(), "{}", writer.held_bytes());
    writer.delta(arguments(0, "1}"), &mut out);
    assert!(out.len() > before + 4, "the rest follows at once: {out:?}");
    writer.finish(None, &mut out);
    let events: Vec<_> = out.into_iter().map(Value::from).collect();
    assert_eq!(
        collected(&events)["content"],
        json!([
            {"type": "tool_use", "id": "id_0", "name": "f", "input": {"a": 1}},
            {"type": "tool_use", "id": "id_1", "name": "g", "input": {}},
            {"type": "text", "text": "then"},
        ])
    );
}

#[test]
fn all_of_a_piece_that_waits_is_counted_and_the_rest_of_it_is_dropped() {
    let large = "x".repeat(10_000);
    let extra = airlock_json::object(json!({"x": large}));
    let sealed = |seal| Delta::ReasoningEnd {
        choice: 0,
        reasoning: Reasoning {
            summary: vec![large.clone()],
            seal: Some(seal),
            extra: extra.clone(),
            ..Reasoning::default()
        },
    };
    let sources = airlock_json::object(json!({"type": "t", "x": vec![json!({}); 10]}));
    let mut named = call(1, "g");
    if let Delta::Call { extra: unknown, .. } = &mut named {
        *unknown = extra.clone();
    }
    for (delta, least) in [
        (sealed(Seal::Redacted(large.clone())), 20_000),
        (sealed(Seal::Encrypted(large.clone())), 20_000),
        (
            Delta::Citation { choice: 0, wire: Wire::Messages, citation: sources.clone() },
            object_weight(&sources),
        ),
        (named, 1),
    ] {
        let mut writer = EventWriter::new("msg_1", "m");
        let mut out = Vec::new();
        writer.delta(call(0, "f"), &mut out);
        writer.delta(delta, &mut out);
        let held = writer.held_bytes().saturating_sub(WAITING_BYTES);
        assert!((least..least + 100).contains(&held), "{held}, at least {least}");
        let kept = format!("{:?}", writer.waiting);
        assert!(kept.len() < least + 1_000, "{}", kept.len());
    }
}

#[test]
fn pieces_of_one_text_that_wait_are_joined() {
    let mut writer = EventWriter::new("msg_1", "m");
    let mut out = Vec::new();
    writer.delta(call(0, "f"), &mut out);
    for _ in 0..100 {
        writer.delta(text("a"), &mut out);
    }
    for _ in 0..100 {
        writer.delta(think("b"), &mut out);
    }
    assert_eq!((writer.waiting.len(), writer.held_bytes()), (2, 200 + 2 * WAITING_BYTES));
    writer.finish(None, &mut out);
    let events: Vec<_> = out.into_iter().map(Value::from).collect();
    let content = &collected(&events)["content"];
    assert_eq!(
        (&content[1]["text"], &content[2]["thinking"]),
        (&"a".repeat(100).into(), &"b".repeat(100).into())
    );
}

#[test]
fn the_text_of_all_blocks_of_reasoning_is_not_repeated_beside_them() {
    // A whole chat completion has the text of both blocks, and then the blocks.
    let message = whole(vec![think("ab"), sealed("a", signature()), sealed("b", signature())]);
    assert_eq!(
        message["content"],
        json!([
            {"type": "thinking", "thinking": "a", "signature": "sig"},
            {"type": "thinking", "thinking": "b", "signature": "sig"},
        ])
    );
}

#[test]
fn a_summary_with_a_proof_is_one_block_of_thinking() {
    let seal = Some(Seal::Encrypted("e".to_owned()));
    let reasoning = Reasoning { summary: vec!["Hm.".to_owned()], seal, ..Reasoning::default() };
    let deltas = vec![think("H"), think("m."), Delta::ReasoningEnd { choice: 0, reasoning }];
    for message in [collected(&streamed(deltas.clone())), whole(deltas)] {
        let [block] = message["content"].as_array().expect("a list").as_slice() else {
            panic!("{message}")
        };
        assert_eq!(block["thinking"], "Hm.");
        assert_eq!(block["signature"], r#"airlock:{"id":null,"encrypted":"e"}"#);
    }
}

#[test]
fn the_record_of_the_calls_is_a_member_of_the_last_but_one_event() {
    let mut writer = EventWriter::new("msg_1", "m");
    let mut out = Vec::new();
    writer.finish(Some(airlock_json::object(json!({"rounds": 1}))), &mut out);
    let [_, delta, _] = &out[..] else { panic!("{out:?}") };
    assert_eq!(
        (&delta["type"], &delta["airlock"]),
        (&json!("message_delta"), &json!({"rounds": 1}))
    );
}

fn piece() -> impl Strategy<Value = Delta> {
    let text = prop::sample::select(vec!["", "a", "{", "}", "\"", "\\", "[1]", "{\"a\":1}"]);
    let seals = prop::sample::select(vec![
        None,
        Some(Seal::Signature("s".to_owned())),
        Some(Seal::Redacted("r".to_owned())),
        Some(Seal::Encrypted("e".to_owned())),
    ]);
    (0..8_u8, 0..2_u64, 0..4_u64, text, seals).prop_map(|(kind, choice, index, text, seal)| {
        let text = text.to_owned();
        match kind {
            0 => Delta::Text { choice, text },
            1 => Delta::Reasoning { choice, text },
            2 => Delta::ReasoningEnd {
                choice,
                reasoning: Reasoning { text, seal, ..Reasoning::default() },
            },
            3 => Delta::Call {
                choice,
                index,
                id: text.clone(),
                name: text,
                is_custom: false,
                extra: Object::new(),
            },
            4 | 5 => Delta::Arguments { choice, index, text },
            6 => Delta::Refusal { choice, text },
            _ => Delta::Citation { choice, wire: Wire::Messages, citation: Object::new() },
        }
    })
}

proptest! {
    #[test]
    fn the_blocks_of_any_reply_follow_one_another(deltas in prop::collection::vec(piece(), 0..40)) {
        collected(&streamed(deltas.clone()));
        whole(deltas);
    }
}
