//! Calls of tools that are neither offered nor the caller's own.

use super::{
    streams::{lines, seen, streamed},
    *,
};
use airlock_conversation::Delta;
use airlock_test_http::model::{self as service, FakeService};

/// Calls `name`, and then repeats the result.
fn turns(name: &str) -> Value {
    json!([
        {"when": {"role": "user"}, "answer": {"content": "hm", "tool_calls": [{"id": "c1", "name": name, "arguments": {"n": 1}}]}},
        {"answer": {"content": "done: {{last_tool_result}}"}},
    ])
}

fn text(answer: &Object) -> String {
    answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_call_of_an_unknown_tool_is_answered_and_the_loop_goes_on() {
    let answer = ask_script(turns("desk-eccho"), request(), SETTINGS).await.expect("an answer");
    let message =
        "tool 'desk-eccho' is not available or not permitted; did you mean \"desk-echo\"?";
    assert_eq!(text(&answer), format!("done: Error executing tool desk-eccho: {message}"));
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let error = json!({"code": "airlock.not_found", "kind": "not_found", "message": message});
    let expected = json!({
        "calls": [{"id": null, "tool_call_id": "c1", "parent": null, "name": "desk-eccho", "arguments": "{\"n\":1}",
                   "status": "error", "error": error, "duration_ms": "[ms]",
                   "result": format!("Error executing tool desk-eccho: {message}")}],
        "rounds": 1,
    });
    assert_eq!(masked(&answer.into()), expected);
}

#[tokio::test]
async fn a_hidden_tool_has_the_error_of_an_unknown_one() {
    let filter = Filter::parse(None, Some("desk-echo"));
    let mut texts = Vec::new();
    for name in ["desk-write", "desk-zzzzz"] {
        let models = Arc::new(fake::scripted(&turns(name)));
        let done = run(models, caller(&filter), request(), SETTINGS).finish().await;
        let answer = whole(done.expect("an answer"));
        texts.push(text(&answer).replace(name, "NAME"));
    }
    assert!(texts[0].contains("'NAME' is not available"), "{texts:?}");
    assert_eq!(texts[0], texts[1]);
}

#[tokio::test]
async fn a_stream_does_not_have_calls_of_unknown_tools() {
    let calls = |own: Value| {
        json!([
            {"when": {"role": "user"}, "answer": {"tool_calls": [{"id": "c1", "name": "other", "arguments": {}}]}},
            {"answer": {"content": "so", "tool_calls": own}},
        ])
    };
    assert_eq!(
        seen(calls(json!([])), with_own_tool(streamed()), SETTINGS).await,
        lines(
            r#"
            [0] role="assistant" content=""
            started c1 other
            ended c1 airlock.not_found
            round 1
            [0] content="so"
            [0] end="stop" airlock
            done, airlock: true
        "#
        )
    );
    let own = json!([{"id": "c2", "name": "other", "arguments": {}}, {"id": "c3", "name": "mine", "arguments": {}}]);
    let settings = Settings { results_as_text: ResultsAsText::Never, ..SETTINGS };
    assert_eq!(
        seen(calls(own), with_own_tool(streamed()), settings).await,
        lines(
            r#"
            [0] role="assistant" content=""
            started c1 other
            ended c1 airlock.not_found
            round 1
            [0] content="so"
            [0] call 0 c3 mine ""
            [0] call 0 - - "{}"
            started c2 other
            ended c2 airlock.not_found
            [0] end="tool_calls" airlock
            done, airlock: true
        "#
        )
    );
}

#[tokio::test]
async fn shown_rounds_have_calls_of_unknown_tools_in_the_order_of_the_model() {
    let calls = json!([{"id": "c1", "name": "other", "arguments": {}}, {"id": "m1", "name": "mine", "arguments": {}}]);
    for request in [streamed(), request()] {
        let turns = json!([{"answer": {"tool_calls": calls}}]);
        let request = Request { shows_rounds: true, ..with_own_tool(request) };
        let seen = seen(turns, request, SETTINGS).await;
        let at = |part: &str| seen.iter().position(|line| line.contains(part));
        let [ended, own] = [at("ended c1 airlock.not_found"), at("m1 mine")];
        assert!(ended.is_some() && ended < own, "{seen:?}");
        assert_eq!(at("c1 other"), at("started c1"), "{seen:?}");
    }
}

/// Returns the chunks of a call whose name arrives in two pieces.
fn in_pieces(id: &str, first: &str, second: &str) -> String {
    let choice = |function: Value, id: Option<&str>, end: Option<&str>| {
        let call = json!({"index": 0, "id": id, "type": "function", "function": function});
        let choice = json!({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": end});
        format!("data: {}\n\n", json!({"id": "x", "choices": [choice]}))
    };
    let first = choice(json!({"name": first}), Some(id), None);
    let second = json!({"name": second, "arguments": "{}"});
    service::events(&(first + &choice(second, None, Some("tool_calls")) + "data: [DONE]\n\n"))
}

#[tokio::test]
async fn a_name_in_pieces_is_held_back_until_it_is_known_whose_it_is() {
    let answers = vec![
        in_pieces("a", "desk-", "nothing"),
        in_pieces("b", "mi", "nus"),
        in_pieces("c", "mi", "ne"),
    ];
    let server = FakeService::start(answers).await;
    let kind = openai(&server.base_url);
    let provider = airlock_model::Settings { name: "demo".into(), kind, fallbacks: Vec::new() };
    let models = Arc::new(Models::new(&[provider]).expect("good settings"));
    let request = with_own_tool(streamed());
    let settings = Settings { results_as_text: ResultsAsText::Never, ..SETTINGS };
    let mut run = run(models, caller(&Filter::none()), request, settings);
    let mut shown = Vec::new();
    let mut refused = Vec::new();
    while let Some(event) = run.next().await {
        match event {
            Event::Chunk(chunk) => {
                shown.extend(chunk.into_deltas().into_iter().filter_map(|delta| match delta {
                    Delta::Call { name, .. } => Some(name),
                    _ => None,
                }));
            }
            Event::Ended(call) => refused.push((call.name, call.error.map(|error| error.code))),
            _ => {}
        }
    }
    let code = || Some("airlock.not_found".to_owned());
    assert_eq!(refused, [("desk-nothing".to_owned(), code()), ("minus".to_owned(), code())]);
    assert_eq!(shown, ["mine"]);
}

#[tokio::test]
async fn unknown_tools_are_called_until_the_depth_limit() {
    let again = json!([{"answer": {"tool_calls": [{"name": "other"}]}}]);
    let settings = Settings { max_depth: 2, ..SETTINGS };
    let answer = ask_script(again, request(), settings).await.expect("an answer");
    let airlock = &answer["airlock"];
    assert_eq!(
        (&airlock["rounds"], airlock["calls"].as_array().map(Vec::len)),
        (&json!(2), Some(2))
    );
    assert_eq!(airlock["pending"][0]["reason"], "not_offered");
    assert_eq!(airlock.get("depth_limit_reached"), None);
}

#[tokio::test]
async fn unknown_tools_count_towards_the_limit_of_the_request() {
    let calls = json!([{"name": "other"}, {"name": "desk-echo"}]);
    let turns = json!([
        {"when": {"role": "user"}, "answer": {"tool_calls": calls}},
        {"answer": {"content": "done"}},
    ]);
    let request = Request { max_tool_calls: Some(1), ..request() };
    let answer = ask_script(turns, request, SETTINGS).await.expect("an answer");
    let calls = answer["airlock"]["calls"].as_array().expect("a list");
    let codes: Vec<_> = calls.iter().map(|call| &call["error"]["code"]).collect();
    assert_eq!(codes, ["airlock.not_found", "airlock.max_tool_calls"]);
}

#[tokio::test]
async fn calls_are_the_callers_beside_a_tool_without_a_name() {
    let mut request = request();
    request.prompt.body.set("tools", r#"[{"type":"web_search","web_search":{}}]"#);
    let answer = ask_script(turns("other"), request, SETTINGS).await.expect("an answer");
    assert_eq!(answer["airlock"]["pending"][0]["reason"], "not_offered");
    assert_eq!(answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "other");
}

#[tokio::test]
async fn a_restriction_to_some_tools_holds_whatever_the_model_calls() {
    let turns = json!([
        {"when": {"role": "user"}, "answer": {"tool_calls": [{"id": "c", "name": "desk-fail", "arguments": {}}]}},
        {"answer": {"content": "done"}},
    ]);
    let mut request = request();
    let allowed = json!({"tools": [{"type": "function", "function": {"name": "desk-echo"}}]});
    let choice = json!({"type": "allowed_tools", "allowed_tools": allowed});
    request.prompt.body.set("tool_choice", choice.to_string());
    let answer = ask_script(turns, request, SETTINGS).await.expect("an answer");
    assert_eq!(answer["airlock"]["calls"][0]["error"]["code"], "airlock.not_found");
}
