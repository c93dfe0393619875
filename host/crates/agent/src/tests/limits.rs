//! Requests at their limits: rounds, calls, memory and time.

use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use airlock_core::{
    door::{CallGuards, FinishedCall, GuardedCall, ProposedCall},
    model_calls::MAX_CALLS_READ,
    tool::{CallError, ToolOutput},
};

#[tokio::test]
async fn reaching_the_depth_limit_is_reported() {
    let again = json!([{"answer": {"tool_calls": [{"name": "desk-echo"}]}}]);
    let answer = ask_script(again, request(), Settings { max_depth: 2, ..SETTINGS })
        .await
        .expect("an answer");
    let airlock = &answer["airlock"];
    assert_eq!((&airlock["rounds"], &airlock["depth_limit_reached"]), (&json!(2), &json!(true)));
    assert_eq!(airlock["pending"][0]["reason"], "depth_limit");
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "desk-echo");
}

/// Returns a response with `times` calls of `desk-echo`.
fn calling(times: usize) -> Value {
    json!({"tool_calls": vec![json!({"name": "desk-echo"}); times]})
}

#[tokio::test]
async fn calls_beyond_the_limit_of_a_response_are_refused_with_a_message() {
    for (times, refused) in [(SETTINGS.calls_per_answer, 0), (SETTINGS.calls_per_answer + 2, 2)] {
        let answer = ask(calling(times)["tool_calls"].clone()).await;
        let calls = answer["airlock"]["calls"].as_array().expect("a list");
        let codes: Vec<_> = calls.iter().map(|call| call["error"]["code"].as_str()).collect();
        let expected =
            [vec![None; SETTINGS.calls_per_answer], vec![Some("airlock.too_many_calls"); refused]]
                .concat();
        assert_eq!(codes, expected, "{times} calls");
        let told = answer["choices"][0]["message"]["content"].as_str().expect("a text");
        assert_eq!(
            told.contains("your answer has 8 tool calls, more than the limit of 6"),
            refused > 0,
            "{told}"
        );
    }
}

#[tokio::test]
async fn a_response_with_too_many_calls_to_read_ends_the_request() {
    let most = MAX_CALLS_READ as usize;
    let answer =
        ask_script(calling_once(most), request(), SETTINGS).await.expect("as many as are read");
    assert_eq!(answer["airlock"]["calls"].as_array().expect("a list").len(), most);
    let failed =
        ask_script(calling_once(100_000), request(), SETTINGS).await.expect_err("too many");
    assert_eq!((failed.error.status().as_u16(), failed.airlock), (502, None));
    assert_eq!(failed.error.to_object()["code"], "too_many_tool_calls");
    insta::assert_snapshot!(
        failed.error,
        @"the model's response has 100000 tool calls, more than the limit of 1024; none of them was made"
    );
}

/// Returns a script whose first response has `times` calls, and whose second one ends.
fn calling_once(times: usize) -> Value {
    json!([{"when": {"role": "user"}, "answer": calling(times)}, {"answer": {"content": "end"}}])
}

#[tokio::test]
async fn a_result_that_does_not_fit_is_left_out_and_further_calls_are_not_made() {
    let large = json!([{"answer": {"tool_calls": [{"id": "c1", "name": "desk-large"}, {"name": "desk-large"}, {"name": "desk-large"}]}}]);
    let settings = Settings {
        max_depth: 1,
        parallel_calls: 1,
        max_tool_bytes: 2 * fake::LARGE + 600,
        ..SETTINGS
    };
    let answer = ask_script(large.clone(), request(), settings).await.expect("an answer");
    let calls = answer["airlock"]["calls"].as_array().expect("a list");
    let codes: Vec<_> =
        calls.iter().map(|call| (call["id"].is_string(), call["error"]["code"].as_str())).collect();
    assert_eq!(
        codes,
        [(true, None), (true, None), (false, Some("airlock.results_too_large"))],
        "{calls:#?}"
    );

    let settings = Settings { max_tool_bytes: 2 * fake::LARGE, ..settings };
    let answer = ask_script(large, request(), settings).await.expect("an answer");
    let told: Vec<_> = answer["airlock"]["calls"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|call| &call["result"])
        .collect();
    assert!(told[0].as_str().is_some_and(|text| text.len() == fake::LARGE), "{told:?}");
    for left_out in &told[1..] {
        let text = left_out.as_str().expect("a text");
        assert!(
            text.ends_with(
                "the limit is 10000; the call was made, but its result is left out; ask for less"
            ),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_result_without_memory_is_left_out_and_all_memory_is_released() {
    let turns = json!([
        {"when": {"role": "user"}, "answer": {"tool_calls": [{"name": "desk-large"}, {"name": "desk-large"}]}},
        {"answer": {"content": "done: {{last_tool_result}}"}},
    ]);
    // The calls as items take almost as much as one copy of a result.
    let memory = Limited::new(4 * fake::LARGE);
    let request = Request { budget: MemoryBudget::new(memory.clone()), ..request() };
    let answer = ask_script(turns.clone(), request, SETTINGS).await.expect("an answer");
    let calls = answer["airlock"]["calls"].as_array().expect("a list");
    assert_eq!(calls[0]["result"].as_str().map(str::len), Some(fake::LARGE));
    let told = "Error executing tool desk-large: the gateway has no memory left for the results of this request; the call was made, \
                but its result is left out; ask for less";
    assert_eq!(answer["choices"][0]["message"]["content"], format!("done: {told}"));
    assert!(memory.most() >= 2 * fake::LARGE, "the first result is taken");
    assert_eq!(memory.taken(), 0);

    let request = Request { budget: MemoryBudget::new(Limited::new(1)), ..self::request() };
    let failed = ask_script(turns, request, SETTINGS).await.expect_err("the calls do not fit");
    assert_eq!((failed.error.status().as_u16(), failed.airlock), (503, None));
    assert_eq!(failed.error.to_object()["code"], "gateway_overloaded");
    assert_eq!(failed.error.retry_after().expect("it is set").as_secs(), 1);
}

#[tokio::test]
async fn calls_that_do_not_fit_are_refused_before_the_door_is_asked() {
    // For calls of `desk-write` the door requires approval, which would end the request with a
    // response.
    let turns = json!([{"answer": {"tool_calls": [{"name": "desk-write", "arguments": {"text": "x".repeat(3_000)}}]}}]);
    let settings = Settings { max_tool_bytes: 2_000, ..SETTINGS };
    let failed = ask_script(turns, request(), settings).await.expect_err("they do not fit");
    assert!(
        matches!(failed.error, Failure::TooLarge { found: 3_000.., limit: 2_000 }),
        "{:?}",
        failed.error
    );
    // Calls of the caller's own tools are not added to the conversation.
    let turns = json!([{"answer": {"tool_calls": [{"name": "mine", "arguments": {"text": "x".repeat(3_000)}}]}}]);
    let own = with_own_tool(request());
    let answer = ask_script(turns, own, settings).await.expect("an answer");
    assert_eq!(answer["airlock"]["pending"][0]["reason"], "not_offered");
}

#[tokio::test]
async fn calls_that_fill_the_conversation_by_themselves_end_the_request() {
    let turns = json!([{"answer": {"tool_calls": [{"name": "desk-fail", "arguments": {"text": "x".repeat(3_000)}}]}}]);
    let settings = Settings { max_tool_bytes: 8_000, ..SETTINGS };
    let failed = ask_script(turns, request(), settings).await.expect_err("the third does not fit");
    assert_eq!(failed.error.to_object()["code"], "tool_results_too_large");
    assert!(
        matches!(failed.error, Failure::TooLarge { found: 9_000.., limit: 8_000 }),
        "{:?}",
        failed.error
    );
    assert_eq!(
        failed.airlock.expect("calls were made")["calls"].as_array().expect("a list").len(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_past_its_deadline_fails_with_the_calls_made() {
    let turns = json!([
        {"when": {"tool_results": 0}, "answer": {"tool_calls": [{"name": "desk-echo"}]}},
        {"answer": {"tool_calls": [{"name": "desk-hang"}, {"name": "desk-hang"}]}},
    ]);
    let settings = Settings { timeout: Duration::from_secs(7), parallel_calls: 1, ..SETTINGS };
    let started = tokio::time::Instant::now();
    let failed = ask_script(turns, request(), settings).await.expect_err("it hangs");
    assert_eq!(started.elapsed().as_secs(), 7);
    assert_eq!(
        (failed.error.status().as_u16(), &failed.error.to_object()["code"]),
        (504, &json!("agent_timeout"))
    );
    insta::assert_snapshot!(failed.error, @"the request ran past its time limit of 7s (`agent_timeout`, or `x-airlock-timeout` if that is shorter), after 2 rounds of tool calls");
    let airlock = failed.airlock.expect("calls were made");
    let statuses: Vec<_> =
        airlock["calls"].as_array().expect("a list").iter().map(|call| &call["status"]).collect();
    assert_eq!(
        statuses,
        ["ok", "cancelled", "error"],
        "the second was running, the third had not begun"
    );
}

/// Decides about each call in a minute. It waits, and does not compute, because the clock of the test is paused.
struct SlowGuards;

impl CallGuards for SlowGuards {
    fn before<'g>(
        &'g self,
        _: &'g ProposedCall<'g>,
        _: std::time::Instant,
    ) -> BoxFuture<'g, Result<GuardedCall, CallError>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_mins(1)).await;
            Ok(GuardedCall::default())
        })
    }

    fn looks_before(&self, _: &ProposedCall<'_>) -> bool {
        true
    }

    fn looks_after(&self, _: &ProposedCall<'_>) -> bool {
        false
    }

    fn after(
        &self,
        _: FinishedCall,
        outcome: Result<ToolOutput, CallError>,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async { outcome })
    }
}

#[tokio::test(start_paused = true)]
async fn guards_decide_about_the_calls_of_a_response_until_the_deadline() {
    let (catalog, _) = fake::catalog();
    catalog.set_guards(Arc::new(SlowGuards));
    let view = catalog.snapshot().view(&Filter::none(), None);
    let caller = Caller::new(view, Origin::Model, fake::BUDGET);
    let turns = json!([{"answer": {"tool_calls": vec![json!({"name": "desk-write"}); 3]}}]);
    let settings = Settings { timeout: Duration::from_secs(7), ..SETTINGS };
    let started = tokio::time::Instant::now();
    let models = Arc::new(fake::scripted(&turns));
    let failed = run(models, caller, request(), settings).finish().await;
    let failed = failed.expect_err("they are slow").error;
    assert_eq!(started.elapsed().as_secs(), 7);
    assert!(matches!(failed, Failure::Timeout { rounds: 0, .. }), "{failed:?}");
}

#[test]
fn a_program_past_its_deadline_is_told_of_its_own_timeout_and_of_no_header() {
    let failure = Failure::timeout(Duration::from_secs(7), 2).for_program();
    insta::assert_snapshot!(failure, @"the request ran past its time limit of 7s (`agent_timeout`, or the timeout of the request if that is shorter), after 2 rounds of tool calls");
}

#[tokio::test]
async fn a_model_that_does_not_respond_in_time_is_cancelled() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let base_url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let silent = airlock_model::Settings {
        name: "demo".into(),
        kind: openai(&base_url),
        fallbacks: Vec::new(),
    };
    let models = Models::new(&[silent]).expect("good settings");
    let settings = Settings { timeout: Duration::from_millis(50), ..SETTINGS };
    let failed = complete(models, request(), settings).await.expect_err("nobody answers");
    assert!(matches!(failed.error, Failure::Timeout { rounds: 0, .. }), "{:?}", failed.error);
}

#[tokio::test]
async fn the_response_of_a_model_is_charged_to_its_request() {
    let answer = json!({"choices": [{"message": {"content": "x".repeat(5_000)}}]}).to_string();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base_url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let length = answer.len();
    let service = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        stream.read_buf(&mut Vec::new()).await.expect("a request");
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all((head + &answer).as_bytes()).await.expect("it is read");
        // Closing the connection before the whole request is read would reset it.
        while stream.read_buf(&mut Vec::new()).await.is_ok_and(|read| read > 0) {}
    });
    let name = "demo".into();
    let kind = openai(&base_url);
    let fallbacks = Vec::new();
    let models = Models::new(&[airlock_model::Settings { name, kind, fallbacks }]);
    let models = models.expect("good settings");
    let memory = Limited::new(1 << 20);
    let request = Request { budget: MemoryBudget::new(memory.clone()), ..request() };
    let answered = complete(models, request, SETTINGS).await;
    assert!(answered.is_ok(), "{answered:?}");
    assert!(memory.most() > length, "{} bytes at most", memory.most());
    assert_eq!(memory.taken(), 0);
    service.await.expect("the service ends");
}
