//! Chats of the embedding program, with a model of its own.

use std::sync::Arc;

use airlock::{
    ChatEvent, GatewayBuilder, ModelFailure, ModelReply, ModelSource, RequestError,
    conversation::{Conversation, Delta, Item, Message, Part, Role, ToolCall, Wire},
    tool::{Allowlist, Policy, Trust},
};
use airlock_tests::{Embedded, Setup};
use futures_util::{
    future::{self, BoxFuture, FutureExt as _},
    stream,
};

use super::requests::noting;

/// A model that calls the tool `note`, and repeats its result in two pieces. It fails if it is told to.
struct Talker;

impl ModelSource for Talker {
    fn respond(&self, request: Conversation) -> BoxFuture<'_, Result<ModelReply, ModelFailure>> {
        let reply = match request.items.last() {
            Some(Item::ToolResult(result)) => {
                let said: String = result.parts.iter().filter_map(Part::as_text).collect();
                let pieces = ["It said: ".to_owned(), said];
                let pieces = pieces.map(|text| Ok(Delta::Text { choice: 0, text }));
                Ok(ModelReply::stream(stream::iter(pieces)))
            }
            _ if request.model == "tired" => {
                Err(ModelFailure::new("I am tired").with_status(429).with_code("tired"))
            }
            _ => Ok(ModelReply::calls([ToolCall::function("c1", "internal-note", NOTE)])),
        };
        future::ready(reply).boxed()
    }
}

const NOTE: &str = r#"{"text":"a"}"#;

/// Starts a gateway with the model and the tool, which needs no approval if it is `automatic`.
async fn talking(automatic: Allowlist) -> Embedded {
    let policy = Policy {
        execute: Allowlist::All,
        auto_execute: automatic,
        trust: Trust::Trusted,
        ..Policy::default()
    };
    let build = |builder: GatewayBuilder| {
        builder.native_policy(policy).with_model_source("own", Arc::new(Talker))
    };
    noting(Setup::new(), build).await
}

fn question(model: &str) -> Conversation {
    let mut conversation = Conversation::new(Wire::Chat, model);
    let text = Message::new(Role::User, vec![Part::text("Note a.")]);
    conversation.items.push(Item::Message(text));
    conversation
}

#[tokio::test]
async fn a_chat_makes_the_calls_of_its_model_and_returns_the_last_reply() {
    let embedded = talking(Allowlist::All).await;
    let request = embedded.gateway().request().open().expect("it is permitted");
    let reply = request.chat(question("own/talker")).await.expect("a reply");
    assert_eq!(
        (reply.text().as_str(), reply.provider.as_deref()),
        ("It said: noted a", Some("own"))
    );
    let airlock = reply.airlock.expect("there was a call");
    assert_eq!(airlock["calls"][0]["name"], "internal-note");
    embedded.stop().await;
}

#[tokio::test]
async fn the_events_of_a_chat_come_in_the_order_in_which_they_happen() {
    let embedded = talking(Allowlist::All).await;
    let request = embedded.gateway().request().open().expect("it is permitted");
    let mut events = request.chat_stream(question("own/talker")).await.expect("it begins");
    let mut seen = Vec::new();
    let mut text = String::new();
    while let Some(event) = events.next().await {
        seen.push(match event.expect("no failure") {
            ChatEvent::CallStarted(started) => {
                assert_eq!(started.arguments, NOTE);
                "started"
            }
            ChatEvent::CallEnded(ended) => {
                assert_eq!((&*ended.text, ended.error), ("noted a", None));
                "ended"
            }
            ChatEvent::Round { rounds: 1 } => "round",
            ChatEvent::Delta(Delta::Text { text: piece, .. }) => {
                text.push_str(&piece);
                "text"
            }
            ChatEvent::Delta(_) => continue,
            ChatEvent::Done { airlock } => {
                assert!(airlock.is_some(), "there was a call");
                "done"
            }
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(text, "It said: noted a");
    assert_eq!(seen.first(), Some(&"started"), "{seen:?}");
    seen.dedup();
    assert_eq!(seen, ["started", "ended", "round", "text", "done"]);
    assert_eq!(events.provider().as_deref(), Some("own"));
    drop(events);
    embedded.stop().await;
}

#[tokio::test]
async fn a_call_that_needs_an_approval_is_handed_to_the_program() {
    let embedded = talking(Allowlist::default()).await;
    let request = embedded.gateway().request().open().expect("it is permitted");
    let mut conversation = question("own/talker");
    let reply = request.chat(conversation.clone()).await.expect("a reply");
    let airlock = reply.airlock.expect("a call is pending");
    assert_eq!(airlock["pending"][0]["reason"], "needs_approval");
    let items = reply.reply.choices.into_values().next().expect("a choice").items;
    let calls = items.iter().filter_map(|item| match item {
        Item::ToolCall(call) => Some((call.name.as_str(), call.input.text())),
        _ => None,
    });
    assert_eq!(calls.collect::<Vec<_>>(), [("internal-note", NOTE)]);
    // The program makes the call after it has asked its user, and goes on.
    conversation.items.extend(items.clone());
    for item in items {
        let Item::ToolCall(call) = item else { continue };
        let result = vec![Part::text("noted by the program")];
        let result = airlock::conversation::ToolResult::new(call.id, result);
        conversation.items.push(Item::ToolResult(result));
    }
    let reply = request.chat(conversation).await.expect("a reply");
    assert_eq!(reply.text(), "It said: noted by the program");
    embedded.stop().await;
}

#[tokio::test]
async fn a_chat_without_a_reply_fails_with_the_reason_of_its_model() {
    let embedded = talking(Allowlist::All).await;
    let request = embedded.gateway().request().open().expect("it is permitted");
    let failed = request.chat(question("own/tired")).await.expect_err("it has no reply");
    let RequestError::Chat(failure) = &failed else { panic!("{failed:?}") };
    assert_eq!((failure.status(), failure.code().as_str()), (429, "tired"));
    let failed = request.chat_stream(question("own/tired")).await.expect_err("it has no reply");
    let RequestError::Chat(failure) = &failed else { panic!("{failed:?}") };
    assert_eq!((failure.status(), failure.code().as_str()), (429, "tired"));
    embedded.stop().await;
}
