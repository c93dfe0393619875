//! Requests to models and their responses, on every API.

use airlock_tests::{Reply, Setup, guests};
use reqwest::Method;
use serde_json::{Value, json};

use super::{ANN, Guarded, guarded, limits, warden};

pub(super) const PATHS: [&str; 3] = ["/v1/chat/completions", "/v1/responses", "/v1/messages"];

/// Starts a gateway with a model that repeats what its user says.
async fn repeating(guard: Value) -> Guarded {
    Guarded::start(|setup| with_model(setup, &guard)).await
}

fn with_model(setup: Setup, guard: &Value) -> Setup {
    let script = json!({"turns": [{"answer": {"content": "you said {{last_user_message}}"}}]});
    setup.scripted("fake", &script).set("/guards", json!([guard]))
}

impl Guarded {
    /// Asks the model at one of the APIs.
    pub(super) async fn ask(&self, path: &str, text: &str, is_streamed: bool) -> Reply {
        let body = match path {
            "/v1/responses" => {
                json!({"model": "fake/m", "input": text, "store": false, "stream": is_streamed})
            }
            _ => json!({
                "model": "fake/m", "max_tokens": 50, "stream": is_streamed,
                "messages": [{"role": "user", "content": text}],
            }),
        };
        self.gateway.post(path, &body).await
    }
}

#[tokio::test]
async fn a_model_gets_the_texts_that_a_guard_leaves() {
    let guarded = repeating(warden(&json!({}))).await;
    for path in PATHS {
        let reply = guarded.ask(path, "before_model:rewrite my secret", false).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        assert!(reply.text.contains("you said before_model:rewrite my hidden"), "{}", reply.text);
    }
}

#[tokio::test]
async fn a_denied_request_has_the_error_of_each_api_with_the_reason() {
    let guarded = repeating(warden(&json!({}))).await;
    for path in PATHS {
        for (word, message) in [
            ("before_model", "the request to the model is denied by the guard"),
            ("after_model", "the model's response is withheld by the guard"),
        ] {
            let denied = guarded.ask(path, &format!("{word}:deny"), false).await;
            let expected = format!("{message} \"warden\": the call says so (told)");
            assert_eq!(denied.refusal(), (403, expected.as_str()), "{path}: {}", denied.text);
            if path != "/v1/messages" {
                assert_eq!(denied.code(), "guard_denied");
            }
        }
    }
}

#[tokio::test]
async fn nothing_of_a_streamed_response_is_sent_before_a_guard_has_decided() {
    let guarded = repeating(warden(&json!({}))).await;
    for path in PATHS {
        let replaced = guarded.ask(path, "after_model:rewrite my secret text", true).await;
        assert!(!replaced.text.contains("secret"), "{path}: {}", replaced.text);
        assert!(replaced.text.contains("my hidden text"), "{path}: {}", replaced.text);
        let withheld = guarded.ask(path, "after_model:deny my secret", true).await;
        assert!(!withheld.text.contains("secret"), "{path}: {}", withheld.text);
        assert!(withheld.text.contains("withheld by the guard"), "{path}: {}", withheld.text);
        let allowed = guarded.ask(path, "plain", true).await;
        assert!(allowed.text.contains("plain"), "{path}: {}", allowed.text);
    }
}

#[tokio::test]
async fn a_guard_that_fails_refuses_the_request_or_withholds_the_response() {
    let guarded = repeating(warden(&json!({}))).await;
    for hook in ["before_model", "after_model"] {
        for word in ["trap", "spin", "hoard", "big", "broken", "array", "ask"] {
            let refused = guarded.ask(PATHS[0], &format!("{hook}:{word}"), false).await;
            assert_eq!((refused.status, refused.code()), (403, "guard_failed"), "{hook}:{word}");
            assert!(!refused.text.contains("you said"), "{}", refused.text);
        }
    }
    assert_eq!(guarded.ask(PATHS[0], "plain", false).await.status, 200);
}

#[tokio::test]
async fn a_guard_knows_the_model_the_key_and_the_roles_of_the_texts() {
    let rows: &[(&str, &[&str])] = &[("server", &["*"])];
    let guarded = Guarded::start(|setup| {
        with_model(setup.key("ann", ANN, rows), &warden(&json!({"keys": ["ann"]})))
    })
    .await;
    let messages = json!([{"role": "user", "content": "before_model:facts"}]);
    let body = json!({"model": "fake/m", "messages": messages});
    let request = guarded.gateway.request(Method::POST, PATHS[0]).json(&body);
    let denied = Reply::fetch(request.header("x-bf-vk", ANN)).await;
    let facts = r#"model=fake/m key=ann tenant=key "ann" settings={} texts=[{"role":"user","text":"before_model:facts"}]"#;
    assert!(denied.refusal().1.contains(facts), "{}", denied.text);
    // Without the key, the request is not in the scope.
    assert_eq!(guarded.ask(PATHS[0], "before_model:facts", false).await.status, 200);
}

#[tokio::test]
async fn a_guard_of_tools_is_not_asked_about_models() {
    for on in [json!({"tools": ["*"]}), json!({"clients": ["server"]})] {
        let guarded = repeating(warden(&on)).await;
        let reply = guarded.ask(PATHS[0], "before_model:deny after_model:deny", false).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
}

#[tokio::test]
async fn without_the_component_of_a_guard_its_requests_are_refused() {
    let guard =
        json!({"name": "bad", "component": guests::NOOP_WITH_WASI, "hooks": ["after_model"]});
    let guarded = repeating(guard).await;
    let refused = guarded.ask(PATHS[0], "plain", false).await;
    assert_eq!((refused.status, refused.code()), (403, "guard_failed"));
    assert_eq!(guarded.call("server-note", "plain").await.content(), "noted plain");
}

#[tokio::test]
async fn the_guard_of_secrets_removes_them_from_responses() {
    let guard = json!({
        "name": "s", "component": guests::SECRETS, "hooks": ["after_model"], "limits": limits(),
    });
    let guarded = repeating(guard).await;
    for is_streamed in [false, true] {
        let reply = guarded.ask(PATHS[0], "pay 4111 1111 1111 1111 now", is_streamed).await;
        assert!(!reply.text.contains("1111"), "{}", reply.text);
        assert!(reply.text.contains("[secret removed: card_number] now"), "{}", reply.text);
    }
}

#[tokio::test]
async fn a_hook_of_models_is_no_hook_of_a_scope_of_tools() {
    let mut guard = warden(&json!({"tools": ["*"]}));
    guard["hooks"] = json!(["before_model"]);
    let setup = guarded(Setup::new()).set("/guards", json!([guard]));
    let checked = setup.airlock("check").arg("--json").run().await.failed().json();
    assert_eq!(checked["errors"][0]["key"], "guards[0].hooks[0]", "{checked:#}");
}

/// Returns the words of a text that is longer than some windows.
fn words() -> String {
    (0..600).map(|number| format!("w{number} ")).collect::<Vec<_>>().concat()
}

#[tokio::test]
async fn a_window_of_a_stream_is_sent_once_a_guard_has_seen_what_follows() {
    let guard = json!({
        "name": "s", "component": guests::SECRETS, "hooks": ["after_model"], "stream_window": "256B",
        "limits": limits(),
    });
    let guarded = repeating(guard).await;
    let text = format!("{}pay 4111 1111 1111 1111 now {}", words(), words());
    for path in PATHS {
        let reply = guarded.ask(path, &text, true).await;
        assert!(!reply.text.contains("1111"), "{path}: {}", reply.text);
        assert!(reply.text.contains("[secret removed: card_number]"), "{path}: {}", reply.text);
    }
}

#[tokio::test]
async fn a_guard_that_denies_a_window_ends_the_stream_before_it() {
    let mut guard = warden(&json!({}));
    guard["hooks"] = json!(["after_model"]);
    guard["stream_window"] = json!("256B");
    let guarded = repeating(guard).await;
    let text = format!("{}after_model:deny last words", words());
    for path in PATHS {
        let reply = guarded.ask(path, &text, true).await;
        assert!(reply.text.contains("w10 w11 "), "{path}: {}", reply.text);
        assert!(!reply.text.contains("last words"), "{path}: {}", reply.text);
        assert!(reply.text.contains("withheld by the guard"), "{path}: {}", reply.text);
    }
}
