use std::{io::Write as _, time::Duration};

use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::{Key as KeySettings, Timeouts, chat_replies};
use airlock_core::secret::Secret;
use airlock_json::{RawObject, object};
use airlock_strings::with_causes;
use airlock_test_http::model::{self as fake, FakeService};

const GOOD: &str = r#"{"choices":[{"message":{"content":"hi"}}]}"#;
const BUSY: &str = r#"{"error":{"message":"busy"}}"#;
const CHUNK: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n";

fn service(base_url: &str, keys: &[&str]) -> Service {
    let wait = Duration::from_millis(1);
    Service {
        keys: keys.iter().map(|key| KeySettings::new(*key, Secret::new(*key))).collect(),
        retries: Retries { max: 2, initial: wait, longest: wait },
        ..Service::new(Api::OpenAi, base_url)
    }
}

fn prompt() -> Prompt {
    Prompt::new(RawObject::from(&object(json!({"model": "m", "messages": []}))))
}

/// Sends a request and reads the whole response.
async fn respond(service: &Service, is_streamed: bool) -> Result<Value, ModelError> {
    let client = ServiceClient::new("up", service).expect("a good service");
    let held = MemoryBudget::unlimited().charge();
    let terms = chat_replies::terms(is_streamed, &held);
    let mut read = chat_replies::read(client.respond(&prompt(), terms).await?).await?;
    Ok(if is_streamed { read.into() } else { read.remove(0) })
}

/// Returns the bearer token of a request.
fn token(request: &str) -> &str {
    let rest = request.split("authorization: Bearer ").nth(1);
    rest.and_then(|rest| rest.lines().next()).unwrap_or_default()
}

fn body(request: &str) -> &str {
    request.split_once("\r\n\r\n").expect("a head").1
}

#[tokio::test]
async fn a_request_that_the_service_could_not_serve_is_repeated_unchanged() {
    let busy = fake::json("503 Busy", BUSY);
    let fake = FakeService::start(vec![busy.clone(), busy, fake::json("200 OK", GOOD)]).await;
    let answer = respond(&service(&fake.base_url, &["k"]), false).await;
    assert_eq!(answer.expect("an answer")["choices"][0]["message"]["content"], "hi");
    let requests = fake.requests().await;
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|sent| token(sent) == "k" && body(sent) == body(&requests[0])));
}

#[tokio::test]
async fn the_last_error_is_returned_after_the_maximum_of_repetitions() {
    let busy = [0, 0, 9].map(|seconds| {
        fake::respond("429 Slow", "application/json", &format!("retry-after: {seconds}\r\n"), BUSY)
    });
    let fake = FakeService::start(busy.to_vec()).await;
    let error = respond(&service(&fake.base_url, &["k"]), false).await.expect_err("busy");
    assert_eq!(error.status(), 429);
    assert_eq!(error.retry_after().expect("it was sent").as_secs(), 9);
    assert_eq!(fake.requests().await.len(), 3);
}

#[tokio::test]
async fn a_key_that_is_not_accepted_is_replaced_by_another() {
    let refused = fake::json("401 No", BUSY);
    let fake = FakeService::start(vec![refused.clone(), fake::json("200 OK", GOOD)]).await;
    let answer = respond(&service(&fake.base_url, &["a", "b"]), false).await;
    assert!(answer.is_ok(), "{answer:?}");
    let requests = fake.requests().await;
    let mut tokens: Vec<_> = requests.iter().map(|request| token(request)).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, ["a", "b"]);
    let fake = FakeService::start(vec![refused.clone(), refused]).await;
    let error = respond(&service(&fake.base_url, &["a", "b", "c"]), false).await.expect_err("no");
    assert!(matches!(error, ModelError::Credential { .. }), "{error:?}");
    assert_eq!(fake.requests().await.len(), 2);
}

#[tokio::test]
async fn a_model_that_no_key_serves_is_not_found_and_nothing_is_sent() {
    let mut service = service("http://127.0.0.1:1/v1", &["a"]);
    service.keys[0].models = Some(vec!["other".to_owned()]);
    let error = respond(&service, false).await.expect_err("no key");
    assert_eq!(error.to_string(), "no key of provider 'up' serves the model 'm'");
    assert_eq!(error.status(), 404);
    assert_eq!(error.to_object()["param"], "model");
}

#[tokio::test]
async fn an_error_as_the_first_event_of_a_stream_is_repeated_and_a_later_one_is_not() {
    let failed = "data: {\"error\":{\"message\":\"full\",\"code\":503}}\n\n";
    let good = format!("{CHUNK}data: [DONE]\n\n");
    let fake = FakeService::start(vec![fake::events(failed), fake::events(&good)]).await;
    let answer = respond(&service(&fake.base_url, &["k"]), true).await.expect("a stream");
    assert_eq!(answer.as_array().map(Vec::len), Some(1));
    assert_eq!(fake.requests().await.len(), 2);
    let unfinished = CHUNK.replace("\"stop\"", "null");
    let fake = FakeService::start(vec![fake::events(&format!("{unfinished}{failed}"))]).await;
    let error = respond(&service(&fake.base_url, &["k"]), true).await.expect_err("it fails");
    assert_eq!(
        (error.status().as_u16(), error.to_object()["message"].as_str()),
        (503, Some("full"))
    );
    assert_eq!(fake.requests().await.len(), 1);
    let bad = failed.replace("503", "400");
    let fake = FakeService::start(vec![fake::events(&bad)]).await;
    let error = respond(&service(&fake.base_url, &["k"]), true).await.expect_err("it fails");
    assert_eq!(error.status(), 400, "an error of the request is final");
    fake.requests().await;
}

#[tokio::test]
async fn a_connection_that_cannot_be_made_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let mut service = service(&format!("http://{address}/v1"), &["k"]);
    service.retries.initial = Duration::from_millis(50);
    service.retries.longest = Duration::from_millis(50);
    let started = std::time::Instant::now();
    let error = respond(&service, false).await.expect_err("nobody listens");
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    let chain = airlock_strings::with_causes(&error);
    assert!(chain.contains(&format!("no response from http://{address}/v1/")), "{chain}");
    assert!(!error.to_string().contains("127.0.0.1"), "callers see no addresses: {error}");
    assert!(started.elapsed() >= Duration::from_millis(50), "two waits of 25 ms or more");
}

#[tokio::test]
async fn a_stream_that_does_not_begin_in_time_fails_although_comments_arrive() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base_url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let silent = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        fake::read_request(&mut stream).await;
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: wait\n\n";
        tokio::io::AsyncWriteExt::write_all(&mut stream, head).await.expect("it is read");
        // Until the client closes the connection.
        let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut [0]).await;
    });
    let timeouts = Timeouts { first_byte: Duration::from_millis(300), ..Timeouts::default() };
    let service = Service { timeouts, ..service(&base_url, &["k"]) };
    let error = respond(&service, true).await.expect_err("no chunk comes");
    assert!(matches!(error, ModelError::Silent { .. }), "{error:?}");
    silent.await.expect("the service ends");
}

#[tokio::test]
async fn configured_headers_are_sent_and_their_secrets_redacted_in_responses() {
    let secret = "a-token-that-is-secret";
    let echo = format!(r#"{{"choices":[],"echo":"{secret} and on"}}"#);
    let fake = FakeService::start(vec![fake::json("200 OK", &echo)]).await;
    let mut service = service(&fake.base_url, &[]);
    service.headers.insert("x-team".to_owned(), Secret::new(format!("Token {secret}")));
    service.headers.insert("x-beta".to_owned(), Secret::new("on"));
    assert_eq!(respond(&service, false).await.expect("an answer")["echo"], "*** and on");
    let request = fake.requests().await.remove(0);
    assert!(request.contains(&format!("x-team: Token {secret}\r\n")), "{request}");
    assert!(!request.contains("authorization"), "there is no key: {request}");
    assert!(!format!("{service:?}").contains(secret));
}

#[tokio::test]
async fn a_proxy_gets_every_request() {
    let proxy = FakeService::start(vec![fake::json("200 OK", GOOD)]).await;
    let url = proxy.base_url.trim_end_matches("/v1").replace("//", "//me:pass@");
    let mut service = service("http://model.invalid/v1", &["k"]);
    service.proxy = Some(Secret::new(url));
    assert!(respond(&service, false).await.is_ok());
    let request = proxy.requests().await.remove(0);
    let line = "POST http://model.invalid/v1/chat/completions HTTP/1.1\r\n";
    assert!(request.starts_with(line), "{request}");
    assert!(request.contains("proxy-authorization: Basic bWU6cGFzcw==\r\n"), "{request}");
    service.proxy = Some(Secret::new("ftp://proxy"));
    assert!(matches!(ServiceClient::new("up", &service), Err(BadProvider::Proxy { .. })));
}

#[test]
fn a_file_without_certificates_is_refused() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    let mut service = service("https://model.invalid/v1", &[]);
    service.ca = Some(file.path().to_owned());
    let error = with_causes(&ServiceClient::new("up", &service).expect_err("no certificate"));
    assert_eq!(
        error.replace(&file.path().display().to_string(), "ca.pem"),
        r#"`ca` of provider "up" cannot be used: the file ca.pem has no certificate in PEM format"#
    );
    service.ca = Some("missing.pem".into());
    let error = with_causes(&ServiceClient::new("up", &service).expect_err("no certificate"));
    assert!(error.contains("missing.pem"));
    file.write_all(b"x").expect("it is written");
}

#[tokio::test]
async fn a_list_has_only_models_that_a_key_serves() {
    let list = r#"{"data":[{"id":"a"},{"id":"b"},{"id":"c"}]}"#;
    for (second, expected) in [(Some(vec!["c".to_owned()]), 2), (None, 3)] {
        let fake = FakeService::start(vec![fake::json("200 OK", list)]).await;
        let mut service = service(&fake.base_url, &["k", "l"]);
        service.keys[0].models = Some(vec!["a".to_owned()]);
        service.keys[1].models = second;
        let client = ServiceClient::new("up", &service).expect("a good service");
        assert_eq!(client.list().await.matches("\"up/").count(), expected);
        assert!(fake.requests().await[0].starts_with("GET /v1/models HTTP/1.1\r\n"));
    }
}
