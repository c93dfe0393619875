//! The guard that is shipped: no secret in arguments reaches a tool, and none in a result its caller.

use airlock_tests::{Airlock, guests};
use serde_json::{Value, json};

use super::{Guarded, limits};

/// A token with a valid checksum, in two parts, so that scanners of repositories do not take it for one.
fn token() -> String {
    ["ghp_", "zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq17"].concat()
}

/// Starts a gateway whose calls pass the guard.
async fn guarded(hooks: &[&str]) -> Guarded {
    let guard: Value = json!({
        "name": "secrets", "component": guests::SECRETS, "hooks": hooks, "limits": limits(),
    });
    Guarded::start(|setup| setup.set("/guards", json!([guard]))).await
}

#[tokio::test]
async fn a_call_with_a_secret_in_its_arguments_is_not_made() {
    let guarded = guarded(&["before", "after"]).await;
    let denied = guarded.call("server-note", &format!("use {}", token())).await;
    let message = r#"the call of tool 'server-note' is denied by the guard "secrets": the arguments have a secret: github_token (secret_in_arguments)"#;
    assert_eq!((denied.refusal(), denied.code()), ((403, message), "guard_denied"));
    assert_eq!(guarded.noted(), "");
    let wrong = token().replace("zQ", "zR");
    let made = guarded.call("server-note", &wrong).await;
    assert_eq!(made.content(), format!("noted {wrong}"), "its checksum is wrong");
}

#[tokio::test]
async fn a_secret_in_a_result_does_not_reach_the_caller() {
    let guarded = guarded(&["after"]).await;
    let text = format!("pay \"4111 1111 1111 1111\" with {}\n", token());
    let result = guarded.call("server-echo", &text).await;
    assert!(!result.text.contains("4111") && !result.text.contains(&token()), "{}", result.text);
    let expected = "pay \"[secret removed: card_number]\" with [secret removed: github_token]\n";
    assert_eq!(result.content(), expected);
}

#[tokio::test]
async fn settings_choose_what_is_searched_and_what_happens() {
    let settings = json!({"kinds": ["card_number"], "before": "ask", "after": "deny"});
    let guard = json!({
        "name": "secrets", "component": guests::SECRETS, "settings": settings, "limits": limits(),
    });
    let guarded = Guarded::start(|setup| setup.set("/guards", json!([guard]))).await;
    let made = guarded.call("server-note", &token()).await;
    assert_eq!(made.content(), format!("noted {}", token()), "the kind is not searched");
    // The request to execute is the approval.
    let withheld = guarded.call("server-note", "4111 1111 1111 1111").await;
    assert_eq!(withheld.code(), "guard_denied");
    assert!(withheld.text.contains("secret_in_outcome"), "{}", withheld.text);
    assert!(guarded.noted().ends_with("4111 1111 1111 1111\n"), "the call was made");
}

#[tokio::test]
async fn a_check_of_a_guard_asks_for_no_tools() {
    let check = Airlock::new().arg("plugin").arg("check").arg(guests::SECRETS).arg("--json");
    let document = check.run().await.ok().json();
    let checks = document["checks"].as_array().expect("a list");
    let outcomes: Vec<_> = checks.iter().map(|check| &check["outcome"]).collect();
    // The build of the tests embeds no manifest.
    assert_eq!(outcomes, ["pass", "warn", "pass", "pass"], "{document:#}");
    let check = Airlock::new().arg("plugin").arg("check").arg(guests::TEXT).arg("--json");
    let document = check.run().await.json().to_string();
    assert!(!document.contains("it is a guard"), "{document}");
}
