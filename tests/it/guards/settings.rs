//! Settings of guards: each hook gets them, and a guard that refuses them is not loaded.

use airlock_tests::{Setup, guests};
use serde_json::{Value, json};

use super::{Guarded, guarded, warden};

/// Returns the guard of the tests with settings.
fn with_settings(settings: Value) -> Value {
    let mut guard = warden(&json!({}));
    guard["settings"] = settings;
    guard
}

/// Returns a setup whose calls are guarded with settings.
fn setup(settings: Value) -> Setup {
    guarded(Setup::new()).set("/guards", json!([with_settings(settings)]))
}

#[tokio::test]
async fn each_hook_gets_the_settings_as_they_are_written() {
    let guard = with_settings(json!({"z": [1, {"a": "é"}], "b": true}));
    let guarded = Guarded::start(|setup| setup.set("/guards", json!([guard]))).await;
    for hook in ["before", "after"] {
        let denied = guarded.call("server-echo", &format!("{hook}:facts")).await;
        let written = r#"settings={"z":[1,{"a":"é"}],"b":true}"#;
        assert!(denied.refusal().1.contains(written), "{}", denied.text);
    }
}

#[tokio::test]
async fn a_guard_that_refuses_its_settings_is_an_error_of_the_configuration() {
    for (word, message) in [
        ("refuse", "the guard refuses them: the settings⟨U+000A⟩say so"),
        ("trap", "the guard could not check them"),
        ("spin", "the guard could not check them"),
    ] {
        let setup = setup(json!({"is": format!("check:{word}")}));
        let checked = setup.airlock("check").arg("--json").run().await.failed().json();
        assert_eq!(checked["errors"][0]["key"], "guards[0].settings", "{checked:#}");
        let found = checked["errors"][0]["message"].as_str().expect("a message");
        assert!(found.starts_with(message), "{found}");
        let call = setup.airlock("call").arg("server-echo").arg("{}").run().await.failed();
        let said = call.to_string();
        assert!(
            said.contains(r#"guards[0].settings: the guard "warden" cannot be loaded"#),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_doctor_asks_the_guards_about_their_settings() {
    for (word, status) in [("refuse", "error"), ("accept", "ok")] {
        let setup = setup(json!({"is": format!("check:{word}")}));
        // The doctor has little time, so the component is compiled before.
        setup.airlock("check").run().await;
        let run = setup.airlock("doctor").arg("--offline").arg("--json").run().await.json();
        let findings = run["findings"].as_array().expect("a list");
        let guards = findings.iter().find(|finding| finding["code"] == "guards");
        assert_eq!(guards.expect("a finding")["status"], status, "{run:#}");
    }
}

#[tokio::test]
async fn the_calls_of_a_guard_that_refuses_its_settings_are_refused() {
    let mut guard = with_settings(json!({"is": "check:refuse"}));
    guard["on"] = json!({"tools": ["*-note"]});
    let guarded = Guarded::start(|setup| setup.set("/guards", json!([guard]))).await;
    assert_eq!(guarded.call("server-note", "plain").await.code(), "guard_failed");
    assert_eq!(guarded.noted(), "");
    assert_eq!(guarded.call("server-echo", "plain").await.content(), "plain");
}

#[tokio::test]
async fn a_wrong_setting_of_the_guard_of_secrets_is_named() {
    let guard = json!({"name": "s", "component": guests::SECRETS, "settings": {"kind": ["jwt"]}});
    let setup = guarded(Setup::new()).set("/guards", json!([guard]));
    let checked = setup.airlock("check").arg("--json").run().await.failed().json();
    let message = checked["errors"][0]["message"].as_str().expect("a message");
    assert!(message.starts_with("the guard refuses them: kind: unknown field `kind`"), "{message}");
}
