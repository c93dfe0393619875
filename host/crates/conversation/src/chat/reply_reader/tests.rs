mod bounds;
mod replies;

use airlock_json::object;
use serde_json::json;

use super::*;
use crate::{Reasoning, Seal, Wire};

fn read(chunks: &[Value]) -> Vec<Delta> {
    let mut reader = ReplyReader::default();
    let mut deltas = Vec::new();
    for chunk in chunks {
        deltas.extend(reader.chunk(object(chunk.clone())).expect("a good chunk"));
    }
    deltas.extend(reader.finish().expect("a choice"));
    deltas
}

/// Reads chunks with these deltas of the first choice. The result is without the beginning and the end.
fn read_deltas(deltas: &[Value]) -> Vec<Delta> {
    let chunks: Vec<_> =
        deltas.iter().map(|delta| json!({"choices": [{"index": 0, "delta": delta}]})).collect();
    let mut read = read(&chunks);
    assert!(matches!(read.first(), Some(Delta::Begin(_))));
    assert!(matches!(read.pop(), Some(Delta::End { choice: 0, .. })));
    read.remove(0);
    read
}

fn text(text: &str) -> Delta {
    Delta::Text { choice: 0, text: text.to_owned() }
}

fn thought(text: &str) -> Delta {
    Delta::Reasoning { choice: 0, text: text.to_owned() }
}

fn call(index: u64, id: &str, name: &str) -> Delta {
    Delta::Call {
        choice: 0,
        index,
        id: id.to_owned(),
        name: name.to_owned(),
        is_custom: false,
        extra: Object::new(),
    }
}

fn arguments(index: u64, text: &str) -> Delta {
    Delta::Arguments { choice: 0, index, text: text.to_owned() }
}

fn member(name: &str, value: Value) -> Delta {
    Delta::Member { choice: 0, wire: Wire::Chat, name: name.to_owned(), value }
}

fn of_chunk(choice: Option<u64>, name: &str, value: Value) -> Delta {
    Delta::ChunkMember { choice, name: name.to_owned(), value }
}

fn stop(choice: u64) -> Delta {
    Delta::End { choice, reason: FinishReason::Stop }
}

fn signed(text: &str) -> Delta {
    let seal = Some(Seal::Signature("s".to_owned()));
    let reasoning = Reasoning { text: text.to_owned(), seal, ..Reasoning::default() };
    Delta::ReasoningEnd { choice: 0, reasoning }
}

#[test]
fn a_stream_is_read_with_its_head_its_end_and_its_tokens() {
    let deltas = read(&[
        json!({"id": "", "created": 0, "model": "", "choices": [], "prompt_filter_results": [1]}),
        json!({"id": "a", "object": "chat.completion.chunk", "created": 7, "model": "m",
            "system_fingerprint": "f", "obfuscation": "xx", "usage": null,
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null}]}),
        json!({"id": "a", "choices": [{"index": 0, "delta": {"content": "He"}, "finish_reason": ""}]}),
        json!({"id": "a", "choices": [{"index": 0, "delta": {"content": "y"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1}}),
        json!({"id": "a", "choices": [{"index": 0, "delta": {"refusal": null}, "finish_reason": "length"}]}),
        json!({"id": "a", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}),
    ]);
    let begin = Begin {
        id: "a".to_owned(),
        model: "m".to_owned(),
        created: 7,
        extra: object(json!({"system_fingerprint": "f"})),
    };
    let chunk = Some(UsageChunk::Own);
    let usage = Usage { input: 3, output: 2, chunk, ..Usage::default() };
    assert_eq!(
        deltas,
        [
            of_chunk(None, "prompt_filter_results", json!([1])),
            Delta::Begin(begin),
            member("content", json!("")),
            text("He"),
            text("y"),
            Delta::End { choice: 0, reason: FinishReason::Length },
            Delta::Usage(usage),
        ]
    );
}

#[test]
fn unknown_members_follow_the_pieces_of_their_chunk_or_the_end_of_their_choice() {
    let usage = json!({"prompt_tokens": 1});
    let deltas = read(&[
        json!({"id": "a", "x_groq": {"id": "r"}, "choices": [{"index": 0, "delta": {}, "native_finish_reason": null}]}),
        json!({"id": "a", "provider": "P", "service_tier": null, "obfuscation": "xx", "choices": [
            {"index": 0, "delta": {"content": "a"}, "content_filter_results": {"hate": 1}},
            {"index": 1, "delta": {"content": "b"}, "message": {"content": "again"}},
        ]}),
        json!({"id": "b", "choices": [{"index": 0, "finish_reason": "stop", "native_finish_reason": "STOP"}], "x_groq": 1}),
        json!({"id": "b", "object": "chat.completion.chunk", "choices": [{"index": 1, "finish_reason": "stop"}], "usage": usage}),
    ]);
    let usage = Usage { input: 1, chunk: Some(UsageChunk::OfChoices), ..Usage::default() };
    let Some(Delta::Begin(begin)) = deltas.first() else { panic!("it begins") };
    assert_eq!(Value::from(begin.extra.clone()), json!({"x_groq": {"id": "r"}}));
    assert_eq!(
        deltas[1..],
        [
            text("a"),
            of_chunk(Some(0), "content_filter_results", json!({"hate": 1})),
            Delta::Text { choice: 1, text: "b".to_owned() },
            of_chunk(None, "provider", json!("P")),
            of_chunk(None, "x_groq", json!(1)),
            stop(0),
            of_chunk(Some(0), "native_finish_reason", json!("STOP")),
            stop(1),
            Delta::Usage(usage),
        ]
    );
}

#[test]
fn members_of_an_end_are_weighed_once_however_often_it_is_repeated() {
    let mut reader = ReplyReader::default();
    let end = json!({"index": 0, "finish_reason": "stop", "x": "x".repeat(1_000)});
    reader.chunk(object(json!({"choices": [end]}))).expect("a chunk");
    let held = reader.held_bytes();
    assert!(held >= 1_000, "{held}");
    let again = json!({"choices": [{"index": 0, "finish_reason": "stop"}]});
    reader.chunk(object(again)).expect("a chunk");
    assert_eq!(reader.held_bytes(), held);
}

#[test]
fn each_reason_for_an_end_is_read() {
    for (choice, reason) in [
        (json!({"finish_reason": "stop"}), FinishReason::Stop),
        (
            json!({"finish_reason": "stop", "stop_reason": "END"}),
            FinishReason::StopSequence("END".to_owned()),
        ),
        (json!({"finish_reason": "stop", "stop_reason": 128_001}), FinishReason::Stop),
        (json!({"finish_reason": "length"}), FinishReason::Length),
        (json!({"finish_reason": "tool_calls"}), FinishReason::ToolCalls),
        (json!({"finish_reason": "content_filter"}), FinishReason::ContentFilter),
        (
            json!({"finish_reason": "insufficient_system_resource"}),
            FinishReason::Other("insufficient_system_resource".to_owned()),
        ),
        (json!({"finish_reason": null}), FinishReason::Stop),
        (
            json!({"delta": {"tool_calls": [{"index": 0, "function": {"name": "f"}}]}}),
            FinishReason::ToolCalls,
        ),
    ] {
        let deltas = read(&[json!({"choices": [choice]})]);
        assert!(deltas.contains(&Delta::End { choice: 0, reason }), "{choice}: {deltas:?}");
    }
}

#[test]
fn calls_are_found_by_their_index_and_begin_when_their_name_is_complete() {
    let piece = |index: u64, arguments: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]});
    let begin = |index: u64, id: &str, name: &str, arguments: &str| {
        json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": arguments}}]})
    };
    for (description, deltas, expected) in [
        (
            "as OpenAI sends them, interleaved",
            vec![
                begin(0, "a", "f", ""),
                begin(1, "b", "g", ""),
                piece(1, "["),
                piece(0, "{}"),
                piece(1, "]"),
            ],
            vec![
                call(0, "a", "f"),
                call(1, "b", "g"),
                arguments(1, "["),
                arguments(0, "{}"),
                arguments(1, "]"),
            ],
        ),
        (
            "gaps between the indexes",
            vec![begin(3, "a", "f", "{}"), begin(7, "b", "g", "")],
            vec![call(0, "a", "f"), arguments(0, "{}"), call(1, "b", "g")],
        ),
        (
            "the name in pieces",
            vec![begin(0, "a", "get_", ""), begin(0, "", "weather", ""), piece(0, "{}")],
            vec![call(0, "a", "get_weather"), arguments(0, "{}")],
        ),
        (
            "id and name in every delta",
            vec![begin(0, "a", "f", "{"), begin(0, "x", "f", "}")],
            vec![call(0, "a", "f"), arguments(0, "{"), arguments(0, "}")],
        ),
        (
            "the name after the arguments",
            vec![piece(0, "{"), begin(0, "a", "f", ""), piece(0, "}")],
            vec![call(0, "a", "f"), arguments(0, "{"), arguments(0, "}")],
        ),
        (
            "without an index",
            vec![
                json!({"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{"}}]}),
                json!({"tool_calls": [{"function": {"arguments": "}"}}]}),
                json!({"tool_calls": [{"id": "b", "function": {"name": "g", "arguments": {"x": 1}}}]}),
            ],
            vec![
                call(0, "a", "f"),
                arguments(0, "{"),
                arguments(0, "}"),
                call(1, "b", "g"),
                arguments(1, "{\"x\":1}"),
            ],
        ),
        (
            "without index and id",
            vec![
                json!({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}),
                json!({"tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}),
                json!({"tool_calls": [{"function": {"arguments": "}"}}]}),
            ],
            vec![
                call(0, "", "f"),
                arguments(0, "{}"),
                call(1, "", "f"),
                arguments(1, "{"),
                arguments(1, "}"),
            ],
        ),
        (
            "text before the arguments",
            vec![begin(0, "a", "f", ""), json!({"content": "t"}), piece(0, "{}")],
            vec![call(0, "a", "f"), text("t"), arguments(0, "{}")],
        ),
        ("no calls at all", vec![json!({"tool_calls": [1]}), json!({"tool_calls": "x"})], vec![]),
    ] {
        assert_eq!(read_deltas(&deltas), expected, "{description}");
    }
}

#[test]
fn calls_of_custom_tools_and_unknown_members_of_calls_are_read() {
    let deltas = read_deltas(&[
        json!({"tool_calls": [{"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}]}),
        json!({"tool_calls": [{"index": 0, "custom": {"input": "y"}}]}),
        json!({"tool_calls": [{"index": 1, "id": "b", "extra_content": {"s": 1}, "function": {"name": "g"}}]}),
        json!({"tool_calls": [{"index": 0, "late": 1}]}),
    ]);
    let custom = Delta::Call {
        choice: 0,
        index: 0,
        id: "a".to_owned(),
        name: "f".to_owned(),
        is_custom: true,
        extra: Object::new(),
    };
    let signed = Delta::Call {
        choice: 0,
        index: 1,
        id: "b".to_owned(),
        name: "g".to_owned(),
        is_custom: false,
        extra: object(json!({"extra_content": {"s": 1}})),
    };
    let late = member("tool_calls", json!([{"index": 0, "late": 1}]));
    assert_eq!(deltas, [custom, arguments(0, "x"), arguments(0, "y"), late, signed]);
}

#[test]
fn a_call_has_one_type_and_its_own_members() {
    let function = json!({"name": "g", "arguments": "{}"});
    let begin = json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}});
    for forged in [
        json!({"index": 0, "type": "custom", "custom": {"name": "f"}, "function": function}),
        json!({"index": 0, "type": "custom", "function": function}),
        json!({"index": 0, "custom": {}, "function": function}),
    ] {
        for calls in [json!([forged]), json!([begin, forged])] {
            for name in ["delta", "message"] {
                let mut choice = Object::new();
                choice.insert(name.to_owned(), json!({"tool_calls": calls}));
                let read = ReplyReader::default().chunk(object(json!({"choices": [choice]})));
                let what = "a tool call of two types";
                assert_eq!(read, Err(ReplyError::Invalid { what }), "{calls}");
            }
        }
    }
    let deltas = read_deltas(&[
        json!({"tool_calls": [{"index": 0, "id": 5, "type": 5, "custom": null, "function": function}]}),
        json!({"tool_calls": [{"index": 0, "id": [], "type": {}}]}),
    ]);
    assert_eq!(deltas, [call(0, "", "g"), arguments(0, "{}")]);
}

#[test]
fn reasoning_is_read_once_and_its_blocks_end_it() {
    let block = |text: &str, signature: &str| json!([{"index": 0, "type": "thinking", "thinking": text, "signature": signature}]);
    for (description, deltas, expected) in [
        (
            "a server that sends it twice",
            vec![json!({"reasoning": "a", "reasoning_content": "a", "content": "b"})],
            vec![thought("a"), text("b")],
        ),
        (
            "as the gateway sends it",
            vec![
                json!({"reasoning_content": "a"}),
                json!({"reasoning_content": "b"}),
                json!({"thinking_blocks": block("ab", "s")}),
            ],
            vec![thought("a"), thought("b"), signed("ab")],
        ),
        (
            "a block without readable reasoning before it",
            vec![json!({"thinking_blocks": block("a", "s")})],
            vec![thought("a"), signed("a")],
        ),
        (
            "a whole message",
            vec![
                json!({"reasoning_content": "ab", "thinking_blocks": [block("a", "s")[0], block("b", "s")[0]]}),
            ],
            vec![thought("a"), signed("a"), thought("b"), signed("b")],
        ),
        (
            "as LiteLLM sends it",
            vec![
                json!({"reasoning_content": "a", "thinking_blocks": block("a", "")}),
                json!({"reasoning_content": "b", "thinking_blocks": block("b", "")}),
                json!({"thinking_blocks": block("", "s")}),
            ],
            vec![thought("a"), thought("b"), signed("ab")],
        ),
        (
            "as Mistral sends it",
            vec![
                json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}]},
                {"type": "text", "text": "b"}]}),
            ],
            vec![member("content", json!("thinking")), thought("a"), text("b")],
        ),
        (
            "a block of another type",
            vec![json!({"thinking_blocks": [{"type": "other"}]})],
            vec![member("thinking_blocks", json!([{"type": "other"}]))],
        ),
    ] {
        assert_eq!(read_deltas(&deltas), expected, "{description}");
    }
}

#[test]
fn reasoning_of_the_responses_api_is_sealed_and_that_of_others_is_kept() {
    let own = json!([{"type": "reasoning.encrypted", "data": "e", "id": "rs_1", "format": "openai-responses-v1", "index": 0}]);
    let other = json!([{"type": "reasoning.text", "text": "a"}]);
    let reasoning = Reasoning {
        id: Some("rs_1".to_owned()),
        seal: Some(Seal::Encrypted("e".to_owned())),
        ..Reasoning::default()
    };
    assert_eq!(
        read_deltas(&[json!({"reasoning_details": own}), json!({"reasoning_details": other})]),
        [Delta::ReasoningEnd { choice: 0, reasoning }, member("reasoning_details", other)]
    );
}

#[test]
fn sources_refusals_and_unknown_members_are_read() {
    let url = json!({"type": "url_citation", "url_citation": {"url": "u"}});
    let deltas = read_deltas(&[
        json!({"content": "a", "annotations": [url, 7]}),
        json!({"citations": [{"index": 0, "type": "char_location", "cited_text": "x"}]}),
        json!({"refusal": "No."}),
        json!({"audio": {"id": "x"}, "function_call": null, "content": [{"type": "image_url"}]}),
    ]);
    let citation =
        |wire, citation: Value| Delta::Citation { choice: 0, wire, citation: object(citation) };
    assert_eq!(
        deltas,
        [
            text("a"),
            citation(Wire::Chat, url),
            member("annotations", json!([7])),
            citation(Wire::Messages, json!({"type": "char_location", "cited_text": "x"})),
            Delta::Refusal { choice: 0, text: "No.".to_owned() },
            member("content", json!([{"type": "image_url"}])),
            member("audio", json!({"id": "x"})),
        ]
    );
}

#[test]
fn log_probabilities_come_before_their_text() {
    let logprobs = json!({"content": [{"token": "a"}]});
    let delta = json!({"content": "a", "reasoning_content": "Hm"});
    let deltas = read(&[json!({"choices": [{"delta": delta, "logprobs": logprobs}]})]);
    assert_eq!(deltas[1..4], [member("logprobs", logprobs), thought("Hm"), text("a")]);
}

#[test]
fn a_message_beside_a_delta_is_left_out_and_one_alone_counts() {
    let deltas = read(&[
        json!({"choices": [{"delta": {"content": "a"}, "message": {"content": "a"}}]}),
        json!({"choices": [{"message": {"content": "b"}}]}),
    ]);
    assert_eq!(deltas[1..3], [text("a"), text("b")]);
}

#[test]
fn choices_are_read_by_their_index_or_position() {
    let deltas = read(&[json!({"choices": [
        {"index": 4, "delta": {"content": "a"}}, {"delta": {"content": "b"}, "finish_reason": "stop"}
    ]})]);
    let numbers: Vec<_> = deltas
        .iter()
        .filter_map(|delta| match delta {
            Delta::Text { choice, .. } | Delta::End { choice, .. } => Some(*choice),
            _ => None,
        })
        .collect();
    assert_eq!(numbers, [4, 1, 1, 4]);
}
