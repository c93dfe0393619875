//! Properties of every sequence of events.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};

use super::*;

/// An event of the loop.
#[derive(Debug, Clone)]
enum Event {
    Delta(Value),
    Stop(&'static str),
    Start(u8, String),
    End(u8, bool),
    Round,
}

fn text() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[a-z{\"é😀]{0,4}").expect("a good expression")
}

fn delta() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(|text| json!({"content": text})),
        text().prop_map(|text| json!({"refusal": text})),
        text().prop_map(|text| json!({"reasoning_content": text})),
        text().prop_map(|text| json!({"reasoning": "r", "content": text})),
        Just(json!({"thinking_blocks": [{"type": "thinking", "signature": "s"}]})),
        Just(json!({"annotations": [{"type": "url_citation", "url_citation": {"title": "t"}}]})),
        (0..3_u8, text()).prop_map(|(index, text)| function(index, &text)),
        (3..5_u8, text()).prop_map(|(index, text)| custom(index, &text)),
    ]
}

fn function(index: u8, text: &str) -> Value {
    let body = json!({"name": "x", "arguments": text});
    json!({"tool_calls": [{"index": index, "id": format!("call_{index}"), "type": "function", "function": body}]})
}

fn custom(index: u8, text: &str) -> Value {
    let body = json!({"name": "x", "input": text});
    json!({"tool_calls": [{"index": index, "id": format!("call_{index}"), "type": "custom", "custom": body}]})
}

/// Any JSON, with names and types that the translation reads.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
        proptest::sample::select(WORDS).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let member = (proptest::sample::select(NAMES), inner.clone());
        prop_oneof![
            vec(inner, 0..6).prop_map(Value::from),
            vec(member, 0..6).prop_map(|members| {
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
}

const WORDS: &[&str] = &[
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "mcp_call",
    "function",
    "custom",
    "allowed_tools",
    "user",
    "assistant",
    "input_text",
    "input_image",
    "output_text",
    "url_citation",
];

const NAMES: &[&str] = &[
    "input",
    "model",
    "tools",
    "tool_choice",
    "text",
    "format",
    "reasoning",
    "include",
    "metadata",
    "type",
    "role",
    "content",
    "id",
    "call_id",
    "name",
    "arguments",
    "output",
    "error",
    "summary",
    "encrypted_content",
    "function",
    "custom",
    "index",
    "token",
    "logprob",
    "top_logprobs",
    "url_citation",
    "store",
    "truncation",
    "stream_options",
    "max_output_tokens",
    "\u{e9}",
];

const DELTA_NAMES: &[&str] = &[
    "content",
    "refusal",
    "reasoning_content",
    "reasoning",
    "thinking_blocks",
    "tool_calls",
    "annotations",
    "reasoning_details",
];

fn odd_delta() -> impl Strategy<Value = Value> {
    let member = (proptest::sample::select(DELTA_NAMES), json_value());
    vec(member, 0..4).prop_map(|members| {
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => odd_delta().prop_map(Event::Delta),
        8 => delta().prop_map(Event::Delta),
        1 => prop_oneof![Just("stop"), Just("length")].prop_map(Event::Stop),
        2 => (0..4_u8, text()).prop_map(|(id, arguments)| Event::Start(id, arguments)),
        2 => (0..4_u8, any::<bool>()).prop_map(|(id, is_ok)| Event::End(id, is_ok)),
        1 => Just(Event::Round),
    ]
}

fn play(events: &[Event], fails: bool) -> OutputRecorder {
    let mut recorder = OutputRecorder::new();
    for event in events {
        match event {
            Event::Delta(delta) => recorder.delta(delta.clone()),
            Event::Stop(reason) => recorder.stop(reason),
            Event::Start(id, arguments) => recorder.start(&id.to_string(), "fs-read", arguments),
            Event::End(id, true) => recorder.end(&id.to_string(), Ok("ok")),
            Event::End(id, false) => recorder.end(&id.to_string(), Err("no")),
            Event::Round => recorder.round(),
        };
    }
    if fails {
        recorder.writer.fail(&Object::new(), None, None, &mut recorder.events);
    } else {
        recorder.finish();
    }
    recorder
}

/// State of an item as a client sees it after some events.
#[derive(Debug, Default)]
struct Seen {
    item: Value,
    /// Text of the deltas, by content part; calls have only part 0.
    texts: Vec<String>,
    open_parts: usize,
    is_done: bool,
}

/// Reads stream events as a client does, and checks their order.
fn read(events: &[Object]) -> BTreeMap<u64, Seen> {
    let mut seen = BTreeMap::<u64, Seen>::new();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
        let kind = event["type"].as_str().expect("every event has a type");
        let Some(index) = event.get("output_index").and_then(Value::as_u64) else { continue };
        if kind == "response.output_item.added" {
            assert_eq!(index, seen.len() as u64, "items are added in order");
            seen.insert(index, Seen { item: event["item"].clone(), ..Seen::default() });
            continue;
        }
        let seen = seen.get_mut(&index).expect("the item was added");
        assert!(!seen.is_done, "{event:?} after the item is done");
        if kind == "response.output_item.done" {
            assert_eq!((seen.open_parts, &seen.item["id"]), (0, &event["item"]["id"]));
            seen.is_done = true;
            seen.item = event["item"].clone();
            continue;
        }
        assert_eq!(event["item_id"], seen.item["id"]);
        read_part(kind, event, seen);
    }
    seen
}

fn read_part(kind: &str, event: &Object, seen: &mut Seen) {
    let part = event.get("content_index").and_then(Value::as_u64).unwrap_or_default();
    let part = usize::try_from(part).expect("a small index");
    if kind == "response.content_part.added" {
        assert_eq!((part, seen.open_parts), (seen.texts.len(), 0));
        seen.texts.push(String::new());
        seen.open_parts = 1;
    } else if kind == "response.content_part.done" {
        assert_eq!(part + 1, seen.texts.len());
        seen.open_parts = 0;
    } else if let Some(delta) = event.get("delta") {
        if event.get("content_index").is_none() && seen.texts.is_empty() {
            seen.texts.push(String::new());
        }
        assert_eq!(part + 1, seen.texts.len(), "a delta belongs to the open part");
        seen.texts[part].push_str(delta.as_str().expect("a delta is text"));
    } else if let Some(done) =
        ["text", "refusal", "arguments", "input"].iter().find_map(|name| event.get(*name))
    {
        let text = seen.texts.get(part).map_or("", String::as_str);
        assert_eq!(done, text, "{kind} repeats its deltas");
    }
}

/// Returns the texts of a final item, by part.
fn final_texts(item: &Value) -> Vec<&str> {
    match item.get("content").and_then(Value::as_array) {
        Some(parts) => parts
            .iter()
            .map(|part| part.get("text").or_else(|| part.get("refusal")).expect("a text"))
            .filter_map(Value::as_str)
            .collect(),
        None => item
            .get("arguments")
            .or_else(|| item.get("input"))
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
            .into_iter()
            .collect(),
    }
}

proptest! {
    #[test]
    fn the_deltas_of_every_sequence_add_up_to_the_final_items(
        events in vec(event(), 0..40),
        fails in any::<bool>(),
    ) {
        let recorder = play(&events, fails);
        let seen = read(&recorder.events);
        let items = recorder.writer.output_items();
        prop_assert_eq!(seen.len(), items.len());
        for (seen, item) in seen.values().zip(items) {
            prop_assert!(seen.is_done);
            prop_assert_eq!(&seen.item, item);
            let texts: Vec<&str> = seen.texts.iter().map(String::as_str).collect();
            let texts: Vec<&str> = match item.get("content") {
                Some(_) => texts,
                None => texts.into_iter().filter(|text| !text.is_empty()).collect(),
            };
            prop_assert_eq!(texts, final_texts(item));
        }
        let last = recorder.events.last().expect("an event");
        prop_assert_eq!(&last["response"]["output"], &json!(items));
    }

    #[test]
    fn every_request_is_translated_or_refused_with_the_name_of_a_member(
        members in vec((proptest::sample::select(NAMES), json_value()), 0..8),
        items in vec(json_value(), 0..4),
        earlier in vec(json_value(), 0..2),
    ) {
        let mut request = object(json!({"model": "m", "input": items}));
        request.extend(members.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let prepared = prepare(request, earlier, false, &BuiltinTools::Drop);
        match prepared.and_then(|prepared| sent(&prepared)) {
            Ok(chat) => check_pairs(chat["messages"].as_array().expect("messages")),
            Err(error) => prop_assert!(!error.param.is_empty() && !error.message.is_empty()),
        }
    }

    #[test]
    fn the_items_of_every_complete_response_can_be_input_again(events in vec(event(), 0..40)) {
        let recorder = play(&events, false);
        let earlier = recorder.writer.output_items().to_vec();
        let pending = earlier.iter().filter_map(|item| {
            let kind = item["type"].as_str()?;
            Some(json!({"type": format!("{kind}_output"), "call_id": item.get("call_id")?, "output": "o"}))
        });
        let input: Vec<Value> = pending.collect();
        let calls = earlier.iter().filter(|item| item.get("name").is_some()).count();
        let request = object(json!({"model": "m", "input": input}));
        let prepared = prepare(request, earlier, false, &BuiltinTools::Drop);
        let chat = prepared.and_then(|prepared| sent(&prepared));
        let messages = chat.expect("the items can be translated")["messages"].take();
        let messages = messages.as_array().expect("messages");
        let asked = messages.iter().filter_map(|message| message.get("tool_calls")?.as_array());
        prop_assert_eq!(asked.map(Vec::len).sum::<usize>(), calls);
        check_pairs(messages);
    }
}

/// Checks that the results of the calls of each message follow it.
fn check_pairs(messages: &[Value]) {
    let mut expected: Vec<&Value> = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            assert!(!expected.is_empty() && *expected.remove(0) == message["tool_call_id"]);
            continue;
        }
        assert!(expected.is_empty(), "a call has no result");
        let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
        expected = calls.map(|call| &call["id"]).collect();
    }
    assert!(expected.is_empty(), "a call has no result");
}
