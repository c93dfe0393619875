//! Random conversations: whole and streamed, they tell the same story.

use proptest::{collection, prelude::*, sample};

use super::*;

/// Calls of one answer: gateway tools that run, that need approval, a tool of the caller, and one that
/// is unknown.
fn calls() -> impl Strategy<Value = Vec<&'static str>> {
    let names = ["desk-echo", "desk-fail", "desk-write", "executeToolCode", "mine", "nobodys"];
    collection::vec(sample::select(names.to_vec()), 0..4)
}

/// Answers of the model in the order of the rounds.
fn turns() -> impl Strategy<Value = Value> {
    let answer = (calls(), "[a-z]{0,3}( [a-z]{1,3}){0,3}", any::<bool>());
    collection::vec(answer, 1..4).prop_map(|answers| {
        let mut turns: Vec<Value> = Vec::new();
        let mut results = 0;
        let rounds = answers.len();
        for (round, (calls, text, fails)) in answers.into_iter().enumerate() {
            let named: Vec<_> = calls.iter().enumerate().map(|(at, name)| {
                json!({"id": format!("c{round}_{at}"), "name": name, "arguments": {"n": at}})
            }).collect();
            let mut answer = json!({"content": text, "tool_calls": named});
            if fails && round + 1 == rounds {
                answer = json!({"error": {"status": 500, "message": "broken"}});
            }
            turns.push(json!({"when": {"tool_results": results}, "answer": answer}));
            results += calls.len();
        }
        turns.push(json!({"answer": {"content": "the end"}}));
        turns.into()
    })
}

/// The parts of a request's outcome that do not depend on the form of the response.
#[derive(Debug, PartialEq)]
struct Story {
    airlock: Value,
    usage: Value,
    finish_reason: Value,
    /// Ids, names and arguments of the calls for the caller, sorted.
    pending: Vec<(String, String, String)>,
    /// End of the text: of a stream, the text of all rounds.
    ends_with: String,
    error: Option<String>,
}

fn story_of(answer: &Value) -> Story {
    let message = &answer["choices"][0]["message"];
    let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
    let mut pending: Vec<_> = calls
        .iter()
        .map(|call| {
            (
                text(&call["id"]),
                text(&call["function"]["name"]),
                text(&call["function"]["arguments"]),
            )
        })
        .collect();
    pending.sort();
    Story {
        airlock: masked(answer),
        usage: answer["usage"].clone(),
        finish_reason: answer["choices"][0]["finish_reason"].clone(),
        pending,
        ends_with: text(&message["content"]),
        error: None,
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn failed(error: &AgentError) -> Story {
    let airlock = error.airlock.clone().map_or(Value::Null, Value::from);
    Story { error: Some(error.error.to_string()), ..story_of(&json!({"airlock": airlock})) }
}

async fn plain(turns: &Value) -> Story {
    match ask_script(turns.clone(), with_own_tool(request()), SETTINGS).await {
        Ok(answer) => story_of(&answer.into()),
        Err(error) => failed(&error),
    }
}

async fn streamed(turns: &Value) -> Story {
    let mut request = Request { is_streamed: true, ..with_own_tool(request()) };
    request.prompt.body.set("stream_options", r#"{"include_usage": true}"#);
    let models = Arc::new(fake::scripted(turns));
    let mut stream = ReceivedStream::new(&request);
    let mut run = run(models, caller(&Filter::none()), request, SETTINGS);
    loop {
        let mut event = run.next().await.expect("an event");
        stream.add(&mut event);
        match event {
            Event::Done(completion) => {
                let answer = stream.finish();
                let airlock = completion.airlock.map_or(Value::Null, Value::from);
                assert_eq!(answer.get("airlock").unwrap_or(&Value::Null), &airlock);
                return story_of(&answer);
            }
            Event::Failed(error) => return failed(&error),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_streamed_conversation_tells_the_same_story_as_a_whole_one(turns in turns()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (whole, mut streamed) = runtime.block_on(async { (plain(&turns).await, streamed(&turns).await) });
        prop_assert!(streamed.ends_with.ends_with(&whole.ends_with), "{:?} {:?}", streamed, whole);
        streamed.ends_with.clone_from(&whole.ends_with);
        prop_assert_eq!(streamed, whole);
    }
}
