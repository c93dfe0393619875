use super::*;
use crate::{Api, Key};

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
