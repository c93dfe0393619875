use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::time::Instant;

use super::*;
use crate::{
    Api, Apis, Key, Prompt, Response, Retries, Service, Terms, backend::Backend as _,
    service::ServiceClient,
};
use airlock_conversation::{Part, ToolResult};
use airlock_core::{
    memory::{Limited, MemoryBudget},
    secret::Secret,
};
use airlock_test_http::model::{self as fake, FakeService};

/// Services to which a chat request is translated.
const TRANSLATED: [(Api, Apis); 3] =
    [(Api::Anthropic, Apis::Chat), (Api::Gemini, Apis::Chat), (Api::OpenAi, Apis::Responses)];

fn prompt(messages: Value) -> Prompt {
    let mut body = object(json!({"model": "m"}));
    body.insert("messages".to_owned(), messages);
    Prompt::new(RawObject::from(&body))
}

fn long() -> Prompt {
    prompt(json!([{"role": "user", "content": "x".repeat(200_000)}]))
}

async fn respond(
    base_url: &str,
    (api, apis): (Api, Apis),
    prompt: &Prompt,
    memory: &Limited,
) -> Result<(), ModelError> {
    let service = Service {
        apis,
        keys: vec![Key::new("first", Secret::new("secret"))],
        retries: Retries { max: 0, ..Retries::default() },
        ..Service::new(api, base_url)
    };
    let client = ServiceClient::new("up", &service).expect("a good service");
    let held = MemoryBudget::new(memory.clone()).charge();
    let deadline = Instant::now() + Duration::from_mins(1);
    let terms = Terms {
        is_streamed: false,
        passes_on: false,
        max_calls: 100,
        deadline,
        held: &held,
        observer: None,
        work: None,
    };
    client.respond(prompt, terms).await.map(|_: Response<'_>| ())
}

#[tokio::test]
async fn a_request_without_room_for_its_texts_and_its_tree_is_not_sent() {
    for api in TRANSLATED {
        for limit in [1_000, 300_000, 450_000] {
            let memory = Limited::new(limit);
            let answered = respond("http://127.0.0.1:1/v1", api, &long(), &memory).await;
            let error = answered.expect_err("no room");
            assert!(matches!(error, ModelError::NoMemory { .. }), "{api:?} of {limit}: {error:?}");
            assert_eq!(memory.taken(), 0);
        }
    }
}

#[tokio::test]
async fn arguments_are_charged_as_objects_where_the_api_has_them_as_objects() {
    // 21 KB of text, and 1.4 MB as a tree.
    let dense = format!("{{\"a\":[{}0]}}", "{\"\":0},".repeat(3_000));
    let call =
        json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": dense}});
    let messages = json!([{"role": "assistant", "tool_calls": [call]}]);
    for (api, has_room) in TRANSLATED.into_iter().zip([false, false, true]) {
        let memory = Limited::new(1 << 20);
        // It keeps what was translated.
        let prompt = prompt(messages.clone());
        let answered = respond("http://127.0.0.1:1/v1", api, &prompt, &memory).await;
        let error = answered.expect_err("no service");
        assert_eq!(!matches!(error, ModelError::NoMemory { .. }), has_room, "{api:?}: {error:?}");
        drop(prompt);
        assert_eq!(memory.taken(), 0);
    }
}

#[tokio::test]
async fn the_texts_and_the_tree_of_a_request_are_charged_and_released() {
    for api in TRANSLATED {
        let memory = Limited::new(1 << 20);
        let fake = FakeService::start(vec![fake::json("200 OK", "{}")]).await;
        let answered = respond(&fake.base_url, api, &long(), &memory).await;
        assert!(!matches!(answered, Err(ModelError::NoMemory { .. })), "{api:?}: {answered:?}");
        assert_eq!(fake.requests().await.len(), 1, "{api:?}");
        assert!(memory.most() > 600_000, "{api:?}: {}", memory.most());
        assert_eq!(memory.taken(), 0);
    }
}

#[tokio::test]
async fn members_are_translated_once_and_held_with_their_request() {
    let memory = Limited::new(1 << 20);
    let held = MemoryBudget::new(memory.clone()).charge();
    let item = json!({"role": "user", "content": "x".repeat(10_000)});
    let body = RawObject::from(&object(json!({"model": "m", "input": [item]})));
    let prompt = Prompt::responses(body, Arc::default());
    let first = members(&prompt, TargetApi::Chat, &held).await.ok().expect("a good request");
    assert!(first.get("messages").is_some_and(|messages| messages.len() > 10_000));
    assert!((10_000..11_000).contains(&memory.taken()), "{}", memory.taken());
    let second = members(&prompt, TargetApi::Chat, &held).await.ok().expect("a good request");
    assert!(std::ptr::eq(first, second));
    drop(prompt);
    assert_eq!(memory.taken(), 0);
}

#[tokio::test]
async fn long_rounds_and_long_members_that_are_scanned_are_not_written_on_a_worker() {
    const LONG: usize = INLINE_BYTES;
    for (bytes, round, is_here) in [
        (0, Some(10), true),
        (0, Some(LONG), false),
        (LONG, Some(10), false),
        // They are copied, and not scanned.
        (LONG, None, true),
    ] {
        let message = json!({"role": "user", "content": "x".repeat(bytes)});
        let mut prompt = prompt(json!([message]));
        if let Some(bytes) = round {
            let text = Part::text("x".repeat(bytes));
            prompt.add_round([Item::ToolResult(ToolResult::new("c", vec![text]))]);
        }
        let held = MemoryBudget::unlimited().charge();
        let occupied = threads::occupy(&held.tenant()).await;
        let mut writing = Box::pin(chat_text(&prompt, TargetApi::Chat, Vec::new(), &held));
        let at_once = writing.as_mut().now_or_never();
        assert_eq!(at_once.is_some(), is_here, "{bytes} and {round:?}");
        drop(occupied);
        let written = if let Some(written) = at_once { written } else { writing.await };
        let least = bytes + round.unwrap_or_default();
        assert!(written.is_ok_and(|text| text.len() > least), "{bytes} and {round:?}");
    }
}

#[tokio::test]
async fn long_members_of_the_responses_api_are_not_scanned_on_a_worker() {
    for (bytes, is_here) in [(10, true), (INLINE_BYTES, false)] {
        let item = json!({"role": "user", "content": "x".repeat(bytes)});
        let body = RawObject::from(&object(json!({"model": "m", "input": [item]})));
        let prompt = Prompt::responses(body, Arc::default());
        let memory = Limited::new(1 << 20);
        let occupied = threads::occupy(&MemoryBudget::new(memory.clone()).charge().tenant()).await;
        let api = (Api::OpenAi, Apis::Responses);
        let mut responding = Box::pin(respond("http://127.0.0.1:1/v1", api, &prompt, &memory));
        assert!(responding.as_mut().now_or_never().is_none());
        assert_eq!(memory.taken() > 0, is_here, "a text that was written is charged: {bytes}");
        drop(occupied);
    }
}
