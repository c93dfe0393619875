use airlock_test_http::{Answer, Server, ok, redirect, says};

use super::*;
use crate::Downloads;

const COMPONENT: &str = "wasm";

/// Returns the manifest of a component that is signed.
fn manifest() -> String {
    String::from_utf8(Manifest::new(COMPONENT.as_bytes(), b"{}", Some("sig")).to_json())
        .expect("JSON")
}

/// Returns the client of the artifact `acme/weather:1` of a server.
fn registry(server: &Server, credential: Option<Credential>) -> Registry {
    let text = format!("oci://{}/acme/weather:1", server.address);
    let reference = text.parse().expect("a reference");
    Registry::new(reference, credential, PlainHttp::Loopback).expect("a client")
}

/// Returns the path of a request, query included.
fn path(request: &str) -> &str {
    request.split(' ').nth(1).unwrap_or_default()
}

/// Returns the server that a request was sent to.
fn host_of(request: &str) -> &str {
    let mut lines = request.lines();
    lines.find_map(|line| line.strip_prefix("host: ")).unwrap_or_default()
}

/// Starts a registry that has the manifest, and answers a request for the blob as `blob` does.
async fn with_blob(blob: impl Fn() -> Answer + Send + Sync + 'static) -> Server {
    Server::start(move |path| if path.contains("/manifests/") { ok(&manifest()) } else { blob() })
        .await
}

async fn refusal_of(server: &Server) -> RegistryError {
    registry(server, None).pull(100).await.expect_err("it is refused")
}

#[tokio::test]
async fn a_component_is_pulled_with_its_signature_and_the_digest_of_its_manifest() {
    let server = with_blob(|| ok(COMPONENT)).await;
    let pulled = registry(&server, None).pull(4).await.expect("an artifact");
    assert_eq!(pulled.component, COMPONENT.as_bytes());
    assert_eq!(pulled.signature.as_deref(), Some("sig"));
    assert_eq!(pulled.digest, Digest::compute(manifest().as_bytes()));
    let requests = server.requests();
    let paths: Vec<_> = requests.iter().map(|request| path(request)).collect();
    let blob = format!("/v2/acme/weather/blobs/{}", Digest::compute(COMPONENT.as_bytes()));
    assert_eq!(paths, ["/v2/acme/weather/manifests/1", &blob]);
    assert!(requests[0].contains(&format!("accept: {MANIFEST}\r\n")), "{}", requests[0]);
    assert!(requests.iter().all(|request| !request.contains("authorization:")));
}

#[tokio::test]
async fn a_component_above_the_limit_is_not_requested() {
    let server = with_blob(|| ok(COMPONENT)).await;
    let refused = registry(&server, None).pull(3).await.expect_err("it is too large");
    assert!(matches!(refused, RegistryError::TooLarge { limit: 3, .. }), "{refused:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_body_that_does_not_end_is_cut_off_at_its_limit() {
    let server = Server::start(|_| Answer::Drips).await;
    let refused = refusal_of(&server).await;
    assert!(matches!(refused, RegistryError::TooLarge { limit: MAX_MANIFEST_BYTES, .. }));
    // Without a length, the bytes are counted.
    let server = with_blob(|| Answer::Begins("HTTP/1.1 200 OK\r\n\r\nxxxxx".to_owned())).await;
    let refused = refusal_of(&server).await;
    assert!(matches!(refused, RegistryError::TooLarge { limit: 4, .. }), "{refused:?}");
}

#[tokio::test]
async fn content_that_is_not_what_its_digest_says_is_refused() {
    let server = with_blob(|| ok("mask")).await;
    let refused = refusal_of(&server).await;
    assert!(matches!(refused, RegistryError::OtherContent { what: "the component", .. }));
    let server = with_blob(|| ok("was")).await;
    let refused = refusal_of(&server).await;
    assert!(matches!(refused, RegistryError::OtherContent { what: "the component", .. }));
}

#[tokio::test]
async fn a_manifest_with_another_digest_than_the_named_or_the_stated_one_is_refused() {
    let other = Digest::compute(b"other");
    let header = format!("docker-content-digest: {other}\r\n");
    let server = Server::start(move |_| says("200 OK", &header, &manifest())).await;
    let refused = refusal_of(&server).await;
    assert!(matches!(refused, RegistryError::OtherContent { what: "the manifest", .. }));
    let server = with_blob(|| ok(COMPONENT)).await;
    let text = format!("oci://{}/acme/weather@{other}", server.address);
    let reference = text.parse().expect("a reference");
    let mut registry = Registry::new(reference, None, PlainHttp::Loopback).expect("a client");
    let refused = registry.pull(100).await.expect_err("it is another manifest");
    assert!(matches!(refused, RegistryError::OtherContent { expected, .. } if expected == other));
}

#[tokio::test]
async fn a_huge_manifest_and_one_with_thousands_of_layers_are_refused() {
    let server = Server::start(|_| {
        let length = MAX_MANIFEST_BYTES + 1;
        Answer::Says(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{{"))
    });
    let refused = refusal_of(&server.await).await;
    assert!(matches!(refused, RegistryError::TooLarge { .. }), "{refused:?}");
    let mut manifest = Manifest::new(b"", b"{}", None);
    manifest.layers = vec![manifest.layers[0].clone(); 10_000];
    let json = String::from_utf8(manifest.to_json()).expect("JSON");
    let server = Server::start(move |_| ok(&json)).await;
    assert!(refusal_of(&server).await.to_string().contains("it has 10000 layers"));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_blob_may_be_at_another_server_which_gets_no_credential() {
    let blobs = Server::start(|_| ok(COMPONENT)).await;
    let place = blobs.url("127.0.0.1", "/signed?token=x");
    let server = Server::start_by_request(move |request| {
        if !request.contains("authorization: ") {
            says("401 Unauthorized", "www-authenticate: Basic realm=x\r\n", "")
        } else if path(request).contains("/manifests/") {
            ok(&manifest())
        } else {
            redirect(307, &place)
        }
    })
    .await;
    let credential = Some(Credential::new("ann", "hush"));
    let pulled = registry(&server, credential).pull(100).await.expect("an artifact");
    assert_eq!(pulled.component, COMPONENT.as_bytes());
    let requests = blobs.requests();
    assert_eq!(requests.len(), 1);
    assert!(!requests[0].contains("authorization:"), "{}", requests[0]);
}

#[tokio::test]
async fn a_redirect_to_plain_http_of_a_network_without_end_or_of_a_manifest_is_not_followed() {
    for place in ["http://10.0.0.1/blob", "ftp://127.0.0.1/", "http://user@127.0.0.1/", "/again"] {
        let server = with_blob(move || redirect(302, place)).await;
        let refused = refusal_of(&server).await;
        assert!(matches!(refused, RegistryError::Redirect { .. }), "{place}: {refused:?}");
    }
    let server = Server::start(|_| redirect(307, "/elsewhere")).await;
    let refused = refusal_of(&server).await;
    assert!(matches!(refused, RegistryError::Refused { status: 307, .. }), "{refused:?}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_registry_that_asks_for_a_token_gets_one_for_this_artifact_alone() {
    let server = Server::start_by_request(|request| match path(request) {
        token if token.starts_with("/token?") => ok(r#"{"token": "t"}"#),
        _ if !request.contains("authorization: Bearer t\r\n") => {
            let realm = format!("http://{}/token?x=y", host_of(request));
            let challenge = format!(
                "www-authenticate: Bearer realm=\"{realm}\",service=\"s\",scope=\"all\"\r\n"
            );
            says("401 Unauthorized", &challenge, "")
        }
        path if path.contains("/manifests/") => ok(&manifest()),
        _ => ok(COMPONENT),
    })
    .await;
    let credential = Some(Credential::new("ann", "hush"));
    registry(&server, credential).pull(100).await.expect("an artifact");
    let requests = server.requests();
    assert_eq!(requests.len(), 4, "the token is used again");
    assert_eq!(path(&requests[1]), "/token?x=y&service=s&scope=repository%3Aacme%2Fweather%3Apull");
    assert!(requests[1].contains("authorization: Basic YW5uOmh1c2g=\r\n"), "{}", requests[1]);
}

#[tokio::test]
async fn a_token_service_is_not_asked_over_the_plain_http_of_a_network() {
    let server = Server::start(|_| {
        let challenge = "www-authenticate: Bearer realm=\"http://10.0.0.1/token\"\r\n";
        says("401 Unauthorized", challenge, "")
    });
    let server = server.await;
    let refused = refusal_of(&server).await;
    assert!(matches!(refused, RegistryError::Redirect { .. }), "{refused:?}");
    // Without a challenge, and with a token that is too large.
    let server = Server::start(|_| says("401 Unauthorized", "", "")).await;
    assert!(matches!(refusal_of(&server).await, RegistryError::SignIn { .. }));
    let server = Server::start_by_request(|request| {
        if path(request) == "/token?scope=repository%3Aacme%2Fweather%3Apull" {
            return ok(&"x".repeat(70_000));
        }
        let realm = format!("http://{}/token", host_of(request));
        let challenge = format!("www-authenticate: Bearer realm=\"{realm}\"\r\n");
        says("401 Unauthorized", &challenge, "")
    })
    .await;
    assert!(matches!(refusal_of(&server).await, RegistryError::TooLarge { .. }));
}

#[tokio::test]
async fn the_message_of_a_registry_is_shown_on_one_line() {
    let body = "{\"errors\": [{\"code\": \"DENIED\", \"message\": \"no\\n\\u001b[2J\"}]}";
    let server = Server::start(|_| says("403 Forbidden", "", body)).await;
    insta::assert_snapshot!(refusal_of(&server).await.to_string(), @"the manifest: the server responded with 403: DENIED no⟨U+000A⟩⟨U+001B⟩[2J");
    let server = Server::start(|_| says("404 Not Found", "", "")).await;
    assert!(matches!(refusal_of(&server).await, RegistryError::Missing(_)));
}

/// Takes uploads of blobs at `place`, and manifests.
fn take_upload(request: &str, place: &str) -> Answer {
    if request.starts_with("HEAD ") {
        return says("404 Not Found", "", "");
    }
    if request.starts_with("POST ") {
        return says("202 Accepted", &format!("location: {place}\r\n"), "");
    }
    says("201 Created", "", "")
}

fn artifact() -> Artifact<'static> {
    Artifact { component: COMPONENT.as_bytes(), imports: &[], exports: &[], signature: None }
}

#[tokio::test]
async fn an_artifact_is_pushed_blob_by_blob_and_named_by_its_manifest() {
    let server =
        Server::start_by_request(|request| take_upload(request, "/upload/1?state=s")).await;
    let digest = registry(&server, None).push(&artifact()).await.expect("it is pushed");
    let requests = server.requests();
    let lines: Vec<_> = requests.iter().filter_map(|request| request.lines().next()).collect();
    let component = Digest::compute(COMPONENT.as_bytes()).to_string().replace(':', "%3A");
    let [.., put, manifest] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(*put, format!("PUT /upload/1?state=s&digest={component} HTTP/1.1"));
    assert_eq!(*manifest, "PUT /v2/acme/weather/manifests/1 HTTP/1.1");
    assert_eq!(lines.len(), 7);
    let (_, json) = requests[6].split_once("\r\n\r\n").expect("a body");
    assert_eq!(Digest::compute(json.as_bytes()), digest);
}

#[tokio::test]
async fn content_that_is_present_is_not_sent_and_none_is_sent_to_another_server() {
    let server = Server::start_by_request(|request| {
        if request.starts_with("HEAD ") { ok("") } else { says("201 Created", "", "") }
    });
    let server = server.await;
    registry(&server, None).push(&artifact()).await.expect("it is pushed");
    assert_eq!(server.requests().len(), 3);
    let other = Server::start(|_| says("201 Created", "", "")).await;
    let place = other.url("127.0.0.1", "/upload");
    let server = Server::start_by_request(move |request| take_upload(request, &place)).await;
    let refused = registry(&server, None).push(&artifact()).await.expect_err("it is refused");
    assert!(matches!(refused, RegistryError::Redirect { .. }), "{refused:?}");
    assert!(other.requests().is_empty());
}

#[test]
fn plain_http_is_for_this_machine_unless_it_is_permitted() {
    for (plain, scheme) in [(PlainHttp::Loopback, "https"), (PlainHttp::Anywhere, "http")] {
        let reference = "oci://r.example:5000/a:v".parse().expect("a reference");
        let registry = Registry::new(reference, None, plain).expect("a client");
        assert_eq!(registry.base.scheme(), scheme);
    }
    let url = Url::parse("http://r.example/x.wasm").expect("a URL");
    let refused = Downloads::new(&url, PlainHttp::Loopback).map(|_| ()).expect_err("refused");
    assert!(matches!(refused, RegistryError::PlainHttp { .. }), "{refused:?}");
    for text in ["https://user@r.example/", "file:///etc/passwd", "https://169.254.169.254/"] {
        let url = Url::parse(text).expect("a URL");
        assert!(Downloads::new(&url, PlainHttp::Anywhere).is_err(), "{text}");
    }
}

#[tokio::test]
async fn a_file_at_a_url_is_bounded_and_may_be_absent() {
    let server = Server::start(|path| match path {
        "/moved.wasm" => redirect(302, "/a.wasm"),
        "/a.wasm" => ok(COMPONENT),
        _ => says("404 Not Found", "", ""),
    })
    .await;
    let moved = download(&server, "/moved.wasm", 4).await.expect("a file");
    assert_eq!(moved.as_deref(), Some(COMPONENT.as_bytes()));
    assert_eq!(download(&server, "/b.wasm", 4).await.expect("no error"), None);
    let refused = download(&server, "/a.wasm", 3).await.expect_err("it is too large");
    assert!(matches!(refused, RegistryError::TooLarge { limit: 3, .. }), "{refused:?}");
}

async fn download(
    server: &Server,
    path: &str,
    limit: u64,
) -> Result<Option<Vec<u8>>, RegistryError> {
    let url = Url::parse(&server.url("127.0.0.1", path)).expect("a URL");
    Downloads::new(&url, PlainHttp::Loopback).expect("a client").get(&url, limit).await
}
