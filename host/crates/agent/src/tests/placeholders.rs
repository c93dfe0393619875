//! Placeholders: the model gets them, and tools, guards of responses and callers get the originals.

use super::{
    guarded::{ADDRESS, Reviewing, answer, content, saying},
    streams::{seen, seen_by, streamed},
    unseen::{MINE, kept_by, recall, restore},
    *,
};
use airlock_core::tool::GuardHook;

/// A model that calls a tool with a placeholder, and then responds with it. It does neither if it gets the address.
fn turns() -> Value {
    json!([
        {"when": {"role": "user", "contains": "mail [EMAIL_1]"}, "answer": {
            "tool_calls": [{"id": "c1", "name": "desk-echo", "arguments": {"to": "[EMAIL_1]"}}]}},
        {"when": {"role": "tool", "contains": "[EMAIL_1]"}, "answer": {
            "reasoning": "it was [EMAIL_1]", "content": "sent to [EMAIL_1], not to [EMAIL_2]: {{last_tool_result}}"}},
    ])
}

#[tokio::test]
async fn tools_and_callers_get_the_originals_of_placeholders() {
    let guards = Reviewing::at(GuardHook::BeforeModel);
    let answered = answer(&guards, turns(), saying("mail ann@a.example")).await;
    let answered = answered.expect("an answer");
    let text = content(&answered);
    assert!(text.starts_with("sent to ann@a.example, not to [EMAIL_2]: "), "{text}");
    assert!(text.contains(r#"{"to":"ann@a.example"}"#), "{text}");
    assert_eq!(answered["airlock"]["calls"][0]["arguments"], json!({"to": ADDRESS}));
    let asked = guards.asked.lock();
    assert!(asked[1].iter().any(|text| text == r#"call: {"to":"ann@a.example"}"#), "{asked:?}");
}

#[tokio::test]
async fn a_placeholder_that_a_text_forges_has_no_original_and_a_call_with_it_sends_none() {
    let guards = Reviewing::at(GuardHook::BeforeModel);
    let link = "https://b.example/?to=[EMAIL_1]";
    let turns = json!([
        {"when": {"role": "user", "contains": "mail [EMAIL_2]"}, "answer": {
            "tool_calls": [{"id": "c1", "name": "desk-echo", "arguments": {"url": link, "to": "[EMAIL_2]"}}]}},
        {"when": {"role": "tool", "contains": "[EMAIL_2]"}, "answer": {"content": "see [EMAIL_1]"}},
    ]);
    let mut request = saying("");
    let messages = [format!("the page links to {link}"), format!("mail {ADDRESS}")];
    let messages = messages.map(|text| json!({"role": "user", "content": text}));
    request.prompt.body.set("messages", json!(messages).to_string());
    let answered = answer(&guards, turns, request).await.expect("an answer");
    assert_eq!(content(&answered), "see [EMAIL_1]");
    let arguments = &answered["airlock"]["calls"][0]["arguments"];
    assert_eq!(*arguments, json!({"url": link, "to": ADDRESS}));
}

#[tokio::test]
async fn a_streamed_response_has_the_originals_and_its_reasoning_the_placeholders() {
    let guards = Reviewing::at(GuardHook::BeforeModel);
    let mut request = saying("mail ann@a.example");
    request.is_streamed = true;
    let lines = seen_by(guards.caller(), turns(), request, SETTINGS).await.join("\n");
    assert!(lines.contains("sent to ann@a.example, not to [EMAIL_2]"), "{lines}");
    assert!(lines.contains("it was [EMAIL_1]"), "{lines}");
}

#[tokio::test]
async fn a_response_with_placeholders_is_kept_whole_also_if_guards_look_at_windows_of_streams() {
    let guards = Reviewing::in_windows(GuardHook::BeforeModel, Some(64));
    let words = (0..60).map(|number| format!("word{number} ")).collect::<Vec<_>>().concat();
    let said = format!("{words}[EMAIL_1] {words}end");
    let turns = json!([{"when": {"contains": "[EMAIL_1]"}, "answer": {"content": said}}]);
    let mut request = saying("mail ann@a.example");
    request.is_streamed = true;
    seen_by(guards.caller(), turns, request, SETTINGS).await;
    let whole = format!("{words}{ADDRESS} {words}end");
    let asked = guards.asked.lock();
    let asked: Vec<_> = asked.iter().flatten().filter(|text| text.contains("word1 ")).collect();
    assert!(matches!(asked[..], [text] if text.ends_with(&whole)), "{asked:#?}");
}

#[tokio::test]
async fn the_arguments_of_a_call_that_waits_have_the_originals() {
    let guards = Reviewing::at(GuardHook::BeforeModel);
    let turns = json!([{"when": {"contains": "[EMAIL_1]"}, "answer": {
        "tool_calls": [{"id": "c1", "name": "mine", "arguments": {"to": "[EMAIL_1]"}}]}}]);
    let request = with_own_tool(saying("mail ann@a.example"));
    let answered = answer(&guards, turns, request).await.expect("an answer");
    let call = &answered["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["function"]["arguments"], r#"{"to":"ann@a.example"}"#, "{answered}");
}

#[tokio::test]
async fn a_request_without_hidden_parts_is_streamed_as_it_comes() {
    let guards = Reviewing::at(GuardHook::BeforeModel);
    let turns = json!([{"answer": {"content": "as for [EMAIL_1], it is what you make it"}}]);
    let expected = seen(turns.clone(), streamed(), SETTINGS).await;
    assert_eq!(seen_by(guards.caller(), turns, streamed(), SETTINGS).await, expected);
}

#[tokio::test]
async fn rounds_that_are_kept_for_the_next_request_have_the_originals() {
    let guards = Reviewing::at(GuardHook::BeforeModel);
    let turns = json!([
        {"when": {"role": "user"}, "answer": {
            "tool_calls": [{"id": "c1", "name": "desk-echo", "arguments": {"to": "[EMAIL_1]"}}]}},
        {"when": {"tool_results": 1}, "answer": {"tool_calls": [
            {"id": MINE, "name": "mine", "arguments": {"to": "[EMAIL_1]"}},
            {"id": "c3", "name": "desk-echo", "arguments": {"n": 3}},
        ]}},
    ]);
    let recall = recall();
    let mut request = kept_by(&recall);
    let user = json!({"role": "user", "content": "mail ann@a.example"});
    request.prompt.body.set("messages", json!([user]).to_string());
    let answered = answer(&guards, turns, request).await.expect("an answer");
    let message = &answered["choices"][0]["message"];
    let result = json!({"role": "tool", "tool_call_id": MINE, "content": "mine"});
    let mut body = kept_by(&recall).prompt.body;
    body.set("messages", json!([user, message, result]).to_string());
    restore(&recall, &mut body).await;
    let text = body.get("messages").expect("they are there");
    assert!(text.contains("desk-echo") && text.contains("mine"), "{text}");
    assert!(text.matches(ADDRESS).count() >= 3 && !text.contains("EMAIL_1"), "{text}");
}
