//! Streamed requests: what the caller receives, in which order, and what is held back.

use std::fmt::Write as _;

use super::{
    hostile::{events, sse},
    *,
};
use airlock_conversation::Delta;
use airlock_model::ReplyChunk;

/// Returns what a caller sees of a streamed request, an event a line.
pub(super) async fn seen(turns: Value, request: Request, settings: Settings) -> Vec<String> {
    seen_by(caller(&Filter::none()), turns, request, settings).await
}

/// Returns what this caller sees of a streamed request.
pub(super) async fn seen_by(
    caller: Caller,
    turns: Value,
    request: Request,
    settings: Settings,
) -> Vec<String> {
    let models = Arc::new(fake::scripted(&turns));
    let mut stream = ReceivedStream::new(&request);
    let mut run = run(models, caller, request, settings);
    let mut lines = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    while let Some(mut event) = run.next().await {
        for chunk in stream.chunks(&mut event) {
            ids.insert(chunk["id"].to_string());
            lines.push(of_chunk(&chunk.into()));
        }
        lines.extend(line(event));
    }
    assert!(ids.len() <= 1, "one stream has one id: {ids:?}");
    lines
}

fn line(event: Event) -> Option<String> {
    Some(match event {
        Event::Started(call) => format!("started {} {}", short_id(&call.tool_call_id), call.name),
        Event::Ended(call) => {
            let outcome = call.error.map_or("ok".to_owned(), |error| error.code);
            format!("ended {} {outcome}", short_id(&call.tool_call_id))
        }
        Event::Round { rounds } => format!("round {rounds}"),
        Event::Done(completion) => format!("done, airlock: {}", completion.airlock.is_some()),
        Event::Failed(error) => format!("failed: {}", error.error),
        Event::Chunk(_) | Event::Progress { .. } | Event::Partial { .. } => return None,
    })
}

fn short_id(id: &str) -> &str {
    if id.starts_with("call_") { "new" } else { id }
}

fn of_chunk(chunk: &Value) -> String {
    let mut line = String::new();
    for choice in chunk["choices"].as_array().expect("choices") {
        write!(line, "[{}] ", choice["index"]).expect("text");
        for (name, value) in choice["delta"].as_object().expect("a delta") {
            match value.as_array() {
                Some(calls) => calls.iter().for_each(|call| {
                    let function = &call["function"];
                    let id = short_id(call["id"].as_str().unwrap_or("-"));
                    let name = function["name"].as_str().unwrap_or("-");
                    write!(line, "call {} {id} {name} {} ", call["index"], function["arguments"])
                        .expect("text");
                }),
                None => write!(line, "{name}={value} ").expect("text"),
            }
        }
        if !choice["finish_reason"].is_null() {
            write!(line, "end={} ", choice["finish_reason"]).expect("text");
        }
    }
    if chunk.get("usage").is_some_and(|usage| !usage.is_null()) {
        write!(line, "usage ").expect("text");
    }
    if chunk.get("airlock").is_some() {
        write!(line, "airlock ").expect("text");
    }
    line.trim_end().to_owned()
}

pub(super) fn streamed() -> Request {
    Request { is_streamed: true, ..request() }
}

pub(super) fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[tokio::test]
async fn rounds_are_one_stream_and_calls_of_the_gateway_are_not_in_it() {
    let turns = json!([
        {"when": {"role": "user"}, "answer": {"content": "let me see", "tool_calls": [{"id": "c1", "name": "desk-echo", "arguments": {}}]}},
        {"answer": {"content": "all done"}},
    ]);
    assert_eq!(
        seen(turns, streamed(), SETTINGS).await,
        lines(
            r#"
            [0] role="assistant" content=""
            [0] content="let "
            [0] content="me "
            [0] content="see"
            started c1 desk-echo
            ended c1 ok
            round 1
            [0] content="\n\nall "
            [0] content="done"
            [0] end="stop" airlock
            done, airlock: true
        "#
        )
    );
}

#[tokio::test]
async fn calls_of_the_caller_are_shown_as_they_arrive_and_pending_ones_at_the_end() {
    let turns = json!([{"answer": {"tool_calls": [
        {"id": "c1", "name": "desk-write", "arguments": {"text": "to be approved"}},
        {"id": "c2", "name": "mine", "arguments": {"n": 1}},
    ]}}]);
    assert_eq!(
        seen(turns, with_own_tool(streamed()), SETTINGS).await,
        lines(
            r#"
            [0] role="assistant" content=""
            [0] call 0 c2 mine ""
            [0] call 0 - - "{\"n\":1}"
            [0] call 1 c1 desk-write ""
            [0] call 1 - - "{\"text\":\"to be approved\"}"
            [0] end="tool_calls" airlock
            done, airlock: true
        "#
        )
    );
}

#[tokio::test]
async fn results_are_told_as_text_if_other_calls_are_pending() {
    let turns = json!([{"answer": {"content": "hm", "tool_calls": [
        {"id": "c1", "name": "desk-echo", "arguments": {}},
        {"id": "c2", "name": "desk-write", "arguments": {}},
    ]}}]);
    assert_eq!(
        seen(turns, streamed(), SETTINGS).await,
        lines(
            r#"
            [0] role="assistant" content=""
            [0] content="hm"
            started c1 desk-echo
            ended c1 ok
            [0] content="\n\nThe Output from allowed tools calls is - {\"desk-echo\":\"echo {}\"}\n\nNow I shall call these tools next..."
            [0] call 0 c2 desk-write ""
            [0] call 0 - - "{}"
            [0] end="tool_calls" airlock
            done, airlock: true
        "#
        )
    );
}

#[tokio::test]
async fn calls_after_the_last_round_are_shown_as_they_arrive() {
    let turns = json!([{"answer": {"tool_calls": [{"name": "desk-echo", "arguments": {}}]}}]);
    assert_eq!(
        seen(turns, streamed(), Settings { max_depth: 1, ..SETTINGS }).await,
        lines(
            r#"
            [0] role="assistant" content=""
            started new desk-echo
            ended new ok
            round 1
            [0] call 0 new desk-echo ""
            [0] call 0 - - "{}"
            [0] end="tool_calls" airlock
            done, airlock: true
        "#
        )
    );
}

#[tokio::test]
async fn several_choices_and_the_usage_of_all_rounds_end_the_stream() {
    let turns = json!([
        {"when": {"role": "user"}, "answer": {"tool_calls": [{"name": "desk-echo", "arguments": {}}]}},
        {"answer": {"content": "done"}},
    ]);
    let mut request = streamed();
    request.prompt.body.set("n", "2");
    request.prompt.body.set("stream_options", r#"{"include_usage": true}"#);
    let seen = seen(turns, request, SETTINGS).await;
    let end: Vec<_> = seen.iter().rev().take(6).rev().map(String::as_str).collect();
    assert_eq!(
        end,
        [
            r#"[0] content="done""#,
            r#"[1] content="done""#,
            r#"[0] end="stop""#,
            r#"[1] end="stop" airlock"#,
            "usage",
            "done, airlock: true"
        ]
    );
    assert_eq!(seen.iter().filter(|line| line.contains("usage")).count(), 1, "{seen:?}");
}

#[tokio::test]
async fn without_tools_of_the_gateway_nothing_is_held_back_or_changed() {
    let turns = json!([{"answer": {"content": "hi", "tool_calls": [{"id": "c", "name": "mine", "arguments": {}}]}}]);
    let settings = Settings { disable_auto_tool_inject: true, ..SETTINGS };
    assert_eq!(
        seen(turns, streamed(), settings).await,
        lines(
            r#"
            [0] role="assistant" content=""
            [0] content="hi"
            [0] call 0 c mine ""
            [0] call 0 - - "{}"
            [0] end="tool_calls"
            done, airlock: false
        "#
        )
    );
}

#[tokio::test]
async fn a_reply_is_passed_on_unread_to_a_caller_of_chat_completions_alone() {
    let choice = json!({"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"});
    let answer = sse(&[json!({"id": "x", "choices": [choice]})]);
    for (wire, is_read) in [(Wire::Chat, false), (Wire::Messages, true), (Wire::Responses, true)] {
        let mut request = Request { wire, ..streamed() };
        // The gateway offers no tools beside these.
        request.prompt.body.set("tools", "7");
        let events = events(answer.clone(), request).await;
        let chunks = events.iter().filter_map(|event| match event {
            Event::Chunk(chunk) => Some(chunk),
            _ => None,
        });
        let mut deltas = chunks.clone().flat_map(ReplyChunk::deltas);
        assert_eq!(deltas.any(|delta| matches!(delta, Delta::Text { .. })), is_read, "{wire:?}");
        assert!(chunks.clone().any(|chunk| chunk.exact().is_some()), "{wire:?}");
    }
}

#[tokio::test]
async fn an_error_after_a_round_has_the_calls_that_were_made() {
    let turns = json!([
        {"when": {"role": "user"}, "answer": {"tool_calls": [{"name": "desk-echo", "arguments": {}}]}},
        {"answer": {"content": "so", "error": {"status": 500, "message": "broken", "after": 2}}},
    ]);
    let models = Arc::new(fake::scripted(&turns));
    let mut run = run(models, caller(&Filter::none()), streamed(), SETTINGS);
    let mut last = None;
    while let Some(event) = run.next().await {
        last = Some(event);
    }
    let Some(Event::Failed(error)) = last else { panic!("{last:?}") };
    assert_eq!(error.error.status().as_u16(), 500);
    assert_eq!(error.airlock.expect("a call was made")["calls"][0]["name"], "desk-echo");
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_stops_the_stream_and_dropping_it_drops_the_tools() {
    let words = "word ".repeat(1_000);
    let models = Arc::new(fake::scripted(&json!([{"answer": {"content": words, "pace": "1s"}}])));
    let mut run = run(
        models,
        caller(&Filter::none()),
        streamed(),
        Settings { timeout: Duration::from_hours(1), ..SETTINGS },
    );
    let started = tokio::time::Instant::now();
    for _ in 0..10 {
        run.next().await.expect("a chunk");
    }
    assert_eq!(started.elapsed().as_secs(), 10, "one chunk a second");
    // Without a reader nothing is read from the model: its pace does not go on.
    tokio::time::advance(Duration::from_mins(1)).await;
    for _ in 0..10 {
        run.next().await.expect("a chunk");
    }
    assert!((78..=80).contains(&started.elapsed().as_secs()), "{:?}", started.elapsed());
}

#[tokio::test]
async fn dropping_a_streamed_request_cancels_its_running_tools() {
    let (catalog, mut happened) = fake::catalog();
    let caller =
        Caller::new(catalog.snapshot().view(&Filter::none(), None), Origin::Model, fake::BUDGET);
    let models =
        Arc::new(fake::scripted(&json!([{"answer": {"tool_calls": [{"name": "desk-hang"}]}}])));
    let mut run = run(models, caller, streamed(), SETTINGS);
    while !matches!(run.next().await, Some(Event::Started(_))) {}
    let hanging = tokio::time::timeout(Duration::from_millis(50), run.next()).await;
    assert!(hanging.is_err(), "{hanging:?}");
    drop(run);
    assert_eq!((happened.recv().await, happened.recv().await), (Some("started"), Some("dropped")));
}

#[tokio::test]
async fn shown_rounds_are_neither_joined_nor_summarized() {
    let turns = json!([
        {"when": {"role": "user"}, "answer": {"content": "hm", "tool_calls": [{"id": "c1", "name": "desk-echo", "arguments": {}}]}},
        {"answer": {"content": "so", "tool_calls": [
            {"id": "c2", "name": "desk-echo", "arguments": {}},
            {"id": "c3", "name": "desk-write", "arguments": {}},
        ]}},
    ]);
    let expected = r#"
        [0] role="assistant" content=""
        [0] content="hm"
        started c1 desk-echo
        ended c1 ok
        round 1
        [0] content="so"
        started c2 desk-echo
        ended c2 ok
        [0] call 0 c3 desk-write ""
        [0] call 0 - - "{}"
        [0] end="tool_calls" airlock
        done, airlock: true
    "#;
    let request = Request { shows_rounds: true, ..streamed() };
    assert_eq!(seen(turns, request, SETTINGS).await, lines(expected));
}

#[tokio::test]
async fn rounds_that_are_shown_have_the_calls_of_both_sides_in_the_order_of_the_model() {
    let gateways = json!({"id": "c1", "name": "desk-echo", "arguments": {}});
    let own = json!({"id": "m1", "name": "mine", "arguments": {}});
    for (calls, is_own_first) in [([&gateways, &own], false), ([&own, &gateways], true)] {
        for request in [streamed(), request()] {
            let turns = json!([{"answer": {"tool_calls": calls}}]);
            let request = Request { shows_rounds: true, ..with_own_tool(request) };
            let seen = seen(turns, request, SETTINGS).await;
            let [own, ended] = ["m1 mine", "ended c1"]
                .map(|part| seen.iter().position(|line| line.contains(part)));
            assert!(own.is_some() && ended.is_some(), "{seen:?}");
            assert_eq!(own < ended, is_own_first, "{seen:?}");
        }
    }
}

#[tokio::test]
async fn rounds_that_the_model_does_not_stream_are_shown_as_chunks() {
    let turns = json!([
        {"when": {"role": "user"}, "answer": {"content": "let me see", "tool_calls": [{"id": "c1", "name": "desk-echo", "arguments": {}}]}},
        {"answer": {"content": "all done"}},
    ]);
    let request = Request { shows_rounds: true, ..request() };
    let seen = seen(turns, request, SETTINGS).await;
    let texts: Vec<_> = seen.iter().filter(|line| line.contains("content=\"")).collect();
    assert!(texts[0].contains(r#"content="let me see""#), "{seen:?}");
    assert!(texts[1].contains(r#"content="all done""#), "{seen:?}");
    assert_eq!(seen.iter().filter(|line| line.contains("started c1")).count(), 1, "{seen:?}");
    assert_eq!(seen.last().map(String::as_str), Some("done, airlock: true"));
}

#[tokio::test]
async fn parallel_calls_that_report_at_once_do_not_stop_each_other() {
    let (catalog, _) = fake::catalog();
    let view = catalog.snapshot().view(&Filter::none(), None);
    let (caller, reports) = Caller::with_events(
        view,
        Origin::Model,
        fake::BUDGET,
        airlock_core::door::CallerCapabilities::default(),
    );
    let calls = json!([{"name": "desk-report"}, {"name": "desk-report"}, {"name": "desk-report"}]);
    let models = fake::scripted(&json!([
        {"when": {"role": "user"}, "answer": {"tool_calls": calls}},
        {"answer": {"content": "done"}},
    ]));
    let request = Request { reports: Some(reports), ..streamed() };
    let mut run = run(Arc::new(models), caller, request, SETTINGS);
    let mut progress = 0;
    while let Some(event) =
        tokio::time::timeout(Duration::from_secs(10), run.next()).await.expect("it goes on")
    {
        progress += usize::from(matches!(event, Event::Progress { .. }));
    }
    assert_eq!(progress, 6);
}

/// A request for JSON whose response has text before a call of the gateway's tool, in both forms.
#[tokio::test]
async fn text_before_a_call_of_the_gateway_is_not_part_of_json() {
    let turns = json!([
        {"when": {"role": "user"}, "answer": {"content": "let me see", "tool_calls": [{"id": "c1", "name": "desk-echo", "arguments": {}}]}},
        {"answer": {"content": "{\"a\": 1}"}},
    ]);
    assert_eq!(
        seen(turns.clone(), wants_json(streamed()), SETTINGS).await,
        lines(
            r#"
            [0] role="assistant" content=""
            started c1 desk-echo
            ended c1 ok
            round 1
            [0] content="{\"a\": 1}"
            [0] end="stop" airlock
            done, airlock: true
        "#
        )
    );
    // The rounds of a Response, whole.
    let rounds = Request { shows_rounds: true, ..request() };
    let seen = seen(turns, wants_json(rounds), SETTINGS).await;
    assert!(!seen.iter().any(|line| line.contains("let")), "{seen:?}");
    assert!(seen.iter().any(|line| line.contains("1}")), "{seen:?}");
}

fn wants_json(mut request: Request) -> Request {
    request.prompt.body.set("response_format", r#"{"type":"json_object"}"#);
    request
}

#[tokio::test]
async fn text_beside_a_call_of_the_caller_is_shown_in_a_request_for_json() {
    let turns = json!([{"answer": {"content": "hm", "tool_calls": [{"id": "c2", "name": "mine", "arguments": {}}]}}]);
    let seen = seen(turns, wants_json(with_own_tool(streamed())), SETTINGS).await;
    assert!(seen.iter().any(|line| line.contains("content=\"hm\"")), "{seen:?}");
}

#[tokio::test]
async fn a_stream_has_no_room_for_its_calls_and_its_end() {
    let models = Arc::new(fake::scripted(&json!([{"answer": {"content": "hi"}}])));
    let caller = caller(&Filter::none());
    let mut bytes = 0;
    let run = Run::new(|emitter| {
        let work = crate::run::work(models, caller, Box::new(request()), SETTINGS, emitter);
        bytes = size_of_val(&work);
        work
    });
    drop(run);
    // The future that sorts calls takes 1.5 KiB by itself, and each of thousands of streams would have it twice.
    assert!(bytes <= 5 << 9, "{bytes}");
}
