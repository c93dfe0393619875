use std::time::Duration;

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

use super::*;
use crate::{
    Api, BadProvider, Key, Prompt, Retries, Service as Settings, backend::Backend as _,
    chat_replies, http::ServiceBounds, service::ServiceClient,
};
use airlock_core::{
    memory::{Limited, MemoryBudget},
    secret::Secret,
    tenant::Tenant,
    threads::{self, INLINE_BYTES},
};
use airlock_json::{self as json, Caps, RawObject, object};
use airlock_test_http::model::{self as fake, FakeService, read_request};

const KEY: &str = "sk-very-secret";
const SMALL: ServiceBounds = ServiceBounds {
    connect: Duration::from_secs(5),
    answer: Duration::from_secs(5),
    first_byte: Duration::from_secs(5),
    idle: Duration::from_secs(5),
    list: Duration::from_secs(5),
    answer_bytes: 1000,
    event_bytes: 1000,
    answer_tree_bytes: 20_000,
};

/// Behaviour of a service after it has read a request.
enum Service {
    Says(String),
    HangsUp,
    IsSilent,
}

/// Starts a service for one request. Its task returns the request.
async fn service(service: Service) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let base_url = format!("http://{}/v1/", listener.local_addr().expect("an address"));
    let task = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let request = read_request(&mut stream).await;
        match service {
            Service::Says(answer) => stream.write_all(answer.as_bytes()).await.expect("it is read"),
            Service::HangsUp => {}
            Service::IsSilent => drop(stream.read(&mut [0]).await),
        }
        request
    });
    (base_url, task)
}

#[test]
fn a_model_that_has_accepted_the_option_is_remembered_up_to_the_length_of_the_longest_name() {
    let addresses = crate::address::addresses("up", &settings("http://a.invalid/v1"));
    let api = OpenAi::new(addresses.expect("a good address"));
    for (length, is_known) in [(MAX_KNOWN_MODEL_BYTES, true), (MAX_KNOWN_MODEL_BYTES + 1, false)] {
        let prompt = prompt(&object(json!({"model": "m".repeat(length)})));
        api.note_option(&prompt);
        assert_eq!(api.has_accepted(&prompt), is_known, "{length}");
    }
}

fn answer(status: &str, body: &str) -> Service {
    Service::Says(format!(
        "HTTP/1.1 {status}\r\nretry-after: 7\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
}

fn settings(base_url: &str) -> Settings {
    let keys = vec![Key::new("first", Secret::new(KEY))];
    let retries = Retries { max: 0, ..Retries::default() };
    Settings { keys, retries, ..Settings::new(Api::OpenAi, base_url) }
}

fn client(base_url: &str, bounds: ServiceBounds) -> ServiceClient {
    ServiceClient::with_bounds("up", &settings(base_url), bounds).expect("a good address")
}

fn prompt(body: &Object) -> Prompt {
    Prompt::new(RawObject::from(body))
}

/// Returns the whole response.
async fn respond(
    client: &ServiceClient,
    prompt: &Prompt,
    held: &Charge,
) -> Result<Document, ModelError> {
    match client.respond(prompt, chat_replies::terms(false, held)).await? {
        Response::Whole(reply) => Ok(reply.into_parts().1.expect("it is a chat completion")),
        Response::Chunks(_) => unreachable!("no stream was asked for"),
    }
}

fn free() -> Charge {
    MemoryBudget::unlimited().charge()
}

async fn complete(behaviour: Service) -> Result<Object, ModelError> {
    let (base_url, task) = service(behaviour).await;
    let prompt = prompt(&object(json!({"model": "m", "messages": []})));
    let result = respond(&client(&base_url, SMALL), &prompt, &free()).await;
    task.await.expect("the service ends");
    result.map(Document::into_object)
}

#[tokio::test]
async fn requests_and_responses_are_forwarded_unchanged() {
    let body = r#"{"id":"x", "unknown":{"b":12345678901234567890123,"a":[2.50]},"choices":[{"odd":true}]}"#;
    let (base_url, task) = service(answer("200 OK", body)).await;
    let request = r#"{"zeta":{"y":1, "x":null},"model":"m","messages":[],"alpha":0.10}"#;
    let (parsed, _) = RawObject::parse(request.into(), &Caps::memory(1 << 20)).expect("an object");
    let answered = respond(&client(&base_url, SMALL), &Prompt::new(parsed), &free()).await;
    assert_eq!(answered.expect("a completion").into_text(), body);
    let sent = task.await.expect("the service ends");
    assert!(sent.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains(&format!("authorization: Bearer {KEY}\r\n")), "{sent}");
    assert!(sent.ends_with(request), "{sent}");
}

#[tokio::test]
async fn errors_of_the_service_keep_status_shape_and_retry_after() {
    for (status, body, expected) in [
        (
            "429 Too Many Requests",
            r#"{"error":{"message":"slow","type":"t","odd":1}}"#,
            json!({"message": "slow", "type": "t", "odd": 1}),
        ),
        ("500 Oops", r#"{"error":{"message":"m"}}"#, json!({"message": "m"})),
    ] {
        let error = complete(answer(status, body)).await.expect_err("an error");
        assert_eq!(error.status().as_u16().to_string(), status[..3]);
        assert_eq!(Value::from(error.to_object()), expected);
        assert_eq!(error.retry_after().expect("it was sent").as_secs(), 7);
    }
    for (status, body, said) in [
        ("503 Busy", "<html>", ""),
        ("404 Gone", r#"{"error":"text"}"#, ": text"),
        ("400 Bad", r#"{"detail":"x"}"#, ": x"),
    ] {
        let error = complete(answer(status, body)).await.expect_err("an error");
        assert_eq!(error.status().as_u16().to_string(), status[..3]);
        assert_eq!(
            error.to_object()["message"],
            format!("provider 'up' responded with status {}{said}", &status[..3])
        );
    }
}

#[tokio::test]
async fn a_response_that_is_not_a_completion_is_a_bad_gateway() {
    let long = format!(r#"{{"choices":[],"x":"{}"}}"#, "x".repeat(1000));
    for body in ["", "hello", "[]", "{}", r#"{"choices":1}"#, r#"{"error":{"message":"m"}}"#, &long]
    {
        let error = complete(answer("200 OK", body)).await.expect_err(body);
        assert_eq!(error.status(), StatusCode::BAD_GATEWAY, "{body}");
    }
    let error = complete(answer("307 Moved", "")).await.expect_err("a redirect");
    assert!(matches!(error, ModelError::BadAnswer { what: "a redirect", .. }), "{error:?}");
}

#[tokio::test]
async fn a_response_that_takes_too_much_memory_is_a_bad_gateway() {
    assert!(complete(answer_of(10)).await.is_ok());
    let error = complete(answer_of(100)).await.expect_err("it takes 50 kB");
    assert_eq!(error.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(
        error.to_string(),
        "provider 'up' responded with JSON that needs more memory than the gateway permits"
    );
}

fn answer_of(objects: usize) -> Service {
    answer("200 OK", &format!(r#"{{"choices":[],"x":[{}0]}}"#, r#"{"":0},"#.repeat(objects)))
}

#[tokio::test]
async fn a_response_over_the_inline_limit_is_parsed() {
    let (base_url, task) = service(answer(
        "200 OK",
        &format!(r#"{{"choices":[],"x":"{}"}}"#, "x".repeat(2 * INLINE_BYTES)),
    ))
    .await;
    let bounds = ServiceBounds { answer_bytes: 1 << 20, answer_tree_bytes: 1 << 20, ..SMALL };
    let answered =
        respond(&client(&base_url, bounds), &Prompt::new(RawObject::default()), &free()).await;
    let answered = answered.expect("a completion").into_object();
    assert_eq!(answered["x"].as_str().map(str::len), Some(2 * INLINE_BYTES));
    task.await.expect("the service ends");
}

#[tokio::test]
async fn a_response_is_held_with_its_text_until_it_is_dropped() {
    for length in [20_000, 2 * INLINE_BYTES] {
        let text = format!(r#"{{"choices":[],"x":"{}"}}"#, "x".repeat(length));
        let tree =
            json::check(text.as_bytes(), &Caps::memory(1 << 20)).expect("good JSON").tree_bytes;
        let bounds = ServiceBounds { answer_bytes: 1 << 20, answer_tree_bytes: 1 << 20, ..SMALL };
        let memory = Limited::new(1 << 20);
        let held = MemoryBudget::new(memory.clone()).charge();
        let (base_url, task) = service(answer("200 OK", &text)).await;
        let answer =
            respond(&client(&base_url, bounds), &Prompt::new(RawObject::default()), &held).await;
        task.await.expect("the service ends");
        assert_eq!(memory.taken(), tree + text.len());
        drop(answer.expect("a completion"));
        assert_eq!(memory.taken(), 0);
    }
}

#[tokio::test]
async fn a_response_without_memory_is_refused_and_all_memory_is_released() {
    let text = format!(r#"{{"choices":[],"x":[{}0]}}"#, r#"{"":0},"#.repeat(1_000));
    // Limits that are too small for the request, for the text of the response, and for its tree.
    for limit in [1, 10, 20_000] {
        let memory = Limited::new(limit);
        let held = MemoryBudget::new(memory.clone()).charge();
        let (base_url, task) = service(answer("200 OK", &text)).await;
        let bounds = ServiceBounds { answer_bytes: 1 << 20, answer_tree_bytes: 1 << 20, ..SMALL };
        let error = respond(&client(&base_url, bounds), &Prompt::new(RawObject::default()), &held)
            .await
            .expect_err("no room");
        assert!(matches!(error, ModelError::NoMemory { .. }), "{error:?}");
        assert_eq!(error.status().as_u16(), 503);
        assert_eq!(error.retry_after().expect("it is set").as_secs(), 1);
        assert_eq!(memory.taken(), 0, "of {limit}");
        // The service may not have received a request.
        task.abort();
    }
}

#[tokio::test]
async fn a_request_without_memory_is_not_sent() {
    let prompt = prompt(&object(json!({"messages": [], "x": "x".repeat(10_000)})));
    // The response takes far less than is left beside the request.
    for (limit, is_sent) in [(9_000, false), (20_000, true)] {
        let memory = Limited::new(limit);
        let held = MemoryBudget::new(memory.clone()).charge();
        let (base_url, task) = service(answer("200 OK", r#"{"choices":[]}"#)).await;
        let result = respond(&client(&base_url, SMALL), &prompt, &held).await;
        assert_eq!(result.is_ok(), is_sent, "{result:?}");
        if is_sent {
            task.await.expect("the service ends");
        } else {
            assert!(matches!(result, Err(ModelError::NoMemory { .. })));
            assert_eq!((memory.taken(), task.is_finished()), (0, false), "nothing was received");
            task.abort();
        }
    }
}

#[tokio::test]
async fn long_responses_are_parsed_on_a_thread_of_the_tenant() {
    let text = format!(r#"{{"choices":[],"x":"{}"}}"#, "x".repeat(2 * INLINE_BYTES));
    let bounds = ServiceBounds { answer_bytes: 1 << 20, answer_tree_bytes: 1 << 20, ..SMALL };
    let (base_url, task) = service(answer("200 OK", &text)).await;
    let client = client(&base_url, bounds);
    let taken = threads::occupy(&Tenant::GATEWAY).await;
    let prompt = Prompt::new(RawObject::default());
    let held = free();
    let mut answering = std::pin::pin!(respond(&client, &prompt, &held));
    let early = tokio::time::timeout(Duration::from_millis(50), &mut answering).await;
    assert!(early.is_err(), "it is parsed without a thread");
    drop(taken);
    answering.await.expect("a completion");
    task.await.expect("the service ends");
}

#[tokio::test]
async fn callers_read_no_address_of_a_transport_failure() {
    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let nobody = format!("http://{}/v1", gone.local_addr().expect("an address"));
    drop(gone);
    let unreachable = respond(&client(&nobody, SMALL), &Prompt::new(RawObject::default()), &free())
        .await
        .expect_err("nobody listens");
    let hung_up = complete(Service::HangsUp).await.expect_err("no answer");
    let (base_url, task) = service(Service::IsSilent).await;
    let short = ServiceBounds { answer: Duration::from_millis(50), ..SMALL };
    let late = respond(&client(&base_url, short), &Prompt::new(RawObject::default()), &free())
        .await
        .expect_err("no answer");
    task.await.expect("the service ends");
    for (error, status) in [(unreachable, 502), (hung_up, 502), (late, 504)] {
        assert_eq!(error.status().as_u16(), status, "{error:?}");
        assert!(!error.to_string().contains("127.0.0.1"), "{error:?}");
    }
}

#[tokio::test]
async fn errors_and_debug_output_never_contain_the_api_key() {
    let body = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#);
    for status in ["401 Unauthorized", "403 Forbidden", "400 Bad Request"] {
        let error = complete(answer(status, &body)).await.expect_err("an error");
        assert!(!format!("{error:?} {error} {:?}", error.to_object()).contains(KEY), "{error:?}");
        let expected = if status.starts_with("400") { 400 } else { 502 };
        assert_eq!(error.status().as_u16(), expected);
    }
    assert!(!format!("{:?}", client("http://localhost/v1", SMALL)).contains(KEY));
}

#[tokio::test]
async fn a_list_is_requested_once_and_empty_if_the_service_is_dead() {
    let (base_url, task) =
        service(answer("200 OK", r#"{"data":[{"id":"a","x":1},{"no":"id"},7]}"#)).await;
    let client = client(&base_url, SMALL);
    for _ in 0..2 {
        assert_eq!(&*client.list().await, r#"{"id":"up/a","x":1}"#);
    }
    task.await.expect("the service ends");
    let (base_url, task) = service(Service::HangsUp).await;
    assert!(self::client(&base_url, SMALL).list().await.is_empty());
    task.await.expect("the service ends");
}

#[test]
fn a_base_url_must_be_http_without_user_query_and_fragment() {
    for bad in
        ["localhost:80", "ftp://h/v1", "http://u:p@h/v1", "http://h/v1?k=1", "http://h/v1#f", ""]
    {
        let refused = ServiceClient::new("up", &settings(bad));
        assert!(matches!(refused, Err(BadProvider::BaseUrl { .. })), "{bad}");
    }
}

#[tokio::test]
async fn the_message_of_an_error_in_another_form_is_kept() {
    let plain = format!("404 page not found {KEY}\n");
    let plain = fake::respond("400 Bad", "text/plain; charset=utf-8", "", &plain);
    for (answer, message) in [
        (fake::json("400 Bad", r#"{"error":"no such model"}"#), "no such model"),
        (fake::json("400 Bad", r#"{"detail":"no field"}"#), "no field"),
        (fake::json("400 Bad", r#"{"detail":[{"msg":"x"}]}"#), r#"[{"msg":"x"}]"#),
        (fake::json("400 Bad", r#"{"message":"m","error":{"code":1}}"#), "m"),
        (plain, "404 page not found ***"),
    ] {
        let server = FakeService::start(vec![answer]).await;
        let client = client(&server.base_url, SMALL);
        let error = respond(&client, &Prompt::new(RawObject::default()), &free())
            .await
            .expect_err("an error");
        let expected = format!("provider 'up' responded with status 400: {message}");
        assert_eq!(
            (&error.to_object()["message"], error.said()),
            (&json!(expected), Some(&*expected))
        );
        server.requests().await;
    }
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named() {
    let answer = fake::json("407 No", "{}");
    let server = FakeService::start(vec![answer]).await;
    let client = client(&server.base_url, SMALL);
    let error =
        respond(&client, &Prompt::new(RawObject::default()), &free()).await.expect_err("an error");
    assert_eq!(
        (error.to_string().as_str(), error.status().as_u16()),
        ("the proxy of provider 'up' does not accept the gateway's credential (status 407)", 502)
    );
    server.requests().await;
}
