//! The guard of personal data: models get placeholders, and tools and callers get the data.

use airlock_tests::guests;
use serde_json::{Value, json};

use super::{Guarded, limits, models::PATHS};

/// Starts a gateway with the guard and a model that plays turns.
async fn started(settings: &Value, turns: &Value) -> Guarded {
    let guard = json!({
        "name": "personal", "component": guests::PERSONAL, "settings": settings, "limits": limits(),
    });
    let script = json!({"turns": turns});
    Guarded::start(|setup| setup.scripted("fake", &script).set("/guards", json!([guard]))).await
}

#[tokio::test]
async fn a_model_gets_placeholders_and_the_caller_of_each_api_the_data() {
    // It has no turn for a request with the address.
    let turns = json!([{"when": {"contains": "mail [EMAIL_1]"}, "answer": {"content": "wrote to [EMAIL_1], not [EMAIL_2]"}}]);
    let guarded = started(&json!({}), &turns).await;
    for path in PATHS {
        for is_streamed in [false, true] {
            let reply = guarded.ask(path, "mail ann@a.example", is_streamed).await;
            let expected = "wrote to ann@a.example, not [EMAIL_2]";
            assert!(reply.text.contains(expected), "{path}: {}", reply.text);
            assert!(!reply.text.contains("EMAIL_1"), "{path}: {}", reply.text);
        }
    }
}

#[tokio::test]
async fn a_tool_gets_the_data_and_the_model_no_data_of_its_result() {
    let turns = json!([
        {"when": {"role": "user", "contains": "[EMAIL_1]"}, "answer": {
            "tool_calls": [{"id": "c1", "name": "server-note", "arguments": {"text": "[EMAIL_1]"}}]}},
        {"when": {"role": "tool", "contains": "[EMAIL_1]"}, "answer": {"content": "done: {{last_tool_result}}"}},
    ]);
    let guarded = started(&json!({}), &turns).await;
    let reply = guarded.ask(PATHS[0], "mail ann@a.example", false).await;
    assert_eq!(guarded.noted(), "ann@a.example\n", "{}", reply.text);
    assert!(reply.text.contains("noted ann@a.example"), "{}", reply.text);
    assert!(!reply.text.contains("EMAIL_1"), "{}", reply.text);
}

#[tokio::test]
async fn settings_choose_what_happens_to_requests_and_calls() {
    let turns = json!([{"answer": {"content": "you said {{last_user_message}}"}}]);
    let settings = json!({"before_model": "deny", "before": "deny", "kinds": ["email"]});
    let guarded = started(&settings, &turns).await;
    let denied = guarded.ask(PATHS[0], "mail ann@a.example", false).await;
    assert_eq!((denied.status, denied.code()), (403, "guard_denied"), "{}", denied.text);
    assert!(denied.text.contains("personal_data_in_request"), "{}", denied.text);
    let sent = guarded.ask(PATHS[0], "call +49 30 1234567", false).await;
    assert!(sent.text.contains("you said call +49 30 1234567"), "{}", sent.text);
    let denied = guarded.call("server-note", "mail ann@a.example").await;
    assert_eq!(denied.code(), "guard_denied");
    assert!(denied.text.contains("personal_data_in_arguments"), "{}", denied.text);
    assert_eq!(guarded.noted(), "");
}
