use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpListener};

use super::*;
use crate::{
    Api, CloudCredential, Key, ModelError, Prompt, Retries, backend::Backend as _, chat_replies,
    http::aws_events, service::ServiceClient,
};
use airlock_core::{memory::MemoryBudget, secret::Secret};
use airlock_json::{RawObject, object};
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

#[test]
fn bedrock_has_the_addresses_of_its_documentation() {
    let hosting = Hosting::Bedrock { region: "us-east-1".to_owned() };
    let endpoint = hosting.endpoint().expect("an endpoint");
    let service = service(Api::Anthropic, hosting, &endpoint);
    let base = "https://bedrock-runtime.us-east-1.amazonaws.com/model";
    for (model, is_streamed, expected) in [
        ("anthropic.claude-v2:1", false, "anthropic.claude-v2%3A1/invoke"),
        ("anthropic.claude-v2:1", true, "anthropic.claude-v2%3A1/invoke-with-response-stream"),
        (
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.x",
            false,
            "arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.x/invoke",
        ),
    ] {
        let uri = uri(&service, Operation::Messages, model, is_streamed);
        assert_eq!(uri, format!("{base}/{expected}"));
    }
}

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

#[test]
fn a_host_without_the_api_is_refused() {
    let hosting = Hosting::Azure { api_version: None };
    let refused = addresses("p", &service(Api::Anthropic, hosting, "https://h"));
    assert!(matches!(refused, Err(BadProvider::Hosting { .. })), "{refused:?}");
}

/// Sends a request for the model `m` to a service. Returns the responses: one, or the chunks.
async fn respond(service: &Service, is_streamed: bool) -> Result<Vec<Value>, ModelError> {
    let client = ServiceClient::new("cloud", service).expect("a good service");
    let body = json!({
        "model": "m", "messages": [{"role": "user", "content": "hi"}], "betas": ["beta-2"],
    });
    let prompt = Prompt::new(RawObject::from(&object(body)));
    let held = MemoryBudget::unlimited().charge();
    let terms = chat_replies::terms(is_streamed, &held);
    chat_replies::read(client.respond(&prompt, terms).await?).await
}

/// Sends a request for the model `m` to a service that gives one answer. Returns the request as it
/// arrived.
async fn arrived(
    service: impl FnOnce(&str) -> Service,
    is_streamed: bool,
    answer: String,
) -> String {
    let fake = FakeService::start(vec![answer]).await;
    let endpoint = fake.base_url.trim_end_matches("/v1");
    respond(&service(endpoint), is_streamed).await.expect("a response");
    fake.requests().await.remove(0)
}

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

#[tokio::test]
async fn a_message_at_vertex_has_its_version_in_the_body_and_its_model_in_the_address() {
    let stream = include_str!("../../../../../tests/fixtures/chat_streams/anthropic/text.sse");
    for (is_streamed, answer, method) in
        [(false, message(), "rawPredict"), (true, fake::events(stream), "streamRawPredict")]
    {
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

/// Returns the response with a whole message.
fn message() -> String {
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude",
        "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    });
    fake::json("200 OK", &message.to_string())
}

/// Returns a service of Bedrock that is signed in to with an access key.
fn bedrock(base_url: &str) -> Service {
    let access_key = CloudCredential::AccessKey {
        access_key: Secret::new("AKIDEXAMPLE"),
        secret_key: Secret::new("a-secret-key"),
        session_token: Some(Secret::new("a-session-token")),
    };
    let key = Key { value: None, cloud: Some(access_key), ..Key::new("k", Secret::new("")) };
    Service {
        hosting: Hosting::Bedrock { region: "us-east-1".to_owned() },
        deployments: [("m".to_owned(), "anthropic.claude-v2:1".to_owned())].into(),
        headers: [("anthropic-beta".to_owned(), Secret::new("beta-1"))].into(),
        keys: vec![key],
        retries: Retries { max: 0, ..Retries::default() },
        ..Service::new(Api::Anthropic, base_url)
    }
}

#[tokio::test]
async fn a_message_at_bedrock_is_signed_and_has_its_beta_features_in_the_body() {
    let request = arrived(bedrock, false, message()).await;
    let path = "/model/anthropic.claude-v2%3A1/invoke";
    assert!(request.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{request}");
    assert!(request.contains("\r\nauthorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/"));
    let signed = "/us-east-1/bedrock/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature=";
    assert!(request.contains(signed), "{request}");
    assert!(request.contains("\r\nx-amz-security-token: a-session-token\r\n"), "{request}");
    assert_eq!(request.matches("\r\nhost: ").count(), 1);
    assert!(!request.contains("a-secret-key"), "{request}");
    let body = request.split_once("\r\n\r\n").expect("a head").1;
    let body: Value = body.parse().expect("JSON");
    assert_eq!(body["anthropic_version"], "bedrock-2023-05-31");
    assert_eq!(body["anthropic_beta"], json!(["beta-1", "beta-2"]));
    assert_eq!((body.get("model"), body.get("stream")), (None, None));
}

#[tokio::test]
async fn a_key_of_bedrock_is_a_bearer_token() {
    let with_key = |base_url: &str| Service {
        keys: vec![Key::new("k", Secret::new("bedrock-api-key"))],
        ..bedrock(base_url)
    };
    let request = arrived(with_key, false, message()).await;
    assert!(request.contains("\r\nauthorization: Bearer bedrock-api-key\r\n"), "{request}");
    assert!(!request.contains("x-amz-date"), "{request}");
}

/// Sends a streamed request to Bedrock, which answers with an event stream.
async fn streamed(stream: Vec<u8>) -> (Result<Vec<Value>, ModelError>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let serving = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        let request = fake::read_request(&mut socket).await;
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ncontent-length: {}\r\n\r\n",
            stream.len()
        );
        socket.write_all(head.as_bytes()).await.expect("it is read");
        // The client may have read enough.
        let _ = socket.write_all(&stream).await;
        request
    });
    let answered = respond(&bedrock(&endpoint), true).await;
    (answered, serving.await.expect("the service ends"))
}

/// Returns the messages of the events of a recorded stream.
fn recorded() -> Vec<Vec<u8>> {
    let stream = include_str!("../../../../../tests/fixtures/chat_streams/anthropic/text.sse");
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(aws_events::tests::chunk).collect()
}

#[tokio::test]
async fn a_stream_of_bedrock_is_read_as_the_same_stream_of_anthropic() {
    let (answered, request) = streamed(recorded().concat()).await;
    let path = "/model/anthropic.claude-v2%3A1/invoke-with-response-stream";
    assert!(request.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{request}");
    let text = include_str!("../../../../../tests/fixtures/chat_streams/anthropic/text.sse");
    let fake = FakeService::start(vec![fake::events(text)]).await;
    let anthropic = Service::new(Api::Anthropic, &fake.base_url);
    let expected = respond(&anthropic, true).await.expect("chunks");
    let answered = answered.expect("chunks");
    let without_time = |chunks: Vec<Value>| {
        let chunks = chunks.into_iter().map(|mut chunk| {
            chunk["created"] = json!(0);
            chunk
        });
        chunks.collect::<Vec<_>>()
    };
    assert!(answered.len() > 1);
    assert_eq!(without_time(answered), without_time(expected));
    fake.requests().await;
}

#[tokio::test]
async fn a_stream_of_bedrock_that_fails_is_an_error() {
    let messages = recorded();
    let headers = [(":exception-type", "throttlingException"), (":message-type", "exception")];
    let slow = aws_events::tests::message(&headers, br#"{"message":"slow down"}"#);
    let (answered, _) = streamed(slow).await;
    let error = answered.expect_err("an exception");
    assert_eq!((error.status().as_u16(), error.said()), (429, Some("slow down")));
    let whole = messages.concat();
    let (answered, _) = streamed(whole[..whole.len() - 1].to_vec()).await;
    assert!(matches!(answered, Err(ModelError::BadAnswer { .. })), "{answered:?}");
    let mut broken = whole;
    broken[20] ^= 1;
    let (answered, _) = streamed(broken).await;
    assert!(matches!(answered, Err(ModelError::BadAnswer { .. })), "{answered:?}");
}
