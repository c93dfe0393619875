use super::*;
use crate::{
    Api, CloudCredential, Hosting, Key, Prompt, Retries, backend::Backend as _, chat_replies,
    service::ServiceClient,
};
use airlock_core::memory::MemoryBudget;
use airlock_json::{RawObject, object};
use airlock_test_http::model::{self as fake, FakeService};

/// The key of RFC 7515, appendix A.2.
const PEM: &str = include_str!("../../../../../../tests/fixtures/signin/rfc7515_a2.pem");
const ANSWER: &str =
    r#"{"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}]}"#;

fn file(token_uri: &str) -> Value {
    json!({
        "type": "service_account", "project_id": "p", "private_key_id": "key-1",
        "private_key": PEM, "client_email": "me@p.iam.gserviceaccount.com",
        "token_uri": token_uri, "universe_domain": "googleapis.com",
    })
}

fn credential(token_uri: &str) -> ServiceAccountKey {
    ServiceAccountKey::Text(Secret::new(file(token_uri).to_string()))
}

fn settings(base_url: &str, source: ServiceAccountKey) -> Service {
    let cloud = Some(CloudCredential::ServiceAccount(source));
    let key = Key { value: None, cloud, ..Key::new("k", Secret::new("")) };
    Service {
        hosting: Hosting::Vertex { project: "p".into(), location: "l".into() },
        keys: vec![key],
        retries: Retries { max: 0, ..Retries::default() },
        ..Service::new(Api::Gemini, base_url)
    }
}

async fn respond(client: &ServiceClient) -> Result<Object, ModelError> {
    let body = json!({"model": "gemini-x", "messages": [{"role": "user", "content": "hi"}]});
    let prompt = Prompt::new(RawObject::from(&object(body)));
    let held = MemoryBudget::unlimited().charge();
    let terms = chat_replies::terms(false, &held);
    client.respond(&prompt, terms).await.map(chat_replies::whole)
}

fn token(text: &str) -> String {
    fake::json("200 OK", &json!({"access_token": text, "expires_in": 3599}).to_string())
}

fn parts(assertion: &str) -> Vec<Value> {
    let decoded = assertion.split('.').take(2).map(|part| URL_SAFE_NO_PAD.decode(part));
    decoded.map(|part| serde_json::from_slice(&part.expect("base64")).expect("JSON")).collect()
}

#[test]
fn the_signature_is_that_of_the_rfc() {
    let key = AccountKey::parse(&file(TOKEN_URI).to_string()).expect("a good key");
    let text = concat!(
        "eyJhbGciOiJSUzI1NiJ9",
        ".",
        "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt",
        "cGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
    );
    let signed = key.sign(text.to_owned()).expect("a signature");
    assert_eq!(
        signed.strip_prefix(text),
        Some(concat!(
            ".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7",
            "AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4",
            "BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K",
            "0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqv",
            "hJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrB",
            "p0igcN_IoypGlUPQGe77Rw"
        ))
    );
}

#[test]
fn an_assertion_has_the_claims_that_google_documents() {
    let key = AccountKey::parse(&file(TOKEN_URI).to_string()).expect("a good key");
    let now = UNIX_EPOCH + Duration::from_secs(1_328_550_785);
    let assertion = key.assertion(now).expect("a signature");
    assert_eq!(
        parts(&assertion),
        [
            json!({"alg": "RS256", "typ": "JWT", "kid": "key-1"}),
            json!({
                "iss": "me@p.iam.gserviceaccount.com", "scope": SCOPE, "aud": TOKEN_URI,
                "iat": 1_328_550_785, "exp": 1_328_554_385,
            }),
        ]
    );
}

#[tokio::test]
async fn an_assertion_is_exchanged_once_for_a_token_that_signs_requests_in() {
    let tokens = FakeService::start(vec![token("ya29.very-secret")]).await;
    let echo = ANSWER.replace("hi", "you sent ya29.very-secret");
    let answers = vec![fake::json("200 OK", ANSWER), fake::json("200 OK", &echo)];
    let vertex = FakeService::start(answers).await;
    let endpoint = vertex.base_url.trim_end_matches("/v1");
    let service = settings(endpoint, credential(&tokens.base_url));
    let client = ServiceClient::new("google", &service).expect("a good service");
    respond(&client).await.expect("an answer");
    let second = respond(&client).await.expect("an answer");
    assert_eq!(second["choices"][0]["message"]["content"], "you sent ***");
    for request in vertex.requests().await {
        assert!(request.contains("\r\nauthorization: Bearer ya29.very-secret\r\n"), "{request}");
        let path = "/v1/projects/p/locations/l/publishers/google/models/gemini-x:generateContent";
        assert!(request.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{request}");
    }
    let audience = tokens.base_url.clone();
    let request = tokens.requests().await.remove(0);
    assert!(request.starts_with("POST /v1 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("content-type: application/x-www-form-urlencoded\r\n"), "{request}");
    let body = request.split_once("\r\n\r\n").expect("a head").1;
    let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
    let assertion = body.strip_prefix(grant).expect("an assertion");
    assert_eq!(parts(assertion)[1]["aud"], audience.as_str());
}

#[tokio::test]
async fn an_endpoint_that_gives_no_token_fails_the_request() {
    let refused = r#"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#;
    let long = format!("\"{}\"", "x".repeat(MAX_RESPONSE_BYTES));
    for (answer, expected) in [
        (
            fake::json("400 Bad", refused),
            "the token endpoint responded with status 400: Invalid JWT Signature.",
        ),
        (fake::json("200 OK", "{}"), "the token endpoint responded with no `access_token`"),
        (
            fake::json("200 OK", "[]"),
            "the token endpoint responded with a body that is not a JSON object",
        ),
        (
            fake::json("200 OK", &long),
            "the token endpoint responded with a response that is too large",
        ),
        (token("a\nb"), "the token endpoint responded with an `access_token` that cannot be sent"),
    ] {
        let tokens = FakeService::start(vec![answer]).await;
        let service = settings("http://127.0.0.1:1", credential(&tokens.base_url));
        let client = ServiceClient::new("google", &service).expect("a good service");
        let error = respond(&client).await.expect_err("no token");
        assert_eq!(error.to_object()["code"], "provider_credential");
        assert_eq!(error.status(), 502);
        let ModelError::Token { cause, .. } = error else { panic!("{error:?}") };
        assert_eq!(cause.to_string(), expected);
    }
}

#[test]
fn a_key_that_cannot_be_used_is_refused_without_its_text() {
    let with = |name: &str, value: Value| {
        let mut file = file(TOKEN_URI);
        file[name] = value;
        file.to_string()
    };
    let public = PEM.replace("PRIVATE", "PUBLIC");
    let short = PEM.replacen("MII", "MIA", 1);
    for (text, problem) in [
        ("{}".to_owned(), "must be the JSON file of a key, as Google Cloud writes it"),
        (with("type", json!("authorized_user")), "must have the `type` \"service_account\""),
        (
            with("private_key", json!(public)),
            "has a `private_key` that is not a PKCS #8 key in PEM format",
        ),
        (with("private_key", json!(short)), "has a `private_key` that is not a valid RSA key"),
        (with("token_uri", json!("ftp://h")), "has a `token_uri` that is not an HTTP URL"),
    ] {
        let credential = ServiceAccountKey::Text(Secret::new(text));
        let error = ServiceClient::new("google", &settings("http://h", credential));
        let error = error.expect_err(problem).to_string();
        let expected = format!("the service account of key \"k\" of provider \"google\" {problem}");
        assert_eq!(error, expected);
    }
}

#[test]
fn a_key_is_read_from_its_file() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("key.json");
    let service = settings("http://h", ServiceAccountKey::File(path.clone()));
    let error = ServiceClient::new("google", &service).expect_err("there is no file").to_string();
    assert!(error.contains("key.json, which cannot be read"), "{error}");
    std::fs::write(&path, file(TOKEN_URI).to_string()).expect("a file");
    ServiceClient::new("google", &service).expect("a good key");
    std::fs::write(&path, " ".repeat(70_000)).expect("a file");
    let error = ServiceClient::new("google", &service).expect_err("it is large").to_string();
    assert!(error.contains("which is too large"), "{error}");
    let azure = Service { hosting: Hosting::Vendor, ..settings("http://h", credential(TOKEN_URI)) };
    let refused = ServiceClient::new("google", &azure);
    assert!(matches!(refused, Err(BadProvider::CloudCredential { .. })), "{refused:?}");
}
