use airlock_json::object;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{Reasoning, Seal, delta::MAX_HELD_BYTES};

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {}}})
}

fn open(index: u64, kind: &str) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": {"type": kind}})
}

fn delta(index: u64, kind: &str, member: &str, text: &str) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": {"type": kind, member: text}})
}

fn close(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn ended(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason}})
}

fn stop() -> Value {
    json!({"type": "message_stop"})
}

/// Reads events until one fails.
fn read(
    reader: &mut ReplyReader,
    events: impl IntoIterator<Item = Value>,
) -> Result<Vec<Delta>, ReplyError> {
    let mut steps = Vec::new();
    for event in events {
        steps.append(&mut reader.event(&object(event))?);
    }
    Ok(steps)
}

#[test]
fn an_event_that_cannot_follow_the_ones_before_it_fails() {
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    for (events, expected) in [
        (vec![open(0, "text")], "an event before message_start"),
        (vec![stop()], "an event before message_start"),
        (vec![start(), start()], "a second message_start event"),
        (vec![json!({"type": "message_start"})], "a message_start event without a message"),
        (
            vec![json!({"type": "message_start", "message": {"id": long}})],
            "a message with an id or model of excessive length",
        ),
        (
            vec![start(), open(0, "text"), open(1, "text")],
            "a content block that starts before the last one has stopped",
        ),
        (
            vec![start(), json!({"type": "content_block_start", "content_block": {}})],
            "a content_block_start event without an index or a block",
        ),
        (
            vec![start(), delta(0, "text_delta", "text", "x")],
            "an event of a content block that has not started",
        ),
        (
            vec![start(), open(0, "text"), delta(1, "text_delta", "text", "x")],
            "an event of a content block that has not started",
        ),
        (
            vec![start(), open(0, "text"), close(0), close(0)],
            "an event of a content block that has not started",
        ),
        (
            vec![start(), open(0, "text"), json!({"type": "content_block_delta", "index": 0})],
            "a content_block_delta event without a delta",
        ),
        (
            vec![start(), open(0, "text"), delta(0, "input_json_delta", "partial_json", "{}")],
            "a delta that does not fit the type of its content block",
        ),
        (
            vec![start(), open(0, "tool_use"), delta(0, "text_delta", "text", "x")],
            "a delta that does not fit the type of its content block",
        ),
        (vec![start(), stop()], "a message that stops without a reason"),
        (
            vec![start(), open(0, "text"), ended("end_turn"), stop()],
            "a message that stops inside a content block",
        ),
        (vec![start(), ended("end_turn"), stop(), stop()], "an event after message_stop"),
    ] {
        let failure = read(&mut ReplyReader::default(), events.clone()).expect_err("it cannot be");
        assert_eq!(failure.to_string(), expected, "{events:?}");
    }
}

#[test]
fn a_stream_has_ended_with_message_stop_and_not_before() {
    let mut reader = ReplyReader::default();
    read(&mut reader, [start(), ended("end_turn")]).expect("a good stream");
    assert!(!reader.has_ended());
    read(&mut reader, [stop(), json!({"type": "ping"})]).expect("a good stream");
    assert!(reader.has_ended());
}

#[test]
fn thinking_up_to_its_limit_is_kept_and_fails_beyond_it() {
    let half = "x".repeat(MAX_HELD_BYTES / 2);
    let more = format!("{half}x");
    for (first, last, beyond) in [
        (thinking(&half), thinking(&half), thinking(&more)),
        (thinking(&half), signature(&half), signature(&more)),
        (signature(&half), thinking(&half), thinking(&more)),
        (signature(&more), signature(&half), signature(&half.repeat(3))),
    ] {
        let mut reader = ReplyReader::default();
        read(&mut reader, [start(), open(0, "thinking"), first]).expect("within the limit");
        let failure = read(&mut reader, [beyond]).expect_err("beyond the limit");
        assert_eq!(failure.to_string(), "a block of thinking of excessive length");
        read(&mut reader, [last]).expect("at the limit");
    }
    let whole = json!({
        "type": "content_block_start", "index": 0,
        "content_block": {"type": "thinking", "thinking": half, "signature": more}
    });
    assert!(read(&mut ReplyReader::default(), [start(), whole]).is_err());
}

#[test]
fn a_block_begins_with_a_limited_number_of_citations() {
    let begins_with = |count| {
        let block = json!({"type": "text", "text": "x", "citations": vec![json!({}); count]});
        let event = json!({"type": "content_block_start", "index": 0, "content_block": block});
        read(&mut ReplyReader::default(), [start(), event])
    };
    let steps = begins_with(1_024).expect("at the limit");
    let citations = steps.iter().filter(|step| matches!(step, Delta::Citation { .. }));
    assert_eq!(citations.count(), 1_024);
    let failure = begins_with(1_025).expect_err("beyond the limit");
    assert_eq!(failure.to_string(), "a content block with more citations than the gateway accepts");
}

fn thinking(text: &str) -> Value {
    delta(0, "thinking_delta", "thinking", text)
}

fn signature(text: &str) -> Value {
    delta(0, "signature_delta", "signature", text)
}

#[test]
fn the_last_signature_of_a_block_replaces_an_earlier_one() {
    let steps = read(
        &mut ReplyReader::default(),
        [
            start(),
            open(0, "thinking"),
            delta(0, "signature_delta", "signature", "a"),
            delta(0, "signature_delta", "signature", "b"),
            close(0),
        ],
    );
    let steps = steps.expect("a good stream");
    let seal = Some(Seal::Signature("b".to_owned()));
    let reasoning = Reasoning { seal, ..Reasoning::default() };
    assert_eq!(steps.last(), Some(&Delta::ReasoningEnd { choice: 0, reasoning }));
}

#[test]
fn a_message_of_many_blocks_keeps_no_more_state_than_one_of_few() {
    let cited = json!({"type": "citations_delta", "citation": {"cited_text": "x"}});
    let cited = json!({"type": "content_block_delta", "index": 0, "delta": cited});
    let blocks = [
        ("text", delta(0, "text_delta", "text", "some text")),
        ("text", cited),
        ("thinking", delta(0, "thinking_delta", "thinking", "some thought")),
        ("tool_use", delta(0, "input_json_delta", "partial_json", "{\"a\": 1}")),
        ("other", delta(0, "text_delta", "text", "some text")),
    ];
    let round = blocks.map(|(kind, delta)| [open(0, kind), delta, close(0)]).concat();
    let mut reader = ReplyReader::default();
    read(&mut reader, [start()]).expect("a good stream");
    read(&mut reader, round.clone()).expect("a good stream");
    let few = format!("{reader:?}").len();
    for _ in 0..99 {
        read(&mut reader, round.clone()).expect("a good stream");
    }
    assert_eq!(reader.calls, 100);
    // Only the counter has more digits.
    assert_eq!(format!("{reader:?}").len(), few + 2);
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "text",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "server_tool_use",
        "text_delta",
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
        "citations_delta",
        "end_turn",
        "other",
    ])
    .prop_map(str::to_owned)
}

/// Any value, of few names and small numbers, so that many of them mean something.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        Just(json!([])),
        (0..3u64).prop_map(Value::from),
        name().prop_map(Value::from),
        prop::sample::select(vec!["", "\u{0}", "ü", "{\"a\":"]).prop_map(Value::from),
    ]
}

fn member() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "type",
        "text",
        "thinking",
        "signature",
        "partial_json",
        "citation",
        "citations",
        "id",
        "name",
        "input",
        "stop_reason",
        "stop_details",
        "usage",
        "input_tokens",
    ])
    .prop_map(str::to_owned)
}

fn inner() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(member(), value(), 0..5).prop_map(|map| json!(map))
}

fn event() -> impl Strategy<Value = Value> {
    let kinds = vec![
        "message_start",
        "content_block_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
        "other",
    ];
    let part = prop_oneof![inner(), inner(), inner(), value()];
    (prop::sample::select(kinds), 0..2u64, name(), name(), part).prop_map(
        |(kind, index, block, delta, part)| {
            json!({
                "type": kind, "index": index, "message": part, "usage": part,
                "content_block": of_type(&part, block), "delta": of_type(&part, delta)
            })
        },
    )
}

fn of_type(part: &Value, kind: String) -> Value {
    match part.clone() {
        Value::Object(mut part) => {
            part.insert("type".to_owned(), kind.into());
            Value::Object(part)
        }
        other => other,
    }
}

proptest! {
    #[test]
    fn any_events_are_read_without_panic(
        events in prop::collection::vec(event(), 0..30)
    ) {
        let mut reader = ReplyReader::default();
        reader.event(&object(start())).expect("a good start");
        for event in events {
            // A caller stops at the first failure; the state must be sound even if it does not.
            let _ = reader.event(&object(event));
        }
    }
}

fn whole(message: Value) -> Result<Vec<Delta>, ReplyError> {
    ReplyReader::default().whole(object(message))
}

#[test]
fn a_response_that_is_not_a_message_fails() {
    let error = json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}});
    let Err(ReplyError::Reported { status, .. }) = whole(error) else { panic!("it is an error") };
    assert_eq!(status, Some(429));
    for (message, what) in [
        (json!({}), "a message without content"),
        (json!({"content": "text"}), "a message without content"),
        (json!({"content": []}), "a message that stops without a reason"),
        (
            json!({"content": ["text"], "stop_reason": "end_turn"}),
            "a content_block_start event without an index or a block",
        ),
    ] {
        assert_eq!(whole(message).expect_err("no message").to_string(), what);
    }
}

#[test]
fn a_message_has_a_limited_number_of_blocks() {
    let with_blocks = |count| {
        let blocks = vec![json!({"type": "tool_use"}); count];
        whole(json!({"type": "message", "content": blocks, "stop_reason": "tool_use"}))
    };
    assert!(with_blocks(MAX_PIECES).is_ok());
    let failure = with_blocks(MAX_PIECES + 1).expect_err("beyond the limit");
    assert_eq!(failure.to_string(), "a message with more content blocks than the gateway accepts");
}
