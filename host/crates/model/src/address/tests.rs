use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::{
    Key, MemoryBudget, Prompt, Response, Terms, backend::Backend as _, object,
    service::ServiceClient,
};
use airlock_core::secret::Secret;
use airlock_json::RawObject;
use airlock_test_http::model::{self as fake, FakeService};

fn service(api: Api, hosting: Hosting, base_url: &str) -> Service {
    Service { hosting, ..Service::new(api, base_url) }
}

/// Returns the URI of an operation of a service.
fn uri(service: &Service, operation: Operation, model: &str, is_streamed: bool) -> String {
    let addresses = addresses("p", service).expect("a hosted API");
    addresses.uri(operation, model, is_streamed).expect("a good name").to_string()
}

#[test]
fn the_vendor_has_one_address_for_all_models() {
    let service = service(Api::OpenAi, Hosting::Vendor, "https://h/api/v1//");
    for (operation, expected) in [
        (Operation::ChatCompletions, "https://h/api/v1/chat/completions"),
        (Operation::Responses, "https://h/api/v1/responses"),
        (Operation::Messages, "https://h/api/v1/messages"),
    ] {
        assert_eq!(uri(&service, operation, "../x", true), expected);
    }
}

#[cfg(feature = "azure")]
#[test]
fn azure_has_the_addresses_of_its_documentation() {
    use Operation::{ChatCompletions, Responses};
    let dated = Some("2024-10-21");
    for (version, operation, expected) in [
        (None, ChatCompletions, "/openai/v1/chat/completions"),
        (None, Responses, "/openai/v1/responses"),
        (
            dated,
            ChatCompletions,
            "/openai/deployments/my%2Fgpt/chat/completions?api-version=2024-10-21",
        ),
        (dated, Responses, "/openai/responses?api-version=2024-10-21"),
    ] {
        let hosting = Hosting::Azure { api_version: version.map(str::to_owned) };
        let service = service(Api::OpenAi, hosting, "https://r.openai.azure.com/");
        let expected = format!("https://r.openai.azure.com{expected}");
        assert_eq!(uri(&service, operation, "my/gpt", false), expected);
    }
}

#[cfg(feature = "vertex")]
#[test]
fn vertex_has_the_addresses_of_its_documentation() {
    for (location, host) in [
        ("us-east5", "us-east5-aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
    ] {
        let hosting = Hosting::Vertex { project: "my-p".to_owned(), location: location.to_owned() };
        let endpoint = hosting.endpoint().expect("an endpoint");
        let base = format!("https://{host}/v1/projects/my-p/locations/{location}/publishers");
        let claude = service(Api::Anthropic, hosting.clone(), &endpoint);
        for (is_streamed, method) in [(false, "rawPredict"), (true, "streamRawPredict")] {
            let uri = uri(&claude, Operation::Messages, "claude-sonnet-4@20250514", is_streamed);
            assert_eq!(uri, format!("{base}/anthropic/models/claude-sonnet-4@20250514:{method}"));
        }
        let gemini = addresses("p", &service(Api::Gemini, hosting, &endpoint)).expect("Gemini's");
        assert_eq!(
            gemini.below("models/gemini-2.5-flash:streamGenerateContent?alt=sse").to_string(),
            format!("{base}/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse")
        );
    }
}

#[cfg(feature = "azure")]
#[test]
fn a_host_without_the_api_is_refused() {
    let hosting = Hosting::Azure { api_version: None };
    let refused = addresses("p", &service(Api::Anthropic, hosting, "https://h"));
    assert!(matches!(refused, Err(BadProvider::Hosting { .. })), "{refused:?}");
}

/// Sends a request for the model `m` to a service that gives one answer. Returns the request as it
/// arrived.
#[cfg(any(feature = "azure", feature = "vertex"))]
async fn arrived(
    service: impl FnOnce(&str) -> Service,
    is_streamed: bool,
    answer: String,
) -> String {
    let fake = FakeService::start(vec![answer]).await;
    let endpoint = fake.base_url.trim_end_matches("/v1");
    let client = ServiceClient::new("cloud", &service(endpoint)).expect("a good service");
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    let prompt = Prompt::new(RawObject::from(&object(body)));
    let held = MemoryBudget::unlimited().charge();
    let deadline = Instant::now() + Duration::from_mins(1);
    let terms = Terms { is_streamed, in_chunks: false, deadline, held: &held };
    match client.respond(&prompt, terms).await.expect("a response") {
        Response::Whole(_) => {}
        Response::Chunks(mut chunks) => while chunks.next().await.expect("a chunk").is_some() {},
    }
    fake.requests().await.remove(0)
}

#[cfg(feature = "azure")]
#[tokio::test]
async fn a_deployment_of_azure_is_addressed_and_signed_in_to() {
    const ANSWER: &str = r#"{"choices":[{"message":{"content":"hi"}}]}"#;
    for (api_version, deployments, path, model) in [
        (None, vec![], "/openai/v1/chat/completions", "m"),
        (None, vec![("m", "my-gpt")], "/openai/v1/chat/completions", "my-gpt"),
        (
            Some("2024-10-21"),
            vec![("m", "my-gpt")],
            "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21",
            "my-gpt",
        ),
    ] {
        let deployments = deployments.into_iter();
        let azure = |base_url: &str| Service {
            hosting: Hosting::Azure { api_version: api_version.map(str::to_owned) },
            deployments: deployments.map(|(name, own)| (name.to_owned(), own.to_owned())).collect(),
            keys: vec![Key::new("k", Secret::new("azure-secret"))],
            ..Service::new(Api::OpenAi, base_url)
        };
        let request = arrived(azure, false, fake::json("200 OK", ANSWER)).await;
        assert!(request.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{request}");
        assert!(request.contains("\r\napi-key: azure-secret\r\n"), "{request}");
        assert!(!request.contains("authorization:"), "{request}");
        assert!(request.contains(&format!(r#""model":"{model}""#)), "{request}");
    }
}

#[cfg(feature = "azure")]
#[tokio::test]
async fn a_cloud_lists_the_models_of_its_settings_without_a_request() {
    let key = Key { models: Some(vec!["b".to_owned()]), ..Key::new("k", Secret::new("x")) };
    let service = Service {
        hosting: Hosting::Azure { api_version: None },
        deployments: [("a", "x"), ("b", "y")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
        keys: vec![key],
        ..Service::new(Api::OpenAi, "http://127.0.0.1:1")
    };
    let client = ServiceClient::new("cloud", &service).expect("a good service");
    // No key serves `a`.
    let listed: Value = client.list().await.parse().expect("one model");
    assert_eq!(listed["id"], "cloud/b");
}

#[cfg(feature = "vertex")]
#[tokio::test]
async fn a_message_at_vertex_has_its_version_in_the_body_and_its_model_in_the_address() {
    let stream = include_str!("../../../../../tests/fixtures/chat_streams/anthropic/text.sse");
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 1, "output_tokens": 1},
    });
    let message = message.to_string();
    for (is_streamed, answer, method) in [
        (false, fake::json("200 OK", &message), "rawPredict"),
        (true, fake::events(stream), "streamRawPredict"),
    ] {
        let vertex = |base_url: &str| Service {
            hosting: Hosting::Vertex { project: "p".to_owned(), location: "global".to_owned() },
            keys: vec![Key::new("k", Secret::new("ya29.static"))],
            ..Service::new(Api::Anthropic, base_url)
        };
        let request = arrived(vertex, is_streamed, answer).await;
        let path =
            format!("/v1/projects/p/locations/global/publishers/anthropic/models/m:{method}");
        assert!(request.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{request}");
        assert!(request.contains("\r\nauthorization: Bearer ya29.static\r\n"), "{request}");
        assert!(!request.contains("anthropic-version:"), "{request}");
        let body = request.split_once("\r\n\r\n").expect("a head").1;
        let body: Value = body.parse().expect("JSON");
        assert_eq!(
            (&body["anthropic_version"], &body["model"]),
            (&json!("vertex-2023-10-16"), &Value::Null)
        );
        assert_eq!(body.get("stream").is_some(), is_streamed);
    }
}
