use futures_util::stream;

use super::*;
use crate::{Api, Key, MemoryBudget};

#[test]
fn keys_are_redacted_unless_they_are_too_short_to_be_secret() {
    let mut service = Service::new(Api::OpenAi, "http://localhost/v1");
    service.keys =
        ["x", "ollama", "12345678", ""].map(|text| Key::new("k", Secret::new(text))).to_vec();
    service.keys[0].cloud = Some(CloudCredential::AccessKey {
        access_key: Secret::new("AKIDEXAMPLE"),
        secret_key: Secret::new("secret-key"),
        session_token: Some(Secret::new("session-token")),
    });
    service.headers.insert("x-a".to_owned(), Secret::new("beta-1 Token-of-16-bytes"));
    service.headers.insert("HTTP-Referer".to_owned(), Secret::new("https://a.example/"));
    let secrets = secrets(&service);
    let text = "secret-key session-token index 12345678 ollama beta-1 Token-of-16-bytes https://a.example/".to_owned();
    assert_eq!(
        without_secrets(&secrets, text),
        "*** *** index *** ollama beta-1 *** https://a.example/"
    );
}

#[tokio::test]
async fn a_stream_does_not_keep_the_buffer_that_its_head_came_in() {
    let service = Service::new(Api::OpenAi, "http://127.0.0.1:1/v1");
    let bounds = ServiceBounds::new(&service);
    let client = HttpClient::new("up", &service, bounds).expect("a good address");
    let buffer = Bytes::from(b"text/event-stream".to_vec());
    let value = HeaderValue::from_maybe_shared(buffer.clone()).expect("text");
    let response = ServiceResponse::of_pieces(stream::pending());
    let response = response.with_header(header::CONTENT_TYPE, value);
    assert!(!buffer.is_unique());
    let events = Events::new(&client, response, MemoryBudget::unlimited().charge());
    assert!(buffer.is_unique());
    drop(events);
}
