use airlock_conversation::{Begin, FinishReason, Reasoning, Usage, Wire};
use serde_json::json;

use super::*;

const WINDOW: usize = 8;

fn text(text: &str) -> Delta {
    Delta::Text { choice: 0, text: text.to_owned() }
}

fn reasoning(text: &str) -> Delta {
    Delta::Reasoning { choice: 0, text: text.to_owned() }
}

fn arguments(text: &str) -> Delta {
    Delta::Arguments { choice: 0, index: 0, text: text.to_owned() }
}

fn end() -> Delta {
    Delta::End { choice: 0, reason: FinishReason::Stop }
}

fn held(deltas: impl IntoIterator<Item = Delta>) -> HeldDeltas {
    let mut held = HeldDeltas::new(WINDOW);
    deltas.into_iter().for_each(|delta| held.push(delta));
    held
}

/// Returns what is shown of deltas if guards replace a text by another one in all of them.
fn shown(held: &mut HeldDeltas, from: &str, to: &str) -> Vec<Delta> {
    let mut decided = held.queue.clone();
    for text in decided.iter_mut().filter_map(text_of) {
        *text = text.replace(from, to);
    }
    held.take_shown(decided)
}

/// Returns a text as a caller gets it, if guards replace `secret` by `hidden` in all that they see.
fn received(text: &str, window: usize, piece_bytes: usize) -> String {
    let mut held = HeldDeltas::new(window);
    let mut all = Vec::new();
    for piece in text.as_bytes().chunks(piece_bytes) {
        held.push(self::text(std::str::from_utf8(piece).expect("ASCII")));
        if held.are_due() {
            all.extend(shown(&mut held, "secret", "hidden"));
        }
    }
    let mut rest = held.take_all();
    for text in rest.iter_mut().filter_map(text_of) {
        *text = text.replace("secret", "hidden");
    }
    all.extend(rest);
    all.iter_mut().filter_map(text_of).map(|text| text.as_str()).collect()
}

#[test]
fn a_pattern_within_the_window_is_replaced_wherever_the_pieces_end() {
    let before = (0..40).map(|number| format!("w{number} ")).collect::<Vec<_>>().concat();
    for words in ["a secret b", "asecretb", "secretsecretsecret", "se secret cret", "secre"] {
        for cut in (0..before.len()).step_by(3) {
            let text = format!("{}{words}{before}", &before[..cut]);
            for (window, piece) in [(6, 1), (6, 5), (8, 3), (16, 7), (64, 2)] {
                let expected = text.replace("secret", "hidden");
                assert_eq!(received(&text, window, piece), expected, "{window} {piece}");
            }
        }
    }
}

#[test]
fn the_end_of_a_text_is_held_back_and_the_part_before_it_is_shown() {
    let mut held = held([text("one two "), text("three four five")]);
    assert!(held.are_due());
    assert_eq!(shown(&mut held, "", ""), [text("one two three")]);
    assert_eq!(held.queue, [text(" four five")]);
    assert!(!held.are_due());
    held.push(text(" six seven"));
    assert!(held.are_due(), "as much as is seen again");
}

#[test]
fn nothing_is_shown_of_a_text_whose_end_is_replaced() {
    let mut held = held([text("one two three secr")]);
    assert!(shown(&mut held, "secr", "?").is_empty());
    assert_eq!(held.queue, [text("one two three secr")]);
    held.push(text("et four five"));
    assert_eq!(shown(&mut held, "secret", "?"), [text("one two three ?")]);
    assert_eq!(held.queue, [text(" four five")]);
}

#[test]
fn a_text_is_divided_between_letters_and_not_in_a_short_word() {
    assert_eq!(end_of_part("one two three", 4), 7);
    assert_eq!(end_of_part("äöü", 1), 4);
    assert_eq!(end_of_part("short", 8), 0);
    let long = format!("a {}", "x".repeat(200));
    assert_eq!(end_of_part(&long, 8), long.len() - 8);
}

#[test]
fn what_follows_a_text_is_shown_after_it_and_members_of_chunks_at_once() {
    let member = Delta::ChunkMember { choice: None, name: "x".to_owned(), value: json!("y") };
    let citation = Delta::Citation {
        choice: 0,
        wire: Wire::Messages,
        citation: airlock_conversation::Object::new(),
    };
    let begin = Delta::Begin(Begin::default());
    let mut held = held([
        begin.clone(),
        text("one two three"),
        citation.clone(),
        member.clone(),
        text(" four five"),
        Delta::Text { choice: 1, text: "six seven eight nine".to_owned() },
    ]);
    let other = Delta::Text { choice: 1, text: "six seven".to_owned() };
    assert_eq!(shown(&mut held, "", ""), [begin, text("one two three"), member, other]);
    held.push(end());
    let expected = [
        text(" four five"),
        citation,
        Delta::Text { choice: 1, text: " eight nine".to_owned() },
        end(),
    ];
    assert_eq!(held.take_all(), expected);
}

#[test]
fn calls_and_unknown_members_and_ends_are_last() {
    let call = Delta::Call {
        choice: 0,
        index: 0,
        id: "c".to_owned(),
        name: "f".to_owned(),
        is_custom: false,
        extra: airlock_conversation::Object::new(),
    };
    let member = Delta::Member {
        choice: 0,
        wire: Wire::Chat,
        name: "odd".to_owned(),
        value: json!("a part of more"),
    };
    let usage = Delta::Usage(Usage::default());
    let mut held = held([
        member.clone(),
        text("one two "),
        call.clone(),
        arguments("{\"a\":"),
        text("three four five"),
        arguments("1}"),
        end(),
        usage.clone(),
    ]);
    assert_eq!(shown(&mut held, "", ""), [text("one two three")]);
    assert_eq!(
        held.take_all(),
        [text(" four five"), member, call, arguments("{\"a\":1}"), end(), usage]
    );
}

#[test]
fn reasoning_ends_where_text_begins_and_an_item_ends_its_texts() {
    let block = Delta::ReasoningEnd { choice: 0, reasoning: Reasoning::default() };
    let mut held = held([reasoning("why"), block.clone(), text("one"), text(" two")]);
    assert_eq!(shown(&mut held, "", ""), [reasoning("why"), block]);
    let item = Delta::ItemEnd { choice: 0, index: 0, item: airlock_conversation::Object::new() };
    held.push(item.clone());
    held.push(text("three"));
    assert_eq!(shown(&mut held, "", ""), [text("one two"), item]);
    held.push(reasoning("late"));
    assert!(shown(&mut held, "", "").is_empty(), "it follows the text");
    let mut chat = self::held([reasoning("why"), text("one")]);
    assert_eq!(shown(&mut chat, "", ""), [reasoning("why")]);
}

#[test]
fn the_memory_of_what_is_held_back_is_that_of_all_its_deltas() {
    let deltas = [arguments("{}"), end(), text("one")];
    let bytes: usize = deltas.iter().map(Delta::bytes).sum();
    let mut held = held(deltas.clone());
    assert_eq!((held.queue.len(), held.bytes()), (0, bytes), "a text after a call is last too");
    assert_eq!(held.take_all(), deltas);
    assert_eq!(held.bytes(), 0);
}

#[test]
fn log_probabilities_are_left_out() {
    let value = json!({"a": 1});
    let member = Delta::Member { choice: 0, wire: Wire::Chat, name: "logprobs".to_owned(), value };
    assert!(held([member]).take_all().is_empty());
}
