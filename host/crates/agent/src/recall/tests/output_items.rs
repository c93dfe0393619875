//! Output items of the Responses API.

use super::*;
use crate::recall::items::OutputKeeper;

fn item(kind: &str, id: &str) -> Value {
    match kind {
        "call" => json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id,
                         "name": "mine", "arguments": "{}", "status": "completed"}),
        "result" => json!({"type": "function_call_output", "call_id": id, "output": "of x"}),
        "ran" => json!({"type": "mcp_call", "id": id, "name": "gate-a", "arguments": "{}",
                        "server_label": "gate", "output": "of a", "status": "completed"}),
        "thought" => {
            json!({"type": "reasoning", "id": "r", "encrypted_content": id, "summary": []})
        }
        _ => {
            json!({"type": "message", "role": kind, "content": [{"type": "output_text", "text": id}]})
        }
    }
}

async fn keep_output(recall: &Recall, input: &[Value], output: &[Value], has_room: bool) {
    let keeper = OutputKeeper::new(recall.keeper(ann(), false), &[], input);
    keeper.keep(output, |_| has_room).expect("calls ran").await;
}

pub(super) async fn items_restored(recall: &Recall, items: &[Value]) -> Vec<Value> {
    let mut items = items.to_vec();
    let Ok(()) = recall.restore_items(&ann(), &mut items, |_| Ok::<(), Infallible>(())).await;
    items
}

#[tokio::test]
async fn items_that_a_client_drops_are_put_back_before_the_next_one_of_their_response() {
    let recall = in_memory();
    let go = item("user", "go");
    let output = [
        item("thought", "1"),
        item("ran", "mcp_1"),
        item("thought", "2"),
        item("ran", "mcp_2"),
        item("call", X),
        item("ran", "mcp_3"),
    ];
    keep_output(&recall, std::slice::from_ref(&go), &output, true).await;
    // Without identifiers, and the calls of the gateway, as Codex sends it.
    let mut call = output[4].clone();
    call.as_object_mut().expect("an object").remove("id");
    let end = item("result", X);
    let sent = [&go, &output[0], &output[2], &call, &end].map(Clone::clone);
    let expected = [&go, &output[0], &output[1], &output[2], &output[3], &output[5], &call, &end];
    let restored = items_restored(&recall, &sent).await;
    assert_eq!(restored, expected.map(Clone::clone));
    assert_eq!(items_restored(&recall, &restored).await, restored, "a client that drops nothing");
    // Without the results, which are optional, as @openai/agents sends it.
    let mut emptied = restored.clone();
    for item in emptied.iter_mut().filter(|item| item["type"] == "mcp_call") {
        item.as_object_mut().expect("an object").remove("output");
    }
    assert_eq!(items_restored(&recall, &emptied).await, restored);
    // Without reasoning.
    let sent = [&go, &call, &end].map(Clone::clone);
    let kinds: Vec<_> = items_restored(&recall, &sent).await;
    let kinds: Vec<_> =
        kinds.iter().map(|item| item["type"].as_str().unwrap_or_default()).collect();
    let ran = "mcp_call";
    assert_eq!(kinds, ["message", ran, ran, ran, "function_call", "function_call_output"]);
}

#[tokio::test]
async fn calls_before_a_text_of_the_model_are_put_back_too() {
    let recall = in_memory();
    let go = json!({"role": "user", "content": "go"});
    let mut done = item("assistant", "done");
    done["id"] = "msg_0123456789abcdef".into();
    let ran = item("ran", "mcp_1");
    keep_output(&recall, std::slice::from_ref(&go), &[ran.clone(), done.clone()], true).await;
    let next = item("user", "and now?");
    let sent = [&go, &done, &next].map(Clone::clone);
    let expected = [&go, &ran, &done, &next].map(Clone::clone);
    assert_eq!(items_restored(&recall, &sent).await, expected);
    // The same text in another conversation.
    let other = [go, item("assistant", "done"), next];
    assert_eq!(items_restored(&recall, &other).await, other);
}

#[tokio::test]
async fn lost_items_are_reported_in_the_result_of_the_clients_call() {
    let (_directory, store) = database();
    let recall = Recall::new(settings(Some(store), false));
    let go = item("user", "go");
    let output = [item("ran", "mcp_1"), item("call", X)];
    keep_output(&recall, std::slice::from_ref(&go), &output, false).await;
    let sent = [go, output[1].clone(), item("result", X)];
    let restored = items_restored(&recall, &sent).await;
    assert_eq!(restored[2]["output"], format!("of x\n{}", note::LOST));
    assert_eq!(restored[..2], sent[..2]);
}
