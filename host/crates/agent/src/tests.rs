use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use serde_json::{Value, json};

use self::received::ReceivedStream;
use super::{conversation::Conversation, *};
use airlock_conversation::{Object, Reply, Wire};
use airlock_core::{
    door::{Caller, Filter, Origin},
    memory::{Limited, MemoryBudget},
    threads::INLINE_BYTES,
    tool::{Allowlist, ClientName, Policy, Prefix},
};
use airlock_fakes as fake;
use airlock_json::{RawObject, object};
use airlock_model::{Models, Prompt};

mod approvals;
mod controlled;
mod guarded;
mod hostile;
mod images;
mod limits;
mod members;
mod placeholders;
mod received;
mod stories;
mod streams;
mod tiers;
mod tokens;
mod unknown;
mod unseen;
mod waiting;

pub(super) const SETTINGS: Settings = Settings {
    max_depth: 3,
    parallel_calls: 4,
    calls_per_answer: 6,
    max_tool_bytes: 1 << 20,
    timeout: Duration::from_secs(30),
    disable_auto_tool_inject: false,
    results_as_text: ResultsAsText::Auto,
    approval: airlock_core::door::ApprovalChoice::Return,
    approval_wait: std::time::Duration::from_secs(30),
    tool_mode: None,
};

fn caller(filter: &Filter) -> Caller {
    let (catalog, _) = fake::catalog();
    Caller::new(catalog.snapshot().view(filter, None), Origin::Model, fake::BUDGET)
}

fn request() -> Request {
    let body = json!({"model": "demo/m", "messages": [{"role": "user", "content": "go"}]});
    Request {
        wire: Wire::Chat,
        prompt: Prompt::new(RawObject::from(&object(body))),
        is_streamed: false,
        shows_rounds: false,
        names_tools: false,
        max_tool_calls: None,
        reports: None,
        results: None,
        keeper: None,
        approver: None,
        notes: Object::new(),
        tokens: TokenVisibility::Hidden,
        budget: MemoryBudget::unlimited(),
        observer: None,
    }
}

/// Returns a request of a caller that has the tool `mine`.
fn with_own_tool(mut request: Request) -> Request {
    let own = json!([{"type": "function", "function": {"name": "mine"}}]);
    request.prompt.body.set("tools", own.to_string());
    request
}

/// Asks a model that responds to `"go"` with `calls`, and to any results with
/// `{{last_tool_result}}`.
async fn ask(calls: Value) -> Value {
    let turns = json!([
        {"when": {"role": "user"}, "answer": {"content": "let me see", "tool_calls": calls}},
        {"answer": {"content": "done: {{last_tool_result}}"}},
    ]);
    ask_script(turns, request(), SETTINGS).await.expect("an answer").into()
}

async fn ask_script(
    turns: Value,
    request: Request,
    settings: Settings,
) -> Result<Object, AgentError> {
    complete(fake::scripted(&turns), request, settings).await
}

/// Returns the whole response.
async fn complete(
    models: Models,
    request: Request,
    settings: Settings,
) -> Result<Object, AgentError> {
    let run = run(Arc::new(models), caller(&Filter::none()), request, settings);
    run.finish().await.map(whole).map_err(|error| *error)
}

/// Returns the whole response of a request that was not streamed, as a chat completion.
fn whole(completion: Completion) -> Object {
    let answer = completion.answer.expect("it was not streamed");
    answer.into_chat(completion.airlock).into_object()
}

/// Returns the `airlock` object of a response without the values that differ between runs.
fn masked(answer: &Value) -> Value {
    fn mask(value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(mask),
            Value::Object(members) => {
                for (key, value) in members.iter_mut() {
                    match (key.as_str(), &value) {
                        ("id" | "parent", Value::String(_)) => *value = "[uuid]".into(),
                        ("duration_ms", Value::Number(_)) => *value = "[ms]".into(),
                        _ => mask(value),
                    }
                }
            }
            _ => {}
        }
    }
    let mut extension = answer["airlock"].clone();
    mask(&mut extension);
    extension
}

#[tokio::test]
async fn permitted_tools_are_run_and_the_model_gets_their_results() {
    let answer = ask(json!([{"id": "c1", "name": "desk-echo", "arguments": {"n": 1}}])).await;
    assert_eq!(answer["choices"][0]["message"]["content"], r#"done: echo {"n":1}"#);
    assert_eq!(answer["choices"][0]["finish_reason"], "stop");
    let expected = json!({
        "calls": [{"id": "[uuid]", "tool_call_id": "c1", "parent": null, "name": "desk-echo", "arguments": {"n": 1},
                   "status": "ok", "duration_ms": "[ms]", "fuel": 7, "result": "echo {\"n\":1}"}],
        "rounds": 1,
    });
    assert_eq!(masked(&answer), expected);
    let usage = &answer["usage"];
    assert_eq!(
        usage["total_tokens"],
        usage["prompt_tokens"].as_u64().expect("a number")
            + usage["completion_tokens"].as_u64().expect("a number")
    );
}

#[tokio::test]
async fn a_response_without_calls_is_returned_unchanged() {
    let turns = json!([{"answer": {"content": "hello"}}]);
    let answer = ask_script(turns, request(), SETTINGS).await.expect("an answer");
    assert_eq!(answer["choices"][0]["message"]["content"], "hello");
    assert!(!answer.contains_key("airlock"));
}

#[tokio::test]
async fn calls_of_a_round_run_together_and_their_results_come_in_call_order() {
    let turns = json!([
        {"when": {"role": "user"}, "answer": {"tool_calls": [{"name": "desk-meet_a"}, {"name": "desk-meet_b"}]}},
        {"when": {"tool_results": 2, "contains": "meet_b"}, "answer": {"content": "{{last_tool_result}}"}},
    ]);
    let answer = ask_script(turns, request(), SETTINGS).await.expect("an answer");
    assert_eq!(answer["choices"][0]["message"]["content"], "meet_b {}");
}

#[tokio::test]
async fn errors_of_tools_become_results_for_the_model() {
    for (name, arguments, told) in [
        ("desk-fail", json!({}), "Error executing tool desk-fail: no luck"),
        (
            "desk-busy",
            json!({}),
            "Error executing tool desk-busy: the gateway is busy; try again in a moment",
        ),
        (
            "desk-echo",
            json!([1]),
            "Error executing tool desk-echo: the arguments of tool 'desk-echo' cannot be used: found an array, expected a JSON object",
        ),
    ] {
        let answer = ask(json!([{"name": name, "arguments": arguments}])).await;
        assert_eq!(answer["choices"][0]["message"]["content"], format!("done: {told}"));
        assert_eq!(answer["airlock"]["calls"][0]["status"], "error");
    }
}

#[tokio::test]
async fn calls_that_need_approval_are_returned_in_the_unchanged_response() {
    let calls = json!([{"id": "c1", "name": "desk-write", "arguments": {"a": 1}}, {"id": "c2", "name": "mine"}]);
    let turns = json!([{"answer": {"content": "let me see", "tool_calls": calls}}]);
    let answer = ask_script(turns, with_own_tool(request()), SETTINGS).await.expect("an answer");
    let answer = Value::from(answer);
    let choice = &answer["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!("let me see"), &json!("tool_calls"))
    );
    assert_eq!(
        choice["message"]["tool_calls"][0]["function"],
        json!({"name": "desk-write", "arguments": r#"{"a":1}"#})
    );
    let expected = json!({"calls": [], "rounds": 0, "pending": [
        {"tool_call_id": "c1", "name": "desk-write", "reason": "needs_approval"},
        {"tool_call_id": "c2", "name": "mine", "reason": "not_offered"},
    ]});
    assert_eq!(masked(&answer), expected);
}

#[tokio::test]
async fn a_pending_call_has_the_full_name_of_its_tool_if_the_model_used_another_one() {
    let (catalog, _) = fake::catalog();
    let policy = Policy { execute: Allowlist::All, prefix: Prefix::Off, ..Policy::default() };
    catalog.set_policy(&ClientName::parse("desk").expect("a good name"), policy);
    let view = catalog.snapshot().view(&Filter::none(), None);
    let calls = json!([{"id": "c1", "name": "write"}]);
    let turns = json!([{"answer": {"content": "let me see", "tool_calls": calls}}]);
    let caller = Caller::new(view, Origin::Model, fake::BUDGET);
    let run = run(Arc::new(fake::scripted(&turns)), caller, request(), SETTINGS);
    let answer =
        Value::from(run.finish().await.map(whole).map_err(|error| *error).expect("an answer"));
    let pending = json!({"tool_call_id": "c1", "name": "write", "full_name": "desk-write", "reason": "needs_approval"});
    assert_eq!(answer["airlock"]["pending"], json!([pending]));
    // Its message is as the model wrote it.
    let name = &answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"];
    assert_eq!(name, "write");
}

#[tokio::test]
async fn a_mixed_response_contains_results_and_pending_calls() {
    let answer = ask(json!([
        {"id": "c1", "name": "desk-echo", "arguments": {"n": 1}},
        {"id": "c2", "name": "desk-write"},
        {"id": "c3", "name": "desk-echo", "arguments": {"n": 2}},
    ]))
    .await;
    let [choice] = answer["choices"].as_array().expect("a list").as_slice() else {
        panic!("one choice")
    };
    let content = "The Output from allowed tools calls is - \
                   {\"desk-echo\":\"echo {\\\"n\\\":1}\",\"desk-echo#c3\":\"echo {\\\"n\\\":2}\"}\n\nNow I shall call these tools next...";
    assert_eq!(choice["message"]["content"], content);
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["tool_calls"].as_array().expect("a list").len(), 1);
    assert_eq!(choice["message"]["tool_calls"][0]["id"], "c2");
    assert_eq!(answer["airlock"]["calls"].as_array().expect("a list").len(), 2);
}

#[tokio::test]
async fn a_script_is_traced_with_its_calls_and_is_pending_if_one_needs_approval() {
    let answer =
        ask(json!([{"id": "c1", "name": "executeToolCode", "arguments": {"code": "files-read"}}]))
            .await;
    let calls = masked(&answer)["calls"].clone();
    let names: Vec<_> = calls
        .as_array()
        .expect("a list")
        .iter()
        .map(|call| (&call["name"], &call["parent"]))
        .collect();
    let nested = (&json!("files-read"), &json!("[uuid]"));
    assert_eq!(names, [(&json!("executeToolCode"), &Value::Null), nested, nested]);

    let answer =
        ask(json!([{"id": "c1", "name": "executeToolCode", "arguments": {"code": "files-write"}}]))
            .await;
    assert_eq!(answer["choices"][0]["message"]["content"], "let me see");
    let needs = json!({"name": "files-write", "arguments": {"path": "a"}});
    let pending = json!([{"tool_call_id": "c1", "name": "executeToolCode", "reason": "needs_approval", "needs": needs}]);
    assert_eq!(answer["airlock"]["pending"], pending);
    assert_eq!(answer["airlock"]["calls"][0]["error"]["code"], "airlock.needs_approval");
}

fn openai(base_url: &str) -> airlock_model::Kind {
    use airlock_model::{Api, Kind, Service};
    Kind::Service(Box::new(Service::new(Api::OpenAi, base_url)))
}

#[tokio::test]
async fn repeated_call_ids_are_replaced() {
    let turns = json!([
        {"when": {"tool_results": 2}, "answer": {"content": "end"}},
        {"answer": {"tool_calls": [{"id": "same", "name": "desk-echo"}]}},
    ]);
    let answer = ask_script(turns, request(), SETTINGS).await.expect("an answer");
    let calls = answer["airlock"]["calls"].as_array().expect("a list");
    assert_eq!(calls[0]["tool_call_id"], "same");
    assert_ne!(calls[1]["tool_call_id"], "same");
}

#[tokio::test]
async fn a_failure_of_the_model_reports_the_calls_made_before() {
    let turns = json!([
        {"when": {"role": "user"}, "answer": {"tool_calls": [{"name": "desk-echo"}]}},
        {"answer": {"error": {"status": 429, "message": "slow down", "retry_after": 2}}},
    ]);
    let failed = ask_script(turns, request(), SETTINGS).await.expect_err("the second round fails");
    assert_eq!(
        (failed.error.status().as_u16(), failed.error.to_object()["message"].as_str()),
        (429, Some("slow down"))
    );
    assert_eq!(failed.error.retry_after().expect("it was sent").as_secs(), 2);
    assert_eq!(failed.airlock.expect("a call was made")["calls"][0]["name"], "desk-echo");
}

#[tokio::test]
async fn a_tool_of_the_caller_takes_precedence_and_is_never_run() {
    let mut request = request();
    let own =
        json!([{"type": "function", "function": {"name": "desk-echo", "description": "mine"}}]);
    request.prompt.body.set("tools", own.to_string());
    let turns = json!([{"answer": {"tool_calls": [{"name": "desk-echo"}, {"name": "desk-fail"}]}}]);
    let answer = ask_script(turns, request, SETTINGS).await.expect("an answer");
    assert_eq!(answer["airlock"]["pending"][0]["reason"], "not_offered");
    assert_eq!(answer["choices"][0]["message"]["tool_calls"].as_array().expect("a list").len(), 1);
}

#[tokio::test]
async fn tools_are_offered_sorted_after_the_callers_own() {
    let mut request = request();
    let own = json!({"type": "function", "function": {"name": "desk-write"}});
    request.prompt.body.set("tools", json!([own]).to_string());
    let conversation = Conversation::begin(request, &caller(&Filter::none()), &SETTINGS).await;
    let names = names(&conversation.prompt);
    let sorted = [
        "desk-busy",
        "desk-echo",
        "desk-fail",
        "desk-hang",
        "desk-large",
        "desk-look",
        "desk-meet_a",
        "desk-meet_b",
        "desk-panic",
        "desk-report",
        "executeToolCode",
    ];
    assert_eq!(names, [&["desk-write"], &sorted[..]].concat());
}

#[tokio::test]
async fn a_long_list_of_tools_is_not_read_on_a_worker() {
    let caller = caller(&Filter::none());
    let held = airlock_core::threads::occupy(caller.view().tenant()).await;
    for (member, text) in [
        ("tools", format!(r#"[{{"x":"{}"}}]"#, "x".repeat(INLINE_BYTES))),
        ("tool_choice", format!(r#"{{"x":"{}"}}"#, "x".repeat(INLINE_BYTES))),
    ] {
        let mut request = request();
        request.prompt.body.set(member, text);
        let begun = Conversation::begin(request, &caller, &SETTINGS).now_or_never();
        assert!(begun.is_none(), "{member}");
    }
    let short = Conversation::begin(request(), &caller, &SETTINGS).now_or_never();
    assert!(short.is_some());
    drop(held);
}

/// Returns the names of all tools of a request.
fn names(prompt: &airlock_model::Prompt) -> Vec<String> {
    let tools = prompt.tools.iter().map(|tool| tool.name.as_str().to_owned());
    prompt.own_names().chain(tools).collect()
}

#[tokio::test]
async fn without_auto_inject_a_request_must_name_its_tools() {
    let settings = Settings { disable_auto_tool_inject: true, ..SETTINGS };
    let everything = caller(&Filter::none());
    let unnamed = Conversation::begin(request(), &everything, &settings).await;
    assert_eq!(unnamed.prompt.tools.len(), 0);
    let named = Request { names_tools: true, ..request() };
    let caller = caller(&Filter::parse(None, Some("desk-echo")));
    let named = Conversation::begin(named, &caller, &settings).await;
    assert_eq!(named.prompt.tools.len(), 1);
}

#[tokio::test]
async fn a_forced_tool_choice_applies_to_the_first_round_only_unless_the_caller_has_tools() {
    let own = json!([{"type": "function", "function": {"name": "mine"}}]);
    for (before, tools, after) in [
        (json!("required"), json!([]), "auto"),
        (json!("required"), own.clone(), "required"),
        (json!({"type": "function"}), own, "auto"),
        (json!("none"), json!([]), "none"),
    ] {
        let mut request = request();
        request.prompt.body.set("tool_choice", before.to_string());
        request.prompt.body.set("tools", tools.to_string());
        let mut conversation =
            Conversation::begin(request, &caller(&Filter::none()), &SETTINGS).await;
        conversation.add_round(Reply::default().into(), &[]);
        let after = format!("{after:?}");
        assert_eq!(conversation.prompt.body.get("tool_choice"), Some(after.as_str()));
    }
}
