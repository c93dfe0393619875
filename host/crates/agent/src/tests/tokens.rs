//! Estimated tokens of the gateway's tools.

use super::*;

/// An echo in the first round, and a text in the second one.
fn two_rounds() -> Value {
    json!([
        {"when": {"role": "user"}, "answer": {"tool_calls": [{"id": "c1", "name": "desk-echo", "arguments": {"n": 1}}]}},
        {"answer": {"content": "done"}},
    ])
}

/// Returns the `airlock` object of a response to a request that asks for tokens.
async fn described(turns: Value, settings: Settings) -> Value {
    let request = Request { tokens: TokenVisibility::Shown, ..request() };
    let answer = ask_script(turns, request, settings).await.expect("an answer");
    answer.get("airlock").cloned().unwrap_or_default()
}

#[tokio::test]
async fn a_request_that_asks_for_tokens_has_those_of_definitions_and_results() {
    let airlock = described(two_rounds(), SETTINGS).await;
    let tokens = &airlock["tokens"];
    let view = caller(&Filter::none());
    let definitions: u64 = view.list().map(|entry| entry.tool.definition_tokens()).sum();
    assert_eq!((&tokens["estimated"], &tokens["definitions"]), (&json!(true), &json!(definitions)));
    let result = airlock["calls"][0]["result"].as_str().expect("a result");
    assert_eq!(tokens["results"], airlock_strings::estimated_tokens(result));
    let kept_out = &tokens["kept_out"];
    assert!(kept_out["definitions"].as_u64() > Some(0), "a tool is for scripts: {tokens}");
    assert_eq!((&kept_out["results"], &kept_out["script_results"]), (&json!(0), &json!(0)));
    assert_eq!(tokens["scripts"], 0);
}

#[tokio::test]
async fn definitions_count_without_a_call_and_nothing_counts_without_tools() {
    let silent = json!([{"answer": {"content": "hello"}}]);
    let airlock = described(silent.clone(), SETTINGS).await;
    assert!(airlock["tokens"]["definitions"].as_u64() > Some(0), "{airlock}");
    assert_eq!(airlock["tokens"]["results"], 0);
    let settings = Settings { disable_auto_tool_inject: true, ..SETTINGS };
    assert_eq!(described(silent, settings).await, Value::Null);
}

#[tokio::test]
async fn tokens_are_not_described_unless_they_are_asked_for() {
    let answer = ask_script(two_rounds(), request(), SETTINGS).await.expect("an answer");
    assert!(answer["airlock"].get("tokens").is_none());
}
