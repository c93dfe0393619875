use super::*;
use airlock_model::object;

#[test]
fn a_chunk_with_text_and_the_end_of_a_choice_is_split_into_both() {
    let chunk = json!({
        "id": "x",
        "choices": [
            {"index": 0, "delta": {"content": "bye"}, "logprobs": {"content": []}, "finish_reason": "stop"},
            {"index": 1, "delta": {}, "finish_reason": null},
        ],
        "usage": {"total_tokens": 1},
    });
    let mut end = Document::from(object(chunk));
    let text = take_text(&mut end);
    assert_eq!(
        Value::from(text.into_object()),
        json!({
            "id": "x",
            "choices": [
                {"index": 0, "delta": {"content": "bye"}, "logprobs": {"content": []}, "finish_reason": null},
                {"index": 1, "delta": {}, "finish_reason": null},
            ],
        })
    );
    assert_eq!(
        Value::from(end.into_object()),
        json!({
            "id": "x",
            "choices": [
                {"index": 0, "delta": {}, "finish_reason": "stop"},
                {"index": 1, "delta": {}, "finish_reason": null},
            ],
            "usage": {"total_tokens": 1},
        })
    );
}
