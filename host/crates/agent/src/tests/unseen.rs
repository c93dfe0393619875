//! Calls of the gateway's tools beside calls that are for the caller, in one answer.

use super::*;
use crate::recall::Recall;
use airlock_core::tenant::Tenant;
use airlock_model::{self as model, Api, Kind, Service};
use airlock_test_http::model::{self as service, FakeService};

/// Identifier that no other conversation has.
pub(super) const MINE: &str = "call_0123456789abcdef";

pub(super) fn recall() -> Recall {
    Recall::new(crate::recall::Settings::new(None, None, 1 << 20))
}

pub(super) fn kept_by(recall: &Recall) -> Request {
    with_own_tool(kept_without_tools_by(recall))
}

fn kept_without_tools_by(recall: &Recall) -> Request {
    Request { keeper: Some(recall.keeper(Tenant::ANONYMOUS, true)), ..request() }
}

/// A model that runs a tool first and then calls one of the gateway's and one of the caller's tools.
/// It ends when it has the results of all three calls.
fn turns() -> Value {
    json!([
        {"when": {"role": "user"}, "answer": {"content": "first", "tool_calls": [{"id": "c1", "name": "desk-echo", "arguments": {"n": 1}}]}},
        {"when": {"tool_results": 1}, "answer": {"content": "then", "tool_calls": [
            {"id": MINE, "name": "mine", "arguments": {}},
            {"id": "c3", "name": "desk-echo", "arguments": {"n": 3}},
        ]}},
        {"when": {"tool_results": 3}, "answer": {"content": "done"}},
    ])
}

/// Returns the text of the next answer, to a request with `message` and the result of its call.
async fn answered(recall: &Recall, message: &Value) -> Value {
    let mut request = kept_by(recall);
    let messages = json!([
        {"role": "user", "content": "go"},
        message,
        {"role": "tool", "tool_call_id": MINE, "content": "mine"},
    ]);
    request.prompt.body.set("messages", messages.to_string());
    restore(recall, &mut request.prompt.body).await;
    let answer = ask_script(turns(), request, SETTINGS).await.expect("an answer");
    answer["choices"][0]["message"]["content"].clone()
}

pub(super) async fn restore(recall: &Recall, body: &mut RawObject) {
    let Ok(()) = recall
        .restore_messages(&Tenant::ANONYMOUS, body, |_| Ok::<(), std::convert::Infallible>(()))
        .await;
}

#[tokio::test]
async fn the_callers_calls_are_returned_alone_and_the_model_sees_all_results_in_the_next_request() {
    let recall = recall();
    let answer: Value =
        ask_script(turns(), kept_by(&recall), SETTINGS).await.expect("an answer").into();
    let choice = &answer["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!("then"), &json!("tool_calls"))
    );
    let calls = choice["message"]["tool_calls"].as_array().expect("calls");
    assert_eq!(calls.iter().map(|call| &call["id"]).collect::<Vec<_>>(), [MINE]);
    assert_eq!(answer["airlock"]["calls"].as_array().map(Vec::len), Some(2));
    assert_eq!(answered(&recall, &choice["message"]).await, "done");
}

#[tokio::test]
async fn calls_are_kept_of_as_many_choices_as_were_asked_for() {
    let other = "call_fedcba9876543210";
    let choices = [choice(0, MINE), choice(1, other)];
    for (n, kept) in [(None, [true, false]), (Some(1), [true, false]), (Some(2), [true, true])] {
        let recall = recall();
        let mut request = kept_by(&recall);
        if let Some(n) = n {
            request.prompt.body.set("n", n.to_string());
        }
        let answer = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices});
        let service = FakeService::start(vec![service::json("200 OK", &answer.to_string())]).await;
        let kind = Kind::Service(Box::new(Service::new(Api::OpenAi, &service.base_url)));
        let provider = model::Settings { name: "demo".to_owned(), kind, fallbacks: Vec::new() };
        let models = Models::new(&[provider]).expect("a good provider");
        complete(models, request, SETTINGS).await.expect("an answer");
        for (id, is_kept) in [MINE, other].into_iter().zip(kept) {
            let mut body = kept_by(&recall).prompt.body;
            let call = json!({"id": id, "type": "function", "function": {"name": "mine", "arguments": "{}"}});
            let messages = json!([
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": null, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": id, "content": "mine"},
            ]);
            body.set("messages", messages.to_string());
            restore(&recall, &mut body).await;
            let restored = body.get("messages").is_some_and(|text| text.contains("desk-echo"));
            assert_eq!(restored, is_kept, "{id} of {n:?}");
        }
    }
}

fn choice(index: usize, id: &str) -> Value {
    json!({"index": index, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null, "tool_calls": [
        {"id": id, "type": "function", "function": {"name": "mine", "arguments": "{}"}},
        {"id": format!("own{index}"), "type": "function", "function": {"name": "desk-echo", "arguments": "{}"}},
    ]}})
}

#[tokio::test]
async fn a_refusal_of_an_unknown_tool_is_kept_beside_a_call_of_the_caller() {
    let calls = json!([{"id": "c1", "name": "other"}, {"id": MINE, "name": "mine"}]);
    let turns = json!([{"answer": {"content": "own text", "tool_calls": calls}}]);
    let recall = recall();
    let answer = ask_script(turns, kept_by(&recall), SETTINGS).await.expect("an answer");
    let message = &answer["choices"][0]["message"];
    let calls = message["tool_calls"].as_array().expect("calls");
    assert_eq!(calls.iter().map(|call| &call["id"]).collect::<Vec<_>>(), [MINE]);
    let mut body = kept_by(&recall).prompt.body;
    let result = json!({"role": "tool", "tool_call_id": MINE, "content": "of the caller"});
    let messages = json!([{"role": "user", "content": "go"}, message, result]);
    body.set("messages", messages.to_string());
    restore(&recall, &mut body).await;
    let messages: Value = body.get("messages").expect("messages").parse().expect("JSON");
    assert_eq!(messages[1]["tool_calls"].as_array().map(Vec::len), Some(2), "{messages}");
    let refused = messages[2]["content"].as_str().expect("a text");
    assert!(refused.contains("'other' is not available"), "{messages}");
    assert_eq!(messages[3]["content"], "of the caller");
}

#[tokio::test]
async fn a_stream_has_the_callers_calls_alone_too() {
    let recall = recall();
    let request = Request { is_streamed: true, ..kept_by(&recall) };
    let mut stream = ReceivedStream::new(&request);
    let mut run =
        run(Arc::new(fake::scripted(&turns())), caller(&Filter::none()), request, SETTINGS);
    while let Some(mut event) = run.next().await {
        stream.add(&mut event);
    }
    let answer = stream.finish();
    let choice = &answer["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!("first\n\nthen"), &json!("tool_calls"))
    );
    assert_eq!(choice["message"]["tool_calls"].as_array().map(Vec::len), Some(1));
    assert_eq!(answered(&recall, &choice["message"]).await, "done");
}

#[tokio::test]
async fn results_are_text_only_if_all_pending_calls_need_an_approval_and_no_json_is_wanted() {
    let own = json!([{"name": "desk-echo"}, {"id": MINE, "name": "desk-write"}]);
    let mixed =
        json!([{"name": "desk-echo"}, {"id": MINE, "name": "desk-write"}, {"name": "mine"}]);
    let auto = ResultsAsText::Auto;
    let always = ResultsAsText::Always;
    let never = ResultsAsText::Never;
    for (calls, format, results_as_text, is_text) in [
        (&own, "text", auto, true),
        (&mixed, "text", auto, false),
        (&own, "json_schema", auto, false),
        (&own, "json_object", always, true),
        (&mixed, "text", always, true),
        (&own, "text", never, false),
    ] {
        let turns = json!([{"answer": {"content": "own text", "tool_calls": calls}}]);
        let mut request = kept_by(&recall());
        request.prompt.body.set("response_format", json!({"type": format}).to_string());
        let settings = Settings { results_as_text, ..SETTINGS };
        let answer = ask_script(turns, request, settings).await.expect("an answer");
        let text = answer["choices"][0]["message"]["content"].as_str().unwrap_or_default();
        let found = text.starts_with("The Output from allowed tools calls is - ");
        assert_eq!(found, is_text, "{calls} {format} {results_as_text:?}: {text}");
        assert!(is_text || text == "own text", "{text}");
    }
}

/// Returns the text of the answer, whole or streamed.
async fn text_of(turns: &Value, request: Request, settings: Settings) -> String {
    let models = Arc::new(fake::scripted(turns));
    let mut stream = ReceivedStream::new(&request);
    let mut run = run(models, caller(&Filter::none()), request, settings);
    let mut answered = None;
    while let Some(mut event) = run.next().await {
        stream.add(&mut event);
        if let Event::Done(done) = event {
            answered = done.answer.is_some().then(|| Value::from(whole(*done)));
        }
    }
    let answer = answered.unwrap_or_else(|| stream.finish());
    answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn an_answer_without_text_whose_calls_need_an_approval_says_so_to_a_client_without_tools() {
    let write = json!([{"id": MINE, "name": "desk-write"}]);
    let both = json!([{"id": MINE, "name": "desk-write"}, {"id": "c2", "name": "mine"}]);
    let tools = ("tools", json!([{"type": "function", "function": {"name": "mine"}}]));
    let wants_json = ("response_format", json!({"type": "json_object"}));
    let auto = ResultsAsText::Auto;
    for (calls, content, member, results_as_text, is_noted) in [
        (&write, "", None, auto, true),
        (&write, "", None, ResultsAsText::Never, false),
        (&write, "own text", None, auto, false),
        (&both, "", Some(tools.clone()), auto, false),
        (&write, "", Some(tools), auto, false),
        (&write, "", Some(wants_json), auto, false),
    ] {
        let turns = json!([{"answer": {"content": content, "tool_calls": calls}}]);
        let settings = Settings { results_as_text, ..SETTINGS };
        // Chat completions and Responses.
        for (is_streamed, shows_rounds) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let mut request =
                Request { is_streamed, shows_rounds, ..kept_without_tools_by(&recall()) };
            if let Some((name, value)) = &member {
                request.prompt.body.set(name, value.to_string());
            }
            let text = text_of(&turns, request, settings).await;
            let form = format!("streamed {is_streamed}, rounds {shows_rounds}");
            let case = format!("{calls} {content} {member:?} {results_as_text:?}, {form}");
            if is_noted {
                let begin =
                    "[Note of the gateway: `desk-write` needs an approval, so nothing was run.";
                assert!(text.starts_with(begin), "{case}: {text}");
                assert!(text.contains("`x-airlock-approval: wait`"), "{text}");
            } else {
                assert_eq!(text, content, "{case}");
            }
        }
    }
}

#[tokio::test]
async fn results_that_cannot_be_kept_are_text_unless_the_operator_wants_none() {
    for (id, results_as_text, is_text) in [
        ("call_0", ResultsAsText::Auto, true),
        ("call_0", ResultsAsText::Never, false),
        // Of Ollama.
        ("call_4f7kq2xw", ResultsAsText::Auto, false),
    ] {
        let calls = json!([{"name": "desk-echo"}, {"id": id, "name": "mine"}]);
        let turns = json!([{"answer": {"content": "own text", "tool_calls": calls}}]);
        let settings = Settings { results_as_text, ..SETTINGS };
        let answer = ask_script(turns, kept_by(&recall()), settings).await.expect("an answer");
        let text = answer["choices"][0]["message"]["content"].as_str().unwrap_or_default();
        assert_eq!(text != "own text", is_text, "{id} {results_as_text:?}: {text}");
    }
}

#[tokio::test]
async fn rounds_before_the_depth_limit_are_kept() {
    let recall = recall();
    let settings = Settings { max_depth: 1, ..SETTINGS };
    let again =
        json!([{"answer": {"tool_calls": [{"id": MINE, "name": "desk-echo", "arguments": {}}]}}]);
    let answer = ask_script(again, kept_by(&recall), settings).await.expect("an answer");
    let message = &answer["choices"][0]["message"];
    let id = message["tool_calls"][0]["id"].as_str().expect("an id").to_owned();
    let mut body = kept_by(&recall).prompt.body;
    let messages = json!([
        {"role": "user", "content": "go"},
        message,
        {"role": "tool", "tool_call_id": id, "content": "of the caller"},
    ]);
    body.set("messages", messages.to_string());
    restore(&recall, &mut body).await;
    let messages: Value = body.get("messages").expect("messages").parse().expect("JSON");
    let roles: Vec<_> =
        messages.as_array().into_iter().flatten().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "tool"]);
}
