use std::time::Duration;

use super::*;
use crate::chat_replies;
use airlock_conversation::{Reply, UsageChunk, chat::ReplyReader};
use airlock_core::memory::MemoryBudget;
use airlock_json::RawObject;

fn script(turns: &Value) -> Result<ScriptedModel, BadProvider> {
    let dir = tempfile::TempDir::new().expect("a directory");
    let path = dir.path().join("script.json");
    std::fs::write(&path, json!({"turns": turns}).to_string()).expect("a file");
    ScriptedModel::load("demo", &path)
}

fn answer(turns: &Value, messages: &Value) -> Value {
    let body =
        object(json!({"model": "m", "messages": messages, "tools": [{"function": {"name": "a"}}]}));
    whole(&script(turns).expect("a good script"), &body).expect("a turn").into()
}

fn whole(script: &ScriptedModel, body: &Object) -> Result<Object, ModelError> {
    respond(script, body, false).map(chat_replies::whole)
}

fn respond(
    script: &ScriptedModel,
    body: &Object,
    is_streamed: bool,
) -> Result<Response<'static>, ModelError> {
    let held = MemoryBudget::unlimited().charge();
    let prompt = Prompt::new(RawObject::from(body));
    let text = prompt.to_chat(&prompt.body, &[]).expect("messages");
    script.reply(&prompt, &text, chat_replies::terms(is_streamed, &held))
}

/// Returns the chunks of a streamed answer, and the error at its end.
async fn streamed(answer: Value, body: Value) -> (Vec<Object>, Option<ModelError>) {
    let script = script(&json!([{"answer": answer}])).expect("a good script");
    let Ok(Response::Chunks(mut chunks)) = respond(&script, &object(body), true) else {
        panic!("no stream");
    };
    let mut all = Vec::new();
    loop {
        match chunks.next().await {
            Ok(Some(chunk)) => {
                all.extend(chunk.into_parts().1.map(Document::into_object));
            }
            Ok(None) => return (all, None),
            Err(error) => return (all, Some(error)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_answer_merges_to_the_whole_one() {
    let answer = json!({"content": "two words", "reasoning": "hm hm", "pace": "20ms",
                        "tool_calls": [{"id": "c", "name": "x", "arguments": {"text": "longer than one piece"}}]});
    let request = json!({"messages": [], "n": 2, "stream_options": {"include_usage": true}});
    let started = tokio::time::Instant::now();
    let (chunks, error) = streamed(answer.clone(), request.clone()).await;
    assert!(error.is_none() && chunks.len() > 15, "{chunks:?}");
    assert_eq!(
        started.elapsed(),
        Duration::from_millis(20) * u32::try_from(chunks.len() + 1).expect("few")
    );
    let mut reader = ReplyReader::default();
    let mut streamed = Reply::default();
    for chunk in chunks {
        streamed.extend(reader.chunk(chunk).expect("a chunk"));
    }
    streamed.extend(reader.finish().expect("an end"));
    let whole = whole(&script(&json!([{"answer": answer}])).expect("good"), &object(request));
    let mut at_once = Reply::default();
    at_once.extend(ReplyReader::default().whole(whole.expect("a turn")).expect("a completion"));
    at_once.begin.id.clone_from(&streamed.begin.id);
    let usage = streamed.usage.as_mut().expect("the usage");
    assert_eq!(usage.chunk.take(), Some(UsageChunk::Own));
    // The calls of the other choice have identifiers of their own, and a stream begins with an empty text.
    for reply in [&mut streamed, &mut at_once] {
        assert!(reply.choices.remove(&1).is_some());
        reply.choices.values_mut().for_each(|choice| choice.members.clear());
    }
    assert_eq!(streamed, at_once);
}

#[tokio::test]
async fn an_error_can_follow_chunks() {
    let answer =
        json!({"content": "a b c", "error": {"status": 500, "message": "broken", "after": 2}});
    let (chunks, error) = streamed(answer.clone(), json!({"messages": []})).await;
    assert_eq!((chunks.len(), error.map(|error| error.status().as_u16())), (2, Some(500)));
    let script = script(&json!([{"answer": answer}])).expect("a good script");
    assert!(whole(&script, &Object::new()).is_err());
}

#[test]
fn the_first_turn_whose_conditions_hold_is_used() {
    let turns = json!([
        {"when": {"offered": ["b"]}, "answer": {"content": "b is offered"}},
        {"when": {"role": "tool", "tool_results": 2}, "answer": {"content": "two: {{last_tool_result}}, {{last_user_message}}"}},
        {"when": {"role": "user", "contains": "add"}, "answer": {"tool_calls": [{"name": "a", "arguments": {"x": ["{{last_user_message}}"]}}]}},
        {"answer": {"content": "otherwise"}},
    ]);
    let parts = json!({"role": "user", "content": [{"type": "text", "text": "please add"}]});
    let calls = answer(&turns, &json!([parts]));
    let call = &calls["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["function"], json!({"name": "a", "arguments": r#"{"x":["please add"]}"#}));
    assert_eq!(
        (&calls["choices"][0]["finish_reason"], &call["type"]),
        (&json!("tool_calls"), &json!("function"))
    );
    let two =
        answer(&turns, &json!([tool("0"), user("u"), tool("1"), tool("{{last_user_message}}")]));
    assert_eq!(two["choices"][0]["message"]["content"], "two: {{last_user_message}}, u");
    let one = answer(&turns, &json!([tool("0"), user("u"), tool("1")]));
    assert_eq!(one["choices"][0]["message"]["content"], "otherwise");
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn tool(text: &str) -> Value {
    json!({"role": "tool", "content": text})
}

#[test]
fn a_conversation_without_a_matching_turn_fails_and_is_described() {
    let script = script(&json!([{"when": {"contains": "x"}, "answer": {"content": ""}}]))
        .expect("a good script");
    let body = object(json!({"messages": [{"role": "user", "content": "hello"}]}));
    let error = whole(&script, &body).expect_err("no turn");
    insta::assert_snapshot!(
        error,
        @r#"no turn of script 'demo' matches a conversation whose last message is "hello" by user, with 0 tool results and 0 tools offered"#
    );
}

#[test]
fn an_invalid_turn_is_reported_with_valid_values() {
    insta::assert_snapshot!(
        problem(&json!({"when": {"contain": "x"}, "answer": {}})),
        @"when.contain: unknown field `contain`, expected one of `role`, `contains`, `offered`, `tool_results`"
    );
    insta::assert_snapshot!(
        problem(&json!({"when": {"role": "bot"}, "answer": {}})),
        @"when.role: unknown variant `bot`, expected one of `system`, `developer`, `user`, `assistant`, `tool`"
    );
    insta::assert_snapshot!(problem(&json!({"answer": {}})), @"answer: needs `content`, `tool_calls` or `error`");
    insta::assert_snapshot!(
        problem(&json!({"answer": {"error": {"status": 200, "message": ""}}})),
        @"answer.error.status: found 200, expected 400 to 599"
    );
    // Reading the device would never end.
    for path in ["/nowhere", "/dev/zero"] {
        assert!(matches!(
            ScriptedModel::load("demo", Path::new(path)),
            Err(BadProvider::Script { cause: BadScript::Read { .. }, .. })
        ));
    }
}

fn problem(turn: &Value) -> String {
    match script(&json!([{"answer": {"content": ""}}, turn])) {
        Err(BadProvider::Script { cause: BadScript::Turn { turn: 2, problem, .. }, .. }) => problem,
        other => panic!("{other:?}"),
    }
}
