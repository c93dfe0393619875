use airlock_json::object;

use super::*;
use crate::{Reply, chat::ReplyReader, tests::lines};

const CREATED: u64 = 1_700_000_000;

fn begin() -> Delta {
    Delta::Begin(Begin {
        id: "msg_1".to_owned(),
        model: "claude".to_owned(),
        created: 0,
        extra: object(json!({"service_tier": "default"})),
    })
}

fn text(choice: u64, text: &str) -> Delta {
    Delta::Text { choice, text: text.to_owned() }
}

fn end(choice: u64, reason: FinishReason) -> Delta {
    Delta::End { choice, reason }
}

fn of_chunk(choice: Option<u64>, name: &str) -> Delta {
    Delta::ChunkMember { choice, name: name.to_owned(), value: 1.into() }
}

fn write(deltas: Vec<Delta>, includes_usage: bool) -> Vec<Object> {
    let mut writer = ChunkWriter::new(CREATED, includes_usage);
    let mut chunks = Vec::new();
    for delta in deltas {
        writer.delta(delta, &mut chunks);
    }
    chunks
}

/// Every kind of delta, as a reader returns them.
fn all() -> Vec<Delta> {
    let reasoning = |text: &str, seal| Delta::ReasoningEnd {
        choice: 0,
        reasoning: Reasoning { text: text.to_owned(), seal: Some(seal), ..Reasoning::default() },
    };
    let encrypted = Delta::ReasoningEnd {
        choice: 0,
        reasoning: Reasoning {
            id: Some("rs_1".to_owned()),
            summary: vec!["So.".to_owned()],
            seal: Some(Seal::Encrypted("e".to_owned())),
            ..Reasoning::default()
        },
    };
    let citation =
        |wire, citation: Value| Delta::Citation { choice: 0, wire, citation: object(citation) };
    let call = |index, is_custom, extra: Value| Delta::Call {
        choice: 0,
        index,
        id: format!("c{index}"),
        name: "f".to_owned(),
        is_custom,
        extra: object(extra),
    };
    let arguments =
        |index, text: &str| Delta::Arguments { choice: 0, index, text: text.to_owned() };
    let member = |name: &str, value| Delta::Member {
        choice: 0,
        wire: Wire::Chat,
        name: name.to_owned(),
        value,
    };
    vec![
        begin(),
        Delta::Reasoning { choice: 0, text: "Hm.".to_owned() },
        reasoning("Hm.", Seal::Signature("s".to_owned())),
        reasoning("", Seal::Redacted("d".to_owned())),
        encrypted,
        member("logprobs", json!({"content": [{"token": "It"}]})),
        text(0, "It "),
        text(0, "is."),
        citation(Wire::Messages, json!({"type": "char_location", "cited_text": "is"})),
        citation(Wire::Chat, json!({"type": "url_citation", "url_citation": {"url": "u"}})),
        call(0, false, json!({"extra_content": {"s": 1}})),
        arguments(0, "{"),
        arguments(0, "}"),
        call(1, true, json!({})),
        arguments(1, "x"),
        member("tool_calls", json!([{"index": 0, "late": 1}])),
        member("audio", json!({"id": "a"})),
        end(0, FinishReason::ToolCalls),
        Delta::Usage(Usage { input: 3, output: 2, ..Usage::default() }),
    ]
}

#[test]
fn deltas_become_chunks() {
    assert_eq!(
        lines(&write(all(), true)),
        [
            r#"{"role":"assistant","content":null}"#,
            r#"{"reasoning_content":"Hm."}"#,
            r#"{"thinking_blocks":[{"index":0,"type":"thinking","thinking":"Hm.","signature":"s"}]}"#,
            r#"{"thinking_blocks":[{"index":1,"type":"redacted_thinking","data":"d"}]}"#,
            r#"{"reasoning_details":[{"type":"reasoning.summary","summary":"So.","id":"rs_1","format":"openai-responses-v1","index":0},{"type":"reasoning.encrypted","data":"e","id":"rs_1","format":"openai-responses-v1","index":1}]}"#,
            r#"{"content":"It "}"#,
            r#"{"content":"is."}"#,
            r#"{"citations":[{"index":0,"type":"char_location","cited_text":"is"}]}"#,
            r#"{"annotations":[{"type":"url_citation","url_citation":{"url":"u"}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"c0","type":"function","function":{"name":"f","arguments":""},"extra_content":{"s":1}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"c1","type":"custom","custom":{"name":"f","input":""}}]}"#,
            r#"{"tool_calls":[{"index":1,"custom":{"input":"x"}}]}"#,
            r#"{"tool_calls":[{"index":0,"late":1}]}"#,
            r#"{"audio":{"id":"a"}}"#,
            r#"{} "tool_calls""#,
        ]
    );
}

#[test]
fn a_chunk_has_the_members_of_openais_api() {
    let chunks = write(vec![begin(), text(0, "a"), end(0, FinishReason::Stop)], false);
    assert_eq!(
        Value::from(chunks[0].clone()).to_string(),
        r#"{"id":"msg_1","object":"chat.completion.chunk","created":1700000000,"model":"claude","choices":[{"index":0,"delta":{"role":"assistant","content":null},"logprobs":null,"finish_reason":null}],"service_tier":"default"}"#
    );
    assert_eq!(
        Value::from(chunks[1].clone()).to_string(),
        r#"{"id":"msg_1","object":"chat.completion.chunk","created":1700000000,"model":"claude","choices":[{"index":0,"delta":{"content":"a"},"logprobs":null,"finish_reason":null}]}"#
    );
}

#[test]
fn parts_of_reasoning_are_separated_and_the_end_of_an_item_is_no_chunk() {
    let [first, second] = [0, 1].map(|index| Delta::ReasoningPart {
        choice: 0,
        item_id: "rs_1".to_owned(),
        is_summary: true,
        index,
    });
    let reasoning = |text: &str| Delta::Reasoning { choice: 0, text: text.to_owned() };
    let deltas = vec![
        begin(),
        first,
        reasoning("a"),
        second,
        reasoning("b"),
        Delta::ItemEnd { choice: 0, index: 0, item: Object::new() },
        Delta::ServiceTier("flex".to_owned()),
        end(0, FinishReason::Stop),
    ];
    let chunks = write(deltas.clone(), false);
    assert_eq!(
        lines(&chunks)[1..],
        [
            r#"{"reasoning_content":"a"}"#,
            r#"{"reasoning_content":"\n\n"}"#,
            r#"{"reasoning_content":"b"}"#,
            r#"{} "stop""#,
        ]
    );
    assert_eq!(
        (&chunks[3].get("service_tier"), &chunks[4]["service_tier"]),
        (&None, &json!("flex"))
    );
    let mut reply = Reply::default();
    reply.extend(deltas);
    let whole = write_reply(reply, CREATED);
    assert_eq!(whole["choices"][0]["message"]["reasoning_content"], "a\n\nb");
    assert_eq!(whole["service_tier"], "flex");
}

#[test]
fn log_probabilities_are_beside_their_text() {
    let chunks = write(all(), false);
    let found: Vec<_> = chunks.iter().map(|chunk| &chunk["choices"][0]["logprobs"]).collect();
    assert_eq!(found.iter().filter(|logprobs| !logprobs.is_null()).count(), 1);
    assert_eq!(*found[5], json!({"content": [{"token": "It"}]}));
}

#[test]
fn usage_comes_in_a_last_chunk_if_the_request_asks_for_it() {
    let usage = || Delta::Usage(Usage { input: 1, output: 2, ..Usage::default() });
    let after = vec![begin(), text(0, "a"), end(0, FinishReason::Stop), usage()];
    let before = vec![begin(), usage(), text(0, "a"), end(0, FinishReason::Stop)];
    for deltas in [after, before] {
        let with = write(deltas.clone(), true);
        let (last, others) = with.split_last().expect("chunks");
        assert!(others.iter().all(|chunk| chunk["usage"].is_null()));
        assert_eq!(last["choices"], json!([]));
        assert_eq!(last["usage"]["total_tokens"], 3);
        let without = write(deltas, false);
        assert_eq!(without.len(), with.len() - 1);
        assert!(without.iter().all(|chunk| !chunk.contains_key("usage")));
    }
}

#[test]
fn usage_of_a_chat_completion_is_written_though_the_request_does_not_ask_for_it() {
    for (chunk, count) in [(UsageChunk::Own, 4), (UsageChunk::OfChoices, 3)] {
        let usage = Usage { input: 1, output: 2, chunk: Some(chunk), ..Usage::default() };
        let deltas = vec![begin(), text(0, "a"), end(0, FinishReason::Stop), Delta::Usage(usage)];
        let chunks = write(deltas, false);
        let (last, others) = chunks.split_last().expect("chunks");
        assert_eq!((chunks.len(), &last["usage"]["total_tokens"]), (count, &json!(3)));
        assert!(others.iter().all(|chunk| !chunk.contains_key("usage")), "{others:?}");
    }
}

#[test]
fn an_unknown_member_is_added_to_the_chunk_before_it_or_to_an_empty_one() {
    let mut writer = ChunkWriter::new(CREATED, false);
    let mut lines = Vec::new();
    for deltas in [
        vec![of_chunk(None, "early")],
        vec![begin()],
        vec![
            text(0, "a"),
            of_chunk(Some(0), "of_choice"),
            text(1, "b"),
            of_chunk(None, "of_chunk"),
            of_chunk(Some(0), "more"),
        ],
        vec![of_chunk(None, "alone")],
        vec![of_chunk(Some(1), "alone")],
        vec![end(0, FinishReason::Stop), of_chunk(Some(0), "of_end"), end(1, FinishReason::Stop)],
    ] {
        let mut chunks = Vec::new();
        for delta in deltas {
            writer.delta(delta, &mut chunks);
        }
        lines.extend(chunks.into_iter().map(|mut chunk| {
            let known = ["id", "object", "created", "model"];
            chunk.retain(|name, _| !known.contains(&name.as_str()));
            Value::from(chunk).to_string()
        }));
    }
    assert_eq!(
        lines,
        [
            r#"{"choices":[],"early":1}"#,
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":null},"logprobs":null,"finish_reason":null}],"service_tier":"default"}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":null,"finish_reason":null,"of_choice":1}]}"#,
            r#"{"choices":[{"index":1,"delta":{"role":"assistant","content":null},"logprobs":null,"finish_reason":null}]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"b"},"logprobs":null,"finish_reason":null}],"of_chunk":1}"#,
            r#"{"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":null,"more":1}]}"#,
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":null}],"alone":1}"#,
            r#"{"choices":[{"index":1,"delta":{},"logprobs":null,"finish_reason":null,"alone":1}]}"#,
            r#"{"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop","of_end":1}]}"#,
            r#"{"choices":[{"index":1,"delta":{},"logprobs":null,"finish_reason":"stop"}]}"#,
        ]
    );
}

#[test]
fn each_choice_has_its_role_and_its_end() {
    let stop = FinishReason::StopSequence("END".to_owned());
    let chunks = write(
        vec![begin(), text(0, "a"), text(1, "b"), end(0, FinishReason::Length), end(1, stop)],
        false,
    );
    let choices: Vec<_> = chunks
        .iter()
        .map(|chunk| &chunk["choices"][0])
        .map(|choice| (choice["index"].as_u64(), choice["delta"].get("role").is_some()))
        .collect();
    let expected = [(0, true), (0, false), (1, true), (1, false), (0, false), (1, false)];
    assert_eq!(choices, expected.map(|(index, has_role)| (Some(index), has_role)));
    let last = &chunks[5]["choices"][0];
    assert_eq!((&last["finish_reason"], &last["stop_reason"]), (&json!("stop"), &json!("END")));
}

#[test]
fn a_source_of_the_responses_api_is_nested_and_a_member_of_another_api_left_out() {
    let source = object(json!({"type": "url_citation", "url": "u", "title": "t"}));
    let chunks = write(
        vec![
            begin(),
            Delta::Citation { choice: 0, wire: Wire::Responses, citation: source },
            Delta::Member { choice: 0, wire: Wire::Gemini, name: "x".to_owned(), value: json!(1) },
        ],
        false,
    );
    assert_eq!(
        lines(&chunks)[1..],
        [r#"{"annotations":[{"type":"url_citation","url_citation":{"url":"u","title":"t"}}]}"#]
    );
}

#[test]
fn chunks_are_read_as_the_deltas_they_were_written_from() {
    let mut reader = ReplyReader::default();
    let mut read = Vec::new();
    for chunk in write(all(), true) {
        read.extend(reader.chunk(chunk).expect("a good chunk"));
    }
    read.extend(reader.finish().expect("a choice"));
    let mut expected = all();
    let Some(Delta::Begin(begin)) = expected.first_mut() else { panic!("it begins") };
    begin.created = CREATED;
    let Some(Delta::Usage(usage)) = expected.last_mut() else { panic!("it has the usage") };
    usage.chunk = Some(UsageChunk::Own);
    assert_eq!(read, expected);
}

#[test]
fn a_whole_reply_becomes_a_chat_completion() {
    let mut reply = Reply::default();
    reply.extend(all());
    let details = json!([
        {"type": "reasoning.summary", "summary": "So.", "id": "rs_1", "format": "openai-responses-v1", "index": 0},
        {"type": "reasoning.encrypted", "data": "e", "id": "rs_1", "format": "openai-responses-v1", "index": 1}
    ]);
    assert_eq!(
        Value::from(write_reply(reply, CREATED)),
        json!({
            "id": "msg_1", "object": "chat.completion", "created": CREATED, "model": "claude",
            "service_tier": "default",
            "choices": [{
                "index": 0,
                "message": {
                    "role": "assistant", "content": "It is.", "refusal": null,
                    "reasoning_content": "Hm.",
                    "thinking_blocks": [
                        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                        {"type": "redacted_thinking", "data": "d"}
                    ],
                    "reasoning_details": details,
                    "citations": [{"type": "char_location", "cited_text": "is"}],
                    "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}],
                    "tool_calls": [
                        {"id": "c0", "type": "function", "function": {"name": "f", "arguments": "{}"},
                         "extra_content": {"s": 1}, "late": 1},
                        {"id": "c1", "type": "custom", "custom": {"name": "f", "input": "x"}}
                    ],
                    "audio": {"id": "a"}
                },
                "logprobs": {"content": [{"token": "It"}]},
                "finish_reason": "tool_calls"
            }],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        })
    );
}

fn detail(kind: &str, name: &str, text: &str, index: u64, id: Option<&str>) -> Value {
    let mut detail =
        json!({"type": kind, name: text, "format": "openai-responses-v1", "index": index});
    if let Some(id) = id {
        detail["id"] = id.into();
    }
    detail
}

/// Returns the types of a list of details.
fn types(details: &Value) -> Vec<&str> {
    let details = details.as_array().into_iter().flatten();
    details.filter_map(|detail| detail["type"].as_str()).collect()
}

/// Reasoning of OpenAI's models as `OpenRouter` streams it, with or without its encrypted form.
#[test]
fn summaries_in_pieces_are_streamed_as_they_came_and_sent_back_as_one() {
    let pieces =
        ["So ", "it ", "is."].map(|text| detail("reasoning.summary", "summary", text, 0, None));
    let summary = detail("reasoning.summary", "summary", "So it is.", 0, None);
    let encrypted = detail("reasoning.encrypted", "data", "e", 1, Some("rs_1"));
    for has_seal in [true, false] {
        let seal = has_seal.then(|| encrypted.clone());
        let details: Vec<_> = pieces.iter().cloned().chain(seal.clone()).collect();
        let mut reader = ReplyReader::default();
        let mut reply = Reply::default();
        let mut chunks = Vec::new();
        let mut writer = ChunkWriter::new(CREATED, false);
        for detail in &details {
            let text = detail.get("summary");
            let delta = json!({"reasoning": text, "reasoning_details": [detail]});
            let chunk = object(json!({"choices": [{"index": 0, "delta": delta}]}));
            let deltas = reader.chunk(chunk).expect("a good chunk");
            reply.extend(deltas.clone());
            for delta in deltas {
                writer.delta(delta, &mut chunks);
            }
        }
        let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
        let shown = deltas.filter_map(|delta| delta.get("reasoning_details")?.get(0));
        assert!(shown.eq(&details), "{chunks:#?}");
        let message = write_message(reply.choices.remove(&0).expect("a choice"));
        let expected: Value = [summary.clone()].into_iter().chain(seal).collect();
        assert_eq!(message["reasoning_details"], expected);
        assert_eq!(message["reasoning"], "So it is.");
        // As a client sends it back.
        let items = crate::chat::read_message(message.into()).expect("a message");
        let sealed = items.iter().find_map(|item| match item {
            crate::Item::Reasoning(Reasoning { seal: Some(_), summary, .. }) => Some(summary),
            _ => None,
        });
        assert_eq!(
            sealed.map(|summary| summary.concat()),
            has_seal.then(|| "So it is.".to_owned())
        );
        let sent = crate::chat::write_messages(items).expect("messages");
        assert_eq!(types(&sent[0]["reasoning_details"]), types(&expected));
    }
}

#[test]
fn a_reply_without_text_has_null_content_and_pieces_of_members_are_merged() {
    let member = |name: &str, value| Delta::Member {
        choice: 0,
        wire: Wire::Chat,
        name: name.to_owned(),
        value,
    };
    let mut reply = Reply::default();
    reply.extend([
        member("audio", json!({"data": "a", "id": "x"})),
        member("audio", json!({"data": "b", "expires_at": 1})),
        member("images", json!([1])),
        member("images", json!([2])),
        member("logprobs", json!({"content": [1]})),
        member("logprobs", json!({"content": [2]})),
    ]);
    let completion = write_reply(reply, CREATED);
    assert_eq!(
        completion["choices"],
        json!([{
            "index": 0,
            "message": {
                "role": "assistant", "content": null, "refusal": null,
                "audio": {"data": "ab", "id": "x", "expires_at": 1}, "images": [1, 2]
            },
            "logprobs": {"content": [1, 2]}, "finish_reason": null
        }])
    );
    let mut reply = Reply::default();
    reply.extend([text(0, "a"), member("content", json!([{"type": "image_url"}]))]);
    assert_eq!(
        write_reply(reply, CREATED)["choices"][0]["message"]["content"],
        json!([{"type": "text", "text": "a"}, {"type": "image_url"}])
    );
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn a_message_of_a_stream_has_the_form_of_its_deltas() {
    let thinking =
        |text: &str| json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]});
    for (deltas, content, reasoning) in [
        (
            vec![
                json!({"content": ""}),
                json!({"content": [thinking("H")]}),
                json!({"content": [thinking("m")]}),
                json!({"content": [text_part("a")]}),
                json!({"content": "b"}),
            ],
            json!([thinking("Hm"), text_part("ab")]),
            json!([null, null]),
        ),
        (vec![json!({"content": ""}), json!({"content": ""})], json!(""), json!([null, null])),
        (
            vec![json!({"content": "", "reasoning_content": ""}), json!({"content": "a"})],
            json!("a"),
            json!(["", null]),
        ),
        (
            vec![json!({"reasoning_content": ""}), json!({"reasoning_content": "Hm"})],
            json!(null),
            json!(["Hm", null]),
        ),
        (
            vec![json!({"reasoning": ""}), json!({"reasoning": "Hm"})],
            json!(null),
            json!([null, "Hm"]),
        ),
        (
            vec![json!({"content": ""}), json!({"content": [{"type": "image_url"}]})],
            json!([{"type": "image_url"}]),
            json!([null, null]),
        ),
    ] {
        let mut reply = Reply::default();
        let mut reader = ReplyReader::default();
        for delta in &deltas {
            let chunk = json!({"choices": [{"delta": delta}]});
            reply.extend(reader.chunk(object(chunk)).expect("a good chunk"));
        }
        let message = write_message(reply.choices.remove(&0).expect("a choice"));
        let message = Value::from(message);
        assert_eq!(message["content"], content, "{deltas:?}");
        let found = json!([message["reasoning_content"], message["reasoning"]]);
        assert_eq!(found, reasoning, "{deltas:?}");
    }
}
