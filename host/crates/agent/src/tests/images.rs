//! Rounds as a model receives them: results with images, and its own messages.

use super::*;
use airlock_model::{Api, Kind, Service};
use airlock_test_http::model::{self as service, FakeService};

/// Returns the results that a model receives for the calls of `look`, in order. The second call
/// fails.
async fn looked(reads_images: bool, settings: Settings) -> Vec<Value> {
    let messages = sent_after_calls(json!({}), reads_images, settings).await;
    let results = messages.into_iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].clone()).collect()
}

/// Returns the messages that a model receives after it has called `look` twice, in a message with these
/// other members.
async fn sent_after_calls(members: Value, reads_images: bool, settings: Settings) -> Vec<Value> {
    let calls = [("a", "{}"), ("b", r#"{"error":"torn"}"#)].map(|(id, arguments)| json!({"id": id, "type": "function", "function": {"name": "desk-look", "arguments": arguments}}));
    let mut message = object(json!({"role": "assistant", "tool_calls": calls}));
    message.extend(object(members));
    let answer = json!({"choices": [{"message": message}]});
    let end = json!({"choices": [{"message": {"role": "assistant", "content": "seen"}}]});
    let answers = [answer, end].map(|answer| service::json("200 OK", &answer.to_string()));
    let server = FakeService::start(answers.to_vec()).await;
    let mut own = Service::new(Api::OpenAi, server.base_url.as_str());
    own.images_in_tool_results = reads_images;
    let kind = Kind::Service(Box::new(own));
    let provider = airlock_model::Settings { name: "demo".into(), kind, fallbacks: Vec::new() };
    let models = Arc::new(Models::new(&[provider]).expect("good settings"));
    run(models, caller(&Filter::none()), request(), settings).finish().await.expect("an answer");
    let requests = server.requests().await;
    let body = requests[1].split_once("\r\n\r\n").expect("a body").1;
    let body: Value = body.parse().expect("JSON");
    body["messages"].as_array().expect("messages").clone()
}

#[tokio::test]
async fn images_of_results_and_errors_reach_a_model_that_reads_them() {
    let url = format!("data:image/png;base64,{}", *fake::IMAGE);
    let image = json!({"type": "image_url", "image_url": {"url": url}});
    let failed = "Error executing tool desk-look: torn\na square";
    assert_eq!(
        looked(true, SETTINGS).await,
        ["a square", failed].map(|text| json!([{"type": "text", "text": text}, image]))
    );
    let notes = ["a square", failed].map(|text| json!(format!("{text}\n[Image: image/png]")));
    assert_eq!(looked(false, SETTINGS).await, notes);
    // The calls take some hundreds of bytes, and one image fits beside them.
    let short = Settings { max_tool_bytes: 2_400, ..SETTINGS };
    let results = looked(true, short).await;
    assert!(results[0].is_array() && results[1].is_string(), "{results:?}");
}

#[tokio::test]
async fn a_message_of_the_model_is_sent_back_with_all_its_members() {
    let thinking = json!({"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]});
    for members in [
        json!({"content": null, "reasoning": "Hm.", "x": [1]}),
        json!({"content": "Look:", "reasoning_content": "Hm.", "x": {"y": null}}),
        json!({"content": [{"type": "odd"}, {"no": "type"}]}),
        json!({"content": [thinking]}),
        json!({"content": [thinking, {"type": "text", "text": "Look:"}]}),
        json!({"content": "", "reasoning_content": ""}),
        json!({"content": "", "reasoning_content": "Hm."}),
        json!({"content": null, "reasoning_content": ""}),
        json!({"content": "", "reasoning": ""}),
        json!({"content": "", "x": 1}),
    ] {
        let messages = sent_after_calls(members.clone(), false, SETTINGS).await;
        let roles: Vec<_> =
            messages.iter().filter_map(|message| message["role"].as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "tool"]);
        let mut sent = messages[1].clone();
        assert_eq!(sent["tool_calls"][1]["id"], "b");
        let sent = sent.as_object_mut().expect("an object");
        sent.retain(|name, _| name != "role" && name != "tool_calls");
        assert_eq!(json!(sent), members);
    }
}
