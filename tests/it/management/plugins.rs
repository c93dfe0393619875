//! Plugins that operators upload: called on no gateway before they are accepted, and on all afterwards.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
};

use airlock_tests::{Gateway, OPERATOR, Reply, component, guests, wait};
use reqwest::Method;
use serde_json::{Value, json};

use super::{SharedStore, setup};

const PLUGINS: &str = "/api/plugins";
const WASM: &str = "application/wasm";
/// Tool of [`guest`], without arguments.
const GUEST: &str = "guest-ok";

/// Sends what `curl --data-binary @FILE -H 'Content-Type: application/wasm'` sends.
async fn upload_as(token: &str, gateway: &Gateway, query: &str, wasm: Vec<u8>) -> Reply {
    let request = gateway.request(Method::POST, &format!("{PLUGINS}{query}")).bearer_auth(token);
    Reply::fetch(request.header("content-type", WASM).body(wasm)).await
}

async fn upload(gateway: &Gateway, query: &str, wasm: Vec<u8>) -> Reply {
    upload_as(OPERATOR, gateway, query, wasm).await
}

async fn accept(gateway: &Gateway, name: &str, body: &Value) -> Reply {
    gateway.post(&format!("{PLUGINS}/{name}/accept"), body).await
}

fn text() -> Vec<u8> {
    fs::read(guests::TEXT).expect("the component")
}

async fn status(gateway: &Gateway, tool: &str) -> u16 {
    let arguments = if tool == GUEST { json!({}) } else { json!({"text": "one two"}) };
    gateway.execute(tool, &arguments).await.status
}

async fn until_called(gateway: &Gateway, tool: &str, is_called: bool) {
    let awaited = format!("{tool} to be called: {is_called}");
    wait::until(&awaited, async || {
        ((status(gateway, tool).await == 200) == is_called).then_some(())
    })
    .await;
}

/// Returns a component with one tool and this request for a host.
fn guest(url: &str) -> Vec<u8> {
    let request = json!({"http": {"api": {"url": url, "reason": "r"}}});
    component::with_manifest(guests::HOSTILE, "guest", &request)
}

#[tokio::test]
async fn an_uploaded_plugin_is_called_on_all_gateways_once_the_digest_that_was_shown_is_accepted() {
    const TOOL: &str = "words-word_count";
    for store in SharedStore::all() {
        let first = setup(&store).serve_connected().await;
        let second = setup(&store).serve_connected().await;
        let installed = upload(&first, "?name=words", text()).await.ok();
        assert_eq!(installed["accepted"], Value::Null);
        let offered = &installed["offered"];
        let tools = offered["tools"].as_array().expect("a list");
        assert!(tools.iter().any(|tool| tool["name"] == "word_count"), "{offered}");
        assert_eq!(offered["obstacles"], json!([]));
        assert_ne!(status(&first, TOOL).await, 200, "it is not accepted");
        let other = format!("sha256:{}", "0".repeat(64));
        let refused = accept(&second, "words", &json!({"digest": other})).await;
        assert_eq!((refused.status, refused.code()), (409, "digest_differs"));
        assert_ne!(status(&second, TOOL).await, 200);
        let accepted = accept(&second, "words", &json!({"digest": offered["digest"]})).await.ok();
        assert_eq!(accepted["accepted"]["digest"], offered["digest"]);
        assert_eq!(
            (&accepted["offered"], &accepted["state"]["phase"]),
            (&Value::Null, &json!("connected"))
        );
        assert_eq!(status(&second, TOOL).await, 200, "it was loaded before the response");
        until_called(&first, TOOL, true).await;
        let third = setup(&store).serve_connected().await;
        assert_eq!(status(&third, TOOL).await, 200, "the next gateway has it too");
        let removed = first.delete(&format!("{PLUGINS}/words")).await.ok();
        assert_ne!(status(&first, TOOL).await, 200);
        until_called(&second, TOOL, false).await;
        let revert = format!("/api/changes/{}/revert", removed["change"]);
        let _ = third.post(&revert, &json!({})).await.ok();
        until_called(&second, TOOL, true).await;
        let changes = first.get("/api/changes").await.ok();
        let actions = super::texts(&changes, "changes", "action");
        assert_eq!(actions, ["revert", "plugin.remove", "plugin.accept", "plugin.install"]);
    }
}

#[tokio::test]
async fn another_version_waits_for_its_acceptance_and_for_consent_to_what_it_widens() {
    let gateway = setup(&SharedStore::all()[0]).serve_connected().await;
    let digest = |shown: &Value| shown["offered"]["digest"].clone();
    let one = digest(&upload(&gateway, "", guest("https://api.example.com")).await.ok());
    let ungranted = accept(&gateway, "guest", &json!({"digest": one})).await;
    assert_eq!((ungranted.status, ungranted.code()), (409, "plugin_not_permitted"));
    assert!(ungranted.text.contains("http.api"), "{}", ungranted.text);
    let granted = json!({"digest": one, "grants": {"http": ["api"]}});
    let _ = accept(&gateway, "guest", &granted).await.ok();
    assert_eq!(status(&gateway, GUEST).await, 200);

    let shown = upload(&gateway, "", guest("https://example.org")).await.ok();
    let two = digest(&shown);
    assert!(shown["offered"]["changes"].to_string().contains("https://example.org"), "{shown}");
    assert_eq!((&shown["state"]["digest"], status(&gateway, GUEST).await), (&one, 200));
    let unseen = accept(&gateway, "guest", &json!({"digest": one})).await;
    assert_eq!((unseen.status, unseen.code()), (409, "digest_differs"));
    let wider = accept(&gateway, "guest", &json!({"digest": two})).await;
    assert_eq!((wider.status, wider.code()), (409, "consent_required"));
    let agreed = json!({"digest": two, "regrant": ["http.api"]});
    let accepted = accept(&gateway, "guest", &agreed).await.ok();
    assert_eq!(accepted["state"]["digest"], two);
    assert_eq!(status(&gateway, GUEST).await, 200);

    let path = format!("{PLUGINS}/guest");
    let changed = gateway.put(&path, &json!({"grants": {}})).await.ok();
    assert_eq!((&changed["accepted"], &changed["grants"]), (&two, &json!({})));
    let bare = gateway.get(&path).await.ok();
    assert_eq!(bare["accepted"]["obstacles"].as_array().map(Vec::len), Some(1), "{bare}");
    assert_ne!(status(&gateway, GUEST).await, 200, "a right that was taken away does not last");
    let _ = gateway.put(&path, &json!({"grants": {"http": ["api"]}})).await.ok();
    assert_eq!(status(&gateway, GUEST).await, 200);
    let stored = json!({"stored": {"accepted": one}, "grants": {"http": ["api"]}});
    let client = gateway.put("/api/mcp/client/guest", &json!({"wasm_config": stored})).await;
    assert_eq!(client.status, 400, "an acceptance is not skipped: {}", client.text);
}

#[tokio::test]
async fn of_two_uploads_at_the_same_time_one_is_offered_and_the_other_may_be_refused() {
    let gateway = setup(&SharedStore::all()[0]).serve_connected().await;
    let one = upload(&gateway, "?name=p", guest("https://one.example"));
    let two = upload(&gateway, "?name=p", guest("https://two.example"));
    let (one, two) = tokio::join!(one, two);
    let shown = gateway.get(&format!("{PLUGINS}/p")).await.ok();
    let offered = &shown["offered"]["digest"];
    let (refused, installed): (Vec<_>, Vec<_>) =
        [one, two].into_iter().partition(|reply| reply.status == 503);
    assert!(refused.iter().all(|reply| reply.code() == "upload_in_progress"));
    let mut installed = installed.into_iter().map(|reply| reply.ok()["offered"]["digest"].clone());
    assert!(installed.any(|digest| digest == *offered), "{shown}");
    assert_eq!(shown["accepted"], Value::Null);
}

#[tokio::test]
async fn only_administrators_install_and_operators_disable() {
    const TOOL: &str = "words-word_count";
    let gateway = setup(&SharedStore::all()[0]).serve_connected().await;
    let made =
        gateway.post("/api/operators", &json!({"name": "bob", "role": "operator"})).await.ok();
    let bob = made["token"].as_str().expect("a token");
    let as_bob = async |method: Method, path: &str, body: Value| {
        Reply::fetch(gateway.request(method, path).bearer_auth(bob).json(&body)).await.status
    };
    // A large body that is refused by its head is not read, so a client may not get the response.
    let refused = upload_as(bob, &gateway, "?name=words", b"\0asm".to_vec()).await;
    assert_eq!((refused.status, refused.code()), (403, "role_insufficient"));
    let installed = upload(&gateway, "?name=words", text()).await.ok();
    let digest = json!({"digest": installed["offered"]["digest"]});
    let path = format!("{PLUGINS}/words");
    let accepting = format!("{path}/accept");
    assert_eq!(as_bob(Method::POST, &accepting, digest.clone()).await, 403);
    let _ = accept(&gateway, "words", &digest).await.ok();
    for (method, path, body) in [
        (Method::PUT, path.as_str(), json!({"grants": {"clocks": true}})),
        (Method::PUT, &path, json!({"profile": "trusted"})),
        (Method::DELETE, &path, json!({})),
        (Method::DELETE, "/api/mcp/client/words", json!({})),
    ] {
        assert_eq!(as_bob(method, path, body.clone()).await, 403, "{path} {body}");
    }
    assert_eq!(as_bob(Method::PUT, &path, json!({"disabled": true})).await, 200);
    assert_ne!(status(&gateway, TOOL).await, 200);
    assert_eq!(as_bob(Method::PUT, &path, json!({"disabled": false})).await, 200);
    assert_eq!(status(&gateway, TOOL).await, 200);
    let listed = Reply::fetch(gateway.request(Method::GET, PLUGINS).bearer_auth(bob)).await.ok();
    assert_eq!(super::texts(&listed, "plugins", "source"), ["file", "store"]);
}

#[tokio::test]
async fn what_is_no_component_of_a_plugin_is_refused_and_leaves_nothing() {
    let gateway = setup(&SharedStore::all()[0]).serve_connected().await;
    let mut cut = text();
    cut.truncate(cut.len() / 2);
    for (query, body, expected) in [
        ("?name=a", b"not WebAssembly".to_vec(), 422),
        ("?name=a", b"\0asm\x01\0\0\0".to_vec(), 422),
        ("?name=a", cut, 422),
        ("?name=a", Vec::new(), 400),
        ("?name=..%2F..%2Fetc%2Fpasswd", text(), 400),
        ("?name=a&digest=b", text(), 400),
        // A plugin of the configuration file has this name.
        ("?name=text", text(), 409),
    ] {
        let refused = upload(&gateway, query, body).await;
        assert_eq!(refused.status, expected, "{query}: {}", refused.text);
    }
    let request = gateway.request(Method::POST, &format!("{PLUGINS}?name=a")).bearer_auth(OPERATOR);
    // A larger body would still be on its way when the connection is closed.
    let untyped = Reply::fetch(request.header("content-type", "text/plain").body("x")).await;
    assert_eq!(untyped.status, 415);
    assert!(announced(&gateway, (64 << 20) + 1).starts_with("HTTP/1.1 413"));
    let listed = gateway.get(PLUGINS).await.ok();
    assert_eq!(super::texts(&listed, "plugins", "name"), ["text"]);
    assert_eq!(gateway.get("/api/changes").await.ok()["count"], 0);
}

/// Sends the head of an upload of so many bytes. Returns the beginning of the response.
fn announced(gateway: &Gateway, bytes: usize) -> String {
    let address = gateway.address().strip_prefix("http://").expect("it has a scheme");
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!(
        "POST {PLUGINS} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {OPERATOR}\r\ncontent-type: {WASM}\r\ncontent-length: {bytes}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut begin = [0; 12];
    stream.read_exact(&mut begin).expect("a response");
    String::from_utf8_lossy(&begin).into_owned()
}
