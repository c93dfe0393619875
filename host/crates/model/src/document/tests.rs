use super::*;
use airlock_core::memory::{Limited, MemoryBudget};

fn read(text: &str) -> Document {
    let held = MemoryBudget::unlimited().charge();
    Document::read(text.to_owned(), &Caps::memory(1 << 20), &held).expect("an object")
}

#[test]
fn a_provider_cannot_send_what_only_the_gateway_says() {
    for (text, expected) in [
        (r#"{"a": 1, "airlock": {"calls": []}}"#, r#"{"a":1}"#),
        (r#"{"error": {"message": "x", "airlock": 1}}"#, r#"{"error":{"message":"x"}}"#),
        (r#"{"a": {"airlock": 1}}"#, r#"{"a": {"airlock": 1}}"#),
    ] {
        assert_eq!(read(text).into_text(), expected);
    }
}

#[test]
fn a_short_chat_completion_that_is_passed_on_gets_no_tree() {
    let held = MemoryBudget::unlimited().charge();
    let usage = r#""usage":{"total_tokens":0.10,"prompt_tokens":7}"#;
    let caps = Caps::memory(1 << 20);
    let text = format!(r#"{{"id":"a","choices":[{{"index":2,"delta":{{}}}}],{usage}}}"#);
    let chunk = Document::read_chunk(text.clone(), &caps, &held).expect("an object");
    assert_eq!((chunk.indices(), chunk.has_calls(), chunk.has_end()), (vec![2], false, false));
    assert_eq!(chunk.head(), Object::from_iter([("id".to_owned(), "a".into())]));
    assert_eq!(chunk.usage().expect("a usage")["total_tokens"], 0.1);
    assert_eq!(chunk.tokens().map(|tokens| tokens.input), Some(7));
    assert!(chunk.0.object.get().is_none());
    assert_eq!(chunk.into_line(), text);

    let long = text.replace("\"a\"", &format!("\"{}\"", "x".repeat(INLINE_BYTES)));
    let long = Document::read_completion(long, &caps, &held).expect("an object");
    assert!(long.0.object.get().is_some(), "it is read where it was checked, on a thread");
    let error = Document::read_chunk(r#"{"choices":[],"error":1}"#.to_owned(), &caps, &held);
    assert!(error.expect("an object").0.object.get().is_some());
}

#[test]
fn a_text_with_two_members_of_one_name_is_written_from_what_was_read() {
    let held = MemoryBudget::unlimited().charge();
    let caps = Caps::memory(1 << 20);
    let text = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{}]}}],"choices":[]}"#;
    let chunk = Document::read_chunk(text.to_owned(), &caps, &held).expect("an object");
    assert_eq!(chunk.into_line(), r#"{"choices":[]}"#);
}

#[test]
fn a_text_with_an_error_is_refused_whatever_was_read_before_it() {
    let held = MemoryBudget::unlimited().charge();
    let caps = Caps::memory(1 << 20);
    for text in [
        "",
        "[]",
        "null",
        "{\"choices\":[{\"delta\":{\"tool_calls\":[{}",
        "{\"choices\":[]} {}",
        "{\"choices\":[]}\0",
        "\u{feff}{\"choices\":[]}",
        "{\"choices\":[],}",
        "{\"choices\":[],\"x\":\"\u{1}\"}",
        "{\"choices\":[],\"x\":\"\\ud800\"}",
        "{\"choices\":[],\"\\udc00\":1}",
        "{\"choices\":[{\"index\":01}]}",
        "{\"choices\":[{\"index\":1e999}]}",
    ] {
        for read in [Document::read_chunk, Document::read_completion] {
            let refused = read(text.to_owned(), &caps, &held);
            assert!(matches!(refused, Err(BadDocument::NoObject)), "{text:?}");
        }
    }
}

// A feature of serde_json gives this name a meaning, and would make the reading of a text fail that was
// checked before.
#[test]
fn a_name_that_a_feature_of_the_parser_would_reserve_is_one_like_another() {
    let held = MemoryBudget::unlimited().charge();
    let caps = Caps::memory(1 << 20);
    let text = r#"{"choices":[],"x":{"$serde_json::private::RawValue":"no json"}}"#;
    let chunk = Document::read_chunk(text.to_owned(), &caps, &held).expect("an object");
    assert_eq!(chunk.object().len(), 2);
}

#[test]
fn an_event_is_one_line_and_keeps_its_text_if_it_was_one() {
    assert_eq!(read("{\"n\": 0.10}").into_line(), "{\"n\": 0.10}");
    assert_eq!(read("{\"a\":\r\n1}").into_line(), "{\"a\":1}");
}

#[test]
fn a_head_has_short_texts_and_numbers_only() {
    let long = "x".repeat(HEAD_BYTES + 1);
    let chunk = read(&format!(r#"{{"id":"a","model":"{long}","created":1,"object":[1],"x":2}}"#));
    assert_eq!(Value::from(head(chunk.object())).to_string(), r#"{"id":"a","created":1}"#);
}

#[test]
fn a_small_document_is_charged_once_it_is_kept() {
    let memory = Limited::new(1 << 10);
    let held = MemoryBudget::new(memory.clone()).charge();
    let caps = Caps::memory(1 << 20);
    let mut small = Document::read(r#"{"a":1}"#.to_owned(), &caps, &held).expect("an object");
    assert_eq!(memory.taken(), 0);
    assert!(small.keep(&held) && small.keep(&held));
    assert!((100..1_000).contains(&memory.taken()), "{}", memory.taken());
    let mut other = Document::read(format!(r#"{{"a":"{}"}}"#, "x".repeat(1_000)), &caps, &held);
    assert!(!other.as_mut().expect("an object").keep(&held), "there is no room");
    drop(small);
    assert_eq!(memory.taken(), 0);
}
