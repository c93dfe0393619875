//! The guard with rules in CEL: they decide about real calls, and a wrong one is an error of the configuration.

use airlock_tests::{Setup, guests, mcp::Endpoint};
use serde_json::{Value, json};

use super::{Guarded, guarded, limits};

/// Returns the guard with these rules.
fn policy(rules: &Value) -> Value {
    json!({
        "name": "policy", "component": guests::POLICY, "settings": {"rules": rules}, "limits": limits(),
    })
}

#[tokio::test]
async fn rules_deny_calls_and_withhold_outcomes() {
    let rules = json!([
        {"name": "no-rm", "tools": ["*-note"], "if": "arguments.text.startsWith('rm ')", "then": "deny", "reason": "nothing is removed"},
        {"name": "quiet", "when": "after", "if": "error == null && result.content.exists(part, part.text.contains('secret'))", "then": "deny"},
        {"name": "fails", "tools": ["*-note"], "if": "arguments.absent == 1", "then": "deny"},
    ]);
    let guarded = Guarded::start(|setup| setup.set("/guards", json!([policy(&rules)]))).await;
    let denied = guarded.call("server-note", "rm -r").await;
    let message = r#"the call of tool 'server-note' is denied by the guard "policy": nothing is removed (no-rm)"#;
    assert_eq!((denied.refusal(), denied.code()), ((403, message), "guard_denied"));
    let failed = guarded.call("server-note", "plain").await;
    let message =
        r#"the rule "fails" cannot be evaluated: there is no member "absent" (rule_failed)"#;
    assert!(failed.refusal().1.ends_with(message), "{}", failed.text);
    assert_eq!(guarded.noted(), "");
    let withheld = guarded.call("server-echo", "a secret").await;
    assert_eq!(withheld.code(), "guard_denied");
    assert_eq!(guarded.call("server-echo", "rm plain").await.content(), "rm plain");
    assert_eq!(guarded.call("server-fail", "x").await.content(), "it did not work");
}

#[tokio::test]
async fn a_rule_asks_for_an_approval() {
    let rules = json!([
        {"name": "long", "if": "size(arguments.text) > 5", "then": "ask", "reason": "it is long"},
    ]);
    let guarded = Guarded::start(|setup| setup.set("/guards", json!([policy(&rules)]))).await;
    let endpoint = Endpoint::new(&guarded.gateway).with_elicitation();
    for (text, expected) in [("short", "complete"), ("longer", "input_required")] {
        let call = json!({"name": "server-echo", "arguments": {"text": text}});
        let result = endpoint.modern("tools/call", call).result().await;
        assert_eq!(result["resultType"], expected, "{result}");
    }
}

#[tokio::test]
async fn a_wrong_rule_is_an_error_of_the_configuration() {
    let rules = json!([{"name": "r", "if": "argument.text == ''", "then": "deny"}]);
    let setup = guarded(Setup::new()).set("/guards", json!([policy(&rules)]));
    let checked = setup.airlock("check").arg("--json").run().await.failed().json();
    let error = &checked["errors"][0];
    assert_eq!(error["key"], "guards[0].settings", "{checked:#}");
    let message = "the guard refuses them: rules[0].if: there is no value `argument`";
    assert_eq!(error["message"], message, "{checked:#}");
}
