use std::collections::BTreeSet;

use airlock_json::object;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::json;

use super::*;
use crate::{
    Item, Reasoning, Reply, Seal, Wire,
    chat::{ChunkWriter, write_reply},
};

fn created() -> Value {
    json!({"type": "response.created", "response": {"id": "r", "model": "m"}})
}

fn added(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn completed(output: &Value) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "output": output}})
}

fn call(name: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": name, "arguments": "{}"})
}

/// Reads events until one is refused. Returns all deltas.
fn read(events: impl IntoIterator<Item = Value>) -> Result<Vec<Delta>, String> {
    let mut reader = ReplyReader::default();
    let mut deltas = Vec::new();
    for event in events {
        let read = reader.event(object(event)).map_err(|failure| failure.to_string())?;
        deltas.extend(read);
    }
    Ok(deltas)
}

#[test]
fn events_that_cannot_follow_are_refused() {
    let message = json!({"type": "message", "id": "m", "content": []});
    let text = "response.output_text.delta";
    for (events, expected) in [
        (vec![added(0, &message)], "an event before response.created"),
        (vec![created(), created()], "a second response.created event"),
        (
            vec![created(), added(0, &message), added(0, &message)],
            "an output item that was added twice or out of order",
        ),
        (
            vec![created(), added(1, &message), added(0, &message)],
            "an output item that was added twice or out of order",
        ),
        (vec![created(), added(u64::MAX, &message)], "an output item without end"),
        (vec![created(), delta(0, text)], "a delta of an output item that is not open"),
        (vec![created(), done(0, &message)], "the end of an output item that is not open"),
        (
            vec![created(), added(0, &message), done(0, &message), delta(0, text)],
            "a delta of an output item that is not open",
        ),
        (
            vec![created(), added(0, &message), delta(0, "response.function_call_arguments.delta")],
            "a delta that does not fit the type of its output item",
        ),
        (
            vec![created(), added(0, &call("a")), done(0, &call("b"))],
            "a call whose name or type changes",
        ),
        (
            vec![created(), added(0, &call("a")), done(0, &message)],
            "an output item whose type changes",
        ),
        (vec![created(), added(0, &json!({"id": "x"}))], "an output item without a type"),
        (
            vec![created(), added(0, &json!({"type": "mcp_call", "name": "desk-echo"}))],
            "an output item of a type that only the gateway writes",
        ),
        (
            vec![created(), added(0, &call(&"n".repeat(MAX_NAME_BYTES + 1)))],
            "an output item with an id or name of excessive length",
        ),
        (
            vec![created(), added(0, &message), completed(&json!([]))],
            "a Response that ends inside an output item",
        ),
        (
            vec![created(), completed(&json!([])), added(0, &message)],
            "an event after the end of the Response",
        ),
    ] {
        assert_eq!(read(events), Err(expected.to_owned()));
    }
}

fn delta(index: u64, kind: &str) -> Value {
    json!({"type": kind, "output_index": index, "delta": "x"})
}

#[test]
fn more_items_than_the_maximum_are_refused() {
    let item = json!({"type": "compaction"});
    let error = "more output items than the gateway accepts".to_owned();
    // The beginning and the items.
    for (count, expected) in [(MAX_ITEMS, Ok(MAX_ITEMS + 1)), (MAX_ITEMS + 1, Err(error))] {
        let items = (0..count as u64).flat_map(|at| [added(at, &item), done(at, &item)]);
        let steps = read([created()].into_iter().chain(items));
        assert_eq!(steps.map(|steps| steps.len()), expected);
    }
}

#[test]
fn what_was_not_streamed_is_read_from_the_item_or_from_the_response() {
    let message = json!({"type": "message", "content": [
        {"type": "output_text", "text": "hi", "annotations": [{"type": "file_citation", "index": 1}]}
    ]});
    let text = Delta::Text { choice: 0, text: "hi".to_owned() };
    let citation = object(json!({"type": "file_citation", "index": 1}));
    let source = Delta::Citation { choice: 0, wire: Wire::Responses, citation };
    let arguments = Delta::Arguments { choice: 0, index: 0, text: "{}".to_owned() };
    for events in [
        vec![
            created(),
            added(0, &json!({"type": "message", "content": []})),
            done(0, &message),
            added(1, &json!({"type": "function_call", "call_id": "c", "name": "x"})),
            done(
                1,
                &json!({"type": "function_call", "call_id": "c", "name": "x", "arguments": "{}"}),
            ),
            completed(&json!([])),
        ],
        vec![
            created(),
            completed(&json!([
                message,
                {"type": "function_call", "call_id": "c", "name": "x", "arguments": "{}"}
            ])),
        ],
    ] {
        let steps = read(events).expect("a good stream");
        for expected in [&text, &source, &arguments] {
            assert!(steps.contains(expected), "{expected:?}: {steps:?}");
        }
        assert!(matches!(steps.first(), Some(Delta::Begin(_))));
        assert_eq!(steps.last(), Some(&Delta::End { choice: 0, reason: FinishReason::ToolCalls }));
    }
}

#[test]
fn items_that_are_open_at_the_same_time_keep_their_pieces_apart() {
    let steps = read([
        created(),
        added(0, &empty("a")),
        added(3, &empty("b")),
        piece(3, "[]"),
        piece(0, "{}"),
        done(3, &empty("b")),
        done(0, &empty("a")),
        completed(&json!([])),
    ]);
    let inputs: Vec<_> = steps
        .expect("a good stream")
        .into_iter()
        .filter_map(|step| match step {
            Delta::Arguments { index, text, .. } => Some((index, text)),
            _ => None,
        })
        .collect();
    assert_eq!(inputs, [(1, "[]".to_owned()), (0, "{}".to_owned())]);
}

fn empty(name: &str) -> Value {
    json!({"type": "function_call", "call_id": name, "name": name})
}

fn piece(index: u64, text: &str) -> Value {
    json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": text})
}

#[test]
fn events_of_other_types_are_ignored() {
    for kind in [
        "response.web_search_call.searching",
        "response.audio.delta",
        "response.of_a_later_version.delta",
        "keepalive",
    ] {
        let event = json!({"type": kind, "output_index": 7, "delta": 1});
        assert_eq!(read([created(), event]), Ok(Vec::new()), "{kind}");
    }
}

#[test]
fn a_whole_response_must_be_complete() {
    for (response, expected) in [
        (json!({"status": "in_progress", "output": []}), "a Response that is not complete"),
        (json!({"status": "queued"}), "a Response that is not complete"),
        (json!({"choices": []}), "a Response that is not complete"),
    ] {
        let failure = ReplyReader::default().whole(object(response)).expect_err("no answer");
        assert_eq!(failure.to_string(), expected);
    }
    for (response, expected) in [
        (json!({"status": "failed", "error": {"code": "server_error", "message": "m"}}), 500),
        (json!({"error": {"code": "rate_limit_exceeded", "message": "m"}}), 429),
    ] {
        let failure = ReplyReader::default().whole(object(response)).expect_err("no answer");
        let ReplyError::Reported { status, .. } = failure else { panic!("{failure}") };
        assert_eq!(status, Some(expected));
    }
}

#[test]
fn items_of_unknown_types_are_left_out_and_compactions_are_kept() {
    let output = ["additional_tools", "compaction", "function_call_output"]
        .map(|kind| json!({"type": kind, "id": "x", "tools": [], "encrypted_content": "e"}));
    let response =
        object(json!({"id": "r", "model": "m", "status": "completed", "output": output}));
    let steps = ReplyReader::default().whole(response).expect("a good Response");
    let kept: Vec<_> = steps
        .iter()
        .filter_map(|step| match step {
            Delta::ItemEnd { index, item, .. } => Some((*index, item["type"].as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(kept, [(1, Some("compaction"))]);
}

#[test]
fn an_item_has_a_limited_number_of_parts_and_a_response_of_steps() {
    assert!(is_read(&json!([reasoning(1_024)])));
    assert!(!is_read(&json!([reasoning(1_025)])));
    assert!(is_read(&json!(vec![reasoning(1_000); 4])));
    assert!(!is_read(&json!(vec![reasoning(1_000); 5])));
    assert!(is_read(&annotated(512)));
    assert!(!is_read(&annotated(513)));
}

#[test]
fn reasoning_that_was_streamed_has_a_limited_number_of_parts_too() {
    let streamed = |parts| {
        let item = reasoning(parts);
        let summary = "response.reasoning_summary_text.delta";
        read([created(), added(0, &item), delta(0, summary), done(0, &item)])
    };
    assert!(streamed(1_024).is_ok());
    assert_eq!(
        streamed(1_025).expect_err("beyond the limit"),
        "an output item with more parts than the gateway accepts"
    );
}

#[test]
fn only_tokens_get_the_members_of_log_probabilities() {
    let message = json!({"type": "message", "id": "m", "content": []});
    let top = json!([{}, {"token": "b"}]);
    let piece = json!({
        "type": "response.output_text.delta", "output_index": 0, "delta": "",
        "logprobs": [{}, {"token": "a", "top_logprobs": top}, {"logprob": 0}]
    });
    let steps = read([created(), added(0, &message), piece]).expect("a good stream");
    let top = json!([{}, {"token": "b", "bytes": null}]);
    let logprobs = vec![json!({"token": "a", "top_logprobs": top, "bytes": null})];
    let value = json!({"content": logprobs});
    let name = "logprobs".to_owned();
    let expected = [
        Delta::Member { choice: 0, wire: Wire::Chat, name, value },
        Delta::Text { choice: 0, text: String::new() },
    ];
    assert!(steps.ends_with(&expected), "{steps:?}");
}

/// Returns whether a Response with this output is accepted.
fn is_read(output: &Value) -> bool {
    let response = json!({"id": "r", "model": "m", "status": "completed", "output": output});
    ReplyReader::default().whole(object(response)).is_ok()
}

fn reasoning(parts: usize) -> Value {
    let part = json!({"type": "summary_text", "text": "x"});
    json!({"type": "reasoning", "id": "rs", "summary": vec![part; parts]})
}

fn annotated(count: usize) -> Value {
    let part = json!({"type": "output_text", "text": "x", "annotations": vec![json!({}); count]});
    json!([{"type": "message", "id": "m", "content": [part, part]}])
}

#[test]
fn each_part_of_the_reasoning_begins_once_and_the_sealed_whole_follows() {
    let item = json!({
        "type": "reasoning", "id": "rs", "encrypted_content": "e",
        "summary": [{"type": "summary_text", "text": "ab"}, {"type": "summary_text", "text": "c"}],
        "content": [{"type": "reasoning_text", "text": "d"}]
    });
    let kind = "response.reasoning_summary_text.delta";
    let piece = |index: u64, text: &str| json!({"type": kind, "output_index": 0, "summary_index": index, "delta": text});
    let own = json!({"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": "d"});
    let open = json!({"type": "reasoning", "id": "rs"});
    let pieces = [piece(0, "a"), piece(0, "b"), piece(1, ""), piece(1, "c"), own];
    let streamed = [created(), added(0, &open)].into_iter().chain(pieces).chain([done(0, &item)]);
    let streamed = read(streamed).expect("a good stream");
    let part = |is_summary, index| Delta::ReasoningPart {
        choice: 0,
        item_id: "rs".to_owned(),
        is_summary,
        index,
    };
    let text = |text: &str| Delta::Reasoning { choice: 0, text: text.to_owned() };
    let reasoning = Reasoning {
        id: Some("rs".to_owned()),
        text: "ab\n\nc\n\nd".to_owned(),
        summary: vec!["ab".to_owned(), "c".to_owned()],
        seal: Some(Seal::Encrypted("e".to_owned())),
        extra: Object::new(),
    };
    let end = [
        Delta::ReasoningEnd { choice: 0, reasoning: reasoning.clone() },
        Delta::ItemEnd { choice: 0, index: 0, item: object(item.clone()) },
    ];
    let mut expected = vec![part(true, 0), text("a"), text("b"), part(true, 1), text("c")];
    expected.extend([part(false, 0), text("d")].into_iter().chain(end));
    assert_eq!(streamed[1..], expected);
    // A reply collects the same block from the pieces.
    let mut reply = Reply::default();
    reply.extend(streamed);
    assert_eq!(reply.choices[&0].items, [Item::Reasoning(reasoning)]);
}

#[test]
fn an_id_that_is_no_text_is_not_copied() {
    let summary = [json!({"type": "summary_text", "text": "a"}), json!({"text": [1, 2]})];
    let item =
        json!({"type": "reasoning", "id": [0, 0], "encrypted_content": "e", "summary": summary});
    let deltas = read([created(), added(0, &item), done(0, &item)]).expect("a good stream");
    let end = deltas.iter().find_map(|delta| match delta {
        Delta::ReasoningEnd { reasoning, .. } => Some((&reasoning.id, reasoning.summary.len())),
        _ => None,
    });
    assert_eq!(end, Some((&None, 1)));
}

/// A value that a member may or may not have.
fn any_member() -> impl Strategy<Value = Value> {
    let texts = json!([{"type": "output_text", "text": "a", "annotations": [{"type": "x"}, 1], "logprobs": [{}]}, 1]);
    select(vec![json!(null), json!(7), json!("a"), json!({"type": "x"}), json!([]), texts])
}

fn any_event() -> impl Strategy<Value = Value> {
    let kinds = [&item::DELTAS[..], &["response.output_item.added", "response.output_item.done"]];
    let types = ["message", "reasoning", "function_call", "custom_tool_call", "compaction", "x"];
    let names =
        ["id", "name", "content", "summary", "encrypted_content", "arguments", "input", "call_id"];
    let item = (select(types.to_vec()), vec((select(names.to_vec()), any_member()), 0..6));
    let item = item.prop_map(|(kind, members)| {
        let mut item = json!({"type": kind});
        for (name, value) in members {
            item[name] = value;
        }
        item
    });
    let delta = (any_member(), any_member(), any_member());
    (select(kinds.concat()), 0..3_u64, item, delta).prop_map(
        |(kind, place, item, (delta, annotation, logprobs))| {
            json!({
                "type": kind, "output_index": place, "item": item, "delta": delta,
                "annotation": annotation, "logprobs": logprobs, "summary_index": place
            })
        },
    )
}

proptest! {
    #[test]
    fn no_reply_panics_and_each_call_begins_before_its_input(events in vec(any_event(), 0..40)) {
        let mut reader = ReplyReader::default();
        let mut deltas = reader.event(object(created())).expect("it begins");
        for event in events {
            // An event that is refused ends the stream; here the others follow.
            deltas.extend(reader.event(object(event)).unwrap_or_default());
        }
        let mut calls = BTreeSet::new();
        let mut writer = ChunkWriter::new(1, true);
        let mut chunks = Vec::new();
        let mut reply = Reply::default();
        for delta in deltas {
            match &delta {
                Delta::Call { index, .. } => prop_assert!(calls.insert(*index)),
                Delta::Arguments { index, .. } => prop_assert!(calls.contains(index)),
                _ => {}
            }
            writer.delta(delta.clone(), &mut chunks);
            reply.add(delta);
        }
        let whole = write_reply(reply, 1);
        prop_assert!(whole["choices"].is_array());
    }
}
