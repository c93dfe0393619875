//! Bounds on what a reply makes the gateway keep.

use super::*;
use crate::delta::MAX_HELD_BYTES;

#[test]
fn choices_calls_and_names_are_bounded() {
    let choices = |count: usize| {
        let choices: Vec<_> = (0..count).map(|index| json!({"index": index})).collect();
        ReplyReader::default().chunk(object(json!({"choices": choices}))).is_ok()
    };
    let calls = |count: usize| {
        let calls: Vec<_> = (0..count).map(|index| json!({"index": index})).collect();
        let chunk = json!({"choices": [{"delta": {"tool_calls": calls}}]});
        ReplyReader::default().chunk(object(chunk)).is_ok()
    };
    let name = |length: usize| {
        let call = json!({"index": 0, "function": {"name": "x".repeat(length)}});
        let chunk = json!({"choices": [{"delta": {"tool_calls": [call]}}]});
        let deltas = read(&[chunk]);
        deltas.iter().find_map(|delta| match delta {
            Delta::Call { name, .. } => Some(name.len()),
            _ => None,
        })
    };
    assert_eq!([choices(MAX_CHOICES), choices(MAX_CHOICES + 1)], [true, false]);
    assert_eq!([calls(MAX_PIECES), calls(MAX_PIECES + 1)], [true, false]);
    assert_eq!([name(1_024), name(1_025)], [Some(1_024); 2]);
    let mut reader = ReplyReader::default();
    for index in 0..=MAX_CHOICES {
        let read = reader.chunk(object(json!({"choices": [{"index": index}]})));
        assert_eq!(read.is_ok(), index < MAX_CHOICES, "{index}");
    }
}

#[test]
fn the_pieces_of_a_chunk_are_bounded() {
    let part = json!({"type": "text", "text": "x"});
    let thinking = |count: usize| json!([{"type": "thinking", "thinking": vec![&part; count]}]);
    let members = |count: usize| -> Object {
        (0..count).map(|index| (format!("x{index}"), json!([]))).collect()
    };
    for (delta, is_good) in [
        (json!({"content": vec![0; MAX_PIECES]}), true),
        (json!({"content": vec![0; MAX_PIECES + 1]}), false),
        (json!({"content": thinking(MAX_PIECES - 1)}), true),
        (json!({"content": thinking(MAX_PIECES)}), false),
        (json!({"citations": vec![0; MAX_PIECES], "refusal": "x"}), false),
        (members(MAX_PIECES).into(), true),
        (members(MAX_PIECES + 1).into(), false),
    ] {
        for name in ["delta", "message"] {
            let mut choice = Object::new();
            choice.insert(name.to_owned(), delta.clone());
            let chunk = object(json!({"choices": [choice]}));
            assert_eq!(ReplyReader::default().chunk(chunk).is_ok(), is_good);
        }
    }
}

#[test]
fn what_is_kept_beyond_its_chunk_is_counted() {
    let large = "x".repeat(1_000);
    let call = |call: Value| json!({"choices": [{"delta": {"tool_calls": [call]}}]});
    let block = json!({"type": "thinking", "thinking": large, "signature": ""});
    for chunk in [
        call(json!({"index": 0, "x": large})),
        call(json!({"index": 0, "function": {"arguments": large}})),
        json!({"choices": [{"delta": {"thinking_blocks": [block]}}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 1, "x": large}}),
    ] {
        let mut reader = ReplyReader::default();
        reader.chunk(object(chunk.clone())).expect("a good chunk");
        assert!(reader.held_bytes() >= large.len(), "{chunk}: {}", reader.held_bytes());
    }
    let mut reader = ReplyReader::default();
    let chunk = json!({"choices": [{"delta": {"content": large}}], "usage": {"prompt_tokens": 1}});
    reader.chunk(object(chunk)).expect("a good chunk");
    assert!(reader.held_bytes() < large.len(), "{}", reader.held_bytes());
}

#[test]
fn texts_that_are_held_are_bounded_for_all_choices_together() {
    let most = "x".repeat(MAX_HELD_BYTES);
    let sealed =
        json!({"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "s"}]});
    let named = json!({"tool_calls": [{"index": 0, "function": {"name": "n", "arguments": "1"}}]});
    for (held, one_more, end) in [
        (thinking_piece(&most), thinking_piece("x"), sealed),
        (input_piece(&most), input_piece("x"), named),
    ] {
        let mut reader = ReplyReader::default();
        for index in 0..MAX_REPLY_HELD_BYTES / MAX_HELD_BYTES {
            reader.chunk(in_choice(index, &held)).expect("all of them fit");
        }
        reader.chunk(in_choice(0, &end)).expect("it releases the text");
        reader.chunk(in_choice(9, &held)).expect("there is room again");
        assert!(reader.chunk(in_choice(10, &one_more)).is_err());
    }
}

#[test]
fn the_part_of_a_choice_before_a_failure_is_counted() {
    let most = "x".repeat(MAX_HELD_BYTES);
    let mut reader = ReplyReader::default();
    let pieces = ["x", most.as_str()].map(|text| json!({"type": "thinking", "thinking": text}));
    let too_long = json!({"thinking_blocks": pieces});
    assert!(reader.chunk(in_choice(0, &too_long)).is_err());
    assert_eq!(reader.held_bytes(), 1);
    let sealed =
        json!({"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "s"}]});
    reader.chunk(in_choice(0, &sealed)).expect("it releases the text");
}

fn thinking_piece(text: &str) -> Value {
    json!({"thinking_blocks": [{"type": "thinking", "thinking": text}]})
}

fn input_piece(text: &str) -> Value {
    json!({"tool_calls": [{"index": 0, "function": {"arguments": text}}]})
}

fn in_choice(index: usize, delta: &Value) -> Object {
    object(json!({"choices": [{"index": index, "delta": delta}]}))
}

#[test]
fn a_head_of_excessive_length_is_left_out() {
    let deltas = read(&[
        json!({"id": "x".repeat(MAX_NAME_BYTES + 1), "model": "x".repeat(MAX_NAME_BYTES), "choices": [{}]}),
    ]);
    let Some(Delta::Begin(begin)) = deltas.first() else { panic!("it begins") };
    assert_eq!((begin.id.len(), begin.model.len()), (0, MAX_NAME_BYTES));
}
