//! Model servers that send what no model sends.

use super::{received::ReceivedStream, streams::streamed, *};
use airlock_conversation::{Delta, FinishReason};
use airlock_core::model_calls::MAX_CALLS_READ;
use airlock_model::ReplyChunk;
use airlock_test_http::model::{self as service, FakeService};

/// Runs a streamed request against a service that gives this answer. Returns its events.
pub(super) async fn events(answer: String, request: Request) -> Vec<Event> {
    events_of(vec![answer], request).await
}

/// Runs a request against a service that gives these answers, one a round. Returns its events.
pub(super) async fn events_of(answers: Vec<String>, request: Request) -> Vec<Event> {
    let service = FakeService::start(answers).await;
    let settings = airlock_model::Settings {
        name: "demo".into(),
        kind: openai(&service.base_url),
        fallbacks: Vec::new(),
    };
    let models = Models::new(&[settings]).expect("good settings");
    let mut run = run(Arc::new(models), caller(&Filter::none()), request, SETTINGS);
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        events.push(event);
    }
    events
}

pub(super) fn sse(chunks: &[Value]) -> String {
    let events: Vec<String> = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    service::events(&format!("{}data: [DONE]\n\n", events.concat()))
}

fn delta(call: impl Into<Value>, finish_reason: impl Into<Value>) -> Value {
    let calls = [call.into()];
    let choice =
        json!({"index": 0, "delta": {"tool_calls": calls}, "finish_reason": finish_reason.into()});
    json!({"id": "x", "choices": [choice]})
}

/// Returns the names of the calls that begin in a chunk.
fn names(chunk: &ReplyChunk) -> impl Iterator<Item = &str> {
    chunk.deltas().iter().filter_map(|delta| match delta {
        Delta::Call { name, .. } => Some(name.as_str()),
        _ => None,
    })
}

fn started(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Started(_))).count()
}

#[tokio::test]
async fn a_call_that_was_shown_to_the_caller_is_never_run() {
    let echo = json!({"name": "desk-echo", "arguments": "{}"});
    let two_types =
        json!({"index": 0, "id": "a", "function": {"name": 5, "x": 1}, "custom": {"name": "zz"}});
    for (first, fails) in
        [(json!({"index": 0, "id": "a", "custom": {"name": "zz"}}), false), (two_types, true)]
    {
        let chunks = [
            delta(first, Value::Null),
            delta(json!({"index": 0, "custom": 1}), Value::Null),
            delta(json!({"index": 0, "function": echo}), json!("tool_calls")),
        ];
        let mut request = streamed();
        request.prompt.body.set("tools", r#"[{"type":"custom","custom":{"name":"zz"}}]"#);
        let events = events(sse(&chunks), request).await;
        let is_shown = events
            .iter()
            .any(|event| matches!(event, Event::Chunk(chunk) if names(chunk).next().is_some()));
        assert_eq!(matches!(events.last(), Some(Event::Failed(_))), fails, "{events:?}");
        let runs = started(&events) > 0;
        assert_eq!(is_shown != runs, !fails, "shown or run, and not both: {events:?}");
    }
}

#[tokio::test]
async fn the_beginning_of_a_name_is_held_back() {
    let chunks = [
        delta(json!({"index": 0, "id": "a", "function": {"name": "desk-"}}), Value::Null),
        delta(
            json!({"index": 0, "function": {"name": "write", "arguments": "{}"}}),
            json!("tool_calls"),
        ),
    ];
    let events = events(sse(&chunks), streamed()).await;
    let chunks = events.iter().filter_map(|event| match event {
        Event::Chunk(chunk) => Some(chunk),
        _ => None,
    });
    let names: Vec<_> = chunks.flat_map(names).collect();
    assert_eq!(names, ["desk-write"], "it is pending, and shown once in one piece");
}

/// Returns the chunks of a chat completion that a caller receives.
pub(super) fn received(events: Vec<Event>, request: &Request) -> Vec<Value> {
    let mut stream = ReceivedStream::new(request);
    let chunks = events.into_iter().flat_map(|mut event| stream.chunks(&mut event));
    chunks.map(Value::from).collect()
}

#[tokio::test]
async fn the_callers_own_call_is_shown_though_its_beginning_comes_alone() {
    let begin = json!({"index": 0, "id": "a", "function": {"name": "mine", "arguments": ""}});
    let chunks = [
        delta(begin, Value::Null),
        json!({"id": "x", "choices": [{"index": 0, "delta": {"content": "x"}}]}),
        json!({"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
    ];
    let events = events(sse(&chunks), with_own_tool(streamed())).await;
    let chunks = received(events, &streamed());
    let names: Vec<_> = chunks
        .iter()
        .filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0/function/name")?.as_str())
        .collect();
    assert_eq!(names, ["mine"], "{chunks:?}");
}

#[tokio::test]
async fn the_role_is_sent_after_a_chunk_without_choices() {
    let echo = json!({"index": 0, "id": "a", "function": {"name": "desk-echo", "arguments": "{}"}});
    let chunks = [
        json!({"id": "", "choices": [], "prompt_filter_results": []}),
        json!({"id": "x", "choices": [
            {"index": 0, "delta": {"role": "assistant", "content": null, "tool_calls": [echo]}},
        ]}),
    ];
    let chunks = received(events(sse(&chunks), streamed()).await, &streamed());
    let roles = chunks.iter().filter_map(|chunk| chunk.pointer("/choices/0/delta/role"));
    assert_eq!(roles.collect::<Vec<_>>(), ["assistant"], "{chunks:?}");
    let filtered = chunks.iter().filter(|chunk| chunk.get("prompt_filter_results").is_some());
    assert_eq!(filtered.count(), 1, "{chunks:?}");
}

#[tokio::test]
async fn a_call_in_a_whole_response_is_run_or_not_shown() {
    let function = json!({"name": "desk-echo", "arguments": "{}"});
    let call = json!({"id": "a", "type": "function", "function": function});
    for (message, runs) in [(json!({"tool_calls": [call]}), 1), (json!({"tool_calls": call}), 0)] {
        let choice = json!({"index": 0, "delta": {}, "message": message});
        let answer = json!({"id": "x", "choices": [choice]}).to_string();
        let mut events = events(service::json("200 OK", &answer), request()).await;
        assert_eq!(started(&events), runs, "{message}");
        if let Some(Event::Done(completion)) = events.pop() {
            let answer = completion.answer.expect("it was not streamed");
            let text = answer.into_chat(completion.airlock).into_text();
            assert!(!text.contains("desk-echo"), "{text}");
        }
    }
}

#[tokio::test]
async fn too_many_calls_of_a_response_that_is_not_streamed_fail_before_any_is_shown() {
    let calls = vec![json!({}); MAX_CALLS_READ as usize + 1];
    let answer = json!({"choices": [{"message": {"tool_calls": calls}}]}).to_string();
    let events = events(service::json("200 OK", &answer), streamed()).await;
    assert!(
        matches!(&events[..], [Event::Failed(error)] if matches!(error.error, Failure::TooManyCalls { .. })),
        "{} events",
        events.len()
    );
}

#[tokio::test]
async fn a_stream_without_an_end_gets_one() {
    let mut request = streamed();
    request.prompt.body.set("tools", "7");
    let chunk = json!({"id": "x", "choices": [{"index": 0, "delta": {"content": "hi"}}]});
    let events = events(sse(&[chunk]), request).await;
    let [.., Event::Chunk(end), Event::Done(_)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(end.deltas(), [Delta::End { choice: 0, reason: FinishReason::Stop }]);
}

#[tokio::test]
async fn a_merged_stream_and_the_ends_of_its_choices_are_charged() {
    for (chunks, limit) in
        [(vec![long_text(None); 50], 100_000), (vec![long_text(Some("stop"))], 6_000)]
    {
        let memory = Limited::new(limit);
        let request = Request { budget: MemoryBudget::new(memory.clone()), ..streamed() };
        let events = events(sse(&chunks), request).await;
        assert!(
            matches!(events.last(), Some(Event::Failed(error)) if error.error.status().as_u16() == 503),
            "{limit}: {:?}",
            events.last()
        );
        assert_eq!(memory.taken(), 0);
    }
}

#[tokio::test]
async fn one_of_many_chunks_with_the_usage_is_held_until_the_end() {
    let end = json!({"id": "x", "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]});
    let usage = json!({"id": "x", "choices": [], "usage": {"total_tokens": 1}});
    let mut chunks = vec![usage; 1_000];
    chunks.insert(500, end);
    let memory = Limited::new(50_000);
    let request = Request { budget: MemoryBudget::new(memory.clone()), ..streamed() };
    let events = events(sse(&chunks), request).await;
    assert!(matches!(events.last(), Some(Event::Done(_))), "{:?}", events.last());
    let exact =
        events.iter().filter(|event| matches!(event, Event::Chunk(chunk) if chunk.is_usage()));
    assert_eq!(exact.count(), 1);
    assert!(deltas(&events).any(|delta| matches!(delta, Delta::Begin(_))));
}

#[tokio::test]
async fn held_pieces_of_a_text_are_one_and_no_chunk_at_the_end_has_many_deltas() {
    for (choices, expected) in [(1, 1), (2, 400)] {
        let chunks = (0..400).map(|place| {
            json!({"id": "x", "choices": [{"index": place % choices, "delta": {"content": "y"}}]})
        });
        let ends = (0..choices).map(|index| {
            json!({"id": "x", "choices": [{"index": index, "delta": {}, "finish_reason": "stop"}]})
        });
        let chunks: Vec<_> = chunks.chain(ends).collect();
        let mut request = streamed();
        request.prompt.body.set("response_format", r#"{"type":"json_object"}"#);
        let events = events(sse(&chunks), request).await;
        let texts = deltas(&events).filter_map(|delta| match delta {
            Delta::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(texts.clone().count(), expected);
        assert_eq!(texts.collect::<String>(), "y".repeat(400));
        let most = events.iter().map(|event| deltas(std::slice::from_ref(event)).count()).max();
        assert!(most.is_some_and(|most| most <= 64), "{most:?}");
    }
}

fn deltas(events: &[Event]) -> impl Iterator<Item = &Delta> + Clone {
    let chunks = events.iter().filter_map(|event| match event {
        Event::Chunk(chunk) => Some(chunk),
        _ => None,
    });
    chunks.flat_map(ReplyChunk::deltas)
}

fn long_text(finish_reason: Option<&str>) -> Value {
    json!({"id": "x", "choices": [{"index": 0, "delta": {"content": "x".repeat(2_000)}, "finish_reason": finish_reason}]})
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_always_ready_ends_at_the_deadline() {
    let words = "word ".repeat(1_000);
    let models = Arc::new(fake::scripted(&json!([{"answer": {"content": words}}])));
    let mut run = run(models, caller(&Filter::none()), streamed(), SETTINGS);
    run.next().await.expect("a chunk");
    tokio::time::advance(SETTINGS.timeout).await;
    let mut left = 0;
    let last = loop {
        match run.next().await.expect("an event") {
            Event::Chunk(_) => left += 1,
            other => break other,
        }
    };
    assert!(
        matches!(&last, Event::Failed(error) if matches!(error.error, Failure::Timeout { .. })),
        "{last:?}"
    );
    assert!(left <= 2, "{left} chunks after the deadline");
}
