use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{Item, Reply};
use airlock_json::object;

/// Reads the events of a stream, or a whole response.
fn read(events: impl IntoIterator<Item = Value>) -> Result<Vec<Delta>, ReplyError> {
    let mut reader = ReplyReader::default();
    let mut deltas = Vec::new();
    for event in events {
        deltas.extend(reader.response(object(event))?);
    }
    deltas.extend(reader.finish()?);
    Ok(deltas)
}

fn collect(events: impl IntoIterator<Item = Value>) -> Reply {
    let mut reply = Reply::default();
    reply.extend(read(events).expect("a good reply"));
    reply
}

/// Returns a response with a candidate.
fn response(parts: Value, rest: Value) -> Value {
    let mut candidate = object(json!({"content": {"role": "model"}, "index": 0}));
    candidate["content"]["parts"] = parts;
    candidate.extend(object(rest));
    json!({
        "candidates": [candidate], "modelVersion": "gemini-3-pro-preview", "responseId": "r1",
        "usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 3, "thoughtsTokenCount": 5}
    })
}

fn text(text: &str) -> Delta {
    Delta::Text { choice: 0, text: text.to_owned() }
}

fn signed(signature: &str) -> Value {
    json!({"google": {"thought_signature": signature}})
}

#[test]
fn a_whole_response_becomes_deltas() {
    let parts = json!([
        {"text": "Two cities.", "thought": true},
        {"text": "I look."},
        {"functionCall": {"id": "fc1", "name": "get", "args": {"z": "Paris", "a": 1}}, "thoughtSignature": "A"},
        {"functionCall": {"name": "get"}}
    ]);
    let call = |index, id: &str, extra| Delta::Call {
        choice: 0,
        index,
        is_custom: false,
        id: id.to_owned(),
        name: "get".to_owned(),
        extra,
    };
    let arguments =
        |index, text: &str| Delta::Arguments { choice: 0, index, text: text.to_owned() };
    assert_eq!(
        read([response(parts, json!({"finishReason": "STOP"}))]).expect("a good reply"),
        [
            Delta::Begin(Begin {
                id: "r1".to_owned(),
                model: "gemini-3-pro-preview".to_owned(),
                ..Begin::default()
            }),
            Delta::Reasoning { choice: 0, text: "Two cities.".to_owned() },
            text("I look."),
            call(0, "fc1", object(json!({"extra_content": signed("A")}))),
            arguments(0, r#"{"z":"Paris","a":1}"#),
            call(1, "", Object::new()),
            arguments(1, "{}"),
            Delta::End { choice: 0, reason: FinishReason::ToolCalls },
            Delta::Usage(crate::Usage {
                input: 8,
                output: 8,
                reasoning: Some(5),
                ..crate::Usage::default()
            }),
        ]
    );
}

#[test]
fn a_stream_says_the_same_as_its_whole_response() {
    let parts = [
        json!({"text": "Why.", "thought": true}),
        json!({"text": "Because "}),
        json!({"text": "of it."}),
        json!({"functionCall": {"name": "a", "args": {"x": [1]}}, "thoughtSignature": "A"}),
        json!({"functionCall": {"id": "2", "name": "b", "args": {}}}),
    ];
    let end = json!({"finishReason": "STOP"});
    let whole = collect([response(json!(parts), end.clone())]);
    let streamed = parts.iter().map(|part| response(json!([part]), json!({})));
    let streamed = collect(streamed.chain([response(json!([]), end)]));
    assert_eq!(streamed, whole);
    let items = &whole.choices[&0].items;
    assert!(
        matches!(
            items[..],
            [Item::Reasoning(_), Item::Message(_), Item::ToolCall(_), Item::ToolCall(_)]
        ),
        "{items:?}"
    );
}

#[test]
fn an_end_that_every_event_repeats_is_written_once_and_the_last_one_counts() {
    let stop = json!({"finishReason": "STOP"});
    let events = [
        response(json!([{"text": "a"}]), stop),
        response(json!([{"text": "b"}]), json!({"finishReason": "MAX_TOKENS"})),
    ];
    let deltas = read(events).expect("a good reply");
    let ends: Vec<_> = deltas.iter().filter(|delta| matches!(delta, Delta::End { .. })).collect();
    assert_eq!(ends, [&Delta::End { choice: 0, reason: FinishReason::Length }]);
}

#[test]
fn the_signature_of_a_text_is_a_member_of_the_message_once() {
    // While it streams, Gemini sends the signature in a part with an empty text.
    let events = [
        response(json!([{"text": "hi"}]), json!({})),
        response(json!([{"text": "", "thoughtSignature": "A"}]), json!({})),
        response(
            json!([{"text": "", "thoughtSignature": "B"}, {"text": "t", "thought": true, "thoughtSignature": "C"}]),
            json!({"finishReason": "STOP"}),
        ),
    ];
    let reply = collect(events);
    assert_eq!(reply.choices[&0].members, [(Wire::Chat, "extra_content".to_owned(), signed("A"))]);
}

#[test]
fn candidates_are_choices_by_their_index_or_their_place() {
    let candidates = |of: [Value; 2]| json!({"candidates": of});
    for event in [
        candidates([
            json!({"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}),
            json!({"content": {"parts": [{"text": "b"}]}, "finishReason": "MAX_TOKENS"}),
        ]),
        candidates([
            json!({"index": 1, "content": {"parts": [{"text": "b"}]}, "finishReason": "MAX_TOKENS"}),
            json!({"index": 0, "content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}),
        ]),
    ] {
        let reply = collect([event]);
        let finish: Vec<_> = reply.choices.values().map(|choice| choice.finish.clone()).collect();
        assert_eq!(finish, [Some(FinishReason::Stop), Some(FinishReason::Length)]);
        assert_eq!(reply.usage, None);
    }
}

#[test]
fn a_blocked_prompt_ends_with_a_refusal() {
    let blocked = json!({
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "responseId": "r",
        "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8}
    });
    let deltas = read([blocked]).expect("a reply");
    assert_eq!(
        deltas[1..3],
        [
            Delta::Refusal {
                choice: 0,
                text: "Gemini blocked the prompt: PROHIBITED_CONTENT.".to_owned()
            },
            Delta::End { choice: 0, reason: FinishReason::ContentFilter },
        ]
    );
    let rated = json!({"promptFeedback": {"safetyRatings": []}});
    let deltas = read([rated, response(json!([{"text": "a"}]), json!({"finishReason": "STOP"}))]);
    assert!(!deltas.expect("a reply").iter().any(|d| matches!(d, Delta::Refusal { .. })));
}

#[test]
fn the_message_of_a_filtered_candidate_is_its_refusal() {
    let end = json!({"finishReason": "SAFETY", "finishMessage": "Not this."});
    let deltas = read([response(json!([]), end)]).expect("a reply");
    assert_eq!(
        deltas[1..3],
        [
            Delta::Refusal { choice: 0, text: "Not this.".to_owned() },
            Delta::End { choice: 0, reason: FinishReason::ContentFilter },
        ]
    );
}

#[test]
fn a_reply_that_failed_is_an_error_that_may_be_repeated() {
    let end =
        json!({"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "Malformed: print("});
    let Err(ReplyError::Reported { error, status }) = read([response(json!([]), end)]) else {
        panic!("it is an error");
    };
    assert_eq!(status, Some(502));
    assert_eq!(
        Value::from(error),
        json!({
            "message": "Malformed: print(", "type": "server_error", "param": null,
            "code": "MALFORMED_FUNCTION_CALL"
        })
    );
}

#[test]
fn an_error_in_a_stream_ends_it_with_its_status() {
    let error = json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}});
    let events = [response(json!([{"text": "a"}]), json!({})), error];
    let Err(ReplyError::Reported { error, status }) = read(events) else {
        panic!("it is an error");
    };
    assert_eq!((status, &error["code"]), (Some(503), &json!("UNAVAILABLE")));
}

#[test]
fn sources_and_probabilities_are_members_and_other_parts_are_ignored() {
    let parts = json!([
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
        {"inlineData": {"mimeType": "image/png", "data": "AA=="}, "thoughtSignature": "A"},
        {"text": "a"}, {}
    ]);
    let rest = json!({
        "finishReason": "STOP", "citationMetadata": {"citationSources": [{"uri": "u"}]},
        "groundingMetadata": null, "logprobsResult": {"chosenCandidates": [{"token": "a"}]}
    });
    let reply = collect([response(parts, rest)]);
    let choice = &reply.choices[&0];
    assert_eq!(choice.items.len(), 1);
    let names: Vec<_> =
        choice.members.iter().map(|(wire, name, _)| (*wire, name.as_str())).collect();
    assert_eq!(
        names,
        [
            (Wire::Chat, "logprobs"),
            (Wire::Chat, "extra_content"),
            (Wire::Gemini, "citationMetadata")
        ]
    );
}

#[test]
fn a_reply_that_breaks_the_protocol_fails() {
    let many = |count| json!({"candidates": [{"content": {"parts": vec![json!({}); count]}, "finishReason": "STOP"}]});
    assert!(read([many(MAX_PIECES)]).is_ok());
    let candidates = |count| json!({"candidates": vec![json!({"finishReason": "STOP"}); count]});
    assert!(read([candidates(MAX_CANDIDATES)]).is_ok());
    let piece = json!([{"functionCall": {"name": "f", "willContinue": true}}]);
    for (events, what) in [
        (vec![], "a response without candidates"),
        (vec![json!({})], "a response without candidates"),
        (vec![json!({"error": "text"})], "a response without candidates"),
        (
            vec![response(json!([{"text": "a"}]), json!({}))],
            "a response that ended before it was complete",
        ),
        (
            vec![response(json!([]), json!({"finishReason": "FINISH_REASON_UNSPECIFIED"}))],
            "a response that ended before it was complete",
        ),
        (vec![json!({"candidates": ["a"]})], "a candidate that is not an object"),
        (vec![json!({"candidates": [{"index": 1}, {}]})], "two candidates with the same index"),
        (vec![response(json!(["a"]), json!({}))], "a part that is not an object"),
        (vec![response(piece, json!({}))], "a function call in pieces"),
        (vec![many(MAX_PIECES + 1)], "a response with more parts than the gateway accepts"),
        (vec![candidates(MAX_CANDIDATES + 1)], "more candidates than the gateway accepts"),
        (
            vec![json!({"responseId": "x".repeat(MAX_NAME_BYTES + 1)})],
            "a response with an id or model of excessive length",
        ),
    ] {
        assert_eq!(read(events), Err(ReplyError::Invalid { what }));
    }
}

/// Any JSON whose members have names that the reader knows.
fn json_value() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "candidates",
        "content",
        "parts",
        "text",
        "thought",
        "thoughtSignature",
        "functionCall",
        "name",
        "args",
        "id",
        "index",
        "finishReason",
        "finishMessage",
        "usageMetadata",
        "promptTokenCount",
        "promptFeedback",
        "blockReason",
        "logprobsResult",
        "chosenCandidates",
        "topCandidates",
        "token",
        "error",
        "message",
        "status",
        "code",
        "details",
        "reason",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["", "STOP", "SAFETY", "x"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|members| {
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Value>()
            }),
        ]
    })
}

proptest! {
    #[test]
    fn no_reply_panics(events in prop::collection::vec(json_value(), 0..4)) {
        let mut reader = ReplyReader::default();
        let mut reply = Reply::default();
        for event in events {
            let Value::Object(event) = event else { continue };
            reply.extend(reader.response(event).unwrap_or_default());
        }
        reply.extend(reader.finish().unwrap_or_default());
    }
}

#[test]
fn the_tier_of_service_follows_the_beginning_and_is_told_once() {
    let mut reader = ReplyReader::with_tier(Some("flex".to_owned()));
    let event = response(json!([{"text": "a"}]), json!({"finishReason": "STOP"}));
    let first = reader.response(object(event.clone())).expect("a good event");
    let tier = Delta::ServiceTier("flex".to_owned());
    assert_eq!(first[1..], [tier, text("a")]);
    assert_eq!(reader.response(object(event)), Ok(vec![text("a")]));
}
