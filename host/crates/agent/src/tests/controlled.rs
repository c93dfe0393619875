//! Requests to models under a control.

use std::fs;

use airlock_core::model_control::TokenUsage;
use airlock_fakes::{RecordingControl, Told};
use airlock_model::{Api, Kind, Retries, Service, Settings as Provider};
use airlock_test_http::model::{self as service, FakeService};

use super::*;

fn controlled(turns: &Value, control: &RecordingControl) -> Models {
    fake::scripted(turns).with_control(Arc::new(control.clone()))
}

/// Returns an echo in the first round, and a text in the second one.
fn two_rounds() -> Value {
    json!([
        {"when": {"role": "user"}, "answer": {"content": "I see", "tool_calls": [{"id": "c1", "name": "desk-echo"}]}},
        {"answer": {"content": "done: {{last_tool_result}}"}},
    ])
}

fn begun(model: &str, is_streamed: bool) -> Told {
    Told::Begun { model: model.to_owned(), key: None, most: None, is_streamed }
}

/// Returns the end of a request without a response.
fn failed(error: &str, has_not_begun: bool) -> Told {
    let error = Some(error.to_owned());
    Told::Ended { provider: None, model: None, usage: None, cost: None, error, has_not_begun }
}

/// Returns the end of a response of `demo/m` that was cut off or complete.
fn ended(usage: Option<TokenUsage>, error: Option<&str>) -> Told {
    let error = error.map(str::to_owned);
    let [provider, model] = ["demo", "m"].map(|name| Some(name.to_owned()));
    Told::Ended { provider, model, usage, cost: None, error, has_not_begun: false }
}

fn usage_of(told: &Told) -> TokenUsage {
    let Told::Ended { usage: Some(usage), .. } = told else { panic!("{told:?}") };
    *usage
}

/// Starts a streamed request.
fn start(models: Models, request: Request, settings: Settings) -> Run {
    run(Arc::new(models), caller(&Filter::none()), request, settings)
}

/// Returns the chunks that a caller receives, without what differs between runs.
async fn received(models: Models, request: Request, settings: Settings) -> Vec<Value> {
    let mut stream = ReceivedStream::new(&request);
    let mut run = start(models, request, settings);
    let mut chunks = Vec::new();
    while let Some(mut event) = run.next().await {
        if let Event::Failed(error) = &event {
            panic!("{error:?}");
        }
        chunks.extend(stream.chunks(&mut event));
    }
    for chunk in &mut chunks {
        for name in ["id", "created", EXTENSION] {
            chunk.shift_remove(name);
        }
    }
    chunks.into_iter().map(Value::from).collect()
}

fn streaming(includes_usage: bool) -> Request {
    let mut request = Request { is_streamed: true, ..request() };
    if includes_usage {
        request.prompt.body.set("stream_options", r#"{"include_usage": true}"#);
    }
    request
}

/// Settings with which no tools are offered, so that chunks are passed on as they came.
const PASSING: Settings = Settings { disable_auto_tool_inject: true, ..SETTINGS };

#[tokio::test]
async fn each_round_is_one_request_with_its_own_usage_and_the_response_has_the_cost_of_all() {
    let control = RecordingControl::default().with_cost(10);
    let mut request = request();
    request.prompt.body.set("max_tokens", "7");
    let answer = complete(controlled(&two_rounds(), &control), request, SETTINGS).await;
    let answer = Value::from(answer.expect("an answer"));
    assert_eq!(answer["airlock"]["cost"], json!({"usd_micros": 20}));
    let told = control.told();
    let [first, one, second, other] = told.as_slice() else { panic!("{told:?}") };
    let begun =
        Told::Begun { model: "demo/m".into(), key: None, most: Some(7), is_streamed: false };
    assert_eq!((first, second), (&begun, &begun));
    let sum = usage_of(one).input + usage_of(other).input;
    assert_eq!(answer["usage"]["prompt_tokens"], sum);
    for told in [one, other] {
        let Told::Ended { cost, error, .. } = told else { panic!("{told:?}") };
        assert_eq!((*cost, error), (Some(10), &None));
    }
}

#[tokio::test]
async fn a_response_without_calls_stays_as_it_came_and_a_cost_needs_every_price() {
    let turns = json!([{"answer": {"content": "hello"}}]);
    let control = RecordingControl::default().with_cost(10);
    let run = start(controlled(&turns, &control), request(), SETTINGS);
    let answering = run.answering();
    let answer = run.finish().await.expect("an answer");
    assert!(!whole(answer).contains_key(EXTENSION));
    assert_eq!((answering.provider(), answering.cost()), (Some("demo"), Some(10)));
    let unpriced = RecordingControl::default();
    let answer = complete(controlled(&two_rounds(), &unpriced), request(), SETTINGS).await;
    assert_eq!(Value::from(answer.expect("an answer"))["airlock"].get("cost"), None);
}

#[tokio::test]
async fn a_stream_tells_its_usage_to_the_control_and_to_a_caller_who_asked() {
    for settings in [SETTINGS, PASSING] {
        for turns in [two_rounds(), json!([{"answer": {"content": "a b c"}}])] {
            for asks in [false, true] {
                let plain = received(fake::scripted(&turns), streaming(asks), settings).await;
                let control = RecordingControl::default();
                let models = controlled(&turns, &control);
                let seen = received(models, streaming(asks), settings).await;
                assert_eq!(seen, plain);
                let has_usage = seen.iter().any(|chunk| chunk.get("usage").is_some());
                assert_eq!(has_usage, asks, "{seen:?}");
                let ends = control.ends();
                assert!(!ends.is_empty() && ends.iter().all(|end| usage_of(end).output > 0));
            }
        }
    }
}

#[tokio::test]
async fn a_refused_request_fails_before_anything_is_sent() {
    for is_streamed in [false, true] {
        let control = RecordingControl::default().permitting(0);
        let request = Request { is_streamed, ..request() };
        let error = start(controlled(&two_rounds(), &control), request, SETTINGS).finish().await;
        let AgentError { error, airlock } = *error.expect_err("it is refused");
        assert_eq!((error.status().as_u16(), error.code()), (429, "limit_reached"));
        assert_eq!(error.retry_after(), Some(fake::WAIT));
        assert_eq!((airlock, control.told()), (None, vec![Told::Refused]));
    }
}

#[tokio::test]
async fn a_refused_later_round_fails_with_the_calls_that_were_made() {
    for is_streamed in [false, true] {
        let control = RecordingControl::default().permitting(1);
        let request = Request { is_streamed, ..request() };
        let mut run = start(controlled(&two_rounds(), &control), request, SETTINGS);
        let mut chunks = 0;
        let failed = loop {
            match run.next().await.expect("an event") {
                Event::Chunk(_) => chunks += 1,
                Event::Failed(failed) => break failed,
                Event::Done(_) => panic!("it is refused"),
                _ => {}
            }
        };
        assert_eq!(chunks > 0, is_streamed);
        assert_eq!(failed.error.code(), "limit_reached");
        let airlock = Value::from(failed.airlock.expect("a call was made"));
        assert_eq!(airlock["calls"][0]["status"], "ok");
        let told = control.told();
        let [begun, ended, refused] = told.as_slice() else { panic!("{told:?}") };
        assert!(matches!(begun, Told::Begun { .. }) && usage_of(ended).input > 0);
        assert_eq!(refused, &Told::Refused);
    }
}

#[tokio::test]
async fn an_error_before_the_response_tells_whether_a_provider_has_begun() {
    for (status, has_not_begun) in [
        (400, true),
        (401, true),
        (408, false),
        (429, true),
        (500, false),
        (503, true),
        (504, false),
    ] {
        let turns = json!([{"answer": {"error": {"status": status, "message": "no"}}}]);
        for is_streamed in [false, true] {
            let control = RecordingControl::default();
            let request = Request { is_streamed, ..request() };
            let run = start(controlled(&turns, &control), request, SETTINGS);
            run.finish().await.expect_err("it fails");
            assert_eq!(control.ends(), [failed("provider_refused", has_not_begun)], "{status}");
        }
    }
    let control = RecordingControl::default();
    let error = complete(controlled(&json!([]), &control), request(), SETTINGS).await;
    assert_eq!(error.expect_err("no turn").error.code(), "no_matching_turn");
    assert_eq!(control.told(), [begun("demo/m", false), failed("no_matching_turn", true)]);
}

#[tokio::test]
async fn an_error_in_a_stream_ends_the_request_without_a_usage() {
    let error = json!({"status": 429, "message": "no", "after": 2});
    let turns = json!([{"answer": {"content": "a b c d", "error": error}}]);
    for settings in [SETTINGS, PASSING] {
        let control = RecordingControl::default();
        let run = start(controlled(&turns, &control), streaming(false), settings);
        run.finish().await.expect_err("it fails");
        assert_eq!(control.ends(), [ended(None, Some("provider_refused"))]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_passes_the_deadline_is_ended() {
    let turns = json!([{"answer": {"content": "a b c d", "pace": "2s"}}]);
    let settings = Settings { timeout: Duration::from_secs(5), ..SETTINGS };
    let control = RecordingControl::default();
    let run = start(controlled(&turns, &control), streaming(false), settings);
    run.finish().await.expect_err("it is late");
    assert_eq!(control.ends(), [ended(None, Some("agent_timeout"))]);
}

#[tokio::test]
async fn a_dropped_stream_is_cancelled_unless_its_usage_has_come() {
    let turns = json!([{"answer": {"content": "a b c"}}]);
    for settings in [SETTINGS, PASSING] {
        let control = RecordingControl::default();
        let mut run = start(controlled(&turns, &control), streaming(false), settings);
        assert!(matches!(run.next().await, Some(Event::Chunk(_))));
        drop(run);
        assert_eq!(control.ends(), [ended(None, Some("cancelled"))]);
    }
    let control = RecordingControl::default();
    let mut run = start(controlled(&turns, &control), streaming(true), PASSING);
    loop {
        match run.next().await {
            Some(Event::Chunk(chunk)) if chunk.is_usage() => break,
            Some(Event::Chunk(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    drop(run);
    let ends = control.ends();
    let [end] = ends.as_slice() else { panic!("{ends:?}") };
    // After the usage, the loop is one event ahead of its reader, so that it has read the end of the stream.
    assert_eq!(end, &ended(Some(usage_of(end)), None));
}

#[tokio::test]
async fn a_count_from_the_beginning_of_a_stream_is_not_that_of_a_stream_that_is_cut_off() {
    let begin = r#"data: {"model":"m","choices":[{"index":0,"delta":{"content":"a"}}]"#;
    let early = r#","usage":{"prompt_tokens":9,"completion_tokens":0}"#;
    let late = r#","usage":{"prompt_tokens":9,"completion_tokens":5}"#;
    let counted = TokenUsage { input: 9, output: 5, ..TokenUsage::default() };
    for (usage, expected) in [([early, ""], None), ([early, late], Some(counted))] {
        let events = service::events(&usage.map(|usage| format!("{begin}{usage}}}\n\n")).concat());
        let server = FakeService::start(vec![events]).await;
        let control = RecordingControl::default();
        let run = start(openai(&server.base_url, &control), streaming(true), PASSING);
        run.finish().await.expect_err("it has no end");
        assert_eq!(control.ends(), [ended(expected, Some("provider_bad_answer"))]);
    }
}

/// Returns providers that follow these turns.
pub(super) fn providers(turns: &[(&str, Value)], control: &RecordingControl) -> Models {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = turns.iter().map(|(name, answer)| {
        let script = directory.path().join(name);
        let turns = json!({"turns": [{"answer": answer}]});
        fs::write(&script, turns.to_string()).expect("a file");
        let kind = Kind::Scripted { script };
        Provider { name: (*name).to_owned(), kind, fallbacks: Vec::new() }
    });
    let models = Models::new(&settings.collect::<Vec<_>>()).expect("good scripts");
    models.with_control(Arc::new(control.clone()))
}

#[tokio::test]
async fn fallbacks_are_a_part_of_one_request() {
    let broken = json!({"error": {"status": 503, "message": "no"}});
    let turns = [("demo", broken.clone()), ("other", json!({"content": "hi"})), ("third", broken)];
    for (fallbacks, expected) in
        [(r#"["third/x", "other/y"]"#, Some("y")), (r#"["third/x"]"#, None)]
    {
        let control = RecordingControl::default();
        let mut request = request();
        request.prompt.body.set("fallbacks", fallbacks);
        let answer = complete(providers(&turns, &control), request, SETTINGS).await;
        assert_eq!(answer.is_ok(), expected.is_some());
        let named: Vec<String> = serde_json::from_str(fallbacks).expect("a list");
        assert_eq!(control.fallbacks(), named);
        assert_eq!(control.asked(), expected.map(|model| format!("other/{model}")));
        let told = control.told();
        let [first, end] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(first, &begun("demo/m", false));
        match expected {
            None => assert_eq!(end, &failed("provider_refused", true)),
            Some(model) => {
                let Told::Ended { provider, model: found, error: None, .. } = end else {
                    panic!("{end:?}")
                };
                assert_eq!(provider.as_deref(), Some("other"));
                assert_eq!(found.as_deref(), Some(model));
            }
        }
    }
}

/// Returns a provider of OpenAI's API, without retries.
fn openai(base_url: &str, control: &RecordingControl) -> Models {
    repeating(base_url, 0, control)
}

/// Returns a provider of OpenAI's API, whose requests are repeated at most so often.
fn repeating(base_url: &str, max: u32, control: &RecordingControl) -> Models {
    let retries = Retries { max, initial: Duration::from_millis(1), ..Retries::default() };
    let kind = Kind::Service(Box::new(Service { retries, ..Service::new(Api::OpenAi, base_url) }));
    let provider = Provider { name: "demo".to_owned(), kind, fallbacks: Vec::new() };
    let models = Models::new(&[provider]).expect("a good provider");
    models.with_control(Arc::new(control.clone()))
}

/// Returns a stream of OpenAI's whose usage was asked for.
fn with_usage(usage: &Value) -> String {
    let text = json!([{"index": 0, "delta": {"content": "hi"}, "finish_reason": null}]);
    let end = json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]);
    let chunks = [
        json!({"id": "x", "model": "m-2", "choices": text, "usage": null, "n": 1}),
        json!({"id": "x", "model": "m-2", "choices": end, "usage": null}),
        json!({"id": "x", "model": "m-2", "choices": [], "usage": usage}),
    ];
    let events = chunks.map(|chunk| format!("data: {chunk}\n\n")).concat();
    service::events(&format!("{events}data: [DONE]\n\n"))
}

#[tokio::test]
async fn a_provider_is_asked_for_the_usage_of_a_stream_and_the_caller_sees_nothing_of_it() {
    let usage = json!({
        "prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 2},
    });
    for settings in [SETTINGS, PASSING] {
        let server = FakeService::start(vec![with_usage(&usage)]).await;
        let control = RecordingControl::default();
        let mut request = streaming(false);
        request.prompt.body.set("stream_options", r#"{"include_obfuscation": false}"#);
        let mut run = start(openai(&server.base_url, &control), request, settings);
        let mut form = airlock_model::ChatForm::new(false);
        let mut lines = Vec::new();
        while let Some(event) = run.next().await {
            match event {
                Event::Chunk(chunk) => lines.extend(form.lines(chunk)),
                Event::Done(completion) => lines.extend(form.finish(completion.airlock)),
                other => panic!("{other:?}"),
            }
        }
        let sent = server.requests().await.concat();
        let option = r#""stream_options":{"include_obfuscation":false,"include_usage":true}"#;
        assert!(sent.contains(option), "{sent}");
        assert!(lines.iter().all(|line| !line.contains("usage")), "{lines:?}");
        assert_eq!(lines.len(), 2, "{lines:?}");
        let counted = TokenUsage { input: 9, cached_input: 4, output: 5, reasoning: 2 };
        let [provider, model] = ["demo", "m-2"].map(|name| Some(name.to_owned()));
        let end = Told::Ended {
            provider,
            model,
            usage: Some(counted),
            cost: None,
            error: None,
            has_not_begun: false,
        };
        assert_eq!(control.ends(), [end]);
    }
}

#[tokio::test]
async fn a_control_that_ignores_the_outcome_leaves_the_request_as_it_is() {
    let server = FakeService::start(vec![with_usage(&Value::Null)]).await;
    let control = RecordingControl::default().ignoring_outcomes();
    let run = start(openai(&server.base_url, &control), streaming(false), PASSING);
    run.finish().await.expect("an answer");
    let sent = server.requests().await.concat();
    assert!(!sent.contains("stream_options"), "{sent}");
    assert_eq!(control.told(), [begun("demo/m", true)], "it is told of no end");
}

#[tokio::test]
async fn a_provider_that_refuses_the_option_is_asked_as_the_caller_asked() {
    let refusal = service::json("422 Unprocessable Entity", r#"{"detail": "extra_forbidden"}"#);
    let plain = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";
    let server = FakeService::start(vec![refusal, service::events(plain)]).await;
    let control = RecordingControl::default();
    let run = start(openai(&server.base_url, &control), streaming(false), PASSING);
    run.finish().await.expect("an answer");
    let sent = server.requests().await;
    assert!(sent[0].contains("include_usage") && !sent[1].contains("stream_options"), "{sent:?}");
    assert_eq!(control.ends(), [ended(None, None)]);
}

#[tokio::test]
async fn an_invalid_request_is_sent_once_to_a_model_that_has_accepted_the_option() {
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14});
    let refusal = service::json("400 Bad Request", r#"{"error": {"message": "no"}}"#);
    let server = FakeService::start(vec![with_usage(&usage), refusal]).await;
    let models = Arc::new(openai(&server.base_url, &RecordingControl::default()));
    let caller = caller(&Filter::none());
    let accepted = run(models.clone(), caller.clone(), streaming(false), PASSING);
    accepted.finish().await.expect("an answer");
    let refused = run(models, caller, streaming(false), PASSING);
    let failed = refused.finish().await.expect_err("it is refused");
    // A third request would not reach the service.
    assert_eq!(failed.error.status().as_u16(), 400);
    assert!(server.requests().await[1].contains("include_usage"));
}

#[tokio::test]
async fn a_request_that_is_repeated_counts_once() {
    let busy = service::json("503 Busy", r#"{"error": {"message": "later"}}"#);
    let message = json!({"role": "assistant", "content": "hi"});
    let whole = json!({
        "id": "x", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14},
    });
    let whole = service::json("200 OK", &whole.to_string());
    let server = FakeService::start(vec![busy.clone(), busy, whole]).await;
    let control = RecordingControl::default();
    let run = start(repeating(&server.base_url, 2, &control), request(), SETTINGS);
    run.finish().await.expect("an answer");
    let told = control.told();
    let [first, end] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(first, &begun("demo/m", false));
    assert_eq!(usage_of(end), TokenUsage { input: 9, output: 5, ..TokenUsage::default() });
    assert_eq!(server.requests().await.len(), 3);
}

#[tokio::test]
async fn counts_that_no_provider_can_mean_are_no_usage() {
    for usage in [
        json!({"prompt_tokens": -9, "completion_tokens": 5}),
        json!({"prompt_tokens": 1.5, "completion_tokens": 1e30}),
        json!({"prompt_tokens": "many"}),
        json!({}),
        json!([9]),
    ] {
        let server = FakeService::start(vec![with_usage(&usage)]).await;
        let control = RecordingControl::default();
        let run = start(openai(&server.base_url, &control), streaming(false), SETTINGS);
        run.finish().await.expect("an answer");
        let ends = control.ends();
        let [Told::Ended { usage: found, error: None, .. }] = ends.as_slice() else {
            panic!("{ends:?}")
        };
        assert_eq!(*found, None, "{usage}");
    }
}

#[tokio::test]
async fn a_provider_that_is_not_reached_has_not_begun_and_one_that_breaks_off_may_have() {
    // Nothing listens on this port.
    let control = RecordingControl::default();
    let run = start(openai("http://127.0.0.1:1/v1", &control), request(), SETTINGS);
    run.finish().await.expect_err("nothing listens");
    assert_eq!(control.ends(), [failed("provider_unreachable", true)]);

    let server =
        FakeService::start(vec!["HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".into()]).await;
    let run = start(openai(&server.base_url, &control), request(), SETTINGS);
    run.finish().await.expect_err("it breaks off");
    assert_eq!(control.ends(), [failed("provider_unreachable", false)]);
}
