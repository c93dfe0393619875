//! Tests of what is put back into requests, and of what is not.

mod output_items;

use std::convert::Infallible;

use serde_json::{Value, json};

use super::{chat::Rounds, note::CallerInterface, *};
use airlock_json::{Caps, RawObject, object};

/// Identifiers of calls of the client.
const X: &str = "call_0123456789abcdef";
const Y: &str = "call_fedcba9876543210";

fn settings(store: Option<airlock_store::Settings>, stores_contents: bool) -> Settings {
    let responses = responses::ResponseBounds {
        expire_after: IN_MEMORY,
        owner_bytes: 1 << 20,
        total_bytes: 1 << 20,
    };
    Settings::new(store.map(Into::into), stores_contents.then_some(responses), 1 << 20)
}

fn in_memory() -> Recall {
    Recall::new(settings(None, false))
}

fn ann() -> Tenant {
    Tenant::of_key([1; 32], "ann")
}

fn call(id: &str, name: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

#[allow(clippy::needless_pass_by_value, reason = "callers make the value for it")]
fn calling(content: Value, calls: &[Value]) -> Value {
    json!({"role": "assistant", "content": content, "tool_calls": calls})
}

fn result(id: &str, content: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content})
}

/// A round before the last one, and a last one in which `a` ran and `x` is the client's.
fn rounds() -> Rounds {
    let first = calling(json!("first"), &[call("f", "gate-f")]);
    let last = calling(json!("last"), &[call("a", "gate-a"), call(X, "mine")]);
    Rounds {
        before: vec![first.to_string(), result("f", "of f").to_string()],
        message: last.to_string(),
        results: vec![r#"{"role":"tool","tool_call_id":"a","content":0.10}"#.into()],
    }
}

/// Returns a request with these messages.
fn request(messages: &Value) -> RawObject {
    let mut body = RawObject::default();
    body.set("messages", messages.to_string());
    body
}

/// Keeps `rounds` for Ann, under the call `x` after the message `go`.
async fn keep(recall: &Recall, may_store: bool, rounds: Option<Rounds>) {
    let sent = request(&json!([user("go")]));
    let calls = [(X, "mine")].into_iter();
    let keeper = recall.keeper(ann(), may_store);
    keeper.keep_rounds(&keeper.trail_of(&sent).await, calls, rounds).await;
}

fn body(messages: &Value) -> RawObject {
    RawObject::from(&object(json!({"model": "m", "messages": messages})))
}

async fn restored(recall: &Recall, tenant: &Tenant, messages: &Value) -> String {
    let mut body = body(messages);
    let Ok(()) = recall.restore_messages(tenant, &mut body, |_| Ok::<(), Infallible>(())).await;
    body.get("messages").expect("it is there").to_owned()
}

/// The conversation as a client sends it back whose text is `said`.
fn sent(said: Value) -> Value {
    json!([user("go"), calling(said, &[call(X, "mine")]), result(X, "of x")])
}

#[tokio::test]
async fn the_provider_sees_one_message_with_all_calls_followed_by_all_results() {
    let recall = in_memory();
    keep(&recall, false, Some(rounds())).await;
    // Whole, streamed as one text, and left out by the client.
    for said in [json!("last"), json!("first\n\nlast"), Value::Null] {
        let messages = restored(&recall, &ann(), &sent(said)).await;
        assert!(messages.contains("0.10"), "numbers keep their digits: {messages}");
        let messages: Value = messages.parse().expect("JSON");
        assert_eq!(
            messages,
            json!([
                user("go"),
                calling(json!("first"), &[call("f", "gate-f")]),
                result("f", "of f"),
                calling(json!("last"), &[call("a", "gate-a"), call(X, "mine")]),
                {"role": "tool", "tool_call_id": "a", "content": 0.10},
                result(X, "of x"),
            ])
        );
    }
}

/// Returns the members of a message with blocks of thinking.
fn thinking(mut message: Value, texts: &[&str]) -> Value {
    let blocks =
        texts.iter().map(|text| json!({"type": "thinking", "thinking": text, "signature": text}));
    message["thinking_blocks"] = blocks.collect();
    message
}

#[tokio::test]
async fn texts_and_thinking_of_a_streamed_message_are_not_repeated() {
    let first = calling(json!("First."), &[call("f", "gate-f")]);
    let second = calling(json!("Second."), &[call("s", "gate-s")]);
    let own = [call(X, "mine")];
    let before = |messages: &[&Value]| -> Vec<Value> {
        messages
            .iter()
            .flat_map(|message| {
                let id = message["tool_calls"][0]["id"].as_str().expect("an id");
                [(*message).clone(), result(id, "of it")]
            })
            .collect()
    };
    let text = |text: &str| json!({"role": "assistant", "content": text});
    let parts = json!([part("b\n\n")]);
    for (name, before, last, sent) in [
        (
            "thinking in both rounds",
            before(&[&thinking(first.clone(), &["1"])]),
            thinking(calling(Value::Null, &own), &["2"]),
            vec![thinking(text("First."), &["1"]), thinking(calling(Value::Null, &own), &["2"])],
        ),
        (
            "thinking before the first text",
            before(&[&thinking(first.clone(), &["1"])]),
            calling(Value::Null, &own),
            vec![thinking(calling(json!("First."), &own), &["1"])],
        ),
        (
            "thinking before the last text",
            before(&[&first]),
            thinking(calling(json!("Last."), &own), &["2"]),
            vec![text("First."), thinking(calling(json!("\n\nLast."), &own), &["2"])],
        ),
        (
            "a text that the client drops beside the call",
            before(&[&first]),
            thinking(calling(json!("Last."), &own), &["2"]),
            vec![text("First."), thinking(calling(Value::Null, &own), &["2"])],
        ),
        (
            "three rounds, two of them in one text",
            before(&[&first, &second]),
            thinking(calling(Value::Null, &own), &["3"]),
            vec![text("First.\n\nSecond."), thinking(calling(Value::Null, &own), &["3"])],
        ),
        (
            "three rounds, the last two in one text",
            before(&[&first, &thinking(second.clone(), &["2"])]),
            calling(json!("Last."), &own),
            vec![text("First."), thinking(calling(json!("\n\nSecond.\n\nLast."), &own), &["2"])],
        ),
        (
            "thinking between the texts of the last round",
            before(&[&first]),
            thinking(calling(json!("b\n\nc"), &own), &["2", "3"]),
            vec![
                text("First."),
                thinking(json!({"role": "assistant", "content": parts}), &["2"]),
                thinking(calling(json!("c"), &own), &["3"]),
            ],
        ),
    ] {
        let recall = in_memory();
        let rounds = Rounds {
            before: before.iter().map(Value::to_string).collect(),
            message: last.to_string(),
            results: Vec::new(),
        };
        keep(&recall, false, Some(rounds)).await;
        let of = |messages: Vec<Value>| {
            let messages = [vec![user("go")], messages, vec![result(X, "of x")]];
            Value::from(messages.concat())
        };
        let restored: Value = restored(&recall, &ann(), &of(sent)).await.parse().expect("JSON");
        assert_eq!(restored, of([before, vec![last]].concat()), "{name}");
    }
}

#[tokio::test]
async fn a_text_before_a_call_that_is_not_of_its_record_stays() {
    let recall = in_memory();
    keep(&recall, false, Some(rounds())).await;
    let own = json!({"role": "assistant", "content": "irst"});
    let mut messages = sent(json!("last"));
    messages.as_array_mut().expect("a list").insert(1, own.clone());
    let restored: Value = restored(&recall, &ann(), &messages).await.parse().expect("JSON");
    assert_eq!((&restored[1], restored.as_array().map(Vec::len)), (&own, Some(7)));
}

#[tokio::test]
async fn calls_with_an_identifier_of_other_conversations_are_not_kept() {
    let recall = in_memory();
    let sent = request(&json!([user("go")]));
    let weak = [("call_0", "mine")].into_iter();
    let keeper = recall.keeper(ann(), true);
    keeper.keep_rounds(&keeper.trail_of(&sent).await, weak, Some(rounds())).await;
    let messages = json!([user("go"), calling(json!("last"), &[call("call_0", "mine")])]);
    assert_eq!(restored(&recall, &ann(), &messages).await, messages.to_string());
}

#[tokio::test]
async fn what_the_client_changed_stays_as_the_client_sent_it() {
    let recall = in_memory();
    keep(&recall, false, Some(rounds())).await;
    let mut sent = sent(json!("changed"));
    sent[1]["tool_calls"][0]["function"]["arguments"] = "{\"n\":1}".into();
    sent[1]["name"] = "someone".into();
    let messages: Value = restored(&recall, &ann(), &sent).await.parse().expect("JSON");
    let message = &messages[3];
    assert_eq!((&message["content"], &message["name"]), (&json!("changed"), &json!("someone")));
    assert_eq!(message["tool_calls"][1]["function"]["arguments"], "{\"n\":1}");
}

#[tokio::test]
async fn the_text_of_reasoning_is_in_one_place() {
    let thinking = json!({"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]});
    let in_parts = json!([thinking, {"type": "text", "text": "last"}]);
    let own = [call("a", "gate-a"), call(X, "mine")];
    let mut short = calling(json!("last"), &own);
    short["reasoning"] = "Hm.".into();
    for (message, said, is_added) in [
        (calling(in_parts.clone(), &own), "last", false),
        (calling(in_parts, &own), "changed", true),
        (short, "last", false),
        (calling(json!("last"), &own), "last", true),
    ] {
        let recall = in_memory();
        let rounds = Rounds { before: Vec::new(), message: message.to_string(), ..rounds() };
        keep(&recall, false, Some(rounds)).await;
        let mut sent = sent(said.into());
        sent[1]["reasoning_content"] = "Hm.".into();
        let messages: Value = restored(&recall, &ann(), &sent).await.parse().expect("JSON");
        assert_eq!(messages[1]["tool_calls"].as_array().map(Vec::len), Some(2), "{messages}");
        let reasoning = messages[1].get("reasoning_content");
        assert_eq!(reasoning.is_some(), is_added, "{messages}");
    }
}

#[tokio::test]
async fn calls_are_put_back_in_every_request_and_once_in_each() {
    let recall = in_memory();
    keep(&recall, false, Some(rounds())).await;
    let once = restored(&recall, &ann(), &sent(json!("last"))).await;
    assert_eq!(restored(&recall, &ann(), &sent(json!("last"))).await, once);
    // A client that sends all calls itself, as they were put back.
    let whole: Value = once.parse().expect("JSON");
    let again = restored(&recall, &ann(), &whole).await;
    assert_eq!(again, whole.to_string());
    // The same call twice in one conversation.
    let twice = json!([
        user("go"),
        calling(json!("last"), &[call(X, "mine")]),
        result(X, "of x"),
        calling(json!("last"), &[call(X, "mine")]),
        result(X, "of x"),
    ]);
    let messages: Value = restored(&recall, &ann(), &twice).await.parse().expect("JSON");
    assert_eq!(messages.as_array().map(Vec::len), Some(5 + 3));
}

#[tokio::test]
async fn another_tenant_conversation_or_call_gets_nothing() {
    let recall = in_memory();
    keep(&recall, false, Some(rounds())).await;
    let own = sent(json!("last"));
    let other_user = json!([user("stop"), own[1], own[2]]);
    let other_name = json!([user("go"), calling(json!(""), &[call(X, "other")]), own[2]]);
    let other_id = json!([user("go"), calling(json!(""), &[call(Y, "mine")]), own[2]]);
    for (tenant, messages) in [
        (Tenant::of_key([2; 32], "ann"), own),
        (Tenant::ANONYMOUS, sent(json!("last"))),
        (ann(), other_user),
        (ann(), other_name),
        (ann(), other_id),
    ] {
        assert_eq!(restored(&recall, &tenant, &messages).await, messages.to_string());
    }
}

/// Returns the messages without notes.
async fn without_notes(messages: &Value) -> String {
    let mut body = body(messages);
    let Ok(()) = chat::remove_notes(&ann(), &mut body, |_| Ok::<(), Infallible>(())).await;
    body.get("messages").expect("it is there").to_owned()
}

#[tokio::test]
async fn a_note_about_an_approval_is_removed_from_messages_with_calls() {
    let note = note::approval(["web-post"].into_iter(), CallerInterface::Http);
    for (said, rest) in [
        (json!(note), Value::Null),
        (json!(format!("I ask.\n\n{note}")), json!("I ask.")),
        (json!([part(&note)]), Value::Null),
        (json!([part("I ask."), part(&note)]), json!([part("I ask.")])),
        (
            json!([part("I ask."), part(&format!("Now: {note}"))]),
            json!([part("I ask."), part("Now: ")]),
        ),
    ] {
        let messages: Value = without_notes(&sent(said)).await.parse().expect("JSON");
        assert_eq!(messages, sent(rest));
    }
}

fn part(text: &str) -> Value {
    json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}})
}

#[tokio::test]
async fn a_note_about_an_approval_stays_in_any_other_message() {
    let note = note::approval(["web-post"].into_iter(), CallerInterface::Http);
    let quoted = format!("It said: {note} Why?");
    let model = json!({"role": "assistant", "content": note});
    for messages in [
        json!([user("go"), model, user("and now?")]),
        json!([user(&note), calling(json!("I ask."), &[call(X, "mine")]), result(X, &note)]),
        sent(json!(quoted)),
        sent(json!([{"type": "text", "text": note}, {"type": "text", "text": "Why?"}])),
        sent(json!([note, {"text": [note]}, 7])),
        sent(json!({"text": note})),
        sent(json!(note::BEGIN)),
        json!([note, [note], {"role": "assistant", "tool_calls": note}, {"content": note}]),
    ] {
        assert_eq!(without_notes(&messages).await, messages.to_string());
    }
}

#[tokio::test]
async fn the_bytes_of_messages_without_their_note_are_charged() {
    let note = note::approval(["web-post"].into_iter(), CallerInterface::Http);
    let mut body = body(&sent(json!(note)));
    let before = body.to_text();
    let refused = chat::remove_notes(&ann(), &mut body, Err).await;
    assert!(matches!(refused, Err(bytes) if bytes > note.len()), "{refused:?}");
    assert_eq!(body.to_text(), before);
}

#[tokio::test]
async fn the_bytes_that_are_put_back_are_charged() {
    let recall = in_memory();
    keep(&recall, false, Some(rounds())).await;
    let mut body = body(&sent(json!("last")));
    let before = body.to_text();
    let refused = recall.restore_messages(&ann(), &mut body, Err).await;
    assert!(matches!(refused, Err(bytes) if bytes > before.len()), "{refused:?}");
    assert_eq!(body.to_text(), before);
}

fn database() -> (tempfile::TempDir, airlock_store::Settings) {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = airlock_store::Settings::new(directory.path().join("airlock.db"));
    (directory, settings)
}

#[tokio::test]
async fn stored_calls_outlive_the_process_and_others_are_reported_as_lost() {
    let (_directory, store) = database();
    keep(&reopened(&store), true, Some(rounds())).await;
    let messages = restored(&reopened(&store), &ann(), &sent(json!("last"))).await;
    assert!(messages.contains("of f"), "{messages}");

    // A request that asks that nothing is stored.
    let first = reopened(&store);
    keep(&first, false, Some(rounds())).await;
    assert!(restored(&first, &ann(), &sent(json!("last"))).await.contains("of f"));
    let lost = restored(&reopened(&store), &ann(), &sent(json!("last"))).await;
    let lost: Value = lost.parse().expect("JSON");
    assert_eq!(lost[1], sent(json!("last"))[1]);
    assert_eq!(lost[2]["content"], format!("of x\n{}", note::LOST));
    assert!(!store.location.is_missing_file());
}

fn reopened(store: &airlock_store::Settings) -> Recall {
    Recall::new(settings(Some(store.clone()), true))
}

#[tokio::test]
async fn contents_that_may_not_be_stored_are_not_on_the_disk() {
    let (directory, store) = database();
    for (stores_contents, may_store) in [(true, false), (false, true)] {
        let recall = Recall::new(settings(Some(store.clone()), stores_contents));
        let secret = Rounds { before: vec![user("a secret of nobody").to_string()], ..rounds() };
        keep(&recall, may_store, Some(secret)).await;
        drop(recall);
        for file in std::fs::read_dir(directory.path()).expect("it is read") {
            let bytes = std::fs::read(file.expect("a file").path()).expect("it is read");
            let found = bytes.windows(16).any(|window| window == b"secret of nobody");
            assert!(!found, "{stores_contents} {may_store}");
        }
    }
}

#[tokio::test]
async fn calls_without_room_are_reported_as_lost() {
    let (_directory, store) = database();
    let recall = Recall::new(settings(Some(store), true));
    keep(&recall, true, None).await;
    let parts = json!([{"type": "text", "text": "of x"}]);
    let mut messages = sent(json!("last"));
    messages[2]["content"] = parts;
    let lost: Value = restored(&recall, &ann(), &messages).await.parse().expect("JSON");
    assert_eq!(lost[2]["content"][1], json!({"type": "text", "text": note::LOST}));
}

#[tokio::test]
async fn a_conversation_with_invalid_members_stays_as_it_is() {
    let recall = in_memory();
    keep(&recall, false, Some(rounds())).await;
    for messages in
        [r#"{"tool_calls":1}"#, r#"[{"role":"assistant","tool_calls":[1,{"id":7},{}]}]"#]
    {
        let text = format!(r#"{{"messages":{messages}}}"#);
        let mut body = RawObject::parse(text.into_bytes(), &Caps::memory(1 << 20)).expect("JSON").0;
        let Ok(()) = recall.restore_messages(&ann(), &mut body, |_| Ok::<(), Infallible>(())).await;
        assert_eq!(body.get("messages"), Some(messages));
    }
    let odd = [json!(1), json!({"type": 7}), json!({"type": "function_call"}), json!([])];
    assert_eq!(output_items::items_restored(&recall, &odd).await, odd);
}

/// A conversation in which the results of many calls are lost, among many small messages.
#[tokio::test]
async fn many_lost_calls_in_a_long_conversation_take_time_that_grows_with_its_length_alone() {
    const CALLS: usize = 256;
    let (_directory, store) = database();
    let recall = Recall::new(settings(Some(store), true));
    let keeper = recall.keeper(ann(), true);
    let go = request(&json!([user("go")]));
    let ids: Vec<_> = (0..CALLS).map(|n| format!("call_0123456789{n:06}")).collect();
    for id in &ids {
        keeper
            .keep_rounds(&keeper.trail_of(&go).await, [(id.as_str(), "mine")].into_iter(), None)
            .await;
    }
    let mut messages = vec![user("go")];
    messages.extend(ids.iter().map(|id| calling(Value::Null, &[call(id, "mine")])));
    messages.extend((0..40_000).map(|_| result("other", "x")));
    messages.extend(ids.iter().map(|id| result(id, "of x")));
    let begun = std::time::Instant::now();
    let restored = restored(&recall, &ann(), &messages.into()).await;
    assert_eq!(restored.matches(note::LOST).count(), CALLS);
    // With a search among all messages for each call it takes a minute.
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}
