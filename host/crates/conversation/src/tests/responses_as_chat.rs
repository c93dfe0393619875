use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Recorded, events, events_of, lines, parse, recorded};
use crate::{
    Delta, Object, Reply, ReplyError,
    chat::{self, ChunkWriter},
    responses::ReplyReader,
};

const RECORDED: [Recorded; 8] = recorded![
    "responses": "text", "tools", "reasoning", "reasoning_text", "refusal", "incomplete",
    "annotations_and_logprobs", "unknown_item"
];
const FAILED: &str =
    include_str!("../../../../../tests/fixtures/chat_streams/responses/failed.sse");
const ERROR: &str = include_str!("../../../../../tests/fixtures/chat_streams/responses/error.sse");

/// Returns the deltas of a stream.
fn read(events: impl IntoIterator<Item = Object>) -> Vec<Delta> {
    let mut reader = ReplyReader::default();
    let read: Result<Vec<_>, _> = events.into_iter().map(|event| reader.event(event)).collect();
    assert!(reader.has_ended());
    read.expect("a good stream").concat()
}

/// Returns the chat completion of deltas.
fn completion(deltas: Vec<Delta>) -> Value {
    let mut reply = Reply::default();
    reply.extend(deltas);
    chat::write_reply(reply, 0).into()
}

fn streamed(name: &str) -> Value {
    completion(read(events_of(&RECORDED, name)))
}

/// Returns the chunks of a stream as text, one delta a line, with the finish reason.
fn chunk_lines(name: &str) -> String {
    let mut writer = ChunkWriter::new(0, true);
    let mut chunks = Vec::new();
    let deltas = read(events_of(&RECORDED, name)).into_iter();
    deltas.for_each(|delta| writer.delta(delta, &mut chunks));
    lines(&chunks).join("\n")
}

fn items(deltas: &[Delta]) -> Vec<Value> {
    let items = deltas.iter().filter_map(|delta| match delta {
        Delta::ItemEnd { item, .. } => Some(item.clone().into()),
        _ => None,
    });
    items.collect()
}

#[test]
fn a_stream_and_the_whole_response_are_the_same_completion_and_the_same_items() {
    for Recorded { name, stream, whole } in RECORDED {
        let whole = parse(whole);
        let streamed = read(events(stream));
        let at_once = ReplyReader::default().whole(whole.clone()).expect("a good Response");
        assert_eq!(items(&streamed), items(&at_once), "{name}");
        let output = whole["output"].as_array().expect("a list");
        assert_eq!(items(&streamed), *output, "{name}: as they came");
        assert_eq!(completion(streamed), completion(at_once), "{name}");
    }
}

#[test]
fn calls_are_streamed_in_pieces_with_their_ids() {
    insta::assert_snapshot!(chunk_lines("tools"), @r#"
    {"role":"assistant","content":null}
    {"tool_calls":[{"index":0,"id":"call_unLAR8MvFNptuiZK6K6HCy5k","type":"function","function":{"name":"get_weather","arguments":""}}]}
    {"tool_calls":[{"index":0,"function":{"arguments":"{\"loc"}}]}
    {"tool_calls":[{"index":0,"function":{"arguments":"ation\":\"Paris\"}"}}]}
    {"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"get_time","arguments":""}}]}
    {"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}
    {"tool_calls":[{"index":2,"id":"call_3","type":"custom","custom":{"name":"run_sql","input":""}}]}
    {"tool_calls":[{"index":2,"custom":{"input":"SELECT"}}]}
    {"tool_calls":[{"index":2,"custom":{"input":" 1"}}]}
    {} "tool_calls"
    "#);
}

#[test]
fn reasoning_is_readable_and_has_its_encrypted_form_in_details() {
    insta::assert_snapshot!(chunk_lines("reasoning"), @r#"
    {"role":"assistant","content":null}
    {"reasoning_content":"**Looking"}
    {"reasoning_content":"** up"}
    {"reasoning_content":"\n\n"}
    {"reasoning_content":"**Calling**"}
    {"reasoning_details":[{"type":"reasoning.summary","summary":"**Looking** up","id":"rs_6876cf02e0bc8192b74af0fb64b715ff06fa2fcced15a5ac","format":"openai-responses-v1","index":0},{"type":"reasoning.summary","summary":"**Calling**","id":"rs_6876cf02e0bc8192b74af0fb64b715ff06fa2fcced15a5ac","format":"openai-responses-v1","index":1},{"type":"reasoning.encrypted","data":"gAAAAABofyVzZGVtbw==","id":"rs_6876cf02e0bc8192b74af0fb64b715ff06fa2fcced15a5ac","format":"openai-responses-v1","index":2}]}
    {"content":"Let me look."}
    {"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"get_weather","arguments":""}}]}
    {"tool_calls":[{"index":0,"function":{"arguments":"{\"location\":\"Paris\"}"}}]}
    {"reasoning_details":[{"type":"reasoning.encrypted","data":"gAAAAABofyVzdHdv","id":"rs_2","format":"openai-responses-v1","index":3}]}
    {"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"get_time","arguments":""}}]}
    {"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}
    {} "tool_calls"
    "#);
    insta::assert_snapshot!(chunk_lines("reasoning_text"), @r#"
    {"role":"assistant","content":null}
    {"reasoning_content":"Paris is"}
    {"reasoning_content":" the capital."}
    {"content":"Paris"}
    {} "stop"
    "#);
}

#[test]
fn the_end_of_a_response_is_that_of_a_completion() {
    for (name, reason) in
        [("text", "stop"), ("tools", "tool_calls"), ("incomplete", "length"), ("refusal", "stop")]
    {
        let completion = streamed(name);
        assert_eq!(completion["choices"][0]["finish_reason"], reason, "{name}");
        assert_eq!(
            completion["usage"],
            json!({
                "prompt_tokens": 37, "completion_tokens": 11, "total_tokens": 48,
                "prompt_tokens_details": {"cached_tokens": 5},
                "completion_tokens_details": {"reasoning_tokens": 4}
            })
        );
        assert_eq!(completion["model"], "gpt-5-2025-08-07");
        assert_eq!(completion["created"], 1_741_290_958);
        assert_eq!(completion["service_tier"], "default");
    }
    let message = streamed("refusal")["choices"][0]["message"].take();
    assert_eq!(message["refusal"], "I'm sorry, I can't.");
}

#[test]
fn sources_and_log_probabilities_have_the_form_of_chat_completions() {
    let completion = streamed("annotations_and_logprobs");
    let choice = &completion["choices"][0];
    assert_eq!(
        choice["message"]["annotations"],
        json!([{"type": "url_citation", "url_citation":
            {"start_index": 4, "end_index": 15, "url": "https://example.com", "title": "Example"}}])
    );
    assert_eq!(
        choice["logprobs"]["content"],
        json!([{"token": "See example.com", "logprob": -0.25, "bytes": null,
            "top_logprobs": [{"token": "See example.com", "logprob": -0.25, "bytes": null}]}])
    );
}

#[test]
fn a_reported_error_ends_the_stream_and_before_the_first_item_nothing_is_sent() {
    for (sse, status, message, sent) in
        [(FAILED, 429, "Rate limit reached.", 0), (ERROR, 500, "Something went wrong", 3)]
    {
        let mut reader = ReplyReader::default();
        let mut chunks = 0;
        let mut failure = None;
        for event in events(sse) {
            match reader.event(event) {
                Ok(more) => chunks += more.len(),
                Err(error) => failure = Some(error),
            }
        }
        let Some(ReplyError::Reported { error, status: found }) = failure else {
            panic!("{failure:?}")
        };
        assert_eq!((found, chunks), (Some(status), sent));
        assert_eq!(error["message"], message);
    }
}

fn any_event() -> impl Strategy<Value = Object> {
    let all: Vec<Object> = RECORDED.iter().flat_map(|recorded| events(recorded.stream)).collect();
    let places = prop_oneof![Just(None), (0_u64..4).prop_map(Some), Just(Some(u64::MAX))];
    (prop::sample::select(all), places).prop_map(|(mut event, place)| {
        if let Some(place) = place
            && event.contains_key("output_index")
        {
            event.insert("output_index".to_owned(), place.into());
        }
        event
    })
}

proptest! {
    #[test]
    fn events_in_any_order_never_panic_and_calls_are_counted_from_0(
        events in prop::collection::vec(any_event(), 0..60),
    ) {
        let mut reader = ReplyReader::default();
        let mut deltas = Vec::new();
        for event in events {
            let Ok(mut more) = reader.event(event) else { break };
            deltas.append(&mut more);
        }
        let indices = deltas.iter().filter_map(|delta| match delta {
            Delta::Call { index, .. } => Some(*index),
            _ => None,
        });
        let indices: Vec<u64> = indices.collect();
        prop_assert_eq!(&indices, &(0..indices.len() as u64).collect::<Vec<_>>());
    }
}
